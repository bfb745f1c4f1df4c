"""The guard, its time bounds, and the joins between segments."""

from __future__ import annotations

import string

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from voxcli.audio import guard, joins, pace
from voxcli.audio.guard import ProblemKind, check_audio, max_audio_seconds
from voxcli.audio.pace import min_speech_seconds
from voxcli.audio.resample import Samples

RATE = 24_000
TEXT = "The quick brown fox jumps over the lazy dog."  # 44 characters
RANDOM = np.random.default_rng(0)


def speech(seconds: float, rate: int = RATE) -> Samples:
    """Syllables of a buzzing voice, four a second, with a soft start and end each."""
    time = np.arange(round(seconds * rate)) / rate
    buzz = sum(np.sin(2 * np.pi * 140 * k * time) / k for k in range(1, 20))
    syllables = np.sin(np.pi * ((4 * time) % 1)) ** 2
    return (0.15 * buzz * syllables).astype(np.float32)


def noise(seconds: float, level: float = 0.05) -> Samples:
    return RANDOM.normal(0, level, round(seconds * RATE)).astype(np.float32)


def kinds(samples: Samples, text: str = TEXT, language: str | None = None) -> set[str]:
    return {str(problem.kind) for problem in check_audio(samples, RATE, text, language)}


def fatal(samples: Samples, text: str = TEXT) -> bool:
    return guard.has_fatal(check_audio(samples, RATE, text))


def test_good_speech_has_no_problem() -> None:
    assert check_audio(speech(3.0), RATE, TEXT) == ()


@pytest.mark.parametrize("rate", [16_000, 48_000])
@pytest.mark.parametrize("chars_per_s", [8, 14, 25])
@pytest.mark.parametrize("words", [1, 5, 12])
def test_english_rate_band_passes(rate: int, chars_per_s: int, words: int) -> None:
    text = " ".join(["speaking"] * words)
    seconds = np.ceil(4 * len(text) / chars_per_s) / 4  # whole syllables
    assert check_audio(speech(seconds, rate), rate, text) == ()


@pytest.mark.parametrize("chars_per_s", [2.5, 8])
def test_chinese_rate_band_passes(chars_per_s: float) -> None:
    text = "今天天气很好我们去公园散步吧"
    seconds = np.ceil(4 * len(text) / chars_per_s) / 4
    assert kinds(speech(seconds), text, "zh") == set()


@pytest.mark.parametrize(
    ("samples", "kind"),
    [
        (speech(0.0), ProblemKind.EMPTY),
        (np.full(RATE, np.nan, np.float32), ProblemKind.NAN),
        (np.full(RATE, np.inf, np.float32), ProblemKind.NAN),
        (np.zeros(RATE, np.float32), ProblemKind.SILENT),
        (noise(2.0, 5e-4), ProblemKind.SILENT),
        (np.clip(40 * speech(3.0), -1, 1), ProblemKind.CLIPPED),
        (speech(20.0), ProblemKind.RUNAWAY),
        (speech(0.5), ProblemKind.TRUNCATED),
        (np.concatenate([speech(2.0), noise(1.5)]), ProblemKind.NOISY_TAIL),
        (np.concatenate([speech(2.0), noise(1.5, 0.01)]), ProblemKind.NOISY_TAIL),
    ],
)
def test_unusable_audio_is_fatal(samples: Samples, kind: ProblemKind) -> None:
    found = check_audio(samples, RATE, TEXT)
    assert [problem.kind for problem in found if problem.is_fatal] == [kind]
    assert all(problem.message for problem in found)


def test_long_hiss_is_fatal() -> None:
    assert {"runaway", "noisy_tail"} <= kinds(noise(30.0))


def test_a_little_clipping_is_a_warning() -> None:
    samples = speech(3.0)
    samples[10_000:10_600] = 1.0
    assert kinds(samples) == {"clipped"}
    assert not fatal(samples)


def test_long_silence_at_the_end_is_a_warning() -> None:
    samples = np.concatenate([speech(2.0), noise(3.0, 1e-5)])
    assert kinds(samples) == {"trailing_silence"}
    assert not fatal(samples)


