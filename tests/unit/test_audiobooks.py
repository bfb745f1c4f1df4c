"""Books as audiobooks on the fake model: chapter marks, tags, loudness, and what a stop leaves."""

from __future__ import annotations

import json
import math
import shutil
import subprocess
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import soundfile
from batches import digests, prepare, speak
from commands import runner
from epubs import Epub, page, png
from fakes import fake_engine
from hypothesis import given, settings
from hypothesis import strategies as st
from test_audio_stretch import voice

from voxcli.audio.clips import ClipReader
from voxcli.audio.files import KINDS, beside, hidden_name
from voxcli.audio.level import AUDIOBOOK, LevelMeter
from voxcli.audio.mixdown import Clip, Mix, write_mix
from voxcli.audio.placing import Policy
from voxcli.audio.tags import Mark, Tags, cover_problem
from voxcli.audio.write import AudioWriter
from voxcli.batch import run
from voxcli.batch.folder import OutputFolder
from voxcli.batch.jobs import Status
from voxcli.batch.session import Session
from voxcli.batch.takes import Outcome, Tally
from voxcli.batch.timeline import Timeline
from voxcli.cli.book_options import of_book
from voxcli.engine.base import Event, Speech
from voxcli.plan import Plan
from voxcli.utterance import AudioChunk

pytestmark = pytest.mark.usefixtures("ffmpeg")

RATE = 24_000
SENTENCE = "It was a long way. "


def book(folder: Path, num_chapters: int = 3, sentences: int = 2) -> Path:
    pages = {
        f"{i}.xhtml": page(f"<h1>Chapter {i}</h1><p>{SENTENCE * sentences}</p>")
        for i in range(num_chapters)
    }
    contents = [("Same; title = #1", f"{i}.xhtml", 1) for i in range(num_chapters)]
    made = Epub(pages, contents, cover=png(), authors=["Ann", "Ben"], version=2)
    return made.write(folder / "book.epub")


def session(folder: Path, mix: str = "book.m4b", **options: Any) -> Session:
    """A book's batch in a folder of its own."""
    folder.mkdir(exist_ok=True)
    made = prepare(book(folder), folder / "out")
    timeline = Timeline(Policy.MIX, mix=folder / mix, **options)
    return replace(made, timeline=of_book(timeline, made.table.book, None))


def probed(path: Path) -> dict[str, Any]:
    command = ["ffprobe", "-loglevel", "error", "-show_chapters", "-show_format", "-show_streams"]
    run = subprocess.run([*command, "-of", "json", path], capture_output=True, check=True)
    found: dict[str, Any] = json.loads(run.stdout)
    return found


def decoded(path: Path, rate: int) -> Any:
    with ClipReader(path, rate) as reader:
        return reader.read(rate * 3600)


def test_marks_agree_with_the_samples_of_the_mix(tmp_path: Path) -> None:
    """Between two chapters is silence; each begins at its mark, in a WAV to the sample."""
    report = speak(session(tmp_path, "book.wav"))
    samples, rate = soundfile.read(tmp_path / "book.wav", dtype="float32")
    marks, rows = report["timeline"]["chapters"], report["rows"]
    assert len(marks) == len(rows) == 3
    starts = [mark["start"] for mark in marks]
    assert [mark["stop"] for mark in marks] == [*starts[1:], len(samples)]
    for mark, row in zip(marks, rows, strict=True):
        own = soundfile.read(tmp_path / "out" / row["output"], dtype="float32")[0]
        begun, ended = mark["start"], mark["start"] + len(own)
        assert np.array_equal(samples[begun:ended], own)
        assert not samples[ended : mark["stop"]].any()
    assert marks[1]["start"] - rows[0]["num_frames"] == 2 * rate


