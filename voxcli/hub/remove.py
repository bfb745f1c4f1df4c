"""Models deleted from the hub's cache on this machine. Opens no network connection."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

from voxcli.errors import ModelNotFoundError, OutputError, UsageError, reason_of
from voxcli.hub.catalog import BUNDLED, known_models


def remove_model(name: str, cache_dir: Path | None = None) -> int:
    """Delete all revisions of a downloaded model, whole or not.

    Args:
        name: a hub id (`owner/name`).
        cache_dir: the hub cache; None means huggingface_hub's own.

    Returns:
        Bytes that are free now.

    Raises:
        UsageError: the bundled model, or a folder.
        ModelNotFoundError: nothing of it is here.
        OutputError: it cannot be deleted.
    """
    from huggingface_hub.constants import HF_HUB_CACHE
    from huggingface_hub.file_download import repo_folder_name

    if name == BUNDLED:
        message = f"model '{name}' comes with voxcli and cannot be removed"
        raise UsageError(message, hint="name another")
    if name not in known_models() and Path(name).is_dir():
        raise UsageError(f"{name} is a folder of yours", hint="delete it yourself")
    cache = Path(HF_HUB_CACHE) if cache_dir is None else cache_dir
    is_hub_id = re.fullmatch(r"\w[\w.-]*/\w[\w.-]*", name) is not None
    folder = cache / repo_folder_name(repo_id=name, repo_type="model") if is_hub_id else None
    if folder is None or not folder.is_dir():
        raise ModelNotFoundError(
            f"model '{name}' is not on this machine", hint="see 'voxcli models list'"
        )
    freed = sum(
        path.stat().st_size
        for path in folder.rglob("*")
        if path.is_file() and not path.is_symlink()
    )
    try:
        shutil.rmtree(folder)
    except OSError as err:
        reason = reason_of(err)
        raise OutputError(f"cannot delete model '{name}': {reason}") from err
    return freed
