"""One request: a segment's prompt, its settings and how far it is. Host state only."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from enum import Enum, auto
from typing import TYPE_CHECKING, Any

from voxcli.utterance import FinishReason

if TYPE_CHECKING:
    from voxcli.models.base import GraphKey
    from voxcli.models.data import Prompt


class Status(Enum):
    WAITING = auto()
    RUNNING = auto()
    FINISHED = auto()


@dataclass(eq=False)
class Request:
    """What the scheduler moves from waiting to running to finished.

    Attributes:
        prompt: where it starts from; its model's own.
        seed: of all that is random in it.
        parameters: of its family, settled.
        key: what it shares with all rows of a step, see `ModelFamily.graph_key`.
        max_frames: it is stopped there, with reason LENGTH.
        min_frames: an end with a frame before this many is ignored.
        first_chunk, chunk: most frames that leave the vocoder together, at first and later.
        is_live: somebody listens: a chunk has as many frames as have left before, so that the
            listener's buffer grows with the chunks.
        num_prefilled: positions of the prompt that are in the slot.
        step: steps run so far, which is frames made so far.
        pending: frames that the vocoder has not had yet; the runner knows what they are.
        is_flushed: the vocoder has had all that there will be.
    """

    prompt: Prompt
    seed: int
    parameters: Any
    key: GraphKey
    max_frames: int
    min_frames: int = 1
    first_chunk: int = 1
    chunk: int = 4
    is_live: bool = True
    status: Status = Status.WAITING
    slot: int | None = None
    num_prefilled: int = 0
    step: int = 0
    num_vocoded: int = 0
    pending: deque[Any] = field(default_factory=deque)
    finish_reason: FinishReason | None = None
    is_flushed: bool = False

    @property
    def position(self) -> int:
        """Where the next step's key and value go."""
        return len(self.prompt) + self.step

    @property
    def num_positions(self) -> int:
        """Positions it may need in all."""
        return len(self.prompt) + self.max_frames

    @property
    def is_prefilled(self) -> bool:
        return self.num_prefilled >= len(self.prompt)

    @property
    def is_chunk_due(self) -> bool:
        """Whether its pending frames should become samples now; at its end also where none are."""
        if self.finish_reason is not None:
            return not self.is_flushed
        wanted = self.chunk
        if self.is_live:
            wanted = min(wanted, max(self.first_chunk, self.num_vocoded))
        return len(self.pending) >= wanted

    def record(self, frame: Any, is_end: bool) -> None:
        """Take one step's result and decide whether this was the last.

        Args:
            frame: None where the step made none, which is the end.
        """
        if frame is None:
            assert is_end, "a step without a frame is an end"
            self.finish_reason = FinishReason.STOP
            return
        self.step += 1
        self.pending.append(frame)
        if is_end and self.step >= self.min_frames:
            self.finish_reason = FinishReason.STOP
        elif self.step >= self.max_frames:
            self.finish_reason = FinishReason.LENGTH

    def take_pending(self) -> list[Any]:
        """The pending frames, which are pending no more."""
        frames = list(self.pending)
        self.num_vocoded += len(frames)
        self.pending.clear()
        self.is_flushed = self.finish_reason is not None
        return frames
