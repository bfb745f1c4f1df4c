"""`voxcli batch` with the bundled voice: the contract of the command. More in unit/test_batch_*."""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from needs import PATIENCE_S
from shell import VOXCLI

from voxcli import cli
from voxcli.audio import guard
from voxcli.batch import forecast
from voxcli.cli import output
from voxcli.cli.batch_shows import show_servers
from voxcli.engine.native.engine import NativeEngine

pytestmark = pytest.mark.usefixtures("empty_folder")

INPUTS = Path(__file__).resolve().parents[1] / "inputs"
SAMPLES = Path(__file__).resolve().parents[2] / "samples"
SIX = str(INPUTS / "six.csv")

Run = Callable[..., tuple[int, str, str]]


@pytest.fixture
def run(capfd: pytest.CaptureFixture[str]) -> Run:
    def run(*words: object) -> tuple[int, str, str]:
        code = cli.main(["batch", *map(str, words)])
        out, err = capfd.readouterr()
        return code, out, err

    return run


def digest(path: str | Path) -> str:
    return hashlib.sha256(Path(path).read_bytes()).hexdigest()


def report() -> dict[str, Any]:
    found: dict[str, Any] = json.loads(Path("out/report.json").read_text("utf-8"))
    return found


def statuses() -> list[str]:
    return [row["status"] for row in report()["rows"]]


# The program, which gets Ctrl-C in the moment in which its first row is done.
INTERRUPTED = """
import os, signal, sys
from voxcli.__main__ import main
from voxcli.batch.manifest import DONE, Manifest

append = Manifest.append

def note(self, entry):
    append(self, entry)
    if entry.get("status") == DONE:
        Manifest.append = append
        os.kill(os.getpid(), signal.SIGINT)

Manifest.append = note
sys.exit(main())
"""


def start(*words: str, program: tuple[str, ...] = (VOXCLI,)) -> subprocess.Popen[str]:
    command = [*program, "batch", SIX, "-o", "out", "--slots", "2", *words]
    return subprocess.Popen(command, stderr=subprocess.PIPE, stdout=subprocess.PIPE, text=True)


def wait_for_a_file(process: subprocess.Popen[str]) -> None:
    ends = time.monotonic() + PATIENCE_S
    while not list(Path("out").glob("*.wav")) and time.monotonic() < ends:
        assert process.poll() is None
        time.sleep(0.01)


def test_each_row_is_what_speak_says_with_its_seed(run: Run) -> None:
    code, out, err = run(INPUTS / "bom.csv", "-o", "out")
    assert (code, out) == (0, "out\n")
    assert "2 rows, read as utf-8, comma-separated" in err
    assert "x real time" in err
    row = report()["rows"][1]
    seed = str(row["seed"])
    assert cli.main(["speak", row["text"], "-o", "alone.wav", "--seed", seed, "--quiet"]) == 0
    assert digest("alone.wav") == digest(f"out/{row['output']}")
    assert sorted(os.listdir("out")) == [
        ".voxcli-batch", "b01_a.wav", "b01_b.wav", "manifest.jsonl", "report.csv", "report.json",
    ]  # fmt: skip


def test_a_rows_parameters_are_as_the_options_of_speak(run: Run) -> None:
    rows = ["text,Steps,cfg", "Come in.,8,2", "Come in.,,", "Come in.,4,"]
    Path("t.csv").write_text("\n".join(rows), "utf-8")
    code, _, err = run("t.csv", "-o", "out", "--seed", "3", "--guidance-scale", "1.5")
    assert code == 0, err
    found = [row["parameters"] for row in report()["rows"]]
    assert [(told["steps"], told["guidance_scale"]) for told in found] == [
        (8, 2.0), (6, 1.5), (4, 1.5),
    ]  # fmt: skip
    words = ["--seed", str(report()["rows"][0]["seed"]), "--steps", "8", "--cfg", "2", "--quiet"]
    assert cli.main(["speak", "Come in.", "-o", "alone.wav", *words]) == 0
    assert digest("alone.wav") == digest("out/0001.wav")
    code, _, err = run("t.csv", "-o", "out", "--dry-run", "--steps", "101")
    assert (code, "--steps is 101; give a whole number from 2 to 100" in err) == (2, True)


