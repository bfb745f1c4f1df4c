"""One server of a fleet: its engine, once it has answered, and whether it is still the same."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterable
from concurrent.futures import Future
from dataclasses import replace
from itertools import count
from typing import TypeVar

from voxcli.engine.base import EngineFacts
from voxcli.engine.fleet.dispatcher import BACKOFF_S, MAX_BACKOFF_S, Server
from voxcli.engine.news import NewsEngine
from voxcli.errors import BusyError, EngineError, VoxError
from voxcli.parameters import Values

logger = logging.getLogger(__name__)

ROOM_S = 300.0  # that a server may have no room for a question, or servers for any row

T = TypeVar("T")


def beside(work: Callable[[], T]) -> Future[T]:
    """Work in a daemon thread of its own: one that hangs delays no end of the process."""
    future: Future[T] = Future()

    def run() -> None:
        try:
            future.set_result(work())
        except BaseException as err:
            future.set_exception(err)

    threading.Thread(target=run, daemon=True).start()
    return future


class Member:
    """See the module. `look` may be called from any thread.

    Args:
        server: what the dispatcher knows of it.
        open: finds out who is there; raises EngineError where nobody answers, another VoxError
            where somebody does who is no help.

    Attributes:
        engine: None before it has answered for the first time.
        checksum: of its model, once it has.
    """

    def __init__(self, server: Server, open: Callable[[], NewsEngine]) -> None:
        self.server = server
        self.engine: NewsEngine | None = None
        self.checksum = ""
        self._open = open
        self._wanted: tuple[Values, ...] = ()
        self._lock = threading.Lock()
        self._opening: Future[None] | None = None
        self._is_closed = threading.Event()

    def opening(self) -> Future[None]:
        """Find out who is there, beside the caller; one that is under way is not begun again.

        The future's errors: EngineError, nobody answers; another VoxError, somebody does who is no
        help.
        """
        with self._lock:
            if self._opening is None or (self.engine is None and self._opening.done()):
                self._opening = beside(self._take)
            return self._opening

    def connect(self) -> NewsEngine:
        """The engine of a server that has answered."""
        assert self.engine is not None, self.server.name
        return self.engine

    def start(self, wanted: Iterable[Values]) -> None:
        """Ask for parameters now, if it has answered, and of whoever answers later.

        Raises:
            VoxError: see `SpeechEngine.start`.
        """
        self._wanted = tuple(wanted)
        if self.engine is not None:
            self.engine.start(self._wanted)

    def _take(self) -> None:
        engine, self.checksum = self._find()
        with self._lock:
            if self._is_closed.is_set():
                engine.close()
            self.engine = engine
        streams = engine.facts.max_streams
        self.server.cap.limit_to(streams, is_stated=engine.states_streams)

    def _find(self) -> tuple[NewsEngine, str]:
        """Who is there, and the checksum of its model; one without room is asked again."""
        give_up_s = time.monotonic() + ROOM_S
        for num in count():
            try:
                engine = self._open()
                break
            except BusyError as err:
                wait_s = err.retry_after_s or BACKOFF_S * 2.0 ** min(num, 16)
                is_over = time.monotonic() > give_up_s
                if is_over or self._is_closed.wait(min(wait_s, MAX_BACKOFF_S)):
                    raise
        try:
            engine.start(self._wanted)
            return engine, engine.model_checksum()
        except BaseException:
            engine.close()
            raise

    def look(self, expected: EngineFacts, checksum: str) -> str | None:
        """Whether it is up, and speaks what the fleet speaks.

        Returns:
            None when it does; else why not, empty where it is merely down.
        """
        try:
            if self.engine is None:
                self.opening().result()
            elif self.server.num_asked_in_vain or self.server.is_unsure:  # a new one may be there
                found, its_checksum = self._find()
                found.close()
                return why_other(found.facts, its_checksum, expected, checksum)
            elif not self.engine.is_up():
                return ""
            return why_other(self.connect().facts, self.checksum, expected, checksum)
        except EngineError as err:
            logger.info("%s is down: %s", self.server.name, err)
            return ""
        except VoxError as err:
            return err.message

    def close(self) -> None:
        """Always safe; who answers later is closed too."""
        with self._lock:
            self._is_closed.set()
            if self.engine is not None:
                self.engine.close()


def why_other(
    facts: EngineFacts, checksum: str, expected: EngineFacts, expected_checksum: str
) -> str | None:
    """Why an engine with these facts, and files with this checksum, does not match those that
    are expected; None if it can."""
    facts = replace(facts, name=expected.name, max_streams=expected.max_streams)
    if facts != expected:
        names = [name for name in vars(expected) if getattr(facts, name) != getattr(expected, name)]
        words = ", ".join(name.replace("_", " ") for name in names)
        return f"it differs from the others in: {words}"
    if checksum != expected_checksum:
        return f"its files of {expected.model} are different"
    return None
