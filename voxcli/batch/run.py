"""Speaks the rows that are to do, side by side on one engine, and keeps each once it is whole.

The engine's thread does nothing else: checking, encoding, hashing and syncing happen on two writer
threads. Rows start in an order that keeps the engine busy to the end; what they sound like does not
depend on it. A row that fails is recorded and the others go on; what concerns them all (the device,
the disk) ends the run, with every finished row kept. Rows that were being spoken at a fault of the
engine are suspected of it: they come last and alone, and one that meets another fault has failed.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from voxcli.audio.resample import Samples
from voxcli.audio.write import AudioWriter
from voxcli.batch.casting import Casting
from voxcli.batch.folder import OutputFolder
from voxcli.batch.manifest import DONE, FAILED, Manifest
from voxcli.batch.preflight import Job
from voxcli.batch.resume import Standing, Status
from voxcli.config import MAX_SEED
from voxcli.errors import (
    EngineError,
    EngineFaultError,
    OutputError,
    OutputExistsError,
    SynthesisError,
    VoxError,
)
from voxcli.hub import file_sha256
from voxcli.utterance import SegmentReport, Utterance

if TYPE_CHECKING:
    from voxcli.speech import Speech
    from voxcli.synthesizer import SpeechGroup, Synthesizer

NUM_WRITERS = 2
WINDOW = 128  # rows among which the longest starts first
SEED_STEP = 101  # from take to take; clear of the seeds that the output guard's own retries use


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
    """

    samples: Samples
    facts: dict[str, Any] = field(default_factory=dict)
    again: Utterance | None = None
    reason: str = ""
    excess: float | None = None


Judge = Callable[["Take"], Verdict]


@dataclass(frozen=True)
class Take:
    """A row as it was just spoken, for a judge.

    Attributes:
        utterance: as spoken; differs from the job's after a retry.
        text: what was said, all segments.
        number: 1 for the first take.
    """

    job: Job
    utterance: Utterance
    text: str
    language: str
    samples: Samples
    sample_rate: int
    number: int
    segments: tuple[SegmentReport, ...]


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


@dataclass(frozen=True)
class Storage:
    """How files are written, see `AudioWriter`."""

    bits: str | None = None
    rate: int | None = None


