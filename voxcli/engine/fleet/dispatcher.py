"""Which row goes to which server, and what becomes of it when a try fails.

Pure decisions over a clock that is handed in, so that a simulation runs the same class as a batch.
Knows no connection, no thread and no sound.

A row goes to the server with the least outstanding work under its cap. A try that failed is thrown
away, and the row goes elsewhere. A server on which a try failed is asked whether it is up before it
gets anything more. If it is not, the rows that it had are suspected of it: they come after all
others, each alone on a server that was just found up, and one that meets the same again has failed.

At the end, when nothing waits any more, a row that another server would be done with long before is
taken from where it is: from a slow server, or from one that hangs. From one that is up it is taken
once.
"""

from __future__ import annotations

import random
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from enum import Enum, auto

from voxcli.engine.fleet.cap import Cap
from voxcli.engine.fleet.waiting import Waiting

MAX_TRIES = 4  # of a row, on servers that stay up
MAX_FAULTS = 2  # of servers, while they had a row; then the row has failed
BACKOFF_S, MAX_BACKOFF_S = 0.5, 30.0
FRESH_S = 5.0  # a server that was found up so long ago is still taken to be up
NEW_VOICE_S = 1.0  # of audio: what a voice costs that a server has not heard yet
MAX_VOICES = 64  # that a server is taken to remember
PACE_WEIGHT = 0.2  # of the newest row, in a server's measured throughput
MOVE_GAIN = 2.0  # times as long as elsewhere that a row would still take, to be moved there
MIN_MOVE_S = 1.0  # that it would take at least
LOOK_S = 0.25  # between looks at whether a row is to be moved


class ServerState(Enum):
    UP = auto()
    DOUBTED = auto()  # a try failed; it has to be asked
    DOWN = auto()


@dataclass(eq=False)
class Row:
    """One row on its way.

    Attributes:
        work_s: seconds of audio, estimated.
        voice: what a server may have heard before; empty for the model's own.
        num_tries: failed ones, on servers that stayed up.
        num_faults: servers that went down while they had it.
        blamed: names of the servers that did.
        tried: servers where a try failed last.
        is_movable: nothing of it is heard before it is whole.
        num_moved: times that it was taken from a slow server.
        is_paused: nobody takes what is made of it, so it takes no place of another; see
            `Dispatcher.pause`.
        is_unwanted: the server that had it last takes nothing of its kind; see `unwanted`.
    """

    work_s: float
    voice: str = ""
    num_tries: int = 0
    num_faults: int = 0
    blamed: list[str] = field(default_factory=list)
    tried: set[int] = field(default_factory=set)
    is_movable: bool = True
    num_moved: int = 0
    is_unwanted: bool = False
    server: Server | None = None
    began_s: float = 0.0
    not_before_s: float = 0.0
    is_paused: bool = False


