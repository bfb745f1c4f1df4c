"""Processes that speak for a server: started, watched, started again when they end.

Each is the server's own command once more, with an order (see `Order`) in its environment: it
serves on a socket in a folder that only the server knows, and ends when the server does, however
that ends. Knows no speech and no engine.
"""

from __future__ import annotations

import json
import logging
import os
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from enum import StrEnum
from pathlib import Path
from typing import IO

from voxcli.closing import Closing
from voxcli.engine.remote.find import health_at
from voxcli.engine.remote.place import Place
from voxcli.errors import EXIT_OK, EngineError, VoxError, kind_of
from voxcli.server.limits import MAX_RESTARTS, WINDOW_S, recent
from voxcli.server.scratch import Scratch, sweep

logger = logging.getLogger(__name__)

VARIABLE = "_VOXCLI_REPLICA"
PAUSE_S = 0.5  # before a replica is started again; twice as long each time
LOOK_S = 0.1  # between two looks at one that is starting
WATCH_S, MAX_SILENT = 2.0, 5  # between two looks at one that is ready; in vain, one after the other
END_S = 5.0  # for a replica to end by itself
PREFIX = "r-"  # of the folder: its sockets have names no longer than that of the server itself
SAID = "voxcli: error: "  # begins the line with which a command fails


@dataclass(frozen=True)
class Order:
    """What a replica is told.

    Attributes:
        socket: where it listens.
        device: of the model.
        threads: CPU threads.
    """

    name: str
    socket: str
    device: str
    threads: int

    def pack(self) -> str:
        return json.dumps(asdict(self))

    @classmethod
    def take(cls) -> Order | None:
        """This process's order, once; None where it is no replica."""
        packed = os.environ.pop(VARIABLE, None)
        return None if packed is None else cls(**json.loads(packed))


class ReplicaState(StrEnum):
    LOADING = "loading"
    READY = "ready"
    RESTING = "resting"  # it ended, and is started again in a while
    FAILED = "failed"  # it is not started again


class Replica:
    """One of them.

    Attributes:
        pid: of its process; None while there is none.
        num_restarts: times that it was started again.
        fault: why it ended last; None where it never did.
    """

    def __init__(self, order: Order) -> None:
        self.order = order
        self.state = ReplicaState.LOADING
        self.num_restarts = 0
        self.fault: VoxError | None = None
        self.faults: list[float] = []
        self.was_ready = False
        self.process: subprocess.Popen[bytes] | None = None

    @property
    def name(self) -> str:
        return self.order.name

    @property
    def socket(self) -> Path:
        return Path(self.order.socket)

    @property
    def is_gone(self) -> bool:
        """Whether it will not be there for long."""
        is_resting = self.state is ReplicaState.RESTING and _is_too_often(self.faults)
        return is_resting or self.state is ReplicaState.FAILED

    @property
    def pid(self) -> int | None:
        process = self.process
        return None if process is None or process.poll() is not None else process.pid


