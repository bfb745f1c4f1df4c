"""Prompts in the shapes that graphs were captured for, and the buffers that they are read from.

A prompt is run in spans of at most `SPAN` positions, always cut at the same places, so that its
numbers do not depend on who else is there. Spans of text go several together, each padded to one
length; a span with audio goes alone. Does not know models or graphs.

Letters: `B` spans, `N` positions of a padded span, `A` audio positions, `P` latent vectors a patch,
`D` latent width.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import torch
from torch import Tensor

from voxcli.models.base import Prompt

TEXT_LENGTHS = (64, 128, 256)
AUDIO_LENGTHS = (128, 256)
SPAN = 256  # the longest of both
MAX_TOGETHER = 16
MAX_POSITIONS = 2048  # of the padded spans of one shape


@dataclass(frozen=True)
class PromptShape:
    """`num_rows` spans of up to `length` positions."""

    num_rows: int
    length: int
    has_audio: bool = False

    @property
    def num_positions(self) -> int:
        return self.num_rows * self.length


def prompt_shapes(buckets: Sequence[int], num_positions: int) -> list[PromptShape]:
    """The shapes to capture, largest first.

    Args:
        buckets: numbers of spans.
        num_positions: static length of a slot; no prompt is longer.
    """
    shapes = [
        PromptShape(num_rows, length)
        for num_rows in buckets
        for length in _needed(TEXT_LENGTHS, num_positions)
        if num_rows <= MAX_TOGETHER and num_rows * length <= MAX_POSITIONS
    ]
    shapes += [PromptShape(1, length, True) for length in _needed(AUDIO_LENGTHS, num_positions)]
    return sorted(shapes, key=lambda shape: shape.num_positions, reverse=True)


def _needed(lengths: Sequence[int], num_positions: int) -> list[int]:
    """The lengths up to the first that holds `num_positions`."""
    return [lengths[0], *(b for a, b in pairwise(lengths) if a < num_positions)]


@dataclass(frozen=True)
class Span:
    """Positions `start .. end` of a prompt on their way into a row of the state."""

    prompt: Prompt
    row: int
    start: int
    end: int

    def __len__(self) -> int:
        return self.end - self.start

    @property
    def has_audio(self) -> bool:
        return bool(self.prompt.is_audio[self.start : self.end].any())


def spans(prompt: Prompt, row: int, start: int, end: int) -> list[Span]:
    """Positions `start .. end` in spans that a shape holds."""
    return [Span(prompt, row, first, min(first + SPAN, end)) for first in range(start, end, SPAN)]


def padded_length(span: Span) -> int:
    """Positions that a span takes on the device, alone."""
    lengths = AUDIO_LENGTHS if span.has_audio else TEXT_LENGTHS
    return next(length for length in lengths if length >= len(span))


def group_texts(
    texts: Sequence[Span], shapes: Sequence[PromptShape]
) -> Iterator[tuple[PromptShape, list[Span]]]:
    """Spans of text that go together, with the smallest shape that holds them."""
    left = sorted(texts, key=len)
    while left:
        fitting = [
            shape for shape in shapes if not shape.has_audio and shape.length >= len(left[-1])
        ]
        length = min(shape.length for shape in fitting)
        fitting = [shape for shape in fitting if shape.length == length]
        most = max(shape.num_rows for shape in fitting)
        group, left = left[-most:], left[:-most]
        holding = [shape for shape in fitting if shape.num_rows >= len(group)]
        yield min(holding, key=lambda shape: shape.num_rows), group


def audio_shape(span: Span, shapes: Sequence[PromptShape]) -> PromptShape:
    """The smallest shape for a span with audio."""
    fitting = [shape for shape in shapes if shape.has_audio and shape.length >= len(span)]
    return min(fitting, key=lambda shape: shape.length)


@dataclass(frozen=True)
class StaticPrompts:
    """What prompt graphs read; allocated once, and filled anew for each replay.

    Attributes:
        numbers: int64, flat: row of each span, its first position, the index of its last, token ids
            `[B, N]`, and with audio the places of its patches `[N]`.
        patches: float32 `[longest N, P, D]`.
    """

    numbers: Tensor
    patches: Tensor

    @classmethod
    def allocate(
        cls, shapes: Sequence[PromptShape], patch_shape: tuple[int, int], device: torch.device
    ) -> StaticPrompts:
        size = max(3 * shape.num_rows + 2 * shape.num_positions for shape in shapes)
        longest = max(shape.length for shape in shapes if shape.has_audio)
        return cls(
            numbers=torch.zeros(size, dtype=torch.int64, device=device),
            patches=torch.zeros(longest, *patch_shape, device=device),
        )

    def rows(self, shape: PromptShape) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """Rows of the state, starts and last indices `[B]` each, token ids `[B, N]`."""
        B, numbers = shape.num_rows, self.numbers
        ids = numbers[3 * B : 3 * B + shape.num_positions]
        return numbers[:B], numbers[B : 2 * B], numbers[2 * B : 3 * B], ids.view(B, -1)

    def audio(self, shape: PromptShape) -> tuple[Tensor, Tensor]:
        """Patches `[N, P, D]` and their places `[N]`; see `AcousticModel.prefill_rows`."""
        start = 3 * shape.num_rows + shape.num_positions
        return self.patches[: shape.length], self.numbers[start : start + shape.length]

    def upload(self, shape: PromptShape, group: Sequence[Span], dummy_slot: int) -> None:
        """Fill the buffers; the copies are on their way when this returns.

        Args:
            group: spans; rows of the shape that they do not fill go to `dummy_slot`.
        """
        B, N = shape.num_rows, shape.length
        size = 3 * B + (2 if shape.has_audio else 1) * B * N
        packed = torch.zeros(size, dtype=torch.int64, pin_memory=self.numbers.is_cuda)
        numbers = packed.numpy()
        numbers[:B] = dummy_slot
        for index, span in enumerate(group):
            numbers[index : 3 * B : B] = span.row, span.start, len(span) - 1
            start = 3 * B + index * N
            numbers[start : start + len(span)] = span.prompt.token_ids[span.start : span.end]
        if shape.has_audio:
            (span,) = group
            is_audio = span.prompt.is_audio
            places = np.flatnonzero(is_audio[span.start : span.end])
            numbers[-N:] = B * N  # a place that is thrown away
            numbers[-N:][: len(places)] = places
            first = int(is_audio[: span.start].sum())
            patches = torch.from_numpy(span.prompt.patches[first : first + len(places)])
            if self.patches.is_cuda:
                patches = patches.pin_memory()
            self.patches[: len(patches)].copy_(patches, non_blocking=True)
        self.numbers[:size].copy_(packed, non_blocking=True)
