"""How alike two voices are: the cosine of their embeddings by Resemblyzer's speaker encoder.

    similarity(spoken, 24_000, reference, 16_000)     1 for the same recording

The weights are bundled (`tools/update_speaker.py`). It hears timbre and pitch, not the words. One
short clip says little: average several. Knows no model and no utterance. Letters: `S` samples,
`T` frames, `M` mel bands, `W` windows.

Source: Resemblyzer 0.1.4 `voice_encoder.py` and `audio.py` (Apache-2.0). Difference: silence is cut
by energy instead of webrtcvad.
"""

from __future__ import annotations

from functools import cache
from importlib.resources import files as resource_files

import numpy as np
import torch
from numpy.typing import NDArray
from safetensors.torch import load

from voxcli.audio.resample import resample
from voxcli.errors import UsageError
from voxcli.layers.mel import slaney_filters

Samples = NDArray[np.float32]

LOW_SIMILARITY = 0.7  # a rule of thumb: below it --verify warns

RATE = 16_000
_WINDOW = 160  # frames: 1.6 s
_STEP = round(RATE / 1.3 / 160)  # frames between windows: 1.3 windows a second
_LEVEL_DBFS = -30.0  # quieter speech is raised to it
_SILENT_DBFS = -60.0


def similarity(samples: Samples, rate: int, reference: Samples, reference_rate: int) -> float:
    """Cosine of two recordings' voices, float32 `[S]` each, mono.

    Raises:
        UsageError: a recording is empty.
    """
    encoder = SpeakerEncoder.load()
    heard, wanted = (
        encoder.embed(resample(given, given_rate, RATE))
        for given, given_rate in ((samples, rate), (reference, reference_rate))
    )
    return float(heard @ wanted)


class SpeakerEncoder:
    """Recordings at 16 kHz to unit vectors `[256]`; a dot product of two is their cosine."""

    def __init__(self, weights: dict[str, torch.Tensor]) -> None:
        self._lstm = torch.nn.LSTM(40, 256, num_layers=3, batch_first=True)
        self._linear = torch.nn.Linear(256, 256)
        for name, module in (("lstm.", self._lstm), ("linear.", self._linear)):
            own = {key.removeprefix(name): weights[key] for key in weights if key.startswith(name)}
            module.load_state_dict(own)

    @staticmethod
    @cache
    def load() -> SpeakerEncoder:
        """The bundled one, read once."""
        data = resource_files("voxcli").joinpath("assets/speaker.safetensors").read_bytes()
        return SpeakerEncoder({name: value.float() for name, value in load(data).items()})

    @torch.inference_mode()
    def embed(self, samples: Samples) -> Samples:
        """The mean over windows of 1.6 s.

        Raises:
            UsageError: nothing was recorded.
        """
        if not len(samples):
            raise UsageError("there is no voice in an empty recording", hint="give another one")
        level = 10 * np.log10(np.square(samples, dtype=np.float64).mean() + 1e-12)
        gain = 10 ** (max(0.0, _LEVEL_DBFS - level) / 20)
        windows = _windows(_without_silence(samples * np.float32(gain)))  # [W, T, M]
        _, (last, _) = self._lstm(torch.from_numpy(windows))  # [3, W, 256]
        embeddings = torch.nn.functional.normalize(self._linear(last[-1]).relu(), dim=1)
        unit: Samples = torch.nn.functional.normalize(embeddings.mean(0), dim=0).numpy()
        return unit


def _without_silence(samples: Samples) -> Samples:
    """Frames of 30 ms within 30 dB of the loud ones, with 100 ms around them."""
    size = RATE * 30 // 1000
    frames = samples[: len(samples) // size * size].reshape(-1, size)
    if not len(frames):
        return samples
    levels = 10 * np.log10(np.square(frames).mean(axis=1) + 1e-10)
    is_loud = levels > max(float(np.percentile(levels, 95)) - 30, _SILENT_DBFS)
    is_kept = np.convolve(is_loud, np.ones(7))[3:-3] > 0
    kept: Samples = frames[is_kept].reshape(-1)
    return kept if len(kept) else samples


def _windows(samples: Samples) -> Samples:
    """Mel power `[W, 160, 40]`; the last window is padded, or left out when mostly padding."""
    num_frames = len(samples) // 160 + 1
    starts = [*range(0, max(1, num_frames - _WINDOW + _STEP + 1), _STEP)]
    if len(starts) > 1 and num_frames - starts[-1] < 0.75 * _WINDOW:
        starts.pop()
    needed = (starts[-1] + _WINDOW) * 160
    padded = np.pad(samples, (0, max(0, needed - len(samples))))
    mel = mel_power(padded, fft=400, hop=160, bands=40)  # [T, M]
    return np.stack([mel[start : start + _WINDOW] for start in starts])


def mel_power(samples: Samples, *, fft: int, hop: int, bands: int) -> Samples:
    """Power mel spectrogram `[T, M]`: centred, zero padded, Hann window, as librosa's defaults."""
    window = 0.5 - 0.5 * np.cos(2 * np.pi * np.arange(fft) / fft)
    padded = np.pad(samples, fft // 2)
    frames = np.lib.stride_tricks.sliding_window_view(padded, fft)[::hop]  # [T, fft]
    power = np.abs(np.fft.rfft(frames * window)) ** 2  # [T, fft // 2 + 1]
    mel: Samples = (power @ slaney_filters(RATE, fft, bands).T).astype(np.float32)
    return mel
