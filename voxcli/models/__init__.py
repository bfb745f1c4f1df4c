"""Model families. `family_of` finds one by a checkpoint's configuration. Imports no torch."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from voxcli.errors import CheckpointError
from voxcli.models.base import ModelFamily
from voxcli.models.qwen3_tts.family import Qwen3TTSFamily
from voxcli.models.served import ServedModel
from voxcli.models.settings import shown
from voxcli.models.voxcpm2.family import VoxCPM2Family
from voxcli.parameters import Parameter, merged

FAMILIES: list[ModelFamily] = [VoxCPM2Family(), Qwen3TTSFamily()]


def family_of(config: Mapping[str, Any], where: str = "config.json") -> ModelFamily:
    """The family of a checkpoint.

    Args:
        where: what the configuration is called in the message.

    Raises:
        CheckpointError: no family knows it.
    """
    for family in FAMILIES:
        if family.recognises(config):
            return family
    # voxcpm 2.0.3 takes a config without the key for the first generation of VoxCPM
    named = [key for key in ("architecture", "model_type") if config.get(key)]
    key = named[0] if named else "architecture or model_type"
    name = config[key] if named else "voxcpm"
    known = ", ".join(sorted(family.name for family in FAMILIES))
    raise CheckpointError(
        f"{where}: {key} {shown(name).lower()} is not supported", hint=f"supported: {known}"
    )


def family_named(name: str) -> ModelFamily:
    """The family of that name, which exists."""
    return next(family for family in FAMILIES if family.name == name)


def served_as(name: str) -> ServedModel | None:
    """The model that a server elsewhere calls by this name or folder; None if none is known."""
    short = name.rstrip("/").rsplit("/", 1)[-1]
    return next((found for family in FAMILIES if (found := family.served(short))), None)


def all_parameters() -> tuple[Parameter, ...]:
    """What any family can be told, for options and fields that are made before a model is known."""
    return merged(family.declaration for family in FAMILIES)
