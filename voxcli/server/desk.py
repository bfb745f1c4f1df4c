"""Work for a few threads beside the event loop, and no more of it than can be expected to be done.

    desk = Desk("uploads", 1, max_waiting=8)
    row = await desk.run(lambda: read(path))

Knows no HTTP and no speech.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any, TypeVar

from voxcli.errors import BusyError
from voxcli.server.threads import DaemonThreads
from voxcli.server.worker import RETRY_AFTER_S

T = TypeVar("T")


class Desk:
    """See the module.

    Args:
        what: is worked on, in a message.
        max_waiting: beyond those that are worked on.

    Attributes:
        num_open: that wait or are worked on, also for nobody who is still there.
    """

    def __init__(self, what: str, num_threads: int, *, max_waiting: int) -> None:
        self._what = what
        self._most = num_threads + max_waiting
        self._threads = DaemonThreads(num_threads, what)
        self._lock = threading.Lock()
        self.num_open = 0

    async def run(self, work: Callable[[], T]) -> T:
        """What the work returns or raises.

        Raises:
            BusyError: too much of it waits.
        """
        with self._lock:
            if self.num_open >= self._most:
                raise BusyError(
                    f"{self.num_open} {self._what} wait", hint=f"try again in {RETRY_AFTER_S} s"
                )
            self.num_open += 1
        try:
            future = self._threads.submit(work)
        except BaseException:  # the system has no thread left
            self._count()
            raise
        future.add_done_callback(self._count)
        return await asyncio.wrap_future(future)

    def _count(self, _: Future[Any] | None = None) -> None:
        with self._lock:
            self.num_open -= 1
