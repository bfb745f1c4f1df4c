"""Whether an engine that runs already can stand in for the one a command would load itself.

Files are told apart without reading them: those of the running engine were checked before they
were loaded.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from voxcli.errors import VoxError
from voxcli.hub.files import ModelFiles, locate_model

if TYPE_CHECKING:
    from voxcli.engine.base import Setup, Wanted
    from voxcli.engine.native.engine import NativeEngine

Fingerprint = tuple[tuple[str, int, int, int], ...]  # path, size, time, inode of each file


def fingerprint(files: ModelFiles) -> Fingerprint:
    """Of a model's files as they are now."""
    return _fingerprint(files.folder, _paths(files))


def _paths(files: ModelFiles) -> tuple[Path, ...]:
    return tuple(path.relative_to(files.folder) for path in files.files)


def _fingerprint(folder: Path, paths: tuple[Path, ...]) -> Fingerprint:
    found = [(path.as_posix(), (folder / path).stat()) for path in paths]
    return tuple((name, stat.st_size, stat.st_mtime_ns, stat.st_ino) for name, stat in found)


def mismatch(engine: NativeEngine, wanted: Wanted) -> str | None:
    """Why this engine is not what is wanted; None if it is. The engine is started."""
    from voxcli.engine.native.device import resolve_device

    setup = engine.setup
    if wanted.eager:
        return "--eager asks for an engine of its own"
    if wanted.model is None:
        pass
    elif not wanted.is_near:
        if wanted.model != setup.model:
            return f"it serves model '{setup.model}', not '{wanted.model}'"
    elif not _has_same_files(engine, wanted.model, wanted):
        return f"it serves another model than '{wanted.model}': {setup.model}"
    if wanted.is_near or wanted.device != "auto":
        try:
            device = str(resolve_device(wanted.device).torch_device)
        except VoxError as err:
            return err.message
        if device != setup.device_type:
            return f"it runs on {setup.device_type}, not on {device}"
    if wanted.is_near or wanted.precision != "auto":
        precision = _resolved(wanted.precision, engine.config.precision, setup)
        if setup.precision != precision:
            return f"it computes in {setup.precision}"
    return _lacks_graph(engine, wanted)


def _lacks_graph(engine: NativeEngine, wanted: Wanted) -> str | None:
    for values in wanted.parameters:
        try:
            why = engine.captured(values)
        except VoxError:  # not a parameter of this model: the plan says so
            continue
        if why is not None:
            return why
    return None


def _has_same_files(engine: NativeEngine, name: str, wanted: Wanted) -> bool:
    served = engine.files
    if served is None:
        return name == engine.facts.model
    if wanted.folder is not None and name != served.name:
        folder = Path(wanted.folder) / name
        name = str(folder) if folder.is_dir() else name
    try:
        at = locate_model(name, cache_dir=Path(wanted.cache_dir) if wanted.cache_dir else None)
        return _fingerprint(at.folder, _paths(served)) == engine.loaded_files
    except (VoxError, OSError):
        return False


def _resolved(wanted: str, configured: str, setup: Setup) -> str:
    """What a command's own engine would compute in."""
    if wanted != "auto":
        return wanted
    if configured == "auto":
        return setup.precision
    return "fp32" if setup.device_type == "cpu" else "bf16"
