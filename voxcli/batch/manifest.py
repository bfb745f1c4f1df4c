"""What is done in an output folder: `manifest.jsonl`, one JSON object a line, only appended to.

Lines were chosen over a database: a person can read them, they need no side files, no file-system
locks and no repair, and a torn last line, all that a power cut can leave, is dropped when the file
is opened. Every append is synced before a file gets its name, so the manifest never knows less than
the folder shows. The last line about an output counts.
"""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, BinaryIO, Self

from voxcli.audio.files import output_error
from voxcli.errors import UsageError

NAME = "manifest.jsonl"
VERSION = 1
DONE, FAILED = "done", "failed"


class Manifest:
    """Reads what earlier runs did; appends what this one does. Threads may append.

        with Manifest(folder) as manifest:
            manifest.append({"output": "a.wav", "status": "done", ...})

    Attributes:
        rows: output -> the newest line about it.
        run: the newest line about a run; None in a fresh folder.
        of_run: outputs that have a line since that run began.
        suspects: outputs that were being spoken at a fault of the engine in that run.
        num_barren_faults: its latest faults, with no row done between them.

    Raises:
        UsageError: a manifest of a newer voxcli.
        OutputError: unreadable or unwritable.
    """

    def __init__(self, folder: Path) -> None:
        self.path = folder / NAME
        self.rows: dict[str, dict[str, Any]] = {}
        self.run: dict[str, Any] | None = None
        self.of_run: set[str] = set()
        self.suspects: set[str] = set()
        self.num_barren_faults = 0
        self._lock = threading.Lock()
        self._file: BinaryIO | None = None
        self._length = self._read()

    def _read(self) -> int:
        """Take in every whole line; returns how many bytes those are."""
        try:
            data = self.path.read_bytes()
        except (FileNotFoundError, NotADirectoryError):  # the output folder refuses a file
            return 0
        except OSError as err:
            raise output_error(err, self.path) from err
        whole = data.rfind(b"\n") + 1
        for line in data[:whole].splitlines():
            try:
                entry = json.loads(line)
            except (ValueError, RecursionError):  # a damaged line: its row is done again
                continue
            if not isinstance(entry, dict):
                continue
            run, fault, name = entry.get("run"), entry.get("fault"), entry.get("output")
            if isinstance(run, dict):
                self._check_version(run)
                self._note_run(run)
            elif isinstance(fault, dict):
                rows = fault.get("rows")
                named = rows if isinstance(rows, list) else ()
                self._note_fault(row for row in named if isinstance(row, str))
            elif isinstance(name, str) and "status" in entry:
                self._note_row(entry)
        return whole

    def _check_version(self, run: Mapping[str, Any]) -> None:
        version = run.get("version")
        if isinstance(version, int) and version > VERSION:
            raise UsageError(
                f"{self.path} was written by a newer voxcli ({run.get('voxcli')})",
                hint="upgrade voxcli, or use another output folder",
            )

    def __enter__(self) -> Self:
        try:
            self._file = self.path.open("ab", buffering=0)
            self._file.truncate(self._length)
        except OSError as err:
            raise output_error(err, self.path) from err
        return self

    def begin(self, run: Mapping[str, Any]) -> None:
        """Record that a run starts, with its seed and settings."""
        self._note_run({"version": VERSION, **run})
        self._write({"run": self.run})

    def append(self, entry: Mapping[str, Any]) -> None:
        """Record a row; on the disk when this returns.

        Raises:
            OutputError: the file system refused.
        """
        self._write(entry)
        self._note_row(dict(entry))

    def append_fault(self, reason: str, outputs: Sequence[str]) -> None:
        """Record that the engine failed while these were being spoken."""
        self._write({"fault": {"reason": reason, "rows": outputs}})
        self._note_fault(outputs)

    def _note_run(self, run: dict[str, Any]) -> None:
        self.run = run
        self.of_run, self.suspects, self.num_barren_faults = set(), set(), 0

    def _note_row(self, entry: dict[str, Any]) -> None:
        self.rows[entry["output"]] = entry
        self.of_run.add(entry["output"])
        if entry["status"] == DONE:
            self.num_barren_faults = 0

    def _note_fault(self, outputs: Iterable[str]) -> None:
        self.suspects.update(outputs)
        self.num_barren_faults += 1

    def _write(self, entry: Mapping[str, Any]) -> None:
        line = json.dumps(entry, ensure_ascii=False, allow_nan=False).encode() + b"\n"
        with self._lock:
            assert self._file is not None, "the manifest is not open"
            try:
                if self._file.write(line) != len(line):
                    raise OSError(0, "not written in full")
                os.fsync(self._file.fileno())
            except OSError as err:
                self._undo()
                raise output_error(err, self.path) from err
            self._length += len(line)

    def _undo(self) -> None:
        """Take a torn line back, so that the next one stands alone."""
        assert self._file is not None
        try:
            self._file.truncate(self._length)
        except OSError:  # the next reader drops it
            pass

    def __exit__(self, *_: object) -> None:
        if self._file is not None:
            self._file.close()