def test_a_second_run_loads_no_model_and_keeps_the_seed(run: Run) -> None:
    shutil.copy(INPUTS / "bom.csv", "t.csv")
    assert run("t.csv", "-o", "out")[0] == 0
    first = report()
    code, out, err = run("t.csv", "-o", "out", "--json", "--device", "cuda:99")
    assert code == 0
    assert "2 done before" in err
    assert json.loads(out)["seed"] == first["seed"]
    assert statuses() == ["kept", "kept"]


def test_every_problem_is_told_at_once_and_nothing_is_made(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(NativeEngine, "start", lambda *_: pytest.fail("a model was loaded"))
    code, out, err = run(INPUTS / "dupes.csv", "-o", "out", "--json", "--strict")
    assert code == 2
    assert err.count("voxcli: warning: row ") == 6
    assert "row 2 (line 3): output: 'same.wav' is also the output of row 1 (line 2)" in err
    assert [problem["number"] for problem in json.loads(out)["error"]["problems"]] == [
        2, 4, 5, 6, 7, 8,
    ]  # fmt: skip
    assert os.listdir() == []


@pytest.mark.parametrize("name", ["no_column.csv", "header_only.csv", "empty.csv", ""])
def test_what_is_no_table_ends_with_two(run: Run, name: str) -> None:
    code, out, err = run(INPUTS / name, "-o", "out")
    assert (code, out) == (2, "")
    assert err.startswith("voxcli: error: ")
    assert os.listdir() == []


@pytest.mark.parametrize("words", [(), ("--keep-going",)])
def test_the_good_rows_are_spoken_and_the_bad_ones_listed(run: Run, words: tuple[str]) -> None:
    rows = ["text,voice,speed", "Good morning.,,", "Who is it?,no_such_voice,", "Come in.,,9"]
    Path("t.csv").write_text("\n".join(rows), "utf-8")
    code, out, _ = run("t.csv", "-o", "out", "--dry-run", *words)
    assert (code, out.count("to do\n"), out.count(": invalid (")) == (1, 1, 2)
    code, out, err = run("t.csv", "-o", "out", "--name", "{index}", *words)
    assert (code, out) == (1, "out\n")
    assert statuses() == ["ok", "invalid", "invalid"]
    assert "no voice 'no_such_voice'" in err.split("these rows have no file:")[1]
    assert [path.name for path in Path("out").glob("*.wav")] == ["1.wav"]


def test_a_bad_text_is_its_own_rows_problem_alone(run: Run) -> None:
    """The rows have the same voice, which is checked once."""
    lines = ["{oops", '{"text": "早上好，我们走吧。"}', '{"text": "Come in."}']
    Path("t.jsonl").write_text("\n".join(lines), "utf-8")
    code, out, err = run("t.jsonl", "-o", "out", "--json", "--strict")
    assert code == 2
    assert "2 of 3 rows" in err
    assert [(each["number"], each["column"]) for each in json.loads(out)["error"]["problems"]] == [
        (1, "record"), (2, "text"),
    ]  # fmt: skip


def test_a_row_that_max_seconds_cut_is_told_and_the_exit_code_says_so(run: Run) -> None:
    text = "The ferry leaves at noon. Nobody was there to see it go. We shall meet again."
    Path("t.csv").write_text(f"text,Max Seconds\n{text},3\n{text},\n")
    for _ in range(2):
        code, _, err = run("t.csv", "-o", "out")
        assert (code, report()["limited"]) == (1, 1)
        assert "row 1 (line 2): cut at 3 s, its max_seconds" in err
    assert report()["rows"][0]["audio_s"] == 3.0


def test_a_server_that_was_lost_is_told(capfd: pytest.CaptureFixture[str]) -> None:
    show_servers({
        "http://a:1": {"times_down": 0}, "http://b:2": {"times_down": 1},
        "http://c:3": {"times_down": 2}, "http://d:4": {"times_down": 1, "retired": "it differs"},
    })  # fmt: skip
    told = capfd.readouterr().err
    assert "http://a:1" not in told
    assert "http://b:2 went down; voxcli spoke" in told
    assert "http://c:3 went down 2 times; voxcli spoke" in told
    assert "http://d:4 got no more rows: it differs" in told


def test_what_the_check_of_the_audio_doubts_is_told_once(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(guard, "TRAILING_SILENCE_S", 0.0)
    Path("t.csv").write_text("text\nThe ferry leaves at noon.\n")
    told = re.compile(r"warning: row 1 \(line 2\): [\d.]+ s of silence at the end\n")
    code, _, err = run("t.csv", "-o", "out")
    assert (code, bool(told.search(err))) == (0, True), err
    assert report()["rows"][0]["warnings"]
    assert not told.search(run("t.csv", "-o", "out")[2])


def test_the_rows_are_counted_while_they_are_checked(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After a second on a terminal; here at once."""
    monkeypatch.setattr(output, "PROGRESS_DELAY_S", 0.0)
    monkeypatch.setattr(output, "can_show_progress", lambda *, is_quiet: not is_quiet)
    monkeypatch.setenv("FORCE_COLOR", "1")
    code, _, err = run(SIX, "-o", "out", "--dry-run", "--json")
    assert code == 0
    assert re.search(r"check .*/6 rows", err)
    assert re.search(r"plan .*/6 rows", err)


def test_what_is_not_spoken_of_a_table_is_told(run: Run) -> None:
    code, out, err = run(INPUTS / "rolling.srt", "-o", "out", "--dry-run", "--json")
    assert (code, len(json.loads(out)["notes"])) == (0, 2)
    assert "warning: rolling captions: 4 repeated lines are spoken once" in err
    assert "warning: sound notes are not spoken: [Music] (line 2)" in err


def test_a_dry_run_shows_the_words_and_makes_nothing(run: Run) -> None:
    code, out, _ = run(INPUTS / "tags.srt", "-o", "out", "--dry-run")
    assert code == 0
    assert out.splitlines()[:6] == [
        "1: 0001.wav: to do", "    Hello there.",
        "2: -: skipped (a sound note: [MUSIC])", "3: -: skipped (music: ♪ la la ♪)",
        "4: 0004.wav: to do; ANNA in default", "    Where is the key?",
    ]  # fmt: skip
    assert "2 rows to do" in out
    code, out, _ = run(SAMPLES / "dubbing.csv", "-o", "out", "--dry-run", "--json")
    plan = json.loads(out)
    assert (code, plan["num_rows"], plan["rows"][2]["speaker"]) == (0, 6, "Mira")
    assert "eighty-four steps" in plan["rows"][2]["text"]
    assert 0 < plan["num_bytes"] < plan["free_bytes"]
    assert os.listdir() == []


def test_the_disk_that_a_timeline_needs_is_foreseen(run: Run) -> None:
    Path("late.csv").write_text("text,start,end\nCome in.,3600,3602\n")
    plain, mixed, stems = (
        json.loads(run("late.csv", "-o", "out", "--dry-run", "--json", *more)[1])["num_bytes"]
        for more in ((), ("--mix", "mix.wav"), ("--mix", "mix.wav", "--stems", "stems"))
    )
    hour = 3600 * 24_000 * 2
    assert plain < 200_000
    assert mixed - plain == pytest.approx(hour, rel=0.01)
    assert stems - plain == pytest.approx(2 * hour, rel=0.01)


def test_a_disk_that_is_too_small_for_the_mix_is_warned_of(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    Path("one.csv").write_text("text\nCome in.\n")
    monkeypatch.setattr(forecast.shutil, "disk_usage", lambda path: SimpleNamespace(free=1000))
    code, _, err = run("one.csv", "-o", "out", "--mix", "mix.wav")
    assert code == 0
    assert "MB, but 0.0 MB are free at out; the run ends when the disk is full" in err


@pytest.mark.parametrize(
    ("words", "code", "message"),
    [
        (("--on-duplicate", "maybe"), 2, "--on-duplicate is 'maybe'"),
        (("--format", "xyz"), 2, "--format is 'xyz'"),
        (("--map", "text"), 2, "--map is 'text'"),
        (("--name", "{nobody}"), 2, "no column 'nobody'"),
        (("--verify", "ears"), 2, "--verify is 'ears'"),
        (("--slots", "0"), 2, "--slots is 0"),
        (("--delimiter", ",,"), 2, "--delimiter is ',,'"),
        (("--voice", "a", "--ref", "b.wav"), 2, "--voice and --ref"),
    ],
)
def test_options_that_cannot_work_are_refused(
    run: Run, words: tuple[str, ...], code: int, message: str
) -> None:
    found, out, err = run(SIX, "-o", "out", *words)
    assert (found, out) == (code, "")
    assert message in err
    assert os.listdir() == []


@pytest.mark.usefixtures("whisper")
def test_a_whisper_model_that_is_not_here_is_named_with_what_to_do(run: Run) -> None:
    Path("whisper").mkdir()
    code, _, err = run(SIX, "-o", "out", "--verify", "wer", "--verify-model", "whisper")
    assert code == 3
    assert "whisper holds no faster-whisper model" in err
    assert "hf download" in err


def test_an_interrupt_keeps_what_is_done_and_the_next_run_does_the_rest() -> None:
    process = start(program=(sys.executable, "-c", INTERRUPTED))
    _, err = process.communicate(timeout=PATIENCE_S)
    assert process.returncode == 130
    assert "finishing the rows in progress" in err
    assert "Traceback" not in err
    found = statuses()
    done = {f"r{i}.wav" for i, status in enumerate(found, start=1) if status == "ok"}
    assert 1 <= len(done) < 6
    assert {path.name for path in Path("out").glob("*.wav")} == done
    before = {name: digest(f"out/{name}") for name in done}

    again = start("--slots", "6")
    _, err = again.communicate(timeout=PATIENCE_S)
    assert again.returncode == 0
    assert statuses() == ["kept" if status == "ok" else "ok" for status in found]
    assert {name: digest(f"out/{name}") for name in done} == before


def test_a_second_interrupt_ends_at_once_and_a_second_run_is_refused() -> None:
    process = start()
    wait_for_a_file(process)
    second = start()
    _, err = second.communicate(timeout=PATIENCE_S)
    if process.poll() is None:
        assert second.returncode == 2
        assert f"another run uses out: process {process.pid}" in err
    process.send_signal(signal.SIGINT)
    assert process.stderr is not None
    said = ""
    for line in process.stderr:  # two signals that are pending together would arrive as one
        said += line
        if "finishing the rows in progress" in line:
            process.send_signal(signal.SIGINT)
    process.communicate(timeout=PATIENCE_S)
    assert process.returncode in (130, 0)  # 0: it was done before
    assert "Traceback" not in said
    assert not list(Path("out").rglob("*.part"))


def test_a_sentence_too_long_for_its_slot_is_flagged_and_moves_nothing(run: Run) -> None:
    code, _, err = run(
        INPUTS / "tight.srt", "-o", "out", "--fit", "--max-speed", "1.3", "--seed", "3",
        "--mix", "mix.wav", "--subtitles", "mix.srt",
    )  # fmt: skip
    assert code == 0, err
    assert "row 1 (line 2): overflows its slot by" in err
    assert "row 2 (line 6): sounds over an earlier one" in err
    first, second = report()["rows"]
    assert first["speed"] <= 1.3
    assert first["overflow_s"] > 1.0
    assert first["cut_s"] == 0.0  # no word is lost unless it is asked for
    assert (second["placed_s"], second["shift_s"]) == (1.2, 0.0)
    assert report()["timeline"]["peak"] <= 1.0
    assert "00:00:01,2" in Path("mix.srt").read_text("utf-8")

    code, _, err = run(
        INPUTS / "tight.srt", "-o", "out", "--fit", "--max-speed", "1.3", "--mix", "mix.wav",
        "--overlap", "cut",
    )  # fmt: skip
    assert (code, statuses()) == (0, ["kept", "kept"])
    assert "row 1 (line 2): loses its last" in err
    second = report()["rows"][1]
    assert (second["placed_s"], second["shift_s"], second["overlap_s"]) == (1.2, 0.0, 0.0)
