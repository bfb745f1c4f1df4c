"""A server on a fake model, in a thread of the test's process."""

from __future__ import annotations

import json
import os
import socket
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from typing import Any

import httpx
import numpy as np
from fakes import FakeEngine, FakeModel, FakeState, fake_engine
from needs import PATIENCE_S

from voxcli.engine.base import Setup, SpeechEngine, SpeechSession, Wanted
from voxcli.engine.native.matching import fingerprint
from voxcli.engine.remote.place import Place
from voxcli.hub import resolve_model
from voxcli.models.data import Rows, StepOutput
from voxcli.parameters import Values
from voxcli.plan import Plan
from voxcli.server.app import build_app
from voxcli.server.dialect import Dialect
from voxcli.server.door import listen_tcp, listen_unix
from voxcli.server.limits import LOOPBACK, WorkerLimits
from voxcli.server.run import Beside, Ending, ServerProcess
from voxcli.server.schema import ReplicaRow
from voxcli.server.service import Service
from voxcli.server.worker import EngineWorker, State
from voxcli.utterance import Recording, Use, Utterance, VoiceEncoding

TEXT = "The ferry leaves at noon. Bring a warm jacket, and mind the step."
LONG = " ".join(f"Sentence number {word} is here." for word in ("one", "two", "six", "ten") * 15)
WAIT_S = PATIENCE_S  # for another thread; a test that passes waits for milliseconds


class GatedModel(FakeModel):
    """Steps, and encodes, only while the gate for it is open.

    Attributes:
        steps_left: after so many steps it closes the gate itself; None for never.
    """

    def __init__(self, fail_at_step: int | None = None) -> None:
        super().__init__(fail_at_step=fail_at_step)
        self.steps_left: int | None = None
        self.gate, self.encoding_gate = threading.Event(), threading.Event()
        self.gate.set()
        self.encoding_gate.set()

    def encode_recording(self, samples: np.ndarray, use: Use) -> dict[str, np.ndarray]:
        assert self.encoding_gate.wait(WAIT_S)
        return super().encode_recording(samples, use)

    def decode(self, state: FakeState, rows: Rows) -> StepOutput:
        assert self.gate.wait(WAIT_S)
        if self.steps_left is not None:
            self.steps_left -= 1
            if self.steps_left == 0:
                self.steps_left = None
                self.gate.clear()
        return super().decode(state, rows)


class Behind(SpeechEngine):
    """Another engine, to be changed in one point."""

    def __init__(self, engine: SpeechEngine) -> None:
        self.engine = engine
        self.facts = engine.facts

    @property
    def setup(self) -> Setup:
        return self.engine.setup

    def start(self, wanted: Iterable[Values] = ()) -> None:
        self.engine.start(wanted)

    def plan(self, utterance: Utterance) -> Plan:
        return self.engine.plan(utterance)

    def session(self, *, num_reserved: int = 0) -> SpeechSession:
        return self.engine.session(num_reserved=num_reserved)

    def model_checksum(self) -> str:
        return self.engine.model_checksum()

    def encoder_checksum(self) -> str:
        return self.engine.encoder_checksum()

    def encode(self, recording: Recording, uses: Iterable[Use]) -> VoiceEncoding:
        return self.engine.encode(recording, uses)

    def mismatch(self, wanted: Wanted) -> str | None:
        return self.engine.mismatch(wanted)

    def close(self) -> None:
        self.engine.close()


@dataclass
class Running:
    """A server under test."""

    url: str
    model: GatedModel
    service: Service
    process: ServerProcess
    thread: threading.Thread
    endings: list[Ending]

    @property
    def worker(self) -> EngineWorker:
        return self.service.worker

    def client(self, **headers: str) -> httpx.Client:
        return httpx.Client(base_url=self.url, headers=headers, timeout=WAIT_S)

    def stop(self) -> None:
        loop = self.process.loop
        if loop is not None and not loop.is_closed():
            loop.call_soon_threadsafe(self.process.stop)

    def join(self) -> Ending:
        self.thread.join(WAIT_S)
        assert not self.thread.is_alive()
        return self.endings[0]

    def metric(self, name: str, **labels: str) -> float:
        return self.service.metrics.registry.get_sample_value(name, labels) or 0.0


def until(is_true: Callable[[], bool], wait_s: float = WAIT_S) -> None:
    """Wait for another thread, or process."""
    pause = threading.Event()
    for _ in range(int(wait_s / 0.005)):
        if is_true():
            return
        pause.wait(0.005)
    raise AssertionError("it never came true")


