"""How many rows a server is given at once: as many as make it faster, and no more than it takes."""

from __future__ import annotations

from dataclasses import dataclass

START = 8  # rows at once, where nothing is known of a server
MAX = 64
GROWTH = 1.25  # of a cap that is tried
MIN_GAIN = 1.05  # of throughput, for a larger cap to be kept
ROUNDS_HELD = 16  # that a cap is kept for, once a larger one was no better


@dataclass
class Cap:
    """The cap of one server.

    It is raised by a quarter at a time as long as that raises the throughput, by Little's law the
    rows in flight over the seconds that a second of audio takes. A larger cap that does not is
    taken back, and tried again much later. A server that refuses gets half.

    Args:
        start: rows at once, at first.
        limit: rows at once, at most.
    """

    start: int = START
    limit: int = MAX

    def __post_init__(self) -> None:
        assert min(self.start, self.limit) >= 1, (self.start, self.limit)
        self.now = min(self.start, self.limit)
        self._before: tuple[int, float] | None = None  # a smaller cap and its throughput
        self._num_held = 0
        self._cut_s = 0.0
        self._begin_round()

    def limit_to(self, rows: int) -> None:
        """More rows at once would only wait at the server."""
        self.limit = max(1, min(self.limit, rows))
        self.now = min(self.now, self.limit)

    def _begin_round(self) -> None:
        self._num_done = 0
        self._wall_s = self._audio_s = self._num_beside = 0.0

    def done(self, num_in_flight: int, wall_s: float, audio_s: float) -> None:
        """A row ended well.

        Args:
            num_in_flight: rows that the server had when it ended, itself included.
            wall_s: that it took, with any waiting at the server.
            audio_s: that it made.
        """
        self._num_done += 1
        self._num_beside += num_in_flight
        self._wall_s += wall_s
        self._audio_s += audio_s
        if self._num_done >= max(self.now, 4):
            self._end_round()

    def _end_round(self) -> None:
        rows = self._num_beside / self._num_done
        throughput = rows * self._audio_s / max(self._wall_s, 1e-6)
        self._begin_round()
        if rows < 0.75 * self.now:  # there was not enough to do, so nothing is learnt
            return
        if self._num_held:
            self._num_held -= 1
            return
        if self._before is not None and throughput < MIN_GAIN * self._before[1]:
            self.now, self._before = self._before[0], None
            self._num_held = ROUNDS_HELD
        elif self.now < self.limit:
            self._before = (self.now, throughput)
            self.now = min(self.limit, max(self.now + 1, round(self.now * GROWTH)))

    def refused(self, began_s: float, now_s: float) -> None:
        """The server had no room for a row, or was too slow for it.

        Args:
            began_s: when the row was sent; rows that were sent before the last cut say nothing new.
        """
        if began_s < self._cut_s:
            return
        self._cut_s = now_s
        self.now = max(1, self.now // 2)
        self._before, self._num_held = None, ROUNDS_HELD
        self._begin_round()
