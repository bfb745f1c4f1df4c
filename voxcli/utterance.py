"""What the user asked and what comes back: `Utterance`, `AudioChunk`, `Result`.

Plain data, no torch. Letter: `S` samples.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import TYPE_CHECKING

from voxcli.config import SamplingParams

if TYPE_CHECKING:
    import numpy as np


class FinishReason(StrEnum):
    """Why generation of a segment ended."""

    STOP = "stop"  # the model's own end token
    LENGTH = "length"  # a cap was reached before the end token
    ABORT = "abort"  # the caller went away or an engine fault ended it


class Mode(StrEnum):
    """What a model can be given besides a text; `STYLE` goes with the first two alone."""

    ZERO_SHOT = "zero-shot"
    REFERENCE = "reference"
    CONTINUATION = "continuation"
    BOTH = "both"
    STYLE = "style"


class Use(StrEnum):
    """What a recording is for; a model hears it differently."""

    REFERENCE = "reference"  # its voice is imitated
    PROMPT = "prompt"  # the speech continues it


@dataclass(frozen=True, eq=False)
class VoiceEncoding:
    """What one model hears in a recording: named arrays that only its family looks into.

    Attributes:
        model: its name, for messages.
        encoder: SHA-256 of what the encoding depends on.
        arrays: by name; several uses of a recording may stand beside each other.
    """

    model: str
    encoder: str
    arrays: Mapping[str, np.ndarray]


@dataclass(frozen=True, eq=False)
class Recording:
    """Speech that a model hears before it speaks.

    Attributes:
        samples: float32 `[S]`, mono; None where only an encoding is kept.
        sample_rate: Hz.
        text: its transcript; empty when unknown.
        encoding: where a model has encoded it already.
        key: SHA-256 in hex; recordings with the same key are encoded once. Made from the content
            when empty.
    """

    samples: np.ndarray | None
    sample_rate: int
    text: str = ""
    encoding: VoiceEncoding | None = None
    key: str = ""

    def __post_init__(self) -> None:
        content = [] if self.samples is None else [self.samples]
        if self.encoding is not None:
            content = [array for _, array in sorted(self.encoding.arrays.items())]
        assert content, "a recording needs samples or an encoding"
        if not self.key:
            import hashlib  # loads OpenSSL, which a text alone can do without

            digest = hashlib.sha256(str(self.sample_rate).encode())
            for array in content:
                digest.update(f" {array.shape}".encode() + array.tobytes())
            object.__setattr__(self, "key", digest.hexdigest())


@dataclass(frozen=True)
class Utterance:
    """One text, one voice, one output.

    Attributes:
        text: what the user wrote, before any normalisation.
        voice: name of a voice, or None for the model's own; a name other than "default" comes with
            the recordings that it stands for.
        sampling: seed, the model's parameters and limits.
        language: ISO 639-1 code, or None to detect it.
        speed: tempo with the pitch kept; 2.0 halves the duration.
        is_normalised: whether numbers, abbreviations and the like are written out first.
        id: the caller's name for it, echoed in results.
        reference: a voice to imitate.
        prompt: speech to continue; needs its transcript.
        style: how it should sound, in words.
        continuity: let each segment continue the one before, so that voice and tempo do not jump.
        pause_s: seconds between segments; None means what punctuation asks for. Silence that the
            text asks for by a mark is not changed by it.
        lexicon: how words are said, as a table in CSV; see `text/pronunciations.py`.
    """

    text: str
    voice: str | None = None
    sampling: SamplingParams = field(default_factory=SamplingParams)
    language: str | None = None
    speed: float = 1.0
    is_normalised: bool = True
    id: str = ""
    reference: Recording | None = None
    prompt: Recording | None = None
    style: str = ""
    continuity: bool = False
    pause_s: float | None = None
    lexicon: str = ""

    @property
    def mode(self) -> Mode:
        """What the model is given besides the text."""
        if self.reference and self.prompt:
            return Mode.BOTH
        if self.reference:
            return Mode.REFERENCE
        return Mode.CONTINUATION if self.prompt else Mode.ZERO_SHOT


@dataclass(frozen=True)
class AudioChunk:
    """Samples leaving the vocoder, new ones only.

    Attributes:
        samples: float32 `[S]`, mono, in [-1, 1].
        sample_rate: Hz.
        segment: index of the segment they belong to.
        is_last: no chunk of this utterance follows.
    """

    samples: np.ndarray
    sample_rate: int
    segment: int
    is_last: bool = False


@dataclass(frozen=True)
class Pcm:
    """Samples as a pipe takes them: 16 bit, little-endian, mono. Needs no numpy."""

    data: bytes

    def __len__(self) -> int:
        return len(self.data) // 2


@dataclass(frozen=True)
class PcmChunk(AudioChunk):
    """The same as integers, for who said that it takes them."""

    samples: Pcm  # type: ignore[assignment]


@dataclass(frozen=True)
class SegmentReport:
    """How one segment went.

    Attributes:
        text: as the model had it.
        seed: of the attempt that was kept.
        attempts: tries in all.
        num_frames: generated in the attempt that was kept.
        audio_s: seconds of speech, before speed and pauses.
        warnings: what the output guard found doubtful.
        refused: why earlier attempts were not kept.
        start_s, end_s: where it sounds in the audio, with tempo and pauses; the silence of its
            beginning and end is not in it. 0 before it has left.
    """

    text: str
    seed: int
    attempts: int
    num_frames: int
    audio_s: float
    finish_reason: FinishReason
    warnings: tuple[str, ...] = ()
    refused: tuple[str, ...] = ()
    start_s: float = 0.0
    end_s: float = 0.0

    def later(self, by_s: float) -> SegmentReport:
        """The same where the speech begins later in the audio."""
        return replace(self, start_s=self.start_s + by_s, end_s=self.end_s + by_s)


def finish_of(segments: Iterable[SegmentReport]) -> FinishReason:
    """How a speech ended: as its segments did, with the worst of them."""
    reasons = {segment.finish_reason for segment in segments}
    for reason in (FinishReason.ABORT, FinishReason.LENGTH):
        if reason in reasons:
            return reason
    return FinishReason.STOP


@dataclass(frozen=True)
class Result:
    """A finished utterance.

    Attributes:
        samples: float32 `[S]`, mono.
        sample_rate: Hz.
        seed: the seed that was asked or chosen; each segment reports the one it used.
        ttfa_s: from the call to the first samples on the host.
        wall_s: from the call to the last samples on the host.
    """

    utterance: Utterance
    samples: np.ndarray
    sample_rate: int
    seed: int
    segments: tuple[SegmentReport, ...]
    ttfa_s: float
    wall_s: float

    @property
    def audio_s(self) -> float:
        return len(self.samples) / self.sample_rate

    @property
    def rtf(self) -> float:
        """Wall seconds a second of audio; lower is better."""
        return self.wall_s / self.audio_s

    @property
    def speed_x(self) -> float:
        """Seconds of audio a wall second ("x real time")."""
        return self.audio_s / self.wall_s

    @property
    def finish_reason(self) -> FinishReason:
        return finish_of(self.segments)

    @property
    def attempts(self) -> int:
        return max((segment.attempts for segment in self.segments), default=0)
