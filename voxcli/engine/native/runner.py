"""The border between host and device: every tensor is made, moved and read back here.

`ModelRunner` runs the model eagerly over its slot state. A runner that replays captured graphs has
the same three methods, so nothing above this file knows the difference.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import torch
from torch import Tensor

from voxcli.engine.native.prefixes import PrefixCache
from voxcli.engine.native.request import Request
from voxcli.models.base import GraphKey, SpeechModel
from voxcli.models.data import HostRow, Prompt, Rows


@dataclass(frozen=True)
class Result:
    """One request's step.

    Attributes:
        frame: what `vocode` takes; opaque to the engine. None where the step made none.
        is_end: nothing follows it.
    """

    request: Request
    frame: Tensor | None
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


class ModelRunner:
    """Eager execution on any device, under any graph key.

    Args:
        model: a loaded model.
        device: where it is.
        num_slots, num_positions: size of the state, allocated here and never again.
    """

    def __init__(
        self, model: SpeechModel, device: torch.device, num_slots: int, num_positions: int
    ) -> None:
        self.keys: tuple[GraphKey, ...] | None = None
        self.graph_captures = 0
        self.capture_s = 0.0
        self.capture_bytes = 0
        self.model = model
        self.device = device
        with torch.inference_mode():
            self.state = model.new_state(num_slots + NUM_PREFIXES, num_positions)
        rows = range(num_slots, num_slots + NUM_PREFIXES)
        state = self.state  # NOTE: naming self would keep the state until Python looks for circles
        self.prefixes = PrefixCache(
            model, state, rows, lambda prompt, row: model.prefill_prefix(state, prompt, row)
        )
        # elsewhere a sum's rounding depends on how many rows a product has
        self._prompt_positions = PROMPT_POSITIONS if device.type == "cpu" else 0

    @torch.inference_mode()
    def prefill(self, requests: Sequence[Request], max_positions: int) -> None:
        """Run the prompts of newcomers into their slots, all of them whole.

        NOTE: on CPU parts of 64 positions would take 1.4 to 1.6 times as long, and a short last one
        rounds differently.
        """
        spans: list[tuple[Prompt, int, int]] = []
        num_positions = 0
        for request in requests:
            slot = self._slot(request)
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

    @torch.inference_mode()
    def decode(self, requests: Sequence[Request]) -> list[Result]:
        """One step, complete when it returns."""
        model, key = self.model, requests[0].key
        host = [
            HostRow(self._slot(request), request.position, request.seed, request.step)
            for request in requests
        ]
        slots, positions, seeds, steps = self._tensor(host, torch.int64).unbind(1)
        own = [model.row_values(each.prompt, each.parameters, each.step) for each in requests]
        output = model.decode(
            self.state,
            Rows(
                slots=slots.contiguous(),
                positions=positions.contiguous(),
                seeds=seeds,
                steps=steps,
                inputs={
                    each.name: self._tensor(column, getattr(torch, each.dtype))
                    for each, column in zip(model.row_inputs, zip(*own, strict=True), strict=True)
                },
                key=key,
                host=host if self.device.type == "cpu" else None,
            ),
        )
        ends = output.is_end.tolist()
        frames: Sequence[Tensor | None] = list(output.frames)
        if output.has_frame is not None:
            has_frame = output.has_frame.tolist()
            frames = [frame if has else None for frame, has in zip(frames, has_frame, strict=True)]
        return [Result(*row) for row in zip(requests, frames, ends, strict=True)]

    @torch.inference_mode()
    def vocode(self, requests: Sequence[Request]) -> list[np.ndarray]:
        """All pending frames of requests to samples, float32 `[S]` each; takes them off.

        Requests with the same number of pending frames are decoded together, but on CPU not too
        many.
        """
        samples: dict[Request, np.ndarray] = {}
        for group in self._vocoder_groups(requests):
            taken = [request.take_pending() for request in group]
            if not taken[0]:  # at an end without a frame
                samples |= dict.fromkeys(group, NO_SAMPLES)
                continue
            frames = torch.stack([torch.stack(own) for own in taken])
            slots = [self._slot(request) for request in group]
            decoded = self.model.vocode(self.state, slots, frames)
            samples |= zip(group, decoded.cpu().numpy(), strict=True)
        return [samples[request] for request in requests]

    def begin_vocoding(self, requests: Sequence[Request]) -> Callable[[], list[np.ndarray]]:
        """Take the pending frames off, of each as many; the returned function makes the samples.

        It may be called in any thread.
        """
        slots = [self._slot(request) for request in requests]
        frames = torch.stack([torch.stack(request.take_pending()) for request in requests])

        @torch.inference_mode()
        def make() -> list[np.ndarray]:
            return list(self.model.vocode(self.state, slots, frames).cpu().numpy())

        return make

    def _vocoder_groups(self, requests: Sequence[Request]) -> list[list[Request]]:
        if self.device.type != "cpu":
            return equal_groups(requests, len)
        return equal_groups(
            requests, lambda group: max(1, VOCODER_FRAMES // max(1, len(group[0].pending)))
        )

    def _tensor(self, values: Sequence[object], dtype: torch.dtype) -> Tensor:
        return torch.tensor(values, dtype=dtype, device=self.device)

    @staticmethod
    def _slot(request: Request) -> int:
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
