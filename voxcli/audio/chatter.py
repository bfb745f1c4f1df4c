"""Keeps what libraries written in C print from the user."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def native_stderr_hidden() -> Iterator[None]:
    """Send what C code prints to stderr nowhere; Python's own messages wait in `sys.stderr`.

    libmpg123, inside libsndfile, complains about frames whose bits lie in the frame before, as
    every encoder makes them at 24 kHz and below, and there is no switch to stop it.

    NOTE: the whole process has no stderr meanwhile, other threads included.
    """
    if sys.stderr is not None:
        sys.stderr.flush()
    try:
        kept = os.dup(2)
    except OSError:  # stderr is closed, so nothing is seen anyway
        yield
        return
    try:
        with open(os.devnull, "wb") as nowhere:
            os.dup2(nowhere.fileno(), 2)
        yield
    finally:
        os.dup2(kept, 2)
        os.close(kept)
