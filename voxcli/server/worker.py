"""The thread that owns the engine: jobs come in through a lock, chunks leave through callbacks.

    worker = EngineWorker(open_engine("native", config), WorkerLimits(), on_state=print)
    worker.start()
    worker.submit(Job(plan, is_live=True, deliver=take))

It knows any `SpeechEngine`, plans and speeches; it does not know HTTP, asyncio, formats or clients.
Callbacks run in its thread and must return at once.
"""

from __future__ import annotations

import logging
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, TypeVar

from voxcli.engine.base import Speech, SpeechEngine, SpeechSession
from voxcli.errors import (
    BusyError,
    EngineError,
    EngineFaultError,
    UnavailableError,
    VoxError,
)
from voxcli.plan import Plan
from voxcli.server.limits import WorkerLimits
from voxcli.utterance import AudioChunk

logger = logging.getLogger(__name__)

T = TypeVar("T")

LOADING_S = 30.0  # longest wait for a model that loads: ending inside torch aborts the process
RETRY_AFTER_S = 2  # what a refused client is told to wait: about one short sentence


class State(StrEnum):
    """How the engine is; `/health` shows the word."""

    LOADING = "loading"
    READY = "ready"
    STOPPING = "stopping"
    FAILED = "failed"
    STOPPED = "stopped"


@dataclass(eq=False)
class Job:
    """One utterance on its way through the worker.

    Attributes:
        deliver: gets every chunk in order, or the error that ended it; from the worker's thread.
        speech: the running utterance, once it has begun; its reports are whole after the last
            chunk.
    """

    plan: Plan
    is_live: bool
    deliver: Callable[[AudioChunk | VoxError], None]
    speech: Speech | None = None
    is_paused: bool = False
    is_over: bool = field(default=False, repr=False)


