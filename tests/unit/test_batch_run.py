"""A batch on the fake model: resumed, interrupted, failing, killed; and what is left behind."""

from __future__ import annotations

import csv
import errno
import hashlib
import itertools
import json
import multiprocessing
import os
import random
import resource
import signal
import socket
import subprocess
import sys
import threading
import time
from collections import deque
from collections.abc import Callable
from functools import partial
from itertools import chain
from pathlib import Path
from queue import SimpleQueue
from typing import Any

import numpy as np
import pytest
import soundfile
from batches import INPUTS, SEED, SIX, Beginning, digests, prepare, speak, statuses
from fakes import FakeModel, fake_engine
from needs import PATIENCE_S

from voxcli.audio.fit import SpeedLimits
from voxcli.batch import folder as folder_module
from voxcli.batch.fitting import FitJudge
from voxcli.batch.interrupt import Interrupt
from voxcli.batch.jobs import Standing, Status
from voxcli.batch.manifest import Manifest
from voxcli.batch.rows import Defaults
from voxcli.batch.run import in_order_of_work
from voxcli.batch.session import Choices, TableError
from voxcli.batch.takes import Outcome, Take, Tally, Verdict
from voxcli.config import SamplingParams
from voxcli.engine.takeover import TakeOver
from voxcli.errors import OutputError, OutputExistsError


@pytest.fixture
def table(tmp_path: Path) -> Callable[..., Path]:
    def write(*texts: str, name: str = "t.csv") -> Path:
        path = tmp_path / name
        with path.open("w", encoding="utf-8", newline="") as file:
            rows = csv.writer(file)
            rows.writerow(["text"])
            rows.writerows([text] for text in texts)
        return path

    return write


@pytest.fixture
def out(tmp_path: Path) -> Path:
    return tmp_path / "out"


def is_clean(folder: Path) -> bool:
    """Nothing half-done is left, and every file is one of the manifest's."""
    known = {name for name, entry in Manifest(folder).rows.items() if entry["status"] == "done"}
    files = {str(path.relative_to(folder)) for path in folder.rglob("*.wav")}
    return not (folder / ".voxcli-batch" / "staging").exists() and files <= known


# One run


def test_every_row_gets_its_file_and_its_line_in_the_report(out: Path) -> None:
    report = speak(prepare(SIX, out))
    assert statuses(report) == ["ok"] * 6
    assert report["counts"]["ok"] == 6
    written = json.loads((out / "report.json").read_text("utf-8"))
    with (out / "report.csv").open(encoding="utf-8", newline="") as file:
        lines = list(csv.DictReader(file))
    for row, line in zip(written["rows"], lines, strict=True):
        samples, rate = soundfile.read(out / row["output"])
        assert (len(samples), rate) == (row["num_frames"], row["sample_rate"])
        assert hashlib.sha256((out / row["output"]).read_bytes()).hexdigest() == row["sha256"]
        assert (line["output"], line["status"], line["line"]) == (
            row["output"], "ok", str(row["line"]),
        )  # fmt: skip
    assert is_clean(out)


def test_a_row_sounds_as_it_does_alone_whatever_is_beside_it(
    table: Callable[..., Path], out: Path
) -> None:
    texts = [f"Sentence number {i} of the table{' goes on' * (i % 4)}." for i in range(12)]
    session = prepare(table(*texts), out)
    speak(session)
    for job in session.jobs:
        alone = fake_engine().synthesize([job.utterance])[0].samples
        samples, _ = soundfile.read(out / job.name, dtype="float32")
        assert np.abs(samples - alone).max() <= 1 / 32768  # the file has 16 bits


def test_the_order_of_work_is_by_length_and_the_order_of_the_report_is_the_tables(
    table: Callable[..., Path], out: Path
) -> None:
    texts = ["Short.", "A sentence that is a good deal longer.", "A medium sentence."]
    session = prepare(table(*texts), out)
    order = in_order_of_work([Standing(job, Status.PENDING) for job in session.jobs])
    assert [each.job.row.number for each in order] == [2, 3, 1]
    assert [row["text"] for row in speak(session)["rows"]] == texts


def test_the_engine_is_kept_full(table: Callable[..., Path], out: Path) -> None:
    model = FakeModel()
    speak(prepare(table(*[f"Sentence number {i}." for i in range(20)]), out), model)
    assert model.batch_sizes[:-10] == [4] * len(model.batch_sizes[:-10])


