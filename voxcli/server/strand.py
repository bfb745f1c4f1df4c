"""Calls in a thread of their own, one after the other, for what one thread alone may use.

    async with Strand(file.close) as strand:
        await strand.call(file.write, samples)

A caller that is cancelled does not end the call that runs: a codec may be in the middle of a block.
So nobody else closes what the calls use: that is the strand's last call, after all others, in the
same thread. Knows no audio and no HTTP.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial
from typing import ParamSpec, Self, TypeVar

from voxcli.server.threads import DaemonThreads

P = ParamSpec("P")
T = TypeVar("T")


class Strand:
    """See the module.

    Args:
        close: the last call; leaving the block waits for it.
        is_light: call in the event loop: what takes less time than to wake a thread.
    """

    def __init__(self, close: Callable[[], None], *, is_light: bool = False) -> None:
        self._close = close
        self._thread = None if is_light else DaemonThreads(1, "strand")

    async def call(self, function: Callable[P, T], *args: P.args, **given: P.kwargs) -> T:
        """What the function returns or raises."""
        if self._thread is None:
            return function(*args, **given)
        return await asyncio.wrap_future(self._thread.submit(partial(function, *args, **given)))

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        if self._thread is None:
            self._close()
            return
        ended = self._thread.submit(self._close)
        self._thread.end()
        await asyncio.shield(asyncio.wrap_future(ended))