def test_an_m4b_has_marks_title_authors_and_cover(tmp_path: Path) -> None:
    report = speak(session(tmp_path))
    made = report["timeline"]
    found = probed(tmp_path / "book.m4b")
    rate = made["sample_rate"]
    assert found["format"]["tags"]["title"] == "The Sea"
    assert found["format"]["tags"]["artist"] == "Ann, Ben"
    assert found["format"]["tags"]["major_brand"] == "M4B "
    for chapter, mark in zip(found["chapters"], made["chapters"], strict=True):
        assert chapter["tags"]["title"] == mark["title"] == "Same; title = #1"
        assert float(chapter["start_time"]) == pytest.approx(mark["start"] / rate, abs=1.1e-3)
        assert float(chapter["end_time"]) == pytest.approx(mark["stop"] / rate, abs=1.1e-3)
    covers = [each for each in found["streams"] if each["disposition"]["attached_pic"]]
    assert [(cover["width"], cover["height"]) for cover in covers] == [(8, 8)]
    samples = decoded(tmp_path / "book.m4b", rate)
    assert abs(len(samples) - made["num_frames"]) < rate / 10
    first = made["chapters"][1]["start"]
    assert abs(samples[first : first + rate]).max() > 10 * abs(samples[first - rate : first]).max()


def test_a_run_that_was_stopped_and_taken_up_again_gives_the_same_files(tmp_path: Path) -> None:
    def stop(outcome: Outcome, tally: Tally) -> None:
        raise KeyboardInterrupt

    speak(session(tmp_path / "whole"))
    with pytest.raises(KeyboardInterrupt):
        speak(session(tmp_path / "stopped"), on_outcome=stop)
    assert not (tmp_path / "stopped" / "book.m4b").exists()
    report = speak(session(tmp_path / "stopped"))
    assert Status.KEPT in [row["status"] for row in report["rows"]]
    assert digests(tmp_path / "whole" / "out") == digests(tmp_path / "stopped" / "out")
    one, other = (tmp_path / name / "book.m4b" for name in ("whole", "stopped"))
    assert one.read_bytes() == other.read_bytes()


def test_what_a_killed_run_left_beside_the_mix_goes_with_the_next_and_nothing_else_does(
    tmp_path: Path,
) -> None:
    asked = session(tmp_path, subtitles=tmp_path / "book.srt")
    with asked.folder.locked():
        token = asked.folder.token()
    mine = [hidden_name(tmp_path / name, token) for name in ("book.m4b", "book.srt")]
    mine += [beside(mine[0], kind) for kind in KINDS]
    copy = OutputFolder(tmp_path / "copy")
    shutil.copytree(asked.folder.root, copy.root)
    foreign = [hidden_name(tmp_path / "book.m4b", each) for each in ("", copy.token())]
    for path in (*mine, *foreign):
        path.touch()
    speak(asked)
    assert not any(path.exists() for path in mine)
    assert all(path.exists() for path in foreign)
    assert {path.name for path in tmp_path.iterdir()} == {
        "book.epub", "book.m4b", "book.srt", "out", "copy", *(path.name for path in foreign)
    }  # fmt: skip


@pytest.mark.parametrize(("sentences", "fewest", "most"), [(14, 1, 2), (0, 4, 4)])
def test_long_rows_are_not_all_spoken_side_by_side(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, sentences: int, fewest: int, most: int
) -> None:
    """So that a stop costs few of them; short rows are as many at once as ever."""
    monkeypatch.setattr(run, "SEGMENT_CHARS", 20)  # as this engine has it
    engine = fake_engine(max_slots=4, max_chars=20)
    session = engine.session()
    add, step = session.add, session.step
    speaking: set[Speech] = set()
    at_once: list[int] = []

    def added(plan: Plan, *, is_live: bool = True) -> Speech:
        speech = add(plan, is_live=is_live)
        speaking.add(speech)
        at_once.append(len(speaking))
        return speech

    def stepped() -> list[Event]:
        events = step()
        speaking.difference_update(
            speech for speech, event in events if isinstance(event, AudioChunk) and event.is_last
        )
        return events

    session.add, session.step = added, stepped  # type: ignore[method-assign]
    engine.session = lambda: session  # type: ignore[method-assign]
    report = prepare(book(tmp_path, 4, sentences), tmp_path / "out").run(lambda: engine)
    assert [row["status"] for row in report["rows"]] == ["ok"] * 4
    assert fewest <= max(at_once) <= most


# ------------------------------------------------------------ loudness


