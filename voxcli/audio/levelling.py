"""Speech brought to a level under a limiter's ceiling, in blocks: what files and mixes share.

Knows nothing about files. Letters: `S` samples.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator

import numpy as np

from voxcli.audio.level import Level, LevelMeter, Standard
from voxcli.audio.limiter import Limiter
from voxcli.audio.resample import Samples

MAX_PASSES = 5  # to reach a level that the limiter works against
CLOSE_DB = 0.1  # to the target; the promise is 0.5


def gain_to(target_db: float, look: Callable[[float | None], float]) -> float:
    """The gain in dB that brings something to a level, once it is limited; 0.0 for silence.

    Args:
        look: the level of the whole with a gain, limited; with None, as it comes.
    """
    gain_db = 0.0
    for number in range(MAX_PASSES):
        found = look(gain_db if number else None)
        if not math.isfinite(found):
            return 0.0
        if number and abs(found - target_db) <= CLOSE_DB:
            break
        gain_db += target_db - found
    return gain_db


def limited(blocks: Iterable[Samples], gain_db: float, limiter: Limiter) -> Iterator[Samples]:
    """The same with a gain, no peak above the ceiling."""
    gain = np.float32(10 ** (gain_db / 20))
    for block in blocks:
        yield limiter.push(block * gain)
    yield limiter.flush()


def write_levelled(
    open_blocks: Callable[[], Iterable[Samples]],
    rate: int,
    standard: Standard,
    write: Callable[[Samples], None],
) -> Level:
    """Write speech as `standard` asks for it.

    Args:
        open_blocks: its samples from the start, float32 `[S]` at `rate`; asked several times. At
            the rate of the file, since resampling would lift peaks again.
        write: is given the result, block by block.
    """

    def new_limiter() -> Limiter:
        return Limiter(rate, 10 ** (standard.ceiling_db / 20))

    def look(gain_db: float | None) -> float:
        blocks, meter = open_blocks(), LevelMeter(rate)
        for block in blocks if gain_db is None else limited(blocks, gain_db, new_limiter()):
            meter.push(block)
        return meter.overall()

    gain_db = gain_to(standard.target_db, look)
    limiter, meter = new_limiter(), LevelMeter(rate)
    for block in limited(open_blocks(), gain_db, limiter):
        write(block)
        meter.push(block)
    return Level(meter.noise_floor_db(), gain_db, limiter.reduced_db)
