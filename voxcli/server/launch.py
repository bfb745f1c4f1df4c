"""A command's settings to a running server: checks, the door, then `ServerProcess`.

What cannot work is refused before the model loads. After a fault of the engine a fresh process goes
on with the open door, but not for ever. Knows no options and prints nothing.
"""

from __future__ import annotations

import socket
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any

from voxcli import alignment
from voxcli.config import EngineConfig, UserSettings
from voxcli.engine.base import SpeechEngine
from voxcli.engine.choose import NATIVE, open_engine, wanted_by
from voxcli.engine.remote.place import Hold
from voxcli.engine.takeover import TakeOver
from voxcli.errors import EngineError, EngineFaultError
from voxcli.hub import ModelFiles, resolve_model
from voxcli.parameters import parse_settings
from voxcli.server.app import build_app
from voxcli.server.connections import MAX_CONNECTIONS
from voxcli.server.dialect import Dialect
from voxcli.server.door import Door, listen_unix
from voxcli.server.front import FrontEngine
from voxcli.server.heap import share_one_heap
from voxcli.server.layout import threads_of
from voxcli.server.limits import LOOPBACK, MAX_RESTARTS, WINDOW_S, Listening, WorkerLimits, recent
from voxcli.server.replicas import Order, Replicas, end_with_server
from voxcli.server.run import Beside, Ending, ServerProcess
from voxcli.server.schema import ReplicaRow
from voxcli.server.scratch import sweep
from voxcli.server.service import Service
from voxcli.server.worker import EngineWorker, State
from voxcli.text.pronunciations import load_lexicon

SWITCH_INTERVAL_S = 0.0005  # the engine's thread waits no longer for Python's lock than this


def serve(
    listening: Listening,
    config: EngineConfig,
    limits: WorkerLimits,
    settings: UserSettings,
    notes: Mapping[str, Any],
    hold: Hold | None,
    *,
    is_strict: bool = False,
    graphs: Sequence[str] = (),
    devices: Sequence[str] = (),
    on_state: Callable[[State, str], None],
    on_note: Callable[[str], None] = lambda note: None,
) -> Ending:
    """Serve until told to stop.

    Args:
        notes: of the process before, which had a fault; empty for a server that is new.
        hold: of the place by which other commands find it; None where they do not, or where the
            notes have it.
        is_strict: fields of a request that mean nothing here are refused.
        graphs: settings of the model's parameters to capture graphs for, as a user writes them;
            none means its best ones.
        devices: one for each replica, a process that speaks; none means that this one speaks.
        on_state: told each new state, with the server's URLs.
        on_note: told what happens to replicas.

    Raises:
        TakeOver: the engine failed, and a fresh process is to go on.
        UsageError: the port is held; the message says by whom. A parameter that the model does not
            have.
        ModelError: the model's files.
    """
    sweep()
    lexicon = load_lexicon(settings.lexicon) if settings.lexicon else ""
    engine, files = _open(config, settings, graphs)
    faults: list[float] = notes.get("faults", [])
    with ExitStack() as stack:
        rows: Callable[[], list[ReplicaRow]] = list
        if devices:
            engine = front = _front(engine, files, config, settings, devices, on_note)
            stack.enter_context(front.replicas)
            rows = front.rows
            limits = replace(limits, max_streams=limits.max_streams * len(devices))
        door = stack.enter_context(_door(listening, engine.facts.model, notes, hold))
        worker = EngineWorker(engine, limits)
        if devices:
            front.replicas.on_lost = worker.fail
        dialect = Dialect(settings.model_aliases, settings.voice_aliases, is_strict)
        service = Service(
            worker,
            door.url,
            num_restarts=len(faults),
            replicas=rows,
            dialect=dialect,
            lexicon=lexicon,
        )
        alignment.prepare()
        app = build_app(
            service, api_key=listening.api_key, hosts=listening.hosts, origins=listening.origins
        )
        beside = [wyoming_server(service, door.wyoming.dup())] if door.wyoming else []
        ending = ServerProcess(
            app, worker, door.sockets(), beside=beside,
            grace_s=listening.grace_s, idle_s=listening.idle_s,
            on_state=lambda state: on_state(state, door.urls),
        ).run()  # fmt: skip
        if not isinstance(ending.error, EngineFaultError) or ending.signal is not None:
            return ending
        faults = [*faults, time.monotonic()]
        _check_restarts(faults, ending.error)
        left = door.leave()
        raise TakeOver(ending.error, {"faults": faults, "door": left}, tuple(left.values()))


