"""The captured step on a card: equal to eager and to the CPU, whoever shares the batch.

Requests run a fixed number of patches of the bundled voice. In fp32 results differ between batch
sizes and devices by the rounding of the products only (`FP32`, on samples in [-1, 1], after feeding
back through the language models); the same batch gives the same bits. bf16 rounds differently in
each bucket, so there only what is exact is tested, and that the first patch is near the CPU's.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest
import torch
from asking import new_request

from voxcli.config import EngineConfig
from voxcli.engine.native.core import EngineCore
from voxcli.engine.native.graph import GraphRunner
from voxcli.engine.native.request import Request
from voxcli.engine.native.running import NUM_PREFIXES
from voxcli.engine.native.scheduler import PrefillLimits
from voxcli.errors import AdmissionError, UsageError
from voxcli.models.voxcpm2.loading import load
from voxcli.models.voxcpm2.model import VoxCPM2

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device"),
]
MINI = Path(__file__).parents[2] / "voxcli" / "assets" / "mini"
STEPS = 6
FP32 = 1e-3
DTYPES = {"fp32": torch.float32, "bf16": torch.bfloat16}
TEXTS = ["Hello there.", "One two three four.", "Why not?", "The birch canoe slid.", "No."]


@pytest.fixture(scope="module")
def cpu_engine() -> EngineCore:
    return make_engine(load(MINI, torch.device("cpu"), torch.float32), eager=True)


@pytest.fixture(scope="module", params=DTYPES)
def dtype(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(scope="module")
def models() -> dict[str, VoxCPM2]:
    return {name: load(MINI, torch.device("cuda:0"), dtype) for name, dtype in DTYPES.items()}


@pytest.fixture(scope="module")
def engines(models: dict[str, VoxCPM2]) -> dict[str, EngineCore]:
    return {name: make_engine(model) for name, model in models.items()}


@pytest.fixture(autouse=True)
def _no_tf32() -> None:
    assert not torch.backends.cuda.matmul.allow_tf32


def make_engine(model: VoxCPM2, *, eager: bool = False) -> EngineCore:
    graphs = tuple({"steps": STEPS, "guidance_scale": scale} for scale in (1.0, 2.0))
    config = EngineConfig(max_slots=5, max_positions=400, eager=eager, graphs=graphs)
    return EngineCore(model, model.device, config)


def make_request(
    engine: EngineCore,
    text: str,
    seed: int,
    *,
    patches: int = 8,
    cfg: float = 1.0,
    steps: int = STEPS,
) -> Request:
    prompt = engine.model.encode_prompt(text)
    return new_request(prompt, seed, steps, cfg, max_frames=patches, min_frames=patches)


def run(
    engine: EngineCore, requests: Sequence[Request], joins: Sequence[int] = ()
) -> list[np.ndarray]:
    """Samples of each request; `joins[i]` is the step at which request i is added."""
    return run_on(engine, requests, joins or [0] * len(requests))


def run_on(
    engine: EngineCore, requests: Sequence[Request], joins: Sequence[int] = ()
) -> list[np.ndarray]:
    """`run` for requests that may have been added before."""
    pieces: dict[int, list[np.ndarray]] = {id(request): [] for request in requests}
    starts = list(joins) or [-1] * len(requests)
    step = 0
    while engine.has_work or any(start >= step for start in starts):
        for request, start in zip(requests, starts, strict=True):
            if start == step:
                engine.add_request(request)
        for output in engine.step():
            pieces[id(output.request)].append(output.samples)
        step += 1
    return [np.concatenate(pieces[id(request)]) for request in requests]


def close(left: np.ndarray, right: np.ndarray, tolerance: float = FP32) -> None:
    assert left.shape == right.shape
    assert np.isfinite(left).all()
    assert np.abs(right).max() > 0.01, "silence proves nothing"
    assert np.abs(left - right).max() < tolerance


@pytest.mark.parametrize("cfg", [1.0, 2.0])
def test_fp32_equals_the_cpu(
    models: dict[str, VoxCPM2], engines: dict[str, EngineCore], cpu_engine: EngineCore, cfg: float
) -> None:
    [expected] = run(cpu_engine, [make_request(cpu_engine, TEXTS[1], 7, cfg=cfg)])
    for engine in (make_engine(models["fp32"], eager=True), engines["fp32"]):
        close(run(engine, [make_request(engine, TEXTS[1], 7, cfg=cfg)])[0], expected)


def test_the_first_bf16_patch_is_near_the_cpus(
    engines: dict[str, EngineCore], cpu_engine: EngineCore
) -> None:
    [expected] = run(cpu_engine, [make_request(cpu_engine, TEXTS[3], 3, patches=4, cfg=2.0)])
    [found] = run(engines["bf16"], [make_request(engines["bf16"], TEXTS[3], 3, patches=4, cfg=2.0)])
    hop = engines["bf16"].model.info.hop_length
    difference = np.linalg.norm(found[:hop] - expected[:hop]) / np.linalg.norm(expected[:hop])
    assert difference < 0.2, difference


@pytest.mark.parametrize("cfg", [1.0, 2.0])
def test_alone_equals_with_neighbours_joining_and_leaving(
    engines: dict[str, EngineCore], cfg: float
) -> None:
    engine = engines["fp32"]

    def requests() -> list[Request]:
        return [
            make_request(engine, text, 10 + index, patches=5 + 3 * index, cfg=cfg + 0.3 * index)
            if cfg != 1.0
            else make_request(engine, text, 10 + index, patches=5 + 3 * index)
            for index, text in enumerate(TEXTS)
        ]

    alone = [run(engine, [request])[0] for request in requests()]
    together = run(engine, requests(), joins=[0, 1, 1, 4, 6])
    for left, right in zip(together, alone, strict=True):
        close(left, right)


def test_guided_and_unguided_neighbours_do_not_mix(engines: dict[str, EngineCore]) -> None:
    engine = engines["fp32"]

    def requests() -> list[Request]:
        return [make_request(engine, TEXTS[i], i, cfg=[1.0, 2.0, 1.5][i]) for i in range(3)]

    alone = [run(engine, [request])[0] for request in requests()]
    for left, right in zip(run(engine, requests()), alone, strict=True):
        close(left, right)


def test_job_a_then_b_then_a_gives_a_twice(engines: dict[str, EngineCore], dtype: str) -> None:
    engine = engines[dtype]
    for cfg in (1.0, 2.0):
        [first] = run(engine, [make_request(engine, TEXTS[0], 5, cfg=cfg)])
        run(engine, [make_request(engine, TEXTS[3] * 6, 6, patches=60, cfg=cfg)])
        [again] = run(engine, [make_request(engine, TEXTS[0], 5, cfg=cfg)])
        assert np.array_equal(first, again)


def test_nothing_is_captured_or_allocated_under_load(
    engines: dict[str, EngineCore], dtype: str
) -> None:
    engine = engines[dtype]
    runner = engine.runner
    assert isinstance(runner, GraphRunner)
    captures = runner.graph_captures
    program = runner.program
    assert captures == 2 * len(program.buckets) + len(program.prompt_shapes)
    used = []
    for job in range(12):
        jobs = [
            make_request(engine, TEXTS[(job + i) % 5], i, patches=3 + job % 4, cfg=1.0 + i % 2)
            for i in range(1 + job % 5)
        ]
        run(engine, jobs)
        used.append(torch.cuda.memory_allocated())
    assert len(set(used[4:])) == 1, used
    assert runner.graph_captures == captures


def test_many_mixed_jobs_capture_nothing_and_take_no_more_memory(
    engines: dict[str, EngineCore], dtype: str
) -> None:
    """200 jobs of mixed lengths and settings that come and go at mixed times."""
    engine = engines[dtype]
    runner = engine.runner
    assert isinstance(runner, GraphRunner)
    captures = runner.graph_captures
    jobs = [
        make_request(
            engine, TEXTS[job % 5] * (1 + job % 9), job, patches=2 + job * 7 % 23,
            cfg=1.0 + job % 3 / 2,
        )
        for job in range(200)
    ]  # fmt: skip
    left, used, num_done = list(jobs), [], 0
    while left or engine.has_work:
        for _ in range(min(len(left), 1 + len(left) % 3)):
            engine.add_request(left.pop())
        num_done += sum(output.finish_reason is not None for output in engine.step())
        if num_done > 20:
            used.append((torch.cuda.memory_allocated(), torch.cuda.memory_reserved()))
    assert num_done == 200
    assert len(set(used)) == 1, set(used)
    assert runner.graph_captures == captures


def test_an_aborted_stream_frees_its_slot_at_once(
    engines: dict[str, EngineCore], dtype: str
) -> None:
    engine = engines[dtype]
    [alone] = run(engine, [make_request(engine, TEXTS[0], 5)])
    streams = [make_request(engine, TEXTS[1], seed, patches=100) for seed in range(5)]
    for request in streams:
        engine.add_request(request)
    for _ in range(4):
        engine.step()
    assert engine.scheduler.num_free_slots == 0
    engine.abort(streams[1:])
    assert engine.scheduler.num_free_slots == 4
    newcomer = make_request(engine, TEXTS[0], 5)
    engine.add_request(newcomer)
    engine.abort(streams[:1])
    [found] = run_on(engine, [newcomer])
    close(found, alone, FP32 if dtype == "fp32" else 0.5)


def test_a_refused_request_harms_no_neighbour(engines: dict[str, EngineCore], dtype: str) -> None:
    engine = engines[dtype]
    [alone] = run(engine, [make_request(engine, TEXTS[3], 9, patches=12)])
    request = make_request(engine, TEXTS[3], 9, patches=12)
    engine.add_request(request)
    pieces = [output.samples for _ in range(4) for output in engine.step()]
    with pytest.raises(AdmissionError, match="a slot has 400"):
        engine.add_request(make_request(engine, TEXTS[0], 1, patches=400))
    pieces += [output.samples for _ in range(12) for output in engine.step()]
    assert np.array_equal(np.concatenate(pieces), alone)


@pytest.mark.parametrize("has_reference", [False, True])
@pytest.mark.parametrize("has_prompt", [False, True])
def test_prompts_with_audio_equal_the_cpus(
    engines: dict[str, EngineCore], cpu_engine: EngineCore, has_reference: bool, has_prompt: bool
) -> None:
    def request(engine: EngineCore) -> Request:
        model = engine.model
        P, D = model.patch_shape
        patches = 0.5 * np.random.default_rng(1).normal(size=(12, P, D)).astype(np.float32)
        prompt = model.encode_prompt(
            TEXTS[0],
            reference=patches[:8] if has_reference else None,
            prompt_text=TEXTS[2] if has_prompt else "",
            prompt_audio=patches[8:] if has_prompt else None,
        )
        return new_request(prompt, 4, STEPS, 1.0, max_frames=6, min_frames=6)

    [expected] = run(cpu_engine, [request(cpu_engine)])
    [found] = run(engines["fp32"], [request(engines["fp32"])])
    close(found, expected)


def voice(engine: EngineCore, num_patches: int, seed: int = 1) -> np.ndarray:
    shape = (num_patches, *engine.model.patch_shape)
    return 0.5 * np.random.default_rng(seed).normal(size=shape).astype(np.float32)


@pytest.mark.parametrize(("num_texts", "num_patches"), [(8, 0), (1, 290), (5, 120)])
def test_prompts_longer_than_any_shape_equal_the_cpus(
    engines: dict[str, EngineCore], cpu_engine: EngineCore, num_texts: int, num_patches: int
) -> None:
    def request(engine: EngineCore) -> Request:
        reference = voice(engine, num_patches) if num_patches else None
        prompt = engine.model.encode_prompt(TEXTS[3] * 2 * num_texts, reference=reference)
        assert 256 < len(prompt) < 390
        return new_request(prompt, 4, STEPS, 1.0, max_frames=6, min_frames=6)

    [expected] = run(cpu_engine, [request(cpu_engine)])
    [found] = run(engines["fp32"], [request(engines["fp32"])])
    close(found, expected)


def test_a_long_newcomer_does_not_stall_a_stream(
    engines: dict[str, EngineCore], dtype: str
) -> None:
    """A step beside it runs at most a limited part of its prompt."""
    engine = engines[dtype]
    runner = engine.runner
    assert isinstance(runner, GraphRunner)
    limits = engine.scheduler.prefill_limits
    engine.scheduler.prefill_limits = PrefillLimits(200, 24, 16384)
    stream = make_request(engine, TEXTS[0], 3, patches=40)
    [alone] = run(engine, [make_request(engine, TEXTS[0], 3, patches=40)])
    newcomer = make_request(engine, TEXTS[3] * 14, 4, patches=4)
    assert len(newcomer.prompt) > 256
    progress = []
    pieces = []
    engine.add_request(stream)
    for step in range(60):
        if step == 5:
            engine.add_request(newcomer)
        pieces += [output.samples for output in engine.step() if output.request is stream]
        progress.append((newcomer.num_prefilled, stream.step))
    engine.scheduler.prefill_limits = limits
    assert [done for done, _ in progress[4:7]] == [0, 256, len(newcomer.prompt)]
    assert [step for _, step in progress[4:8]] == [4, 5, 6, 7], "the stream went on"
    if dtype == "fp32":
        close(np.concatenate(pieces), alone)


def test_a_voice_is_run_once_and_sounds_the_same(
    engines: dict[str, EngineCore], dtype: str
) -> None:
    engine = engines[dtype]
    prefixes = engine.runner.prefixes

    def request(text: str) -> Request:
        prompt = engine.model.encode_prompt(text, reference=voice(engine, 30, seed=7))
        return new_request(prompt, 4, STEPS, 1.0, max_frames=6, min_frames=6)

    before = prefixes.num_run, prefixes.num_shared
    [first] = run(engine, [request(TEXTS[0])])
    run(engine, [request(TEXTS[1])])
    [again] = run(engine, [request(TEXTS[0])])
    assert np.array_equal(first, again)
    assert (prefixes.num_run - before[0], prefixes.num_shared - before[1]) == (1, 2)


@pytest.mark.filterwarnings("ignore:Synchronization debug mode")
def test_a_step_does_not_wait_for_the_device(engines: dict[str, EngineCore], dtype: str) -> None:
    engine = engines[dtype]
    requests = [make_request(engine, text, 1, patches=20, cfg=2.0) for text in TEXTS[:3]]
    for request in requests:
        engine.add_request(request)
    for _ in range(3):
        engine.step()
    torch.cuda.set_sync_debug_mode("error")
    try:
        for _ in range(5):
            engine.step()
    finally:
        torch.cuda.set_sync_debug_mode("default")
    engine.abort(requests)
    assert not engine.has_work


def test_samples_that_leave_before_a_step_ends_are_whole(
    engines: dict[str, EngineCore], dtype: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine = engines[dtype]
    runner = engine.runner
    assert isinstance(runner, GraphRunner)

    def requests() -> list[Request]:
        return [make_request(engine, text, 2, patches=12, cfg=2.0) for text in TEXTS]

    found = run(engine, requests())

    @contextmanager
    def when_all_has_ended() -> Iterator[None]:
        torch.cuda.synchronize()
        yield

    monkeypatch.setattr(runner._branch, "behind", when_all_has_ended)
    for early, late in zip(found, run(engine, requests()), strict=True):
        assert np.array_equal(early, late)


def test_settings_without_a_graph_are_refused_and_harm_nobody(
    engines: dict[str, EngineCore], dtype: str
) -> None:
    engine = engines[dtype]
    [alone] = run(engine, [make_request(engine, TEXTS[3], 9, patches=12)])
    neighbour = make_request(engine, TEXTS[3], 9, patches=12)
    engine.add_request(neighbour)
    with pytest.raises(UsageError, match=r"no graph was captured for \(4, False\)"):
        engine.add_request(make_request(engine, TEXTS[0], 2, steps=4))
    pieces = [output.samples for _ in range(14) for output in engine.step()]
    assert np.array_equal(np.concatenate(pieces), alone)


def test_the_caches_take_the_memory_that_was_computed(
    engines: dict[str, EngineCore], dtype: str
) -> None:
    engine = engines[dtype]
    runner = engine.runner
    assert isinstance(runner, GraphRunner)
    state = runner.program.state
    config = state.base_cache.keys.shape  # [L, slots, G, N, C]
    rows = 5 + 1 + NUM_PREFIXES  # of requests, for unused rows of a batch, and of voices
    assert config[1] == rows
    assert config[3] == engine.num_positions
    layers = config[0] + state.residual_cache.keys.shape[0]
    size = 2 * layers * rows * config[2] * config[3] * config[4] * DTYPES[dtype].itemsize
    caches = (state.base_cache, state.residual_cache)
    held = sum(tensor.nbytes for cache in caches for tensor in (cache.keys, cache.values))
    assert held == size
