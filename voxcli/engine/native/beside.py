"""One call in a thread of its own, which no end of the process waits for."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Generic, TypeVar

T = TypeVar("T")


class Beside(Generic[T]):
    """A call that is made at once, beside what its caller does meanwhile."""

    def __init__(self, call: Callable[[], T]) -> None:
        self._call = call
        self._found: T | None = None
        self._error: BaseException | None = None
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        try:
            self._found = self._call()
        except BaseException as err:
            self._error = err

    def wait(self) -> None:
        """Until it has ended, well or not."""
        self._thread.join()

    def result(self) -> T:
        """What it returned, or raises what it raised; waits for it."""
        self.wait()
        if self._error is not None:
            raise self._error
        return self._found  # type: ignore[return-value]
