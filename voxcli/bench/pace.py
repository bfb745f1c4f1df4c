"""How fast this machine is at the moment: a fixed piece of work, timed.

Shared and throttled machines run at another speed an hour later. Reports keep the probe of each
cell, so that `compare` does not take that for a change of what was measured. Knows no bench.
"""

from __future__ import annotations

import statistics
import time

import numpy as np

NUM_PROBES = 15  # the median of so many; some 30 ms in all
_ROUNDS = 400


def probe() -> float:
    """Seconds of the fixed work: small operations and their dispatch, as in a step on the CPU."""
    work = np.linspace(0.0, 1.0, 1024, dtype=np.float32)
    times = []
    for _ in range(NUM_PROBES):
        began_s = time.perf_counter()
        for _ in range(_ROUNDS):
            np.multiply(work, 0.999, out=work)
            np.add(work, 0.001, out=work)
        times.append(time.perf_counter() - began_s)
    return statistics.median(times)
