"""vLLM-Omni in this process, over packages that stand in for it."""

from __future__ import annotations

import asyncio
import os
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import aclosing, contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from needs import PATIENCE_S
from standins import TORCHES, machine

from voxcli.config import EngineConfig, SamplingParams
from voxcli.engine.calls import SegmentCall
from voxcli.engine.vllm_omni import deploy
from voxcli.engine.vllm_omni import engine as engine_module
from voxcli.engine.vllm_omni.engine import VllmOmniEngine
from voxcli.errors import (
    EngineError,
    EngineFaultError,
    RecordingError,
    SynthesisError,
    UsageError,
    VoxError,
)
from voxcli.hub import resolve_model
from voxcli.utterance import FinishReason, Recording, Utterance, VoiceEncoding

TEXT = "The ferry leaves at noon."
LONG = "The ferry leaves at noon, and the last one back leaves the island at half past six."
BASE, CUSTOM, DESIGN = "base_1b7", "cv_1b7", "vd_1b7"


class Maker:
    """Makes engines that are closed after the test."""

    def __init__(self, omni: Any, checkpoint: Callable[[str], Path]) -> None:
        self.omni = omni
        self._checkpoint = checkpoint
        self.notes: list[str] = []
        self._engines: list[VllmOmniEngine] = []

    def __call__(
        self, model: str = "voxcpm2", version: str = "0.26.0", **given: Any
    ) -> VllmOmniEngine:
        files = resolve_model(str(self._checkpoint(model)))
        self.omni.release = tuple(int(part) for part in version.split(".")[:2])
        self.omni.rate = files.facts.sample_rate
        self.omni.frame_s = 0.16 if model == "voxcpm2" else 0.08
        config = EngineConfig(str(files.folder), **{"max_slots": 4, **given})
        engine = VllmOmniEngine(files, config, on_note=self.notes.append, machine=machine(version))
        self._engines.append(engine)
        return engine

    def close(self) -> None:
        for engine in self._engines:
            engine.close()


@pytest.fixture
def make(omni: Any, checkpoint: Callable[[str], Path]) -> Iterator[Maker]:
    maker = Maker(omni, checkpoint)
    yield maker
    omni.may_begin.set()
    maker.close()


def clip(seconds: float, text: str = "", rate: int = 24_000) -> Recording:
    samples = np.sin(np.arange(round(seconds * rate)) / 20).astype(np.float32) / 2
    return Recording(samples, rate, text)


def asked(engine: VllmOmniEngine, **given: Any) -> Any:
    """The request that an utterance comes to."""
    engine.synthesize([Utterance(**{"text": TEXT, **given})])
    return engine._omni.requests[-1]


def pieces(engine: VllmOmniEngine, text: str = TEXT, max_frames: int = 100) -> list[np.ndarray]:
    """What one call brings."""
    plan = engine.plan(Utterance(text, sampling=SamplingParams(seed=3)))
    call = SegmentCall(plan, text, 3, max_frames, is_live=True)

    async def collect() -> list[np.ndarray]:
        async with aclosing(engine.speak(call)) as found:  # type: ignore[type-var]
            return [piece.samples async for piece in found]

    assert engine._loop is not None
    return engine._loop.run(collect(), PATIENCE_S)


def settle(engine: VllmOmniEngine) -> None:
    """Wait until no request runs."""

    async def wait() -> None:
        while engine._omni.running:
            await asyncio.sleep(0.001)

    assert engine._loop is not None
    engine._loop.run(wait(), PATIENCE_S)


# ---------------------------------------------------------------- prompts


def test_a_voice_that_is_imitated_goes_in_whole_patches_under_its_name(make: Maker) -> None:
    voice = clip(2.03)
    information = asked(make(), reference=voice).information
    ((samples, rate),) = information["reference_audio"]
    assert (rate, len(samples) % 2560) == (16_000, 0)
    assert 0 <= len(samples) - 2.03 * 16_000 < 2560
    assert information["voice_name"] == voice.key
    assert "prompt_text" not in information


def test_speech_that_is_continued_ends_with_its_samples_and_has_no_name(make: Maker) -> None:
    information = asked(make(), prompt=clip(2.03, "Rain.")).information
    ((samples, rate),) = information["prompt_audio"]
    assert (rate, len(samples) % 2560) == (16_000, 0)
    assert samples[0] == 0 != samples[-1]
    assert information["prompt_text"] == ["Rain."]
    assert "voice_name" not in information


