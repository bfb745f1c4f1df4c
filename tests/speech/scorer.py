"""Hears speech without an ear: what was said, how clean it sounds, whose voice it is.

    scorer = Scorer(find_assets())
    scorer.hear(samples, 24_000)       what whisper-base understood (CTranslate2, int8)
    scorer.quality(samples, 24_000)    DNSMOS: P.835 overall and P.808, 1 to 5
    scorer.voice(samples, 24_000)      Resemblyzer's embedding; a dot product of two is their cosine

Words do not show noise or buzz, and quality does not show missing words: use both. Knows nothing
about voxcli. Letters: `S` samples, `T` frames, `M` mel bands, `W` windows.

Sources: DNSMOS, microsoft/DNS-Challenge `DNSMOS/dnsmos_local.py` (MIT); Resemblyzer 0.1.4
`voice_encoder.py` and `audio.py` (Apache-2.0). Differences: DNSMOS hears every clip at one level,
since its answer depends on the level; silence is cut by energy instead of webrtcvad.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache, cached_property
from math import gcd

import numpy as np
import onnxruntime
import torch
from assets import Assets
from faster_whisper import WhisperModel
from numpy.typing import NDArray
from scipy.signal import resample_poly

Samples = NDArray[np.float32]

RATE = 16_000  # Hz, of all three models
SILENT_DBFS = -60.0
# Silence around the speech: without it int8 whisper-base now and then stops before the last words.
LEAD_S, TAIL_S = 0.3, 0.45

DNSMOS_DBFS = -25.0
DNSMOS_S = 9.01  # length of the models' input
# raw scores to the scale of human listeners
P835_OVERALL = (-0.06766283, 1.11546468, 0.04602535)

SPEAKER_FRAMES = 160  # a window of 1.6 s
SPEAKER_STEP = round(RATE / 1.3 / 160)  # frames between windows: 1.3 windows a second
SPEAKER_DBFS = -30.0


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
        samples = _at_16k(samples, rate)
        gain = 10 ** ((SPEAKER_DBFS - dbfs(samples)) / 20)
        samples = _without_silence(samples * max(gain, 1.0))
        windows = _speaker_windows(samples)  # [W, T, M]
        with torch.inference_mode():
            _, (last, _) = self._speaker["lstm"](torch.from_numpy(windows))  # last: [3, W, 256]
            embeddings = self._speaker["linear"](last[-1]).relu()
            mean = torch.nn.functional.normalize(embeddings, dim=1).mean(0)
            unit: Samples = torch.nn.functional.normalize(mean, dim=0).numpy()
        return unit

    def _window_quality(self, samples: Samples) -> tuple[float, float]:
        raw = self._p835.run(None, {"input_1": samples[None].astype(np.float32)})[0][0]
        # the model was trained on 900 frames: nine seconds less one hop, hence the cut
        power = _mel_power(samples[:-160], fft=321, hop=160, bands=120)  # [T, M]
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

    @cached_property
    def _speaker(self) -> torch.nn.ModuleDict:
        model = torch.nn.ModuleDict(
            {
                "lstm": torch.nn.LSTM(40, 256, num_layers=3, batch_first=True),
                "linear": torch.nn.Linear(256, 256),
            }
        )
        weights = torch.load(self._assets.speaker, map_location="cpu", weights_only=True)
        parts = ("lstm.", "linear.")
        state = weights["model_state"]
        model.load_state_dict({key: state[key] for key in state if key.startswith(parts)})
        return model.eval()


def dbfs(samples: Samples) -> float:
    """RMS of all samples in dB relative to full scale."""
    return float(10 * np.log10(np.square(samples, dtype=np.float64).mean() + 1e-12))


def _at_16k(samples: Samples, rate: int) -> Samples:
    # NOTE: the bounds were measured with this filter; a steeper one (soxr) costs 0.04 of P.808.
    common = gcd(rate, RATE)
    resampled = resample_poly(samples.astype(np.float32), RATE // common, rate // common)
    clipped: Samples = np.clip(resampled, -1, 1).astype(np.float32)
    return clipped


def _without_silence(samples: Samples) -> Samples:
    """Frames of 30 ms within 30 dB of the loud ones, with 100 ms around them."""
    size = RATE * 30 // 1000
    frames = samples[: len(samples) // size * size].reshape(-1, size)
    levels = 10 * np.log10(np.square(frames).mean(axis=1) + 1e-10)
    is_loud = levels > max(float(np.percentile(levels, 95)) - 30, SILENT_DBFS)
    is_kept = np.convolve(is_loud, np.ones(7), "same") > 0
    kept: Samples = frames[is_kept].reshape(-1)
    return kept


def _speaker_windows(samples: Samples) -> Samples:
    """Mel power `[W, 160, 40]`; the last window is padded, or left out when mostly padding."""
    num_frames = len(samples) // 160 + 1
    starts = [*range(0, max(1, num_frames - SPEAKER_FRAMES + SPEAKER_STEP + 1), SPEAKER_STEP)]
    if len(starts) > 1 and num_frames - starts[-1] < 0.75 * SPEAKER_FRAMES:
        starts.pop()
    needed = (starts[-1] + SPEAKER_FRAMES) * 160
    padded = np.pad(samples, (0, max(0, needed - len(samples))))
    mel = _mel_power(padded, fft=400, hop=160, bands=40)  # [T, M]
    return np.stack([mel[start : start + SPEAKER_FRAMES] for start in starts])


def _mel_power(samples: Samples, *, fft: int, hop: int, bands: int) -> Samples:
    """Power mel spectrogram `[T, M]`: centred, zero padded, Hann window, as librosa's defaults."""
    window = 0.5 - 0.5 * np.cos(2 * np.pi * np.arange(fft) / fft)
    padded = np.pad(samples, fft // 2)
    frames = np.lib.stride_tricks.sliding_window_view(padded, fft)[::hop]  # [T, fft]
    power = np.abs(np.fft.rfft(frames * window)) ** 2  # [T, fft // 2 + 1]
    mel: Samples = (power @ _mel_filters(fft, bands).T).astype(np.float32)
    return mel


@cache
def _mel_filters(fft: int, bands: int) -> NDArray[np.float64]:
    """Slaney's triangles, each of area one: `[M, fft // 2 + 1]`."""
    hertz = np.fft.rfftfreq(fft, 1 / RATE)
    edges = _mel_to_hertz(np.linspace(0, _hertz_to_mel(RATE / 2), bands + 2))
    rising = (hertz - edges[:-2, None]) / np.diff(edges)[:-1, None]
    falling = (edges[2:, None] - hertz) / np.diff(edges)[1:, None]
    triangles = np.maximum(0, np.minimum(rising, falling))
    filters: NDArray[np.float64] = triangles * (2 / (edges[2:] - edges[:-2]))[:, None]
    return filters


# Slaney's scale: linear below 1 kHz (15 mel), logarithmic above.
def _hertz_to_mel(hertz: float) -> float:
    return 15 + 27 * float(np.log(hertz / 1000) / np.log(6.4)) if hertz >= 1000 else hertz * 0.015


def _mel_to_hertz(mel: NDArray[np.float64]) -> NDArray[np.float64]:
    return np.where(mel >= 15, 1000 * np.exp((mel - 15) * np.log(6.4) / 27), mel * 200 / 3)
