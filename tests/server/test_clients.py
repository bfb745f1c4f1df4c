"""Nothing that a client does ends or blocks the server, and nothing of it is left."""

from __future__ import annotations

import errno
import http.client
import io
import json
import os
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from select import select
from typing import Any

import httpx
import numpy as np
import pytest
import soundfile
from fakes import fake_engine, num_frames
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from running import (
    LONG,
    TEXT,
    WAIT_S,
    Behind,
    GatedModel,
    Running,
    answers,
    begin,
    engine_for,
    hold,
    rest,
    rest_of_end,
    rest_until_end,
    run_server,
    until,
)
from starlette import formparsers

from voxcli.audio import files
from voxcli.audio.formats import has_ffmpeg
from voxcli.engine.base import Wanted
from voxcli.engine.remote import transport, wire
from voxcli.engine.remote.find import connect_here, connect_to
from voxcli.engine.remote.place import Place
from voxcli.engine.standin import StandInEngine
from voxcli.errors import BusyError, EngineFaultError, UnavailableError, UsageError
from voxcli.plan import Plan
from voxcli.server import (
    connections,
    encode,
    guard,
    listener,
    local,
    patience,
    run,
    service,
    voices,
)
from voxcli.server.worker import State
from voxcli.utterance import Recording, Use, Utterance

SAMPLES = Path(__file__).resolve().parents[2] / "samples" / "voices"
FORMATS = ("wav", "pcm", "mp3", "opus", "flac", *(("aac",) if has_ffmpeg() else ()))
WANTED = Wanted("mini", device="cpu")


def ask(client: httpx.Client, **fields: Any) -> httpx.Response:
    return client.post("/v1/audio/speech", json={"model": "fake", "input": TEXT, **fields})


def address(running: Running) -> tuple[str, int]:
    host, port = running.url.removeprefix("http://").split(":")
    return host, int(port)


def left_behind(running: Running) -> list[str]:
    """What is still there of clients that are gone."""
    worker, core = running.worker, running.worker.engine.core  # type: ignore[attr-defined]
    found = [f"{worker.num_running} speak"] if worker.num_running else []
    found += [f"{worker.num_waiting} wait"] if worker.num_waiting else []
    found += ["the engine has work"] if core.has_work else []
    found += [f"{running.service.planners.num_open} texts"] * bool(
        running.service.planners.num_open
    )
    found += [each.name for each in threading.enumerate() if each.name.startswith("strand")]
    found += [str(path) for path in Path(tempfile.gettempdir()).glob("voxcli-*")]
    return found


