"""A stand-in for a card that captures: records the operations of a function and replays them.

Like a CUDA graph, a recording holds the tensors of its capture: a replay runs the same operations
on the same tensors and writes to the same outputs, and Python is not asked again. What a graph may
not hold (a question to the host) is refused while it is recorded.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_flatten

ASKS_THE_HOST = {"aten::_local_scalar_dense", "aten::item", "aten::nonzero", "aten::equal"}


class _Recorder(TorchDispatchMode):
    def __init__(self) -> None:
        super().__init__()
        self.calls: list[tuple[Any, tuple[Any, ...], dict[str, Any], Any]] = []

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        name = func._schema.name
        if name in ASKS_THE_HOST:
            raise RuntimeError(f"operation not permitted when stream is capturing: {name}")
        kwargs = kwargs or {}
        output = func(*args, **kwargs)
        self.calls.append((func, args, kwargs, output))
        return output


class RecordedGraph:
    """One recording."""

    def __init__(self, function: Callable[[], None]) -> None:
        with _Recorder() as recorder:
            function()
        self.calls = recorder.calls
        self.num_replays = 0

    @torch.inference_mode()
    def replay(self) -> None:
        self.num_replays += 1
        for func, args, kwargs, output in self.calls:
            again = func(*args, **kwargs)
            for there, here in zip(_tensors(output), _tensors(again), strict=True):
                if there.untyped_storage().data_ptr() != here.untyped_storage().data_ptr():
                    there.copy_(here)


def _tensors(output: Any) -> list[torch.Tensor]:
    return [each for each in tree_flatten(output)[0] if isinstance(each, torch.Tensor)]


class _Branch:
    def __init__(self, card: RecordingCard) -> None:
        self.num_joins = 0
        self._card = card

    @contextmanager
    def beside(self, *, is_first: bool) -> Iterator[None]:
        yield

    def join(self) -> None:
        self.num_joins += 1

    @contextmanager
    def behind(self) -> Iterator[None]:
        self._card.is_behind = True
        yield
        self._card.is_behind = False


class _Event:
    def __init__(self, card: RecordingCard) -> None:
        self._card = card
        card.pending += 1

    def synchronize(self) -> None:
        self._card.pending -= 1


class RecordingCard:
    """See the module, and `card.Card` for the contract.

    Args:
        fail_at: the capture, from 1, that fails.
        failure: with what.

    Attributes:
        graphs: all recordings, in the order of their capture.
        pending: launches whose results nobody has waited for.
        is_behind: whether what is launched goes behind the branch of the last replay.
    """

    is_pinned = False

    def __init__(self, fail_at: int = 0, failure: Exception | None = None) -> None:
        self.device = torch.device("cpu")
        self.graphs: list[RecordedGraph] = []
        self.pending = 0
        self.is_behind = False
        self._fail_at, self._failure = fail_at, failure

    def current(self) -> AbstractContextManager[Any]:
        return nullcontext()

    def branch(self) -> _Branch:
        return _Branch(self)

    def capture(
        self, function: Callable[[], None], ready: Callable[[], None] | None = None
    ) -> RecordedGraph:
        if self._failure is not None and len(self.graphs) + 1 == self._fail_at:
            raise self._failure
        (ready or function)()
        self.graphs.append(RecordedGraph(function))
        return self.graphs[-1]

    def compiling(self) -> None:
        return None

    def event(self) -> _Event:
        assert self.is_behind, "results are waited for as soon as the branch ends"
        return _Event(self)

    def reserved_bytes(self) -> int:
        return 0

    def memory(self) -> str:
        return "1.0 of 2.0 GiB are left"
