"""Processes that begin with everything imported, for tests that start many: forks of one that only
waits. To who starts them they are as from `subprocess.Popen`.

    with Nursery() as nursery:
        process = nursery.popen([sys.executable, REPLICA, "serve"], env=..., ...)

    python tests/server/nursery.py SOCKET      the process that waits
"""

from __future__ import annotations

import json
import os
import selectors
import signal
import socket
import subprocess
import sys
import tempfile
import threading
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
REPLICA = str(HERE / "replica.py")


class Born:
    """One process, with what is used here of `Popen`."""

    def __init__(self, place: str, words: Sequence[str], env: Mapping[str, str]) -> None:
        self._end = socket.socket(socket.AF_UNIX)
        self._end.connect(place)
        theirs_in, ours_in = os.pipe()
        ours_err, theirs_err = os.pipe()
        try:
            order = json.dumps({"words": list(words), "env": dict(env)}).encode() + b"\n"
            socket.send_fds(self._end, [order], [theirs_in, theirs_err])
        finally:
            os.close(theirs_in)
            os.close(theirs_err)
        self.stdin, self.stderr = os.fdopen(ours_in, "wb"), os.fdopen(ours_err, "rb")
        self._said = self._end.makefile("r", encoding="ascii")
        self.pid = int(self._said.readline())
        self.returncode: int | None = None
        self._ended = threading.Event()
        threading.Thread(target=self._watch, daemon=True).start()

    def _watch(self) -> None:
        with self._end, self._said:
            self.returncode = int(self._said.readline() or -signal.SIGKILL)
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

    def __exit__(self, *_: object) -> None:
        for pipe in (self._process.stdin, self._process.stdout):
            assert pipe is not None
            pipe.close()
        self._process.wait()
        self._folder.cleanup()


# ---------------------------------------------------------------- the process that waits


def fork(end: socket.socket) -> int:
    """Begin what a client orders; its process id."""
    order, descriptors, _, _ = socket.recv_fds(end, 1 << 20, 2)
    while not order.endswith(b"\n"):
        order += end.recv(1 << 20)
    child = os.fork()
    if child == 0:
        os.setsid()
        sink = os.open(os.devnull, os.O_WRONLY)
        for source, target in zip((descriptors[0], sink, descriptors[1]), range(3), strict=True):
            os.dup2(source, target)
        os.closerange(3, 256)
        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        run(json.loads(order))
    for each in descriptors:
        os.close(each)
    return child


def run(order: dict[str, Any]) -> None:
    import replica

    os.environ.clear()
    os.environ.update(order["env"])
    sys.argv = order["words"]
    code = 1
    try:
        code = replica.main()
    except SystemExit as end:
        code = int(end.code or 0)
    finally:
        sys.stderr.flush()
        os._exit(code)


def main() -> None:
    sys.path.insert(0, str(HERE))
    import replica  # noqa: F401 with all that takes long

    import voxcli.server.launch  # noqa: F401

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
                tell_ended(children)
            if door in ready:
                end, _ = door.accept()
                child = fork(end)
                children[child] = end
                end.sendall(f"{child}\n".encode())
                tell_ended(children)


def tell_ended(children: dict[int, socket.socket]) -> None:
    for child in list(children):
        ended, status = os.waitpid(child, os.WNOHANG)
        if ended:
            with children.pop(child) as end, suppress(OSError):
                end.sendall(f"{os.waitstatus_to_exitcode(status)}\n".encode())


if __name__ == "__main__":
    main()
