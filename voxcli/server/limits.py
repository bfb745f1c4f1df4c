"""What a server is told to be: where it listens and how much it takes on, checked at once.

Imports nothing heavy, so that a command refuses nonsense before anything loads.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from urllib.parse import urlsplit

from voxcli.errors import UsageError

ANY_ORIGIN = "*"
LOOPBACK = ("localhost", "127.0.0.1", "::1")
MIN_KEY = 8  # characters
MAX_RESTARTS, WINDOW_S = 3, 600.0  # one more fault within this time is one too many


@dataclass(frozen=True)
class Listening:
    """Where a server listens and who may ask.

    Attributes:
        port: of TCP; None for the local socket alone.
        grace_s: what is spoken may go on for so long after a signal.
        idle_s: it ends when nobody asked it anything for so long; None for never.
        origins: of web pages elsewhere that may use the server, as browsers write them.
        wyoming: address and port for clients of that protocol; None for none.
    """

    host: str = "127.0.0.1"
    port: int | None = 8091
    api_key: str | None = None
    grace_s: float = 30.0
    origins: tuple[str, ...] = ()
    wyoming: tuple[str, int] | None = None
    idle_s: float | None = None

    def __post_init__(self) -> None:
        if self.port is not None and not 0 <= self.port <= 65535:
            raise UsageError(f"--port is {self.port}", hint="give 1 to 65535, or 0 for a free one")
        if not 0 <= self.grace_s < float("inf"):
            raise UsageError(f"--grace is {self.grace_s:g}", hint="give seconds, 0 or more")
        if self.idle_s is not None and not 0 < self.idle_s < float("inf"):
            raise UsageError(f"--idle is {self.idle_s:g}", hint="give seconds above 0")
        if self.api_key is not None and len(self.api_key) < MIN_KEY:
            raise UsageError(
                f"the API key has fewer than {MIN_KEY} characters", hint="use a longer one"
            )
        if self.api_key is None and self.host not in LOOPBACK:
            raise UsageError(
                f"--host {self.host} can be reached by others and no API key is set",
                hint="set VOXCLI_API_KEY or --api-key, or listen on 127.0.0.1",
            )

        for origin in self.origins:
            check_origin(origin, has_key=self.api_key is not None)

    @property
    def hosts(self) -> tuple[str, ...]:
        """Names that requests may be addressed to; any, where a key is asked for."""
        return () if self.api_key else LOOPBACK


@dataclass(frozen=True)
class WorkerLimits:
    """How much is taken on.

    Attributes:
        max_streams: utterances spoken at once.
        max_queue: utterances that may wait for one of these to end.
    """

    max_streams: int = 16
    max_queue: int = 64

    def __post_init__(self) -> None:
        if self.max_streams < 1:
            raise UsageError(f"--max-streams is {self.max_streams}", hint="give 1 or more")
        if self.max_queue < 0:
            raise UsageError(f"--max-queue is {self.max_queue}", hint="give 0 or more")


def check_origin(origin: str, *, has_key: bool) -> None:
    """Raise UsageError unless it is an origin as browsers write it, or all of them with a key."""
    if origin == ANY_ORIGIN:
        if not has_key:
            raise UsageError(
                "--allow-origin '*' lets every web page use this server and no API key is set",
                hint="name the pages' origins, or set VOXCLI_API_KEY",
            )
        return
    try:
        parts = urlsplit(origin)
        default = {"http": 80, "https": 443}.get(parts.scheme)
        is_plain = origin == f"{parts.scheme}://{parts.netloc}" and origin == origin.lower()
        is_origin = is_plain and bool(parts.hostname) and parts.port != (default or -1)
        is_origin = is_origin and not {"@", "*"} & set(parts.netloc)
    except ValueError:  # a bracket or a port that is none
        is_origin = False
    if not is_origin:
        raise UsageError(
            f"--allow-origin is '{origin}'",
            hint="give scheme, host and port as a browser does: http://localhost:3000",
        )


def wyoming_at(given: str, host: str) -> tuple[str, int]:
    """Address and port of `--wyoming`, given as PORT or ADDRESS:PORT.

    Args:
        host: of the server.

    Raises:
        UsageError: it is neither; or a port alone, where the server's host can be reached by
            others. The protocol has no key, so that has to be asked for.
    """
    address, _, port = given.rpartition(":")
    address = address.removeprefix("[").removesuffix("]") or host
    if not (port.isascii() and port.isdecimal() and len(port) <= 5 and int(port) <= 65535):
        raise UsageError(f"--wyoming is '{given}'", hint="give a port, or address and port")
    if ":" not in given and host not in LOOPBACK:
        raise UsageError(
            f"--wyoming {given} would let all who reach {host} speak, since Wyoming has no keys",
            hint=f"give --wyoming 127.0.0.1:{port}, or {host}:{port} where that is meant",
        )
    return address, int(port)


def recent(faults: Sequence[float]) -> list[float]:
    """The faults within the window before the last one; more than `MAX_RESTARTS` are too many.

    Args:
        faults: when they were, on `time.monotonic`; at least one.
    """
    return [at_s for at_s in faults if at_s > faults[-1] - WINDOW_S]
