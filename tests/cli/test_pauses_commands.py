"""Pauses and a lexicon in every command: shown, heard, refused."""

from __future__ import annotations

import io
import json
import sys
from pathlib import Path

import numpy as np
import pysubs2
import pytest
import soundfile
from commands import Run, runner
from fakes import SAMPLE_RATE, FakeEngine, FakeModel

from voxcli.audio.joins import QUIET
from voxcli.config import EngineConfig
from voxcli.hub.catalog import ModelSettings

TEXT = "[pause 1s] The first one is here. <break time='500ms'/> A second follows. [pause 250ms]"
PAUSES = [SAMPLE_RATE, SAMPLE_RATE // 2, SAMPLE_RATE // 4]
WORDS = "written,spoken\nfirst,premier\n"


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> Run:
    """Commands that a fake model speaks."""
    config = EngineConfig("fake", threads=1)
    engine = FakeEngine(FakeModel(), config, ModelSettings())
    monkeypatch.setattr("voxcli.engine.choose.open_engine", lambda *_, **__: engine)
    ran = runner(tmp_path, monkeypatch, capfd)
    Path("words.csv").write_text(WORDS, "utf-8")
    return ran


def quiet_runs(samples: np.ndarray) -> list[int]:
    edges = np.concatenate(([-1], np.flatnonzero(np.abs(samples) >= QUIET), [len(samples)]))
    return [int(gap) for gap in np.diff(edges) - 1 if gap > 0.05 * SAMPLE_RATE]


def test_a_file_has_the_pauses(run: Run) -> None:
    code, _, err = run("speak", TEXT, "-o", "a.wav", "--bits", "32f", "--json")
    assert code == 0, err
    assert quiet_runs(soundfile.read("a.wav")[0]) == PAUSES


def test_a_report_says_where_each_segment_sounds(run: Run) -> None:
    code, out, err = run("speak", TEXT, "-o", "a.wav", "--json")
    assert code == 0, err
    first, second = json.loads(out)["segments"]
    assert first["start_s"] == 1.0
    assert second["start_s"] == pytest.approx(first["end_s"] + 0.5)
    assert json.loads(out)["audio_s"] == pytest.approx(second["end_s"] + 0.25)


@pytest.mark.parametrize("command", ["speak", "stream"])
def test_a_pipe_has_the_pauses(run: Run, command: str, monkeypatch: pytest.MonkeyPatch) -> None:
    sent = io.BytesIO()
    monkeypatch.setattr("voxcli.audio.stream_out.open_stdout", lambda: _Open(sent))
    code, _, err = run(command, TEXT, "-o", "-", "--format", "raw", "--bits", "32f")
    assert code == 0, err
    assert quiet_runs(np.frombuffer(sent.getvalue(), "<f4")) == PAUSES


class _Open:
    """A stdout whose bytes are kept."""

    def __init__(self, file: io.BytesIO) -> None:
        self.file = file

    def __enter__(self) -> io.BytesIO:
        return self.file

    def __exit__(self, *_: object) -> None:
        sys.stdout.flush()


def test_rows_have_pauses_and_lexicons_of_their_own(run: Run) -> None:
    Path("own.csv").write_text("first,foremost\n", "utf-8")
    Path("t.csv").write_text(
        "text,lexicon\nThe first. [pause 1s] The second.,\nThe first.,own.csv\nThe first.,none\n",
        "utf-8",
    )
    words = ("batch", "t.csv", "-o", "out", "--lexicon", "words.csv", "--seed", "1")
    code, out, err = run(*words, "--dry-run", "--json")
    assert code == 0, err
    texts = [row["text"] for row in json.loads(out)["rows"]]
    assert texts == ["The premier. The second.", "The foremost.", "The first."]
    assert run(*words)[0] == 0
    assert max(quiet_runs(soundfile.read("out/0001.wav")[0])) >= SAMPLE_RATE
    Path("words.csv").write_text("second,other\n", "utf-8")
    report = json.loads(run(*words, "--json")[1])
    assert [row["status"] for row in report["rows"]] == ["ok", "kept", "kept"]


@pytest.mark.parametrize(
    ("cell", "message"),
    [("gone.csv", "cannot read gone.csv"), ("bad.csv", "bad.csv, line 1: it has no spoken form")],
)
def test_a_row_with_a_lexicon_that_cannot_be_used_is_a_problem(
    run: Run, cell: str, message: str
) -> None:
    Path("bad.csv").write_text("nginx\n", "utf-8")
    Path("t.csv").write_text(f"text,lexicon\nHello.,{cell}\nHello.,\n", "utf-8")
    code, _, err = run("batch", "t.csv", "-o", "out", "--dry-run")
    assert code == 1
    assert f"row 1 (line 2): lexicon: {message}" in err


def test_pauses_and_uses_of_a_lexicon_are_shown(run: Run) -> None:
    code, out, _ = run("speak", TEXT, "--dry-run", "--lexicon", "words.csv")
    assert code == 0
    lines = out.splitlines()
    assert lines[:5] == [
        "   1 s of silence", "1: The premier one is here.", "   0.5 s of silence",
        "2: A second follows.", "   0.25 s of silence",
    ]  # fmt: skip
    assert "   lexicon: 'first' -> 'premier'" in lines
    plan = json.loads(run("speak", TEXT, "--dry-run", "--json")[1])
    assert (plan["silence_s"], plan["segments"][0]["silence_s"]) == (1.0, 0.5)


def test_raw_text_speaks_no_marks_and_says_that_it_makes_none(run: Run) -> None:
    code, out, err = run("speak", "Go [pause 1s] on.", "--raw-text", "--dry-run")
    assert code == 0
    assert "1: Go, on." in out
    assert "'[pause 1s]' is not followed and left out: no tag is followed with --raw-text" in err


@pytest.mark.parametrize(
    ("mark", "why"),
    [
        ("<emphasis>so</emphasis>", "see --speed and --style"), ("[laughs]", "make no such sound"),
        ("<voice name='a'>so</voice>", "one voice speaks a text"),
        ("<phoneme ph='x'>so</phoneme>", "<sub alias="), ("<break time='x'/>", "[pause 0.8s]"),
        ("<say-as interpret-as='bleep'>so</say-as>", "no such interpret-as"),
        ("<audio src='a.wav'/>", "no recording is played"),
    ],
)  # fmt: skip
def test_what_is_not_followed_is_named_with_its_reason(run: Run, mark: str, why: str) -> None:
    code, out, err = run("speak", f"It is {mark} here.", "--dry-run")
    assert code == 0
    assert f"left out: {why}" in err or why in err
    assert ("so" in out.splitlines()[0]) == (">so<" in mark)


def test_the_lexicon_of_the_settings_counts_unless_another_is_given(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    Path("own.csv").write_text("first,foremost\n", "utf-8")
    monkeypatch.setenv("VOXCLI_LEXICON", "words.csv")
    assert "1: The premier." in run("speak", "The first.", "--dry-run")[1]
    assert "1: The foremost." in run("speak", "The first.", "--dry-run", "--lexicon", "own.csv")[1]
    assert "1: The first." in run("speak", "The first.", "--dry-run", "--raw-text")[1]


def test_a_lexicon_and_raw_text_contradict_each_other(run: Run) -> None:
    code, _, err = run("speak", "Hi.", "--raw-text", "--lexicon", "words.csv", "--dry-run")
    assert code == 2
    assert "--lexicon and --raw-text are both given" in err
    code, _, err = run("speak", "Hi.", "--lexicon", "gone.csv", "--dry-run")
    assert code == 2
    assert "cannot read gone.csv" in err


@pytest.mark.parametrize("suffix", ["srt", "vtt", "json"])
@pytest.mark.parametrize("command", ["speak", "stream"])
def test_subtitles_say_when_each_segment_sounds(
    run: Run, command: str, suffix: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    sent = io.BytesIO()
    monkeypatch.setattr("voxcli.audio.stream_out.open_stdout", lambda: _Open(sent))
    words = (command, TEXT, "-o", "-", "--subtitles", f"a.{suffix}")
    code, _, err = run(*words, "--format", "raw", "--bits", "32f")
    assert code == 0, err
    audible = np.flatnonzero(np.abs(np.frombuffer(sent.getvalue(), "<f4")) >= QUIET) / SAMPLE_RATE
    edge = int(np.argmax(np.diff(audible)))
    expected = [(audible[0], audible[edge]), (audible[edge + 1], audible[-1])]
    text = Path(f"a.{suffix}").read_text("utf-8")
    if suffix == "json":
        segments = json.loads(text)["segments"]
        found = [(each["start"], each["end"]) for each in segments]
        assert segments[0]["text"] == "The first one is here."
    else:
        found = [
            (event.start / 1000, event.end / 1000) for event in pysubs2.SSAFile.from_string(text)
        ]
    assert np.abs(np.array(found) - np.array(expected)).max() < 2e-3
    code, _, err = run(*words)
    assert code == 2
    assert "--overwrite" in err
    code, _, err = run(*words[:-1], "a.txt")
    assert code == 2
    assert "end it in .srt, .vtt, .json" in err
