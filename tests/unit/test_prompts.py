"""Prompts find the smallest captured shape that holds them, and land in its buffers."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from voxcli.engine.native import memory
from voxcli.engine.native.prompts import (
    StaticPrompts,
    grouped,
    kind_of,
    padded_length,
    prompt_shapes,
    spans,
)
from voxcli.errors import EngineError
from voxcli.models.data import PromptShape, Span
from voxcli.models.voxcpm2.model import PROMPT_KINDS, VoxCPM2
from voxcli.models.voxcpm2.prompt import AUDIO, TEXT, Prompt

SPAN = 256
SHAPES = prompt_shapes(PROMPT_KINDS, [1, 2, 4, 8, 16, 32], 1024)
KINDS = {kind.name: kind for kind in PROMPT_KINDS}


@pytest.fixture
def model() -> VoxCPM2:
    """What lays out prompts of patches `[2, 3]`, without a model behind it."""
    laying_out = VoxCPM2.__new__(VoxCPM2)
    laying_out.patch_shape = (2, 3)
    return laying_out


def span(length: int, *, num_patches: int = 0, row: int = 0, start: int = 0) -> Span:
    is_audio = np.arange(length) < num_patches
    ids = np.where(is_audio, 0, np.arange(length) + 100)
    patches = np.random.default_rng(0).normal(size=(num_patches, 2, 3)).astype(np.float32)
    return Span(Prompt(ids, is_audio, patches), row, start, length)


def test_shapes_are_no_more_than_a_slot_needs_and_no_wider_than_they_may_be() -> None:
    assert {shape.length for shape in prompt_shapes(PROMPT_KINDS, [1, 2], 100)} == {64, 128}
    assert {shape.length for shape in SHAPES} == {64, 128, SPAN}
    assert max(shape.num_positions for shape in SHAPES) == 2048
    assert len(set(SHAPES)) == len(SHAPES)
    sizes = [shape.num_positions for shape in SHAPES]
    assert sizes == sorted(sizes, reverse=True), "the largest is captured first"


def test_a_prompt_is_cut_at_the_same_places_however_far_it_is() -> None:
    prompt = span(1000).prompt
    whole = [(each.start, each.end) for each in spans(PROMPT_KINDS, prompt, 0, 40, 1000)]
    assert whole == [(40, 296), (296, 552), (552, 808), (808, 1000)]
    assert [(each.start, each.end) for each in spans(PROMPT_KINDS, prompt, 0, 552, 1000)] == whole[
        2:
    ]


def test_each_text_goes_once_and_fits() -> None:
    lengths = [5, 64, 65, 256, 100, 128, 129, 7, *[90] * 30]
    texts = [span(length) for length in lengths]
    seen = []
    for shape, group in grouped(texts, KINDS[TEXT], SHAPES):
        seen += group
        assert len(group) <= shape.num_rows < 2 * len(group) + 1
        assert max(map(len, group)) <= shape.length
    assert sorted(map(id, seen)) == sorted(map(id, texts))


def test_equal_texts_go_together() -> None:
    groups = list(grouped([span(100) for _ in range(32)], KINDS[TEXT], SHAPES))
    assert [(shape, len(group)) for shape, group in groups] == [
        (PromptShape(16, 128, TEXT), 16)
    ] * 2


def test_audio_goes_alone_in_the_shortest_shape(model: VoxCPM2) -> None:
    for voice, length in (
        (span(130, num_patches=3), 256),
        (span(600, num_patches=600, start=500), 128),
    ):
        assert kind_of(model, voice) is KINDS[AUDIO]
        assert padded_length(KINDS[AUDIO], voice) == length
        assert list(grouped([voice], KINDS[AUDIO], SHAPES)) == [
            (PromptShape(1, length, AUDIO), [voice])
        ]


def test_prompts_land_where_the_graph_reads_them(model: VoxCPM2) -> None:
    prompts = StaticPrompts(model, SHAPES, torch.device("cpu"))
    shape = PromptShape(4, 64, TEXT)
    prompts.upload(shape, [span(64)] * 4, dummy_slot=0)  # must leave nothing behind
    prompts.upload(shape, [span(10, row=3), span(90, row=1, start=26)], dummy_slot=7)
    (rows, starts, last), inputs = prompts.read(shape)
    assert rows.tolist() == [3, 1, 7, 7]
    assert starts.tolist() == [0, 26, 0, 0]
    assert last.tolist() == [9, 63, 0, 0]
    assert inputs["token_ids"][0].tolist() == [*range(100, 110), *[0] * 54]
    assert inputs["token_ids"][1].tolist() == [*range(126, 190)]
    assert inputs["token_ids"][2:].sum() == 0


def test_patches_land_at_their_places_and_padding_nowhere(model: VoxCPM2) -> None:
    prompts = StaticPrompts(model, SHAPES, torch.device("cpu"))
    shape = PromptShape(1, 128, AUDIO)
    spoken = span(20, num_patches=5, row=2, start=3)
    prompts.upload(shape, [spoken], dummy_slot=7)
    _, inputs = prompts.read(shape)
    assert isinstance(spoken.prompt, Prompt)
    assert torch.equal(inputs["patches"][:2], torch.from_numpy(spoken.prompt.patches[3:]))
    assert inputs["places"].tolist() == [0, 1, *[128] * 126]


def test_too_little_memory_is_refused_with_numbers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory, "free_memory", lambda device: (3 * memory.GIB, 8 * memory.GIB))
    device = torch.device("cuda", 0)
    memory.require_memory(device, 3 * memory.GIB, "few slots", "")
    with pytest.raises(EngineError, match=r"many slots need 4.5 GiB .* 3.0 of 8.0 GiB .* lower it"):
        memory.require_memory(device, 9 * memory.GIB // 2, "many slots", "lower it")
    memory.require_memory(torch.device("cpu"), 2**60, "anything", "")
