"""Prefill, decode and the streaming vocoder agree with themselves however the work is cut."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import torch
from helpers import Models, random
from replay import fresh_state, make_rows

from voxcli.models.voxcpm2.backbone import CausalStack
from voxcli.models.voxcpm2.model import VoxCPM2

NAMES = ["mini", "tiny", "tiny_mean"]


@pytest.fixture(autouse=True)
def _inference_mode() -> Iterator[None]:
    with torch.inference_mode():
        yield


def stacks(model: VoxCPM2) -> dict[str, CausalStack]:
    return {"base": model.base_lm, "residual": model.residual_lm}


@pytest.mark.parametrize("kind", ["base", "residual"])
@pytest.mark.parametrize("name", NAMES)
def test_prefill_then_decode_equals_prefill_of_everything(
    models: Models, name: str, kind: str
) -> None:
    model = models(name)
    stack = stacks(model)[kind]
    x = random(21, model.config.lm.hidden_size)
    whole = stack.prefill(x, stack.new_cache(1, 21), 0)
    cache = stack.new_cache(3, 30)
    parts = [*stack.prefill(x[:14], cache, 1)]
    for position in range(14, 21):
        rows = make_rows(model, [1], [position], [0], [0])
        parts += [*stack.decode(x[position : position + 1], cache, rows)]
    # fp32 sums of another order through a few layers; outputs are of size 1 to 5
    torch.testing.assert_close(torch.stack(parts), whole, atol=1e-4, rtol=0)


@pytest.mark.parametrize("kind", ["base", "residual"])
@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("cuts", [[1, 20], [7, 8, 6], [20, 1]])
def test_prefill_in_parts_equals_one_prefill(
    models: Models, name: str, kind: str, cuts: list[int]
) -> None:
    model = models(name)
    stack = stacks(model)[kind]
    x = random(21, model.config.lm.hidden_size)
    whole_cache, cache = stack.new_cache(2, 21), stack.new_cache(2, 21)
    whole = stack.prefill(x, whole_cache, 1)
    start, parts = 0, []
    for part in x.split(cuts):
        parts.append(stack.prefill(part, cache, 1, start))
        start += len(part)
    torch.testing.assert_close(torch.cat(parts), whole, atol=1e-4, rtol=0)
    torch.testing.assert_close(cache.keys, whole_cache.keys, atol=1e-4, rtol=0)
    torch.testing.assert_close(cache.values, whole_cache.values, atol=1e-4, rtol=0)


@pytest.mark.parametrize("name", NAMES)
def test_generated_patches_in_the_prompt_equal_generated_patches_decoded(
    models: Models, name: str
) -> None:
    """What `decode` leaves in a slot is what a prompt that ends with its patches leaves."""
    model = models(name)
    text = "The birch canoe."
    prompt = model.encode_prompt(text)
    decoded, prefilled = fresh_state(model, 1), fresh_state(model, 1)
    model.prefill(decoded, prompt, 0)
    patches = []
    for step in range(9):
        rows = make_rows(model, [0], [len(prompt) + step], [3], [step])
        patches.append(model.decode(decoded, rows).frames[0])
    continued = model.encode_prompt(text, prompt_audio=torch.stack(patches).numpy())
    model.prefill(prefilled, continued, 0)
    torch.testing.assert_close(prefilled.hidden, decoded.hidden, atol=1e-4, rtol=0)
    assert torch.equal(prefilled.cond, decoded.cond)


@pytest.mark.parametrize("chunk", [1, 2, 3])
@pytest.mark.parametrize("name", NAMES)
def test_streamed_samples_equal_offline_samples(models: Models, name: str, chunk: int) -> None:
    model = models(name)
    P, D = model.patch_shape
    patches = random(1, 11, P, D)
    state = fresh_state(model, 2)
    offline = model.vocode(state, [0], patches)
    parts = [model.vocode(state, [1], part) for part in patches.split(chunk, dim=1)]
    assert offline.shape == (1, 11 * model.info.hop_length)
    torch.testing.assert_close(torch.cat(parts, dim=1), offline, atol=1e-5, rtol=0)


@pytest.mark.parametrize("name", NAMES)
def test_a_prefix_of_patches_gives_a_prefix_of_samples(models: Models, name: str) -> None:
    model = models(name)
    P, D = model.patch_shape
    patches = random(1, 9, P, D)
    changed = torch.cat((patches[:, :5], random(1, 4, P, D, seed=1)), dim=1)
    state = fresh_state(model, 3)
    whole = model.vocode(state, [0], patches)
    other = model.vocode(state, [1], changed)
    prefix = model.vocode(state, [2], patches[:, :5])
    end = 5 * model.info.hop_length
    torch.testing.assert_close(prefix, whole[:, :end], atol=1e-5, rtol=0)
    assert torch.equal(other[:, :end], whole[:, :end])
    assert not torch.equal(other[:, end:], whole[:, end:])
