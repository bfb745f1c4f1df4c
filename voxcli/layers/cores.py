"""How many threads a product may use now, while other work comes and goes on the same cores.

The number of all holds for whole steps of the engine, and a step of many rows takes longer than
what runs beside it. Knows nothing of what that is. Imports no torch, but tells it where the process
has it.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

_local = threading.local()
_all = 1  # of a process without torch


def num_threads() -> int:
    """Of a product that this thread begins now."""
    count: Callable[[], int] | None = getattr(_local, "count", None)
    if count is not None:
        return count()
    torch = _torch()
    return _all if torch is None else int(torch.get_num_threads())


def set_num_threads(count: int) -> None:
    """Let every thread use so many, where nothing else is said."""
    global _all
    _all = count
    if (torch := _torch()) is not None:
        torch.set_num_threads(count)


def use_one_thread() -> None:
    """Let the products of this thread use it alone, from now on."""
    _local.count = lambda: 1
    if (torch := _torch()) is not None:
        torch.set_num_threads(1)
        torch.get_num_threads()  # NOTE: a thread's first call takes over the newest count of all


@contextmanager
def counted_by(count: Callable[[], int]) -> Iterator[None]:
    """Inside the block this thread's products ask `count`; everything else has as many as now."""
    torch = _torch()
    before = 0 if torch is None else torch.get_num_threads()
    if torch is not None:
        torch.set_num_threads(count())
    _local.count = count
    try:
        yield
    finally:
        del _local.count
        if torch is not None:
            torch.set_num_threads(before)


def _torch() -> Any:
    """torch where this process has it, which it may get later; else None."""
    return sys.modules.get("torch")