@pytest.mark.parametrize(("seconds", "key"), [(9.9, "prompt_audio"), (10.1, "reference_audio")])
def test_a_clip_with_its_transcript_is_continued_if_it_is_short(
    seconds: float, key: str, make: Maker
) -> None:
    both = clip(seconds, "Rain.")
    information = asked(make(), reference=both, prompt=both).information
    assert {"prompt_audio", "reference_audio"} & set(information) == {key}


def test_a_style_stands_before_the_text(make: Maker) -> None:
    assert asked(make(), style="calm").text == f"(calm){TEXT}"


def test_a_preset_is_asked_for_by_its_name(make: Maker) -> None:
    engine = make(CUSTOM)
    voice = engine.facts.voices[0]
    request = asked(engine, voice=voice, language="en")
    expected = {
        "text": [TEXT],
        "task_type": ["CustomVoice"],
        "language": ["English"],
        "instruct": [""],
        "speaker": [voice.lower()],
        "max_new_tokens": [request.params.max_tokens],
    }
    assert request.information == expected


def test_a_voice_is_designed_from_words(make: Maker) -> None:
    information = asked(make(DESIGN), style="a low voice").information
    assert information["task_type"] == ["VoiceDesign"]
    assert information["instruct"] == ["a low voice"]
    assert "speaker" not in information


def test_a_voice_is_imitated_by_its_sound_or_with_its_transcript(make: Maker) -> None:
    engine = make(BASE)
    told = asked(engine, prompt=clip(2.0, "Rain.")).information
    heard = asked(engine, reference=clip(2.0)).information
    assert (told["ref_text"], told["x_vector_only_mode"]) == (["Rain."], [False])
    assert heard["x_vector_only_mode"] == [True]
    assert "ref_text" not in heard
    for information in (told, heard):
        samples, rate = information["ref_audio"][0]
        assert (len(samples), rate) == (48_000, 24_000)
        assert information["ref_code_length"] == [25]


@pytest.mark.parametrize("use", ["reference", "prompt"])
def test_recordings_that_cannot_be_heard_are_refused(use: str, make: Maker) -> None:
    engine = make()
    kept = Recording(
        None, 16_000, "Rain.", VoiceEncoding("voxcpm2", "0" * 64, {"reference": np.zeros(1)})
    )
    with pytest.raises(UsageError, match="only an encoding is saved"):
        engine.plan(Utterance(TEXT, **{use: kept}))
    with pytest.raises(RecordingError, match=r"0\.5 s, vLLM-Omni needs 1 s"):
        engine.plan(Utterance(TEXT, **{use: clip(0.5, "Rain.")}))


def test_speech_to_continue_that_is_too_long_is_refused(make: Maker) -> None:
    with pytest.raises(RecordingError, match="takes up to 10 s"):
        make().plan(Utterance(TEXT, prompt=clip(11, "Rain.")))


# ---------------------------------------------------------------- samples


