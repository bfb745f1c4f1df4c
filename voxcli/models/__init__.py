"""Model families. `load_model` finds the family by the checkpoint's own `architecture`."""

from __future__ import annotations

import json
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING

from voxcli.errors import CheckpointError

if TYPE_CHECKING:
    from collections.abc import Callable

    import torch

    from voxcli.models.base import AcousticModel

# architecture in config.json -> package with two modules: `family`, whose `load(folder, device,
# dtype, is_native)` and `load_shapes(folder, dtype)` give an AcousticModel, and `tokenize`, whose
# `TextTokenizer(folder)` needs no torch
FAMILIES = {"voxcpm2": "voxcli.models.voxcpm2"}


def architecture(folder: Path) -> str:
    """The checkpoint's architecture, lower case.

    Raises:
        CheckpointError: config.json is unreadable or of an architecture voxcli does not have.
    """
    path = folder / "config.json"
    try:
        name = str(json.loads(path.read_text("utf-8")).get("architecture", "")).lower()
    except (OSError, ValueError, AttributeError) as err:
        raise CheckpointError(f"{path} cannot be read: {err}") from err
    if name not in FAMILIES:
        known = ", ".join(sorted(FAMILIES))
        raise CheckpointError(f"{path}: architecture '{name}' is not one of: {known}")
    return name


def load_model(
    folder: Path, device: torch.device, dtype: torch.dtype, *, is_native: bool = True
) -> AcousticModel:
    """Load a checkpoint folder onto a device.

    Args:
        is_native: use compiled kernels on a CPU where there are any.
    """
    family = import_module(f"{FAMILIES[architecture(folder)]}.family")
    model: AcousticModel = family.load(folder, device, dtype, is_native=is_native)
    return model


def load_shapes(folder: Path, dtype: torch.dtype) -> AcousticModel:
    """The same model on the device "meta": no weights, and no more layers than differ."""
    family = import_module(f"{FAMILIES[architecture(folder)]}.family")
    model: AcousticModel = family.load_shapes(folder, dtype)
    return model


def load_can_say(folder: Path) -> Callable[[str], bool]:
    """Whether a model's tokenizer has a character; loads the tokenizer alone."""
    module = import_module(f"{FAMILIES[architecture(folder)]}.tokenize")
    can_say: Callable[[str], bool] = module.TextTokenizer(folder).can_say
    return can_say
