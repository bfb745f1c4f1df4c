"""Hidden files that are locked while they are written, so that those of killed writers are known.

The system gives a lock back when its process ends, however it ends. Locks of other machines on a
shared folder cannot be seen everywhere, so names have the machine's run in them, and only files of
this run are looked at. Where there are no such locks, files are made as `files.create` makes them.
"""

from __future__ import annotations

import os
import re
import secrets
from functools import cache
from pathlib import Path

from voxcli.audio import files

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None  # type: ignore[assignment]

_BOOT_ID = Path("/proc/sys/kernel/random/boot_id")


class HeldFile:
    """An empty hidden file beside a target, ours until `release`.

    Args:
        target: what the file will become.

    Raises:
        OSError: no file can be made there.
    """

    def __init__(self, target: Path) -> None:
        self._lock: int | None = None
        run = _run() if fcntl is not None else ""
        while run:
            self.path = files.hidden_name(target, f"{secrets.token_hex(4)}-{run}")
            files.create(self.path)
            try:
                lock = _locked(self.path)
            except FileNotFoundError:
                lock = None
            except OSError:  # no locks here
                self.path.unlink(missing_ok=True)
                break
            if lock is not None and _is_still(self.path, lock):
                self._lock = lock
                return
            if lock is not None:
                os.close(lock)  # else it was taken for a killed writer's before it was locked
        self.path = files.hidden_name(target)
        files.create(self.path)

    def release(self) -> None:
        """Let go of it; always safe."""
        lock, self._lock = self._lock, None
        if lock is not None:
            os.close(lock)


def sweep(folder: Path) -> None:
    """Remove what killed writers left in a folder; never what is being written."""
    run = _run() if fcntl is not None else ""
    if not run:
        return
    ours = re.compile(rf"\..*\.[0-9a-f]{{8}}-{run}\.part")
    try:
        with os.scandir(folder) as entries:
            names = [each.name for each in entries if ours.fullmatch(each.name)]
    except OSError:
        return
    for name in names:
        try:
            _remove_unlocked(folder / name)
        except OSError:  # gone meanwhile, or somebody else's
            continue


def _remove_unlocked(path: Path) -> None:
    lock = _locked(path)
    if lock is None:
        return
    try:
        if _is_still(path, lock):
            files.clear(path)
    finally:
        os.close(lock)


@cache
def _run() -> str:
    """Which run of the machine it is; empty where nobody says."""
    try:
        return _BOOT_ID.read_text("ascii").strip().replace("-", "")[:12]
    except (OSError, ValueError):
        return ""


def _locked(path: Path) -> int | None:
    """An open file that nobody else has locked; None where somebody has.

    Raises:
        OSError: it cannot be opened or locked.
    """
    handle = os.open(path, os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(handle)
        return None
    except OSError:
        os.close(handle)
        raise
    return handle


def _is_still(path: Path, handle: int) -> bool:
    """Whether the name is that of the open file."""
    try:
        return os.path.samestat(os.lstat(path), os.fstat(handle))
    except FileNotFoundError:
        return False
