"""When what is said, over HTTP: an event for each segment, and JSON with the audio in it."""

from __future__ import annotations

import base64
import io
import json
from collections.abc import Iterator
from typing import Any

import httpx
import numpy as np
import pytest
import soundfile
from fakes import SAMPLE_RATE
from running import Running

from voxcli.audio.joins import QUIET

TEXT = "[pause 0.5s] It costs $5 today. [pause 1s] Nobody pays that much. [pause 250ms]"
SAID = ["It costs five dollars today.", "Nobody pays that much."]


def ask(server: Running, **fields: Any) -> httpx.Response:
    body = {"model": "fake", "input": TEXT, "seed": 5, "response_format": "wav", **fields}
    with server.client() as client:
        return client.post("/v1/audio/speech", json=body)


def events(answer: httpx.Response) -> Iterator[dict[str, Any]]:
    assert answer.status_code == 200, answer.text
    for block in answer.text.strip().split("\n\n"):
        yield json.loads(block.removeprefix("data: "))


def heard(audio: bytes) -> list[tuple[float, float]]:
    """From when to when each segment sounds."""
    samples, rate = soundfile.read(io.BytesIO(audio))
    loud = np.flatnonzero(np.abs(samples) >= QUIET)
    edge = int(np.argmax(np.diff(loud)))
    pairs = ((loud[0], loud[edge]), (loud[edge + 1], loud[-1]))
    return [(start / rate, end / rate) for start, end in pairs]


def check(segments: list[dict[str, Any]], audio: bytes) -> None:
    assert [each["id"] for each in segments] == [0, 1]
    assert [each["text"] for each in segments] == SAID
    times = [(each["start"], each["end"]) for each in segments]
    assert np.abs(np.array(times) - np.array(heard(audio))).max() < 2e-3
    for each in segments:
        assert [word["word"] for word in each["words"]] == each["text"].split()
        assert each["words"][0]["start"] == each["start"]
        assert each["words"][-1]["end"] == each["end"]


@pytest.mark.parametrize("speed", [1.0, 1.5])
def test_json_has_the_file_and_the_times_of_its_words(server: Running, speed: float) -> None:
    plain, answer = ask(server, speed=speed), ask(server, speed=speed, timestamps=True)
    assert answer.status_code == 200, answer.text
    assert answer.headers["content-type"] == "application/json"
    assert answer.headers["x-finish-reason"] == "stop"
    found = answer.json()
    audio = base64.b64decode(found["audio"])
    assert audio == plain.content
    check(found["segments"], audio)
    assert (found["times_of_segments"], found["times_of_words"]) == ("measured", "estimated")
    told = [found[name] for name in ("audio_format", "sample_rate", "finish_reason", "language")]
    assert told == ["wav", SAMPLE_RATE, "stop", "en"]
    assert found["duration"] == pytest.approx(heard(audio)[-1][1] + 0.25, abs=2e-3)


@pytest.mark.parametrize("text", ["Hi.", TEXT, "A longer one. " * 15])
@pytest.mark.parametrize("name", ["pcm", "mp3"])
def test_the_file_in_json_is_the_file(server: Running, text: str, name: str) -> None:
    """Of any length, whose bytes need not come in threes."""
    plain = ask(server, input=text, response_format=name)
    found = ask(server, input=text, response_format=name, timestamps=True).json()
    assert base64.b64decode(found["audio"], validate=True) == plain.content


def test_events_tell_each_segment_once_and_in_order(server: Running) -> None:
    found = list(events(ask(server, stream_format="sse", timestamps=True)))
    *others, done = found
    kinds = {"times_of_segments": "measured", "times_of_words": "estimated"}
    assert {name: done[name] for name in kinds} == kinds
    pieces = [each["audio"] for each in others if each["type"] == "speech.audio.delta"]
    audio = b"".join(map(base64.b64decode, pieces))
    check([each for each in others if each["type"] == "speech.audio.segment"], audio)
    assert len(pieces) + 2 == len(others)


def test_who_does_not_ask_for_times_gets_none(server: Running) -> None:
    found = list(events(ask(server, stream_format="sse")))
    assert {each["type"] for each in found} == {"speech.audio.delta", "speech.audio.done"}
    assert not {"times_of_segments", "times_of_words"} & found[-1].keys()
    assert ask(server, timestamps=False).content == ask(server).content


@pytest.mark.parametrize("fields", [{"stream": True}, {"stream_format": "audio"}])
def test_a_stream_of_bare_audio_cannot_have_times(server: Running, fields: dict[str, Any]) -> None:
    answer = ask(server, timestamps=True, **fields)
    assert answer.status_code == 400
    assert answer.json()["error"]["param"] == "timestamps"
    assert "stream_format" in answer.json()["error"]["message"]


def test_a_text_that_cannot_be_spoken_is_an_error_and_no_json_with_audio(server: Running) -> None:
    answer = ask(server, input="[pause 1s]", timestamps=True)
    assert answer.status_code == 400
    assert "nothing in the text can be spoken" in answer.json()["error"]["message"]