def test_a_seed_does_not_depend_on_a_rows_place(table: Callable[..., Path], out: Path) -> None:
    one = prepare(table("First.", "Second."), out)
    two = prepare(table("Second.", "Third.", "First."), out)
    assert one.jobs[0].utterance.sampling.seed == two.jobs[2].utterance.sampling.seed
    assert len({job.utterance.sampling.seed for job in two.jobs}) == 3


# Again


def test_a_second_run_does_nothing(out: Path) -> None:
    first = speak(prepare(SIX, out))
    model = FakeModel()
    second = speak(prepare(SIX, out), model)
    assert statuses(second) == ["kept"] * 6
    assert model.num_decodes == 0
    changed = ("status", "reason")
    for before, after in zip(first["rows"], second["rows"], strict=True):
        assert {k: v for k, v in before.items() if k not in changed} == {
            k: v for k, v in after.items() if k not in changed
        }
    entry = Manifest(out).rows["r1.wav"]
    assert (entry["text"], entry["speed"]) == (second["rows"][0]["text"], 1.0)
    assert entry["parameters"] == {"steps": 6, "guidance_scale": 1.0}


def test_edited_damaged_and_missing_rows_are_done_again_and_no_other(
    tmp_path: Path, out: Path
) -> None:
    """After the edit row 1 is redone."""
    speak(prepare(SIX, out))
    before = digests(out)
    edited = tmp_path / "six.csv"
    edited.write_text(SIX.read_text("utf-8").replace("number one", "number eleven"), "utf-8")
    (out / "r3.wav").write_bytes((out / "r3.wav").read_bytes()[:-2] + b"\1\1")
    (out / "r5.wav").unlink()
    report = speak(prepare(edited, out))
    assert statuses(report) == ["ok", "kept", "ok", "kept", "ok", "kept"]
    assert [row["reason"] for row in report["rows"]] == [
        "the row was edited", "", "the file was damaged", "", "the file was missing", "",
    ]  # fmt: skip
    after = digests(out)
    assert {name for name in before if before[name] != after[name]} == {"r1.wav"}


@pytest.mark.parametrize(
    "change",
    [
        {"defaults": Defaults(SEED + 1)},
        {"defaults": Defaults(SEED, speed=1.5)},
        {"defaults": Defaults(SEED, sampling=SamplingParams(parameters={"steps": 7}))},
        {"defaults": Defaults(SEED, voice="alba")},
        {"checksum": "1" * 64},
    ],
)
def test_other_settings_or_another_model_do_all_again(out: Path, change: dict[str, Any]) -> None:
    keys = {job.name: job.key for job in prepare(SIX, out).jobs}
    assert all(job.key != keys[job.name] for job in prepare(SIX, out, **change).jobs)


def test_force_does_all_again_with_the_same_result(out: Path) -> None:
    speak(prepare(SIX, out))
    before = digests(out)
    report = speak(prepare(SIX, out, choices=Choices(force=True)))
    assert statuses(report) == ["ok"] * 6
    assert digests(out) == before


def test_files_of_others_are_left_alone_unless_it_is_asked_for(out: Path) -> None:
    out.mkdir()
    (out / "r2.wav").write_bytes(b"somebody's")
    report = speak(prepare(SIX, out))
    assert statuses(report) == ["ok", "skipped", "ok", "ok", "ok", "ok"]
    assert (out / "r2.wav").read_bytes() == b"somebody's"
    report = speak(prepare(SIX, out, choices=Choices(overwrite=True)))
    assert statuses(report) == ["kept", "ok", "kept", "kept", "kept", "kept"]
    assert soundfile.info(out / "r2.wav").frames > 0


def test_a_file_that_appears_meanwhile_is_not_replaced(out: Path) -> None:
    def appear(take: Take) -> Verdict:
        if take.job.name == "r4.wav":
            (out / "r4.wav").write_bytes(b"somebody's")
        return Verdict(take.samples)

    for expected in ("skipped", "skipped"):  # and no later run takes it for its own
        report = speak(prepare(SIX, out), judges=[appear])
        assert statuses(report)[3] == expected
        assert (out / "r4.wav").read_bytes() == b"somebody's"


