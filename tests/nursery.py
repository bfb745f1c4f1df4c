"""Processes that begin with everything imported, for tests that start many: forks of one that only
waits. What a fresh process does while it imports, other tests prove.

    with Nursery() as nursery:
        process = nursery.popen([sys.executable, REPLICA, "serve"], env=..., ...)

    program = nursery.program(folder / "voxcli")     starts one, as `voxcli` does

    python tests/nursery.py SOCKET      the process that waits
"""

from __future__ import annotations

import atexit
import marshal
import os
import runpy
import selectors
import signal
import socket
import subprocess
import sys
import tempfile
import threading
from collections.abc import Mapping, Sequence
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
REPLICA = str(HERE / "server" / "replica.py")
VOXCLI = "voxcli"  # in place of a script: the program itself
MODULES = (
    "torch", "fakes", "voxcli.cli.help", "voxcli.server.launch", "voxcli.engine.native.engine",
    "voxcli.batch.session", "voxcli.bench", "voxcli.streaming", "voxcli.text.normaliser",
    *(f"voxcli.cli.{name}" for name in ("speak", "clone", "batch", "stream", "bench", "serve")),
    *(f"voxcli.models.{family}.model" for family in ("voxcpm2", "qwen3_tts")),
)  # fmt: skip
SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)

# The program: it hands on its words, settings, folder and streams, and ends as its process does.
# It imports as little as it can: a hundred of them start.
_PROGRAM = """#!{python} -IS
import _signal, _socket, marshal, os, sys
end = _socket.socket(_socket.AF_UNIX, _socket.SOCK_STREAM)
end.connect({place!r})
order = marshal.dumps(({words!r} + sys.argv[1:], dict(os.environ), os.getcwd()))
streams = b"".join(each.to_bytes(4, sys.byteorder) for each in (0, 1, 2))
rights = [(_socket.SOL_SOCKET, _socket.SCM_RIGHTS, streams)]
end.sendmsg([len(order).to_bytes(4, "big")], rights)
end.sendall(order)
def told():
    data = b""
    while len(data) < 4:
        data += end.recv(4 - len(data)) or b"\\x7f" * 4
    return int.from_bytes(data[:4], "big", signed=True)
child = told()
for each in {signals!r}:
    _signal.signal(each, lambda number, frame: os.kill(child, number))
code = told()
if code < 0:
    _signal.signal(-code, _signal.SIG_DFL)
    os.kill(os.getpid(), -code)
os._exit(code)
"""


def send_order(
    end: socket.socket, words: Sequence[str], env: Mapping[str, str], streams: Sequence[int]
) -> None:
    order = marshal.dumps((list(words), dict(env), os.getcwd()))
    socket.send_fds(end, [len(order).to_bytes(4, "big")], streams)
    end.sendall(order)


class Born:
    """One process, with what is used here of `Popen`."""

    def __init__(self, place: str, words: Sequence[str], env: Mapping[str, str]) -> None:
        self._end = socket.socket(socket.AF_UNIX)
        self._end.connect(place)
        theirs_in, ours_in = os.pipe()
        ours_err, theirs_err = os.pipe()
        sink = os.open(os.devnull, os.O_WRONLY)
        try:
            send_order(self._end, words, env, (theirs_in, sink, theirs_err))
        finally:
            for each in (theirs_in, sink, theirs_err):
                os.close(each)
        self.stdin, self.stderr = os.fdopen(ours_in, "wb"), os.fdopen(ours_err, "rb")
        self.pid = self._told()
        self.returncode: int | None = None
        self._ended = threading.Event()
        threading.Thread(target=self._watch, daemon=True).start()

    def _told(self) -> int:
        data = self._end.recv(4, socket.MSG_WAITALL)
        return int.from_bytes(data, "big", signed=True) if data else -signal.SIGKILL

    def _watch(self) -> None:
        with self._end:
            self.returncode = self._told()
        self._ended.set()

    def poll(self) -> int | None:
        return self.returncode

    def wait(self, timeout: float | None = None) -> int | None:
        if not self._ended.wait(timeout):
            raise subprocess.TimeoutExpired(REPLICA, timeout or 0.0)
        return self.returncode

    def kill(self) -> None:
        with suppress(ProcessLookupError):
            if self.returncode is None:
                os.kill(self.pid, signal.SIGKILL)


