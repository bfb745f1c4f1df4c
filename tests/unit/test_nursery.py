"""A program of the nursery is to who starts it what its script would be."""

from __future__ import annotations

import signal
import subprocess
from pathlib import Path

import pytest
from needs import PATIENCE_S
from nursery import Nursery

ECHO = "import os, sys; print(sys.stdin.read(), sys.argv[1], os.environ['A'], os.getcwd()); exit(7)"
WAITS = "import time; print('on', flush=True); time.sleep(1000)"


@pytest.fixture
def program(nursery: Nursery, tmp_path: Path) -> Path:
    return nursery.program(tmp_path / "program", str(tmp_path / "script.py"))


def test_it_has_its_words_settings_folder_and_streams_and_tells_its_end(program: Path) -> None:
    (program.parent / "script.py").write_text(ECHO)
    done = subprocess.run(
        [program, "two words"], input="in", env={"A": "b"}, cwd=program.parent, text=True,
        capture_output=True, timeout=PATIENCE_S,
    )  # fmt: skip
    assert (done.returncode, done.stderr) == (7, "")
    assert done.stdout == f"in two words b {program.parent}\n"


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_a_signal_ends_both(program: Path, number: signal.Signals) -> None:
    (program.parent / "script.py").write_text(WAITS)
    with subprocess.Popen([program], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "on\n"
        process.send_signal(number)
        assert process.stdout.read() == ""  # the script has closed it too
        assert process.wait(PATIENCE_S) == -number
