"""How much of a difference may be chance: between runs, and between whole reports.

Between paired runs of two reports: three standard errors of the median of their log ratios, from
the pairs' own spread: 1.4826 times their median absolute deviation with the small-sample factors of
Rousseeuw and Croux (1993), which a few outliers do not move. A cell of few pairs can look calm by
luck, so the spread is never taken below that of all cells together.

Two processes of one program differ too, by where their memory lies and by what the machine did that
minute; no spread inside a report tells by how much, only more reports do. They are made in turn, so
that each old one has a new one of the same minutes, and the pairs are explained by least squares,

    log (new / old) = difference + slope * log (pace of new / pace of old) + rest,

the pace being `cells.probe_s`. On a card whose host has fast and slow minutes RTF follows the pace
with a correlation of 0.96, but by an eighth of it, so the slope is fitted and not assumed. Where
the pace alone tells the sides apart, the noise grows. Knows no report; numbers only.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

NUM_ERRORS = 3.0  # false alarms from noise alone: about 1 in 700 a cell and metric
MIN_PAIRS = 3  # in the whole report; fewer have no spread to speak of
_SMALL_SAMPLE = {2: 1.196, 3: 1.495, 4: 1.363, 5: 1.206, 6: 1.200, 7: 1.140, 8: 1.129, 9: 1.107}
_NORMAL = 2.5758  # 99.5 % of a normal distribution
# Student's t, 99.5 %, from 1 degree of freedom on; then by its expansion about the normal.
_STUDENT = (63.657, 9.925, 5.841, 4.604, 4.032, 3.707, 3.499, 3.355)


def centred(values: Sequence[float]) -> list[float]:
    """Distances from the median."""
    centre = float(np.median(values)) if values else 0.0
    return [abs(value - centre) for value in values]


def spread(deviations: Sequence[Sequence[float]]) -> float | None:
    """Robust standard deviation of groups, each about its own median; None below `MIN_PAIRS`."""
    scaled = [
        _SMALL_SAMPLE.get(len(group), len(group) / (len(group) - 0.8)) * value
        for group in deviations
        if len(group) >= 2
        for value in group
    ]
    return 1.4826 * float(np.median(scaled)) if len(scaled) >= MIN_PAIRS else None


def median_noise(values: Sequence[float], least_spread: float) -> float:
    """Three standard errors of the median, sqrt(pi / 2) times those of the mean."""
    own = max(least_spread, spread([centred(values)]) or 0.0)
    return NUM_ERRORS * math.sqrt(math.pi / 2 / len(values)) * own


def student(freedom: int) -> float:
    """The 99.5 % quantile of Student's t: exceeded by chance once in 200 times."""
    if freedom <= len(_STUDENT):
        return _STUDENT[freedom - 1]
    z = _NORMAL
    first = (z**3 + z) / 4
    second = (5 * z**5 + 16 * z**3 + 3 * z) / 96
    third = (3 * z**7 + 19 * z**5 + 17 * z**3 - 15 * z) / 384
    return z + first / freedom + second / freedom**2 + third / freedom**3


def difference(logs: Sequence[float], paces: Sequence[float] | None) -> tuple[float, float | None]:
    """How much the new side is above the old one, and how much of it may be chance.

    Args:
        logs: log (new / old) of each pair of reports.
        paces: the same of the machine's pace; None where not all reports tell it.

    Returns:
        the difference and its noise, both as logarithms; no noise where the reports are too few.
    """
    columns = [np.ones(len(logs))]
    if paces is not None and np.ptp(paces) > 0:
        columns.append(np.array(paces))
    design = np.stack(columns, axis=1)
    freedom = len(logs) - design.shape[1]
    if freedom < 1:
        return float(np.mean(logs)), None
    solution = np.linalg.lstsq(design, np.array(logs), rcond=None)[0]
    rest = logs - design @ solution
    variance = float(rest @ rest) / freedom * np.linalg.inv(design.T @ design)[0, 0]
    return float(solution[0]), student(freedom) * math.sqrt(variance)
