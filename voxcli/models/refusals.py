"""Why a checkpoint's weights are refused, in the same words whoever reads them. No torch."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

from voxcli.errors import CheckpointError

SCALE = "_scale"  # behind the name of a matrix of int8: a number for each row of it


def no_weight(folder: Path, name: str) -> CheckpointError:
    return CheckpointError(
        f"{folder}: the checkpoint has no weight '{name}', which config.json asks for"
    )


def other_shape(
    folder: Path, name: str, found: Sequence[int], wanted: Sequence[int]
) -> CheckpointError:
    return CheckpointError(
        f"{folder}: weight '{name}' has shape {list(found)}, config.json asks for {list(wanted)}"
    )


def no_scale(folder: Path, name: str, dtype: str) -> CheckpointError:
    """Of a matrix of whole numbers."""
    return CheckpointError(
        f"{folder}: weight '{name}' is of {dtype}",
        hint=f"int8 is read where '{name}{SCALE}' has a number for each row",
    )


def no_number(folder: Path, name: str) -> CheckpointError:
    return CheckpointError(
        f"{folder}: weight '{name}' has values that are not numbers (NaN or infinite)"
    )


def unused(folder: Path, names: Iterable[str]) -> CheckpointError:
    every = sorted(names)
    shown = ", ".join(every[:5]) + (" ..." if len(every) > 5 else "")
    return CheckpointError(
        f"{folder}: {len(every)} weights were not used: {shown}",
        hint="config.json asks for others",
    )


def damaged(path: Path, why: object) -> CheckpointError:
    return CheckpointError(f"{path} is damaged or incomplete: {why}")
