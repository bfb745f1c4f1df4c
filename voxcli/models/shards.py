"""Weights in several files, and the index that says which key is in which. No torch."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from voxcli.errors import CheckpointError
from voxcli.models.settings import Settings, read_json

INDEX_SUFFIX = ".index.json"


@dataclass(frozen=True, kw_only=True)
class _Index(Settings):
    """A list of shards: key to file."""

    ignored: ClassVar = frozenset({"metadata"})

    weight_map: Mapping[str, str]


def read_index(index: Path) -> Mapping[str, str]:
    """Which file beside the index each key is in.

    Raises:
        CheckpointError: the index is damaged, or a file is missing or not beside it.
    """
    shard_of = _Index.read(read_json(index), str(index)).weight_map
    for name in sorted(set(shard_of.values())):
        if Path(name).name != name or not name.endswith(".safetensors"):
            raise CheckpointError(f"{index} names '{name}', which is not in the same folder")
        if not (index.parent / name).is_file():
            raise CheckpointError(f"{index.parent} has no {name}, which {index.name} names")
    return shard_of


def shards_of(path: Path) -> tuple[Path, ...]:
    """The files that an index names; none of a file that is no index.

    Raises:
        CheckpointError: as `read_index`.
    """
    if not path.name.endswith(INDEX_SUFFIX):
        return ()
    return tuple(path.parent / name for name in sorted(set(read_index(path).values())))
