"""Speaks a source into an outlet.

Speech is made in the calling thread, one text at a time, and no further ahead of the listener than
the outlet allows.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from voxcli.errors import SynthesisError, UsageError, VoxError
from voxcli.streaming.outlet import Made, Outlet
from voxcli.streaming.source import Item, Source
from voxcli.text.prepared import PAUSE_LINE_S, PAUSE_PARAGRAPH_S, PAUSE_SENTENCE_S
from voxcli.utterance import FinishReason, SegmentReport

if TYPE_CHECKING:
    from voxcli.audio.joins import TextPauses
    from voxcli.audio.resample import Samples
    from voxcli.engine.base import SpeechEngine
    from voxcli.plan import Plan

IDLE_S = 0.1  # between looks at a source that has nothing, and at an outlet that is full


@dataclass
class StreamReport:
    """How a stream went, while it goes.

    Attributes:
        begun_at: the clock when the first text was taken.
        wall_s: spent making speech, waiting left out.
        audio_s: speech made.
        ttfa_s: from the first text to its first samples.
        plan: of the latest text.
        failed: what could not be spoken, by line.
        finish_reason: LENGTH where a limit ended it before its texts did.
    """

    begun_at: float | None = None
    wall_s: float = 0.0
    audio_s: float = 0.0
    ttfa_s: float | None = None
    num_texts: int = 0
    plan: Plan | None = None
    failed: list[tuple[int, VoxError]] = field(default_factory=list)
    segments: list[SegmentReport] = field(default_factory=list)
    finish_reason: FinishReason = FinishReason.STOP


class Streamer:
    """Speaks a source into an outlet.

    Args:
        max_seconds: of all lines together; one text is limited by its own plan.
        on_progress: called several times a second.
        on_failure: called with a line's number and why it was not spoken.
    """

    def __init__(
        self,
        engine: SpeechEngine,
        source: Source,
        outlet: Outlet,
        *,
        max_seconds: float | None = None,
        on_progress: Callable[[], None] = lambda: None,
        on_failure: Callable[[int, VoxError], None] = lambda line, err: None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.report = StreamReport()
        self._engine = engine
        self._source = source
        self._outlet = outlet
        self._on_progress = on_progress
        self._on_failure = on_failure
        self.clock = clock
        self._rate = engine.facts.sample_rate
        self._max_seconds = max_seconds if source.is_by_line else None
        self._pauses: TextPauses | None = None
        if source.is_by_line:
            from voxcli.audio.joins import TextPauses  # imports numpy, which one text may not need

            self._pauses = TextPauses(self._rate)
        self._num_samples = 0

    def run(self) -> StreamReport:
        """Speak to the end of the source and wait until all was heard.

        Raises:
            VoxError: the outlet or the engine failed, or the one text could not be spoken. The
                sound has been ended.
        """
        try:
            while not self._source.is_over and self.report.finish_reason is FinishReason.STOP:
                item = self._source.next(IDLE_S)
                self._tick()
                if item is not None:
                    self._take(item)
                    if not self._source.has_waiting:
                        self._outlet.rest()
            self._outlet.finish(self._on_progress)
        except BaseException:
            self._outlet.interrupt()
            raise
        return self.report

    def _take(self, item: Item) -> None:
        error = item.error
        if item.plan is not None:
            try:
                self._speak_within_limit(item.plan)
            except SynthesisError as err:
                if not self._source.is_by_line:
                    raise
                error = err
            if self._pauses is not None and self.report.finish_reason is FinishReason.STOP:
                pause_s = PAUSE_SENTENCE_S if item.is_part else PAUSE_LINE_S
                is_asked = item.plan.text.ends_in_silence  # and in what is held
                self._write(self._pauses.end_text(pause_s, is_asked=is_asked), Made())
        elif self._pauses is None or error is not None:
            pass
        elif item.silence_s:
            self._rest(self._pauses.rest(item.silence_s))
        elif item.is_rest:
            self._write(self._pauses.lengthen(PAUSE_LINE_S - PAUSE_SENTENCE_S), Made())
        else:
            longer = self._pauses.lengthen(PAUSE_PARAGRAPH_S - PAUSE_LINE_S, is_last=True)
            self._write(longer, Made())
        if error is not None:
            self.report.failed.append((item.line, error))
            self._on_failure(item.line, error)

    def _speak_within_limit(self, plan: Plan) -> None:
        """Speak a text, as far as those before it left room for it."""
        if self._max_seconds is None:
            self._speak(plan)
            return
        left_s = self._max_seconds - self.report.audio_s
        try:
            sampling = replace(plan.utterance.sampling, max_seconds=left_s)
            self._speak(replace(plan, utterance=replace(plan.utterance, sampling=sampling)))
        except UsageError:  # no room for the model's shortest speech
            if not self.report.audio_s:
                raise
            self.report.finish_reason = FinishReason.LENGTH

    def _speak(self, plan: Plan) -> None:
        report = self.report
        report.num_texts += 1
        report.plan = plan
        self._wait_for_room()
        report.begun_at = report.begun_at or self.clock()
        text_s, is_first = 0.0, True
        num_passed = 0 if self._pauses is None else self._pauses.begin_text(plan.text.silence_s)
        begun_s = (self._num_samples - num_passed) / self._rate
        with self._engine.stream(plan, is_live=True) as stream:
            while True:
                started = self.clock()
                chunk = next(stream, None)
                wall_s = self.clock() - started
                report.wall_s += wall_s
                if chunk is None:
                    break
                if report.ttfa_s is None:
                    report.ttfa_s = stream.speech.ttfa_s
                samples = self._fitted(chunk.samples)
                text_s += len(samples) / self._rate
                remaining_s = max(0.0, plan.estimated_audio_s - text_s)
                self._write(samples, Made(wall_s, is_first, text_s, remaining_s))
                is_first = False
                self._wait_for_room()
            report.segments += [each.later(begun_s) for each in stream.speech.reports]
            report.finish_reason = stream.speech.finish_reason

    def _fitted(self, samples: Samples) -> Samples:
        """A text's last silence waits until its length is known."""
        return samples if self._pauses is None else self._pauses.push(samples)

    def _rest(self, num_samples: int) -> None:
        """Write so many samples of silence."""
        from voxcli.audio.joins import silences

        for block in silences(num_samples, self._rate):
            self._wait_for_room()
            self._write(block, Made())

    def _write(self, samples: Samples, made: Made) -> None:
        if self._max_seconds is not None:  # the pause after a line may be too long
            room = math.floor(self._max_seconds * self._rate) - self._num_samples
            samples = samples[:room]
        if len(samples):
            self._num_samples += len(samples)
            self.report.audio_s = self._num_samples / self._rate
            self._outlet.write(samples, made)
        self._tick()

    def _wait_for_room(self) -> None:
        while self._outlet.is_full:
            time.sleep(IDLE_S)
            self._tick()

    def _tick(self) -> None:
        self._outlet.keep_up()
        self._on_progress()
