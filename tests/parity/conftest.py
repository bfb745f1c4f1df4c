from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from pathlib import Path

import cases
import pytest
import torch
from checkpoints import write_random_checkpoint
from helpers import Models
from needs import unavailable

from voxcli.kernels import native, native_product
from voxcli.models.voxcpm2.loading import load
from voxcli.models.voxcpm2.model import VoxCPM2

WIDE = ("AVX2", "AVX512")  # torch's names of the instructions that products need


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


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Kernels are tested once with each set of instructions that this processor has."""
    if "compiled_kernels" in metafunc.fixturenames:
        marker = metafunc.definition.get_closest_marker("instructions")
        sets = marker.args if marker else ("DEFAULT", *WIDE)
        here = [name for name in sets if name in instructions()]
        metafunc.parametrize("compiled_kernels", here, indirect=True)


@cache
def instructions() -> tuple[str, ...]:
    """Of this processor; all where nothing was compiled, which the tests then say."""
    library = native.load()
    if library is None:
        return ("DEFAULT", *WIDE)
    own = library.vox_vector()
    wide = [name for name in WIDE if native.choose(library, name) in native.INSTRUCTIONS[1:]]
    has_wider = native.choose(library, "AVX512") == native.INSTRUCTIONS[2]
    can_lend = native_product.is_available()
    library.vox_choose(native.INSTRUCTIONS.index(native.find().detail))
    assert library.vox_vector() == own
    return ("DEFAULT", *(wide if has_wider else wide[:1])) if can_lend else ("DEFAULT",)


@pytest.fixture
def compiled_kernels(request: pytest.FixtureRequest) -> Iterator[None]:
    """A set of instructions; where nothing was compiled, a skip, and a failure in CI."""
    found = native.find()
    if found.library is None:
        unavailable(f"no native kernels: {found.detail}")
    own = native.INSTRUCTIONS.index(found.detail)
    try:
        native.choose(found.library, request.param)
        yield
    finally:
        found.library.vox_choose(own)
