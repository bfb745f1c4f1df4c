"""The process: sockets, signals, the engine's thread and uvicorn, from start to exit code.

It listens while the model loads (`/health` says so). SIGTERM or Ctrl-C: nothing new is taken, what
is spoken may end within the grace time, what is left is told and counted. A second signal ends at
once. An engine that failed cannot be trusted any more: everything in flight fails with its error,
and the server ends, for its owner to start a fresh one.
"""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import socket
import struct
from collections.abc import Callable, Iterable, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Protocol

import uvicorn
from starlette.types import ASGIApp
from uvicorn.protocols.http.h11_impl import H11Protocol

from voxcli.errors import VoxError
from voxcli.server.door import BACKLOG
from voxcli.server.guard import UNIX_PEER
from voxcli.server.heap import give_back
from voxcli.server.worker import EngineWorker, State

logger = logging.getLogger(__name__)

HEAD_S = 30.0  # for the head of a request, from its connection or from the answer before it
LINGER_S = 30.0  # for the rest of an answer to reach its client, once the connection is closed
MAX_CONNECTIONS = 512  # of TCP, and as many of the local socket
# Between two times that lingering connections are looked for and, while anything is spoken, free
# memory goes back to the system. With 10 s between them 32 streams grew by 6 to 14 % in four
# rounds, with 2 s by 2 to 7 %, as fast.
TIDY_S = 2.0
POLL_S = 0.1  # how often a stopping server looks whether its streams have ended


@dataclass(frozen=True)
class Ending:
    """How a server ended.

    Attributes:
        num_aborted: utterances that were cut short.
        error: what the engine failed with, or None.
        signal: that asked for it, or None.
    """

    num_aborted: int
    error: VoxError | None
    signal: int | None


class _Protocol(H11Protocol):
    """HTTP that knows the local socket and lets only its owner in, and neither waits for ever for
    the head of a request nor takes connections without end."""

    _waiting: asyncio.TimerHandle | None = None
    _closed_s: float | None = None
    is_local = False

    def connection_made(self, transport: Any) -> None:
        super().connection_made(transport)
        self._wait_for_head()
        peer = transport.get_extra_info("socket")
        self.is_local = peer is not None and peer.family == getattr(socket, "AF_UNIX", None)
        others = _ours(self.connections)
        if sum(each.is_local is self.is_local for each in others) > MAX_CONNECTIONS:
            transport.abort()
            return
        if not self.is_local:
            return
        if hasattr(socket, "SO_PEERCRED"):
            raw = peer.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("3i"))
            pid, uid, _ = struct.unpack("3i", raw)
            if uid != os.getuid():
                logger.warning("user %d (pid %d) was refused on the local socket", uid, pid)
                transport.abort()
                return
        self.client = (UNIX_PEER, 0)

    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        if self._waiting is not None:
            self._waiting.cancel()

    def on_response_complete(self) -> None:
        before = self.cycle
        super().on_response_complete()
        if self.cycle is before:  # else a request came ahead of its turn, and is answered now
            self._wait_for_head()

    def _wait_for_head(self) -> None:
        """Close the connection where no other request begins in time."""
        if self._waiting is not None:
            self._waiting.cancel()
        self._waiting = self.loop.call_later(HEAD_S, self._close_if_silent, self.cycle)

    def _close_if_silent(self, before: object) -> None:
        if self.cycle is before:
            self.transport.close()

    def end_if_lingering(self, now_s: float) -> None:
        """Drop a connection that is closed and whose client does not take what is left for it."""
        if not self.transport.is_closing():
            return
        self._closed_s = now_s if self._closed_s is None else self._closed_s
        if now_s - self._closed_s > LINGER_S:
            self.transport.abort()


def _ours(connections: Iterable[object]) -> list[_Protocol]:
    return [each for each in connections if isinstance(each, _Protocol)]


class _Uvicorn(uvicorn.Server):
    """uvicorn without its own signals: who started the server decides what they mean."""

    @contextmanager
    def capture_signals(self) -> Any:
        yield


class Beside(Protocol):
    """What answers clients of another protocol, on the same loop."""

    async def start(self) -> None:
        """Take connections."""

    async def close(self) -> None:
        """Take none any more; what is on its way has a moment."""


class ServerProcess:
    """See the module.

    Args:
        app: the application.
        worker: not started yet.
        sockets: bound; closed by this class.
        beside: servers of other protocols.
        grace_s: what is spoken may go on for so long after a signal.
        on_state: told each new state.

    Attributes:
        loop: once it runs; other threads call `stop` through it.
    """

    def __init__(
        self,
        app: ASGIApp,
        worker: EngineWorker,
        sockets: list[socket.socket],
        *,
        beside: Sequence[Beside] = (),
        grace_s: float,
        on_state: Callable[[State], None] = lambda state: None,
    ) -> None:
        config = uvicorn.Config(
            app, http=_Protocol, ws="none", lifespan="off", log_config=None, access_log=False,
            proxy_headers=False, server_header=False, backlog=BACKLOG,
            timeout_keep_alive=30, timeout_graceful_shutdown=2,
        )  # fmt: skip
        self.worker = worker
        self._uvicorn = _Uvicorn(config)
        self._sockets = sockets
        self._beside = beside
        self._grace_s = grace_s
        self._on_state = on_state
        self.loop: asyncio.AbstractEventLoop | None = None
        self._stopping = asyncio.Event()
        self._signal: int | None = None
        self._num_aborted = 0

    def run(self) -> Ending:
        """Serve until told to stop, or until the engine fails."""
        asyncio.run(self._run())
        return Ending(self._num_aborted, self.worker.error, self._signal)

    def stop(self, number: int = signal.SIGTERM) -> None:
        """As the signal does; from the event loop's thread."""
        if self._signal is not None:
            self._grace_s = 0.0
        self._signal = number
        self._stopping.set()

    async def _run(self) -> None:
        loop = self.loop = asyncio.get_running_loop()

        def changed(state: State) -> None:
            loop.call_soon_threadsafe(self._changed, state)

        self.worker.on_state = changed
        for number in (signal.SIGINT, signal.SIGTERM):
            try:
                loop.add_signal_handler(number, self.stop, number)
            except (NotImplementedError, RuntimeError):  # Windows; or not the main thread
                pass
        self.worker.start()
        for each in self._beside:
            await each.start()
        serving = asyncio.create_task(self._uvicorn.serve(self._sockets))
        stopping = asyncio.create_task(self._stopping.wait())
        tidying = asyncio.create_task(self._tidy())
        await asyncio.wait((serving, stopping), return_when=asyncio.FIRST_COMPLETED)
        tidying.cancel()
        await self._end()
        for each in self._beside:
            await each.close()
        self._uvicorn.should_exit = True
        await serving
        stopping.cancel()

    def _changed(self, state: State) -> None:
        self._on_state(state)
        if state is State.FAILED:
            self._stopping.set()

    async def _tidy(self) -> None:
        loop = asyncio.get_running_loop()
        was_busy = True
        while True:
            await asyncio.sleep(TIDY_S)
            for connection in _ours(self._uvicorn.server_state.connections):
                connection.end_if_lingering(loop.time())
            is_busy = self.worker.num_running > 0
            if is_busy or was_busy:
                await asyncio.to_thread(give_back)
            was_busy = is_busy

    async def _end(self) -> None:
        loop = asyncio.get_running_loop()
        self.worker.drain()
        started_s = loop.time()
        while self.worker.num_running and loop.time() - started_s < self._grace_s:
            await asyncio.sleep(POLL_S)
        self._num_aborted = await asyncio.to_thread(self.worker.stop)