def test_abrupt_end_is_a_warning() -> None:
    samples = speech(3.0)[: -RATE // 8]  # in the middle of the last syllable
    assert kinds(samples) == {"tail_cut"}
    assert not fatal(samples)


def test_steady_vowel_at_the_end_is_not_noise() -> None:
    time = np.arange(2 * RATE) / RATE
    vowel = sum(np.sin(2 * np.pi * 140 * k * time) / k for k in range(1, 20))
    assert "noisy_tail" not in kinds((0.1 * vowel).astype(np.float32))


@pytest.mark.parametrize("text", ["A", "1次", "嗯", "7", "我", "I."])
def test_very_short_texts_are_capped_at_three_seconds(text: str) -> None:
    assert 2.5 <= max_audio_seconds(text, None) <= 3.2
    assert kinds(speech(0.25), text) == set()
    assert "runaway" in kinds(speech(10.0), text)


def test_cap_grows_with_the_text_and_never_meets_the_floor() -> None:
    texts = [TEXT * count for count in range(1, 8)]
    caps = [max_audio_seconds(text, "en") for text in texts]
    assert caps == sorted(caps)
    for text, cap in zip(texts, caps, strict=True):
        assert len(text) / 8 < cap < len(text) / 8 + 1.5 + 0.7 * text.count(".")
        assert min_speech_seconds(text) < len(text) / 25


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("3,141,592", 4.5),  # "three million one hundred forty-one thousand ..."
        ("NATO, NASA", 1.6),
        ("WWW", 2.2),
        ("50 %", 1.0),
    ],
)
def test_unnormalised_text_has_time_to_be_read(text: str, seconds: float) -> None:
    assert min_speech_seconds(text) < seconds < max_audio_seconds(text)


def test_runs_of_dots_buy_no_time() -> None:
    assert max_audio_seconds("Well" + "." * 100) < 4


def test_unwritten_vowels_buy_time() -> None:
    assert max_audio_seconds("x" * 80, "ar") > max_audio_seconds("x" * 80, "en")


# --- joins -------------------------------------------------------------------------------------


def test_trim_keeps_the_speech_and_the_margin() -> None:
    quiet = noise(0.5, 1e-5)
    samples = np.concatenate([quiet, speech(1.0), quiet])
    trimmed = joins.trim_silence(samples, RATE, keep_s=0.05)
    assert len(trimmed) == pytest.approx(1.1 * RATE, abs=0.06 * RATE)
    position = int(np.argmax(np.correlate(samples, trimmed, "valid")))
    middle = slice(round(0.02 * RATE), -round(0.02 * RATE))
    assert np.array_equal(trimmed[middle], samples[position : position + len(trimmed)][middle])
    assert trimmed[0] == 0.0
    assert trimmed[-1] == pytest.approx(0.0, abs=1e-6)


def test_trim_leaves_audio_without_margins_untouched() -> None:
    samples = speech(1.0)[RATE // 8 : -RATE // 8]
    assert np.array_equal(joins.trim_silence(samples, RATE), samples)


def test_trim_of_silence_is_empty() -> None:
    assert len(joins.trim_silence(np.zeros(RATE, np.float32), RATE)) == 0
    assert len(joins.trim_silence(np.zeros(0, np.float32), RATE)) == 0


def test_join_puts_one_pause_between_two_segments() -> None:
    joined = joins.join([speech(1.0), speech(0.0), speech(0.5)], RATE, pause_s=0.25)
    assert len(joined) == 1.75 * RATE
    assert not joined[RATE : RATE + RATE // 4].any()
    assert len(joins.join([], RATE, pause_s=1.0)) == 0


def test_fade_does_not_change_its_input() -> None:
    samples = np.ones(1000, np.float32)
    faded = joins.fade(samples, RATE)
    assert samples.all()
    assert (faded[0], faded[500]) == (0.0, 1.0)
    assert np.diff(faded).max() < 0.01
    assert len(joins.fade(samples[:3], RATE)) == 3


@given(st.text([chr(code) for code in range(128)] + list(string.ascii_letters) * 4, max_size=60))
def test_the_quick_time_of_ascii_is_that_of_its_characters(text: str) -> None:
    """Sums of up to 60 numbers below 1: apart by rounding alone."""
    assert pace._ascii_time(text) == pytest.approx(pace._char_times(text), abs=1e-9)
