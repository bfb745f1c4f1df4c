"""A row's numbers are its own: bit-equal alone and among others, and nobody else's are touched."""

from __future__ import annotations

import resource
from collections.abc import Iterator, Sequence
from dataclasses import fields, is_dataclass
from typing import Any

import pytest
import torch
from cases import MINI
from helpers import Models
from replay import encode, fresh_state, make_rows
from torch import Tensor

from voxcli.layers.memory import zeros
from voxcli.models.voxcpm2.loading import load
from voxcli.models.voxcpm2.model import SlotState, VoxCPM2
from voxcli.models.voxcpm2.prompt import Prompt

NAMES = ["mini", "tiny"]  # packed as fp16 and as fp32, see layers/linear.py
NUM_SLOTS = 9
TEXTS = [
    "Hello.", "The birch canoe slid on the smooth planks.", "One two three.", "Why?",
    "A rather longer sentence that fills more positions than the others do.", "No.",
    "Glue the sheet to the dark blue background.", "These days a chicken leg is a rare dish.",
]  # fmt: skip


@pytest.fixture(autouse=True)
def _inference_mode() -> Iterator[None]:
    with torch.inference_mode():
        yield


def prompts(model: VoxCPM2) -> list[Prompt]:
    """Eight of different lengths, some with a voice, some that continue speech."""
    seconds = 3.5 * model.patch_shape[0] * model.config.vae.encoder_hop
    audio = encode(model, seconds / model.info.reference_sample_rate, 150.0, pad_left=False)
    made = [model.encode_prompt(text) for text in TEXTS]
    made[2] = model.encode_prompt(TEXTS[2], reference=audio)
    made[5] = model.encode_prompt(TEXTS[5], prompt_text="Ah. ", prompt_audio=audio)
    return made


def resident_bytes() -> int:
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * resource.getpagesize()


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_the_cache_is_zero_and_takes_no_memory_before_it_is_written(dtype: torch.dtype) -> None:
    before = resident_bytes()
    cache = zeros((6, 24, 2, 2048, 64), dtype, torch.device("cpu"))
    assert cache.data_ptr() % 64 == 0  # bytes, as torch aligns
    assert resident_bytes() - before < cache.nbytes / 10
    assert not cache[::3, ::7, :, ::511].any()
    cache[:, :, :, 0] = 1  # the first position of every slot, and no other
    assert resident_bytes() - before < cache.nbytes / 10


def tensors(state: Any) -> list[Tensor]:
    """Every tensor of a state, with its slot axis first."""
    if isinstance(state, Tensor):
        return [state.transpose(0, 1) if state.dim() == 5 else state]
    parts = state if isinstance(state, list) else []
    if is_dataclass(state):
        parts = [getattr(state, field.name) for field in fields(state)]
    return [tensor for part in parts for tensor in tensors(part)]


def slot_tensors(state: SlotState, slot: int) -> list[Tensor]:
    return [tensor[slot].clone() for tensor in tensors(state)]


def all_equal(left: Sequence[Tensor], right: Sequence[Tensor]) -> bool:
    return len(left) == len(right) and all(map(torch.equal, left, right))


def run(
    model: VoxCPM2, schedule: Sequence[Sequence[int]], *, slots: Sequence[int], cfg: float
) -> tuple[list[list[Tensor]], list[list[bool]], SlotState]:
    """Step the requests each entry of `schedule` names, in that row order.

    Returns:
        patches and end tokens of each request, and the state they leave.
    """
    state = fresh_state(model, NUM_SLOTS)
    made = prompts(model)
    patches: list[list[Tensor]] = [[] for _ in made]
    ends: list[list[bool]] = [[] for _ in made]
    for requests in schedule:
        for request in requests:
            if not patches[request]:
                model.prefill(state, made[request], slots[request])
        steps = [len(patches[request]) for request in requests]
        rows = make_rows(
            model,
            [slots[request] for request in requests],
            [len(made[request]) + step for request, step in zip(requests, steps, strict=True)],
            [100 + request for request in requests],
            steps,
            cfg=[cfg + 0.25 * request if cfg != 1.0 else 1.0 for request in requests],
        )
        output = model.decode(state, rows)
        for row, request in enumerate(requests):
            patches[request].append(output.frames[row].clone())
            ends[request].append(bool(output.is_end[row]))
    return patches, ends, state


CHANGING = [
    [1], [1, 0], [0, 1, 2], [2, 1, 0, 3], [4, 3, 2, 1, 0, 5], [0, 1, 2, 3, 4, 5, 6, 7],
    [7, 6, 5, 4, 3, 2, 1, 0], [7, 6, 5, 4, 3, 1, 0], [5, 1, 6], [1, 5], [6, 1, 5, 0, 7], [1],
]  # fmt: skip


