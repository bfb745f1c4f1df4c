"""Captured engines without a card: a stand-in records and replays what a card would (`graphs.py`).

Order of capture, unused rows, results one step late, changing buckets, failures in capture: for
each family, on every machine.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
import torch
from graphs import RecordedGraph, RecordingCard
from subjects import Subject

from voxcli.config import EngineConfig
from voxcli.engine.native.core import EngineCore
from voxcli.engine.native.graph import GraphRunner
from voxcli.engine.native.request import Request
from voxcli.errors import EngineError, UsageError
from voxcli.models.data import PromptParts, Rows
from voxcli.utterance import Use

NUM_SLOTS, NUM_POSITIONS, NUM_FRAMES = 3, 96, 5
TEXTS = ("Hello there.", "One two three four.", "Why not?", "The birch canoe slid.", "No.")
TOLERANCE = 2e-3  # fp32, other orders of summation, fed back over the frames of a request


def keys_of(subject: Subject) -> dict[Any, Any]:
    """Two keys of a family, of its defaults and of other parameters; for each its cheapest."""
    family = subject.family
    asked = [family.parameters()]
    for each in family.declaration:
        value = not each.default if each.minimum is None else each.type(each.minimum)
        asked.append(family.parameters_of({**vars(family.parameters()), each.name: value}))
    found = {family.graph_key(each): family.graph_key(family.cheapest(each)) for each in asked}
    return dict(list(found.items())[:2])


class Captured:
    """A core over a recording card."""

    def __init__(self, subject: Subject, **given: Any) -> None:
        self.card = RecordingCard(**given)
        cheapest = keys_of(subject)
        self.keys = list(cheapest)
        model, device = subject.model, torch.device("cpu")
        self.runner = GraphRunner(
            model, self.card, NUM_SLOTS, NUM_POSITIONS, cheapest, lambda: True
        )
        config = EngineConfig(max_slots=NUM_SLOTS, max_positions=NUM_POSITIONS, threads=1)
        self.core = EngineCore(model, device, config, runner=self.runner)


@pytest.fixture(scope="module")
def captured(subject: Subject) -> Captured:
    return Captured(subject)


@pytest.fixture(scope="module")
def eager(subject: Subject) -> EngineCore:
    config = EngineConfig(max_slots=NUM_SLOTS, max_positions=NUM_POSITIONS, threads=1)
    return EngineCore(subject.model, torch.device("cpu"), config)


def request(
    subject: Subject, number: int, *, key: Any = None, num_frames: int = NUM_FRAMES
) -> Request:
    family, model = subject.family, subject.model
    parameters = family.parameters()
    length = model.info.reference_sample_rate // 15
    samples = np.sin(np.arange(length) / (4 + number)).astype(np.float32)
    voice = model.encode_recording(samples, Use.REFERENCE) if number % 2 else None
    prompt = model.make_prompt(PromptParts(TEXTS[number % 5], "en", reference=voice))
    return Request(
        prompt, 10 + number, parameters, key or family.graph_key(parameters), num_frames,
        min_frames=num_frames,
    )  # fmt: skip


def run(core: EngineCore, requests: Sequence[Request], joins: Sequence[int] = ()) -> list[Any]:
    """Samples of each; `joins[i]` is the step at which request i is added."""
    pieces: dict[int, list[np.ndarray]] = {id(each): [] for each in requests}
    starts, step = list(joins) or [0] * len(requests), 0
    while core.has_work or any(start >= step for start in starts):
        for each, start in zip(requests, starts, strict=True):
            if start == step:
                core.add_request(each)
        for output in core.step():
            pieces[id(output.request)].append(output.samples)
        step += 1
        assert step < 200
    return [np.concatenate(pieces[id(each)]) for each in requests]


def close(left: Sequence[np.ndarray], right: Sequence[np.ndarray]) -> None:
    for one, other in zip(left, right, strict=True):
        assert one.shape == other.shape
        assert np.isfinite(one).all()
        assert np.abs(one - other).max() < TOLERANCE


def test_captured_steps_are_the_eager_ones(
    subject: Subject, captured: Captured, eager: EngineCore
) -> None:
    for number in range(3):
        close(
            run(captured.core, [request(subject, number)]), run(eager, [request(subject, number)])
        )


def test_what_eager_rows_hold_lies_without_gaps(
    subject: Subject, eager: EngineCore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Kernels read a row's number right behind that of the row before."""
    seen: list[Rows] = []
    decode = subject.model.decode

    def watched(state: Any, rows: Rows) -> Any:
        seen.append(rows)
        return decode(state, rows)

    monkeypatch.setattr(subject.model, "decode", watched)
    run(eager, [request(subject, number) for number in range(3)])
    assert max(len(rows.slots) for rows in seen) == 3
    for rows in seen:
        for each in (rows.slots, rows.positions, rows.seeds, rows.steps, *rows.inputs.values()):
            assert each.is_contiguous()


def test_neighbours_that_come_and_go_change_buckets_and_no_sample(
    subject: Subject, captured: Captured, eager: EngineCore
) -> None:
    def requests() -> list[Request]:
        return [request(subject, number, num_frames=3 + number) for number in range(5)]

    alone = [run(eager, [each])[0] for each in requests()]
    close(run(captured.core, requests(), joins=[0, 1, 1, 4, 9]), alone)


def test_rows_of_another_key_go_in_a_step_of_their_own(
    subject: Subject, captured: Captured, eager: EngineCore
) -> None:
    keys = captured.keys  # of a family that has one, all go together

    def requests() -> list[Request]:
        return [request(subject, n, key=keys[n % len(keys)]) for n in range(3)]

    close(run(captured.core, requests()), [run(eager, [each])[0] for each in requests()])


