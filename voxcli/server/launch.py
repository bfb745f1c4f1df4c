"""A command's settings to a running server: checks, the door, then `ServerProcess`.

What cannot work is refused before the model loads. After a fault of the engine a fresh process goes
on with the open door, but not for ever. Knows no options and prints nothing.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from voxcli.config import EngineConfig, UserSettings
from voxcli.engine.choose import NATIVE, open_engine
from voxcli.engine.remote.place import Hold
from voxcli.engine.takeover import TakeOver
from voxcli.errors import EngineError, EngineFaultError
from voxcli.hub import resolve_model
from voxcli.parameters import parse_settings
from voxcli.server.app import build_app
from voxcli.server.door import Door
from voxcli.server.heap import share_one_heap
from voxcli.server.limits import Listening, WorkerLimits
from voxcli.server.run import Ending, ServerProcess
from voxcli.server.scratch import sweep
from voxcli.server.service import Service
from voxcli.server.worker import EngineWorker, State

SWITCH_INTERVAL_S = 0.0005  # the engine's thread waits no longer for Python's lock than this
MAX_RESTARTS, WINDOW_S = 3, 600.0  # one more fault within this time, and the server ends


def serve(
    listening: Listening,
    config: EngineConfig,
    limits: WorkerLimits,
    settings: UserSettings,
    notes: Mapping[str, Any],
    hold: Hold | None,
    *,
    graphs: Sequence[str] = (),
    on_state: Callable[[State, str], None],
) -> Ending:
    """Serve until told to stop.

    Args:
        notes: of the process before, which had a fault; empty for a server that is new.
        hold: of the place by which other commands find it; None where they do not, or where the
            notes have it.
        graphs: settings of the model's parameters to capture graphs for, as a user writes them;
            none means its best ones.
        on_state: told each new state, with the server's URL.

    Raises:
        TakeOver: the engine failed, and a fresh process is to go on.
        UsageError: the port is held; the message says by whom. A parameter that the model does not
            have.
        ModelError: the model's files.
    """
    sys.setswitchinterval(SWITCH_INTERVAL_S)
    share_one_heap()
    sweep()
    files = resolve_model(config.model, offline=settings.offline, cache_dir=settings.cache_dir)
    captured = tuple(parse_settings(each, files.name, files.facts.parameters) for each in graphs)
    engine = open_engine(NATIVE, replace(config, graphs=captured), settings, files=files)
    faults: list[float] = notes.get("faults", [])
    with _door(listening, engine.facts.model, notes, hold) as door:
        worker = EngineWorker(engine, limits)
        service = Service(worker, door.url, num_restarts=len(faults))
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


def _door(listening: Listening, model: str, notes: Mapping[str, Any], hold: Hold | None) -> Door:
    if "door" in notes:
        return Door.take(listening.host, notes["door"])
    return Door.open(listening.host, listening.port, hold, model=model, grace_s=listening.grace_s)


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
