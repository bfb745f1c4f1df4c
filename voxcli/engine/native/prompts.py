"""Prompts in the shapes that graphs were captured for, and the buffers that they are read from.

A prompt is run in spans of at most the longest length of its kind, always cut at the same places,
so that its numbers do not depend on who else is there. Spans of a kind that allows it go several
together, each padded to one length; others go alone. What a span's positions hold is the model's
business: it declares inputs and fills them. Does not know graphs.

Letters: `B` spans, `N` positions of a padded span.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import prod
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from voxcli.models.base import SpeechModel
from voxcli.models.data import Input, Prompt, PromptKind, PromptShape, Span

if TYPE_CHECKING:
    import numpy as np

MAX_POSITIONS = 2048  # of the padded spans of one shape
_DTYPES = {"int64": torch.int64, "float32": torch.float32}


def prompt_shapes(
    kinds: Sequence[PromptKind], buckets: Sequence[int], num_positions: int
) -> list[PromptShape]:
    """The shapes to capture, largest first.

    Args:
        buckets: numbers of spans.
        num_positions: static length of a slot; no prompt is longer.
    """
    shapes = [
        PromptShape(num_rows, length, kind.name)
        for kind in kinds
        for num_rows in (buckets if kind.max_together > 1 else (1,))
        for length in _needed(kind.lengths, num_positions)
        if num_rows <= kind.max_together and num_rows * length <= MAX_POSITIONS
    ]
    return sorted(shapes, key=lambda shape: shape.num_positions, reverse=True)


def _needed(lengths: Sequence[int], num_positions: int) -> list[int]:
    """The lengths up to the first that holds `num_positions`."""
    return [lengths[0], *(b for a, b in pairwise(lengths) if a < num_positions)]


def spans(
    kinds: Sequence[PromptKind], prompt: Prompt, row: int, start: int, end: int
) -> list[Span]:
    """Positions `start .. end` in spans that a shape of any kind holds."""
    longest = min(kind.lengths[-1] for kind in kinds)
    return [
        Span(prompt, row, first, min(first + longest, end)) for first in range(start, end, longest)
    ]


def kind_of(model: SpeechModel, span: Span) -> PromptKind:
    """The kind of a span's positions."""
    name = model.kind_of(span.prompt, span.start, span.end)
    return next(kind for kind in model.prompt_kinds if kind.name == name)


def padded_length(kind: PromptKind, span: Span) -> int:
    """Positions that a span takes on the device, alone."""
    return next(length for length in kind.lengths if length >= len(span))


def grouped(
    together: Sequence[Span], kind: PromptKind, shapes: Sequence[PromptShape]
) -> Iterator[tuple[PromptShape, list[Span]]]:
    """Spans of one kind that go together, with the smallest shape that holds them."""
    left = sorted(together, key=len)
    while left:
        fitting = [
            shape for shape in shapes if shape.kind == kind.name and shape.length >= len(left[-1])
        ]
        length = min(shape.length for shape in fitting)
        fitting = [shape for shape in fitting if shape.length == length]
        most = max(shape.num_rows for shape in fitting)
        group, left = left[-most:], left[:-most]
        holding = [shape for shape in fitting if shape.num_rows >= len(group)]
        yield min(holding, key=lambda shape: shape.num_rows), group


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

    Rows of the state, starts and last indices of the spans, int64 `[B]` each, lie before what the
    model declares. All numbers of one type lie in one flat buffer, so that a replay needs one copy
    of each.
    """

    ROWS = ("slots", "starts", "last")

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
        rows = (Input(name, "int64", (shape.num_rows,)) for name in self.ROWS)
        return *rows, *self._model.prompt_inputs(shape)

    def read(self, shape: PromptShape) -> tuple[tuple[Tensor, Tensor, Tensor], dict[str, Tensor]]:
        """Slots, starts and last indices `[B]` each, and the declared inputs by name."""
        views = self._layouts[shape].views(self._flat)
        slots, starts, last = (views.pop(name) for name in self.ROWS)
        return (slots, starts, last), views

    def upload(self, shape: PromptShape, group: Sequence[Span], dummy_slot: int) -> None:
        """Fill the buffers; the copies are on their way when this returns.

        Args:
            group: spans; rows of the shape that they do not fill go to `dummy_slot`.
        """
        layout = self._layouts[shape]
        is_pinned = self._flat["int64"].is_cuda
        packed = {
            name: torch.zeros(size, dtype=_DTYPES[name], pin_memory=is_pinned)
            for name, size in layout.sizes.items()
        }
        arrays: dict[str, np.ndarray] = {
            name: view.numpy() for name, view in layout.views(packed).items()
        }
        slots, starts, last = (arrays.pop(name) for name in self.ROWS)
        slots[:] = dummy_slot
        for index, span in enumerate(group):
            slots[index], starts[index], last[index] = span.row, span.start, len(span) - 1
        self._model.fill_inputs(shape, group, arrays)
        for name, size in layout.sizes.items():
            if size:
                self._flat[name][:size].copy_(packed[name], non_blocking=True)
