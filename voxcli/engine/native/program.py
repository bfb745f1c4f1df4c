"""What a graph holds: whole steps and prompts over static buffers, on the device alone.

Each is a function of no arguments that reads and writes tensors made here, before any capture, so
it may be captured, run as it is, or run on tensors without data to learn which kernels it needs
(`voxcli.engine.native.ahead`). Rows that a batch does not fill work on a reserved slot.

Knows no model family and no graph. Letters: `R` rows of the largest bucket, `S` samples a patch.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from functools import partial

import torch
from torch import Tensor

from voxcli import kernels
from voxcli.engine.native.prompts import PromptShape, StaticPrompts, prompt_shapes
from voxcli.engine.native.runner import NUM_PREFIXES
from voxcli.layers import noise
from voxcli.models.base import AcousticModel, Rows

BUCKETS = (1, 2, 4, 8, 16, 32, 64, 96, 128)

Setting = tuple[int, bool]  # solver steps, guided or not
StepKey = tuple[Setting, int]  # and the bucket


@dataclass(frozen=True)
class StaticRows:
    """What graphs read and write; allocated once.

    Attributes:
        inputs: int64 `[5, R]`: slot, position, seed, step, guidance (its float32 bits).
        cfg: float32 `[R]`, a view of the last row of inputs.
        samples: float32 `[R, S]`.
        ends: bool `[R]`.
    """

    inputs: Tensor
    cfg: Tensor
    samples: Tensor
    ends: Tensor

    @classmethod
    def allocate(cls, num_rows: int, hop_length: int, device: torch.device) -> StaticRows:
        inputs = torch.zeros(5, num_rows, dtype=torch.int64, device=device)
        return cls(
            inputs=inputs,
            cfg=inputs[4].view(torch.float32)[::2],  # little-endian: the low half
            samples=torch.zeros(num_rows, hop_length, device=device),
            ends=torch.zeros(num_rows, dtype=torch.bool, device=device),
        )


class Branch:
    """A stream beside the current one: what runs on it may run together with what follows."""

    def __init__(self, device: torch.device) -> None:
        self._device = device
        self._stream = torch.cuda.Stream(device)  # type: ignore[no-untyped-call]

    @contextmanager
    def beside(self) -> Iterator[None]:
        """Run the block on the branch, after all that came before it."""
        self._stream.wait_stream(torch.cuda.current_stream(self._device))
        with torch.cuda.stream(self._stream):
            yield

    def join(self) -> None:
        """What follows waits for the branch."""
        torch.cuda.current_stream(self._device).wait_stream(self._stream)


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
        model: AcousticModel,
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
        self.prompt_shapes = prompt_shapes(self.buckets, num_positions)
        self.state = model.new_state(num_slots + 1 + NUM_PREFIXES, num_positions)
        self.rows = StaticRows.allocate(num_slots, model.info.hop_length, device)
        self.static_prompts = StaticPrompts.allocate(
            self.prompt_shapes, model.info.patch_shape, device
        )
        self._branch = branch
        self._normal = _noise_function(device)

    @staticmethod
    def state_bytes(model: AcousticModel, num_slots: int, num_positions: int) -> int:
        """What the state takes."""
        return model.state_bytes(num_slots + 1 + NUM_PREFIXES, num_positions)

    def steps(self, settings: Sequence[Setting]) -> Iterator[tuple[Callable[[], None], StepKey]]:
        """A step of every bucket under every setting, the largest bucket first."""
        for num_rows in reversed(self.buckets):
            for setting in settings:
                yield partial(self.step, num_rows, setting), (setting, num_rows)

    def prompts(self) -> Iterator[tuple[Callable[[], None], PromptShape]]:
        """Prompts of every shape, the largest first."""
        for shape in self.prompt_shapes:
            yield partial(self.prefill, shape), shape

    def with_all_kernels(self, settings: Sequence[Setting]) -> list[Callable[[], None]]:
        """Functions that between them launch every kernel; prompts of all sizes share theirs."""
        prompts = list(self.prompts())
        some = [prompts[0], prompts[-1], *(each for each in prompts if each[1].has_audio)]
        # what takes longest to compile comes first: the kernels of prompts and of many rows
        return [function for function, _ in [*some, *self.steps(settings)]]

    def step(self, num_rows: int, setting: Setting) -> None:
        """One whole step of the first rows of the static buffers."""
        static = self.rows
        slots, positions, seeds, steps, _ = static.inputs[:, :num_rows].unbind()
        P, D = self.model.info.patch_shape
        num_steps, is_guided = setting
        rows = Rows(
            slots=slots,
            positions=positions,
            noise=self._normal(seeds, steps, P * D).view(-1, P, D),
            cfg=static.cfg[:num_rows].contiguous(),
            num_steps=num_steps,
            is_guided=is_guided,
        )
        output = self.model.generate(self.state, rows)
        # the vocoder needs the patch alone, not the language models
        with self._branch.beside() if self._branch else nullcontext():
            samples = self.model.vocode(self.state, slots, output.patches.unsqueeze(1))
            static.samples[:num_rows] = samples
        self.model.advance(self.state, rows, output.patches)
        static.ends[:num_rows] = output.is_end
        if self._branch:
            self._branch.join()

    def prefill(self, shape: PromptShape) -> None:
        """The prompts in the static buffers."""
        slots, starts, last, token_ids = self.static_prompts.rows(shape)
        audio = self.static_prompts.audio(shape) if shape.has_audio else None
        self.model.prefill_rows(self.state, token_ids, slots, starts, last, audio)


def _noise_function(device: torch.device) -> Callable[[Tensor, Tensor, int], Tensor]:
    if not kernels.is_available(device):
        return noise.normal
    from voxcli.kernels.noise import normal

    return normal
