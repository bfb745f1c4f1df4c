"""HTTP to one server on one event loop: pooled connections, deadlines, bounds. No speech.

Redirects are not followed, nothing is compressed, and no proxy of the environment is used: a key
goes to the server that was named and nowhere else.
"""

from __future__ import annotations

import asyncio
import json
import ssl
from collections.abc import AsyncIterator, Coroutine, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit, urlunsplit

import httpx

from voxcli import __version__
from voxcli.engine.openai.failures import KEY_HINT, failure, in_one_line
from voxcli.errors import UnavailableError, UsageError, VoxError

CONNECT_S = 5.0
MAX_JSON = 8 << 20  # bytes of a list or a description
MAX_REFUSAL = 1 << 16  # bytes that are read of a refusal
_ABSENT = (404, 405, 501)


@dataclass(frozen=True)
class Limits:
    """How long a server may take.

    Attributes:
        first_s: until the first samples. The time that a request waits in a queue is in it, and
            servers of this kind have no other sign of a queue.
        silence_s: from one piece to the next.
        slowest: seconds for each second of audio that was allowed, behind the first.
    """

    first_s: float = 300.0
    silence_s: float = 60.0
    slowest: float = 60.0


def base_of(url: str) -> str:
    """A server's address without the path of its interface.

    Raises:
        UsageError: no address.
    """
    try:
        httpx.URL(url)
        parts = urlsplit(url)
        is_address = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
        is_address &= url.isprintable() and " " not in url
    except (ValueError, httpx.InvalidURL):
        is_address = False
    if not is_address:
        raise UsageError(f"{in_one_line(url)} is not an address", hint="give http://HOST:PORT")
    if "@" in parts.netloc:
        raise UsageError("an address must not have a password", hint=KEY_HINT)
    path = parts.path.rstrip("/").removesuffix("/v1")
    return urlunsplit((parts.scheme, parts.netloc, path, "", ""))


class Transport:
    """Requests to a server.

    Args:
        url: see `base_of`.
        api_key: of the server; None sends none.

    Attributes:
        name: what messages call it.
    """

    def __init__(self, url: str, api_key: str | None = None) -> None:
        self.url = base_of(url)
        self.name = f"the server at {self.url}"
        headers = {"Accept-Encoding": "identity", "User-Agent": f"voxcli/{__version__}"}
        if api_key:
            if not (api_key.isascii() and api_key.isprintable()):
                raise UsageError("VOXCLI_API_KEY has characters that no key has", hint="correct it")
            headers["Authorization"] = f"Bearer {api_key}"
        self._client = httpx.AsyncClient(
            headers=headers,
            timeout=httpx.Timeout(None, connect=CONNECT_S),
            limits=httpx.Limits(max_connections=None, max_keepalive_connections=64),
            verify=ssl.create_default_context() if self.url.startswith("https") else False,
            trust_env=False,
            follow_redirects=False,
        )

    async def get(self, path: str, timeout_s: float) -> Any | None:
        """What a path answers as JSON; None where the server has none.

        Raises:
            VoxError: it refuses, fails or does not answer.
        """
        with self.explained():
            async with asyncio.timeout(timeout_s):
                async with self._asked("GET", path, None) as response:
                    if response.status_code in _ABSENT:
                        return None
                    if response.status_code != 200:
                        raise await self.refusal(response)
                    body = await _beginning(response, MAX_JSON)
        if len(body) > MAX_JSON:
            raise UnavailableError(f"what {self.name} says at {path} has no end")
        try:
            return json.loads(body)
        except (ValueError, RecursionError):
            return None

    async def status_of(self, path: str, timeout_s: float) -> int | None:
        """The status of a path; None where nothing answers in time."""
        try:
            async with asyncio.timeout(timeout_s):
                async with self._asked("GET", path, None) as response:
                    return response.status_code
        except (httpx.HTTPError, httpx.InvalidURL, OSError, TimeoutError):
            return None

    @asynccontextmanager
    async def post(self, path: str, body: bytes) -> AsyncIterator[httpx.Response]:
        """Ask; the answer's body is read by the caller, and ends with the block.

        Raises:
            httpx.HTTPError: see `explained`.
        """
        async with self._asked("POST", path, body) as response:
            yield response

    async def refusal(self, response: httpx.Response) -> VoxError:
        """The error that an answer is."""
        return failure(response.status_code, response.headers, await beginning(response), self.name)

    @contextmanager
    def explained(self, when: str = "while it was asked") -> Iterator[None]:
        """Turn what a server looks like that is gone, or that hangs, into one error."""
        try:
            yield
        except (httpx.TimeoutException, TimeoutError) as err:
            raise UnavailableError(f"{self.name} did not answer in time {when}") from err
        except (httpx.HTTPError, OSError) as err:
            why = in_one_line(str(err)) or type(err).__name__
            raise UnavailableError(f"{self.name} went away {when}: {why}") from err

    async def close(self) -> None:
        """Close every connection; always safe."""
        await self._client.aclose()

    @asynccontextmanager
    async def _asked(
        self, method: str, path: str, body: bytes | None
    ) -> AsyncIterator[httpx.Response]:
        if self._client.is_closed:
            raise httpx.TransportError("it was closed here")
        headers = {} if body is None else {"Content-Type": "application/json"}
        request = self._client.build_request(
            method, f"{self.url}{path}", content=body, headers=headers
        )
        response = await self._client.send(request, stream=True)
        try:
            yield response
        finally:
            await _undisturbed(response.aclose())


async def _undisturbed(work: Coroutine[Any, Any, None]) -> None:
    """Do it to its end, also where who waits is cancelled: a connection that is half closed would
    be kept, and never used again."""
    working = asyncio.create_task(work)
    try:
        await asyncio.shield(working)
    except asyncio.CancelledError:
        await asyncio.wait((working,))
        raise


def pieces_of(response: httpx.Response) -> AsyncIterator[bytes]:
    """The body as it comes.

    NOTE: httpx's own iterators close the answer at its end, and closing must not be disturbed.
    """
    assert isinstance(response.stream, httpx.AsyncByteStream)
    return aiter(response.stream)


async def _beginning(response: httpx.Response, limit: int) -> bytes:
    """The body, or one byte and some more than the limit of it."""
    found = bytearray()
    async for data in pieces_of(response):
        found += data
        if len(found) > limit:
            break
    return bytes(found)


async def beginning(response: httpx.Response) -> bytes:
    """As much of a refusal as is worth reading."""
    return await _beginning(response, MAX_REFUSAL)