class Replicas(Closing):
    """See the module.

    Args:
        command: words that start a replica.
        devices, threads: of each.
        on_note: told what happens to replicas.

    Attributes:
        all: them, in the order of the devices.
        on_ready: told which one can be asked now, from another thread.
        on_lost: told the fault after which none is left, from another thread.
    """

    def __init__(
        self,
        command: Sequence[str],
        devices: Sequence[str],
        threads: int,
        *,
        on_note: Callable[[str], None] = lambda note: None,
    ) -> None:
        self._command = command
        self._on_note = on_note
        self._folder = _folder()
        self.all = [
            Replica(Order(f"replica {index} ({device})", str(path), device, threads))
            for index, device in enumerate(devices)
            for path in [self._folder.path / str(index)]
        ]
        self.on_ready: Callable[[Replica], None] = lambda replica: None
        self.on_lost: Callable[[VoxError], None] = lambda error: None
        self._changed = threading.Condition()
        self._is_closing = threading.Event()
        self._threads = [
            threading.Thread(target=self._keep, args=(each,), name=each.name, daemon=True)
            for each in self.all
        ]

    def start(self) -> None:
        for thread in self._threads:
            thread.start()

    def wait_for_one(self) -> bool:
        """Wait until one is ready.

        Returns:
            whether one is; False when this is closed.

        Raises:
            VoxError: none will be.
        """
        with self._changed:
            self._changed.wait_for(
                lambda: self.num_ready or self.error or self._is_closing.is_set()
            )
            if self._is_closing.is_set():
                return False
            if error := self.error:
                raise error
            return True

    @property
    def num_ready(self) -> int:
        return sum(each.state is ReplicaState.READY for each in self.all)

    @property
    def error(self) -> VoxError | None:
        """Why none is left; None as long as one is, or may be soon."""
        if not all(each.is_gone for each in self.all):
            return None
        return next(each.fault for each in self.all if each.fault is not None)

    def close(self) -> None:
        """End all of them; always safe, from any thread."""
        with self._changed:
            self._is_closing.set()
            self._changed.notify_all()
            processes = [each.process for each in self.all if each.process is not None]
        for process in processes:
            if process.stdin is not None:
                with suppress(OSError):
                    process.stdin.close()
        for process in processes:
            if _is_running(process, END_S):
                process.kill()
                process.wait()
        for thread in self._threads:
            if thread.ident is not None and thread is not threading.current_thread():
                thread.join(END_S)
        self._folder.close()

    # ------------------------------------------------------------ one thread a replica

    def _keep(self, replica: Replica) -> None:
        """Start a replica, and again whenever it ended."""
        while (pause_s := self._run(replica)) is not None:
            if self._is_closing.wait(pause_s):
                return
            replica.num_restarts += 1
            self._set_state(replica, ReplicaState.LOADING)

    def _run(self, replica: Replica) -> float | None:
        """Its process from start to end.

        Returns:
            seconds until it is started again; None for never.
        """
        try:
            said = self._watch(replica)
        except Exception as err:  # it could not be started
            logger.exception("%s", replica.name)
            said = [f"{err}"]
        if said is None or self._is_closing.is_set():
            return None
        code = replica.process.returncode if replica.process is not None else 1
        error = why_ended(replica.name, code, said)
        replica.fault = error
        replica.faults = recent([*replica.faults, time.monotonic()])
        pause_s = _pause_s(replica)
        self._on_note(f"{error.message}; {_again(pause_s)}")
        is_over = pause_s is None
        self._set_state(replica, ReplicaState.FAILED if is_over else ReplicaState.RESTING)
        lost = self.error
        if lost is not None:
            self.on_lost(lost)
        return pause_s

    def _watch(self, replica: Replica) -> list[str] | None:
        """Run a process until it ends; its last words, or None where there is to be none."""
        process = self._spawn(replica)
        if process is None:
            return None
        said: list[str] = []
        log = threading.Thread(target=self._pass_on, args=(replica, process.stderr, said))
        log.daemon = True
        log.start()
        while _is_running(process, LOOK_S):
            if health_at(replica.socket).get("status") == "ready":
                replica.was_ready = True
                self._set_state(replica, ReplicaState.READY)
                self.on_ready(replica)
                break
        self._end_if_silent(replica, process)
        process.wait()
        log.join(END_S)
        for pipe in (process.stdin, process.stderr):
            with suppress(OSError):
                if pipe is not None and not log.is_alive():
                    pipe.close()
        return said

    def _end_if_silent(self, replica: Replica, process: subprocess.Popen[bytes]) -> None:
        """Watch a replica that is ready; one that says nothing of its health for long hangs."""
        num_silent = 0
        while num_silent < MAX_SILENT and _is_running(process, WATCH_S):
            num_silent = 0 if health_at(replica.socket, WATCH_S) else num_silent + 1
        if num_silent == MAX_SILENT and not self._is_closing.is_set():
            self._on_note(f"{replica.name} no longer answers, and is stopped")
            process.kill()

    def _spawn(self, replica: Replica) -> subprocess.Popen[bytes] | None:
        with self._changed:  # so that `close` sees every process
            replica.process = None
            if self._is_closing.is_set():
                return None
            replica.process = subprocess.Popen(
                list(self._command),
                # its stdin ends with this process, and it with its stdin
                stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
                start_new_session=True,  # Ctrl-C at a terminal is this process's to take
                env={**os.environ, VARIABLE: replica.order.pack()},
            )  # fmt: skip
            return replica.process

    def _pass_on(self, replica: Replica, file: IO[bytes], said: list[str]) -> None:
        """What it says, under its name; the last lines are kept."""
        for line in file:
            text = line.decode("utf-8", "replace").rstrip()
            said[:] = [*said[-9:], text]
            if not text.startswith(SAID):  # that is said with what becomes of it
                self._on_note(f"{replica.name}: {text}")

    def _set_state(self, replica: Replica, state: ReplicaState) -> None:
        with self._changed:
            replica.state = state
            self._changed.notify_all()


def _pause_s(replica: Replica) -> float | None:
    """How long a replica that ended rests; None for ever.

    One that never was ready and says itself what is wrong would say the same again.
    """
    process, faults = replica.process, replica.faults
    if not replica.was_ready and (process is None or process.returncode > 0):
        return None
    if _is_too_often(faults):
        return faults[-1 - MAX_RESTARTS] + WINDOW_S - faults[-1]
    return float(PAUSE_S * 2 ** (len(faults) - 1))


def _is_too_often(faults: Sequence[float]) -> bool:
    return len(faults) > MAX_RESTARTS


def _again(pause_s: float | None) -> str:
    if pause_s is None:
        return "it is not started again"
    when = f"{pause_s:.1f} s" if pause_s < 60 else f"{pause_s / 60:.0f} minutes"
    return f"it is started again in {when}"


def why_ended(name: str, code: int, said: Sequence[str]) -> VoxError:
    """What a process ended with, as the error that it ended with itself.

    Args:
        code: as `Popen.returncode`.
        said: its last lines.
    """
    if code < 0:
        try:
            what = signal.Signals(-code).name
        except ValueError:
            what = str(-code)
        return EngineError(f"{name} was killed ({what})")
    if code == EXIT_OK:
        return EngineError(f"{name} was stopped")
    last = next((line for line in reversed(said) if line.startswith(SAID)), None)
    if last is None:
        return EngineError(f"{name} ended with exit code {code}: {['it said nothing', *said][-1]}")
    return kind_of(code)(f"{name}: {last.removeprefix(SAID)}")


def _is_running(process: subprocess.Popen[bytes], wait_s: float) -> bool:
    try:
        process.wait(wait_s)
    except subprocess.TimeoutExpired:
        return True
    return False


def _folder() -> Scratch:
    """A folder that only this user may enter, where other commands do not look for a server."""
    place = Place.default()
    place.create()
    with place.explained():
        sweep(PREFIX, place.folder)
        return Scratch(PREFIX, place.folder)


# ---------------------------------------------------------------- in a replica


def end_with_server(order: Order) -> None:
    """Let this process end as soon as nobody holds the other end of its stdin."""

    def wait() -> None:
        while os.read(0, 1):
            pass
        socket = Path(order.socket)
        with suppress(OSError):
            socket.unlink(missing_ok=True)
            socket.parent.rmdir()  # by the last one
        os._exit(EXIT_OK)

    threading.Thread(target=wait, name="server", daemon=True).start()
