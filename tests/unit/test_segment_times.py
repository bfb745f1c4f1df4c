"""What is told of a segment does not depend on the chunks in which its samples came."""

from __future__ import annotations

from dataclasses import dataclass
from unittest import mock

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from voxcli.audio.joins import QUIET
from voxcli.config import SamplingParams
from voxcli.engine.speech import MAX_END_S, SegmentedSpeech
from voxcli.plan import Plan
from voxcli.text import prepare
from voxcli.utterance import FinishReason, Utterance

RATE = 8000
TEXT = "It is late and we go. [pause 0.3s] The ferry leaves at nine."


@dataclass(eq=False)
class Asked:
    seed: int
    max_frames: int
    step: int = 30


class Told(SegmentedSpeech[Asked]):
    def _make_request(self, text: str, seed: int, max_frames: int) -> Asked:
        return Asked(seed, max_frames)


def sound(seed: int) -> np.ndarray:
    """Tones with silence before, between and after them, float32 `[S]`."""
    random = np.random.default_rng(seed)
    silent = [np.zeros(int(size), np.float32) for size in random.integers(400, 2400, 5)]
    tones = [
        0.2 * np.sin(2 * np.pi * pitch * np.arange(int(size)) / RATE).astype(np.float32)
        for pitch, size in zip(
            random.integers(90, 300, 4), random.integers(2000, 6000, 4), strict=True
        )
    ]
    return np.concatenate(
        [silent[0], *(part for pair in zip(tones, silent[1:], strict=True) for part in pair)]
    )


def told(
    seed: int, sizes: list[int], max_seconds: float | None, speed: float, *, is_live: bool
) -> tuple[list[tuple[float, float, FinishReason, int]], np.ndarray]:
    """Times, reason and attempts of each segment, and all samples."""
    sampling = SamplingParams(seed=1, max_seconds=max_seconds)
    text = prepare(TEXT, languages=("en",), max_chars=100, model="fake")
    assert len(text.segments) == 2
    plan = Plan(Utterance(TEXT, sampling=sampling, speed=speed), text, seed=1)
    speech = Told(plan, RATE, 0.08, is_live=is_live, started_s=0.0)
    chunks = []
    while not speech.is_done:
        asked = speech.next_request()
        assert asked is not None
        samples, at, turn = sound(seed), 0, 0
        while not speech.is_done and at < len(samples):
            end = at + sizes[turn % len(sizes)]
            reason = FinishReason.STOP if end >= len(samples) else None
            assert speech.accept(asked, samples[at:end], reason) is None
            chunks += [chunk.samples for chunk in speech.ready_chunks()]
            at, turn = end, turn + 1
    reports = [
        (each.start_s, each.end_s, each.finish_reason, each.attempts) for each in speech.reports
    ]
    return reports, np.concatenate(chunks)


@settings(deadline=None, max_examples=40)
@given(
    seed=st.integers(0, 50),
    sizes=st.lists(st.integers(100, 6000), min_size=1, max_size=6),
    max_seconds=st.none() | st.floats(0.5, 7.0),
    speed=st.sampled_from([0.8, 1.0, 1.25]),
)
@pytest.mark.parametrize("is_live", [False, True])
def test_times_and_reason_of_segments_do_not_depend_on_chunks(
    is_live: bool, seed: int, sizes: list[int], max_seconds: float | None, speed: float
) -> None:
    found, samples = told(seed, sizes, max_seconds, speed, is_live=is_live)
    expected, whole = told(seed, [10**6], max_seconds, speed, is_live=is_live)
    assert found == expected
    assert len(samples) == len(whole)
    np.testing.assert_allclose(samples, whole, atol=1e-6)
    assert all(0 <= start_s < end_s <= len(samples) / RATE + 1e-6 for start_s, end_s, _, _ in found)


@settings(deadline=None, max_examples=40)
@given(seed=st.integers(0, 50), sizes=st.lists(st.integers(100, 6000), min_size=1, max_size=6))
@pytest.mark.parametrize("is_live", [False, True])
def test_speech_ends_soon_after_its_last_sound(is_live: bool, seed: int, sizes: list[int]) -> None:
    _, samples = told(seed, sizes, None, 1.0, is_live=is_live)
    made = sound(seed)
    silent = len(made) - 1 - np.flatnonzero(np.abs(made) >= QUIET)[-1]
    behind = len(samples) - 1 - np.flatnonzero(np.abs(samples) >= QUIET)[-1]
    assert behind == min(silent, round(MAX_END_S * RATE))


@pytest.mark.parametrize("is_live", [False, True])
def test_a_voice_that_is_quiet_throughout_is_whole(is_live: bool) -> None:
    text = prepare("It is late.", languages=("en",), max_chars=100, model="fake")
    plan = Plan(Utterance("It is late.", sampling=SamplingParams(seed=1)), text, seed=1)
    speech = Told(plan, RATE, 0.08, is_live=is_live, started_s=0.0)
    asked = speech.next_request()
    assert asked is not None
    quiet = 0.9 * QUIET * np.sin(np.arange(2 * RATE)).astype(np.float32)
    with mock.patch("voxcli.engine.speech.check_audio", return_value=()):
        speech.accept(asked, quiet, FinishReason.STOP)
    np.testing.assert_array_equal(
        np.concatenate([chunk.samples for chunk in speech.ready_chunks()]), quiet
    )


@pytest.mark.parametrize("speed", [0.5, 0.8, 1.25, 2.0])
def test_the_end_is_as_short_at_any_tempo(speed: float) -> None:
    for seed in range(10):
        _, samples = told(seed, [10**6], None, speed, is_live=False)
        behind = len(samples) - 1 - np.flatnonzero(np.abs(samples) >= 10 * QUIET)[-1]
        assert behind / RATE < MAX_END_S + 0.05
