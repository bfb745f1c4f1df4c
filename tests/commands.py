"""Commands run in the test's own process, in an empty folder."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from voxcli import cli

Run = Callable[..., tuple[int, str, str]]


def runner(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> Run:
    """Run a command in an empty folder, with no settings and voices of whoever runs the tests.

    Returns:
        what runs one: its exit code, stdout and stderr.
    """
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")

    def run(*words: str) -> tuple[int, str, str]:
        code = cli.main(words)
        out, err = capfd.readouterr()
        return code, out, err

    return run
