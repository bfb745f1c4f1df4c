"""How many rows a server is given at once: as many as make it faster, and no more than it takes."""

from __future__ import annotations

from dataclasses import dataclass

START = 8  # rows at once, where nothing is known of a server
MAX = 64
FAST_GROWTH, GROWTH = 2.0, 1.25  # of a cap that is tried: until one is no better, and then
MIN_FULL = 0.75  # of a cap that has to be in use, for anything to be learnt
MIN_GAIN = 1.05  # of throughput, for a larger cap to be kept
ROUNDS_HELD = 16  # that a cap is kept for, once a larger one was no better


@dataclass
class Cap:
    """The cap of one server.

    It is doubled as long as that raises the throughput, by Little's law the rows in flight over the
    seconds that a second of audio takes. A larger cap that does not is taken back; much later one
    that is larger by a quarter is tried. A server that refuses gets half.

    One that may leap gets as many rows as it makes seconds of audio a second, from the first row
    that shows it: each then takes no longer than it sounds, even if more are no faster, so a slow
    server is given none to keep. Where they take longer all the same, it gets fewer. Who refuses
    leaps no more.

    Args:
        start: rows at once, at first.
        limit: rows at once, at most.
        may_leap: rows that wait at the server could go to no other.
    """

    start: int = START
    limit: int = MAX
    may_leap: bool = False

    def __post_init__(self) -> None:
        assert min(self.start, self.limit) >= 1, (self.start, self.limit)
        self.now = min(self.start, self.limit)
        self._before: tuple[int, float] | None = None  # a smaller cap and its throughput
        self._growth = FAST_GROWTH
        self._trusted = 0  # the cap that it was given for its throughput alone
        self._num_held = 0
        self._since_s = float("-inf")  # rows that were sent before it say nothing of this cap
        self._begin_round()

    def limit_to(self, rows: int, *, is_stated: bool = False) -> None:
        """More rows at once would only wait at the server.

        Args:
            is_stated: the server is made for so many, so it gets them at once.
        """
        self.limit = max(1, min(self.limit, rows))
        self.now = self.limit if is_stated else min(self.now, self.limit)

    def _begin_round(self) -> None:
        self._num_done = 0
        self._wall_s = self._audio_s = self._num_beside = 0.0

    def done(self, num_in_flight: int, began_s: float, now_s: float, audio_s: float) -> None:
        """A row ended well.

        Args:
            num_in_flight: rows that the server had when it ended, itself included.
            began_s: when it was sent, before any waiting at the server.
            audio_s: that it made.
        """
        if began_s < self._since_s:
            return
        wall_s = max(now_s - began_s, 1e-6)
        throughput = num_in_flight * audio_s / wall_s
        is_full = num_in_flight >= MIN_FULL * self.now
        is_leap = self.may_leap and throughput >= GROWTH * self.now
        if is_full and is_leap and self.now < self.limit and self._growth == FAST_GROWTH:
            self._raise_to(throughput, now_s)
            self._trusted = self.now
            return
        self._num_done += 1
        self._num_beside += num_in_flight
        self._wall_s += now_s - began_s
        self._audio_s += audio_s
        if self._num_done >= max(self.now, 4):
            self._end_round(now_s)

    def _end_round(self, now_s: float) -> None:
        rows = self._num_beside / self._num_done
        throughput = rows * self._audio_s / max(self._wall_s, 1e-6)
        self._begin_round()
        if rows < MIN_FULL * self.now:  # there was not enough to do, so nothing is learnt
            return
        if self._num_held:
            self._num_held -= 1
            return
        if self.now == self._trusted and throughput < MIN_FULL * self.now:
            self.now, self._before, self._since_s = max(self.start, round(throughput)), None, now_s
            self._trusted, self._num_held, self._growth = 0, ROUNDS_HELD, GROWTH
        elif self._before is not None and throughput < MIN_GAIN * self._before[1]:
            self.now, self._before, self._since_s = self._before[0], None, now_s
            self._num_held, self._growth = ROUNDS_HELD, GROWTH
        elif self.now < self.limit:
            before = self.now, throughput
            self._raise_to(self.now * self._growth, now_s)
            self._before = before

    def _raise_to(self, rows: float, now_s: float) -> None:
        self._before, self._since_s = None, now_s
        self.now = min(self.limit, max(self.now + 1, round(rows)))
        self._begin_round()

    def refused(self, began_s: float, now_s: float) -> None:
        """The server had no room for a row, or was too slow for it.

        Args:
            began_s: when the row was sent.
        """
        if began_s < self._since_s:
            return
        self._since_s = now_s
        self.now = max(1, self.now // 2)
        self._before, self._num_held, self._growth = None, ROUNDS_HELD, GROWTH
        self._begin_round()
