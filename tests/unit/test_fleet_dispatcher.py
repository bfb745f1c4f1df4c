"""The dispatcher alone, over a clock of the test's: every row ends once, whatever servers do."""

from __future__ import annotations

import heapq
import random
from dataclasses import dataclass, field

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from plain_dispatcher import PlainDispatcher

from voxcli.engine.fleet.cap import Cap
from voxcli.engine.fleet.dispatcher import (
    MAX_BACKOFF_S,
    MAX_FAULTS,
    MAX_TRIES,
    Dispatcher,
    Row,
    Server,
    ServerState,
)


@dataclass
class Behaviour:
    """What a simulated server does.

    Attributes:
        pace: seconds of audio a second, shared by its rows.
        down: spans in which it does not answer; rows that it has at the beginning of one fail.
        busy: spans in which it refuses.
        is_flaky: share of tries that fail while it is up.
        most: rows that it takes at once; more are refused.
    """

    pace: float = 10.0
    down: tuple[tuple[float, float], ...] = ()
    busy: tuple[tuple[float, float], ...] = ()
    flaky: float = 0.0
    most: int = 64

    def is_down(self, at_s: float) -> bool:
        return any(first <= at_s < last for first, last in self.down)

    def is_busy(self, at_s: float) -> bool:
        return any(first <= at_s < last for first, last in self.busy)


