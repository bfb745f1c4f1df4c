"""Voices over HTTP: a recording becomes a voice, speaks, and goes; what is no voice is refused."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx
import pytest
from running import Running, until

from voxcli.server import encoder, voices
from voxcli.server.guard import TEXT_BYTES
from voxcli.voices import VoiceStore

SAMPLES = Path(__file__).resolve().parents[2] / "samples" / "voices"


@pytest.fixture
def server(own_server: Running) -> Running:
    return own_server


def add(client: httpx.Client, **fields: Any) -> httpx.Response:
    data = {"name": "clara", "consent": "She agreed.", **fields}
    audio = data.pop("audio", (SAMPLES / "clara.flac").read_bytes())
    return client.post("/v1/audio/voices", data=data, files={"audio_sample": ("a.flac", audio)})


def speak(client: httpx.Client, voice: str) -> httpx.Response:
    body = {"model": "fake", "input": "Hello there, my friend.", "voice": voice}
    return client.post("/v1/audio/speech", json=body)


def names(client: httpx.Client) -> list[str]:
    return [row["name"] for row in client.get("/v1/audio/voices").json()["voices"]]


def test_a_recording_becomes_a_voice_that_speaks_and_goes(client: httpx.Client) -> None:
    made = add(client, ref_text=(SAMPLES / "clara.txt").read_text("utf-8"))
    assert made.status_code == 200, made.text
    row = made.json()
    assert (row["name"], row["consent"], row["has_transcript"]) == ("clara", "She agreed.", True)
    assert row["models"] == ["fake"]
    assert row["duration_s"] > 2
    assert names(client) == ["default", "clara"]
    assert speak(client, "clara").status_code == 200
    assert speak(client, "Clara").status_code == 200
    near = speak(client, "klara")
    assert near.status_code == 400
    assert "did you mean 'clara'" in near.json()["error"]["message"]
    assert client.delete("/v1/audio/voices/clara").json()["name"] == "clara"
    assert names(client) == ["default"]
    assert client.delete("/v1/audio/voices/clara").status_code == 404
    assert speak(client, "clara").status_code == 400


def test_a_voice_is_replaced_only_where_that_is_asked(client: httpx.Client) -> None:
    assert add(client).json()["is_own"]
    refused = add(client)
    assert refused.status_code == 409
    assert add(client, overwrite="true").status_code == 200
    assert client.delete("/v1/audio/voices/clara").status_code == 200


def test_a_voice_is_renamed(client: httpx.Client) -> None:
    add(client)
    rename = "/v1/audio/voices/{}".format
    assert client.patch(rename("nobody"), json={"name": "some"}).status_code == 404
    for bad in ({}, {"name": 5}, {"name": "a/b"}, {"name": ""}, {"name": "x" * 201}):
        assert client.patch(rename("clara"), json=bad).status_code == 400, bad
    assert names(client) == ["default", "clara"]
    assert client.patch(rename("clara"), json={"name": "mine"}).json()["name"] == "mine"
    assert names(client) == ["default", "mine"]
    assert speak(client, "mine").status_code == 200
    add(client)
    assert client.patch(rename("clara"), json={"name": "MINE"}).status_code == 409
    for name in ("clara", "mine"):
        assert client.delete(rename(name)).status_code == 200


def test_others_are_heard_while_a_recording_is_encoded(
    server: Running, client: httpx.Client
) -> None:
    server.model.encoding_gate.clear()
    with ThreadPoolExecutor(1) as beside:
        made = beside.submit(add, client)
        until(lambda: server.service.encoder.num_waiting == 1)
        assert speak(client, "default").status_code == 200
        assert not made.done()
        server.model.encoding_gate.set()
        assert made.result().status_code == 200


def test_recordings_that_are_too_many_are_refused(
    server: Running, client: httpx.Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(encoder, "MAX_WAITING", 0)
    answer = add(client)
    assert answer.status_code == 429
    assert "recordings wait to be encoded" in answer.json()["error"]["message"]


def test_a_form_without_files_is_no_upload(client: httpx.Client) -> None:
    kind = {"Content-Type": "application/x-www-form-urlencoded"}
    answer = client.post("/v1/audio/voices", content=b"&" * (TEXT_BYTES + 1), headers=kind)
    assert answer.status_code == 413


def test_a_name_is_not_taken_twice(client: httpx.Client) -> None:
    assert add(client).status_code == 200
    again = add(client)
    assert again.status_code == 409
    assert again.json()["error"]["code"] == "exists"


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"name": "../../escape"}, "cannot be the name of a voice"),
        ({"name": "default"}, "is reserved"),
        ({"name": " "}, "empty"),
        ({"consent": ""}, "consent"),
        ({"audio": b"this is no audio" * 100}, "the recording"),
        ({"audio": b""}, "empty file"),
    ],
)
def test_what_is_no_voice_is_refused(
    client: httpx.Client, fields: dict[str, Any], words: str
) -> None:
    answer = add(client, **fields)
    assert answer.status_code == 400, answer.text
    assert words in answer.json()["error"]["message"]
    assert names(client) == ["default"]


def test_a_damaged_profile_is_listed_with_its_problem(client: httpx.Client, tmp_path: Path) -> None:
    add(client)
    (file,) = (tmp_path / "voxcli" / "voices").iterdir()
    file.write_bytes(b"not a profile")
    assert client.get("/v1/audio/voices").json()["voices"][1]["problem"]
    assert speak(client, "clara").status_code == 400
    assert client.delete("/v1/audio/voices/clara").status_code == 200


def test_bundled_voices_are_listed_where_the_model_speaks_them(tmp_path: Path) -> None:
    store = VoiceStore(tmp_path)
    assert [row.name for row in voices._rows(store, "mini")] == store.bundled()
    assert voices._rows(store, "fake") == []
