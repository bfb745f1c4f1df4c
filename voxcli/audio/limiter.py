"""A look-ahead limiter: no peak above the ceiling, also none between the samples.

The gain that each sample needs (against its 4 times oversampled peak) goes through a running
minimum and two running means no wider than it, so the gain used never exceeds the gain needed.
Two consequences: nothing overshoots, and where nothing is too loud the samples pass bit for bit.

Streams with bounded memory. Knows nothing about files. Letters: `S` samples.
"""

from __future__ import annotations

import math
from functools import cache

import numpy as np
from numpy.typing import NDArray
from scipy.ndimage import minimum_filter1d, uniform_filter1d

from voxcli.audio.resample import EMPTY, Samples

CEILING_DB = -1.0  # dB true peak: EBU R 128's limit; lossy encoders overshoot by about that much
CEILING = 10 ** (CEILING_DB / 20)

# Each way from a peak. The gain holds still from one voice pulse to the next down to 33 Hz, so
# that it does not buzz, and moves over 60 ms, too slow for a click.
REACH_S = 0.030
OVERSAMPLING = 4  # ITU-R BS.1770-4 annex 2
TAPS = 16  # each way; within 0.05 dB on speech that is limited by 3 dB


class Limiter:
    """Keeps a mono stream under `ceiling`; output lags input by `2 * REACH_S`, the total is equal.

    Attributes:
        lowest_gain: the least gain used so far; 1.0 while nothing was changed.
    """

    def __init__(self, rate: int, ceiling: float = CEILING) -> None:
        self.lowest_gain = 1.0
        self._ceiling = ceiling
        self._reach = 2 * round(rate * REACH_S / 2)
        self._context = 2 * self._reach + TAPS
        self._buffer: Samples = np.zeros(self._context, np.float32)

    @property
    def reduced_db(self) -> float:
        """The most that was taken away."""
        return -20 * math.log10(self.lowest_gain)

    def push(self, samples: Samples) -> Samples:
        """float32 `[S]` -> the limited samples that are ready."""
        self._buffer = np.concatenate((self._buffer, samples))
        if len(self._buffer) <= 2 * self._context:
            return EMPTY
        ready = self._limit(self._buffer)[self._context : -self._context]
        self._buffer = self._buffer[-2 * self._context :]
        return ready

    def flush(self) -> Samples:
        """The rest; nothing may be pushed afterwards."""
        return self.push(np.zeros(self._context, np.float32))

    def _limit(self, samples: Samples) -> Samples:
        loudest = float(np.abs(samples).max())
        if loudest * _worst_overshoot() <= self._ceiling:
            return samples
        needed = np.minimum(1.0, self._ceiling / np.maximum(true_peaks(samples), 1e-9))
        if needed.min() == 1.0:
            return samples
        gain = minimum_filter1d(needed, 2 * self._reach + 1)
        gain = uniform_filter1d(uniform_filter1d(gain, self._reach + 1), self._reach + 1)
        self.lowest_gain = min(self.lowest_gain, float(gain[self._context : -self._context].min()))
        limited: Samples = (samples * gain).astype(np.float32)
        return limited


def true_peaks(samples: Samples) -> NDArray[np.float64]:
    """The largest magnitude from each sample to just before the next, float64 `[S]`."""
    peaks = np.abs(samples).astype(np.float64)
    for taps in _between():
        between = np.convolve(samples, taps)[TAPS:][: len(samples)]
        np.maximum(peaks, np.abs(between), out=peaks)
    return peaks


@cache
def _between() -> tuple[NDArray[np.float64], ...]:
    """Windowed sinc filters that give the values at 1/4, 2/4 and 3/4 after a sample."""
    filters = []
    for phase in range(1, OVERSAMPLING):
        at = np.arange(1 - TAPS, TAPS + 1) - phase / OVERSAMPLING  # distances in samples
        window = np.cos(np.pi * at / (2 * TAPS)) ** 2
        taps = np.sinc(at) * window
        filters.append((taps / taps.sum())[::-1])
    return tuple(filters)


@cache
def _worst_overshoot() -> float:
    """No value between samples exceeds the largest sample by more than this factor."""
    return max(float(np.abs(taps).sum()) for taps in _between())
