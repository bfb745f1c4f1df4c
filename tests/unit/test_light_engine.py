"""The engine without torch: the same speech as with it, and torch only where it is needed."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from needs import PATIENCE_S, unavailable

from voxcli.audio.guard import Problem, ProblemKind
from voxcli.audio.joins import QUIET
from voxcli.config import EngineConfig, SamplingParams
from voxcli.engine import speech as speeches
from voxcli.engine.base import SpeechEngine
from voxcli.engine.choose import NATIVE, open_engine
from voxcli.engine.native import host
from voxcli.engine.native.array_runner import ArrayRunner
from voxcli.engine.native.engine import NativeEngine
from voxcli.errors import SynthesisError, VoxError
from voxcli.kernels import arrays
from voxcli.utterance import Recording, Result, Utterance

Engines = tuple[SpeechEngine, SpeechEngine]

SHORT = "Yes, at noon."


@pytest.fixture(scope="module")
def engines() -> Iterator[Engines]:
    """Without torch, and with it."""
    if not arrays.is_available():
        unavailable("no native kernels with AVX2")
    config = EngineConfig(device="cpu", light=True, max_slots=3)
    with (
        open_engine(NATIVE, config) as light,
        open_engine(NATIVE, EngineConfig(device="cpu", max_slots=3)) as whole,
    ):
        light.start()
        whole.start()
        assert isinstance(light, NativeEngine)
        assert light.core is not None
        assert isinstance(light.core.runner, ArrayRunner)
        yield light, whole


def said(text: str = SHORT, *, seed: int = 3, **given: Any) -> Utterance:
    sampling = {name: given.pop(name) for name in ("max_seconds", "retries") if name in given}
    parameters = given.pop("parameters", {})
    return Utterance(
        text, sampling=SamplingParams(seed=seed, parameters=parameters, **sampling), **given
    )


def assert_same(results: list[list[Result]]) -> None:
    for one, other in zip(*results, strict=True):
        np.testing.assert_array_equal(one.samples, other.samples)
        assert one.segments == other.segments
        assert (one.seed, one.sample_rate) == (other.seed, other.sample_rate)


def test_texts_side_by_side_are_the_same(engines: Engines) -> None:
    texts = [
        said(),
        said("It is late. We go.", seed=4, pause_s=0.3),
        said("One. Two.", seed=5, parameters={"steps": 3, "guidance_scale": 2.0}),
        said("So it goes on, and on, and on.", seed=6, max_seconds=1.0),
    ]
    assert_same([engine.synthesize(texts) for engine in engines])


def test_voices_by_name_and_by_recording_are_the_same(engines: Engines) -> None:
    noise = np.random.default_rng(2).standard_normal(16000 * 3).astype(np.float32)
    recording = Recording(samples=0.1 * noise, sample_rate=16000)
    results = []
    for engine in engines:
        by_name = engine.in_voice(said(voice="emma"))
        by_recording = said(reference=recording, max_seconds=1.0)
        results.append(engine.synthesize([by_name, by_recording]))
    assert_same(results)


def test_speech_rises_from_silence(engines: Engines) -> None:
    for engine in engines:
        texts = [said("Hello there.", seed=seed) for seed in range(1, 4)]
        for result in engine.synthesize([*texts, said("Oh. No.", seed=4)]):
            start = result.samples[: result.sample_rate // 1000]
            assert start[0] == 0
            assert np.abs(start).max() < QUIET  # what a vocoder begins with has 6 times as much


def test_an_end_without_a_mark_is_said_like_a_full_stop(engines: Engines) -> None:
    for engine in engines:
        without, marked = engine.synthesize([said("we go at noon"), said("we go at noon.")])
        np.testing.assert_array_equal(without.samples, marked.samples)


WORDS = [
    "noon",
    "ferry",
    "14",
    "at",
    "the",
    "Dr.",
    "late;",
    "go,",
    "yes!",
    "no?",
    "island",
    "(so)",
    "naïve",
    "£5",
    "…",
]
SENTENCE_ENDS = (".", "!", "?", ".\n\n")


def some_utterance(random: np.random.Generator) -> Utterance:
    """Up to three sentences, in any voice and settings."""
    sentences = [
        " ".join(random.choice(WORDS, random.integers(1, 6))) + str(random.choice(SENTENCE_ENDS))
        for _ in range(random.integers(1, 4))
    ]
    return said(
        " ".join(sentences),
        seed=int(random.integers(2**40)),
        max_seconds=float(random.uniform(1.0, 3.0)),
        retries=0,
        parameters={
            "steps": int(random.integers(4, 9)),
            "guidance_scale": float(random.choice((1.0, 1.5, 3.0))),
        },
        continuity=bool(random.random() < 0.3),
        voice=str(random.choice(("default", "emma", "george"))),
    )


@pytest.mark.parametrize(("seed", "count"), [(1, 2), pytest.param(2, 24, marks=pytest.mark.long)])
def test_any_texts_and_settings_are_the_same(engines: Engines, seed: int, count: int) -> None:
    random = np.random.default_rng(seed)
    utterances = [some_utterance(random) for _ in range(count)]
    outcomes = [[outcome(engine, each) for each in utterances] for engine in engines]
    assert len({found for found in outcomes[0] if isinstance(found, bytes)}) > count // 3
    assert outcomes[0] == outcomes[1]


def outcome(engine: SpeechEngine, utterance: Utterance) -> bytes | str:
    """Its samples, or why there are none."""
    try:
        (result,) = engine.synthesize([engine.in_voice(utterance)])
    except VoxError as err:
        return str(err)
    return result.samples.tobytes()


def test_segments_that_go_on_from_each_other_are_the_same(engines: Engines) -> None:
    noise = np.random.default_rng(2).standard_normal(16000 * 3).astype(np.float32)
    recording = Recording(samples=0.1 * noise, sample_rate=16000)
    texts = [
        said("It is late. We go.", continuity=True),
        said("It is late. We go.", continuity=True, reference=recording, max_seconds=2.0),
    ]
    assert_same([engine.synthesize(texts) for engine in engines])


def test_what_a_listener_gets_is_the_same(engines: Engines) -> None:
    each = [[chunk.samples for chunk in engine.stream(said())] for engine in engines]
    assert min(map(len, each)) > 2
    np.testing.assert_array_equal(*map(np.concatenate, each))  # cut as the workers get to them


@pytest.fixture
def refusing(monkeypatch: pytest.MonkeyPatch) -> Callable[[int], None]:
    """So many attempts at a speech are refused."""
    plain = speeches.check_audio

    def begin(num_refused: int) -> None:
        asked = []

        def check(*given: Any) -> tuple[Problem, ...]:
            asked.append(given)
            bad = Problem(ProblemKind.SILENT, "as the test wants", is_fatal=True)
            return (bad,) if len(asked) <= num_refused else plain(*given)

        monkeypatch.setattr(speeches, "check_audio", check)

    return begin


def test_a_segment_is_tried_again_with_the_same_result(
    engines: Engines, refusing: Callable[[int], None]
) -> None:
    results = []
    for engine in engines:
        refusing(2)
        results.append(engine.synthesize([said()]))
    assert results[0][0].segments[0].attempts == 3
    assert_same(results)
    for engine in engines:
        refusing(9)
        with pytest.raises(SynthesisError, match="refused 2 times"):
            engine.synthesize([said(retries=1)])


def test_who_leaves_changes_nothing_for_others(engines: Engines) -> None:
    light, whole = engines
    wanted = whole.synthesize([said()])
    plans = [light.plan(said(seed=9)), light.plan(said())]
    parts: list[np.ndarray] = []
    with light.session() as session:
        left, kept = (session.add(plan, is_live=False) for plan in plans)
        for _ in range(3):
            session.step()
        session.leave(left)
        while not session.is_idle:
            parts += [event.samples for speech, event in session.step() if speech is kept]  # type: ignore[union-attr]
    np.testing.assert_array_equal(np.concatenate(parts), wanted[0].samples)


SPEAK = """
import sys
from voxcli import cli
code = cli.main(["speak", *sys.argv[1:], "--quiet"])
print(code, "torch" in sys.modules)
"""


def test_a_command_imports_torch_where_that_is_asked_for(engines: Engines, tmp_path: Path) -> None:
    digests = set()
    for light in ("true", "false"):
        ended = subprocess.run(
            [sys.executable, "-c", SPEAK, SHORT, "-o", tmp_path / f"{light}.wav", "--seed", "2"],
            env={**os.environ, "VOXCLI_LIGHT": light, "VOXCLI_VOICE": "emma"},
            capture_output=True, text=True, timeout=PATIENCE_S,
        )  # fmt: skip
        assert ended.stdout.splitlines()[-1] == f"0 {light == 'false'}", ended.stderr
        digests.add((tmp_path / f"{light}.wav").read_bytes())
    assert len(digests) == 1


@pytest.mark.parametrize(
    ("given", "is_without"),
    [
        ({}, True),
        ({"precision": "fp32"}, True),
        ({"device": "auto"}, True),
        ({"light": False}, False),
        ({"native": False}, False),
        ({"precision": "bf16"}, False),
        ({"device": "cuda"}, False),
        ({"device": "cuda:1"}, False),
        ({"device": "tpu"}, False),
    ],
)
def test_what_is_asked_for_says_whether_torch_is_needed(
    monkeypatch: pytest.MonkeyPatch, given: dict[str, Any], is_without: bool
) -> None:
    monkeypatch.setattr("voxcli.process._CARDS", ())
    config = EngineConfig(**{"device": "cpu", "light": True, **given})
    assert (host.why_torch(config, 1000) is None) is is_without


def test_a_machine_with_a_card_or_too_little_memory_has_torch(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    config = EngineConfig(light=True)
    monkeypatch.setattr("voxcli.process._CARDS", (tmp_path,))
    assert host.why_torch(config, 1000)
    monkeypatch.setattr("voxcli.process._CARDS", ())
    monkeypatch.setattr(host, "available_memory", lambda: 1000)
    assert host.why_torch(config, 1000)
    assert host.why_torch(config, 700) is None
