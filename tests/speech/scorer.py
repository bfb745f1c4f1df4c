"""Hears speech without an ear: what was said, how clean it sounds, whose voice it is.

    scorer = Scorer(find_assets())
    scorer.hear(samples, 24_000)       what whisper-base understood (CTranslate2, int8)
    scorer.quality(samples, 24_000)    DNSMOS: P.835 overall and P.808, 1 to 5
    scorer.voice(samples, 24_000)      a speaker embedding; a dot product of two is their cosine

Words do not show noise or buzz, and quality does not show missing words: use both. Knows nothing
about utterances. Letters: `S` samples, `T` frames, `M` mel bands.

Source of DNSMOS: microsoft/DNS-Challenge `DNSMOS/dnsmos_local.py` (MIT). Difference: it hears every
clip at one level, since its answer depends on the level.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from math import gcd
from pathlib import Path

import numpy as np
import onnxruntime
from assets import Assets
from faster_whisper import WhisperModel
from numpy.typing import NDArray
from scipy.signal import resample_poly

from voxcli.voices.likeness import SpeakerEncoder, mel_power

Samples = NDArray[np.float32]

RATE = 16_000  # Hz, of all three models
SILENT_DBFS = -60.0
# Silence around the speech: without it int8 whisper-base now and then stops before the last words.
LEAD_S, TAIL_S = 0.3, 0.45

DNSMOS_DBFS = -25.0
DNSMOS_S = 9.01  # length of the models' input
# raw scores to the scale of human listeners
P835_OVERALL = (-0.06766283, 1.11546468, 0.04602535)


@dataclass(frozen=True)
class Quality:
    """DNSMOS on the scale of listeners, 1 to 5.

    Attributes:
        overall: P.835, all things together.
        p808: an older model of one rating alone.
    """

    overall: float
    p808: float


class Scorer:
    """The three judges, each loaded on first use.

    Args:
        threads: of each judge.
    """

    def __init__(self, assets: Assets, threads: int = 2) -> None:
        self._assets = assets
        self._threads = threads

    @property
    def whisper_folder(self) -> Path:
        """The recogniser's files."""
        return self._assets.whisper

    def hear(self, samples: Samples, rate: int) -> str:
        """The words understood; empty for silence, in which Whisper would make some up."""
        samples = _at_16k(samples, rate)
        if dbfs(samples) < SILENT_DBFS:
            return ""
        padded = np.pad(samples, (round(LEAD_S * RATE), round(TAIL_S * RATE)))
        found, _ = self._whisper.transcribe(
            padded, language="en", beam_size=5, temperature=0.0,
            condition_on_previous_text=False, max_new_tokens=200,
        )  # fmt: skip
        return " ".join(part.text.strip() for part in found).strip()

    def quality(self, samples: Samples, rate: int) -> Quality:
        """Mean over windows of nine seconds; shorter clips are repeated."""
        samples = _at_16k(samples, rate)
        gain = 10 ** ((DNSMOS_DBFS - dbfs(samples)) / 20)
        samples = samples * min(gain, 0.99 / float(np.abs(samples).max()))
        length = int(DNSMOS_S * RATE)
        while len(samples) < length:
            samples = np.append(samples, samples)
        num_windows = int(len(samples) // RATE - DNSMOS_S) + 1  # as upstream counts them
        starts = [RATE * window for window in range(num_windows)]
        scores = [self._window_quality(samples[start : start + length]) for start in starts]
        overall, p808 = np.mean(scores, axis=0)
        return Quality(float(overall), float(p808))

    def voice(self, samples: Samples, rate: int) -> Samples:
        """Unit vector `[256]`, the mean over windows of 1.6 s."""
        return SpeakerEncoder.load().embed(_at_16k(samples, rate))

    def _window_quality(self, samples: Samples) -> tuple[float, float]:
        raw = self._p835.run(None, {"input_1": samples[None].astype(np.float32)})[0][0]
        # the model was trained on 900 frames: nine seconds less one hop, hence the cut
        power = mel_power(samples[:-160], fft=321, hop=160, bands=120)  # [T, M]
        decibels = 10 * np.log10(np.maximum(power, 1e-10))
        decibels = np.maximum(decibels - decibels.max(), -80)
        scaled = ((decibels + 40) / 40)[None].astype(np.float32)
        p808 = self._p808.run(None, {"input_1": scaled})[0][0][0]
        return float(np.polyval(P835_OVERALL, raw[2])), float(p808)

    @cached_property
    def _whisper(self) -> WhisperModel:
        return WhisperModel(
            str(self._assets.whisper), device="cpu", compute_type="int8",
            cpu_threads=self._threads, local_files_only=True,
        )  # fmt: skip

    @cached_property
    def _p835(self) -> onnxruntime.InferenceSession:
        return self._session(str(self._assets.dnsmos_p835))

    @cached_property
    def _p808(self) -> onnxruntime.InferenceSession:
        return self._session(str(self._assets.dnsmos_p808))

    def _session(self, path: str) -> onnxruntime.InferenceSession:
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = options.inter_op_num_threads = self._threads
        options.log_severity_level = 3  # errors
        return onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])


def dbfs(samples: Samples) -> float:
    """RMS of all samples in dB relative to full scale."""
    return float(10 * np.log10(np.square(samples, dtype=np.float64).mean() + 1e-12))


def _at_16k(samples: Samples, rate: int) -> Samples:
    # NOTE: the bounds were measured with this filter; a steeper one (soxr) costs 0.04 of P.808.
    common = gcd(rate, RATE)
    resampled = resample_poly(samples.astype(np.float32), RATE // common, rate // common)
    clipped: Samples = np.clip(resampled, -1, 1).astype(np.float32)
    return clipped
