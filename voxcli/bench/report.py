"""The report as one JSON object, its raw runs as CSV, and writing either without half a file.

    {"format", "is_partial", "stamp", "identity", "options", "definitions", "setup", "memory",
     "cells": [statistics], "runs": [raw], "breakdown", "notes"}

Numbers are not rounded, so that every statistic can be computed again from the runs.
"""

from __future__ import annotations

import csv
import io
import json
from dataclasses import asdict, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

from voxcli.audio import files
from voxcli.bench.metrics import DEFINITIONS, Run
from voxcli.bench.readable import check_readable
from voxcli.errors import OutputError, UsageError, hint_for_file, reason_of

if TYPE_CHECKING:
    from voxcli.bench.session import Session

FORMAT = "voxcli-bench/2"
FORMER = "voxcli-bench/1"  # with "steps" where there are frames now
RANDOM_WEIGHTS = "RANDOM WEIGHTS"
Report = dict[str, Any]
_RENAMED = {"steps": "frames", "ms_per_step": "ms_per_frame"}


def build_report(
    session: Session,
    identity: dict[str, Any],
    *,
    memory: dict[str, Any],
    stamp: str | None = None,
    notes: tuple[str, ...] = (),
) -> Report:
    """Everything about a session that has run.

    Args:
        stamp: what must never be overlooked, such as `RANDOM_WEIGHTS`.
    """
    engine, options = session.engine, session.options
    setup, counts = engine.setup, engine.voice_counts()
    first = next((run for run in session.runs if run.phase == "first"), None)
    return {
        "format": FORMAT,
        "is_partial": session.is_partial,
        "stamp": stamp,
        "identity": identity,
        "options": {
            **asdict(options),
            "parameters": dict(options.parameters),
            "save_audio": str(options.save_audio) if options.save_audio else None,
        },
        "definitions": DEFINITIONS,
        "setup": {
            "import_s": setup.import_s,
            "load_s": setup.load_s,
            "num_captures": setup.num_captures,
            "capture_s": setup.capture_s,
            "capture_bytes": setup.capture_bytes,
            "num_encoded": counts.get("recordings_encoded"),
            "encode_s": counts.get("encode_s"),
            "first_ttfa_s": first.ttfa_s if first else None,
            "first_wall_s": first.wall_s if first else None,
        },
        "memory": memory,
        "cells": [cell.as_json() for cell in session.cells if cell.runs],
        "runs": [run.as_json() for run in session.runs],
        "breakdown": session.breakdown,
        "notes": [*notes, *session.notes],
    }


def load_report(path: Path) -> Report:
    """Read a report that `--json` wrote, of this format or the former one.

    Raises:
        UsageError: not there, or no report of this format.
    """
    try:
        report: Any = json.loads(path.read_text("utf-8"))
    except (OSError, ValueError, RecursionError) as err:
        raise UsageError(
            f"{path} cannot be read: {reason_of(err)}",
            hint=hint_for_file(path, "give a report of --json"),
        ) from err
    found = report.get("format") if isinstance(report, dict) else None
    if found not in (FORMAT, FORMER):
        hint = f"give a file that 'voxcli bench --json' wrote ({FORMAT})"
        raise UsageError(f"{path} is not a report: its format is {found!r}", hint=hint)
    if found == FORMER:
        try:
            report = translated(report)
        except (KeyError, TypeError, AttributeError) as err:
            message = f"{path} is damaged: it lacks options, cells or runs"
            raise UsageError(message, hint="give a report of --json") from err
    check_readable(report, path)
    readable: Report = report
    return readable


def translated(report: Report) -> Report:
    """A report in the words of this format; one that has them already stays as it is.

    The former format had "steps" and "ms_per_step" for frames, and the one parameter that a bench
    could tell a model was an option like the others.
    """

    def renamed(values: dict[str, Any]) -> dict[str, Any]:
        return {_RENAMED.get(name, name): value for name, value in values.items()}

    if "parameters" in report["options"]:
        return report
    options = dict(report["options"])
    steps = options.pop("steps", None)
    options["parameters"] = {} if steps is None else {"steps": steps}
    return report | {
        "format": FORMAT,
        "options": options,
        "definitions": DEFINITIONS,
        "cells": [renamed(cell) for cell in report["cells"]],
        "runs": [renamed(run) for run in report["runs"]],
    }


def load_reports(path: Path) -> dict[Path, Report]:
    """A report, or all reports of a folder (its *.json) by time, by file.

    Raises:
        UsageError: not there, no report in the folder, or a file that is none.
    """
    if not path.is_dir():
        return {path: load_report(path)}
    found = sorted(path.glob("*.json"))
    if not found:
        raise UsageError(f"{path} has no report", hint="put files of 'voxcli bench --json' there")
    reports = {file: load_report(file) for file in found}
    return dict(sorted(reports.items(), key=lambda item: str(item[1]["identity"].get("time"))))


def runs_as_csv(report: Report) -> str:
    """One row a run, warm-ups too; the column `phase` tells them apart."""
    text = io.StringIO()
    columns = [column.name for column in fields(Run)]
    writer = csv.DictWriter(text, columns, lineterminator="\n")
    writer.writeheader()
    writer.writerows(report["runs"])
    return text.getvalue()


def report_as_json(report: Report) -> str:
    return json.dumps(report, ensure_ascii=False, allow_nan=False, indent=1) + "\n"


def check_file(path: Path, *, overwrite: bool) -> None:
    """Refuse before any work a file that could not be written after it.

    Raises:
        UsageError: no file name.
        OutputExistsError: it is there and `overwrite` is off.
        OutputError: a folder, a device, or its folder is missing or not writable.
    """
    if not path.name:
        raise UsageError("a report has an empty file name", hint="give FILE, such as bench.html")
    try:
        if path.is_dir():
            raise OutputError(f"{path} is a folder", hint="give a file in it")
        files.check_folder(path.parent)
        files.check_regular(path, "give the name of a file; --json - writes to stdout")
        if path.exists() and not overwrite:
            raise files.exists_error(path)
        files.probe_folder(path)
    except OSError as err:
        raise files.output_error(err, path) from err


def write_text(path: Path, text: str, *, overwrite: bool) -> None:
    """Write a whole file or none.

    Raises:
        OutputExistsError, OutputError: as `check_file`.
    """
    temp = files.hidden_name(path)
    try:
        files.create(temp)
        temp.write_text(text, "utf-8")
        files.publish(temp, path, overwrite=overwrite)
    except OSError as err:
        raise files.output_error(err, path) from err
    finally:
        temp.unlink(missing_ok=True)