@settings(
    max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(sizes=st.lists(st.floats(0.01, 5), min_size=1, max_size=5))
def test_samples_come_once_whatever_the_messages(sizes: list[float], make: Maker) -> None:
    engine = make(max_slots=1)
    engine.start()
    make.omni.sizes = (100,)
    whole = np.concatenate(pieces(engine))
    make.omni.sizes = sizes
    found = pieces(engine)
    assert np.array_equal(np.concatenate(found), whole)
    make.omni.sizes = (3,)
    engine.close()


@pytest.mark.parametrize("model", ["voxcpm2", CUSTOM])
def test_frames_are_counted_by_samples(model: str, make: Maker) -> None:
    make.omni.sizes = (0.7, 2.5)
    (result,) = make(model).synthesize([Utterance(TEXT)])
    assert [each.num_frames for each in result.segments] == [-(-len(TEXT) // 2)]


def test_live_samples_come_while_more_are_made(make: Maker) -> None:
    engine = make()
    make.omni.hold_at = 2
    with engine.stream(Utterance(f"{LONG} Held.")) as stream:
        chunks = [next(stream), next(stream)]
        assert all(len(chunk.samples) for chunk in chunks)
        assert len(engine._omni.running) == 1
    settle(engine)


@pytest.mark.parametrize("model", ["voxcpm2", CUSTOM])
def test_who_runs_into_the_limit_is_refused(model: str, make: Maker) -> None:
    sampling = SamplingParams(retries=0)
    with pytest.raises(SynthesisError, match="no end within") as caught:
        make(model).synthesize([Utterance("Endless is the sea.", sampling=sampling)])
    assert caught.value.finish_reason is FinishReason.LENGTH


def test_another_rate_is_refused(make: Maker) -> None:
    engine = make(CUSTOM)
    engine.start()
    make.omni.rate = 16_000
    with pytest.raises(EngineError, match="16000 Hz where 24000 Hz are right"):
        engine.synthesize([Utterance(TEXT)])


# ---------------------------------------------------------------- seeds


def test_a_seed_is_sent_only_where_it_counts(make: Maker) -> None:
    sampling = SamplingParams(seed=7)
    old, new = make(), make(version="0.30.0")
    assert (old.facts.is_repeatable, new.facts.is_repeatable) == (False, True)
    make.omni.release = (0, 26)
    assert asked(old, sampling=sampling).params.seed == 42  # the deploy file's
    plan = new.plan(Utterance(TEXT, sampling=sampling))
    (result,) = new.synthesize([plan])
    assert new._omni.requests[-1].params.seed == result.segments[0].seed


def test_qwen_is_sent_the_seed_of_both_its_models(make: Maker) -> None:
    engine = make(CUSTOM)
    (result,) = engine.synthesize([Utterance(TEXT, sampling=SamplingParams(seed=7))])
    params = engine._omni.requests[-1].params
    seed = result.segments[0].seed
    assert (params.seed, params.extra_args) == (seed, {"tts_local_seed": seed})


def test_parameters_go_to_the_first_stage(make: Maker) -> None:
    sampling = SamplingParams(parameters={"temperature": 0.5, "top_k": 7})
    params = asked(make(CUSTOM), sampling=sampling).params
    assert (params.temperature, params.top_k) == (0.5, 7)


@pytest.mark.parametrize(("model", "version"), [("voxcpm2", "0.30.0"), (CUSTOM, "0.26.0")])
def test_a_silent_row_is_tried_again_with_another_seed(
    model: str, version: str, make: Maker
) -> None:
    engine = make(model, version)
    (result,) = engine.synthesize([Utterance("Silent at first.")])
    assert [each.attempts for each in result.segments] == [2]
    first, second = (each.params.seed for each in engine._omni.requests[-2:])
    assert first != second


# ---------------------------------------------------------------- failures


def together(engine: VllmOmniEngine, *texts: str) -> dict[str, VoxError | None]:
    """How each text ended, spoken side by side."""
    ended: dict[str, VoxError | None] = {}
    with engine.session() as session:
        for text in texts:
            session.add(engine.plan(Utterance(text)), is_live=False)
        while not session.is_idle:
            session.bell.wait(PATIENCE_S)
            session.bell.clear()
            for speech, event in session.poll():
                if isinstance(event, VoxError):
                    ended[speech.plan.utterance.text] = event
                elif event.is_last:
                    ended[speech.plan.utterance.text] = None
    return ended


@pytest.mark.parametrize("version", TORCHES)
@pytest.mark.parametrize("model", ["voxcpm2", CUSTOM])
def test_a_row_that_fails_fails_alone_in_one_line(model: str, version: str, make: Maker) -> None:
    ended = together(make(model, version), "Odd one.", "Even one.", "Another one.")
    error = ended.pop("Odd one.")
    assert isinstance(error, EngineError)
    assert not isinstance(error, EngineFaultError)
    assert error.message == "vLLM-Omni failed: request error"
    assert ended == {"Even one.": None, "Another one.": None}


@pytest.mark.parametrize("word", ["Fatal", "Mute"])
@pytest.mark.parametrize("version", TORCHES)
@pytest.mark.parametrize("model", ["voxcpm2", CUSTOM])
def test_a_dead_engine_is_the_end_of_all_and_nobody_waits(
    model: str, version: str, word: str, make: Maker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(engine_module, "WATCH_S", 0.02)
    engine = make(model, version)
    make.omni.hold_at = 1
    ended = together(engine, f"{word} one.", "Held one.", "Even one.", "Another one.", "Last one.")
    assert len(ended) == 5
    assert all(isinstance(error, EngineFaultError) for text, error in ended.items()
               if text != "Even one." or error is not None)  # fmt: skip
    assert isinstance(ended["Held one."], EngineFaultError)
    with pytest.raises(EngineFaultError, match="has died"):
        engine.synthesize([Utterance(TEXT)])
    settle(engine)
    omni = engine._omni
    engine.close()
    assert omni.is_shut


# ---------------------------------------------------------------- leaving


def by_leaving(engine: VllmOmniEngine, session: Any, speech: Any) -> None:
    session.leave(speech)
    assert session.is_idle
    assert not session.has_work


def by_closing_the_session(engine: VllmOmniEngine, session: Any, speech: Any) -> None:
    session.close()


def by_closing_the_engine(engine: VllmOmniEngine, session: Any, speech: Any) -> None:
    engine.close()


def by_closing_it_from_another_thread(engine: VllmOmniEngine, session: Any, speech: Any) -> None:
    closer = threading.Thread(target=engine.close)
    closer.start()
    while not session.is_idle:  # the session's thread waits for news meanwhile
        session.step()
    closer.join(PATIENCE_S)
    assert not closer.is_alive()


LEAVING = [by_leaving, by_closing_the_session, by_closing_the_engine,
           by_closing_it_from_another_thread]  # fmt: skip


@pytest.mark.parametrize("hold_at", range(4))
@pytest.mark.parametrize("leave", LEAVING)
def test_who_leaves_in_mid_row_leaves_nothing_running(
    leave: Callable[..., None], hold_at: int, make: Maker
) -> None:
    engine = make(max_slots=2)
    engine.start()
    omni = engine._omni
    make.omni.hold_at = hold_at
    make.omni.is_held.clear()
    session = engine.session()
    speech = session.add(engine.plan(Utterance(f"Held: {LONG}")), is_live=True)
    session.poll()
    assert make.omni.is_held.wait(PATIENCE_S)
    leave(engine, session, speech)
    if engine._omni is not None:
        settle(engine)
    assert session.is_idle
    engine.close()
    assert omni.is_shut
    assert not omni.running


def test_who_leaves_while_it_waits_to_be_admitted_leaves_nothing(make: Maker) -> None:
    engine = make()
    engine.start()
    make.omni.hold_at = 1
    make.omni.is_held.clear()
    session = engine.session()
    first = session.add(engine.plan(Utterance("Held one.")))
    session.poll()
    assert make.omni.is_held.wait(PATIENCE_S)
    second = session.add(engine.plan(Utterance(TEXT)))
    session.poll()
    while len(engine._omni.running) < 2:
        time.sleep(0.001)
    session.leave(second)
    session.leave(first)
    settle(engine)
    assert not engine._omni._waiting
    assert len(engine.synthesize([Utterance(TEXT)])) == 1


def test_a_stream_that_is_closed_early_leaves_nothing_running(make: Maker) -> None:
    engine = make()
    with engine.stream(Utterance(LONG)) as stream:
        next(stream)
    settle(engine)


def test_an_engine_that_is_closed_while_it_starts_is_shut_when_it_is_there(
    make: Maker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("voxcli.engine.calls.CLOSE_S", 0.05)
    make.omni.may_begin.clear()
    make.omni.begins.clear()
    num_made = len(make.omni.made)
    engine = make()
    errors: list[BaseException] = []

    def start() -> None:
        try:
            engine.start()
        except BaseException as err:
            errors.append(err)

    starter = threading.Thread(target=start)
    starter.start()
    assert make.omni.begins.wait(PATIENCE_S)
    engine.close()
    starter.join(PATIENCE_S)
    assert not starter.is_alive()
    assert [type(err) for err in errors] == [EngineError]
    make.omni.may_begin.set()
    deadline = time.monotonic() + PATIENCE_S
    while len(make.omni.made) == num_made or not make.omni.made[-1].is_shut:
        assert time.monotonic() < deadline
        time.sleep(0.001)


# ---------------------------------------------------------------- the start


@pytest.mark.parametrize(("num_streams", "gib"), [(1, 6.0), (8, 6.0), (64, 9.25)])
def test_rows_graphs_and_cache_are_raised_together(
    num_streams: int, gib: float, tmp_path: Path, make: Maker
) -> None:
    engine = make(max_slots=num_streams)
    engine.start()
    (stage,) = engine._omni.deploy["stages"]
    assert stage == {
        "stage_id": 0,
        "max_num_seqs": num_streams,
        "kv_cache_memory_bytes": int(gib * 2**30),
        "engine_extras": {
            "hf_overrides": {
                "voxcpm2_runtime_config": {"unified_decode_graph_max_batch_size": num_streams}
            }
        },
    }


def test_both_stages_of_qwen_take_as_many_rows(make: Maker) -> None:
    engine = make(CUSTOM, max_slots=3)
    engine.start()
    stages = [{"stage_id": 0, "max_num_seqs": 3}, {"stage_id": 1, "max_num_seqs": 3}]
    assert engine._omni.deploy["stages"] == stages


@pytest.mark.parametrize("num_streams", [1, 2, 7, 16, 24, 33, 64])
def test_every_graph_is_captured_before_anybody_speaks(num_streams: int, make: Maker) -> None:
    engine = make(max_slots=num_streams)
    engine.start()
    sizes = deploy.buckets(num_streams)
    assert sizes[0] == 1
    assert sizes == sorted(set(sizes))
    assert set(sizes) <= set(engine._omni.waves)


def test_it_says_what_its_start_is_doing(make: Maker, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engine_module, "TELL_S", 0.01)
    make.omni.may_begin.clear()
    engine = make(max_slots=2)
    starter = threading.Thread(target=engine.start)
    starter.start()
    deadline = time.monotonic() + PATIENCE_S
    while len(make.notes) < 3:
        assert time.monotonic() < deadline
        time.sleep(0.001)
    make.omni.may_begin.set()
    starter.join(PATIENCE_S)
    assert make.notes[0] == "vLLM-Omni starts; its first start compiles"
    assert make.notes[1] == f"{make.notes[0]}: 0 s"
    assert "vLLM-Omni captures the graph for 2 at once" in make.notes


def test_nothing_of_its_start_reaches_stdout(
    make: Maker, capfd: pytest.CaptureFixture[str]
) -> None:
    sys.stdout.write("before\n")
    make().start()
    sys.stdout.write("after\n")
    sys.stdout.flush()
    out, err = capfd.readouterr()
    assert out == "before\nafter\n"
    assert "a banner of the package" in err
    assert "a line of its C code" in err


def test_it_starts_where_stdout_is_closed(make: Maker, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdout", None)
    make().start()


def test_a_card_by_number_is_the_one_that_this_process_sees(
    make: Maker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "5,3")
    engine = make(device="cuda:1")
    engine.start()
    assert engine._omni.environ["CUDA_VISIBLE_DEVICES"] == "3"
    assert os.environ["CUDA_VISIBLE_DEVICES"] == "5,3"
    with pytest.raises(UsageError, match="cuda:2"):
        make(device="cuda:2")


@pytest.mark.parametrize("device", ["cuda:", "cuda:one", "cuda:-1", "cuda1", "mps"])
def test_a_device_that_is_none_is_refused(device: str, make: Maker) -> None:
    with pytest.raises(UsageError, match="is unknown"):
        make(device=device)


def test_its_setup_names_the_version(make: Maker) -> None:
    engine = make(version="0.30.0", max_slots=8)
    engine.start()
    assert engine.setup.device == "vLLM-Omni 0.30.0"
    assert engine.setup.num_captures == 4


def test_a_start_that_fails_is_one_line_and_may_be_tried_again(
    make: Maker, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine = make()
    make.omni.failure = ValueError("no such thing\nand more")
    try:
        with pytest.raises(EngineError, match="did not start: no such thing;") as caught:
            engine.start()
    finally:
        make.omni.failure = None
    assert caught.value.hint
    assert len(engine.synthesize([Utterance(TEXT)])) == 1


# ---------------------------------------------------------------- refusals


@contextmanager
def refused(make: Maker, *words: str) -> Iterator[None]:
    """The block is refused with these words, and nothing is started."""
    num_made = len(make.omni.made)
    with pytest.raises(UsageError) as caught:
        yield
    shown = f"{caught.value.message}; {caught.value.hint}"
    assert all(word in shown for word in words), shown
    assert len(make.omni.made) == num_made


@pytest.mark.parametrize(
    ("config", "word"),
    [
        ({"device": "cpu"}, "--device"),
        ({"precision": "fp8"}, "--precision"),
        ({"precision": "fp32"}, "--precision"),
        ({"eager": True}, "--eager"),
    ],
)
def test_settings_that_it_does_not_have_are_refused(
    config: dict[str, Any], word: str, make: Maker
) -> None:
    with refused(make, word):
        make(**config)


@pytest.mark.parametrize("name", ["steps", "guidance_scale", "temperature"])
def test_parameters_that_it_does_not_have_are_refused_by_name(name: str, make: Maker) -> None:
    engine = make()
    with refused(make, name.replace("_", "-"), "vLLM-Omni"):
        engine.plan(Utterance(TEXT, sampling=SamplingParams(parameters={name: 1})))


def test_continuity_is_refused(make: Maker) -> None:
    engine = make()
    with refused(make, "--continuity"):
        engine.plan(Utterance(TEXT, reference=clip(3), continuity=True))


def test_the_bundled_voice_is_refused_with_a_hint(make: Maker) -> None:
    with refused(make, "'mini'", "--model openbmb/VoxCPM2"):
        VllmOmniEngine(resolve_model("mini"), EngineConfig("mini"), machine=machine())