@settings(max_examples=20)
@given(
    samples=st.lists(st.floats(-1, 1, width=32), min_size=1, max_size=400),
    sizes=st.lists(st.integers(1, 90), min_size=1, max_size=40),
)
def test_levels_are_those_of_the_whole(samples: list[float], sizes: list[int]) -> None:
    """Whatever the blocks in which it is pushed; against numpy over all samples."""
    rate, whole = 100, np.array(samples, np.float32)
    meter = LevelMeter(rate)
    at = 0
    for size in [*sizes, len(whole)]:
        meter.push(whole[at : at + size])
        at += size
    power = float(np.square(whole, dtype=np.float64).mean())
    assert 10 ** (meter.overall() / 10) == pytest.approx(power, rel=1e-9, abs=1e-20)


@pytest.mark.parametrize("noise_db", [-70.0, -50.0])
@pytest.mark.parametrize("pause_s", [0.1, 0.6])
@pytest.mark.parametrize("is_filled", [True, False])
def test_the_noise_floor_is_that_of_the_pauses_whatever_fills_them(
    noise_db: float, pause_s: float, is_filled: bool
) -> None:
    """Also where no half second is free of speech or of digital silence."""
    numbers = np.random.default_rng(1)
    word = np.concatenate((voice(120.0, 0.4, RATE), np.zeros(round(0.1 * RATE), np.float32)))
    noisy = word + numbers.normal(size=len(word)) * 10 ** (noise_db / 20)
    pause = numbers.normal(size=round(pause_s * RATE)) * 10 ** (noise_db / 20) * is_filled
    meter = LevelMeter(RATE)
    for _ in range(20):
        meter.push(np.concatenate((noisy, pause)).astype(np.float32))
    assert meter.noise_floor_db() == pytest.approx(noise_db, abs=1.5)


def test_speech_without_a_pause_has_its_own_level_as_floor_and_silence_none() -> None:
    meter = LevelMeter(RATE)
    meter.push(voice(120.0, 2.0, RATE))
    assert -40 < meter.noise_floor_db() < 0
    silent = LevelMeter(RATE)
    silent.push(np.zeros(2 * RATE, np.float32))
    assert silent.noise_floor_db() == -math.inf


@pytest.mark.parametrize("gain", [0.003, 1.0])
@pytest.mark.parametrize("name", ["mix.wav", "mix.m4b"])
def test_an_audiobook_is_as_loud_as_shops_ask(tmp_path: Path, gain: float, name: str) -> None:
    """From quiet and from loud, with pauses counted in, and after a lossy format's own error."""
    loud = np.concatenate([voice(110.0 + 20 * i, 0.5, RATE) * (1 + i) / 4 for i in range(4)])
    soundfile.write(tmp_path / "a.wav", (loud * gain).astype(np.float32), RATE, subtype="FLOAT")
    placed = [Clip(tmp_path / "a.wav", start * RATE, len(loud)) for start in (0, 3, 6)]
    mix = Mix(placed, RATE, target_rms_db=AUDIOBOOK.target_db, ceiling_db=AUDIOBOOK.ceiling_db)
    written = write_mix(mix, tmp_path / name)
    samples = decoded(tmp_path / name, RATE).astype(np.float64)
    rms_db = 10 * math.log10(np.square(samples).mean())
    peak_db = 20 * math.log10(np.abs(samples).max())
    assert -23 <= rms_db <= -18
    assert peak_db <= -3
    assert written.audio.rms_dbfs == pytest.approx(rms_db, abs=0.1)
    assert AUDIOBOOK.shortfalls(rms_db, 10 ** (peak_db / 20), -math.inf, 9.0) == []


def test_what_falls_short_is_told() -> None:
    told = AUDIOBOOK.shortfalls(-30.0, 10 ** (-1 / 20), -40.0, 30.0)
    assert told == [
        "its level is -30.0 dB RMS, not -23 to -18 dB",
        "its peak is -1.0 dB, above -3 dB",
        "its noise floor is -40.0 dB, above -60 dB",
    ]
    assert AUDIOBOOK.shortfalls(-20.0, 10 ** (-3.5 / 20), -math.inf, 30.0) == []
    short = AUDIOBOOK.shortfalls(-20.0, 0.5, -25.0, 29.0)  # may have no pause at all
    assert short == []


# ------------------------------------------------------------ tags


