"""What the user asked and what comes back: `Utterance`, `AudioChunk`, `Result`.

Plain data, no torch. Letters: `S` samples, `A` patches, `P` latent vectors in a patch, `D` latent
width.
"""

from __future__ import annotations

from dataclasses import dataclass, field
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


@dataclass(frozen=True, eq=False)
class Recording:
    """Speech that a model hears before it speaks.

    Attributes:
        samples: float32 `[S]`, mono; None where only latents are kept.
        sample_rate: Hz.
        text: its transcript; empty when unknown.
        latents: float32 `[A, P, D]` where a model has encoded it already, padded as needed.
        key: SHA-256 in hex; recordings with the same key are encoded once. Made from the content
            when empty.
    """

    samples: np.ndarray | None
    sample_rate: int
    text: str = ""
    latents: np.ndarray | None = None
    key: str = ""

    def __post_init__(self) -> None:
        content = self.samples if self.latents is None else self.latents
        assert content is not None, "a recording needs samples or latents"
        if not self.key:
            import hashlib  # loads OpenSSL, which a text alone can do without

            digest = hashlib.sha256(f"{self.sample_rate} {content.shape}".encode())
            digest.update(content.tobytes())
            object.__setattr__(self, "key", digest.hexdigest())


@dataclass(frozen=True)
class Utterance:
    """One text, one voice, one output.

    Attributes:
        text: what the user wrote, before any normalisation.
        voice: name of a voice, or None for the model's own; a name other than "default" comes with
            the recordings that it stands for.
        sampling: seed, steps, guidance and limits.
        language: ISO 639-1 code, or None to detect it.
        speed: tempo with the pitch kept; 2.0 halves the duration.
        is_normalised: whether numbers, abbreviations and the like are written out first.
        id: the caller's name for it, echoed in results.
        reference: a voice to imitate.
        prompt: speech to continue; needs its transcript.
        style: how it should sound, in words.
        continuity: let each segment continue the one before, so that voice and tempo do not jump.
        pause_s: seconds between segments; None means what the text asks for.
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
class PcmChunk:
    """An `AudioChunk` as integers."""

    samples: Pcm
    sample_rate: int
    is_last: bool = False


@dataclass(frozen=True)
class SegmentReport:
    """How one segment went.

    Attributes:
        text: as the model had it.
        seed: of the attempt that was kept.
        attempts: tries in all.
        steps: patches generated in the attempt that was kept.
        audio_s: seconds of speech, before speed and pauses.
        warnings: what the output guard found doubtful.
        refused: why earlier attempts were not kept.
    """

    text: str
    seed: int
    attempts: int
    steps: int
    audio_s: float
    finish_reason: FinishReason
    warnings: tuple[str, ...] = ()
    refused: tuple[str, ...] = ()


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
        reasons = {segment.finish_reason for segment in self.segments}
        for reason in (FinishReason.ABORT, FinishReason.LENGTH):
            if reason in reasons:
                return reason
        return FinishReason.STOP

    @property
    def attempts(self) -> int:
        return max((segment.attempts for segment in self.segments), default=0)
