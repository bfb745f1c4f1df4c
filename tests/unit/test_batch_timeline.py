"""A batch as a timeline: fitting, policies, mix, stems and subtitles on the fake model."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pysubs2
import pytest
import soundfile
from batches import prepare, speak, statuses

from voxcli.audio.fit import SpeedLimits
from voxcli.audio.placing import Policy
from voxcli.audio.resample import Samples
from voxcli.batch.fitting import FitJudge
from voxcli.batch.report import COLUMNS
from voxcli.batch.session import Session
from voxcli.batch.takes import SEED_STEP, Take, Verdict
from voxcli.batch.timeline import Timeline, stem_names
from voxcli.batch.verify import WordCheck
from voxcli.errors import OutputError, OutputExistsError, SynthesisError, UsageError

DOCS = Path(__file__).resolve().parents[2] / "docs"
OVERLAPPING = """start,end,speaker,text
0,2.5,Anna,First speaker talks.
2,4,Ben,Second one cuts in.
5,7,Anna,"Same time, line one."
5,7,Ben,"Same time, line two."
8,12,Anna,Outer cue.
9,10,,Inner cue.
"""


def session(
    folder: Path, table: str = OVERLAPPING, *, fit: SpeedLimits | None = None, **options: Any
) -> Session:
    path = folder / "table.csv"
    path.write_text(table, "utf-8")
    policy = options.pop("policy", Policy.MIX)
    made = prepare(path, folder / "out", fit=fit)
    return replace(made, timeline=Timeline(policy, **options))


@pytest.mark.parametrize("policy", list(Policy))
@pytest.mark.parametrize("last", ["One more.,12.5,20", "One more.,12.5,12.6", "[applause],12.5,20"])
def test_a_mix_is_as_long_as_its_last_slot(tmp_path: Path, policy: Policy, last: str) -> None:
    """Also where nothing is said in it; speech that sounds longer makes it longer."""
    text, start, end = last.split(",")
    table = tmp_path / "table.srt"
    table.write_text(
        f"1\n00:00:01,000 --> 00:00:02,000\nHi.\n\n2\n{clock(start)} --> {clock(end)}\n{text}\n"
    )
    mix, stems = tmp_path / "mix.wav", tmp_path / "stems"
    made = replace(
        prepare(table, tmp_path / "out"), timeline=Timeline(policy, mix=mix, stems=stems)
    )
    report = speak(made)
    spoken_s = max(row["placed_s"] + row["audio_s"] for row in report["rows"] if "placed_s" in row)
    info = soundfile.info(mix)
    assert info.frames == round(max(float(end), spoken_s) * info.samplerate)
    assert report["timeline"]["length_s"] == pytest.approx(info.duration, abs=1e-3)
    assert [soundfile.info(path).frames for path in stems.iterdir()] == [info.frames]


def clock(seconds: str) -> str:
    return f"00:00:{float(seconds):06.3f}".replace(".", ",")


@pytest.mark.parametrize("policy", [Policy.MIX, Policy.SHIFT, Policy.CUT])
def test_no_cue_is_lost_and_nothing_clips(tmp_path: Path, policy: Policy) -> None:
    mix = tmp_path / "mix.wav"
    report = speak(session(tmp_path, mix=mix, policy=policy))
    made = report["timeline"]
    assert statuses(report) == ["ok"] * 6
    assert (made["policy"], made["rows"]) == (policy.value, 6)
    assert made["peak"] <= 1.0
    samples, rate = soundfile.read(mix)
    for row in report["rows"]:
        first = round(row["placed_s"] * rate)
        assert abs(samples[first : first + row["num_frames"]]).max() > 0
        if policy is not Policy.SHIFT:
            assert row["placed_s"] == row["start"]


def test_stems_where_a_file_lies_are_refused_before_anything_is_spoken(tmp_path: Path) -> None:
    (tmp_path / "a.wav").write_bytes(b"x")
    for stems in (tmp_path / "a.wav", tmp_path / "a.wav" / "stems"):
        with pytest.raises(OutputError, match=r"a file, not a folder.*choose another --stems"):
            session(tmp_path, stems=stems).check()
    session(tmp_path, stems=tmp_path / "new" / "stems").check()
    assert not (tmp_path / "new").exists()


def test_a_mix_may_lie_in_the_folder_that_the_run_makes(tmp_path: Path) -> None:
    mix = tmp_path / "out" / "mix.wav"
    made = session(tmp_path, mix=mix)
    assert made.timeline is not None
    subtitles = mix.with_suffix(".srt")
    made = replace(made, timeline=replace(made.timeline, subtitles=subtitles))
    made.check()
    assert not mix.parent.exists()
    speak(made)
    assert mix.exists()
    assert subtitles.exists()
    for path in (tmp_path / "none" / "mix.wav", mix.parent / "none" / "mix.wav"):
        with pytest.raises(OutputError, match="mkdir -p"):
            session(tmp_path, mix=path).check()


def test_fail_refuses_overlapping_slots_before_anything_runs(tmp_path: Path) -> None:
    mix = tmp_path / "mix.wav"
    with pytest.raises(
        UsageError,
        match=r"rows 1 and 2 \(lines 2 and 3\) by 0\.50 s.*rows 5 and 6 \(lines 6 and 7\) by 1\.0",
    ):
        speak(session(tmp_path, mix=mix, policy=Policy.FAIL))
    assert not mix.exists()


def test_fail_makes_no_mix_of_speech_that_overlaps(tmp_path: Path) -> None:
    table = "start,text\n0,A long sentence that takes its time.\n0.01,Another one.\n"
    mix = tmp_path / "mix.wav"
    with pytest.raises(SynthesisError, match="no timeline"):
        speak(session(tmp_path, table, mix=mix, policy=Policy.FAIL))
    assert not mix.exists()
    report = json.loads((tmp_path / "out" / "report.json").read_text("utf-8"))
    assert statuses(report) == ["ok", "ok"]


def test_a_row_that_cannot_fit_is_flagged_and_cut_at_the_next(tmp_path: Path) -> None:
    table = "start,end,text\n0,0.2,A sentence far too long for it.\n0.3,9,The next line.\n"
    wanted = session(
        tmp_path, table, fit=SpeedLimits(), mix=tmp_path / "mix.wav", policy=Policy.CUT
    )
    first, second = speak(wanted, judges=[FitJudge()])["rows"]
    assert first["speed"] == 1.3
    assert first["overflow_s"] > 0
    assert first["overlap_s"] == second["overlap_s"] == 0
    assert second["placed_s"] == 0.3
    assert second["speed"] == 1.0


def test_a_row_that_nearly_fits_is_spoken_again_and_the_shortest_take_is_kept(
    tmp_path: Path,
) -> None:
    """Row 1 nearly fits, row 2 never will, row 3 does."""

    def third_is_short(take: Take) -> Verdict:
        return Verdict(take.samples[: int(len(take.samples) * (0.9 if take.number == 3 else 1))])

    sentence = "A sentence of an ordinary length."
    table = f"start,end,text\n0,1.85,{sentence}\n3,4,{sentence}\n6,9,{sentence}\n"
    report = speak(session(tmp_path, table, fit=SpeedLimits()), judges=[third_is_short, FitJudge()])
    nearly, never, fits = report["rows"]
    assert (nearly["takes"], never["takes"], fits["takes"]) == (4, 1, 1)
    assert nearly["seeds"][0] == nearly["seed"] + 2 * SEED_STEP
    assert 0 < nearly["overflow_s"] < 0.2
    assert nearly["refused"][0].startswith("overflows its slot by 0.")
    assert report["overflowing"] == 2


def test_the_fit_is_part_of_what_a_row_is(tmp_path: Path) -> None:
    def run(fit: SpeedLimits | None) -> list[str]:
        return statuses(speak(session(tmp_path, fit=fit), judges=[FitJudge()]))

    assert set(run(None)) == {"ok"}
    assert set(run(None)) == {"kept"}
    assert set(run(SpeedLimits())) == {"ok"}
    assert set(run(SpeedLimits())) == {"kept"}
    assert set(run(SpeedLimits(max_speed=1.2))) == {"ok"}


def test_a_row_faster_than_the_greatest_tempo_is_a_problem(tmp_path: Path) -> None:
    table = "start,end,speed,text\n0,1,1.8,Fast.\n"
    (problem,) = session(tmp_path, table, fit=SpeedLimits()).problems
    assert problem.column == "speed"


def test_the_mix_is_made_again_from_rows_that_were_kept(tmp_path: Path) -> None:
    mix = tmp_path / "mix.wav"
    speak(session(tmp_path, mix=mix))
    before = mix.read_bytes()
    mix.unlink()
    assert set(statuses(speak(session(tmp_path, mix=mix)))) == {"kept"}
    assert mix.read_bytes() == before
    speak(session(tmp_path, mix=mix))  # ours, so it may be replaced
    mix.write_bytes(b"somebody else's")
    with pytest.raises(OutputExistsError, match=r"mix\.wav exists"):
        speak(session(tmp_path, mix=mix))
    assert mix.read_bytes() == b"somebody else's"


def test_stems_and_subtitles_are_those_of_the_mix(tmp_path: Path) -> None:
    report = speak(
        session(
            tmp_path, mix=tmp_path / "mix.wav", stems=tmp_path / "stems",
            subtitles=tmp_path / "a.srt", policy=Policy.SHIFT,
        )
    )  # fmt: skip
    assert {path.name for path in (tmp_path / "stems").iterdir()} == {
        "anna.wav", "ben.wav", "speech.wav",
    }  # fmt: skip
    events = list(pysubs2.load(str(tmp_path / "a.srt")))
    rows = sorted(report["rows"], key=lambda row: row["placed_s"])
    assert [event.text for event in events] == [row["text"] for row in rows]
    for event, row in zip(events, rows, strict=True):
        first, last = row["segments"][0], row["segments"][-1]
        assert event.start == pytest.approx((row["placed_s"] + first["start_s"]) * 1000, abs=1)
        end_ms = (row["placed_s"] + last["end_s"]) * 1000
        assert end_ms - 1 <= event.end <= max(end_ms, event.start + 1000) + 1


def test_speakers_get_stems_of_different_names() -> None:
    names = stem_names(["Anna", "anna", "", "bed", "../x"])
    assert len(set(names.values()) | {"bed"}) == 6
    assert not any("/" in name or "." in name for name in names.values())


@pytest.mark.parametrize("options", [{"lufs": -3.0}, {"bed": Path("nothing.wav")}])
def test_what_cannot_be_is_refused_before_anything_runs(
    tmp_path: Path, options: dict[str, Any]
) -> None:
    with pytest.raises(UsageError):
        speak(session(tmp_path, mix=tmp_path / "mix.wav", **options))
    assert not (tmp_path / "out").exists()


def test_every_field_of_the_report_is_explained(tmp_path: Path) -> None:
    """Of a run that fits, verifies, mixes and fails."""

    def hear(samples: Samples, rate: int, language: str) -> str:
        return "Outer cue."

    wanted = session(
        tmp_path, "start,end,text\n0,2,Outer cue.\n3,4,Another one.\n", fit=SpeedLimits(),
        mix=tmp_path / "mix.wav", stems=tmp_path / "stems", subtitles=tmp_path / "a.srt",
    )  # fmt: skip
    report = speak(wanted, judges=[WordCheck(hear, 0.3, 0), FitJudge()])
    assert statuses(report) == ["ok", "failed"]
    fields = {*report, *COLUMNS, *(name for row in report["rows"] for name in row)}
    assert unexplained(fields, "batch.md") == []
    assert unexplained(report["timeline"], "dubbing.md") == []


def unexplained(fields: Iterable[str], page: str) -> list[str]:
    """Those that stand in the first column of no table of a page."""
    lines = (DOCS / page).read_text("utf-8").splitlines()
    cells = [line.split("|")[1] for line in lines if line.startswith("|")]
    known = {name for cell in cells for name in re.findall(r"`(\w+)`", cell)}
    return sorted(set(fields) - known - {"rows"})
