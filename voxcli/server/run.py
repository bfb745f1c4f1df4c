"""The process: sockets, signals, the engine's thread and uvicorn, from start to exit code.

It listens while the model loads (`/health` says so). SIGTERM or Ctrl-C: nothing new is taken, what
is spoken may end within the grace time, what is left is told and counted. A second signal ends at
once. An engine that failed cannot be trusted any more: everything in flight fails with its error,
and the server ends, for its owner to start a fresh one.
"""

from __future__ import annotations

import asyncio
import signal
import socket
from collections.abc import Callable, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Protocol

import uvicorn
from starlette.types import ASGIApp

from voxcli.errors import VoxError
from voxcli.server.connections import HttpConnection, LiveConnection, ours
from voxcli.server.door import BACKLOG
from voxcli.server.guard import CONFIG_BYTES
from voxcli.server.heap import give_back
from voxcli.server.worker import EngineWorker, State

# Between two times that lingering connections are looked for and, while anything is spoken, free
# memory goes back to the system. With 10 s between them 32 streams grew by 6 to 14 % in four
# rounds, with 2 s by 2 to 7 %, as fast.
TIDY_S = 2.0
IDLE_LOOK_S = 1.0  # how often a server that ends when it is idle looks whether it is
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
        idle_s: see `Listening`.
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
        idle_s: float | None = None,
        on_state: Callable[[State], None] = lambda state: None,
    ) -> None:
        config = uvicorn.Config(
            app, http=HttpConnection, ws=LiveConnection, lifespan="off", log_config=None,
            access_log=False, proxy_headers=False, server_header=False, backlog=BACKLOG,
            timeout_keep_alive=30, timeout_graceful_shutdown=2,
            # pings keep proxies from closing; the answers to them wait behind text that waits
            ws_max_size=CONFIG_BYTES, ws_per_message_deflate=False, ws_ping_timeout=None,
        )  # fmt: skip
        self.worker = worker
        self._uvicorn = _Uvicorn(config)
        self._sockets = sockets
        self._beside = beside
        self._grace_s = grace_s
        self._idle_s = idle_s
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
        tasks = [asyncio.create_task(self._tidy())]
        if self._idle_s is not None:
            tasks.append(asyncio.create_task(self._end_when_idle(self._idle_s)))
        await asyncio.wait((serving, stopping), return_when=asyncio.FIRST_COMPLETED)
        for task in tasks:
            task.cancel()
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

    async def _end_when_idle(self, idle_s: float) -> None:
        """End when the engine is ready and nobody asks it anything for so long."""
        loop = asyncio.get_running_loop()
        used_s, num_before = loop.time(), -1
        while loop.time() - used_s < idle_s:
            await asyncio.sleep(min(idle_s, IDLE_LOOK_S))
            worker, num_asked = self.worker, self._uvicorn.server_state.total_requests
            is_busy = worker.num_running + worker.num_waiting or worker.state is State.LOADING
            if is_busy or num_asked != num_before:
                used_s, num_before = loop.time(), num_asked
        self._stopping.set()

    async def _tidy(self) -> None:
        loop = asyncio.get_running_loop()
        was_busy = True
        while True:
            await asyncio.sleep(TIDY_S)
            for connection in ours(self._uvicorn.server_state.connections):
                connection.end_if_lingering(loop.time())
            is_busy = self.worker.num_running > 0
            if is_busy or was_busy:
                await asyncio.to_thread(give_back)
            was_busy = is_busy

    async def _end(self) -> None:
        loop = asyncio.get_running_loop()
        self.worker.drain()
        started_s = loop.time()
        while self._is_speaking() and loop.time() - started_s < self._grace_s:
            await asyncio.sleep(POLL_S)
        self._num_aborted = await asyncio.to_thread(self.worker.stop)

    def _is_speaking(self) -> bool:
        """Whether anything is spoken, or a WebSocket is open, which ends by itself then."""
        connections = ours(self._uvicorn.server_state.connections)
        is_live = any(isinstance(each, LiveConnection) for each in connections)
        return is_live or self.worker.num_running > 0
