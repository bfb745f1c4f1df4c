"""What has been trained, from one machine to another: in half precision and in small parts."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path

import torch

from recipes.train_mini import codec_training, distillation, language_training
from recipes.train_mini.progress import join, save, split
from recipes.train_mini.settings import Settings

STATES = (codec_training.STATE, language_training.STATE, distillation.STATE)


def pack(settings: Settings, folder: Path) -> None:
    """Averaged weights of every state and the logs, into a folder."""
    for name in STATES:
        if not (settings.work / name).is_file():
            continue
        state = torch.load(settings.work / name, map_location="cpu")
        with tempfile.TemporaryDirectory() as scratch:
            path = Path(scratch) / name
            save(packed(state), path)
            for part in split(path, folder):
                print(f"{part.name}: {part.stat().st_size:,} bytes")
    for path in sorted((settings.work / "logs").glob("*")):
        shutil.copy(path, folder / path.name)


def packed(state: dict) -> dict:
    """A state without optimisers, in half precision; what is averaged stands for the weights."""
    kept = {name: state[name] for name in ("average", "judges", "heads") if name in state}
    halves = {
        name: {key: value.half() for key, value in values.items()} for name, values in kept.items()
    }
    step, *ages = state["ages"]
    return {**halves, "ages": (step, *ages[:-1], 0)}


def unpack(settings: Settings, folder: Path) -> None:
    """Parts of states into the folder of work; what is there already stays."""
    for name in STATES:
        target = settings.work / name
        if not target.exists() and join(folder, name, target):
            print(f"{target}: {target.stat().st_size:,} bytes")
