"""The preflight of a reference recording: measured, refused if no model can use it, prepared.

Runs before any model loads and without torch. It cannot tell a good take from a bad one.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from importlib.util import find_spec

import numpy as np

from voxcli.audio.measure import (
    MAX_DC,
    QUIET_DBFS,
    ReferenceReport,
    doubts,
    level_dbfs,
    measure,
    speech_dbfs,
    text_doubts,
)
from voxcli.audio.read import Audio
from voxcli.audio.resample import Samples
from voxcli.audio.vad import (
    MIN_SPEECH_S,
    TRIM_KEEP_S,
    Region,
    best_part,
    find_speech,
    regions_within,
)
from voxcli.errors import RecordingError, UsageError, told_apart
from voxcli.extras import install_command, require
from voxcli.utterance import Recording

MAX_S = 30.0  # more costs time at every request and gains nothing
MAX_SEARCHED_S = 600.0  # an automatic choice looks no further: the detector takes 0.06 s a second
SILENT_DBFS = -65.0
TARGET_LUFS = -23.0  # EBU R 128
LOUDNESS = "pyloudnorm"  # what measures it; of the extra `dub`
MAX_PEAK = 0.891  # -1 dBFS


@dataclass(frozen=True)
class Preparation:
    """What a user wants done to a reference.

    Attributes:
        start_s, end_s: the part to take; None means from the beginning, to the end.
        is_auto: choose the best part.
        is_trimmed: cut silence at both ends.
        is_normalised: bring it to `TARGET_LUFS`.
    """

    start_s: float | None = None
    end_s: float | None = None
    is_auto: bool = False
    is_trimmed: bool = False
    is_normalised: bool = False

    def __post_init__(self) -> None:
        if self.is_auto and (self.start_s is not None or self.end_s is not None):
            raise UsageError(
                "--ref-auto chooses the part, but --ref-start or --ref-end gives one",
                hint="use one or the other",
            )
        start_s, end_s = self.start_s or 0.0, self.end_s
        if not 0 <= start_s < float("inf"):
            raise UsageError(f"--ref-start is {start_s:g}", hint="give seconds, 0 or more")
        if end_s is not None and not start_s < end_s < float("inf"):
            raise UsageError(
                f"--ref-end is {end_s:g}", hint=f"give seconds after --ref-start ({start_s:g})"
            )


def prepare_reference(
    audio: Audio, preparation: Preparation | None = None, *, has_text: bool = False
) -> tuple[Recording, ReferenceReport]:
    """Check a recording and make of it what a model hears.

    Of a long one the best part is taken, and a quiet one is brought to `TARGET_LUFS`, unasked.

    Args:
        has_text: its words are known, so that no part of it may be chosen.

    Raises:
        RecordingError: too short, silent, without speech, or too long and its words are known.
        UsageError: a part that the recording does not have, or one that is too long.
    """
    wish = preparation or Preparation()
    is_whole = wish.start_s is None and wish.end_s is None
    if is_whole and not has_text and audio.duration_s > MAX_S:
        wish = replace(wish, is_auto=True)
    if len(audio.samples) == 0:
        raise RecordingError(
            f"{audio.name} has 0 samples (0.00 s)",
            hint=f"give {MIN_SPEECH_S:g} s of speech or more",
        )
    actions: list[str] = [audio.downmix] if audio.downmix else []
    if audio.gain_db:
        actions.append(f"lowered by {-audio.gain_db:.1f} dB: its peak was above full scale")
    start_s, end_s = _part(audio, wish)
    samples = _slice(audio, start_s, end_s)
    regions = find_speech(samples, audio.sample_rate)
    if wish.is_auto:
        _refuse(audio.name, samples, audio.sample_rate, regions)
        best = best_part(regions, len(samples) / audio.sample_rate)
        start_s, end_s = best.start_s, best.end_s
        regions = regions_within(regions, best)
        samples = _slice(audio, start_s, end_s)
    if wish.is_trimmed and regions:
        kept = Region(
            max(0.0, regions[0].start_s - TRIM_KEEP_S),
            min(end_s - start_s, regions[-1].end_s + TRIM_KEEP_S),
        )
        regions = regions_within(regions, kept)
        start_s, end_s = start_s + kept.start_s, start_s + kept.end_s
        samples = _slice(audio, start_s, end_s)
    if len(samples) < len(audio.samples):
        actions.append(f"used {start_s:.2f} to {end_s:.2f} s of {audio.duration_s:.2f} s")
    _refuse(audio.name, samples, audio.sample_rate, regions)
    report = measure(audio, samples, regions, start_s, end_s)
    if abs(report.dc_offset) > MAX_DC:
        samples = (samples - np.float32(report.dc_offset)).clip(-1, 1)
        actions.append(f"removed a DC offset of {report.dc_offset:.3f}")
    is_quiet = report.level_dbfs < QUIET_DBFS
    if wish.is_normalised:
        require("'--ref-normalise'", LOUDNESS)
    can_normalise = find_spec(LOUDNESS) is not None
    if wish.is_normalised or (is_quiet and can_normalise):
        samples, action = _normalise(samples, audio.sample_rate)
        actions.append(action)
    recording = Recording(np.ascontiguousarray(samples), audio.sample_rate)
    warnings = doubts(report, is_chosen=wish.is_auto)
    if is_quiet and (level := speech_dbfs(samples, regions, audio.sample_rate)) < QUIET_DBFS:
        what_to_do = ", under a louder click or noise"
        if not can_normalise:
            what_to_do = f"; to have it raised, run: {install_command('voxcli[dub]')}"
        warnings += (f"quiet: speech at {level:.0f} dBFS{what_to_do}",)
    return recording, replace(report, key=recording.key, actions=tuple(actions), warnings=warnings)


def add_transcript(
    recording: Recording, report: ReferenceReport, text: str
) -> tuple[Recording, ReferenceReport]:
    """The same recording with its words; warns where they cannot be what is said."""
    text = " ".join(text.split())
    warnings = (*report.warnings, *text_doubts(text, report.speech_s))
    return replace(recording, text=text), replace(report, warnings=warnings)


def _part(audio: Audio, wish: Preparation) -> tuple[float, float]:
    """Start and end in seconds of what is looked at."""
    start_s, end_s = wish.start_s or 0.0, wish.end_s
    if start_s >= audio.duration_s or (end_s is not None and end_s > audio.duration_s + 0.005):
        what = f"--ref-start {start_s:g}" if start_s >= audio.duration_s else f"--ref-end {end_s:g}"
        raise UsageError(
            f"{what} is after the end of {audio.name} ({audio.duration_s:.2f} s)",
            hint="give seconds within it",
        )
    end_s = audio.duration_s if end_s is None else min(end_s, audio.duration_s)
    if wish.is_auto:
        return 0.0, min(end_s, MAX_SEARCHED_S)
    length, most = told_apart(end_s - start_s, MAX_S)
    if end_s - start_s > MAX_S and wish.start_s is None and wish.end_s is None:
        raise RecordingError(
            f"{audio.name} is {length} s long, at most {most} s can be used with its transcript",
            hint="choose a part with --ref-start and --ref-end and give its words, or give no "
            "transcript: then its best part is used",
        )
    if end_s - start_s > MAX_S:
        raise UsageError(
            f"--ref-start and --ref-end take {length} s of {audio.name}, at most {most} s can be "
            "used",
            hint="give a shorter part, or neither for its best one",
        )
    return start_s, end_s


def _slice(audio: Audio, start_s: float, end_s: float) -> Samples:
    return audio.samples[round(start_s * audio.sample_rate) : round(end_s * audio.sample_rate)]


def _refuse(name: str, samples: Samples, rate: int, regions: list[Region]) -> None:
    """Raise for what no model can use."""
    duration_s = len(samples) / rate
    level = level_dbfs(samples)
    speech_s = sum(region.duration_s for region in regions)
    if duration_s < MIN_SPEECH_S:
        length, least = told_apart(duration_s, MIN_SPEECH_S, 2)
        raise RecordingError(
            f"{name} is {length} s long, at least {least} s is needed",
            hint="give 3 to 30 s of one voice",
        )
    if not regions or level < SILENT_DBFS:
        raise RecordingError(
            f"no speech in {name} ({duration_s:.1f} s, level {level:.0f} dBFS)",
            hint="check the microphone and the file, and give 3 to 30 s of one voice",
        )
    if speech_s < MIN_SPEECH_S:
        length, least = told_apart(speech_s, MIN_SPEECH_S, 2)
        raise RecordingError(
            f"{name} has {length} s of speech in {duration_s:.2f} s, at least {least} s is needed",
            hint="give 3 to 30 s of one voice",
        )


def _normalise(samples: Samples, rate: int) -> tuple[Samples, str]:
    """At `TARGET_LUFS`, as far as the peaks allow; and what was done."""
    import pyloudnorm

    loudness = float(pyloudnorm.Meter(rate).integrated_loudness(samples.astype(np.float64)))
    peak = float(np.abs(samples).max())
    gain_db = min(TARGET_LUFS - loudness, 20 * float(np.log10(MAX_PEAK / peak)))
    louder = (samples * 10 ** (gain_db / 20)).astype(np.float32)
    return louder, f"changed by {gain_db:+.1f} dB from {loudness:.1f} LUFS"
