"""One field of a checkpoint's JSON files is another: it loads, or the file and field are named."""

from __future__ import annotations

import json
import resource
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from checkpoints import TINY, write_random_checkpoint
from oddities import MISSING, VALUES, changed, fields
from qwen3_tts import tiny

from voxcli.errors import CheckpointError
from voxcli.hub.checkpoint import inspect_checkpoint
from voxcli.models.qwen3_tts.config import Qwen3TTSConfig
from voxcli.models.voxcpm2.config import VoxCPM2Config

pytestmark = pytest.mark.usefixtures("one_thread")

MAX_ENTRIES = 4
VOCABULARIES = [("voxcpm2", "tokenizer.json"), ("cv_0b6", "vocab.json")]
MAX_GROWTH = 400 << 20  # bytes that no tiny checkpoint needs


def _tiny(folder: Path) -> None:
    write_random_checkpoint(folder, TINY, 11)


CHECKPOINTS: dict[str, Callable[[Path], object]] = {
    "voxcpm2": _tiny,
    "base_1b7": lambda folder: tiny.write(folder.parent, folder.name),
    "cv_0b6": lambda folder: tiny.write(folder.parent, folder.name),
}
FILES = [
    ("voxcpm2", "config.json"),
    ("base_1b7", "config.json"),
    ("cv_0b6", "config.json"),
    ("cv_0b6", "generation_config.json"),
    ("cv_0b6", "speech_tokenizer/config.json"),
]


def settings(folder: Path) -> object:
    """What the checkpoint's files say to its family, as the commands ask before anything loads."""
    checkpoint = inspect_checkpoint(folder)
    facts = checkpoint.family.facts(folder, checkpoint.config)
    if checkpoint.family.name == "voxcpm2":
        return VoxCPM2Config.load(folder), facts
    return Qwen3TTSConfig.load(folder), facts


def load(folder: Path) -> None:
    inspect_checkpoint(folder).family.load(folder, torch.device("cpu"), torch.float32)


@pytest.mark.parametrize(("name", "file"), FILES)
def test_a_changed_field_loads_or_is_named(name: str, file: str, tmp_path: Path) -> None:
    folder = tmp_path / name
    CHECKPOINTS[name](folder)
    load(folder)
    as_it_was = settings(folder)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    root = json.loads((folder / file).read_text("utf-8"))
    alike = like_it(file, tmp_path) if name == "cv_0b6" and file == "config.json" else {}
    faults = []
    for path in fields(root):
        if alike.get(path, MISSING) == at(root, path):
            continue
        for value in VALUES:
            (folder / file).write_text(json.dumps(changed(root, path, value)), "utf-8")
            try:
                if settings(folder) != as_it_was:  # else the same would be loaded again
                    load(folder)
            except CheckpointError as err:
                if not is_good(str(err), file, path):
                    faults.append((path, value, str(err)))
            except Exception as err:  # what a user would see a traceback of
                faults.append((path, value, repr(err)))
    grown = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - peak) << 10
    assert not faults, f"{len(faults)}:\n" + "\n".join(map(str, faults))
    assert grown < MAX_GROWTH


def at(root: Any, path: tuple[str | int, ...]) -> Any:
    for key in path:
        root = root[key]
    return root


def like_it(file: str, place: Path) -> dict[tuple[str | int, ...], Any]:
    """The fields of the family's other kind by their paths; where the values are the same too,
    they are changed there alone."""
    CHECKPOINTS["base_1b7"](place / "base_1b7")
    root = json.loads((place / "base_1b7" / file).read_text("utf-8"))
    return {path: at(root, path) for path in fields(root)}


def is_good(message: str, file: str, path: tuple[str | int, ...]) -> bool:
    """Whether the file is named, and the field, its block or the weight that does not fit."""
    names = {key for key in path if isinstance(key, str)}
    is_named = file in message and any(name in message for name in names)
    has_no_place = "weight" in message and file.rpartition("/")[2] in message
    return (is_named or has_no_place) and message.isprintable()


@pytest.mark.parametrize(("name", "file"), VOCABULARIES)
def test_a_changed_vocabulary_loads_or_is_named(name: str, file: str, tmp_path: Path) -> None:
    folder = tmp_path / name
    CHECKPOINTS[name](folder)
    root = json.loads((folder / file).read_text("utf-8"))
    seen: Counter[tuple[str | int, ...]] = Counter()
    faults = []
    for path in fields(root):
        seen[path[:-1]] += 1
        if seen[path[:-1]] > MAX_ENTRIES:  # of a vocabulary's alike ones
            continue
        for value in VALUES[::3]:
            (folder / file).write_text(json.dumps(changed(root, path, value)), "utf-8")
            try:
                inspect_checkpoint(folder).family.can_say(folder)("é")
                load(folder)
            except CheckpointError as err:
                faults += [] if file in str(err) else [(path, value, str(err))]
            except BaseException as err:  # a panic of Rust is no Exception
                faults.append((path, value, repr(err)))
    assert not faults, f"{len(faults)}:\n" + "\n".join(map(str, faults))
