"""HTTP to a server at a URL or behind a local socket, and what its failures mean. No speech."""

from __future__ import annotations

import http.client
import json
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from urllib.parse import urlsplit

from voxcli.errors import EngineError, UnavailableError, VoxError
from voxcli.engine.remote import wire

Target = Path | str  # a socket or a URL


class Explained:
    """Turns what a dead server looks like into one error."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __enter__(self) -> None: ...

    def __exit__(self, kind: object, err: BaseException | None, trace: object) -> None:
        if isinstance(err, (OSError, EOFError, http.client.HTTPException, ValueError)):
            raise UnavailableError(
                f"the server ({self._name}) went away while it was asked",
                hint="run the command again: without a server it loads the model itself",
            ) from err


class _UnixConnection(http.client.HTTPConnection):
    def __init__(self, path: Path, timeout_s: float | None) -> None:
        super().__init__("localhost", timeout=timeout_s)
        self._path = path

    def connect(self) -> None:
        sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            sock.settimeout(self.timeout)
            sock.connect(str(self._path))
        except OSError:
            sock.close()
            raise
        self.sock = sock


def ask(
    target: Target,
    path: str,
    body: bytes | None,
    api_key: str | None = None,
    timeout_s: float | None = None,
) -> http.client.HTTPConnection:
    """Send a request; the answer is its `getresponse`, and closing it the caller's.

    Args:
        body: sent with POST; None asks with GET.
        timeout_s: longest silence; None waits for ever.
    """
    headers = {"Content-Type": wire.MEDIA_TYPE}
    if api_key:
        headers["Authorization"] = f"Bearer {api_key}"
    connection: http.client.HTTPConnection
    if isinstance(target, Path):
        connection = _UnixConnection(target, timeout_s)
    else:
        parts = urlsplit(target)
        is_secure = parts.scheme == "https"
        kind = http.client.HTTPSConnection if is_secure else http.client.HTTPConnection
        connection = kind(parts.hostname or "", parts.port, timeout=timeout_s)
        path = parts.path.rstrip("/") + path
    connection.request("GET" if body is None else "POST", path, body, headers)
    return connection


@contextmanager
def ended_after(connection: http.client.HTTPConnection, limit_s: float) -> Iterator[None]:
    """End the connection when the block takes longer, even if something trickles in all the time.

    What is being read then ends before its end: an `HTTPException` or `OSError`.
    """

    def end() -> None:
        if connection.sock is not None:
            with suppress(OSError):
                connection.sock.shutdown(socket.SHUT_RDWR)

    timer = threading.Timer(limit_s, end)
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()


def refusal(answer: http.client.HTTPResponse) -> VoxError:
    """The error in the body of an answer without success."""
    hint = "use --server off"
    if answer.status == http.client.UNAUTHORIZED:
        hint = f"set VOXCLI_API_KEY to the server's, or {hint}"
    try:
        error = json.loads(answer.read())["error"]
        if "voxcli" in error:
            return wire.error_in(error["voxcli"])
        message = str(error["message"])
    except (ValueError, KeyError, TypeError):
        message = f"the server answered {answer.status} {answer.reason}"
    return EngineError(message, hint=hint)
