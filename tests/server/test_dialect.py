"""Requests of clients that were written for another server: names they use, fields they send."""

from __future__ import annotations

import json
import logging
from dataclasses import replace
from pathlib import Path
from typing import Any, get_args

import httpx
import numpy as np
import openai
import pytest
from fakes import SAMPLE_RATE
from openai.types.audio import SpeechModel, speech_create_params
from running import GatedModel, engine_for, run_server

from voxcli.config import MAX_SPEED, MIN_SPEED, UserSettings
from voxcli.server.dialect import IGNORED, MAX_LOGGED, MAX_NAMED, Dialect
from voxcli.utterance import Mode

TEXT = "The ferry leaves at noon."
SAMPLES = Path(__file__).resolve().parents[2] / "samples" / "voices"
OPENAI_MODELS = get_args(SpeechModel)
OPENAI_VOICES = sorted(
    name for each in get_args(speech_create_params.Voice) for name in get_args(each)
)


def ask(client: httpx.Client, **fields: Any) -> httpx.Response:
    return client.post("/v1/audio/speech", json={"input": TEXT, "seed": 5, **fields})


def add_voice(client: httpx.Client, name: str) -> None:
    made = client.post(
        "/v1/audio/voices",
        data={"name": name, "consent": "She agreed."},
        files={"audio_sample": ("a.flac", (SAMPLES / "clara.flac").read_bytes())},
    )
    assert made.status_code == 200, made.text


# ------------------------------------------------------------------------ names


def test_every_model_and_voice_that_openais_client_knows_is_spoken(client: httpx.Client) -> None:
    plain = ask(client, response_format="pcm").content
    for fields in (
        *({"model": name} for name in OPENAI_MODELS),
        *({"voice": name} for name in OPENAI_VOICES),
        {"voice": {"id": "alloy"}},
        {"voice": "Alloy"},
    ):
        answer = ask(client, response_format="pcm", **fields)
        assert answer.content == plain, (fields, answer.text)
        assert (answer.headers["x-model"], answer.headers["x-voice"]) == ("fake", "default")


def test_other_names_of_the_model_are_listed_after_it_and_each_can_be_looked_up(
    client: httpx.Client,
) -> None:
    rows = client.get("/v1/models").json()["data"]
    assert [row["id"] for row in rows] == ["fake", *OPENAI_MODELS]
    for row in rows:
        assert row["root"] == "fake"
        assert client.get(f"/v1/models/{row['id']}").json() == row
    names = [row["id"] for row in client.get("/v1/audio/models").json()["models"]]
    assert names == ["fake", *OPENAI_MODELS]


def test_an_unknown_name_is_an_error_that_names_what_is_served(client: httpx.Client) -> None:
    missing = client.get("/v1/models/tts-9")
    refused = ask(client, model="tts-9")
    for answer in (missing, refused):
        assert answer.status_code == 404
        error = answer.json()["error"]
        assert (error["code"], error["param"]) == ("model_not_found", "model")
        assert "'fake' is, also as tts-1, tts-1-hd" in error["message"]
    voice = ask(client, voice="af_bella")
    assert voice.status_code == 400
    assert voice.json()["error"]["code"] == "voice_not_found"


def test_a_name_in_a_table_of_the_user_replaces_all_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    dialect = Dialect(("kokoro",), {"af_bella": "clara", "am_adam": "nobody"})
    with run_server(dialect=dialect) as running, running.client() as client:
        add_voice(client, "Clara")
        assert ask(client, model="kokoro", voice="af_bella").headers["x-voice"] == "clara"
        assert ask(client, model="tts-1").status_code == 404
        assert ask(client, voice="alloy").status_code == 400
        gone = ask(client, voice="am_adam").json()["error"]
        assert gone["message"] == "'am_adam' stands for the voice 'nobody', which is not here"
        rows = client.get("/v1/audio/voices").json()["voices"]
        assert {row["name"]: row["aliases"] for row in rows} == {
            "default": [], "Clara": ["af_bella"]
        }  # fmt: skip


def test_a_voice_goes_before_another_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    with run_server() as running, running.client() as client:
        add_voice(client, "alloy")
        assert ask(client, voice="alloy").headers["x-voice"] == "alloy"
        rows = client.get("/v1/audio/voices").json()["voices"]
        assert "alloy" not in next(row for row in rows if row["name"] == "default")["aliases"]


def test_voices_are_listed_in_the_shapes_that_clients_read(client: httpx.Client) -> None:
    listed = client.get("/v1/audio/voices").json()
    assert client.get("/v1/voices").json() == listed
    for row in listed["voices"]:
        assert row["id"] == row["name"]
    assert listed["voices"][0]["aliases"] == OPENAI_VOICES


