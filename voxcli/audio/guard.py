"""Checks of one generated segment: is this plausibly the speech of that text, whole and clean?

Looks at samples and text length only; it recognises no words and asks no model. Meant for the
model's own audio, before any time-stretch. A fatal problem is worth a fresh attempt; a warning goes
into the report.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

import numpy as np

from voxcli.audio.joins import frame_levels, sounding
from voxcli.audio.pace import max_audio_seconds, min_speech_seconds
from voxcli.audio.resample import Samples
from voxcli.errors import told_apart

__all__ = ["Problem", "ProblemKind", "check_audio", "has_fatal", "max_audio_seconds"]

SILENT_DBFS = -60.0  # RMS over all samples; what the writer refuses too

CLIPPED_AT = 0.999  # |x| of a sample that hit the rail
CLIPPED_SHARE = 0.005  # audible roughness; a normalised clean voice stays under 0.0005
CLIPPED_SHARE_FATAL = 0.05  # a decoder that blew up, no longer a voice

FRAME_S = 0.020  # two pitch periods of a low voice, so that levels do not follow single pulses

NOISE_TAIL_S = 1.0  # no vowel is held that long; shorter, it may be a fricative and breath
NOISE_SPREAD_DB = 6.0  # 10th to 90th percentile of frame levels; white noise 1-2, speech over 15
NOISE_FLATNESS = 0.2  # spectral flatness; white noise 0.56, pink-like hiss 0.25, vowels under 0.05
NOISE_MIN_DBFS = -50.0  # quieter is a noise floor, handled as silence

TRAILING_SILENCE_S = 1.5  # longer than any pause the text can ask for at its end

TAIL_CUT_S = 0.020  # the last frame
TAIL_CUT_DB = 12.0  # a last frame this near the speech level means that no decay was heard


class ProblemKind(StrEnum):
    """What can be wrong with a segment."""

    EMPTY = "empty"
    NAN = "nan"
    SILENT = "silent"
    CLIPPED = "clipped"
    RUNAWAY = "runaway"
    TRUNCATED = "truncated"
    NOISY_TAIL = "noisy_tail"
    TRAILING_SILENCE = "trailing_silence"
    TAIL_CUT = "tail_cut"


@dataclass(frozen=True)
class Problem:
    """One finding.

    Attributes:
        message: what was measured, with the bound; a line for the report.
        is_fatal: the segment should be generated again.
    """

    kind: ProblemKind
    message: str
    is_fatal: bool


def has_fatal(problems: tuple[Problem, ...]) -> bool:
    return any(problem.is_fatal for problem in problems)


def check_audio(
    samples: Samples, sample_rate: int, text: str, language: str | None = None
) -> tuple[Problem, ...]:
    """All problems found, the ones that make others meaningless alone.

    Args:
        samples: float32 `[S]`, mono, the whole segment.
        text: what it should say, as it was given to the model.
    """
    assert samples.ndim == 1, f"mono samples expected, got shape {samples.shape}"
    if len(samples) == 0:
        return (Problem(ProblemKind.EMPTY, "no audio", True),)
    if not np.isfinite(samples).all():
        count = int((~np.isfinite(samples)).sum())
        return (Problem(ProblemKind.NAN, f"{count} samples are NaN or infinite", True),)
    level = _dbfs(samples)
    first, last = sounding(samples, sample_rate)
    if level < SILENT_DBFS or last == 0:
        return (Problem(ProblemKind.SILENT, f"silent ({level:.0f} dBFS)", True),)
    found = (
        _clipped(samples),
        _too_long(last / sample_rate, text, language),
        _too_short((last - first) / sample_rate, text, language),
        _noisy_tail(samples[:last], sample_rate),
        _trailing_silence((len(samples) - last) / sample_rate),
        _tail_cut(samples, sample_rate, first, last),
    )
    return tuple(problem for problem in found if problem)


def _dbfs(samples: Samples) -> float:
    return float(10 * np.log10(np.square(samples, dtype=np.float64).mean() + 1e-12))


def _clipped(samples: Samples) -> Problem | None:
    share = float((np.abs(samples) >= CLIPPED_AT).mean())
    if share < CLIPPED_SHARE:
        return None
    message = f"{share:.1%} of the samples are clipped"
    return Problem(ProblemKind.CLIPPED, message, share >= CLIPPED_SHARE_FATAL)


def _too_long(audio_s: float, text: str, language: str | None) -> Problem | None:
    bound = max_audio_seconds(text, language)
    if audio_s <= bound:
        return None
    length, most = told_apart(audio_s, bound)
    message = f"{length} s is too long for the text (at most {most} s)"
    return Problem(ProblemKind.RUNAWAY, message, True)


def _too_short(speech_s: float, text: str, language: str | None) -> Problem | None:
    bound = min_speech_seconds(text, language)
    if speech_s >= bound:
        return None
    length, least = told_apart(speech_s, bound)
    message = f"{length} s is too short for the text (at least {least} s)"
    return Problem(ProblemKind.TRUNCATED, message, True)


def _noisy_tail(samples: Samples, sample_rate: int) -> Problem | None:
    """Steady hiss where the end token should have come."""
    length = round(NOISE_TAIL_S * sample_rate)
    if len(samples) < length:
        return None
    tail = samples[-length:]
    levels = frame_levels(tail, sample_rate, FRAME_S)
    # NOTE: np.percentile does the same, and imports numpy.ma for it, which takes 15 ms
    ranks = np.linspace(0, 1, len(levels))
    low, middle, high = np.interp((0.1, 0.5, 0.9), ranks, np.sort(levels))
    if middle < NOISE_MIN_DBFS or high - low > NOISE_SPREAD_DB:
        return None
    if _flatness(tail, sample_rate) < NOISE_FLATNESS:
        return None
    message = f"the last {NOISE_TAIL_S:g} s are steady noise at {middle:.0f} dBFS"
    return Problem(ProblemKind.NOISY_TAIL, message, True)


def _flatness(samples: Samples, sample_rate: int) -> float:
    """Median over frames of geometric by arithmetic mean of the power spectrum, 100 Hz to 8 kHz."""
    size = round(FRAME_S * sample_rate)
    frames = samples[: len(samples) // size * size].reshape(-1, size) * np.hanning(size)
    power = np.abs(np.fft.rfft(frames)) ** 2 + 1e-12  # [frames, size/2 + 1]
    hertz = np.fft.rfftfreq(size, 1 / sample_rate)
    power = power[:, (hertz >= 100) & (hertz <= 8000)]
    return float(np.median(np.exp(np.log(power).mean(axis=1)) / power.mean(axis=1)))


def _trailing_silence(silence_s: float) -> Problem | None:
    if silence_s <= TRAILING_SILENCE_S:
        return None
    return Problem(ProblemKind.TRAILING_SILENCE, f"{silence_s:.1f} s of silence at the end", False)


def _tail_cut(samples: Samples, sample_rate: int, first: int, last: int) -> Problem | None:
    size = round(TAIL_CUT_S * sample_rate)
    if len(samples) - last > size:
        return None
    distance = _dbfs(samples[first:last]) - _dbfs(samples[-size:])
    if distance > TAIL_CUT_DB:
        return None
    return Problem(ProblemKind.TAIL_CUT, "speech ends abruptly; the last sound may be cut", False)
