"""Reports side by side: what got slower, by more than the noise?

One report a side: runs are paired by prompt, load and seed, so that both did the same work. A
cell's change is the median of the pairs' log ratios, its noise that of the median, and what the
runs of one report share: how far the machine's pace moved between the reports (`probe_s` of the
cells), and the cores that others left of it (`taken_s`), both by `PACE_SHARE`.

Several reports a side, made in turn: what pairs of reports differ by is the noise.

A change counts when it exceeds both the noise and the threshold. "Same" is said only where a
slowdown of twice the threshold is ruled out.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

import numpy as np

from voxcli.bench.noise import centred, difference, median_noise, spread
from voxcli.bench.report import Report
from voxcli.bench.tables import load_of
from voxcli.errors import UsageError

METRICS = ("ttfa_s", "rtf")
MOST_TAKEN = 0.9  # of all cores, in the arithmetic
# Of a change of the host's pace, what reaches a run; measured: an eighth where a card does the work
PACE_SHARE = {"cpu": 1.0, "cuda": 0.125}
RULED_OUT = 2.0  # times the threshold: a slowdown that "same" denies
_SAME = (
    *("model", "checksum", "engine", "precision", "device_name", "threads", "max_slots"),
    *("voice_key", "mode", "style"),
)
CellKey = tuple[str, str, str]  # set, language, load
Runs = list[dict[str, Any]]

DEFINITIONS = {
    "ratio": "new / old: one report a side: the median over pairs of runs of the same prompt and "
    "seed; several: of pairs of reports at the same pace, by least squares; above 1 is slower",
    "noise": "relative change that may be chance: one report a side: three standard errors of the "
    "median, and how far the machine's pace and free cores moved; several: 99.5 % of Student's t "
    "times the standard error over the pairs of reports",
    "slower, faster": "ratio beyond the noise and beyond fail_over",
    "same": f"a slowdown of {RULED_OUT:g} times fail_over is ruled out: ratio and noise stay below",
    "unclear": "neither: the noise would hide a slowdown that matters",
    "unknown": "too few runs to know the noise",
    "failing": "a larger share of the runs failed",
}


class Verdict(StrEnum):
    """What a change means."""

    SAME = "same"  # a slowdown that matters is ruled out
    FASTER = "faster"
    SLOWER = "slower"
    FAILING = "failing"  # a larger share of the runs failed
    UNCLEAR = "unclear"  # the noise would hide a slowdown that matters
    UNKNOWN = "unknown"  # too few pairs to know the noise, or no runs left


@dataclass(frozen=True)
class Change:
    """One metric of one cell.

    Attributes:
        num_pairs: runs of the same prompt and seed that all reports have.
        old, new: medians of those runs.
        ratio, noise, verdict: as in `DEFINITIONS`; 0.03 is 3 %, None is not known.
    """

    cell: CellKey
    metric: str
    num_pairs: int
    old: float | None
    new: float | None
    ratio: float | None
    noise: float | None
    verdict: Verdict

    @property
    def is_regression(self) -> bool:
        return self.verdict in (Verdict.SLOWER, Verdict.FAILING)


def differences(reports: Sequence[Report]) -> list[str]:
    """What makes reports incomparable with the first of them, one line each."""
    first, *others = reports
    found = []
    for other in others:
        before, after = _conditions(first), _conditions(other)
        for name in before | after:
            if before.get(name) != after.get(name):
                found.append(f"{name}: {before.get(name)} and {after.get(name)}")
        if first["stamp"] != other["stamp"]:
            found.append(f"stamp: {first['stamp']} and {other['stamp']}")
    return list(dict.fromkeys(found))


def _conditions(report: Report) -> dict[str, Any]:
    """What must be the same in reports that are compared."""
    identity, options = report["identity"], report["options"]
    return {
        **{name: identity.get(name) for name in _SAME},
        **options["parameters"],
        "is_streaming": options["is_streaming"],
    }


def compare(
    old: Sequence[Report], new: Sequence[Report], fail_over: float, *, is_forced: bool = False
) -> list[Change]:
    """Every metric of every cell that all reports have.

    Args:
        old, new: one or more of each, in the order they were made: in turn, if several.
        fail_over: relative change that still counts as the same, 0.05 for 5 %.
        is_forced: compare different cards, models or settings too.

    Raises:
        UsageError: the reports are of different things, share no cell, or are not as many.
    """
    if len(old) != len(new):
        hint = "make them in turn: old, new, old, new"
        raise UsageError(f"OLD has {len(old)} reports and NEW has {len(new)}", hint=hint)
    unlike = differences([*old, *new])
    if unlike and not is_forced:
        message = f"the reports are of different things ({'; '.join(unlike)})"
        raise UsageError(message, hint="add --force to compare them all the same")
    before, after = ([_by_cell(report) for report in reports] for reports in (old, new))
    shared = [key for key in before[0] if all(key in cells for cells in [*before, *after])]
    if not shared:
        raise UsageError("the reports share no prompt set, language and load")
    if len(old) == len(new) == 1:
        changes = _by_pairs(old[0], new[0], before[0], after[0], shared, fail_over)
    else:
        changes = _by_reports(old, new, before, after, shared, fail_over)
    for key in shared:
        if change := _failures(key, _together(before, key), _together(after, key)):
            changes.append(change)
    return sorted(changes, key=lambda change: shared.index(change.cell))


def _by_pairs(
    old: Report,
    new: Report,
    before: dict[CellKey, Runs],
    after: dict[CellKey, Runs],
    shared: list[CellKey],
    fail_over: float,
) -> list[Change]:
    """One report a side."""
    drifts = _drifts(old, new)
    changes: list[Change] = []
    for metric in METRICS:
        logs = {key: _log_ratios(before[key], after[key], metric) for key in shared}
        pooled = spread([centred(values) for values in logs.values()])
        for key in shared:
            pairs = _paired(before[key], after[key], metric)
            drift = drifts.get(key, 0.0)
            changes.append(_change(key, metric, pairs, logs[key], pooled, drift, fail_over))
    return changes


def _by_reports(
    old: Sequence[Report],
    new: Sequence[Report],
    before: list[dict[CellKey, Runs]],
    after: list[dict[CellKey, Runs]],
    shared: list[CellKey],
    fail_over: float,
) -> list[Change]:
    """Several reports a side: each is one number a cell."""
    before_paces, after_paces = ([_paces(each) for each in side] for side in (old, new))
    changes = []
    for metric in METRICS:
        for key in shared:
            found = [_values(cells[key], metric) for cells in (*before, *after)]
            common = set(found[0]).intersection(*found[1:])
            if not common:
                changes.append(Change(key, metric, 0, None, None, None, None, Verdict.UNKNOWN))
                continue
            levels = [float(np.median([values[run] for run in common])) for values in found]
            left, right = levels[: len(old)], levels[len(old) :]
            logs = [math.log(new / old) for old, new in zip(left, right, strict=True)]
            log_ratio, log_noise = difference(logs, _pace_changes(before_paces, after_paces, key))
            changes.append(
                Change(
                    key,
                    metric,
                    len(common),
                    float(np.median(left)),
                    float(np.median(right)),
                    math.exp(log_ratio),
                    None if log_noise is None else math.expm1(log_noise),
                    _judged(log_ratio, log_noise, fail_over),
                )
            )
    return changes


def _paces(report: Report) -> dict[CellKey, float | None]:
    return {
        (cell["set"], cell["language"], load_of(cell)): math.log(cell["probe_s"])
        if cell.get("probe_s")
        else None
        for cell in report["cells"]
    }


def _pace_changes(
    old: list[dict[CellKey, float | None]], new: list[dict[CellKey, float | None]], key: CellKey
) -> list[float] | None:
    """Of each pair of reports; None where one does not tell."""
    found = []
    for before, after in zip(old, new, strict=True):
        left, right = before.get(key), after.get(key)
        if left is None or right is None:
            return None
        found.append(right - left)
    return found


def _together(reports: list[dict[CellKey, Runs]], key: CellKey) -> Runs:
    return [run for cells in reports for run in cells[key]]


def _judged(log_ratio: float, log_noise: float | None, fail_over: float) -> Verdict:
    if log_noise is None:
        return Verdict.UNKNOWN
    if abs(log_ratio) > max(log_noise, math.log1p(fail_over)):
        return Verdict.SLOWER if log_ratio > 0 else Verdict.FASTER
    is_ruled_out = log_ratio + log_noise <= math.log1p(RULED_OUT * fail_over)
    return Verdict.SAME if is_ruled_out else Verdict.UNCLEAR


def _by_cell(report: Report) -> dict[CellKey, Runs]:
    cells: dict[CellKey, Runs] = {}
    for run in report["runs"]:
        if run["phase"] == "measured":
            key = (run["set"], run["language"], load_of(run))
            cells.setdefault(key, []).append(run)
    return cells


def _drifts(old: Report, new: Report) -> dict[CellKey, float]:
    """How far the machine itself moved in each cell, as an absolute log ratio."""
    before, after = (
        {(cell["set"], cell["language"], load_of(cell)): cell for cell in report["cells"]}
        for report in (old, new)
    )
    num_cores = old["identity"].get("usable_cores") or 1
    share = PACE_SHARE.get(old["identity"].get("device", "").partition(":")[0], 1.0)
    return {
        key: share
        * (_pace_drift(before[key], after[key]) + _room_drift(before[key], after[key], num_cores))
        for key in before
        if key in after
    }


def _pace_drift(old: dict[str, Any], new: dict[str, Any]) -> float:
    if not old.get("probe_s") or not new.get("probe_s"):
        return 0.0
    return abs(math.log(new["probe_s"] / old["probe_s"]))


def _room_drift(old: dict[str, Any], new: dict[str, Any], num_cores: int) -> float:
    """Of the cores that others left, where both reports tell."""
    if old.get("taken_s") is None or new.get("taken_s") is None:
        return 0.0
    before, after = (
        num_cores - min(cell["taken_s"] / cell["cell_wall_s"], MOST_TAKEN * num_cores)
        for cell in (old, new)
    )
    return abs(math.log(after / before))


def _values(runs: Runs, metric: str) -> dict[tuple[str, int], float]:
    """By prompt and seed, of the runs that ended well."""
    return {(run["prompt"], run["seed"]): run[metric] for run in runs if run["status"] == "ok"}


def _paired(old: Runs, new: Runs, metric: str) -> list[tuple[float, float]]:
    """Values of runs that ended well in both, of the same prompt and seed."""
    before, after = _values(old, metric), _values(new, metric)
    return [(before[run], after[run]) for run in before if run in after]


def _log_ratios(old: Runs, new: Runs, metric: str) -> list[float]:
    return [math.log(after / before) for before, after in _paired(old, new, metric)]


def _change(
    key: CellKey,
    metric: str,
    pairs: list[tuple[float, float]],
    logs: list[float],
    pooled: float | None,
    drift: float,
    fail_over: float,
) -> Change:
    if not pairs:
        return Change(key, metric, 0, None, None, None, None, Verdict.UNKNOWN)
    old, new = (float(np.median(values)) for values in zip(*pairs, strict=True))
    log_ratio = float(np.median(logs))
    log_noise = None
    if pooled is not None:
        log_noise = drift + median_noise(logs, pooled)
    noise = None if log_noise is None else math.expm1(log_noise)
    verdict = _judged(log_ratio, log_noise, fail_over)
    return Change(key, metric, len(pairs), old, new, math.exp(log_ratio), noise, verdict)


def _failures(key: CellKey, old: Runs, new: Runs) -> Change | None:
    """A change when a larger share of the new runs failed."""
    before, after = (sum(run["status"] != "ok" for run in runs) / len(runs) for runs in (old, new))
    if after <= before:
        return None
    return Change(key, "failed", len(new), before, after, None, None, Verdict.FAILING)
