"""One request: a segment's prompt, its settings and how far it is. Host state only."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from enum import Enum, auto
from typing import TYPE_CHECKING

from voxcli.utterance import FinishReason

if TYPE_CHECKING:
    from torch import Tensor

    from voxcli.models.base import Prompt


class Status(Enum):
    WAITING = auto()
    RUNNING = auto()
    FINISHED = auto()


@dataclass(eq=False)
class Request:
    """What the scheduler moves from waiting to running to finished.

    Attributes:
        prompt: where it starts from.
        seed: of its noise.
        num_steps: solver steps a patch.
        cfg: guidance; 1.0 computes no unconditional half.
        max_patches: it is stopped there, with reason LENGTH.
        min_patches: an end token before this many patches is ignored.
        chunk_patches: most patches that leave the vocoder together.
        is_live: somebody listens: the first patch leaves alone, then as many as have left before,
            so that the listener's buffer grows with the chunks.
        num_prefilled: positions of the prompt that are in the slot.
        step: patches generated so far.
        pending: frames that the vocoder has not had yet; the runner knows what they are.
    """

    prompt: Prompt
    seed: int
    num_steps: int
    cfg: float
    max_patches: int
    min_patches: int = 1
    chunk_patches: int = 4
    is_live: bool = True
    status: Status = Status.WAITING
    slot: int | None = None
    num_prefilled: int = 0
    step: int = 0
    num_vocoded: int = 0
    pending: deque[Tensor] = field(default_factory=deque)
    finish_reason: FinishReason | None = None

    @property
    def position(self) -> int:
        """Where the next step's key and value go."""
        return len(self.prompt) + self.step

    @property
    def num_positions(self) -> int:
        """Positions it may need in all."""
        return len(self.prompt) + self.max_patches

    @property
    def is_prefilled(self) -> bool:
        return self.num_prefilled >= len(self.prompt)

    @property
    def is_guided(self) -> bool:
        return self.cfg != 1.0

    @property
    def solver(self) -> tuple[int, bool]:
        """What all rows of a step share: solver steps, and whether they are guided."""
        return self.num_steps, self.is_guided

    @property
    def is_chunk_due(self) -> bool:
        """Whether its pending patches should become samples now."""
        if not self.pending:
            return False
        if self.finish_reason is not None:
            return True
        wanted = self.chunk_patches
        if self.is_live:
            wanted = min(wanted, max(1, self.num_vocoded))
        return len(self.pending) >= wanted

    def record(self, frame: Tensor, is_end: bool) -> None:
        """Take one step's result and decide whether this was the last."""
        self.step += 1
        self.pending.append(frame)
        if is_end and self.step >= self.min_patches:
            self.finish_reason = FinishReason.STOP
        elif self.step >= self.max_patches:
            self.finish_reason = FinishReason.LENGTH
