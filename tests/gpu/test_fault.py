"""A fault of the card, provoked: everything in flight is lost and said so, and nothing is ok after.

In a process of its own, because a fault ends every other use of the card in its process.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
import torch

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device"),
]
MINI = Path(__file__).parents[2] / "voxcli" / "assets" / "mini"

FAULT = """
import json, sys
from pathlib import Path
import torch
from voxcli.config import EngineConfig
from voxcli.engine.native.core import EngineCore
from voxcli.engine.native.request import Request
from voxcli.errors import EngineError
from voxcli.models.voxcpm2.family import Parameters
from voxcli.models.voxcpm2.loading import load

device = torch.device("cuda:0")
model = load(Path(sys.argv[1]), device, torch.bfloat16)
is_eager = sys.argv[2] == "eager"
settings = Parameters(steps=6, guidance_scale=1.0)
config = EngineConfig(max_slots=2, max_positions=200, graphs=(vars(settings),), eager=is_eager)
engine = EngineCore(model, device, config)

def request(seed):
    return Request(model.encode_prompt("Hello there."), seed, settings, (6, False), 50, 50)

requests = [request(seed) for seed in range(3)]  # two run, one waits
for each in requests:
    engine.add_request(each)
for _ in range(4):
    engine.step()
there = torch.zeros(4, device=device)
there[torch.tensor([1 << 20], device=device)]  # what a kernel with a wrong index does
report = {"outputs": 0, "errors": []}
for _ in range(5):
    try:
        report["outputs"] += len(engine.step())
    except EngineError as err:
        report["errors"].append(f"{err.message}; {err.hint}")
try:
    engine.add_request(request(9))
except EngineError as err:
    report["refused"] = err.message
report["reasons"] = [each.finish_reason.name for each in requests]
report["has_work"] = engine.has_work
print(json.dumps(report))
sys.exit(4)
"""


@pytest.mark.parametrize("mode", ["graphs", "eager"])
def test_a_fault_ends_what_is_in_flight_and_all_that_follows(mode: str) -> None:
    done = subprocess.run(
        [sys.executable, "-c", FAULT, str(MINI), mode], capture_output=True, text=True, check=False
    )
    assert done.stdout, done.stderr
    report = json.loads(done.stdout)
    first, *later = report["errors"]
    assert "the engine failed: CUDA error: device-side assert triggered" in first
    assert "all running speech was lost" in first
    assert len(later) >= 3
    assert all("failed before and cannot run" in message for message in later)
    assert "failed before and cannot run" in report["refused"]
    assert report["reasons"] == ["ABORT"] * 3
    assert report["outputs"] <= 2, "at most the step that had finished before the fault"
    assert not report["has_work"]
    assert done.returncode == 4, f"the process ends as it wants to: {done.stderr[-2000:]}"
