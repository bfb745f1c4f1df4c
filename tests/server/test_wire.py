"""What goes over the wire: the same on both sides, checked on the way in, of one protocol.

    PYTHONPATH=tests python tests/server/test_wire.py

writes `protocol_N.txt`, a message a line as hex. Do that once, when `PROTOCOL` becomes N.
"""

from __future__ import annotations

import http.client
import io
import json
import socket
import struct
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx
import msgspec
import numpy as np
import pytest
from fakes import fake_engine
from hypothesis import given, settings
from hypothesis import strategies as st
from needs import PATIENCE_S
from running import Running, run_server

from voxcli import __version__, cli
from voxcli.config import EngineConfig, SamplingParams
from voxcli.engine.base import EngineFacts, Setup, Wanted
from voxcli.engine.choose import AUTO, open_engine
from voxcli.engine.remote import wire
from voxcli.engine.remote.client import RemoteEngine, RemoteSession
from voxcli.engine.remote.find import connect_here, connect_to
from voxcli.engine.remote.place import Place
from voxcli.engine.remote.transport import Server
from voxcli.errors import EngineError, SynthesisError, UnavailableError, UsageError
from voxcli.parameters import Parameter
from voxcli.text.changes import Change
from voxcli.text.prepared import PreparedText, Segment, Unspeakable
from voxcli.utterance import (
    FinishReason,
    Mode,
    Recording,
    SegmentReport,
    Use,
    Utterance,
    VoiceEncoding,
)

KEPT = Path(__file__).with_name(f"protocol_{wire.PROTOCOL}.txt")
WANTED = Wanted("mini", device="cpu")
ENCODING = VoiceEncoding(
    "mini", "0" * 64, {"reference": np.arange(6, dtype=np.float32).reshape(1, 2, 3),
                       "codes": np.array([[7, -8]])},
)  # fmt: skip
RECORDING = Recording(np.array([0.5, -0.25], np.float32), 16_000, "One.")
UTTERANCE = Utterance(
    "Hello there.", "alba", SamplingParams(3, 20.5, 1, {"steps": 6, "scale": 1.5, "is_x": True}),
    "en", 1.25, False, "row", RECORDING, Recording(None, 16_000, "Two.", ENCODING, "key"), "calm",
    True, 0.5, "nginx,engine X",
)  # fmt: skip
FACTS = EngineFacts(
    "voxcli serve", "mini", "voxcpm2", 24_000, 16_000, "pid 12, http://127.0.0.1:8091", ("en",),
    (Mode.ZERO_SHOT, Mode.STYLE), ("alba",),
    (Parameter("steps", "int", "Steps", 6, 2.0, 100.0, "a note", ("s",)),
     Parameter("is_x", "bool", "X", False)),
    {"steps": 6}, {"steps": 8}, 4,
)  # fmt: skip
SETUP = Setup("mini", "a card", "cuda:0", "bf16", 2, 1.5, 0.5, 3, 0.25, 1024, "avx2", "slow")
TEXT = PreparedText(
    "Hi, 1!", "en", "Hi, one!", (Segment("Hi, one!", 0.25, 0.5),), (Change("1", "one", "number"),),
    (Unspeakable("☃", "SNOWMAN", 2),), 1.5,
)  # fmt: skip
REPORT = SegmentReport("Hi.", 3, 2, 12, 1.92, FinishReason.STOP, ("quiet",), ("silent",), 0.5, 2.42)
ERROR = SynthesisError("silent", hint="try again", finish_reason="length", attempts=3)
MESSAGES = {
    "question": wire.Question(replace(WANTED, cache_dir="/c", parameters=({"steps": 6},))),
    "match": wire.Match(None, FACTS, SETUP),
    "mismatch": wire.Match("it serves another model"),
    "plan": wire.PlanOrder(UTTERANCE),
    "planned": wire.Planned(TEXT, 3, {"steps": 6, "scale": 1.5}, "Two.", Mode.BOTH),
    "speech": wire.SpeechOrder(Utterance("Hello."), True, False),
    "chunk": wire.Chunk(1, True, b"\0\0\0\x3f", (REPORT,), 0.5),
    "failure": wire.error_out(ERROR),
    "encode": wire.EncodeOrder(RECORDING, (Use.REFERENCE, Use.PROMPT)),
    "encoding": ENCODING,
    "checksum": wire.ChecksumOrder(True),
}
ORDERS = ("question", "plan", "speech", "encode", "checksum")  # what a server reads


