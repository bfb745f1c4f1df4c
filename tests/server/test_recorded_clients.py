"""What clients of other programs send, as their own code has it, to the bundled voice."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import openai
import pytest
from running import Running, run_server

from voxcli.audio.read import decode_audio
from voxcli.config import EngineConfig
from voxcli.engine.native.engine import NativeEngine
from voxcli.hub import resolve_model
from voxcli.server.dialect import IGNORED

FOLDER = Path(__file__).resolve().parents[1] / "inputs" / "clients"
SESSIONS = {path.stem: json.loads(path.read_text("utf-8")) for path in FOLDER.glob("*.json")}
CALLS = [
    pytest.param(call, id=f"{name}-{number}")
    for name, session in sorted(SESSIONS.items())
    for number, call in enumerate(session["calls"], 1)
]
TEXT = "Good morning."


@pytest.fixture(scope="module")
def mini() -> Iterator[Running]:
    with (
        NativeEngine(resolve_model("mini"), EngineConfig(max_slots=4)) as engine,
        run_server(engine=engine) as running,
    ):
        yield running


@pytest.mark.parametrize("call", CALLS)
def test_a_recorded_call_is_answered_as_its_client_expects(
    mini: Running, call: dict[str, Any]
) -> None:
    expected = call["expected"]
    with httpx.Client(base_url=mini.url, timeout=None) as client:
        client.headers.clear()
        answer = client.request(
            call["method"], call["path"], headers=call["headers"], json=call["body"]
        )
    assert answer.status_code == expected["status"], answer.text
    media_type = answer.headers["content-type"].partition(";")[0]
    assert media_type == expected["media_type"]
    if call["method"] == "HEAD":
        assert not answer.content
    elif media_type == "application/json":
        _check_listed(answer.json(), expected)
    else:
        ignored = answer.headers.get(IGNORED, "")
        assert [name for name in ignored.split(", ") if name] == expected["ignored"]
        assert _is_speech(answer.content, media_type)


def _check_listed(found: dict[str, Any], expected: dict[str, Any]) -> None:
    """What each client reads of a list, by the very keys that it reads."""
    if "code" in expected:
        assert found["error"]["code"] == expected["code"]
        assert found["error"]["message"]
    if "id" in expected:
        assert found["id"] == expected["id"]
    if "ids" in expected:
        assert set(expected["ids"]) <= {row["id"] for row in found["data"]}
    if "models" in expected:
        assert set(expected["models"]) <= {row["id"] for row in found["models"]}
    if "voices" in expected:
        assert set(expected["voices"]) <= {row["id"]: row["name"] for row in found["voices"]}.keys()


def _is_speech(data: bytes, media_type: str) -> bool:
    if media_type == "text/event-stream":
        return b"speech.audio.delta" in data and b"speech.audio.done" in data
    if media_type == "audio/pcm":
        samples = np.frombuffer(data, "<i2") / 32768
    elif data[:4] == b"RIFF" and data[4:8] in (b"\xff\xff\xff\xff", b"\xff\xff\xff\x7f"):
        samples = np.frombuffer(data[44:], "<i2") / 32768  # a stream's header has no length
    else:
        samples = decode_audio(data, "the answer").samples
    return len(samples) > 2000 and bool(np.abs(samples).max() > 0.02)


def test_the_official_client_speaks_with_nothing_but_its_address_changed(mini: Running) -> None:
    with openai.OpenAI(base_url=f"{mini.url}/v1", api_key="unused", max_retries=0) as client:
        assert client.models.retrieve("tts-1").id in [row.id for row in client.models.list()]
        spoken = client.audio.speech.create(
            model="gpt-4o-mini-tts", voice="coral", input=TEXT,
            instructions="Speak in a cheerful and positive tone.", speed=1.25,
        )  # fmt: skip
        assert _is_speech(spoken.content, "audio/mpeg")
        with client.audio.speech.with_streaming_response.create(
            model="tts-1", voice={"id": "alloy"}, input=TEXT, response_format="pcm",
            stream_format="audio", extra_body={"user": "u1", "seed": None},
        ) as stream:  # fmt: skip
            assert stream.headers[IGNORED] == "user"
            assert _is_speech(b"".join(stream.iter_bytes()), "audio/pcm")


def test_every_recorded_session_names_its_source() -> None:
    assert SESSIONS.keys() >= {"open_webui", "sillytavern", "librechat", "openai_node", "curl"}
    for session in SESSIONS.values():
        assert session["client"]
        assert session["source"]