@dataclass
class World:
    """Servers, a clock and rows; `poison` rows take down every server that begins them, for 2 s."""

    behaviours: list[Behaviour]
    seed: int = 0
    is_endless: bool = False
    poison: set[Row] = field(default_factory=set)
    kind: type[Dispatcher] = Dispatcher
    sent: list[tuple[float, Row, int]] = field(default_factory=list)
    spoken: list[Row] = field(default_factory=list)
    failed: dict[Row, str] = field(default_factory=dict)
    now_s: float = 0.0
    num_sent: dict[Row, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.random = random.Random(self.seed)
        self.servers = [Server(index, f"s{index}") for index in range(len(self.behaviours))]
        self.dispatcher = self.kind(self.servers, is_endless=self.is_endless, jitter=self.random)
        self.events: list[tuple[float, int, str, object]] = []
        self.killed: dict[Server, float] = {}  # down until
        self.count = 0

    def at(self, at_s: float, what: str, who: object) -> None:
        self.count += 1
        heapq.heappush(self.events, (at_s, self.count, what, who))

    def is_down(self, server: Server) -> bool:
        killed_s = self.killed.get(server, 0.0)
        return self.now_s < killed_s or self.behaviours[server.index].is_down(self.now_s)

    def run(self, rows: list[Row], until_s: float = 1e5) -> None:
        for row in rows:
            self.dispatcher.add(row)
        for server in self.servers:
            for first, last in self.behaviours[server.index].down:
                self.at(first, "crash", server)
                self.at(last, "tick", None)
        while self.now_s < until_s:
            self.turn()
            if len(self.spoken) + len(self.failed) == len(rows):
                return
            wake_s = self.dispatcher.wake_s(self.now_s)
            if wake_s is not None:
                self.at(wake_s, "tick", None)
            assert self.events, "nothing can happen any more, and rows are left"
            self.now_s, _, what, who = heapq.heappop(self.events)
            getattr(self, f"on_{what}")(who)
        raise AssertionError(f"rows are left after {until_s} s")

    def turn(self) -> None:
        for row, server in self.dispatcher.moves(self.now_s):
            assert row not in server.rows
        for row, server in self.dispatcher.next(self.now_s):
            assert row not in self.spoken
            assert row not in self.failed
            assert len(server.rows) <= server.cap.now
            assert server.state is ServerState.UP
            if not self.is_endless and server.is_alone:
                assert len(server.rows) == 1
            self.num_sent[row] = self.num_sent.get(row, 0) + 1
            self.sent.append((self.now_s, row, server.index))
            self.send(row, server)
        for server in self.dispatcher.probes(self.now_s):
            self.at(self.now_s + 0.05, "answer", server)

    def send(self, row: Row, server: Server) -> None:
        behaviour = self.behaviours[server.index]
        if self.is_down(server):
            self.at(self.now_s + 0.01, "refused", (row, server))
        elif behaviour.is_busy(self.now_s) or len(server.rows) > behaviour.most:
            self.at(self.now_s + 0.01, "busy", (row, server))
        elif row in self.poison:
            self.at(self.now_s + 0.1, "poisoned", (row, server))
        elif self.random.random() < behaviour.flaky:
            self.at(self.now_s + 0.2, "broken", (row, server))
        else:
            took_s = row.work_s / behaviour.pace * len(server.rows)
            self.at(self.now_s + took_s, "spoken", (row, server, row.began_s))

    def has(self, row: Row, server: Server, began_s: float | None = None) -> bool:
        return row in server.rows and (began_s is None or row.began_s == began_s)

    def on_tick(self, _: object) -> None:
        pass

    def on_answer(self, server: Server) -> None:
        given_up = self.dispatcher.probed(server, not self.is_down(server), self.now_s)
        self.failed |= {each.row: each.why for each in given_up}

    def on_crash(self, server: Server) -> None:
        for row in list(server.rows):
            self.dispatcher.broken(row, self.now_s)

    def on_poisoned(self, what: tuple[Row, Server]) -> None:
        row, server = what
        if self.has(row, server):
            self.killed[server] = self.now_s + 2.0
            self.on_crash(server)

    def on_refused(self, what: tuple[Row, Server]) -> None:
        row, server = what
        if self.has(row, server):
            self.dispatcher.broken(row, self.now_s, had_begun=False)

    def on_busy(self, what: tuple[Row, Server]) -> None:
        row, server = what
        if self.has(row, server):
            self.dispatcher.busy(row, self.now_s)

    def on_broken(self, what: tuple[Row, Server]) -> None:
        row, server = what
        if self.has(row, server):
            self.dispatcher.broken(row, self.now_s)

    def on_spoken(self, what: tuple[Row, Server, float]) -> None:
        row, server, began_s = what
        if self.has(row, server, began_s):
            self.dispatcher.done(row, self.now_s, row.work_s)
            self.spoken.append(row)


def rows(num: int, seed: int = 0) -> list[Row]:
    numbers = random.Random(seed)
    work = (numbers.randint(64, 768) / 64 for _ in range(num))  # whose sums are exact
    return [Row(each, numbers.choice(["", "a", "b"])) for each in work]


span = st.tuples(st.floats(0.1, 20), st.floats(0.1, 10)).map(lambda pair: (pair[0], sum(pair)))
behaviour = st.builds(
    Behaviour,
    pace=st.floats(2, 40),
    down=st.lists(span, max_size=2).map(tuple),
    busy=st.lists(span, max_size=2).map(tuple),
    most=st.integers(1, 64),
    flaky=st.sampled_from([0.0, 0.0, 0.2]),
)


@settings(max_examples=60, deadline=None)
@given(
    st.lists(behaviour, min_size=1, max_size=5),
    st.integers(1, 60),
    st.integers(0, 2),
    st.booleans(),
    st.integers(0, 99),
)
def test_every_row_ends_once_whatever_servers_do(
    behaviours: list[Behaviour], num: int, num_poison: int, is_endless: bool, seed: int
) -> None:
    found = rows(num, seed)
    world = World(behaviours, seed, is_endless, poison=set(found[:num_poison]))
    world.run(found)
    assert len(world.spoken) == len(set(world.spoken))
    assert not set(world.spoken) & set(world.failed)
    assert not set(world.spoken) & world.poison
    assert not any(server.rows or server.limbo for server in world.servers)
    assert not world.dispatcher.num_waiting


@settings(max_examples=40, deadline=None)
@given(
    st.lists(behaviour, min_size=1, max_size=6),
    st.integers(1, 60),
    st.integers(0, 3),
    st.booleans(),
    st.integers(0, 99),
)
def test_a_look_at_few_rows_decides_as_a_look_at_all(
    behaviours: list[Behaviour], num: int, num_poison: int, is_endless: bool, seed: int
) -> None:
    sent = []
    for kind in (Dispatcher, PlainDispatcher):
        found = rows(num, seed)
        numbers = {row: number for number, row in enumerate(found)}
        world = World(behaviours, seed, is_endless, poison=set(found[:num_poison]), kind=kind)
        world.run(found)
        sent.append([(at_s, numbers[row], index) for at_s, row, index in world.sent])
    assert sent[0] == sent[1]


@pytest.mark.parametrize("num_servers", [1, 64])
def test_a_row_costs_the_same_however_many_wait(num_servers: int) -> None:
    """The plain reference looks at every row that waits for each that it sends."""
    looks = 0

    class Counted(Row):
        __slots__ = ()

        @property
        def not_before_s(self) -> float:
            nonlocal looks
            looks += 1
            return 0.0

        @not_before_s.setter
        def not_before_s(self, value: float) -> None:
            assert value == 0.0

    servers = [Server(index, f"s{index}") for index in range(num_servers)]
    dispatcher = Dispatcher(servers)
    num, now_s = 4000, 0.0
    for _ in range(num):
        dispatcher.add(Counted(1.0))
    while dispatcher.num_waiting or any(server.rows for server in servers):
        dispatcher.next(now_s)
        dispatcher.wake_s(now_s)
        now_s += 0.1
        for server in servers:
            for row in list(server.rows):
                dispatcher.done(row, now_s, 1.0)
    assert looks <= 4 * num


@pytest.mark.parametrize("seed", range(5))
def test_a_row_that_takes_servers_down_fails_and_no_other_does(seed: int) -> None:
    found = rows(120, seed)
    poison = found[seed * 7]
    world = World([Behaviour(), Behaviour(), Behaviour(pace=30)], seed, poison={poison})
    world.run(found)
    assert set(world.failed) == {poison}
    assert sum(server.num_down for server in world.servers) == MAX_FAULTS
    assert world.failed[poison].count("s") >= MAX_FAULTS


def test_a_server_that_is_killed_costs_no_row() -> None:
    found = rows(100)
    world = World([Behaviour(down=((2.0, 9.0),)), Behaviour(down=((4.0, 6.0), (8.0, 12.0)))])
    world.run(found)
    assert not world.failed
    assert all(server.num_rows for server in world.servers), "who came back was used again"


@pytest.mark.parametrize("how", ["broken", "unwanted"])
def test_what_fails_on_a_server_that_is_retired_already_is_spoken_elsewhere(how: str) -> None:
    servers = [Server(0, "s0"), Server(1, "s1")]
    dispatcher = Dispatcher(servers)
    found = [Row(1.0) for _ in range(4)]
    for row in found:
        dispatcher.add(row)
    first, second = [row for row, server in dispatcher.next(0.0) if server is servers[0]]
    getattr(dispatcher, how)(first, 0.1)
    assert dispatcher.probes(0.1) == [servers[0]]
    dispatcher.retire(servers[0], "it speaks another model")
    getattr(dispatcher, how)(second, 0.2)
    assert {row for row, _ in dispatcher.next(0.3)} == {first, second}
    assert all(row.server is servers[1] for row in found)


@pytest.mark.parametrize(("had_begun", "num_sent"), [(True, MAX_FAULTS), (None, MAX_TRIES)])
def test_a_row_is_blamed_for_servers_that_ended_as_they_were_asked_later_than_for_others(
    had_begun: bool | None, num_sent: int
) -> None:
    server = Server(0, "s0")
    dispatcher = Dispatcher([server], is_endless=True)
    row = Row(1.0)
    dispatcher.add(row)
    now_s = 0.0
    for number in range(1, num_sent + 1):
        now_s += MAX_BACKOFF_S
        assert dispatcher.next(now_s) == [(row, server)]
        dispatcher.broken(row, now_s, had_begun=had_begun)
        assert bool(dispatcher.probed(server, False, now_s)) == (number == num_sent)
        dispatcher.probed(server, True, now_s)


def test_one_that_refuses_for_a_while_loses_nothing_and_is_asked_less() -> None:
    found = rows(60)
    world = World([Behaviour(), Behaviour(busy=((0.0, 10.0),))])
    world.run(found)
    assert not world.failed
    refused = world.servers[1]
    assert refused.num_refused <= 40, "8, then half as many each time, with growing waits"


def test_a_flaky_server_is_tried_a_bounded_number_of_times() -> None:
    found = rows(20)
    world = World([Behaviour(flaky=1.0)])
    world.run(found)
    assert set(world.failed) == set(found)
    assert set(world.num_sent.values()) == {MAX_TRIES}


def test_what_failed_on_one_server_goes_to_another() -> None:
    found = rows(40)
    world = World([Behaviour(flaky=1.0, pace=100), Behaviour(pace=5)])
    world.run(found)
    assert not world.failed
    assert max(world.num_sent.values()) <= MAX_TRIES


def test_one_that_is_done_with_nothing_for_long_is_not_taken_for_a_fast_one() -> None:
    servers = [Server(0, "silent"), Server(1, "busy", pace=10.0)]
    dispatcher = Dispatcher(servers, jitter=random.Random(1))
    servers[0].take(Row(5.0, server=servers[0], began_s=0.0))
    for _ in range(4):
        servers[1].take(Row(5.0, server=servers[1], began_s=0.0))
    for now_s, index in ((0.0, 0), (20.0, 1)):
        dispatcher.add(row := Row(5.0))
        assert dispatcher.next(now_s) == [(row, servers[index])]
        dispatcher.failed(row)


def test_work_is_shared_by_what_servers_make_of_it() -> None:
    found = rows(400)
    world = World([Behaviour(pace=10), Behaviour(pace=30)])
    world.run(found)
    slow, fast = world.servers
    assert 2.0 < fast.audio_s / slow.audio_s < 4.0
    assert world.now_s < 1.15 * sum(row.work_s for row in found) / 40


def test_a_voice_stays_where_it_was_heard_when_servers_are_equal() -> None:
    servers = [Server(0, "a"), Server(1, "b")]
    dispatcher = Dispatcher(servers, jitter=random.Random(1))
    names = []
    for voice in ("x", "y", "x", "y", "x", "y"):
        dispatcher.add(Row(2.0, voice))
        ((row, server),) = dispatcher.next(0.0)
        names.append((voice, server.name))
        dispatcher.done(row, 1.0, 2.0)
    assert len(set(names)) == 2


def many_at_once(cap: Cap, num: int) -> int:
    """Rows of 4 s on a server that speaks any number of them in half a second.

    Returns:
        the most that it had.
    """
    most, now_s = 0, 0.0
    while num:
        num_beside = min(num, cap.now)
        num -= num_beside
        most = max(most, num_beside)
        for left in range(num_beside, 0, -1):
            cap.done(left, now_s, now_s + 0.5, 4.0)
        now_s += 0.5
    return most


def test_a_server_that_is_prompt_gets_more_from_the_first_row_on() -> None:
    assert many_at_once(Cap(may_leap=True), 8 + 64) == 64
    assert many_at_once(Cap(), 8 + 64) < 64, "where others could have what waits there"


def test_a_server_that_refused_is_trusted_with_no_leap_again() -> None:
    cap = Cap(may_leap=True)
    cap.refused(0.0, 0.1)
    assert many_at_once(cap, 16) == 4


def test_a_cap_grows_as_long_as_that_is_faster_and_shrinks_when_refused() -> None:
    for most_useful in (8, 20, 40):
        cap = Cap()
        now_s = 0.0
        for _ in range(3000):
            rows_in_flight = cap.now
            served = min(rows_in_flight, most_useful)
            wall_s = 5.0 / 0.5 * rows_in_flight / served
            now_s += wall_s / rows_in_flight
            cap.done(rows_in_flight, now_s - wall_s, now_s, 5.0)
        assert 0.7 * most_useful <= cap.now <= 1.6 * most_useful, most_useful
    before = cap.now
    cap.refused(now_s, now_s)
    assert cap.now == before // 2
    cap.refused(now_s - 1.0, now_s + 1.0)  # sent before the cut
    assert cap.now == before // 2


@pytest.mark.parametrize("seed", range(3))
def test_the_last_rows_wait_for_no_slow_server(seed: int) -> None:
    found = rows(60, seed)
    world = World([Behaviour(pace=40), Behaviour(pace=40), Behaviour(pace=0.5)], seed)
    for server in world.servers:
        server.cap.limit_to(8)
    world.run(found)
    slow = world.servers[2]
    assert slow.num_moved
    assert world.now_s < 3 * sum(row.work_s for row in found) / 80
    assert all(num <= 2 for num in world.num_sent.values()), "a row is moved once"


def test_a_server_that_is_late_is_asked_and_its_rows_are_moved() -> None:
    servers = [Server(0, "a"), Server(1, "b")]
    dispatcher = Dispatcher(servers, jitter=random.Random(1))
    for _ in servers:
        dispatcher.add(Row(4.0))
    for row, _ in dispatcher.next(0.0):
        dispatcher.done(row, 1.0, 4.0)
    heard, silent = Row(4.0, is_movable=False), Row(4.0)
    for row in (heard, silent):
        dispatcher.add(row)
    places = dict(dispatcher.next(2.0))
    late = places[silent]
    assert dispatcher.moves(3.5) == []
    due_s: float | None = 3.5
    while not (moved := dispatcher.moves(due_s)):
        due_s = dispatcher.wake_s(due_s)
        assert due_s is not None
        assert due_s < 10.0
    assert moved == [(silent, late)]
    assert dispatcher.probes(due_s) == [late]
    ((again, other),) = dispatcher.next(due_s)
    assert again is silent
    assert other is not late
    assert dispatcher.moves(99.0) == [], "one that is heard stays, and one that was moved too"


def test_rows_stay_while_others_wait_and_where_rows_never_end() -> None:
    for is_endless in (False, True):
        servers = [Server(0, "a", Cap(1, 1), pace=1.0, row_pace=1.0), Server(1, "b", pace=9.0)]
        servers[1].row_pace = 9.0
        dispatcher = Dispatcher(servers, is_endless=is_endless, jitter=random.Random(1))
        late = Row(50.0)
        late.server = servers[0]
        servers[0].take(late)
        if not is_endless:
            dispatcher.add(Row(1.0, not_before_s=60.0))
        assert dispatcher.moves(40.0) == []


@given(
    st.lists(st.tuples(st.floats(0.0, 2.0), st.floats(0.2, 5.0)), min_size=1, max_size=400),
    st.sampled_from([4, 8, 30, 64]),
    st.booleans(),
    st.booleans(),
)
def test_a_cap_stays_within_its_limit_whatever_it_hears(
    heard: list[tuple[float, float]], limit: int, is_stated: bool, may_leap: bool
) -> None:
    cap = Cap(may_leap=may_leap)
    cap.limit_to(limit, is_stated=is_stated)
    assert cap.now == (limit if is_stated else min(8, limit))
    now_s = 0.0
    for pause_s, wall_s in heard:
        now_s += pause_s
        if pause_s < 0.02:
            cap.refused(now_s - wall_s, now_s)
        cap.done(cap.now, now_s - wall_s, now_s, 2.0)
        assert 1 <= cap.now <= limit


def test_a_cap_does_not_swing_where_more_rows_are_no_faster() -> None:
    numbers = random.Random(3)
    cap, now_s, seen = Cap(), 0.0, []
    for _ in range(6000):
        wall_s = numbers.uniform(0.9, 1.1) * 0.5 * cap.now
        now_s += wall_s / cap.now
        cap.done(cap.now, now_s - wall_s, now_s, 5.0)
        seen.append(cap.now)
    assert sum(each > 16 for each in seen) < len(seen) / 10
