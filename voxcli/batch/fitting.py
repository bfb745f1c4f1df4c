"""Speech of rows that have a slot on a timeline, fitted into it.

`prepare` settles in the preflight what a row is spoken and fitted with; `FitJudge` does it once the
row is spoken. Such a row is spoken at the voice's own tempo, so that it is stretched once. No model
is told how long to speak; so where even the greatest tempo is not enough, but nearly, other seeds
are tried, which read a little faster or slower, and the take that sticks out least is kept.
"""

from __future__ import annotations

import math
from dataclasses import replace

from voxcli.audio.fit import SpeedLimits, fit_to_slot
from voxcli.batch.rows import Row
from voxcli.batch.takes import Take, Verdict, next_take
from voxcli.utterance import Utterance

REACH = 0.15  # share of a slot; takes of one text differ by less (docs/dubbing.md)


def prepare(
    row: Row, utterance: Utterance, limits: SpeedLimits | None
) -> tuple[Utterance, SpeedLimits | None]:
    """The utterance to speak, and the limits to fit it with; None where it is not fitted.

    A tempo that was asked for takes the place of the least one. Where the row may be no longer than
    so many seconds, it may be as much longer before its tempo is set as the greatest tempo allows.

    Raises:
        UsageError: it is above the greatest one.
    """
    if limits is None or row.slot_s is None:
        return utterance, None
    if utterance.speed != 1.0:
        limits = replace(limits, min_speed=utterance.speed)
    sampling = utterance.sampling
    if sampling.max_seconds is not None:
        sampling = replace(sampling, max_seconds=sampling.max_seconds * limits.max_speed)
    return replace(utterance, speed=1.0, sampling=sampling), limits


class FitJudge:
    """Fits each row that has limits; others pass. A row has `--retries` further takes."""

    def __call__(self, take: Take) -> Verdict:
        limits, slot_s = take.job.fit, take.job.row.slot_s
        if limits is None or slot_s is None:
            return Verdict(take.samples)
        longest_s = math.inf
        if (max_seconds := take.utterance.sampling.max_seconds) is not None:
            longest_s = max_seconds / limits.max_speed  # see `prepare`
        slot_s = min(slot_s, longest_s)
        fitted = fit_to_slot(take.samples, take.sample_rate, slot_s, limits, take.silences)
        if len(fitted.samples) > longest_s * take.sample_rate:  # by a sample, of rounding
            kept = fitted.samples[: math.floor(longest_s * take.sample_rate)]
            fitted = replace(fitted, samples=kept)
        facts = {
            "speed": round(fitted.speed, 4),
            "trimmed_s": round(fitted.trimmed_s, 4),
            "overflow_s": round(fitted.overflow_s, 4),
        }
        rate = take.sample_rate
        segments = tuple(
            replace(
                each, start_s=fitted.moved(each.start_s * rate) / rate,
                end_s=fitted.moved(each.end_s * rate) / rate,
            )
            for each in take.segments
        )  # fmt: skip
        verdict = Verdict(fitted.samples, facts, excess=fitted.overflow_s, segments=segments)
        is_hopeful = 0 < fitted.overflow_s <= REACH * slot_s
        if not is_hopeful or take.number > take.utterance.sampling.retries:
            return verdict
        reason = f"overflows its slot by {fitted.overflow_s:.2f} s at {fitted.speed:g}x"
        return replace(verdict, again=next_take(take), reason=reason)