@pytest.fixture
def own_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Temporary files of this test alone."""
    folder = tmp_path / "temporary"
    folder.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    return folder


# ------------------------------------------------------------------------ who leaves


@pytest.mark.parametrize(
    ("name", "how"),
    [(name, "whole") for name in FORMATS] + [(name, "stream") for name in encode.STREAMED],
)
def test_whoever_leaves_in_the_middle_of_an_encoding_ends_nothing(name: str, how: str) -> None:
    script = Path(__file__).with_name("leaving.py")
    command = [sys.executable, script, name, how]
    done = subprocess.run(command, capture_output=True, text=True, timeout=WAIT_S)
    assert done.returncode == 0, done.stderr[-3000:]


CLIENTS = st.lists(
    st.tuples(
        st.sampled_from(FORMATS),
        st.sampled_from(["whole", "stream", "sse"]),
        st.sampled_from([TEXT, LONG, "Go."]),
        st.integers(0, 40_000),  # bytes that it takes before it leaves
        st.floats(0, 0.02),  # seconds until the next one
    ),
    min_size=1,
    max_size=12,
)


@pytest.mark.parametrize("threads", [1, 2])
def test_nothing_of_clients_that_left_is_left(own_folder: Path, threads: int) -> None:
    engine = fake_engine(GatedModel(), threads=threads)
    num_requests = 0

    @settings(
        max_examples=12, deadline=None, derandomize=True, database=None,
        suppress_health_check=list(HealthCheck),
    )  # fmt: skip
    @given(clients=CLIENTS)
    def holds(clients: list[tuple[str, str, str, int, float]]) -> None:
        nonlocal num_requests
        sockets = []
        for name, how, text, num_bytes, pause_s in clients:
            fields: dict[str, Any] = {"response_format": name, "stream": how != "whole"}
            fields |= {"stream_format": "sse"} if how == "sse" else {}
            sockets.append((begin(running, text, **fields), num_bytes))
            time.sleep(pause_s)
        for raw, num_bytes in sockets:
            while num_bytes > 0 and (part := raw.recv(num_bytes)):
                num_bytes -= len(part)
            raw.close()
        num_requests += len(clients)
        until(lambda: not left_behind(running))
        assert not running.worker.error

    with run_server(engine=engine, max_streams=4, max_queue=100) as running:
        holds()
        ends = ("ok", "gone", "refused", "stalled", "failed")
        counted = {end: running.metric("voxcli_requests_total", outcome=end) for end in ends}
        assert counted["failed"] == counted["stalled"] == 0
        assert sum(counted.values()) <= num_requests  # who left before being heard is in none
        with running.client() as client:
            assert ask(client).status_code == 200


# ------------------------------------------------------------------------ who is heard meanwhile


class Slow:
    """Something that takes until it is let go."""

    def __init__(self) -> None:
        self.has_begun, self.may_end = threading.Event(), threading.Event()

    def __call__(self, *_: object, **__: object) -> None:
        self.has_begun.set()
        assert self.may_end.wait(WAIT_S)


@pytest.mark.parametrize("fields", [{"stream": True}, {}, {"stream_format": "sse"}])
@pytest.mark.parametrize("name", ["mp3", "opus", "flac"])
def test_the_loop_answers_others_while_an_encoder_works(
    name: str, fields: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    slow = Slow()
    monkeypatch.setattr(encode._SndfileStream, "encode", slow)
    monkeypatch.setattr(encode.WholeFile, "write", slow)
    with run_server() as running, running.client() as client:
        raw = begin(running, response_format=name, **fields)
        assert slow.has_begun.wait(WAIT_S)
        assert client.get("/health").status_code == 200
        with begin(running, response_format="pcm", stream=True) as other:
            assert other.recv(1)
        raw.close()  # and it may leave: what it uses is closed by the thread that uses it
        assert client.get("/health").status_code == 200
        slow.may_end.set()


def upload(client: httpx.Client, name: str) -> httpx.Response:
    data = {"name": name, "consent": "yes"}
    audio = (SAMPLES / "clara.flac").read_bytes()
    return client.post("/v1/audio/voices", data=data, files={"audio_sample": ("a", audio)})


def test_no_text_waits_for_uploads_and_too_many_of_these_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    slow, hear = Slow(), voices.hear

    def heard(*given: Any, **named: Any) -> Any:
        slow()
        return hear(*given, **named)

    monkeypatch.setattr(voices, "hear", heard)
    most = 1 + service.MAX_UPLOADS
    answers: list[int] = []

    def one(number: int) -> None:
        with running.client() as client:
            answers.append(upload(client, f"voice-{number}").status_code)

    with run_server() as running, running.client() as client:
        threads = [threading.Thread(target=one, args=(number,)) for number in range(most)]
        for thread in threads:
            thread.start()
        until(lambda: running.service.uploads.num_open == most)
        assert ask(client).status_code == 200
        assert client.get("/v1/audio/voices").status_code == 200
        busy = upload(client, "another")
        assert busy.status_code == 429
        assert int(busy.headers["retry-after"]) >= 1
        slow.may_end.set()
        for thread in threads:
            thread.join(WAIT_S)
        assert answers == [200] * most


def test_a_bomb_of_an_upload_is_refused_by_its_length(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    data = io.BytesIO()
    with soundfile.SoundFile(data, "w", 48_000, 8, "PCM_16", format="FLAC") as file:
        for _ in range(90):
            file.write(np.zeros((48_000, 8), np.float32))
    fields = {"name": "bomb", "consent": "yes"}
    with run_server() as running, running.client() as client:
        files = {"audio_sample": ("a", data.getvalue())}
        answer = client.post("/v1/audio/voices", data=fields, files=files)
    assert answer.status_code == 400
    assert "90.0 s long, at most 60 s" in answer.json()["error"]["message"]


def test_who_reads_slowly_keeps_nobody_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(listener, "QUEUE_BYTES", 4 * 12_800)
    with run_server(max_streams=1) as running:
        slow = begin(running, LONG * 20, sample_rate=48_000)
        until(lambda: any(job.is_paused for job in running.worker.jobs))
        with running.client() as client:
            assert ask(client).status_code == 200
        slow.close()


def test_who_trickles_away_its_speech_is_let_go(monkeypatch: pytest.MonkeyPatch) -> None:
    """It takes a little again and again, so that it is never still for long."""
    monkeypatch.setattr(patience, "STALLED_S", 0.5)
    monkeypatch.setattr(patience, "MIN_RATE", 1 << 30)
    monkeypatch.setattr(listener, "QUEUE_BYTES", 4 * 12_800)
    with run_server() as running, begin(running, LONG * 20, sample_rate=192_000) as raw:
        until(lambda: any(job.is_paused for job in running.worker.jobs))
        until(
            lambda: (
                bool(raw.recv(1 << 14)) is None  # never: one more piece, then look
                or running.metric("voxcli_requests_total", outcome="stalled") == 1
            )
        )
        until(lambda: running.worker.num_running == 0)


# ------------------------------------------------------------------------ heads, bodies


def test_a_body_that_trickles_in_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(guard, "BODY_SILENCE_S", 0.3)
    head = b"POST /v1/audio/speech HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100000\r\n\r\n"
    with run_server() as running, socket.create_connection(address(running), timeout=WAIT_S) as raw:
        raw.sendall(head)
        raw.settimeout(0.05)
        answer = b""
        until(lambda: bool(trickle(raw)))
        raw.settimeout(WAIT_S)
        answer = rest_of_end(raw, 12)
    assert answer in (b"HTTP/1.1 413", b"")


def trickle(raw: socket.socket) -> bytes:
    """Send a byte; what came back meanwhile, or a mark that the connection has ended."""
    try:
        raw.send(b"x")
        return raw.recv(12, socket.MSG_PEEK) or b"-"
    except TimeoutError:
        return b""
    except OSError:
        return b"-"


def test_a_second_head_has_as_little_time_as_the_first(monkeypatch: pytest.MonkeyPatch) -> None:
    with run_server() as running, socket.create_connection(address(running), timeout=WAIT_S) as raw:
        running.model.gate.clear()
        body = json.dumps({"model": "fake", "input": TEXT}).encode()
        head = "POST /v1/audio/speech HTTP/1.1\r\nHost: localhost\r\n"
        head += f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
        raw.sendall(head.encode() + body)
        until(lambda: running.worker.num_running == 1)
        monkeypatch.setattr(connections, "HEAD_S", 0.3)  # from the answer on
        running.model.gate.set()
        assert raw.recv(12) == b"HTTP/1.1 200"
        with suppress(ConnectionError):
            raw.sendall(b"GET /health HT")
        rest_of_end(raw, 1 << 30)


def test_an_answer_that_takes_long_is_not_cut_by_the_time_for_heads(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(connections, "HEAD_S", 0.2)
    with run_server() as running:
        for _ in range(2):  # the first request of a connection, and one that came ahead of its turn
            hold(running)
            raw = begun_in_time(running)
            time.sleep(0.5)
            running.model.gate.set()
            assert rest_until_end(raw)


def begun_in_time(running: Running) -> socket.socket:
    """A request that speaks; a busy machine may need more than one to be in time with its head."""
    while not (raw := speaking(running)):
        pass
    return raw


def speaking(running: Running) -> socket.socket | None:
    """A request that is being answered; None where the server let go of it before."""

    def has_ended() -> bool:
        return bool(select([raw], [], [], 0)[0]) and not raw.recv(1, socket.MSG_PEEK)

    with suppress(ConnectionError):
        raw = begin(running)
        until(lambda: running.worker.num_running == 1 or has_ended())
        if running.worker.num_running:
            return raw
        raw.close()
    return None


def test_connections_have_a_cap_and_the_local_socket_its_own(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connections, "MAX_CONNECTIONS", 5)
    with run_server(place=place) as running:
        until(lambda: not running.process._uvicorn.server_state.connections)
        held = [socket.create_connection(address(running), timeout=WAIT_S) for _ in range(5)]
        until(lambda: len(running.process._uvicorn.server_state.connections) == 5)
        with pytest.raises(httpx.TransportError):
            httpx.get(f"{running.url}/health", timeout=WAIT_S)
        remote, why_not = connect_here(WANTED)
        assert remote is not None, why_not
        assert remote.plan(Utterance(TEXT)).text.segments
        for raw in held:
            raw.close()
        until(lambda: answers(running.url))


def test_a_closed_connection_whose_client_takes_nothing_is_dropped(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(patience, "STALLED_S", 0.3)
    monkeypatch.setattr(run, "TIDY_S", 0.1)
    monkeypatch.setattr(connections, "LINGER_S", 0.3)
    with run_server() as running, begin(running, LONG * 20, sample_rate=192_000, stream=True):
        until(lambda: running.metric("voxcli_requests_total", outcome="stalled") == 1)
        until(lambda: not running.process._uvicorn.server_state.connections)


def test_large_bodies_have_a_number_and_who_sends_one_too_many_comes_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(guard, "MAX_LARGE", 2)
    monkeypatch.setattr(transport, "BUSY_S", 0.05)
    stated = "".join(f"{name}: {value}\r\n" for name, value in wire.HEADERS.items())
    head = f"POST {wire.PATH_ENCODE} HTTP/1.1\r\nHost: localhost\r\n{stated}"
    head += f"Content-Length: {2 << 20}\r\n\r\n"
    recording = Recording(np.zeros(400_000, np.float32), 16_000)
    with run_server() as running:
        held = [socket.create_connection(address(running), timeout=WAIT_S) for _ in range(2)]
        for raw in held:
            raw.sendall(head.encode() + bytes(1000))
        remote = connect_to(running.url, Wanted("fake"))
        until(lambda: is_refused(remote, recording))
        with running.client() as client:  # what is small has no part in it
            assert ask(client).status_code == 200
        threading.Timer(0.2, lambda: [raw.close() for raw in held]).start()
        assert remote.encode(recording, [Use.REFERENCE]).arrays


def is_refused(remote: Any, recording: Recording) -> bool:
    server = remote._server
    order = wire.EncodeOrder(recording, (Use.REFERENCE,))
    with transport.send(server.target, wire.PATH_ENCODE, wire.pack(order)) as sent:
        try:
            transport.check(sent.answer(), "it")
        except BusyError:
            return True
    return False


def test_a_large_body_that_does_not_state_its_length_is_refused() -> None:
    def pieces() -> Iterator[bytes]:
        for _ in range(40):
            yield bytes(100_000)

    with run_server() as running, running.client() as client:
        answer = client.post(wire.PATH_ENCODE, content=pieces(), headers=wire.HEADERS)
        assert answer.status_code == 413


def test_a_recording_of_a_minute_crosses_the_wire() -> None:
    recording = Recording(np.zeros(60 * 48_000, np.float32), 48_000)
    with run_server() as running:
        remote = connect_to(running.url, Wanted("fake"))
        assert remote.encode(recording, [Use.REFERENCE]).arrays


# ------------------------------------------------------------------------ a server that is silent


@contextmanager
def silent_server() -> Iterator[tuple[Running, Any]]:
    with run_server() as running:
        remote = connect_to(running.url, Wanted("fake"))
        running.model.gate.clear()
        running.model.encoding_gate.clear()
        yield running, remote


RECORDING = Recording(np.zeros(16_000, np.float32), 16_000)


@pytest.mark.parametrize("what", ["speech", "encoding"])
def test_whoever_waits_for_a_server_that_works_hears_that_it_does(
    what: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A machine may stand still for longer than the shortest silence, hardly for the longest."""
    monkeypatch.setattr(local, "BEAT_S", 0.05)
    for silence_s in (1.0, 4.0, 16.0):
        monkeypatch.setattr(transport, "SILENCE_S", silence_s)
        with silent_server() as (running, remote), suppress(UnavailableError):
            for gate in (running.model.gate, running.model.encoding_gate):
                threading.Timer(1.7 * silence_s, gate.set).start()
            if what == "speech":
                assert remote.synthesize([Utterance(TEXT)])[0].segments
            else:
                assert remote.encode(RECORDING, [Use.REFERENCE]).arrays
            return
    pytest.fail("it heard nothing of the server")


