"""One utterance on its way: segments to requests, checked samples back in order.

`SegmentedSpeech` is host bookkeeping alone, for every engine that speaks segment by segment.
Whoever drives the engine submits its requests and hands it the outputs; it answers with chunks that
may leave. A segment that the output guard refuses
is tried again with the next seed, as long as none of it has left.

Two ways to leave. Held: a segment leaves when it is whole and checked (files). Live: the segment
whose turn it is leaves chunk by chunk (loudspeaker, pipe); what can only be known later, such as a
missing end, stops the speech with an error.

`max_seconds` is held where samples leave, since only there it is known how long all of them are:
pauses, tempo and segments that were made side by side are counted in. What would be longer is cut
there, and the last report says so.

Silence that the text asks for by a mark is zeros, as many as it says: no tempo changes it, and the
voice's own silence before and after it goes.
"""

from __future__ import annotations

import math
import sys
import time
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Generic, Protocol, TypeVar

import numpy as np

from voxcli.audio.guard import ProblemKind, check_audio, max_audio_seconds
from voxcli.audio.joins import FADE_S, QUIET, PauseFitter, fade, silences
from voxcli.audio.resample import EMPTY
from voxcli.audio.stretch import TimeStretch
from voxcli.engine.base import Speech
from voxcli.engine.planning import segment_seed
from voxcli.errors import SynthesisError, UsageError, told_apart
from voxcli.plan import Plan
from voxcli.text import Segment
from voxcli.utterance import AudioChunk, FinishReason, SegmentReport

MIN_PAUSE_S = 0.06  # between two words of a sentence that was too long for one segment
MAX_END_S = 0.2  # of the voice's own silence after its last sound: no more is waited for or written

# What is wrong with every speech whose end was not waited for
_OF_AN_END = (ProblemKind.TRUNCATED, ProblemKind.TAIL_CUT)


class SegmentRequest(Protocol):
    """One attempt at one segment, as this module sees it.

    Attributes:
        seed: of all that is random in it.
        max_frames: it is stopped there, with reason LENGTH.
        step: frames made so far.
    """

    seed: int
    max_frames: int
    step: int


R = TypeVar("R", bound=SegmentRequest)


@dataclass
class _SegmentRun(Generic[R]):
    """One segment's attempts."""

    segment: Segment
    request: R | None = None
    attempt: int = 0
    chunks: list[np.ndarray] = field(default_factory=list)
    num_left: int = 0  # chunks of this attempt that have left already
    refused: list[str] = field(default_factory=list)
    report: SegmentReport | None = None
    is_limited: bool = False  # stopped because no more of it may leave
    span: tuple[float, float] | None = None  # seconds of the audio in which it sounds

    def report_of(self, rate: int, reason: FinishReason, *warnings: str) -> SegmentReport:
        """How it went up to now."""
        assert self.request is not None
        return SegmentReport(
            text=self.segment.text,
            seed=self.request.seed,
            attempts=self.attempt + 1,
            num_frames=self.request.step,
            audio_s=sum(map(len, self.chunks)) / rate,
            finish_reason=reason,
            warnings=warnings,
            refused=tuple(self.refused),
        )


