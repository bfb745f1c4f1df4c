"""What the engine asks of a model family, and no more.

`ModelFamily` answers from a checkpoint's files without torch: what it is, which files it needs,
what it can be told. `SpeechModel` is a loaded one: it turns prompts into slot state, advances every
running row by one frame and turns frames into samples. Prompts and frames are its own; the engine
carries them. It never sees a `Request`; the engine never sees a family by name. What passes between
the two is in `data.py`.

Letters: `B` rows, `N` positions, `T` frames, `S` samples.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from voxcli.parameters import Parameter, Values, declared
from voxcli.utterance import Mode, Use, Utterance

if TYPE_CHECKING:
    import numpy as np
    import torch
    from torch import Tensor

    from voxcli.models.data import (
        HostRow,
        Input,
        ModelInfo,
        PackedSpans,
        Prompt,
        PromptKind,
        PromptParts,
        PromptShape,
        Rows,
        Span,
        StepOutput,
    )
    from voxcli.models.served import ServedModel

GraphKey = tuple[Any, ...]  # plain values that can be compared, shown and written as JSON


@dataclass(frozen=True)
class ModelFacts:
    """What a checkpoint is and can be told, known before it is loaded.

    Attributes:
        family: name of its family.
        sample_rate: Hz of the speech.
        reference_sample_rate: Hz of what the model hears of a recording.
        parameters: what it can be told, with meanings, ranges and defaults.
        languages: ISO 639-1 codes, its own first; empty means any.
        modes: what it can be given besides a text.
        voices: preset ones, by name.
    """

    family: str
    sample_rate: int
    reference_sample_rate: int
    parameters: tuple[Parameter, ...] = ()
    languages: tuple[str, ...] = ()
    modes: tuple[Mode, ...] = tuple(Mode)
    voices: tuple[str, ...] = ()


@dataclass(frozen=True)
class Published:
    """A checkpoint that its makers publish, for advice.

    Attributes:
        name: hub id.
        modes: what it can be given besides a text.
        title: what it is, in a few words.
        size: bytes of its files, about.
        languages: ISO 639-1 codes.
        voices: preset ones, by name.
    """

    name: str
    modes: tuple[Mode, ...]
    title: str
    licence: str
    size: int
    languages: tuple[str, ...]
    voices: tuple[str, ...] = ()


class ModelFamily(ABC):
    """One kind of checkpoint. An object without state; importing its module imports no torch.

    Attributes:
        name: as in the architecture that a checkpoint's configuration names.
        parameters: frozen dataclass whose fields are made by `parameters.parameter`.
        parts: for each part that a checkpoint needs, the files that may hold it, relative to its
            folder; the first that exists is used.
        extras: further files, relative to the folder, that are downloaded where they exist;
            patterns with `*` are allowed.
        encoder_parts: parts (or files) that the encoding of a recording depends on.
        published: checkpoints that can be had, besides those that voxcli knows by name.
    """

    name: str
    parameters: type
    parts: Mapping[str, tuple[str, ...]]
    extras: tuple[str, ...] = ()
    encoder_parts: tuple[str, ...]
    published: tuple[Published, ...] = ()

    def instead_of(self, name: str) -> str | None:
        """What to use in the place of a hub id that looks like this family's and is not supported;
        None where it may be."""
        return None

    @abstractmethod
    def recognises(self, config: Mapping[str, Any]) -> bool:
        """Whether a root `config.json` is of this family."""

    @abstractmethod
    def facts(self, folder: Path, config: Mapping[str, Any]) -> ModelFacts:
        """Raises CheckpointError: the configuration lacks something."""

    @abstractmethod
    def can_say(self, folder: Path) -> Callable[[str], bool]:
        """Whether the tokenizer has a character; loads the tokenizer alone."""

    def served(self, name: str) -> ServedModel | None:
        """What a model is where another program serves it.

        Args:
            name: the last part of what it is called there.

        Returns:
            None for one that is not of this family, as far as its name tells.
        """
        return None

    def served_here(self, folder: Path, config: Mapping[str, Any]) -> ServedModel | None:
        """The same of a checkpoint, where another program is to run it in this process."""
        return self.served(self.name)

    def check(self, utterance: Utterance) -> Utterance:
        """The utterance as it is to be spoken.

        Raises:
            UsageError: it asks for what the family cannot combine.
        """
        return utterance

    @property
    def declaration(self) -> tuple[Parameter, ...]:
        """`parameters` as plain data."""
        return declared(self.parameters)

    def parameters_of(self, values: Values) -> Any:
        """`parameters` from settled values."""
        return self.parameters(**values)

    @abstractmethod
    def graph_key(self, parameters: Any) -> GraphKey:
        """What rows must share to stand in one graph."""

    def cheapest(self, parameters: Any) -> Any:
        """Of all parameters whose graphs launch the same kernels, the ones that launch fewest."""
        return parameters

    @abstractmethod
    def load(
        self, folder: Path, device: torch.device, dtype: torch.dtype, *, is_native: bool = True
    ) -> SpeechModel:
        """Load a checkpoint; every weight is used or the load fails.

        Args:
            is_native: use compiled kernels on a CPU where there are any.

        Raises:
            CheckpointError: missing, damaged or surplus parts, by name.
        """

    def array_loader(self) -> ArrayLoader:
        """What loads the same in arrays, on a CPU in fp32 and without torch; None where that is not
        done. Everything it needs is imported here: it may run in a thread.

        It raises CheckpointError as `load` does.
        """
        return lambda folder: None

    @abstractmethod
    def load_shapes(self, folder: Path, dtype: torch.dtype) -> SpeechModel:
        """The same on the device "meta": no weights, and no more layers than differ."""

    @abstractmethod
    def load_random(
        self, config: Mapping[str, Any], folder: Path, device: torch.device, dtype: torch.dtype,
        *, is_native: bool = True,
    ) -> SpeechModel:  # fmt: skip
        """A model of a configuration's size with random weights: for speed, never for sound.

        Args:
            folder: where a tokenizer may be; without one a stand-in makes ids that mean nothing.
        """


class SpeechModel(Protocol):
    """A loaded model. All state is in the object `new_state` returns, one row a slot."""

    @property
    def info(self) -> ModelInfo: ...

    @property
    def family(self) -> ModelFamily: ...

    @property
    def row_inputs(self) -> tuple[Input, ...]:
        """What may differ from row to row of a graph."""
        ...

    @property
    def prompt_kinds(self) -> tuple[PromptKind, ...]:
        """The kinds of prompts that graphs are captured for."""
        ...

    # ------------------------------------------------------------ prompts

    def make_prompt(self, parts: PromptParts) -> Prompt:
        """Lay out a prompt."""
        ...

    def encode_recording(self, samples: np.ndarray, use: Use) -> dict[str, np.ndarray]:
        """What the model hears of mono float32 samples at `info.reference_sample_rate`."""
        ...

    def can_take(self, arrays: Mapping[str, np.ndarray], use: Use) -> bool:
        """Whether arrays of an encoding have the names and shapes that it needs for a use."""
        ...

    def can_say(self, character: str) -> bool:
        """Whether the tokenizer has the character."""
        ...

    # ------------------------------------------------------------ state

    def state_bytes(self, num_slots: int, num_positions: int) -> int:
        """What `new_state` allocates."""
        ...

    def new_state(self, num_slots: int, num_positions: int) -> Any:
        """Slot state, allocated once."""
        ...

    def copy_prefix(self, state: Any, source: int, slot: int, length: int) -> None:
        """Copy the first positions' state from one row to another."""
        ...

    # ------------------------------------------------------------ prefill

    def prefill_together(self, state: Any, spans: Sequence[tuple[Any, int, int]]) -> None:
        """Run prompts and leave their slots ready for the first `decode`; resets the slots first.

        Args:
            spans: prompt, slot and start of each; positions before the start are in the slot
                already, by `copy_prefix`.
        """
        ...

    def prefill_prefix(self, state: Any, prompt: Any, slot: int) -> None:
        """Run the first `prompt.prefix_len` positions into a row, to be copied from there."""
        ...

    def kind_of(self, prompt: Any, start: int, end: int) -> str:
        """Which of `prompt_kinds` these positions are."""
        ...

    def prompt_inputs(self, shape: PromptShape) -> tuple[Input, ...]:
        """What `prefill_packed` reads for a shape, besides where positions belong."""
        ...

    def fill_inputs(
        self, shape: PromptShape, spans: Sequence[Span], arrays: Mapping[str, np.ndarray]
    ) -> None:
        """Write the declared inputs of spans, one behind the other, into host arrays of zeros."""
        ...

    def prefill_packed(
        self, state: Any, shape: PromptShape, packed: PackedSpans, inputs: Mapping[str, Tensor]
    ) -> None:
        """`prefill_together` of spans, in tensors alone; what is before a span is in its row.

        Only rows of the state behind whose span the prompt ends are ready for `decode` then.
        """
        ...

    def resume(self, state: Any, slot: int, prompt: Any) -> None:
        """After `prefill_packed` of all its spans: what a slot needs besides, if anything."""
        ...

    # ------------------------------------------------------------ decode

    def row_values(self, prompt: Any, parameters: Any, step: int) -> Sequence[float]:
        """A row's values for the declared row inputs, in their order."""
        ...

    def decode(self, state: Any, rows: Rows) -> StepOutput:
        """`generate`, then `advance`: one whole step. Other slots keep their bits."""
        ...

    def generate(self, state: Any, rows: Rows) -> StepOutput:
        """One frame for each row; reads state, writes none that `advance` does not know."""
        ...

    def advance(self, state: Any, rows: Rows, frames: Tensor) -> None:
        """Let the model hear the frames; writes the rows' state."""
        ...

    def vocode(self, state: Any, slots: Sequence[int] | Tensor, frames: Tensor) -> Tensor:
        """The next `T` frames of each slot, `[B, T, …]`, to samples `[B, S]` in [-1, 1]."""
        ...


