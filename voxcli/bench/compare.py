"""Two reports side by side: what got slower, by more than the noise of the runs?

Runs are paired by prompt, load and seed, so that both sides did the same work. A cell's change is
the median of the pairs' log ratios. Its noise is three standard errors of that median, from the
pairs' own spread: 1.4826 times their median absolute deviation with the small-sample factors of
Rousseeuw and Croux (1993), which a few outliers do not move. A cell of few pairs can look calm by
luck, so the spread is never taken below that of all cells of the metric together. Runs of one
report share the machine at that time: how far its pace moved between the reports (`probe_s` of the
cells), and the cores that others left of it (`taken_s`), is added to the noise.
A change counts when it exceeds both the noise and the threshold.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

import numpy as np

from voxcli.bench.report import Report
from voxcli.bench.tables import load_of
from voxcli.errors import UsageError

METRICS = ("ttfa_s", "rtf")
NUM_ERRORS = 3.0  # false alarms from noise alone: about 1 in 700 a cell and metric
MOST_TAKEN = 0.9  # of all cores, in the arithmetic
MIN_PAIRS = 3  # in the whole report; fewer have no spread to speak of
_SMALL_SAMPLE = {2: 1.196, 3: 1.495, 4: 1.363, 5: 1.206, 6: 1.200, 7: 1.140, 8: 1.129, 9: 1.107}
_SAME = (
    *("model", "checksum", "engine", "precision", "device_name", "threads", "max_slots"),
    *("voice_key", "mode", "style"),
)
_SAME_OPTIONS = ("steps", "is_streaming")

CellKey = tuple[str, str, str]  # set, language, load


class Verdict(StrEnum):
    """What a change means."""

    SAME = "same"  # within the noise or the threshold
    FASTER = "faster"
    SLOWER = "slower"
    FAILING = "failing"  # a larger share of the runs failed
    UNKNOWN = "unknown"  # too few pairs to know the noise, or no runs left


@dataclass(frozen=True)
class Change:
    """One metric of one cell.

    Attributes:
        old, new: medians of the paired runs.
        ratio: new / old, the median over the pairs; above 1 is slower.
        noise: relative change that noise alone may cause, 0.03 for 3 %; None if not known.
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


def differences(old: Report, new: Report) -> list[str]:
    """What makes the two incomparable, one line each."""
    found = []
    for part, names in (("identity", _SAME), ("options", _SAME_OPTIONS)):
        for name in names:
            before, after = old[part].get(name), new[part].get(name)
            if before != after:
                found.append(f"{name}: {before} and {after}")
    if old["stamp"] != new["stamp"]:
        found.append(f"stamp: {old['stamp']} and {new['stamp']}")
    return found


def compare(old: Report, new: Report, fail_over: float, *, is_forced: bool = False) -> list[Change]:
    """Every metric of every cell that both reports have.

    Args:
        fail_over: relative change that still counts as the same, 0.05 for 5 %.
        is_forced: compare different cards, models or settings too.

    Raises:
        UsageError: the reports are of different things, or share no cell.
    """
    unlike = differences(old, new)
    if unlike and not is_forced:
        message = f"the reports are of different things ({'; '.join(unlike)})"
        raise UsageError(message, hint="add --force to compare them all the same")
    before, after = _by_cell(old), _by_cell(new)
    shared = [key for key in before if key in after]
    if not shared:
        raise UsageError("the reports share no prompt set, language and load")
    drifts = _drifts(old, new)
    changes: list[Change] = []
    for metric in METRICS:
        logs = {key: _log_ratios(before[key], after[key], metric) for key in shared}
        pooled = _spread([_centred(values) for values in logs.values()])
        for key in shared:
            pairs = _paired(before[key], after[key], metric)
            drift = drifts.get(key, 0.0)
            changes.append(_change(key, metric, pairs, logs[key], pooled, drift, fail_over))
    changes += [change for key in shared if (change := _failures(key, before[key], after[key]))]
    return sorted(changes, key=lambda change: shared.index(change.cell))


def _by_cell(report: Report) -> dict[CellKey, list[dict[str, Any]]]:
    cells: dict[CellKey, list[dict[str, Any]]] = {}
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
    return {
        key: _pace_drift(before[key], after[key]) + _room_drift(before[key], after[key], num_cores)
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


def _paired(
    old: list[dict[str, Any]], new: list[dict[str, Any]], metric: str
) -> list[tuple[float, float]]:
    """Values of runs that ended well in both, of the same prompt and seed."""
    values = {(run["prompt"], run["seed"]): run[metric] for run in old if run["status"] == "ok"}
    pairs = []
    for run in new:
        before = values.get((run["prompt"], run["seed"]))
        if run["status"] == "ok" and before:
            pairs.append((float(before), float(run[metric])))
    return pairs


def _log_ratios(old: list[dict[str, Any]], new: list[dict[str, Any]], metric: str) -> list[float]:
    return [math.log(after / before) for before, after in _paired(old, new, metric)]


def _centred(values: list[float]) -> list[float]:
    centre = float(np.median(values)) if values else 0.0
    return [abs(value - centre) for value in values]


def _spread(deviations: Sequence[list[float]]) -> float | None:
    """Robust standard deviation of groups, each about its own median; None below `MIN_PAIRS`."""
    scaled = [
        _SMALL_SAMPLE.get(len(group), len(group) / (len(group) - 0.8)) * value
        for group in deviations
        if len(group) >= 2
        for value in group
    ]
    return 1.4826 * float(np.median(scaled)) if len(scaled) >= MIN_PAIRS else None


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
    noise = None
    verdict = Verdict.UNKNOWN
    if pooled is not None:
        spread = max(pooled, _spread([_centred(logs)]) or 0.0)
        # the median's standard error is sqrt(pi / 2) times the mean's
        log_noise = drift + NUM_ERRORS * math.sqrt(math.pi / 2 / len(logs)) * spread
        noise = math.expm1(log_noise)
        limit = max(log_noise, math.log1p(fail_over))
        verdict = Verdict.SAME
        if abs(log_ratio) > limit:
            verdict = Verdict.SLOWER if log_ratio > 0 else Verdict.FASTER
    return Change(key, metric, len(pairs), old, new, math.exp(log_ratio), noise, verdict)


def _failures(key: CellKey, old: list[dict[str, Any]], new: list[dict[str, Any]]) -> Change | None:
    """A change when a larger share of the new runs failed."""
    before, after = (sum(run["status"] != "ok" for run in runs) / len(runs) for runs in (old, new))
    if after <= before:
        return None
    return Change(key, "failed", len(new), before, after, None, None, Verdict.FAILING)
