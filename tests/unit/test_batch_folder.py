"""The folder of a batch: its lock, its manifest, and recordings that change."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest
from batches import SIX, prepare, speak, statuses
from needs import PATIENCE_S

from voxcli.batch import casting
from voxcli.batch.folder import OutputFolder
from voxcli.batch.manifest import Manifest
from voxcli.errors import UsageError


@pytest.fixture
def out(tmp_path: Path) -> Path:
    return tmp_path / "out"


def test_a_second_run_on_the_folder_is_refused_and_told_who_has_it(out: Path) -> None:
    with (
        OutputFolder(out).locked(),
        pytest.raises(UsageError, match=rf"process {os.getpid()} on .* since"),
    ):
        speak(prepare(SIX, out))
    assert statuses(speak(prepare(SIX, out))) == ["ok"] * 6


def test_a_lock_of_a_dead_process_is_no_lock(out: Path) -> None:
    code = (
        "import os, sys; from pathlib import Path; from voxcli.batch.folder import OutputFolder\n"
        "with OutputFolder(Path(sys.argv[1])).locked():\n    os.kill(os.getpid(), 9)"
    )
    dead = subprocess.run([sys.executable, "-c", code, out], timeout=PATIENCE_S, check=False)
    assert dead.returncode == -signal.SIGKILL
    assert statuses(speak(prepare(SIX, out))) == ["ok"] * 6


def test_a_torn_line_is_dropped_and_the_next_one_stands_alone(tmp_path: Path) -> None:
    with Manifest(tmp_path) as manifest:
        manifest.append({"output": "a.wav", "status": "done"})
    with manifest.path.open("ab") as file:
        file.write(b'{"output": "b.wav", "sta')
    with Manifest(tmp_path) as manifest:
        assert list(manifest.rows) == ["a.wav"]
        manifest.append({"output": "c.wav", "status": "done"})
    assert list(Manifest(tmp_path).rows) == ["a.wav", "c.wav"]


def test_lines_that_are_no_records_are_dropped(tmp_path: Path) -> None:
    lines = [b"\xff\xfe", b"null", b"[1]", b'"x"', b'{"output": [1]}', b'{"output": "a.wav"}']
    lines += [b'{"run": 5}', b'{"run": {}}', b'{"run": {"version": "1"}}']
    (tmp_path / "manifest.jsonl").write_bytes(b"\n".join([*lines, b""]))
    assert Manifest(tmp_path).rows == {}
    assert statuses(speak(prepare(SIX, tmp_path))) == ["ok"] * 6


def test_a_recording_that_changed_since_the_check_is_not_used(
    tmp_path: Path, out: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its content hash would be that of another recording."""
    monkeypatch.setattr(casting, "MAX_HELD", 1)
    (tmp_path / "me.wav").write_bytes(b"abcd")
    table = tmp_path / "t.csv"
    table.write_text("text,ref\nHello there.,me.wav\nGood bye.,\n", "utf-8")
    session = prepare(table, out)
    (tmp_path / "me.wav").write_bytes(b"efgh")
    report = speak(session)
    assert statuses(report) == ["failed", "ok"]
    assert "has changed since" in report["rows"][0]["reason"]


@pytest.mark.parametrize("rows", [5, None, "a.wav", [[]], [{}, "a.wav"], {"a": 1}])
def test_a_fault_that_names_no_rows_is_counted_alone(tmp_path: Path, rows: object) -> None:
    line = json.dumps({"fault": {"reason": "x", "rows": rows}})
    (tmp_path / "manifest.jsonl").write_text(f"{line}\n", "utf-8")
    manifest = Manifest(tmp_path)
    assert manifest.num_barren_faults == 1
    assert manifest.suspects <= {"a.wav"}


def test_a_manifest_of_a_later_version_is_refused(tmp_path: Path) -> None:
    (tmp_path / "manifest.jsonl").write_text('{"run": {"version": 99, "voxcli": "9"}}\n', "utf-8")
    with pytest.raises(UsageError, match="newer voxcli"):
        Manifest(tmp_path)


def test_threads_append_whole_lines(tmp_path: Path) -> None:
    with Manifest(tmp_path) as manifest:
        threads = [
            threading.Thread(
                target=manifest.append,
                args=({"output": f"{i}.wav", "status": "done", "x": "y" * 999},),
            )
            for i in range(40)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert len(Manifest(tmp_path).rows) == 40
