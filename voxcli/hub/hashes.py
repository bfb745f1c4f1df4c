"""Files against what they should be: sizes and SHA-256. Knows no model and no folder."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from voxcli.hub.catalog import AssetFile

_BLOCK = 1 << 20  # bytes read at a time


@dataclass(frozen=True)
class FileCheck:
    """The outcome of verifying one file.

    Attributes:
        name: path relative to the model's folder.
        detail: what was compared.
    """

    name: str
    is_ok: bool
    detail: str


def verify_file(
    path: Path,
    asset: AssetFile,
    *,
    is_hashed: bool = True,
    on_bytes: Callable[[int], None] | None = None,
) -> FileCheck:
    """Compare one file with what it should be; without `is_hashed` by size alone."""
    if not path.is_file():
        return FileCheck(asset.name, False, "missing")
    size = path.stat().st_size
    if size != asset.size:
        return FileCheck(asset.name, False, f"{size:,} bytes, should be {asset.size:,}")
    if not is_hashed:
        return FileCheck(asset.name, True, "size ok")
    digest = file_sha256(path, on_bytes)
    if digest != asset.sha256:
        found = f"sha256 is {digest[:12]}…, should be {asset.sha256[:12]}…"
        return FileCheck(asset.name, False, found)
    return FileCheck(asset.name, True, "sha256 ok")


def joint_checksum(hashes: Mapping[str, str]) -> str:
    """One SHA-256 over the hashes of files, in the order of their names."""
    lines = "".join(f"{digest}  {name}\n" for name, digest in sorted(hashes.items()))
    return hashlib.sha256(lines.encode()).hexdigest()


def file_sha256(path: Path, on_bytes: Callable[[int], None] | None = None) -> str:
    """SHA-256 of a file in hex; `on_bytes` is told of every part that was read."""
    digest = hashlib.sha256()
    with path.open("rb") as handle:
        while block := handle.read(_BLOCK):
            digest.update(block)
            if on_bytes:
                on_bytes(len(block))
    return digest.hexdigest()
