"""Connections of uvicorn, HTTP and WebSocket: who may open one, how many, and how long they wait.

They know the local socket, and let only its owner in.
"""

from __future__ import annotations

import asyncio
import logging
import os
import socket
import struct
from collections.abc import Iterable
from typing import Any

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol
from uvicorn.protocols.utils import ClientDisconnected
from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol
from websockets.frames import CloseCode

from voxcli.server.guard import UNIX_PEER

logger = logging.getLogger(__name__)

HEAD_S = 30.0  # for the head of a request, from its connection or from the answer before it
LINGER_S = 30.0  # for the rest of an answer to reach its client, once the connection is closed
MAX_CONNECTIONS = 512  # of TCP, and as many of the local socket
READ_BYTES = 1 << 14  # of a WebSocket at once: thousands of frames, for which all others wait
MAX_FRAGMENTS = 10_000  # of one message; those that are empty count for nothing else


class _Lingering:
    """A connection that is closed may linger until its client has taken what is left, not for
    ever."""

    transport: Any
    is_local = False
    _closed_s: float | None = None

    def look_who(self, transport: Any) -> socket.socket | None:
        """The socket of a connection that was made; says whether it is local."""
        peer: socket.socket | None = transport.get_extra_info("socket")
        self.is_local = peer is not None and peer.family == getattr(socket, "AF_UNIX", None)
        return peer

    def end_if_lingering(self, now_s: float) -> None:
        """Drop a connection that is closed and whose client does not take what is left for it."""
        if not self.transport.is_closing():
            return
        self._closed_s = now_s if self._closed_s is None else self._closed_s
        if now_s - self._closed_s > LINGER_S:
            self.transport.abort()


class HttpConnection(_Lingering, H11Protocol):
    """HTTP that neither waits for ever for the head of a request nor takes connections without
    end."""

    _waiting: asyncio.TimerHandle | None = None

    def connection_made(self, transport: Any) -> None:
        super().connection_made(transport)
        self._wait_for_head()
        peer = self.look_who(transport)
        others = ours(self.connections)
        if sum(each.is_local is self.is_local for each in others) > MAX_CONNECTIONS:
            transport.abort()
            return
        if not self.is_local:
            return
        if hasattr(socket, "SO_PEERCRED") and peer is not None:
            raw = peer.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("3i"))
            pid, uid, _ = struct.unpack("3i", raw)
            if uid != os.getuid():
                logger.warning("user %d (pid %d) was refused on the local socket", uid, pid)
                transport.abort()
                return
        self.client = (UNIX_PEER, 0)

    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        self._stop_waiting()

    def handle_websocket_upgrade(self, event: Any) -> None:
        self._stop_waiting()  # who answers now has times of its own
        super().handle_websocket_upgrade(event)

    def send_400_response(self, msg: str) -> None:
        """End the connection of a client that sends no HTTP, also where it is being answered: what
        else is said to it goes nowhere."""
        if self.cycle is not None:
            self.cycle.disconnected = True
        if self.conn.our_state in (h11.IDLE, h11.SEND_RESPONSE):
            super().send_400_response(msg)
        self.transport.close()

    def on_response_complete(self) -> None:
        before = self.cycle
        super().on_response_complete()
        if self.cycle is before:  # else a request came ahead of its turn, and is answered now
            self._wait_for_head()

    def _wait_for_head(self) -> None:
        """Close the connection where no other request begins in time."""
        self._stop_waiting()
        self._waiting = self.loop.call_later(HEAD_S, self._close_if_silent, self.cycle)

    def _stop_waiting(self) -> None:
        if self._waiting is not None:
            self._waiting.cancel()

    def _close_if_silent(self, before: object) -> None:
        if self.cycle is before:
            self.transport.close()


class LiveConnection(_Lingering, WebSocketsSansIOProtocol):
    """A WebSocket that holds no more of its client than one message and what answers it."""

    def connection_made(self, transport: Any) -> None:
        super().connection_made(transport)
        transport.max_size = READ_BYTES
        self.look_who(transport)
        if self.is_local:  # and its owner's, as was found before the upgrade
            self.client = (UNIX_PEER, 0)

    async def send(self, message: Any) -> None:
        await self.writable.wait()
        if self.close_sent and self.initial_response is None:  # by us, for what the client sent
            raise ClientDisconnected
        await super().send(message)
        if self.close_sent:  # a refusal is an answer too, else uvicorn logs that there was none
            self.handshake_complete = True

    def handle_ping(self) -> None:
        if self.writable.is_set():
            super().handle_ping()
        else:  # who takes no answers needs none
            self.conn.data_to_send()

    def handle_cont(self, event: Any) -> None:
        if len(self.frames) < MAX_FRAGMENTS:
            super().handle_cont(event)
            return
        self.frames = []
        self.conn.fail(CloseCode.MESSAGE_TOO_BIG, f"more than {MAX_FRAGMENTS} fragments")
        self.handle_parser_exception()


def ours(connections: Iterable[object]) -> list[HttpConnection | LiveConnection]:
    """Those that are open."""
    return [each for each in connections if isinstance(each, HttpConnection | LiveConnection)]
