"""Integrated loudness of a stream, ITU-R BS.1770-4 as in pyloudnorm, in bounded memory.

pyloudnorm measures whole arrays; its weighting filters are used here with their state kept, and
its gates on block powers, so both give the same number, but that an incomplete last block does not
count here, as the standard says. A block's power is one float64 each 100 ms: 576 kB for two hours.
Mono. Knows nothing about files. Letters: `S` samples.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray
from pyloudnorm import IIRfilter
from scipy.signal import lfilter

from voxcli.audio.level import Energies
from voxcli.audio.resample import Samples

STEP_S = 0.1
STEPS_IN_BLOCK = 4  # blocks of 400 ms that overlap by three quarters
OFFSET_DB = -0.691
ABSOLUTE_GATE_LUFS = -70.0
RELATIVE_GATE_DB = -10.0
INAUDIBLE = 1e-30  # of a filter's state
# gain in dB, Q, frequency in Hz, kind; of pyloudnorm.Meter's "K-weighting"
K_WEIGHTING = ((4.0, 1 / math.sqrt(2), 1500.0, "high_shelf"), (0.0, 0.5, 38.0, "high_pass"))


class LoudnessMeter:
    """Push all samples, then ask once or often."""

    def __init__(self, rate: int) -> None:
        self._energies = Energies(round(rate * STEP_S))
        stages = [IIRfilter(gain, q, hertz, rate, kind) for gain, q, hertz, kind in K_WEIGHTING]
        self._filters = [(stage.b, stage.a) for stage in stages]
        self._states = [np.zeros(2) for _ in stages]

    def push(self, samples: Samples) -> None:
        """Take float32 `[S]`."""
        weighted = samples.astype(np.float64)
        for index, (b, a) in enumerate(self._filters):
            weighted, state = lfilter(b, a, weighted, zi=self._states[index])
            # minutes of silence would end in denormal numbers, which are slow
            self._states[index] = np.where(np.abs(state) < INAUDIBLE, 0.0, state)
        self._energies.push(weighted)

    def overall(self) -> float:
        """Integrated loudness in LUFS of all that was pushed; -inf for silence.

        Audio shorter than one block is one block of its own length.
        """
        return gated(self._block_powers())

    def _block_powers(self) -> NDArray[np.float64]:
        energies = self._energies.of_steps()
        if len(energies) < STEPS_IN_BLOCK:
            return np.array([self._energies.mean()])
        summed = np.convolve(energies, np.ones(STEPS_IN_BLOCK), "valid")
        return summed / (STEPS_IN_BLOCK * self._energies.step)


def gated(powers: NDArray[np.float64]) -> float:
    """Mean of the blocks that pass both gates, in LUFS."""
    loud = powers[_lufs(powers) >= ABSOLUTE_GATE_LUFS]
    if len(loud) == 0:
        return -math.inf
    gate = max(float(_lufs(loud.mean())) + RELATIVE_GATE_DB, ABSOLUTE_GATE_LUFS)
    kept = loud[_lufs(loud) > gate]
    return float(_lufs(kept.mean())) if len(kept) else -math.inf


def _lufs(power: NDArray[np.float64] | np.float64) -> NDArray[np.float64]:
    return np.asarray(OFFSET_DB + 10 * np.log10(np.maximum(power, 1e-20)))
