"""A few daemon threads that work through calls.

Those of `ThreadPoolExecutor` are waited for when the process ends, and one that is stuck in a file
or a program would keep it from ending. Knows no speech.
"""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import TypeVar

T = TypeVar("T")


class DaemonThreads:
    """Calls in the order they came, by `num_threads` threads, which begin with the first call."""

    def __init__(self, num_threads: int, name: str) -> None:
        self._calls: queue.SimpleQueue[Callable[[], None] | None] = queue.SimpleQueue()
        self._num_threads, self._name = num_threads, name
        self._threads: list[threading.Thread] = []

    def submit(self, function: Callable[[], T]) -> Future[T]:
        """What the function returns or raises.

        Raises:
            RuntimeError: the system has no thread for it.
        """
        future: Future[T] = Future()

        def call() -> None:
            if not future.set_running_or_notify_cancel():
                return
            try:
                future.set_result(function())
            except BaseException as err:  # the caller's to raise
                future.set_exception(err)

        if len(self._threads) < self._num_threads:
            thread = threading.Thread(target=self._work, name=self._name, daemon=True)
            try:
                thread.start()
            except RuntimeError:  # the system has no more of them
                if not self._threads:
                    raise
            else:
                self._threads.append(thread)
        self._calls.put(call)
        return future

    def end(self) -> None:
        """Let the threads end after the calls that were submitted; waits for none of them."""
        for _ in self._threads:
            self._calls.put(None)

    def _work(self) -> None:
        while (call := self._calls.get()) is not None:
            call()
            del call  # with all that it holds, while this waits for the next