class BatchRun:
    """One pass over the rows that are to do.

    Args:
        tally: is kept up to date.
        values_of: the values in effect for a job, for its line in the manifest.
        judges: looked at in order when a row has been spoken; they run on writer threads, may
            change the samples, and may ask for another take, which those after it then hear.
        on_outcome: called for each row that ended, on the thread of `run`.
        is_stopping: no further row starts once it says so; those in flight are finished.
    """

    def __init__(
        self,
        synthesizer: Synthesizer,
        folder: OutputFolder,
        manifest: Manifest,
        casting: Casting,
        storage: Storage,
        tally: Tally,
        values_of: Callable[[Job], Mapping[str, Any]],
        *,
        judges: Sequence[Judge] = (),
        on_outcome: Callable[[Outcome, Tally], None] = lambda outcome, tally: None,
        is_stopping: Callable[[], bool] = lambda: False,
    ) -> None:
        self._synthesizer = synthesizer
        self._folder = folder
        self._manifest = manifest
        self._casting = casting
        self._storage = storage
        self._tally = tally
        self._values_of = values_of
        self._judges = judges
        self._on_outcome = on_outcome
        self._is_stopping = is_stopping
        self._speaking: dict[Speech, _Row] = {}
        self._writing: dict[Future[_Ended], _Row] = {}
        self._again: deque[_Row] = deque()

    def run(self, standings: Iterable[Standing]) -> None:
        """Speak what is PENDING.

        Raises:
            EngineFaultError: the engine failed; the manifest says while which rows were spoken.
            OutputError: a file could not be written, such as on a full disk.
        """
        self._tally.start()
        todo = [standing for standing in standings if standing.status is Status.PENDING]
        rows = [_Row(standing) for standing in in_order_of_work(todo)]
        suspects = self._manifest.suspects
        pool = ThreadPoolExecutor(NUM_WRITERS, "writer")
        try:
            with self._synthesizer.group() as group:
                ordinary = deque(row for row in rows if row.job.name not in suspects)
                self._speak(group, pool, ordinary, self._synthesizer.max_streams)
                alone = deque(row for row in rows if row.job.name in suspects)
                self._speak(group, pool, alone, 1)
        except EngineFaultError as err:
            self._take_fault(err)
            raise
        finally:
            pool.shutdown(cancel_futures=True)
            self._keep_what_is_written()

    def _speak(
        self, group: SpeechGroup, pool: ThreadPoolExecutor, queue: deque[_Row], max_rows: int
    ) -> None:
        while self._start_rows(group, queue, max_rows) or self._speaking or self._writing:
            if self._speaking:
                self._step(group, pool)
            self._collect(is_waiting=not self._speaking or len(self._writing) > max_rows)

    def _take_fault(self, error: EngineFaultError) -> None:
        """Record who was being spoken; who was at a fault before has failed."""
        suspects = set(self._manifest.suspects)
        names = [row.job.name for row in self._speaking.values()]
        self._manifest.append_fault(error.message, names)
        why = EngineError(f"{error.message}; at two faults this row was being spoken")
        for row in self._speaking.values():
            if row.job.name in suspects:
                self._end(row, self._failed(row, why))

    def _start_rows(self, group: SpeechGroup, queue: deque[_Row], max_rows: int) -> bool:
        """Fill the engine; whether anything waits to be started."""
        if self._is_stopping():
            queue.clear()
            self._again.clear()
        while len(self._speaking) < max_rows and (self._again or queue):
            row = self._again.popleft() if self._again else queue.popleft()
            try:
                utterance = self._casting.fill(row.job.row, row.utterance)
                self._speaking[group.add(utterance, is_live=False)] = row
            except VoxError as err:
                self._end(row, self._failed(row, err))
        return bool(self._again or queue)

    def _step(self, group: SpeechGroup, pool: ThreadPoolExecutor) -> None:
        for speech, event in group.step():
            row = self._speaking.get(speech)
            if row is None:
                continue
            if isinstance(event, VoxError):
                del self._speaking[speech]
                if row.best is not None and isinstance(event, SynthesisError):
                    self._writing[pool.submit(self._keep, row, row.best)] = row
                else:
                    self._end(row, self._failed(row, event))
                continue
            row.parts.append(event.samples)
            if event.is_last:
                del self._speaking[speech]
                take = self._take(row, speech)
                self._writing[pool.submit(self._finish, row, take)] = row

    def _take(self, row: _Row, speech: Speech) -> Take:
        samples, row.parts = np.concatenate(row.parts), []
        text = speech.plan.text
        return Take(
            row.job, row.utterance, text.text, text.language, samples,
            self._synthesizer.sample_rate, row.num_takes, speech.reports,
        )  # fmt: skip

    def _collect(self, *, is_waiting: bool) -> None:
        if is_waiting and self._writing:
            wait(self._writing, return_when=FIRST_COMPLETED)
        for future in [future for future in self._writing if future.done()]:
            row = self._writing.pop(future)
            try:
                ended = future.result()
            except OutputError:
                raise
            except VoxError as err:
                ended = self._failed(row, err)
            if isinstance(ended, Outcome):
                self._end(row, ended)
            else:
                row.utterance = ended
                row.num_takes += 1
                self._again.append(row)

    def _keep_what_is_written(self) -> None:
        """Count rows whose files were finished while something else ended the run."""
        for future, row in self._writing.items():
            if future.done() and not future.cancelled() and future.exception() is None:
                ended = future.result()
                if isinstance(ended, Outcome):
                    self._end(row, ended)
        self._writing = {}

    def _end(self, row: _Row, outcome: Outcome) -> None:
        self._tally.add(outcome)
        self._on_outcome(outcome, self._tally)

    def _failed(self, row: _Row, error: VoxError) -> Outcome:
        """Record that a row could not be spoken; a file it had before stays ours."""
        facts: dict[str, Any] = {"takes": row.num_takes, "refused": row.refused, **row.facts}
        if isinstance(error, SynthesisError):
            facts |= {"finish_reason": error.finish_reason, "attempts": error.attempts}
        before = self._manifest.rows.get(row.job.name, {})
        names = ("sha256", "bytes")
        owned: dict[str, Any] = {name: before[name] for name in names if name in before}
        self._manifest.append({
            "output": row.job.name, "status": FAILED, "key": row.job.key,
            "number": row.job.row.number, "reason": str(error), **facts, **owned,
        })  # fmt: skip
        return Outcome(row.job, Status.FAILED, str(error), facts)

    # ------------------------------------------------------------ on a writer thread

    def _finish(self, row: _Row, take: Take) -> _Ended:
        """Judge a take and keep it, or the best so far; an utterance where it is spoken again."""
        try:
            again = self._judge(row, take)
        except SynthesisError as err:  # it was the last take; an earlier one may do
            if row.best is None:
                raise
            row.refused.append(str(err))
            again = None
        if again is not None:
            return again
        assert row.best is not None, "a take that is not spoken again may be kept"
        return self._keep(row, row.best)

    def _judge(self, row: _Row, take: Take) -> Utterance | None:
        """Ask every judge; what may be kept and is the best so far becomes `row.best`."""
        row.facts = {}
        verdict = Verdict(take.samples)
        for judge in self._judges:
            verdict = judge(take)
            row.facts |= verdict.facts
            take = replace(take, samples=verdict.samples)
            if verdict.again is not None:
                row.refused.append(verdict.reason)
                break
        excess = verdict.excess or 0.0
        is_usable = verdict.again is None or verdict.excess is not None
        if is_usable and (row.best is None or excess < row.best.excess):
            row.best = _Kept(take, row.facts, excess)
        return verdict.again

    def _keep(self, row: _Row, kept: _Kept) -> Outcome:
        """Write, record and publish a take."""
        job, name, take = row.job, row.job.name, kept.take
        staged = self._folder.staged(name, job.row.number)
        with AudioWriter(
            staged, take.sample_rate, rate=self._storage.rate, bits=self._storage.bits
        ) as writer:
            writer.write(take.samples)
            written = writer.commit()
        self._folder.make_parent(name)
        facts: dict[str, Any] = {
            "audio_s": round(written.audio_s, 6),
            "sample_rate": written.sample_rate,
            "num_frames": written.num_frames,
            "peak": round(written.peak, 4),
            "takes": row.num_takes,
            "attempts": max(segment.attempts for segment in take.segments),
            "seeds": [segment.seed for segment in take.segments],
            "spoken_text": take.text,
            "spoken_language": take.language,
            "warnings": [warning for segment in take.segments for warning in segment.warnings],
            "refused": [
                *row.refused,
                *(reason for segment in take.segments for reason in segment.refused),
            ],
            "bytes": staged.stat().st_size,
            "sha256": file_sha256(staged),
            **kept.facts,
        }
        values = self._values_of(job)
        reason = row.standing.reason
        entry = {
            **values, "output": name, "status": DONE, "key": job.key, "reason": reason, **facts
        }  # fmt: skip
        self._manifest.append(entry)
        try:
            self._folder.publish(staged, name, overwrite=row.standing.replaces)
        except OutputExistsError as err:  # somebody was faster: the file is not ours
            why = {"output": name, "status": "skipped", "key": job.key, "reason": str(err)}
            self._manifest.append(why)
            return Outcome(job, Status.SKIPPED, str(err))
        return Outcome(job, Status.OK, reason, facts)


