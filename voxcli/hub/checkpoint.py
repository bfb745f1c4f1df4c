"""Is this folder a usable checkpoint? Answered from names, sizes and headers, in milliseconds.

Runs before torch is imported, so that a damaged or foreign folder is refused at once and by file
name. What a checkpoint needs is said by its family. This module does not read weights, does not
know where a folder came from and knows no hashes.
"""

from __future__ import annotations

import math
import struct
import zipfile
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import msgspec

from voxcli.errors import CheckpointError, ModelNotFoundError, reason_of
from voxcli.models import family_of
from voxcli.models.base import ModelFamily
from voxcli.models.settings import read_json
from voxcli.models.shards import shards_of

CONFIG_NAME = "config.json"

_LFS_POINTER = b"version https://git-lfs.github.com/spec/"
_MAX_HEADER = 100_000_000  # bytes; the limit of the safetensors format

_Count = Annotated[int, msgspec.Meta(ge=0, lt=2**53)]


@dataclass(frozen=True)
class Checkpoint:
    """A folder that has everything its family needs.

    Attributes:
        config: the parsed `config.json`.
        parts: part name, such as "weights", to file; of a part in shards the index.
        shards: the files that indices name.
    """

    folder: Path
    family: ModelFamily
    config: dict[str, Any]
    parts: dict[str, Path]
    shards: tuple[Path, ...] = ()

    @property
    def files(self) -> tuple[Path, ...]:
        return (self.folder / CONFIG_NAME, *self.parts.values(), *self.shards)

    def files_of(self, part: str) -> tuple[Path, ...]:
        """A part's file, and its shards; of a name that is no part the file in the folder."""
        path = self.parts.get(part, self.folder / part)
        return (path, *shards_of(path))

    @property
    def names(self) -> tuple[str, ...]:
        """The same, relative to the folder; two of them may share a base name."""
        return tuple(path.relative_to(self.folder).as_posix() for path in self.files)

    @property
    def num_parameters(self) -> int:
        """Numbers in the safetensors files; what is in pickled files is not counted."""
        paths = [path for path in self.files if path.suffix == ".safetensors"]
        headers = [safetensors_header(path)[0] for path in paths]
        return sum(math.prod(tensor.shape) for header in headers for tensor in header.values())


def inspect_checkpoint(folder: Path, *, hint: str | None = None) -> Checkpoint:
    """Check a folder without reading its weights.

    Args:
        hint: what to type when a file is missing or cut; shown after the message.

    Raises:
        ModelNotFoundError: no such folder.
        CheckpointError: a file is missing, cut, a Git-LFS pointer, or of an unknown architecture.
    """
    if not folder.is_dir():
        raise ModelNotFoundError(f"no folder {folder}", hint=hint or "see 'voxcli models list'")
    config = _read_config(folder / CONFIG_NAME, hint)
    family = family_of(config, str(folder / CONFIG_NAME))
    parts = {part: _first_existing(folder, names, hint) for part, names in family.parts.items()}
    for path in parts.values():
        check_file(path, hint=hint)
    try:
        shards = tuple(shard for path in parts.values() for shard in shards_of(path))
    except CheckpointError as err:
        raise CheckpointError(err.message, hint=hint) from err
    for path in shards:
        check_file(path, hint=hint)
    return Checkpoint(folder, family, config, parts, shards)


def check_file(path: Path, *, hint: str | None = None) -> None:
    """Refuse a file that cannot be what its name says: a pointer, cut short, or no JSON."""
    try:
        _check_content(path, hint)
    except OSError as err:
        raise CheckpointError(f"{path} cannot be read: {reason_of(err)}", hint=hint) from err


class TensorEntry(msgspec.Struct):
    """A tensor in a file's header."""

    dtype: str
    shape: tuple[_Count, ...]
    data_offsets: tuple[_Count, _Count]


_TENSOR = msgspec.json.Decoder(TensorEntry)


def safetensors_header(path: Path) -> tuple[dict[str, TensorEntry], int]:
    """Tensors by name, and the file's whole size in bytes.

    Raises:
        ValueError: the header is cut short or is none.
    """
    with path.open("rb") as handle:
        prefix = handle.read(8)
        length = struct.unpack("<Q", prefix)[0] if len(prefix) == 8 else 0
        if not 2 <= length <= _MAX_HEADER:
            raise ValueError("it has no header")
        text = handle.read(length)
    if len(text) < length:
        raise ValueError(f"its header is cut short: {len(text):,} of {length:,} bytes")
    try:
        header = msgspec.json.decode(text, type=dict[str, msgspec.Raw])
        header.pop("__metadata__", None)
        tensors = {name: _TENSOR.decode(value) for name, value in header.items()}
    except (msgspec.MsgspecError, RecursionError) as err:
        raise ValueError(f"its header cannot be read: {reason_of(err)}") from err
    end = max((tensor.data_offsets[1] for tensor in tensors.values()), default=0)
    return tensors, 8 + length + end


def _check_content(path: Path, hint: str | None) -> None:
    if _is_lfs_pointer(path):
        raise CheckpointError(
            f"{path} is a Git-LFS pointer, not the file itself",
            hint=f"run 'git lfs pull' in {path.parent}, or download the file again",
        )
    if path.suffix == ".safetensors":
        _check_safetensors(path, hint)
    elif path.suffix in (".pth", ".bin"):
        _check_pickle(path, hint)
    elif path.suffix == ".json":
        _read_json(path, hint)


def _read_config(path: Path, hint: str | None) -> dict[str, Any]:
    if not path.exists():
        raise CheckpointError(f"{path} is missing", hint=hint or "give a folder with a checkpoint")
    if not path.is_file():
        raise CheckpointError(f"{path} is not a regular file", hint=hint)
    check_file(path, hint=hint)
    return _read_json(path, hint)


def _read_json(path: Path, hint: str | None) -> dict[str, Any]:
    try:
        return read_json(path)
    except CheckpointError as err:
        raise CheckpointError(err.message, hint=hint) from err


def _first_existing(folder: Path, names: tuple[str, ...], hint: str | None) -> Path:
    for name in names:
        if (folder / name).is_file():
            return folder / name
    others = "".join(f" (or {name})" for name in names[1:])
    raise CheckpointError(f"{folder / names[0]}{others} is missing", hint=hint)


def _is_lfs_pointer(path: Path) -> bool:
    with path.open("rb") as handle:
        return handle.read(len(_LFS_POINTER)) == _LFS_POINTER


def _check_safetensors(path: Path, hint: str | None) -> None:
    try:
        _, expected = safetensors_header(path)
    except ValueError as err:
        raise CheckpointError(
            f"{path} is not a safetensors file: {reason_of(err)}", hint=hint
        ) from err
    size = path.stat().st_size
    if size != expected:
        state = "cut short" if size < expected else "too long"
        message = f"{path} is {state}: {size:,} bytes, its header says {expected:,}"
        raise CheckpointError(message, hint=hint)


def _check_pickle(path: Path, hint: str | None) -> None:
    with path.open("rb") as handle:
        magic = handle.read(2)
    # torch.save writes a zip archive (its directory is at the end) or, in old files, a bare pickle.
    if magic == b"PK" and not zipfile.is_zipfile(path):
        raise CheckpointError(f"{path} is cut short: its archive has no end", hint=hint)
    if magic not in (b"PK", b"\x80\x02"):
        raise CheckpointError(f"{path} is not a torch checkpoint", hint=hint)