def test_a_report_of_something_else_is_not_replaced(out: Path) -> None:
    out.mkdir()
    (out / "report.csv").write_text("mine", "utf-8")
    with pytest.raises(OutputExistsError, match=r"report\.csv exists"):
        speak(prepare(SIX, out))
    assert not (out / "manifest.jsonl").exists()


# What goes wrong


def test_a_row_that_fails_is_told_and_tried_again_next_time(out: Path) -> None:
    text = "Sentence number two is here to be spoken slowly and clearly."
    model = FakeModel()
    model.faults = Beginning(text[:20])
    report = speak(prepare(SIX, out), model)
    assert statuses(report) == ["ok", "failed", "ok", "ok", "ok", "ok"]
    assert "refused 4 times: silent" in report["rows"][1]["reason"]
    assert not (out / "r2.wav").exists()
    assert statuses(speak(prepare(SIX, out))) == ["kept", "ok", "kept", "kept", "kept", "kept"]


def test_the_good_rows_are_spoken_unless_all_or_nothing_is_wanted(out: Path) -> None:
    """Files written == rows that are ok."""
    with pytest.raises(TableError, match="6 of 8 rows") as caught:
        speak(prepare(INPUTS / "dupes.csv", out, choices=Choices(strict=True)))
    assert len(caught.value.problems) == 6
    assert not out.exists()
    report = speak(prepare(INPUTS / "dupes.csv", out))
    assert (report["counts"]["ok"], report["counts"]["invalid"]) == (2, 6)
    assert len(digests(out)) == 2


def test_a_table_without_a_good_row_is_refused(out: Path, tmp_path: Path) -> None:
    table = tmp_path / "t.csv"
    table.write_text("text,speed\nOne.,9\nTwo.,9\n")
    with pytest.raises(TableError, match="2 of 2 rows"):
        speak(prepare(table, out))
    assert not out.exists()


LONG = "A row that takes a good while to say, and then goes on. It ends after that."


def test_a_length_that_nobody_can_keep_is_a_problem_of_its_column(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text(f'text,max_seconds\n"{LONG}",0.4\n')
    [problem] = prepare(path, tmp_path / "out").problems
    assert problem.column == "max_seconds"
    assert problem.message.startswith("is 0.4, but this text needs at least")


@pytest.mark.parametrize("fit", [None, SpeedLimits(0.5, 1.3), SpeedLimits(0.5, 0.8)])
def test_max_seconds_is_of_a_whole_row_however_it_is_given(
    out: Path, tmp_path: Path, fit: SpeedLimits | None
) -> None:
    """A row that is cut is told, also by the runs after it; one that is fitted may be sped up."""
    table = tmp_path / "t.csv"
    table.write_text(
        "text,max_seconds,start,end\n"
        f'"{LONG}",4,0,20\n"{LONG}",,20,40\n"{LONG}",60,40,60\nShort one.,,60,70\n'
    )
    defaults = Defaults(seed=7, sampling=SamplingParams(max_seconds=5.0))
    for status in ("ok", "kept"):
        session = prepare(table, out, defaults=defaults, fit=fit)
        report = speak(session, judges=[FitJudge()] if fit else [])
        assert statuses(report) == [status] * 4
        rows = report["rows"]
        assert [row["max_seconds"] for row in rows] == [4.0, 5.0, 60.0, 5.0]
        assert all(row["audio_s"] <= row["max_seconds"] for row in rows)
        is_sped_up = fit is not None and fit.max_speed > 1
        cut = [True, not is_sped_up, False, False]
        assert [row["finish_reason"] == "length" for row in rows] == cut
        assert report["limited"] == sum(cut)
        assert all(row["audio_s"] > row["max_seconds"] - 0.1 for row in rows[:2])


def test_a_device_fault_ends_the_run_with_a_report(out: Path) -> None:
    with pytest.raises(TakeOver, match="illegal memory access"):
        speak(prepare(SIX, out), FakeModel(fail_at_step=45))
    report = json.loads((out / "report.json").read_text("utf-8"))
    assert set(statuses(report)) == {"ok", "pending"}
    assert not report["is_complete"]
    assert is_clean(out)
    assert statuses(speak(prepare(SIX, out))).count("kept") == statuses(report).count("ok")


def test_a_full_disk_ends_the_run_and_finished_rows_are_kept(
    out: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    room = iter(range(2))

    def fill(temp: Path, target: Path, *, overwrite: bool) -> None:
        if next(room, None) is None:
            raise OSError(errno.ENOSPC, "No space left on device")
        os.replace(temp, target)

    monkeypatch.setattr(folder_module, "publish", fill)
    with pytest.raises(OutputError, match="no space left"):
        speak(prepare(SIX, out))
    assert len(digests(out)) == 2
    assert is_clean(out)
    monkeypatch.undo()
    assert sorted(statuses(speak(prepare(SIX, out)))) == ["kept"] * 2 + ["ok"] * 4


def test_a_file_too_large_for_its_limit_ends_the_run(out: Path) -> None:
    """The operating system refuses in the middle of a file, as a full disk does."""
    context = multiprocessing.get_context("spawn")
    child = context.Process(target=_speak_under_a_limit, args=(out,))
    child.start()
    child.join(PATIENCE_S)
    assert child.exitcode == 5
    assert digests(out) == {}
    assert not list(out.rglob("*.part"))


def _speak_under_a_limit(out: Path) -> None:
    session = prepare(SIX, out)
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, 20_000))
    try:
        speak(session)
    except OutputError as err:
        sys.exit(err.exit_code)