@dataclass(eq=False)
class Server:
    """One server as the dispatcher sees it; outlives the dispatchers of an engine.

    Attributes:
        rows: that it has, in the order in which they came; changed by `take` and `let_go` alone.
        work_s: of them, in all.
        num_paused, num_suspects: of them.
        pace: seconds of audio a second, measured; None before the first row.
        row_pace: the same of each row alone.
        row_s: seconds that a row takes, waiting at the server included.
        num_rows, audio_s: done, in all.
        num_failed: tries that failed, refusals for want of room not counted.
        num_refused: for want of room.
        num_down: times that it was found down.
        num_moved: rows that were taken from it for being slow.
        retired: why it gets nothing any more; empty as long as it may.
        is_unsure: it refused what it should take, so that being up is not enough.
    """

    index: int
    name: str
    cap: Cap = field(default_factory=Cap)
    state: ServerState = ServerState.UP
    rows: dict[Row, None] = field(default_factory=dict)
    work_s: float = 0.0
    num_paused: int = 0
    num_suspects: int = 0
    limbo: dict[Row, bool | None] = field(default_factory=dict)  # see `Dispatcher.broken`
    pace: float | None = None
    row_pace: float | None = None
    row_s: float = 0.0
    num_rows: int = 0
    audio_s: float = 0.0
    num_failed: int = 0
    num_refused: int = 0
    num_down: int = 0
    num_moved: int = 0
    retired: str = ""
    not_before_s: float = 0.0
    found_up_s: float = float("-inf")
    is_being_asked: bool = False
    is_unsure: bool = False
    num_asked_in_vain: int = 0
    voices: deque[str] = field(default_factory=lambda: deque(maxlen=MAX_VOICES))

    def take(self, row: Row) -> None:
        self.rows[row] = None
        self._count(row, 1)

    def let_go(self, row: Row) -> None:
        """Always safe."""
        if row in self.rows:
            del self.rows[row]
            self._count(row, -1)
            if not self.rows:
                self.work_s = 0.0  # without what rounding left

    def _count(self, row: Row, sign: int) -> None:
        self.work_s += sign * row.work_s
        self.num_paused += sign * row.is_paused
        self.num_suspects += sign * bool(row.num_faults)

    @property
    def is_alone(self) -> bool:
        """Whether it has a row that is suspected, which nothing may join."""
        return self.num_suspects > 0

    def takes_rows(self, now_s: float) -> bool:
        """Whether it may be given any, as far as there is room."""
        return self.state is ServerState.UP and not self.retired and self.not_before_s <= now_s


@dataclass(frozen=True)
class GivenUp:
    """A row that is not tried again, and why."""

    row: Row
    why: str


