from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path

import cases
import pytest
import torch
from checkpoints import write_random_checkpoint
from torch import Tensor

from voxcli.kernels import native
from voxcli.models.voxcpm2.loading import load
from voxcli.models.voxcpm2.model import VoxCPM2

Models = Callable[[str], VoxCPM2]


def random(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed))


@pytest.fixture(scope="session")
def models(tmp_path_factory: pytest.TempPathFactory) -> Models:
    """`models("mini")`, `models("tiny")`, `models("tiny_mean")`: fp32 on CPU.

    Each is loaded once for each set of instructions, for which weights are laid out.
    """
    loaded: dict[tuple[str, int], VoxCPM2] = {}

    def get(name: str) -> VoxCPM2:
        library = native.load()
        key = name, 0 if library is None else library.vox_vector()
        if key not in loaded:
            empty: Path = tmp_path_factory.mktemp(name)
            folder = cases.checkpoint_folder(name, empty, write_random_checkpoint)
            loaded[key] = load(folder, torch.device("cpu"), torch.float32)
        return loaded[key]

    return get


@pytest.fixture
def inference_mode() -> Iterator[None]:
    with torch.inference_mode():
        yield


@pytest.fixture(params=["DEFAULT", "AVX2", "AVX512"])
def compiled_kernels(request: pytest.FixtureRequest) -> Iterator[None]:
    """Each set of instructions in turn; where nothing was compiled, a skip, and a failure in CI."""
    found = native.find()
    if found.library is None and not os.environ.get("CI"):
        pytest.skip(f"no native kernels: {found.detail}")
    assert found.library is not None, found.detail
    own = native.INSTRUCTIONS.index(found.detail)
    try:
        chosen = native.choose(found.library, request.param)
        if request.param != "DEFAULT" and chosen == native.INSTRUCTIONS[0]:
            pytest.skip("this processor has no AVX2")
        if request.param == "AVX512" and chosen != native.INSTRUCTIONS[2]:
            pytest.skip("this processor has no AVX-512")
        yield
    finally:
        found.library.vox_choose(own)