@pytest.mark.parametrize("title", ["a=b;c#d\\e'", "[CHAPTER]", "two\nlines “海” \U0001f30a"])
def test_titles_are_what_they_were_in_every_character(tmp_path: Path, title: str) -> None:
    marks = (Mark(title, 0, RATE), Mark(f"{title} 2", RATE, 2 * RATE))
    path = tmp_path / "a.m4b"
    with AudioWriter(path, RATE, tags=Tags(title, title, None, marks)) as writer:
        writer.write(voice(120.0, 2.0, RATE))
        writer.commit()
    found = probed(path)
    shown = " ".join(title.split())
    assert found["format"]["tags"]["title"] == found["format"]["tags"]["artist"] == shown
    assert [each["tags"]["title"] for each in found["chapters"]] == [shown, f"{shown} 2"]
    assert sorted(each.name for each in tmp_path.iterdir()) == ["a.m4b"]


COVERS = {  # of one point
    "GIF": b"GIF89a\x01\0\x01\0\x80\0\0\xff\0\0\0\0\0,\0\0\0\0\x01\0\x01\0\0\x02\x02D\x01\0;",
    "WebP": bytes.fromhex("524946461a000000574542505650384c0d0000002f00000010071011118888fe0700"),
}


@pytest.mark.parametrize("name", COVERS)
def test_a_cover_of_another_kind_is_converted(tmp_path: Path, name: str) -> None:
    assert cover_problem(COVERS[name]) == ""
    path = tmp_path / "a.m4b"
    with AudioWriter(path, RATE, tags=Tags("A", "B", COVERS[name])) as writer:
        writer.write(voice(120.0, 1.0, RATE))
        writer.commit()
    [cover] = [each for each in probed(path)["streams"] if each["disposition"]["attached_pic"]]
    assert (cover["codec_name"], cover["width"], cover["height"]) == ("png", 1, 1)


def test_a_cover_that_ffmpeg_cannot_read_is_found_before_the_speech(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    assert cover_problem(png()) == ""
    assert cover_problem(png()[:40])
    made = prepare(book(tmp_path), tmp_path / "out")
    assert made.table.book is not None
    broken = replace(made.table.book, cover=png()[:40])
    timeline = of_book(Timeline(Policy.MIX, mix=tmp_path / "b.m4b"), broken, None)
    assert timeline is not None
    assert timeline.cover is None
    assert "the cover is left out: " in capfd.readouterr().err
    of_book(Timeline(Policy.MIX, mix=tmp_path / "b.mp3"), broken, None)
    assert "can hold no chapter marks" in capfd.readouterr().err


# ------------------------------------------------------------ the command


def test_a_dry_run_shows_the_chapters_with_how_long_they_are(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    command = runner(tmp_path, monkeypatch, capfd)
    path = tmp_path / "b.txt"
    path.write_text("Chapter 1\n\nOnce upon a time.\n\nChapter 2\n\nThe end came.\n")
    words = ("batch", str(path), "-o", "out", "--mix", "b.m4b", "--dry-run", "--chapters", "2")
    code, out, err = command(*words)
    assert code == 0
    lines = [line.split("  ") for line in out.splitlines()]
    rows = [[cell.strip() for cell in line if cell.strip()] for line in lines]
    assert rows[0] == ["chapter", "title", "words", "about", "file"]
    assert rows[1] == ["1", "Chapter 1", "6", "-", "(skipped: not among --chapters 2)"]
    assert rows[2][:3] == ["2", "Chapter 2", "5"]
    assert rows[2][3].endswith(" s")
    assert rows[2][4] == "0002.wav"
    assert rows[3][0].startswith("1 row to do: about ")
    assert "2 rows, read as utf-8, plain text, chapters by its headings" in err
    code, out, _ = command(*words[:-2], "--json")
    found = json.loads(out)["rows"]
    assert [row["status"] for row in found] == ["to do", "to do"]
    assert [len(row["segments"]) for row in found] == [2, 2]
    for wrong, told in (
        (("--loudness", "loud"), "--loudness is 'loud'"),
        (("--loudness", "audiobook", "--lufs", "-16"), "--lufs and --loudness are both given"),
        (("--gap", "61"), "--gap is 61"),
        (("--chapter-depth", "0"), "--chapter-depth is 0"),
        (("--chapters", "9"), "there are 2 chapters"),
    ):
        code, _, err = command(*words[:-2], *wrong)
        assert (code, told in err) == (2, True), err
