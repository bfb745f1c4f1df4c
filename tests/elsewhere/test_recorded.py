"""What a real vLLM-Omni 0.26 answered, without its sound: the client understands all of it."""

from __future__ import annotations

import base64
from typing import Any

import pytest
from asked import call, pieces, speaking
from replayed import SPEECH, Answer, as_json, exchange

from voxcli.errors import UsageError

RECORDED = exchange("recorded_0_26")
BY_NAME: dict[str, dict[str, Any]] = {each["name"]: each for each in RECORDED["exchanges"]}
REFUSED = [each["name"] for each in RECORDED["exchanges"] if each["status"] in (400, 404)]
SPOKEN = ("wav", "pcm", "sse", "raw")
SILENCE = bytes(6 * 7680 * 2)  # six frames of 160 ms at 48 kHz


def recorded(name: str) -> Answer:
    """The answer, with silence in the place of its sound."""
    found = BY_NAME[name]
    headers = {
        key: value
        for key, value in found["headers"].items()
        if key not in ("content-length", "transfer-encoding")
    }
    if "json" in found:
        return as_json(found["json"], found["status"])
    if "begins" in found:
        head, sound = (_event(base64.b64encode(data).decode()) for data in (_head(), SILENCE))
        assert found["begins"].startswith(head)
        done = 'event: speech.audio.done\ndata: {"type":"speech.audio.done"}\n\n'
        return Answer(200, headers, tuple(part.encode() for part in (head, sound, done)))
    if name == "pcm":
        return Answer(200, headers, (SILENCE,))
    if "begins_base64" in found:
        return Answer(200, headers, (base64.b64decode(found["begins_base64"]), SILENCE))
    return Answer(found["status"], headers)


def _head() -> bytes:
    return base64.b64decode(BY_NAME["raw"]["begins_base64"])


def _event(audio: str) -> str:
    kind = "speech.audio.delta"
    data = f'{{"type":"{kind}","audio":"{audio}","response_format":"wav"}}'
    return f"event: {kind}\ndata: {data}\n\n"


def answers() -> dict[tuple[str, str], Any]:
    names = {"models": "/v1/models", "voices": "/v1/audio/voices", "version": "/version"}
    found = {("GET", path): recorded(name) for name, path in names.items()}
    return {**found, ("GET", "/health"): recorded("health"), SPEECH: ()}


def test_what_it_is_is_understood() -> None:
    with speaking(answers=answers()) as (engine, _):
        assert engine.facts.name.startswith("vLLM-Omni 0.26.0 at ")
        assert engine.facts.model == "voxcpm2"
        assert engine.facts.sample_rate == 48_000
        assert not engine.facts.is_repeatable
        assert engine.is_up()


@pytest.mark.parametrize("name", ["wav", "sse", "raw"])
def test_its_sound_is_heard_whole(name: str) -> None:
    with speaking(recorded(name), answers=answers()) as (engine, _):
        found = pieces(engine, call(engine))
    assert sum(len(piece.samples) for piece in found) == len(SILENCE) // 2


@pytest.mark.parametrize("name", [name for name in REFUSED if name != "none"])
def test_its_refusals_are_the_row_s_own_in_one_line(name: str) -> None:
    with (
        speaking(recorded(name), answers=answers()) as (engine, replay),
        pytest.raises(UsageError) as raised,
    ):
        pieces(engine, call(engine))
    assert "\n" not in raised.value.message
    assert len(raised.value.message) < 500
    assert len(replay.spoken) == 1


def test_nothing_that_was_recorded_is_left_out() -> None:
    asked = {"models", "voices", "version", "health", "none", "largest_seed", "unknown_field"}
    assert set(BY_NAME) == asked | set(SPOKEN) | set(REFUSED)
    assert BY_NAME["largest_seed"]["status"] == BY_NAME["unknown_field"]["status"] == 200
