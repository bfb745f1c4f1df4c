"""Where the user's hot engine is found: a socket, a lock and a log in a folder of the user's own.

The lock is held as long as the server lives, whatever becomes of it, so a socket file without a
holder is known to be stale. One server a folder. Knows no protocol.
"""

from __future__ import annotations

import json
import os
import stat
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from voxcli.config import runtime_dirs
from voxcli.errors import OutputError, UsageError, reason_of

MAX_SOCKET_PATH = 100  # bytes; the system's limit is 107
HOLD_ATTEMPTS = 5


class HeldError(UsageError):
    """Another server holds the place."""


@dataclass(frozen=True)
class Place:
    """The files of one hot engine.

    Attributes:
        why: it is not in XDG_RUNTIME_DIR, where that is set.
    """

    folder: Path
    why: str = ""

    @classmethod
    def default(cls) -> Place:
        """Where commands look."""
        base, temporary = runtime_dirs()
        fallback = temporary / f"voxcli-{os.getuid()}"
        if base is None:
            return cls(fallback)
        place = cls(base / "voxcli")
        what = _why_unusable(base, place.socket)
        return cls(fallback, f"XDG_RUNTIME_DIR is '{base}', which {what}") if what else place

    @property
    def socket(self) -> Path:
        return self.folder / "engine.sock"

    @property
    def lock(self) -> Path:
        return self.folder / "engine.lock"

    @property
    def log(self) -> Path:
        return self.folder / "serve.log"

    @property
    def is_ours(self) -> bool:
        """Whether the folder is a real one, the user's, and closed to others."""
        try:
            found = self.folder.lstat()
        except OSError:
            return False
        is_private = stat.S_IMODE(found.st_mode) & 0o077 == 0
        return stat.S_ISDIR(found.st_mode) and found.st_uid == os.getuid() and is_private

    @property
    def has_socket(self) -> bool:
        """Whether a server is there, or was."""
        return self.is_ours and self.socket.exists()

    def create(self) -> None:
        """Make the folder.

        Raises:
            OutputError: it cannot be made; else as `check`.
        """
        try:
            self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        except OSError as err:
            raise OutputError(
                f"cannot make {self.folder}: {reason_of(err)}", hint="set XDG_RUNTIME_DIR"
            ) from err
        self.check()

    def check(self) -> None:
        """Refuse a folder that others can write to: it may say anything of a server.

        Raises:
            OutputError: it is there and not only the user's, or its name is too long.
        """
        if os.path.lexists(self.folder) and not self.is_ours:
            raise OutputError(
                f"{self.folder} is not a folder that only you can enter",
                hint=f"remove it, or: chmod 700 '{self.folder}'",
            )
        if _is_too_long(self.socket):
            raise OutputError(
                f"{self.socket} is too long for a socket",
                hint="set XDG_RUNTIME_DIR to a shorter one",
            )

    def holder(self) -> dict[str, Any] | None:
        """What the running server wrote of itself, or None when nobody holds the place."""
        import fcntl

        try:
            with open(self.lock, encoding="utf-8") as file:
                try:
                    fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
                except BlockingIOError:
                    return _parse(file.read())
        except OSError:
            pass
        return None

    def take(self, descriptor: int) -> Hold:
        """The hold that another process handed on, or `Hold.leave` left open."""
        return Hold(self, os.fdopen(descriptor, "r+", encoding="utf-8"))

    def hold(self) -> Hold:
        """Take the place; a stale socket is removed.

        Raises:
            HeldError: another server has it; the message says which.
            OutputError: as `create`, or its files cannot be opened.
        """
        self.create()
        with self.explained():
            descriptor = os.open(self.lock, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
            file = os.fdopen(descriptor, "r+", encoding="utf-8")
            try:
                return self._lock(file)
            except BaseException:
                file.close()
                raise

    def open_log(self) -> IO[bytes]:
        """The log, emptied.

        Raises:
            OutputError: it cannot be opened.
        """
        with self.explained():
            self.log.write_bytes(b"")
            return open(self.log, "ab")  # another process may write to it too

    @contextmanager
    def explained(self) -> Iterator[None]:
        """Turn what the system refuses here into an error that a user can act on."""
        try:
            yield
        except OSError as err:
            raise OutputError(
                f"cannot use {err.filename or self.folder}: {reason_of(err)}",
                hint="remove it, or set XDG_RUNTIME_DIR to another folder",
            ) from err

    def _lock(self, file: IO[str]) -> Hold:
        import fcntl

        for _ in range(HOLD_ATTEMPTS):
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:  # held, or somebody is just looking who holds it
                time.sleep(0.02)
            else:
                file.truncate(0)
                self.socket.unlink(missing_ok=True)
                return Hold(self, file)
        raise HeldError(
            f"a server runs already: {describe(_parse(file.read()))}",
            hint="stop it with 'voxcli serve --stop', or start this one in the foreground with "
            "--no-socket and another --port",
        )


@dataclass(frozen=True)
class Hold:
    """The place, as long as any process has its file open."""

    place: Place
    file: IO[str]

    def write(self, info: dict[str, Any]) -> None:
        """What `holder` shows to others.

        Raises:
            OutputError: the disk is full.
        """
        with self.place.explained():
            self.file.seek(0)
            self.file.truncate()
            self.file.write(json.dumps(info))
            self.file.flush()

    def leave(self) -> int:
        """Let go of the file and keep the lock: by a descriptor, which is returned."""
        descriptor = os.dup(self.file.fileno())
        self.file.close()
        return descriptor

    def release(self) -> None:
        """Always safe."""
        if not self.file.closed:
            self.place.socket.unlink(missing_ok=True)
            self.file.truncate(0)
            self.file.close()


def _why_unusable(base: Path, wanted: Path) -> str:
    """What is wrong with XDG_RUNTIME_DIR; empty where nothing is."""
    if not base.is_absolute():
        return "is not an absolute path"
    try:
        found = base.stat()
    except OSError as err:
        return f"cannot be used ({reason_of(err)})"
    if not stat.S_ISDIR(found.st_mode):
        return "is not a folder"
    if found.st_uid != os.getuid():
        return "is another user's"
    if not os.access(base, os.W_OK | os.X_OK):
        return "you cannot write to"
    return "is too long for a socket" if _is_too_long(wanted) else ""


def _is_too_long(path: Path) -> bool:
    return len(os.fsencode(path)) > MAX_SOCKET_PATH


def describe(info: dict[str, Any]) -> str:
    """`pid 12, model mini, http://127.0.0.1:8091`."""
    parts = [f"pid {info['pid']}"] if "pid" in info else []
    parts += [f"model {info['model']}"] if "model" in info else []
    parts += [" and ".join(info[key] for key in ("url", "wyoming") if info.get(key))]
    parts += [f"ends after {info['idle_s']:g} s without use"] if info.get("idle_s") else []
    return ", ".join(filter(None, parts)) or "it is just starting"


def _parse(text: str) -> dict[str, Any]:
    try:
        info = json.loads(text)
    except ValueError:
        return {}
    return info if isinstance(info, dict) else {}
