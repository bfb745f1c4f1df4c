"""Model name, hub id or folder -> checked local files.

Nothing here opens a socket but `pull_model`, through `download`. The bundled voice is checked by
hash whenever it is resolved; downloaded ones by size and header, and by hash in `verify_model`.
This module does not load weights and does not import torch.
"""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from voxcli.hub.catalog import (
    BUNDLED,
    AssetFile,
    KnownModel,
    ModelSettings,
    bundled_folder,
    known_models,
    similar_name,
)
from voxcli.hub.checkpoint import CONFIG_NAME, Checkpoint, inspect_checkpoint
from voxcli.errors import CheckpointError, ModelError, ModelNotFoundError, nearest
from voxcli.utterance import Mode

# What a hub repository is searched for when its files are not in the table.
CHECKPOINT_PATTERNS = (
    CONFIG_NAME,
    "model.safetensors",
    "pytorch_model.bin",
    "audiovae.*",
    "tokenizer.json",
    "tokenizer_config.json",
    "special_tokens_map.json",
)
_BLOCK = 1 << 20  # bytes read at a time
_HUB_ID = re.compile(r"[A-Za-z0-9][\w.-]*/[A-Za-z0-9][\w.-]*")


@dataclass(frozen=True)
class ModelFolder:
    """Where a model is on this machine; its files are not checked yet.

    Attributes:
        name: the known name or hub id, or the folder as given.
        revision: commit of a hub model, else None.
        known: its row of the table, or None for a folder, another model or another revision.
    """

    folder: Path
    name: str
    revision: str | None = None
    known: KnownModel | None = None

    @property
    def settings(self) -> ModelSettings:
        """Settings that sounded best; the official package's where nothing is known."""
        return self.known.settings if self.known else ModelSettings()

    @property
    def languages(self) -> tuple[str, ...]:
        """ISO 639-1 codes; empty means not stated."""
        return self.known.languages if self.known else ()

    @property
    def modes(self) -> tuple[Mode, ...]:
        """What it can be given besides a text; everything where nothing is known."""
        return self.known.modes if self.known else tuple(Mode)

    @property
    def advice(self) -> str:
        """What to type when a file is missing or damaged."""
        if self.name == BUNDLED:
            return "reinstall voxcli"
        if self.revision is None:
            return "give a complete checkpoint folder, or see 'voxcli models list'"
        return f"run 'voxcli models pull {self.name}'"


@dataclass(frozen=True, kw_only=True)
class ModelFiles(ModelFolder):
    """A model that is on this machine and passed the checks."""

    checkpoint: Checkpoint

    @property
    def architecture(self) -> str:
        return self.checkpoint.architecture

    @property
    def files(self) -> tuple[Path, ...]:
        return self.checkpoint.files


@dataclass(frozen=True)
class FileCheck:
    """The outcome of verifying one file; `detail` says what was compared."""

    name: str
    is_ok: bool
    detail: str


def locate_model(
    name: str, *, revision: str | None = None, offline: bool = False, cache_dir: Path | None = None
) -> ModelFolder:
    """Find where a model is on this machine; never touches the network.

    Args:
        name: a known name, a hub id (`owner/name`) or a folder.
        revision: commit or branch of a hub model; None means the pinned one, else `main`.
        offline: only changes the advice in the message when the files are not here.
        cache_dir: the hub cache; None means huggingface_hub's own.

    Raises:
        ModelNotFoundError: unknown name, no such folder, or not downloaded.
    """
    if not name.strip():
        raise ModelNotFoundError("the model's name is empty", hint="see 'voxcli models list'")
    if name == BUNDLED:
        return ModelFolder(bundled_folder(), BUNDLED, None, known_models()[BUNDLED])
    folder = Path(os.path.expanduser(name))  # unlike Path's own, keeps an unknown ~user
    if name not in known_models() and folder.is_dir():
        return ModelFolder(folder, name)
    if _HUB_ID.fullmatch(name):
        return _locate_cached(name, revision, offline, cache_dir)
    if re.search(r"[/\\~]", name):
        raise ModelNotFoundError(f"no folder {folder}", hint="see 'voxcli models list'")
    hint = similar_name(name) or f"{nearest(name, known_models())}see 'voxcli models list'"
    raise ModelNotFoundError(f"no model '{name}'", hint=hint)


