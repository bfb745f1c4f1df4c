"""`voxcli batch --cast`: what is told before anything is loaded, and what a run makes."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from commands import Run, runner

SCRIPT = "Emma: One.\nGeorge: Two.\nMia: Three.\nGeorge: Four.\n"


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> Run:
    made = runner(tmp_path, monkeypatch, capfd)
    Path("play.txt").write_text(SCRIPT, "utf-8")
    return made


def plan(run: Run, *words: str) -> tuple[int, list[tuple[str, str, str]], str]:
    """Exit code, the speaker, voice and text of each row, and what was told."""
    code, out, err = run("batch", "play.txt", "-o", "out", "--dry-run", "--json", *words)
    rows = json.loads(out)["rows"] if code in (0, 1) else []
    return code, [(row["speaker"], row["voice"], row.get("text", "")) for row in rows], err


def test_each_speaker_of_a_script_has_the_voice_of_the_cast(run: Run) -> None:
    code, rows, err = plan(run, "--cast", "emma=emma,Mia=mia", "--cast", "GEORGE=george")
    assert code == 0
    assert rows == [
        ("Emma", "emma", "One."), ("George", "george", "Two."), ("Mia", "mia", "Three."),
        ("George", "george", "Four."),
    ]  # fmt: skip
    assert "names of speakers are not spoken: Emma (line 1), George (lines 2, 4)" in err


def test_speakers_without_a_voice_are_told_together_and_nothing_is_spoken_of_them(run: Run) -> None:
    code, _, err = plan(run, "--cast", "Emma=emma,Bo=mia")
    assert code == 1
    assert "row 2 (line 2): speaker: 'George' has no voice" in err
    assert "(1 more row, to 4)" in err
    assert "row 3 (line 3): speaker: 'Mia' has no voice" in err
    assert "nobody in the table is called Bo" in err
    code, _, err = run("batch", "play.txt", "-o", "out", "--strict", "--cast", "Emma=emma")
    assert code == 2
    assert "3 of 4 rows of play.txt cannot be spoken" in err
    assert not Path("out").exists()
    code, rows, err = plan(run, "--cast", "Emma=emma", "--voice", "mia")
    assert (code, rows[1][1]) == (0, "mia")
    assert "in the command's voice: George (2), Mia (1)" in err


def test_a_voice_of_the_cast_that_is_none_is_told(run: Run) -> None:
    code, _, err = plan(run, "--cast", "Emma=ema,George=george,Mia=none")
    assert code == 1
    assert "row 1 (line 1): voice: no voice 'ema'; did you mean 'emma'?" in err
    assert "rows of speakers whom the cast leaves out: Mia (1)" in err


def test_the_config_has_a_cast(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("VOXCLI_CAST", "George=george,Nobody=mia")
    code, rows, _ = plan(run)
    assert (code, [row[1] for row in rows]) == (0, [None, "george", None, "george"])
    config = Path("config.toml")
    config.write_text('[cast]\n"George" = "mia"\n', "utf-8")
    monkeypatch.setenv("VOXCLI_CONFIG", str(config))
    monkeypatch.delenv("VOXCLI_CAST")
    assert plan(run)[1][1][1] == "mia"
