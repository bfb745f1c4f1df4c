"""Speech into a time slot: silence trimmed, tempo chosen within bounds, the rest reported.

Pure functions on samples. Knows nothing about subtitles, rows or neighbours; where a cue lies on
the timeline is `placing.py`'s matter.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from voxcli.audio.joins import kept_range, trim_silence
from voxcli.audio.resample import EMPTY, Samples
from voxcli.audio.stretch import stretch
from voxcli.config import MAX_GOOD_SPEED, MIN_GOOD_SPEED
from voxcli.errors import UsageError

KEEP_S = 0.03  # silence kept at each end: a soft first consonant survives, and the cue is on time


@dataclass(frozen=True)
class SpeedLimits:
    """The tempo a slot may ask for; 1.0 is the voice's own.

    Attributes:
        min_speed: under 1.0, short speech is slowed to fill its slot, down to this.
        max_speed: never exceeded; what is still too long overflows.
    """

    min_speed: float = 1.0
    max_speed: float = 1.3

    def __post_init__(self) -> None:
        for option, speed in (("--min-speed", self.min_speed), ("--max-speed", self.max_speed)):
            if not MIN_GOOD_SPEED <= speed <= MAX_GOOD_SPEED:
                raise UsageError(
                    f"{option} is {speed:g}",
                    hint=f"give a number from {MIN_GOOD_SPEED:g} to {MAX_GOOD_SPEED:g}",
                )
        if self.min_speed > self.max_speed:
            raise UsageError(
                f"--min-speed {self.min_speed:g} is above --max-speed {self.max_speed:g}",
                hint="swap them, or raise --max-speed",
            )

    def choose(self, audio_s: float, slot_s: float) -> float:
        """The tempo nearest to filling the slot."""
        needed = audio_s / slot_s if slot_s > 0 else self.max_speed
        return min(max(needed, self.min_speed), self.max_speed)


@dataclass(frozen=True, eq=False)
class Fitted:
    """Speech after fitting.

    Attributes:
        samples: float32 `[S]`.
        speed: tempo relative to the speech that was handed in.
        trimmed_s: outer silence taken away.
        overflow_s: seconds that stick out of the slot; 0.0 when it fits.
        anchors: places in samples before and after, in order; between two of them time goes evenly.
    """

    samples: Samples
    speed: float
    trimmed_s: float
    overflow_s: float
    anchors: tuple[tuple[int, int], ...] = ()

    def moved(self, at: float) -> float:
        """Where a place in samples of the speech that was handed in is now."""
        if not self.anchors:
            return at
        before, after = zip(*self.anchors, strict=True)
        return float(np.interp(at, before, after))


def fit_to_slot(
    spoken: Samples,
    rate: int,
    slot_s: float,
    limits: SpeedLimits,
    silences: Sequence[tuple[int, int]] = (),
) -> Fitted:
    """Trim `spoken` and set its tempo so that it fits into `slot_s`, as far as `limits` let it.

    Silence alone comes back as it is: refusing it is the output guard's task.

    Args:
        silences: start and length in samples of silence that keeps its length, in order.
    """
    parts, starts = [], [0]
    for at, length in silences:
        parts.append(spoken[starts[-1] : at])
        starts.append(at + length)
    parts.append(spoken[starts[-1] :])
    num_before = sum(map(len, parts))
    for outer in {0, len(parts) - 1}:  # between silences that are kept there is nothing to trim
        starts[outer] += kept_range(parts[outer], rate, KEEP_S)[0]
        parts[outer] = trim_silence(parts[outer], rate, keep_s=KEEP_S)
    num_trimmed = sum(map(len, parts))
    if num_trimmed == 0:
        return Fitted(spoken, 1.0, 0.0, max(0.0, len(spoken) / rate - slot_s))
    slot = round(slot_s * rate)
    speed = limits.choose(num_trimmed, slot - sum(length for _, length in silences))
    stretched = [stretch(part, rate, speed) if len(part) else EMPTY for part in parts]
    pieces = stretched[:1]
    anchors = [(starts[0], 0), (starts[0] + len(parts[0]), len(stretched[0]))]
    for (_, length), start, part, done in zip(
        silences, starts[1:], parts[1:], stretched[1:], strict=True
    ):
        pieces += (np.zeros(length, np.float32), done)
        at = anchors[-1][1] + length
        anchors += ((start, at), (start + len(part), at + len(done)))
    samples = np.concatenate(pieces)
    return Fitted(
        samples=samples,
        speed=speed,
        trimmed_s=(num_before - num_trimmed) / rate,
        overflow_s=max(0, len(samples) - slot) / rate,
        anchors=tuple(anchors),
    )
