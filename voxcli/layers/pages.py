"""Memory that takes none before it is written. No torch."""

from __future__ import annotations

import math
import mmap
import os
from contextlib import suppress

import numpy as np


def pages(num_bytes: int) -> mmap.mmap:
    """So many zeros, freed with what is made of them.

    NOTE: numpy's zeros ask for huge pages, and a slot's row is shorter than one: the first request
    would take the memory of all positions.
    """
    own: dict[str, int] = {} if os.name == "nt" else {"flags": mmap.MAP_PRIVATE}
    found = mmap.mmap(-1, num_bytes, **own)
    if hasattr(mmap, "MADV_NOHUGEPAGE"):
        with suppress(OSError):  # a system without huge pages
            found.madvise(mmap.MADV_NOHUGEPAGE)
    return found


def zeros(*shape: int) -> np.ndarray:
    """float32."""
    return np.frombuffer(pages(4 * math.prod(shape)), np.float32).reshape(shape)
