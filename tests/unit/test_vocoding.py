"""The vocoder beside the steps: same samples, steps go on, failures and aborts leave nothing."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import wait
from typing import ClassVar

import numpy as np
import pytest
import torch
from fakes import FakeModel, FakeState, fake_engine
from needs import PATIENCE_S
from torch import Tensor

from voxcli.config import SamplingParams
from voxcli.engine.base import Speech
from voxcli.engine.native import vocoding
from voxcli.errors import EngineError
from voxcli.layers import cores
from voxcli.models.data import Rows, StepOutput
from voxcli.utterance import AudioChunk, Utterance

TEXT = "A sentence of quite ordinary length, and some more of it."
TEXTS = [TEXT, "One sentence.", "Another sentence here, a little longer than it."]


@pytest.fixture(autouse=True)
def two_threads() -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    yield
    torch.set_num_threads(before)


def utterances(texts: list[str]) -> list[Utterance]:
    return [Utterance(text, sampling=SamplingParams(seed=5)) for text in texts]


class GatedModel(FakeModel):
    """Its vocoder, from the second chunk on, waits in the worker until the gate is open."""

    def __init__(self, *, is_failing: bool = False) -> None:
        super().__init__()
        self.gate = threading.Event()
        self.is_failing = is_failing
        self.threads: list[str] = []  # of each chunk
        self.counts: list[int] = []  # of chunks made together

    def vocode(self, state: FakeState, slots: Sequence[int], frames: Tensor) -> Tensor:
        self.threads += len(frames) * [threading.current_thread().name]
        self.counts.append(len(frames))
        if threading.current_thread() is not threading.main_thread():
            assert self.gate.wait(PATIENCE_S)
            if self.is_failing:
                raise RuntimeError("the vocoder broke")
        return super().vocode(state, slots, frames)


@pytest.mark.parametrize("texts", [[TEXT], TEXTS])
def test_samples_are_those_of_a_vocoder_that_is_waited_for(texts: list[str]) -> None:
    at_once = fake_engine(threads=1).synthesize(utterances(texts))
    beside = fake_engine(threads=2).synthesize(utterances(texts))
    for one, other in zip(at_once, beside, strict=True):
        assert np.array_equal(one.samples, other.samples)


def test_steps_go_on_while_the_vocoder_works() -> None:
    model = GatedModel()
    engine = fake_engine(model, threads=2, max_chars=80)
    with engine.session() as session:
        session.add(engine.plan(utterances([TEXT])[0]), is_live=True)
        for _ in range(10):
            session.step()
        assert model.num_decodes == 10
        model.gate.set()
        while not session.is_idle:
            session.step()
    assert set(model.threads) == {"vocoder_0", threading.main_thread().name}
    assert torch.get_num_threads() == 2


def test_products_have_all_cores_again_within_the_step_in_which_the_worker_ends() -> None:
    class CountingModel(GatedModel):
        free: ClassVar[list[int]] = []

        def decode(self, state: FakeState, rows: Rows) -> StepOutput:
            if "vocoder_0" in self.threads and not self.gate.is_set():
                self.free.append(cores.num_threads())
                self.gate.set()
                until = time.monotonic() + PATIENCE_S
                while cores.num_threads() == 1 and time.monotonic() < until:
                    time.sleep(0.001)
                self.free.append(cores.num_threads())
            return super().decode(state, rows)

    model = CountingModel()
    fake_engine(model, threads=2).synthesize(utterances([TEXT]))
    assert model.free == [1, 2]
    assert cores.num_threads() == torch.get_num_threads() == 2


def test_rows_that_nobody_listens_to_are_made_beside_the_steps() -> None:
    """Where the worker is as fast: most of them, the last ones excepted."""

    class SlowModel(GatedModel):
        def decode(self, state: FakeState, rows: Rows) -> StepOutput:
            begun = [chunk.work.future for chunk in engine.core.vocoding.in_flight.values()]
            assert not wait(begun, PATIENCE_S).not_done
            return super().decode(state, rows)

    model = SlowModel()
    model.gate.set()
    engine = fake_engine(model, threads=2)
    engine.synthesize(utterances(TEXTS))
    beside = [name for name in model.threads if name.startswith("vocoder")]
    assert len(beside) > 0.5 * len(model.threads)


def test_chunks_that_nobody_listens_to_are_made_together() -> None:
    model = GatedModel()
    model.gate.set()
    engine = fake_engine(model, threads=2)
    together = engine.synthesize(utterances(6 * [TEXT]))
    assert max(model.counts) == vocoding.MAX_TOGETHER
    alone = fake_engine(threads=1).synthesize(utterances([TEXT]))[0]
    assert all(np.array_equal(each.samples, alone.samples) for each in together)


def test_the_steps_make_what_a_worker_has_not_begun(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(vocoding, "MAX_TOGETHER", 1)
    model = GatedModel()
    engine = fake_engine(model, threads=2, max_chars=80)
    with engine.session() as session:
        speeches = [session.add(engine.plan(each), is_live=False) for each in utterances(TEXTS[1:])]
        while len(model.threads) < 2:  # the first chunk is stuck in the worker
            session.step()
        assert model.threads[0].startswith("vocoder")
        assert model.threads[1] == threading.main_thread().name
        model.gate.set()
        while not session.is_idle:
            session.step()
    assert all(speech.is_done for speech in speeches)


def test_an_abort_waits_for_what_is_in_flight_and_frees_the_slot() -> None:
    model = GatedModel()
    engine = fake_engine(model, threads=2, max_slots=1, max_chars=80)
    stream = engine.stream(utterances([TEXT])[0], is_live=True)
    next(stream)
    session_steps = [engine.core.step() for _ in range(3)]
    assert all(not outputs for outputs in session_steps)
    threading.Timer(0.05, model.gate.set).start()
    stream.close()
    assert model.gate.is_set()
    again = engine.synthesize(utterances([TEXT]))[0]
    alone = fake_engine(threads=1, max_chars=80).synthesize(utterances([TEXT]))[0]
    assert np.array_equal(again.samples, alone.samples)


def test_who_leaves_takes_nothing_from_those_whose_chunks_are_made_with_its_own() -> None:
    model = GatedModel()
    engine = fake_engine(model, threads=2, max_chars=80)
    with engine.session() as session:
        session.add(engine.plan(utterances([TEXT])[0]), is_live=True)
        while not any(name.startswith("vocoder") for name in model.threads):
            session.step()  # its second chunk is stuck in the worker
        leaves, stays = (
            session.add(engine.plan(each), is_live=False) for each in utterances(2 * TEXTS[1:2])
        )
        while len(engine.core.vocoding.in_flight) < 3:
            session.step()
        num_made = len(model.threads)
        session.leave(leaves)
        assert len(model.threads) == num_made + 2, "both, while the slot is still its own"
        again = session.add(engine.plan(utterances(TEXTS[1:2])[0]), is_live=False)
        model.gate.set()
        samples: dict[Speech, list[np.ndarray]] = {stays: [], again: []}
        while not session.is_idle:
            for speech, event in session.step():
                assert isinstance(event, AudioChunk)
                samples.setdefault(speech, []).append(event.samples)
    alone = fake_engine(threads=1, max_chars=80).synthesize(utterances(TEXTS[1:2]))[0]
    for speech in (stays, again):
        assert np.array_equal(np.concatenate(samples[speech]), alone.samples)


def test_a_vocoder_that_fails_beside_the_steps_ends_the_engine() -> None:
    model = GatedModel(is_failing=True)
    model.gate.set()
    engine = fake_engine(model, threads=2)
    with pytest.raises(EngineError, match="the vocoder broke"):
        engine.synthesize(utterances([TEXT]))
    with pytest.raises(EngineError, match="cannot run"):
        engine.synthesize(utterances([TEXT]))


def test_who_leaves_is_not_told_that_the_vocoder_failed() -> None:
    model = GatedModel(is_failing=True)
    engine = fake_engine(model, threads=2, max_chars=80)
    with engine.session() as session:
        leaves, _ = (
            session.add(engine.plan(each), is_live=False) for each in utterances(2 * TEXTS[1:2])
        )
        while not model.threads:
            session.step()
        model.gate.set()
        session.leave(leaves)
        with pytest.raises(EngineError, match="the vocoder broke"):
            session.step()
