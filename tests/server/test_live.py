"""The WebSocket: text in pieces to speech, and what becomes of clients of every kind."""

from __future__ import annotations

import asyncio
import itertools
import json
import socket
import subprocess
import sys
import threading
import wave
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from fakes import SAMPLE_RATE, fake_engine
from hypothesis import given, settings
from hypothesis import strategies as st
from needs import PATIENCE_S
from running import (
    LONG,
    GatedModel,
    Running,
    begin,
    hold,
    rest_until_end,
    run_server,
    threads_of_clients,
    until,
)
from talking import Talk, address, connect, talk
from websockets.exceptions import ConnectionClosed, InvalidStatus

from voxcli.audio.joins import QUIET
from voxcli.audio.pcm import quantise
from voxcli.audio.read import decode_audio
from voxcli.config import SamplingParams
from voxcli.server import live, patience
from voxcli.server.connections import MAX_FRAGMENTS, READ_BYTES, LiveConnection
from voxcli.server.guard import CONFIG_BYTES, KEY_PROTOCOL
from voxcli.server.live import PROTOCOL
from voxcli.server.schema import MAX_CHARACTERS, SpeechRequest
from voxcli.server.worker import State
from voxcli.streaming.outlet import Made, Outlet
from voxcli.streaming.source import Item, OneText
from voxcli.streaming.streamer import Streamer
from voxcli.utterance import Utterance

SENTENCES = ["The ferry leaves at noon.", "Bring a warm jacket.", "Mind the step!"]
TEXT = " ".join(SENTENCES)
KEY = "a-long-secret"
PAGE = "http://localhost:3000"


class Recorder(Outlet):
    def __init__(self) -> None:
        super().__init__()
        self.samples: list[np.ndarray] = []

    def write(self, samples: np.ndarray, made: Made) -> None:
        self.samples.append(samples)


class Parts(OneText):
    """Sentences of a line that is still being written, as `voxcli stream -` has them."""

    is_by_line = True

    def __init__(self, items: list[Item]) -> None:
        self._items = items

    @property
    def is_over(self) -> bool:  # type: ignore[override]
        return not self._items

    def next(self, timeout_s: float) -> Item:
        return self._items.pop(0)


def streamed(sentences: list[str], seed: int = 3) -> np.ndarray:
    """What `voxcli stream -` makes of these sentences."""
    engine, outlet = fake_engine(), Recorder()
    plans = [engine.plan(Utterance(each, sampling=SamplingParams(seed))) for each in sentences]
    Streamer(engine, Parts([Item(each, line=1, is_part=True) for each in plans]), outlet).run()
    return np.frombuffer(quantise(np.concatenate(outlet.samples), "16"), "<i2")


def spoken(running: Running, *pieces: str, **config: Any) -> Talk:
    """An utterance that was heard to its end."""
    with talk(running, **config) as it:
        it.write(*pieces)
        it.say("input.done")
        it.until("session.done")
        return it


@pytest.fixture(scope="module")
def kept() -> Iterator[Running]:
    with run_server() as running:
        for _ in range(3):  # and with all its threads
            spoken(running, "It is done.")
        yield running


@pytest.fixture
def shared(kept: Running) -> Iterator[Running]:
    """A server whose model stands still where a test lets it, and goes on after it."""
    yield kept
    kept.model.steps_left = None
    kept.model.gate.set()


def is_free(running: Running) -> bool:
    worker = running.worker
    num_open = running.metric("voxcli_websockets")
    return not (num_open or worker.num_running or worker.num_waiting)


# ------------------------------------------------------------------------ what is heard


@settings(max_examples=8, deadline=None)
@given(sizes=st.lists(st.integers(1, 30), min_size=1, max_size=4))
def test_samples_are_those_of_the_same_sentences_in_a_stream_however_text_came(
    server: Running, sizes: list[int]
) -> None:
    pieces, position = [], 0
    for size in itertools.cycle(sizes):
        pieces.append(TEXT[position : position + size])
        position += size
        if position >= len(TEXT):
            break
    it = spoken(server, *pieces)
    assert it.sentences == SENTENCES
    assert np.array_equal(it.samples, streamed(SENTENCES))


