"""Is there a hot engine that speaks what a command would load itself?

    remote, why_not = connect("auto", Wanted(model="mini"))

A server that is not there, or serves something else, is None under "auto": the command goes on
with an engine of its own.
"""

from __future__ import annotations

import http.client
import json
import logging
import socket
from contextlib import closing
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from voxcli.errors import EngineError, UsageError, VoxError
from voxcli.engine.remote import wire
from voxcli.engine.remote.client import RemoteSynthesizer
from voxcli.engine.remote.place import Place
from voxcli.engine.remote.transport import Target, ask, ended_after, refusal

logger = logging.getLogger(__name__)

MAX_REASON = 120  # characters
ANSWER_S = 3.0  # a server that does not say within this who it is counts as absent


@dataclass(frozen=True)
class Wanted:
    """What a command would load itself; the server compares it with what it has loaded.

    Attributes:
        folder: where the command runs, for a model that is given as a relative path.
    """

    model: str
    device: str = "auto"
    precision: str = "auto"
    eager: bool = False
    cache_dir: Path | None = None
    folder: Path | None = None


def connect(
    choice: str, wanted: Wanted, *, api_key: str | None = None
) -> tuple[RemoteSynthesizer | None, str | None]:
    """The hot engine, if there is one that speaks what is wanted.

    Args:
        choice: "auto", "off", or the URL of a server, which then has to be there and to fit.

    Returns:
        the server, or None; and why a server that is there is not used.

    Raises:
        UsageError: no such choice; the server at the URL serves something else.
        EngineError: nothing answers at the URL.
    """
    if choice == "off":
        return None, None
    if choice == "auto":
        return _connect_here(wanted)
    if not _is_url(choice):
        raise UsageError(f"--server is '{choice}'", hint="use auto, off or a URL")
    try:
        remote, why = _match(choice, wanted, api_key, is_near=False)
    except (OSError, http.client.HTTPException, ValueError) as err:
        raise EngineError(
            f"no voxcli server answers at {choice}: {_reason(err)}",
            hint="start one with 'voxcli serve', or use --server off",
        ) from err
    if remote is None:
        raise UsageError(f"the server at {choice} is no help: {why}", hint="use --server off")
    return remote, None


def _is_url(text: str) -> bool:
    try:
        parts = urlsplit(text)
        return parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:  # a bracket or a port that is none
        return False


def _reason(err: Exception) -> str:
    """Why nothing answered, without what strangers may have sent."""
    if isinstance(err, http.client.IncompleteRead):
        return f"its answer does not end within {ANSWER_S:g} s"
    if isinstance(err, http.client.HTTPException) and not isinstance(err, OSError):
        return "it does not speak HTTP"
    text = getattr(err, "strerror", None) or str(err) or type(err).__name__
    return "".join(char if char.isprintable() else "?" for char in text)[:MAX_REASON]


def _connect_here(wanted: Wanted) -> tuple[RemoteSynthesizer | None, str | None]:
    if not hasattr(socket, "AF_UNIX"):
        return None, None
    place = Place.default()
    if not place.is_ours or not place.socket.exists():
        return None, None
    try:
        return _match(place.socket, wanted, None, is_near=True)
    except (ConnectionRefusedError, FileNotFoundError) as err:  # of a server that was killed
        logger.info("stale socket %s: %s", place.socket, err)
        return None, None
    except (OSError, http.client.HTTPException, ValueError, VoxError) as err:
        return None, f"it does not answer ({_reason(err)})"


def _match(
    target: Target, wanted: Wanted, api_key: str | None, *, is_near: bool
) -> tuple[RemoteSynthesizer | None, str | None]:
    """Ask a server whether it serves what is wanted."""
    body = wire.pack({**_as_json(wanted), "is_near": is_near})
    with (
        closing(ask(target, wire.PATH_MATCH, body, api_key, ANSWER_S)) as connection,
        ended_after(connection, ANSWER_S),
    ):
        answer = connection.getresponse()
        if answer.status != 200:
            if is_near:
                return None, refusal(answer).message
            raise refusal(answer)
        data = answer.read()
    try:
        found = json.loads(data)
        if found["mismatch"]:
            return None, str(found["mismatch"])
        return RemoteSynthesizer(target, api_key, found), None
    except (ValueError, KeyError, TypeError, AttributeError) as err:
        raise ValueError("it is another program, or another version of voxcli") from err


def _as_json(wanted: Wanted) -> dict[str, Any]:
    values = asdict(wanted)
    return {key: str(value) if isinstance(value, Path) else value for key, value in values.items()}


def health(place: Place) -> dict[str, Any]:
    """What the server there says of itself; empty when it says nothing."""
    try:
        with (
            closing(ask(place.socket, "/health", None, timeout_s=ANSWER_S)) as connection,
            ended_after(connection, ANSWER_S),
        ):
            found = json.loads(connection.getresponse().read())
    except (OSError, http.client.HTTPException, ValueError):
        return {}
    return found if isinstance(found, dict) else {}
