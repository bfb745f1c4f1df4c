"""Our own server in OpenAI's words, asked by our client of servers elsewhere."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest
from running import run_server

from voxcli.config import EngineConfig, SamplingParams
from voxcli.engine.base import SpeechEngine, uses_of
from voxcli.engine.calls import LoopThread
from voxcli.engine.native.engine import NativeEngine
from voxcli.engine.openai.engine import OpenAIEngine, known_rate, open_server
from voxcli.engine.openai.probe import probe
from voxcli.engine.openai.transport import Transport
from voxcli.errors import UsageError
from voxcli.hub import resolve_model
from voxcli.utterance import Recording, Utterance
from voxcli.voices import Voice, VoiceStore

TEXT = "The ferry leaves at noon. Bring 2 warm jackets, and mind the step."
SAMPLING = SamplingParams(seed=11)


@contextmanager
def client_of(url: str) -> Iterator[SpeechEngine]:
    with LoopThread("client") as loop:
        transport = Transport(url)
        profile = loop.run(probe(transport, None))
        rate = known_rate(profile)
        assert rate is not None
        with OpenAIEngine(transport, profile, rate, loop) as engine:
            yield engine


@pytest.fixture(scope="module")
def native() -> Iterator[NativeEngine]:
    with NativeEngine(resolve_model("mini"), EngineConfig(max_slots=4)) as engine:
        yield engine


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> VoiceStore:
    """Where this user's voices are, for the server too."""
    monkeypatch.setattr("voxcli.voices.store.data_dir", lambda: tmp_path)
    return VoiceStore()


def test_the_server_speaks_as_the_engine_itself(native: NativeEngine, store: VoiceStore) -> None:
    heard = Recording(_some_speech(native), native.facts.sample_rate)
    voice = Voice("oscar", heard)
    store.add(voice.encoded(native.encode(heard, uses_of(heard))))
    utterances = [
        Utterance(TEXT, sampling=SAMPLING),
        Utterance("One sentence.", sampling=SamplingParams(5, parameters={"steps": 4})),
        Utterance("One sentence.", "oscar", SAMPLING),
    ]
    own = native.synthesize([native.in_voice(each, store) for each in utterances])
    with run_server(engine=native) as running, client_of(running.url) as engine:
        assert engine.facts.voices[0] == "oscar"
        assert engine.facts.is_repeatable
        found = engine.synthesize([engine.in_voice(each) for each in utterances])
    for ours, theirs in zip(own, found, strict=True):
        assert theirs.sample_rate == ours.sample_rate
        assert [each.seed for each in theirs.segments] == [each.seed for each in ours.segments]
        # each sample was rounded to 16 bits on its way
        assert len(theirs.samples) == len(ours.samples)
        assert np.abs(theirs.samples - np.clip(ours.samples, -1, 1)).max() <= 2**-15


def test_what_the_engine_is_not_told_is_refused(native: NativeEngine, store: VoiceStore) -> None:
    with run_server(engine=native) as running, client_of(running.url) as engine:
        with pytest.raises(UsageError, match="guidance-scale"):
            engine.plan(
                Utterance(TEXT, sampling=SamplingParams(parameters={"guidance_scale": 99.0}))
            )
        with pytest.raises(UsageError, match="no reference mode"):
            engine.plan(Utterance(TEXT, reference=Recording(np.ones(48_000, np.float32), 24_000)))


def test_its_own_protocol_is_left_to_who_speaks_it(native: NativeEngine) -> None:
    with run_server(engine=native) as running, LoopThread("client") as loop:
        assert open_server(running.url, None, None, loop) is None


def _some_speech(native: NativeEngine) -> np.ndarray:
    (spoken,) = native.synthesize([Utterance("This is how I speak.", sampling=SAMPLING)])
    return spoken.samples
