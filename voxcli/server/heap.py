"""The process's memory stays at what it uses, not at what its busiest moments needed.

glibc gives each thread a heap of its own, and each keeps the holes that its largest tensors left.
The engine, the vocoder and the encoder would each grow to their own peak, hours apart. So they
share a heap, and its holes go back to the system now and then.
"""

from __future__ import annotations

import ctypes
import sys

_ARENA_MAX = -8  # a parameter's number in malloc.h


def share_one_heap() -> None:
    """Let threads that start from now on use one heap, where the C library has a say in it."""
    _ask("mallopt", _ARENA_MAX, 1)


def give_back() -> None:
    """Return whole free pages to the system; takes some milliseconds."""
    _ask("malloc_trim", 0)


def _ask(function: str, *arguments: int) -> None:
    if sys.platform.startswith("linux"):
        try:
            getattr(ctypes.CDLL(None), function)(*arguments)
        except AttributeError:  # a C library without it, such as musl, keeps no such holes
            pass