@pytest.fixture(scope="module")
def client(server: Running) -> Iterator[httpx.Client]:
    with server.client(**wire.HEADERS) as client:
        yield client


# ------------------------------------------------------------------------ bytes


@pytest.mark.parametrize("name", MESSAGES)
def test_a_changed_message_asks_for_another_protocol(name: str) -> None:
    """Where this fails, make `PROTOCOL` one more and write a new file, as the module says."""
    kept = dict(line.split() for line in KEPT.read_text("utf-8").splitlines())
    data = bytes.fromhex(kept[name])
    assert wire.pack(MESSAGES[name]) == data
    kind: Any = type(MESSAGES[name])
    read = wire.read_order if name in ORDERS else wire.unpack
    assert wire.pack(read(kind, data)) == data


def test_utterances_cross_the_wire_unchanged() -> None:
    order = wire.read_order(wire.PlanOrder, wire.pack(wire.PlanOrder(UTTERANCE)))
    got = order.utterance
    assert replace(got, reference=None, prompt=None) == replace(
        UTTERANCE, reference=None, prompt=None
    )
    assert got.reference is not None
    assert got.reference.samples is not None
    assert got.reference.samples.tobytes() == RECORDING.samples.tobytes()  # type: ignore[union-attr]
    assert got.reference.key == RECORDING.key
    assert got.prompt is not None
    assert (got.prompt.samples, got.prompt.key) == (None, "key")
    assert got.prompt.encoding is not None
    for name, array in ENCODING.arrays.items():
        there = got.prompt.encoding.arrays[name]
        assert (there.dtype, there.shape) == (array.dtype, array.shape)
        assert there.tobytes() == array.tobytes()


def test_errors_cross_the_wire_unchanged() -> None:
    there = wire.error_in(wire.error_out(ERROR))
    assert type(there) is SynthesisError
    assert vars(there) == vars(ERROR)
    unknown = wire.error_in({"type": "OfTomorrowError", "message": "no", "hint": None})
    assert type(unknown) is EngineError
    with pytest.raises(ValueError, match="Expected"):
        wire.error_in({"type": ["UsageError"]})


def test_an_error_brings_no_more_than_an_error_has() -> None:
    there = wire.error_in({"type": "UsageError", "message": "no", "exit_code": 0, "args": 5})
    assert vars(there) == {"message": "no", "hint": None}
    assert (there.exit_code, there.args) == (2, ("no",))


@pytest.mark.parametrize("deep", [b"\x91" * 99_999, b"\x81\xa1a" * 99_999])
@pytest.mark.parametrize("kind", [1, 2])
def test_an_answer_that_is_nested_without_end_is_none(deep: bytes, kind: int) -> None:
    encoding = b"\x83\xa5model\xa1m\xa7encoder\xa1e\xa6arrays\x81\xa1a" + deep
    for data in (deep, encoding):
        stream = io.BytesIO(struct.pack("<BI", kind, len(data)) + data)
        with pytest.raises(ValueError):
            wire.read_next(VoiceEncoding, stream)


# ------------------------------------------------------------------------ checked on the way in


def count_of(value: Any) -> int:
    if isinstance(value, dict):
        return 1 + sum(1 + count_of(each) for each in value.values())
    return 1 + sum(map(count_of, value)) if isinstance(value, list) else 1


