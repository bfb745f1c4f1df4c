"""What passes between the engine and a model: prompts, rows, outputs, and facts of a loaded one.

Plain data; only a model looks into its own prompts and frames. Imported with torch, not before.

Letters: `B` rows, `N` positions, `T` frames, `S` samples.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from voxcli.models.base import GraphKey

if TYPE_CHECKING:
    import numpy as np
    from torch import Tensor


class Prompt(Protocol):
    """What a request starts from; only its model looks inside.

    Attributes:
        prefix_len: positions at the start that other prompts share; 0 where none can be.
        prefix_key: prompts with the same key share their first `prefix_len` positions.
    """

    @property
    def prefix_len(self) -> int: ...
    @property
    def prefix_key(self) -> str: ...

    def __len__(self) -> int:
        """Positions."""
        ...


@dataclass(frozen=True)
class PromptParts:
    """What a prompt is made of.

    Attributes:
        text: the segment to speak.
        language: ISO 639-1.
        voice: a preset one by name, or None.
        style: how it should sound, in words.
        reference: arrays of a `VoiceEncoding`, of the voice to imitate.
        prompt, prompt_text: arrays and transcript of the speech to continue.
        parameters: of the family, where the layout depends on them; None means its defaults.
    """

    text: str
    language: str = ""
    voice: str | None = None
    style: str = ""
    reference: Mapping[str, np.ndarray] | None = None
    prompt: Mapping[str, np.ndarray] | None = None
    prompt_text: str = ""
    parameters: Any = None


@dataclass(frozen=True)
class PromptKind:
    """Prompts that graphs are captured for.

    Attributes:
        sizes: positions that go together, ascending; of one prompt or of several.
    """

    name: str
    sizes: tuple[int, ...]


@dataclass(frozen=True)
class PromptShape:
    """`N` positions of one kind: of up to `num_spans` spans, one behind the other."""

    num_positions: int
    num_spans: int
    kind: str


@dataclass(frozen=True)
class Span:
    """Positions `start .. end` of a prompt on their way into a row of the state."""

    prompt: Prompt
    row: int
    start: int
    end: int

    def __len__(self) -> int:
        return self.end - self.start

    @property
    def is_last(self) -> bool:
        """Whether its prompt ends with it."""
        return self.end == len(self.prompt)


@dataclass(frozen=True)
class PackedSpans:
    """Where `N` positions of spans that lie one behind the other belong.

    Positions that no span has, and what a span behind which its prompt goes on leaves, belong to a
    row of the state that nobody has.

    Attributes:
        rows, positions: int64 `[N]`, the state row of each and its position in its prompt.
        tiles: int64 `[T, 2]`, first and end of neighbours that one span has, at most
            `layers.attention.PROMPT_TILE`; those that are not needed are empty.
        ended_rows, ends: int64 `[S]`, of each span behind which its prompt ends the state row, and
            which of the `N` is its last.
    """

    rows: Tensor
    positions: Tensor
    tiles: Tensor
    ended_rows: Tensor
    ends: Tensor


@dataclass(frozen=True)
class Input:
    """A tensor that the engine lays out for the model.

    Attributes:
        shape: of one row's value, `()` for a number; of the whole tensor, of a prompt shape.
        dtype: "int64" or "float32".
    """

    name: str
    dtype: str = "int64"
    shape: tuple[int, ...] = ()


class HostRow(NamedTuple):
    """A row as the host knows it."""

    slot: int
    position: int
    seed: int
    step: int


@dataclass(frozen=True)
class Rows:
    """The rows of one decode step; all of them share a graph key.

    Attributes:
        slots: int64 `[B]`, the state row of each.
        positions: int64 `[B]`, where this step's key and value go.
        seeds, steps: int64 `[B]`; what is random in a row is a function of the two.
        inputs: `[B]` each, the model's declared row inputs by name. Rows of a graph that nobody has
            hold zeros, and what comes of them is thrown away.
        key: the graph key.
        host: the rows on the host, where a model may loop over them; None where the step must be
            tensors alone.
    """

    slots: Tensor
    positions: Tensor
    seeds: Tensor
    steps: Tensor
    inputs: Mapping[str, Tensor]
    key: GraphKey
    host: Sequence[HostRow] | None = None


@dataclass(frozen=True)
class StepOutput:
    """What one decode step leaves.

    Attributes:
        frames: `[B, …]`.
        is_end: bool `[B]`; nothing follows this step.
        has_frame: bool `[B]`; False where the end has no sound of its own. None: every row has one.
    """

    frames: Tensor
    is_end: Tensor
    has_frame: Tensor | None = None


@dataclass(frozen=True)
class ModelInfo:
    """Facts about a loaded model.

    Attributes:
        sample_rate: Hz of the speech.
        reference_sample_rate: Hz that `encode_recording` takes.
        hop_length: samples a frame.
        max_positions: the longest sequence the checkpoint is made for.
        min_frames: the shortest utterance; an earlier end that has a frame is ignored.
        num_parameters: weights in all.
        first_chunk, chunk: frames that leave the vocoder together where somebody listens: the first
            time, and when the listener's buffer has grown.
    """

    family: str
    sample_rate: int
    reference_sample_rate: int
    hop_length: int
    max_positions: int
    min_frames: int
    num_parameters: int
    first_chunk: int = 1
    chunk: int = 4

    @property
    def frame_s(self) -> float:
        return self.hop_length / self.sample_rate
