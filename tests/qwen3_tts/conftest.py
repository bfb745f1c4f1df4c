"""Tiny checkpoints on disk and loaded, once a run."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import tiny
import torch
from qwen_models import Models

from voxcli.models.qwen3_tts.loading import load
from voxcli.models.qwen3_tts.model import Qwen3TTS


@pytest.fixture(scope="module", autouse=True)
def _one_thread() -> Iterator[None]:
    """Layers this small are faster so, above all where other work is on the cores."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture(scope="session")
def models(tmp_path_factory: pytest.TempPathFactory) -> Models:
    """Models by the name of their checkpoint, in fp32 on the CPU."""
    folder = tmp_path_factory.mktemp("qwen3_tts")
    loaded: dict[str, Qwen3TTS] = {}

    def model(name: str) -> Qwen3TTS:
        if name not in loaded:
            path = tiny.write(folder, name)
            loaded[name] = load(path, torch.device("cpu"), torch.float32)
        return loaded[name]

    return model
