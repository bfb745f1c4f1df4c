"""A client of the WebSocket, and what it heard."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from needs import PATIENCE_S
from running import Running
from websockets.exceptions import ConnectionClosed
from websockets.sync import client
from websockets.sync.client import ClientConnection

from voxcli.server.live import PATH

Event = dict[str, Any]


@dataclass
class Talk:
    """One connection; events and audio in the order they came.

    Attributes:
        created: what answered the configuration.
    """

    socket: ClientConnection
    created: Event = field(default_factory=dict)
    events: list[Event] = field(default_factory=list)
    audio: bytes = b""

    def say(self, kind: str, **fields: Any) -> None:
        self.socket.send(json.dumps({"type": kind, **fields}))

    def write(self, *texts: str) -> None:
        for text in texts:
            self.say("input.text", text=text)

    def hear(self, timeout_s: float = PATIENCE_S) -> Event | bytes:
        """The next event or piece of audio."""
        came = self.socket.recv(timeout_s)
        if isinstance(came, bytes):
            self.audio += came
            return came
        event: Event = json.loads(came)
        self.events.append(event)
        return event

    def until(self, kind: str) -> Event:
        """Hear on until an event of this type."""
        while True:
            came = self.hear()
            if isinstance(came, dict) and came["type"] == kind:
                return came

    def rest(self) -> int:
        """Hear all that is left; the code that the connection was closed with."""
        try:
            while True:
                self.hear()
        except ConnectionClosed as err:
            return err.rcvd.code if err.rcvd else 1006

    def of(self, kind: str) -> list[Event]:
        return [event for event in self.events if event["type"] == kind]

    @property
    def sentences(self) -> list[str]:
        return [event["sentence_text"] for event in self.of("audio.done")]

    @property
    def samples(self) -> np.ndarray:
        """Of audio in pcm."""
        return np.frombuffer(self.audio, "<i2")


def address(running: Running) -> str:
    return running.url.replace("http", "ws", 1) + PATH


def connect(url: str, **options: Any) -> ClientConnection:
    """As the package does, and with patience for a busy machine."""
    patience = {"open_timeout": PATIENCE_S, "ping_timeout": PATIENCE_S}
    found: ClientConnection = client.connect(url, **{"proxy": None, **patience, **options})
    return found


@contextmanager
def talk(running: Running, **config: Any) -> Iterator[Talk]:
    """A session that is configured; the fake model's samples as they are."""
    config = {"seed": 3, "sample_rate": 8000, **config}
    with connect(address(running), max_size=None) as socket:
        talk = Talk(socket)
        talk.say("session.config", **config)
        talk.created = talk.until("session.created")
        yield talk
