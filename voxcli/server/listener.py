"""One client's end of a job: a queue with a byte bound between the engine's thread and asyncio.

A client that reads slowly makes its own queue grow and nobody else's. At the bound its speech is
paused: no further segment of it begins, so it holds no slot of the engine while others speak; it
goes on when the client has read.

It knows jobs and chunks; it does not know HTTP or formats.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from copy import copy

from voxcli.engine.base import Speech
from voxcli.errors import VoxError
from voxcli.plan import Plan
from voxcli.server.worker import EngineWorker, Job
from voxcli.utterance import AudioChunk

QUEUE_BYTES = 4 << 20  # 44 s of 24 kHz audio; segments in flight still come on top


class Listener:
    """Chunks of one utterance for one client; leaving the block frees its slot at once.

        listener = Listener(worker)
        async with listener.speaking(plan, is_live=True):
            async for chunk in listener:
                ...

    NOTE: the block alone asks for the speech: speech that nobody takes is paused, and would hold
    its place for ever.

    Attributes:
        ttfa_s: from asking to the first chunk; None before.
        audio_s: seconds of audio that the engine delivered so far.
        underrun_s: how long a player that began at the first chunk would have been without samples.
    """

    def __init__(self, worker: EngineWorker) -> None:
        self._worker = worker
        self._loop = asyncio.get_running_loop()
        self._job: Job | None = None
        self._chunks: deque[AudioChunk] = deque()
        self._num_bytes = 0
        self._error: VoxError | None = None
        self._has_news = asyncio.Event()
        self._started = time.perf_counter()
        self._first_s: float | None = None
        self._ended_s: float | None = None
        self.audio_s = 0.0
        self.underrun_s = 0.0
        self.num_pauses = 0

    @asynccontextmanager
    async def speaking(self, plan: Plan, *, is_live: bool) -> AsyncIterator[None]:
        """Ask for the utterance, and let go of it at the end of the block.

        Raises:
            BusyError, UnavailableError: the worker takes nothing now.
        """
        job = Job(plan, is_live, self._deliver)
        self._started = time.perf_counter()
        self._worker.submit(job)
        self._job = job
        try:
            yield
        finally:
            self._chunks.clear()
            if self._ended_s is None:
                self._worker.cancel(job)

    @property
    def job(self) -> Job:
        assert self._job is not None
        return self._job

    @property
    def speech(self) -> Speech:
        """Its reports are whole once the last chunk was taken."""
        assert self.job.speech is not None
        return self.job.speech

    @property
    def ttfa_s(self) -> float | None:
        return None if self._first_s is None else self._first_s - self._started

    @property
    def wall_s(self) -> float | None:
        return None if self._ended_s is None else self._ended_s - self._started

    # ------------------------------------------------------------ the engine's side

    def _deliver(self, event: AudioChunk | VoxError) -> None:
        try:
            self._loop.call_soon_threadsafe(self._put, event, time.perf_counter())
        except RuntimeError:  # the loop has ended: nobody is left to hear it
            pass

    def _put(self, event: AudioChunk | VoxError, now: float) -> None:
        if isinstance(event, VoxError):
            self._error, self._ended_s = event, now
        else:
            self._count(event, now)
            self._chunks.append(event)
            self._num_bytes += event.samples.nbytes
            if self._num_bytes > QUEUE_BYTES and not self.job.is_paused and not event.is_last:
                self.num_pauses += 1
                self._worker.pause(self.job)
        self._has_news.set()

    def _count(self, chunk: AudioChunk, now: float) -> None:
        if self._first_s is None and len(chunk.samples):
            self._first_s = now
        if self._first_s is not None:
            lack_s = now - self._first_s - self.audio_s - self.underrun_s
            if self.audio_s and lack_s > 0:
                self.underrun_s += lack_s
        self.audio_s += len(chunk.samples) / chunk.sample_rate
        if chunk.is_last:
            self._ended_s = now

    # ------------------------------------------------------------ the client's side

    def __aiter__(self) -> AsyncIterator[AudioChunk]:
        return self._take()

    async def _take(self) -> AsyncIterator[AudioChunk]:
        while True:
            while not self._chunks:
                if self._error is not None:
                    # NOTE: a copy, because a fault's error is every stream's: by the traceback of
                    # each raise it would keep all their frames for as long as the worker lives.
                    raise copy(self._error)
                self._has_news.clear()
                await self._has_news.wait()
            chunk = self._chunks.popleft()
            self._num_bytes -= chunk.samples.nbytes
            if self.job.is_paused and self._num_bytes < QUEUE_BYTES // 2:
                self._worker.resume(self.job)
            yield chunk
            if chunk.is_last:
                return
