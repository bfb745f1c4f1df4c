"""What a server is reached by: its TCP sockets, and the place with the socket of other commands.

It outlives the process that opened it: a fresh one takes over the same open sockets, so that who
asks in between waits a moment and is not turned away. Knows no engine and no HTTP application.
"""

from __future__ import annotations

import errno
import os
import socket
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Self

from voxcli.closing import Closing
from voxcli.engine.remote.find import health_at
from voxcli.engine.remote.place import Hold, Place
from voxcli.errors import OutputError, UsageError, reason_of
from voxcli.server.limits import Listening

BACKLOG = 256
WHO_S = 1.0  # in which whoever has the port says what it is


@dataclass(frozen=True)
class Door(Closing):
    """See the module.

    Attributes:
        host: as it was given, for the URL.
        tcp, unix: listening, at least one of them; the second is in the place that `hold` holds.
        wyoming: listening for clients of that protocol.
    """

    host: str
    tcp: socket.socket | None
    unix: socket.socket | None = None
    hold: Hold | None = None
    wyoming: socket.socket | None = None

    @classmethod
    def open(cls, listening: Listening, hold: Hold | None, *, model: str) -> Self:
        """Listen, and say in the place that is held who does.

        Raises:
            UsageError: the port is held; the message says by whom.
            OutputError: the place cannot be used.
        """
        with ExitStack() as undo:
            host, port = listening.host, listening.port
            door = cls(host, None if port is None else undo.enter_context(_listen(host, port)))
            if listening.wyoming is not None:
                bound = undo.enter_context(_listen(*listening.wyoming, option="--wyoming"))
                door = replace(door, wyoming=bound)
            if hold is not None:
                unix = undo.enter_context(_open_socket(hold.place.socket))
                door = replace(door, unix=unix, hold=hold)
                hold.write(
                    {
                        "pid": os.getpid(),
                        "model": model,
                        "url": door.url,
                        "wyoming": door.wyoming_url,
                        "grace_s": listening.grace_s,
                        "idle_s": listening.idle_s,
                    }
                )
            undo.pop_all()
        return door

    @classmethod
    def take(cls, host: str, descriptors: Mapping[str, int]) -> Self:
        """What `leave` left open in the process before, which had this one's id."""
        tcp = socket.socket(fileno=descriptors["tcp"]) if "tcp" in descriptors else None
        door = cls(host, tcp)
        if "wyoming" in descriptors:
            door = replace(door, wyoming=socket.socket(fileno=descriptors["wyoming"]))
        if "unix" not in descriptors:
            return door
        unix = socket.socket(fileno=descriptors["unix"])
        return replace(door, unix=unix, hold=Place.default().take(descriptors["lock"]))

    def leave(self) -> dict[str, int]:
        """Let go without closing; returns the descriptors that are still open."""
        left = {} if self.tcp is None else {"tcp": self.tcp.detach()}
        if self.wyoming is not None:
            left["wyoming"] = self.wyoming.detach()
        if self.unix is not None and self.hold is not None:
            left |= {"unix": self.unix.detach(), "lock": self.hold.leave()}
        return left

    @property
    def url(self) -> str:
        """Of the port, else the name of the socket."""
        if self.tcp is None:
            assert self.hold is not None, "a door is one of the two"
            return str(self.hold.place.socket)
        return f"http://{_shown(self.host)}:{self.tcp.getsockname()[1]}"

    @property
    def urls(self) -> str:
        """All that clients of other machines may be told."""
        return " and ".join(filter(None, (self.url, self.wyoming_url)))

    @property
    def wyoming_url(self) -> str | None:
        if self.wyoming is None:
            return None
        host, port = self.wyoming.getsockname()[:2]
        return f"tcp://{_shown(host)}:{port}"

    def sockets(self) -> list[socket.socket]:
        """New handles of both sockets; closing them does not close the door."""
        return [each.dup() for each in (self.tcp, self.unix) if each is not None]

    def close(self) -> None:
        """Stop listening and give the place back; always safe."""
        if self.tcp is not None:
            self.tcp.close()
        if self.wyoming is not None:
            self.wyoming.close()
        if self.unix is not None:
            self.unix.close()
        if self.hold is not None:
            self.hold.release()


def listen_tcp(host: str, port: int) -> socket.socket:
    """A bound socket.

    Raises:
        OSError: in use, or no such address.
    """
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    bound = socket.socket(family, socket.SOCK_STREAM)
    try:
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        bound.bind((host, port))
        bound.listen(BACKLOG)
    except BaseException:
        bound.close()
        raise
    return bound


def listen_unix(path: Path) -> socket.socket:
    """A bound socket that only its owner may open."""
    bound = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    old = os.umask(0o177)
    try:
        bound.bind(str(path))
        bound.listen(BACKLOG)
    except BaseException:
        bound.close()
        raise
    finally:
        os.umask(old)
    return bound


def _open_socket(path: Path) -> socket.socket:
    try:
        return listen_unix(path)
    except OSError as err:
        raise OutputError(f"cannot open {path}: {reason_of(err)}") from err


def _shown(host: str) -> str:
    """As a URL has it."""
    return f"[{host}]" if ":" in host else host


def _listen(host: str, port: int, option: str = "--port") -> socket.socket:
    try:
        return listen_tcp(host, port)
    except socket.gaierror as err:
        which = option.replace("port", "host")
        raise UsageError(f"{which} {host}: {reason_of(err)}", hint="give an IP address") from err
    except OSError as err:
        if err.errno == errno.EADDRINUSE:
            raise UsageError(
                f"port {port} is taken by {_who(host, port)}", hint=f"use another {option}"
            ) from err
        raise UsageError(
            f"cannot listen on {host} port {port}: {reason_of(err)}",
            hint=f"use another {option.replace('--port', '--host or --port')}",
        ) from err


def _who(host: str, port: int) -> str:
    """Who listens there: a voxcli server says so itself."""
    health = health_at(f"http://{_shown(host)}:{port}", WHO_S)
    if not {"pid", "model"} <= health.keys():
        return "another program"
    return f"another voxcli server (pid {health['pid']}, model {health['model']})"
