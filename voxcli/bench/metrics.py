"""One run's numbers, a cell's statistics, and the one place that says what each of them means.

A run is one utterance spoken once. A cell is one prompt set in one language at one concurrency (or
arrival rate). Pure arithmetic: knows no model and no clock.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

CONTINUITY_LIMIT_S = 0.1  # a shorter shortage hides in any player's own buffer
PERCENTILES = (50, 90, 95, 99)
SUMMARIES = {"ttfa_s": "ttfa_s", "e2e_s": "wall_s", "rtf": "rtf", "underrun_s": "underrun_s"}

DEFINITIONS = {
    "ttfa_s": "time to first audio: seconds from the call (open loop: from the planned arrival) to "
    "the first samples on the host, text preparation included",
    "wall_s": "seconds from the call (open loop: from the planned arrival) to the last samples on "
    "the host; called e2e_s in statistics",
    "audio_s": "seconds of audio: samples received / the model's own sample_rate",
    "rtf": "real-time factor: wall_s / audio_s; lower is better, below 1 is faster than real time",
    "speed_x": 'audio_s / wall_s; higher is better ("x real time")',
    "frames": "frames generated for the segments that were kept; null where the engine does not "
    "count them",
    "ms_per_frame": "1000 * wall_s / frames, with everything that is in wall_s",
    "underrun_s": "worst shortage, in seconds, of a player that starts with the first chunk and "
    "consumes in real time without ever waiting; 0 means that it never runs dry",
    "continuity_ok": f"share of runs whose underrun_s is at most {CONTINUITY_LIMIT_S:g} s",
    "attempts": "largest number of tries that a segment of the run took",
    "finish_reason": "stop: the model's own end; length: a cap; abort: an engine fault",
    "phase": "first: the first request after loading; warmup; measured. Only measured runs are in "
    "statistics",
    "status": "ok or failed; failed runs are counted and are in no statistic but num_failed",
    "concurrency": "closed loop: streams kept in flight, a new one starts when one ends; null in "
    "an open loop",
    "rate": "open loop: mean arrivals a second of a Poisson process drawn from the seed; null in a "
    "closed loop",
    "mean, std": "over the runs of the cell; std with n - 1, null below two runs",
    "p50 .. p99": "percentiles with linear interpolation between the closest ranks "
    "(numpy.percentile, method='linear')",
    "audio_throughput": "audio seconds a second: sum of audio_s of the cell / its cell_wall_s",
    "requests_per_s": "runs that ended well / cell_wall_s",
    "cell_wall_s": "seconds from the first call to the last sample of the measured runs of a cell",
    "setup.import_s": "importing torch and the engine in this process",
    "setup.load_s": "finding the device, reading the weights, allocating the engine's state; "
    "includes capture_s",
    "setup.capture_s": "capturing CUDA graphs: num_captures graphs, capture_bytes of device memory",
    "setup.encode_s": "encoding num_encoded reference recordings; within setup.first_ttfa_s, and 0 "
    "for a saved voice",
    "setup.first_ttfa_s, setup.first_wall_s": "ttfa_s and wall_s of the first request after "
    "loading",
    "breakdown": "one run outside all statistics with the engine's stages timed one by one "
    "(on a GPU with a synchronisation after each); host_s is the rest; empty for an engine that "
    "cannot tell",
    "memory.peak_rss_bytes": "largest resident memory of this process",
    "memory.peak_gpu_allocated_bytes, memory.peak_gpu_reserved_bytes": "largest values of torch's "
    "allocator; null without a GPU",
    "cells.memory": "the same peaks over the measured runs of the cell alone; resident memory only "
    "on Linux",
    "cells.probe_s": "a fixed piece of work on the CPU, median of before and after the cell and, "
    "with one stream, between its runs: the pace of the machine itself",
    "cells.taken_s": "CPU seconds that other programs, or other guests of the same host, had of "
    "the cores we may use, over the measured runs; null where the system does not tell",
}


@dataclass(frozen=True)
class Run:
    """One utterance spoken once; fields as in `DEFINITIONS`, None where a failed run has none."""

    phase: str
    set: str
    language: str
    prompt: str
    num_characters: int
    concurrency: int | None
    rate: float | None
    seed: int
    status: str
    started_s: float
    ttfa_s: float | None = None
    wall_s: float | None = None
    audio_s: float | None = None
    sample_rate: int | None = None
    rtf: float | None = None
    speed_x: float | None = None
    frames: int | None = None
    ms_per_frame: float | None = None
    underrun_s: float | None = None
    num_chunks: int = 0
    num_segments: int | None = None
    finish_reason: str | None = None
    attempts: int | None = None
    error: str | None = None
    file: str | None = None

    @property
    def is_ok(self) -> bool:
        return self.status == "ok"

    def as_json(self) -> dict[str, Any]:
        return asdict(self)


def underrun(arrivals: Sequence[tuple[float, int]], sample_rate: int) -> float:
    """Worst shortage of a real-time player; `arrivals` are (seconds, samples) of each chunk."""
    first_s = arrivals[0][0]
    worst_s = played_s = 0.0
    for at_s, num_samples in arrivals:
        worst_s = max(worst_s, (at_s - first_s) - played_s)
        played_s += num_samples / sample_rate
    return worst_s


def summarize(values: Iterable[float]) -> dict[str, float | None]:
    """n, mean, std, min, max and percentiles; None where there are too few values."""
    array = np.array(list(values), np.float64)
    names = [f"p{percent}" for percent in PERCENTILES]
    if not len(array):
        return {"n": 0} | dict.fromkeys(("mean", "std", "min", "max", *names))
    found = np.percentile(array, PERCENTILES, method="linear")
    return {
        "n": len(array),
        "mean": float(array.mean()),
        "std": float(array.std(ddof=1)) if len(array) > 1 else None,
        "min": float(array.min()),
        "max": float(array.max()),
        **{name: float(value) for name, value in zip(names, found, strict=True)},
    }


def cell_statistics(runs: Sequence[Run], cell_wall_s: float) -> dict[str, Any]:
    """Statistics of the measured runs of one cell."""
    good = [run for run in runs if run.is_ok]
    summaries = {
        name: summarize(getattr(run, field) for run in good) for name, field in SUMMARIES.items()
    }
    audio_s = sum(run.audio_s or 0.0 for run in good)
    smooth = [(run.underrun_s or 0.0) <= CONTINUITY_LIMIT_S for run in good]
    return {
        "n": len(good),
        "num_failed": len(runs) - len(good),
        "cell_wall_s": cell_wall_s,
        "audio_s": audio_s,
        "audio_throughput": audio_s / cell_wall_s if good else None,
        "requests_per_s": len(good) / cell_wall_s if good else None,
        "continuity_ok": sum(smooth) / len(good) if good else None,
        "ms_per_frame": summarize(run.ms_per_frame for run in good if run.ms_per_frame is not None),
        **summaries,
    }
