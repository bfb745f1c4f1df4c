"""What a run did: `report.json` and `report.csv` in the output folder, and tables for a terminal.

A row of the report repeats every value that was in effect, the command's where the row had none.
"""

from __future__ import annotations

import csv
import io
import json
import os
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from voxcli.audio.files import output_error, publish
from voxcli.batch.casting import Casting
from voxcli.batch.jobs import Job, Standing, Status
from voxcli.batch.preflight import Rules
from voxcli.batch.records import shorten
from voxcli.batch.rows import longest_s
from voxcli.batch.takes import Outcome
from voxcli.figures import rounded
from voxcli.parameters import Parameter

JSON_NAME, CSV_NAME = "report.json", "report.csv"
# Columns of the CSV, in this order; the model's parameters come after `seed`, the table's own
# further columns at the end.
COLUMNS = (
    *("number", "line", "output", "status", "reason", "text", "speaker", "start", "end"),
    *("audio_s", "finish_reason", "voice", "ref", "ref_text", "style", "language", "speed"),
    *("max_seconds", "seed"),
    *("takes", "attempts", "seeds", "wer", "server"),
    *("sample_rate", "num_frames", "peak", "rms_db", "noise_floor_db", "gain_db", "limited_db"),
    *("bytes", "sha256"),
    *("trimmed_s", "overflow_s", "placed_s", "shift_s", "cut_s", "overlap_s"),
    *("shortfalls", "warnings", "refused", "heard"),
)


def report_rows(
    standings: Sequence[Standing],
    outcomes: Mapping[int, Outcome],
    entries: Mapping[str, Mapping[str, Any]],
    rules: Rules,
    casting: Casting,
) -> list[dict[str, Any]]:
    """A row for each record of the table, in its order.

    Args:
        outcomes: of this run, by row number.
        entries: the manifest's lines, for rows done before.
    """
    rows = []
    for standing in standings:
        job = standing.job
        row = effective_values(job, rules, casting)
        outcome = outcomes.get(job.row.number)
        if outcome is not None:
            row |= {"status": outcome.status, "reason": outcome.reason, **outcome.facts}
        else:
            if standing.status is Status.KEPT:
                before = {name: fact for name, fact in entries[job.name].items() if name != "key"}
                found = {name: before[name] for name in ("seed", "speed") if name in before}
                row = before | row | found  # what its kept take has, not what was asked
            row |= {"status": standing.status, "reason": standing.reason}
        rows.append({**row, "extra": dict(job.row.extra)})
    return rows


def effective_values(job: Job, rules: Rules, casting: Casting) -> dict[str, Any]:
    """The values that decide a row, wherever they come from."""
    row, utterance, part = job.row, job.utterance, casting.part_of(job.row)
    return {
        "number": row.number,
        "line": row.line,
        "output": job.name,
        "text": row.text,
        "speaker": row.speaker,
        "start": row.start,
        "end": row.end,
        "voice": part.voice,
        "ref": part.ref,
        "ref_text": part.ref_text,
        "style": part.style,
        "language": utterance.language,
        "speed": utterance.speed,
        "max_seconds": longest_s(row, rules.defaults),
        "seed": utterance.sampling.seed,
        "parameters": rules.engine.settled(utterance, is_cloning=casting.is_cloning(row)),
    }


def count_rows(rows: Sequence[Mapping[str, Any]]) -> dict[str, int]:
    """Rows by status, every status named."""
    found = Counter(row["status"] for row in rows)
    return {status.value: found[status] for status in Status}


def write_reports(
    folder: Path, staging: Path, report: Mapping[str, Any], parameters: Sequence[Parameter]
) -> None:
    """Write both files, each whole or not at all.

    Args:
        staging: a folder beside it where half-written files are swept away.
        parameters: of the model; each is a column of the CSV.

    Raises:
        OutputError: the file system refused.
    """
    shown = rounded(dict(report))
    text = json.dumps(shown, ensure_ascii=False, indent=1, allow_nan=False, default=str)
    _write(folder / JSON_NAME, staging, text + "\n")
    _write(folder / CSV_NAME, staging, _as_csv(report["rows"], parameters))


def _as_csv(rows: Sequence[Mapping[str, Any]], parameters: Sequence[Parameter]) -> str:
    place = COLUMNS.index("seed") + 1
    columns = (*COLUMNS[:place], *(each.name for each in parameters), *COLUMNS[place:])
    extra = list(dict.fromkeys(name for row in rows for name in row["extra"]))
    names = [name if name not in columns else f"({name})" for name in extra]
    file = io.StringIO(newline="")
    writer = csv.writer(file)
    writer.writerow([*columns, *names])
    for row in rows:
        values = {**row["parameters"], **row}
        own = [_cell(values.get(name)) for name in columns]
        writer.writerow([*own, *(row["extra"].get(name, "") for name in extra)])
    return file.getvalue()


def _cell(value: object) -> object:
    return "; ".join(map(str, value)) if isinstance(value, (list, tuple)) else value


def _write(path: Path, staging: Path, text: str) -> None:
    temp = staging / path.name
    try:
        temp.write_text(text, "utf-8", newline="")
        publish(temp, path, overwrite=True)
    except OSError as err:
        raise output_error(err, path) from err


def is_foreign(folder: Path) -> Path | None:
    """A report file that is there although no batch has run in the folder."""
    names = (JSON_NAME, CSV_NAME)
    return next((folder / name for name in names if os.path.lexists(folder / name)), None)


def failure_table(rows: Sequence[Mapping[str, Any]]) -> list[list[str]]:
    """Row, line, output and reason of what failed or must be corrected; with a header."""
    table = [["row", "line", "output", "reason"]]
    for row in rows:
        if row["status"] in (Status.FAILED, Status.INVALID):
            name = shorten(row["output"] or "-")
            table.append([str(row["number"]), str(row["line"]), name, row["reason"]])
    return table
