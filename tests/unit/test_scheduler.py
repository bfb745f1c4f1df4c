"""Admission, order, slots: plain Python, no model."""

from __future__ import annotations

import random

import numpy as np
import pytest
from asking import new_request

from voxcli.engine.native.request import Request, Status
from voxcli.engine.native.scheduler import PrefillLimits, Scheduler
from voxcli.errors import AdmissionError
from voxcli.models.voxcpm2.prompt import Prompt
from voxcli.utterance import FinishReason


def request(length: int = 5, max_frames: int = 10, **settings: float) -> Request:
    prompt = Prompt(np.zeros(length, np.int64), np.zeros(length, bool), np.zeros((0, 1, 1)))
    return new_request(prompt, max_frames=max_frames, **settings)


def schedule(scheduler: Scheduler) -> list[Request]:
    """The prompts of a step, run whole."""
    prefill = scheduler.schedule().prefill
    for each in prefill:
        each.num_prefilled = len(each.prompt)
    return prefill


def test_requests_run_in_the_order_they_came() -> None:
    scheduler = Scheduler(2, 100, PrefillLimits(1000, 24, 1000))
    requests = [request() for _ in range(3)]
    for each in requests:
        scheduler.add(each)
    assert schedule(scheduler) == requests[:2]
    requests[0].finish_reason = FinishReason.STOP
    scheduler.release(requests[0])
    assert schedule(scheduler) == [requests[2]]


def test_who_has_ended_runs_no_more_but_keeps_its_slot_until_it_is_released() -> None:
    scheduler = Scheduler(1, 100, PrefillLimits(1000, 24, 1000))
    ended, waiting = request(), request()
    scheduler.add(ended)
    scheduler.add(waiting)
    scheduler.schedule()
    assert scheduler.is_generating
    ended.finish_reason = FinishReason.STOP
    assert not scheduler.is_generating
    batch = scheduler.schedule()
    assert (batch.prefill, batch.decode) == ([], [])
    scheduler.release(ended)
    assert scheduler.is_generating
    assert scheduler.schedule().decode == [[waiting]]


def test_a_request_that_cannot_fit_is_refused_with_the_numbers() -> None:
    scheduler = Scheduler(2, 100, PrefillLimits(1000, 24, 1000))
    with pytest.raises(AdmissionError, match=r"60 positions.*up to 41.*has 100"):
        scheduler.add(request(60, 41))
    scheduler.add(request(60, 40))


def test_newcomers_share_a_step_up_to_the_prefill_limit() -> None:
    scheduler = Scheduler(4, 1000, PrefillLimits(100, 24, 100))
    for length in (150, 60, 30, 30):
        scheduler.add(request(length))
    assert [len(r.prompt) for r in schedule(scheduler)] == [150]
    assert [len(r.prompt) for r in schedule(scheduler)] == [60, 30]
    assert [len(r.prompt) for r in schedule(scheduler)] == [30]


def test_more_streams_allow_more_positions_of_newcomers() -> None:
    limits = PrefillLimits(100, 24, 1000)
    assert [limits.of(num) for num in (0, 1, 23, 24, 64)] == [1000, 100, 100, 200, 300]


def test_a_prompt_that_is_not_through_goes_on_before_newcomers() -> None:
    scheduler = Scheduler(4, 1000, PrefillLimits(100, 24, 1000))
    running, long, short = request(10), request(350), request(5)
    scheduler.add(running)
    schedule(scheduler)
    for each in (long, short):
        scheduler.add(each)
    for done in (100, 200, 300):
        batch = scheduler.schedule()
        assert (batch.prefill, batch.max_positions) == ([long], 100)
        long.num_prefilled = done
    assert schedule(scheduler) == [long, short]
    assert scheduler.schedule().prefill == []


def test_rows_of_one_step_share_their_graph_key() -> None:
    scheduler = Scheduler(8, 100, PrefillLimits(1000, 24, 1000))
    for steps, guidance in ((6, 1.0), (10, 2.0), (6, 1.0), (6, 1.5)):
        scheduler.add(request(steps=steps, guidance_scale=guidance))
    groups = scheduler.schedule().decode
    assert sorted(len(group) for group in groups) == [1, 1, 2]
    for group in groups:
        assert len({each.key for each in group}) == 1


def test_no_slot_is_lost_or_shared_whatever_happens() -> None:
    chooser = random.Random(1)
    scheduler = Scheduler(5, 100, PrefillLimits(60, 24, 60))
    live: list[Request] = []
    for _ in range(2000):
        action = chooser.random()
        if action < 0.4:
            live.append(request(chooser.randint(1, 40)))
            scheduler.add(live[-1])
        elif action < 0.7:
            scheduler.schedule()
        elif live and action < 0.85:
            scheduler.abort(live.pop(chooser.randrange(len(live))))
        else:
            for each in [each for each in scheduler.running if chooser.random() < 0.3]:
                each.finish_reason = FinishReason.STOP
                if chooser.random() < 0.7:
                    scheduler.release(each)
        slots = [each.slot for each in scheduler.running]
        assert len(set(slots)) == len(slots)
        assert scheduler.num_free_slots + len(slots) == 5
        assert all(each.slot is None for each in live if each.status is not Status.RUNNING)


def test_aborting_twice_is_safe() -> None:
    scheduler = Scheduler(1, 100, PrefillLimits(100, 24, 100))
    each = request()
    scheduler.add(each)
    scheduler.abort(each)
    scheduler.abort(each)
    assert not scheduler.has_work
