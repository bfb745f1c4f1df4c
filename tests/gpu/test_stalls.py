"""A long newcomer lengthens no step of running streams by more than a step's time, at true size.

A step is that of the streams and the newcomer: one stream alone has a kernel of its own, which is
faster than two rows by more than the newcomer's share.

pytest tests/gpu/test_stalls.py -s      also prints the times
"""

from __future__ import annotations

import json
import statistics
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import torch
from asking import new_request

from voxcli.config import EngineConfig
from voxcli.engine.native.core import EngineCore
from voxcli.engine.native.request import Request
from voxcli.models.voxcpm2.config import VoxCPM2Config
from voxcli.models.voxcpm2.loading import random_model
from voxcli.models.voxcpm2.prompt import Prompt

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device"),
]
CONFIG = Path(__file__).parents[1] / "parity" / "voxcpm2_config.json"
SHORT, LONG = 100, 1800  # positions of a prompt
SLACK = 1.2
NUM_TRIES = 3  # of which the middle one counts: the host has hiccups of its own


@pytest.fixture(scope="module")
def engine() -> Iterator[EngineCore]:
    device = torch.device("cuda:0")
    config = VoxCPM2Config.from_dict(json.loads(CONFIG.read_text("utf-8")))
    with torch.inference_mode():
        model = random_model(config, device, torch.bfloat16)
        yield EngineCore(model, device, EngineConfig(max_slots=33, max_positions=2048))


def request(num_positions: int, num_patches: int, seed: int) -> Request:
    ids = np.random.default_rng(seed).integers(300, 70000, num_positions)
    prompt = Prompt(ids, np.zeros(num_positions, bool), np.zeros((0, 4, 64), np.float32))
    return new_request(
        prompt, seed, 10, 2.0, max_frames=num_patches, min_frames=num_patches, chunk=1
    )


def step_ms(engine: EngineCore) -> float:
    started = time.perf_counter()
    engine.step()
    return 1e3 * (time.perf_counter() - started)


@pytest.mark.parametrize("num_streams", [1, 8, 32])
def test_a_newcomer_lengthens_a_step_by_a_step_at_most(
    engine: EngineCore, num_streams: int
) -> None:
    for seed in range(num_streams):
        engine.add_request(request(SHORT, 400, seed))
    for _ in range(20):
        step_ms(engine)
    alone = statistics.median(step_ms(engine) for _ in range(60))
    companion = request(SHORT, 400, num_streams)
    engine.add_request(companion)
    for _ in range(20):
        step_ms(engine)
    median = statistics.median(step_ms(engine) for _ in range(60))
    engine.abort([companion])
    joins: list[list[float]] = []
    for seed in range(NUM_TRIES):
        newcomer = request(LONG, 5, 1000 + seed)
        engine.add_request(newcomer)
        joins.append([])
        while newcomer.finish_reason is None:
            joins[-1].append(step_ms(engine))
        for _ in range(5):
            step_ms(engine)
    engine.abort([*engine.scheduler.running])
    while engine.has_work:
        engine.step()
    longest = statistics.median(max(times) for times in joins)
    print(
        f"\n{torch.cuda.get_device_name()}, {num_streams} streams: {alone:.2f} ms a step, "
        f"{median:.2f} with one more; with a "
        f"newcomer of {LONG} positions at most {longest:.2f} ms: "
        + " ".join(f"{each:.1f}" for each in joins[0])
    )
    assert longest - median <= SLACK * median
