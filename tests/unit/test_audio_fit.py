"""Fitting speech into slots, and placing cues on a timeline."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from test_audio_stretch import RATE, pitch, voice

from voxcli.audio.fit import KEEP_S, SpeedLimits, fit_to_slot
from voxcli.audio.placing import GAP_S, Cue, Policy, overlaps, place
from voxcli.audio.resample import Samples
from voxcli.errors import UsageError

LIMITS = SpeedLimits()


def spoken(seconds: float, *, pitch_hz: float = 140.0, around_s: float = 0.4) -> Samples:
    quiet = np.zeros(round(around_s * RATE), np.float32)
    return np.concatenate((quiet, voice(pitch_hz, seconds), quiet))


def test_speech_that_fits_is_trimmed_and_keeps_its_tempo() -> None:
    fitted = fit_to_slot(spoken(1.0), RATE, 2.0, LIMITS)
    assert fitted.speed == 1.0
    assert fitted.overflow_s == 0.0
    assert len(fitted.samples) / RATE == pytest.approx(1.0 + 2 * KEEP_S, abs=0.011)
    assert fitted.trimmed_s == pytest.approx(0.8 - 2 * KEEP_S, abs=0.011)


@pytest.mark.parametrize("pitch_hz", [90.0, 140.0, 240.0])
@pytest.mark.parametrize("slot_s", [1.7, 2.0, 2.9])
def test_long_speech_fills_its_slot_with_the_pitch_kept(slot_s: float, pitch_hz: float) -> None:
    limits = SpeedLimits(min_speed=0.7, max_speed=1.5)
    fitted = fit_to_slot(spoken(2.2, pitch_hz=pitch_hz), RATE, slot_s, limits)
    assert len(fitted.samples) == round(slot_s * RATE)
    assert fitted.overflow_s == 0.0
    assert pitch(fitted.samples) == pytest.approx(pitch_hz, rel=0.03)


def test_what_cannot_fit_overflows_at_the_greatest_tempo() -> None:
    fitted = fit_to_slot(spoken(4.0), RATE, 1.0, LIMITS)
    assert fitted.speed == 1.3
    assert fitted.overflow_s == pytest.approx(len(fitted.samples) / RATE - 1.0, abs=1 / RATE)
    assert fitted.overflow_s > 2.0


def test_short_speech_is_slowed_only_when_asked() -> None:
    assert fit_to_slot(spoken(1.0), RATE, 1.2, LIMITS).speed == 1.0
    slowed = fit_to_slot(spoken(1.0), RATE, 5.0, SpeedLimits(min_speed=0.8))
    assert slowed.speed == 0.8


def test_silence_comes_back_as_it_is() -> None:
    fitted = fit_to_slot(np.zeros(RATE, np.float32), RATE, 0.5, LIMITS)
    assert len(fitted.samples) == RATE
    assert fitted.overflow_s == 0.5


@given(
    audio_s=st.floats(0.1, 30), slot_s=st.floats(0.1, 30),
    low=st.floats(0.5, 2.0), high=st.floats(0.5, 2.0),
)  # fmt: skip
def test_the_tempo_is_never_out_of_bounds(
    audio_s: float, slot_s: float, low: float, high: float
) -> None:
    limits = SpeedLimits(min(low, high), max(low, high))
    speed = limits.choose(audio_s, slot_s)
    assert limits.min_speed <= speed <= limits.max_speed
    if limits.min_speed < speed < limits.max_speed:
        assert audio_s / speed == pytest.approx(slot_s)


@pytest.mark.parametrize(("low", "high"), [(0.4, 1.3), (1.0, 2.1), (1.4, 1.3), (float("nan"), 1.0)])
def test_impossible_limits_are_refused(low: float, high: float) -> None:
    with pytest.raises(UsageError, match="speed"):
        SpeedLimits(low, high)


# ------------------------------------------------------------ placing


OVERLAPPING = [  # by half a second; the same time; one inside another
    Cue(2.5, 0.0, 2.5), Cue(2.0, 2.0, 4.0), Cue(2.0, 5.0, 7.0), Cue(2.0, 5.0, 7.0),
    Cue(4.0, 8.0, 12.0), Cue(1.0, 9.0, 10.0),
]  # fmt: skip


def test_mix_moves_nothing_and_tells_what_overlaps() -> None:
    placed = place(OVERLAPPING, Policy.MIX)
    assert [p.start_s for p in placed] == [cue.start_s for cue in OVERLAPPING]
    assert [p.overlap_s for p in placed] == [0, 0.5, 0, 2.0, 0, 1.0]
    assert all(p.shift_s == p.cut_s == 0 for p in placed)


def test_shift_lets_each_cue_wait_for_the_one_before() -> None:
    placed = place(OVERLAPPING, Policy.SHIFT)
    assert [p.start_s for p in placed] == [0, 2.5, 5, 7, 9, 13]
    assert [p.shift_s for p in placed] == [0, 0.5, 0, 2, 1, 4]


def test_cut_takes_only_what_outgrew_its_slot_and_reaches_into_the_next() -> None:
    assert place(OVERLAPPING, Policy.CUT) == place(OVERLAPPING, Policy.MIX)
    first, second = place([Cue(4.0, 0.0, 1.0), Cue(1.0, 1.2, 4.0)], Policy.CUT)
    assert (first.start_s, first.audio_s, first.cut_s) == (0.0, 1.2, pytest.approx(2.8))
    assert (second.start_s, second.cut_s, second.overlap_s) == (1.2, 0.0, 0.0)
    (alone,) = place([Cue(4.0, 0.0, 1.0)], Policy.CUT)
    assert alone.cut_s == 0.0


def test_cues_without_a_start_follow_the_one_before() -> None:
    placed = place([Cue(1.0), Cue(2.0), Cue(1.0, 10.0), Cue(1.0)], Policy.MIX)
    assert [p.start_s for p in placed] == pytest.approx([0, 1 + GAP_S, 10, 11 + GAP_S])


def test_overlaps_are_found_against_the_cue_that_reaches_farthest() -> None:
    assert overlaps([(0, 10), (1, 2), (3, 4), (10, 11)]) == [(0, 1, 1), (0, 2, 1)]
    assert overlaps([(5, 6), (0, 5), (6, 6.5)]) == []


CUES = st.builds(
    lambda audio, start, slot: Cue(audio, start, start + slot),
    st.floats(0.1, 10), st.floats(0, 100), st.floats(0.1, 10),
)  # fmt: skip


@given(st.lists(CUES, max_size=30))
def test_shift_keeps_order_and_leaves_no_overlap(cues: list[Cue]) -> None:
    placed = place(cues, Policy.SHIFT)
    assert all(p.overlap_s == 0 and p.shift_s >= 0 for p in placed)
    assert not overlaps([(p.start_s, p.end_s) for p in placed])
    by_start = sorted(range(len(cues)), key=lambda index: (cues[index].start_s, index))
    starts = [placed[index].start_s for index in by_start]
    assert starts == sorted(starts)


@given(st.lists(CUES, max_size=30), st.sampled_from(list(Policy)))
def test_no_cue_is_lost_or_starts_early(cues: list[Cue], policy: Policy) -> None:
    placed = place(cues, policy)
    for cue, p in zip(cues, placed, strict=True):
        assert cue.start_s is not None
        assert p.start_s >= cue.start_s
        assert 0 < p.audio_s <= cue.audio_s
        assert p.audio_s + p.cut_s == pytest.approx(cue.audio_s)
