"""The plain level of a stream, as shops for audiobooks ask for it: RMS, peaks and noise floor.

Not loudness: no weighting, no gates, pauses counted in. Bounded memory: a number each 20 ms. Mono.
Letters: `S` samples.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from voxcli.audio.resample import EMPTY, Samples

STEP_S = 0.02
NUM_QUIETEST = 25  # steps: the half second in which shops look for the noise floor
SILENT_DB = -100.0  # quieter is digital silence, which is no noise
WITH_PAUSES_S = 30.0  # speech that is shorter may be loud in each half second


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

    def shortfalls(
        self, rms_db: float, peak: float, noise_floor_db: float, audio_s: float
    ) -> list[str]:
        """What of a file is not as it is asked for.

        Args:
            peak: full scale is 1.0.
            audio_s: how long it is; that of a short one says nothing of its noise.
        """
        found = []
        peak_db = decibels(peak**2)
        if not self.lowest_db <= rms_db <= self.highest_db:
            asked = f"{self.lowest_db:g} to {self.highest_db:g} dB"
            found.append(f"its level is {rms_db:.1f} dB RMS, not {asked}")
        if peak_db > self.peak_db:
            found.append(f"its peak is {peak_db:.1f} dB, above {self.peak_db:g} dB")
        if noise_floor_db > self.noise_db and audio_s >= WITH_PAUSES_S:
            found.append(f"its noise floor is {noise_floor_db:.1f} dB, above {self.noise_db:g} dB")
        return found


# ACX, which stands for the others: Findaway Voices, Author's Republic and Kobo ask for the same
AUDIOBOOK = Standard(-23.0, -18.0, -3.0, -60.0, target_db=-20.5, ceiling_db=-4.0)
STANDARDS = {"audiobook": AUDIOBOOK}


@dataclass(frozen=True)
class Level:
    """The level of something written, apart from what its file says, and what it took.

    Attributes:
        noise_floor_db: as of `LevelMeter`.
        gain_db: applied to reach it.
        limited_db: the most that the limiter took away; 0.0 where it had nothing to do.
    """

    noise_floor_db: float
    gain_db: float
    limited_db: float

    def told(self) -> dict[str, float | None]:
        """For a report."""
        floor_db = self.noise_floor_db
        return {
            "noise_floor_db": round(floor_db, 2) if math.isfinite(floor_db) else None,
            "gain_db": round(self.gain_db, 2),
            "limited_db": round(self.limited_db, 2),
        }


class Energies:
    """The energy of each whole step of samples, and of what is left of the last one.

    Args:
        step: samples of one.
    """

    def __init__(self, step: int) -> None:
        self.step = step
        self._held: NDArray[np.float64] = EMPTY.astype(np.float64)
        self._whole: list[NDArray[np.float64]] = []

    def push(self, samples: NDArray[np.float64]) -> None:
        """Take float64 `[S]`."""
        joined = np.concatenate((self._held, samples))
        whole = len(joined) // self.step * self.step
        self._held = joined[whole:]
        self._whole.append(np.square(joined[:whole]).reshape(-1, self.step).sum(axis=1))

    def of_steps(self) -> NDArray[np.float64]:
        """Of the whole ones."""
        return np.concatenate((*self._whole, EMPTY))

    def mean(self) -> float:
        """Mean square of all samples; 0.0 for none."""
        energies = self.of_steps()
        length = len(energies) * self.step + len(self._held)
        return float((energies.sum() + np.square(self._held).sum()) / max(length, 1))


class LevelMeter:
    """Push all samples, then ask once or often."""

    def __init__(self, rate: int) -> None:
        self._energies = Energies(round(rate * STEP_S))

    def push(self, samples: Samples) -> None:
        """Take float32 `[S]`."""
        self._energies.push(samples.astype(np.float64))

    def overall(self) -> float:
        """RMS over all samples in dB of full scale; -inf for silence."""
        return decibels(self._energies.mean())

    def noise_floor_db(self) -> float:
        """RMS of the half second in which it is quietest, in steps from anywhere; -inf for none.

        Digital silence is no noise, and a step beside it may be silent in part: a voice whose
        pauses are filled with it has little else, and no quiet half second in one piece.
        """
        powers = self._energies.of_steps() / self._energies.step
        is_audible = np.pad(powers > 10 ** (SILENT_DB / 10), 1, constant_values=True)
        audible = powers[is_audible[:-2] & is_audible[1:-1] & is_audible[2:]]
        if len(audible) < NUM_QUIETEST:
            return -math.inf
        return decibels(float(np.partition(audible, NUM_QUIETEST - 1)[:NUM_QUIETEST].mean()))


def decibels(power: float) -> float:
    """Of a mean square; -inf for zero."""
    return 10 * math.log10(power) if power > 0 else -math.inf
