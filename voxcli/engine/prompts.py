"""Prompts in the shapes that graphs were captured for, and the buffers that they are read from.

Texts go several together, each padded to one length. A prompt with audio goes alone. What fits no
shape is for the caller to run eagerly. Does not know models or graphs.

Letters: `B` prompts, `N` positions of a padded prompt, `A` audio positions, `P` latent vectors a
patch, `D` latent width.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from voxcli.engine.request import Request

TEXT_LENGTHS = (64, 128, 256)
AUDIO_LENGTHS = (128, 256, 512)
MAX_TOGETHER = 16
MAX_POSITIONS = 2048  # of the padded prompts of one shape


@dataclass(frozen=True)
class PromptShape:
    """`num_rows` prompts of up to `length` positions."""

    num_rows: int
    length: int
    has_audio: bool = False

    @property
    def num_positions(self) -> int:
        return self.num_rows * self.length


def prompt_shapes(buckets: Sequence[int], num_positions: int) -> list[PromptShape]:
    """The shapes to capture, largest first.

    Args:
        buckets: numbers of prompts.
        num_positions: static length of a slot.
    """
    shapes = [
        PromptShape(num_rows, length)
        for num_rows in buckets
        for length in TEXT_LENGTHS
        if num_rows <= MAX_TOGETHER and num_rows * length <= MAX_POSITIONS
    ]
    shapes += [PromptShape(1, length, has_audio=True) for length in AUDIO_LENGTHS]
    fitting = [shape for shape in shapes if shape.length <= num_positions]
    return sorted(fitting, key=lambda shape: shape.num_positions, reverse=True)


def group_texts(
    requests: Sequence[Request], shapes: Sequence[PromptShape]
) -> Iterator[tuple[PromptShape | None, list[Request]]]:
    """Texts that go together, with the smallest shape that holds them; None where none does."""
    texts = [shape for shape in shapes if not shape.has_audio]
    left = sorted(requests, key=lambda request: len(request.prompt))
    while left:
        longest = len(left[-1].prompt)
        fitting = [shape for shape in texts if shape.length >= longest]
        if not fitting:
            yield None, [left.pop()]
            continue
        length = min(shape.length for shape in fitting)
        fitting = [shape for shape in fitting if shape.length == length]
        most = max(shape.num_rows for shape in fitting)
        group, left = left[-most:], left[:-most]
        yield (
            min(
                (shape for shape in fitting if shape.num_rows >= len(group)),
                key=lambda shape: shape.num_rows,
            ),
            group,
        )


def audio_shape(request: Request, shapes: Sequence[PromptShape]) -> PromptShape | None:
    """The smallest shape for a prompt with audio, if there is one."""
    length = len(request.prompt)
    fitting = [shape for shape in shapes if shape.has_audio and shape.length >= length]
    return min(fitting, key=lambda shape: shape.length, default=None)


@dataclass(frozen=True)
class StaticPrompts:
    """What prompt graphs read; allocated once, and filled anew for each replay.

    Attributes:
        numbers: int64, flat: slot of each prompt, last position of each, token ids `[B, N]`, and
            with audio the places of its patches `[N]`.
        patches: float32 `[longest N, P, D]`.
    """

    numbers: Tensor
    patches: Tensor

    @classmethod
    def allocate(
        cls, shapes: Sequence[PromptShape], patch_shape: tuple[int, int], device: torch.device
    ) -> StaticPrompts:
        size = max((2 * s.num_rows + 2 * s.num_positions for s in shapes), default=0)
        longest = max((s.length for s in shapes if s.has_audio), default=0)
        return cls(
            numbers=torch.zeros(size, dtype=torch.int64, device=device),
            patches=torch.zeros(longest, *patch_shape, device=device),
        )

    def rows(self, shape: PromptShape) -> tuple[Tensor, Tensor, Tensor]:
        """Slots `[B]`, last positions `[B]`, token ids `[B, N]`."""
        B, numbers = shape.num_rows, self.numbers
        ids = numbers[2 * B : 2 * B + shape.num_positions]
        return numbers[:B], numbers[B : 2 * B], ids.view(B, -1)

    def audio(self, shape: PromptShape) -> tuple[Tensor, Tensor]:
        """Patches `[N, P, D]` and their places `[N]`; see `AcousticModel.prefill_rows`."""
        start = 2 * shape.num_rows + shape.num_positions
        return self.patches[: shape.length], self.numbers[start : start + shape.length]

    def upload(self, shape: PromptShape, requests: Sequence[Request], dummy_slot: int) -> None:
        """Fill the buffers; the copies are on their way when this returns.

        Args:
            requests: with slots; rows of the shape that they do not fill go to `dummy_slot`.
        """
        B, N = shape.num_rows, shape.length
        size = 2 * B + (2 if shape.has_audio else 1) * B * N
        packed = torch.zeros(size, dtype=torch.int64, pin_memory=self.numbers.is_cuda)
        numbers = packed.numpy()
        numbers[:B] = dummy_slot
        for row, request in enumerate(requests):
            prompt = request.prompt
            numbers[row], numbers[B + row] = request.slot, len(prompt) - 1
            start = 2 * B + row * N
            numbers[start : start + len(prompt)] = prompt.token_ids
        if shape.has_audio:
            (request,) = requests
            places = np.flatnonzero(request.prompt.is_audio)
            numbers[-N:] = B * N  # a place that is thrown away
            numbers[-N:][: len(places)] = places
            patches = torch.from_numpy(request.prompt.patches)
            if self.patches.is_cuda:
                patches = patches.pin_memory()
            self.patches[: len(patches)].copy_(patches, non_blocking=True)
        self.numbers[:size].copy_(packed, non_blocking=True)
