"""A batch on the fake model, for tests: `prepare` reads and checks a table, `speak` runs it.

    python tests/batches.py crash FOLDER SEED

forks runs of a 60-row table and kills each at a random moment, see `crashes.py`; prints what is
wrong with the folder on the way, one line each. A process of its own, because it forks.
"""

from __future__ import annotations

import hashlib
import os
import random
import signal
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from crashes import Killer, Run, write_table
from fakes import FakeModel, fake_engine

from voxcli.audio.fit import SpeedLimits
from voxcli.audio.level import STANDARDS
from voxcli.batch.cast import Cast
from voxcli.batch.casting import Casting
from voxcli.batch.columns import columns_of
from voxcli.batch.folder import OutputFolder
from voxcli.batch.keep import Storage
from voxcli.batch.names import Namer, Template
from voxcli.batch.preflight import LEVEL, Rules, check_table
from voxcli.batch.rows import Defaults
from voxcli.batch.session import Choices, Session
from voxcli.batch.tables import read_table
from voxcli.batch.takes import Judge, Outcome, Tally
from voxcli.engine.base import SpeechEngine
from voxcli.errors import RecordingError, VoiceNotFoundError
from voxcli.utterance import Recording, Utterance

SEED = 7
INPUTS = Path(__file__).parent / "inputs"
SIX = INPUTS / "six.csv"


VOICES = ("alba", "emma", "george", "mia")


def named(utterance: Utterance) -> Utterance:
    """Four voices are known."""
    if utterance.voice in (None, *VOICES):
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
    engine: SpeechEngine | None = None,
    cast: Cast | None = None,
    loudness: str | None = None,
) -> Session:
    """Read a table and check it; nothing is written."""
    engine = engine or fake_engine()
    cast = cast or Cast()
    table = read_table(
        path, mapping=mapping, parameters=columns_of(engine.facts).headers, cast=cast.names
    )
    defaults = defaults or Defaults(seed=SEED)
    stored = {LEVEL: loudness} if loudness else {}
    rules = Rules(defaults, engine, checksum, stored, fit=fit, cast=cast)
    storage = Storage(standard=STANDARDS.get(loudness or ""))
    casting = Casting(defaults, path.parent, named=named, imitate=imitate)
    columns = {name for record in table.records for name in record.values}
    names = Namer(out, Template(template, columns) if template else None, is_numbering=is_numbering)
    jobs = check_table(table, rules, casting, names)
    return Session(table, rules, casting, jobs, OutputFolder(out), storage, choices or Choices())


def speak(
    session: Session,
    model: FakeModel | None = None,
    *,
    notes: dict[str, Any] | None = None,
    judges: Sequence[Judge] = (),
    on_outcome: Callable[[Outcome, Tally], None] = lambda outcome, tally: None,
    is_stopping: Callable[[], bool] = lambda: False,
) -> dict[str, Any]:
    """Run a session on the fake model."""
    session.check()
    return session.run(
        lambda: fake_engine(model),
        notes,
        judges=judges, on_outcome=on_outcome, is_stopping=is_stopping,
    )  # fmt: skip


class Beginning(dict[str, list[str]]):
    """A fault for every text that begins in one way."""

    def __init__(self, start: str) -> None:
        super().__init__()
        self.start = start

    def get(self, text: str, default: Any = None) -> Any:
        return ["silent"] if text.startswith(self.start) else default


def digests(folder: Path) -> dict[str, str]:
    return {
        path.name: hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(folder.glob("*.wav"))
    }


def statuses(report: dict[str, Any]) -> list[str]:
    return [str(row["status"]) for row in report["rows"]]


# ------------------------------------------------------------ killed at random

_fsync = os.fsync


def forking(table: Path, out: Path, chance: random.Random) -> Run:
    """Runs a table on the fake model in a child; see `Killer`."""

    def run(num_rows: int | None) -> None:
        reads, writes = os.pipe()
        child = os.fork()
        if child == 0:
            os.fsync = _slow_fsync
            _run_telling(prepare(table, out), writes)
            os._exit(0)
        os.close(writes)
        for _ in range(num_rows or 0):
            os.read(reads, 1)
        if num_rows is not None:
            time.sleep(chance.uniform(0.0, 0.1))
            os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        os.close(reads)

    return run


def _run_telling(session: Session, pipe: int) -> None:
    """Run, with a byte down the pipe for each row that ended."""

    def tell(outcome: Outcome, tally: Tally) -> None:
        os.write(pipe, b".")

    speak(session, on_outcome=tell)


def _slow_fsync(handle: int) -> None:
    """A slow disk, so that kills fall between its writes."""
    _fsync(handle)
    time.sleep(0.01)


def crash(folder: Path, chance: random.Random) -> list[str]:
    """What goes wrong when runs are killed."""
    table = write_table(folder / "table.csv", chance)
    speak(prepare(table, folder / "warm-up"))  # imports what is imported late
    out = folder / "out"
    return Killer(out, chance, forking(table, out, chance)).run()


if __name__ == "__main__":
    assert sys.argv[1] == "crash"
    for line in crash(Path(sys.argv[2]), random.Random(int(sys.argv[3]))):
        print(line)
