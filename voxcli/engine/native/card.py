"""The card as graphs need it: streams, events, pinned memory, capture and replay.

`GraphRunner` works through this interface alone, so that a stand-in can record and replay the same
functions where there is no card. Knows no model and no request.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from typing import Any, Protocol

import torch
from torch.nn import functional

from voxcli import kernels
from voxcli.engine.native.memory import GIB, free_memory
from voxcli.engine.native.program import Branch

# Of streams; the lowest number goes first. Where rows are few, the vocoder takes what the language
# models beside it leave of the card; where they are many, its samples are wanted first.
FIRST_PRIORITY, MAIN_PRIORITY, LAST_PRIORITY = -2, -1, 0


@contextmanager
def loading_beside(device: torch.device) -> Iterator[None]:
    """Beside the block load what the first kernels of a card would wait for.

    That is cuBLAS, and a hash of all of Triton, which it wants before it looks into its cache. It
    is there when the block ends, since nothing may be loaded while a graph is captured.
    """
    wanted = [_multiply, _hash_triton] if kernels.is_available(device) else [_multiply]

    def load(what: Callable[[torch.device], None]) -> None:
        with suppress(Exception), torch.inference_mode():  # it fails again, and loud, where needed
            what(device)

    threads = [threading.Thread(target=load, args=(what,), daemon=True) for what in wanted]
    for thread in threads:
        thread.start()
    try:
        yield
    finally:
        for thread in threads:
            thread.join()


def _multiply(device: torch.device) -> None:
    weight = torch.zeros(64, 1024, dtype=torch.bfloat16, device=device)
    for num_rows in (8, 64):
        rows = weight[:num_rows]
        out = functional.linear(rows, weight)
        functional.linear(rows, weight, weight[0, :64])
        out.addmm_(rows, weight.t())
        torch.bmm(rows.unsqueeze(0), weight.t().unsqueeze(0))


def _hash_triton(_: torch.device) -> None:
    from triton.runtime.cache import triton_key

    triton_key()


class Graph(Protocol):
    """A captured function."""

    def replay(self) -> None: ...


class Event(Protocol):
    """A moment in the device's work."""

    def synchronize(self) -> None:
        """Wait for it."""
        ...


class Card(Protocol):
    """A device that captures.

    Attributes:
        is_pinned: whether the host's copies are page-locked.
    """

    device: torch.device
    is_pinned: bool

    def current(self) -> AbstractContextManager[Any]:
        """Inside the block it is the device that is used."""
        ...

    def branch(self) -> Branch: ...

    def capture(
        self, function: Callable[[], None], ready: Callable[[], None] | None = None
    ) -> Graph:
        """Record a function; all recordings share one pool of memory.

        Args:
            ready: runs before, and makes all its kernels ready; None for the function itself.

        Raises:
            torch.OutOfMemoryError, RuntimeError: as the device does.
        """
        ...

    def compiling(self) -> AbstractContextManager[Any] | None:
        """Inside the block kernels are made ready and not launched; None where there are none."""
        ...

    def event(self) -> Event:
        """A moment behind all that was launched so far."""
        ...

    def reserved_bytes(self) -> int:
        """Memory that torch holds."""
        ...

    def memory(self) -> str:
        """How much is free, for messages."""
        ...


class CudaCard:
    """A CUDA device; see `Card`."""

    is_pinned = True

    def __init__(self, device: torch.device) -> None:
        self.device = device
        with torch.cuda.device(device):
            self._main = torch.cuda.Stream(device, priority=MAIN_PRIORITY)  # type: ignore[no-untyped-call]
        self._pool: Any = None

    def current(self) -> AbstractContextManager[Any]:
        return torch.cuda.device(self.device)

    def branch(self) -> Branch:
        return _CudaBranch(self.device)

    def capture(
        self, function: Callable[[], None], ready: Callable[[], None] | None = None
    ) -> Graph:
        warm = torch.cuda.Stream(self.device)  # type: ignore[no-untyped-call]
        warm.wait_stream(torch.cuda.current_stream(self.device))
        with torch.cuda.stream(warm):
            (ready or function)()  # loads kernels and makes the libraries' workspaces
        torch.cuda.synchronize(self.device)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, pool=self._pool, stream=self._main):
            function()
        self._pool = self._pool or graph.pool()
        return graph

    def compiling(self) -> AbstractContextManager[Any] | None:
        if not kernels.is_available(self.device):
            return None
        from voxcli.kernels.launch import compiling

        return compiling(self.device)

    def event(self) -> Event:
        done: torch.cuda.Event = torch.cuda.Event()  # type: ignore[no-untyped-call]
        done.record()
        return done

    def reserved_bytes(self) -> int:
        return torch.cuda.memory_reserved(self.device)

    def memory(self) -> str:
        free, total = (size / GIB for size in free_memory(self.device))
        return f"{free:.1f} of {total:.1f} GiB are left"


class _CudaBranch:
    """See `program.Branch`."""

    def __init__(self, device: torch.device) -> None:
        self._device = device
        self._first, self._last = (
            torch.cuda.Stream(device, priority=each)  # type: ignore[no-untyped-call]
            for each in (FIRST_PRIORITY, LAST_PRIORITY)
        )
        self._stream = self._last
        self._behind = torch.cuda.Stream(device)  # type: ignore[no-untyped-call]
        # in a capture an external event is a part of the graph, and each replay records it anew
        self._ended: torch.cuda.Event = torch.cuda.Event(external=True)  # type: ignore[no-untyped-call]

    @contextmanager
    def beside(self, *, is_first: bool) -> Iterator[None]:
        self._stream = self._first if is_first else self._last
        self._stream.wait_stream(torch.cuda.current_stream(self._device))
        with torch.cuda.stream(self._stream):
            yield
            self._ended.record()

    def join(self) -> None:
        torch.cuda.current_stream(self._device).wait_stream(self._stream)

    @contextmanager
    def behind(self) -> Iterator[None]:
        self._behind.wait_event(self._ended)
        with torch.cuda.stream(self._behind):
            yield
        torch.cuda.current_stream(self._device).wait_stream(self._behind)
