"""`voxcli serve`: a hot engine for programs, the browser and the other commands."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from voxcli.cli import output
from voxcli.cli.background import HELD, NEEDED, spawn
from voxcli.cli.engine_options import ModelOptions
from voxcli.cli.options import ENGINE, JsonOption, LexiconOption, QuietOption, grouped
from voxcli.config import EngineConfig, UserSettings
from voxcli.engine.takeover import TakeOver, take_notes
from voxcli.errors import (
    EXIT_ITEM_FAILED,
    EXIT_OK,
    EngineError,
    UsageError,
    VoxError,
    kind_of,
)
from voxcli.extras import require
from voxcli.process import started

if TYPE_CHECKING:
    from voxcli.engine.remote.place import Hold, Place
    from voxcli.server.limits import WorkerLimits
    from voxcli.server.replicas import Order
    from voxcli.server.worker import State

EXAMPLES = (
    "voxcli serve --background && voxcli serve --status && voxcli serve --stop",
    "VOXCLI_API_KEY=a-long-secret voxcli serve --host 0.0.0.0 --max-streams 8 --background "
    "&& voxcli serve --stop",
    "voxcli serve --allow-origin http://localhost:3000 --background && voxcli serve --stop",
)

ADDRESS, LOAD, RUN = "Address", "Load", "Run"  # panels of its own
START_S = 600.0  # a large model may take its time to load and to be captured
HOST, PORT = "127.0.0.1", 8091
LOOK_S = 0.3  # --stop looks so long for a server whose command was given just before
STOP_MARGIN_S = 40.0  # after the grace time; a model that loads is waited for


@grouped
def serve(
    engine: ModelOptions,
    host: Annotated[
        str,
        typer.Option(
            metavar="ADDRESS",
            help="Address to listen on. One that other machines can reach needs a key.",
            rich_help_panel=ADDRESS,
        ),
    ] = HOST,
    port: Annotated[
        int,
        typer.Option(metavar="N", help="TCP port. 0 selects a free port.", rich_help_panel=ADDRESS),
    ] = PORT,
    api_key: Annotated[
        str | None,
        typer.Option(
            "--api-key",
            metavar="KEY",
            help="Key that clients must send. Prefer VOXCLI_API_KEY, because other users can see "
            "options.",
            rich_help_panel=ADDRESS,
        ),
    ] = None,
    allow_origin: Annotated[
        list[str] | None,
        typer.Option(
            "--allow-origin",
            metavar="ORIGIN",
            help="Let web pages of this origin, such as http://localhost:3000, use the server. May "
            "be repeated. '*' allows every page and needs a key.",
            show_default="only the server's own page",
            rich_help_panel=ADDRESS,
        ),
    ] = None,
    wyoming: Annotated[
        str | None,
        typer.Option(
            "--wyoming",
            metavar="PORT",
            help="Also serve the Wyoming protocol of Home Assistant on this port, usually 10200. "
            "Wyoming has no keys, so addresses other than loopback need ADDRESS:PORT.",
            show_default="none",
            rich_help_panel=ADDRESS,
        ),
    ] = None,
    strict_fields: Annotated[
        bool,
        typer.Option(
            "--strict-fields",
            help="Refuse requests with unknown fields. By default, a header names these fields.",
            rich_help_panel=ADDRESS,
        ),
    ] = False,
    lexicon: LexiconOption = None,
    max_streams: Annotated[
        int,
        typer.Option(
            "--max-streams",
            metavar="N",
            help="Texts to speak at the same time, 1 or more.",
            rich_help_panel=LOAD,
        ),
    ] = EngineConfig.max_slots,
    max_queue: Annotated[
        int,
        typer.Option(
            "--max-queue",
            metavar="N",
            help="Texts that can wait, 0 or more. Further texts are refused with HTTP status 429.",
            rich_help_panel=LOAD,
        ),
    ] = 64,
    graphs: Annotated[
        list[str] | None,
        typer.Option(
            "--graphs",
            metavar="NAME=VALUE,...",
            help="On a GPU: capture graphs for these values of the model's parameters, and refuse "
            "other values. May be repeated.",
            show_default="the model's best",
            rich_help_panel=ENGINE,
        ),
    ] = None,
    replicas: Annotated[
        int | None,
        typer.Option(
            "--replicas",
            metavar="N",
            help="Processes that speak, each on its own GPU, or on the CPU; 1 or more. '--device "
            "cuda:0,cuda:1' names the GPUs. --max-streams and --threads apply to each process.",
            show_default="only this process",
            rich_help_panel=LOAD,
        ),
    ] = None,
    grace: Annotated[
        float,
        typer.Option(
            metavar="S",
            help="Seconds that running texts have to finish after Ctrl-C or --stop.",
            rich_help_panel=RUN,
        ),
    ] = 30.0,
    idle: Annotated[
        float | None,
        typer.Option(
            "--idle",
            metavar="S",
            help="Stop the server after so many seconds without a request.",
            show_default="never",
            rich_help_panel=RUN,
        ),
    ] = None,
    no_port: Annotated[
        bool,
        typer.Option(
            "--no-port",
            help="Open no TCP port: only other voxcli commands can use the server.",
            rich_help_panel=ADDRESS,
        ),
    ] = False,
    no_socket: Annotated[
        bool,
        typer.Option(
            "--no-socket",
            help="Do not let other voxcli commands use this server.",
            rich_help_panel=ADDRESS,
        ),
    ] = False,
    background: Annotated[
        bool,
        typer.Option(
            "--background",
            help="Start the server in the background, and return when it is ready.",
            rich_help_panel=RUN,
        ),
    ] = False,
    stop: Annotated[
        bool, typer.Option("--stop", help="Stop the running server.", rich_help_panel=RUN)
    ] = False,
    status: Annotated[
        bool,
        typer.Option(
            "--status",
            help="Describe the running server. The exit code is 1 if none runs.",
            rich_help_panel=RUN,
        ),
    ] = False,
    json: JsonOption = False,
    quiet: QuietOption = False,
) -> None:
    """Keep a model loaded for programs, the browser and voxcli. Needs voxcli[serve].

    The server has OpenAI's speech API and a web page. Other voxcli commands use it by themselves.
    """
    from voxcli.engine.remote.place import Place

    if sum((background, stop, status)) > 1:
        message = "--background, --stop and --status cannot be used together"
        raise UsageError(message, hint="give one")
    if match := re.fullmatch(r"([^:]+):(\d+)", host):
        hint = f"write --host {match[1]} --port {match[2]}"
        raise UsageError(f"--host is '{host}', which has a port in it", hint=hint)
    place = Place.default()
    if place.why and not no_socket:
        output.note(f"the server's files are in {place.folder}: {place.why}", is_quiet=quiet)
    if status or stop:
        if (host, port) != (HOST, PORT):
            message = "--host and --port are of no use with --stop and --status"
            raise UsageError(message, hint="leave them out: a user has one server of this kind")
        place.check()
    if status:
        _show_status(place, is_json=json)
        return
    if stop:
        _stop(place, is_json=json, is_quiet=quiet)
        return
    if no_port and no_socket:
        raise UsageError(
            "with --no-port and --no-socket nobody could reach the server",
            hint="drop --no-socket to serve other voxcli commands, or --no-port to serve HTTP",
        )
    require("'voxcli serve'", *NEEDED)
    started()
    from voxcli.server.layout import devices_of
    from voxcli.server.limits import Listening, WorkerLimits, wyoming_at
    from voxcli.server.replicas import Order

    settings = engine.settings()
    settings = replace(settings, lexicon=lexicon or settings.lexicon)
    if wyoming is not None:
        require("'--wyoming'", "wyoming")
    listening = Listening(
        host, None if no_port else port, api_key or settings.api_key, grace,
        tuple(allow_origin or ()), None if wyoming is None else wyoming_at(wyoming, host), idle,
    )  # fmt: skip
    limits = WorkerLimits(max_streams, max_queue)
    info = {
        "pid": os.getpid(), "model": settings.model, "grace_s": grace, "status": "starting"
    }  # fmt: skip
    if background:
        _start(place, info, has_socket=not no_socket, is_json=json, is_quiet=quiet)
        return
    config = replace(engine.config(settings), max_slots=max_streams)
    if (order := Order.take()) is not None:
        _serve_replica(order, config, limits, settings, graphs or (), grace)
        return
    devices = devices_of(config.device, replicas)
    notes = take_notes()
    started_s = time.monotonic()

    def on_state(state: State, url: str) -> None:
        took_s = time.monotonic() - started_s
        if state == "ready":
            output.note(f"{settings.model} is ready on {url} after {took_s:.1f} s", is_quiet=quiet)
        elif state == "stopping":
            output.note("stopping", is_quiet=quiet)

    with _ended_by_sigterm(), output.shown_warnings(), ExitStack() as stack:
        hold = None
        if not no_socket and not notes:  # before what takes seconds to import: others can see it
            hold = _hold(place)
            stack.callback(hold.release)
            hold.write(info)
        from voxcli.server.launch import serve as run_server

        try:
            ending = run_server(
                listening, config, limits, settings, notes, hold,
                is_strict=strict_fields, graphs=graphs or (), devices=devices, on_state=on_state,
                on_note=lambda note: output.note(note, is_quiet=quiet),
            )  # fmt: skip
        except TakeOver as end:
            output.warn(f"{end.fault.message}; a new process takes over")
            raise
    if ending.num_aborted:
        output.warn(f"{ending.num_aborted} text(s) were cut short")
    if ending.error is not None:
        raise ending.error
    if ending.signal == signal.SIGINT:
        raise KeyboardInterrupt


def _serve_replica(
    order: Order, config: EngineConfig, limits: WorkerLimits, settings: UserSettings,
    graphs: list[str] | tuple[()], grace_s: float,
) -> None:  # fmt: skip
    """Be a replica of the server that started this process."""
    from voxcli.server.launch import serve_replica

    config = replace(config, device=order.device, threads=order.threads)
    with _ended_by_sigterm(), output.shown_warnings():
        ending = serve_replica(order, config, limits, settings, graphs=graphs, grace_s=grace_s)
    if ending.error is not None:
        raise ending.error


@contextmanager
def _ended_by_sigterm() -> Iterator[None]:
    """Until the server has its own way to stop, `--stop` leaves through every `with` block."""

    def end(number: int, frame: object) -> None:
        raise SystemExit(EXIT_OK)

    before = signal.signal(signal.SIGTERM, end)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def _hold(place: Place) -> Hold:
    """The place: taken, or handed on by the process that started this one in the background."""
    handed = os.environ.pop(HELD, None)
    return place.hold() if handed is None else place.take(int(handed))


def _start(
    place: Place, info: dict[str, Any], *, has_socket: bool, is_json: bool, is_quiet: bool
) -> None:
    """Start the same command once more, without a terminal, and wait until it is ready.

    The place is taken here and handed on, so that --stop and a second server see one at any time.
    """
    if not has_socket:
        raise UsageError("--background finds its server by the socket", hint="drop --no-socket")
    stops: list[int] = []
    # NOTE: Ctrl-C is only noted too: raised between the start of the child and who knows of it, it
    # would leave a server that nobody waits for.
    kinds = (signal.SIGTERM, signal.SIGINT)
    before = [signal.signal(kind, lambda number, frame: stops.append(number)) for kind in kinds]
    try:
        words = [word for word in sys.argv[1:] if word != "--background"]
        child = spawn(place, info, words)
        try:
            _wait_until_ready(child, place, stops)
        except BaseException:
            child.terminate()
            raise
    finally:
        for kind, handler in zip(kinds, before, strict=True):
            signal.signal(kind, handler)
    _show_status(place, is_json=is_json, is_quiet=is_quiet)


def _wait_until_ready(child: subprocess.Popen[bytes], place: Place, stops: list[int]) -> None:
    """Until the child serves.

    Args:
        stops: signals that this process got; they are meant for the child.

    Raises:
        KeyboardInterrupt: one of them was Ctrl-C.
        VoxError: it ended or was stopped; the message and the exit code are its own.
    """
    give_up_s = time.monotonic() + START_S
    while time.monotonic() < give_up_s:
        if signal.SIGINT in stops:
            raise KeyboardInterrupt
        if stops:
            child.terminate()
        if child.poll() is not None:
            raise _why_ended(child.returncode, place.log)
        if not stops and _health(place).get("status") == "ready":
            return
        time.sleep(0.1)
    raise EngineError(f"the server was not ready within {START_S:g} s", hint=f"see {place.log}")


def _why_ended(code: int, log: Path) -> VoxError:
    if code in (EXIT_OK, -signal.SIGTERM):
        return EngineError("the server was stopped before it was ready")
    lines = log.read_text("utf-8", "replace").strip().splitlines() or ["it said nothing"]
    said = lines[-1].removeprefix(output.ERROR)
    if said == lines[-1]:
        said = f"the server ended with exit code {code}: {said}"
    return kind_of(code)(said, hint=f"see {log}")


def _health(place: Place) -> dict[str, Any]:
    from voxcli.engine.remote.find import health

    return health(place)


def _show_status(place: Place, *, is_json: bool, is_quiet: bool = False) -> None:
    from voxcli.engine.remote.place import describe

    holder = place.holder()
    if holder is None:
        if is_json:
            output.result_json({"status": "stopped"})
        else:
            output.result("no server runs")
        raise typer.Exit(EXIT_ITEM_FAILED)
    found = {**holder, **_health(place), "socket": str(place.socket), "log": str(place.log)}
    if is_json:
        output.result_json(found)
    elif not is_quiet:
        state = found.get("status", "does not answer")
        busy = (
            f", {found['streams']} speaking, {found['queue']} waiting" if "queue" in found else ""
        )
        output.result(f"{state}: {describe(found)}{busy}{_ready_replicas(found)}")


def _ready_replicas(found: dict[str, Any]) -> str:
    replicas = found.get("replicas") or []
    num_ready = sum(each["status"] == "ready" for each in replicas)
    return f", {num_ready} of {len(replicas)} replicas ready" if replicas else ""


def _stop(place: Place, *, is_json: bool, is_quiet: bool) -> None:
    from voxcli.engine.remote.place import describe

    asked_s = time.monotonic()
    while not _signal((holder := place.holder() or {}).get("pid", 0), signal.SIGTERM):
        # one that was started by a process that is gone has the place, and writes its number soon
        if time.monotonic() - asked_s > (STOP_MARGIN_S if holder else LOOK_S):
            raise UsageError("no server runs", hint="start one with 'voxcli serve --background'")
        time.sleep(0.02)
    pid = holder["pid"]
    give_up_s = time.monotonic() + float(holder.get("grace_s", 0)) + STOP_MARGIN_S
    while _is_alive(pid):
        if time.monotonic() > give_up_s:
            raise EngineError(
                f"the server does not stop: {describe(holder)}", hint=f"kill -9 {pid}"
            )
        time.sleep(0.05)
    if is_json:
        output.result_json({"status": "stopped", "pid": pid})
    else:
        output.note(f"stopped: {describe({**holder, 'idle_s': None})}", is_quiet=is_quiet)


def _is_alive(pid: int) -> bool:
    """Whether the process runs or is stopped; one that has ended and that nobody asked after has
    an id, and no memory and no sockets."""
    if not _signal(pid, 0):
        return False
    try:
        state = Path(f"/proc/{pid}/stat").read_text("utf-8", "replace").rpartition(")")[2].split()
    except OSError:  # no such system, or it has ended meanwhile
        return _signal(pid, 0)
    return state[0] not in ("Z", "X")


def _signal(pid: int, number: int) -> bool:
    """Send a signal, 0 for none, to a process; whether there is one."""
    if not pid:
        return False
    try:
        os.kill(pid, number)
    except ProcessLookupError:
        return False
    return True
