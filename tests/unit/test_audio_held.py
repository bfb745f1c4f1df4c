"""Hidden files of writers: those of killed ones go, those of running ones stay."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from needs import PATIENCE_S

from voxcli.audio import files, held
from voxcli.audio.write import AudioWriter

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="locks by run of the machine")

WRITE = (
    "import sys, time, numpy; from voxcli.audio.write import AudioWriter\n"
    "with AudioWriter(sys.argv[1], 16000) as writer:\n"
    "    writer.write(numpy.ones(8000, 'f4'))\n"
    "    print('writing', flush=True); time.sleep(600)"
)


def hidden(folder: Path) -> list[Path]:
    return sorted(path for path in folder.iterdir() if path.name.endswith(".part"))


def write(path: Path) -> None:
    with AudioWriter(path, 16000) as writer:
        writer.write(np.full(8000, 0.1, np.float32))
        writer.commit()


@pytest.mark.parametrize("suffix", ["wav", "flac", "mp3"])
def test_a_killed_writers_file_goes_when_the_next_one_writes(tmp_path: Path, suffix: str) -> None:
    command = [sys.executable, "-c", WRITE, str(tmp_path / f"a.{suffix}")]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        process.stdout.readline()
        (left,) = hidden(tmp_path)
        write(tmp_path / "beside.wav")  # while it runs
        assert hidden(tmp_path) == [left]
        process.send_signal(signal.SIGKILL)
        process.wait(PATIENCE_S)
    assert hidden(tmp_path) == [left]
    write(tmp_path / "next.wav")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["beside.wav", "next.wav"]


def test_writers_of_one_process_leave_each_other_alone(tmp_path: Path) -> None:
    with AudioWriter(tmp_path / "a.wav", 16000) as first:
        first.write(np.full(8000, 0.1, np.float32))
        write(tmp_path / "b.wav")
        assert first.commit().path == tmp_path / "a.wav"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.wav", "b.wav"]


def test_a_killed_writers_other_files_go_too(tmp_path: Path) -> None:
    kept = held.HeldFile(tmp_path / "a.m4a")
    files.beside(kept.path, "tags").touch()
    held.sweep(tmp_path)
    assert len(list(tmp_path.iterdir())) == 2
    kept.release()
    held.sweep(tmp_path)
    assert not list(tmp_path.iterdir())


def test_files_of_others_stay(tmp_path: Path) -> None:
    run = held._run()
    target = tmp_path / "a.wav"
    names = [
        files.hidden_name(target), files.hidden_name(target, f"0123abcd-{run[::-1]}x"),
        tmp_path / f".a.wav.0123abc-{run}.part", tmp_path / f"a.wav.0123abcd-{run}.part",
    ]  # fmt: skip
    for name in names:
        name.touch()
    link = files.hidden_name(target, f"0123abcd-{run}")
    link.symlink_to(names[0])
    held.sweep(tmp_path)
    assert set(tmp_path.iterdir()) == {*names, link}


def test_a_file_that_is_taken_before_it_is_locked_is_made_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    create, taken = files.create, []

    def create_and_lose(path: Path) -> None:
        create(path)
        if not taken:
            taken.append(path)
            held.sweep(tmp_path)

    monkeypatch.setattr(files, "create", create_and_lose)
    kept = held.HeldFile(tmp_path / "a.wav")
    held.sweep(tmp_path)
    assert hidden(tmp_path) == [kept.path] != taken


def test_without_locks_files_are_made_as_before(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(held, "_run", str)
    write(tmp_path / "a.wav")
    assert [path.name for path in tmp_path.iterdir()] == ["a.wav"]
