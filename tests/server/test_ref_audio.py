"""A voice that comes with its request: bounded, kept, never fetched."""

from __future__ import annotations

import base64
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx
import pytest
from running import GatedModel, Running, hold, run_server, until

from voxcli.server import guard, recordings
from voxcli.utterance import Mode, Utterance

SAMPLES = Path(__file__).resolve().parents[2] / "samples" / "voices"
CLARA = (SAMPLES / "clara.flac").read_bytes()
WORDS = (SAMPLES / "clara.txt").read_text("utf-8")
TEXT = "Hello there, my friend."


def uri(data: bytes, kind: str = "audio/flac") -> str:
    return f"data:{kind};base64,{base64.b64encode(data).decode()}"


@pytest.fixture
def server(own_server: Running) -> Running:
    return own_server


def ask(client: httpx.Client, **fields: Any) -> httpx.Response:
    body = {"input": TEXT, "seed": 5, "response_format": "pcm", **fields}
    return client.post("/v1/audio/speech", json=body)


@pytest.mark.parametrize("text", ["", WORDS])
def test_a_recording_speaks_as_the_voice_that_is_saved_from_it(
    server: Running, client: httpx.Client, text: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = client.post(
        "/v1/audio/voices",
        data={"name": "clara", "consent": "She agreed.", "ref_text": text},
        files={"audio_sample": ("a.flac", CLARA)},
    )
    assert made.status_code == 200, made.text
    planned: list[Utterance] = []
    engine = server.worker.engine
    plan = engine.plan
    monkeypatch.setattr(engine, "plan", lambda given: planned.append(given) or plan(given))
    saved = ask(client, voice="clara")
    sent = ask(client, ref_audio=uri(CLARA), ref_text=text or None)
    named = ask(client, ref_audio="Clara")
    assert sent.content == saved.content == named.content
    assert "x-voice" not in sent.headers
    assert named.headers["x-voice"] == "Clara"
    for each in planned:
        assert each.mode is (Mode.BOTH if text else Mode.REFERENCE)
        assert (each.reference.key, each.reference.text) == (
            planned[0].reference.key, text.strip()
        )  # fmt: skip
        assert each.prompt is None or each.prompt.key == planned[0].prompt.key


def test_the_same_recording_is_heard_once(monkeypatch: pytest.MonkeyPatch) -> None:
    heard = []
    monkeypatch.setattr(
        "voxcli.server.reading.hear", lambda *args: heard.append(1) or recordings.hear(*args)
    )
    model = GatedModel()
    with run_server(model=model) as running, running.client() as client:
        first = ask(client, ref_audio=uri(CLARA))
        assert ask(client, ref_audio=uri(CLARA), voice="alloy").content == first.content
        assert (len(heard), model.num_encoded) == (1, 1)
        ask(client, ref_audio=uri(CLARA), ref_text=WORDS)
        assert len(heard) == 2


@pytest.mark.parametrize(
    ("fields", "param", "words"),
    [
        ({"ref_audio": "http://169.254.169.254/a.wav"}, "ref_audio", "opens neither"),
        ({"ref_audio": "https://example.org/a.wav"}, "ref_audio", "opens neither"),
        ({"ref_audio": "file:///etc/passwd"}, "ref_audio", "opens neither"),
        ({"ref_audio": "/etc/passwd"}, "ref_audio", "opens neither"),
        ({"ref_audio": "..\\voices\\a.wav"}, "ref_audio", "opens neither"),
        ({"ref_audio": base64.b64encode(CLARA[:999]).decode()}, "ref_audio", "as data:audio/wav"),
        ({"ref_audio": "nobody"}, "ref_audio", "no voice 'nobody'"),
        ({"ref_audio": ""}, "ref_audio", "no voice ''"),
        ({"ref_audio": "data:audio/wav,abc"}, "ref_audio", "not a base64 data URI"),
        ({"ref_audio": "data:audio/wav;base64,ab*="}, "ref_audio", "not base64"),
        ({"ref_audio": "data:audio/wav;base64,"}, "ref_audio", "is an empty file"),
        ({"ref_audio": uri(b"no sound at all" * 9)}, "ref_audio", "the recording"),
        ({"ref_audio": uri(CLARA[:4000])}, "ref_audio", "the recording"),
        ({"ref_audio": uri(CLARA), "voice": "oscar"}, "ref_audio", "cannot be used together"),
        ({"ref_audio": uri(CLARA), "ref_text": "x" * 10**5}, "ref_text", "too long"),
        ({"ref_text": "Hello."}, "ref_text", "goes with 'ref_audio'"),
        ({"ref_text": "Hello.", "voice": "default"}, "ref_text", "goes with 'ref_audio'"),
        ({"ref_text": "Hello.", "ref_audio": "clara"}, "ref_text", "is kept with"),
        ({"ref_audio": 5}, "ref_audio", "must be a string"),
    ],
)
def test_what_is_no_recording_is_refused_by_its_field(
    client: httpx.Client, fields: dict[str, Any], param: str, words: str
) -> None:
    answer = ask(client, **fields)
    assert answer.status_code == 400
    error = answer.json()["error"]
    assert error["param"] == param
    assert words in error["message"]


@pytest.mark.parametrize("end", ["", "}}", ', "seed": }', ', "input": "\xff"}'])
def test_a_large_body_that_is_no_json_is_told_so(client: httpx.Client, end: str) -> None:
    body = f'{{"input": "{TEXT}", "ref_audio": "{"A" * guard.TEXT_BYTES}"{end}'
    headers = {"Content-Type": "application/json"}
    answer = client.post("/v1/audio/speech", content=body.encode("latin-1"), headers=headers)
    assert answer.status_code in (400, 413)
    assert answer.json()["error"]["message"]


def test_a_large_body_is_read_as_a_small_one_is(client: httpx.Client) -> None:
    padded = uri(CLARA + bytes(guard.TEXT_BYTES))
    answer = ask(client, ref_audio=padded, words={"a": [1, None, "ü"]}, speed=None)
    assert answer.status_code == 200, answer.text
    assert answer.headers["x-ignored-fields"] == "words"


def test_a_recording_is_bounded_as_an_upload_is(
    client: httpx.Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(recordings, "MAX_UPLOAD_S", 1.0)
    too_long = ask(client, ref_audio=uri(CLARA))
    assert too_long.status_code == 400
    assert "the recording" in too_long.json()["error"]["message"]
    monkeypatch.setattr(guard, "UPLOAD_BYTES", 2 << 20)
    assert ask(client, ref_audio=uri(bytes(2 << 20))).status_code == 413


def test_a_large_recording_is_taken_and_lets_the_next_one_in_before_it_is_spoken(
    server: Running, client: httpx.Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(guard, "MAX_LARGE", 1)
    monkeypatch.setattr(guard, "TEXT_BYTES", 50_000)
    monkeypatch.setattr("voxcli.server.speech.TEXT_BYTES", 50_000)
    assert len(uri(CLARA)) > 50_000
    hold(server)
    with ThreadPoolExecutor(1) as beside:
        first = beside.submit(ask, client, ref_audio=uri(CLARA))
        until(lambda: server.worker.num_running == 1)
        with server.client() as other:
            refused = ask(other, ref_audio=uri(b"x" * 100_000))
        assert refused.status_code == 400  # it was looked at, and is not one too many
        server.model.gate.set()
        assert first.result().status_code == 200
