"""A batch over any engine: what a row tells the model, on an engine that is like no other."""

from __future__ import annotations

import csv
import json
import time
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import soundfile
from batches import prepare, speak, statuses
from hypothesis import given, settings
from hypothesis import strategies as st

from voxcli.batch.columns import ParameterColumns, columns_of
from voxcli.batch.forecast import describe
from voxcli.batch.manifest import Manifest
from voxcli.batch.records import Record
from voxcli.batch.rows import Defaults, parse_row, utterance_of
from voxcli.batch.session import Session
from voxcli.config import SamplingParams
from voxcli.engine.base import EngineFacts, Event, Setup, Speech, SpeechEngine, SpeechSession
from voxcli.engine.takeover import TakeOver
from voxcli.errors import EngineFaultError, SynthesisError, UsageError
from voxcli.models import all_parameters
from voxcli.parameters import Parameter, Values
from voxcli.plan import Plan
from voxcli.text import prepare as prepare_text
from voxcli.utterance import AudioChunk, FinishReason, Recording, SegmentReport, Utterance

RATE = 16_000
PITCH = Parameter(
    "pitch", "float", "Height of the tone in Hz", 200.0, 100.0, 400.0, aliases=("height", "hz")
)
HARMONICS = Parameter("harmonics", "int", "Tones above it", 2, 0, 8)
IS_LOUD = Parameter("is_loud", "bool", "Whether it is loud", False)
TONES = ParameterColumns(
    "tones", (PITCH, HARMONICS, IS_LOUD), (Parameter("warmth", "float", "Warmth", 0.5, 0.0, 1.0),)
)


class ToneEngine(SpeechEngine):
    """Says every text as a tone of its pitch, two at once; no model, no process, no frames."""

    facts = EngineFacts(
        "tones", "tones", "tones", RATE, RATE, languages=("en",), parameters=TONES.own,
        best={"harmonics": 3}, clone_best={"harmonics": 5}, max_streams=2,
    )  # fmt: skip

    def __init__(self, fails_after: int | None = None) -> None:
        self.wanted: list[Values] = []
        self.spoken: list[Plan] = []
        self.fails_after = fails_after
        self.most_at_once = 0

    @property
    def setup(self) -> Setup:
        return Setup("tones", "a fork", "fork", "exact", 1, 0.0)

    def start(self, wanted: Iterable[Values] = ()) -> None:
        self.wanted = list(wanted)

    def plan(self, utterance: Utterance) -> Plan:
        text = prepare_text(
            utterance.text, languages=self.facts.languages, max_chars=200, model="tones"
        )
        seed = utterance.sampling.seed
        return Plan(utterance, text, 0 if seed is None else seed, self.settled(utterance))

    def session(self, *, num_reserved: int = 0) -> ToneSession:
        return ToneSession(self)

    def model_checksum(self) -> str:
        return "5" * 64

    encoder_checksum = model_checksum

    def encode(self, recording: Recording, uses: object) -> Any:
        raise UsageError("tones imitate nobody")

    def close(self) -> None:
        pass


