"""Who runs in the next step. Plain Python over a waiting queue, a running list and free slots.

First come, first served. Newcomers are prefilled from the step on in which a slot is free for them,
but beside running streams only so many positions a step, so that those wait little. Who has ended
keeps its slot until its samples are made.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass

from voxcli.engine.native.request import Request, Status
from voxcli.errors import AdmissionError
from voxcli.models.base import GraphKey
from voxcli.utterance import FinishReason


@dataclass(frozen=True)
class Batch:
    """The work of one step.

    Attributes:
        prefill: requests whose prompt is not in their slot yet.
        max_positions: how much of their prompts this step may run.
        decode: groups of running requests that share a graph key; those of `prefill` take part once
            they are prefilled.
    """

    prefill: list[Request]
    max_positions: int
    decode: list[list[Request]]


@dataclass(frozen=True)
class PrefillLimits:
    """Prompt positions that one step may run, so that newcomers lengthen it by a step at most.

    Attributes:
        beside: beside running streams.
        streams: so many of them, whose steps take longer, allow as many positions again.
        alone: where nothing runs.
    """

    beside: int
    streams: int
    alone: int

    def of(self, num_running: int) -> int:
        """The limit beside so many streams."""
        if num_running == 0:
            return self.alone
        return self.beside * (1 + num_running // self.streams)


class Scheduler:
    """Continuous batching over a fixed number of slots.

    Args:
        num_slots: requests that run at once.
        num_positions: static length of a slot.
        prefill_limits: one newcomer is admitted whatever they are.
    """

    def __init__(self, num_slots: int, num_positions: int, prefill_limits: PrefillLimits) -> None:
        self.num_positions = num_positions
        self.prefill_limits = prefill_limits
        self.waiting: deque[Request] = deque()
        self.running: list[Request] = []
        self._free_slots = list(range(num_slots))

    @property
    def has_work(self) -> bool:
        return bool(self.waiting or self.running)

    @property
    def is_generating(self) -> bool:
        """Whether a step makes a frame; False while only ended requests wait for samples."""
        return bool(self._generating or (self.waiting and self._free_slots))

    @property
    def _generating(self) -> list[Request]:
        return [request for request in self.running if request.finish_reason is None]

    @property
    def num_free_slots(self) -> int:
        return len(self._free_slots)

    def add(self, request: Request) -> None:
        """Queue a request.

        Raises:
            AdmissionError: it could never fit into a slot.
        """
        if request.num_positions > self.num_positions:
            raise AdmissionError(
                f"this text needs {len(request.prompt)} positions for the prompt and up to "
                f"{request.max_frames} for speech, a slot has {self.num_positions}",
                hint="shorten the text or the reference, or lower --max-seconds",
            )
        self.waiting.append(request)

    def schedule(self) -> Batch:
        """Admit who fits and group who runs."""
        generating = self._generating
        prefill = [request for request in generating if not request.is_prefilled]
        num_positions = sum(len(request.prompt) - request.num_prefilled for request in prefill)
        limit = self.prefill_limits.of(len(generating) - len(prefill))
        while self.waiting and self._free_slots:
            num_positions += len(self.waiting[0].prompt)
            if prefill and num_positions > limit:
                break
            request = self.waiting.popleft()
            request.slot = self._free_slots.pop(0)
            request.status = Status.RUNNING
            self.running.append(request)
            prefill.append(request)
        groups: dict[GraphKey, list[Request]] = {}
        for request in self._generating:
            groups.setdefault(request.key, []).append(request)
        return Batch(prefill, limit, list(groups.values()))

    def abort(self, request: Request) -> None:
        """Forget a request, wherever it is; its slot is free at once."""
        if request.status is Status.FINISHED:
            return
        request.finish_reason = FinishReason.ABORT
        if request.status is Status.WAITING:
            self.waiting.remove(request)
            request.status = Status.FINISHED
        else:
            self.release(request)

    def release(self, request: Request) -> None:
        """Free the slot of a running request that has ended."""
        assert request.slot is not None
        self.running.remove(request)
        self._free_slots.append(request.slot)
        self._free_slots.sort()  # the lowest first, so that a fresh run repeats itself
        request.slot = None
        request.status = Status.FINISHED
        request.pending.clear()