class Dispatcher:
    """See the module. Times are seconds of one clock that never goes back.

    Args:
        servers: where rows may go; their states are kept up to date.
        is_endless: there is no end of rows that suspects could wait for (a server that serves):
            they go at once, beside others.
        jitter: a number in [0, 1) for each backoff.
    """

    def __init__(
        self,
        servers: Sequence[Server],
        *,
        is_endless: bool = False,
        jitter: random.Random | None = None,
    ) -> None:
        self.servers = servers
        self._is_endless = is_endless
        self._jitter = jitter or random.Random()
        self._waiting = Waiting()
        self._look_s = float("-inf")  # when rows to move are looked for again

    # ------------------------------------------------------------ rows

    def add(self, row: Row) -> None:
        self._waiting.append(row)

    def drop(self, row: Row) -> None:
        """Forget a row, wherever it is; always safe."""
        self._waiting.discard(row)
        if row.server is not None:
            row.server.let_go(row)
        for server in self.servers:
            server.limbo.pop(row, None)

    def pause(self, row: Row, is_paused: bool) -> None:
        """Let a row take no place, or take one again."""
        if row.server is not None:
            row.server.num_paused += is_paused - row.is_paused
        row.is_paused = is_paused

    @property
    def num_waiting(self) -> int:
        return len(self._waiting)

    @property
    def room(self) -> int:
        """See `room_of`."""
        return room_of(self.servers)

    def next(self, now_s: float) -> list[tuple[Row, Server]]:
        """Rows to send now, each with its server.

        One that has to go on waiting here would have to at the end of this call too, so one look at
        each is enough; a fresh one waits for room alone.
        """
        begun: list[tuple[Row, Server]] = []
        if not self._waiting:
            return begun
        free = [server for server in self.servers if self._has_room(server, now_s)]
        if not free:
            return begun
        waiting, usual = self._waiting, self._usual_pace()
        suspects = [waiting.suspects] if self._is_endless else []
        for row in waiting.in_order(waiting.fresh, waiting.again, *suspects):
            server = self._choose(row, free, usual, now_s)
            if server is None:
                continue
            begun.append((row, server))
            self._send(row, server, now_s)
            if not self._has_room(server, now_s):
                free.remove(server)
                if not free:
                    break
        for row, _ in begun:
            waiting.discard(row)
        return begun + self._next_suspects(free, now_s)

    def _send(self, row: Row, server: Server, now_s: float) -> None:
        row.server, row.began_s, row.is_unwanted = server, now_s, False
        server.take(row)
        if row.voice in server.voices:
            server.voices.remove(row.voice)
        server.voices.append(row.voice)

    def _choose(
        self, row: Row, free: Sequence[Server], usual: float, now_s: float
    ) -> Server | None:
        """Where a row goes; None where it has to wait."""
        if row.not_before_s > now_s:
            return None
        fits = [each for each in free if each.index not in row.tried] if row.tried else free
        if not fits and any(self._is_worth_waiting_for(each, row, now_s) for each in self.servers):
            return None
        return min(fits or free, key=lambda each: self._finish_s(each, row, usual, now_s))

    def _next_suspects(self, free: Sequence[Server], now_s: float) -> list[tuple[Row, Server]]:
        """Each alone on a server that was just found up, once there is nothing else."""
        begun: list[tuple[Row, Server]] = []
        if not self._only_suspects:
            return begun
        idle = [each for each in free if not each.rows and now_s - each.found_up_s <= FRESH_S]
        for row in self._waiting.suspects:
            if not idle:
                break
            if row.not_before_s <= now_s:
                server = min(idle, key=lambda each: each.index in row.tried)
                idle.remove(server)
                begun.append((row, server))
                self._send(row, server, now_s)
        for row, _ in begun:
            self._waiting.discard(row)
        return begun

    def _has_room(self, server: Server, now_s: float) -> bool:
        return (
            server.takes_rows(now_s)
            and len(server.rows) - server.num_paused < server.cap.now
            and (self._is_endless or not server.is_alone)
        )

    def _is_worth_waiting_for(self, server: Server, row: Row, now_s: float) -> bool:
        """Whether a row that failed elsewhere was not tried there, and it is merely full."""
        return server.index not in row.tried and server.takes_rows(now_s)

    def _usual_pace(self) -> float:
        known = [each.pace for each in self.servers if each.pace]
        return sum(known) / len(known) if known else 1.0

    def _finish_s(self, server: Server, row: Row, usual: float, now_s: float) -> float:
        """When the server would be done with all that it has and this row, about."""
        pace = server.pace or self._most_pace(server, usual, now_s)
        new_s = NEW_VOICE_S if row.voice and row.voice not in server.voices else 0.0
        return (server.work_s + row.work_s + new_s) / pace

    def _most_pace(self, server: Server, usual: float, now_s: float) -> float:
        """The pace of a server that is done with nothing yet: as others, and no more than leaves
        its first row undone so long."""
        first = next(iter(server.rows), None)
        if first is None or now_s <= first.began_s:
            return usual
        return min(usual, len(server.rows) * first.work_s / (now_s - first.began_s))

    # ------------------------------------------------------------ how a try ended

    def done(self, row: Row, now_s: float, audio_s: float) -> None:
        """The row was spoken."""
        server, num_beside = self._take_from(row)
        server.num_rows += 1
        server.audio_s += audio_s
        server.found_up_s = now_s
        server.num_asked_in_vain = 0
        server.cap.done(num_beside, row.began_s, now_s, audio_s)
        wall_s = now_s - row.began_s
        row_pace = audio_s / max(wall_s, 1e-6)
        server.pace = _smoothed(server.pace, num_beside * row_pace)
        server.row_s = _smoothed(server.row_s if server.row_pace else None, wall_s)
        server.row_pace = _smoothed(server.row_pace, row_pace)

    def failed(self, row: Row) -> None:
        """The row itself cannot be spoken; whoever had it is well."""
        self._take_from(row)

    def busy(self, row: Row, now_s: float, retry_after_s: float | None = None) -> None:
        """The server had no room for it; it is no failure of the row."""
        server, _ = self._take_from(row)
        server.num_refused += 1
        server.cap.refused(row.began_s, now_s)
        wait_s = self._backoff(server.num_refused) if retry_after_s is None else retry_after_s
        server.not_before_s = max(server.not_before_s, now_s + min(wait_s, MAX_BACKOFF_S))
        self._waiting.appendleft(row)

    def broken(self, row: Row, now_s: float, *, had_begun: bool | None = True) -> None:
        """The try failed; the row waits, and nothing more goes there, until the server was asked
        whether it is up: see `probes`.

        Args:
            had_begun: the server was speaking it, so that the row may be what ended it; None where
                it was sent and nothing more is known, as of a server that ends in this moment: that
                is a try of the row, and no fault.
        """
        self._await_answer(row, self.lost(row, now_s), had_begun)

    def unwanted(self, row: Row, now_s: float) -> None:
        """The server refuses such rows: its key, its model or its address is another than before.
        The row goes to each of the others once; the server is asked who it is."""
        row.is_unwanted = True
        server = self.lost(row, now_s)
        server.is_unsure = True
        self._await_answer(row, server, False)

    def _await_answer(self, row: Row, server: Server, had_begun: bool | None) -> None:
        """Keep a row until its server was asked; one that is retired is asked no more."""
        if server.retired:
            self._waiting.appendleft(row)
        else:
            server.limbo[row] = had_begun

    def lost(self, row: Row, now_s: float) -> Server:
        """The same of a row of which a part has left: it cannot be tried again."""
        server, _ = self._take_from(row)
        server.num_failed += 1
        if server.state is ServerState.UP:
            server.state = ServerState.DOUBTED
            server.not_before_s = now_s
        return server

    def _take_from(self, row: Row) -> tuple[Server, int]:
        server = row.server
        assert server is not None, "a row ends where it is"
        num_beside = len(server.rows)
        server.let_go(row)
        row.server = None
        return server, num_beside

    # ------------------------------------------------------------ rows that are moved

    def moves(self, now_s: float) -> list[tuple[Row, Server]]:
        """Rows to take from where they are, each with that server; they wait again.

        Only where nothing else waits. A server that is late with one is asked whether it is up.
        """
        found: list[tuple[Row, Server]] = []
        if now_s < self._look_s or not self._is_near_end:
            return found
        self._look_s = now_s + LOOK_S
        for row, server, usual_s, elsewhere_s in self._movable(now_s):
            late_s = now_s - row.began_s - usual_s
            if abs(late_s) < elsewhere_s:  # it is nearly done, or hardly late
                continue
            self._take_from(row)
            server.num_moved += 1
            row.num_moved += 1
            row.tried.add(server.index)
            if late_s > 0 and server.state is ServerState.UP:
                server.state, server.not_before_s = ServerState.DOUBTED, now_s
            self._waiting.appendleft(row)
            found.append((row, server))
        return found

    @property
    def _is_near_end(self) -> bool:
        return not (self._is_endless or self._waiting)

    def _movable(self, now_s: float) -> Iterator[tuple[Row, Server, float, float]]:
        """Rows with where they are, how long that usually takes, and how long another server with
        room may take before it is worth a move."""
        free = [each for each in self.servers if each.row_pace and self._has_room(each, now_s)]
        free.sort(key=lambda each: -(each.row_pace or 0.0))
        for server in self.servers:
            other = next((each for each in free if each is not server), None)
            may_move_again = server.state is ServerState.DOWN
            for row in list(server.rows) if other is not None else ():
                if row.is_movable and not row.num_faults and (may_move_again or not row.num_moved):
                    assert other is not None
                    elsewhere_s = max(MIN_MOVE_S, MOVE_GAIN * _usual_s(other, row))
                    yield row, server, _usual_s(server, row), elsewhere_s

    # ------------------------------------------------------------ servers that are asked

    def probes(self, now_s: float) -> list[Server]:
        """Servers to be asked now whether they are up; each answer goes to `probed`."""
        only_suspects = self._only_suspects
        found = [
            each
            for each in self.servers
            if (each.state is not ServerState.UP or (only_suspects and _is_stale(each, now_s)))
            and not (each.is_being_asked or each.retired or each.not_before_s > now_s)
        ]
        for server in found:
            server.is_being_asked = True
        return found

    @property
    def _only_suspects(self) -> bool:
        waiting = self._waiting
        return not (self._is_endless or waiting.fresh or waiting.again) and bool(waiting.suspects)

    def probed(self, server: Server, is_up: bool, now_s: float) -> list[GivenUp]:
        """An answer, or that there was none in time.

        Returns:
            rows that are not tried again.
        """
        server.is_being_asked = server.is_unsure = False
        limbo, server.limbo = server.limbo, {}
        if is_up:
            server.state, server.found_up_s = ServerState.UP, now_s
            server.num_asked_in_vain = 0
            if limbo:
                server.cap.refused(max(row.began_s for row in limbo), now_s)
        else:
            if server.state is not ServerState.DOWN:
                server.num_down += 1
            server.state = ServerState.DOWN
            server.num_asked_in_vain += 1
            server.not_before_s = now_s + self._backoff(server.num_asked_in_vain)
        for row, had_begun in limbo.items():
            if is_up or had_begun is None:
                row.num_tries += 1
                row.not_before_s = now_s + self._backoff(row.num_tries)
            elif had_begun:
                row.num_faults += 1
                row.blamed.append(server.name)
        given_up = [self._put_back(row, server) for row in limbo]
        return [each for each in given_up if each is not None]

    def _put_back(self, row: Row, server: Server) -> GivenUp | None:
        if row.num_faults >= MAX_FAULTS:
            return GivenUp(row, f"{' and '.join(row.blamed)} went down while it was spoken")
        if row.num_tries >= MAX_TRIES:
            return GivenUp(row, f"it failed {row.num_tries} times, the last time on {server.name}")
        row.tried.add(server.index)
        if row.tried.issuperset(each.index for each in self.servers if not each.retired):
            if row.is_unwanted:
                return GivenUp(row, "no server takes it")
            row.tried.clear()
        self._waiting.appendleft(row)
        return None

    def retire(self, server: Server, why: str) -> None:
        """Give a server nothing any more; what it has may end."""
        server.retired = why
        server.is_being_asked = False
        for row in server.limbo:
            self._waiting.appendleft(row)
        server.limbo.clear()

    def _backoff(self, num_failed: int) -> float:
        wait_s = min(MAX_BACKOFF_S, BACKOFF_S * 2.0 ** min(num_failed - 1, 16))
        return wait_s * (0.5 + 0.5 * self._jitter.random())

    # ------------------------------------------------------------ time

    @property
    def num_up(self) -> int:
        return sum(each.state is not ServerState.DOWN and not each.retired for each in self.servers)

    def wake_s(self, now_s: float) -> float | None:
        """When something may change by itself; None where only news can change anything."""
        waiting = self._waiting
        times = [row.not_before_s for part in (waiting.again, waiting.suspects) for row in part]
        is_waiting = bool(waiting)
        times += [
            each.not_before_s
            for each in self.servers
            if (is_waiting or each.state is not ServerState.UP)
            and each.not_before_s > now_s
            and not (each.retired or each.is_being_asked)
        ]
        if self._is_near_end and any(each.rows for each in self.servers):
            times.append(max(self._look_s, now_s + LOOK_S))
        times = [at_s for at_s in times if at_s > now_s]
        return min(times, default=None)


def _is_stale(server: Server, now_s: float) -> bool:
    """Whether a server that could have a suspect was not found up lately."""
    return not server.rows and now_s - server.found_up_s > FRESH_S


def room_of(servers: Iterable[Server]) -> int:
    """Rows that are worth having at once: as many as servers take now, and one more for each."""
    return sum(server.cap.now + 1 for server in servers if not server.retired)


def _usual_s(server: Server, row: Row) -> float:
    """How long a row like this takes there, beside as many as it has now; 0 where that is not
    known."""
    if not (server.pace and server.row_pace):
        return 0.0
    shared_s = len(server.rows) * row.work_s / server.pace
    return max(server.row_s, row.work_s / server.row_pace, shared_s)


def _smoothed(before: float | None, newest: float) -> float:
    return newest if before is None else (1 - PACE_WEIGHT) * before + PACE_WEIGHT * newest
