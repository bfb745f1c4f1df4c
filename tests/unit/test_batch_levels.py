"""The level of each row's file, as shops for audiobooks ask for it: once, whatever ends a run."""

from __future__ import annotations

import json
import re
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import soundfile
from batches import digests, prepare, speak, statuses

from voxcli.audio.level import AUDIOBOOK
from voxcli.batch.folder import OutputFolder
from voxcli.batch.manifest import Manifest
from voxcli.batch.session import Choices
from voxcli.engine.base import SpeechEngine

pytestmark = pytest.mark.usefixtures("ffmpeg")


class Stop(BaseException):
    """A run that is killed."""


def batch(out: Path, suffix: str = "wav", **options: Any) -> Any:
    """Two rows."""
    out.mkdir(parents=True, exist_ok=True)
    table = out / "two.csv"
    table.write_text("text\nOne, quietly.\nAnd the other one.\n")
    return prepare(table, out, template=f"{{index:04d}}.{suffix}", **options)


def nobody() -> SpeechEngine:
    raise AssertionError("a row is spoken again")


def heard(path: Path) -> tuple[float, float]:
    """RMS and peak in dB, by ffmpeg."""
    command = ["ffmpeg", "-nostdin", "-i", path, "-af", "volumedetect", "-f", "null", "-"]
    told = subprocess.run(command, capture_output=True, text=True, check=True).stderr
    mean, peak = (re.search(rf"{name}_volume: (\S+) dB", told) for name in ("mean", "max"))
    assert mean is not None
    assert peak is not None
    return float(mean[1]), float(peak[1])


def check_levels(report: dict[str, Any]) -> None:
    """Of all files, as ffmpeg hears them and as the report tells them."""
    rows = [row for row in report["rows"] if row["status"] in ("ok", "kept")]
    assert rows
    for row in rows:
        rms_db, peak_db = heard(Path(report["output"]) / row["output"])
        assert AUDIOBOOK.lowest_db <= rms_db <= AUDIOBOOK.highest_db
        assert peak_db <= AUDIOBOOK.peak_db
        assert row["rms_db"] == pytest.approx(rms_db, abs=0.2)
        assert 20 * np.log10(row["peak"]) == pytest.approx(peak_db, abs=0.2)
        assert row["shortfalls"] == []
        assert json.loads(json.dumps(row))["gain_db"] == row["gain_db"]


@pytest.mark.parametrize("suffix", ["wav", "mp3", "m4a"])
def test_each_file_has_the_level_that_is_asked(tmp_path: Path, suffix: str) -> None:
    check_levels(speak(batch(tmp_path, suffix, loudness="audiobook")))


def test_files_that_are_there_get_their_level_once_and_nobody_speaks(tmp_path: Path) -> None:
    plain = speak(batch(tmp_path))
    loud = batch(tmp_path, loudness="audiobook")
    stock = loud.take_stock(Manifest(tmp_path))
    assert {each.reason for each in stock if each.status == "kept"} == {"its level will be set"}
    report = loud.run(nobody)
    assert set(statuses(report)) == set(statuses(plain)) - {"ok"} | {"kept"}
    check_levels(report)
    assert [row["seeds"] for row in report["rows"]] == [row["seeds"] for row in plain["rows"]]
    once = digests(tmp_path)
    assert batch(tmp_path, loudness="audiobook").run(nobody)["counts"] == report["counts"]
    assert digests(tmp_path) == once


def test_a_level_set_later_is_that_of_a_file_that_was_spoken_at_it(tmp_path: Path) -> None:
    """But for the rounding of the file that it was read from."""
    speak(batch(tmp_path / "later"))
    later = batch(tmp_path / "later", loudness="audiobook").run(nobody)
    for row in speak(batch(tmp_path / "at once", loudness="audiobook"))["rows"]:
        one, other = (soundfile.read(tmp_path / name / row["output"])[0] for name in
                      ("later", "at once"))  # fmt: skip
        gain = 10 ** (max(row["gain_db"], 0.0) / 20)
        assert np.abs(one - other).max() <= (1 + gain) / 2**15
    assert later["counts"]["kept"]


@pytest.mark.parametrize("step", ["append", "publish"])
def test_a_run_that_is_killed_while_levels_are_set_leaves_no_file_with_two_of_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    speak(batch(tmp_path))
    owner = Manifest if step == "append" else OutputFolder
    work, calls = getattr(owner, step), iter(range(100))

    def killed(*args: Any, **options: Any) -> Any:
        if next(calls) == 1:
            raise Stop
        return work(*args, **options)

    monkeypatch.setattr(owner, step, killed)
    with pytest.raises(Stop):
        batch(tmp_path, loudness="audiobook").run(nobody)
    monkeypatch.undo()
    report = speak(batch(tmp_path, loudness="audiobook"))
    assert report["counts"]["ok"] == (step == "publish")  # its line was written, its file was not
    check_levels(report)
    assert batch(tmp_path, loudness="audiobook").run(nobody)["counts"]["ok"] == 0


def test_a_file_that_would_lose_quality_is_spoken_again(tmp_path: Path) -> None:
    plain = speak(batch(tmp_path, "ogg"))
    report = speak(batch(tmp_path, "ogg", loudness="audiobook"))
    assert report["counts"] == plain["counts"]
    check_levels(report)


def test_rows_that_are_forced_are_spoken_again_and_those_of_others_are_left(
    tmp_path: Path,
) -> None:
    speak(batch(tmp_path))
    changed = tmp_path / "0001.wav"
    soundfile.write(changed, np.full(1000, 0.25), 24_000)
    before = changed.read_bytes()
    with pytest.raises(AssertionError, match="spoken again"):  # what was edited is damaged
        batch(tmp_path, loudness="audiobook").run(nobody)
    assert changed.read_bytes() == before
    forced = speak(batch(tmp_path, loudness="audiobook", choices=Choices(force=True)))
    assert forced["counts"]["kept"] == 0
    check_levels(forced)
