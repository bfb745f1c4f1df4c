"""What is known of a row: each take of it, what judges say of a take, and how the row ended."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from voxcli.audio.resample import Samples
from voxcli.batch.jobs import Job, Standing, Status
from voxcli.config import MAX_SEED
from voxcli.utterance import SegmentReport, Utterance

SEED_STEP = 101  # from take to take; clear of the seeds that the output guard's own retries use


@dataclass(frozen=True)
class Take:
    """A row as it was just spoken, for a judge.

    Attributes:
        utterance: as spoken; differs from the job's after a retry.
        text: what was said, all segments.
        number: 1 for the first take.
        server: that spoke it, where there are several.
        silences: start and length in samples of what the text asks for by marks.
    """

    job: Job
    utterance: Utterance
    text: str
    language: str
    samples: Samples
    sample_rate: int
    number: int
    segments: tuple[SegmentReport, ...]
    server: str = ""
    silences: tuple[tuple[int, int], ...] = ()


@dataclass(frozen=True)
class Verdict:
    """What becomes of a row's samples once they are there.

    Attributes:
        samples: to be written, changed or not.
        facts: for the report and the manifest.
        again: an utterance to speak instead, or None to keep the samples.
        reason: why again.
        excess: how much is wrong with samples that may be kept all the same; of several takes the
            one with the least is kept. None with `again`: they may not be kept.
        segments: with their times in these samples; None where those of the take hold.
    """

    samples: Samples
    facts: dict[str, Any] = field(default_factory=dict)
    again: Utterance | None = None
    reason: str = ""
    excess: float | None = None
    segments: tuple[SegmentReport, ...] | None = None


Judge = Callable[[Take], Verdict]


def next_take(take: Take) -> Utterance:
    """The same utterance with another seed, for a judge that wants another take."""
    sampling = take.utterance.sampling
    assert sampling.seed is not None
    seed = (sampling.seed + SEED_STEP) % (MAX_SEED + 1)
    return replace(take.utterance, sampling=replace(sampling, seed=seed))


@dataclass(frozen=True)
class Outcome:
    """How a row ended.

    Attributes:
        reason: why it failed, was skipped, or had been done again.
        facts: numbers of the file and of the speech, as in the manifest.
    """

    job: Job
    status: Status
    reason: str = ""
    facts: dict[str, Any] = field(default_factory=dict)


def recorded_outcome(standing: Standing, entry: Mapping[str, Any]) -> Outcome:
    """The outcome that a line of the manifest stands for."""
    others = {"output", "number", "status", "key", "reason"}
    if standing.status is Status.FAILED:
        others |= {"sha256", "bytes"}  # of a file from before
    facts = {name: fact for name, fact in entry.items() if name not in others}
    return Outcome(standing.job, standing.status, standing.reason, facts)


@dataclass
class Tally:
    """How far a run is.

    Attributes:
        started: on `time.perf_counter`, which goes on from process to process; None before.
    """

    num_done: int = 0
    num_failed: int = 0
    audio_s: float = 0.0
    started: float | None = None

    def start(self) -> None:
        """Unless another process of the run has."""
        if self.started is None:
            self.started = time.perf_counter()

    @property
    def wall_s(self) -> float:
        return 0.0 if self.started is None else time.perf_counter() - self.started

    @property
    def speed_x(self) -> float:
        return self.audio_s / max(self.wall_s, 1e-9)

    def add(self, outcome: Outcome) -> None:
        self.num_done += 1
        self.num_failed += outcome.status is Status.FAILED
        self.audio_s += outcome.facts.get("audio_s", 0.0)
