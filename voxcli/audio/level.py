"""The plain level of a stream, as shops for audiobooks ask for it: RMS, peaks and noise floor.

Not loudness: no weighting, no gates, pauses counted in. Bounded memory: a number each 100 ms. Mono.
Letters: `S` samples.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from voxcli.audio.resample import EMPTY, Samples

STEP_S = 0.1
STEPS_IN_WINDOW = 5  # the half second in which shops look for the noise floor
SILENT_DB = -100.0  # quieter is digital silence, which is no noise


@dataclass(frozen=True)
class Standard:
    """What a shop asks of a file, in dB of full scale, and what is aimed at for it.

    Attributes:
        lowest_db, highest_db: RMS over the whole file.
        peak_db, noise_db: peaks and noise floor are not above.
        target_db: RMS that is aimed at.
        ceiling_db: of the limiter; a lossy format lifts peaks by up to a decibel.
    """

    lowest_db: float
    highest_db: float
    peak_db: float
    noise_db: float
    target_db: float
    ceiling_db: float

    def shortfalls(self, rms_db: float, peak_db: float, noise_floor_db: float) -> list[str]:
        """What of a file is not as it is asked for."""
        found = []
        if not self.lowest_db <= rms_db <= self.highest_db:
            asked = f"{self.lowest_db:g} to {self.highest_db:g} dB"
            found.append(f"its level is {rms_db:.1f} dB RMS, not {asked}")
        if peak_db > self.peak_db:
            found.append(f"its peak is {peak_db:.1f} dB, above {self.peak_db:g} dB")
        if noise_floor_db > self.noise_db:
            found.append(f"its noise floor is {noise_floor_db:.1f} dB, above {self.noise_db:g} dB")
        return found


# ACX, which stands for the others: Findaway Voices, Author's Republic and Kobo ask for the same
AUDIOBOOK = Standard(-23.0, -18.0, -3.0, -60.0, target_db=-20.5, ceiling_db=-4.0)
STANDARDS = {"audiobook": AUDIOBOOK}


class LevelMeter:
    """Push all samples, then ask once or often."""

    def __init__(self, rate: int) -> None:
        self._step = round(rate * STEP_S)
        self._held: NDArray[np.float64] = EMPTY.astype(np.float64)  # less than a step, squared
        self._energies: list[NDArray[np.float64]] = []  # of whole steps

    def push(self, samples: Samples) -> None:
        """Take float32 `[S]`."""
        squared = np.concatenate((self._held, np.square(samples, dtype=np.float64)))
        whole = len(squared) // self._step * self._step
        self._held = squared[whole:]
        self._energies.append(squared[:whole].reshape(-1, self._step).sum(axis=1))

    def rms_db(self) -> float:
        """Over all samples; -inf for silence."""
        energies = np.concatenate((*self._energies, EMPTY))
        length = len(energies) * self._step + len(self._held)
        return decibels((energies.sum() + self._held.sum()) / max(length, 1))

    def noise_floor_db(self) -> float:
        """Of the quietest half second without digital silence; -inf where there is none."""
        powers = np.concatenate((*self._energies, EMPTY)) / self._step
        if len(powers) < STEPS_IN_WINDOW:
            return -math.inf
        windows = np.lib.stride_tricks.sliding_window_view(powers, STEPS_IN_WINDOW)
        audible = windows[(windows > 10 ** (SILENT_DB / 10)).all(axis=1)]
        return decibels(float(audible.mean(axis=1).min())) if len(audible) else -math.inf


def decibels(power: float) -> float:
    """Of a mean square; -inf for zero."""
    return 10 * math.log10(power) if power > 0 else -math.inf
