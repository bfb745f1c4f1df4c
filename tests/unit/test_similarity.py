"""The comparison of voices."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import soundfile

from voxcli.errors import UsageError
from voxcli.voices.likeness import LOW_SIMILARITY, RATE, SpeakerEncoder, similarity

VOICES = Path(__file__).resolve().parents[2] / "samples" / "voices"


def hum(pitch: float, rate: int = 16_000, seconds: float = 3.0) -> np.ndarray:
    time = np.arange(round(seconds * rate)) / rate
    tone = sum(np.sin(2 * np.pi * pitch * n * time) / n for n in range(1, 12))
    return (0.1 * tone).astype(np.float32)


def test_halves_of_a_recording_are_one_voice_and_other_recordings_are_others() -> None:
    encoder = SpeakerEncoder.load()
    halves = []
    for name in ("emma", "oscar"):
        samples, rate = soundfile.read(VOICES / f"{name}.flac", dtype="float32")
        assert rate == RATE
        halves += [encoder.embed(half) for half in np.array_split(samples, 2)]
    cosines = np.stack(halves) @ np.stack(halves).T
    assert min(cosines[0, 1], cosines[2, 3]) > LOW_SIMILARITY > cosines[:2, 2:].max()


def test_a_voice_is_most_like_itself_at_any_rate() -> None:
    low = hum(110)
    assert similarity(low, 16_000, low, 16_000) == pytest.approx(1.0, abs=1e-5)
    assert similarity(low, 16_000, low, 16_000) > similarity(low, 16_000, hum(300), 16_000)
    assert similarity(hum(110, 24_000), 24_000, low, 16_000) > 0.99


def test_short_and_silent_recordings_have_a_vector() -> None:
    for samples in (hum(200, seconds=0.01), np.zeros(16_000, np.float32)):
        assert np.isfinite(SpeakerEncoder.load().embed(samples)).all()


def test_an_empty_recording_is_refused() -> None:
    with pytest.raises(UsageError, match="empty"):
        similarity(np.zeros(0, np.float32), 16_000, hum(200), 16_000)
