"""HTTP to a server at a URL or behind a local socket, and what its failures mean. No speech."""

from __future__ import annotations

import http.client
import json
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from voxcli.closing import Closing
from voxcli.engine.remote import wire
from voxcli.errors import EngineError, UnavailableError, UsageError, VoxError

Target = Path | str  # a socket or a URL


@dataclass(frozen=True)
class Server:
    """Where a server is and what messages call it.

    Attributes:
        name: such as "the server at http://…" or "the server (pid 12, …)".
    """

    target: Target
    name: str
    api_key: str | None = None

    def ask(self, path: str, message: object, *, timeout_s: float | None = None) -> Asked:
        """Send a message; see `Asked`.

        Raises:
            UnavailableError: the server is gone.
        """
        with self.explained():
            return Asked(self, path, wire.pack(message), timeout_s)

    @contextmanager
    def explained(self) -> Iterator[None]:
        """Turn what a dead server looks like into one error."""
        try:
            yield
        except (OSError, EOFError, http.client.HTTPException, ValueError) as err:
            raise UnavailableError(
                f"{self.name} went away while it was asked",
                hint="run the command again: without a server it loads the model itself",
            ) from err


class Asked(Closing):
    """A request that was sent; the server works while its sender gets ready.

    Args:
        timeout_s: longest silence; None waits for ever.
    """

    def __init__(self, server: Server, path: str, body: bytes, timeout_s: float | None) -> None:
        self._server = server
        self._request = (path, body, timeout_s)
        self._is_closed = False
        self._connection = self._send()

    def _send(self) -> http.client.HTTPConnection:
        path, body, timeout_s = self._request
        return send(self._server.target, path, body, self._server.api_key, timeout_s)

    def answer(self) -> http.client.HTTPResponse:
        """The answer; asks again as long as the server is busy.

        Raises:
            VoxError: what an answer without success says.
            EOFError: it was closed meanwhile.
        """
        while not self._is_closed:
            answer = self._connection.getresponse()
            if answer.status != http.client.TOO_MANY_REQUESTS:
                check(answer, self._server.name)
                return answer
            self._connection.close()
            time.sleep(float(answer.headers.get("Retry-After", 1)))
            self._connection = self._send()
        raise EOFError

    def hang_up(self) -> None:
        """End it for the thread that reads, which closes it; always safe, from any thread."""
        self._is_closed = True
        _shut(self._connection)

    def close(self) -> None:
        self.hang_up()
        self._connection.close()


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


def send(
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
    headers = {"Content-Type": wire.MEDIA_TYPE, **wire.HEADERS}
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
    timer = threading.Timer(limit_s, _shut, (connection,))
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()


def _shut(connection: http.client.HTTPConnection) -> None:
    if connection.sock is not None:
        with suppress(OSError):
            connection.sock.shutdown(socket.SHUT_RDWR)


# ---------------------------------------------------------------- what an answer means


def check(answer: http.client.HTTPResponse, name: str) -> None:
    """Raise what an answer says that is no success, or of another protocol.

    Args:
        name: what a message calls the server.

    Raises:
        UsageError: a voxcli server of another version.
        VoxError: the server's own error.
        ValueError: a success of another program.
    """
    protocol = answer.headers.get(wire.PROTOCOL_HEADER)
    if protocol == str(wire.PROTOCOL):
        if answer.status != http.client.OK:
            raise _refusal(answer, _json(answer))
        return
    found = _json(answer)
    if protocol is not None or _is_former(found):
        raise UsageError(
            f"{name} speaks {wire.spoken(answer.headers)}, this voxcli speaks {wire.PROTOCOL}: "
            f"{wire.RESTART}",
            hint="or use --engine native",
        )
    if answer.status != http.client.OK:  # of the door that is before every version
        raise _refusal(answer, found)
    raise ValueError("it is another program")


def _json(answer: http.client.HTTPResponse) -> dict[str, Any]:
    try:
        found = json.loads(answer.read())
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}


def _is_former(found: dict[str, Any]) -> bool:
    """Whether this is what a server said before there were protocols with a number."""
    error = found.get("error")
    return (isinstance(error, dict) and "voxcli" in error) or {"mismatch", "setup"} <= found.keys()


def _refusal(answer: http.client.HTTPResponse, found: dict[str, Any]) -> VoxError:
    """The error in the body of an answer without success."""
    hint = "use --engine native"
    if answer.status == http.client.UNAUTHORIZED:
        hint = f"set VOXCLI_API_KEY to the server's, or {hint}"
    try:
        error = found["error"]
        if "voxcli" in error:
            return wire.error_in(error["voxcli"])
        message = str(error["message"])
    except (ValueError, KeyError, TypeError):
        message = f"the server answered {answer.status} {answer.reason}"
    return EngineError(message, hint=hint)
