"""The gain of a bed track that steps back while somebody speaks.

Follows the times at which speech sounds, not its level: the bed is down before the first word, and
does not pump between words. Knows nothing about files.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from voxcli.audio.resample import Samples
from voxcli.errors import UsageError


@dataclass(frozen=True)
class Ducking:
    """How far and how fast a bed steps back.

    Attributes:
        gain_db: of the bed where nobody speaks.
        duck_db: by how much it is lower under speech.
        attack_s: the way down, over before the speech begins.
        release_s: the way up, from the end of the speech.
    """

    gain_db: float = 0.0
    duck_db: float = 12.0
    attack_s: float = 0.15
    release_s: float = 0.5

    def __post_init__(self) -> None:
        bounds = (
            ("--bed-db", self.gain_db, -60.0, 20.0),
            ("--duck-db", self.duck_db, 0.0, 60.0),
            ("--duck-attack-ms", self.attack_s * 1000, 0.0, 5000.0),
            ("--duck-release-ms", self.release_s * 1000, 0.0, 5000.0),
        )
        for option, value, low, high in bounds:
            if not low <= value <= high:
                raise UsageError(f"{option} is {value:g}", hint=f"give {low:g} to {high:g}")


class BedGain:
    """Gain over time.

    Args:
        spans: (start, end) of each piece of speech in seconds, in any order.
    """

    def __init__(self, spans: Sequence[tuple[float, float]], ducking: Ducking) -> None:
        times: list[float] = []
        for start_s, end_s in _merged(spans, ducking.attack_s + ducking.release_s):
            times += (start_s - ducking.attack_s, start_s, end_s, end_s + ducking.release_s)
        num_spans = len(times) // 4
        self._times = np.array(times or [0.0])
        up, down = ducking.gain_db, ducking.gain_db - ducking.duck_db
        self._levels_db = np.array([up, down, down, up] * num_spans or [up])

    def at(self, first: int, count: int, rate: int) -> Samples:
        """float32 `[count]`, from sample `first` on."""
        seconds = (first + np.arange(count)) / rate
        levels_db = np.interp(seconds, self._times, self._levels_db)
        gain: Samples = (10 ** (levels_db / 20)).astype(np.float32)
        return gain


def _merged(spans: Sequence[tuple[float, float]], gap_s: float) -> list[tuple[float, float]]:
    """Spans with those joined between which the bed would not come up again."""
    merged: list[tuple[float, float]] = []
    for start_s, end_s in sorted(spans):
        if merged and start_s - merged[-1][1] <= gap_s:
            merged[-1] = (merged[-1][0], max(merged[-1][1], end_s))
        else:
            merged.append((start_s, end_s))
    return merged
