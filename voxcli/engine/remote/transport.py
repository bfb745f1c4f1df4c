"""HTTP to a server at a URL or behind a local socket, and what its failures mean. No speech."""

from __future__ import annotations

import http.client
import json
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import urlsplit

from voxcli.closing import Closing
from voxcli.engine.remote import wire
from voxcli.errors import (
    BusyError,
    EngineError,
    NotServedError,
    UnavailableError,
    UsageError,
    VoxError,
)

T = TypeVar("T")
Target = Path | str  # a socket or a URL

ANSWER_S = 3.0  # a server that does not say within this who it is counts as absent
SILENCE_S = 30.0  # a server that says nothing for so long, not even that it works, is gone
MAX_JSON = 1 << 20  # bytes of a description or a refusal
MAX_SHOWN = 300  # characters of what a stranger says
BUSY_S = 2.0  # until a server that is busy is asked again
_OF_THE_DOOR = (  # answered by a voxcli server, or by a proxy before one, in every version
    http.client.UNAUTHORIZED,
    http.client.FORBIDDEN,
    http.client.REQUEST_ENTITY_TOO_LARGE,
    http.client.MISDIRECTED_REQUEST,
    http.client.TOO_MANY_REQUESTS,
    http.client.INTERNAL_SERVER_ERROR,
    http.client.BAD_GATEWAY,
    http.client.SERVICE_UNAVAILABLE,
    http.client.GATEWAY_TIMEOUT,
)
_KINDS: dict[int, type[VoxError]] = {
    http.client.UNAUTHORIZED: NotServedError,
    http.client.FORBIDDEN: NotServedError,
    http.client.TOO_MANY_REQUESTS: BusyError,
    http.client.BAD_GATEWAY: UnavailableError,  # as the next two, what a proxy says in its place
    http.client.SERVICE_UNAVAILABLE: UnavailableError,
    http.client.GATEWAY_TIMEOUT: UnavailableError,
}


@dataclass(frozen=True)
class Server:
    """Where a server is and what messages call it.

    Attributes:
        name: such as "the server at http://…" or "the server (pid 12, …)".
        waits_when_busy: ask again and again while it has no room, rather than say so.
    """

    target: Target
    name: str
    api_key: str | None = None
    waits_when_busy: bool = True

    def ask(self, path: str, message: object) -> Asked:
        """Send a message; see `Asked`.

        Raises:
            UnavailableError: the server is gone.
        """
        asked = Asked(self, path, wire.pack(message))
        with self.explained():
            asked.send()
        return asked

    @contextmanager
    def explained(self) -> Iterator[None]:
        """Turn what a dead server looks like into one error."""
        try:
            yield
        except TimeoutError as err:
            raise UnavailableError(
                f"{self.name} said nothing for {SILENCE_S:g} s",
                hint="stop it with 'voxcli serve --stop', or use --engine native",
                had_begun=None,
            ) from err
        except (OSError, EOFError, http.client.HTTPException, ValueError) as err:
            raise UnavailableError(
                f"{self.name} went away while it was asked",
                hint="run the command again: without a server it loads the model itself",
                had_begun=False
                if isinstance(err, (ConnectionRefusedError, FileNotFoundError))
                else None,
            ) from err


class Asked(Closing):
    """A request; once it is sent, the server works while its sender gets ready.

    Attributes:
        has_room: whether the server has not said last that it is busy.
        is_taken: whether the server has said that it is at work on it.
    """

    def __init__(self, server: Server, path: str, body: bytes) -> None:
        self.has_room = True
        self.is_taken = False
        self._server = server
        self._request = (path, body)
        self._is_closed = threading.Event()
        self._sent: Sent | None = None

    def send(self) -> Sent:
        """Send it, unless that was done; connecting may take as long as any silence.

        Raises:
            OSError, http.client.HTTPException: see `Server.explained`.
            EOFError: it was closed meanwhile.
        """
        if self._sent is None and not self._is_closed.is_set():
            path, body = self._request
            self._sent = send(self._server.target, path, body, self._server.api_key)
        sent = self._sent
        if sent is None or self._is_closed.is_set():
            self.close()
            raise EOFError
        return sent

    def messages(self, kind: type[T]) -> Iterator[T]:
        """What the server answers, as it comes; asks again as long as it is busy.

        Raises:
            VoxError: what it answers instead, at once or in the middle.
            EOFError: the answer ends in its middle, or this was closed.
            OSError, http.client.HTTPException, ValueError: see `Server.explained`.
        """
        has_begun = False
        while True:
            sent = self.send()
            try:
                answer = sent.answer()
                check(answer, self._server.name)
                self.has_room = self.is_taken = True
                while True:
                    message = wire.read_next(kind, answer)
                    has_begun = True
                    yield message
            except UnavailableError as err:  # the server says so itself, and is in order
                err.had_begun = has_begun
                raise
            except BusyError:
                if has_begun or not self._server.waits_when_busy:
                    raise
            self.has_room = False
            sent.close()
            self._is_closed.wait(BUSY_S)
            self._sent = None

    def hang_up(self) -> None:
        """End it for the thread that reads, which closes it; always safe, from any thread."""
        self._is_closed.set()
        if (sent := self._sent) is not None:
            sent.hang_up()

    def close(self) -> None:
        self.hang_up()
        if self._sent is not None:
            self._sent.close()


