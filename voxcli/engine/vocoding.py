"""Frames to samples: at once, or in a thread beside the next steps.

On a CPU a step is many small operations that gain little from a second core, while the vocoder is
a few large ones. So it works in a thread of its own while the next patches are generated. First
and last chunks are made at once. Samples are the same either way: a request's chunks are made in
their order, and no product depends on the number of threads. Knows no model and no schedule.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass

import numpy as np
import torch

from voxcli.engine.request import Request
from voxcli.engine.runner import ModelRunner, Runner
from voxcli.utterance import FinishReason

WORKER_SHARE = 3  # one core in so many; the vocoder takes about a third of the work


@dataclass(frozen=True)
class Ready:
    """A request's samples `[S]`, and why it ended where they are its last."""

    request: Request
    samples: np.ndarray
    finish_reason: FinishReason | None


@dataclass(frozen=True)
class _Chunk:
    requests: Sequence[Request]
    samples: Future[list[np.ndarray]]


class Vocoding:
    """The vocoder's side of an engine.

    Args:
        runner: what makes samples of frames.
        num_threads: of steps and vocoder together; with one there is no worker.
    """

    def __init__(self, runner: Runner, num_threads: int) -> None:
        self._runner = runner
        self._in_flight: deque[_Chunk] = deque()
        self._num_threads = num_threads
        self._num_worker_threads = max(1, self._num_threads // WORKER_SHARE)
        self._worker: ThreadPoolExecutor | None = None
        if _is_on_cpu(runner) and self._num_threads > 1:
            self._worker = ThreadPoolExecutor(
                1, "vocoder", _use_threads, (self._num_worker_threads,)
            )

    @contextmanager
    def cores_shared(self) -> Iterator[None]:
        """Inside the block this thread leaves the worker its cores, if the worker is busy."""
        if not self._in_flight or self._in_flight[-1].samples.done():
            yield
            return
        torch.set_num_threads(self._num_threads - self._num_worker_threads)
        try:
            yield
        finally:
            torch.set_num_threads(self._num_threads)

    @contextmanager
    def at_once(self) -> Iterator[None]:
        """Inside the block nothing is made beside the steps, so that stages can be timed."""
        worker, self._worker = self._worker, None
        try:
            yield
        finally:
            self._worker = worker

    def vocode(self, due: Sequence[Request]) -> list[Ready]:
        """Begin or make the chunks of `due`; returns all that are ready, in order."""
        can_wait = all(r.num_vocoded and r.finish_reason is None for r in due)
        if due and can_wait and self._worker is not None:
            assert isinstance(self._runner, ModelRunner)
            make = self._runner.begin_vocoding(due)
            self._in_flight.append(_Chunk(due, self._worker.submit(make)))
            return self._collect(0)
        ready = self._collect(self._num_before(due))
        with self.cores_shared():
            made = self._runner.vocode(due)
        for request, samples in zip(due, made, strict=True):
            ready.append(Ready(request, samples, request.finish_reason))
        return ready

    def settle(self) -> None:
        """Wait until nothing is computed, so that slots may be used anew."""
        for chunk in self._in_flight:
            chunk.samples.exception()

    def forget(self) -> None:
        """Drop what is in flight, after a failure."""
        self.settle()
        self._in_flight.clear()

    def _num_before(self, due: Sequence[Request]) -> int:
        """How many chunks in flight have to be done before the next ones of `due` are made."""
        places = [
            place
            for place, chunk in enumerate(self._in_flight, start=1)
            if any(request in chunk.requests for request in due)
        ]
        return max(places, default=0)

    def _collect(self, num_awaited: int) -> list[Ready]:
        """Take what is done, and wait for the first `num_awaited` chunks."""
        ready: list[Ready] = []
        while self._in_flight and (num_awaited > 0 or self._in_flight[0].samples.done()):
            chunk = self._in_flight.popleft()
            num_awaited -= 1
            for request, samples in zip(chunk.requests, chunk.samples.result(), strict=True):
                if request.finish_reason is not FinishReason.ABORT:
                    ready.append(Ready(request, samples, None))  # a last chunk is never in flight
        return ready


def _is_on_cpu(runner: Runner) -> bool:
    return isinstance(runner, ModelRunner) and runner.device.type == "cpu"


def _use_threads(count: int) -> None:
    torch.set_num_threads(count)
    torch.get_num_threads()  # NOTE: a thread's first call takes over the newest count of all
