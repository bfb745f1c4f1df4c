"""Speech on its way to a listener: texts from a source, spoken one after the other into an outlet.

A source is one text, or lines that arrive while earlier ones are spoken. An outlet is a
loudspeaker, a pipe, or a file alone. Speech is made in the calling thread, one text at a time, and
no further ahead of the listener than `MAX_AHEAD_S`. Knows no command line and no sound library, and
imports no torch: devices are looked at before a model is loaded.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

import numpy as np

from voxcli.audio.heard import HeardFile
from voxcli.audio.joins import PauseFitter, silence
from voxcli.audio.player import Player
from voxcli.audio.prebuffer import MAX_PREBUFFER_S, Prebuffer
from voxcli.audio.resample import Samples
from voxcli.audio.stream_out import StreamWriter
from voxcli.errors import DeviceError, SynthesisError, TextError, UsageError, VoxError
from voxcli.plan import Plan
from voxcli.text.lines import Line, LineReader
from voxcli.text.segmenter import PAUSE_LINE_S, PAUSE_PARAGRAPH_S
from voxcli.utterance import SegmentReport

if TYPE_CHECKING:
    from voxcli.synthesizer import Synthesizer

MAX_AHEAD_S = 20.0  # covers a busy machine; more would only be memory
IDLE_S = 0.1  # between looks at a source that has nothing, and at an outlet that is full


@dataclass(frozen=True)
class Item:
    """What comes next: a text, a pause, or why a line cannot be spoken.

    Attributes:
        line: its number, from 1; 0 for a text that is no line.
    """

    plan: Plan | None = None
    error: VoxError | None = None
    line: int = 0


class Source(Protocol):
    """Where texts come from."""

    @property
    def is_over(self) -> bool:
        """Whether there is nothing more, now and later."""
        ...

    @property
    def is_by_line(self) -> bool:
        """Whether texts are lines: each ends with a pause, and may fail alone."""
        ...

    @property
    def has_waiting(self) -> bool:
        """Whether `next` would answer at once."""
        ...

    def next(self, timeout_s: float) -> Item | None:
        """The next item; None when none came in time."""
        ...


class OneText:
    """A source of one text."""

    is_by_line = False
    has_waiting = False

    def __init__(self, plan: Plan) -> None:
        self.is_over = False
        self._plan = plan

    def next(self, timeout_s: float) -> Item | None:
        self.is_over = True
        return Item(self._plan)


class TextLines:
    """A source of lines; an empty one is a pause.

    Args:
        reader: of the lines.
        make_plan: a line's text to its plan; TextError where it cannot be spoken.
    """

    is_by_line = True

    def __init__(self, reader: LineReader, make_plan: Callable[[str], Plan]) -> None:
        self._reader = reader
        self._make_plan = make_plan
        self._peeked: Line | None = None

    @property
    def is_over(self) -> bool:
        return self._reader.is_over and self._peeked is None

    @property
    def has_waiting(self) -> bool:
        return self._peeked is not None or self._reader.has_waiting

    def is_empty(self, timeout_s: float) -> bool:
        """Whether the end has come, or comes in time, before any line with words."""
        while self._peeked is None:
            line = self._reader.get(timeout_s)
            if line is None:
                return self._reader.is_over
            if line.error or line.text.strip():
                self._peeked = line
        return False

    def next(self, timeout_s: float) -> Item | None:
        line, self._peeked = self._peeked or self._reader.get(timeout_s), None
        if line is None:
            return None
        if line.error is not None:
            return Item(error=line.error, line=line.number)
        if not line.text.strip():
            return Item(line=line.number)
        try:
            return Item(self._make_plan(line.text), line=line.number)
        except (TextError, UsageError) as err:
            return Item(error=err, line=line.number)


@dataclass(frozen=True)
class Made:
    """How a chunk of speech came about.

    Attributes:
        wall_s: spent on it.
        is_first: of its text.
        text_s: speech of this text that exists with it.
        remaining_s: estimate of what is still to come of the text.
    """

    wall_s: float = 0.0
    is_first: bool = True
    text_s: float = 0.0
    remaining_s: float = 0.0


@dataclass(frozen=True)
class Heard:
    """What a listener got; None where nobody knows.

    Attributes:
        played_s: speech that was heard.
        first_sound_at: the clock when it began.
        num_underruns, underrun_s: interruptions for want of speech.
        prebuffer_s, reason: seconds in the buffer when playing began, and why then.
    """

    played_s: float | None = None
    first_sound_at: float | None = None
    num_underruns: int | None = None
    underrun_s: float | None = None
    prebuffer_s: float | None = None
    reason: str | None = None


class Outlet:
    """Where speech goes; by itself into the file alone.

    Args:
        file: gets what was heard, or None.

    Attributes:
        error: why the listener did not get everything, where that did not end the stream.
    """

    def __init__(self, file: HeardFile | None = None) -> None:
        self.file = file
        self.error: DeviceError | None = None

    def heard(self) -> Heard:
        """What the listener got."""
        return Heard()

    @property
    def is_full(self) -> bool:
        """Whether to wait before making more."""
        return False

    def write(self, samples: Samples, made: Made) -> None:
        """Take new samples.

        Raises:
            VoxError: the outlet is closed or broken.
        """
        if self.file is not None:
            self.file.push(samples)
            self.file.heard_all()

    def keep_up(self) -> None:
        """Do what time has made due; called now and then."""

    def rest(self) -> None:
        """No more is due for now."""

    def finish(self, tick: Callable[[], None]) -> None:
        """The last samples have come: return when they were heard, calling `tick` meanwhile."""

    def interrupt(self) -> None:
        """End at once; the file has what was heard until now."""


class Pipe(Outlet):
    """Another program's stdin. What was sent counts as heard."""

    def __init__(self, writer: StreamWriter, file: HeardFile | None = None) -> None:
        super().__init__(file)
        self._writer = writer

    def write(self, samples: Samples, made: Made) -> None:
        self._writer.write(samples)
        super().write(samples, made)

    def finish(self, tick: Callable[[], None]) -> None:
        self._writer.close()


