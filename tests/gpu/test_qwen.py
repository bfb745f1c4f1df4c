"""Qwen3-TTS on a card: fused layers against plain ones, captured steps against the CPU's.

Tiny checkpoints of random weights. In fp32 a card runs torch's own operations, and greedy codes are
those of the CPU; in bf16 it runs fused kernels, whose scores are compared by relative norm.
`TRITON_INTERPRET=1 KERNEL_DEVICE=cpu` runs the comparisons of layers without a card, in fp16.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pytest
import torch
from qwen3_tts import tiny
from torch import Tensor

pytest.importorskip("triton")
DEVICE = torch.device(os.environ.get("KERNEL_DEVICE", "cuda"))
if DEVICE.type == "cuda" and not torch.cuda.is_available():
    pytest.skip("no CUDA device", allow_module_level=True)

from voxcli.config import EngineConfig  # noqa: E402
from voxcli.engine.native.core import EngineCore  # noqa: E402
from voxcli.engine.native.request import Request  # noqa: E402
from voxcli.kernels.codes import draw_reference  # noqa: E402
from voxcli.models.data import PackedSpans, PromptParts, Rows  # noqa: E402
from voxcli.models.qwen3_tts.config import Qwen3TTSConfig  # noqa: E402
from voxcli.models.qwen3_tts.family import Parameters  # noqa: E402
from voxcli.models.qwen3_tts.fused import (  # noqa: E402
    FusedFrameStack,
    FusedSlotStack,
    FusedStep,
)
from voxcli.models.qwen3_tts.loading import load, random_model  # noqa: E402
from voxcli.models.qwen3_tts.model import Qwen3TTS  # noqa: E402
from voxcli.models.qwen3_tts.step import SlotState  # noqa: E402
from voxcli.models.qwen3_tts.tokenize import tokenizer_for_random  # noqa: E402

pytestmark = pytest.mark.gpu
needs_card = pytest.mark.skipif(DEVICE.type != "cuda", reason="no CUDA device")
HALF = torch.bfloat16 if DEVICE.type == "cuda" else torch.float16
ERROR = 3e-2  # bf16 rounding, through a few layers
NUM_SLOTS, NUM_POSITIONS = 6, 128
DRAWN, GREEDY = Parameters(), Parameters(is_greedy=True)


@pytest.fixture(autouse=True)
def _inference_mode() -> Iterator[None]:
    with torch.inference_mode():
        yield


def config_of(name: str = "base_1b7") -> Qwen3TTSConfig:
    """As a tiny checkpoint's, but of a size that the fused layers take."""
    root = tiny.config(name)
    talker = root["talker_config"]
    talker.update(hidden_size=96, intermediate_size=160, head_dim=32, text_hidden_size=32)
    talker["code_predictor_config"].update(hidden_size=64, head_dim=64)
    root["speaker_encoder_config"]["enc_dim"] = 96
    return Qwen3TTSConfig.of(root, tiny.speech_tokenizer_config())


def model_of(device: torch.device = DEVICE, dtype: torch.dtype = HALF) -> Qwen3TTS:
    config = config_of()
    tokenizer = tokenizer_for_random(tiny.HERE, config)
    return random_model(config, device, dtype, tokenizer=tokenizer)


@pytest.fixture(scope="module")
def model() -> Qwen3TTS:
    with torch.inference_mode():
        return model_of()


def error(found: Tensor, wanted: Tensor) -> float:
    found, wanted = found.double(), wanted.double()
    return float((found - wanted).norm() / wanted.norm())


def plain_and_fused(model: Qwen3TTS) -> tuple[Any, Any, Any, Any]:
    """Both stacks over the same weights, each plain and fused."""
    from voxcli.models.qwen3_tts.backbone import FrameStack, SlotStack

    talker, predictor = model.talker.stack, model.predictor.stack
    slots = (talker.config, talker.blocks, talker.norm, NUM_POSITIONS)
    frames = (predictor.config, predictor.blocks, predictor.norm, model.num_books)
    return SlotStack(*slots), FusedSlotStack(*slots), FrameStack(*frames), FusedFrameStack(*frames)


def rows_of(model: Qwen3TTS, positions: Sequence[int], parameters: Parameters) -> Rows:
    B = len(positions)
    slots = torch.arange(B, device=DEVICE).flip(0)
    values = [0.9, 50, 1.0, 1.05, 0.9, 50, 1.0, 3]
    inputs = {
        each.name: torch.full((B,), value, dtype=getattr(torch, each.dtype), device=DEVICE)
        for each, value in zip(model.row_inputs, values, strict=True)
    }
    key = model.family.graph_key(parameters)
    places = torch.tensor(positions, device=DEVICE)
    return Rows(slots, places, slots + 5, slots, inputs, key)


