"""Judges of a batch: another take, the best of several, words that are listened to."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import soundfile
from batches import SIX, Beginning, digests, prepare, speak, statuses
from fakes import FakeModel, fake_engine

from voxcli.batch.takes import SEED_STEP, Take, Verdict, next_take
from voxcli.batch.verify import WordCheck, word_error_rate
from voxcli.errors import SynthesisError


@pytest.fixture
def out(tmp_path: Path) -> Path:
    return tmp_path / "out"


def test_a_judge_may_ask_for_another_take(out: Path) -> None:
    def judge(take: Take) -> Verdict:
        if take.number < 3:
            return Verdict(take.samples, {"takes_seen": take.number}, next_take(take), "again")
        return Verdict(take.samples / 2, {"takes_seen": take.number})

    session = prepare(SIX, out)
    row = speak(session, judges=[judge])["rows"][0]
    assert (row["takes"], row["takes_seen"]) == (3, 3)
    kept = speak(prepare(SIX, out), judges=[judge])["rows"][0]
    assert kept["status"] == "kept"
    assert [kept[name] for name in ("seed", "takes")] == [row[name] for name in ("seed", "takes")]
    utterance = session.jobs[0].utterance
    sampling = utterance.sampling
    assert sampling.seed is not None
    third = replace(utterance, sampling=replace(sampling, seed=sampling.seed + 2 * SEED_STEP))
    alone = fake_engine().synthesize([third])[0].samples / 2
    samples, _ = soundfile.read(out / "r1.wav", dtype="float32")
    assert np.abs(samples - alone).max() <= 1 / 32768


@pytest.mark.parametrize(
    ("excesses", "kept"),
    [
        ([0.5, 0.2, 0.4], 2),
        ([0.5, 0.0], 2),
        ([0.5, None, 0.7], 1),
        ([0.5, "refused"], 1),
        ([None, 0.5, "refused"], 2),
    ],
)
def test_of_takes_that_may_be_kept_the_least_wrong_becomes_the_file(
    out: Path, excesses: list[Any], kept: int
) -> None:
    """None may not be kept; what is refused for good leaves the best before it."""

    def judge(take: Take) -> Verdict:
        excess = excesses[take.number - 1]
        if excess == "refused":
            raise SynthesisError("refused")
        again = next_take(take) if take.number < len(excesses) else None
        return Verdict(take.samples, {"number_kept": take.number}, again, "so so", excess)

    report = speak(prepare(SIX, out), judges=[judge])
    assert statuses(report) == ["ok"] * 6
    row = report["rows"][0]
    assert (row["number_kept"], row["takes"]) == (kept, len(excesses))
    assert row["seeds"][0] == row["seed"] + (kept - 1) * SEED_STEP
    assert row["refused"].count("so so") == len(excesses) - 1


def test_a_take_that_cannot_be_spoken_leaves_the_one_before(out: Path) -> None:
    def judge(take: Take) -> Verdict:
        if take.number == 1:
            model.faults = Beginning("")
            return Verdict(take.samples, {}, next_take(take), "so so", 0.5)
        raise AssertionError("no second take is whole")

    model = FakeModel()
    report = speak(prepare(SIX, out), model, judges=[judge])
    assert "ok" in statuses(report)
    first = next(row for row in report["rows"] if row["status"] == "ok")
    assert first["refused"] == ["so so"]


def test_words_that_are_not_heard_make_another_take_and_then_a_failure(out: Path) -> None:
    heard: list[str] = []

    def hear(samples: np.ndarray, rate: int, language: str) -> str:
        heard.append(language)
        return "Sentence number one is here to be spoken slowly and clearly."

    report = speak(prepare(SIX, out), judges=[WordCheck(hear, 0.05, 1)])
    assert statuses(report) == ["ok"] + ["failed"] * 5
    assert len(heard) == 1 + 2 * 5
    assert report["rows"][0]["wer"] == 0.0
    assert "word error rate 9%" in report["rows"][1]["reason"]


@pytest.mark.parametrize(
    ("text", "heard", "rate"),
    [
        ("It costs four dollars.", "it costs $4", 0.0),
        ("One two three four.", "one two four", 0.25),
        ("One two.", "one two two", 0.5),
        ("Well.", "", 1.0),
    ],
)
def test_words_are_compared_as_they_are_said(text: str, heard: str, rate: float) -> None:
    assert word_error_rate(text, heard, "en") == rate


def test_a_silent_take_that_a_judge_made_is_a_failure(out: Path) -> None:
    report = speak(prepare(SIX, out), judges=[lambda take: Verdict(take.samples * 0)])
    assert statuses(report) == ["failed"] * 6
    assert digests(out) == {}
