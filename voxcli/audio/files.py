"""Putting a finished file in its place: a hidden file beside the target, then one atomic step.

Knows nothing about audio. What is always safe: a target that exists is never replaced unless asked,
and a reader sees the whole new file or none.
"""

from __future__ import annotations

import errno
import os
import secrets
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from voxcli.errors import OutputError, OutputExistsError, reason_of

MAX_NAME_BYTES = 255  # of ext4, APFS and NTFS
FULL_BYTES = 64 * 1024  # an encoder's own buffer may not fit any more
KINDS = ("tags", "cover")  # of what an encoder reads beside the file that it writes
MAX_BESIDE = len(".cover")
USER_MODE = 0o666  # the umask takes its share, as for any file the user makes

_NO_HARD_LINKS = (errno.EPERM, errno.EOPNOTSUPP, errno.ENOSYS, errno.EMLINK, errno.EINVAL)
_HINTS = {
    errno.ENOSPC: "free some disk space or write elsewhere",
    errno.EDQUOT: "your disk quota is used up; write elsewhere",
    errno.EROFS: "the file system is read-only; write elsewhere",
    errno.EACCES: "choose a folder you may write to",
    errno.EPERM: "choose a folder you may write to",
    errno.ENAMETOOLONG: "choose a shorter name",
}


def temporary_folder(
    prefix: str = "voxcli-", parent: Path | None = None
) -> tempfile.TemporaryDirectory[str]:
    """A folder of our own for what is on its way; leaving it takes it away.

    Args:
        parent: where it is made; None means where temporary files are.

    Raises:
        OutputError: there is no room for one.
    """
    try:
        return tempfile.TemporaryDirectory(prefix=prefix, dir=parent, ignore_cleanup_errors=True)
    except OSError as err:
        raise OutputError(f"no temporary folder: {reason_of(err)}") from err


@contextmanager
def temporary_file(data: bytes, suffix: str = "") -> Iterator[Path]:
    """A file of these bytes, as long as the block.

    Raises:
        OutputError: there is no room for one.
    """
    with temporary_folder() as folder:
        path = Path(folder) / f"recording{suffix}"
        try:
            path.write_bytes(data)
        except OSError as err:
            raise OutputError(f"no temporary file: {reason_of(err)}") from err
        yield path


def output_error(err: OSError, path: Path) -> OutputError:
    """The same failure as an error a user can act on."""
    code = err.errno or 0
    if code == 0 and _is_full(path.parent):
        code = errno.ENOSPC  # libsndfile says only "system error"
    reason = reason_of(OSError(code, os.strerror(code))) if code else reason_of(err)
    hint = _HINTS.get(code, "choose another folder")
    return OutputError(f"cannot write {path}: {reason}", hint=hint)


def _is_full(folder: Path) -> bool:
    try:
        return shutil.disk_usage(folder).free < FULL_BYTES
    except OSError:
        return False


def exists_error(path: Path) -> OutputExistsError:
    return OutputExistsError(
        f"{path} exists", hint="add --overwrite to replace it, or choose another name"
    )


def folder_error(path: str | Path, example: Path) -> OutputError:
    """For a folder where a file is wanted, such as `example`."""
    return OutputError(f"{path} is a folder", hint=f"give a file in it: {example}")


def is_to_come(folder: Path, made: Path | None) -> bool:
    """Whether a folder is not there yet, and is the one that will be made."""
    return made is not None and not folder.exists() and folder.resolve() == made.resolve()


def check_folder(folder: Path) -> None:
    """Raise OutputError for what is no folder, or not there."""
    if folder.is_dir():
        return
    if folder.exists():
        raise OutputError(f"{folder} is a file, not a folder", hint="choose another folder")
    raise OutputError(f"the folder {folder} does not exist", hint=f"run: mkdir -p '{folder}'")


def check_makeable(folder: Path) -> None:
    """Raise OutputError for a folder that could not be made or written; leaves nothing behind."""
    try:
        there = next(each for each in (folder, *folder.parents, Path()) if each.exists())
        if not there.is_dir():
            raise OutputError(f"{there} is a file, not a folder", hint="choose another folder")
        probe_folder(there / "probe")
    except OSError as err:
        raise output_error(err, folder) from err


def check_regular(path: Path, hint: str = "give the name of a file") -> None:
    """Raise OutputError for a pipe, a device or a socket: a file cannot take its place.

    /dev is all of that kind: "/dev/stdout" may happen to be a file.
    """
    is_device = path.is_absolute() and path.parts[1:2] == ("dev",) and path.parts[2:3] != ("shm",)
    if path.exists() and (is_device or not (path.is_file() or path.is_dir())):
        raise OutputError(f"{path} is not a regular file", hint=hint)


def hidden_name(path: Path, token: str = "") -> Path:
    """A hidden name in the folder of `path`, cut so that it fits the file system.

    Args:
        token: in the name, so that its one owner finds it again; else the name is a fresh one.
    """
    tail = f".{token or secrets.token_hex(4)}.part"
    room = MAX_NAME_BYTES - len(tail) - 1 - MAX_BESIDE
    stem = path.name.encode("utf-8", "surrogateescape")[:room].decode("utf-8", "ignore")
    return path.with_name(f".{stem}{tail}")


def beside(hidden: Path, kind: str) -> Path:
    """The name of another file that belongs to a hidden one."""
    assert kind in KINDS, kind
    return hidden.with_name(f"{hidden.name}.{kind}")


def clear(hidden: Path) -> None:
    """Remove what its owner, killed while it wrote, left under this name; always safe for it."""
    for path in (hidden, *(beside(hidden, kind) for kind in KINDS)):
        path.unlink(missing_ok=True)


def create(path: Path) -> None:
    """Make an empty file that did not exist, with the permissions the umask gives."""
    os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, USER_MODE))


def probe_folder(path: Path) -> None:
    """Raise OSError unless a file can be made beside `path`.

    NOTE: `os.access` is no substitute: it says yes to root, on read-only mounts and on /proc.
    """
    probe = hidden_name(path)
    try:
        create(probe)
    finally:
        probe.unlink(missing_ok=True)


def publish(temp: Path, target: Path, *, overwrite: bool) -> None:
    """Give the finished `temp` its name, durably.

    Raises:
        OutputExistsError: the target appeared meanwhile and `overwrite` is off; it is untouched.
        OutputError: the target is not a regular file; it is untouched.
        OSError: the file system refused.
    """
    check_regular(target)
    _sync(temp, os.O_RDWR)
    if overwrite:
        os.replace(temp, target)
    else:
        try:
            _rename_to_new(temp, target)
        except FileExistsError as err:
            raise exists_error(target) from err
    if os.name == "posix":
        try:
            _sync(target.parent, os.O_RDONLY)
        except OSError:
            pass  # some network file systems cannot sync a folder; the file itself is complete


def _rename_to_new(temp: Path, target: Path) -> None:
    if os.name == "nt":
        os.rename(temp, target)  # refuses an existing target there
        return
    try:
        os.link(temp, target)
    except OSError as err:
        if err.errno not in _NO_HARD_LINKS:
            raise
        _reserve_and_replace(temp, target)
        return
    temp.unlink()


def _reserve_and_replace(temp: Path, target: Path) -> None:
    """For file systems without hard links (exFAT, some network mounts)."""
    create(target)
    try:
        os.replace(temp, target)
    except BaseException:
        target.unlink(missing_ok=True)
        raise


def _sync(path: Path, flags: int) -> None:
    handle = os.open(path, flags)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