class Loudspeaker(Outlet):
    """A player with the prebuffer that suits the machine.

    A device that fails while it plays ends the stream, unless there is a file: then the file gets
    everything, and `error` says what happened.
    """

    def __init__(self, player: Player, prebuffer: Prebuffer, file: HeardFile | None = None) -> None:
        super().__init__(file)
        self.player = player
        self.prebuffer = prebuffer
        self._prebuffer_s: float | None = None  # in the buffer when playing began
        self._reason: str | None = None

    def heard(self) -> Heard:
        stats = self.player.stats
        return Heard(
            self.player.heard_s, stats.first_sound_at, stats.num_underruns, stats.underrun_s,
            self._prebuffer_s, self._reason,
        )  # fmt: skip

    @property
    def is_full(self) -> bool:
        limit_s = MAX_AHEAD_S if self.player.is_released else MAX_PREBUFFER_S
        return self.error is None and self.player.buffered_s > limit_s

    def write(self, samples: Samples, made: Made) -> None:
        if self.file is not None:
            self.file.push(samples)
        audio_s = len(samples) / self.player.source_rate
        self.prebuffer.pace.record(made.wall_s, audio_s, is_first=made.is_first)
        self.player.push(samples)
        if not self.player.is_released:
            needed_s = self.prebuffer.needed_s(made.text_s, made.remaining_s)
            if self.player.buffered_s >= needed_s:
                self._begin()
        self.keep_up()

    def _begin(self) -> None:
        if self._prebuffer_s is None and self.player.buffered_s > 0:
            self._prebuffer_s = self.player.buffered_s
            self._reason = self.prebuffer.explain(self._prebuffer_s)
        self.player.release()

    def keep_up(self) -> None:
        if self.player.error is not None:
            if self.file is None:
                raise self.player.error
            self.error = self.player.error
            self.file.heard_all()
        elif self.file is not None:
            self.file.heard(self.player.heard_s)

    def rest(self) -> None:
        self._begin()
        self.player.pause_due()

    def finish(self, tick: Callable[[], None]) -> None:
        self.player.finish()
        self.rest()
        while not self.player.wait(IDLE_S):
            self.keep_up()
            tick()
        self.keep_up()
        if self.file is not None:
            self.file.heard_all()  # rounding of two rates

    def interrupt(self) -> None:
        self.player.stop()
        self.player.wait()
        self.keep_up()


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
    """

    begun_at: float | None = None
    wall_s: float = 0.0
    audio_s: float = 0.0
    ttfa_s: float | None = None
    num_texts: int = 0
    plan: Plan | None = None
    failed: list[tuple[int, VoxError]] = field(default_factory=list)
    segments: list[SegmentReport] = field(default_factory=list)


class Streamer:
    """Speaks a source into an outlet.

    Args:
        on_progress: called several times a second.
        on_failure: called with a line's number and why it was not spoken.
    """

    def __init__(
        self,
        synthesizer: Synthesizer,
        source: Source,
        outlet: Outlet,
        *,
        on_progress: Callable[[], None] = lambda: None,
        on_failure: Callable[[int, VoxError], None] = lambda line, err: None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.report = StreamReport()
        self._synthesizer = synthesizer
        self._source = source
        self._outlet = outlet
        self._on_progress = on_progress
        self._on_failure = on_failure
        self.clock = clock
        self._rate = synthesizer.sample_rate
        self._pauses = PauseFitter()
        self._is_after_speech = False

    def run(self) -> StreamReport:
        """Speak to the end of the source and wait until all was heard.

        Raises:
            VoxError: the outlet or the engine failed, or the one text could not be spoken. The
                sound has been ended.
        """
        try:
            while not self._source.is_over:
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
                self._speak(item.plan)
            except SynthesisError as err:
                if not self._source.is_by_line:
                    raise
                error = err
            if self._source.is_by_line:
                self._end_line()
        elif error is None:
            self._end_paragraph()
        if error is not None:
            self.report.failed.append((item.line, error))
            self._on_failure(item.line, error)

    def _speak(self, plan: Plan) -> None:
        report = self.report
        report.num_texts += 1
        report.plan = plan
        self._wait_for_room()
        report.begun_at = report.begun_at or self.clock()
        text_s, is_first = 0.0, True
        with self._synthesizer.stream(plan, is_live=True) as stream:
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
            report.segments += stream.speech.reports

    def _fitted(self, samples: Samples) -> Samples:
        """A line's last silence waits until its length is known."""
        return self._pauses.push(samples) if self._source.is_by_line else samples

    def _end_line(self) -> None:
        self._write(self._pauses.end_segment(round(PAUSE_LINE_S * self._rate)), Made())
        self._is_after_speech = True

    def _end_paragraph(self) -> None:
        if self._is_after_speech:
            self._write(silence(PAUSE_PARAGRAPH_S - PAUSE_LINE_S, self._rate), Made())
        self._is_after_speech = False

    def _write(self, samples: Samples, made: Made) -> None:
        if len(samples):
            self.report.audio_s += len(samples) / self._rate
            self._outlet.write(np.asarray(samples, np.float32), made)
        self._tick()

    def _wait_for_room(self) -> None:
        while self._outlet.is_full:
            time.sleep(IDLE_S)
            self._tick()

    def _tick(self) -> None:
        self._outlet.keep_up()
        self._on_progress()