def test_a_sentence_has_the_samples_of_its_own_request(server: Running) -> None:
    with server.client() as client:
        for sentence in SENTENCES:
            body = {"input": sentence, "response_format": "pcm", "seed": 3, "sample_rate": 8000}
            whole = np.frombuffer(client.post("/v1/audio/speech", json=body).content, "<i2")
            sounding = np.flatnonzero(np.abs(whole) >= QUIET * 32768)[-1] + 1
            assert np.array_equal(spoken(server, sentence).samples[:sounding], whole[:sounding])


def test_a_sentence_is_heard_before_the_next_is_written(server: Running) -> None:
    with talk(server) as it:
        it.write("It is done. ")
        assert it.until("audio.done")["sentence_text"] == "It is done."
        it.write("That")
        it.say("input.flush")
        assert it.until("audio.done")["sentence_text"] == "That"
        it.write("was all.")
        it.say("session.close")
        assert it.rest() == 1000
    assert it.sentences == ["It is done.", "That", "was all."]
    assert it.of("session.done")[0]["total_sentences"] == 3
    assert np.array_equal(it.samples, streamed(it.sentences))


def test_events_say_when_each_sentence_sounds(server: Running) -> None:
    text = "One is here. [pause 1s] Two is here.\n\nThree is here."
    it = spoken(server, text, timestamps=True)
    done, total = it.of("audio.done"), it.of("session.done")[0]
    assert sum(each["total_bytes"] for each in done) == total["total_bytes"] == len(it.audio)
    assert total["duration"] == pytest.approx(len(it.samples) / SAMPLE_RATE)
    assert total["finish_reason"] == "stop"
    for before, after in itertools.pairwise(done):
        assert before["end"] < after["start"]
    for start, end in zip(it.of("audio.start"), done, strict=True):
        assert start["start"] <= end["start"] < end["end"]
        assert end["segments"][0]["start"] == end["start"]
        assert end["segments"][-1]["words"][-1]["end"] == end["end"]
        assert end["times_of_words"] == "estimated"
        first, last = (round(each * SAMPLE_RATE) for each in (end["start"], end["end"]))
        assert np.abs(it.samples[first - 8 : first + 8]).max() > 0
        assert np.abs(it.samples[last + 8 : last + 800]).max() <= QUIET * 32768
    assert done[1]["start"] - done[0]["end"] == pytest.approx(1.0, abs=0.01)
    assert done[2]["start"] - done[1]["end"] == pytest.approx(0.6, abs=0.01)


@pytest.mark.parametrize("name", ["wav", "mp3", "flac", "opus"])
def test_an_utterance_is_one_stream_of_its_format(server: Running, name: str) -> None:
    it = spoken(server, TEXT, response_format=name, sample_rate=48_000 if name == "opus" else 8000)
    if name == "wav":
        assert it.audio[:4] == b"RIFF"
        assert it.audio.count(b"RIFF") == 1
        assert np.array_equal(np.frombuffer(it.audio[44:], "<i2"), streamed(SENTENCES))
    elif name != "flac":  # which libsndfile does not read without a length
        duration_s = decode_audio(it.audio, "an answer").duration_s
        # an MP3 of 8 kHz begins 1105 samples late, and ends with a whole frame of 576
        assert duration_s == pytest.approx(it.of("session.done")[0]["duration"], abs=0.3)
    assert it.created["response_format"] == it.of("audio.start")[0]["format"] == name


def test_speech_of_an_utterance_is_no_longer_than_asked(server: Running) -> None:
    with talk(server, max_seconds=3.0) as it:
        it.write(TEXT)
        it.say("input.done")
        done = it.until("session.done")
        assert (done["duration"], done["finish_reason"]) == (3.0, "length")
        it.write("Mind the step!")
        it.say("input.done")
        assert it.until("session.done")["finish_reason"] == "stop"


def test_a_character_that_was_cut_in_two_loses_no_word(server: Running) -> None:
    with talk(server, seed=3) as it:
        it.write("It \ud83d", "\ude00 is good. That \ud83d")
        it.until("audio.done")
        it.say("response.cancel")
        assert it.until("response.cancelled")["unspoken_text"] == " That "
    assert it.sentences == ["It 😀 is good."]


def test_what_a_model_thinks_is_not_spoken_and_the_next_sentence_names_it(server: Running) -> None:
    with talk(server, seed=3) as it:
        it.write("<think>\nThey said hi.\n\nSo I")
        it.say("input.done")
        assert it.until("session.done")["total_sentences"] == 0
        it.write("It is go", "od. ")
        assert it.until("audio.start")["not_followed"] == "think"
        it.say("input.done")
        it.until("session.done")
    assert it.sentences == ["It is good."]