@pytest.mark.parametrize("cfg", [1.0, 1.5])
@pytest.mark.parametrize("name", NAMES)
def test_a_request_is_bit_equal_alone_and_among_others_that_come_and_go(
    models: Models, name: str, cfg: float
) -> None:
    model = models(name)
    patches, ends, state = run(model, CHANGING, slots=[3, 7, 0, 5, 1, 8, 2, 4], cfg=cfg)
    for request in (1, 2, 5):  # zero-shot, reference, continuation
        count = len(patches[request])
        slots = [0] * 8
        slots[request] = 6
        alone, alone_ends, alone_state = run(model, [[request]] * count, slots=slots, cfg=cfg)
        assert all_equal(patches[request], alone[request]), f"request {request}"
        assert ends[request] == alone_ends[request]
        slot = [3, 7, 0, 5, 1, 8, 2, 4][request]
        assert all_equal(slot_tensors(state, slot), slot_tensors(alone_state, 6))


@pytest.mark.parametrize("num_patches", [1, 2, 3])
@pytest.mark.parametrize("name", NAMES)
def test_samples_are_bit_equal_alone_and_in_a_batch(
    models: Models, name: str, num_patches: int
) -> None:
    model = models(name)
    generator = torch.Generator().manual_seed(0)
    P, D = model.patch_shape
    patches = torch.randn(8, 4, num_patches, P, D, generator=generator)
    alone, together = fresh_state(model, NUM_SLOTS), fresh_state(model, NUM_SLOTS)
    for turn in range(4):
        requests = [[0, 1, 2, 3, 4, 5, 6, 7], [3, 1, 0], [2, 5, 6, 0, 7], [0, 4]][turn]
        samples = model.vocode(together, requests, patches[requests, turn])
        for row, request in enumerate(requests):
            single = model.vocode(alone, [request], patches[request : request + 1, turn])
            assert torch.equal(samples[row], single[0]), (turn, request)
    assert all_equal(tensors(alone), tensors(together))


@pytest.mark.parametrize("name", NAMES)
def test_slots_that_take_no_part_keep_their_bits(models: Models, name: str) -> None:
    model = models(name)
    made = prompts(model)
    state = fresh_state(model, NUM_SLOTS)
    generator = torch.Generator().manual_seed(0)
    for tensor in tensors(state):
        tensor.normal_(generator=generator)
    before = {slot: slot_tensors(state, slot) for slot in range(NUM_SLOTS)}
    model.prefill(state, made[5], 2)
    model.prefill(state, made[0], 6)
    positions = [len(made[0]), len(made[5])]
    output = model.decode(state, make_rows(model, [6, 2], positions, [1, 2], [0, 0]))
    model.vocode(state, [6, 2], output.frames.unsqueeze(1))
    model.vocode(state, [2], output.frames[1:].unsqueeze(1))
    for slot in set(range(NUM_SLOTS)) - {2, 6}:
        assert all_equal(slot_tensors(state, slot), before[slot]), slot


@pytest.mark.parametrize("name", NAMES)
def test_a_used_slot_is_as_good_as_a_fresh_one(models: Models, name: str) -> None:
    model = models(name)
    made = prompts(model)

    def speak(state: SlotState, prompt: Prompt) -> list[Tensor]:
        model.prefill(state, prompt, 1)
        parts = []
        for step in range(4):
            rows = make_rows(model, [1], [len(prompt) + step], [9], [step], cfg=1.5)
            patch = model.decode(state, rows).frames
            parts += [patch, model.vocode(state, [1], patch.unsqueeze(1))]
        return parts

    used, fresh = fresh_state(model, 2), fresh_state(model, 2)
    speak(used, made[5])  # leaves a condition, a warm vocoder and a longer cache behind
    for prompt in (made[0], made[2]):
        assert all_equal(speak(used, prompt), speak(fresh, prompt))


def test_bfloat16_stays_near_float32(models: Models) -> None:
    """Structural: bf16 keeps 8 bits, so one step from the same prompt agrees to a few percent."""
    exact, rounded = models("mini"), load(MINI, torch.device("cpu"), torch.bfloat16)
    prompt = exact.encode_prompt(TEXTS[1])
    patches = []
    for model in (exact, rounded):
        state = fresh_state(model, 1)
        model.prefill(state, prompt, 0)
        output = model.decode(state, make_rows(model, [0], [len(prompt)], [1], [0], cfg=1.5))
        samples = model.vocode(state, [0], output.frames.unsqueeze(1))
        assert samples.dtype == torch.float32
        assert bool(samples.isfinite().all())
        patches.append(output.frames.float())
    error = (patches[0] - patches[1]).norm() / patches[0].norm()
    assert float(error) < 0.1, float(error)
