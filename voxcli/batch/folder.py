"""The output folder: one run at a time, and files that are recorded before they get their names.

A finished file is staged in `.voxcli-batch/`, hashed, recorded in the manifest and then renamed. A
run that dies between the last two leaves a record without a file, which is done again; never a file
without a record, which would look like somebody else's.
"""

from __future__ import annotations

import hashlib
import json
import os
import secrets
import shutil
import socket
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from voxcli.audio.files import check_makeable, output_error, publish
from voxcli.audio.formats import FORMATS
from voxcli.batch.names import WORK_FOLDER
from voxcli.errors import UsageError
from voxcli.hub import file_sha256


class OutputFolder:
    """Where the rows' files, the manifest and the reports go."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.work = root / WORK_FOLDER
        self.staging = self.work / "staging"

    def check(self) -> None:
        """See `check_makeable`."""
        if self.root.suffix[1:].lower() in FORMATS and not self.root.exists():
            hint = f"give a folder; to join the rows in one file, add --mix {self.root}"
            raise UsageError(f"-o is '{self.root}', but a batch is many files", hint=hint)
        check_makeable(self.root, "-o")

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Make the folder and keep other runs out; clears what a killed run left half-done.

        The lock is the operating system's: it ends with the process, however that ends.

        Raises:
            UsageError: another run uses it.
            OutputError: it cannot be made or written.
        """
        from filelock import FileLock, Timeout

        self.check()
        try:
            self.work.mkdir(parents=True, exist_ok=True)
            lock = FileLock(self.work / "lock", timeout=0)
            lock.acquire()
        except Timeout as err:
            raise UsageError(
                f"another run uses {self.root}: {self._holder()}",
                hint="wait for it, stop it, or choose another -o",
            ) from err
        except OSError as err:
            raise output_error(err, self.root) from err
        try:
            with _writing(self.work):
                self._holder_path.write_text(json.dumps(_me()), "utf-8")
                shutil.rmtree(self.staging, ignore_errors=True)
                self.staging.mkdir(exist_ok=True)
            yield
        finally:
            shutil.rmtree(self.staging, ignore_errors=True)
            with suppress(OSError):
                self._holder_path.unlink(missing_ok=True)
            lock.release()

    @property
    def _holder_path(self) -> Path:
        return self.work / "holder.json"

    def _holder(self) -> str:
        try:
            who: dict[str, Any] = json.loads(self._holder_path.read_text("utf-8"))
            return f"process {who['pid']} on {who['host']} since {who['since']}"
        except (OSError, ValueError, KeyError):
            return "it has just begun"

    def token(self) -> str:
        """What stands in the names of hidden files that the runs of this folder make elsewhere.

        Only for a run that holds the folder. No other folder has it, be it a copy of this one.

        Raises:
            OutputError: it cannot be kept.
        """
        kept = self.work / "token"
        with _writing(kept):
            if not kept.exists():
                kept.write_text(secrets.token_hex(16), "utf-8")
            own = f"{kept.read_text('utf-8')} {self.root.resolve()}"
        return hashlib.sha256(own.encode("utf-8", "surrogateescape")).hexdigest()[:16]

    def staged(self, name: str, number: int) -> Path:
        """Where a row's file is written first; the suffix is kept, for it is the format."""
        return self.staging / f"{number}{Path(name).suffix}"

    def publish(self, staged: Path, name: str, *, overwrite: bool) -> None:
        """Give a staged file its name.

        Raises:
            OutputExistsError: somebody else's file is there and `overwrite` is off.
            OutputError: the file system refused.
        """
        target = self.root / name
        with _writing(target):
            publish(staged, target, overwrite=overwrite)

    def make_parent(self, name: str) -> None:
        """Make the folders that a row's name needs."""
        target = self.root / name
        with _writing(target):
            target.parent.mkdir(parents=True, exist_ok=True)


@contextmanager
def _writing(path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as err:
        raise output_error(err, path) from err


def _me() -> dict[str, Any]:
    since = datetime.now(UTC).isoformat(timespec="seconds")
    return {"pid": os.getpid(), "host": socket.gethostname(), "since": since}


def file_matches(path: Path, entry: dict[str, Any]) -> bool:
    """Whether a file is there, whole, and the one that a manifest's line is about."""
    try:
        is_as_long = path.stat().st_size == entry["bytes"]
        return bool(is_as_long and file_sha256(path) == entry["sha256"])
    except (OSError, KeyError):
        return False
