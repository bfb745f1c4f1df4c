"""What goes to which stream, and how it looks."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from voxcli.cli import output


def test_results_are_on_stdout_and_all_else_on_stderr(
    capsys: pytest.CaptureFixture[str],
) -> None:
    output.result(Path("hello.wav"))
    output.note("2.1 s of audio")
    output.warn("no GPU")
    output.error("no text", "give some")
    out, err = capsys.readouterr()
    assert out == "hello.wav\n"
    assert err.splitlines() == [
        "2.1 s of audio",
        "voxcli: warning: no GPU",
        "voxcli: error: no text; give some",
    ]


def test_quiet_drops_notes_but_not_warnings(capsys: pytest.CaptureFixture[str]) -> None:
    output.note("2.1 s of audio", is_quiet=True)
    output.warn("no GPU")
    assert capsys.readouterr().err == "voxcli: warning: no GPU\n"


def test_json_is_one_line_with_paths_and_any_letter(capsys: pytest.CaptureFixture[str]) -> None:
    output.result_json({"path": Path("é/\u4f60.wav"), "text": "two\nlines"})
    out = capsys.readouterr().out
    assert out.count("\n") == 1
    assert json.loads(out) == {"path": "é/\u4f60.wav", "text": "two\nlines"}


def test_json_refuses_what_is_no_json(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(ValueError, match="JSON"):
        output.result_json({"rtf": float("nan")})


def test_a_table_is_aligned_without_trailing_blanks() -> None:
    assert output.table([("a", "bb", "c"), ("ddd", "e", "")]) == "a    bb  c\nddd  e"


def test_progress_is_silent_where_nobody_looks(capsys: pytest.CaptureFixture[str]) -> None:
    with output.Progress("verify", 3, unit="files") as progress:
        for _ in range(3):
            progress.advance()
    assert progress.completed == 3
    assert capsys.readouterr() == ("", "")


@pytest.mark.parametrize(("unit", "total"), [("bytes", 4.0), ("frames", 4.0), ("frames", None)])
def test_progress_shows_a_bar_on_a_terminal(
    unit: str,
    total: float | None,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(output, "PROGRESS_DELAY_S", 0.0)
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    with output.Progress("verify mini", total, unit=unit) as progress:
        progress.advance()
        progress.update(2, 8)
    out, err = capsys.readouterr()
    assert out == ""
    assert "verify mini" in err


def test_a_short_job_shows_no_bar(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    with output.Progress("verify", 3) as progress:
        progress.advance()
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize(
    ("num_bytes", "shown"),
    [
        (0, "0.0 MB"),
        (2.5e5, "0.2 MB"),
        (9.94e6, "9.9 MB"),
        (4.8e7, "48 MB"),
        (3.47685e10, "34.8 GB"),
    ],
)
def test_a_size_is_shown_in_the_unit_that_people_say(num_bytes: float, shown: str) -> None:
    assert output.size(num_bytes) == shown


def test_a_report_shows_times_in_whole_microseconds(capsys: pytest.CaptureFixture[str]) -> None:
    run = {"wall_s": 0.1 + 0.2, "rtf": 1 / 3, "speed_x": 2.8149801283615354, "share": 2 / 3}
    output.result_json({**run, "segments": ({"end_s": 2.2090420000000002},)})
    shown = json.loads(capsys.readouterr().out)
    assert shown.pop("segments") == [{"end_s": 2.209042}]
    assert shown == {**run, "wall_s": 0.3, "rtf": 0.333333, "speed_x": 2.815}
