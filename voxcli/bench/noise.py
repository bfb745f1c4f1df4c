"""How much of a difference may be chance: between runs, and between whole reports.

Between paired runs of two reports: three standard errors of the median of their log ratios, from
the pairs' own spread: 1.4826 times their median absolute deviation with the small-sample factors of
Rousseeuw and Croux (1993), which a few outliers do not move. A cell of few pairs can look calm by
luck, so the spread is never taken below that of all cells together. Own code: scipy has neither
these factors nor a deviation of several groups, each about its own median.

Two processes of one program differ too, by where their memory lies and by what the machine did that
minute; no spread inside a report tells by how much, only more reports do. They are made in turn, so
that each old one has a new one of the same minutes, and the pairs are explained by least squares,

    log (new / old) = difference + slope * log (pace of new / pace of old) + rest,

the pace being `cells.probe_s`. On a card whose host has fast and slow minutes RTF follows the pace
with a correlation of 0.96, but by an eighth of it, so the slope is fitted and not assumed. Where
the pace alone tells the sides apart, the noise grows. That fit and Student's t are scipy's. Knows
no report; numbers only.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

NUM_ERRORS = 3.0  # false alarms from noise alone: about 1 in 700 a cell and metric
MIN_PAIRS = 3  # in the whole report; fewer have no spread to speak of
BEYOND = 0.995  # quantile of Student's t: exceeded by chance once in 200 times
_SMALL_SAMPLE = {2: 1.196, 3: 1.495, 4: 1.363, 5: 1.206, 6: 1.200, 7: 1.140, 8: 1.129, 9: 1.107}


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


def difference(logs: Sequence[float], paces: Sequence[float] | None) -> tuple[float, float | None]:
    """How much the new side is above the old one, and how much of it may be chance.

    Args:
        logs: log (new / old) of each pair of reports.
        paces: the same of the machine's pace; None where not all reports tell it.

    Returns:
        the difference and its noise, both as logarithms; no noise where the reports are too few.
    """
    from scipy import stats  # a second to import, and only folders of reports need it

    is_fitted = paces is not None and np.ptp(paces) > 0
    freedom = len(logs) - 1 - is_fitted
    if freedom < 1:
        return float(np.mean(logs)), None
    if is_fitted:
        line = stats.linregress(paces, logs)
        found = float(line.intercept)
        error = float(line.intercept_stderr) if np.ptp(logs) > 0 else 0.0  # of a report and itself
    else:
        found, error = float(np.mean(logs)), float(stats.sem(logs))
    return found, float(stats.t.ppf(BEYOND, freedom)) * error
