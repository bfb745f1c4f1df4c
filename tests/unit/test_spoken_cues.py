"""Subtitles beside the mix of a batch: each row's words at the time at which the mix has them."""

from __future__ import annotations

import json
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import numpy as np
import pysubs2
import pytest
import soundfile
from batches import prepare, speak, statuses

from voxcli.audio.fit import SpeedLimits, fit_to_slot
from voxcli.audio.joins import QUIET
from voxcli.audio.placing import Policy
from voxcli.batch.fitting import FitJudge
from voxcli.batch.session import Session
from voxcli.batch.spoken_cues import as_written
from voxcli.batch.subtitles import Line, as_subtitles
from voxcli.batch.tables import read_table
from voxcli.batch.timeline import Timeline
from voxcli.times import MAX_CUE_S, MAX_LINE, MAX_LINES, Timed

LONG = (
    "The first of these sentences is written so that no reader takes it in at once. A second one "
    "goes on at length about ferries, harbours and weather. Third and last, it comes to its end."
)
ROWS = f"""start,end,speaker,text
0.5,3,Anna,First speaker talks.
4,5,Ben,Second one pays $5. Much too long for it.
7,,Anna,"{LONG}"
40,,,[pause 1s] Then <break time='500ms'/> the end.
"""
SUFFIXES = ("srt", "ass", "json")


def session(folder: Path, suffix: str, policy: Policy = Policy.SHIFT, table: str = ROWS) -> Session:
    path = folder / "table.csv"
    path.write_text(table, "utf-8")
    timeline = Timeline(policy, mix=folder / "mix.wav", subtitles=folder / f"a.{suffix}")
    return replace(prepare(path, folder / "out", fit=SpeedLimits()), timeline=timeline)


def cues(path: Path) -> list[tuple[float, float, str]]:
    if path.suffix == ".json":
        segments = json.loads(path.read_text("utf-8"))["segments"]
        return [(each["start"], each["end"], each["text"]) for each in segments]
    events = pysubs2.load(str(path))
    return [(each.start / 1000, each.end / 1000, each.plaintext) for each in events]


def audible(path: Path) -> list[tuple[float, float]]:
    """From when to when the mix sounds; shorter breaks than a pause are none."""
    samples, rate = soundfile.read(path)
    loud = np.flatnonzero(np.abs(samples) >= QUIET)
    edges = np.flatnonzero(np.diff(loud) > 0.1 * rate)
    starts, ends = [loud[0], *loud[edges + 1]], [*loud[edges], loud[-1]]
    return [(start / rate, end / rate) for start, end in zip(starts, ends, strict=True)]


def around(found: list[tuple[float, float, str]]) -> list[tuple[float, float, str]]:
    """Cues that follow each other within a pause as one."""
    joined = found[:1]
    for start_s, end_s, text in found[1:]:
        if start_s - joined[-1][1] < 0.1:
            joined[-1] = (joined[-1][0], end_s, text)
        else:
            joined.append((start_s, end_s, text))
    return joined


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_a_cue_begins_when_its_words_sound_and_a_resumed_run_writes_all_of_them(
    tmp_path: Path, suffix: str
) -> None:
    """Trimmed, faster for a slot, moved by the row before, with pauses that the text asks for."""
    interrupted = session(tmp_path, suffix, table="\n".join(ROWS.split("\n")[:3]))
    speak(replace(interrupted, timeline=None), judges=[FitJudge()])
    report = speak(session(tmp_path, suffix), judges=[FitJudge()])
    assert sorted(set(statuses(report))) == ["kept", "ok"]
    path = tmp_path / f"a.{suffix}"
    found, sounds = cues(path), audible(tmp_path / "mix.wav")
    said = " ".join(text for _, _, text in found).split()
    assert said[:3] == ["First", "speaker", "talks."]
    assert " ".join(said).endswith(f"{LONG} Then the end.")
    for start_s, _, _ in found:
        nearest = min(abs(start_s - sound) for sound, _ in sounds)
        is_inside = any(begin < start_s < end for begin, end in sounds)
        assert nearest < 0.03 or is_inside
    for start_s, end_s in sounds:
        assert any(begin < start_s + 0.03 and end_s < end + 0.03 for begin, end, _ in around(found))
    if suffix == "json":
        for sound_s, _ in sounds:
            assert min(abs(sound_s - start_s) for start_s, _, _ in found) < 0.03
    before = path.read_bytes()
    again = speak(session(tmp_path, suffix), judges=[FitJudge()])
    assert set(statuses(again)) == {"kept"}
    assert path.read_bytes() == before


