"""Who may ask, and how much: checked before any route sees the request.

A key where one is set. Of web pages, only those of this very server and of origins that were
allowed: a foreign page can reach a loopback port too, by its own origin or by a name that it points
here, so without a key only names of loopback are served. The local socket needs none of this: its
folder and the peer's user are checked. Bodies are bounded in size and time, and the large ones in
number.
"""

from __future__ import annotations

import asyncio
import hmac
import logging
from urllib.parse import SplitResult, urlsplit

from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from voxcli.engine.remote import wire
from voxcli.errors import BusyError
from voxcli.server.failures import error_body, explain
from voxcli.server.limits import ANY_ORIGIN
from voxcli.server.worker import RETRY_AFTER_S

logger = logging.getLogger(__name__)

UNIX_PEER = "unix"  # host of a client on the local socket; nobody on TCP can have it
TEXT_BYTES = 1 << 20
UPLOAD_BYTES = 64 << 20  # ten minutes of 48 kHz stereo; on disk beyond a megabyte
CONFIG_BYTES = 4 << 20  # of a message of a WebSocket, which may have a recording in it
KEY_PROTOCOL = "openai-insecure-api-key."
MESSAGE_BYTES = 16 << 20  # of another command: a minute of 48 kHz float32 and its encodings
MAX_LARGE = 8  # bodies beyond TEXT_BYTES at once: each is in memory until it was understood
UNDERSTOOD = "voxcli.understood"  # of a scope: to be called
MAX_SHOWN = 200  # characters of what a client sent, in a message to it
BODY_SILENCE_S = 30.0  # a body that brings nothing for so long has been given up
MIN_RATE = 50_000  # bytes a second of a body in all, after the first BODY_SILENCE_S


class Guard:
    """ASGI middleware; see the module.

    Args:
        api_key: asked for under /v1 and /metrics; None asks for nothing.
        hosts: names that a request may be addressed to; empty means any.
        origins: of pages elsewhere that may use the server; `limits.ANY_ORIGIN` is all of them.
    """

    def __init__(
        self,
        app: ASGIApp,
        api_key: str | None,
        hosts: tuple[str, ...],
        origins: tuple[str, ...] = (),
    ) -> None:
        self._app = app
        self._api_key = api_key
        self._hosts = hosts
        self._origins = origins
        self._num_large = 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] not in ("http", "websocket"):
            await self._app(scope, receive, send)
            return
        headers = {
            key.decode("latin-1"): value.decode("latin-1") for key, value in scope["headers"]
        }
        refusal = self._refuse(scope, headers) or _refuse_length(headers, scope["path"])
        if refusal is not None:
            await refusal(scope, receive, send)
        elif scope["type"] == "websocket":
            await self._app(scope, receive, send)
        elif _length(headers) <= TEXT_BYTES:
            await self._app(scope, _bounded(scope, receive, TEXT_BYTES), send)
        elif self._num_large >= MAX_LARGE:
            await _busy(scope, receive, send)
        else:
            await self._with_large(scope, _bounded(scope, receive, _length(headers)), send)

    async def _with_large(self, scope: Scope, receive: Receive, send: Send) -> None:
        """The application, counted until it has understood the body, or answers."""
        self._num_large += 1
        is_counted = True

        def end() -> None:
            nonlocal is_counted
            self._num_large -= is_counted
            is_counted = False

        async def answer(message: Message) -> None:
            end()
            await send(message)

        try:
            await self._app({**scope, UNDERSTOOD: end}, receive, answer)
        finally:
            end()

    def _refuse(self, scope: Scope, headers: dict[str, str]) -> JSONResponse | None:
        if is_near(scope):
            return None
        name = headers.get("host", "")
        host = _parsed(f"//{name}")
        if self._hosts and (host is None or host.hostname not in self._hosts):
            what = f"the host '{name[:MAX_SHOWN]}' is not served without a key"
            way = "start the server with VOXCLI_API_KEY, and send that key"
            return _refusal(403, f"{what}: {way}", "host")
        origin = headers.get("origin")
        page = _parsed(origin) if origin is not None else None
        is_ours = page is not None and host is not None and page.netloc == host.netloc
        is_allowed = ANY_ORIGIN in self._origins or origin in self._origins
        if origin is not None and not (is_ours or is_allowed):
            origin = origin[:MAX_SHOWN]
            what = f"pages of {origin} may not use this server"
            way = f"; start it with --allow-origin {origin}" if page and page.hostname else ""
            return _refusal(403, f"{what}{way}", "origin")
        path = scope["path"]
        if self._api_key and (path.startswith("/v1/") or path == "/metrics"):
            scheme, _, given = headers.get("authorization", _in_protocols(scope)).partition(" ")
            is_bearer = scheme.lower() == "bearer"
            key = given.strip().encode("latin-1")  # the bytes that were sent; the key is UTF-8
            if not is_bearer or not hmac.compare_digest(key, self._api_key.encode()):
                what = "wrong" if is_bearer and given else "missing"
                return _refusal(401, f"the API key is {what}", "invalid_api_key")
        return None