@pytest.mark.parametrize("B", [1, 3])
def test_prompts_and_steps_of_the_fused_talker_are_those_of_the_plain_one(
    model: Qwen3TTS, B: int
) -> None:
    plain, fused, *_ = plain_and_fused(model)
    x = torch.randn(20 * B, model.width, device=DEVICE).to(HALF)
    ends = torch.arange(20, 20 * B + 1, 20, device=DEVICE)
    packed = PackedSpans(
        rows=torch.arange(B, device=DEVICE).flip(0).repeat_interleave(20),
        positions=torch.arange(20, device=DEVICE).repeat(B),
        tiles=torch.stack((ends - 20, ends), dim=1),
        ended_rows=torch.arange(B, device=DEVICE).flip(0),
        ends=ends - 1,
    )
    caches = [stack.new_cache(NUM_SLOTS, NUM_POSITIONS) for stack in (plain, fused)]
    found = [
        stack.prefill_packed(x, cache, packed, ends=ends)
        for stack, cache in zip((plain, fused), caches, strict=True)
        for ends in (False, True)
    ]
    assert error(found[2], found[0]) < ERROR
    assert error(found[3], found[1]) < ERROR
    assert error(found[3], found[2][packed.ends]) < ERROR
    for step in range(3):
        rows = rows_of(model, [20 + step] * B, DRAWN)
        heard = torch.randn(B, model.width, device=DEVICE).to(HALF)
        found = [
            stack.decode(heard, cache, rows)
            for stack, cache in zip((plain, fused), caches, strict=True)
        ]
        assert error(found[1], found[0]) < ERROR


@pytest.mark.parametrize("B", [1, 3])
def test_a_frame_of_the_fused_predictor_is_that_of_the_plain_one(model: Qwen3TTS, B: int) -> None:
    *_, plain, fused = plain_and_fused(model)
    D = model.config.predictor.hidden_size
    caches = [stack.new_cache(B) for stack in (plain, fused)]
    head = torch.randn(40, D, device=DEVICE).to(HALF)
    x = torch.randn(B, 2, D, device=DEVICE).to(HALF)
    wanted = plain.first(x, caches[0]) @ head.T
    said = fused.first(x.clone(), caches[1])
    assert error(fused.scores(said, head), wanted) < ERROR
    for position in range(2, model.num_books):
        heard = torch.randn(B, D, device=DEVICE).to(HALF)
        wanted = plain.step(heard, caches[0], position) @ head.T
        said = fused.step(heard.clone(), caches[1], position)
        assert error(fused.scores(said, head), wanted) < ERROR