def test_a_key_without_a_graph_is_refused_and_nobody_waits_for_it(
    subject: Subject, captured: Captured
) -> None:
    alone = run(captured.core, [request(subject, 1)])
    neighbour = request(subject, 1)
    captured.core.add_request(neighbour)
    with pytest.raises(UsageError, match="no graph was captured") as refused:
        captured.core.add_request(request(subject, 0, key=("nonsense",)))
    assert str(captured.keys[0]) in str(refused.value.hint)
    pieces = []
    while captured.core.has_work:
        pieces += [output.samples for output in captured.core.step()]
    assert np.array_equal(np.concatenate(pieces), alone[0])


def test_everything_is_captured_before_the_first_request_largest_first(subject: Subject) -> None:
    order: list[int] = []

    class Ordering(RecordingCard):
        def capture(self, function: Any, ready: Any = None) -> Any:
            order.append(function.args[0] if len(function.args) == 2 else -1)
            return super().capture(function, ready)

    card = Ordering()
    keys = keys_of(subject)
    runner = GraphRunner(subject.model, card, NUM_SLOTS, NUM_POSITIONS, keys, lambda: True)
    steps = [size for size in order if size > 0]
    assert steps == sorted(steps, reverse=True)
    assert set(steps) == {1, 2, 3}
    assert len(card.graphs) == runner.graph_captures == len(steps) + order.count(-1)
    config = EngineConfig(max_slots=NUM_SLOTS, max_positions=NUM_POSITIONS, threads=1)
    core = EngineCore(subject.model, torch.device("cpu"), config, runner=runner)
    run(core, [request(subject, number) for number in range(5)], joins=[0, 0, 2, 3, 5])
    assert runner.graph_captures == len(order), "nothing is captured under load"


def test_what_runs_before_a_capture_launches_all_that_the_step_does(subject: Subject) -> None:
    launched: list[tuple[set[Any], set[Any]]] = []

    class Comparing(RecordingCard):
        def capture(self, function: Any, ready: Any = None) -> Any:
            if ready is not None:
                launched.append(
                    (operations(RecordedGraph(ready)), operations(RecordedGraph(function)))
                )
            return super().capture(function, ready)

    def operations(graph: RecordedGraph) -> set[Any]:
        calls = [(func, args) for func, args, _, _ in graph.calls if not func.is_view]
        return {(func, tuple(map(shape_of, args))) for func, args in calls}

    def shape_of(value: Any) -> Any:
        return tuple(value.shape) if isinstance(value, torch.Tensor) else None

    keys = keys_of(subject)
    GraphRunner(subject.model, Comparing(), NUM_SLOTS, NUM_POSITIONS, keys, lambda: True)
    assert len(launched) == len(keys) * (NUM_SLOTS - 1), "the largest runs as it is"
    for before, step in launched:
        assert step <= before


def test_results_come_one_step_late_and_none_is_left(subject: Subject, captured: Captured) -> None:
    single = request(subject, 0)
    captured.core.add_request(single)
    captured.core.step()
    assert (single.step, captured.card.pending) == (0, 1), "launched, not waited for"
    captured.core.step()
    assert single.step == 1
    while captured.core.has_work:
        captured.core.step()
    assert single.step == NUM_FRAMES
    captured.core.abort([single])
    follower = request(subject, 2)
    run(captured.core, [follower])
    assert captured.card.pending <= 1


def test_an_aborted_request_leaves_nothing_to_the_next_in_its_slot(
    subject: Subject, captured: Captured
) -> None:
    expected = run(captured.core, [request(subject, 4)])
    gone = [request(subject, number, num_frames=30) for number in range(3)]
    for each in gone:
        captured.core.add_request(each)
    for _ in range(4):
        captured.core.step()
    captured.core.abort(gone)
    assert np.array_equal(run(captured.core, [request(subject, 4)])[0], expected[0])


def test_unused_rows_work_on_the_reserved_slot(subject: Subject, captured: Captured) -> None:
    program = captured.runner.program
    run(captured.core, [request(subject, number) for number in range(3)])
    run(captured.core, [request(subject, 0)])
    slots = program.rows.inputs[0].tolist()
    assert slots[0] == 0
    assert set(slots[1:]) <= {program.dummy_slot, 0, 1, 2}
    assert program.dummy_slot == NUM_SLOTS


@pytest.mark.parametrize(
    ("failure", "words"),
    [
        (torch.OutOfMemoryError("tried to allocate"), "needs more GPU memory than there is"),
        (RuntimeError("operation not permitted"), "capturing the step as a CUDA graph failed"),
    ],
)
@pytest.mark.parametrize("fail_at", [1, 4])
def test_a_failure_in_capture_says_what_to_do(
    subject: Subject, failure: Exception, words: str, fail_at: int
) -> None:
    with pytest.raises(EngineError, match=words) as caught:
        Captured(subject, fail_at=fail_at, failure=failure)
    assert "--eager" in str(caught.value.hint)


def test_the_stand_in_refuses_what_a_graph_may_not_hold() -> None:
    there = torch.zeros(2)

    def function() -> None:
        there.add_(there[0].item())

    with pytest.raises(RuntimeError, match="not permitted"):
        RecordingCard().capture(function)


def test_the_stand_in_replays_over_the_same_buffers_and_asks_python_no_more() -> None:
    source, target, asked = torch.ones(3), torch.zeros(3), []

    def function() -> None:
        asked.append(1)
        target.copy_(source * 2 + len(asked))

    graph = RecordingCard().capture(function)
    num_asked = len(asked)
    source.fill_(5)
    graph.replay()
    assert target.tolist() == [10.0 + num_asked] * 3
    assert len(asked) == num_asked