def resolve_model(
    name: str, *, revision: str | None = None, offline: bool = False, cache_dir: Path | None = None
) -> ModelFiles:
    """Find a model on this machine and check its files; never touches the network.

    Arguments as for `locate_model`.

    Raises:
        ModelNotFoundError: unknown name, no such folder, or not downloaded.
        CheckpointError: the files are there but unusable; the message names the file.
    """
    at = locate_model(name, revision=revision, offline=offline, cache_dir=cache_dir)
    if at.known:
        for asset in at.known.files:
            # The bundled voice is small enough to be hashed whenever it is used (0.07 s).
            check = verify_file(at.folder / asset.name, asset, is_hashed=name == BUNDLED)
            if not check.is_ok:
                raise CheckpointError(f"{at.folder / asset.name}: {check.detail}", hint=at.advice)
    checkpoint = inspect_checkpoint(at.folder, hint=at.advice)
    return ModelFiles(at.folder, at.name, at.revision, at.known, checkpoint=checkpoint)


def pull_model(
    name: str,
    *,
    revision: str | None = None,
    offline: bool = False,
    cache_dir: Path | None = None,
    show_progress: bool = False,
) -> ModelFiles:
    """Download what is missing of a hub model (resuming), then resolve it.

    Raises:
        ModelNotFoundError: unknown name; offline and not complete; not found or not reachable.
        CheckpointError: what was downloaded is no usable checkpoint.
    """
    if name == BUNDLED or offline or not _HUB_ID.fullmatch(name):
        return resolve_model(name, revision=revision, offline=offline, cache_dir=cache_dir)
    known = _known_at(name, revision)
    if known:  # pinned: what is complete cannot have changed
        with suppress(ModelError):
            return resolve_model(name, cache_dir=cache_dir)
    from voxcli.hub.download import download

    patterns = [file.name for file in known.files] if known else list(CHECKPOINT_PATTERNS)
    wanted = known.revision if known else revision
    download(name, wanted, patterns, cache_dir, show_progress=show_progress)
    return resolve_model(name, revision=revision, cache_dir=cache_dir)


def verify_model(
    model: ModelFolder, on_bytes: Callable[[int], None] | None = None
) -> Iterator[FileCheck]:
    """Compare every file with its known size and SHA-256, reading all of it.

    Raises:
        CheckpointError: a model without known hashes whose files are unusable.
    """
    if model.known:
        for asset in model.known.files:
            yield verify_file(model.folder / asset.name, asset, on_bytes=on_bytes)
        return
    for path in inspect_checkpoint(model.folder, hint=model.advice).files:
        # NOTE: the hub cache names the blob of a large file by its SHA-256.
        blob = path.resolve().name
        if re.fullmatch(r"[0-9a-f]{64}", blob):
            asset = AssetFile(path.name, path.stat().st_size, blob)
            yield verify_file(path, asset, on_bytes=on_bytes)
        else:
            yield FileCheck(path.name, True, "complete; no known hash")


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


def encoder_checksum(model: ModelFiles) -> str:
    """What the encoding of a recording depends on: SHA-256 over the hashes of config and VAE."""
    known = {file.name: file.sha256 for file in model.known.files} if model.known else {}
    digest = hashlib.sha256()
    for path in (model.folder / CONFIG_NAME, model.checkpoint.parts["vae"]):
        if path.name in known:
            digest.update(bytes.fromhex(known[path.name]))
        else:
            digest.update(bytes.fromhex(file_sha256(path)))
    return digest.hexdigest()


def model_checksum(model: ModelFiles) -> str:
    """One hash over all files: from the table of known models, else from the files."""
    known = {file.name: file.sha256 for file in model.known.files} if model.known else {}
    return joint_checksum({p.name: known.get(p.name) or file_sha256(p) for p in model.files})


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


def _known_at(name: str, revision: str | None) -> KnownModel | None:
    """The row of the table that holds for this revision of the model."""
    known = known_models().get(name)
    return known if known and revision in (None, known.revision) else None


def _locate_cached(
    name: str, revision: str | None, offline: bool, cache_dir: Path | None
) -> ModelFolder:
    from huggingface_hub import try_to_load_from_cache

    known = _known_at(name, revision)
    wanted = known.revision if known else revision
    config = try_to_load_from_cache(name, CONFIG_NAME, cache_dir=cache_dir, revision=wanted)
    if isinstance(config, str):
        folder = Path(config).parent
        return ModelFolder(folder, name, folder.name, known)
    command = f"voxcli models pull {name}" + (f" --revision {revision}" if revision else "")
    hint = f"offline: run '{command}' when there is a network" if offline else f"run '{command}'"
    at = f" at revision {revision}" if revision else ""
    message = f"model '{name}'{at} is not on this machine"
    raise ModelNotFoundError(message, hint=similar_name(name) or hint)
