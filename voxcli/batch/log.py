"""What a run did, for its reports: begun, added to row by row, written however the run ends."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from typing import Any

from voxcli import __version__
from voxcli.batch.casting import Casting
from voxcli.batch.folder import OutputFolder
from voxcli.batch.jobs import Standing, Status
from voxcli.batch.manifest import Manifest
from voxcli.batch.preflight import Rules
from voxcli.batch.records import Table
from voxcli.batch.report import count_rows, report_rows, write_reports
from voxcli.batch.takes import Outcome, Tally, recorded_outcome
from voxcli.errors import OutputError
from voxcli.utterance import FinishReason

OnOutcome = Callable[[Outcome, Tally], None]


class RunLog:
    """Collects what a run does, for its reports.

    Args:
        notes: of the process that began the run; without any it begins now, and is recorded.
    """

    def __init__(
        self,
        table: Table,
        rules: Rules,
        casting: Casting,
        folder: OutputFolder,
        manifest: Manifest,
        standings: Sequence[Standing],
        on_outcome: OnOutcome,
        notes: Mapping[str, Any] | None,
    ) -> None:
        self.setup: dict[str, Any] = {}
        self.servers: Callable[[], dict[str, Any]] = dict  # what each did, where there are several
        self.tally = Tally()
        self._table = table
        self._rules = rules
        self._casting = casting
        self._folder = folder
        self._manifest = manifest
        self._standings = standings
        self._on_outcome = on_outcome
        self._outcomes: dict[int, Outcome] = {}
        self._began = _now()
        if notes:
            self._go_on(notes)
        else:
            manifest.begin(self.run_line())

    def _go_on(self, notes: Mapping[str, Any]) -> None:
        self.setup, self.tally.started = notes["setup"], notes["started"]
        self._began = notes["run"]["began"]
        for standing in self._standings:
            if standing.status in (Status.OK, Status.FAILED):
                outcome = recorded_outcome(standing, self._manifest.rows[standing.job.name])
                self._outcomes[standing.job.row.number] = outcome
                self.tally.add(outcome)

    def notes(self) -> dict[str, Any]:
        """For the process that goes on."""
        return {"run": self._manifest.run, "setup": self.setup, "started": self.tally.started}

    def add(self, outcome: Outcome, tally: Tally) -> None:
        self._outcomes[outcome.job.row.number] = outcome
        self._on_outcome(outcome, tally)

    def write_in_between(self) -> None:
        """The reports of a run that did not come to its end."""
        with suppress(OutputError):  # what ended the run is what the user must hear of
            self.write(self.report(is_complete=False))

    def write(self, report: Mapping[str, Any]) -> None:
        """Both report files.

        Raises:
            OutputError: the file system refused.
        """
        parameters = self._rules.engine.facts.parameters
        write_reports(self._folder.root, self._folder.staging, report, parameters)

    def run_line(self) -> dict[str, Any]:
        rules = self._rules
        return {
            "voxcli": __version__,
            "began": self._began,
            "input": str(self._table.path),
            "seed": rules.defaults.seed,
            "model": rules.engine.facts.model,
            "checksum": rules.checksum,
            "storage": dict(rules.storage),
        }

    def report(self, *, is_complete: bool) -> dict[str, Any]:
        rows = report_rows(
            self._standings, self._outcomes, self._manifest.rows, self._rules, self._casting
        )
        spoken = [row for row in rows if row["status"] in (Status.OK, Status.KEPT)]
        tally = self.tally
        return {
            **self.run_line(),
            "ended": _now(),
            "is_complete": is_complete,
            "read_as": self._table.how,
            "notes": self._table.notes,
            "output": str(self._folder.root),
            "counts": count_rows(rows),
            "limited": sum(row.get("finish_reason") == FinishReason.LENGTH for row in spoken),
            "overflowing": sum(row.get("overflow_s", 0) > 0 for row in rows),
            "audio_s": tally.audio_s,
            "wall_s": tally.wall_s,
            "speed_x": tally.speed_x if tally.num_done else None,
            "setup": self.setup,
            **({"servers": servers} if (servers := self.servers()) else {}),
            "rows": rows,
        }


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")
