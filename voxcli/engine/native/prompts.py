"""Prompts in the shapes that graphs were captured for, and the buffers that they are read from.

A prompt is run in spans. Spans of a kind lie one behind the other in a shape, without padding
between them, and are cut where one is full: what follows in the next shape sees what was before.
What a span's positions hold is the model's business: it declares inputs and fills them. Does not
know graphs.

Letters: `N` positions and `S` spans of a shape, `T` tiles.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from math import ceil, prod

import numpy as np
import torch
from torch import Tensor

from voxcli.layers.attention import PROMPT_TILE
from voxcli.models.base import SpeechModel
from voxcli.models.data import Input, PackedSpans, Prompt, PromptKind, PromptShape, Span

MAX_SPAN = 256  # positions of a prompt that go on their way at once
MIN_SPANS, POSITIONS_A_SPAN = 4, 32  # of a shape; where spans are shorter they do not fill it
_DTYPES = {"int64": torch.int64, "float32": torch.float32}


def prompt_shapes(
    kinds: Sequence[PromptKind], num_slots: int, num_positions: int
) -> list[PromptShape]:
    """The shapes to capture, largest first.

    Args:
        num_slots: requests that run at once.
        num_positions: static length of a slot; no prompt is longer.
    """
    most = num_slots * min(num_positions, MAX_SPAN)
    shapes = [
        PromptShape(size, max(MIN_SPANS, size // POSITIONS_A_SPAN), kind.name)
        for kind in kinds
        for size in _needed(kind.sizes, most)
    ]
    return sorted(shapes, key=lambda shape: shape.num_positions, reverse=True)


def _needed(sizes: Sequence[int], num_positions: int) -> list[int]:
    """The sizes up to the first that holds `num_positions`."""
    return [sizes[0], *(b for a, b in pairwise(sizes) if a < num_positions)]


def spans(prompt: Prompt, row: int, start: int, end: int) -> list[Span]:
    """Positions `start .. end` in spans."""
    return [
        Span(prompt, row, first, min(first + MAX_SPAN, end))
        for first in range(start, end, MAX_SPAN)
    ]


def padded(num_positions: int, num_spans: int, shapes: Sequence[PromptShape]) -> int:
    """Positions that so many, in so many spans, take at most on the device.

    Args:
        shapes: of their kind, ascending.
    """
    most = shapes[-1]
    if num_positions > most.num_positions or num_spans > most.num_spans:
        num_shapes = max(ceil(num_positions / most.num_positions), ceil(num_spans / most.num_spans))
        return num_shapes * most.num_positions
    return _holding(num_positions, num_spans, shapes).num_positions


def packed(
    together: Sequence[Span], shapes: Sequence[PromptShape]
) -> Iterator[tuple[PromptShape, list[Span]]]:
    """Spans of one kind in shapes, in their order; those that do not fit are cut in two.

    Args:
        shapes: of their kind, ascending.
    """
    left = list(reversed(together))
    num_left = sum(map(len, left))
    while left:
        shape = _holding(num_left, len(left), shapes)
        group: list[Span] = []
        room = shape.num_positions
        while left and room and len(group) < shape.num_spans:
            span = left.pop()
            if len(span) > room:
                left.append(replace(span, start=span.start + room))
                span = replace(span, end=span.start + room)
            group.append(span)
            room -= len(span)
        num_left -= shape.num_positions - room
        yield shape, group


def _holding(num_positions: int, num_spans: int, shapes: Sequence[PromptShape]) -> PromptShape:
    """The smallest shape that holds so many, or the largest."""
    holding = (
        each for each in shapes
        if each.num_positions >= num_positions and each.num_spans >= num_spans
    )  # fmt: skip
    return next(holding, shapes[-1])


@dataclass(frozen=True)
class _Layout:
    """Where a shape's inputs lie in the flat buffers: name to dtype, offset and shape."""

    places: Mapping[str, tuple[str, int, tuple[int, ...]]]
    sizes: Mapping[str, int]

    @classmethod
    def of(cls, inputs: Sequence[Input]) -> _Layout:
        places, sizes = {}, {"int64": 0, "float32": 0}
        for each in inputs:
            places[each.name] = each.dtype, sizes[each.dtype], each.shape
            sizes[each.dtype] += prod(each.shape)
        return cls(places, sizes)

    def views(self, flat: Mapping[str, Tensor]) -> dict[str, Tensor]:
        return {
            name: flat[dtype][offset : offset + prod(shape)].view(shape)
            for name, (dtype, offset, shape) in self.places.items()
        }


