"""Keeps streams in flight and times them from outside, as a caller sees them.

Closed loop: a number of users, each starts its next utterance when the last one ends. Open loop:
utterances start at planned times whatever is in flight. It sees chunks and errors, never the
engine behind them. Time is read once after each step, when its chunks are on the host.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Protocol

import numpy as np

from voxcli.bench.cells import Job, utterance_of
from voxcli.bench.metrics import Run, underrun
from voxcli.engine.base import Speech, SpeechSession
from voxcli.errors import VoxError
from voxcli.plan import Plan
from voxcli.utterance import AudioChunk, FinishReason, Utterance

MAX_NAP_S = 0.05  # an idle open loop looks up this often, so that Ctrl-C and the table stay alive


class Speaker(Protocol):
    """What the driver needs of a `SpeechEngine`."""

    def plan(self, utterance: Utterance) -> Plan: ...

    def session(self) -> SpeechSession: ...


@dataclass(frozen=True)
class Take:
    """A finished run and, where asked for, its samples."""

    run: Run
    samples: np.ndarray | None


@dataclass
class _Flight:
    job: Job
    started_s: float
    arrivals: list[tuple[float, int]] = field(default_factory=list)
    parts: list[np.ndarray] = field(default_factory=list)
    sample_rate: int = 0


class _Alarm:
    """Wakes a session that waits for news from elsewhere when the next utterance is due."""

    def __init__(self) -> None:
        self._job: Job | None = None
        self._timer: threading.Timer | None = None

    def set(self, job: Job, due_s: float, session: SpeechSession) -> None:
        if job is self._job:
            return
        self.cancel()
        self._job = job
        self._timer = threading.Timer(max(0.0, due_s), session.wake)
        self._timer.daemon = True
        self._timer.start()

    def cancel(self) -> None:
        if self._timer is not None:
            self._timer.cancel()


@dataclass(frozen=True)
class Driver:
    """How utterances are spoken and timed.

    Attributes:
        manner: voice, style and settings of every utterance; its text is not spoken.
        is_live: chunks leave as they are made; False holds a segment until it is checked.
        on_tick: called after every step.
        clock, sleep: seconds; tests bring their own.
    """

    speaker: Speaker
    manner: Utterance
    is_live: bool = True
    is_keeping: bool = False
    on_tick: Callable[[], None] = lambda: None
    clock: Callable[[], float] = time.perf_counter
    sleep: Callable[[float], None] = time.sleep

    def drive(
        self, jobs: Sequence[Job], num_users: int | None, on_take: Callable[[Take], None]
    ) -> None:
        """Speak all jobs.

        Args:
            num_users: streams in flight; None starts each job at its `arrival_s`.
            on_take: gets each run when it ends, failed ones too.
        """
        waiting, flights = deque(jobs), dict[Speech, _Flight]()
        began_s = self.clock()
        session = self.speaker.session()
        alarm = _Alarm()
        try:
            while waiting or flights:
                self._admit(session, waiting, flights, num_users, began_s, on_take)
                if waiting and waiting[0].arrival_s is not None:
                    due_s = began_s + waiting[0].arrival_s - self.clock()
                    alarm.set(waiting[0], due_s, session)
                if not flights:
                    self._nap(waiting, began_s)
                    continue
                try:
                    events = session.step()
                except VoxError as err:  # the device failed: nothing in flight is left
                    session.close()
                    session = self.speaker.session()
                    events = [(speech, err) for speech in flights]
                now_s = self.clock()
                for speech, event in events:
                    if take := self._accept(speech, event, flights[speech], now_s, began_s):
                        del flights[speech]
                        on_take(take)
                self.on_tick()
        finally:
            alarm.cancel()
            session.close()

    def _admit(
        self,
        session: SpeechSession,
        waiting: deque[Job],
        flights: dict[Speech, _Flight],
        num_users: int | None,
        began_s: float,
        on_take: Callable[[Take], None],
    ) -> None:
        """Start what is due."""
        while waiting:
            job, now_s = waiting[0], self.clock()
            if job.arrival_s is not None:
                started_s = began_s + job.arrival_s
                if now_s < started_s:
                    return
            elif num_users is not None and len(flights) >= num_users:
                return
            else:
                started_s = now_s
            waiting.popleft()
            flight = _Flight(job, started_s)
            utterance = utterance_of(job.prompt, self.manner, job.seed)
            try:
                speech = session.add(self.speaker.plan(utterance), is_live=self.is_live)
            except VoxError as err:
                on_take(Take(_failed(flight, err, began_s), None))
            else:
                flights[speech] = flight

    def _nap(self, waiting: deque[Job], began_s: float) -> None:
        if waiting:
            due_s = began_s + (waiting[0].arrival_s or 0.0) - self.clock()
            self.sleep(min(max(due_s, 0.0), MAX_NAP_S))
            self.on_tick()

    def _accept(
        self,
        speech: Speech,
        event: AudioChunk | VoxError,
        flight: _Flight,
        now_s: float,
        began_s: float,
    ) -> Take | None:
        """Take note of a chunk or an error; returns the take when it was the last."""
        if isinstance(event, VoxError):
            return Take(_failed(flight, event, began_s), None)
        if len(event.samples):
            flight.arrivals.append((now_s, len(event.samples)))
            flight.sample_rate = event.sample_rate
            if self.is_keeping:
                flight.parts.append(event.samples)
        if not event.is_last:
            return None
        samples = np.concatenate(flight.parts) if flight.parts else None
        return Take(_finished(flight, speech, now_s, began_s), samples)


def _base(flight: _Flight, status: str, began_s: float) -> Run:
    job, prompt = flight.job, flight.job.prompt
    return Run(
        phase=job.phase,
        set=prompt.set,
        language=prompt.language,
        prompt=prompt.id,
        num_characters=len(prompt.text),
        concurrency=job.concurrency,
        rate=job.rate,
        seed=job.seed,
        status=status,
        started_s=flight.started_s - began_s,
        num_chunks=len(flight.arrivals),
    )


def _failed(flight: _Flight, error: VoxError, began_s: float) -> Run:
    return replace(
        _base(flight, "failed", began_s),
        error=error.message,
        finish_reason=getattr(error, "finish_reason", None),
        attempts=getattr(error, "attempts", None),
    )


def _finished(flight: _Flight, speech: Speech, now_s: float, began_s: float) -> Run:
    num_samples = sum(count for _, count in flight.arrivals)
    wall_s, audio_s = now_s - flight.started_s, num_samples / flight.sample_rate
    frames = sum(report.num_frames for report in speech.reports) or None
    reasons = {report.finish_reason for report in speech.reports}
    return replace(
        _base(flight, "ok", began_s),
        ttfa_s=flight.arrivals[0][0] - flight.started_s,
        wall_s=wall_s,
        audio_s=audio_s,
        sample_rate=flight.sample_rate,
        rtf=wall_s / audio_s,
        speed_x=audio_s / wall_s,
        frames=frames,
        ms_per_frame=1000 * wall_s / frames if frames else None,
        underrun_s=underrun(flight.arrivals, flight.sample_rate),
        num_segments=len(speech.reports),
        finish_reason=str(max(reasons, key=list(FinishReason).index)),
        attempts=max(report.attempts for report in speech.reports),
    )