def _in_protocols(scope: Scope) -> str:
    """The key as a page gives it, which can set no header of a WebSocket; as OpenAI's takes it."""
    for protocol in scope.get("subprotocols", ()):
        if protocol.startswith(KEY_PROTOCOL):
            return f"Bearer {protocol.removeprefix(KEY_PROTOCOL)}"
    return ""


def understood(scope: Scope) -> None:
    """Say that the body of a request is in memory no more, though its answer is still to come."""
    scope.get(UNDERSTOOD, lambda: None)()


def is_near(scope: Scope) -> bool:
    """Whether the client is a command of this user on this machine."""
    return bool(scope["client"]) and scope["client"][0] == UNIX_PEER


def _parsed(url: str) -> SplitResult | None:
    try:
        return urlsplit(url)
    except ValueError:
        return None


def _refusal(status: int, message: str, code: str) -> JSONResponse:
    kind = "authentication_error" if status == 401 else "invalid_request_error"
    headers = {"WWW-Authenticate": "Bearer"} if status == 401 else {}
    return JSONResponse(error_body(message, kind, None, code), status, headers)


async def _busy(scope: Scope, receive: Receive, send: Send) -> None:
    error = BusyError(
        f"{MAX_LARGE} recordings are being uploaded", hint=f"try again in {RETRY_AFTER_S} s"
    )
    status, body, headers = explain(error)
    await JSONResponse(body, status, headers)(scope, receive, send)


def _body_limit(path: str, headers: dict[str, str]) -> int:
    is_form = headers.get("content-type", "").lower().startswith("multipart/")
    if path == "/v1/audio/speech" or (is_form and path.startswith("/v1/audio/voices")):
        return UPLOAD_BYTES  # else there is no place for a recording
    return MESSAGE_BYTES if path in wire.WITH_AUDIO else TEXT_BYTES


def _length(headers: dict[str, str]) -> int:
    """Of the body as its client states it; 0 where it does not."""
    length = headers.get("content-length", "")
    return int(length) if length.isdecimal() else 0


def _refuse_length(headers: dict[str, str], path: str) -> JSONResponse | None:
    length, limit = _length(headers), _body_limit(path, headers)
    if length > limit:
        return _refusal(413, f"the body has {length:,} bytes, {limit:,} are allowed", "too_large")
    return None


def log_let_go(scope: Scope, what: str, silence_s: float) -> None:
    """A line about a client that was waited for in vain.

    Args:
        what: it did not do in all this time.
    """
    host, port = scope["client"] or ("unknown", 0)
    client = "a command on this machine" if host == UNIX_PEER else f"{host}:{port}"
    path = scope["raw_path"][:MAX_SHOWN].decode("ascii", "replace")
    logger.warning(
        "%s was cut off: it %s for %g s (%s %s)",
        client,
        what,
        silence_s,
        scope.get("method", "WS"),
        path,
    )


def _bounded(scope: Scope, receive: Receive, limit: int) -> Receive:
    """A body without end, without news or without pace ends as if its client had gone.

    Args:
        limit: bytes; a body that does not state its length gets no more than TEXT_BYTES.
    """
    loop = asyncio.get_running_loop()
    began_s = loop.time()
    num_bytes, is_whole = 0, False

    async def bounded() -> Message:
        nonlocal num_bytes, is_whole
        if is_whole:  # what is still to come is only that the client goes
            return await receive()
        now_s = loop.time()
        last_s = began_s + BODY_SILENCE_S + num_bytes / MIN_RATE
        try:
            async with asyncio.timeout_at(min(now_s + BODY_SILENCE_S, last_s)):
                message = await receive()
        except TimeoutError:
            log_let_go(scope, "sent next to nothing of its body", round(loop.time() - began_s, 1))
            return {"type": "http.disconnect"}
        is_whole = not message.get("more_body", False)
        num_bytes += len(message.get("body", b""))
        if num_bytes > limit:
            return {"type": "http.disconnect"}
        return message

    return bounded