class ArrayModel(Protocol):
    """A loaded model that computes in arrays, on a CPU; methods of the same names do the same as
    those of `SpeechModel`, with the same bits."""

    @property
    def info(self) -> ModelInfo: ...

    @property
    def family(self) -> ModelFamily: ...

    def make_prompt(self, parts: PromptParts) -> Prompt: ...

    def encode_recording(self, samples: np.ndarray, use: Use) -> dict[str, np.ndarray]:
        """It may import torch."""
        ...

    def can_take(self, arrays: Mapping[str, np.ndarray], use: Use) -> bool: ...

    def can_say(self, character: str) -> bool: ...

    def new_state(self, num_slots: int, num_positions: int) -> Any: ...

    def copy_prefix(self, state: Any, source: int, slot: int, length: int) -> None: ...

    def prefill_together(self, state: Any, spans: Sequence[tuple[Any, int, int]]) -> None: ...

    def prefill_prefix(self, state: Any, prompt: Any, slot: int) -> None: ...

    def row_values(self, prompt: Any, parameters: Any, step: int) -> Sequence[float]: ...

    def decode(
        self, state: Any, rows: Sequence[HostRow], values: Sequence[Sequence[float]], key: GraphKey
    ) -> tuple[np.ndarray, np.ndarray]:
        """One whole step of rows that share a graph key; other slots keep their bits.

        Args:
            values: of the declared row inputs, of each row.

        Returns:
            frames `[B, …]`, and bool `[B]`: nothing follows this step.
        """
        ...

    def vocode(self, state: Any, slots: Sequence[int], frames: np.ndarray) -> np.ndarray: ...


ArrayLoader = Callable[[Path], ArrayModel | None]
