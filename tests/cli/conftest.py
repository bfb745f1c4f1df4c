"""What several tests of commands share."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from nullsink import NullSink, require_sound

from voxcli import cli


@pytest.fixture(scope="session")
def sink(tmp_path_factory: pytest.TempPathFactory) -> Iterator[NullSink]:
    """A sound card that can be recorded."""
    require_sound()
    with NullSink(tmp_path_factory.mktemp("sound")) as started:
        yield started


@pytest.fixture
def empty_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The test runs in a folder of its own."""
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def own_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No settings, models and voices of the person who runs the tests."""
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.setenv("VOXCLI_CACHE_DIR", str(tmp_path / "hub"))


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str]) -> Any:
    """Run a command in this process: exit code, stdout, stderr."""

    def run(*words: str) -> tuple[int, str, str]:
        code = cli.main(words)
        out, err = capsys.readouterr()
        return code, out, err

    return run
