"""A server on loopback that answers as it is told, and sees when a client goes away."""

from __future__ import annotations

import asyncio
import base64
import json
import ssl
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from needs import PATIENCE_S

from voxcli.closing import Closing
from voxcli.engine.calls import LoopThread

FOLDER = Path(__file__).parent / "inputs" / "omni_http"
SPEECH = ("POST", "/v1/audio/speech")
CLEAN, CUT, HANGING = "clean", "cut", "hanging"


@dataclass(frozen=True)
class Answer:
    """What is answered.

    Attributes:
        pieces: of the body, each sent by itself; as HTTP chunks unless the headers have a length.
        end: `CLEAN`; `CUT`, without the last chunk; `HANGING`, open until the client goes.
    """

    status: int = 200
    headers: dict[str, str] = field(default_factory=dict)
    pieces: tuple[bytes, ...] = ()
    end: str = CLEAN

    def split(self, size: int) -> Answer:
        """The same body in pieces of so many bytes; 0 sends it in one."""
        body = b"".join(self.pieces)
        size = size or max(1, len(body))
        pieces = tuple(body[at : at + size] for at in range(0, len(body), size))
        return replace(self, pieces=pieces)


def as_json(value: Any, status: int = 200) -> Answer:
    return Answer(status, {"content-type": "application/json"}, (json.dumps(value).encode(),))


def exchange(name: str) -> dict[str, Any]:
    """A file of `tests/inputs/omni_http`."""
    found: dict[str, Any] = json.loads((FOLDER / f"{name}.json").read_text("utf-8"))
    return found


def answer(name: str) -> Answer:
    """The answer in a file."""
    response = exchange(name)["response"]
    kind = response["kind"]
    if kind == "json":
        pieces = [json.dumps(response["json"]).encode()]
    elif kind == "text":
        pieces = [response["text"].encode()]
    elif kind == "bytes":
        pieces = [base64.b64decode(response["base64"])]
    elif kind == "chunks":
        pieces = [base64.b64decode(chunk) for chunk in response["base64_chunks"]]
    else:
        assert kind == "sse", kind
        pieces = [
            f"event: {event['event']}\ndata: "
            f"{json.dumps(event['data'], separators=(',', ':'))}\n\n".encode()
            for event in response["events"]
        ]
    return Answer(response["status"], response["headers"], tuple(pieces), response["end"])


class Replay(Closing):
    """See the module.

    Args:
        answers: by method and path; several for one path are given in turn, the last for ever.
            A path that is not here is 404.
        tls: of a server that speaks https; None speaks plain HTTP.

    Attributes:
        requests: method, path, headers and body of each, as they came.
        num_opened: connections.
        num_spoken: requests for speech.
        num_left: answers whose client went away before their end.
        hang_before_headers: answer requests for speech with nothing at all.
    """

    def __init__(
        self,
        answers: dict[tuple[str, str], Answer | Iterable[Answer]],
        tls: ssl.SSLContext | None = None,
    ) -> None:
        self.requests: list[tuple[str, str, dict[str, str], bytes]] = []
        self.num_opened = self.num_spoken = self.num_left = 0
        self.hang_before_headers = False
        self._answers = {
            key: [value] if isinstance(value, Answer) else list(value)
            for key, value in answers.items()
        }
        self._loop = LoopThread("replay")
        self._server = self._loop.run(asyncio.start_server(self._serve, "127.0.0.1", 0, ssl=tls))
        self.url = (
            f"http{'s' if tls else ''}://127.0.0.1:{self._server.sockets[0].getsockname()[1]}"
        )

    @property
    def spoken(self) -> list[dict[str, Any]]:
        """The bodies of requests for speech."""
        return [json.loads(body) for *where, _, body in self.requests if tuple(where) == SPEECH]

    def set(self, key: tuple[str, str], *answers: Answer) -> None:
        self._answers[key] = list(answers)

    def wait(self, is_so: str, value: int) -> None:
        """Wait until an attribute has a value."""

        async def watch() -> None:
            while getattr(self, is_so) != value:
                await asyncio.sleep(0.001)

        self._loop.run(watch(), PATIENCE_S)

    def close(self) -> None:
        """Always safe."""
        if not self._server.is_serving():
            return

        async def stop() -> None:
            self._server.close()

        self._loop.run(stop(), PATIENCE_S)
        self._loop.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.num_opened += 1
        try:
            while await self._exchange(reader, writer):
                pass
        except (asyncio.IncompleteReadError, asyncio.CancelledError, OSError):
            pass
        finally:
            writer.close()
            with suppress(OSError, asyncio.CancelledError):
                await writer.wait_closed()

    async def _exchange(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
        method, path, _ = head[0].split(" ")
        headers = {
            name.lower(): value.strip()
            for name, _, value in (line.partition(":") for line in head[1:] if line)
        }
        body = await reader.readexactly(int(headers.get("content-length", 0)))
        self.requests.append((method, path, headers, body))
        self.num_spoken += (method, path) == SPEECH
        if self.hang_before_headers and (method, path) == SPEECH:
            await reader.read(1)
            self.num_left += 1
            return False
        answers = self._answers.get((method, path), [as_json({"detail": "Not Found"}, 404)])
        found = answers.pop(0) if len(answers) > 1 else answers[0]
        return await self._send(found, reader, writer)

    async def _send(
        self, found: Answer, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> bool:
        """Whether the connection goes on."""
        left = asyncio.ensure_future(reader.read(1)) if found.end == HANGING else None
        is_chunked = "content-length" not in found.headers
        headers = {**found.headers, **({"transfer-encoding": "chunked"} if is_chunked else {})}
        lines = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
        writer.write(f"HTTP/1.1 {found.status} X\r\n{lines}\r\n".encode("latin-1"))
        try:
            for piece in found.pieces:
                writer.write(b"%x\r\n%s\r\n" % (len(piece), piece) if is_chunked else piece)
                await writer.drain()
            if left is not None:
                await left
                self.num_left += 1
                return False
        except OSError:
            self.num_left += 1
            raise
        if found.end == CUT:
            return False
        if is_chunked:
            writer.write(b"0\r\n\r\n")
            await writer.drain()
        return True