def test_the_official_client_adds_and_deletes_a_voice(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    with (
        run_server() as running,
        openai.OpenAI(base_url=f"{running.url}/v1", api_key="unused", max_retries=0) as official,
    ):
        with (SAMPLES / "clara.flac").open("rb") as audio:
            made = official.audio.voices.create(
                name="clara", consent="She agreed.", audio_sample=audio, type="audio_sample"
            )
        assert (made.id, made.name, made.object, made.type) == (
            "clara", "clara", "audio.voice", "audio_sample"
        )  # fmt: skip
        assert made.created_at > 1_700_000_000
        spoken = official.audio.speech.create(model="tts-1", voice={"id": made.id}, input=TEXT)
        assert spoken.response.headers["x-voice"] == "clara"
        gone = official.audio.voices.delete(made.id)
        assert (gone.id, gone.deleted, gone.object) == ("clara", True, "audio.voice.deleted")


def test_head_answers_as_get_does_without_a_body(client: httpx.Client) -> None:
    for path in ("/v1/models", "/v1/models/tts-1", "/v1/models/none", "/v1/voices", "/health", "/"):
        head, got = client.head(path), client.get(path)
        assert (head.status_code, head.content) == (got.status_code, b"")
        assert head.headers["content-type"] == got.headers["content-type"]
    assert client.head("/v1/audio/speech").status_code == 405


# ------------------------------------------------------------------------ fields


def test_null_is_left_out_whatever_the_field(client: httpx.Client) -> None:
    document = client.get("/v1/openapi.json").json()
    fields = document["components"]["schemas"]["SpeechRequest"]["properties"].keys()
    nothing = dict.fromkeys(fields - {"input", "seed"})
    answer = ask(client, **nothing, cfg=None)
    assert answer.status_code == 200, answer.text
    assert IGNORED not in answer.headers
    assert answer.content == ask(client).content
    missing = ask(client, input=None)
    assert (missing.status_code, missing.json()["error"]["param"]) == (400, "input")


def test_what_means_nothing_here_is_ignored_and_named(client: httpx.Client) -> None:
    plain = ask(client, response_format="pcm").content
    fields = {"user": "u1", "lang_code": None, "normalization_options": {"normalize": True}}
    answer = ask(client, response_format="pcm", **fields)
    assert answer.content == plain
    assert answer.headers[IGNORED] == "user, lang_code, normalization_options"


def test_a_style_is_ignored_and_named_by_a_model_without_one_alone(client: httpx.Client) -> None:
    assert IGNORED not in ask(client, instructions="Calmly.").headers
    too_long = ask(client, instructions="Calmly. " * 200)
    assert too_long.status_code == 400
    engine = engine_for(GatedModel())
    modes = tuple(mode for mode in Mode if mode is not Mode.STYLE)
    engine.facts = replace(engine.facts, modes=modes)
    with run_server(engine=engine) as running, running.client() as plain:
        answer = ask(plain, instructions="Calmly. " * 200)
        assert answer.headers[IGNORED] == "instructions"
        assert IGNORED not in ask(plain, instructions="").headers


def test_a_name_of_a_field_cannot_change_the_answers_headers(client: httpx.Client) -> None:
    names = ["a\r\nX-Evil: 1", "b, c", "語", "d" * 100_000, *(f"n{index}" for index in range(50))]
    answer = ask(client, **dict.fromkeys(names, 1))
    assert answer.status_code == 200
    assert "x-evil" not in answer.headers
    shown = answer.headers[IGNORED].split(", ")
    assert shown[:3] == ["a%0D%0AX-Evil%3A 1", "b%2C c", "%E8%AA%9E"]
    assert len(shown[3]) < 100
    assert (len(shown), shown[-1]) == (MAX_NAMED + 1, "...")


def test_an_ignored_field_is_logged_once_and_not_without_end(
    caplog: pytest.LogCaptureFixture,
) -> None:
    dialect = Dialect()
    with caplog.at_level(logging.WARNING, "voxcli.server"):
        for _ in range(3):
            dialect.headers(["user"])
        assert len(caplog.messages) == 1
        assert "the field 'user' of a speech request is ignored" in caplog.text
        for index in range(10 * MAX_LOGGED):
            dialect.headers([f"n{index}"])
    assert len(caplog.messages) == MAX_LOGGED


def test_a_strict_server_refuses_what_means_nothing_there() -> None:
    with run_server(dialect=Dialect(is_strict=True)) as running, running.client() as client:
        for fields in ({"user": "u1"}, {"user": None}):
            answer = ask(client, **fields)
            assert answer.status_code == 400
            assert answer.json()["error"]["param"] in fields
        assert ask(client, model="tts-1", voice="nova", instructions=None).status_code == 200


@pytest.mark.parametrize("speed", [MIN_SPEED, 0.5, 2, MAX_SPEED])
@pytest.mark.parametrize("stream", [False, True])
def test_speed_sets_the_duration_over_openais_range(
    client: httpx.Client, speed: float, stream: bool
) -> None:
    fields = {"response_format": "pcm", "sample_rate": SAMPLE_RATE}
    plain = np.frombuffer(ask(client, **fields).content, "<i2")
    answer = ask(client, **fields, speed=speed, stream=stream)
    samples = np.frombuffer(answer.content, "<i2")
    assert len(samples) == pytest.approx(len(plain) / speed, rel=0.02)
    assert np.abs(samples).max() > 0.5 * np.abs(plain).max()


def test_a_speed_beyond_that_is_refused(client: httpx.Client) -> None:
    for speed in (MIN_SPEED / 2, MAX_SPEED * 2):
        answer = ask(client, speed=speed)
        assert (answer.status_code, answer.json()["error"]["param"]) == (400, "speed")


def test_the_defaults_are_those_of_the_settings() -> None:
    assert Dialect() == Dialect(UserSettings().model_aliases, UserSettings().voice_aliases)


def test_a_body_that_is_large_without_a_recording_is_refused(client: httpx.Client) -> None:
    many = {"input": TEXT, "words": ["word"] * 300_000}
    for content in (
        json.dumps(many),
        json.dumps({**many, "ref_audio": ["x"] * 300_000}),
        "[" * (2 << 20),
    ):
        answer = client.post(
            "/v1/audio/speech", content=content, headers={"Content-Type": "application/json"}
        )
        assert (answer.status_code, answer.json()["error"]["code"]) == (413, "too_large")
