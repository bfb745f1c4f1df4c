"""Frames to samples: at once, or in threads beside the next steps.

On a CPU a step is many small operations that gain little from a second core, while the vocoder is
a few large ones. So it works in threads of its own, a request's chunk each, while the next patches
are generated. What somebody waits for is made at once: the first chunk of a live stream, and the
last one where nothing else runs. The steps' thread helps where the others fall behind. Samples are
the same either way: a request's chunks are made in their order, and no product depends on its
neighbours or on the number of threads. Knows no model and no schedule.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import contextmanager
from dataclasses import dataclass

import numpy as np
import torch

from voxcli.engine.request import Request
from voxcli.engine.runner import ModelRunner, Runner
from voxcli.layers import cores
from voxcli.utterance import FinishReason

WORKER_SHARE = 3  # one core in so many; the vocoder takes about a third of one stream's work


@dataclass(frozen=True)
class Ready:
    """A request's samples `[S]`, and why it ended where they are its last."""

    request: Request
    samples: np.ndarray
    finish_reason: FinishReason | None


@dataclass(frozen=True)
class _Chunk:
    """A chunk that a worker has begun or will begin.

    Attributes:
        make: makes the samples, in any thread.
        future: of `make`.
        finish_reason: set where the chunk is its request's last.
    """

    make: Callable[[], np.ndarray]
    future: Future[np.ndarray]
    finish_reason: FinishReason | None

    def result(self) -> np.ndarray:
        """The samples; made here if no worker has begun."""
        return self.make() if self.future.cancel() else self.future.result()


class Vocoding:
    """The vocoder's side of an engine.

    Args:
        runner: what makes samples of frames.
        num_threads: of steps and vocoder together; with one there is no worker.
    """

    def __init__(self, runner: Runner, num_threads: int) -> None:
        self._runner = runner
        self._in_flight: dict[Request, _Chunk] = {}  # in the order they were begun
        self._num_threads = num_threads
        self._num_workers = max(1, num_threads // WORKER_SHARE)
        self._num_unfinished = 0  # chunks that workers have begun or will begin
        self._lock = threading.Lock()
        self._pool: ThreadPoolExecutor | None = None
        if isinstance(runner, ModelRunner) and runner.device.type == "cpu" and num_threads > 1:
            self._pool = ThreadPoolExecutor(self._num_workers, "vocoder", _use_one_thread)

    @contextmanager
    def cores_shared(self) -> Iterator[None]:
        """Inside the block this thread leaves busy workers their cores, as long as they are."""
        if self._num_free() == self._num_threads:
            yield
            return
        with cores.counted_by(self._num_free):
            yield

    def _num_free(self) -> int:
        """Threads that the workers leave to the steps."""
        return self._num_threads - min(self._num_unfinished, self._num_workers)

    @contextmanager
    def at_once(self) -> Iterator[None]:
        """Inside the block nothing is made beside the steps, so that stages can be timed."""
        pool, self._pool = self._pool, None
        try:
            yield
        finally:
            self._pool = pool

    def vocode(self, due: Sequence[Request], *, is_last_work: bool) -> list[Ready]:
        """Begin or make the chunks of `due`.

        Args:
            due: requests with pending frames.
            is_last_work: nothing else is left to do.

        Returns:
            all that is ready, a request's chunks in order; with `is_last_work` at least one chunk
            if any was begun.
        """
        ready = [self._take(r) for r, chunk in list(self._in_flight.items()) if chunk.future.done()]
        now: list[Request] = []
        for request in due:
            chunk = self._in_flight.get(request)
            if chunk is None and self._can_wait(request, is_last_work):
                self._begin(request)
            elif chunk is None or is_last_work or chunk.future.cancel():
                now.append(request)  # where a chunk was cancelled the workers are behind: help
        with self.cores_shared():
            ready += [self._take(request) for request in now if request in self._in_flight]
            for request, samples in zip(now, self._runner.vocode(now), strict=True):
                ready.append(Ready(request, samples, request.finish_reason))
            if is_last_work and not ready and self._in_flight:
                ready.append(self._take(next(reversed(self._in_flight))))  # workers take it last
        return ready

    def forget(self, requests: Iterable[Request] | None = None) -> None:
        """Drop what is in flight, of all or of some; their slots may be used anew after it."""
        dropped = list(self._in_flight) if requests is None else requests
        chunks = [self._in_flight.pop(request, None) for request in dropped]
        wait([chunk.future for chunk in chunks if chunk is not None and not chunk.future.cancel()])

    def _can_wait(self, request: Request, is_last_work: bool) -> bool:
        """Whether a chunk may be made beside the next steps."""
        if self._pool is None:
            return False
        if request.finish_reason is not None:
            return not is_last_work
        return request.num_vocoded > 0 or not request.is_live

    def _begin(self, request: Request) -> None:
        assert self._pool is not None
        assert isinstance(self._runner, ModelRunner)
        make = self._runner.begin_vocoding(request)
        with self._lock:
            self._num_unfinished += 1
        future = self._pool.submit(make)
        future.add_done_callback(self._count_done)
        self._in_flight[request] = _Chunk(make, future, request.finish_reason)

    def _count_done(self, _: Future[np.ndarray]) -> None:
        with self._lock:
            self._num_unfinished -= 1

    def _take(self, request: Request) -> Ready:
        chunk = self._in_flight.pop(request)
        return Ready(request, chunk.result(), chunk.finish_reason)


def _use_one_thread() -> None:
    torch.set_num_threads(1)
    torch.get_num_threads()  # NOTE: a thread's first call takes over the newest count of all
