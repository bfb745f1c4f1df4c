"""What runs a model for the engine, and what all do that run it step by step. No torch.

Knows no tensor and no array: `runner.py` has the former, `array_runner.py` the latter.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from voxcli.engine.native.prefixes import PrefixCache
from voxcli.engine.native.request import Request
from voxcli.models.base import GraphKey
from voxcli.models.data import Prompt


@dataclass(frozen=True)
class Result:
    """One request's step.

    Attributes:
        frame: what `vocode` takes; opaque to the engine. None where the step made none.
        is_end: nothing follows it.
    """

    request: Request
    frame: Any
    is_end: bool


class Runner(Protocol):
    """What the engine drives.

    Attributes:
        graph_captures, capture_s, capture_bytes: CUDA graphs captured so far, the seconds it took
            and the device memory that torch reserved for it.
        prefixes: beginnings of prompts that are kept.
        keys: graph keys that requests may have; None where any runs.
    """

    graph_captures: int
    capture_s: float
    capture_bytes: int
    prefixes: PrefixCache
    keys: tuple[GraphKey, ...] | None

    def prefill(self, requests: Sequence[Request], max_positions: int) -> None:
        """Run the prompts of newcomers into their slots.

        Args:
            max_positions: a runner that can stop in the middle of a prompt does so after as many.
        """
        ...

    def decode(self, requests: Sequence[Request]) -> list[Result]:
        """Run one step of requests that share a graph key.

        Returns:
            results in the order of their steps; possibly those of the step before, or none yet.
        """
        ...

    def vocode(self, requests: Sequence[Request]) -> list[np.ndarray]:
        """All pending frames of requests to samples, float32 `[S]` each; takes them off."""
        ...


NUM_PREFIXES = 8  # voices kept ready: each takes as much state as a request of its length
# Frames decoded in one call on CPU: larger tensors leave the caches and take longer (32 rows of 4
# frames: 1.02 s at once, 0.73 s by 32), and each thread's heap would keep the memory of its peak.
VOCODER_FRAMES = 32
PROMPT_POSITIONS = 256  # run at once on CPU, of several prompts
NO_SAMPLES = np.zeros(0, np.float32)


class EagerRunner(ABC):
    """Step by step, under any graph key.

    Args:
        model: a loaded model.
        state: of all its slots, and of `NUM_PREFIXES` behind them.
        num_slots: requests that run at once.
        prompt_positions: most positions of several prompts that are run at once.

    Attributes:
        works_beside: whether samples may be made in other threads meanwhile.
    """

    works_beside = True

    def __init__(self, model: Any, state: Any, num_slots: int, prompt_positions: int) -> None:
        self.keys: tuple[GraphKey, ...] | None = None
        self.graph_captures = 0
        self.capture_s = 0.0
        self.capture_bytes = 0
        self.model = model
        self.state = state
        rows = range(num_slots, num_slots + NUM_PREFIXES)
        # NOTE: naming self would keep the state until Python looks for circles
        self.prefixes = PrefixCache(
            model, state, rows, lambda prompt, row: model.prefill_prefix(state, prompt, row)
        )
        self._prompt_positions = prompt_positions

    def prefill(self, requests: Sequence[Request], max_positions: int) -> None:
        """Run the prompts of newcomers into their slots, all of them whole.

        NOTE: on CPU parts of 64 positions would take 1.4 to 1.6 times as long, and a short last one
        rounds differently.
        """
        spans: list[tuple[Prompt, int, int]] = []
        num_positions = 0
        for request in requests:
            slot = slot_of(request)
            start = self.prefixes.load(request.prompt, slot)
            length = len(request.prompt) - start
            if spans and num_positions + length > self._prompt_positions:
                self.model.prefill_together(self.state, spans)
                spans, num_positions = [], 0
            spans.append((request.prompt, slot, start))
            num_positions += length
            request.num_prefilled = len(request.prompt)
        if spans:
            self.model.prefill_together(self.state, spans)

    @abstractmethod
    def decode(self, requests: Sequence[Request]) -> list[Result]:
        """One step, complete when it returns."""

    def vocode(self, requests: Sequence[Request]) -> list[np.ndarray]:
        """All pending frames of requests to samples, float32 `[S]` each; takes them off.

        Requests with the same number of pending frames are decoded together, but on CPU not too
        many.
        """
        samples: dict[Request, np.ndarray] = {}
        for group in self._vocoder_groups(requests):
            if not group[0].pending:  # at an end without a frame
                for request in group:
                    request.take_pending()
                samples |= dict.fromkeys(group, NO_SAMPLES)
                continue
            samples |= zip(group, self.begin_vocoding(group)(), strict=True)
        return [samples[request] for request in requests]

    def begin_vocoding(self, requests: Sequence[Request]) -> Callable[[], list[np.ndarray]]:
        """Take the pending frames off, of each as many; the returned function makes the samples.

        It may be called in any thread.
        """
        slots = [slot_of(request) for request in requests]
        frames = self._stack([request.take_pending() for request in requests])
        return lambda: self._vocode(slots, frames)

    @abstractmethod
    def _stack(self, frames: Sequence[Sequence[Any]]) -> Any:
        """Frames of requests as one thing, `[B, T, …]`."""

    @abstractmethod
    def _vocode(self, slots: Sequence[int], frames: Any) -> list[np.ndarray]:
        """What `_stack` made to samples, float32 `[S]` of each slot."""

    def _vocoder_groups(self, requests: Sequence[Request]) -> list[list[Request]]:
        return equal_groups(
            requests, lambda group: max(1, VOCODER_FRAMES // max(1, len(group[0].pending)))
        )


def slot_of(request: Request) -> int:
    assert request.slot is not None
    return request.slot


def equal_groups(
    requests: Sequence[Request], most: Callable[[list[Request]], int]
) -> list[list[Request]]:
    """Groups of requests with the same number of pending frames.

    Args:
        most: of a group, how many of it may stay together.
    """
    by_count: dict[int, list[Request]] = {}
    for request in requests:
        by_count.setdefault(len(request.pending), []).append(request)
    return [
        group[start : start + most(group)]
        for group in by_count.values()
        for start in range(0, len(group), most(group))
    ]
