"""Messages of one client that wait to be followed, in their order, bounded by what they weigh.

Who puts too much waits, and so does the client behind it. Of one event loop, with one who puts and
one who takes. Knows no message.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from typing import Generic, TypeVar

T = TypeVar("T")


class Backlog(Generic[T]):
    """See the module.

    Args:
        max_weight: beyond it `put` waits.

    Attributes:
        is_ended: nothing but the last message will be taken.
    """

    def __init__(self, max_weight: int) -> None:
        self._max_weight = max_weight
        self._waiting: deque[tuple[T, int]] = deque()
        self._weight = 0  # with that of the one that was taken last, which may still be followed
        self._taken = 0
        self._last: T | None = None
        self._has_news, self._has_room = asyncio.Event(), asyncio.Event()

    @property
    def is_empty(self) -> bool:
        return not self._waiting

    @property
    def is_ended(self) -> bool:
        return self._last is not None

    async def put(
        self,
        message: T,
        weight: int,
        *,
        join: Callable[[T], bool] = lambda newest: False,
    ) -> None:
        """Add a message once there is room for more.

        Args:
            join: takes the message into the newest that waits, and says whether it did.
        """
        while self._weight >= self._max_weight:
            self._has_room.clear()
            await self._has_room.wait()
        if self._waiting and join(self._waiting[-1][0]):
            newest, before = self._waiting.pop()
            self._waiting.append((newest, before + weight))
        else:
            self._waiting.append((message, weight))
        self._weight += weight
        self._has_news.set()

    async def take(self) -> T:
        """The next message; the one before has been followed."""
        self._weight -= self._taken
        self._taken = 0
        self._has_room.set()
        while not (self._waiting or self.is_ended):
            self._has_news.clear()
            await self._has_news.wait()
        if self._last is not None:
            return self._last
        message, self._taken = self._waiting.popleft()
        return message

    def drop(self, is_dropped: Callable[[T], bool]) -> list[T]:
        """Forget some of what waits; returns these."""
        dropped = [each for each, _ in self._waiting if is_dropped(each)]
        self._waiting = deque(pair for pair in self._waiting if not is_dropped(pair[0]))
        self._weight = self._taken + sum(weight for _, weight in self._waiting)
        self._has_room.set()
        return dropped

    def end(self, message: T) -> None:
        """From now on this is the next message, whatever waits; always safe."""
        self._last = message
        self._has_news.set()
