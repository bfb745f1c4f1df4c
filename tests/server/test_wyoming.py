"""Wyoming: what Home Assistant asks by the package's own client, and clients that do all else."""

from __future__ import annotations

import asyncio
import json
import socket
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from itertools import count
from typing import Any

import numpy as np
import pytest
from fakes import SAMPLE_RATE
from hypothesis import given, settings
from hypothesis import strategies as st
from running import (
    LONG,
    TEXT,
    WAIT_S,
    GatedModel,
    Running,
    begin,
    hold,
    rest_of_end,
    run_server,
    until,
)
from steps import is_cancelled_at
from wyoming.audio import AudioChunk, AudioStart, AudioStop
from wyoming.client import AsyncTcpClient
from wyoming.error import Error
from wyoming.event import Event, Eventable
from wyoming.info import Describe, Info
from wyoming.ping import Ping, Pong
from wyoming.tts import (
    Synthesize,
    SynthesizeChunk,
    SynthesizeStart,
    SynthesizeStop,
    SynthesizeStopped,
    SynthesizeVoice,
)

from voxcli import cli
from voxcli.engine.remote.place import describe
from voxcli.errors import UsageError
from voxcli.server import inbox, listener, patience, wyoming
from voxcli.server.door import Door, listen_tcp
from voxcli.server.limits import Listening, wyoming_at
from voxcli.server.schema import MAX_CHARACTERS
from voxcli.server.wyoming import WyomingServer

PIECES = ["The ferry ", "leaves at noon. Bri", "ng a warm jacket, and ", "mind the step."]
PARTS = ["The ferry leaves at noon.", "Bring a warm jacket, and mind the step."]


@contextmanager
def speaking(**options: Any) -> Iterator[tuple[Running, int]]:
    """A server and its port for Wyoming."""
    bound = listen_tcp("127.0.0.1", 0)
    bound.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 1 << 14)  # who reads slowly is felt soon
    port = bound.getsockname()[1]
    with run_server(beside=lambda service: WyomingServer(service, bound), **options) as running:
        yield running, port


@pytest.fixture(scope="module")
def wyoming_server() -> Iterator[tuple[Running, int]]:
    with speaking() as both:
        yield both


@asynccontextmanager
async def client_of(port: int) -> AsyncIterator[AsyncTcpClient]:
    async with asyncio.timeout(WAIT_S):
        async with AsyncTcpClient("127.0.0.1", port) as client:
            yield client


def ask(port: int, *events: Eventable) -> list[Event]:
    """What a server answers to these events, up to the last that it has to say about them."""

    async def answered() -> list[Event]:
        is_pieces = any(isinstance(event, SynthesizeStart) for event in events)
        last = SynthesizeStopped if is_pieces else AudioStop
        found: list[Event] = []
        async with client_of(port) as client:
            for event in events:
                await client.write_event(event.event())
            while event_ := await client.read_event():
                found.append(event_)
                if last.is_type(event_.type) or Info.is_type(event_.type):
                    return found
        return found

    return asyncio.run(answered())


def error_of(events: list[Event]) -> Error:
    (event,) = (event for event in events if Error.is_type(event.type))
    assert event is events[-1]
    return Error.from_event(event)


def samples_of(events: list[Event]) -> bytes:
    """The audio, in the order of the protocol and all of one form."""
    kinds = [event.type for event in events]
    assert kinds.count("audio-start") == kinds.count("audio-stop") == 1
    start, stop = kinds.index("audio-start"), kinds.index("audio-stop")
    assert set(kinds[start + 1 : stop]) == {"audio-chunk"}
    form = AudioStart.from_event(events[start])
    chunks = [AudioChunk.from_event(event) for event in events[start + 1 : stop]]
    for each in (form, *chunks):
        assert (each.rate, each.width, each.channels) == (SAMPLE_RATE, 2, 1)
    return b"".join(chunk.audio for chunk in chunks)


def written(*pieces: str, voice: SynthesizeVoice | None = None) -> list[Eventable]:
    """The events of a text in pieces, as Home Assistant sends them."""
    chunks = [SynthesizeChunk(piece) for piece in pieces]
    whole = Synthesize("".join(pieces), voice)
    return [SynthesizeStart(voice), *chunks, whole, SynthesizeStop()]


