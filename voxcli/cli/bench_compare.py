"""`voxcli bench compare`: two reports side by side."""

from __future__ import annotations

import math
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from voxcli.cli import output
from voxcli.cli.options import JsonOption
from voxcli.errors import EXIT_ITEM_FAILED, UsageError

if TYPE_CHECKING:
    from voxcli.bench.compare import Change


def compare(
    old: Annotated[
        Path,
        typer.Argument(
            metavar="OLD", help="A report of 'voxcli bench --json', or a folder of them."
        ),
    ],
    new: Annotated[
        Path, typer.Argument(metavar="NEW", help="Report or folder to compare with OLD.")
    ],
    fail_over: Annotated[
        str, typer.Option(metavar="P%", help="Slowdown to accept, in percent.")
    ] = "5%",
    force: Annotated[
        bool,
        typer.Option(
            "--force", help="Also compare reports of different devices, models or settings."
        ),
    ] = False,
    json: JsonOption = False,
) -> None:
    """Compare two reports. The exit code is 1 if NEW is slower.

    "Slower" means slower by more than --fail-over and by more than the noise. On most machines, two
    processes of the same program differ by several percent. So give folders of 8 reports each,
    made in turn (old, new, old, new): the noise is then the difference between the pairs. "Unclear"
    means that a slowdown of twice --fail-over is possible. It gives a warning and exit code 0.
    """
    from voxcli.bench import compare as comparing
    from voxcli.bench.report import load_reports

    limit = _percent(fail_over)
    before, after = load_reports(old), load_reports(new)
    changes = comparing.compare(list(before.values()), list(after.values()), limit, is_forced=force)
    reports = [*before.items(), *after.items()]
    for path, report in reports:
        if report["is_partial"]:
            output.warn(f"{path} is partial: its run was interrupted")
    for difference in comparing.differences([report for _, report in reports]):
        output.warn(f"not the same {difference}")
    slower = [change for change in changes if change.is_regression]
    unclear = [change for change in changes if change.verdict == comparing.Verdict.UNCLEAR]
    if json:
        output.result_json(
            {
                "is_regression": bool(slower),
                "is_clear": not unclear,
                "fail_over": limit,
                "num_reports": [len(before), len(after)],
                "definitions": comparing.DEFINITIONS,
                "changes": [asdict(change) for change in changes],
            }
        )
    else:
        output.result(output.table(_change_rows(changes)))
    if unclear:
        hidden = f"{100 * comparing.RULED_OUT * limit:g}%"
        output.warn(
            f"{len(unclear)} of {len(changes)} changes are unclear: the noise would hide a "
            f"slowdown of {hidden}; give folders of more reports, made in turn"
        )
    if any(change.noise is None and change.verdict == "unknown" for change in changes):
        output.warn("some changes cannot be judged: too few runs; use --repeats 3 or more")
    if slower:
        raise typer.Exit(EXIT_ITEM_FAILED)


def _percent(text: str) -> float:
    try:
        value = float(text.strip().removesuffix("%")) / 100
    except ValueError:
        value = math.nan
    if not 0 <= value < math.inf:
        raise UsageError(f"--fail-over is '{text}'", hint="give percent, such as 5%")
    return value


def _change_rows(changes: list[Change]) -> list[tuple[str, ...]]:
    from voxcli.bench.tables import MISSING, number

    rows: list[tuple[str, ...]] = [
        ("set", "lang", "load", "metric", "pairs", "old", "new", "new/old", "noise", "verdict")
    ]
    for change in changes:
        noise = MISSING if change.noise is None else f"±{100 * change.noise:.1f}%"
        ratio = MISSING if change.ratio is None else f"{change.ratio:.3f}"
        medians = (number(change.old), number(change.new))
        rows.append(
            (*change.cell, change.metric, str(change.num_pairs), *medians, ratio, noise,
             str(change.verdict))
        )  # fmt: skip
    return rows
