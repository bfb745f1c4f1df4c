"""A command's settings to a running server: checks, sockets, the place, then `ServerProcess`.

What cannot work is refused before the model loads. Knows no options and prints nothing.
"""

from __future__ import annotations

import errno
import http.client
import json
import os
import socket
import sys
from collections.abc import Callable
from dataclasses import dataclass

from voxcli.config import EngineConfig, UserSettings
from voxcli.errors import OutputError, UsageError
from voxcli.hot.place import Hold, Place, describe
from voxcli.hub import resolve_model
from voxcli.plan import voice_model
from voxcli.server.app import build_app
from voxcli.server.guard import LOOPBACK
from voxcli.server.heap import share_one_heap
from voxcli.server.run import Ending, ServerProcess, listen_tcp, listen_unix
from voxcli.server.service import Service
from voxcli.server.worker import EngineWorker, State, WorkerLimits
from voxcli.synthesizer import Synthesizer

SWITCH_INTERVAL_S = 0.0005  # the engine's thread waits no longer for Python's lock than this
MIN_KEY = 8  # characters


@dataclass(frozen=True)
class Listening:
    """Where a server listens and who may ask.

    Attributes:
        has_socket: open the local socket, by which other commands find it.
        grace_s: what is spoken may go on for so long after a signal.
    """

    host: str = "127.0.0.1"
    port: int = 8091
    api_key: str | None = None
    has_socket: bool = True
    grace_s: float = 30.0

    def __post_init__(self) -> None:
        if not 0 <= self.port <= 65535:
            raise UsageError(f"--port is {self.port}", hint="give 1 to 65535, or 0 for a free one")
        if not 0 <= self.grace_s < float("inf"):
            raise UsageError(f"--grace is {self.grace_s:g}", hint="give seconds, 0 or more")
        if self.api_key is not None and len(self.api_key) < MIN_KEY:
            raise UsageError(
                f"the API key has {len(self.api_key)} characters", hint=f"use {MIN_KEY} or more"
            )
        if self.api_key is None and self.host not in LOOPBACK:
            raise UsageError(
                f"--host {self.host} can be reached by others and no API key is set",
                hint="set VOXCLI_API_KEY or --api-key, or listen on 127.0.0.1",
            )

    @property
    def hosts(self) -> tuple[str, ...]:
        """Names that requests may be addressed to; any, where a key is asked for."""
        return () if self.api_key else LOOPBACK


def serve(
    listening: Listening,
    config: EngineConfig,
    limits: WorkerLimits,
    settings: UserSettings,
    *,
    on_state: Callable[[State, str], None],
) -> Ending:
    """Serve until told to stop.

    Args:
        on_state: told each new state, with the server's URL.

    Raises:
        UsageError: the port or the place is held; the message says by whom.
        ModelError: the model's files.
    """
    sys.setswitchinterval(SWITCH_INTERVAL_S)
    share_one_heap()
    files = resolve_model(config.model, offline=settings.offline, cache_dir=settings.cache_dir)
    hold = Place.default().hold() if listening.has_socket else None
    try:
        tcp = _listen(listening)
        port = tcp.getsockname()[1]
        shown = f"[{listening.host}]" if ":" in listening.host else listening.host
        url = f"http://{shown}:{port}"
        sockets = [tcp]
        if hold is not None:
            sockets.append(_open_socket(hold, files.name, url, listening.grace_s))
        worker = EngineWorker(lambda: Synthesizer.load_files(files, config), limits)
        service = Service(
            worker, voice_model(files), config, files, settings.cache_dir, settings.offline, url
        )
        app = build_app(service, api_key=listening.api_key, hosts=listening.hosts)
        return ServerProcess(
            app, worker, sockets,
            grace_s=listening.grace_s, on_state=lambda state: on_state(state, url),
        ).run()  # fmt: skip
    finally:
        if hold is not None:
            hold.release()


def _open_socket(hold: Hold, model: str, url: str, grace_s: float) -> socket.socket:
    hold.write({"pid": os.getpid(), "model": model, "url": url, "grace_s": grace_s})
    try:
        return listen_unix(hold.place.socket)
    except OSError as err:
        raise OutputError(f"cannot open {hold.place.socket}: {err.strerror}") from err


def _listen(listening: Listening) -> socket.socket:
    host, port = listening.host, listening.port
    try:
        return listen_tcp(host, port)
    except socket.gaierror as err:
        raise UsageError(f"--host {host}: {err.strerror}", hint="give an IP address") from err
    except OSError as err:
        if err.errno == errno.EADDRINUSE:
            raise UsageError(
                f"port {port} is taken by {_who(host, port)}", hint="use another --port"
            ) from err
        raise UsageError(
            f"cannot listen on {host} port {port}: {err.strerror}",
            hint="use another --host or --port",
        ) from err


def _who(host: str, port: int) -> str:
    """Who listens there: a voxcli server says so itself."""
    connection = http.client.HTTPConnection(host, port, timeout=1.0)
    try:
        connection.request("GET", "/health")
        health = json.loads(connection.getresponse().read())
        info = {"pid": health["pid"], "model": health["model"]}
        return f"another voxcli server ({describe(info)})"
    except (OSError, http.client.HTTPException, ValueError, KeyError, TypeError):
        return "another program"
    finally:
        connection.close()
