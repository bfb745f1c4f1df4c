"""A server's own folders, for answers that are being made and for the sockets of its replicas, and
what a server that was killed left of them.

A folder is locked as long as its server lives, whatever becomes of it: who gets the lock of one
knows that nobody needs it. Other temporary files are not touched.
"""

from __future__ import annotations

import os
import shutil
import stat
import tempfile
from contextlib import suppress
from pathlib import Path

from voxcli.audio.files import temporary_folder
from voxcli.closing import Closing
from voxcli.errors import OutputError

PREFIX = "voxcli-answer-"
ATTEMPTS = 5  # a sweep may take a folder between its making and its locking


class Scratch(Closing):
    """A locked folder; leaving it takes it away.

    Args:
        prefix: of its name.
        parent: where it is made; None means where temporary files are.

    Attributes:
        path: of the folder.

    Raises:
        OutputError: there is no room for one.
    """

    def __init__(self, prefix: str = PREFIX, parent: Path | None = None) -> None:
        for _ in range(ATTEMPTS):
            self._folder = temporary_folder(prefix, parent)
            self.path = Path(self._folder.name)
            lock = _locked(self.path)
            if lock is not None and self.path.is_dir():
                self._lock = lock
                return
            if lock is not None:
                os.close(lock)
            self._folder.cleanup()
        raise OutputError("no temporary folder: others take it away")

    def close(self) -> None:
        """Always safe."""
        self._folder.cleanup()
        lock, self._lock = self._lock, -1
        if lock >= 0:
            os.close(lock)


def sweep(prefix: str = PREFIX, parent: Path | None = None) -> None:
    """Remove the folders of this user's servers that have ended without leaving them.

    Args:
        prefix, parent: as of `Scratch`.
    """
    for path in (parent or Path(tempfile.gettempdir())).glob(f"{prefix}*"):
        with suppress(OSError):
            found = path.lstat()
            if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.getuid():
                continue
            if (lock := _locked(path)) is not None:
                shutil.rmtree(path, ignore_errors=True)
                os.close(lock)


def _locked(folder: Path) -> int | None:
    """A descriptor that holds the folder's lock; None where it is gone or somebody else has it."""
    import fcntl

    try:
        lock = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    except FileNotFoundError:
        return None
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(lock)
        return None
    return lock
