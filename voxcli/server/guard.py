"""Who may ask, and how much: checked before any route sees the request.

A key where one is set; on loopback without a key, only pages of this very server (a foreign web
page can reach a loopback port too, by its own origin or by a name that it points here). The local
socket needs none of this: its folder and the peer's user are checked. Bodies are bounded.
"""

from __future__ import annotations

import asyncio
import hmac
import logging
from urllib.parse import SplitResult, urlsplit

from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from voxcli.engine.remote import wire
from voxcli.server.failures import error_body

logger = logging.getLogger(__name__)

UNIX_PEER = "unix"  # host of a client on the local socket; nobody on TCP can have it
TEXT_BYTES = 1 << 20
REFERENCE_BYTES = 64 << 20  # ten minutes of 48 kHz stereo
MAX_SHOWN = 200  # characters of what a client sent, in a message to it
BODY_SILENCE_S = 30.0  # a body that brings nothing for so long has been given up


class Guard:
    """ASGI middleware; see the module.

    Args:
        api_key: asked for under /v1 and /metrics; None asks for nothing.
        hosts: names that a request may be addressed to; empty means any.
    """

    def __init__(self, app: ASGIApp, api_key: str | None, hosts: tuple[str, ...]) -> None:
        self._app = app
        self._api_key = api_key
        self._hosts = hosts

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        headers = {
            key.decode("latin-1"): value.decode("latin-1") for key, value in scope["headers"]
        }
        refusal = self._refuse(scope, headers)
        if refusal is None:
            limit = _body_limit(scope["path"])
            refusal = _refuse_length(headers, limit)
            receive = _bounded(scope, receive, limit)
        await (refusal or self._app)(scope, receive, send)

    def _refuse(self, scope: Scope, headers: dict[str, str]) -> JSONResponse | None:
        if scope["client"] and scope["client"][0] == UNIX_PEER:
            return None
        name = headers.get("host", "")
        host = _parsed(f"//{name}")
        if self._hosts and (host is None or host.hostname not in self._hosts):
            return _refusal(403, f"the host '{name[:MAX_SHOWN]}' is not served here", "host")
        origin = headers.get("origin")
        page = _parsed(origin) if origin is not None else None
        if origin is not None and (page is None or host is None or page.netloc != host.netloc):
            origin = origin[:MAX_SHOWN]
            return _refusal(403, f"pages of {origin} may not use this server", "origin")
        path = scope["path"]
        if self._api_key and (path.startswith("/v1/") or path == "/metrics"):
            given = headers.get("authorization", "").removeprefix("Bearer ").encode("latin-1")
            if not hmac.compare_digest(given, self._api_key.encode()):
                what = "wrong" if given else "missing"
                return _refusal(401, f"the API key is {what}", "invalid_api_key")
        return None


def _parsed(url: str) -> SplitResult | None:
    try:
        return urlsplit(url)
    except ValueError:
        return None


def _refusal(status: int, message: str, code: str) -> JSONResponse:
    kind = "authentication_error" if status == 401 else "invalid_request_error"
    headers = {"WWW-Authenticate": "Bearer"} if status == 401 else {}
    return JSONResponse(error_body(message, kind, None, code), status, headers)


def _body_limit(path: str) -> int:
    has_audio = path.startswith("/v1/audio/voices") or path in (wire.PATH_PLAN, wire.PATH_SPEECH)
    return REFERENCE_BYTES if has_audio else TEXT_BYTES


def _refuse_length(headers: dict[str, str], limit: int) -> JSONResponse | None:
    length = headers.get("content-length", "0")
    if length.isdecimal() and int(length) > limit:
        return _refusal(
            413, f"the body has {int(length):,} bytes, {limit:,} are allowed", "too_large"
        )
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
        "%s was let go: it %s for %g s (%s %s)", client, what, silence_s, scope["method"], path
    )


def _bounded(scope: Scope, receive: Receive, limit: int) -> Receive:
    """A body without end or without news ends as if its client had gone."""
    num_bytes, is_whole = 0, False

    async def bounded() -> Message:
        nonlocal num_bytes, is_whole
        if is_whole:  # what is still to come is only that the client goes
            return await receive()
        try:
            async with asyncio.timeout(BODY_SILENCE_S):
                message = await receive()
        except TimeoutError:
            log_let_go(scope, "sent nothing more of its body", BODY_SILENCE_S)
            return {"type": "http.disconnect"}
        is_whole = not message.get("more_body", False)
        num_bytes += len(message.get("body", b""))
        if num_bytes > limit:
            return {"type": "http.disconnect"}
        return message

    return bounded