class ToneSession(SpeechSession):
    """Half of a tone at a step, so that speeches join while others are on their way."""

    def __init__(self, engine: ToneEngine) -> None:
        self.engine = engine
        self.left: dict[Speech, int] = {}

    @property
    def is_idle(self) -> bool:
        return not self.left

    @property
    def has_work(self) -> bool:
        return not self.is_idle

    def add(self, plan: Plan, *, is_live: bool = True) -> Speech:
        assert not is_live
        speech = Speech(plan, RATE, is_live=is_live, started_s=time.perf_counter())
        self.left[speech] = 2
        self.engine.spoken.append(plan)
        self.engine.most_at_once = max(self.engine.most_at_once, len(self.left))
        return speech

    def leave(self, speech: Speech) -> None:
        self.left.pop(speech, None)

    def step(self) -> list[Event]:
        if (
            self.engine.fails_after is not None
            and len(self.engine.spoken) > self.engine.fails_after
        ):
            raise EngineFaultError("the fork is bent")
        events: list[Event] = []
        for speech in list(self.left):
            if "silence" in speech.plan.text.text:
                self.leave(speech)
                events.append((speech, SynthesisError("there is nothing to hear")))
                continue
            self.left[speech] -= 1
            events.append((speech, self._half(speech, is_last=self.left[speech] == 0)))
        return events

    def _half(self, speech: Speech, *, is_last: bool) -> AudioChunk:
        if is_last:
            text, seed = speech.plan.text.text, speech.plan.seed
            speech.reports = (SegmentReport(text, seed, 1, 2, 1.0, FinishReason.STOP),)
            speech.is_done = True
            self.leave(speech)
        return AudioChunk(tone(speech.plan)[: RATE // 2], RATE, 0, is_last)

    def close(self) -> None:
        self.left.clear()


def tone(plan: Plan) -> np.ndarray:
    seconds = np.arange(RATE) / RATE
    told = plan.parameters
    waves = [
        np.sin(2 * np.pi * told["pitch"] * number * seconds) / number
        for number in range(1, int(told["harmonics"]) + 2)
    ]
    loudness = 0.3 if told["is_loud"] else 0.1
    return (loudness * np.sum(waves, axis=0) * np.hanning(RATE)).astype(np.float32)


def write(path: Path, rows: Iterable[Mapping[str, object]]) -> Path:
    rows = list(rows)
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)
    return path


def checked(
    folder: Path, rows: Iterable[Mapping[str, object]], told: Values | None = None
) -> Session:
    defaults = Defaults(7, sampling=SamplingParams(parameters=told or {}))
    table = write(folder / "t.csv", rows)
    return prepare(table, folder / "out", engine=ToneEngine(), defaults=defaults)


def run(
    session: Session, engine: ToneEngine, notes: dict[str, Any] | None = None
) -> dict[str, Any]:
    session.check()

    def load() -> ToneEngine:
        engine.start(session.parameters)
        return engine

    return session.run(load, notes)


# What a batch needs of an engine


def test_a_batch_runs_on_an_engine_that_is_like_no_other(tmp_path: Path) -> None:
    rows = [{"text": f"Tone number {n}.", "pitch": 150 + n} for n in range(5)]
    engine = ToneEngine()
    report = run(checked(tmp_path, rows), engine)
    assert statuses(report) == ["ok"] * 5
    assert report["setup"]["device"] == "a fork"
    assert engine.most_at_once == 2  # as many as the engine says
    assert len(engine.wanted) == 5  # told before it starts
    for row in report["rows"]:
        samples, rate = soundfile.read(tmp_path / "out" / row["output"])
        peak = np.argmax(np.abs(np.fft.rfft(samples))) * rate / len(samples)
        assert peak == pytest.approx(row["parameters"]["pitch"], abs=2)
    assert statuses(run(checked(tmp_path, rows), engine)) == ["kept"] * 5


def test_a_row_that_fails_fails_alone_and_a_fault_is_taken_over(tmp_path: Path) -> None:
    rows = [{"text": text} for text in ("One.", "Only silence.", "Three.", "Four.", "Five.")]
    with pytest.raises(TakeOver, match="the fork is bent") as end:
        run(checked(tmp_path, rows), ToneEngine(fails_after=4))
    notes = json.loads(json.dumps(end.value.notes))
    report = run(checked(tmp_path, rows), ToneEngine(), notes)
    assert statuses(report) == ["ok", "failed", "ok", "ok", "ok"]
    assert report["rows"][1]["reason"] == "there is nothing to hear"


def test_an_engine_that_fails_in_the_preflight_is_no_fault_of_a_row(tmp_path: Path) -> None:
    class Gone(ToneEngine):
        def plan(self, utterance: Utterance) -> Plan:
            raise EngineFaultError("nobody is there")

    table = write(tmp_path / "t.csv", [{"text": "See https://voxcli.example for more."}])
    with pytest.raises(EngineFaultError, match="nobody is there"):
        prepare(table, tmp_path / "out", engine=Gone())


# Parameters as columns

CELLS = {
    "pitch": st.floats(100, 400).map(lambda value: round(value, 3)),
    "harmonics": st.integers(0, 8),
    "is_loud": st.booleans(),
}


@settings(max_examples=60, deadline=None)
@given(
    st.fixed_dictionaries({}, optional=CELLS),
    st.fixed_dictionaries({}, optional=CELLS),
    st.booleans(),
)
def test_a_rows_parameters_beat_the_commands_and_those_the_models_best(
    row: dict[str, Any], command: dict[str, Any], is_cloning: bool
) -> None:
    cells = {name: str(value).replace(".", ",") for name, value in row.items()}
    parsed, problems = parse_row(Record(1, 2, {"text": "Hello.", **cells}), TONES)
    assert (parsed.parameters, problems) == (row, [])
    utterance = utterance_of(parsed, Defaults(7, sampling=SamplingParams(parameters=command)))
    best = {"pitch": 200.0, "harmonics": 5 if is_cloning else 3, "is_loud": False}
    settled = ToneEngine().settled(utterance, is_cloning=is_cloning)
    assert settled == {**best, **command, **row}


@settings(max_examples=60, deadline=None)
@given(
    st.one_of(
        st.tuples(st.just("pitch"), st.floats(400.001, 1e9) | st.floats(-1e9, 99.999)),
        st.tuples(st.just("harmonics"), st.integers(9) | st.integers(max_value=-1)),
        st.tuples(st.just("harmonics"), st.sampled_from(["2.5", "many", "nan", "true"])),
        st.tuples(st.just("is_loud"), st.sampled_from(["2", "loud", "-"])),
    ),
    st.integers(1, 99),
)
def test_what_the_model_cannot_be_told_is_refused_with_the_rows_number(
    cell: tuple[str, object], number: int
) -> None:
    column, value = cell
    record = Record(number, number + 1, {"text": "Hello.", column: str(value)})
    row, (problem,) = parse_row(record, TONES)
    assert (row.parameters, problem.number, problem.column) == ({}, number, column)
    assert problem.message.startswith(f"is '{value}'; give ")


@pytest.mark.parametrize("header", ["pitch", "Pitch", "HEIGHT", " hz "])
def test_a_parameter_is_a_column_by_each_of_its_names(tmp_path: Path, header: str) -> None:
    session = checked(tmp_path, [{"text": "Hello.", header: "300"}, {"text": "Bye.", header: ""}])
    assert [dict(job.row.parameters) for job in session.jobs] == [{"pitch": 300.0}, {}]
    assert not any(job.row.extra for job in session.jobs)


def test_a_header_may_be_written_as_the_option_is(tmp_path: Path) -> None:
    session = checked(tmp_path, [{"text": "Hello.", "is-loud": "yes"}])
    assert session.jobs[0].row.parameters == {"is_loud": True}


def test_two_names_of_one_parameter_are_one_column_twice(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="has the column 'pitch' twice"):
        checked(tmp_path, [{"text": "Hello.", "pitch": "", "hz": "300"}])


def test_another_familys_parameter_is_refused_only_where_it_has_a_value(tmp_path: Path) -> None:
    other = all_parameters()[0]
    rows = [{"text": "One.", other.name: ""}, {"text": "Two.", other.name: other.default}]
    session = checked(tmp_path, rows)
    (problem,) = session.problems
    assert (problem.number, problem.column) == (2, other.name)
    assert f"{other.option} is not a parameter of model 'tones'" in problem.message
    assert "it has: --pitch (from 100 to 400), --harmonics (from 0 to 8), --loud" in (
        problem.message
    )
    assert not session.jobs[0].row.extra


def test_the_columns_of_an_engine_are_its_own_and_those_of_other_families() -> None:
    columns = columns_of(ToneEngine.facts)
    assert columns.own == ToneEngine.facts.parameters
    assert {each.name for each in columns.others} == {each.name for each in all_parameters()}
    real = EngineFacts("native", "real", "real", RATE, RATE, parameters=all_parameters())
    assert columns_of(real).others == ()


@pytest.mark.parametrize("told", [{"pitch": 99.0}, {"warmth": 0.5}])
def test_what_the_command_tells_is_refused_once_and_not_row_by_row(
    tmp_path: Path, told: Values
) -> None:
    with pytest.raises(UsageError, match=f"--{next(iter(told))} is "):
        checked(tmp_path, [{"text": "One."}, {"text": "Two."}], told)


def test_parameters_decide_what_is_done_again(tmp_path: Path) -> None:
    def spoken(pitch: object, told: Values | None = None) -> list[str]:
        rows = [{"text": "One.", "pitch": pitch}, {"text": "Two.", "pitch": ""}]
        return statuses(run(checked(tmp_path, rows, told), ToneEngine()))

    assert spoken("") == ["ok", "ok"]
    assert spoken("200") == ["kept", "kept"]  # as the default is
    assert spoken("201") == ["ok", "kept"]
    assert spoken("201", {"pitch": 210.0}) == ["kept", "ok"]


def test_reports_tell_the_parameters_that_were_in_effect(tmp_path: Path) -> None:
    rows = [{"text": "One.", "hz": "300"}, {"text": "Two.", "hz": ""}]
    session = checked(tmp_path, rows, {"is_loud": True})
    plans = [row["parameters"] for row in describe(session.take_stock(Manifest(tmp_path / "out")),
             session.casting, session.rules.engine)]  # fmt: skip
    report = run(session, ToneEngine())
    expected = [{"pitch": pitch, "harmonics": 3, "is_loud": True} for pitch in (300.0, 200.0)]
    assert plans == expected == [row["parameters"] for row in report["rows"]]
    written = Manifest(tmp_path / "out").rows
    assert [written[f"000{n}.wav"]["parameters"] for n in (1, 2)] == expected
    with (tmp_path / "out" / "report.csv").open(encoding="utf-8", newline="") as file:
        lines = list(csv.DictReader(file))
    assert [(line["pitch"], line["harmonics"], line["is_loud"]) for line in lines] == [
        ("300.0", "3", "True"), ("200.0", "3", "True"),
    ]  # fmt: skip
    assert list(lines[0])[list(lines[0]).index("seed") + 1] == "pitch"


def test_a_template_may_name_a_parameter(tmp_path: Path) -> None:
    table = write(tmp_path / "t.csv", [{"text": "One.", "hz": "300"}, {"text": "Two.", "hz": ""}])
    session = prepare(table, tmp_path / "out", engine=ToneEngine(), template="{index}-{pitch}.wav")
    assert [job.name for job in session.jobs] == ["1-300.0.wav", "2-.wav"]


def test_json_lines_tell_numbers_and_words_alike(tmp_path: Path) -> None:
    lines = ['{"text": "One.", "pitch": 300, "is_loud": true}', '{"text": "Two.", "pitch": [1]}']
    (tmp_path / "t.jsonl").write_text("\n".join(lines), "utf-8")
    session = prepare(tmp_path / "t.jsonl", tmp_path / "out", engine=ToneEngine())
    assert session.jobs[0].row.parameters == {"pitch": 300.0, "is_loud": True}
    assert "'pitch' is a list or an object" in session.problems[0].message


# Parameters that the bundled voice has


def test_rows_of_one_batch_may_differ_in_what_they_tell_the_model(tmp_path: Path) -> None:
    rows = [{"text": "One.", "cfg": "2"}, {"text": "Two.", "cfg": ""}]
    report = speak(prepare(write(tmp_path / "t.csv", rows), tmp_path / "out"))
    assert statuses(report) == ["ok", "ok"]
    assert [row["parameters"]["guidance_scale"] for row in report["rows"]] == [2.0, 1.0]