def test_what_cannot_be_spoken_is_told_and_the_rest_is_spoken() -> None:
    model = GatedModel()
    model.faults = {"It is bad.": ["silent"] * 9}
    with run_server(model=model) as running:
        it = spoken(running, "It is good. 嗯。 It is bad. 🙂 It is good. ")
    told = [each.get("error", {}).get("type") for each in it.of("audio.done")]
    assert told == [None, "invalid_request_error", "synthesis_error", None]
    assert np.array_equal(it.samples, streamed(["It is good.", "It is good."]))


# ------------------------------------------------------------------------ what is said


@pytest.mark.parametrize(
    "fields",
    [
        {"voice": "nobody"}, {"voice": 5}, {"speed": 9}, {"model": "other"}, {"steps": 1000},
        {"seed": -1}, {"language": "zz"}, {"response_format": "aac"}, {"sample_rate": 5},
        {"ref_audio": "http://example.org/a.wav"}, {"ref_text": "so"}, {"lexicon": "a,b,c,d\n"},
        {"raw_text": True, "lexicon": "a,b"}, {"steps": 4, "top_k": 3}, {"retries": "3"},
    ],
)  # fmt: skip
def test_a_configuration_is_refused_as_the_same_request_is(
    server: Running, fields: dict[str, Any]
) -> None:
    with server.client() as client:
        body = {"input": "1", "stream": True, "response_format": "pcm", **fields}
        answer = client.post("/v1/audio/speech", json=body)
    assert answer.status_code in (400, 404)
    with connect(address(server)) as raw:
        it = Talk(raw)
        it.say("session.config", **fields)
        assert it.rest() == 1008
    assert it.events == [{"type": "error", "error": answer.json()["error"]}]


def test_a_configuration_says_what_will_speak_and_what_was_ignored(server: Running) -> None:
    with talk(server, voice=None, seed=None, word_timestamps=True, model="tts-1") as it:
        assert it.created["ignored_fields"] == ["word_timestamps"]
        assert (it.created["model"], it.created["voice"]) == ("fake", "default")
        seed = it.created["seed"]
        it.write(TEXT)
        it.say("input.done")
        it.until("session.done")
        assert np.array_equal(it.samples, streamed(SENTENCES, seed))


def test_a_configuration_holds_until_the_next_which_comes_between_utterances(
    server: Running,
) -> None:
    with talk(server) as it:
        it.write("It is")
        it.say("session.config", seed=4, sample_rate=8000)
        assert it.until("error")["error"]["message"].startswith("an utterance has begun")
        it.write(" done.")
        it.say("input.done")
        it.until("session.done")
        assert np.array_equal(it.samples, streamed(["It is done."]))
        it.say("session.config", voice="nobody")
        assert it.until("error")["error"]["param"] == "voice"
        it.audio = b""
        it.write("It is done.")
        it.say("input.done")
        assert it.until("session.done")["utterance_index"] == 1
        assert np.array_equal(it.samples, streamed(["It is done."]))
        it.say("session.config", seed=4, sample_rate=8000)
        it.until("session.created")
        it.audio = b""
        it.write("It is done.")
        it.say("input.done")
        it.until("session.done")
        assert np.array_equal(it.samples, streamed(["It is done."], 4))


@pytest.mark.parametrize(
    "frame",
    [
        "", "{", "[]", "5", '"x"', b"bytes", '{"type": 5}', '{"type": "audio.append"}', "{}",
        '{"type": "input.text"}', '{"type": "input.text", "text": 5}',
        '{"type": "input.text", "text": ["x"]}', "[" * 100_000, '{"type": "\\ud800"}',
        json.dumps({"type": "input.text", "text": "x" * (MAX_CHARACTERS + 1)}),
    ],
    ids=range(15),
)  # fmt: skip
def test_a_message_that_means_nothing_is_told_and_changes_nothing(
    server: Running, frame: str | bytes
) -> None:
    with talk(server) as it:
        it.write("It is ")
        it.socket.send(frame)
        assert it.until("error")["error"]["type"] == "invalid_request_error"
        it.write("done.")
        it.say("input.done")
        it.until("session.done")
    assert it.sentences == ["It is done."]


