from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from checkpoints import TINY, write_random_checkpoint
from qwen3_tts import tiny

STANDINS = Path(__file__).resolve().parents[1] / "omni"
NAMES = ("vllm", "vllm_omni", "transformers")


def _is_theirs(name: str) -> bool:
    return name.split(".")[0] in NAMES


@pytest.fixture
def omni(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """`AsyncOmni` of the packages that stand in for vLLM-Omni, which are gone after the test."""
    before = {name: module for name, module in sys.modules.items() if _is_theirs(name)}
    for name in before:
        del sys.modules[name]
    monkeypatch.syspath_prepend(str(STANDINS))
    try:
        omni = importlib.import_module("vllm_omni").AsyncOmni
        assert Path(importlib.import_module("transformers").__file__ or "").is_relative_to(STANDINS)
        omni.may_begin.set()
        yield omni
        omni.may_begin.set()
    finally:
        for name in [name for name in sys.modules if _is_theirs(name)]:
            del sys.modules[name]
        sys.modules.update(before)


@pytest.fixture(scope="session")
def checkpoint(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """The folder of a tiny checkpoint: "voxcpm2", or one of Qwen3-TTS by its kind and size."""
    made: dict[str, Path] = {}

    def checkpoint(name: str) -> Path:
        if name not in made:
            folder = tmp_path_factory.mktemp("checkpoints")
            if name == "voxcpm2":
                write_random_checkpoint(folder, TINY, 11)
                made[name] = folder
            else:
                made[name] = tiny.write(folder, name)
        return made[name]

    return checkpoint
