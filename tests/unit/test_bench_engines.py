"""A bench over any engine: what it measures on one that is no voxcli engine at all, near or far."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from needs import PATIENCE_S

from voxcli.bench.cells import BenchOptions, Job
from voxcli.bench.compare import compare
from voxcli.bench.driver import Driver, Take
from voxcli.bench.html import report_as_html
from voxcli.bench.launch import frames_for, measure, prepare
from voxcli.bench.live import LiveTable
from voxcli.bench.metrics import underrun
from voxcli.bench.plots import charts
from voxcli.bench.prompts import Prompt
from voxcli.bench.report import Report, build_report, report_as_json
from voxcli.bench.session import Session
from voxcli.bench.tables import facts as shown_facts
from voxcli.config import SamplingParams
from voxcli.engine.base import EngineFacts, Event, Setup, Speech, SpeechEngine, SpeechSession
from voxcli.errors import UsageError
from voxcli.parameters import Parameter, Values, settle
from voxcli.plan import Plan
from voxcli.text import prepare as prepare_text
from voxcli.utterance import AudioChunk, FinishReason, Recording, SegmentReport, Utterance

RATE = 1000
PITCH = Parameter("pitch", "float", "Height of the tone in Hz", 200.0, 100.0, 400.0)
PROMPTS = [Prompt("one", "mine", "en", "A sentence."), Prompt("two", "mine", "en", "Another one.")]
TEXTS = "".join(f"{prompt.text}\n" for prompt in PROMPTS)
PLAN_S = 0.25

Chunks = list[tuple[float, int]]  # seconds before each, and its samples


class ScriptedEngine(SpeechEngine):
    """Every speech leaves in the same chunks, on a clock that only this engine moves."""

    def __init__(self, chunks: Chunks, *, name: str = "", num_frames: int = 8) -> None:
        self.chunks = chunks
        self.num_frames = num_frames
        self.now_s = 50.0
        self.wanted: tuple[Values, ...] = ()
        self.is_closed = False
        self.facts = EngineFacts(
            "scripted", "tones", "tones", RATE, RATE, name=name, languages=("en",),
            parameters=(PITCH,), max_streams=3, stages=() if name else ("think", "speak"),
        )  # fmt: skip

    def clock(self) -> float:
        return self.now_s

    @property
    def setup(self) -> Setup:
        # a card that this process does not have: whoever asks torch about it fails
        where = "cuda:7" if self.facts.is_elsewhere else "cpu"
        return Setup("tones", "a fork", where, "exact", 1, 0.0)

    def start(self, wanted: Iterable[Values] = ()) -> None:
        self.wanted = tuple(wanted)

    def plan(self, utterance: Utterance) -> Plan:
        self.now_s += PLAN_S
        text = prepare_text(utterance.text, languages=("en",), max_chars=200, model="tones")
        told = settle("tones", self.facts.parameters, utterance.sampling.parameters)
        return Plan(utterance, text, utterance.sampling.seed or 0, told)

    def session(self, *, num_reserved: int = 0) -> ScriptedSession:
        return ScriptedSession(self)

    def model_checksum(self) -> str:
        return "5" * 64

    encoder_checksum = model_checksum

    def encode(self, recording: Recording, uses: object) -> Any:
        raise UsageError("tones imitate nobody")

    def close(self) -> None:
        self.is_closed = True

    @contextmanager
    def timed_stages(
        self, seconds: dict[str, float], clock: Callable[[], float] = lambda: 0.0
    ) -> Iterator[None]:
        began_s = clock()
        yield
        if self.facts.stages:
            seconds["speak"] += clock() - began_s - PLAN_S


class ScriptedSession(SpeechSession):
    """One chunk of one speech a step, as news come in from elsewhere."""

    def __init__(self, engine: ScriptedEngine) -> None:
        self.engine = engine
        self.left: dict[Speech, Chunks] = {}

    @property
    def is_idle(self) -> bool:
        return not self.left

    @property
    def has_work(self) -> bool:
        return not self.is_idle

    def add(self, plan: Plan, *, is_live: bool = True) -> Speech:
        speech = Speech(plan, RATE, is_live=is_live, started_s=self.engine.now_s)
        self.left[speech] = list(self.engine.chunks)
        return speech

    def leave(self, speech: Speech) -> None:
        self.left.pop(speech, None)

    def step(self) -> list[Event]:
        speech, chunks = next(iter(self.left.items()))
        delay_s, num_samples = chunks.pop(0)
        self.engine.now_s += delay_s
        if not chunks:
            del self.left[speech]
            text, seed = speech.plan.utterance.text, speech.plan.seed
            speech.is_done, speech.reports = True, (
                SegmentReport(text, seed, 1, self.engine.num_frames, 1.0, FinishReason.STOP),
            )  # fmt: skip
        return [(speech, AudioChunk(np.ones(num_samples, np.float32), RATE, 0, not chunks))]

    def close(self) -> None:
        self.left.clear()


def run(engine: ScriptedEngine, **options: Any) -> Report:
    session = Session(
        engine, BenchOptions(**{"repeats": 2, "warmup": 0, **options}), PROMPTS, clock=engine.clock
    )
    session.run()
    who = {"model": "tones", "device_name": "a fork"}
    report = build_report(session, who, memory=session.memory.overall())
    loaded: Report = json.loads(report_as_json(report))
    return loaded


chunks_of_speech = st.lists(
    st.tuples(st.floats(0.001, 5.0), st.integers(1, 5000)), min_size=1, max_size=6
)


@settings(max_examples=30, deadline=None)
@given(chunks_of_speech, st.integers(1, 3))
def test_runs_on_any_engine_are_as_defined(chunks: Chunks, num_users: int) -> None:
    report = run(ScriptedEngine(chunks), concurrency=(num_users,))
    assert {run["status"] for run in report["runs"]} == {"ok"}
    assert report["cells"][0]["n"] == max(2, num_users) * 2
    for timed in report["runs"]:
        assert timed["audio_s"] == pytest.approx(sum(count for _, count in chunks) / RATE)
        assert timed["ms_per_frame"] == pytest.approx(1000 * timed["wall_s"] / 8)
        assert timed["ttfa_s"] >= PLAN_S + chunks[0][0] - 1e-9  # preparing the text is part of it
    first = report["runs"][0]
    delays = np.cumsum([delay_s for delay_s, _ in chunks])
    assert first["wall_s"] == pytest.approx(PLAN_S + delays[-1])
    arrivals = [(float(at_s), count) for at_s, (_, count) in zip(delays, chunks, strict=True)]
    assert first["underrun_s"] == pytest.approx(underrun(arrivals, RATE))


def test_stages_are_those_the_engine_tells() -> None:
    found = run(ScriptedEngine([(1.0, 1000), (1.0, 1000)]))["breakdown"]
    assert found == pytest.approx({"wall_s": 2.25, "think_s": 0, "speak_s": 2.0, "host_s": 0.25})


def test_an_engine_elsewhere_has_no_breakdown_and_no_card_here() -> None:
    report = run(ScriptedEngine([(1.0, 1000)], name="pid 7, http://far"))
    assert report["breakdown"] == {}
    assert report["memory"]["peak_gpu_allocated_bytes"] is None
    assert "Where a run's time goes" not in [chart.title for chart in charts(report)]
    assert report["setup"]["num_encoded"] is None


def test_an_engine_that_counts_no_frames_is_measured_all_the_same() -> None:
    report = run(ScriptedEngine([(1.0, 1000)], num_frames=0))
    assert report["cells"][0]["n"] == 4
    assert report["cells"][0]["ms_per_frame"]["n"] == 0
    assert report["runs"][0]["frames"] is None


def measured(
    engine: ScriptedEngine, folder: Path, told: Values | None = None, **options: Any
) -> Report:
    """The report of `prepare` and `measure`, on the real clock."""
    path = folder / "mine.txt"
    path.write_text(TEXTS)
    spoken = Utterance("", sampling=SamplingParams(parameters=told or {}))
    chosen = BenchOptions(**{"repeats": 1, "warmup": 0, "parameters": told or {}, **options})
    launch = prepare(str(path), ("en",), chosen, spoken, engine)
    report = measure(launch, ["voxcli", "bench"], LiveTable(is_enabled=False), pytest.fail)
    loaded: Report = json.loads(report_as_json(report))
    return loaded


def test_a_report_names_the_engine_and_what_it_was_told(tmp_path: Path) -> None:
    engine = ScriptedEngine([(0.0, 1000)])
    report = measured(engine, tmp_path, {"pitch": 300})
    who = report["identity"]
    assert (who["engine"], who["engine_name"], who["max_slots"]) == ("scripted", None, 3)
    assert (who["checksum"], who["parameters"]) == ("5" * 64, {"pitch": 300.0})
    assert report["options"]["parameters"] == {"pitch": 300}
    assert engine.wanted == ({"pitch": 300.0},) * 2
    assert report["notes"] == []
    assert "engine" not in dict(shown_facts(report))


def test_a_report_of_an_engine_elsewhere_says_so(tmp_path: Path) -> None:
    far = ScriptedEngine([(0.0, 1000)], name="pid 7, http://far")
    report = measured(far, tmp_path)
    note = "spoken by pid 7, http://far: memory is that of this process alone"
    assert report["notes"] == [note]
    assert report["identity"]["torch"] is report["identity"]["driver"] is None
    assert dict(shown_facts(report))["engine"] == "scripted (pid 7, http://far)"
    assert note in report_as_html(report)


class SilentUntilAll(ScriptedSession):
    """Waits for news, of which there is none before every utterance has come."""

    def __init__(self, engine: ScriptedEngine, num_all: int) -> None:
        super().__init__(engine)
        self.num_all = num_all
        self.num_added = 0
        self.bell = threading.Event()

    def add(self, plan: Plan, *, is_live: bool = True) -> Speech:
        self.num_added += 1
        return super().add(plan, is_live=is_live)

    def wake(self) -> None:
        self.bell.set()

    def step(self) -> list[Event]:
        if self.num_added < self.num_all:
            assert self.bell.wait(PATIENCE_S), "nobody came"
            self.bell.clear()
            return []
        return super().step()


def test_an_arrival_does_not_wait_for_news_of_those_in_flight() -> None:
    engine = ScriptedEngine([(0.0, 1000)])
    session = SilentUntilAll(engine, 3)
    engine.session = lambda *, num_reserved=0: session  # type: ignore[method-assign]
    jobs = [Job(PROMPTS[0], n, "open", rate=50.0, arrival_s=0.02 * n) for n in range(3)]
    taken: list[Take] = []
    Driver(engine, Utterance("")).drive(jobs, None, taken.append)
    assert [take.run.status for take in taken] == ["ok"] * 3


def test_reports_of_two_engines_or_parameters_are_not_compared(tmp_path: Path) -> None:
    near = ScriptedEngine([(0.0, 1000)])
    report = measured(near, tmp_path)
    near.facts = replace(near.facts, engine="another")
    with pytest.raises(UsageError, match="engine: scripted and another"):
        compare([report], [measured(near, tmp_path)], 0.05)
    near.facts = replace(near.facts, engine="scripted")
    with pytest.raises(UsageError, match="pitch: None and 300"):
        compare([report], [measured(near, tmp_path, {"pitch": 300})], 0.05)
    assert compare([report], [measured(near, tmp_path)], 0.05)


def test_what_the_engine_cannot_be_told_is_refused_before_it_starts(tmp_path: Path) -> None:
    engine = ScriptedEngine([(0.0, 1000)])
    with pytest.raises(UsageError, match="--temperature is not a parameter of model 'tones'"):
        measured(engine, tmp_path, {"temperature": 1.0})
    assert engine.wanted == ()


def test_random_weights_need_four_frames_and_have_a_default() -> None:
    assert (frames_for(None), frames_for(4)) == (125, 4)
    with pytest.raises(UsageError, match="--frames is 3"):
        frames_for(3)
