from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import cases
import pytest
import torch
from checkpoints import write_random_checkpoint

from voxcli.models.voxcpm2.family import load
from voxcli.models.voxcpm2.model import VoxCPM2

Models = Callable[[str], VoxCPM2]


@pytest.fixture(scope="session")
def models(tmp_path_factory: pytest.TempPathFactory) -> Models:
    """`models("mini")`, `models("tiny")`, `models("tiny_mean")`: fp32 on CPU, loaded once."""
    loaded: dict[str, VoxCPM2] = {}

    def get(name: str) -> VoxCPM2:
        if name not in loaded:
            empty: Path = tmp_path_factory.mktemp(name)
            folder = cases.checkpoint_folder(name, empty, write_random_checkpoint)
            loaded[name] = load(folder, torch.device("cpu"), torch.float32)
        return loaded[name]

    return get
