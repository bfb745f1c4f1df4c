"""A response that is made while it is sent, and ends with its client.

The status waits for the first piece, so that what goes wrong before it is a proper error. A client
that goes away, or takes too little for too long, ends the stream, and with it what it holds in the
engine. What goes wrong in the middle cuts the connection short, so that no client takes half of the
audio for the whole. It knows bytes and ASGI, not speech.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing

from starlette.responses import JSONResponse, Response
from starlette.types import Receive, Scope, Send

from voxcli.errors import OutputError, VoxError
from voxcli.server import patience
from voxcli.server.failures import explain
from voxcli.server.guard import log_let_go

logger = logging.getLogger(__name__)

Pieces = AsyncGenerator[bytes, None]


def outcome_of(error: VoxError) -> str:
    """How a request with this error ended, a word of `metrics.OUTCOMES`."""
    return "refused" if explain(error)[0] < 500 else "failed"


def error_response(error: VoxError, **extra: object) -> JSONResponse:
    """An error in OpenAI's shape; what is the server's own matter is said in its log."""
    status, body, headers = explain(error)
    if isinstance(error, OutputError):
        logger.error("%s", error)
    body["error"] |= extra
    return JSONResponse(body, status, headers)


class LiveResponse(Response):
    """See the module.

    Args:
        pieces: the body; closed when the response ends, however it ends.
        late_headers: called for further headers once the first piece was made.
        on_end: told how it ended, a word of `metrics.OUTCOMES`.
        as_error: turns an error before the first piece into a response.
    """

    def __init__(
        self,
        pieces: Pieces,
        media_type: str,
        *,
        headers: dict[str, str] | None = None,
        late_headers: Callable[[], dict[str, str]] = dict,
        on_end: Callable[[str], None] = lambda outcome: None,
        as_error: Callable[[VoxError], Response] = error_response,
    ) -> None:
        super().__init__(media_type=media_type, headers=headers)
        del self.headers["content-length"]  # of the empty body that the base class has
        self._pieces = pieces
        self._late_headers = late_headers
        self._on_end = on_end
        self._as_error = as_error
        self._outcome = "gone"
        self._patience = patience.Patience()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        sending = asyncio.create_task(self._send(scope, receive, send))
        watching = asyncio.create_task(_until_gone(receive))
        try:
            await asyncio.wait((sending, watching), return_when=asyncio.FIRST_COMPLETED)
        finally:
            try:
                for task in (sending, watching):
                    task.cancel()
                await asyncio.gather(sending, watching, return_exceptions=True)
                await self._pieces.aclose()
            finally:  # also where this is cancelled once more meanwhile
                self._on_end(self._outcome)
        if not sending.cancelled():
            sending.result()  # a bug in the pieces is the server's to log

    async def _send(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            first = await anext(self._pieces, b"")
        except VoxError as err:
            self._outcome = outcome_of(err)
            await self._as_error(err)(scope, receive, send)
            return
        self.headers.update(self._late_headers())
        start = {"type": "http.response.start", "status": 200, "headers": self.raw_headers}
        await send(start)
        try:
            await self._put(send, first)
            async for piece in self._pieces:
                await self._put(send, piece)
            await send({"type": "http.response.body", "body": b"", "more_body": False})
            self._outcome = "ok"
        except VoxError as err:  # the body stays without its end
            logger.warning("a stream was cut short: %s", err)
            self._outcome = outcome_of(err)
        except TimeoutError:
            log_let_go(scope, "took next to nothing of its speech", patience.STALLED_S)
            self._outcome = "stalled"

    async def _put(self, send: Send, piece: bytes) -> None:
        """Send what is not empty, as long as the client takes it."""
        if piece:
            message = {"type": "http.response.body", "body": piece, "more_body": True}
            await self._patience.wait_for(send(message), len(piece))


async def with_beats(pieces: Pieces, beat: bytes, every_s: float) -> Pieces:
    """The pieces, and a beat whenever none came for a while: whoever waits sees that we live."""
    async with aclosing(pieces):
        while True:
            following = asyncio.create_task(_following(pieces))
            try:
                while not (await asyncio.wait((following,), timeout=every_s))[0]:
                    yield beat
            finally:
                if not following.done():
                    following.cancel()
                    await asyncio.gather(following, return_exceptions=True)
            piece = following.result()
            if piece is None:
                return
            yield piece


async def _following(pieces: Pieces) -> bytes | None:
    return await anext(pieces, None)


async def _until_gone(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
