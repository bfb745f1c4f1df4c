"""What a killed server leaves is taken away by the next one, and nothing else is."""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
import pytest

from voxcli import cli
from voxcli.server.encode import WholeFile, choose_coding
from voxcli.server.scratch import PREFIX, Scratch, sweep

WRITES = """
import sys
import numpy as np
from voxcli.server.encode import WholeFile, choose_coding
file = WholeFile(choose_coding("wav", 24000, None), 24000)
file.write(np.zeros(24000, np.float32))
print("written", flush=True)
sys.stdin.read()
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    found = tmp_path / "temporary"
    found.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(found))
    monkeypatch.setenv("TMPDIR", str(found))
    return found


def answers(folder: Path) -> int:
    return len(list(folder.glob(f"{PREFIX}*")))


def test_a_killed_servers_answer_is_taken_away_by_the_next_start(folder: Path) -> None:
    (folder / "voxcli-another").mkdir()
    (folder / "kept").mkdir()
    (folder / f"{PREFIX}link").symlink_to(folder / "kept")
    with subprocess.Popen(
        [sys.executable, "-c", WRITES], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as server:
        try:
            assert server.stdout is not None
            assert server.stdout.readline() == "written\n"
            sweep()
            assert answers(folder) == 2  # it lives
        finally:
            server.kill()
    with Scratch() as own:
        assert answers(folder) == 3
        assert cli.main(["serve", "--model", str(folder / "nothing"), "--no-socket"]) == 3
        assert answers(folder) == 2
        assert own.path.is_dir()
    names = {path.name for path in folder.iterdir()}
    assert names == {"voxcli-another", "kept", f"{PREFIX}link"}


def test_an_answer_leaves_nothing_behind(folder: Path) -> None:
    file = WholeFile(choose_coding("wav", 24000, None), 24000)
    file.write(np.sin(np.arange(24000, dtype=np.float32)))
    assert answers(folder) == 1
    file.commit()
    file.close()
    file.close()
    assert list(folder.iterdir()) == []
