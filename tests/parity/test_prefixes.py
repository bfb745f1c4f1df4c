"""A reference voice is run once and copied: the same bits for every prompt in that voice."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import pytest
import torch
from asking import new_request
from helpers import Models
from replay import encode
from test_rows import all_equal, slot_tensors
from torch import Tensor

from voxcli.engine.native.runner import ModelRunner
from voxcli.engine.native.running import NUM_PREFIXES
from voxcli.models.voxcpm2.model import VoxCPM2
from voxcli.models.voxcpm2.prompt import Prompt

NAMES = ["mini", "tiny"]
NUM_SLOTS = 3
TEXTS = ["The birch canoe slid on the smooth planks.", "Why?", "One two three."]


@pytest.fixture(autouse=True)
def _inference_mode() -> Iterator[None]:
    with torch.inference_mode():
        yield


def voice(model: VoxCPM2, pitch: float) -> np.ndarray:
    seconds = 5.5 * model.patch_shape[0] * model.config.vae.encoder_hop
    return encode(model, seconds / model.info.reference_sample_rate, pitch, pad_left=False)


def new_runner(model: VoxCPM2) -> ModelRunner:
    return ModelRunner(model, torch.device("cpu"), NUM_SLOTS, 128)


def run(runner: ModelRunner, prompt: Prompt, slot: int, num_steps: int = 3) -> list[Tensor]:
    """Prefill and decode in a slot; the patches."""
    request = new_request(prompt, 5, 4, 1.5, max_frames=num_steps, slot=slot)
    runner.prefill([request], len(prompt))
    patches = []
    for _ in range(num_steps):
        (result,) = runner.decode([request])
        request.record(result.frame, False)
        patches.append(result.frame.clone())
    return patches


def prompts(model: VoxCPM2, pitch: float) -> Sequence[Prompt]:
    reference = voice(model, pitch)
    plain = [model.encode_prompt(text, reference=reference) for text in TEXTS[:2]]
    continued = model.encode_prompt(
        TEXTS[2], reference=reference, prompt_text="Ah. ", prompt_audio=voice(model, 90.0)
    )
    return [*plain, continued]


@pytest.mark.parametrize("name", NAMES)
def test_speech_is_the_same_whether_its_voice_was_kept_or_had_to_be_run(
    models: Models, name: str
) -> None:
    model = models(name)
    shared = new_runner(model)
    for slot, prompt in enumerate(prompts(model, 150.0)):
        fresh = new_runner(model)
        assert all_equal(run(shared, prompt, slot), run(fresh, prompt, slot))
        assert fresh.prefixes.num_run == 1
    assert (shared.prefixes.num_run, shared.prefixes.num_shared) == (1, 2)
    # in a slot that another voice has used since
    run(shared, prompts(model, 220.0)[0], 0)
    assert all_equal(
        run(shared, prompts(model, 150.0)[1], 0),
        run(new_runner(model), prompts(model, 150.0)[1], 0),
    )


@pytest.mark.parametrize("name", NAMES)
def test_a_prompt_in_two_parts_is_the_prompt_in_one(models: Models, name: str) -> None:
    model = models(name)
    for prompt in prompts(model, 150.0):
        state = model.new_state(2, 128)
        model.prefill(state, prompt, 0)
        model.prefill_prefix(state, prompt, 1)
        model.prefill(state, prompt, 1, prompt.prefix_len)
        for whole, parts in zip(slot_tensors(state, 0), slot_tensors(state, 1), strict=True):
            torch.testing.assert_close(whole, parts, atol=2e-5, rtol=0)


@pytest.mark.parametrize("name", NAMES)
def test_voices_that_are_kept_are_bounded_and_the_latest(models: Models, name: str) -> None:
    model = models(name)
    runner = new_runner(model)
    made = [prompts(model, 100.0 + 10 * index)[0] for index in range(NUM_PREFIXES + 1)]
    for prompt in made:
        run(runner, prompt, 0, 1)
    assert runner.prefixes.num_run == len(made)
    run(runner, made[-1], 1, 1)
    assert runner.prefixes.num_shared == 1
    run(runner, made[0], 1, 1)  # the oldest had to go
    assert runner.prefixes.num_run == len(made) + 1


def test_a_prompt_without_a_voice_has_no_prefix(models: Models) -> None:
    runner = new_runner(models("mini"))
    run(runner, models("mini").encode_prompt(TEXTS[0]), 0, 1)
    assert (runner.prefixes.num_run, runner.prefixes.num_shared) == (0, 0)
