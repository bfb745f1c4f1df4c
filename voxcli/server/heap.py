"""The process's memory stays at what its busiest moment needed.

glibc gives each thread a heap of its own, and each keeps the holes that its largest tensors left.
The engine, the vocoder and the encoder would each grow to their own peak, hours apart.
"""

from __future__ import annotations

import ctypes
import sys

_ARENA_MAX = -8  # a parameter's number in malloc.h


def share_one_heap() -> None:
    """Let threads that start from now on use one heap, where the C library has a say in it."""
    if not sys.platform.startswith("linux"):
        return
    try:
        ctypes.CDLL(None).mallopt(_ARENA_MAX, 1)
    except AttributeError:  # a C library without it, such as musl, has no such heaps either
        pass
