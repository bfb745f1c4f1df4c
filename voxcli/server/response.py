"""A response that is made while it is sent, and ends with its client.

The status waits for the first piece, so that what goes wrong before it is a proper error. A client
that goes away, or takes nothing for `STALLED_S`, ends the stream, and with it what it holds in the
engine. What goes wrong in the middle cuts the connection short, so that no client takes half of the
audio for the whole. It knows bytes and ASGI, not speech.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, Callable

from starlette.responses import JSONResponse, Response
from starlette.types import Receive, Scope, Send

from voxcli.errors import VoxError
from voxcli.server.failures import explain
from voxcli.server.guard import log_let_go

logger = logging.getLogger(__name__)

STALLED_S = 60.0  # a client that takes nothing for so long is gone in all but name

Pieces = AsyncGenerator[bytes, None]


def error_response(error: VoxError, **extra: object) -> JSONResponse:
    """An error in OpenAI's shape."""
    status, body, headers = explain(error)
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

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        sending = asyncio.create_task(self._send(scope, receive, send))
        watching = asyncio.create_task(_until_gone(receive))
        try:
            await asyncio.wait((sending, watching), return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in (sending, watching):
                task.cancel()
            await asyncio.gather(sending, watching, return_exceptions=True)
            await self._pieces.aclose()
            self._on_end(self._outcome)
        if not sending.cancelled():
            sending.result()  # a bug in the pieces is the server's to log

    async def _send(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            first = await anext(self._pieces, b"")
        except VoxError as err:
            response = self._as_error(err)
            self._outcome = "refused" if response.status_code < 500 else "failed"
            await response(scope, receive, send)
            return
        self.headers.update(self._late_headers())
        start = {"type": "http.response.start", "status": 200, "headers": self.raw_headers}
        await send(start)
        try:
            await _put(send, first)
            async for piece in self._pieces:
                await _put(send, piece)
            await send({"type": "http.response.body", "body": b"", "more_body": False})
            self._outcome = "ok"
        except VoxError as err:  # the body stays without its end
            logger.warning("a stream was cut short: %s", err)
            self._outcome = "failed"
        except TimeoutError:
            log_let_go(scope, "took nothing of its speech", STALLED_S)
            self._outcome = "stalled"


async def _put(send: Send, piece: bytes) -> None:
    if piece:
        async with asyncio.timeout(STALLED_S):
            await send({"type": "http.response.body", "body": piece, "more_body": True})


async def _until_gone(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