plain = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**64 - 1) | st.floats()
    | st.text(max_size=300) | st.binary(max_size=300)
    | st.sampled_from(["x" * 70_000, b"y" * 70_000, [0] * 70_000])
    | st.builds(msgspec.msgpack.Ext, st.integers(0, 99), st.binary(max_size=300)),
    lambda inner: st.lists(inner, max_size=20) | st.dictionaries(st.text(max_size=40), inner),
    max_leaves=40,
)  # fmt: skip


@settings(derandomize=True, deadline=None, database=None, max_examples=50)
@given(value=plain)
def test_the_values_of_a_message_are_counted_before_they_are_made(value: Any) -> None:
    body = msgspec.msgpack.encode(value)
    assert wire.num_values(body, 1 << 40) == count_of(value)
    assert wire.num_values(body + b"\x90", 1 << 40) == count_of(value)
    assert wire.num_values(body, 5) == min(count_of(value), 6)


@pytest.mark.parametrize(
    "many", [b"\x90", b"\x80", b"\xc0", b"\x91\x90", b"\xa0"], ids=lambda many: many.hex()
)
@pytest.mark.parametrize("head", [b"\xdd", b"\xdf"], ids=["array", "map"])
def test_an_order_of_too_many_values_is_not_read(
    monkeypatch: pytest.MonkeyPatch, head: bytes, many: bytes
) -> None:
    monkeypatch.setattr(msgspec.msgpack, "decode", lambda *_: pytest.fail("it was read"))
    body = head + struct.pack(">I", 2 * wire.MAX_VALUES) + many * 4 * wire.MAX_VALUES
    with pytest.raises(UsageError, match="more than 100,000 values"):
        wire.read_order(wire.PlanOrder, body)


RUBBISH = (b"", b"\0" * 8, b"\xff" * 40, b"\x91" * 5000, wire.pack({}), wire.pack({"utterance": 1}))
ODD: dict[str, dict[str, Any]] = {
    "text": {"text": 5}, "speed": {"speed": "fast"}, "no speed": {"speed": 0},
    "seed": {"seed": "x"}, "pause": {"pause_s": -5}, "voice": {"voice": 5},
    "steps": {"parameters": {"steps": 10**9}}, "half steps": {"parameters": {"steps": 2.5}},
    "scale": {"parameters": {"guidance_scale": float("nan")}},
    "foreign": {"parameters": {"temperature": 1.0}}, "values": {"parameters": {"steps": [6]}},
    "truth": {"retries": True}, "sampling": {"sampling": [1]}, "reference": {"reference": "x"},
    "unknown": {"colour": "red"}, "seconds": {"max_seconds": float("inf")},
}  # fmt: skip


def ask(client: httpx.Client, path: str, content: bytes, **headers: str) -> dict[str, Any]:
    """The error that a request is refused with."""
    answer = client.post(path, content=content, headers=headers)
    assert answer.status_code == 400
    error: dict[str, Any] = answer.json()["error"]
    assert "Traceback" not in error["message"]
    return error


@pytest.mark.parametrize("body", RUBBISH)
def test_a_body_of_rubbish_is_refused(client: httpx.Client, body: bytes) -> None:
    for path in (wire.PATH_MATCH, wire.PATH_PLAN, wire.PATH_SPEECH, wire.PATH_ENCODE):
        assert "is malformed" in ask(client, path, body)["message"]


@pytest.mark.parametrize("name", ODD)
def test_a_value_of_a_wrong_type_is_refused_and_harms_nobody(
    client: httpx.Client, name: str
) -> None:
    order = wire.SpeechOrder(Utterance("Hello there."), True, False)
    plain = msgspec.msgpack.decode(wire.pack(order))
    sampling = plain["utterance"]["sampling"]
    for key, value in ODD[name].items():
        (sampling if key in sampling else plain["utterance"])[key] = value
    ask(client, wire.PATH_SPEECH, wire.pack(plain))
    ask(client, wire.PATH_PLAN, wire.pack({"utterance": plain["utterance"]}))
    assert client.get("/health").json()["streams"] == 0


