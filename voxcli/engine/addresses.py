"""Addresses of servers: which of them are one, and which have the other scheme. No speech."""

from __future__ import annotations

import http.client
import ipaddress
import socket
import ssl
from contextlib import closing, suppress
from urllib.parse import urlsplit

LOOK_S = 2.0  # at a port, for what it speaks
PORTS = {"http": 80, "https": 443}
TLS_RECORDS = (b"\x15", b"\x16")  # an alert, a handshake: types of a server's first record
_HERE = "localhost"


def key_of(url: str) -> tuple[str, str, int | None, str]:
    """Equal for addresses of one server: scheme, host, port, path.

    `localhost` and the addresses that it stands for are one; so are ways to write a name.
    """
    parts = urlsplit(url)
    host = (parts.hostname or "").removesuffix(".")
    try:
        address = ipaddress.ip_address(host)
        mapped = getattr(address, "ipv4_mapped", None)
        host = str(mapped or address)
        if host in ("127.0.0.1", "::1") or address.is_unspecified:
            host = _HERE
    except ValueError:  # a name
        pass
    port = PORTS.get(parts.scheme) if parts.port is None else parts.port
    return parts.scheme, host, port, parts.path.rstrip("/")


def of_other_scheme(url: str) -> str | None:
    """The same address with http for https, or https for http, where that is what its port speaks
    instead; None where it is not, or nothing answers within a few seconds."""
    scheme, rest = url.split("://", 1)
    parts = urlsplit(url)
    where = (parts.hostname or "", parts.port or PORTS[parts.scheme])
    try:
        with closing(socket.create_connection(where, LOOK_S)) as plain:
            is_other = _speaks_http(plain) if parts.scheme == "https" else _speaks_tls(plain)
    except (OSError, http.client.HTTPException):
        return None
    if not is_other:
        return None
    return f"{'http' if scheme.lower() == 'https' else 'https'}://{rest}"


def _speaks_tls(plain: socket.socket) -> bool:
    """Whether a handshake is answered, if only with an alert."""
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    hello = ssl.MemoryBIO()
    # NOTE: `wrap_socket` would leave the socket open if its other end is gone by then
    with suppress(ssl.SSLWantReadError):
        context.wrap_bio(ssl.MemoryBIO(), hello).do_handshake()
    plain.sendall(hello.read())
    return plain.recv(1) in TLS_RECORDS


def _speaks_http(plain: socket.socket) -> bool:
    plain.sendall(b"HEAD / HTTP/1.0\r\n\r\n")
    return plain.recv(5) == b"HTTP/"
