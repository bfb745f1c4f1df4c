"""Time whole decode steps of Qwen3-TTS at its true size with RANDOM WEIGHTS on a CUDA device.

    python tests/gpu/bench_qwen.py CONFIG_JSON bf16,fp8 1 8 32 64
    python tests/gpu/bench_qwen.py CONFIG_JSON bf16 clone

Not a test. CONFIG_JSON is a checkpoint's root `config.json`; the speech tokenizer is the one beside
it, or of the released size. Each precision and number of streams runs whole requests (100
positions, 125 frames, sampled with the official settings) through `EngineCore`, samples on the
host; then each part of the step as a graph alone. `clone` is the way from a recording that was
never heard to the first samples, by the voice alone and by continuing it, with a model of the
"Base" kind. Without a card it runs eagerly, and its numbers say nothing.
"""

from __future__ import annotations

import gc
import json
import logging
import statistics
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import torch

from voxcli.config import EngineConfig
from voxcli.engine.native.core import EngineCore
from voxcli.engine.native.device import resolve_dtype
from voxcli.engine.native.request import Request
from voxcli.models.data import PromptParts, Rows
from voxcli.models.qwen3_tts.config import Qwen3TTSConfig
from voxcli.models.qwen3_tts.family import Parameters
from voxcli.models.qwen3_tts.loading import random_model
from voxcli.models.qwen3_tts.model import Qwen3TTS
from voxcli.models.qwen3_tts.names import BASE
from voxcli.models.qwen3_tts.prompt import NOTHING, Prompt
from voxcli.models.qwen3_tts.tokenize import tokenizer_for_random
from voxcli.utterance import Use

LENGTH, FRAMES, WARM = 100, 125, 10
POSITIONS = 1024
SETTINGS = Parameters()
TEXT = "The last ferry of the evening leaves the island a little after nine."


def prompt(config: Qwen3TTSConfig) -> Prompt:
    """As long as a preset voice's with a sentence or two, whole before the speech."""
    most = min(config.im_start_token_id, config.talker.text_vocab_size)
    ids = np.random.default_rng(0).integers(0, most, LENGTH)
    return Prompt(
        text_ids=ids,
        codec_ids=np.full(LENGTH, config.talker.codec_pad_id),
        pad_id=config.tts_pad_token_id,
        trailing=np.zeros(0, np.int64),
        speaker_at=NOTHING,
        speaker=None,
        ref_at=NOTHING,
        ref_codes=np.zeros((0, config.talker.num_code_groups), np.int64),
        max_frames_hint=FRAMES,
    )


