"""How many threads a product may use now, while other work comes and goes on the same cores.

torch's own number holds for whole steps of the engine, and a step of many rows takes longer than
what runs beside it. Knows nothing of what that is.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import torch

_local = threading.local()


def num_threads() -> int:
    """Of a product that this thread begins now."""
    count: Callable[[], int] = getattr(_local, "count", torch.get_num_threads)
    return count()


@contextmanager
def counted_by(count: Callable[[], int]) -> Iterator[None]:
    """Inside the block this thread's products ask `count`; everything else has as many as now."""
    before = torch.get_num_threads()
    torch.set_num_threads(count())
    _local.count = count
    try:
        yield
    finally:
        del _local.count
        torch.set_num_threads(before)
