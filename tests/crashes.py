"""Runs of a batch that are killed at random moments, and what is wrong with the folder afterwards.

Knows nothing of what speaks: a `Run` starts the batch and kills it after some rows, or lets it end.
"""

from __future__ import annotations

import json
import random
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from voxcli.batch.folder import file_matches
from voxcli.batch.manifest import DONE, Manifest

NUM_ROWS, NUM_KILLS = 60, 20

Run = Callable[[int | None], None]  # killed after so many rows and a moment; None: never


def write_table(path: Path, chance: random.Random) -> Path:
    """Short rows of several lengths."""
    lengths = [" and on" * chance.randrange(6) for _ in range(NUM_ROWS)]
    rows = [f"Row number {number} goes on{more}." for number, more in enumerate(lengths)]
    path.write_text("\n".join(["text", *rows]), "utf-8")
    return path


@dataclass
class Killer:
    """Runs a batch again and again and kills it.

    Attributes:
        out: the batch's folder.
        num_useful: kills that hit a run which had finished a row, but not all.
    """

    out: Path
    chance: random.Random
    start: Run
    num_useful: int = field(default=0, init=False)

    def run(self) -> list[str]:
        """Kill `NUM_KILLS` runs and let one end; everything that is wrong on the way."""
        wrong: list[str] = []
        for _ in range(NUM_KILLS):
            kept = self._kept()
            self.start(self.chance.randrange(5))
            wrong += self._faults(kept)
            self.num_useful += len(kept) < len(self._kept()) < NUM_ROWS
        kept = self._kept()
        self.start(None)
        wrong += self._faults(kept)
        if len(self._kept()) != NUM_ROWS:
            wrong.append(f"{len(self._kept())} of {NUM_ROWS} rows are done at the end")
        if self.num_useful < NUM_KILLS // 4:
            wrong.append(f"only {self.num_useful} kills hit a run that had done something")
        leftovers = [path.name for path in self.out.rglob("*.part")]
        return wrong + [f"left behind: {name}" for name in leftovers]

    def _kept(self) -> dict[str, int]:
        """Outputs that are done and whole, with the times the manifest says that they were done."""
        manifest = Manifest(self.out)
        if not manifest.path.exists():
            return {}
        lines = manifest.path.read_text("utf-8").splitlines()
        times = Counter(name for line in lines if (name := _done_output(line)))
        whole = {n for n, entry in manifest.rows.items() if file_matches(self.out / n, entry)}
        return {name: times[name] for name in whole}

    def _faults(self, before: dict[str, int]) -> list[str]:
        now = self._kept()
        lost = [f"{name} was whole and is not any more" for name in before if name not in now]
        again = [f"{name} was done again" for name, n in before.items() if now.get(name, n) != n]
        known = Manifest(self.out).rows
        files = {path.name for path in self.out.glob("*.wav")}
        strange = [f"{name} is in no manifest" for name in files - known.keys()]
        broken = [f"{name} is not what was recorded" for name in files - now.keys()]
        return [*lost, *again, *strange, *broken]


def _done_output(line: str) -> str | None:
    try:
        entry = json.loads(line)
    except ValueError:  # torn by a kill
        return None
    return entry["output"] if entry.get("status") == DONE else None
