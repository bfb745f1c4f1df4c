"""Every kernel that a start-up launches is one that was compiled ahead of it."""

from __future__ import annotations

import os
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

START = """
import sys
from pathlib import Path
from voxcli.engine.native import ahead as module
from voxcli.engine.native.ahead import Ahead
from voxcli.config import EngineConfig
from voxcli.models.voxcpm2.family import VoxCPM2Family

module._PROGRAM = sys.argv[3] or module._PROGRAM
folder, family = Path(sys.argv[1]), VoxCPM2Family()
config = EngineConfig(device="cuda", max_slots=3, graphs=({"steps": 6, "guidance_scale": 2.0},))
with Ahead.begin(folder, family, config) as ahead:
    assert "torch" not in sys.modules
    import torch
    from triton import knobs
    from voxcli.engine.native.core import EngineCore

    compiled = []
    def listen(*, src, cache_hit, **_):
        if not cache_hit:
            compiled.append(src.name)
    knobs.compilation.listener = listen
    device = torch.device("cuda:0")
    model = family.load(folder, device, getattr(torch, sys.argv[2]))
    engine = EngineCore(model, device, config, ahead.is_ready)
    print(ahead.is_ready(), engine.runner.compile_s, compiled)
"""


def start(dtype: str, cache: Path, program: str = "") -> str:
    done = subprocess.run(
        [sys.executable, "-c", START, str(MINI), dtype, program],
        env={**os.environ, "TRITON_CACHE_DIR": str(cache)},
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def test_nothing_is_left_to_compile(tmp_path: Path) -> None:
    for _ in range(2):  # an empty cache, then the marked one
        assert start("bfloat16", tmp_path) == "True 0.0 []"
    (mark,) = tmp_path.glob("voxcli-*")
    mark.unlink()
    assert start("bfloat16", tmp_path) == "True 0.0 []"


def test_without_it_kernels_are_compiled_as_they_are_needed(tmp_path: Path) -> None:
    is_ready, compile_s, compiled = start("bfloat16", tmp_path, "1 / 0").split(" ", 2)
    assert is_ready == "False"
    assert float(compile_s) > 0
    assert compiled != "[]"
