"""A TCP proxy before a server, which can be told to spoil what passes through it."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress

UNAVAILABLE = (
    b"HTTP/1.1 503 Service Unavailable\r\nContent-Type: text/plain\r\n"
    b"Content-Length: 5\r\nConnection: close\r\n\r\nlater"
)


class Proxy:
    """See the module.

    Attributes:
        url: where it listens; stays the same whatever becomes of the server behind it.
        target: host and port of the server; None where nobody is there, so connections are reset.
        is_unavailable: answer 503 itself.
        is_hanging: pass on nothing more, and keep every connection open.
        cut_after: bytes of an answer after which its connection is reset, once each.
        num_connections: that were accepted.
        num_unavailable: that were answered 503.
    """

    def __init__(self, target: tuple[str, int]) -> None:
        self._listener = socket.create_server(("127.0.0.1", 0), backlog=128)
        self.url = f"http://127.0.0.1:{self._listener.getsockname()[1]}"
        self.target: tuple[str, int] | None = target
        self.is_unavailable = self.is_hanging = False
        self.cut_after: list[int] = []
        self.num_connections = self.num_unavailable = 0
        self._open: set[socket.socket] = set()
        self._lock = threading.Lock()
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                self.num_connections += 1
                threading.Thread(target=self._serve, args=(client,), daemon=True).start()

    def _serve(self, client: socket.socket) -> None:
        with suppress(OSError), self._held(client):
            if self.is_hanging:
                client.recv(1, socket.MSG_PEEK)
                self._wait_for_end(client)
                return
            if self.is_unavailable:
                client.recv(1 << 20)
                client.sendall(UNAVAILABLE)
                self.num_unavailable += 1
                return
            if self.target is None:
                return
            with socket.create_connection(self.target) as server, self._held(server):
                pump = threading.Thread(target=self._pump, args=(client, server), daemon=True)
                pump.start()
                limit = self.cut_after.pop() if self.cut_after else None
                self._pump(server, client, limit)

    def _pump(self, source: socket.socket, drain: socket.socket, limit: int | None = None) -> None:
        passed = 0
        with suppress(OSError):
            while data := source.recv(1 << 16):
                if self.is_hanging:
                    self._wait_for_end(source)
                    return
                if limit is not None and passed + len(data) > limit:
                    drain.sendall(data[: limit - passed])
                    break
                drain.sendall(data)
                passed += len(data)
        for each in (source, drain):
            with suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)

    def _wait_for_end(self, one: socket.socket) -> None:
        while self.is_hanging and one.recv(1 << 16):
            pass

    @contextmanager
    def _held(self, one: socket.socket) -> Iterator[None]:
        with self._lock:
            self._open.add(one)
        try:
            yield
        finally:
            with self._lock:
                self._open.discard(one)
            one.close()

    def drop_all(self) -> None:
        """Reset every connection, as a server that is killed does."""
        with self._lock:
            for one in self._open:
                with suppress(OSError):
                    one.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        self._listener.close()
        self.is_hanging = False
        self.drop_all()


@contextmanager
def proxy_of(url: str) -> Iterator[Proxy]:
    """A proxy before the server at a URL."""
    host, port = url.removeprefix("http://").split(":")
    proxy = Proxy((host, int(port)))
    try:
        yield proxy
    finally:
        proxy.close()
