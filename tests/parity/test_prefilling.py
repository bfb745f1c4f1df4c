"""Prompts in spans over static buffers, run without graphs on the CPU, equal prompts run whole."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from weakref import ref

import numpy as np
import pytest
import torch
from asking import new_request
from cases import MINI

from voxcli.engine.native.prefilling import Prefilling
from voxcli.engine.native.program import Program
from voxcli.engine.native.request import Request
from voxcli.engine.native.runner import ModelRunner
from voxcli.layers.noise import normal
from voxcli.models.data import PromptShape
from voxcli.models.voxcpm2.loading import load
from voxcli.models.voxcpm2.model import SlotState, VoxCPM2
from voxcli.models.voxcpm2.prompt import AUDIO, Prompt
from voxcli.models.voxcpm2.prompt import TEXT as WORDS

NUM_POSITIONS = 640
TEXT = "The birch canoe slid on the smooth planks. "


@pytest.fixture(scope="module")
def model() -> VoxCPM2:
    return load(MINI, torch.device("cpu"), torch.float32)


@pytest.fixture(scope="module")
def program(model: VoxCPM2) -> Program:
    with torch.inference_mode():
        return Program(model, model.device, 3, NUM_POSITIONS)


@pytest.fixture
def replayed(program: Program) -> list[PromptShape]:
    return []


@pytest.fixture
def prefilling(program: Program, replayed: list[PromptShape]) -> Prefilling:
    def replay(shape: PromptShape) -> None:
        replayed.append(shape)
        program.prefill(shape)

    return Prefilling(program, replay)


@pytest.fixture(autouse=True)
def _inference_mode() -> Iterator[None]:
    with torch.inference_mode():
        yield


def audio(model: VoxCPM2, num_patches: int, seed: int = 5) -> np.ndarray:
    P, D = model.patch_shape
    size = num_patches * P * D
    noise = normal(torch.tensor([seed]), torch.tensor([0]), size)
    return noise.view(num_patches, P, D).numpy()


def request(prompt: Prompt, slot: int) -> Request:
    return new_request(prompt, slot=slot)


def assert_equals_whole(model: VoxCPM2, state: SlotState, prompt: Prompt, slot: int) -> None:
    whole = model.new_state(1, NUM_POSITIONS)
    model.prefill(whole, prompt, 0)
    used = slice(len(prompt))
    keys, values = state.base_cache.keys, state.residual_cache.values
    for found, expected in (
        (state.hidden[slot], whole.hidden[0]),
        (state.cond[slot], whole.cond[0]),
        (keys[:, slot, :, used], whole.base_cache.keys[:, 0, :, used]),
        (values[:, slot, :, used], whole.residual_cache.values[:, 0, :, used]),
        *((own[slot], one[0]) for own, one in zip(
            state.vocoder.contexts, whole.vocoder.contexts, strict=True
        )),
    ):  # fmt: skip
        torch.testing.assert_close(found, expected, atol=2e-4, rtol=1e-3)


def test_long_prompts_of_all_kinds_equal_prompts_run_whole(
    model: VoxCPM2, program: Program, prefilling: Prefilling
) -> None:
    for cache in (program.state.base_cache, program.state.residual_cache):
        cache.keys.fill_(torch.nan)  # what a former request left there must not matter
        cache.values.fill_(torch.nan)
    prompts = [
        model.encode_prompt(TEXT * 12),
        model.encode_prompt(TEXT * 6, reference=audio(model, 300)),
        model.encode_prompt(TEXT, prompt_text=TEXT, prompt_audio=audio(model, 280)),
    ]
    assert min(map(len, prompts)) > 300
    requests = [request(prompt, slot) for slot, prompt in enumerate(prompts)]
    prefilling.run(requests, 10_000)
    for slot, each in enumerate(requests):
        assert each.is_prefilled
        assert_equals_whole(model, program.state, each.prompt, slot)


def test_a_prompt_goes_on_where_it_stopped_and_others_wait_for_it(
    model: VoxCPM2, program: Program, prefilling: Prefilling, replayed: list[PromptShape]
) -> None:
    long = request(model.encode_prompt(TEXT * 12), 0)
    short = request(model.encode_prompt("No."), 1)
    counts = []
    while not short.is_prefilled:
        before = len(replayed)
        prefilling.run([each for each in (long, short) if not each.is_prefilled], 100)
        counts.append(len(replayed) - before)
        assert len(counts) < 10
    assert counts == [1] * len(counts), "one span a call, because no two fit the limit"
    assert_equals_whole(model, program.state, long.prompt, 0)
    assert_equals_whole(model, program.state, short.prompt, 1)


def test_prompts_of_one_call_fit_the_limit_as_they_are_padded(
    model: VoxCPM2, prefilling: Prefilling, replayed: list[PromptShape]
) -> None:
    voice = model.encode_prompt("No.", reference=audio(model, 200, seed=8))
    prompts = [model.encode_prompt(TEXT * 2), model.encode_prompt("No."), voice]
    requests = [request(prompt, slot) for slot, prompt in enumerate(prompts)]
    prefilling.run(requests, 256)  # 128 and 64: there is no room for the 202 of the voice
    assert [each.num_prefilled > 0 for each in requests] == [True, True, False]
    prefilling.run(requests[2:], 256)
    assert requests[2].num_prefilled == voice.prefix_len, "its text is for the next call"
    same_voice = request(model.encode_prompt(TEXT, reference=audio(model, 200, seed=8)), 0)
    replayed.clear()
    prefilling.run([same_voice], 256)  # the voice is kept and costs nothing
    assert same_voice.is_prefilled
    assert len(replayed) == 1


def test_the_state_is_free_as_soon_as_its_owner_is(model: VoxCPM2) -> None:
    program = Program(model, model.device, 1, 128)
    owners = [Prefilling(program, program.prefill), ModelRunner(model, model.device, 1, 128)]
    kept = [ref(program.state.hidden), ref(owners[1].state.hidden)]
    gc.disable()
    try:
        del program, owners
        assert [state() for state in kept] == [None, None]
    finally:
        gc.enable()


def test_texts_go_together_and_a_voice_is_run_once(
    model: VoxCPM2, program: Program, prefilling: Prefilling, replayed: list[PromptShape]
) -> None:
    voice = audio(model, 20)
    requests = [
        request(model.encode_prompt(text, reference=voice), slot)
        for slot, text in enumerate(("Hello there.", "No.", TEXT))
    ]
    prefilling.run(requests, 10_000)
    assert [(shape.kind, shape.num_positions) for shape in replayed] == [(AUDIO, 128), (WORDS, 64)]
    assert (prefilling.prefixes.num_run, prefilling.prefixes.num_shared) == (1, 2)
    for slot, each in enumerate(requests):
        assert_equals_whole(model, program.state, each.prompt, slot)