# Stopped from outside


def test_the_first_interrupt_finishes_what_is_in_flight(out: Path) -> None:
    """No half file, a report, and a second run does the rest alone."""
    asked = itertools.count()  # once before each step; the first time fills the four slots
    report = speak(prepare(SIX, out), is_stopping=lambda: next(asked) >= 3)
    found = statuses(report)
    assert (found.count("ok"), found.count("pending")) == (4, 2)
    assert not report["is_complete"]
    assert is_clean(out)
    again = statuses(speak(prepare(SIX, out)))
    assert [now for now, before in zip(again, found, strict=True) if before == "ok"] == [
        "kept"
    ] * found.count("ok")


def test_the_second_interrupt_ends_at_once(out: Path) -> None:
    told: list[str] = []
    with Interrupt(lambda: told.append("stopping")) as interrupt, interrupt.rows_in_flight():
        signal.raise_signal(signal.SIGINT)
        assert interrupt.is_set
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGINT)
    assert told == ["stopping"]

    def stop(outcome: Outcome, tally: Tally) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        speak(prepare(SIX, out), on_outcome=stop)
    assert is_clean(out)
    assert (out / "report.json").exists()


def test_an_interrupt_ends_at_once_where_no_row_is_in_flight() -> None:
    with Interrupt(lambda: pytest.fail("nothing is to be finished")) as interrupt:
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGINT)
        assert not interrupt.is_set


def test_two_interrupts_during_one_call_are_two(tmp_path: Path) -> None:
    """As when the keys are pressed twice while the model loads a library or computes a step."""
    begun: SimpleQueue[bool] = SimpleQueue()
    has_ended = partial(os.access, str(tmp_path / "pressed"), os.F_OK)

    def num_taken() -> int:
        try:
            return len(interrupt._receiver.recv(64, socket.MSG_PEEK))
        except BlockingIOError:
            return 0

    def press_twice() -> None:
        begun.get()
        for number in (1, 2):
            os.kill(os.getpid(), signal.SIGINT)
            while num_taken() < number:  # two that are on their way together would be one
                time.sleep(0.001)
        (tmp_path / "pressed").touch()

    with Interrupt(lambda: None) as interrupt, interrupt.rows_in_flight():
        pressing = threading.Thread(target=press_twice)
        pressing.start()
        with pytest.raises(KeyboardInterrupt):
            # One call that makes all others in C: Python looks for no signal in between.
            deque(chain(map(begun.put, [True]), iter(has_ended, True)), maxlen=0)
    pressing.join()


def test_runs_that_are_killed_lose_only_what_was_in_flight(tmp_path: Path) -> None:
    """Twenty kills at random moments of a run of sixty rows; the seed is told by a failure."""
    seed = random.SystemRandom().randrange(10_000)
    tests = Path(__file__).resolve().parents[1]
    environ = {**os.environ, "PYTHONPATH": f"{tests.parent}{os.pathsep}{tests}"}
    done = subprocess.run(
        [sys.executable, tests / "batches.py", "crash", tmp_path, str(seed)],
        capture_output=True, text=True, timeout=PATIENCE_S, env=environ,
    )  # fmt: skip
    assert (done.returncode, done.stdout, done.stderr) == (0, "", ""), f"seed {seed}"