@pytest.mark.parametrize("parameters", [DRAWN, GREEDY], ids=["drawn", "greedy"])
def test_a_fused_step_draws_what_its_scores_say(
    model: Qwen3TTS, parameters: Parameters, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The kernel's codes are the reference's, of the same scores, all the way through a frame."""
    from voxcli.kernels import codes

    _, fused, _, frame_stack = plain_and_fused(model)
    monkeypatch.setattr(model.predictor, "stack", frame_stack)
    monkeypatch.setattr(model.talker, "stack", fused)
    monkeypatch.setattr(model.talker.text, "_is_projected", False)
    step = FusedStep(model.talker, model.predictor)
    seen: list[tuple[Tensor, Tensor]] = []
    kernel = codes.draw

    def both(*given: Any) -> None:
        frames = given[3].clone()
        heard = None if len(given) < 6 or given[5] is None else given[5].clone()
        history = given[6] if len(given) > 6 else None
        draw_reference(*given[:3], frames, *(given[4:5] or [None]), heard, history)
        wanted = frames[:, given[2]].clone()
        kernel(*given)
        seen.append((given[3][:, given[2]].clone(), wanted))

    monkeypatch.setattr(codes, "draw", both)
    state = model.new_state(NUM_SLOTS, NUM_POSITIONS)
    state = SlotState(
        fused.new_cache(NUM_SLOTS, NUM_POSITIONS), state.hidden, state.seen, state.code2wav
    )
    state.hidden.copy_(torch.randn_like(state.hidden))
    rows = rows_of(model, [4, 9, 70], parameters)
    output = step.generate(state, rows)
    assert len(seen) == model.num_books
    assert all(torch.equal(found, wanted) for found, wanted in seen)
    assert output.frames.tolist() == torch.stack([found for found, _ in seen], 1).tolist()
    assert output.frames.max() < model.num_codes
    assert not output.is_end.any()


# ---------------------------------------------------------------- on a card alone


def requests(model: Qwen3TTS, parameters: Parameters, count: int = 5) -> list[Request]:
    key = model.family.graph_key(parameters)
    made = []
    for number in range(count):
        parts = PromptParts("hello the user of the morning"[: 4 + 5 * number], "en")
        prompt = model.lay_out(parts, is_text_streamed=number % 2 == 0)
        made.append(Request(prompt, 10 + number, parameters, key, 4 + number, 4 + number))
    return made


def run(core: EngineCore, given: Sequence[Request], joins: Sequence[int]) -> list[np.ndarray]:
    pieces: dict[int, list[np.ndarray]] = {id(each): [] for each in given}
    step = 0
    while core.has_work or any(join >= step for join in joins):
        for each, join in zip(given, joins, strict=True):
            if join == step:
                core.add_request(each)
        for output in core.step():
            pieces[id(output.request)].append(output.samples)
        step += 1
    return [np.concatenate(pieces[id(each)]) for each in given]


def core_of(model: Qwen3TTS, *, eager: bool = False) -> EngineCore:
    config = EngineConfig(
        max_slots=4, max_positions=NUM_POSITIONS, eager=eager,
        graphs=({"is_greedy": False}, {"is_greedy": True}),
    )  # fmt: skip
    return EngineCore(model, model.device, config)


@needs_card
def test_greedy_codes_in_fp32_are_those_of_the_cpu(
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    folder = tiny.write(tmp_path_factory.mktemp("qwen"), "base_1b7")
    spoken = []
    for device in (torch.device("cpu"), DEVICE):
        model = load(folder, device, torch.float32)
        core = core_of(model, eager=device.type == "cpu")
        spoken.append(run(core, requests(model, GREEDY), [0, 0, 1, 4, 9]))
    for one, other in zip(*spoken, strict=True):
        assert one.shape == other.shape
        assert np.abs(one - other).max() < 1e-3


@needs_card
@pytest.mark.parametrize("parameters", [DRAWN, GREEDY], ids=["drawn", "greedy"])
def test_captured_steps_in_bf16_repeat(model: Qwen3TTS, parameters: Parameters) -> None:
    assert isinstance(model.step, FusedStep)
    core = core_of(model)
    for number in range(3):
        one, two = (
            run(core, requests(model, parameters)[number : number + 1], [0])[0] for _ in range(2)
        )
        assert np.array_equal(one, two)
        assert len(one) == (4 + number) * model.info.hop_length
        assert np.isfinite(one).all()
    together, again = (run(core, requests(model, parameters), [0, 1, 1, 4, 9]) for _ in range(2))
    assert all(map(np.array_equal, together, again))


@needs_card
@pytest.mark.parametrize("count", [1, 3, 8])
def test_what_runs_beside_each_other_on_a_card_disturbs_nothing(count: int) -> None:
    """At the true widths, where sums of both branches of a step are split over programs."""
    values = json.loads((tiny.HERE / "config_0b6.json").read_text("utf-8"))
    config = Qwen3TTSConfig.beside(tiny.HERE, values).shortened()
    tokenizer = tokenizer_for_random(tiny.HERE, config)
    model = random_model(config, DEVICE, HALF, tokenizer=tokenizer)
    core = EngineCore(model, DEVICE, EngineConfig(max_slots=8, max_positions=NUM_POSITIONS))
    key = model.family.graph_key(DRAWN)
    prompts = [model.make_prompt(PromptParts("hello " * (3 + seed), "en")) for seed in range(count)]
    first = None
    for _ in range(8):
        given = [Request(prompt, seed, DRAWN, key, 40, 40) for seed, prompt in enumerate(prompts)]
        spoken = np.stack(run(core, given, [0] * count))
        assert np.isfinite(spoken).all()
        first = spoken if first is None else first
        assert np.array_equal(spoken, first)


@needs_card
def test_each_stream_counts_for_itself() -> None:
    from voxcli.kernels.launch import counters

    here = counters(DEVICE)
    side = torch.cuda.Stream(DEVICE)
    with torch.cuda.stream(side):
        there = counters(DEVICE)
        assert counters(DEVICE).data_ptr() == there.data_ptr()
    assert counters(DEVICE).data_ptr() == here.data_ptr() != there.data_ptr()
