"""What a graph holds: whole steps and prompts over static buffers, on the device alone.

Each is a function of no arguments that reads and writes tensors made here, before any capture, so
it may be captured, run as it is, or run on tensors without data to learn which kernels it needs
(`ahead.py`). Rows that a batch does not fill work on a reserved slot.

Knows no model family and no graph. Letters: `R` rows of the largest bucket, `S` samples a frame.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from functools import partial
from typing import Protocol

import torch
from torch import Tensor

from voxcli.engine.native.prompts import StaticPrompts, prompt_shapes
from voxcli.engine.native.running import NUM_PREFIXES
from voxcli.models.base import GraphKey, SpeechModel
from voxcli.models.data import Input, PromptShape, Rows

BUCKETS = (1, 2, 4, 8, 16, 32, 64, 96, 128)
NUM_OWN = 4  # row inputs of every model: slot, position, seed, step
MANY_ROWS = 64  # whose vocoder fills a card: beside the language models it gains nothing

StepKey = tuple[GraphKey, int]  # and the bucket


class Branch(Protocol):
    """A stream beside the current one: what runs on it may run together with what follows."""

    def beside(self, *, is_first: bool) -> AbstractContextManager[None]:
        """Run the block on the branch, after all that came before it.

        Args:
            is_first: it goes before what runs beside it, where there is not room for both.
        """
        ...

    def join(self) -> None:
        """What follows waits for the branch."""
        ...

    def behind(self) -> AbstractContextManager[None]:
        """Run the block behind the branch of the graph that was replayed last, beside its rest.

        What follows the block waits for it.
        """
        ...


@dataclass(frozen=True)
class StaticRows:
    """What graphs read and write; allocated once.

    Attributes:
        inputs: int64 `[4 + declared, R]`: slot, position, seed, step, then the model's row inputs
            (of a float32 its bits).
        declared: `[R]` each, views of the further rows by name.
        samples: float32 `[R, S]`.
        ends: bool `[R, 2]`: the end, and whether the step has a frame.
    """

    inputs: Tensor
    declared: dict[str, Tensor]
    samples: Tensor
    ends: Tensor

    @classmethod
    def allocate(
        cls, num_rows: int, row_inputs: Sequence[Input], hop_length: int, device: torch.device
    ) -> StaticRows:
        inputs = torch.zeros(NUM_OWN + len(row_inputs), num_rows, dtype=torch.int64, device=device)
        return cls(
            inputs=inputs,
            declared={
                each.name: inputs[row] if each.dtype == "int64"
                else inputs[row].view(torch.float32)[::2]  # little-endian: the low half
                for row, each in enumerate(row_inputs, start=NUM_OWN)
            },
            samples=torch.zeros(num_rows, hop_length, device=device),
            ends=torch.ones(num_rows, 2, dtype=torch.bool, device=device),
        )  # fmt: skip


class Program:
    """The functions of one model, engine size and device.

    Args:
        model: a loaded model, or one without weights on the "meta" device.
        device: where it is.
        num_slots: requests that run at once.
        num_positions: static length of a slot.
        branch: where the vocoder runs, or None for the stream of all the rest.

    Attributes:
        state: of `num_slots` requests, of the reserved slot and of `NUM_PREFIXES` voices.
    """

    def __init__(
        self,
        model: SpeechModel,
        device: torch.device,
        num_slots: int,
        num_positions: int,
        branch: Branch | None = None,
    ) -> None:
        self.model = model
        self.device = device
        self.dummy_slot = num_slots
        self.prefix_rows = range(num_slots + 1, num_slots + 1 + NUM_PREFIXES)
        self.buckets = [size for size in BUCKETS if size < num_slots] + [num_slots]
        self.prompt_shapes = prompt_shapes(model.prompt_kinds, num_slots, num_positions)
        self.state = model.new_state(num_slots + 1 + NUM_PREFIXES, num_positions)
        self.rows = StaticRows.allocate(num_slots, model.row_inputs, model.info.hop_length, device)
        self.static_prompts = StaticPrompts(model, self.prompt_shapes, device)
        self._branch = branch

    @staticmethod
    def state_bytes(model: SpeechModel, num_slots: int, num_positions: int) -> int:
        """What the state takes."""
        return model.state_bytes(num_slots + 1 + NUM_PREFIXES, num_positions)

    def steps(self, keys: Sequence[GraphKey]) -> Iterator[tuple[Callable[[], None], StepKey]]:
        """A step of every bucket under every key, the largest bucket first."""
        for num_rows in reversed(self.buckets):
            for key in keys:
                yield partial(self.step, num_rows, key), (key, num_rows)

    def prompts(self) -> Iterator[tuple[Callable[[], None], PromptShape]]:
        """Prompts of every shape, the largest first."""
        for shape in self.prompt_shapes:
            yield partial(self.prefill, shape), shape

    def with_all_kernels(self, keys: Sequence[GraphKey]) -> list[Callable[[], None]]:
        """Functions that between them launch every kernel."""
        # what takes longest to compile comes first: the vocoder's kernels of many rows, then those
        # of prompts
        prompts = {shape: function for function, shape in self.prompts()}
        largest = {shape.kind: shape for shape in reversed(prompts)}.values()
        step, *steps = (function for function, _ in self.steps(keys))
        return [step, *(prompts.pop(shape) for shape in largest), *steps, *prompts.values()]

    def step(self, num_rows: int, key: GraphKey) -> None:
        """One whole step of the first rows of the static buffers."""
        static = self.rows
        slots, positions, seeds, steps, *_ = static.inputs[:, :num_rows].unbind()
        rows = Rows(
            slots=slots,
            positions=positions,
            seeds=seeds,
            steps=steps,
            inputs={
                name: values[:num_rows].contiguous() for name, values in static.declared.items()
            },
            key=key,
        )
        output = self.model.generate(self.state, rows)
        # the vocoder needs the frame alone, not the language models; and so does who listens
        is_first = num_rows >= MANY_ROWS
        with self._branch.beside(is_first=is_first) if self._branch else nullcontext():
            samples = self.model.vocode(self.state, slots, output.frames.unsqueeze(1))
            static.samples[:num_rows] = samples
            static.ends[:num_rows, 0] = output.is_end
            if output.has_frame is not None:
                static.ends[:num_rows, 1] = output.has_frame
        self.model.advance(self.state, rows, output.frames)
        if self._branch:
            self._branch.join()

    def prefill(self, shape: PromptShape) -> None:
        """The prompts in the static buffers."""
        self.model.prefill_packed(self.state, shape, *self.static_prompts.read(shape))
