"""How fast this machine is at the moment, and how much of it others take.

Shared and throttled machines run at another speed an hour later. Reports keep both for each cell,
so that `compare` does not take that for a change of what was measured. Own code: this is measuring,
for which scipy has nothing, and the counts are a few lines of one file. Knows no bench.
"""

from __future__ import annotations

import os
import statistics
import time
from pathlib import Path

import numpy as np

NUM_PROBES = 15  # the median of so many; some 30 ms in all
_ROUNDS = 400
_STAT = Path("/proc/stat")
_IDLE = slice(3, 5)  # of a core's counters: idle, and waiting for a disk
_GUEST = 8  # from here on, counted before


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


def taken_s() -> float | None:
    """CPU seconds that others, the hypervisor among them, have had of our cores since the start.

    None where the system does not tell.
    """
    try:
        cores = {f"cpu{number}" for number in os.sched_getaffinity(0)}
        rows = [line.split() for line in _STAT.read_text("ascii").splitlines()]
        ticks = 0
        for name, *counters in rows:
            if name in cores:
                counts = [int(value) for value in counters[:_GUEST]]
                ticks += sum(counts) - sum(counts[_IDLE])
        return ticks / os.sysconf("SC_CLK_TCK") - time.process_time()
    except (OSError, AttributeError, ValueError):
        return None
