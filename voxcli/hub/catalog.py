"""The models voxcli knows by name: where they come from, their files with hashes, best settings.

All rows are data of one form. The bundled voice's is `assets/mini/manifest.json`, the only place
that names its files; `tools/update_mini.py` writes it. The others are in `hub/models.json`, which
a model joins when it works. This module does not look for files beyond these two, and knows of
families what they publish.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cache
from importlib.resources import files as resource_files
from pathlib import Path
from typing import Any

from voxcli import models
from voxcli.errors import CheckpointError, reason_of
from voxcli.models.base import Published
from voxcli.parameters import Values
from voxcli.utterance import Mode

BUNDLED = "mini"
MANIFEST_NAME = "manifest.json"
TABLE_NAME = "models.json"


@dataclass(frozen=True)
class AssetFile:
    """One file of a model: path relative to its folder, size in bytes, SHA-256 in hex."""

    name: str
    size: int
    sha256: str


@dataclass(frozen=True)
class ModelSettings:
    """Settings that sounded best for a model.

    Attributes:
        parameters: by name; the family's default where one is left out.
        clone_parameters: what differs in the voice of a recording.
        max_chars: longest segment of text the model keeps together well.
        clone_mode: how a recording with its transcript is best used.
    """

    parameters: Values = field(default_factory=dict)
    clone_parameters: Values = field(default_factory=dict)
    max_chars: int = 300
    clone_mode: Mode = Mode.BOTH


@dataclass(frozen=True)
class KnownModel:
    """A model voxcli knows by name.

    Attributes:
        family: name of its family.
        languages: ISO 639-1 codes, its own first; empty where it names none.
        revision: commit of a hub model.
    """

    name: str
    title: str
    licence: str
    family: str
    sample_rate: int
    languages: tuple[str, ...]
    settings: ModelSettings
    files: tuple[AssetFile, ...]
    revision: str | None = None
    modes: tuple[Mode, ...] = tuple(Mode)

    @classmethod
    def from_table(cls, table: dict[str, Any]) -> KnownModel:
        """From the JSON form of a row."""
        values = dict(table)
        settings = dict(values["settings"])
        if "clone_mode" in settings:
            settings["clone_mode"] = Mode(settings["clone_mode"])
        values["settings"] = ModelSettings(**settings)
        values["languages"] = tuple(values["languages"])
        values["modes"] = tuple(map(Mode, values.get("modes", Mode)))
        values["files"] = tuple(AssetFile(**entry) for entry in values["files"])
        return cls(**values)

    @property
    def size(self) -> int:
        return sum(file.size for file in self.files)


def bundled_folder() -> Path:
    """Where the bundled voice was installed."""
    return Path(str(resource_files("voxcli"))) / "assets" / BUNDLED


@cache
def known_models() -> dict[str, KnownModel]:
    """The models voxcli knows by name, the bundled one first."""
    rows = _rows(bundled_folder() / MANIFEST_NAME) + _rows(Path(__file__).parent / TABLE_NAME)
    return {row.name: row for row in rows}


def _rows(path: Path) -> list[KnownModel]:
    """The rows of a file with one or a list of them."""
    try:
        found = json.loads(path.read_text("utf-8"))
        tables = found if isinstance(found, list) else [found]
        return [KnownModel.from_table(table) for table in tables]
    except (OSError, ValueError, TypeError, KeyError) as err:
        raise CheckpointError(f"{path}: {reason_of(err)}", hint="reinstall voxcli") from err


@cache
def models_but(name: str) -> tuple[str, ...]:
    """Names of all models that are known but this one."""
    return tuple(known for known in known_models() if known != name)


def models_with(mode: Mode, family: str = "") -> tuple[str, ...]:
    """Names of the models that have a mode, those of a family first."""
    known = [(each.family, each.name) for each in known_models().values() if mode in each.modes]
    published = [(own, each.name) for own, each in _published() if mode in each.modes]
    found = sorted((*known, *published), key=lambda each: each[0] != family)  # else in their order
    return tuple(dict.fromkeys(name for _, name in found))


def models_with_voice(name: str) -> tuple[str, ...]:
    """Names of the models that have a preset voice of that name."""
    wanted = name.casefold()
    return tuple(
        each.name
        for _, each in _published()
        if wanted in (voice.casefold() for voice in each.voices)
    )


def other_models() -> list[Published]:
    """The models that can be used and whose files voxcli does not know beforehand."""
    return [each for _, each in _published() if each.name not in known_models()]


def _published() -> Iterator[tuple[str, Published]]:
    for family in models.FAMILIES:
        for each in family.published:
            yield family.name, each


def similar_name(name: str) -> str | None:
    """A known name that differs only in case or owner, as advice."""
    tail = name.rsplit("/", 1)[-1].casefold()
    for known in (*known_models(), *(each.name for _, each in _published())):
        if known != name and known.rsplit("/", 1)[-1].casefold() == tail:
            return f"did you mean '{known}'?"
    return None
