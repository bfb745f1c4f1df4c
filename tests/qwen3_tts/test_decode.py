"""The decode step against the official package's: states, scores, codes, samples.

Each golden row is spoken from its text and voice, greedily as there, alone in a slot among others.
Tokens, codes and lengths are equal; states and scores are fp32, 1e-4; samples 5e-5.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
import torch
from qwen_models import Models
from test_layout import CASES, Case, golden
from torch import Tensor

from voxcli.layers.sampling import Filters
from voxcli.models.data import HostRow, Rows
from voxcli.models.qwen3_tts.family import Parameters
from voxcli.models.qwen3_tts.model import Qwen3TTS
from voxcli.models.qwen3_tts.prompt import Prompt
from voxcli.models.qwen3_tts.step import SlotState

TOLERANCE, SAMPLES = 1e-4, 5e-5
HOP, EOS = 1920, 2150
SLOT, NUM_SLOTS, NUM_POSITIONS = 2, 4, 96


@pytest.fixture(autouse=True)
def _inference_mode() -> Iterator[None]:
    with torch.inference_mode():
        yield


def rows_of(
    model: Qwen3TTS, prompt: Prompt, step: int, parameters: Parameters, *, on_host: bool = True
) -> Rows:
    place = HostRow(SLOT, len(prompt) + step, 7, step)
    values = model.row_values(prompt, parameters, step)
    return Rows(
        *torch.tensor([place]).unbind(1),
        inputs={
            each.name: torch.tensor([value], dtype=getattr(torch, each.dtype))
            for each, value in zip(model.row_inputs, values, strict=True)
        },
        key=model.family.graph_key(parameters),
        host=[place] if on_host else None,
    )


@dataclass
class Spoken:
    """What a prompt became, step by step."""

    states: list[Tensor]
    logits: list[Tensor]  # of code 0, raw
    tokens: list[int]
    frames: list[Tensor]
    other_logits: list[Tensor]  # [15, V] of each frame
    wav: Tensor


def speak(model: Qwen3TTS, prompt: Prompt, num_tokens: int, *, on_host: bool) -> Spoken:
    """Greedy decode of at most so many codes 0, by the model's own step."""
    parameters = Parameters(is_greedy=True)
    state = model.new_state(NUM_SLOTS, NUM_POSITIONS)
    model.prefill_together(state, [(prompt, SLOT, 0)])
    said = Spoken([], [], [], [], [], torch.zeros(0))
    samples: list[Tensor] = []
    for step in range(num_tokens):
        rows = rows_of(model, prompt, step, parameters, on_host=on_host)
        hidden = state.hidden[SLOT : SLOT + 1].clone()
        said.states.append(hidden[0])
        said.logits.append(model.talker.head(hidden)[0])
        output = model.decode(state, rows)
        frame = output.frames[0]
        said.tokens.append(EOS if output.is_end else int(frame[0]))
        assert output.has_frame is not None
        assert bool(output.has_frame[0]) != bool(output.is_end[0])
        if output.is_end[0] or step == num_tokens - 1:
            break
        said.frames.append(frame)
        said.other_logits.append(_other_logits(model, hidden, frame))
        samples.append(model.vocode(state, [SLOT], frame.view(1, 1, -1))[0])
    said.wav = torch.cat(samples)
    return said


def _other_logits(model: Qwen3TTS, hidden: Tensor, frame: Tensor) -> Tensor:
    """Scores of codes 1 to 15 where the codes before are a frame's."""
    found: list[Tensor] = []

    def choose(book: int, scores: Tensor) -> Tensor:
        found.append(scores[0])
        return frame[book : book + 1]

    model.predictor(hidden, frame[:1], choose)
    return torch.stack(found)


def close(ours: Tensor, theirs: np.ndarray, tolerance: float = TOLERANCE) -> None:
    assert (ours - torch.from_numpy(theirs)).abs().max() < tolerance


def prompt_of(model: Qwen3TTS, case: Case) -> Prompt:
    return model.lay_out(case.parts, is_text_streamed=case.is_streaming_text)


GREEDY = [name for name in CASES if CASES[name].golden != "cv_sampled"]


@pytest.mark.parametrize("on_host", [True, False], ids=["host", "tensors"])
@pytest.mark.parametrize("name", GREEDY)
def test_a_golden_is_spoken_as_the_official_package_speaks_it(
    models: Models, name: str, on_host: bool
) -> None:
    case = CASES[name]
    model, data, row = models(case.checkpoint), golden(case.golden), case.row
    prompt = prompt_of(model, case)
    embeds = data["prompt_embeds"][row][data["attention_mask"][row].astype(bool)]
    close(model.embed(prompt, 0, len(prompt)), embeds, 5e-6)
    wanted = data["code0_tokens"][row].tolist()
    said = speak(model, prompt, len(wanted), on_host=on_host)
    assert said.tokens == wanted[: len(said.tokens)]
    assert set(wanted[len(said.tokens) :]) <= {EOS}
    close(torch.stack(said.states), data["talker_hidden"][row][: len(said.states)])
    first = data["talker_logits_first"][row]
    close(torch.stack(said.logits[: len(first)]), first)
    frames = torch.stack(said.frames)
    assert frames.tolist() == data["frames"][row][: len(frames)].tolist()
    close(said.other_logits[1], data["predictor_logits_frame1"][row])
    best = torch.from_numpy(data["predictor_top_ids"][row]).long()[: len(frames)]
    theirs = data["predictor_top_logits"][row][: len(frames)]
    close(torch.stack(said.other_logits).gather(-1, best), theirs)
    wav = data[f"wav_{row}"]
    assert len(frames) * HOP == len(wav)
    # NOTE: of a clone the official package may cut off one sample more than the recording's
    close(said.wav, wav, SAMPLES)


