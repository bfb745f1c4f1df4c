"""A reference in numbers, and what is doubtful about it. Letter: `S` samples."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from voxcli.audio.joins import frame_levels
from voxcli.audio.pace import speaking_time
from voxcli.audio.read import Audio
from voxcli.audio.resample import EMPTY, Samples
from voxcli.audio.vad import SHORT_SPEECH_S, Region
from voxcli.errors import told_apart

QUIET_DBFS = -40.0  # of the speech; a voice into an ordinary microphone is at -35 to -15
MIN_SNR_DB = 20.0  # noise is imitated too
MAX_SNR_DB = 80.0  # digital silence between words has no level of its own
MIN_SHARE = 0.5  # of the recording that is speech
CLIPPED_SHARE = 0.0005  # a normalised clean voice stays below
CLIPPED_RUN = 3  # samples at the rail in a row; a mere peak has one or two
MAX_DC = 0.01  # -40 dBFS
LOW_RATE = 16_000  # Hz; below, consonants lack their upper half
# An end this near the level of the speech is no end of a word: finds 91 % of cuts at random places,
# and 3 % of ends in pauses. A start may rise to its level within 5 ms, so less of it counts: finds
# 75 % of cuts, and none of 308 starts of the bundled voice.
CUT_DB = 25.0
END_S = 0.02
CUT_START_DB = 12.0
START_S = 0.002
ABOVE_NOISE_DB = 6.0  # steady noise runs into both ends of a recording, and cuts no word

MAX_TEXT_SHARE = 0.65  # shortest plausible time of the transcript in the time of the speech: 26/s
MIN_TEXT_SHARE = 0.5  # longest plausible time of the transcript in the time of the speech


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


def measure(
    audio: Audio, samples: Samples, regions: list[Region], start_s: float, end_s: float
) -> ReferenceReport:
    rate = audio.sample_rate
    duration_s = len(samples) / rate
    speech_s = sum(region.duration_s for region in regions)
    is_speech = _in_regions(len(samples), regions, rate)
    offset = float(samples.mean(dtype=np.float64))
    centred = (samples - np.float32(offset)).astype(np.float32)
    level = level_dbfs(centred[is_speech])
    noise, has_pauses = _noise_dbfs(centred, rate, is_speech)
    start, end = (max(1, round(length_s * rate)) for length_s in (START_S, END_S))
    least = noise + ABOVE_NOISE_DB if has_pauses else level_dbfs(EMPTY)
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
        is_cut_at_start=level_dbfs(centred[:start]) > max(level - CUT_START_DB, least),
        is_cut_at_end=level_dbfs(centred[-end:]) > max(level - CUT_DB, least),
        key="",
    )


def _in_regions(num_samples: int, regions: list[Region], rate: int) -> NDArray[np.bool_]:
    is_speech = np.zeros(num_samples, bool)
    for region in regions:
        is_speech[round(region.start_s * rate) : round(region.end_s * rate)] = True
    return is_speech


def speech_dbfs(samples: Samples, regions: list[Region], rate: int) -> float:
    """RMS of what is speech."""
    return level_dbfs(samples[_in_regions(len(samples), regions, rate)])


def _noise_dbfs(samples: Samples, rate: int, is_speech: NDArray[np.bool_]) -> tuple[float, bool]:
    """Level outside the speech, or of the quietest frames where there is no pause; and whether
    there is one."""
    size = max(1, round(END_S * rate))
    levels = frame_levels(samples, rate, END_S)
    is_quiet = ~np.logical_or.reduceat(is_speech, np.arange(0, len(samples), size))
    if is_quiet.sum() >= 5:  # 0.1 s
        return float(np.median(levels[is_quiet])), True
    return float(np.percentile(levels, 5)), False


def _clipped_share(samples: Samples) -> float:
    """Share of samples in flat tops: runs at the loudest level that occurs."""
    peak = float(np.abs(samples).max(initial=0.0))
    is_top = np.abs(samples) >= 0.999 * peak
    edges = np.flatnonzero(np.diff(np.pad(is_top, 1).astype(np.int8))).reshape(-1, 2)
    runs = edges[:, 1] - edges[:, 0]
    return float(runs[runs >= CLIPPED_RUN].sum() / len(samples))


def doubts(report: ReferenceReport, *, is_chosen: bool = False) -> tuple[str, ...]:
    """What a user should know before wondering about the result.

    Args:
        is_chosen: its part was chosen automatically, which need not be suggested.
    """
    found = []
    choose = "" if is_chosen else ", --ref-auto"
    if report.speech_s < SHORT_SPEECH_S:
        length, wanted = told_apart(report.speech_s, SHORT_SPEECH_S)
        found.append(f"only {length} s of speech: {wanted} s or more give a steadier voice")
    if report.speech_share < MIN_SHARE:
        found.append(f"only {report.speech_share:.0%} of it is speech (--ref-trim{choose})")
    if report.snr_db < MIN_SNR_DB:
        ratio, wanted = told_apart(report.snr_db, MIN_SNR_DB, 0)
        found.append(
            f"noisy: speech is {ratio} dB above the noise; {wanted} dB or more are better, "
            "because the voice imitates the noise too"
        )
    if report.clipped_share > CLIPPED_SHARE:
        found.append(f"clipped: {report.clipped_share:.2%} of the samples are in flat tops")
    if abs(report.dc_offset) > MAX_DC:
        found.append(f"DC offset of {report.dc_offset:.3f}: the recording chain has a fault")
    if report.sample_rate < LOW_RATE:
        found.append(f"{report.sample_rate} Hz: it has nothing above {report.sample_rate // 2} Hz")
    for is_cut, end in ((report.is_cut_at_start, "start"), (report.is_cut_at_end, "end")):
        if is_cut:
            where = f"there is sound up to its very {end}, so a word may be cut"
            found.append(f"{where} (--ref-{end}{choose})")
    return tuple(found)


def text_doubts(text: str, speech_s: float) -> tuple[str, ...]:
    pace = speaking_time(text)
    counted = f"{len(text)} characters for {speech_s:.1f} s of speech"
    if pace.fastest_s > MAX_TEXT_SHARE * speech_s:
        return (f"the transcript is too long for the recording: {counted}",)
    if pace.slowest_s < MIN_TEXT_SHARE * speech_s:
        return (f"the transcript is too short for the recording: {counted}",)
    return ()


def level_dbfs(samples: NDArray[Any]) -> float:
    if len(samples) == 0:
        return -120.0
    return float(10 * np.log10(np.square(samples, dtype=np.float64).mean() + 1e-12))