def wyoming_server(service: Service, bound: socket.socket) -> Beside:
    """What answers clients of Wyoming; its package is needed for nothing else."""
    from voxcli.server.wyoming import WyomingServer

    return WyomingServer(service, bound)


def serve_replica(
    order: Order,
    config: EngineConfig,
    limits: WorkerLimits,
    settings: UserSettings,
    *,
    graphs: Sequence[str] = (),
    grace_s: float,
) -> Ending:
    """Speak for a server, until it ends or this is told to stop.

    Args:
        config: as the server has it, with the device and the threads of this replica.
        limits: of each replica.
        grace_s: see `Listening`.

    Raises:
        EngineFaultError: the engine failed; the server starts another process.
        ModelError: the model's files.
    """
    end_with_server(order)
    engine, _ = _open(config, settings, graphs)
    # the server decides who waits; what it sends is taken
    worker = EngineWorker(engine, replace(limits, max_queue=MAX_CONNECTIONS))
    app = build_app(Service(worker, order.name), api_key=None, hosts=LOOPBACK)
    path = Path(order.socket)
    path.unlink(missing_ok=True)  # of the process before
    return ServerProcess(app, worker, [listen_unix(path)], grace_s=grace_s).run()


def _open(
    config: EngineConfig, settings: UserSettings, graphs: Sequence[str]
) -> tuple[SpeechEngine, ModelFiles]:
    """An engine that is not started, in a process that is ready for it."""
    sys.setswitchinterval(SWITCH_INTERVAL_S)
    share_one_heap()
    files = resolve_model(config.model, offline=settings.offline, cache_dir=settings.cache_dir)
    captured = tuple(parse_settings(each, files.name, files.facts.parameters) for each in graphs)
    engine = open_engine(NATIVE, replace(config, graphs=captured), settings, files=files)
    return engine, files


def _front(
    planner: SpeechEngine,
    files: ModelFiles,
    config: EngineConfig,
    settings: UserSettings,
    devices: Sequence[str],
    on_note: Callable[[str], None],
) -> FrontEngine:
    """The engine over replicas, each of which is this very command."""
    command = [sys.executable, *sys.orig_argv[1:], "--quiet"]
    threads = threads_of(config.threads, len(devices))
    replicas = Replicas(command, devices, threads, on_note=on_note)
    wanted = wanted_by(replace(config, eager=False), settings)  # also who computes eagerly
    return FrontEngine(planner, replicas, files, wanted, config.max_slots)


def _door(listening: Listening, model: str, notes: Mapping[str, Any], hold: Hold | None) -> Door:
    if "door" in notes:
        return Door.take(listening.host, notes["door"])
    return Door.open(listening, hold, model=model)


def _check_restarts(faults: Sequence[float], error: EngineError) -> None:
    """Refuse to go on for ever.

    Args:
        faults: when they were, on `time.monotonic`, which goes on from process to process.

    Raises:
        EngineError: too many in a short time.
    """
    num_recent = len(recent(faults))
    if num_recent > MAX_RESTARTS:
        raise EngineError(
            f"{error.message}; {num_recent} faults within {WINDOW_S / 60:g} minutes",
            hint="check the device with 'voxcli doctor', then start the server again",
        ) from error
