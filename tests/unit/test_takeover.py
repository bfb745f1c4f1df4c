"""A command after a fault: the same words in a fresh process, or the fault's own exit code."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

import pytest
from fakes import FakeModel, fake_engine

from voxcli import cli
from voxcli.engine import takeover
from voxcli.engine.native import engine
from voxcli.engine.takeover import TakeOver, replace_process, take_notes
from voxcli.errors import EngineFaultError

FAULT = EngineFaultError("the engine failed: a fault")


class Replaced(BaseException):
    """What `exec` would do."""


@pytest.fixture
def replaced(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """Calls of `exec`; the next process finds what the last one left."""
    calls: list[Any] = []

    def execve(program: str, words: list[str], environ: dict[str, str]) -> None:
        calls.append((program, words))
        monkeypatch.setenv(takeover.VARIABLE, environ[takeover.VARIABLE])
        raise Replaced

    monkeypatch.setattr(os, "execve", execve)
    monkeypatch.setattr(takeover, "_keep_only", lambda kept: None)
    return calls


def test_a_fresh_process_gets_the_same_words_and_the_notes_once(replaced: list[Any]) -> None:
    with pytest.raises(Replaced):
        replace_process(TakeOver(FAULT, {"left": 3}))
    assert replaced == [(sys.executable, [sys.executable, *sys.orig_argv[1:]])]
    assert take_notes() == {"left": 3}
    assert take_notes() == {}


def test_notes_for_another_process_are_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(takeover.VARIABLE, f'{{"pid": {os.getppid()}, "notes": {{"left": 3}}}}')
    assert take_notes() == {}


def test_only_the_descriptors_that_are_named_go_along() -> None:
    kept, other = os.pipe()
    os.set_inheritable(other, True)  # as a C library opens files
    takeover._keep_only({0, 1, 2, kept})
    assert (os.get_inheritable(kept), os.get_inheritable(other)) == (True, False)
    os.close(kept)
    os.close(other)


def test_where_no_process_can_be_started_the_fault_is_reported(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def execve(*_: object) -> None:
        raise OSError(12, "Cannot allocate memory")

    monkeypatch.setattr(os, "execve", execve)
    monkeypatch.setattr(takeover, "_keep_only", lambda kept: None)
    replace_process(TakeOver(FAULT, {}))  # comes back


def test_batch_goes_on_by_itself_and_reports_once(
    replaced: list[Any],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    (tmp_path / "three.txt").write_text("One is here.\nTwo is here.\nAnd three.\n", "utf-8")
    models = [FakeModel(fail_at_step=3), FakeModel()]
    monkeypatch.setattr(engine, "NativeEngine", lambda *_: fake_engine(models.pop(0)))
    words = ["batch", str(tmp_path / "three.txt"), "-o", str(tmp_path / "out"), "--json"]
    monkeypatch.setattr(sys, "argv", ["voxcli", *words])
    with pytest.raises(Replaced):
        cli.main()
    out, err = capsys.readouterr()
    assert out == ""
    assert "a new process goes on with the other rows" in err
    assert cli.main() == 0
    out, err = capsys.readouterr()
    assert out.count("\n") == 1
    assert '"ok": 3' in out
    assert len(replaced) == 1


def test_inside_another_program_a_fault_is_an_error(
    replaced: list[Any],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    (tmp_path / "one.txt").write_text("One is here.\n", "utf-8")
    model = FakeModel(fail_at_step=1)
    monkeypatch.setattr(engine, "NativeEngine", lambda *_: fake_engine(model))
    assert cli.main(["batch", str(tmp_path / "one.txt"), "-o", str(tmp_path / "out")]) == 4
    assert "voxcli: error: the engine failed" in capsys.readouterr().err
    assert replaced == []
