"""Where each cue sounds on the timeline, and what happens to cues that would sound at once.

    mix     cues keep their starts and sound over each other
    shift   a cue waits for the end of the one before
    cut     what outgrows its own slot fades out where the next cue starts: words are lost
    fail    cues that overlap are refused

Arithmetic on seconds; knows nothing about samples, files or rows.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

GAP_S = 0.3  # before a cue that has no start of its own: a pause between sentences
NEGLIGIBLE_S = 1e-6  # far under a sample; starts and ends are sums of rounded decimals


class Policy(StrEnum):
    """What to do with cues that would sound at once."""

    MIX = "mix"
    SHIFT = "shift"
    CUT = "cut"
    FAIL = "fail"


@dataclass(frozen=True)
class Cue:
    """Speech that wants a place.

    Attributes:
        audio_s: how long it sounds.
        start_s: None follows the cue before it in the list.
        slot_end_s: until when it was meant to last; None where nobody said.
    """

    audio_s: float
    start_s: float | None = None
    slot_end_s: float | None = None


@dataclass(frozen=True)
class Placement:
    """A cue's place.

    Attributes:
        audio_s: how long it sounds, cut where it was.
        shift_s: how much later than asked it starts.
        cut_s: how much of its end is lost.
        overlap_s: how long it sounds over cues that started before it.
    """

    start_s: float
    audio_s: float
    shift_s: float = 0.0
    cut_s: float = 0.0
    overlap_s: float = 0.0

    @property
    def end_s(self) -> float:
        return self.start_s + self.audio_s


def place(cues: Sequence[Cue], policy: Policy, gap_s: float = GAP_S) -> list[Placement]:
    """A placement for each cue, in the order given. `FAIL` places as `MIX` does; see `overlaps`.

    Args:
        gap_s: silence before a cue that has no start of its own.
    """
    starts = natural_starts(cues, gap_s)
    order = sorted(range(len(cues)), key=lambda index: starts[index])  # stable: ties keep order
    in_order = [starts[index] for index in order]
    shifted = _shifted(cues, starts, order) if policy is Policy.SHIFT else starts
    placed: dict[int, Placement] = {}
    busy_until = 0.0
    for index in order:
        cue = cues[index]
        start_s = shifted[index]
        room_s = _room_s(cue, start_s, in_order) if policy is Policy.CUT else math.inf
        audio_s = min(cue.audio_s, room_s)
        placed[index] = Placement(
            start_s,
            audio_s,
            shift_s=start_s - starts[index],
            cut_s=cue.audio_s - audio_s,
            overlap_s=_negligible(min(busy_until, start_s + audio_s) - start_s),
        )
        busy_until = max(busy_until, start_s + audio_s)
    return [placed[index] for index in range(len(cues))]


def natural_starts(cues: Sequence[Cue], gap_s: float = GAP_S) -> list[float]:
    """Each cue's start: its own, or a short pause after the cue before it in the list."""
    starts: list[float] = []
    end_s = -gap_s
    for cue in cues:
        starts.append(end_s + gap_s if cue.start_s is None else cue.start_s)
        end_s = starts[-1] + cue.audio_s
    return starts


def _shifted(cues: Sequence[Cue], starts: Sequence[float], order: Sequence[int]) -> list[float]:
    shifted = list(starts)
    free_s = 0.0
    for index in order:
        shifted[index] = max(starts[index], free_s)
        free_s = shifted[index] + cues[index].audio_s
    return shifted


def _room_s(cue: Cue, start_s: float, in_order: Sequence[float]) -> float:
    """Seconds before the next cue, or to the end of its own slot if that is later."""
    if cue.slot_end_s is None:
        return math.inf
    after = bisect_right(in_order, start_s)
    next_s = in_order[after] if after < len(in_order) else math.inf
    return max(next_s, cue.slot_end_s) - start_s


def _negligible(seconds: float) -> float:
    return seconds if seconds > NEGLIGIBLE_S else 0.0


def overlaps(spans: Sequence[tuple[float, float]]) -> list[tuple[int, int, float]]:
    """For each span that starts before an earlier one ends: (the earlier, itself, seconds shared).

    Args:
        spans: start and end in seconds.
    """
    found = []
    last: int | None = None  # the span that reaches farthest so far
    for index in sorted(range(len(spans)), key=lambda index: spans[index][0]):
        start_s, end_s = spans[index]
        if last is not None:
            shared_s = _negligible(min(spans[last][1], end_s) - start_s)
            if shared_s:
                found.append((last, index, shared_s))
        if last is None or end_s > spans[last][1]:
            last = index
    return found