@pytest.mark.parametrize("key", ["text", "style", "pause_s"])
def test_a_field_that_is_missing_is_not_guessed(client: httpx.Client, key: str) -> None:
    plain = msgspec.msgpack.decode(wire.pack(wire.PlanOrder(Utterance("Hello there."))))
    del plain["utterance"][key]
    error = ask(client, wire.PATH_PLAN, wire.pack(plain))
    assert error["message"].startswith("the utterance is malformed: ")
    assert key in error["message"]


@pytest.mark.parametrize(
    "recording",
    [
        replace(RECORDING, sample_rate=0),
        replace(RECORDING, samples=np.ones((10, 10), np.float32)),
        replace(RECORDING, samples=np.ones(0, np.float32)),
        replace(RECORDING, samples=np.full(16_000, np.nan, np.float32)),
        replace(RECORDING, encoding=replace(ENCODING, arrays={"a": np.float32([np.inf])})),
    ],
)
def test_a_recording_that_is_none_is_refused(client: httpx.Client, recording: Recording) -> None:
    order = wire.SpeechOrder(Utterance("Hello there.", reference=recording), True, False)
    assert "is malformed" in ask(client, wire.PATH_SPEECH, wire.pack(order))["message"]
    encoded = wire.EncodeOrder(recording, (Use.REFERENCE,))
    assert "is malformed" in ask(client, wire.PATH_ENCODE, wire.pack(encoded))["message"]


@pytest.mark.parametrize(
    "change", [{"dtype": "object"}, {"shape": [3]}, {"shape": [-1]}, {"data": "x"}, {"order": "F"}]
)
def test_an_array_that_is_none_is_refused(client: httpx.Client, change: dict[str, Any]) -> None:
    plain = msgspec.msgpack.decode(wire.pack(wire.EncodeOrder(RECORDING, (Use.REFERENCE,))))
    plain["recording"]["samples"].update(change)
    assert "is malformed" in ask(client, wire.PATH_ENCODE, wire.pack(plain))["message"]


def test_a_question_that_makes_no_sense_is_refused(client: httpx.Client) -> None:
    for fields in ({}, {"colour": "red"}, {"wanted": {"model": "mini"}}, {"wanted": None}):
        error = ask(client, wire.PATH_MATCH, wire.pack(fields))
        assert error["message"].startswith("the question is malformed: ")


# ------------------------------------------------------------------------ another protocol

# What voxcli sent and answered before protocols had a number: a header in JSON behind two lengths.
_FORMER = json.dumps(
    {"model": "mini", "device": "cpu", "precision": "auto", "eager": False, "cache_dir": None,
     "folder": None, "is_near": True}
).encode()  # fmt: skip
FORMER_QUESTION = struct.pack("<II", len(_FORMER), 0) + _FORMER
FORMER_REFUSAL = json.dumps(
    {"error": {"message": "the body is no frame: x", "type": "invalid_request_error",
               "param": None, "code": "invalid_value",
               "voxcli": {"type": "UsageError", "message": "the body is no frame: x",
                          "hint": "upgrade voxcli"}}}
).encode()  # fmt: skip
FORMER_MATCH = json.dumps(
    {"mismatch": None, "setup": {}, "sample_rate": 24000, "reference_sample_rate": 16000,
     "max_streams": 16, "name": "pid 12, http://127.0.0.1:8091"}
).encode()  # fmt: skip
NEXT = wire.PROTOCOL + 1
LATER = f"X-Voxcli-Protocol: {NEXT}\r\nX-Voxcli-Version: 0.2.0\r\n"
SPOKEN_LATER = f"protocol {NEXT} (voxcli 0.2.0)"
SERVERS = {
    "a former one's refusal": (400, "", FORMER_REFUSAL, "a former protocol"),
    "a former one's match": (200, "", FORMER_MATCH, "a former protocol"),
    "a later one's refusal": (400, LATER, b"{}", SPOKEN_LATER),
    "a later one's match": (200, LATER, b"\xc1what is this", SPOKEN_LATER),
    "one that makes a joke": (400, "X-Voxcli-Protocol: \x07!\r\n", b"", "protocol ?! (voxcli )"),
}
PATHS = (wire.PATH_MATCH, wire.PATH_PLAN, wire.PATH_SPEECH, wire.PATH_ENCODE, wire.PATH_CHECKSUM)


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize(
    ("headers", "theirs"),
    [
        ({}, "a former protocol"),
        ({"X-Voxcli-Protocol": "1", "X-Voxcli-Version": "0.1.0"}, "protocol 1 (voxcli 0.1.0)"),
        ({"X-Voxcli-Protocol": str(NEXT), "X-Voxcli-Version": "0.2.0"}, SPOKEN_LATER),
    ],
)
def test_a_client_of_another_protocol_is_told_so_in_one_line(
    server: Running, path: str, headers: dict[str, str], theirs: str
) -> None:
    own = f"protocol {wire.PROTOCOL} (voxcli {__version__})"
    said = f"this server speaks {own}, the client speaks {theirs}: "
    with server.client() as client:
        error = ask(client, path, FORMER_QUESTION, **headers)
    assert error["message"].startswith(said)
    assert "restart it with 'voxcli serve --stop'" in error["message"]
    assert "\n" not in error["message"]
    known = error["voxcli"]  # what a former client makes its error of
    assert (known["type"], known["message"]) == ("UsageError", error["message"])
    assert known["hint"] is None