@pytest.mark.parametrize("what", ["speech", "live speech", "encoding", "plan", "checksum"])
def test_nobody_waits_for_ever_for_a_server_that_is_silent(
    what: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(local, "BEAT_S", 1000.0)
    monkeypatch.setattr(transport, "SILENCE_S", 0.3)
    with silent_server() as (running, remote):
        slow = Slow()
        monkeypatch.setattr(running.worker.engine, "plan", slow)
        monkeypatch.setattr(running.worker.engine, "model_checksum", slow)
        plan = fake_engine().plan(Utterance(TEXT))
        questions: dict[str, Callable[[], Any]] = {
            "speech": lambda: remote.synthesize([plan]),
            "live speech": lambda: list(remote.stream(plan)),
            "plan": lambda: remote.plan(Utterance(TEXT)),
            "encoding": lambda: remote.encode(RECORDING, [Use.REFERENCE]),
            "checksum": remote.model_checksum,
        }
        with pytest.raises(UnavailableError, match=r"said nothing for 0\.3 s"):
            questions[what]()
        slow.may_end.set()


def test_an_error_after_a_beat_is_the_same_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(local, "BEAT_S", 0.02)
    with run_server() as running:
        remote = connect_to(running.url, Wanted("fake"))
        plan = running.worker.engine.plan

        def slowly(utterance: Utterance) -> Plan:
            time.sleep(0.3)
            return plan(utterance)

        monkeypatch.setattr(running.worker.engine, "plan", slowly)
        with pytest.raises(UsageError) as late:
            remote.plan(Utterance("你好，今天天气很好。"))
        with pytest.raises(UsageError) as own:
            fake_engine().plan(Utterance("你好，今天天气很好。"))
        assert vars(late.value) == vars(own.value)


def test_who_is_told_late_that_the_server_is_busy_asks_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(local, "BEAT_S", 0.02)
    monkeypatch.setattr(transport, "BUSY_S", 0.05)
    with run_server() as running:
        remote = connect_to(running.url, Wanted("fake"))
        submit, refusals = running.worker.submit, [1, 1, 1]

        def submitted(job: Any) -> None:
            time.sleep(0.1)
            if refusals:
                refusals.pop()
                raise BusyError("80 wait")
            submit(job)

        monkeypatch.setattr(running.worker, "submit", submitted)
        assert remote.synthesize([Utterance(TEXT)])[0].segments
        assert not refusals


# ------------------------------------------------------------------------ a server that goes away


@pytest.mark.parametrize("is_live", [False, True])
@pytest.mark.parametrize("when", ["plan", "begin", "stream", "middle"])
def test_a_command_goes_on_by_itself_unless_something_has_left(
    when: str, is_live: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(local, "BEAT_S", 0.05)
    notes: list[str] = []
    own = fake_engine()
    with run_server(grace_s=0.0) as running:
        remote = connect_to(running.url, Wanted("fake"))
        engine = StandInEngine(remote, lambda: own, notes.append)
        if when == "plan":
            kill(running)
        plan = engine.plan(Utterance(LONG))
        if when == "begin":
            kill(running)
        if when == "stream":
            running.model.gate.clear()
        if when == "middle":  # its first segment is whole then, and its last has no slot yet
            running.model.steps_left = num_frames(plan.text.segments[0].text) + 4
        engine.begin(plan)
        if when == "stream":
            threading.Timer(0.3, lambda: kill(running)).start()
        with engine.stream(plan, is_live=is_live) as stream:
            first = next(stream)
            if when == "middle":
                kill(running)
                with pytest.raises(EngineFaultError):
                    list(stream)
                return
            samples = [first.samples, *(chunk.samples for chunk in stream)]
    assert np.concatenate(samples).tobytes() == own.synthesize([plan])[0].samples.tobytes()
    assert engine.facts is own.facts
    (note,) = notes
    assert note.endswith("this command goes on without it")


def kill(running: Running) -> None:
    """End it as far as its clients can see."""
    running.stop()
    until(lambda: running.worker.state is State.STOPPED)  # no sample leaves from now on
    running.model.gate.set()
    until(lambda: not running.thread.is_alive())


def test_a_fault_of_its_own_engine_is_not_met_by_another_one() -> None:
    class Faulty(Behind):
        def plan(self, utterance: Utterance) -> Plan:
            raise EngineFaultError("the card is gone")

    engine = StandInEngine(Faulty(fake_engine()), lambda: Faulty(fake_engine()), lambda note: None)
    with pytest.raises(EngineFaultError, match="the card is gone"):
        engine.plan(Utterance(TEXT))


# ------------------------------------------------------------------------ what is told to whom


def test_files_of_this_machine_are_compared_for_commands_of_this_user_alone(place: Place) -> None:
    near = wire.pack(wire.Question(WANTED))
    with run_server(place=place) as running, running.client(**wire.HEADERS) as client:
        answer = client.post(wire.PATH_MATCH, content=near)
        assert answer.status_code == 400
        assert "from another machine" in answer.json()["error"]["message"]
        found, why_not = connect_here(WANTED)
        assert found is not None, why_not


def test_no_answer_tells_where_files_of_the_user_are(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    with run_server() as running, running.client() as client:
        upload(client, "clara")
        again = upload(client, "clara")
        (file,) = (tmp_path / "voxcli" / "voices").iterdir()
        file.write_bytes(b"not a profile")
        listed = client.get("/v1/audio/voices")
        spoken = ask(client, voice="clara")
        assert (again.status_code, spoken.status_code) == (409, 400)
        for answer in (again, listed, spoken):
            assert str(tmp_path) not in answer.text
        assert "clara" in listed.json()["voices"][1]["problem"]


def test_a_pipe_among_the_voices_is_no_voice_and_nobody_waits_for_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    folder = tmp_path / "voxcli" / "voices"
    folder.mkdir(parents=True)
    os.mkfifo(folder / "pipe.safetensors")
    (folder / "link.safetensors").symlink_to("nowhere")
    with run_server() as running, running.client() as client:
        rows = client.get("/v1/audio/voices").json()["voices"]
        assert [row["name"] for row in rows] == ["default", "link", "pipe"]
        assert all(row["problem"] for row in rows[1:])
        assert ask(client, voice="pipe").status_code == 400
        assert client.delete("/v1/audio/voices/pipe").status_code == 200


def test_a_voice_is_read_once_until_it_changes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    name, reads = "clara.safetensors", []
    read = voices.read_card
    monkeypatch.setattr(voices, "read_card", lambda path: reads.append(path) or read(path))
    with run_server() as running, running.client() as client:
        upload(client, "clara")
        for _ in range(3):
            assert len(client.get("/v1/audio/voices").json()["voices"]) == 2
        assert [path.name for path in reads if path.is_relative_to(tmp_path)] == [name]
        client.delete("/v1/audio/voices/clara")
        upload(client, "clara")
        assert client.get("/v1/audio/voices").json()["voices"][1]["problem"] is None
        assert [path.name for path in reads if path.is_relative_to(tmp_path)] == [name, name]


@pytest.mark.parametrize("where", ["folder", "file", "voice", "upload"])
def test_a_full_disk_is_the_servers_fault_and_is_in_its_log(
    where: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))

    def full(*_: object, **__: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with run_server() as running, running.client() as client:
        if where == "folder":
            monkeypatch.setattr(tempfile, "TemporaryDirectory", full)
        elif where == "upload":
            monkeypatch.setattr(formparsers, "SpooledTemporaryFile", full)
        else:
            monkeypatch.setattr(files, "create", full)
        answer = upload(client, "clara") if where in ("voice", "upload") else ask(client)
    assert answer.status_code == 507, answer.text
    error = answer.json()["error"]
    assert error["message"] == "the server cannot write its files; see its log"
    assert (error["type"], error["code"]) == ("server_error", "storage")
    assert any("no space left" in line.lower() for line in caplog.messages)


KEY = "schlüssel-😀-geheim"


@pytest.mark.parametrize(
    ("header", "status"),
    [
        (f"Bearer {KEY}", 200), (f"bearer {KEY}", 200), (f"BEARER   {KEY} ", 200), (KEY, 401),
        (f"Basic {KEY}", 401), ("Bearer", 401), ("Bearer ", 401), (f"Bearer {KEY}x", 401),
        (f"Bearer {KEY[:-1]}", 401), ("", 401),
    ],
)  # fmt: skip
def test_a_key_is_a_bearers_in_any_letters(header: str, status: int) -> None:
    with run_server(api_key=KEY) as running:
        connection = http.client.HTTPConnection(*address(running), timeout=WAIT_S)
        connection.request("GET", "/v1/models", headers={"Authorization": header.encode()})
        with closing(connection), connection.getresponse() as answer:
            assert answer.status == status


def test_our_own_client_sends_a_key_of_any_letters() -> None:
    with run_server(api_key=KEY) as running:
        remote = connect_to(running.url, Wanted("fake"), KEY)
        assert remote.plan(Utterance(TEXT)).text.segments


def test_metrics_say_how_many_settings_are_spoken() -> None:
    with run_server() as running:
        held = [begin(running, LONG * 20, steps=steps) for steps in (6, 6, 50)]
        until(lambda: running.metric("voxcli_settings") == 2)
        for raw in held:
            raw.close()
        until(lambda: running.metric("voxcli_settings") == 0)


# ------------------------------------------------------------------------ calls of the engine


def test_whoever_leaves_while_the_engine_is_asked_harms_nobody() -> None:
    """On a card the engine's thread encodes recordings between its steps."""
    engine = engine_for(GatedModel())
    engine.facts = replace(engine.facts, can_encode_beside=False)
    with run_server(engine=engine) as running:
        running.model = engine.model
        running.model.gate.clear()
        raw = begin(running)
        until(lambda: running.worker.num_running == 1)
        order = wire.EncodeOrder(RECORDING, (Use.REFERENCE,))
        sent = [transport.send(running.url, wire.PATH_ENCODE, wire.pack(order)) for _ in range(3)]
        until(lambda: running.service.encoder.num_waiting == 3)
        for each in sent:
            each.close()
        until(lambda: running.service.encoder.num_waiting == 0)
        running.model.gate.set()
        assert rest_until_end(raw)
        assert running.worker.error is None
        remote = connect_to(running.url, Wanted("fake"))
        assert remote.encode(RECORDING, [Use.REFERENCE]).arrays


def test_whoever_asks_an_engine_that_fails_is_told_so() -> None:
    model = GatedModel(fail_at_step=2)
    engine = engine_for(model)
    with run_server(model=model, engine=engine) as running:
        model.gate.clear()
        raw = begin(running)
        until(lambda: running.worker.num_running == 1)
        future = running.worker.call(lambda engine: engine.facts)
        model.gate.set()
        rest(raw)
        until(future.done)
        running.join()
        late = running.worker
        with pytest.raises(UnavailableError):
            late.call(lambda engine: engine.facts)
