"""The card as graphs need it: streams, events, pinned memory, capture and replay.

`GraphRunner` works through this interface alone, so that a stand-in can record and replay the same
functions where there is no card. Knows no model and no request.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any, Protocol

import torch

from voxcli import kernels
from voxcli.engine.native.memory import GIB, free_memory
from voxcli.engine.native.program import Branch

MAIN_PRIORITY = -1  # of the captured stream; the vocoder's branch has 0, which is lower


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

    def capture(self, function: Callable[[], None]) -> Graph:
        """Run a function once, then record it; all recordings share one pool of memory.

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
            # the vocoder takes what the language models beside it leave of the card
            self._main = torch.cuda.Stream(device, priority=MAIN_PRIORITY)  # type: ignore[no-untyped-call]
        self._pool: Any = None

    def current(self) -> AbstractContextManager[Any]:
        return torch.cuda.device(self.device)

    def branch(self) -> Branch:
        return _CudaBranch(self.device)

    def capture(self, function: Callable[[], None]) -> Graph:
        warm = torch.cuda.Stream(self.device)  # type: ignore[no-untyped-call]
        warm.wait_stream(torch.cuda.current_stream(self.device))
        with torch.cuda.stream(warm):
            function()  # loads kernels and makes the libraries' workspaces
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
        self._stream = torch.cuda.Stream(device)  # type: ignore[no-untyped-call]

    @contextmanager
    def beside(self) -> Iterator[None]:
        self._stream.wait_stream(torch.cuda.current_stream(self._device))
        with torch.cuda.stream(self._stream):
            yield

    def join(self) -> None:
        torch.cuda.current_stream(self._device).wait_stream(self._stream)