def test_answers_state_the_protocol(client: httpx.Client) -> None:
    refused = client.post(wire.PATH_PLAN, content=b"")
    spoken = client.post(
        wire.PATH_SPEECH, content=wire.pack(wire.SpeechOrder(Utterance("Hello."), True, False))
    )
    for answer in (refused, spoken):
        assert answer.headers["x-voxcli-protocol"] == str(wire.PROTOCOL)
        assert answer.headers["x-voxcli-version"] == __version__
    assert (refused.status_code, spoken.status_code) == (400, 200)


def read_request(client: socket.socket) -> None:
    """All of it: what is left unread would reset the connection when it is closed."""
    with client.makefile("rb") as asked:
        asked.readline()
        asked.read(int(http.client.parse_headers(asked)["Content-Length"]))


@contextmanager
def answering(status: int, headers: str, body: bytes, path: Path | None) -> Iterator[str]:
    """A server that answers every request so, at the URL or the socket."""
    head = f"HTTP/1.1 {status} So\r\n{headers}Content-Length: {len(body)}\r\n\r\n".encode("latin-1")

    def serve() -> None:
        client, _ = listening.accept()
        with client:
            read_request(client)
            client.sendall(head + body)

    if path is None:
        listening = socket.create_server(("127.0.0.1", 0))
    else:
        listening = socket.socket(socket.AF_UNIX)
        listening.bind(str(path))
        listening.listen()
    with listening:
        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        yield "" if path else f"http://127.0.0.1:{listening.getsockname()[1]}"
        thread.join(PATIENCE_S)


@pytest.mark.parametrize("name", SERVERS)
def test_a_server_of_another_protocol_is_no_help_at_a_url(name: str) -> None:
    *answer, theirs = SERVERS[name]
    with answering(*answer, None) as url, pytest.raises(UsageError) as refused:
        connect_to(url, WANTED)
    said = f"the server at {url} speaks {theirs}, this voxcli speaks {wire.PROTOCOL}: restart it "
    assert refused.value.message.startswith(said + "with 'voxcli serve --stop'")
    assert refused.value.hint == "or use --engine native"


@pytest.mark.parametrize("name", SERVERS)
def test_a_server_of_another_protocol_is_a_note_and_an_engine_of_ones_own(
    place: Place, name: str
) -> None:
    *answer, theirs = SERVERS[name]
    notes: list[str] = []
    place.create()
    with answering(*answer, place.socket):
        engine = open_engine(AUTO, EngineConfig("mini", device="cpu"), on_note=notes.append)
    assert engine.facts.engine == "native"
    (note,) = notes
    said = f"the running server is not used: it speaks {theirs}, this voxcli speaks "
    assert note.startswith(f"{said}{wire.PROTOCOL}: restart it")
    assert "\n" not in note


