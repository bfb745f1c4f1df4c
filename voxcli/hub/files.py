"""Model name, hub id or folder -> checked local files.

Nothing here opens a socket but `pull_model`, through `download`. The bundled voice is checked by
hash whenever it is resolved; downloaded ones by size and header, and by hash in `verify_model`.
Files are known by their path relative to the model's folder. This module does not load weights and
does not import torch.
"""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path

from voxcli import models
from voxcli.errors import CheckpointError, ModelError, ModelNotFoundError, nearest
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
from voxcli.hub.hashes import FileCheck, file_sha256, joint_checksum, verify_file
from voxcli.models.base import ModelFacts, ModelFamily

LARGE_BYTES = 1 << 20  # weights, which nothing reads before the model is loaded
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
        """What sounded best; where nothing is known, the family's defaults."""
        return self.known.settings if self.known else ModelSettings()

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
    """A model that is on this machine and passed the checks, or is in one.

    Attributes:
        hashing: of its large files, where that goes on in a thread.
    """

    checkpoint: Checkpoint
    hashing: Sequence[Future[None]] = field(default=(), compare=False, repr=False)

    def require_whole(self) -> None:
        """Wait for the hashes.

        Raises:
            CheckpointError: a file is not what it should be.
        """
        for each in self.hashing:
            each.result()

    @property
    def family(self) -> ModelFamily:
        return self.checkpoint.family

    @property
    def facts(self) -> ModelFacts:
        """What the checkpoint says of itself; where the table knows better, what that says.

        Raises:
            CheckpointError: the configuration lacks something.
        """
        facts = self.family.facts(self.folder, self.checkpoint.config)
        if self.known is None:
            return facts
        return replace(facts, languages=self.known.languages, modes=self.known.modes)

    @property
    def files(self) -> tuple[Path, ...]:
        return self.checkpoint.files

    @property
    def names(self) -> tuple[str, ...]:
        """Of the files: paths relative to the folder."""
        return self.checkpoint.names

    @property
    def num_bytes(self) -> int:
        """Of all files."""
        return sum(path.stat().st_size for path in self.files)

    def sha256(self, name: str) -> str:
        """Of one file, in hex: from the table of known models or the hub cache, else read."""
        known = {file.name: file.sha256 for file in self.known.files} if self.known else {}
        path = self.folder / name
        return known.get(name) or _blob_sha256(path) or file_sha256(path)


def _blob_sha256(path: Path) -> str | None:
    """The hub cache names the blob of a large file, which `path` links to, by its SHA-256."""
    blob = path.resolve().name
    return blob if path.is_symlink() and re.fullmatch(r"[0-9a-f]{64}", blob) else None


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
    _refuse_unsupported(name)
    folder = Path(os.path.expanduser(name))  # unlike Path's own, keeps an unknown ~user
    if name not in known_models() and folder.is_dir():
        return ModelFolder(folder, name)
    if _HUB_ID.fullmatch(name):
        return _locate_cached(name, revision, offline, cache_dir)
    if url := re.match(r"https?://(?:www\.)?huggingface\.co/([\w.-]+/[\w.-]+)", name):
        raise ModelNotFoundError(f"'{name}' is an address", hint=f"give its hub id: {url[1]}")
    if re.search(r"[/\\~]", name):
        raise ModelNotFoundError(f"no folder {folder}", hint="see 'voxcli models list'")
    hint = similar_name(name) or f"{nearest(name, known_models())}see 'voxcli models list'"
    raise ModelNotFoundError(f"no model '{name}'", hint=hint)


def resolve_model(
    name: str,
    *,
    revision: str | None = None,
    offline: bool = False,
    cache_dir: Path | None = None,
    is_hashed_beside: bool = False,
) -> ModelFiles:
    """Find a model on this machine and check its files; never touches the network.

    Arguments as for `locate_model`.

    Args:
        is_hashed_beside: hash large files in a thread; whoever reads them asks `require_whole`.

    Raises:
        ModelNotFoundError: unknown name, no such folder, or not downloaded.
        CheckpointError: the files are there but unusable; the message names the file.
    """
    at = locate_model(name, revision=revision, offline=offline, cache_dir=cache_dir)
    # The bundled voice is small enough to be hashed whenever it is used (0.07 s).
    hashed = at.known.files if at.known and name == BUNDLED else ()
    later = tuple(each for each in hashed if each.size >= LARGE_BYTES) if is_hashed_beside else ()
    for asset in at.known.files if at.known else ():
        _check_file(at, asset, is_hashed=asset in hashed and asset not in later)
    checkpoint = inspect_checkpoint(at.folder, hint=at.advice)
    files = ModelFiles(at.folder, at.name, at.revision, at.known, checkpoint=checkpoint)
    if later:
        thread = ThreadPoolExecutor(1, "hashes")
        files = replace(files, hashing=[thread.submit(_check_file, at, each) for each in later])
        thread.shutdown(wait=False)
    return files


def _check_file(at: ModelFolder, asset: AssetFile, *, is_hashed: bool = True) -> None:
    """Compare a file of a known model with the table.

    Raises:
        CheckpointError: it is missing, or of another size or hash.
    """
    check = verify_file(at.folder / asset.name, asset, is_hashed=is_hashed)
    if not check.is_ok:
        raise CheckpointError(f"{at.folder / asset.name}: {check.detail}", hint=at.advice)


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
    _refuse_unsupported(name)
    if name == BUNDLED or offline or not _HUB_ID.fullmatch(name):
        return resolve_model(name, revision=revision, offline=offline, cache_dir=cache_dir)
    known = _known_at(name, revision)
    if known:  # pinned: what is complete cannot have changed
        with suppress(ModelError):
            return resolve_model(name, cache_dir=cache_dir)
    from voxcli.hub.download import download

    patterns = [file.name for file in known.files] if known else _patterns()
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
    for name in inspect_checkpoint(model.folder, hint=model.advice).names:
        path = model.folder / name
        if blob := _blob_sha256(path):
            asset = AssetFile(name, path.stat().st_size, blob)
            yield verify_file(path, asset, on_bytes=on_bytes)
        else:
            yield FileCheck(name, True, "complete; no known hash")


def encoder_checksum(model: ModelFiles) -> str:
    """What the encoding of a recording depends on: one SHA-256 over its files' hashes."""
    digest = hashlib.sha256()
    for part in model.family.encoder_parts:
        for path in model.checkpoint.files_of(part):
            name = path.relative_to(model.folder).as_posix()
            digest.update(bytes.fromhex(model.sha256(name)))
    return digest.hexdigest()


def model_checksum(model: ModelFiles) -> str:
    """One hash over all files: from the table of known models, else from the files."""
    return joint_checksum({name: model.sha256(name) for name in model.names})


def _patterns() -> list[str]:
    """What a hub repository whose files are not in the table is searched for."""
    wanted = [CONFIG_NAME]
    for family in models.FAMILIES:
        wanted += [name for names in family.parts.values() for name in names]
        wanted += family.extras
    return list(dict.fromkeys(wanted))


def _known_at(name: str, revision: str | None) -> KnownModel | None:
    """The row of the table that holds for this revision of the model."""
    known = known_models().get(name)
    return known if known and revision in (None, known.revision) else None


def _refuse_unsupported(name: str) -> None:
    """Refuse a hub id whose checkpoint is known not to work, before it is looked for or fetched.

    Raises:
        CheckpointError: with what would work.
    """
    for family in models.FAMILIES if not Path(name).is_dir() else ():
        if (other := family.instead_of(name)) is not None:
            raise CheckpointError(f"model '{name}' is not supported", hint=f"use {other}")


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
