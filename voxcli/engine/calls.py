"""Segments that another program is asked for, each in a call of its own on one event loop.

An engine says how a call is made (`speak`); what a speech is made of, how it is checked, tried
again and put in order is the same as everywhere (`engine/speech.py`).
"""

from __future__ import annotations

import asyncio
import logging
import queue
import threading
import time
from collections.abc import AsyncIterator, Callable, Coroutine
from concurrent.futures import Future
from contextlib import aclosing
from dataclasses import dataclass
from functools import cache
from typing import Any, Protocol, TypeVar

import numpy as np

from voxcli.closing import Closing
from voxcli.engine.base import Event, Speech
from voxcli.engine.news import NewsSession
from voxcli.engine.session import SegmentedSession
from voxcli.engine.speech import SegmentedSpeech
from voxcli.errors import EngineError, UnavailableError, VoxError
from voxcli.plan import Plan
from voxcli.utterance import FinishReason

logger = logging.getLogger(__name__)

T = TypeVar("T")

CLOSE_S = 5.0  # that calls in flight may take to end when the loop is closed


@dataclass(eq=False)
class SegmentCall:
    """One attempt at one segment.

    Attributes:
        plan: of the whole utterance: voice, style, recordings, parameters.
        text: of the segment, as the model gets it.
        seed: of all that is random in it.
        max_frames: it is stopped there, with reason LENGTH.
        is_live: somebody listens.
        step: frames made so far.
    """

    plan: Plan
    text: str
    seed: int
    max_frames: int
    is_live: bool
    step: int = 0


@dataclass(frozen=True)
class Piece:
    """What a call brings.

    Attributes:
        samples: float32 `[S]`, mono, new ones only, at the engine's rate.
        num_frames: made for them; 0 where it is not known.
        reason: why the segment ended, with the last piece.
    """

    samples: np.ndarray
    num_frames: int = 0
    reason: FinishReason | None = None


class Speak(Protocol):
    """How a call is made: pieces as they come, the last with a reason. Cancelled, it ends the work
    elsewhere too.

    Raises:
        EngineFaultError: who speaks is gone, and the segment with it.
        BusyError: there is no room now.
        VoxError: the segment alone cannot be spoken.
    """

    def __call__(self, call: SegmentCall) -> AsyncIterator[Piece]: ...


@cache
def shared_loop() -> LoopThread:
    """The loop of all servers that this process asks; it ends with the process."""
    return LoopThread("servers")


class LoopThread(Closing):
    """An event loop in a daemon thread of its own."""

    def __init__(self, name: str) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._live, name=name, daemon=True)
        self._thread.start()
        self._lock = threading.Lock()
        self._is_closed = False
        self._futures: set[Future[Any]] = set()

    def start(self, work: Coroutine[Any, Any, T]) -> Future[T]:
        """Have a coroutine run; its future may be cancelled from any thread.

        Raises:
            RuntimeError: the loop is closed.
        """
        with self._lock:
            if self._is_closed:
                work.close()
                raise RuntimeError("the loop is closed")
            future = asyncio.run_coroutine_threadsafe(work, self._loop)
            self._futures.add(future)
        future.add_done_callback(self._futures.discard)
        return future

    def run(self, work: Coroutine[Any, Any, T], timeout_s: float | None = None) -> T:
        """The result of a coroutine; waits for it.

        Raises:
            TimeoutError: it took longer; it is cancelled.
            concurrent.futures.CancelledError: the loop was closed.
            RuntimeError: it was closed before.
        """
        future = self.start(work)
        try:
            return future.result(timeout_s)
        finally:
            future.cancel()

    def close(self) -> None:
        """Cancel what runs and end the thread; always safe, from any thread but its own."""
        with self._lock:  # what was started before is among what is cancelled
            if not self._is_closed:
                asyncio.run_coroutine_threadsafe(_cancel_all(), self._loop)
            self._is_closed = True
        self._thread.join(CLOSE_S)
        for future in tuple(self._futures):  # of work that does not heed it
            future.cancel()

    def _live(self) -> None:
        self._loop.run_forever()
        self._loop.close()


async def _cancel_all() -> None:
    loop = asyncio.get_running_loop()
    tasks = [task for task in asyncio.all_tasks() if task is not asyncio.current_task()]
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    await loop.shutdown_asyncgens()
    loop.call_soon(loop.stop)


class CalledSpeech(SegmentedSpeech[SegmentCall]):
    """One utterance as calls; see the base."""

    def _make_request(self, text: str, seed: int, max_frames: int) -> SegmentCall:
        return SegmentCall(self.plan, text, seed, max_frames, self.is_live)


class CallSession(SegmentedSession[SegmentCall], NewsSession):
    """Speeches side by side, their segments as calls on one loop.

    Args:
        loop: where calls run.
        speak: how one is made.
        start: a plan to a speech; keywords `is_live`, `started_s`.
        max_calls: in flight at once.
        num_reserved: of them, for the first segments of speeches alone.
    """

    def __init__(
        self,
        loop: LoopThread,
        speak: Speak,
        start: Callable[..., CalledSpeech],
        max_calls: int,
        *,
        num_reserved: int = 0,
    ) -> None:
        SegmentedSession.__init__(self, num_reserved=num_reserved)
        NewsSession.__init__(self)
        self._loop = loop
        self._speak = speak
        self._start = start
        self._max_calls = max_calls
        self._running: dict[SegmentCall, Future[None]] = {}
        self._news: queue.SimpleQueue[tuple[SegmentCall, Piece | VoxError]] = queue.SimpleQueue()

    def _speech_of(self, plan: Plan, *, is_live: bool) -> CalledSpeech:
        return self._start(plan, is_live=is_live, started_s=time.perf_counter())

    def add(self, plan: Plan, *, is_live: bool = True) -> Speech:
        """See the base; it is begun by the next `poll`, which the bell asks for."""
        speech = super().add(plan, is_live=is_live)
        self.bell.set()
        return speech

    def limit(self, num_at_once: int) -> None:
        self._max_calls = num_at_once

    def resume(self, speech: Speech) -> None:
        super().resume(speech)
        self.bell.set()

    def poll(self) -> list[Event]:
        events = self._submit()
        while not self._news.empty():
            call, news = self._news.get()
            owner = self._owners.get(call)
            if owner is None:
                continue
            if isinstance(news, VoxError):
                events.append(self._fail(owner, news))
                continue
            call.step += news.num_frames
            events += self._take(call, news.samples, news.reason)
        self._drop_done()
        return events + self._submit()

    def _num_free(self) -> int:
        return self._max_calls - len(self._running)

    def _begin(self, request: SegmentCall) -> None:
        self._running[request] = self._loop.start(self._run(request))

    def _end(self, request: SegmentCall) -> None:
        running = self._running.pop(request, None)
        if running is not None:
            running.cancel()

    def close(self) -> None:
        super().close()
        self.bell.set()  # who waits for news waits for nothing more

    async def _run(self, call: SegmentCall) -> None:
        """Make one call and bring what it brings."""
        try:
            async with aclosing(self._speak(call)) as pieces:  # type: ignore[type-var]
                async for piece in pieces:
                    self._tell(call, piece)
                    if piece.reason is not None:
                        return
            self._tell(call, UnavailableError("the speech ended early"))
        except VoxError as err:
            self._tell(call, err)
        except Exception as err:
            logger.exception("a call failed")
            self._tell(call, EngineError(f"the call failed: {type(err).__name__}: {err}"))

    def _tell(self, call: SegmentCall, news: Piece | VoxError) -> None:
        self._news.put((call, news))
        self.bell.set()