def test_a_server_that_was_replaced_by_another_version_is_told_of_later(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    with run_server(place=place):
        remote, _ = connect_here(WANTED)
        assert remote is not None
        said = rf"speaks protocol {wire.PROTOCOL} \(voxcli .*this voxcli speaks {NEXT}"
        monkeypatch.setattr(wire, "PROTOCOL", NEXT)
        with pytest.raises(UsageError, match=said):
            remote.plan(Utterance("Hello."))


def test_speak_goes_on_beside_a_former_server(
    place: Place, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    place.create()
    out = tmp_path / "a.wav"
    with answering(400, "", FORMER_REFUSAL, place.socket):
        words = ["speak", "Go.", "--device", "cpu", "--seed", "1", "-o", str(out)]
        assert cli.main(words) == 0
    said = capsys.readouterr().err
    assert "the running server is not used: it speaks a former protocol" in said
    assert out.exists()


def write() -> None:
    lines = [f"{name} {wire.pack(message).hex()}" for name, message in MESSAGES.items()]
    KEPT.write_text("\n".join([*lines, ""]), "utf-8")


if __name__ == "__main__":
    write()


HEAD = b"HTTP/1.1 200 OK\r\nConnection: close\r\n" + b"".join(
    f"{name}: {value}\r\n".encode() for name, value in wire.HEADERS.items()
)


@pytest.mark.parametrize(
    ("said", "had_begun"),
    [(None, False), (b"", None), (b"HTTP/1.1 20", None), (HEAD + b"\r\n" + wire.BEAT, True)],
)
def test_who_goes_away_was_at_work_if_it_said_so(said: bytes | None, had_begun: bool) -> None:
    with (
        socket.create_server(("127.0.0.1", 0)) as door,
        speaking_through(door, is_open=said is not None) as session,
    ):
        if said is not None:
            client, _ = door.accept()
            with client:
                read_request(client)
                client.sendall(said)
        with pytest.raises(UnavailableError) as gone:
            session.step()
    assert gone.value.had_begun is had_begun


def test_half_a_sample_is_no_answer() -> None:
    with socket.create_server(("127.0.0.1", 0)) as door, speaking_through(door) as session:
        client, _ = door.accept()
        with client:
            read_request(client)
            chunk = wire.pack_next(wire.Chunk(0, False, b"123"))
            client.sendall(HEAD + b"\r\n" + chunk)
            with pytest.raises(UnavailableError):
                session.step()


def test_the_last_answer_of_a_connection_is_closed_if_it_is_reset(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    connect = socket.create_connection
    connected: list[socket.socket] = []

    def keep(*given: Any) -> socket.socket:
        connected.append(connect(*given))
        return connected[-1]

    monkeypatch.setattr(socket, "create_connection", keep)
    with socket.create_server(("127.0.0.1", 0)) as door, speaking_through(door) as session:
        client, _ = door.accept()
        read_request(client)
        client.sendall(HEAD + b"\r\n")
        client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        client.close()  # at once, which resets it
        with pytest.raises(UnavailableError):
            session.step()
    assert [each.fileno() for each in connected] == [-1]


@contextmanager
def speaking_through(door: socket.socket, *, is_open: bool = True) -> Iterator[RemoteSession]:
    """A speech that is asked of who listens there, or of nobody."""
    engine = fake_engine()
    server = Server(f"http://127.0.0.1:{door.getsockname()[1]}", "it", waits_when_busy=False)
    if not is_open:
        door.close()
    with RemoteEngine(server, WANTED, engine.facts, SETUP).session() as session:
        session.add(engine.plan(Utterance("Hello.")))
        yield session
