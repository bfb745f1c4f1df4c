"""A command's settings to a running server: checks, the door, then `ServerProcess`.

What cannot work is refused before the model loads. After a fault of the engine a fresh process goes
on with the open door, but not for ever. Knows no options and prints nothing.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from voxcli.config import EngineConfig, UserSettings
from voxcli.errors import EngineError, EngineFaultError, UsageError
from voxcli.hub import resolve_model
from voxcli.plan import voice_model
from voxcli.server.app import build_app
from voxcli.server.door import Door
from voxcli.server.guard import LOOPBACK
from voxcli.server.heap import share_one_heap
from voxcli.server.run import Ending, ServerProcess
from voxcli.server.service import Service
from voxcli.server.worker import EngineWorker, State, WorkerLimits
from voxcli.synthesizer import Synthesizer
from voxcli.takeover import TakeOver

SWITCH_INTERVAL_S = 0.0005  # the engine's thread waits no longer for Python's lock than this
MIN_KEY = 8  # characters
MAX_RESTARTS, WINDOW_S = 3, 600.0  # one more fault within this time, and the server ends


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
    notes: Mapping[str, Any],
    *,
    on_state: Callable[[State, str], None],
) -> Ending:
    """Serve until told to stop.

    Args:
        notes: of the process before, which had a fault; empty for a server that is new.
        on_state: told each new state, with the server's URL.

    Raises:
        TakeOver: the engine failed, and a fresh process is to go on.
        UsageError: the port or the place is held; the message says by whom.
        ModelError: the model's files.
    """
    sys.setswitchinterval(SWITCH_INTERVAL_S)
    share_one_heap()
    files = resolve_model(config.model, offline=settings.offline, cache_dir=settings.cache_dir)
    faults: list[float] = notes.get("faults", [])
    with _door(listening, files.name, notes) as door:
        worker = EngineWorker(lambda: Synthesizer.load_files(files, config), limits)
        service = Service(
            worker, voice_model(files), config, files, settings.cache_dir, settings.offline,
            door.url, num_restarts=len(faults),
        )  # fmt: skip
        app = build_app(service, api_key=listening.api_key, hosts=listening.hosts)
        ending = ServerProcess(
            app, worker, door.sockets(),
            grace_s=listening.grace_s, on_state=lambda state: on_state(state, door.url),
        ).run()  # fmt: skip
        if not isinstance(ending.error, EngineFaultError) or ending.signal is not None:
            return ending
        faults = [*faults, time.monotonic()]
        _check_restarts(faults, ending.error)
        left = door.leave()
        raise TakeOver(ending.error, {"faults": faults, "door": left}, tuple(left.values()))


def _door(listening: Listening, model: str, notes: Mapping[str, Any]) -> Door:
    if "door" in notes:
        return Door.take(listening.host, notes["door"])
    return Door.open(
        listening.host, listening.port,
        model=model, grace_s=listening.grace_s, has_socket=listening.has_socket,
    )  # fmt: skip


def _check_restarts(faults: Sequence[float], error: EngineError) -> None:
    """Refuse to go on for ever.

    Args:
        faults: when they were, on `time.monotonic`, which goes on from process to process.

    Raises:
        EngineError: too many in a short time.
    """
    recent = [at_s for at_s in faults if at_s > faults[-1] - WINDOW_S]
    if len(recent) > MAX_RESTARTS:
        raise EngineError(
            f"{error.message}; {len(recent)} faults within {WINDOW_S / 60:g} minutes",
            hint="look at the device with 'voxcli doctor', then start the server again",
        ) from error
