"""Puts this folder on the import path: `checkpoints` and other helpers are shared by all tests."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator

import pytest

import voxcli  # noqa: F401  before torch, whose idle threads would spin beside other processes

os.environ["XDG_RUNTIME_DIR"] = tempfile.mkdtemp(prefix="voxcli")  # a socket's path must be short
os.environ["VOXCLI_ENGINE"] = "native"  # a developer's running server speaks in no test but its own


@pytest.fixture
def one_thread() -> Iterator[None]:
    """Layers this small are faster so, above all where other work is on the cores."""
    import torch

    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)
