"""`voxcli batch` with the bundled voice: killed again and again; heard by Whisper."""

from __future__ import annotations

import csv
import hashlib
import json
import random
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from assets import find_assets
from crashes import NUM_KILLS, Killer, Run, write_table

if TYPE_CHECKING:
    from scorer import Scorer

pytestmark = [pytest.mark.speech, pytest.mark.slow, pytest.mark.timeout(3600)]

# Kills that wait for no row fall within the start, others soon after a row: sixty are few.
STARTUP_S, MOMENT_S = 2.0, 0.1


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
            time.sleep(chance.uniform(0.0, MOMENT_S if num_rows else STARTUP_S))
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


def test_a_row_that_is_not_understood_fails_after_other_takes(
    tmp_path: Path, scorer: Scorer
) -> None:
    """The third row is no words, so that no take of it can be heard right."""
    texts = [
        "The ferry leaves at noon, so bring a warm jacket.",
        "It costs $4.50 for each of the 12 people.",
        "Brzt krwp fnord glimf shtok vrenk.",
        "My sister found an old letter under the floor.",
        "Dr. Lee walked 3 km at 5:30 p.m.",
    ]
    table, out = tmp_path / "table.csv", tmp_path / "out"
    with table.open("w", encoding="utf-8", newline="") as file:
        csv.writer(file).writerows([["text"], *([text] for text in texts)])
    verify = ["--verify", "wer", "--verify-model", str(find_assets().whisper), "--retries", "2"]
    done = subprocess.run([*command(table, out), *verify], stdout=subprocess.DEVNULL)
    rows = json.loads((out / "report.json").read_text("utf-8"))["rows"]
    assert done.returncode == 1
    assert [row["status"] for row in rows] == ["ok", "ok", "failed", "ok", "ok"]
    assert all(row["wer"] <= 0.25 for row in rows if row["status"] == "ok")
    assert rows[2]["takes"] == 3
    assert "word error rate" in rows[2]["reason"]
    assert not (out / "0003.wav").exists()