class Sent(Closing):
    """A request that was sent, and its answer.

    NOTE: where an answer says that it is the connection's last ("Connection: close"), Python's
    connection forgets its socket and the answer, and would neither end nor close them.
    """

    def __init__(self, connection: http.client.HTTPConnection) -> None:
        self._connection = connection
        self._socket: socket.socket = connection.sock
        self._answer: http.client.HTTPResponse | None = None
        self._is_ended = False

    def answer(self) -> http.client.HTTPResponse:
        """Wait for the head of the answer; once.

        Raises:
            OSError, http.client.HTTPException: see `Server.explained`.
        """
        self._answer = self._connection.getresponse()
        return self._answer

    def hang_up(self) -> None:
        """End it for the thread that reads, which closes it; always safe, from any thread."""
        self._is_ended = True
        with suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)

    @contextmanager
    def ended_after(self, limit_s: float) -> Iterator[None]:
        """Hang up when the block takes longer, even if something trickles in all the time.

        Raises:
            TimeoutError: it did.
        """
        timer = threading.Timer(limit_s, self.hang_up)
        timer.daemon = True
        timer.start()
        try:
            yield
        except (OSError, EOFError, http.client.HTTPException, ValueError) as err:
            if self._is_ended:  # the answer ends wherever it was, or is reset
                raise TimeoutError(f"its answer does not end within {limit_s:g} s") from err
            raise
        finally:
            timer.cancel()

    def close(self) -> None:
        if self._answer is not None:
            self._answer.close()
        self._connection.close()


class _UnixConnection(http.client.HTTPConnection):
    def __init__(self, path: Path, timeout_s: float) -> None:
        super().__init__("localhost", timeout=timeout_s)
        self._path = path

    def connect(self) -> None:
        sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            sock.settimeout(self.timeout)
            sock.connect(str(self._path))
        except BaseException:
            sock.close()
            raise
        self.sock = sock


def send(
    target: Target,
    path: str,
    body: bytes | None,
    api_key: str | None = None,
    silence_s: float | None = None,
) -> Sent:
    """Send a request; closing it is the caller's.

    Args:
        body: sent with POST; None asks with GET.
        silence_s: longest that is waited for; None means `SILENCE_S`.
    """
    timeout_s = SILENCE_S if silence_s is None else silence_s
    headers: dict[str, str | bytes] = {"Content-Type": wire.MEDIA_TYPE, **wire.HEADERS}
    if api_key:
        headers["Authorization"] = f"Bearer {api_key}".encode()
    connection: http.client.HTTPConnection
    if isinstance(target, Path):
        connection = _UnixConnection(target, timeout_s)
    else:
        parts = urlsplit(target)
        is_secure = parts.scheme == "https"
        kind = http.client.HTTPSConnection if is_secure else http.client.HTTPConnection
        connection = kind(parts.hostname or "", parts.port, timeout=timeout_s)
        path = parts.path.rstrip("/") + path
    try:
        connection.request("GET" if body is None else "POST", path, body, headers)
    except BaseException:  # it may have connected
        connection.close()
        raise
    return Sent(connection)


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
            raise _refusal(answer, read_json(answer), name)
        return
    found = read_json(answer)
    if protocol is not None or _is_former(found):
        raise UsageError(
            f"{name} speaks {wire.spoken(answer.headers)}, this voxcli speaks {wire.PROTOCOL}: "
            f"{wire.RESTART}",
            hint="or use --engine native",
        )
    if answer.status in _OF_THE_DOOR:
        raise _refusal(answer, found, name)
    raise ValueError("it is another program")


def read_json(answer: http.client.HTTPResponse) -> dict[str, Any]:
    """What an answer says, whoever gives it; empty where that is no object, or has no end.

    Raises:
        OSError, http.client.HTTPException: it is cut.
    """
    data = answer.read(MAX_JSON)
    if len(data) == MAX_JSON:
        return {}
    if answer.length:  # `read` of so many bytes does not say so itself
        raise http.client.IncompleteRead(data, answer.length)
    try:
        found = json.loads(data)
    except (ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


def _is_former(found: dict[str, Any]) -> bool:
    """Whether this is what a server said before there were protocols with a number."""
    error = found.get("error")
    return (isinstance(error, dict) and "voxcli" in error) or {"mismatch", "setup"} <= found.keys()


def _refusal(answer: http.client.HTTPResponse, found: dict[str, Any], name: str) -> VoxError:
    """The error in the body of an answer without success."""
    try:
        error = found["error"]
        if "voxcli" in error:
            return _not_begun(wire.error_in(error["voxcli"]))
        said = str(error["message"])
    except (ValueError, KeyError, TypeError):
        said = answer.reason
    said = wire.shown(said, MAX_SHOWN)
    message, hint = f"{name} refuses it ({answer.status}: {said})", "use --engine native"
    if answer.status == http.client.UNAUTHORIZED:
        hint = f"set VOXCLI_API_KEY to the server's, or {hint}"
    kind = _KINDS.get(answer.status, EngineError)
    return _not_begun(kind(message, hint=hint))


def _not_begun(error: VoxError) -> VoxError:
    """An error that came in the place of an answer."""
    if isinstance(error, UnavailableError):
        error.had_begun = False
    return error