def over_http(running: Running, text: str) -> bytes:
    body = {
        "input": text, "response_format": "pcm", "sample_rate": SAMPLE_RATE, "seed": 5,
        "stream": True,
    }  # fmt: skip
    with running.client() as client:
        answer = client.post("/v1/audio/speech", json=body)
    assert answer.status_code == 200, answer.text
    return answer.content


@pytest.fixture
def same_seed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(wyoming, "random_seed", lambda: 5)


def is_idle(running: Running) -> bool:
    return not (running.worker.num_running or running.worker.num_waiting)


def test_the_voices_are_those_of_http(wyoming_server: tuple[Running, int]) -> None:
    running, port = wyoming_server
    with running.client() as client:
        rows = client.get("/v1/audio/voices").json()["voices"]
    (program,) = Info.from_event(ask(port, Describe())[-1]).tts
    assert program.installed
    assert program.supports_synthesize_streaming
    assert [voice.name for voice in program.voices] == [row["name"] for row in rows]
    for voice in program.voices:
        assert voice.languages == list(running.service.facts.languages) != []


@pytest.mark.usefixtures("same_seed")
def test_a_text_sounds_as_over_http(wyoming_server: tuple[Running, int]) -> None:
    running, port = wyoming_server
    asked = Synthesize(TEXT, SynthesizeVoice("default"))
    assert samples_of(ask(port, asked)) == over_http(running, TEXT)
    assert samples_of(ask(port, Synthesize(TEXT))) == over_http(running, TEXT)


@pytest.mark.usefixtures("same_seed")
def test_a_text_in_pieces_is_spoken_once(wyoming_server: tuple[Running, int]) -> None:
    running, port = wyoming_server
    events = ask(port, *written(*PIECES))
    said = np.frombuffer(samples_of(events), "<i2")
    alone = [np.frombuffer(over_http(running, part), "<i2") for part in PARTS]
    sounds = [np.trim_zeros(part) for part in alone]
    assert np.array_equal(np.trim_zeros(said, "f")[: len(sounds[0])], sounds[0])
    assert np.array_equal(np.trim_zeros(said)[-len(sounds[1]) :], sounds[1])
    assert len(said) < 1.5 * sum(map(len, alone))
    assert [event.type for event in events[-2:]] == ["audio-stop", "synthesize-stopped"]


def test_a_sentence_is_spoken_before_its_text_is_whole(
    wyoming_server: tuple[Running, int],
) -> None:
    _, port = wyoming_server

    async def talk() -> list[Event]:
        found = []
        async with client_of(port) as client:
            for event in written("It is done. That")[:2]:
                await client.write_event(event.event())
            while not AudioChunk.is_type((found[-1:] or [Event("")])[0].type):
                event_ = await client.read_event()
                assert event_
                found.append(event_)
            await client.write_event(SynthesizeChunk(" was all.").event())
            await client.write_event(SynthesizeStop().event())
            while event_ := await client.read_event():
                found.append(event_)
                if SynthesizeStopped.is_type(event_.type):
                    break
        return found

    assert samples_of(asyncio.run(talk()))


def test_pauses_and_a_lexicon_count(wyoming_server: tuple[Running, int]) -> None:
    _, port = wyoming_server
    plain = samples_of(ask(port, Synthesize("One here. Two there.")))
    paused = samples_of(ask(port, *written("One here. [pause", " 2s]\n[pause 1s]\n", "Two there.")))
    assert len(paused) - len(plain) > 2 * 2 * SAMPLE_RATE
    with speaking(lexicon="two,a very much longer word than that one") as (_, other):
        assert len(samples_of(ask(other, Synthesize("One here. Two there.")))) > len(plain)


def test_one_connection_takes_many_requests(wyoming_server: tuple[Running, int]) -> None:
    _, port = wyoming_server

    async def talk() -> list[str]:
        kinds = []
        async with client_of(port) as client:
            for event in (Ping(), Event("run-satellite"), Describe(), *[Synthesize("Hi.")] * 2):
                sent = event if isinstance(event, Event) else event.event()
                await client.write_event(sent)
            while kinds.count("audio-stop") < 2:
                answer = await client.read_event()
                assert answer
                kinds.append(answer.type)
        return kinds

    kinds = asyncio.run(talk())
    assert kinds[:3] == [Pong().event().type, "info", "audio-start"]


