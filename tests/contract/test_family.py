"""What every family keeps, so that one engine works with all of them."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import fields, is_dataclass, replace
from itertools import product
from typing import Any

import numpy as np
import pytest
import torch
from asking import new_request
from subjects import Subject
from torch import Tensor

from voxcli.engine.native import prompts
from voxcli.engine.native.prefilling import Prefilling
from voxcli.engine.native.program import Program
from voxcli.errors import UsageError
from voxcli.models.data import HostRow, Rows
from voxcli.parameters import settle
from voxcli.utterance import Use

NUM_POSITIONS = 160
MAX_POSITIONS = 200  # of the smallest model
NUM_STEPS = 4


@pytest.fixture(autouse=True)
def _inference_mode() -> Iterator[None]:
    with torch.inference_mode():
        yield


def tensors(state: Any) -> list[Tensor]:
    """Every tensor in a state object, in a fixed order."""
    if isinstance(state, Tensor):
        return [state]
    if isinstance(state, (list, tuple)):
        return [tensor for each in state for tensor in tensors(each)]
    if is_dataclass(state):
        return [tensor for each in fields(state) for tensor in tensors(getattr(state, each.name))]
    return []


def rows_of(
    subject: Subject, places: Sequence[HostRow], prompts: Sequence[Any], *, on_host: bool
) -> Rows:
    model, family = subject.model, subject.family
    parameters = family.parameters()
    own = [
        model.row_values(prompt, parameters, place.step)
        for prompt, place in zip(prompts, places, strict=True)
    ]
    values = zip(*own, strict=True)
    return Rows(
        *torch.tensor(places).unbind(1),
        inputs={
            each.name: torch.tensor(column, dtype=getattr(torch, each.dtype))
            for each, column in zip(model.row_inputs, values, strict=True)
        },
        key=family.graph_key(parameters),
        host=list(places) if on_host else None,
    )


def speak(
    subject: Subject, slots: dict[int, int], *, on_host: bool = True
) -> dict[int, list[Tensor]]:
    """Frames of prompts (by number) in slots, all of them together."""
    model, prompts = subject.model, subject.prompts()
    state = model.new_state(6, NUM_POSITIONS)
    model.prefill_together(state, [(prompts[number], slot, 0) for number, slot in slots.items()])
    found: dict[int, list[Tensor]] = {number: [] for number in slots}
    own = [prompts[number] for number in slots]
    for step in range(NUM_STEPS):
        places = [
            HostRow(slot, len(prompts[number]) + step, 7 + number, step)
            for number, slot in slots.items()
        ]
        output = model.decode(state, rows_of(subject, places, own, on_host=on_host))
        for number, frame in zip(slots, output.frames, strict=True):
            found[number].append(frame.clone())
    return found


def same(left: Sequence[Tensor], right: Sequence[Tensor], tolerance: float = 1e-4) -> None:
    for one, other in zip(left, right, strict=True):
        torch.testing.assert_close(one, other, atol=tolerance, rtol=1e-3)


# ---------------------------------------------------------------- before it is loaded


def test_facts_are_those_of_the_loaded_model(subject: Subject) -> None:
    config = json.loads((subject.folder / "config.json").read_text())
    assert subject.family.recognises(config)
    assert not subject.family.recognises({"architecture": "nonsense"})
    facts, info = subject.family.facts(subject.folder, config), subject.model.info
    assert facts.family == info.family == subject.family.name
    assert facts.sample_rate == info.sample_rate
    assert facts.reference_sample_rate == info.reference_sample_rate
    assert facts.modes


def test_every_file_is_a_path_inside_the_folder(subject: Subject) -> None:
    names = [name for options in subject.family.parts.values() for name in options]
    for name in (*names, *subject.family.extras):
        assert not name.startswith("/")
        assert ".." not in name.split("/")
    for part, options in subject.family.parts.items():
        assert any((subject.folder / name).is_file() for name in options), part
    known = {"config.json", *subject.family.parts}
    assert set(subject.family.encoder_parts) <= known


def test_parameters_are_declared_whole_and_refused_by_name(subject: Subject) -> None:
    declaration = subject.family.declaration
    settled = settle("it", declaration)
    assert subject.family.parameters_of(settled) == subject.family.parameters()
    for each in declaration:
        assert each.check(each.default) == each.default
        assert each.meaning
        assert each.type is type(each.default)
        if each.minimum is not None:
            with pytest.raises(UsageError, match=each.option):
                settle("it", declaration, {each.name: each.minimum - 1})
        with pytest.raises(UsageError, match=each.option):
            settle("it", declaration, {each.name: float("nan")})
    with pytest.raises(UsageError, match=f"it has: .*{declaration[0].option}"):
        settle("it", declaration, {"nonsense": 1})


def test_a_graph_key_is_plain_and_says_what_a_graph_is_captured_for(subject: Subject) -> None:
    family = subject.family
    choices = []
    for each in family.declaration:
        ends = (True, False) if each.minimum is None else (each.minimum, each.maximum)
        choices.append([(each.name, each.type(value)) for value in (*ends, each.default)])
    keys, cheap = set(), set()
    for values in product(*choices):
        parameters = family.parameters_of(dict(values))
        key = family.graph_key(parameters)
        assert tuple(json.loads(json.dumps(key))) == key
        keys.add(key)
        cheapest = family.cheapest(parameters)
        assert family.cheapest(cheapest) == cheapest
        cheap.add(family.graph_key(cheapest))
    assert cheap <= keys | cheap
    assert len(cheap) <= len(keys)
    assert sorted(keys)


# ---------------------------------------------------------------- prompts and voices


def test_prompts_in_one_voice_share_their_beginning_and_others_do_not(subject: Subject) -> None:
    plain, _, first, second, other = subject.prompts()
    assert all(len(prompt) > 0 for prompt in subject.prompts())
    assert plain.prefix_len == 0
    assert 0 < first.prefix_len < len(first)
    assert (first.prefix_key, first.prefix_len) == (second.prefix_key, second.prefix_len)
    assert other.prefix_key != first.prefix_key


def test_a_kept_beginning_gives_what_a_whole_prompt_gives(subject: Subject) -> None:
    model = subject.model
    prompt = subject.prompts()[3]
    whole, parts = (model.new_state(2, NUM_POSITIONS) for _ in range(2))
    model.prefill_together(whole, [(prompt, 0, 0)])
    model.prefill_prefix(parts, prompt, 1)
    model.copy_prefix(parts, 1, 0, prompt.prefix_len)
    model.prefill_together(parts, [(prompt, 0, prompt.prefix_len)])
    place = [HostRow(0, len(prompt), 3, 0)]
    found = [
        model.decode(state, rows_of(subject, place, [prompt], on_host=True)).frames
        for state in (whole, parts)
    ]
    same(found[:1], found[1:])


def test_encodings_are_plain_arrays_that_the_model_takes_back(subject: Subject) -> None:
    samples = np.random.default_rng(0).normal(size=3000).astype(np.float32) / 10
    arrays = subject.model.encode_recording(samples, Use.REFERENCE)
    assert arrays
    for array in arrays.values():
        assert array.dtype in (np.float32, np.int64)
        assert np.isfinite(array).all()
    assert subject.model.can_take(arrays, Use.REFERENCE)
    assert not subject.model.can_take({}, Use.REFERENCE)
    for name in arrays:
        wrong = {**arrays, name: np.zeros((1, 2, 3, 4), np.float32)}
        others = {key: value for key, value in arrays.items() if key != name}
        can_do_without = subject.model.can_take(others, Use.REFERENCE)
        assert can_do_without or not subject.model.can_take(wrong, Use.REFERENCE)


# ---------------------------------------------------------------- steps


def test_neighbours_and_slots_do_not_change_a_row(subject: Subject) -> None:
    together = speak(subject, {0: 4, 3: 1, 2: 0, 4: 5})
    for number, slot in ((0, 2), (3, 1), (4, 0)):
        same(speak(subject, {number: slot})[number], together[number], 1e-5)


def test_a_step_in_tensors_alone_is_the_step_that_the_host_drives(subject: Subject) -> None:
    slots = {0: 4, 3: 1, 2: 0}
    host, alone = speak(subject, slots), speak(subject, slots, on_host=False)
    for number in slots:
        same(host[number], alone[number], 1e-3)


def test_slots_that_take_no_part_keep_their_bits(subject: Subject) -> None:
    model, prompts = subject.model, subject.prompts()
    state = model.new_state(4, NUM_POSITIONS)
    model.prefill_together(state, [(prompts[number], number, 0) for number in range(4)])
    before = [tensor.clone() for tensor in tensors(state)]
    place = [HostRow(2, len(prompts[2]), 1, 0)]
    output = model.decode(state, rows_of(subject, place, prompts[2:3], on_host=True))
    model.vocode(state, [2], output.frames.unsqueeze(1))
    for old, new in zip(before, tensors(state)[: len(before)], strict=True):
        axis = next((axis for axis, size in enumerate(new.shape) if size == 4), None)
        if axis is not None:
            others = torch.tensor([0, 1, 3])
            assert torch.equal(old.index_select(axis, others), new.index_select(axis, others))


def test_a_row_has_a_frame_unless_it_is_at_its_end(subject: Subject) -> None:
    model, prompts = subject.model, subject.prompts()
    state = model.new_state(1, NUM_POSITIONS)
    model.prefill_together(state, [(prompts[0], 0, 0)])
    for step in range(60):
        place = [HostRow(0, len(prompts[0]) + step, 1, step)]
        output = model.decode(state, rows_of(subject, place, prompts[:1], on_host=True))
        assert output.is_end.dtype == torch.bool
        if output.has_frame is not None and not output.has_frame[0]:
            assert output.is_end[0]
        if output.is_end[0]:
            break


# ---------------------------------------------------------------- vocoder


@pytest.mark.parametrize("sizes", [[1] * 8, [2, 1, 5], [3, 4, 1], [8]])
def test_streamed_audio_equals_offline_audio(subject: Subject, sizes: list[int]) -> None:
    model = subject.model
    frames = torch.stack([*speak(subject, {0: 0})[0], *speak(subject, {1: 0})[1]]).unsqueeze(0)
    prompt = subject.prompts()[0]
    samples = []
    for parts in ([8], sizes):
        state = model.new_state(1, NUM_POSITIONS)
        model.prefill_together(state, [(prompt, 0, 0)])
        samples.append(
            torch.cat([model.vocode(state, [0], part) for part in frames.split(parts, 1)], dim=1)
        )
    assert samples[0].shape == (1, 8 * model.info.hop_length)
    assert bool((samples[0].abs() <= 1).all())
    torch.testing.assert_close(samples[1], samples[0], atol=1e-5, rtol=1e-4)


# ---------------------------------------------------------------- what graphs read


def test_spans_behind_one_another_give_what_prompts_alone_give(subject: Subject) -> None:
    model, prompts = subject.model, subject.prompts()
    program = Program(model, torch.device("cpu"), len(prompts), NUM_POSITIONS)
    prefilling = Prefilling(program, program.prefill)
    requests = [new_request(prompt, slot=slot) for slot, prompt in enumerate(prompts)]
    alone = model.new_state(len(prompts), NUM_POSITIONS)
    for slot, prompt in enumerate(prompts):
        model.prefill_together(alone, [(prompt, slot, 0)])
    while waiting := [each for each in requests if not each.is_prefilled]:
        prefilling.run(waiting, 100)
    places = [HostRow(slot, len(prompt), 5, 0) for slot, prompt in enumerate(prompts)]
    rows = rows_of(subject, places, prompts, on_host=False)
    found = model.decode(program.state, rows).frames
    same([found], [model.decode(alone, replace(rows)).frames], 1e-3)


@pytest.mark.parametrize("seed", range(3))
def test_any_mix_of_prompts_gives_what_they_give_alone(
    subject: Subject, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    drawn = np.random.default_rng(seed)
    monkeypatch.setattr(prompts, "MAX_SPAN", int(drawn.integers(8, 100)))  # so that all are cut
    model, num_slots = subject.model, int(drawn.integers(2, 8))
    program = Program(model, torch.device("cpu"), num_slots, MAX_POSITIONS)
    prefilling = Prefilling(program, program.prefill)
    own = [subject.prompt_of(int(drawn.integers(1, 15)), drawn) for _ in range(num_slots)]
    requests = [new_request(prompt, slot=slot) for slot, prompt in enumerate(own)]
    while waiting := [each for each in requests if not each.is_prefilled]:
        prefilling.run(waiting, int(drawn.integers(1, 700)))
    alone = model.new_state(num_slots, MAX_POSITIONS)
    for slot, prompt in enumerate(own):
        model.prefill_together(alone, [(prompt, slot, 0)])
    places = [HostRow(slot, len(prompt), 5, 0) for slot, prompt in enumerate(own)]
    rows = rows_of(subject, places, own, on_host=False)
    found = model.decode(program.state, rows).frames
    same([found], [model.decode(alone, replace(rows)).frames], 1e-3)


def test_the_state_takes_the_memory_that_was_computed(subject: Subject) -> None:
    state = subject.model.new_state(3, NUM_POSITIONS)
    held = sum(tensor.nbytes for tensor in tensors(state))
    assert held == subject.model.state_bytes(3, NUM_POSITIONS)
