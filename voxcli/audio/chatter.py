"""Keeps what libraries written in C print from the user, and nothing else."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Lock
from typing import TextIO

_STDERR = 2  # the file descriptor that C code writes to
lock = Lock()  # who prints to stderr holds it, so that nothing is hidden in between
_num_hiding = 0
_kept: tuple[int, TextIO | None] | None = None  # descriptor and Python stream to come back to
_stand_in: TextIO | None = None  # never closed: another thread may be printing to it


@contextmanager
def native_stderr_hidden() -> Iterator[None]:
    """Send what C code prints to stderr nowhere; what Python prints still arrives.

    libmpg123, inside libsndfile, complains about frames whose bits lie in the frame before, as
    every encoder makes them at 24 kHz and below, and there is no switch to stop it.

    NOTE: a descriptor belongs to the whole process. Blocks of several threads may overlap; the
    first hides it and the last brings it back.
    """
    global _num_hiding, _kept
    with lock:
        if _num_hiding == 0:
            _kept = _hide()
        _num_hiding += 1
    try:
        yield
    finally:
        with lock:
            _num_hiding -= 1
            if _num_hiding == 0 and _kept is not None:
                _show(*_kept)
                _kept = None


def _hide() -> tuple[int, TextIO | None] | None:
    global _stand_in
    try:
        descriptor = os.dup(_STDERR)
    except OSError:  # stderr is closed, so nothing is seen anyway
        return None
    stream = sys.stderr if _writes_to_stderr(sys.stderr) else None
    if stream is not None:
        stream.flush()
        if _stand_in is None:
            _stand_in = open(  # noqa: SIM115
                os.dup(descriptor), "w", buffering=1, encoding=stream.encoding, errors=stream.errors
            )
        sys.stderr = _stand_in
    with open(os.devnull, "wb") as nowhere:
        os.dup2(nowhere.fileno(), _STDERR)
    return descriptor, stream


def _show(descriptor: int, stream: TextIO | None) -> None:
    os.dup2(descriptor, _STDERR)
    os.close(descriptor)
    if stream is not None:
        sys.stderr = stream


def _writes_to_stderr(stream: TextIO | None) -> bool:
    try:
        return stream is not None and stream.fileno() == _STDERR
    except (OSError, ValueError):  # a stream in memory
        return False
