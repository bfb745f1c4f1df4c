"""Time-stretch: duration, pitch, level; streamed equals whole."""

from __future__ import annotations

import numpy as np
import pytest

from voxcli.audio.resample import Samples
from voxcli.audio.stretch import SEARCH_S, WINDOW_S, TimeStretch, stretch
from voxcli.errors import UsageError

RATE = 24_000
SPEEDS = [0.25, 0.5, 0.8, 1.1, 1.5, 2.0, 4.0]


def voice(pitch_hz: float, seconds: float = 2.0, rate: int = RATE) -> Samples:
    """A harmonic tone, its overtones falling by 6 dB an octave as in a voice."""
    time = np.arange(round(seconds * rate)) / rate
    wave = sum(np.sin(2 * np.pi * pitch_hz * k * time + k) / k for k in range(1, 12))
    return (0.15 * wave).astype(np.float32)


def pitch(samples: Samples, rate: int = RATE) -> float:
    """By autocorrelation of the middle second, 60 to 500 Hz."""
    middle = samples[len(samples) // 4 :][: rate // 2].astype(np.float64)
    spectrum = np.abs(np.fft.rfft(middle, 2 * len(middle))) ** 2
    correlation = np.fft.irfft(spectrum)[: rate // 60]
    return rate / (int(np.argmax(correlation[rate // 500 :])) + rate // 500)


def rms(samples: Samples) -> float:
    return float(np.sqrt(np.square(samples, dtype=np.float64).mean()))


@pytest.mark.parametrize("speed", SPEEDS)
@pytest.mark.parametrize("pitch_hz", [80.0, 150.0, 260.0])
def test_duration_changes_and_pitch_and_level_stay(speed: float, pitch_hz: float) -> None:
    source = voice(pitch_hz)
    result = stretch(source, RATE, speed)
    assert len(result) == round(len(source) / speed)
    assert np.isfinite(result).all()
    assert pitch(result) == pytest.approx(pitch(source), rel=0.01)
    assert rms(result) == pytest.approx(rms(source), rel=0.05)
    assert np.abs(result).max() <= 1.05 * np.abs(source).max()


@pytest.mark.parametrize("speed", SPEEDS)
@pytest.mark.parametrize("size", [1, 333, 4801])
def test_streamed_equals_whole(speed: float, size: int) -> None:
    source = voice(140.0, 0.3)
    stream = TimeStretch(RATE, speed)
    pieces = [stream.push(source[i : i + size]) for i in range(0, len(source), size)]
    assert np.array_equal(np.concatenate([*pieces, stream.flush()]), stretch(source, RATE, speed))


@pytest.mark.parametrize("speed", SPEEDS)
def test_events_keep_their_place(speed: float) -> None:
    source = np.random.default_rng(0).normal(0, 1e-3, 2 * RATE).astype(np.float32)
    source[RATE : RATE + 2400] += voice(150.0, 0.1)
    result = stretch(source, RATE, speed)
    loud = np.flatnonzero(np.abs(result) > 0.1)
    abs_s = max(0.03, SEARCH_S / speed + WINDOW_S)
    assert loud[0] / RATE == pytest.approx(1.0 / speed, abs=abs_s)
    assert loud[-1] / RATE == pytest.approx(1.1 / speed, abs=abs_s)


@pytest.mark.parametrize("speed", SPEEDS)
def test_stretching_starts_before_the_input_ends(speed: float) -> None:
    stream = TimeStretch(RATE, speed)
    ready = len(stream.push(voice(150.0, 1.0)))
    assert ready * speed / RATE > 1.0 - 0.08


def test_speed_one_changes_nothing() -> None:
    assert np.array_equal(stretch(voice(150.0), RATE, 1.0), voice(150.0))


@pytest.mark.parametrize("num_samples", [0, 1, 100, 1000])
@pytest.mark.parametrize("speed", [0.5, 1.0, 2.0])
def test_very_short_input_has_the_right_length(num_samples: int, speed: float) -> None:
    result = stretch(np.full(num_samples, 0.1, np.float32), RATE, speed)
    assert len(result) == round(num_samples / speed)
    assert np.isfinite(result).all()


@pytest.mark.parametrize("rate", [8_000, 16_000, 44_100, 48_000])
def test_other_rates_work(rate: int) -> None:
    result = stretch(voice(150.0, 1.0, rate), rate, 1.3)
    assert len(result) == round(rate / 1.3)
    assert pitch(result, rate) == pytest.approx(150.0, rel=0.02)


def test_silence_stays_silent() -> None:
    assert not stretch(np.zeros(RATE, np.float32), RATE, 1.5).any()


@pytest.mark.parametrize("speed", [0.24, 4.01, 0.0, -1.0, float("nan"), float("inf")])
def test_speed_out_of_range_is_refused(speed: float) -> None:
    with pytest.raises(UsageError, match=r"0\.25 to 4"):
        TimeStretch(RATE, speed)
