"""Whatever happens to speeches, nothing of them is left and nobody else is harmed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest
from fakes import FakeEngine, FakeModel, FakePrompt, fake_engine
from hypothesis import given, settings
from hypothesis import strategies as st

from voxcli.config import SamplingParams
from voxcli.engine.base import Speech, SpeechSession
from voxcli.errors import EngineError, VoxError
from voxcli.models.data import PromptParts
from voxcli.utterance import Utterance

FAULTS = ("", "silent", "nan", "endless")
MAX_STEPS = 2000
WORDS = ("alpha", "bravo", "charlie", "delta", "echo", "foxtrot")  # as they are said


@dataclass(frozen=True)
class Life:
    """One speech: its segments' faults by attempt, when it joins, and when somebody leaves it."""

    faults: list[list[str]]
    is_live: bool
    joins_at: int
    leaves_at: int | None
    pauses: tuple[int, int] | None
    retries: int
    steps: int


LIVES = st.builds(
    Life,
    faults=st.lists(st.lists(st.sampled_from(FAULTS), max_size=4), min_size=1, max_size=4),
    is_live=st.booleans(),
    joins_at=st.integers(0, 15),
    leaves_at=st.none() | st.integers(0, 30),
    pauses=st.none() | st.tuples(st.integers(0, 20), st.integers(1, 20)),
    retries=st.integers(0, 4),
    steps=st.sampled_from([6, 6, 6, 50]),
)


class Buggy(FakeModel):
    """Cannot make a prompt of one text, in a way that nobody expects."""

    def make_prompt(self, parts: PromptParts) -> FakePrompt:
        if "odd" in parts.text:
            raise KeyError(parts.text)
        return super().make_prompt(parts)


def texts_of(number: int, life: Life) -> list[str]:
    return [f"Speech {WORDS[number]} has {WORDS[part]} here." for part in range(len(life.faults))]


def live(engine: FakeEngine, session: SpeechSession, lives: list[Life]) -> None:
    """Step until all have ended; checks what came."""
    speeches: dict[int, Speech] = {}
    ended: set[Speech] = set()
    for step in range(MAX_STEPS):
        for number, life in enumerate(lives):
            if life.joins_at == step:
                sampling = SamplingParams(number, None, life.retries, {"steps": life.steps})
                plan = engine.plan(Utterance(" ".join(texts_of(number, life)), sampling=sampling))
                speeches[number] = session.add(plan, is_live=life.is_live)
            if (speech := speeches.get(number)) is None:
                continue
            if life.pauses is not None and step == life.joins_at + life.pauses[0]:
                session.pause(speech)
            if life.pauses is not None and step == life.joins_at + sum(life.pauses):
                session.resume(speech)
            if life.leaves_at is not None and step == life.joins_at + life.leaves_at:
                session.leave(speech)
                ended.add(speech)
        for speech, event in session.step():
            assert speech not in ended
            assert not isinstance(event, EngineError), event  # such as a bug of ours
            if isinstance(event, VoxError) or event.is_last:
                ended.add(speech)
        if session.is_idle and len(speeches) == len(lives):
            break
    assert session.is_idle
    assert ended == set(speeches.values())


@settings(max_examples=150, deadline=None, derandomize=True, database=None)
@given(lives=st.lists(LIVES, min_size=1, max_size=6), threads=st.sampled_from([1, 2, 4]))
def test_once_all_have_ended_there_is_no_work(lives: list[Life], threads: int) -> None:
    faults = {
        text: [kind for kind in kinds if kind]
        for number, life in enumerate(lives)
        for text, kinds in zip(texts_of(number, life), life.faults, strict=True)
    }
    engine = fake_engine(FakeModel(faults), threads=threads)
    with engine.session(num_reserved=1) as session:
        live(engine, session, lives)
        assert not session.has_work
    core = engine.core
    assert core is not None
    assert not core.has_work
    assert not core.vocoding.in_flight
    assert core.scheduler.num_free_slots == 4
    assert not engine._routes
    assert engine.synthesize([Utterance("It still speaks.")])[0].segments


@pytest.mark.parametrize("where", ["prompt", "samples"])
def test_a_bug_that_one_text_brings_out_ends_that_text_alone(
    where: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    from voxcli.engine import speech as module

    check = module.check_audio

    def checked(samples: Any, rate: int, text: str, language: str) -> Any:
        if "odd" in text and where == "samples":
            raise IndexError(text)
        return check(samples, rate, text, language)

    monkeypatch.setattr(module, "check_audio", checked)
    engine = fake_engine(Buggy() if where == "prompt" else FakeModel())
    with engine.session() as session:
        good = session.add(engine.plan(Utterance("A neighbour who goes on.")))
        bad = session.add(engine.plan(Utterance("Here is something odd.")))
        events = []
        while not session.is_idle:
            events += session.step()
        assert not session.has_work
    (error,) = [event for speech, event in events if speech is bad and isinstance(event, VoxError)]
    assert isinstance(error, EngineError)
    assert good.is_done
    assert "a speech failed" in caplog.messages
    assert engine.core is not None
    assert engine.core.scheduler.num_free_slots == 4
