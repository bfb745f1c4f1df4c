"""What every step shares: a budget of seconds, whole files, a log, files in parts."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Iterable
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

import torch

SECONDS_LEFT = "TRAIN_MINI_SECONDS_LEFT"  # to a process that takes this one's place
MAX_PART_BYTES = 15 * 2**20  # of one file that travels


class Budget:
    """Seconds that a call of a step may take, from the start of the process's clock."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._end = time.monotonic() + seconds

    @property
    def is_spent(self) -> bool:
        return time.monotonic() >= self._end

    @property
    def left(self) -> float:
        """Seconds."""
        return self._end - time.monotonic()

    @property
    def share(self) -> float:
        """How much of it is spent, 0 to 1; of one without an end nothing is."""
        if self._seconds == float("inf"):
            return 0.0
        return min(1.0, max(0.0, 1 - self.left / max(self._seconds, 1e-9)))


class Log:
    """Lines with the seconds since the start, to the terminal and to a file."""

    def __init__(self, step: str, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._step, self.path, self._start = step, folder / f"{step}.log", time.monotonic()

    def __call__(self, text: str) -> None:
        line = f"[{self._step} {time.monotonic() - self._start:7.1f}] {text}"
        print(line, flush=True)
        with self.path.open("a", encoding="utf-8") as handle:
            handle.write(line + "\n")


def write_whole(path: Path, write: Callable[[Path], None]) -> None:
    """A file gets its name only when it is complete."""
    path.parent.mkdir(parents=True, exist_ok=True)
    beside = path.with_name(f".{path.name}.{os.getpid()}")
    write(beside)
    os.replace(beside, path)


def save(state: Any, path: Path) -> None:
    """A state of torch tensors, whole."""
    write_whole(path, lambda beside: torch.save(state, beside))


def wait_for(processes: Iterable[BaseProcess]) -> None:
    """Until all have ended.

    Raises:
        SystemExit: one failed.
    """
    for process in processes:
        process.join()
        if process.exitcode:
            raise SystemExit(f"a process of {process.name} ended with {process.exitcode}")


def append_json(path: Path, record: dict[str, Any]) -> None:
    """One line of a curve."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a", encoding="utf-8") as handle:
        handle.write(json.dumps(record) + "\n")


def split(path: Path, folder: Path) -> list[Path]:
    """A file in parts that may travel, `NAME.0`, `NAME.1`, …"""
    data, parts = path.read_bytes(), []
    folder.mkdir(parents=True, exist_ok=True)
    for index, start in enumerate(range(0, len(data), MAX_PART_BYTES)):
        part = folder / f"{path.name}.{index}"
        part.write_bytes(data[start : start + MAX_PART_BYTES])
        parts.append(part)
    return parts


def join(folder: Path, name: str, target: Path) -> bool:
    """Parts of a file that travelled, as one file again; False where there are none."""
    parts = sorted(folder.glob(f"{name}.[0-9]*"), key=lambda part: int(part.suffix[1:]))
    if not parts:
        return False
    data = b"".join(part.read_bytes() for part in parts)
    write_whole(target, lambda beside: beside.write_bytes(data) and None)
    return True