def test_a_prompt_in_padded_spans_gives_the_states_of_a_whole_one(models: Models) -> None:
    case = CASES["base_icl_text_longer-0"]
    model = models(case.checkpoint)
    prompt = prompt_of(model, case)
    state = model.new_state(NUM_SLOTS, NUM_POSITIONS)
    model.prefill_together(state, [(prompt, SLOT, 0)])
    close(state.hidden[SLOT], golden(case.golden)["talker_hidden"][0, 0])
    half = len(prompt) // 2
    model.prefill_prefix(state, prompt, 0)
    model.copy_prefix(state, 0, SLOT, prompt.prefix_len)
    assert prompt.prefix_len > half // 2
    model.prefill_together(state, [(prompt, SLOT, prompt.prefix_len)])
    close(state.hidden[SLOT], golden(case.golden)["talker_hidden"][0, 0])


def test_scores_left_after_the_chain_are_the_official_ones(models: Models) -> None:
    """The recorded tokens are the history; what the talker and one frame's predictor draw from."""
    case = CASES["cv_sampled-0"]
    model, data = models(case.checkpoint), golden(case.golden)
    prompt = prompt_of(model, case)
    parameters = Parameters()
    state = model.new_state(NUM_SLOTS, NUM_POSITIONS)
    model.prefill_together(state, [(prompt, SLOT, 0)])
    tokens, frames = data["code0_tokens"][0], torch.from_numpy(data["frames"][0]).long()
    for step in range(len(tokens)):
        rows = rows_of(model, prompt, step, parameters)
        hidden = state.hidden[SLOT : SLOT + 1].clone()
        close(hidden[0], data["talker_hidden"][0, step])
        left = Filters(*(rows.inputs[name] for name in ("temperature", "top_k", "top_p")))
        scores = model.talker.scores(
            hidden, state.seen[[SLOT]], rows.inputs["repetition_penalty"], rows.steps
        )
        _same_support(
            left(scores),
            data["talker_score_top50_ids"][0, step],
            data["talker_score_top50"][0, step],
        )
        if step == len(frames):
            break
        assert int(frames[step, 0]) == tokens[step]
        if step == 0:
            own = _other_logits(model, hidden, frames[0])
            settings = (left.temperature, left.top_k, left.top_p)
            many = Filters(*(each.expand(15) for each in settings))
            for book, support in enumerate(many(own)):
                _same_support(
                    support.unsqueeze(0),
                    data["predictor_score_top50_ids_frame0"][0, book],
                    data["predictor_score_top50_frame0"][0, book],
                )
        model.advance(state, rows, frames[step : step + 1])


def _same_support(left: Tensor, ids: np.ndarray, scores: np.ndarray) -> None:
    assert int(left.isfinite().sum()) == len(ids)
    ranked = left[0].topk(len(ids))
    assert ranked.indices.tolist() == ids.tolist()
    close(ranked.values, scores)


def test_all_rows_of_a_batch_together_are_those_rows_alone(models: Models) -> None:
    """The official batch of three, side by side here without padding."""
    cases: list[Any] = [CASES[f"cv_batch-{row}"] for row in range(3)]
    model, data = models("cv_1b7"), golden("cv_batch")
    parameters = Parameters(is_greedy=True)
    prompts = [prompt_of(model, case) for case in cases]
    state: SlotState = model.new_state(NUM_SLOTS, NUM_POSITIONS)
    model.prefill_together(state, [(prompt, slot, 0) for slot, prompt in enumerate(prompts)])
    for step in range(data["frames"].shape[1]):
        places = [HostRow(slot, len(each) + step, slot, step) for slot, each in enumerate(prompts)]
        own = [model.row_values(each, parameters, step) for each in prompts]
        rows = Rows(
            *torch.tensor(places).unbind(1),
            inputs={
                each.name: torch.tensor(column, dtype=getattr(torch, each.dtype))
                for each, column in zip(model.row_inputs, zip(*own, strict=True), strict=True)
            },
            key=model.family.graph_key(parameters),
            host=places,
        )
        output = model.decode(state, rows)
        wanted = data["code0_tokens"][:, step]
        for row in range(3):
            if EOS not in data["code0_tokens"][row, : step + 1]:
                assert output.frames[row].tolist() == data["frames"][row, step].tolist()
            elif EOS not in data["code0_tokens"][row, :step]:
                assert wanted[row] == EOS
                assert output.is_end[row]
