"""The only code that fetches model files, from the Hugging Face hub into its own cache.

It is imported when the user asked for a download. It does not know which files a model needs. The
bars of the hub's library are tqdm's; they are shown or hidden for this download alone.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from huggingface_hub import HfApi, snapshot_download
from huggingface_hub.errors import (
    GatedRepoError,
    HfHubHTTPError,
    HFValidationError,
    LocalEntryNotFoundError,
    RepositoryNotFoundError,
    RevisionNotFoundError,
)
from huggingface_hub.utils.tqdm import (
    are_progress_bars_disabled,
    disable_progress_bars,
    enable_progress_bars,
)

from voxcli.errors import ModelError, ModelNotFoundError, reason_of
from voxcli.hub.catalog import similar_name

_TIMEOUT_S = 10.0
_AGAIN = "run the same command again; it resumes"


def download(
    name: str,
    revision: str | None,
    patterns: Sequence[str],
    cache_dir: Path | None,
    *,
    show_progress: bool,
) -> None:
    """Fetch what is missing of a hub repository; a partial file is continued.

    Raises:
        ModelNotFoundError: no such repository or revision, no permission, or no network.
        ModelError: the download broke off.
    """
    try:
        with _hub_output(show_progress=show_progress):
            # Asked first because it fails at once; a download retries for half a minute.
            HfApi().model_info(name, revision=revision, timeout=_TIMEOUT_S)
            snapshot_download(
                name, revision=revision, cache_dir=cache_dir, allow_patterns=list(patterns)
            )
    except Exception as err:
        raise _explain(err, name, revision) from err


@contextmanager
def _hub_output(*, show_progress: bool) -> Iterator[None]:
    """What the library writes to stderr for a while: bars if wanted, no word of retries."""
    logger, were_hidden = logging.getLogger("huggingface_hub"), are_progress_bars_disabled()
    level = logger.level
    (enable_progress_bars if show_progress else disable_progress_bars)()
    logger.setLevel(logging.ERROR)
    try:
        yield
    finally:
        (disable_progress_bars if were_hidden else enable_progress_bars)()
        logger.setLevel(level)


def _explain(err: Exception, name: str, revision: str | None) -> Exception:
    if isinstance(err, GatedRepoError):
        hint = f"accept its terms at https://huggingface.co/{name}, then run 'hf auth login'"
        return ModelNotFoundError(f"'{name}' asks for permission", hint=hint)
    if isinstance(err, RevisionNotFoundError):
        return ModelNotFoundError(f"'{name}' has no revision '{revision}'")
    if isinstance(err, (RepositoryNotFoundError, HFValidationError)):
        hint = similar_name(name) or "check the name; run 'hf auth login' if it is private"
        return ModelNotFoundError(f"no model '{name}' on the hub", hint=hint)
    # NOTE: the HTTP library below huggingface_hub, and so its errors, differ between versions.
    is_http = type(err).__module__.startswith("http") and not isinstance(err, HfHubHTTPError)
    if is_http or isinstance(err, (LocalEntryNotFoundError, ConnectionError)):
        message = f"cannot reach the hub to download '{name}'"
        return ModelNotFoundError(message, hint=f"check the network, then {_AGAIN}")
    if isinstance(err, (OSError, RuntimeError)):
        return ModelError(f"download of '{name}' broke off: {reason_of(err)}", hint=_AGAIN)
    return err