class StaticPrompts:
    """What prompt graphs read; allocated once, and filled anew for each replay.

    Where positions belong lies before what the model declares. All numbers of one type lie in one
    flat buffer, so that a replay needs one copy of each.
    """

    def __init__(
        self, model: SpeechModel, shapes: Sequence[PromptShape], device: torch.device
    ) -> None:
        self._model = model
        self._layouts = {shape: _Layout.of(self._inputs(shape)) for shape in shapes}
        self._flat = {
            name: torch.zeros(
                max(layout.sizes[name] for layout in self._layouts.values()),
                dtype=dtype, device=device,
            )
            for name, dtype in _DTYPES.items()
        }  # fmt: skip

    def _inputs(self, shape: PromptShape) -> tuple[Input, ...]:
        N, S = shape.num_positions, shape.num_spans
        num_tiles = -(-N // PROMPT_TILE) + S  # of the spans and of what is behind them
        own = {
            "rows": (N,), "positions": (N,), "tiles": (num_tiles, 2), "ended_rows": (S,),
            "ends": (S,),
        }  # fmt: skip
        where = (Input(name, "int64", size) for name, size in own.items())
        return *where, *self._model.prompt_inputs(shape)

    def read(self, shape: PromptShape) -> tuple[PackedSpans, dict[str, Tensor]]:
        """Where positions belong, and the declared inputs by name."""
        views = self._layouts[shape].views(self._flat)
        own = {name: views.pop(name) for name in PackedSpans.__dataclass_fields__}
        return PackedSpans(**own), views

    def upload(self, shape: PromptShape, group: Sequence[Span], dummy_slot: int) -> None:
        """Fill the buffers; the copies are on their way when this returns.

        Args:
            group: spans that fit; what they do not fill goes to `dummy_slot`.
        """
        layout = self._layouts[shape]
        is_pinned = self._flat["int64"].is_cuda
        filled = {
            name: torch.zeros(size, dtype=_DTYPES[name], pin_memory=is_pinned)
            for name, size in layout.sizes.items()
        }
        arrays: dict[str, np.ndarray] = {
            name: view.numpy() for name, view in layout.views(filled).items()
        }
        rows, positions, tiles, ended_rows, ends = (
            arrays.pop(name) for name in PackedSpans.__dataclass_fields__
        )
        rows[:] = ended_rows[:] = dummy_slot
        first = num_tiles = 0
        for index, span in enumerate(group):
            own = slice(first, first + len(span))
            rows[own] = span.row
            positions[own] = np.arange(span.start, span.end)
            if span.is_last:
                ended_rows[index], ends[index] = span.row, own.stop - 1
            num_tiles = _cut(tiles, num_tiles, own.start, own.stop)
            first = own.stop
        _cut(tiles, num_tiles, first, shape.num_positions)
        self._model.fill_inputs(shape, group, arrays)
        for name, size in layout.sizes.items():
            if size:
                self._flat[name][:size].copy_(filled[name], non_blocking=True)


def _cut(tiles: np.ndarray, num_tiles: int, first: int, end: int) -> int:
    """Positions `first .. end` in further tiles; returns how many there are then."""
    for start in range(first, end, PROMPT_TILE):
        tiles[num_tiles] = start, min(start + PROMPT_TILE, end)
        num_tiles += 1
    return num_tiles
