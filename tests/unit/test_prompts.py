"""Prompts find the smallest captured shape that holds them, and land in its buffers."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch

from voxcli.engine.native import memory
from voxcli.engine.native.prompts import (
    MAX_SPAN,
    StaticPrompts,
    packed,
    padded,
    prompt_shapes,
    spans,
)
from voxcli.errors import EngineError
from voxcli.models.data import PromptShape, Span
from voxcli.models.voxcpm2.model import VoxCPM2
from voxcli.models.voxcpm2.prompt import AUDIO, TEXT, Prompt
from voxcli.models.voxcpm2.prompting import PROMPT_KINDS

SHAPES = prompt_shapes(PROMPT_KINDS, 32, 1024)
TEXTS, AUDIOS = (
    [shape for shape in reversed(SHAPES) if shape.kind == kind] for kind in (TEXT, AUDIO)
)


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


def test_shapes_are_no_more_than_slots_need_and_no_larger_than_they_may_be() -> None:
    found = {shape.num_positions for shape in prompt_shapes(PROMPT_KINDS, 1, 100)}
    assert found == {64, 128}
    found = {shape.num_positions for shape in prompt_shapes(PROMPT_KINDS, 1, 2048)}
    assert found == {64, 128, 256}, "a prompt goes in spans of 256"
    assert max(shape.num_positions for shape in SHAPES) == 2048
    assert len(set(SHAPES)) == len(SHAPES)
    sizes = [shape.num_positions for shape in SHAPES]
    assert sizes == sorted(sizes, reverse=True), "the largest is captured first"


def test_a_prompt_is_cut_at_the_same_places_however_far_it_is() -> None:
    prompt = span(1000).prompt
    whole = [(each.start, each.end) for each in spans(prompt, 0, 40, 1000)]
    assert whole == [(40, 296), (296, 552), (552, 808), (808, 1000)]
    assert [(each.start, each.end) for each in spans(prompt, 0, 552, 1000)] == whole[2:]
    assert max(len(each) for each in spans(prompt, 0, 0, 1000)) == MAX_SPAN


@pytest.mark.parametrize("seed", range(20))
def test_every_position_goes_once_in_its_order_and_fits(seed: int) -> None:
    drawn = np.random.default_rng(seed)
    lengths = drawn.integers(1, drawn.integers(2, 600), drawn.integers(1, 70))
    together = [
        each
        for row, length in enumerate(lengths)
        for each in spans(span(int(length)).prompt, row, 0, int(length))
    ]
    seen: list[tuple[int, int]] = []
    total = 0
    for shape, group in packed(together, TEXTS):
        total += shape.num_positions
        assert 0 < len(group) <= shape.num_spans
        assert sum(map(len, group)) <= shape.num_positions
        seen += [(each.row, at) for each in group for at in range(each.start, each.end)]
    assert seen == [(each.row, at) for each in together for at in range(each.start, each.end)]
    assert total <= padded(sum(lengths), len(together), TEXTS)


def test_texts_leave_little_of_their_shapes_empty() -> None:
    sizes = [shape.num_positions for shape, _ in packed([span(100) for _ in range(64)], TEXTS)]
    assert sizes == [2048, 2048, 2048, 256], "6400 positions, and none of padding"
    sizes = [shape.num_positions for shape, _ in packed([span(9) for _ in range(8)], TEXTS)]
    assert sizes == [256], "more spans than one of 128 has"


def test_audio_goes_in_the_shortest_shape(model: VoxCPM2) -> None:
    for voice, length in (
        (span(130, num_patches=3), 256),
        (span(600, num_patches=600, start=500), 128),
    ):
        assert model.kind_of(voice.prompt, voice.start, voice.end) == AUDIO
        assert padded(len(voice), 1, AUDIOS) == length
        assert list(packed([voice], AUDIOS)) == [
            (PromptShape(length, length // 32, AUDIO), [voice])
        ]


def test_prompts_land_where_the_graph_reads_them(model: VoxCPM2) -> None:
    prompts = StaticPrompts(model, SHAPES, torch.device("cpu"))
    shape = PromptShape(128, 4, TEXT)
    prompts.upload(shape, [span(64, row=5)] * 2, dummy_slot=0)  # must leave nothing behind
    goes_on = replace(span(200, row=3, start=30), end=40)
    prompts.upload(shape, [goes_on, span(96, row=1, start=26)], dummy_slot=7)
    where, inputs = prompts.read(shape)
    assert where.rows.tolist() == [*[3] * 10, *[1] * 70, *[7] * 48]
    assert where.positions.tolist() == [*range(30, 40), *range(26, 96), *[0] * 48]
    assert where.tiles.tolist() == [[0, 10], [10, 74], [74, 80], [80, 128], [0, 0], [0, 0]]
    assert where.ended_rows.tolist() == [7, 1, 7, 7], "the first prompt is not at its end"
    assert where.ends.tolist() == [0, 79, 0, 0]
    assert inputs["token_ids"].tolist() == [*range(130, 140), *range(126, 196), *[0] * 48]


def test_patches_land_at_their_places_and_padding_nowhere(model: VoxCPM2) -> None:
    prompts = StaticPrompts(model, SHAPES, torch.device("cpu"))
    shape = PromptShape(128, 4, AUDIO)
    spoken = span(20, num_patches=5, row=2, start=3)
    prompts.upload(shape, [spoken, spoken], dummy_slot=7)
    _, inputs = prompts.read(shape)
    assert isinstance(spoken.prompt, Prompt)
    own = torch.from_numpy(spoken.prompt.patches[3:])
    assert torch.equal(inputs["patches"][:4], torch.cat((own, own)))
    assert inputs["places"].tolist() == [0, 1, 17, 18, *[128] * 124]


def test_too_little_memory_is_refused_with_numbers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory, "free_memory", lambda device: (3 * memory.GIB, 8 * memory.GIB))
    device = torch.device("cuda", 0)
    memory.require_memory(device, 3 * memory.GIB, "few slots", "")
    with pytest.raises(EngineError, match=r"many slots need 4.5 GiB .* 3.0 of 8.0 GiB .* lower it"):
        memory.require_memory(device, 9 * memory.GIB // 2, "many slots", "lower it")
    memory.require_memory(torch.device("cpu"), 2**60, "anything", "")
