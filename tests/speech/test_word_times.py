"""Measured times of words of the bundled voice's own speech, over HTTP and in a batch."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from batches import prepare
from needs import need

from voxcli import SpeechEngine
from voxcli.audio.placing import Policy
from voxcli.batch.timeline import Timeline

sys.path.append(str(Path(__file__).parents[1] / "server"))

from running import Behind, Running, run_server

pytestmark = pytest.mark.speech

SEED = 5
TEXT = "Stay here. [pause 1s] The ferry leaves at noon, and nobody waits for it."
SAID = ["Stay here.", "The ferry leaves at noon, and nobody waits for it."]


@pytest.fixture(scope="module")
def server(engine: SpeechEngine) -> Iterator[Running]:
    need(find_spec("pocketsphinx") is not None, "needs the extra align")
    with run_server(engine=Shared(engine)) as running:
        yield running


class Shared(Behind):
    """Stays open for the next test."""

    def close(self) -> None:
        pass


def ask(server: Running, **fields: Any) -> Any:
    body = {"input": TEXT, "seed": SEED, "response_format": "wav", "timestamps": True, **fields}
    with server.client() as client:
        answer = client.post("/v1/audio/speech", json=body)
    assert answer.status_code == 200, answer.text
    return answer


@pytest.fixture(scope="module")
def measured(server: Running) -> dict[str, Any]:
    """The answer in JSON."""
    found: dict[str, Any] = ask(server).json()
    return found


def check(segments: list[dict[str, Any]]) -> None:
    """Whole, in order, each in its segment."""
    assert [each["text"] for each in segments] == SAID
    for each in segments:
        assert [word["word"] for word in each["words"]] == each["text"].split()
        edges = [at_s for word in each["words"] for at_s in (word["start"], word["end"])]
        assert edges == sorted(edges)
        assert each["start"] <= edges[0] < each["start"] + 0.1
        assert each["end"] - 0.2 < edges[-1] <= each["end"]


def starts(segments: list[dict[str, Any]]) -> list[float]:
    return [word["start"] for each in segments for word in each["words"]]


def test_json_of_the_server_and_of_a_batch_have_the_same_measured_words(
    measured: dict[str, Any], engine: SpeechEngine, tmp_path: Path
) -> None:
    found = measured
    check(found["segments"])
    assert found["times_of_words"] == "measured"
    assert {each["times_of_words"] for each in found["segments"]} == {"measured"}

    table, told = tmp_path / "table.csv", tmp_path / "words.json"
    table.write_text(f'text,seed,start\n"{TEXT}",{SEED},2\n')
    session = prepare(table, tmp_path / "out", engine=engine)
    session = replace(session, timeline=Timeline(Policy.MIX, subtitles=told))
    session.check()
    session.run(lambda: Shared(engine))
    batch = json.loads(told.read_text("utf-8"))
    assert batch["times_of_words"] == "measured"
    assert np.subtract(starts(batch["segments"]), 2.0) == pytest.approx(
        starts(found["segments"]), abs=0.1
    )


def test_events_have_the_words_of_the_segments_and_say_that_they_are_estimated(
    server: Running, measured: dict[str, Any]
) -> None:
    """They leave with the sound, and nothing waits for them."""
    answer = ask(server, stream_format="sse", response_format="pcm")
    events = [json.loads(each.removeprefix("data: ")) for each in answer.text.split("\n\n") if each]
    found = [each for each in events if each["type"] == "speech.audio.segment"]
    assert [each["text"] for each in found] == SAID
    assert events[-1]["times_of_words"] == "estimated"
    for one, other in zip(found, measured["segments"], strict=True):
        assert (one["start"], one["end"]) == (other["start"], other["end"])
        assert [word["word"] for word in one["words"]] == one["text"].split()
    assert np.abs(np.subtract(starts(found), starts(measured["segments"]))).max() > 0.05
