"""One `voxcli batch`, from the table to the report; what it shows on the way is the caller's.

session = Session(table, rules, casting, jobs, folder, ...)
session.check()                      refuse a table with problems
report = session.run(load, ...)      speak what is left
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from voxcli.batch.casting import Casting
from voxcli.batch.folder import OutputFolder
from voxcli.batch.jobs import Job, Standing, Status
from voxcli.batch.keep import Keeper, Storage
from voxcli.batch.levels import set_levels
from voxcli.batch.log import OnOutcome, RunLog
from voxcli.batch.manifest import Manifest
from voxcli.batch.preflight import Rules
from voxcli.batch.records import Table
from voxcli.batch.report import CSV_NAME, JSON_NAME, effective_values, is_foreign
from voxcli.batch.resume import take_stock
from voxcli.batch.rows import Problem
from voxcli.batch.run import BatchRun
from voxcli.batch.takes import Judge
from voxcli.batch.timeline import Timeline
from voxcli.config import random_seed
from voxcli.engine.base import SpeechEngine
from voxcli.engine.takeover import TakeOver
from voxcli.errors import EngineError, EngineFaultError, OutputExistsError, UsageError
from voxcli.parameters import Values

MAX_BARREN_FAULTS = 3  # one more without a row done between them, and the run ends


class TableError(UsageError):
    """Rows that must be corrected first.

    Args:
        problems: all of them, in the order of the table.
    """

    def __init__(
        self, message: str, *, hint: str | None = None, problems: Sequence[Problem] = ()
    ) -> None:
        super().__init__(message, hint=hint)
        self.problems = [asdict(problem) for problem in problems]


@dataclass(frozen=True)
class Choices:
    """How to treat what is there already.

    Attributes:
        overwrite: replace files that are not from this batch.
        force: do again what is done.
        strict: speak nothing of a table with bad rows, or words that are in no row by mistake.
    """

    overwrite: bool = False
    force: bool = False
    strict: bool = False


@dataclass(frozen=True)
class Session:
    """A checked table and where it goes."""

    table: Table
    rules: Rules
    casting: Casting
    jobs: Sequence[Job]
    folder: OutputFolder
    storage: Storage
    choices: Choices = Choices()
    timeline: Timeline | None = None

    @property
    def problems(self) -> list[Problem]:
        return [problem for job in self.jobs for problem in job.problems]

    @property
    def parameters(self) -> list[Values]:
        """What the good rows tell the model, each combination once."""
        found: dict[tuple[object, ...], Values] = {}
        for job in self.jobs:
            if job.name and not job.problems:
                values = effective_values(job, self.rules, self.casting)["parameters"]
                found.setdefault(tuple(values.items()), values)
        return list(found.values())

    def check(self) -> None:
        """Refuse a table of which nothing is to be spoken.

        Raises:
            TableError: no row is good, or one is bad where that is enough; with every problem.
            OutputExistsError: a report or a mix of something else is there.
            UsageError, OutputError: the folder or the timeline cannot be made.
        """
        bad = sum(bool(job.problems) for job in self.jobs)
        good = sum(not (job.problems or job.row.skipped) for job in self.jobs)
        if bad and (self.choices.strict or not good):
            raise TableError(
                f"{bad} of {len(self.jobs)} rows of {self.table.path} cannot be spoken",
                hint="correct them, or leave out --strict to speak the others"
                if good
                else "correct them",
                problems=self.problems,
            )
        if self.table.lost and self.choices.strict:
            raise TableError(
                f"words of {self.table.path} would be left out: {'; '.join(self.table.lost)}",
                hint="put them into cues, or leave out --strict",
            )
        self.folder.check()
        foreign = is_foreign(self.folder.root)
        is_new = not (self.folder.root / "manifest.jsonl").exists()
        if foreign and is_new and not self.choices.overwrite:
            raise OutputExistsError(
                f"{foreign} exists and is not from a batch",
                hint="choose another -o, or add --overwrite to replace it",
            )
        if self.timeline is not None:
            rows, root = [job.row for job in self.jobs], self.folder.root
            self._refuse_one_path_twice(self.timeline)
            self.timeline.check(rows, Manifest(root), root)

    def _refuse_one_path_twice(self, timeline: Timeline) -> None:
        """Refuse a file that would be written over what this run reads or writes, whatever
        `--overwrite` says."""
        root, given = self.folder.root, self.table.path.parent
        used = {os.path.realpath(root / name): "a report" for name in (JSON_NAME, CSV_NAME)}
        for job in self.jobs:
            if job.name:
                used[os.path.realpath(root / job.name)] = f"the file of row {job.row.number}"
            if job.row.ref:
                used[os.path.realpath(given / job.row.ref)] = "a recording of the table"
        used[os.path.realpath(self.table.path)] = "the table itself"
        if timeline.bed is not None:
            used[os.path.realpath(timeline.bed)] = "the bed"
        for option, path in timeline.outputs(job.row.speaker for job in self.jobs):
            real = os.path.realpath(path)
            if (other := used.get(real)) is not None:
                hint = "choose another name for one of them"
                raise UsageError(f"{option} would write {path}, which is {other}", hint=hint)
            used[real] = f"the file of {option}"

    def take_stock(self, manifest: Manifest, *, is_going_on: bool = False) -> list[Standing]:
        """How each row stands against what earlier runs did."""
        return take_stock(
            self.jobs, manifest, self.folder.root,
            overwrite=self.choices.overwrite, force=self.choices.force, is_going_on=is_going_on,
        )  # fmt: skip

    def run(
        self,
        load: Callable[[], SpeechEngine],
        notes: Mapping[str, Any] | None = None,
        *,
        judges: Sequence[Judge] = (),
        on_level: Callable[[int, int], None] = lambda done, total: None,
        on_start: Callable[[Sequence[Standing]], None] = lambda standings: None,
        on_outcome: OnOutcome = lambda outcome, tally: None,
        is_stopping: Callable[[], bool] = lambda: False,
        while_speaking: Callable[[], AbstractContextManager[None]] = nullcontext,
    ) -> dict[str, Any]:
        """Speak what is left and write the reports, however it ends.

        Args:
            load: who speaks, started; not called where nothing is left.
            notes: of the process that began this run, where a fault ended it.
            on_level: how many files of earlier runs, of how many, got the level that is asked for.
            on_start: told how every row stands.
            is_stopping: no further row starts once it says so; those in flight are finished.
            while_speaking: a block around the time in which rows are in flight.

        Raises:
            TakeOver: the engine failed, and a fresh process is to go on with this run.
            UsageError: another run uses the folder.
            ModelError, DeviceError, EngineError, OutputError: what ended the run.
        """
        with self.folder.locked(), Manifest(self.folder.root) as manifest:
            if notes and notes["run"] != manifest.run:  # another run was faster
                notes = None
            if self.storage.standard is not None and not self.choices.force:
                set_levels(self.jobs, manifest, self.folder, self.storage, on_level)
            standings = self.take_stock(manifest, is_going_on=bool(notes))
            on_start(standings)
            log = RunLog(
                self.table, self.rules, self.casting, self.folder, manifest, standings, on_outcome,
                notes,
            )  # fmt: skip
            try:
                if any(each.status is Status.PENDING for each in standings):
                    with load() as engine:
                        log.setup = asdict(engine.setup)
                        log.servers = engine.server_counts
                        keeper = Keeper(
                            self.folder, manifest, self.storage,
                            lambda job: effective_values(job, self.rules, self.casting), judges,
                        )  # fmt: skip
                        run = BatchRun(
                            engine, manifest, self.casting, keeper, log.tally, log.add,
                            is_stopping,
                        )  # fmt: skip
                        with while_speaking():
                            run.run(standings)
            except EngineFaultError as err:
                log.write_in_between()
                if is_stopping():
                    raise
                _check_faults(manifest.num_barren_faults, err)
                raise TakeOver(err, log.notes()) from err
            except BaseException:
                log.write_in_between()
                raise
            report = log.report(is_complete=not is_stopping())
            try:
                if self.timeline is not None and report["is_complete"]:
                    timeline = replace(self.timeline, token=self.folder.token())
                    report["timeline"] = timeline.make(report["rows"], self.folder.root, manifest)
            finally:
                log.write(report)
            return report


def _check_faults(num_barren: int, error: EngineFaultError) -> None:
    """Refuse to go on for ever.

    Raises:
        EngineError: too many faults, and no row done between them.
    """
    if num_barren > MAX_BARREN_FAULTS:
        raise EngineError(
            f"{error.message}; {num_barren} faults and no row done between them",
            hint="check the device with 'voxcli doctor'; the same command goes on with the rest",
        ) from error


def choose_seed(asked: int | None, root: Path) -> int:
    """The run's seed: as asked, else that of the folder's last run, else a new one."""
    if asked is not None:
        return asked
    before = (Manifest(root).run or {}).get("seed")
    return before if isinstance(before, int) else random_seed()