@pytest.mark.parametrize(
    ("event", "code", "message"),
    [
        (Synthesize(TEXT, SynthesizeVoice("nobody")), "voice_not_found", "no voice 'nobody'"),
        (Synthesize(TEXT, SynthesizeVoice("default", speaker="two")), "invalid_value", "'two'"),
        (Synthesize(TEXT, SynthesizeVoice(language="xx")), "invalid_value", "xx"),
        (Synthesize(TEXT, SynthesizeVoice("x" * 201)), "invalid_value", "more than 200 char"),
        (Synthesize(""), "invalid_value", "empty"),
        (Synthesize("..."), "invalid_value", "spoken"),
        (Synthesize("a " * (MAX_CHARACTERS // 2 + 1)), "invalid_value", "more than 100,000 char"),
        (SynthesizeChunk("Hi."), "invalid_value", "without a 'synthesize-start'"),
        (SynthesizeStop(), "invalid_value", "without a 'synthesize-start'"),
        (Event("synthesize", {"text": 5}), "invalid_value", "has no text"),
        (Event("synthesize", {"voice": {"name": "default"}}), "invalid_value", "has no text"),
        (Event("synthesize", {"text": "Hi.", "voice": "emma"}), "invalid_value", "no object"),
        (Event("synthesize", {"text": "Hi.", "voice": {"name": 1}}), "invalid_value", "no text"),
        (Event("describe", {"text": "a" * (1 << 20)}), "invalid_value", "1,048,576 bytes"),
    ],
    ids=lambda value: str(value)[:40] if isinstance(value, str) else "",
)
def test_what_cannot_be_is_an_error_that_ends_the_connection(
    wyoming_server: tuple[Running, int], event: Eventable | Event, code: str, message: str
) -> None:
    running, port = wyoming_server

    async def talk() -> list[Event]:
        found = []
        async with client_of(port) as client:
            await client.write_event(event if isinstance(event, Event) else event.event())
            while answer := await client.read_event():
                found.append(answer)
        return found

    error = error_of(asyncio.run(talk()))
    assert error.code == code
    assert message in error.text
    assert "--" not in error.text
    until(lambda: is_idle(running))


@pytest.mark.parametrize(
    "data",
    [
        b"hello\n", b"[]\n", b"5\n", b"{}\n", b"null\n", b"\xff\xfe\n", b"{" * 9999 + b"\n",
        b'{"type": 5}\n', b'{"type": "synthesize", "data": []}\n',
        b'{"type": "describe", "data_length": "5"}\n', b'{"type": "a", "data_length": 1e999}\n',
        b'{"type": "describe", "data_length": 3}\n[1]', b'{"type": "a", "data_length": 1}\n{',
        b'{"type": "a", "payload_length": 99999999999999}\n', b"a" * ((1 << 20) + 2),
        b'{"type": "synthesize", "data": {"text": null}}\n',
        *(
            b'{"type": "synthesize", "data": {"text": "Hi%s.", "voice": {"%s": "a%s"}}}\n' % each
            for each in (
                (rb"\ud800", b"name", b""), (b"", b"name", rb"\ud800"),
                (b"", b"language", rb"\udfff"), (b"", b"speaker", rb"\ud83d"),
            )
        ),
    ],
    ids=lambda data: repr(data[:45]),
)  # fmt: skip
def test_bytes_that_are_no_event_are_told_so(
    wyoming_server: tuple[Running, int], data: bytes
) -> None:
    _, port = wyoming_server
    with socket.create_connection(("127.0.0.1", port), timeout=WAIT_S) as raw:
        raw.sendall(data)
        head, _, rest = raw.makefile("rb").read().partition(b"\n")
    assert json.loads(head)["type"] == "error"
    assert json.loads(rest)["code"] == "invalid_value"


def _sent(*events: Eventable) -> list[bytes]:
    """Events as bytes, each in two halves."""
    halves = []
    for event in events:
        data = json.dumps(event.event().data).encode()
        head = json.dumps({"type": event.event().type, "data_length": len(data)}).encode() + b"\n"
        halves += [head[:9], head[9:] + data]
    return halves


def test_a_client_that_leaves_anywhere_leaves_nothing_behind(
    wyoming_server: tuple[Running, int],
) -> None:
    running, port = wyoming_server
    halves = _sent(Describe(), Synthesize(LONG), *written("One is here. ", LONG)[:3], Ping())
    for num in range(len(halves) + 1):
        hold(running, 3)
        with socket.create_connection(("127.0.0.1", port), timeout=WAIT_S) as raw:
            for half in halves[:num]:
                raw.sendall(half)
            if num >= 4:
                until(lambda: running.worker.num_running == 1)
        running.model.steps_left = None
        running.model.gate.set()
        until(lambda: is_idle(running))
    assert samples_of(ask(port, Synthesize("Hi.")))


def test_a_connection_that_is_ended_wherever_it_waits_leaves_nothing(
    wyoming_server: tuple[Running, int],
) -> None:
    running, _ = wyoming_server
    sent = b"".join(_sent(Ping(), Describe(), Synthesize(TEXT), *written(*PIECES)))

    async def is_ended_at(step: int) -> bool:
        with listen_tcp("127.0.0.1", 0) as door:
            reader, writer = await asyncio.open_connection(*door.getsockname())
            raw, _ = door.accept()
        with raw:
            raw.sendall(sent)
            raw.setblocking(False)
            client = wyoming._Client(running.service, reader, writer)
            taking = asyncio.create_task(_taken(raw, SynthesizeStopped().event().type))
            is_ended = await is_cancelled_at(step, client.serve())
            writer.transport.abort()
            await taking
        assert asyncio.all_tasks() == {asyncio.current_task()}
        await asyncio.to_thread(until, lambda: is_idle(running))
        return is_ended

    for step in count():
        if not asyncio.run(is_ended_at(step)):
            break
    assert step > 10


async def _taken(raw: socket.socket, last: str) -> None:
    """Take what comes, and leave when all was said."""
    loop, said = asyncio.get_running_loop(), b""
    with suppress(ConnectionError):
        while part := await loop.sock_recv(raw, 1 << 16):
            said = (said + part)[-4096:]
            if last.encode() in said:
                raw.shutdown(socket.SHUT_WR)


def test_bytes_without_an_end_are_not_kept(wyoming_server: tuple[Running, int]) -> None:
    _, port = wyoming_server
    with socket.create_connection(("127.0.0.1", port), timeout=WAIT_S) as raw:
        head = b'{"type": "describe", "data_length": %d}\n' % (1 << 40)
        raw.sendall(head + b"a" * (8 << 20))
        assert b'"error"' in raw.makefile("rb").readline()


def test_more_events_than_are_answered_are_refused(wyoming_server: tuple[Running, int]) -> None:
    _, port = wyoming_server
    running, _ = wyoming_server
    hold(running)
    events = [Synthesize(TEXT)] * (inbox.MAX_WAITING + 2)
    try:
        assert "events wait for their answers" in error_of(ask(port, *events)).text
    finally:
        running.model.gate.set()
    until(lambda: is_idle(running))


def test_others_have_their_turn_while_one_client_sends_much_at_once() -> None:
    async def first() -> str:
        reader = asyncio.StreamReader()
        reader.feed_data(b"".join(_sent(SynthesizeChunk("a"))) * 500)
        box = inbox.Inbox(reader)
        async with box.open():
            event = await box.next(WAIT_S)
        assert event is not None
        return inbox.text_of(event)

    assert len(asyncio.run(first())) < 500


def test_a_text_is_not_longer_in_pieces(
    wyoming_server: tuple[Running, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    _, port = wyoming_server
    monkeypatch.setattr(inbox, "MAX_CHARACTERS", 40)
    pieces = ["It is done. ", "That was all. ", "And one more sentence is here."]
    assert "more than 40 characters" in error_of(ask(port, *written(*pieces))).text
    assert samples_of(ask(port, *written(*pieces[:2])))


@pytest.mark.parametrize(
    ("events", "message"),
    [
        ([SynthesizeStart(), SynthesizeStart()], "a second 'synthesize-start'"),
        ([SynthesizeStart(SynthesizeVoice("nobody")), SynthesizeChunk("Hi.\n")], "no voice"),
        ([SynthesizeStart(), SynthesizeStop()], "empty"),
        ([SynthesizeStart(), SynthesizeChunk("...\n\n"), SynthesizeStop()], "empty"),
    ],
)
def test_a_text_in_pieces_that_cannot_be_is_an_error(
    wyoming_server: tuple[Running, int], events: list[Eventable], message: str
) -> None:
    _, port = wyoming_server
    assert message in error_of(ask(port, *events)).text


def test_the_limits_and_numbers_are_those_of_http() -> None:
    with speaking(max_streams=1, max_queue=0) as (running, port):
        running.model.gate.clear()
        with begin(running):
            until(lambda: running.worker.num_running == 1)
            error = error_of(ask(port, Synthesize(TEXT)))
            assert (error.code, "try again" in error.text) == ("busy", True)
        running.model.gate.set()
        until(lambda: is_idle(running))
        assert samples_of(ask(port, Synthesize(TEXT)))
        until(lambda: running.metric("voxcli_requests_total", outcome="ok") == 1)
        assert running.metric("voxcli_requests_total", outcome="refused") == 1
        assert running.metric("voxcli_audio_seconds_total") > 1


def test_silent_and_slow_clients_are_let_go(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(wyoming, "SILENCE_S", 0.2)
    monkeypatch.setattr(wyoming, "WRITER_S", 0.3)
    monkeypatch.setattr(patience, "STALLED_S", 0.2)
    monkeypatch.setattr(listener, "QUEUE_BYTES", 1 << 16)
    with speaking() as (running, port):
        for sent in ([], _sent(Synthesize(LONG))[:1], _sent(SynthesizeStart())):
            with socket.create_connection(("127.0.0.1", port), timeout=WAIT_S) as raw:
                with suppress(ConnectionError):
                    raw.sendall(b"".join(sent))
                assert rest_of_end(raw) == b""
        monkeypatch.setattr(wyoming, "SILENCE_S", WAIT_S)
        with socket.create_connection(("127.0.0.1", port), timeout=WAIT_S) as raw:
            raw.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            raw.sendall(b"".join(_sent(Synthesize(LONG * 6))))
            until(lambda: running.metric("voxcli_requests_total", outcome="stalled") == 1)
        until(lambda: is_idle(running))
    assert caplog.text.count("was let go: it did nothing for too long") == 4


def test_a_client_that_was_let_go_and_takes_nothing_is_not_kept(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(patience, "STALLED_S", 0.2)
    monkeypatch.setattr(wyoming, "CLOSING_S", 0.1)
    monkeypatch.setattr(listener, "QUEUE_BYTES", 1 << 16)
    with speaking() as (running, port), socket.socket() as raw:
        raw.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        raw.settimeout(WAIT_S)
        raw.connect(("127.0.0.1", port))
        raw.sendall(b"".join(_sent(Synthesize(LONG * 6))))
        until(lambda: running.metric("voxcli_requests_total", outcome="stalled") == 1)

        def is_cut() -> bool:
            with suppress(BrokenPipeError, ConnectionResetError):
                return not raw.send(b"{")
            return True

        until(is_cut)


def test_there_is_a_bound_on_connections(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(wyoming, "MAX_CONNECTIONS", 1)
    with (
        speaking() as (_, port),
        socket.create_connection(("127.0.0.1", port), timeout=WAIT_S) as first,
    ):
        first.sendall(b"".join(_sent(Ping())))
        assert first.recv(1) == b"{"
        with socket.create_connection(("127.0.0.1", port), timeout=WAIT_S) as second:
            assert rest_of_end(second) == b""


def test_a_stopping_server_ends_what_it_speaks_and_closes_what_is_idle(
    caplog: pytest.LogCaptureFixture,
) -> None:
    model = GatedModel()
    with speaking(model=model, grace_s=WAIT_S) as (running, port):
        model.gate.clear()

        async def talk() -> list[Event]:
            async with client_of(port) as idle, client_of(port) as client:
                await idle.write_event(Ping().event())
                assert await idle.read_event()
                await client.write_event(Synthesize(TEXT).event())
                await asyncio.to_thread(until, lambda: running.worker.num_running == 1)
                running.stop()
                await asyncio.to_thread(until, lambda: running.worker.state == "stopping")
                model.gate.set()
                found = []
                while event := await client.read_event():
                    found.append(event)
                assert await idle.read_event() is None
                return found

        assert samples_of(asyncio.run(talk()))
        assert running.join().num_aborted == 0
        with pytest.raises(ConnectionRefusedError):
            socket.create_connection(("127.0.0.1", port), timeout=WAIT_S)
    assert not [each for each in caplog.records if each.levelname == "ERROR"]


def test_speech_that_is_aborted_ends_with_an_error() -> None:
    model = GatedModel()
    with speaking(model=model, grace_s=0) as (running, port):
        model.gate.clear()

        async def talk() -> list[Event]:
            async with client_of(port) as client:
                for event in (SynthesizeStart(), SynthesizeChunk(f"{TEXT}\n")):
                    await client.write_event(event.event())
                await asyncio.to_thread(until, lambda: running.worker.num_running == 1)
                running.stop()
                found = []
                while event_ := await client.read_event():
                    found.append(event_)
                    model.gate.set()
                return found

        error = error_of(asyncio.run(talk()))
        assert (error.code, "stopped" in error.text) == ("unavailable", True)
        assert running.join().num_aborted == 1


@settings(derandomize=True, deadline=None, database=None, max_examples=12)
@given(pieces=st.lists(st.text(max_size=30), max_size=4))
def test_whatever_is_written_ends_with_audio_or_an_error(
    wyoming_server: tuple[Running, int], pieces: list[str]
) -> None:
    running, port = wyoming_server
    for events in (written(*pieces), [Synthesize("".join(pieces))]):
        answer = ask(port, *events)
        if Error.is_type(answer[-1].type):
            error_of(answer)
        else:
            assert samples_of(answer)
    until(lambda: is_idle(running))


@pytest.mark.parametrize(
    ("given_", "host", "found"),
    [
        ("10200", "127.0.0.1", ("127.0.0.1", 10200)),
        ("0", "::1", ("::1", 0)),
        ("0.0.0.0:10200", "0.0.0.0", ("0.0.0.0", 10200)),
        ("127.0.0.1:10200", "0.0.0.0", ("127.0.0.1", 10200)),
        ("[::]:10200", "127.0.0.1", ("::", 10200)),
    ],
)
def test_an_address_of_others_has_to_be_named(
    given_: str, host: str, found: tuple[str, int]
) -> None:
    assert wyoming_at(given_, host) == found


@pytest.mark.parametrize("wrong", ["", "x", "-1", "65536", "here:", "1.5", "²"])
def test_a_port_that_is_none_is_refused(wrong: str) -> None:
    with pytest.raises(UsageError, match="--wyoming"):
        wyoming_at(wrong, "127.0.0.1")


def test_a_host_that_others_reach_is_not_opened_by_a_port_alone(
    capfd: pytest.CaptureFixture[str],
) -> None:
    words = ["serve", "--no-socket", "--host", "0.0.0.0", "--api-key", "a-long-secret"]
    assert cli.main([*words, "--port", "0", "--wyoming", "10200"]) == 2
    assert "Wyoming has no keys" in capfd.readouterr().err


def test_a_fresh_process_goes_on_with_the_same_port() -> None:
    listening = Listening(port=0, wyoming=("127.0.0.1", 0))
    with Door.open(listening, None, model="fake") as door:
        urls = door.urls
        shown = describe({"pid": 1, "url": door.url, "wyoming": door.wyoming_url, "idle_s": None})
        assert shown == f"pid 1, {urls}"
        left = door.leave()
    with Door.take("127.0.0.1", left) as again:
        assert again.urls == urls
        assert urls.startswith(f"{again.url} and tcp://127.0.0.1:")
        taken = again.wyoming.getsockname()[1] if again.wyoming else 0
        with pytest.raises(UsageError, match="use another --wyoming"):
            Door.open(Listening(port=0, wyoming=("127.0.0.1", taken)), None, model="fake")
