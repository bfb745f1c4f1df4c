"""A batch on the fake model, for tests: `prepare` reads and checks a table, `speak` runs it.

    python tests/batches.py crash FOLDER SEED

forks runs of a 60-row table and kills each at a random moment, then lets one end; prints what is
wrong with the folder on the way, one line each. A process of its own, because it forks.
"""

from __future__ import annotations

import os
import random
import signal
import sys
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from fakes import FakeAcousticModel, fake_synthesizer

from voxcli.audio.fit import SpeedLimits
from voxcli.batch.casting import Casting
from voxcli.batch.folder import OutputFolder, file_matches
from voxcli.batch.manifest import DONE, Manifest
from voxcli.batch.names import Namer, Template
from voxcli.batch.preflight import Rules, check_table
from voxcli.batch.rows import Defaults
from voxcli.batch.run import Judge, Outcome, Storage, Tally
from voxcli.batch.session import Choices, Session
from voxcli.batch.tables import read_table
from voxcli.errors import RecordingError, VoiceNotFoundError
from voxcli.utterance import Recording, Utterance

SEED = 7
NUM_ROWS, NUM_KILLS = 60, 20


def named(utterance: Utterance) -> Utterance:
    """The voice "alba" is known."""
    if utterance.voice in (None, "alba"):
        tone = np.sin(np.arange(1600, dtype=np.float32))
        recording = Recording(tone, 16000) if utterance.voice else None
        return replace(utterance, reference=recording)
    raise VoiceNotFoundError(f"no voice '{utterance.voice}'", hint="did you mean 'alba'?")


def imitate(utterance: Utterance, path: Path, text: str) -> Utterance:
    """A recording is the bytes of its file."""
    if not path.is_file():
        raise RecordingError(f"no recording {path}")
    samples = np.frombuffer(path.read_bytes(), np.uint8).astype(np.float32) / 256
    return replace(utterance, reference=Recording(samples, 16000, text))


def prepare(
    path: Path,
    out: Path,
    *,
    defaults: Defaults | None = None,
    template: str | None = None,
    is_numbering: bool = False,
    choices: Choices | None = None,
    mapping: dict[str, str] | None = None,
    checksum: str = "0" * 64,
    fit: SpeedLimits | None = None,
) -> Session:
    """Read a table and check it; nothing is written."""
    table = read_table(path, mapping=mapping)
    defaults = defaults or Defaults(seed=SEED)
    rules = Rules(defaults, fake_synthesizer().model, checksum, fit=fit)
    casting = Casting(defaults, path.parent, named=named, imitate=imitate)
    columns = {name for record in table.records for name in record.values}
    names = Namer(out, Template(template, columns) if template else None, is_numbering=is_numbering)
    jobs = check_table(table, rules, casting, names)
    return Session(table, rules, casting, jobs, OutputFolder(out), Storage(), choices or Choices())


def speak(
    session: Session,
    model: FakeAcousticModel | None = None,
    *,
    judges: Sequence[Judge] = (),
    on_outcome: Callable[[Outcome, Tally], None] = lambda outcome, tally: None,
    is_stopping: Callable[[], bool] = lambda: False,
) -> dict[str, Any]:
    """Run a session on the fake model."""
    session.check()
    return session.run(
        lambda: fake_synthesizer(model),
        judges=judges, on_outcome=on_outcome, is_stopping=is_stopping,
    )  # fmt: skip


def statuses(report: dict[str, Any]) -> list[str]:
    return [str(row["status"]) for row in report["rows"]]


# ------------------------------------------------------------ killed at random


@dataclass
class Killer:
    """Runs a batch again and again and kills it."""

    folder: Path
    chance: random.Random

    @property
    def out(self) -> Path:
        return self.folder / "out"

    def run(self, kills: int) -> list[str]:
        table = self.folder / "table.csv"
        lengths = [" and on" * self.chance.randrange(6) for _ in range(NUM_ROWS)]
        rows = [f"Row number {number} goes on{more}." for number, more in enumerate(lengths)]
        table.write_text("\n".join(["text", *rows]), "utf-8")
        speak(prepare(table, self.folder / "warm-up"))  # imports what is imported late
        wrong: list[str] = []
        num_cut = 0
        for _ in range(kills):
            kept = self._kept()
            self._fork(table, num_rows=self.chance.randrange(5))
            wrong += self._faults(kept)
            num_cut += len(kept) < len(self._kept()) < NUM_ROWS
        kept = self._kept()
        self._fork(table, num_rows=None)
        wrong += self._faults(kept)
        if len(self._kept()) != NUM_ROWS:
            wrong.append(f"{len(self._kept())} of {NUM_ROWS} rows are done at the end")
        if num_cut < kills // 4:
            wrong.append(f"only {num_cut} of {kills} kills hit a run that had done something")
        leftovers = [path.name for path in self.out.rglob("*.part")]
        return wrong + [f"left behind: {name}" for name in leftovers]

    def _fork(self, table: Path, *, num_rows: int | None) -> None:
        """Run once; killed at a random moment after that many rows have ended, or never."""
        reads, writes = os.pipe()
        child = os.fork()
        if child == 0:
            os.fsync = _slow_fsync
            _run_telling(prepare(table, self.out), writes)
            os._exit(0)
        os.close(writes)
        for _ in range(num_rows or 0):
            os.read(reads, 1)
        if num_rows is not None:
            time.sleep(self.chance.uniform(0.0, 0.1))
            os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        os.close(reads)

    def _kept(self) -> dict[str, int]:
        """Outputs that are done and whole, with the times the manifest says that they were done."""
        manifest = Manifest(self.out)
        times = Counter(
            name
            for line in (self.out / "manifest.jsonl").read_text("utf-8").splitlines()
            for name in [_done_output(line)]
            if name
        ) if manifest.path.exists() else Counter()  # fmt: skip
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


_fsync = os.fsync


def _run_telling(session: Session, pipe: int) -> None:
    """Run, with a byte down the pipe for each row that ended."""

    def tell(outcome: Outcome, tally: Tally) -> None:
        os.write(pipe, b".")

    speak(session, on_outcome=tell)


def _slow_fsync(handle: int) -> None:
    """A slow disk, so that kills fall between its writes."""
    _fsync(handle)
    time.sleep(0.01)


def _done_output(line: str) -> str | None:
    import json

    try:
        entry = json.loads(line)
    except ValueError:  # torn by a kill
        return None
    return entry["output"] if entry.get("status") == DONE else None


if __name__ == "__main__":
    assert sys.argv[1] == "crash"
    killer = Killer(Path(sys.argv[2]), random.Random(int(sys.argv[3])))
    for line in killer.run(NUM_KILLS):
        print(line)
