"""Whatever becomes of calls, every speech ends once and none of them is left behind."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import numpy as np
import pytest
from fakes import fake_engine
from hypothesis import given, settings
from hypothesis import strategies as st
from needs import PATIENCE_S

from voxcli.config import SamplingParams
from voxcli.engine.base import Speech
from voxcli.engine.calls import CalledSpeech, CallSession, LoopThread, Piece, SegmentCall
from voxcli.errors import BusyError, EngineError, EngineFaultError, VoxError
from voxcli.plan import Plan
from voxcli.utterance import FinishReason, Utterance

RATE, FRAME_S = 8_000, 0.1
ENGINE = fake_engine()  # it plans
WORDS = ("alpha", "bravo", "charlie", "delta", "echo")
ERRORS = {
    "error": EngineError("no"),
    "fault": EngineFaultError("gone"),
    "busy": BusyError("full", retry_after_s=None),
    "bug": KeyError("bug"),
}
STEPS = ("piece", "piece", "piece", "empty", "nan", "wait", "stop", "length", "vanish", *ERRORS)


@dataclass(frozen=True)
class Life:
    """One speech: what each call for it does, when it joins, rests and is left."""

    calls: list[list[str]]
    is_live: bool
    retries: int
    joins_at: int
    leaves_at: int | None
    rests: tuple[int, int] | None
    is_long: bool


LIVES = st.builds(
    Life,
    calls=st.lists(st.lists(st.sampled_from(STEPS), max_size=5), min_size=1, max_size=4),
    is_live=st.booleans(),
    retries=st.integers(0, 2),
    joins_at=st.integers(0, 8),
    leaves_at=st.none() | st.integers(0, 15),
    rests=st.none() | st.tuples(st.integers(0, 8), st.integers(1, 8)),
    is_long=st.booleans(),
)


class Script:
    """Calls that do what a speech's life says, one after another, the last again and again.

    Attributes:
        running: calls that have begun and not ended.
    """

    def __init__(self, lives: list[Life]) -> None:
        self._lives = lives
        self._num_calls = [0] * len(lives)
        self.running: set[SegmentCall] = set()
        self.most = 0

    async def speak(self, call: SegmentCall) -> AsyncIterator[Piece]:
        assert call not in self.running
        self.running.add(call)
        self.most = max(self.most, len(self.running))
        try:
            number = int(call.plan.utterance.id)
            calls = self._lives[number].calls
            steps = calls[min(self._num_calls[number], len(calls) - 1)]
            self._num_calls[number] += 1
            for step in steps:
                await asyncio.sleep(0)
                if step == "wait":
                    await asyncio.sleep(0.001)
                elif step == "vanish":
                    return
                elif step in ERRORS:
                    raise ERRORS[step]
                elif step in ("stop", "length"):
                    yield Piece(_sound(12), 12, FinishReason(step))
                    return
                else:
                    yield Piece(_sound(2, step), 2)
            yield Piece(_sound(12), 12, FinishReason.STOP)
        finally:
            try:
                await asyncio.sleep(0)  # as what tells the other side takes a moment
            finally:
                self.running.discard(call)


def _sound(num_frames: int, kind: str = "piece") -> np.ndarray:
    length = 0 if kind == "empty" else round(num_frames * FRAME_S * RATE)
    time = np.arange(length) / RATE
    swell = np.sin(np.pi * time / FRAME_S / 2) ** 2
    samples = (0.3 * swell * np.sin(2 * np.pi * 200 * time)).astype(np.float32)
    return np.full_like(samples, np.nan) if kind == "nan" else samples


@contextmanager
def opened(script: Script, max_calls: int, num_reserved: int) -> Iterator[CallSession]:
    def start(plan: Plan, *, is_live: bool, started_s: float) -> CalledSpeech:
        return CalledSpeech(plan, RATE, FRAME_S, is_live=is_live, started_s=started_s)

    with LoopThread("calls") as loop:
        session = CallSession(loop, script.speak, start, max_calls, num_reserved=num_reserved)
        yield session
        session.close()

        async def settle() -> None:
            while script.running:
                await asyncio.sleep(0)

        loop.run(settle(), PATIENCE_S)


def _plan(number: int, life: Life) -> Plan:
    text = f"This is the {WORDS[number]} row."
    if life.is_long:
        text += "\n\nIt has a second part, which is spoken after the first."
    sampling = SamplingParams(seed=number, retries=life.retries)
    return ENGINE.plan(Utterance(text, id=str(number), sampling=sampling))


@settings(max_examples=60, deadline=None)
@given(
    lives=st.lists(LIVES, min_size=1, max_size=len(WORDS)),
    max_calls=st.integers(1, 3),
    num_reserved=st.integers(0, 1),
    closes_at=st.none() | st.integers(0, 12),
)
def test_every_speech_ends_once_and_nothing_stays_in_flight(
    lives: list[Life], max_calls: int, num_reserved: int, closes_at: int | None
) -> None:
    script = Script(lives)
    plans = [_plan(number, life) for number, life in enumerate(lives)]
    ended: dict[Speech, list[str]] = {}
    speeches: dict[int, Speech] = {}
    left: set[Speech] = set()
    with opened(script, max_calls, min(num_reserved, max_calls - 1)) as session:
        for turn in range(20_000):
            if turn == closes_at:
                session.close()
                assert session.is_idle
                assert not session.has_work
                break
            for number, life in enumerate(lives):
                speech = speeches.get(number)
                if turn == life.joins_at:
                    speech = speeches[number] = session.add(plans[number], is_live=life.is_live)
                if speech is None:
                    continue
                if life.rests is not None and turn == life.joins_at + life.rests[0]:
                    session.pause(speech)
                if life.rests is not None and turn == life.joins_at + sum(life.rests):
                    session.resume(speech)
                if life.leaves_at is not None and turn == life.joins_at + life.leaves_at:
                    session.leave(speech)
                    left.add(speech)
            if turn > 30 and session.is_idle:
                break
            session.bell.wait(0.002)
            session.bell.clear()
            for speech, event in session.poll():
                assert speech not in left
                ends = ended.setdefault(speech, [])
                assert not ends, "nothing comes after the end"
                if isinstance(event, VoxError):
                    ends.append(event.message)
                elif event.is_last:
                    ends.append("")
                    assert speech.is_done
        assert session.is_idle, "somebody waits for ever"
        assert not session.has_work
        if closes_at is None:
            assert set(speeches.values()) - left <= {s for s, ends in ended.items() if ends}
        assert not session.poll(), "what comes too late is nobody's"
    assert not script.running
    assert script.most <= max_calls + 5  # who was cancelled takes a moment to end


def test_a_loop_that_is_closed_lets_go_of_who_waits_and_takes_no_more() -> None:
    loop = LoopThread("calls")
    future = loop.start(asyncio.sleep(PATIENCE_S))
    loop.close()
    loop.close()
    assert future.cancelled()
    with pytest.raises(RuntimeError, match="closed"):
        loop.run(asyncio.sleep(0))
