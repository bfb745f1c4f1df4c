"""Where the speech of a stream goes: a loudspeaker, a pipe, or a file alone.

Knows players, pipes and files; knows no text and no engine.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from voxcli.audio.prebuffer import MAX_PREBUFFER_S, Prebuffer
from voxcli.errors import DeviceError

if TYPE_CHECKING:
    from voxcli.audio.heard import HeardFile
    from voxcli.audio.player import Player
    from voxcli.audio.resample import Samples
    from voxcli.audio.stream_out import StreamWriter

MAX_AHEAD_S = 20.0  # covers a busy machine; more would only be memory
WAIT_S = 0.1  # between looks at a player that has not come to its end


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
    """Another program's stdin. What was sent counts as heard; without a file it may be integers."""

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
        self.player.check_answers()
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
        while not self.player.wait(WAIT_S) and self.player.error is None:
            self.keep_up()
            tick()
        self.keep_up()
        if self.file is not None:
            self.file.heard_all()  # rounding of two rates

    def interrupt(self) -> None:
        self.player.stop()
        self.player.wait()
        self.keep_up()
