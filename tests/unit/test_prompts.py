"""Prompts find the smallest captured shape that holds them, and land in its buffers."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from voxcli.engine import memory
from voxcli.engine.prompts import (
    PromptShape,
    StaticPrompts,
    audio_shape,
    group_texts,
    prompt_shapes,
)
from voxcli.engine.request import Request
from voxcli.errors import EngineError
from voxcli.models.base import Prompt

SHAPES = prompt_shapes([1, 2, 4, 8, 16, 32], 1024)


def request(length: int, *, num_patches: int = 0, slot: int | None = None) -> Request:
    is_audio = np.arange(length) < num_patches
    ids = np.where(is_audio, 0, np.arange(length) + 100)
    patches = np.random.default_rng(0).normal(size=(num_patches, 2, 3)).astype(np.float32)
    return Request(Prompt(ids, is_audio, patches), 0, 6, 1.0, 10, slot=slot)


def test_no_shape_is_longer_than_a_slot_or_wider_than_it_may_be() -> None:
    assert all(shape.length <= 100 for shape in prompt_shapes([1, 2], 100))
    assert max(shape.num_positions for shape in SHAPES) == 2048
    assert len(set(SHAPES)) == len(SHAPES)
    sizes = [shape.num_positions for shape in SHAPES]
    assert sizes == sorted(sizes, reverse=True), "the largest is captured first"


def test_each_text_goes_once_and_fits() -> None:
    lengths = [5, 64, 65, 300, 100, 128, 129, 7, *[90] * 30]
    requests = [request(length) for length in lengths]
    seen = []
    for shape, group in group_texts(requests, SHAPES):
        seen += group
        if shape is None:
            assert [len(each.prompt) for each in group] == [300]
        else:
            assert len(group) <= shape.num_rows < 2 * len(group) + 1
            assert max(len(each.prompt) for each in group) <= shape.length
    assert sorted(map(id, seen)) == sorted(map(id, requests))


def test_equal_texts_go_together() -> None:
    groups = list(group_texts([request(100) for _ in range(32)], SHAPES))
    assert [(shape, len(group)) for shape, group in groups] == [(PromptShape(16, 128), 16)] * 2


def test_audio_takes_the_shortest_shape_or_none() -> None:
    assert audio_shape(request(130, num_patches=3), SHAPES) == PromptShape(1, 256, has_audio=True)
    assert audio_shape(request(600, num_patches=3), SHAPES) is None


def test_prompts_land_where_the_graph_reads_them() -> None:
    prompts = StaticPrompts.allocate(SHAPES, (2, 3), torch.device("cpu"))
    prompts.numbers.fill_(9)
    shape = PromptShape(4, 64)
    prompts.upload(shape, [request(10, slot=3), request(64, slot=0)], dummy_slot=7)
    slots, last, ids = prompts.rows(shape)
    assert slots.tolist() == [3, 0, 7, 7]
    assert last.tolist() == [9, 63, 0, 0]
    assert ids[0].tolist() == [*range(100, 110), *[0] * 54]
    assert ids[1].tolist() == [*range(100, 164)]


def test_patches_land_at_their_places_and_padding_nowhere() -> None:
    prompts = StaticPrompts.allocate(SHAPES, (2, 3), torch.device("cpu"))
    shape = PromptShape(1, 128, has_audio=True)
    spoken = request(20, num_patches=5, slot=2)
    prompts.upload(shape, [spoken], dummy_slot=7)
    patches, places = prompts.audio(shape)
    assert torch.equal(patches[:5], torch.from_numpy(spoken.prompt.patches))
    assert places.tolist() == [0, 1, 2, 3, 4, *[128] * 123]


def test_too_little_memory_is_refused_with_numbers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory, "free_memory", lambda device: (3 * memory.GIB, 8 * memory.GIB))
    device = torch.device("cuda", 0)
    memory.require_memory(device, 3 * memory.GIB, "few slots", "")
    with pytest.raises(EngineError, match=r"many slots need 4.5 GiB .* 3.0 of 8.0 GiB .* lower it"):
        memory.require_memory(device, 9 * memory.GIB // 2, "many slots", "lower it")
    memory.require_memory(torch.device("cpu"), 2**60, "anything", "")
