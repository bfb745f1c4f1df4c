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
from voxcli.layers.noise import normal
from voxcli.models.base import AcousticModel, Prompt, Rows


@dataclass(frozen=True)
class Result:
    """One request's step.

    Attributes:
        frame: what `vocode` takes; opaque to the engine.
        is_end: the model's end token for it.
    """

    request: Request
    frame: Tensor
    is_end: bool


class Runner(Protocol):
    """What the engine drives.

    Attributes:
        graph_captures, capture_s, capture_bytes: CUDA graphs captured so far, the seconds it took
            and the device memory that torch reserved for it.
        prefixes: beginnings of prompts that are kept.
    """

    graph_captures: int
    capture_s: float
    capture_bytes: int
    prefixes: PrefixCache

    def prefill(self, requests: Sequence[Request], max_positions: int) -> None:
        """Run the prompts of newcomers into their slots.

        Args:
            max_positions: a runner that can stop in the middle of a prompt does so after as many.
        """
        ...

    def decode(self, requests: Sequence[Request]) -> list[Result]:
        """Run one step of requests with the same solver settings.

        Returns:
            results in the order of their steps; possibly those of the step before, or none yet.
        """
        ...

    def vocode(self, requests: Sequence[Request]) -> list[np.ndarray]:
        """All pending frames of requests to samples, float32 `[S]` each; takes them off."""
        ...


NUM_PREFIXES = 8  # voices kept ready: each takes as much state as a request of its length
# Patches decoded in one call on CPU: larger tensors leave the caches and take longer (32 rows of 4
# patches: 1.02 s at once, 0.73 s by 32), and each thread's heap would keep the memory of its peak.
VOCODER_PATCHES = 32
PROMPT_POSITIONS = 256  # run at once on CPU, of several prompts
NOISE_BLOCK = 64  # steps of noise drawn at once: on CPU they take little longer than 16


class ModelRunner:
    """Eager execution on any device.

    Args:
        model: a loaded model.
        device: where it is.
        num_slots, num_positions: size of the state, allocated here and never again.
    """

    def __init__(
        self, model: AcousticModel, device: torch.device, num_slots: int, num_positions: int
    ) -> None:
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
        P, D = model.info.patch_shape
        self._noise = torch.zeros(num_slots, NOISE_BLOCK, P, D, device=device)

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
        """One step, complete when it returns; a frame is a patch `[P, D]` on the device."""
        num_steps, is_guided = requests[0].solver
        places = [(self._slot(request), request.position) for request in requests]
        output = self.model.decode(
            self.state,
            Rows(
                slots=self._tensor([slot for slot, _ in places], torch.int64),
                positions=self._tensor([position for _, position in places], torch.int64),
                noise=self._noise_of(requests),
                cfg=self._tensor([request.cfg for request in requests], torch.float32),
                num_steps=num_steps,
                is_guided=is_guided,
                host_slots_positions=places if self.device.type == "cpu" else None,
            ),
        )
        ends = output.is_end.tolist()
        return [Result(*row) for row in zip(requests, output.patches, ends, strict=True)]

    @torch.inference_mode()
    def vocode(self, requests: Sequence[Request]) -> list[np.ndarray]:
        """All pending patches of requests to samples, float32 `[S]` each; takes them off.

        Requests with the same number of pending patches are decoded together, but on CPU not too
        many.
        """
        samples: dict[Request, np.ndarray] = {}
        for group in self._vocoder_groups(requests):
            patches = torch.stack([_take_pending(request) for request in group])
            slots = [self._slot(request) for request in group]
            decoded = self.model.vocode(self.state, slots, patches)
            samples |= zip(group, decoded.cpu().numpy(), strict=True)
        return [samples[request] for request in requests]

    def begin_vocoding(self, requests: Sequence[Request]) -> Callable[[], list[np.ndarray]]:
        """Take the pending patches off, of each as many; the returned function makes the samples.

        It may be called in any thread.
        """
        slots = [self._slot(request) for request in requests]
        patches = torch.stack([_take_pending(request) for request in requests])

        @torch.inference_mode()
        def make() -> list[np.ndarray]:
            return list(self.model.vocode(self.state, slots, patches).cpu().numpy())

        return make

    def _vocoder_groups(self, requests: Sequence[Request]) -> list[list[Request]]:
        if self.device.type != "cpu":
            return equal_groups(requests, len)
        return equal_groups(
            requests, lambda group: max(1, VOCODER_PATCHES // len(group[0].pending))
        )

    def _noise_of(self, requests: Sequence[Request]) -> Tensor:
        """This step's noise `[B, P, D]`; each slot's block is drawn when its request gets there."""
        places = []
        for request in requests:
            slot, offset = self._slot(request), request.step % NOISE_BLOCK
            if offset == 0:
                steps = torch.arange(request.step, request.step + NOISE_BLOCK, device=self.device)
                block = normal(
                    torch.full_like(steps, request.seed), steps, self._noise[0, 0].numel()
                )
                self._noise[slot] = block.view_as(self._noise[slot])
            places.append((slot, offset))
        slots, offsets = self._tensor(places, torch.int64).unbind(1)
        return self._noise[slots, offsets]

    def _tensor(self, values: Sequence[object], dtype: torch.dtype) -> Tensor:
        return torch.tensor(values, dtype=dtype, device=self.device)

    @staticmethod
    def _slot(request: Request) -> int:
        assert request.slot is not None
        return request.slot


def equal_groups(
    requests: Sequence[Request], most: Callable[[list[Request]], int]
) -> list[list[Request]]:
    """Groups of requests with the same number of pending patches.

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


def _take_pending(request: Request) -> Tensor:
    """The pending patches `[A, P, D]`, which are pending no more."""
    patches = torch.stack(tuple(request.pending))
    request.num_vocoded += len(request.pending)
    request.pending.clear()
    return patches
