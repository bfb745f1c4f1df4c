"""Ctrl-C in two steps: the first asks the run to end, the second ends it at once."""

from __future__ import annotations

import signal
from collections.abc import Callable
from types import FrameType
from typing import Any, Self


class Interrupt:
    """Takes SIGINT and SIGTERM inside its block; only for the main thread.

    Args:
        on_first: told when the first one comes.

    Attributes:
        is_set: whether one has come.
    """

    def __init__(self, on_first: Callable[[], None]) -> None:
        self.is_set = False
        self._on_first = on_first
        self._before: dict[signal.Signals, Any] = {}

    def __enter__(self) -> Self:
        for number in (signal.SIGINT, signal.SIGTERM):
            self._before[number] = signal.signal(number, self._take)
        return self

    def _take(self, number: int, frame: FrameType | None) -> None:
        if self.is_set:
            raise KeyboardInterrupt
        self.is_set = True
        self._on_first()

    def __exit__(self, *_: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)
