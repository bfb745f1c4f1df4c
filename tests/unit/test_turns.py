"""Rows whose settings cannot share a step share its time."""

from __future__ import annotations

import numpy as np
from asking import new_request
from fakes import FakeModel, fake_engine
from hypothesis import given, settings
from hypothesis import strategies as st

from voxcli.config import SamplingParams
from voxcli.engine.native.request import Request
from voxcli.engine.native.turns import Turns
from voxcli.models.voxcpm2.prompt import Prompt
from voxcli.utterance import Utterance

PROMPT = Prompt(np.zeros(5, np.int64), np.zeros(5, bool), np.zeros((0, 1, 1)))


class Clock:
    """Time that passes when it is told to."""

    now_s = 0.0

    def __call__(self) -> float:
        return self.now_s


def group(steps: int, num_rows: int) -> list[Request]:
    return [new_request(PROMPT, steps=steps) for _ in range(num_rows)]


def take(turns: Turns, clock: Clock, groups: list[list[Request]], costs: dict[int, float]) -> int:
    """One step; whose it was, by the number of the group."""
    (chosen,) = turns.next(groups)
    number = next(number for number, each in enumerate(groups) if each is chosen)
    with turns.taken(chosen):
        clock.now_s += costs[number]
    return number


@settings(max_examples=200, deadline=None, derandomize=True, database=None)
@given(
    groups=st.lists(st.tuples(st.integers(1, 16), st.floats(0.001, 1.0)), min_size=1, max_size=6)
)
def test_every_row_gets_the_same_time_however_long_its_steps_are(
    groups: list[tuple[int, float]],
) -> None:
    clock = Clock()
    turns = Turns(clock)
    rows = [group(2 + number, num_rows) for number, (num_rows, _) in enumerate(groups)]
    costs = {number: cost_s for number, (_, cost_s) in enumerate(groups)}
    had_s = [0.0] * len(rows)
    for _ in range(300):
        number = take(turns, clock, rows, costs)
        had_s[number] += costs[number] / len(rows[number])
    longest_s = max(costs[number] / len(each) for number, each in enumerate(rows))
    assert max(had_s) - min(had_s) <= longest_s + 1e-9


def test_who_comes_late_owes_nothing_and_is_owed_nothing() -> None:
    clock = Clock()
    turns = Turns(clock)
    usual, late = group(6, 8), group(100, 1)
    for _ in range(1000):
        take(turns, clock, [usual], {0: 0.01})
    order = [take(turns, clock, [usual, late], {0: 0.01, 1: 0.3}) for _ in range(500)]
    assert order.index(1) <= 1
    share = order.count(1) * 0.3 / (order.count(1) * 0.3 + order.count(0) * 0.01)
    assert abs(share - 1 / 9) < 0.07


def test_nobody_is_rid_of_what_it_owes_by_leaving_for_a_moment() -> None:
    clock = Clock()
    turns = Turns(clock)
    usual, odd = group(6, 8), group(100, 1)
    order = []
    for _ in range(500):
        order.append(take(turns, clock, [usual, odd], {0: 0.01, 1: 0.3}))
        if order[-1] == 1:
            take(turns, clock, [usual], {0: 0.01})
            odd = group(100, 1)
    assert order.count(1) * 0.3 < order.count(0) * 0.01 / 8 + 0.6


def test_one_setting_steps_every_time_and_none_is_nothing() -> None:
    turns = Turns()
    assert turns.next([]) == []
    usual = group(6, 3)
    for _ in range(3):
        assert turns.next([usual]) == [usual]


def test_streams_of_many_settings_all_end_with_the_samples_they_have_alone() -> None:
    model = FakeModel()
    engine = fake_engine(model, max_slots=8)
    asked = [
        Utterance("A sentence of some length.", sampling=SamplingParams(7, None, 3, {"steps": n}))
        for n in (6, 6, 100, 50, 6)
    ]
    alone = [engine.synthesize([each])[0].samples for each in asked]
    with engine.session() as session:
        for each in asked:
            session.add(engine.plan(each))
        session.step()
        assert engine.num_settings() == 3
        while not session.is_idle:
            session.step()
    assert engine.num_settings() == 0
    together = engine.synthesize(asked)
    for mine, theirs in zip(alone, together, strict=True):
        assert mine.tobytes() == theirs.samples.tobytes()