class EngineWorker:
    """See the module.

    Args:
        engine: found, not started: that is done in the worker's thread, like all that touches the
            device. Closed at the end.
        limits: beyond them `submit` refuses.
        on_state: told each new state, from the worker's thread.
    """

    def __init__(
        self,
        engine: SpeechEngine,
        limits: WorkerLimits,
        *,
        on_state: Callable[[State], None] = lambda state: None,
    ) -> None:
        self.limits = limits
        self.state = State.LOADING
        self.error: VoxError | None = None
        self.engine = engine
        self._is_started = False
        self.on_state = on_state
        self._watchers: list[Callable[[State], None]] = []
        self._changed = threading.Condition()
        self._session: SpeechSession | None = None
        self._waiting: deque[Job] = deque()
        self._running: dict[Speech, Job] = {}
        self._orders: deque[Callable[[SpeechSession], None]] = deque()
        self._calls: set[Future[Any]] = set()  # that are among the orders
        self._thread = threading.Thread(target=self._run, name="engine", daemon=True)

    # ------------------------------------------------------------ from any thread

    @property
    def num_running(self) -> int:
        return len(self._running)

    @property
    def jobs(self) -> list[Job]:
        """What is being spoken now."""
        return list(self._running.values())

    @property
    def num_waiting(self) -> int:
        return len(self._waiting)

    def start(self) -> None:
        self._thread.start()

    @contextmanager
    def watched(self, watcher: Callable[[State], None]) -> Iterator[None]:
        """Tell of each new state, as to `on_state`, until the block ends."""
        with self._changed:
            self._watchers.append(watcher)
        try:
            yield
        finally:
            with self._changed:
                self._watchers.remove(watcher)

    def check_ready(self) -> None:
        """Raise UnavailableError while it is loading, when it is stopping or has failed, and while
        who speaks is gone for a moment."""
        if self.state is State.LOADING:
            raise UnavailableError("the model is still loading", hint="try again in a moment")
        if self.state is not State.READY:
            raise UnavailableError(
                f"the server is {self.state}", hint="try again when it has been restarted"
            )
        self.engine.check_up()

    @property
    def condition(self) -> State:
        """The state as clients see it: whose engine is gone for a moment is loading again."""
        if self.state is State.READY:
            try:
                self.engine.check_up()
            except UnavailableError:
                return State.LOADING
        return self.state

    def check_open(self) -> None:
        """Refuse what `submit` would refuse, without a job.

        Raises:
            UnavailableError: as `check_ready`.
            BusyError: the queue is full.
        """
        self.check_ready()
        limits = self.limits
        if self.num_running + self.num_waiting >= limits.max_streams + limits.max_queue:
            raise BusyError(
                f"{self.num_running} texts are being spoken and {self.num_waiting} wait",
                hint=f"try again in {RETRY_AFTER_S} s, or start the server with more --max-streams",
            )

    def submit(self, job: Job) -> None:
        """Queue a job.

        Raises:
            BusyError, UnavailableError: as `check_open`.
        """
        with self._changed:
            self.check_open()
            self._waiting.append(job)
            self._wake()

    def call(self, function: Callable[[SpeechEngine], T]) -> Future[T]:
        """Do something with the engine between two steps; those who listen wait for it.

        Raises:
            UnavailableError: as `check_ready`; later, in the future, what the function raises, or
                that the engine's thread ended before.
        """
        future: Future[T] = Future()

        def order(session: SpeechSession) -> None:
            self._calls.discard(future)
            if not future.set_running_or_notify_cancel():  # nobody waits for it any more
                return
            try:
                future.set_result(function(self.engine))
            except Exception as err:
                future.set_exception(err)

        with self._changed:
            self.check_ready()
            self._calls.add(future)
            self._orders.append(order)
            self._wake()
        return future

    def cancel(self, job: Job) -> None:
        """Forget a job, wherever it is; nothing more is delivered. Always safe."""
        with self._changed:
            job.is_over = True
            if job in self._waiting:
                self._waiting.remove(job)
            else:
                self._orders.append(lambda session: self._leave(session, job))
            self._wake()

    def pause(self, job: Job) -> None:
        """Begin no further segment of it."""
        self._set_paused(job, True)

    def resume(self, job: Job) -> None:
        self._set_paused(job, False)

    def _set_paused(self, job: Job, is_paused: bool) -> None:
        def order(session: SpeechSession) -> None:
            if job.speech is not None:
                (session.pause if is_paused else session.resume)(job.speech)

        with self._changed:
            job.is_paused = is_paused
            self._orders.append(order)
            self._wake()

    def fail(self, error: VoxError) -> None:
        """End as if the engine had failed."""

        def order(session: SpeechSession) -> None:
            raise error

        with self._changed:
            self._orders.append(order)
            self._wake()

    def drain(self) -> None:
        """Take nothing new and fail what waits; what runs goes on."""
        with self._changed:
            if self.state in (State.READY, State.LOADING):
                self._set_state(State.STOPPING)
            waiting, self._waiting = self._waiting, deque()
            self._wake()
        self._fail(waiting, UnavailableError("the server is stopping", hint="try another server"))

    def stop(self, timeout_s: float = 5.0) -> int:
        """Abort what still runs and end the thread.

        Returns:
            how many utterances were aborted.
        """
        self.drain()
        jobs = self.jobs
        self._fail(jobs, UnavailableError("the server stopped", hint="start it and ask again"))
        for job in jobs:
            self.cancel(job)
        with self._changed:
            self._set_state(State.FAILED if self.error else State.STOPPED)
            self._wake()
        if not self._is_started:
            self.engine.close()  # one that waits for others to start need not go on
        if self._thread.is_alive():
            self._thread.join(timeout_s if self._is_started else LOADING_S)
        return len(jobs)

    def _wake(self) -> None:
        """Have the worker's thread look at what has changed, whatever it waits for."""
        self._changed.notify()
        if self._session is not None:
            self._session.wake()

    # ------------------------------------------------------------ in the worker's thread

    def _set_state(self, state: State) -> None:
        if state is not self.state:
            self.state = state
            self.on_state(state)
            for watcher in self._watchers:
                watcher(state)

    def _run(self) -> None:
        try:
            with self.engine:
                self.engine.start()
                self._is_started = True
                with self._changed:
                    if self.state is State.LOADING:
                        self._set_state(State.READY)
                    elif self.state is State.STOPPED:
                        return
                num_reserved = 1 + self.limits.max_streams // 8
                with self.engine.session(num_reserved=num_reserved) as session:
                    self._session = session
                    while self._take_orders(session):
                        self._step(session)
        except VoxError as err:
            self._broken(err)
        except Exception as err:  # a bug: said once in the log, and nobody is left waiting
            logger.exception("the engine's thread failed")
            kind = EngineFaultError if self._is_started else EngineError
            self._broken(kind(f"the engine failed: {err}", hint="see the server's log"))
        finally:
            self._end_calls()

    def _broken(self, error: VoxError) -> None:
        with self._changed:
            self.error = error
            self._set_state(State.FAILED)
            jobs = [*self._running.values(), *self._waiting]
            self._running.clear()
            self._waiting.clear()
        self._fail(jobs, error)

    def _end_calls(self) -> None:
        with self._changed:
            calls, self._calls = self._calls, set()
        for future in calls:
            if future.set_running_or_notify_cancel():
                future.set_exception(self.error or UnavailableError("the server stopped"))

    def _take_orders(self, session: SpeechSession) -> bool:
        """Do what other threads asked for; waits while there is nothing to step. False ends."""
        while True:
            with self._changed:
                while not (self._orders or self._can_begin() or session.has_work):
                    if self.state in (State.STOPPED, State.FAILED):
                        return False
                    self._changed.wait()
                orders, self._orders = self._orders, deque()
                begun: list[Job] = []
                while self._can_begin(len(begun)):
                    begun.append(self._waiting.popleft())
            for order in orders:
                order(session)
            for job in begun:
                self._begin(session, job)
            if session.has_work:
                return True

    def _can_begin(self, num_begun: int = 0) -> bool:
        """Whether one more may begin; who is paused, because its client does not read, waits for
        nobody and keeps nobody waiting."""
        num_spoken = sum(not job.is_paused for job in self._running.values()) + num_begun
        return bool(self._waiting) and num_spoken < self.limits.max_streams

    def _begin(self, session: SpeechSession, job: Job) -> None:
        try:
            job.speech = session.add(job.plan, is_live=job.is_live)
        except VoxError as err:
            self._deliver(job, err)
            return
        except Exception as err:  # a bug, met before the device was: it ends this job alone
            logger.exception("a job could not begin")
            self._deliver(job, EngineError(f"the server failed: {err}", hint="see its log"))
            return
        self._running[job.speech] = job
        if job.is_paused:
            session.pause(job.speech)
        if job.is_over:  # cancelled between the queue and here
            self._leave(session, job)

    def _leave(self, session: SpeechSession, job: Job) -> None:
        if job.speech is not None:
            session.leave(job.speech)
            self._running.pop(job.speech, None)

    def _step(self, session: SpeechSession) -> None:
        for speech, event in session.step():
            job = self._running[speech]
            if isinstance(event, VoxError) or event.is_last:
                del self._running[speech]
            self._deliver(job, event)

    def _deliver(self, job: Job, event: AudioChunk | VoxError) -> None:
        if job.is_over:
            return
        job.is_over = isinstance(event, VoxError) or event.is_last
        job.deliver(event)

    def _fail(self, jobs: Iterable[Job], error: VoxError) -> None:
        for job in jobs:
            self._deliver(job, error)