def synchronize(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.synchronize()


def part_ms(function: Callable[[], object], device: torch.device) -> float:
    """A function alone: as a graph on a card."""
    for _ in range(2):
        function()
    synchronize(device)
    if device.type != "cuda":
        started = time.perf_counter()
        function()
        return 1e3 * (time.perf_counter() - started)
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


def parts(engine: EngineCore, num_rows: int, device: torch.device) -> str:
    """Milliseconds of each part of a step in its middle."""
    model, runner = engine.model, engine.runner
    assert isinstance(model, Qwen3TTS)
    state = runner.program.state if hasattr(runner, "program") else runner.state  # type: ignore[attr-defined]
    slots = torch.arange(num_rows, device=device)
    values = model.row_values(prompt(model.config), SETTINGS, 0)
    inputs = {
        each.name: torch.full((num_rows,), value, dtype=getattr(torch, each.dtype), device=device)
        for each, value in zip(model.row_inputs, values, strict=True)
    }
    key = model.family.graph_key(SETTINGS)
    middle = torch.full_like(slots, LENGTH + FRAMES // 2)
    rows = Rows(slots, middle, slots, slots, inputs, key)
    shape = (num_rows, model.num_books)
    frames = torch.randint(0, model.num_codes, shape, device=device)
    predictor = part_ms(lambda: model.generate(state, rows), device)
    talker = part_ms(lambda: model.advance(state, rows, frames), device)
    code2wav = part_ms(lambda: model.vocode(state, slots, frames.unsqueeze(1)), device)
    return (
        f"talker {talker:.3f} predictor {predictor:.3f} code2wav {code2wav:.3f}"
        f" sum {talker + predictor + code2wav:.3f}"
    )


def run(engine: EngineCore, config: Qwen3TTSConfig, num_streams: int) -> tuple[float, ...]:
    """Milliseconds of a step, seconds of all, of audio and to the first samples."""
    key = engine.model.family.graph_key(SETTINGS)
    started = time.perf_counter()
    for seed in range(num_streams):
        engine.add_request(Request(prompt(config), seed, SETTINGS, key, FRAMES, FRAMES, chunk=1))
    ttfa, times, audio = 0.0, [], 0
    while engine.has_work:
        before = time.perf_counter()
        outputs = engine.step()
        audio += sum(len(output.samples) for output in outputs)
        times.append(time.perf_counter() - before)
        ttfa = ttfa or (time.perf_counter() - started if outputs else 0.0)
    wall = time.perf_counter() - started
    step_ms = 1e3 * statistics.median(times[WARM:-WARM] or times)
    return step_ms, wall, audio / engine.model.info.sample_rate, ttfa


@torch.inference_mode()
def measure(
    config: Qwen3TTSConfig, precision: str, numbers: Sequence[int], device: torch.device
) -> None:
    gc.collect()
    started = time.perf_counter()
    model = random_model(config, device, resolve_dtype(precision, device, 0))
    synchronize(device)
    is_card = device.type == "cuda"
    weights = torch.cuda.memory_allocated() / 2**30 if is_card else 0.0
    print(f"{precision}: model {time.perf_counter() - started:.1f} s, {weights:.2f} GiB")
    for num_streams in numbers:
        gc.collect()  # what ran before is no part of this peak
        if is_card:
            torch.cuda.reset_peak_memory_stats()
        engine = EngineCore(
            model, device, EngineConfig(max_slots=num_streams, max_positions=POSITIONS)
        )
        for _ in range(2):
            step_ms, wall, seconds, ttfa = run(engine, config, num_streams)
        peak = torch.cuda.max_memory_allocated() / 2**30 if is_card else 0.0
        runner = engine.runner
        print(
            f"BENCH {precision} streams {num_streams}: {step_ms:.3f} ms/step, "
            f"RTF/stream {step_ms / (1e3 * model.info.frame_s):.4f}, "
            f"whole run {seconds:.0f} s audio in {wall:.2f} s = {seconds / wall:.1f} audio-s/s, "
            f"TTFA {1e3 * ttfa:.1f} ms, captures {runner.graph_captures} in "
            f"{runner.capture_s:.1f} s ({getattr(runner, 'compile_s', 0.0):.1f} s compiling), "
            f"peak {peak:.2f} GiB",
            flush=True,
        )
        print(f"PARTS {precision} {num_streams}: {parts(engine, num_streams, device)}", flush=True)
        del engine, runner


@torch.inference_mode()
def measure_clones(
    config: Qwen3TTSConfig, precision: str, folder: Path, device: torch.device
) -> None:
    """Milliseconds from a recording of 5 s to the first samples."""
    tokenizer = tokenizer_for_random(folder, config)
    model = random_model(config, device, resolve_dtype(precision, device, 0), tokenizer=tokenizer)
    engine = EngineCore(model, device, EngineConfig(max_slots=1, max_positions=POSITIONS))
    key = model.family.graph_key(SETTINGS)
    generator = np.random.default_rng(0)
    for use in (Use.REFERENCE, Use.PROMPT):
        heard_ms, first_ms = [], []
        for seed in range(33):
            samples = 0.1 * generator.standard_normal(5 * config.sample_rate, np.float32)
            started = time.perf_counter()
            arrays = model.encode_recording(samples, use)
            heard_ms.append(1e3 * (time.perf_counter() - started))
            if use is Use.PROMPT:
                parts = PromptParts(TEXT, "en", prompt=arrays, prompt_text=TEXT)
            else:
                parts = PromptParts(TEXT, "en", reference=arrays)
            engine.add_request(
                Request(model.make_prompt(parts), seed, SETTINGS, key, 4, 4, chunk=1)
            )
            while not engine.step():
                pass
            first_ms.append(1e3 * (time.perf_counter() - started))
            while engine.has_work:
                engine.step()
        print(
            f"CLONE {precision} {use.value}: to the first samples median "
            f"{statistics.median(first_ms[3:]):.1f} ms, p95 {np.percentile(first_ms[3:], 95):.1f}; "
            f"hearing the recording {statistics.median(heard_ms[3:]):.1f} ms of it",
            flush=True,
        )


def main(arguments: Sequence[str]) -> None:
    logging.basicConfig(format="%(message)s")
    logging.getLogger("voxcli.kernels.launch").setLevel("DEBUG")
    path = Path(arguments[0])
    values = json.loads(path.read_text("utf-8"))
    is_clone = arguments[2] == "clone"
    if is_clone:
        values |= {"tts_model_type": BASE}
        values["speaker_encoder_config"] = {"enc_dim": values["talker_config"]["hidden_size"]}
    config = Qwen3TTSConfig.beside(path.parent, values)
    device = torch.device("cuda:0" if torch.cuda.is_available() else "cpu")
    name = torch.cuda.get_device_name() if device.type == "cuda" else "CPU"
    print(name, f"torch {torch.__version__}, RANDOM WEIGHTS")
    for precision in arguments[1].split(","):
        if is_clone:
            measure_clones(config, precision, path.parent, device)
        else:
            measure(config, precision, [int(number) for number in arguments[2:]], device)


if __name__ == "__main__":
    main(sys.argv[1:])