class Nursery:
    """See the module."""

    PIPE, DEVNULL, TimeoutExpired = subprocess.PIPE, subprocess.DEVNULL, subprocess.TimeoutExpired

    def __enter__(self) -> Nursery:
        self._folder = tempfile.TemporaryDirectory(prefix="nursery-")
        self._place = str(Path(self._folder.name) / "door")
        command = [sys.executable, __file__, self._place]
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        assert self._process.stdout is not None
        assert self._process.stdout.readline() == b"ready\n"
        return self

    def Popen(self, command: Sequence[str], **given: Any) -> Any:
        """A fork where it is a replica of the fake model; else a process as usual."""
        if REPLICA not in command:
            return subprocess.Popen(command, **given)
        return Born(self._place, command[command.index(REPLICA) :], given["env"])

    def program(self, path: Path, script: str = VOXCLI) -> Path:
        """Write a program that starts such a process, which to who starts it is the program."""
        signals = tuple(map(int, SIGNALS))
        path.write_text(_PROGRAM.format(
            python=sys.executable, place=self._place, words=[script], signals=signals
        ))  # fmt: skip
        path.chmod(0o700)
        return path

    def __exit__(self, *_: object) -> None:
        for pipe in (self._process.stdin, self._process.stdout):
            assert pipe is not None
            pipe.close()
        self._process.wait()
        self._folder.cleanup()


# ---------------------------------------------------------------- the process that waits


def fork(end: socket.socket) -> int:
    """Begin what a client orders; its process id."""
    head, streams, _, _ = socket.recv_fds(end, 4, 3)
    order = end.recv(int.from_bytes(head, "big"), socket.MSG_WAITALL)
    child = os.fork()
    if child == 0:
        os.setsid()
        for source, target in zip(streams, range(3), strict=True):
            os.dup2(source, target)
        os.closerange(3, 256)
        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        run(*marshal.loads(order))
    for each in streams:
        os.close(each)
    return child


def run(words: list[str], env: dict[str, str], folder: str) -> None:
    os.environ.clear()
    os.environ.update(env)
    os.chdir(folder)
    sys.argv = words
    started = ["-m", *words] if words[0] == VOXCLI else words
    sys.orig_argv = [sys.executable, *started]
    code = 1
    try:
        if words[0] == VOXCLI:
            from voxcli.__main__ import main

            code = main()
        else:
            runpy.run_path(words[0], run_name="__main__")
    except SystemExit as end:
        code = int(end.code or 0)
    except BaseException:
        sys.excepthook(*sys.exc_info())  # type: ignore[arg-type]
    finally:
        threading._shutdown()
        atexit._run_exitfuncs()  # the program's own end is among them
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


def main() -> None:
    from voxcli import process

    process.own()
    process.own = lambda: None  # once, so that it stays the last at a process's end
    for module in MODULES:
        import_module(module)
    door = socket.socket(socket.AF_UNIX)
    door.bind(sys.argv[1])
    door.listen(64)
    wakes, woken = socket.socketpair()
    for each in (wakes, woken):
        each.setblocking(False)
    signal.set_wakeup_fd(woken.fileno())
    signal.signal(signal.SIGCHLD, lambda *_: None)
    children: dict[int, socket.socket] = {}
    os.write(1, b"ready\n")
    with selectors.DefaultSelector() as selector:
        for file in (0, door, wakes):
            selector.register(file, selectors.EVENT_READ)
        while True:
            ready = {key.fileobj for key, _ in selector.select()}
            if 0 in ready:  # who started this is gone
                return
            if wakes in ready:
                wakes.recv(1 << 10)
            if door in ready:
                end, _ = door.accept()
                child = fork(end)
                children[child] = end
                selector.register(end, selectors.EVENT_READ)
                with suppress(BrokenPipeError):  # who started it may have been ended already
                    end.sendall(child.to_bytes(4, "big"))
            for child, end in children.items():
                if end in ready:  # who started it was killed
                    selector.unregister(end)
                    with suppress(ProcessLookupError):
                        os.kill(child, signal.SIGKILL)
            tell_ended(children, selector)


def tell_ended(children: dict[int, socket.socket], selector: selectors.BaseSelector) -> None:
    for child in list(children):
        ended, status = os.waitpid(child, os.WNOHANG)
        if ended:
            with children.pop(child) as end, suppress(OSError):
                with suppress(KeyError):
                    selector.unregister(end)
                end.sendall(os.waitstatus_to_exitcode(status).to_bytes(4, "big", signed=True))


if __name__ == "__main__":
    main()
