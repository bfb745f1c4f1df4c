"""Frames to samples: at once, or in threads beside the next steps.

On a CPU a step is many small operations that gain little from a second core, while the vocoder is
a few large ones. So it works in threads of its own, on chunks of a few requests at once, while the
next frames are generated. What somebody waits for is made at once: the first chunk of a live
stream, and the last one where nothing else runs. The steps' thread helps where the others fall
behind. Samples are the same either way: a request's chunks are made in their order, and no product
depends on its neighbours or on the number of threads. Knows no model and no schedule.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import contextmanager
from dataclasses import dataclass

import numpy as np

from voxcli.engine.native.request import Request
from voxcli.engine.native.running import EagerRunner, Runner, equal_groups
from voxcli.layers import cores
from voxcli.utterance import FinishReason

WORKER_SHARE = 3  # one core in so many; the vocoder takes about a third of one stream's work
MAX_TOGETHER = 4  # chunks of a worker at once, which read the largest weights but once


@dataclass(frozen=True)
class Ready:
    """A request's samples `[S]`, and why it ended where they are its last."""

    request: Request
    samples: np.ndarray
    finish_reason: FinishReason | None


class _Work:
    """Chunks that a worker makes, one of each of a few requests.

    Args:
        pool: of the workers.
        make: makes the samples of all, in any thread.
        on_end: called once, when the future of them is done or cancelled.
    """

    def __init__(
        self,
        pool: ThreadPoolExecutor,
        make: Callable[[], list[np.ndarray]],
        on_end: Callable[[Future[list[np.ndarray]]], None],
    ) -> None:
        self._make = make
        self.future = pool.submit(make)
        self.future.add_done_callback(on_end)

    def finish(self) -> None:
        """Wait for it; it is made here if no worker has begun."""
        if self.future.cancel():
            self.future = Future()
            try:
                self.future.set_result(self._make())
            except Exception as err:
                self.future.set_exception(err)
        wait([self.future])

    def samples(self) -> list[np.ndarray]:
        """Of each request, once it is finished.

        Raises:
            RuntimeError, MemoryError: as the vocoder did.
        """
        self.finish()
        return self.future.result()


@dataclass(frozen=True)
class _Chunk:
    """A request's share of a worker's work.

    Attributes:
        index: of the request in it.
        finish_reason: set where the chunk is its request's last.
    """

    work: _Work
    index: int
    finish_reason: FinishReason | None


class Vocoding:
    """The vocoder's side of an engine.

    Args:
        runner: what makes samples of frames.
        num_threads: of steps and vocoder together; with one there is no worker.

    Attributes:
        in_flight: chunks that workers have begun or will begin, in this order.
    """

    def __init__(self, runner: Runner, num_threads: int) -> None:
        self._runner = runner
        self.in_flight: dict[Request, _Chunk] = {}
        self._num_threads = num_threads
        self._num_workers = max(1, num_threads // WORKER_SHARE)
        self._num_unfinished = 0  # works that workers have begun or will begin
        self._lock = threading.Lock()
        self._pool: ThreadPoolExecutor | None = None
        if isinstance(runner, EagerRunner) and runner.works_beside and num_threads > 1:
            self._pool = ThreadPoolExecutor(self._num_workers, "vocoder", cores.use_one_thread)

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
        begun = list(self.in_flight.items())
        ready = [self._take(request) for request, chunk in begun if chunk.work.future.done()]
        later: list[Request] = []
        now: list[Request] = []
        for request in due:
            chunk = self.in_flight.get(request)
            if chunk is None and self._can_wait(request, is_last_work):
                later.append(request)
            elif chunk is None or is_last_work or chunk.work.future.cancel():
                now.append(request)  # where a chunk was cancelled the workers are behind: help
        for group in _groups(later):
            self._begin(group)
        with self.cores_shared():
            ready += [self._take(request) for request in now if request in self.in_flight]
            for request, samples in zip(now, self._runner.vocode(now), strict=True):
                ready.append(Ready(request, samples, request.finish_reason))
            if is_last_work and not ready and self.in_flight:
                ready.append(self._take(next(reversed(self.in_flight))))  # workers take it last
        return ready

    def forget(self, requests: Iterable[Request] | None = None) -> None:
        """Drop what is in flight, of all or of some; their slots may be used anew after it."""
        dropped = list(self.in_flight) if requests is None else requests
        chunks = [self.in_flight.pop(request, None) for request in dropped]
        others = {chunk.work for chunk in self.in_flight.values()}
        for work in {chunk.work for chunk in chunks if chunk is not None}:
            if work in others:  # to be made, but not in a slot that somebody has by then
                work.finish()
            elif not work.future.cancel():
                wait([work.future])

    def _can_wait(self, request: Request, is_last_work: bool) -> bool:
        """Whether a chunk may be made beside the next steps."""
        if self._pool is None or not request.pending:
            return False
        if request.finish_reason is not None:
            return not is_last_work
        return request.num_vocoded > 0 or not request.is_live

    def _begin(self, requests: list[Request]) -> None:
        assert self._pool is not None
        assert isinstance(self._runner, EagerRunner)
        make = self._runner.begin_vocoding(requests)
        with self._lock:
            self._num_unfinished += 1
        work = _Work(self._pool, make, self._count_done)
        for index, request in enumerate(requests):
            self.in_flight[request] = _Chunk(work, index, request.finish_reason)

    def _count_done(self, _: Future[list[np.ndarray]]) -> None:
        with self._lock:
            self._num_unfinished -= 1

    def _take(self, request: Request) -> Ready:
        chunk = self.in_flight.pop(request)
        return Ready(request, chunk.work.samples()[chunk.index], chunk.finish_reason)


def _groups(requests: Sequence[Request]) -> list[list[Request]]:
    """Requests whose chunks are made together: as long, and nobody listens."""
    live = [[request] for request in requests if request.is_live]
    others = [request for request in requests if not request.is_live]
    return live + equal_groups(others, lambda _: MAX_TOGETHER)
