"""Is there a running server that speaks what a command would load itself?

    engine, why_not = connect_here(Wanted(model="mini"))
    engine = connect_to("http://127.0.0.1:8091", Wanted(model="mini"))

A server of this user that is not there, or serves something else, is no error: the command goes on
with an engine of its own. One at a URL has to be there and to fit.
"""

from __future__ import annotations

import http.client
import logging
import socket
from dataclasses import replace
from pathlib import Path
from typing import Any

from voxcli.engine.base import Wanted
from voxcli.engine.remote import wire
from voxcli.engine.remote.client import RemoteEngine, ask_who
from voxcli.engine.remote.place import Place
from voxcli.engine.remote.transport import ANSWER_S, Server, Target, read_json, send
from voxcli.errors import EngineError, UsageError, VoxError, reason_of

logger = logging.getLogger(__name__)

MAX_REASON = 120  # characters


def connect_here(wanted: Wanted) -> tuple[RemoteEngine | None, str | None]:
    """The server of this user, if it speaks what is wanted.

    Returns:
        the engine, or None; and why a server that is there is not used.
    """
    if not hasattr(socket, "AF_UNIX"):
        return None, None
    place = Place.default()
    if not place.has_socket:
        return None, None
    try:
        return _match(Server(place.socket, "it"), replace(wanted, is_near=True))
    except (ConnectionRefusedError, FileNotFoundError) as err:  # of a server that was killed
        logger.info("stale socket %s: %s", place.socket, err)
        return None, None
    except (OSError, http.client.HTTPException, ValueError) as err:
        return None, f"it does not answer ({_reason(err)})"
    except VoxError as err:
        return None, err.message


class OtherProgramError(EngineError):
    """Something answers, and it is no voxcli server."""


def connect_to(
    target: Path | str,
    wanted: Wanted,
    api_key: str | None = None,
    *,
    waits_when_busy: bool = True,
) -> RemoteEngine:
    """The server at a URL, or behind a socket.

    Args:
        waits_when_busy: see `Server`.

    Raises:
        UsageError: it serves something else, or speaks another protocol.
        OtherProgramError: something else answers there.
        EngineError: nothing does.
    """
    name = f"the server at {target}"
    server = Server(target, name, api_key, waits_when_busy)
    is_near = isinstance(target, Path)
    try:
        engine, why_not = _match(server, replace(wanted, is_near=is_near))
    except (OSError, http.client.HTTPException, ValueError) as err:
        kind = EngineError if isinstance(err, OSError) else OtherProgramError
        raise kind(
            f"no voxcli server answers at {target}: {_reason(err)}",
            hint="start one with 'voxcli serve', or use --engine native",
        ) from err
    if engine is None:
        raise UsageError(f"{name} cannot be used: {why_not}", hint="use --engine native")
    return engine


def _reason(err: Exception) -> str:
    """Why nothing answered, without what strangers may have sent."""
    if isinstance(err, http.client.IncompleteRead):
        return "its answer ends in its middle"
    if isinstance(err, http.client.HTTPException) and not isinstance(err, OSError):
        return "it does not speak HTTP"
    return wire.shown(reason_of(err), MAX_REASON)


def _match(server: Server, wanted: Wanted) -> tuple[RemoteEngine | None, str | None]:
    """Ask a server whether it serves what is wanted."""
    found = ask_who(server, wanted)
    if found.facts is None or found.setup is None:
        return None, found.mismatch or "it does not say what it is"
    named = replace(server, name=f"the server ({found.facts.name})")
    return RemoteEngine(named, wanted, found.facts, found.setup), None


def health(place: Place) -> dict[str, Any]:
    """What the server there says of itself; empty when it says nothing."""
    return health_at(place.socket)


def health_at(target: Target, wait_s: float | None = None) -> dict[str, Any]:
    """The same of one at a URL or behind a socket.

    Args:
        wait_s: for the answer; None means `ANSWER_S`.
    """
    wait_s = ANSWER_S if wait_s is None else wait_s
    try:
        sent = send(target, "/health", None, silence_s=wait_s)
        with sent, sent.ended_after(wait_s):
            return read_json(sent.answer())
    except (OSError, http.client.HTTPException, ValueError):
        return {}
