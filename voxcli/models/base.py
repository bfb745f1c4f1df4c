"""What the engine asks of a model family, and no more.

A family turns prompts into slot state (`prefill`), advances every running row by one patch
(`decode`) and turns patches into samples (`vocode`). It never sees a `Request`; the engine never
sees a family by name.

Letters: `B` rows, `N` positions, `P` latent vectors a patch, `D` latent width, `S` samples.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

if TYPE_CHECKING:
    from torch import Tensor


@dataclass(frozen=True)
class Prompt:
    """What a request starts from: one entry a position.

    Attributes:
        token_ids: int64 `[N]`; 0 where the position is audio.
        is_audio: bool `[N]`.
        patches: float32 `[A, P, D]`, the audio positions in order.
        is_continuation: the last position is audio that the new speech continues.
        prefix_len: positions at the start that hold a reference voice alone, so that prompts with
            the same `prefix_key` share their keys and values.
    """

    token_ids: np.ndarray
    is_audio: np.ndarray
    patches: np.ndarray
    is_continuation: bool = False
    prefix_len: int = 0
    prefix_key: str = ""

    def __len__(self) -> int:
        return len(self.token_ids)


@dataclass(frozen=True)
class Rows:
    """The rows of one decode step.

    Attributes:
        slots: int64 `[B]`, the state row of each.
        positions: int64 `[B]`, where this step's key and value go.
        noise: float32 `[B, P, D]`, standard normal, drawn from each row's own (seed, step).
        cfg: float32 `[B]`; guidance weight.
        num_steps: solver steps, the same for all rows.
        is_guided: compute the unconditional half.
        host_slots_positions: the first two on the host, where attention may loop over rows; None
            where the step must be tensors alone.
    """

    slots: Tensor
    positions: Tensor
    noise: Tensor
    cfg: Tensor
    num_steps: int
    is_guided: bool
    host_slots_positions: Sequence[tuple[int, int]] | None = None


@dataclass(frozen=True)
class StepOutput:
    """What one decode step leaves.

    Attributes:
        patches: `[B, P, D]`.
        is_end: bool `[B]`; the model's end token for this patch.
    """

    patches: Tensor
    is_end: Tensor


@dataclass(frozen=True)
class ModelInfo:
    """Facts about a loaded model.

    Attributes:
        sample_rate: Hz of the speech.
        reference_sample_rate: Hz that `encode_audio` takes.
        hop_length: samples a patch.
        patch_shape: `(P, D)`.
        max_positions: the longest sequence the checkpoint is made for.
        min_patches: the shortest utterance; an earlier end token is ignored.
        num_parameters: weights in all.
    """

    family: str
    sample_rate: int
    reference_sample_rate: int
    hop_length: int
    patch_shape: tuple[int, int]
    max_positions: int
    min_patches: int
    num_parameters: int
    default_steps: int
    default_cfg: float

    @property
    def patch_s(self) -> float:
        return self.hop_length / self.sample_rate


class AcousticModel(Protocol):
    """A loaded model. All state is in the object `new_state` returns, one row a slot."""

    @property
    def info(self) -> ModelInfo: ...

    def encode_prompt(
        self,
        text: str,
        *,
        reference: np.ndarray | None = None,
        prompt_text: str = "",
        prompt_audio: np.ndarray | None = None,
    ) -> Prompt:
        """Lay out a prompt.

        Args:
            text: the segment to speak.
            reference: latents `[A, P, D]` of the voice to imitate.
            prompt_text, prompt_audio: transcript and latents `[A, P, D]` of speech to continue.
        """
        ...

    def encode_audio(self, samples: np.ndarray, *, pad_left: bool = False) -> np.ndarray:
        """Mono float32 samples at `info.reference_sample_rate` -> latents `[A, P, D]`."""
        ...

    def can_say(self, character: str) -> bool:
        """Whether the tokenizer has the character."""
        ...

    def state_bytes(self, num_slots: int, num_positions: int) -> int:
        """What `new_state` allocates."""
        ...

    def new_state(self, num_slots: int, num_positions: int) -> Any:
        """Slot state, allocated once."""
        ...

    def prefill(self, state: Any, prompt: Prompt, slot: int, start: int = 0) -> None:
        """Run a prompt and leave the slot ready for its first `decode`; resets the slot first.

        Args:
            start: positions before it are in the slot already, by `copy_prefix`.
        """
        ...

    def prefill_together(self, state: Any, spans: Sequence[tuple[Prompt, int, int]]) -> None:
        """`prefill` of several prompts, each with its slot and start; the same up to rounding."""
        ...

    def prefill_prefix(self, state: Any, prompt: Prompt, slot: int) -> None:
        """Run the first `prompt.prefix_len` positions into a row, to be copied from there."""
        ...

    def copy_prefix(self, state: Any, source: int, slot: int, length: int) -> None:
        """Copy the first positions' keys and values from one row to another."""
        ...

    def prefill_rows(
        self, state: Any, token_ids: Tensor, slots: Tensor, starts: Tensor, last: Tensor,
        audio: tuple[Tensor, Tensor] | None = None,
    ) -> None:  # fmt: skip
        """`prefill` of spans of several prompts, in tensors alone, each padded at its end.

        Args:
            token_ids: int64 `[B, N]`; any ids where there is audio and after the last.
            slots: int64 `[B]`.
            starts: int64 `[B]`, the position of each span's first; those before are in the slot.
            last: int64 `[B]`, where in `[0, N)` each span's last is.
            audio: patches `[A, P, D]` and their places, int64 `[A]`: row * N + position, or
                B * N for a patch that is padding. Prompts that continue need `resume` as well.
        """
        ...

    def resume(self, state: Any, slot: int, patches: np.ndarray) -> None:
        """Let a prefilled slot continue the speech `[A, P, D]`: its condition and vocoder."""
        ...

    def decode(self, state: Any, rows: Rows) -> StepOutput:
        """`generate`, then `advance`: one whole step. Other slots keep their bits."""
        ...

    def generate(self, state: Any, rows: Rows) -> StepOutput:
        """One patch for each row; reads state, writes none."""
        ...

    def advance(self, state: Any, rows: Rows, patches: Tensor) -> None:
        """Let the language models hear the patches `[B, P, D]`; writes the rows' state."""
        ...

    def vocode(self, state: Any, slots: Sequence[int] | Tensor, patches: Tensor) -> Tensor:
        """The next `n` patches of each slot, `[B, n, P, D]`, to samples `[B, S]` in [-1, 1]."""
        ...
