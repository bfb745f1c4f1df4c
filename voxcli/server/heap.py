"""The process's memory stays at what it uses, not at what its busiest moments needed.

glibc gives each thread a heap of its own, and each keeps the holes that its largest tensors left.
The engine, the vocoder and the encoder would each grow to their own peak, hours apart. So they
share a heap, and its holes go back to the system every two seconds while anything is spoken.

Tensors of a step are as large as its batch, so no two leave holes of one size, and the heap would
grow around them for as long as it is used: glibc takes what is freed for a size worth keeping, up
to 32 MB. So what is larger than `LARGE` has pages of its own, which go back when it is freed. New
pages cost time: with 1 MB 32 streams were a sixth slower, with 4 MB about a twentieth.

Where no kernel of ours is compiled, oneDNN keeps its last 1024 products by size, and so does
torch's layer over it: some 500 MB in time. Few are as fast.
"""

from __future__ import annotations

import ctypes
import os
import sys

_ARENA_MAX, _MMAP_THRESHOLD = -8, -3  # parameters' numbers in malloc.h
LARGE = 4 << 20  # bytes
_PRODUCTS = ("ONEDNN_PRIMITIVE_CACHE_CAPACITY", "LRU_CACHE_CAPACITY")  # read with the first one
NUM_PRODUCTS = 64


def share_one_heap() -> None:
    """Let threads that start from now on use one heap, without large tensors and old products.

    Where the C library has no say in it, nothing happens to the heap.
    """
    for name in _PRODUCTS:
        os.environ.setdefault(name, str(NUM_PRODUCTS))
    _ask("mallopt", _ARENA_MAX, 1)
    _ask("mallopt", _MMAP_THRESHOLD, LARGE)


def give_back() -> None:
    """Return whole free pages to the system; takes some milliseconds."""
    _ask("malloc_trim", 0)


def _ask(function: str, *arguments: int) -> None:
    if sys.platform.startswith("linux"):
        try:
            getattr(ctypes.CDLL(None), function)(*arguments)
        except AttributeError:  # a C library without it, such as musl, keeps no such holes
            pass