def test_cues_have_the_written_words_in_lines_that_fit_the_screen(tmp_path: Path) -> None:
    speak(session(tmp_path, "srt"), judges=[FitJudge()])
    found = cues(tmp_path / "a.srt")
    assert found[1][2].replace("\n", " ") == "Second one pays $5. Much too long for it."
    for start_s, end_s, text in found:
        lines = text.split("\n")
        assert len(lines) <= MAX_LINES
        assert max(map(len, lines)) <= MAX_LINE
        assert end_s - start_s <= MAX_CUE_S + 0.01
    assert all(before[1] <= after[0] + 1e-3 for before, after in pairwise(found))


NUMBERS = (
    "On 3 March 1897 nobody there expected a ship at all. “Look,” said Mrs. Doyle, “there’s one!” "
    "It was 7:45 a.m. Dr. J. H. Whitfield had sailed for 14 days; the crew ate nothing but rusk."
)


def test_sentences_with_numbers_are_cues_when_they_sound(tmp_path: Path) -> None:
    """Not at shares of the whole row, which would be seconds off within a chapter."""
    table = f'start,text\n1,"{NUMBERS}"\n'
    for suffix in ("srt", "json"):
        speak(session(tmp_path, suffix, table=table))
    found, segments = cues(tmp_path / "a.srt"), cues(tmp_path / "a.json")
    assert " ".join(text for _, _, text in found).split() == NUMBERS.split()
    starts = [start_s for start_s, _, _ in found]
    for start_s, _, text in segments:
        assert min(abs(start_s - each) for each in starts) < 0.002, text
    assert len(segments) > 4


MARKED = """# The *Morning*

The **ferry** leaves at noon, on [the pier](https://example.org/a). Bring `a jacket`.

- One thing
- Another thing

3. The third thing

| When | Where |
|---|---|
| Noon | The pier |
"""


def test_a_reader_sees_no_markup_and_no_stop_that_was_not_written(tmp_path: Path) -> None:
    path = tmp_path / "book.md"
    path.write_text(MARKED, "utf-8")
    timeline = Timeline(Policy.SHIFT, mix=tmp_path / "mix.wav", subtitles=tmp_path / "a.srt")
    speak(replace(prepare(path, tmp_path / "out"), timeline=timeline))
    found = [text.replace("\n", " ") for _, _, text in cues(tmp_path / "a.srt")]
    assert found[:2] == ["The Morning", "The ferry leaves at noon, on the pier."]
    assert " ".join(found[2:]) == (
        "Bring a jacket. One thing Another thing 3. The third thing When, Where Noon, The pier"
    )


@pytest.mark.parametrize(
    ("written", "said", "parts"),
    [
        ("Pay $5. Then go.", ["Pay five dollars.", "Then go."], ["Pay $5.", "Then go."]),
        ("It is 7, “no”.", ["It is seven,", '"no".'], ["It is 7,", "“no”."]),
        ("On 3/4, 1897 it fell.", ["On March fourth,", "eighteen ninety-seven it fell."], None),
        ("他说。“好”。", ["他说。", "“好”。"], ["他说。", "“好”。"]),
        ("🙂 🙂", ["smile", "smile"], None),
        ("One. Two.", ["One.", "…", "Two."], ["One.", "Two."]),
    ],
)
def test_a_text_is_cut_between_segments_where_a_word_tells_the_place(
    written: str, said: list[str], parts: list[str] | None
) -> None:
    segments = [Timed(text, at, at + 0.5) for at, text in enumerate(said)]
    found = as_written(written, segments)
    assert [each.text for each in found] == (parts or [written])
    assert (found[0].start_s, found[-1].end_s) == (0, len(said) - 0.5)