class SegmentedSpeech(Speech, ABC, Generic[R]):
    """The state of one utterance; an engine says how a request of its own is made.

    Args:
        plan: what to say.
        sample_rate: Hz of the speech.
        frame_s: seconds of a frame.
        min_frames: the shortest speech that the model makes.
        is_live: let the segment at the front leave unfinished.
        started_s: when it was asked for, on `time.perf_counter`.

    Raises:
        UsageError: the audio may not be as long as the model's shortest.
    """

    def __init__(
        self,
        plan: Plan,
        sample_rate: int,
        frame_s: float,
        *,
        is_live: bool,
        started_s: float,
        min_frames: int = 1,
    ) -> None:
        super().__init__(plan, sample_rate, is_live=is_live, started_s=started_s)
        self._frame_s = frame_s
        self._min_frames = min_frames
        self._check_length()
        self._runs: list[_SegmentRun[R]] = [_SegmentRun(each) for each in plan.text.segments]
        self._front = 0  # segment whose samples leave next
        self._unsubmitted = deque(range(len(self._runs)))
        self._by_request: dict[R, int] = {}
        speed, max_seconds = plan.utterance.speed, plan.utterance.sampling.max_seconds
        self._max_samples = self._max_frames = sys.maxsize
        if max_seconds is not None:  # one frame more, so that its end shows whether it was all
            self._max_samples = math.floor(max_seconds * sample_rate)
            self._max_frames = math.ceil(max_seconds * speed / frame_s) + 1
        self._is_cut = False
        self._pauses = PauseFitter()
        self._held = EMPTY  # the last samples that may leave, which a cut would fade
        self._lead_s = plan.text.silence_s  # of silence that has not left
        self._stretch: TimeStretch | None = None
        self._begin_stretch()

    def _check_length(self) -> None:
        max_seconds = self.plan.utterance.sampling.max_seconds
        shortest_s = self._min_frames * self._frame_s / self.plan.utterance.speed
        if max_seconds is not None and max_seconds < shortest_s:
            most, least = told_apart(max_seconds, shortest_s, 2)
            raise UsageError(
                f"--max-seconds is {most}, but this model speaks {least} s or more",
                hint="raise it",
            )

    # ------------------------------------------------------------ requests

    @property
    def is_done(self) -> bool:  # type: ignore[override]
        return self._front == len(self._runs)

    @property
    def reports(self) -> tuple[SegmentReport, ...]:  # type: ignore[override]
        return tuple(run.report for run in self._runs if run.report is not None)

    @property
    def requests(self) -> list[R]:
        """Requests in flight."""
        return list(self._by_request)

    def next_request(self) -> R | None:
        """The next segment to submit; None when all are, or while it has to wait.

        The first segment runs alone until its first samples, so that they come soon; with
        continuity each one waits for the one before.
        """
        is_first_silent = self.ttfa_s is None and len(self._unsubmitted) < len(self._runs)
        if not self._unsubmitted or (self.is_live and is_first_silent):
            return None
        if self.plan.utterance.continuity and self._by_request:  # the one before is not known yet
            return None
        return self._new_request(self._unsubmitted.popleft())

    def _new_request(self, index: int) -> R:
        run, plan = self._runs[index], self.plan
        max_frames = round(max_audio_seconds(run.segment.text, plan.text.language) / self._frame_s)
        run.request = self._make_request(
            self._prompt_text(index),
            segment_seed(plan.seed, index, run.attempt),
            max(self._min_frames, min(max_frames, self._max_frames)),
        )
        self._by_request[run.request] = index
        return run.request

    @abstractmethod
    def _make_request(self, text: str, seed: int, max_frames: int) -> R:
        """A request of the engine's own kind.

        Args:
            text: of the segment, as the model gets it.
        """

    def _carry(self, text: str, samples: np.ndarray) -> None:
        """Let the next segment continue this one, where the engine can.

        Args:
            text: of the segment, as the model had it.
            samples: float32 `[S]`, the whole segment.
        """

    def _prompt_text(self, index: int) -> str:
        """The segment as the model gets it: an unmarked cut inside a text reads like a comma."""
        text = self._runs[index].segment.text
        comma = "," if index < len(self._runs) - 1 and text[-1].isalnum() else ""
        return f"{text}{comma}"

    # ------------------------------------------------------------ outputs

    def accept(self, request: R, samples: np.ndarray, reason: FinishReason | None) -> R | None:
        """Take new samples of one of its requests.

        Returns:
            a request to submit instead, when this attempt was refused.

        Raises:
            SynthesisError: refused for good: no attempts left, or part of it has left already.
        """
        index = self._by_request[request]
        run = self._runs[index]
        if self.ttfa_s is None:
            self.ttfa_s = time.perf_counter() - self.started_s
        run.chunks.append(samples)
        if reason is None:
            if np.isfinite(samples).all():
                return None
            return self._retry(index, None, "samples are NaN or infinite")
        problems = check_audio(
            np.concatenate(run.chunks), self.sample_rate, run.segment.text,
            self.plan.text.language,
        )  # fmt: skip
        is_limited = request.max_frames == self._max_frames and reason is FinishReason.LENGTH
        if is_limited:  # its end is not to be heard
            problems = tuple(each for each in problems if each.kind not in _OF_AN_END)
        fatal = [problem.message for problem in problems if problem.is_fatal]
        if reason is not FinishReason.STOP and not is_limited:
            cap_s = request.max_frames * self._frame_s
            fatal.insert(0, f"no end within {cap_s:.1f} s (finish reason: {reason})")
        if fatal:
            return self._retry(index, reason, "; ".join(fatal))
        del self._by_request[request]
        run.is_limited = is_limited
        run.report = run.report_of(
            self.sample_rate, reason, *(problem.message for problem in problems)
        )
        if self.plan.utterance.continuity and self._unsubmitted:
            self._carry(self._prompt_text(index), np.concatenate(run.chunks))
        return None

    def _retry(self, index: int, reason: FinishReason | None, why: str) -> R | None:
        run = self._runs[index]
        assert run.request is not None
        self._by_request.pop(run.request, None)
        run.refused.append(why)
        sampling = self.plan.utterance.sampling
        shown = run.segment.text if len(run.segment.text) <= 60 else run.segment.text[:59] + "…"
        if run.num_left:
            raise SynthesisError(
                f"speech of '{shown}' failed after a part of it was sent: {why}",
                hint="try another --seed, or write to a file, where it is tried again",
                finish_reason=reason,
                attempts=run.attempt + 1,
            )
        if run.attempt >= sampling.retries:
            raise SynthesisError(
                f"speech of '{shown}' was refused {run.attempt + 1} times: {why}",
                hint="try another --seed, or change the text",
                finish_reason=reason,
                attempts=run.attempt + 1,
            )
        run.attempt += 1
        run.chunks = []
        return self._new_request(index)

    # ------------------------------------------------------------ chunks

    def ready_chunks(self) -> Iterator[AudioChunk]:
        """Chunks that may leave now, in order."""
        while not self.is_done:
            run = self._runs[self._front]
            if run.report is None and not (self.is_live and run.chunks):
                return
            if self._lead_s:
                lead_s, self._lead_s = self._lead_s, 0.0
                yield from self._emit_silence(lead_s, self._front)
            while run.num_left < len(run.chunks):
                samples = run.chunks[run.num_left]
                run.num_left += 1
                yield from self._emit_speech(self._pauses.push(samples), self._front)
                if self.is_done:
                    return
            if run.report is None:
                return
            run.chunks = []
            yield from self._end_segment(run)

    def _end_segment(self, run: _SegmentRun[R]) -> Iterator[AudioChunk]:
        """Let the silence after a segment leave; after the last one the voice's own, if short."""
        index = self._front
        if run.is_limited:
            self._cut(index)
        self._tell_span(run)
        if run.segment.silence_s and not self._is_cut:
            yield from self._emit(self._pauses.end_segment(0), index)
            if not self.is_done:
                yield from self._emit_silence(run.segment.silence_s, index)
            if self.is_done:
                return
            self._front = index + 1
            if self.is_done:
                yield from self._emit(EMPTY, index)
            return
        asked_s = self.plan.utterance.pause_s
        pause_s = max(MIN_PAUSE_S, run.segment.pause_s) if asked_s is None else asked_s
        is_last = index == len(self._runs) - 1
        length = None if is_last else round(pause_s * self.sample_rate)
        silence = self._pauses.end_segment(length)
        if is_last and run.span is not None:  # a voice that is quiet throughout is no silence
            silence = silence[: round(MAX_END_S * self.plan.utterance.speed * self.sample_rate)]
        self._front = index + 1
        yield from self._emit(silence, index)

    def _emit_speech(self, samples: np.ndarray, index: int) -> Iterator[AudioChunk]:
        """Let samples of a segment leave, and note where in the audio they sound."""
        run = self._runs[index]
        if len(samples):
            if run.span is None:
                start_s = self._time_s(int(np.argmax(np.abs(samples) >= QUIET)))
            else:
                start_s, _ = run.span
            # told before they leave: where the audio is cut, it is cut in them
            run.span = start_s, self._time_s(len(samples))
        yield from self._emit(samples, index)

    def _emit_silence(self, seconds: float, index: int) -> Iterator[AudioChunk]:
        """Let exact silence leave, which no tempo changes."""
        if self._stretch is not None:
            yield from self._leave(self._stretch.flush(), index)
        for block in silences(round(seconds * self.sample_rate), self.sample_rate):
            if self.is_done:
                break
            yield from self._leave(block, index)
        self._begin_stretch()
        self._pauses.after_exact()

    def _begin_stretch(self) -> None:
        speed = self.plan.utterance.speed
        self._stretch = TimeStretch(self.sample_rate, speed) if speed != 1.0 else None
        self._pushed_rate = self.sample_rate * speed
        self._begun_s = (self.num_samples + len(self._held)) / self.sample_rate
        self._num_pushed = 0

    def _time_s(self, num_more: int) -> float:
        """How long the audio will be of all that was pushed, and of so many samples more."""
        return self._begun_s + (self._num_pushed + num_more) / self._pushed_rate

    def _emit(self, samples: np.ndarray, index: int) -> Iterator[AudioChunk]:
        """Let samples leave at the tempo of the speech."""
        self._num_pushed += len(samples)
        if self._stretch is not None:
            samples = self._stretch.push(samples)
            if self.is_done:
                samples = np.concatenate((samples, self._stretch.flush()))
        yield from self._leave(samples, index)

    def _leave(self, samples: np.ndarray, index: int) -> Iterator[AudioChunk]:
        samples = np.concatenate((self._held, samples)) if len(self._held) else samples
        self._held = EMPTY
        room = self._max_samples - self.num_samples
        if len(samples) > room:
            lost = samples[room:]
            samples = fade(samples[:room], self.sample_rate, in_s=0.0)
            if not self.is_done or np.abs(lost).max() >= QUIET:
                self._cut(index)
        elif not self.is_done:
            free = max(0, room - round(FADE_S * self.sample_rate))
            samples, self._held = samples[:free], samples[free:]
        self.num_samples += len(samples)
        if self.is_done:
            self.wall_s = time.perf_counter() - self.started_s
        if len(samples) or self.is_done:
            yield AudioChunk(samples, self.sample_rate, index, is_last=self.is_done)

    def _tell_span(self, run: _SegmentRun[R]) -> None:
        if run.report is not None and run.span is not None:
            longest_s = self._max_samples / self.sample_rate
            start_s, end_s = (min(round(each, 6), longest_s) for each in run.span)
            run.report = replace(run.report, start_s=start_s, end_s=end_s)

    def _cut(self, index: int) -> None:
        """End the speech in this segment, because it may be no longer; what follows is given up."""
        if self._is_cut:
            return
        self._is_cut = True
        run, max_s = self._runs[index], self._max_samples / self.sample_rate
        why = f"cut at {round(max_s, 1):g} s, the longest that was asked for"
        if num_left := len(self._runs) - 1 - index:
            why += f"; {num_left} of {len(self._runs)} segments come after it and are not spoken"
        length = FinishReason.LENGTH
        run.report = replace(
            run.report or run.report_of(self.sample_rate, length),
            finish_reason=length,
            warnings=(*(run.report.warnings if run.report else ()), why),
        )
        self._tell_span(run)
        del self._runs[index + 1 :]
        self._unsubmitted.clear()
        self._by_request.clear()
        self._front = len(self._runs)
