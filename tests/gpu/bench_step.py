"""Time whole decode steps of VoxCPM2 at its true size with RANDOM WEIGHTS on a CUDA device.

    python tests/gpu/bench_step.py CONFIG_JSON bf16,fp8 1 8 32 64

Not a test. Each precision and number of streams runs whole requests (100 text positions, 125
patches, guidance 2, 10 solver steps) through `EngineCore`, samples on the host; then each part of
the step as a graph alone.
"""

from __future__ import annotations

import gc
import json
import logging
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch

from voxcli.config import EngineConfig
from voxcli.engine.native.core import EngineCore
from voxcli.engine.native.device import resolve_dtype
from voxcli.engine.native.graph import GraphRunner
from voxcli.engine.native.request import Request
from voxcli.models.data import Rows
from voxcli.models.voxcpm2.config import VoxCPM2Config
from voxcli.models.voxcpm2.family import Parameters
from voxcli.models.voxcpm2.loading import random_model
from voxcli.models.voxcpm2.prompt import Prompt

PROMPT, PATCHES, WARM = 100, 125, 10
SETTINGS = Parameters(steps=10, guidance_scale=2.0)


def prompt() -> Prompt:
    ids = np.random.default_rng(0).integers(300, 70000, PROMPT)
    return Prompt(ids, np.zeros(PROMPT, bool), np.zeros((0, 4, 64), np.float32))


def graph_ms(function: Callable[[], object]) -> float:
    for _ in range(2):
        function()
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        function()
    times = []
    for _ in range(12):
        start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        start.record()
        graph.replay()
        end.record()
        end.synchronize()
        times.append(start.elapsed_time(end))
    return statistics.median(times[2:])


def parts(engine: EngineCore, num_rows: int) -> str:
    model, state = engine.model, engine.runner.program.state  # type: ignore[attr-defined]
    slots = torch.arange(num_rows, device="cuda")
    scale = torch.full((num_rows,), 2.0, device="cuda")
    rows = Rows(
        slots, torch.full_like(slots, 160), slots, slots, {"guidance_scale": scale}, (10, True)
    )
    patches = torch.randn(num_rows, 4, 64, device="cuda").bfloat16()
    cfm = graph_ms(lambda: model.generate(state, rows))
    language = graph_ms(lambda: model.advance(state, rows, patches))
    encoder = graph_ms(lambda: model.local_encoder(patches))  # type: ignore[attr-defined]
    vocoder = graph_ms(lambda: model.vocode(state, slots, patches.unsqueeze(1)))
    return (
        f"cfm {cfm:.3f} locenc {encoder:.3f} lms {language - encoder:.3f} vocoder {vocoder:.3f}"
        f" sum {cfm + language + vocoder:.3f}"
    )


@torch.inference_mode()
def main() -> None:
    logging.basicConfig(format="%(message)s")
    logging.getLogger("voxcli.kernels.launch").setLevel("DEBUG")
    config = VoxCPM2Config.from_dict(json.loads(Path(sys.argv[1]).read_text()))
    print(torch.cuda.get_device_name(), f"torch {torch.__version__}, RANDOM WEIGHTS")
    for precision in sys.argv[2].split(","):
        measure(config, precision, [int(number) for number in sys.argv[3:]])


def measure(config: VoxCPM2Config, precision: str, numbers: list[int]) -> None:
    gc.collect()
    device = torch.device("cuda:0")
    started = time.perf_counter()
    model = random_model(config, device, resolve_dtype(precision, device, 0))
    torch.cuda.synchronize()
    weights = torch.cuda.memory_allocated() / 2**30
    print(f"{precision}: model {time.perf_counter() - started:.1f} s, {weights:.2f} GiB")
    for num_streams in numbers:
        gc.collect()  # what ran before is no part of this peak
        torch.cuda.reset_peak_memory_stats()
        engine = EngineCore(model, device, EngineConfig(max_slots=num_streams, max_positions=1024))
        runner = engine.runner
        assert isinstance(runner, GraphRunner)
        for _ in range(2):
            requests = [
                Request(prompt(), seed, SETTINGS, (10, True), PATCHES, PATCHES, chunk=1)
                for seed in range(num_streams)
            ]
            started = time.perf_counter()
            for request in requests:
                engine.add_request(request)
            ttfa, times, audio = None, [], 0
            while engine.has_work:
                before = time.perf_counter()
                outputs = engine.step()
                audio += sum(len(output.samples) for output in outputs)
                times.append(time.perf_counter() - before)
                ttfa = ttfa or (time.perf_counter() - started if outputs else None)
            wall = time.perf_counter() - started
        step_ms = 1e3 * statistics.median(times[WARM:-WARM])
        seconds = audio / model.info.sample_rate
        print(
            f"BENCH {precision} streams {num_streams}: {step_ms:.3f} ms/step, "
            f"RTF/stream {step_ms / 160:.4f}, "
            f"whole run {seconds:.0f} s audio in {wall:.2f} s = {seconds / wall:.1f} audio-s/s, "
            f"TTFA {1e3 * (ttfa or 0):.1f} ms, captures {runner.graph_captures} in "
            f"{runner.capture_s:.1f} s ({runner.compile_s:.1f} s compiling), "
            f"peak {torch.cuda.max_memory_allocated() / 2**30:.2f} GiB",
            flush=True,
        )
        print(f"PARTS {precision} {num_streams}: {parts(engine, num_streams)}", flush=True)
        del engine, runner


main()
