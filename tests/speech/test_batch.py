"""`voxcli batch` with the bundled voice over a long time: killed again and again."""

from __future__ import annotations

import hashlib
import random
import subprocess
import sys
import time
from pathlib import Path

import pytest
from crashes import NUM_KILLS, Killer, Run, write_table

pytestmark = [pytest.mark.speech, pytest.mark.slow, pytest.mark.timeout(3600)]

STARTUP_S = 8.0  # kills that wait for no row fall within it


def command(table: Path, out: Path) -> list[str]:
    words = [str(table), "-o", str(out), "--seed", "5", "--quiet"]
    return [sys.executable, "-m", "voxcli", "batch", *words]


def spawning(table: Path, out: Path, chance: random.Random) -> Run:
    """Runs the command; see `Killer`."""

    def run(num_rows: int | None) -> None:
        wanted = len(list(out.glob("*.wav"))) + (num_rows or 0)
        process = subprocess.Popen([*command(table, out), "--slots", "4"], stdout=subprocess.PIPE)
        if num_rows is not None:
            while num_rows and process.poll() is None and len(list(out.glob("*.wav"))) < wanted:
                time.sleep(0.005)
            time.sleep(chance.uniform(0.0, 0.5 if num_rows else STARTUP_S))
            process.kill()
        process.communicate()
        assert process.returncode in ((0,) if num_rows is None else (0, -9))  # 0: all was done

    return run


def digests(folder: Path) -> dict[str, str]:
    paths = sorted(folder.glob("*.wav"))
    return {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in paths}


def test_a_run_that_is_killed_twenty_times_ends_as_one_that_was_not(tmp_path: Path) -> None:
    seed = random.SystemRandom().randrange(10_000)
    chance = random.Random(seed)
    table = write_table(tmp_path / "table.csv", chance)
    out = tmp_path / "out"
    killer = Killer(out, chance, spawning(table, out, chance))
    wrong = killer.run()
    subprocess.run(command(table, tmp_path / "whole"), check=True, stdout=subprocess.DEVNULL)
    print(f"seed {seed}: {NUM_KILLS} kills, {killer.num_useful} among rows", file=sys.stderr)
    assert not wrong, f"seed {seed}: {wrong}"
    assert digests(out) == digests(tmp_path / "whole")
