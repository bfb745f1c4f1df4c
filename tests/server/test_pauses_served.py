"""Pauses and lexicons over HTTP, and through a running server and a fleet."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest
from fakes import SAMPLE_RATE, fake_engine
from running import Running, run_server

from voxcli import cli
from voxcli.audio.joins import QUIET
from voxcli.config import EngineConfig, SamplingParams, UserSettings
from voxcli.engine.base import SpeechEngine, Wanted
from voxcli.engine.choose import open_engine
from voxcli.engine.remote.find import connect_to
from voxcli.utterance import Utterance

TEXT = "[pause 1s] The first one is here. <break time='500ms'/> A second follows. [pause 250ms]"
PAUSES = [SAMPLE_RATE, SAMPLE_RATE // 2, SAMPLE_RATE // 4]
ASKED = Utterance(TEXT, sampling=SamplingParams(seed=5), lexicon="second,other one")


def quiet_runs(samples: np.ndarray) -> list[int]:
    edges = np.concatenate(([-1], np.flatnonzero(np.abs(samples) >= QUIET), [len(samples)]))
    return [int(gap) for gap in np.diff(edges) - 1 if gap > 0.05 * SAMPLE_RATE]


def ask(server: Running, **fields: Any) -> httpx.Response:
    body = {"model": "fake", "input": TEXT, "response_format": "pcm", "sample_rate": SAMPLE_RATE}
    with server.client() as client:
        return client.post("/v1/audio/speech", json={**body, "seed": 5, **fields})


def heard(answer: httpx.Response) -> np.ndarray:
    assert answer.status_code == 200, answer.text
    return np.frombuffer(answer.content, "<i2").astype(np.float32) / 32768


@pytest.mark.parametrize("is_streamed", [False, True])
def test_an_answer_has_the_pauses(server: Running, is_streamed: bool) -> None:
    assert quiet_runs(heard(ask(server, stream=is_streamed))) == PAUSES


def test_a_lexicon_changes_what_is_said(server: Running) -> None:
    plain, said = ask(server), ask(server, lexicon="written,spoken\nsecond,other one\n")
    assert len(heard(said)) > len(heard(plain))
    own = fake_engine().synthesize([ASKED])[0].samples
    assert np.abs(heard(said) - own).max() < 1e-3
    assert len(heard(ask(server, lexicon=""))) == len(heard(plain))


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"lexicon": "a,b\nc"}, "the lexicon, line 2: it has no spoken form"),
        ({"lexicon": "a,b", "raw_text": True}, "raw_text and lexicon are both given"),
        ({"input": "Go [pause 90s] on"}, "the longest is 60 s"),
        ({"input": "[pause 1s]"}, "nothing in the text can be spoken"),
        ({"input": "Go on [pause 9s].", "max_seconds": 5}, "9 s of it the pauses"),
    ],
)
def test_what_cannot_be_is_refused(server: Running, fields: dict[str, Any], message: str) -> None:
    answer = ask(server, **fields)
    assert answer.status_code == 400
    assert message in answer.json()["error"]["message"]


def test_what_is_not_followed_is_in_a_header(server: Running) -> None:
    answer = ask(server, input="It is <emphasis>so</emphasis> [laughs] <break time='é'/> here.")
    named = answer.headers["X-Not-Followed"].split(", ")
    assert sorted(named) == ["break", "emphasis", "laughs"]
    assert "X-Not-Followed" not in ask(server).headers
    raw = ask(server, raw_text=True)
    assert raw.headers["X-Not-Followed"] == "pause, break"
    assert not [run for run in quiet_runs(heard(raw)) if run >= SAMPLE_RATE // 2]


def engine_at(kind: str, server: Running, other: Running) -> SpeechEngine:
    if kind == "running server":
        return connect_to(server.url, Wanted("fake", is_near=False), None)
    urls = server.url if kind == "speech server" else f"{server.url},{other.url}"
    return open_engine(urls, EngineConfig("fake"), UserSettings())


@pytest.mark.parametrize("kind", ["running server", "speech server", "fleet"])
def test_every_engine_makes_the_same_pauses_and_words(server: Running, kind: str) -> None:
    own = fake_engine().synthesize([ASKED])[0]
    with run_server() as other, engine_at(kind, server, other) as engine:
        result = engine.synthesize([ASKED])[0]
    assert quiet_runs(result.samples) == PAUSES
    assert [part.text for part in result.segments] == [part.text for part in own.segments]
    assert [(part.start_s, part.end_s) for part in result.segments] == [
        pytest.approx((part.start_s, part.end_s), abs=0.01) for part in own.segments
    ]


def test_a_lexicon_of_a_request_goes_before_that_of_the_server(server: Running) -> None:
    words, mine = "second,other one\nfirst,one before all", "first,premier"
    with run_server(lexicon=words) as own:
        assert ask(own).content == ask(server, lexicon=words).content != ask(server).content
        both = ask(own, lexicon=mine)
        assert both.content == ask(server, lexicon=f"{mine}\nsecond,other one").content
        assert ask(own, lexicon="").content == ask(server).content
        refused = ask(own, lexicon="a,b\nc").json()["error"]
    assert refused["message"].startswith("the lexicon, line 2: it has no spoken form")


def test_a_bad_line_of_the_lexicon_of_a_server_ends_its_start(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "words.csv").write_text("nginx,engine X\n,nothing\n", "utf-8")
    command = ["serve", "--no-socket", "--port", "0", "--lexicon", str(tmp_path / "words.csv")]
    assert cli.main(command) == 2
    assert f"{tmp_path / 'words.csv'}, line 2: it has no written form" in capfd.readouterr().err