def test_the_json_has_spoken_words_speakers_and_files(tmp_path: Path) -> None:
    report = speak(session(tmp_path, "json"), judges=[FitJudge()])
    data = json.loads((tmp_path / "a.json").read_text("utf-8"))
    assert (data["times_of_segments"], data["times_of_words"]) == ("measured", "estimated")
    segments = data["segments"]
    assert [each["id"] for each in segments] == list(range(len(segments)))
    assert segments[1]["text"] == "Second one pays five dollars."
    assert [segments[0][name] for name in ("number", "output", "speaker", "language")] == [
        1, "0001.wav", "Anna", "en",
    ]  # fmt: skip
    assert report["timeline"]["subtitles"] == str(tmp_path / "a.json")
    for each in segments:
        assert [word["word"] for word in each["words"]] == each["text"].split()
        assert each["words"][0]["start"] == each["start"]
        assert each["words"][-1]["end"] == each["end"]


def test_what_is_cut_from_the_mix_is_not_in_its_cues(tmp_path: Path) -> None:
    table = f'start,end,text\n0,1,"{LONG}"\n2,4,Here.\n'
    made = session(tmp_path, "json", Policy.CUT, table)
    speak(replace(made, rules=replace(made.rules, fit=None)))
    *cut, last = cues(tmp_path / "a.json")
    assert last[2] == "Here."
    assert max(end for _, end, _ in cut) <= 2.001


def test_rows_of_runs_that_noted_no_segments_are_cues_all_the_same(tmp_path: Path) -> None:
    speak(session(tmp_path, "srt"), judges=[FitJudge()])
    manifest = tmp_path / "out" / "manifest.jsonl"
    lines = [json.loads(line) for line in manifest.read_text("utf-8").splitlines()]
    for line in lines:
        line.pop("segments", None)
    manifest.write_text("".join(f"{json.dumps(line)}\n" for line in lines), "utf-8")
    before = cues(tmp_path / "a.srt")
    report = speak(session(tmp_path, "srt"), judges=[FitJudge()])
    assert set(statuses(report)) == {"kept"}
    after = cues(tmp_path / "a.srt")
    assert [text.split() for _, _, text in after[:2]] == [text.split() for _, _, text in before[:2]]
    assert [start for start, _, _ in after[:2]] == [row["placed_s"] for row in report["rows"][:2]]


@pytest.mark.parametrize("suffix", ["vtt", "srt"])
def test_subtitles_that_were_written_are_read_back(tmp_path: Path, suffix: str) -> None:
    """Signs that are tags elsewhere, speakers, and an hour of three figures."""
    lines = [
        Line(1.25, 2.5, "If a<b & c>d\nthen.", "Ann & Bo"), Line(359_999.999, 360_001, "Bye.", "Bo")
    ]  # fmt: skip
    path = tmp_path / f"a.{suffix}"
    path.write_text(as_subtitles(reversed(lines), path), "utf-8")
    records = read_table(path).records
    assert [record.values["text"] for record in records] == ["If a<b & c>d then.", "Bye."]
    assert [record.values["start"] for record in records] == ["1.250", "359999.999"]
    if suffix == "vtt":
        assert [record.values["speaker"] for record in records] == ["Ann & Bo", "Bo"]


@pytest.mark.parametrize("slot_s", [1.0, 2.2, 9.0])
def test_a_place_in_fitted_speech_is_known(slot_s: float) -> None:
    """Two bursts with a pause that keeps its length between, and silence around."""
    rate = 8000
    burst = np.sin(np.arange(rate) / 3).astype(np.float32)
    spoken = np.concatenate([np.zeros(rate), burst, np.zeros(rate // 2), burst, np.zeros(rate)])
    silences = [(2 * rate, rate // 2)]
    fitted = fit_to_slot(spoken.astype(np.float32), rate, slot_s, SpeedLimits(0.7), silences)
    loud = np.flatnonzero(np.abs(fitted.samples) >= 0.05)
    edge = int(np.argmax(np.diff(loud)))
    edges = [loud[0], loud[edge], loud[edge + 1], loud[-1]]
    asked = [rate, 2 * rate, 2.5 * rate, 3.5 * rate]
    assert np.abs(np.array([fitted.moved(at) for at in asked]) - edges).max() < 0.03 * rate