def engine_for(model: GatedModel, *, max_slots: int = 4, is_mini: bool = False) -> FakeEngine:
    """An engine that lets its encoder run beside; to commands its files may be those of the bundled
    voice."""
    engine = fake_engine(model, max_slots=max_slots)
    engine.facts = replace(engine.facts, can_encode_beside=True)
    if is_mini:
        engine.files = resolve_model("mini")
        engine.loaded_files = fingerprint(engine.files)
    return engine


@contextmanager
def run_server(
    *,
    model: GatedModel | None = None,
    engine: SpeechEngine | None = None,
    max_streams: int = 4,
    max_queue: int = 8,
    api_key: str | None = None,
    grace_s: float = 5.0,
    place: Place | None = None,
    replicas: Callable[[], list[ReplicaRow]] = list,
    dialect: Dialect | None = None,
    origins: tuple[str, ...] = (),
    lexicon: str = "",
    beside: Callable[[Service], Beside] | None = None,
) -> Iterator[Running]:
    """A server that is ready; with a place, on its socket too, as if of the bundled voice."""
    model = model or GatedModel()
    engine = engine or engine_for(model, max_slots=max_streams, is_mini=place is not None)
    worker = EngineWorker(engine, WorkerLimits(max_streams, max_queue))
    tcp = listen_tcp("127.0.0.1", 0)
    url = f"http://127.0.0.1:{tcp.getsockname()[1]}"
    dialect = dialect or Dialect()
    service = Service(worker, url, replicas=replicas, dialect=dialect, lexicon=lexicon)
    app = build_app(service, api_key=api_key, hosts=() if api_key else LOOPBACK, origins=origins)
    hold = place.hold() if place else None
    sockets = [tcp]
    if hold is not None:
        sockets.append(listen_unix(hold.place.socket))
        hold.write({"pid": os.getpid(), "model": "mini", "url": url})
    others = [beside(service)] if beside else []
    process = ServerProcess(app, worker, sockets, beside=others, grace_s=grace_s)
    endings: list[Ending] = []
    thread = threading.Thread(target=lambda: endings.append(process.run()), daemon=True)
    thread.start()
    running = Running(url, model, service, process, thread, endings)
    until(lambda: bool(endings) or (worker.state is State.READY and answers(url)))
    assert not endings, endings
    try:
        yield running
    finally:
        model.gate.set()
        model.encoding_gate.set()
        running.stop()
        thread.join(WAIT_S)
        if hold is not None:
            hold.release()


def has_work(running: Running) -> bool:
    """Whether anything is spoken or waits, on the fake engine."""
    worker = running.worker
    return bool(worker.num_running or worker.num_waiting or worker.engine.core.has_work)  # type: ignore[attr-defined]


def hold(running: Running, num_steps: int = 0) -> None:
    """Let the model make so many steps and no more, once nothing of what came before needs one."""
    until(lambda: not has_work(running))
    running.model.steps_left = num_steps or None
    if not num_steps:
        running.model.gate.clear()


POOLS = ("texts", "uploads", "questions", "asyncio_")


def threads_of_clients() -> set[threading.Thread]:
    """All threads but those of the server's pools, which begin when they are needed, and stay."""
    return {each for each in threading.enumerate() if not each.name.startswith(POOLS)}


def answers(url: str) -> bool:
    """Whether it takes a connection and is healthy."""
    try:
        return httpx.get(f"{url}/health", timeout=WAIT_S).status_code == 200
    except httpx.TransportError:
        return False


def begin(running: Running, text: str = TEXT, **fields: Any) -> socket.socket:
    """Ask for a stream on a bare socket."""
    host, port = running.url.removeprefix("http://").split(":")
    raw = socket.create_connection((host, int(port)), timeout=WAIT_S)
    body = json.dumps(
        {"model": "fake", "input": text, "response_format": "pcm", "stream": True, **fields}
    ).encode()
    head = f"POST /v1/audio/speech HTTP/1.1\r\nHost: {host}\r\nContent-Type: application/json\r\n"
    head += "Connection: close\r\n"
    raw.sendall(f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body)
    return raw


def rest(raw: socket.socket) -> bytes:
    with raw:
        parts = []
        try:
            while part := raw.recv(1 << 16):
                parts.append(part)
        except OSError:
            pass
        return b"".join(parts)


def rest_of_end(raw: socket.socket, size: int = 1 << 16) -> bytes:
    """What still comes of a connection that the server ends, perhaps before it has read all."""
    data = b""
    with suppress(ConnectionError):
        while len(data) < size and (part := raw.recv(size - len(data))):
            data += part
    return data


def rest_until_end(raw: socket.socket) -> bool:
    """Whether a chunked answer comes to its proper end."""
    data = b""
    with raw:
        while not data.endswith(b"0\r\n\r\n"):
            part = raw.recv(1 << 16)
            if not part:
                return False
            data += part
    return True
