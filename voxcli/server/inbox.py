"""What a client of Wyoming sends: events read ahead, bounded in size and number.

The package reads events; here it cannot be made to read without end. Knows no speech.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Coroutine
from contextlib import asynccontextmanager
from typing import Any, TypeGuard, cast

from wyoming.event import Event, async_read_event
from wyoming.tts import SynthesizeChunk

from voxcli.errors import UsageError
from voxcli.server.schema import MAX_CHARACTERS

MAX_EVENT_BYTES = 1 << 20  # of each of its parts
MAX_WAITING = 64  # events that are not yet answered


class Inbox:
    """The events of a client, in order.

    A client that closes its side, be it half, has gone.
    """

    def __init__(self, reader: asyncio.StreamReader) -> None:
        self._reader = _BoundedReader(reader)
        self._events: deque[Event] = deque()
        self._has_news = asyncio.Event()
        self._reading: asyncio.Task[None] | None = None

    @asynccontextmanager
    async def open(self) -> AsyncIterator[None]:
        """Read ahead within the block."""
        self._reading = asyncio.create_task(self._read())
        try:
            yield
        finally:
            self._reading.cancel()
            await asyncio.gather(self._reading, return_exceptions=True)

    async def next(self, silence_s: float) -> Event | None:
        """The next event; None where the client has gone.

        Raises:
            TimeoutError: none came for so long.
            UsageError: what came is none, or too much.
        """
        assert self._reading is not None
        async with asyncio.timeout(silence_s):
            while not self._events:
                if self._reading.done():
                    self._reading.result()
                    return None
                self._has_news.clear()
                await self._has_news.wait()
        return self._events.popleft()

    async def while_open(self, work: Coroutine[Any, Any, None]) -> None:
        """Do something that is for nobody once the client has gone.

        Raises:
            ConnectionError: it has.
            UsageError: as `next`.
        """
        assert self._reading is not None
        working = asyncio.create_task(work)
        try:
            await asyncio.wait((working, self._reading), return_when=asyncio.FIRST_COMPLETED)
        finally:
            is_done = working.done()
            working.cancel()
            await asyncio.gather(working, return_exceptions=True)
        if not is_done:
            self._reading.result()
            raise ConnectionResetError("the client has gone")
        working.result()

    async def _read(self) -> None:
        try:
            while event := await self._reader.event():
                self._keep(event)
                self._has_news.set()
                await asyncio.sleep(0)  # what came at once is not read at once: others wait too
        finally:
            self._has_news.set()

    def _keep(self, event: Event) -> None:
        """Pieces of a text that wait are one piece."""
        last = self._events[-1] if self._events else None
        is_piece = SynthesizeChunk.is_type(event.type)
        if last is not None and is_piece and SynthesizeChunk.is_type(last.type):
            event = SynthesizeChunk(text_of(last) + text_of(event)).event()
            self._events.pop()
        if is_piece:
            check_length(len(text_of(event)))
        if len(self._events) >= MAX_WAITING:
            raise UsageError(f"{MAX_WAITING} events wait for their answers")
        self._events.append(event)


def text_of(event: Event) -> str:
    """The text in an event.

    Raises:
        UsageError: it has none.
    """
    text = event.data.get("text")
    if not is_text(text):
        raise UsageError(f"'{event.type}' has no text")
    return text


def is_text(value: object) -> TypeGuard[str]:
    """Whether it is a string, and one that can be said again: JSON may have half a surrogate pair
    in it."""
    try:
        return isinstance(value, str) and value.encode() is not None
    except UnicodeEncodeError:
        return False


def check_length(num_characters: int) -> None:
    """Raise UsageError for more than a request over HTTP may have."""
    if num_characters > MAX_CHARACTERS:
        raise UsageError(f"the text has more than {MAX_CHARACTERS:,} characters")


class _BoundedReader:
    """What the package needs of a stream, with a bound on each part."""

    def __init__(self, reader: asyncio.StreamReader) -> None:
        self._reader = reader
        self._is_begun = False

    async def event(self) -> Event | None:
        """The next event; None at the end."""
        self._is_begun = False
        try:
            event = await async_read_event(cast(asyncio.StreamReader, self))
        except (AttributeError, KeyError, TypeError, RecursionError) as err:  # JSON of another kind
            raise _no_event() from err
        except asyncio.IncompleteReadError as err:
            raise ConnectionResetError("the client went in the middle of an event") from err
        if event is None and self._is_begun:
            raise _no_event()
        if event is not None and not (isinstance(event.type, str) and isinstance(event.data, dict)):
            raise _no_event()
        return event

    async def readline(self) -> bytes:
        try:
            line = await self._reader.readline()
        except ValueError as err:
            raise _too_large() from err
        self._is_begun = line.endswith(b"\n")
        return line if self._is_begun else b""

    async def readexactly(self, num_bytes: int) -> bytes:
        if num_bytes > MAX_EVENT_BYTES:
            raise _too_large()
        return await self._reader.readexactly(num_bytes)


def _no_event() -> UsageError:
    return UsageError("this is no event of Wyoming: a line of JSON, its data and its payload")


def _too_large() -> UsageError:
    return UsageError(f"an event has more than {MAX_EVENT_BYTES:,} bytes")
