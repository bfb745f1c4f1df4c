"""Speaks the rows that are to do, side by side on one engine, and keeps each once it is whole.

The engine's thread does nothing else: checking, encoding, hashing and syncing happen on two writer
threads. Rows start in an order that keeps the engine busy to the end; what they sound like does not
depend on it. A row that fails is recorded and the others go on; what concerns them all (the device,
the disk) ends the run, with every finished row kept. Rows that were being spoken at a fault of the
engine are suspected of it: they come last and alone, and one that meets another fault has failed.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait

import numpy as np

from voxcli.batch.casting import Casting
from voxcli.batch.jobs import Standing, Status
from voxcli.batch.keep import Keeper, RowInWork
from voxcli.batch.manifest import Manifest
from voxcli.batch.planner import Planner
from voxcli.batch.takes import Outcome, Take, Tally
from voxcli.engine.base import Speech, SpeechEngine, SpeechSession
from voxcli.errors import EngineError, EngineFaultError, OutputError, SynthesisError, VoxError
from voxcli.text.prepared import PreparedText
from voxcli.utterance import FinishReason, SegmentReport, Utterance

NUM_WRITERS = 2
WINDOW = 128  # rows among which the longest starts first
SEGMENT_CHARS = 100  # of a text that is not planned yet
AHEAD = 2  # times the segments that are spoken at once may wait in rows that have started
MOST_ELSEWHERE = 16  # segments that a row counts as where a server shares it out


class BatchRun:
    """One pass over the rows that are to do.

    Args:
        engine: who speaks, started.
        keeper: judges and writes what was spoken, on writer threads.
        tally: is kept up to date.
        on_outcome: called for each row that ended, on the thread of `run`.
        is_stopping: no further row starts once it says so; those in flight are finished.
    """

    def __init__(
        self,
        engine: SpeechEngine,
        manifest: Manifest,
        casting: Casting,
        keeper: Keeper,
        tally: Tally,
        on_outcome: Callable[[Outcome, Tally], None],
        is_stopping: Callable[[], bool],
    ) -> None:
        self._engine = engine
        self._manifest = manifest
        self._casting = casting
        self._keeper = keeper
        self._tally = tally
        self._on_outcome = on_outcome
        self._is_stopping = is_stopping
        self._speaking: dict[Speech, RowInWork] = {}
        self._writing: dict[Future[Outcome | Utterance], RowInWork] = {}
        self._again: deque[RowInWork] = deque()

    def run(self, standings: Iterable[Standing]) -> None:
        """Speak what is PENDING.

        Raises:
            EngineFaultError: the engine failed; the manifest says while which rows were spoken.
            OutputError: a file could not be written, such as on a full disk.
        """
        self._tally.start()
        todo = [standing for standing in standings if standing.status is Status.PENDING]
        rows = [RowInWork(standing) for standing in in_order_of_work(todo)]
        suspects = self._manifest.suspects
        pool = ThreadPoolExecutor(NUM_WRITERS, "writer")
        try:
            with (
                self._engine.session() as session,
                Planner(self._engine, session.wake) as planner,
            ):
                ordinary = deque(row for row in rows if row.job.name not in suspects)
                self._speak(session, planner, pool, ordinary, self._max_streams)
                alone = deque(row for row in rows if row.job.name in suspects)
                self._speak(session, planner, pool, alone, lambda: 1)
        except EngineFaultError as err:
            self._take_fault(err)
            raise
        finally:
            pool.shutdown(cancel_futures=True)
            self._keep_what_is_written()

    def _max_streams(self) -> int:
        return self._engine.facts.max_streams

    def _speak(
        self,
        session: SpeechSession,
        planner: Planner,
        pool: ThreadPoolExecutor,
        queue: deque[RowInWork],
        max_rows: Callable[[], int],
    ) -> None:
        while (
            self._start_rows(session, planner, queue, max_rows()) or self._speaking or self._writing
        ):
            if self._speaking:
                self._step(session, pool)
            self._collect(is_waiting=not self._speaking or len(self._writing) > max_rows())

    def _take_fault(self, error: EngineFaultError) -> None:
        """Record who was being spoken; who was at a fault before has failed."""
        suspects = set(self._manifest.suspects)
        names = [row.job.name for row in self._speaking.values()]
        self._manifest.append_fault(error.message, names)
        why = EngineError(f"{error.message}; the engine failed twice while it spoke this row")
        for row in self._speaking.values():
            if row.job.name in suspects:
                self._end(row, self._keeper.failed(row, why))

    def _start_rows(
        self, session: SpeechSession, planner: Planner, queue: deque[RowInWork], max_rows: int
    ) -> bool:
        """Fill the engine; whether anything waits to be started."""
        if self._is_stopping():
            queue.clear()
            self._again.clear()
            planner.drop()
            self._leave_waiting(session)
        room = self._room(planner, max_rows)
        while room > 0 and len(self._speaking) + len(planner) < max_rows and (self._again or queue):
            row = self._again.popleft() if self._again else queue.popleft()
            room -= self._weight(1 + len(row.utterance.text) // SEGMENT_CHARS)
            try:
                planner.ask(row, self._casting.fill(row.job.row, row.utterance))
            except VoxError as err:
                self._end(row, self._keeper.failed(row, err))
        for row, plan in planner.take(is_waiting=not (self._speaking or self._writing)):
            try:
                if isinstance(plan, VoxError):
                    raise plan
                self._speaking[session.add(plan, is_live=False)] = row
            except EngineFaultError:  # concerns them all
                raise
            except VoxError as err:
                self._end(row, self._keeper.failed(row, err))
        return bool(self._again or queue or len(planner))

    def _room(self, planner: Planner, max_rows: int) -> int:
        """Segments by which rows may start.

        Rows that are spoken side by side end together. So of long ones, such as the chapters of a
        book, no more start than keep the engine busy: those that end are safe, and need no memory.
        """
        waiting = sum(self._weight(1 + len(row.utterance.text) // SEGMENT_CHARS)
                      for row in planner.rows)  # fmt: skip
        waiting += sum(
            self._weight(len(speech.plan.text.segments) - len(speech.reports))
            for speech in self._speaking
        )
        return AHEAD * max_rows - waiting

    def _weight(self, num_segments: int) -> int:
        """What a row with so many segments left takes of the room."""
        most = MOST_ELSEWHERE if self._engine.facts.is_elsewhere else num_segments
        return max(1, min(num_segments, most))

    def _leave_waiting(self, session: SpeechSession) -> None:
        """Leave rows that nobody speaks to the next run."""
        for speech in [each for each in self._speaking if session.is_waiting(each)]:
            del self._speaking[speech]
            session.leave(speech)

    def _step(self, session: SpeechSession, pool: ThreadPoolExecutor) -> None:
        for speech, event in session.step():
            row = self._speaking.get(speech)
            if row is None:
                continue
            if isinstance(event, VoxError):
                del self._speaking[speech]
                if row.best is not None and isinstance(event, SynthesisError):
                    self._writing[pool.submit(self._keeper.keep, row)] = row
                else:
                    self._end(row, self._keeper.failed(row, event))
                continue
            row.parts.append(event.samples)
            if event.is_last:
                del self._speaking[speech]
                take = self._take(row, speech)
                self._writing[pool.submit(self._keeper.finish, row, take)] = row

    def _take(self, row: RowInWork, speech: Speech) -> Take:
        samples, row.parts = np.concatenate(row.parts), []
        text, rate = speech.plan.text, self._engine.facts.sample_rate
        return Take(
            row.job, row.utterance, text.text, text.language, samples, rate,
            row.num_takes, speech.reports, speech.made_by, silences_in(text, speech.reports, rate),
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
                ended = self._keeper.failed(row, err)
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

    def _end(self, row: RowInWork, outcome: Outcome) -> None:
        self._tally.add(outcome)
        self._on_outcome(outcome, self._tally)


def silences_in(
    text: PreparedText, reports: Sequence[SegmentReport], rate: int
) -> tuple[tuple[int, int], ...]:
    """Start and length in samples of the silence that a text asks for, where it was spoken so."""
    found = [(0.0, text.silence_s)]
    found += [
        (report.end_s, segment.silence_s)
        for segment, report in zip(text.segments, reports, strict=False)
        if report.finish_reason is FinishReason.STOP  # what was cut has none after it
    ]
    return tuple((round(at * rate), round(length * rate)) for at, length in found if length)


def in_order_of_work(standings: Sequence[Standing]) -> list[Standing]:
    """The longest first within a window, so that the last rows end together and none runs alone."""
    ordered: list[Standing] = []
    for first in range(0, len(standings), WINDOW):
        window = standings[first : first + WINDOW]
        ordered += sorted(window, key=lambda each: -each.job.estimated_audio_s)
    return ordered