_Ended = Outcome | Utterance


@dataclass(frozen=True)
class _Kept:
    """A take that may become the file, and how much is wrong with it."""

    take: Take
    facts: dict[str, Any]
    excess: float


@dataclass(eq=False)
class _Row:
    """A row on its way.

    Attributes:
        facts: what judges found about the last take.
        refused: why takes were not the last.
        best: what becomes the file when no take is better.
    """

    standing: Standing
    utterance: Utterance = field(init=False)
    num_takes: int = 1
    parts: list[Samples] = field(default_factory=list)
    facts: dict[str, Any] = field(default_factory=dict)
    refused: list[str] = field(default_factory=list)
    best: _Kept | None = None

    def __post_init__(self) -> None:
        self.utterance = self.standing.job.utterance

    @property
    def job(self) -> Job:
        return self.standing.job


def in_order_of_work(standings: Sequence[Standing]) -> list[Standing]:
    """The longest first within a window, so that the last rows end together and none runs alone."""
    ordered: list[Standing] = []
    for first in range(0, len(standings), WINDOW):
        window = standings[first : first + WINDOW]
        ordered += sorted(window, key=lambda each: -each.job.estimated_audio_s)
    return ordered


def recorded_outcome(standing: Standing, entry: Mapping[str, Any]) -> Outcome:
    """The outcome that a line of the manifest stands for."""
    others = {"output", "number", "status", "key", "reason"}
    if standing.status is Status.FAILED:
        others |= {"sha256", "bytes"}  # of a file from before
    facts = {name: fact for name, fact in entry.items() if name not in others}
    return Outcome(standing.job, standing.status, standing.reason, facts)


def next_take(take: Take) -> Utterance:
    """The same utterance with another seed, for a judge that wants another take."""
    sampling = take.utterance.sampling
    assert sampling.seed is not None
    seed = (sampling.seed + SEED_STEP) % (MAX_SEED + 1)
    return replace(take.utterance, sampling=replace(sampling, seed=seed))
