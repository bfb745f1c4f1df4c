"""The comparison of voices, with random weights of the encoder's shape."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

from voxcli import similarity as module
from voxcli.errors import UsageError
from voxcli.similarity import SpeakerEncoder, similarity


@pytest.fixture(autouse=True)
def weights(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A checkpoint as Resemblyzer's package has it."""
    generator = torch.Generator().manual_seed(0)
    lstm, linear = torch.nn.LSTM(40, 256, num_layers=3), torch.nn.Linear(256, 256)
    state = {f"lstm.{key}": value for key, value in lstm.state_dict().items()}
    state |= {f"linear.{key}": value for key, value in linear.state_dict().items()}
    state = {
        key: 0.05 * torch.randn(each.shape, generator=generator) for key, each in state.items()
    }
    state["similarity_weight"] = torch.ones(1)  # of its training; not used
    path = tmp_path / "resemblyzer" / "pretrained.pt"
    path.parent.mkdir()
    (path.parent / "__init__.py").write_text("raise ImportError('nothing of it is imported')")
    torch.save({"model_state": state}, path)
    monkeypatch.syspath_prepend(str(tmp_path))
    return path


def hum(pitch: float, rate: int = 16_000, seconds: float = 3.0) -> np.ndarray:
    time = np.arange(round(seconds * rate)) / rate
    tone = sum(np.sin(2 * np.pi * pitch * n * time) / n for n in range(1, 12))
    return (0.1 * tone).astype(np.float32)


def test_a_voice_is_most_like_itself_at_any_rate() -> None:
    low = hum(110)
    assert similarity(low, 16_000, low, 16_000) == pytest.approx(1.0, abs=1e-5)
    assert similarity(low, 16_000, low, 16_000) > similarity(low, 16_000, hum(300), 16_000)
    assert similarity(hum(110, 24_000), 24_000, low, 16_000) > 0.99


def test_short_and_silent_recordings_have_a_vector(weights: Path) -> None:
    encoder = SpeakerEncoder.load(weights)
    for samples in (hum(200, seconds=0.01), np.zeros(16_000, np.float32)):
        assert np.isfinite(encoder.embed(samples)).all()


def test_an_empty_recording_is_refused() -> None:
    with pytest.raises(UsageError, match="empty"):
        similarity(np.zeros(0, np.float32), 16_000, hum(200), 16_000)


def test_without_the_weights_the_package_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "find_spec", lambda name: None)
    with pytest.raises(UsageError, match="not installed") as failure:
        similarity(hum(200), 16_000, hum(200), 16_000)
    assert "pip install --no-deps Resemblyzer" in str(failure.value.hint)