@pytest.mark.parametrize("kind", ["input.text", "input.done", "response.cancel", "session.close"])
def test_the_first_message_configures(server: Running, kind: str) -> None:
    with connect(address(server)) as raw:
        it = Talk(raw)
        it.say(kind, text="Hello there. ")
        assert it.rest() == 1008
    assert "session.config has to be the first" in it.events[0]["error"]["message"]


def test_a_later_version_is_told_which_messages_are_known_here(server: Running) -> None:
    with connect(address(server)) as raw:
        it = Talk(raw)
        it.say("session.config", protocol=PROTOCOL + 1)
        assert it.rest() == 1008
        assert it.events[0]["error"]["param"] == "protocol"
    with talk(server, protocol=PROTOCOL, later_field=1) as it:
        assert it.created["protocol"] == PROTOCOL
        it.say("input.later")
        assert "input.done" in it.until("error")["error"]["message"]
        it.write("It is done. ")
        it.say("input.done", later_field=1)
        it.until("session.done")


def test_an_utterance_without_words_ends_too(server: Running) -> None:
    it = spoken(server, "", " \n", "---")
    done = it.of("session.done")[0]
    assert (done["total_sentences"], done["duration"], it.audio) == (0, 0.0, b"")


def test_the_recipe_writes_what_comes_through_a_pipe(server: Running, tmp_path: Path) -> None:
    file = tmp_path / "a.wav"
    recipe = Path(__file__).parents[2] / "recipes" / "live_client.py"
    process = subprocess.Popen(
        [sys.executable, str(recipe), str(file), "--url", server.url],
        stdin=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    with process:
        assert process.stdin is not None
        assert process.stderr is not None
        process.stdin.write("It is done. Thé".encode()[:-1])
        process.stdin.flush()
        assert b"It is done." in process.stderr.readline()  # while the rest is still to come
        process.stdin.write("Thé".encode()[-1:])
        process.stdin.close()
        told = process.stderr.read()
    assert process.returncode == 0, told
    assert "Thé" in told.decode()
    seconds = json.loads(told.splitlines()[-1])["duration"]
    with wave.open(str(file)) as sound:
        assert sound.getnframes() / sound.getframerate() == pytest.approx(seconds, abs=0.001)


# ------------------------------------------------------------------------ barge-in


@pytest.mark.parametrize("num_steps", range(0, 30, 4))
def test_cancelled_at_any_moment_the_next_utterance_is_whole(
    shared: Running, num_steps: int
) -> None:
    """The model stands still at that moment; who interrupts does not wait for it."""
    hold(shared, num_steps)
    with talk(shared) as it:
        it.write(f"{TEXT} And then")
        until(lambda: not shared.model.gate.is_set())
        it.say("response.cancel")
        it.write("It is ")
        cancelled = it.until("response.cancelled")
        assert cancelled["total_bytes"] == len(it.audio)
        assert cancelled["duration"] == pytest.approx(len(it.samples) / SAMPLE_RATE)
        assert it.events[-1] == cancelled
        done, begun = len(it.of("audio.done")), cancelled["sentence_index"]
        assert begun == done if num_steps else begun in (None, 0)
        said = [] if begun is None else [*SENTENCES, "And then"][: begun + 1]
        assert " ".join([*said, cancelled["unspoken_text"].strip()]).strip() == f"{TEXT} And then"
        shared.model.gate.set()
        it.audio = b""
        it.write("done.")
        it.say("input.done")
        assert it.until("session.done")["utterance_index"] == 1
        assert np.array_equal(it.samples, streamed(["It is done."]))
    until(lambda: is_free(shared))


def test_cancelling_takes_back_what_waits_and_always_answers(shared: Running) -> None:
    hold(shared, 0)
    with talk(shared) as it:
        it.write("It is done. ", "That is ")
        it.say("input.done")
        it.write("One more")
        until(lambda: shared.worker.num_running == 1)
        it.say("response.cancel")
        it.say("response.cancel")
        first, second = it.until("response.cancelled"), it.until("response.cancelled")
        unspoken = first["unspoken_text"] + second["unspoken_text"]
        assert unspoken.split() == ["That", "is", "One", "more"]
        shared.model.gate.set()
        it.say("input.done")
        assert it.until("session.done")["total_sentences"] == 0
    until(lambda: shared.metric("voxcli_requests_total", outcome="cancelled") >= 1)


def test_messages_that_arrive_together_are_followed_in_their_order(shared: Running) -> None:
    with connect(address(shared)) as raw:
        for message in (
            {"type": "session.config", "response_format": "pcm"},
            {"type": "input.text", "text": "It is done. "},
            {"type": "response.cancel"},
            {"type": "session.close"},
        ):
            raw.protocol.send_text(json.dumps(message).encode())
        raw.socket.sendall(b"".join(raw.protocol.data_to_send()))
        it = Talk(raw)
        assert it.rest() == 1000
    assert [it.events[0]["type"], len(it.of("response.cancelled"))] == ["session.created", 1]


def test_cancelling_overtakes_a_text_of_any_length_that_was_written_before(shared: Running) -> None:
    hold(shared, 0)
    piece = "It is done. " * (MAX_CHARACTERS // 12)
    with talk(shared) as it:
        it.write(*[piece] * 5)
        until(lambda: shared.worker.num_running == 1)
        it.say("response.cancel")
        unspoken = it.until("response.cancelled")["unspoken_text"]
        assert unspoken.split() == (piece * 5).split()[3:]
        shared.model.gate.set()
    until(lambda: is_free(shared))


# ------------------------------------------------------------------------ clients of every kind

SCRIPT: list[Callable[[Talk], None]] = [
    lambda it: it.say("session.config", seed=3),
    lambda it: it.write("It is "),
    lambda it: it.write("done. And"),
    lambda it: it.say("input.flush"),
    lambda it: it.say("response.cancel"),
    lambda it: it.write(LONG),
    lambda it: it.say("input.done"),
    lambda it: it.write("Hello"),
    lambda it: it.say("session.close"),
]


@pytest.mark.parametrize("has_farewell", [True, False])
@pytest.mark.parametrize("num_messages", range(len(SCRIPT) + 1))
def test_a_client_that_leaves_after_any_message_leaves_nothing(
    shared: Running, num_messages: int, has_farewell: bool
) -> None:
    before = threads_of_clients()
    with connect(address(shared)) as raw:
        it = Talk(raw)
        for say in SCRIPT[:num_messages]:
            say(it)
        if not has_farewell:
            raw.socket.shutdown(socket.SHUT_RDWR)
    until(lambda: is_free(shared))
    until(lambda: threads_of_clients() <= before)
    assert shared.worker.state is State.READY


def test_a_client_that_leaves_while_its_text_waits_is_found_when_it_is_spoken_to(
    shared: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(live, "MAX_WAITING", 200)
    hold(shared, 3)
    with connect(address(shared)) as raw:
        it = Talk(raw)
        it.say("session.config")
        it.write(*[TEXT] * 50)  # more than is read
        until(lambda: not shared.model.gate.is_set())
        raw.socket.shutdown(socket.SHUT_RDWR)
    shared.model.gate.set()
    until(lambda: is_free(shared))


def test_a_writer_without_end_is_heard_and_waits_for_the_speech(
    shared: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(live, "MAX_WAITING", 200)
    is_over = threading.Event()
    with talk(shared) as it:

        def write() -> None:
            try:
                for number in itertools.count():
                    it.write(f"Number {number} is ", "here. ")
            except ConnectionClosed:
                is_over.set()

        writer = threading.Thread(target=write, daemon=True)
        writer.start()
        for number in range(20):
            assert it.until("audio.done")["sentence_text"] == f"Number {number} is here."
        it.socket.socket.shutdown(socket.SHUT_RDWR)
    assert is_over.wait(PATIENCE_S)
    until(lambda: is_free(shared))


def test_a_reader_that_takes_nothing_is_let_go_and_stops_nobody(
    shared: Running, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(patience, "STALLED_S", 0.3)
    before = shared.metric("voxcli_requests_total", outcome="stalled")
    with connect(address(shared), max_queue=1) as raw:
        it = Talk(raw)
        it.say("session.config", sample_rate=192_000)
        for _ in range(40):
            it.write(LONG)
        until(lambda: shared.metric("voxcli_requests_total", outcome="stalled") > before)
        assert spoken(shared, TEXT).sentences == SENTENCES
        assert "took next to nothing of its speech" in caplog.text
        raw.socket.shutdown(socket.SHUT_RDWR)
    until(lambda: is_free(shared))


def filled(running: Running) -> list[socket.socket]:
    """Two texts in a server that takes no more, one of them held while it is spoken."""
    hold(running, 0)
    others = [begin(running)]
    until(lambda: running.worker.num_running == 1)
    others.append(begin(running))
    until(lambda: running.worker.num_waiting == 1)
    return others


def test_a_sentence_waits_for_a_server_that_is_full(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(live, "BUSY_PAUSE_S", 0.01)
    with run_server(max_streams=1, max_queue=1) as running:
        others = filled(running)
        with talk(running) as it:
            it.write("It is done. ")
            until(lambda: running.metric("voxcli_websockets") == 1)
            running.model.gate.set()
            assert all(rest_until_end(raw) for raw in others)
            assert "error" not in it.until("audio.done")
        monkeypatch.setattr(live, "BUSY_S", 0.0)
        others = filled(running)
        with talk(running) as it:
            it.write("It is done. ")
            assert it.until("audio.done")["error"]["code"] == "busy"
        running.model.gate.set()
        assert all(rest_until_end(raw) for raw in others)


# ------------------------------------------------------------------------ who may, and how much


def refused(running: Running, **options: Any) -> InvalidStatus:
    with pytest.raises(InvalidStatus) as caught, connect(address(running), **options):
        pass
    return caught.value


def test_more_websockets_than_places_are_refused_before_they_open() -> None:
    with run_server(max_streams=1, max_queue=0) as running:
        with talk(running):
            answer = refused(running).response
            assert answer.status_code == 429
            assert int(answer.headers["retry-after"]) >= 1
            assert json.loads(answer.body or b"")["error"]["code"] == "busy"
        until(lambda: is_free(running))
        with talk(running):
            pass


def test_keys_hosts_and_origins_are_those_of_http(caplog: pytest.LogCaptureFixture) -> None:
    with run_server(api_key=KEY, origins=(PAGE,)) as running:
        key = {"Authorization": f"Bearer {KEY}"}
        by_page = [f"{KEY_PROTOCOL}{KEY}", live.SUBPROTOCOL]
        assert refused(running).response.status_code == 401
        wrong = [f"{KEY_PROTOCOL}wrong-key", live.SUBPROTOCOL]
        assert refused(running, subprotocols=wrong).response.status_code == 401
        for origin in ("http://evil.org", "null", "http://localhost:3001"):
            options: Any = {"origin": origin, "additional_headers": key}
            assert refused(running, **options).response.status_code == 403
        for origin in (PAGE, running.url, None):
            options = {"origin": origin, "proxy": None}
            with connect(address(running), additional_headers=key, **options):
                pass
            with connect(address(running), subprotocols=by_page, **options) as raw:
                assert raw.subprotocol == live.SUBPROTOCOL
    with run_server() as running:
        for origin in (PAGE, "http://evil.org", "null"):
            assert refused(running, origin=origin).response.status_code == 403
        port = running.url.rpartition(":")[2]
        with pytest.raises(InvalidStatus, match="403"):
            connect(
                f"ws://evil.org:{port}{live.PATH}", proxy=None,
                sock=socket.create_connection(("127.0.0.1", int(port))),
            )  # fmt: skip
    assert not caplog.messages


def test_another_path_is_told_which_is_the_one(server: Running) -> None:
    for path in (f"{live.PATH}/", "/v1/realtime", "/"):
        url = f"ws{server.url.removeprefix('http')}{path}"
        with pytest.raises(InvalidStatus) as caught, connect(url, proxy=None):
            pass
        answer = caught.value.response
        assert answer.status_code == 404
        assert json.loads(answer.body or b"")["error"]["message"].endswith(f" is {live.PATH}")


def test_without_an_upgrade_the_path_says_what_it_is(server: Running) -> None:
    with server.client() as client:
        answer = client.get(live.PATH)
    assert answer.status_code == 426
    assert "WebSocket" in answer.json()["error"]["message"]


@pytest.mark.parametrize(
    ("name", "limit_s", "code"),
    [("CONFIG_S", 0.1, 1008), ("IDLE_S", 0.1, 1000), ("SESSION_S", 0.3, 1000)],
)
def test_nobody_is_waited_for_without_end(
    shared: Running, monkeypatch: pytest.MonkeyPatch, name: str, limit_s: float, code: int
) -> None:
    monkeypatch.setattr(live, name, limit_s)
    with connect(address(shared)) as raw:
        it = Talk(raw)
        if name != "CONFIG_S":
            it.say("session.config")
        assert it.rest() == code
    assert f"{limit_s:g} s" in it.of("error")[0]["error"]["message"]
    until(lambda: is_free(shared))


def test_who_listens_is_not_idle(shared: Running, monkeypatch: pytest.MonkeyPatch) -> None:
    hold(shared, 2)
    with talk(shared) as it:
        it.write("It is done. ")
        until(lambda: not shared.model.gate.is_set())
        monkeypatch.setattr(live, "IDLE_S", 0.05)
        it.write("And")  # the next message is waited for so long
        threading.Event().wait(0.3)
        shared.model.gate.set()
        assert "error" not in it.until("audio.done")
        assert it.rest() == 1000


@pytest.mark.parametrize(
    "frames", [["x" * (CONFIG_BYTES + 1)], [""] * (MAX_FRAGMENTS + 2)], ids=["large", "fragments"]
)
def test_a_message_too_large_ends_the_connection(shared: Running, frames: list[str]) -> None:
    with talk(shared) as it:
        try:
            it.socket.send(iter(frames) if len(frames) > 1 else frames[0])
        except ConnectionClosed:
            pass
        assert it.rest() in (1009, 1006)  # the second where the connection's end overtook the first
    until(lambda: is_free(shared))


def test_others_have_their_turn_while_one_client_sends_much_at_once(
    shared: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Flood:
        """A WebSocket whose messages have all come."""

        num_left = 500

        async def receive(self) -> dict[str, Any]:
            self.num_left -= 1
            is_over = self.num_left < 0
            return {"type": "websocket.disconnect"} if is_over else {"type": "", "text": "{}"}

    async def turns() -> int:
        session: Any = live.LiveSession(Flood(), shared.service, SpeechRequest)  # type: ignore[arg-type]
        reading, num = asyncio.create_task(session._read()), 0
        while not reading.done():
            num += 1
            await asyncio.sleep(0)
        return num

    assert asyncio.run(turns()) > 500
    largest: list[int] = []
    take = LiveConnection.data_received
    monkeypatch.setattr(
        LiveConnection,
        "data_received",
        lambda self, data: [largest.append(len(data)), take(self, data)],
    )
    with talk(shared) as it:
        it.write("It is done. " * 8000)
        it.say("response.cancel")
        it.until("response.cancelled")
    assert 0 < max(largest) <= READ_BYTES
    until(lambda: is_free(shared))


def test_pings_of_a_client_that_takes_no_answers_are_not_kept(shared: Running) -> None:
    hold(shared, 0)
    with talk(shared) as it:
        for _ in range(3):
            it.socket.ping()
        assert it.socket.ping().wait(PATIENCE_S)
    shared.model.gate.set()
    until(lambda: is_free(shared))


# ------------------------------------------------------------------------ the server's end


def test_a_stop_lets_the_sentence_end_and_tells_who_waits() -> None:
    with run_server(grace_s=60) as running, talk(running) as idle, talk(running) as it:
        hold(running, 2)
        it.write(TEXT)
        until(lambda: not running.model.gate.is_set())
        running.stop()
        assert idle.rest() == 1012
        running.model.gate.set()
        assert it.rest() == 1012
        ending = running.join()
    assert it.sentences == SENTENCES[:1]
    assert np.array_equal(it.samples, streamed(SENTENCES[:1]))
    for each in (idle, it):
        assert each.events[-1]["error"]["code"] == "unavailable"
    assert (ending.num_aborted, ending.error) == (0, None)


def test_a_stop_without_grace_cuts_the_sentence_short() -> None:
    with run_server(grace_s=0.0) as running, talk(running) as it:
        hold(running, 2)
        it.write(TEXT)
        until(lambda: not running.model.gate.is_set())
        running.stop()
        until(lambda: running.worker.state is State.STOPPED)
        running.model.gate.set()
        assert it.rest() == 1012
        assert running.join().num_aborted == 1


def test_a_fault_of_the_engine_is_told() -> None:
    with run_server(model=GatedModel(fail_at_step=3)) as running, talk(running) as it:
        it.write(TEXT)
        assert it.rest() == 1012
        assert it.of("audio.done")[0]["error"]["code"] == "engine_failed"
        assert running.join().error is not None
