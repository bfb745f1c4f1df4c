"""Ctrl-C in two steps: the first asks the rows to end, the second ends the run at once."""

from __future__ import annotations

import signal
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any, Self

SIGNALS = (signal.SIGINT, signal.SIGTERM)


class Interrupt:
    """Takes SIGINT and SIGTERM inside its block; only for the main thread.

    Where no rows are in flight SIGINT's handler of before has both: nothing is to be ended.

    Args:
        on_first: told when the first one comes while rows are in flight.

    Attributes:
        is_set: whether one has come while rows were in flight.
    """

    def __init__(self, on_first: Callable[[], None]) -> None:
        self.is_set = False
        self._on_first = on_first
        self._has_rows = False
        self._before: dict[signal.Signals, Any] = {}
        self._receiver, self._sender = socket.socketpair()

    def __enter__(self) -> Self:
        for end in (self._receiver, self._sender):
            end.setblocking(False)
        fd = self._sender.fileno()
        self._wakeup_before = signal.set_wakeup_fd(fd, warn_on_full_buffer=False)
        for number in SIGNALS:
            self._before[number] = signal.signal(number, self._take)
        return self

    @contextmanager
    def rows_in_flight(self) -> Iterator[None]:
        """Inside the block the first signal asks only."""
        self._has_rows = True
        try:
            yield
        finally:
            self._has_rows = False

    def _take(self, number: int, frame: FrameType | None) -> None:
        # two that come during one long call of the engine are one call of this, and yet two bytes
        try:
            count = sum(each in SIGNALS for each in self._receiver.recv(64))
        except BlockingIOError:  # counted by the call before
            return
        if not self._has_rows:
            before = self._before[signal.SIGINT]
            (before if callable(before) else signal.default_int_handler)(number, frame)
        elif self.is_set or count > 1:
            raise KeyboardInterrupt
        else:
            self.is_set = True
            self._on_first()

    def __exit__(self, *_: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)
        signal.set_wakeup_fd(self._wakeup_before)
        self._sender.close()
        self._receiver.close()
