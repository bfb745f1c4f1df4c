"""The models voxcli knows by name: where they come from, their files with hashes, best settings.

The bundled voice's row is `assets/mini/manifest.json`, the only place that names its files;
`recipes/update_mini.py` writes it. Models join this table when they work. This module does not look
for files beyond that manifest.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import cache
from importlib.resources import files as resource_files
from pathlib import Path
from typing import Any

from voxcli.errors import CheckpointError
from voxcli.utterance import Mode

BUNDLED = "mini"
MANIFEST_NAME = "manifest.json"


@dataclass(frozen=True)
class AssetFile:
    """One file of a model: name, size in bytes, SHA-256 in hex."""

    name: str
    size: int
    sha256: str


@dataclass(frozen=True)
class ModelSettings:
    """Settings that sounded best for a model; the defaults are the official package's.

    Attributes:
        steps: Euler steps of the solver.
        cfg: guidance without a reference recording.
        clone_cfg: guidance with one.
        max_chars: longest segment of text the model keeps together well.
        clone_mode: how a recording with its transcript is best used.
    """

    steps: int = 10
    cfg: float = 2.0
    clone_cfg: float = 2.0
    max_chars: int = 300
    clone_mode: Mode = Mode.BOTH


@dataclass(frozen=True)
class KnownModel:
    """A model voxcli knows by name. `languages` is empty where the model names none."""

    name: str
    title: str
    licence: str
    sample_rate: int
    languages: tuple[str, ...]
    settings: ModelSettings
    files: tuple[AssetFile, ...]
    revision: str | None = None
    modes: tuple[Mode, ...] = tuple(Mode)

    @classmethod
    def from_table(cls, table: dict[str, Any]) -> KnownModel:
        """From the JSON form of the bundled manifest."""
        values = dict(table)
        values["languages"] = tuple(values["languages"])
        values["modes"] = tuple(map(Mode, values["modes"]))
        settings = {**values["settings"], "clone_mode": Mode(values["settings"]["clone_mode"])}
        values["settings"] = ModelSettings(**settings)
        values["files"] = tuple(AssetFile(**entry) for entry in values["files"])
        return cls(**values)

    @property
    def size(self) -> int:
        return sum(file.size for file in self.files)


# ISO 639-1, in the order of the model card; nine Chinese dialects count as zh.
_VOXCPM2_LANGUAGES = (
    *("ar", "my", "zh", "da", "nl", "en", "fi", "fr", "de", "el"),
    *("he", "hi", "id", "it", "ja", "km", "ko", "lo", "ms", "no"),
    *("pl", "pt", "ru", "es", "sw", "sv", "tl", "th", "tr", "vi"),
)

_VOXCPM2 = KnownModel(
    name="openbmb/VoxCPM2",
    title="VoxCPM2, 2.3 billion parameters, cloning",
    licence="Apache-2.0",
    sample_rate=48_000,
    languages=_VOXCPM2_LANGUAGES,
    settings=ModelSettings(),
    revision="bffb3df5a29440629464e5e839f4d214c8714c3d",
    files=(
        AssetFile(
            "config.json",
            4_336,
            "405f0dcd92f7feba6011ed4eac5c8d4f74cba9712f07fd5cfa3063bbdd95402c",
        ),
        AssetFile(
            "model.safetensors",
            4_580_080_592,
            "f7f964cfa9da23653baec6e6f7750719977ad944ed9f95fe52fe3a620506891d",
        ),
        AssetFile(
            "audiovae.pth",
            376_951_122,
            "94b5d51e107e0507d4acc976cfdadb64edd6fd06d1f751dadbf2fd1594274bf1",
        ),
        AssetFile(
            "tokenizer.json",
            3_676_772,
            "f8984687e4a92a3503d521396d454b7d68e9fdaab2a0288eb3536c7c1aa4bc20",
        ),
        AssetFile(
            "tokenizer_config.json",
            5_059,
            "e78a3ebb48a0b9437efd1823b6b726c823da89e49dd8bcc90c02419d9baa772b",
        ),
        AssetFile(
            "special_tokens_map.json",
            1_632,
            "068594063e37662c02b21acf42ebb334ef6a74fb810e68a2368f88f08351de76",
        ),
    ),
)


def bundled_folder() -> Path:
    """Where the bundled voice was installed."""
    return Path(str(resource_files("voxcli"))) / "assets" / BUNDLED


@cache
def known_models() -> dict[str, KnownModel]:
    """The models voxcli knows by name, the bundled one first."""
    path = bundled_folder() / MANIFEST_NAME
    try:
        bundled = KnownModel.from_table(json.loads(path.read_text("utf-8")))
    except (OSError, ValueError, TypeError, KeyError) as err:
        raise CheckpointError(f"{path}: {err}", hint="reinstall voxcli") from err
    return {model.name: model for model in (bundled, _VOXCPM2)}


def models_with(mode: Mode) -> tuple[str, ...]:
    """Names of the known models that have a mode."""
    return tuple(model.name for model in known_models().values() if mode in model.modes)


def similar_name(name: str) -> str | None:
    """A known name that differs only in case or owner, as advice."""
    tail = name.rsplit("/", 1)[-1].casefold()
    for known in known_models():
        if known != name and known.rsplit("/", 1)[-1].casefold() == tail:
            return f"did you mean '{known}'?"
    return None
