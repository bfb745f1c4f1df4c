"""Setting up by make: a terminal shows that something happens, a log does not."""

from __future__ import annotations

import os
import pty
import re
import shutil
import subprocess
import sys
from importlib import metadata
from pathlib import Path

import pytest
from needs import PATIENCE_S, need
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def words(tmp_path: Path) -> list[str]:
    """A set-up in which the place of pip is taken by who waits for a file, or fails."""
    need(shutil.which("make") is not None, "make is not installed")
    venv, pip = tmp_path / "venv", tmp_path / "pip.py"
    (venv / "bin").mkdir(parents=True)
    (venv / "bin" / "python").symlink_to(sys.executable)
    pip.write_text(
        "import os, sys, time\n"
        f"while not os.path.exists({str(tmp_path / 'seen')!r}): time.sleep(0.01)\n"
        f"sys.exit(os.path.exists({str(tmp_path / 'failing')!r}))\n"
    )
    return ["make", "-C", str(ROOT), f"VENV={venv}", f"PIP={sys.executable} {pip}",
            str(venv / ".speaks")]  # fmt: skip


@pytest.mark.parametrize("is_failing", [False, True])
def test_a_terminal_shows_seconds_and_bytes_while_packages_come(
    tmp_path: Path, words: list[str], is_failing: bool
) -> None:
    if is_failing:
        (tmp_path / "failing").touch()
    ours, theirs = pty.openpty()
    with subprocess.Popen(words, stdin=theirs, stdout=theirs, stderr=theirs) as run:
        os.close(theirs)
        shown = b""
        while piece := _read(ours):
            shown += piece
            if re.search(rb"\r    \d+ s, \d+ MB ", shown):
                (tmp_path / "seen").touch()
        code = run.wait(PATIENCE_S)
    os.close(ours)
    assert re.search(rb"\r    \d+ s, \d+ MB ", shown)
    assert (code != 0, (tmp_path / "venv" / ".speaks").exists()) == (is_failing, not is_failing)
    assert not (tmp_path / "venv" / ".tmp").exists()


def _read(terminal: int) -> bytes:
    try:
        return os.read(terminal, 4096)
    except OSError:  # nobody has it open any more: neither make nor who watched
        return b""


def test_a_log_has_a_line_for_each_step(tmp_path: Path, words: list[str]) -> None:
    (tmp_path / "seen").touch()
    done = subprocess.run(words, capture_output=True, text=True, check=True, timeout=PATIENCE_S)
    steps = [line for line in done.stdout.splitlines() if not line.startswith("make")]
    assert [line[:4] for line in steps] == ["1/4 ", "2/4 ", "3/4 "]
    assert "MB \n" not in done.stdout
    assert done.stderr == ""


def test_readme_says_how_many_packages_speaking_needs() -> None:
    """Those of the CPU; packages come and go with new versions of others."""
    found, waiting = set(), ["voxcli"]
    while waiting:
        for line in metadata.requires(waiting.pop()) or ():
            needed = Requirement(line)
            name = canonicalize_name(needed.name)
            is_wanted = needed.marker is None or needed.marker.evaluate({"extra": ""})
            is_for_cards = name.startswith(("nvidia-", "cuda-", "triton"))
            if is_wanted and not is_for_cards and name not in found:
                found.add(name)
                waiting.append(name)
    said = re.search(r"\((\d+) packages,", (ROOT / "README.md").read_text("utf-8"))
    assert said
    assert len(found) == pytest.approx(int(said[1]), rel=0.1), sorted(found)
