"""How long a client is waited for that takes little of what it asked for. Knows no protocol."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable

STALLED_S = 60.0  # a client that takes nothing for so long is gone in all but name
MIN_RATE = 1000  # bytes a second: who takes less is waited for STALLED_S in all; a third of opus


class Patience:
    """Waiting for a client takes from the patience with it, and what it takes gives some back."""

    def __init__(self) -> None:
        self._left_s = STALLED_S

    async def wait_for(self, sending: Awaitable[None], num_bytes: int) -> None:
        """Until so many bytes have left.

        Raises:
            TimeoutError: there is no patience left.
        """
        loop = asyncio.get_running_loop()
        began_s = loop.time()
        async with asyncio.timeout(self._left_s):
            await sending
        earned_s = num_bytes / MIN_RATE
        self._left_s = min(STALLED_S, self._left_s - (loop.time() - began_s) + earned_s)
