"""What graphs capture, run on the CPU: tensors alone give what the host-driven path gives."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
import torch
from asking import new_rows

from voxcli.engine.native.prompts import StaticPrompts
from voxcli.layers.noise import normal
from voxcli.models.data import PromptShape, Span
from voxcli.models.voxcpm2.loading import load
from voxcli.models.voxcpm2.model import SlotState, VoxCPM2
from voxcli.models.voxcpm2.prompt import AUDIO
from voxcli.models.voxcpm2.prompt import TEXT as WORDS

MINI = Path(__file__).parents[2] / "voxcli" / "assets" / "mini"
TEXTS = ["Hello there.", "The birch canoe slid on the smooth planks.", "No."]
SLOTS = [4, 0, 2]


@pytest.fixture(scope="module")
def model() -> VoxCPM2:
    return load(MINI, torch.device("cpu"), torch.float32)


def prefill(model: VoxCPM2, state: SlotState, shape: PromptShape, together: list[Span]) -> None:
    """Spans through static buffers; the state's row 3 is nobody's."""
    buffers = StaticPrompts(model, [shape], torch.device("cpu"))
    buffers.upload(shape, together, dummy_slot=3)
    model.prefill_packed(state, shape, *buffers.read(shape))


@torch.inference_mode()
def test_masked_attention_and_padded_prompts_equal_the_row_loop(model: VoxCPM2) -> None:
    loop, tensors = model.new_state(5, 128), model.new_state(5, 128)
    for cache in (tensors.base_cache, tensors.residual_cache):
        cache.keys.fill_(torch.nan)  # what a former request left there must not matter
        cache.values.fill_(torch.nan)
    prompts = [model.encode_prompt(text) for text in TEXTS]
    together = []
    for slot, prompt in zip(SLOTS, prompts, strict=True):
        model.prefill(loop, prompt, slot)
        together.append(Span(prompt, slot, 0, len(prompt)))
    prefill(model, tensors, PromptShape(256, 4, WORDS), together)
    for step in range(4):
        positions = [len(prompt) + step for prompt in prompts]
        rows = new_rows(
            SLOTS, positions, [1, 2, 3], [step] * 3, num_steps=4, guidance=[1.5, 2.0, 3.0]
        )
        expected = model.decode(loop, rows)
        found = model.decode(tensors, replace(rows, host=None))
        torch.testing.assert_close(found.frames, expected.frames, atol=1e-4, rtol=1e-3)
        samples = model.vocode(tensors, rows.slots, found.frames.unsqueeze(1))
        reference = model.vocode(loop, SLOTS, expected.frames.unsqueeze(1))
        torch.testing.assert_close(samples, reference, atol=1e-4, rtol=1e-3)


@torch.inference_mode()
def test_padded_audio_prompts_equal_the_row_loop(model: VoxCPM2) -> None:
    loop, tensors = model.new_state(4, 160), model.new_state(4, 160)
    P, D = model.patch_shape
    patches = normal(torch.tensor([5]), torch.tensor([0]), 9 * P * D).view(9, P, D).numpy()
    prompt = model.encode_prompt(
        TEXTS[1], reference=patches[:5], prompt_text=TEXTS[0], prompt_audio=patches[5:]
    )
    model.prefill(loop, prompt, 1)
    prefill(model, tensors, PromptShape(128, 2, AUDIO), [Span(prompt, 1, 0, len(prompt))])
    model.resume(tensors, 1, prompt)
    for found, expected in (
        (tensors.hidden[1], loop.hidden[1]),
        (tensors.cond[1], loop.cond[1]),
        *zip(tensors.vocoder.contexts, loop.vocoder.contexts, strict=True),
    ):
        torch.testing.assert_close(found, expected, atol=1e-4, rtol=1e-3)
    for cache, reference in (
        (tensors.base_cache, loop.base_cache),
        (tensors.residual_cache, loop.residual_cache),
    ):
        used = (slice(None), 1, slice(None), slice(len(prompt)))
        torch.testing.assert_close(cache.keys[used], reference.keys[used], atol=1e-4, rtol=1e-3)


def test_the_state_takes_as_many_bytes_as_were_computed(model: VoxCPM2) -> None:
    state = model.new_state(4, 96)
    caches = (state.base_cache, state.residual_cache)
    assert state.noise is not None
    tensors = [state.hidden, state.cond, state.noise, *state.vocoder.contexts]
    tensors += [part for cache in caches for part in (cache.keys, cache.values)]
    assert model.state_bytes(4, 96) == sum(tensor.nbytes for tensor in tensors)
