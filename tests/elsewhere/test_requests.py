"""What a server is asked: its model's fields, and none that it would refuse or ignore."""

from __future__ import annotations

import base64
import io
from typing import Any

import numpy as np
import pytest
import soundfile
from asked import VOXCPM2, call, clip, pieces, served, speaking
from replayed import answer, as_json

from voxcli.config import SamplingParams
from voxcli.errors import RecordingError, UsageError, VoiceNotFoundError
from voxcli.models import FAMILIES, served_as
from voxcli.utterance import Mode, Recording, Utterance, VoiceEncoding
from voxcli.voices import Voice, VoiceStore

QWEN = "Qwen/Qwen3-TTS-12Hz-{}"
CUSTOM, DESIGN, BASE = (
    QWEN.format(f"1.7B-{kind}") for kind in ("CustomVoice", "VoiceDesign", "Base")
)
NOTHING = answer("stream_raw_empty")
KNOWN = {"model", "response_format", "stream", "stream_format", "input", "seed", "max_new_tokens"}


def asked(model: str = VOXCPM2, version: str = "0.30.0", **given: Any) -> dict[str, Any]:
    """The body of the request for an utterance."""
    answers = served(model, version)
    with speaking(NOTHING, answers=answers) as (engine, replay):
        pieces(engine, call(engine, **given))
        return replay.spoken[-1]


def told(body: dict[str, Any]) -> np.ndarray:
    """The recording that was sent."""
    head, _, data = body["ref_audio"].partition(",")
    assert head == "data:audio/wav;base64"
    samples, rate = soundfile.read(io.BytesIO(base64.b64decode(data)), dtype="float32")
    assert rate == served_as(body["model"]).facts.reference_sample_rate  # type: ignore[union-attr]
    return samples


def test_a_text_is_asked_for_as_a_stream_of_wav() -> None:
    body = asked(sampling=SamplingParams(seed=7))
    assert body == {  # 100 frames, in whole groups of three
        "model": VOXCPM2, "input": "Hello there.", "seed": 7, "max_new_tokens": 102,
        "response_format": "wav", "stream": True, "stream_format": "sse",
    }  # fmt: skip


def test_versions_before_events_are_asked_for_a_whole_file() -> None:
    assert not {"stream", "stream_format"} & asked(version="0.22.0").keys()


@pytest.mark.parametrize("seconds", [1.0, 3.14159, 10.0, 29.999, 30.0, 31.0])
def test_a_recording_is_whole_and_of_a_length_that_is_taken(seconds: float) -> None:
    body = asked(reference=clip(seconds))
    assert body.keys() == KNOWN | {"ref_audio"}
    samples = told(body)
    assert len(samples) % 2560 == 0
    assert min(seconds, 29.9) * 16_000 - 1 <= len(samples) <= 30 * 16_000


def test_a_short_clip_with_its_transcript_is_continued() -> None:
    heard = clip(5, "Ten boats came in.")
    body = asked(reference=heard, prompt=heard)
    assert body.keys() == KNOWN | {"ref_audio", "ref_text"}
    assert body["ref_text"] == "Ten boats came in."
    samples = told(body)
    assert np.abs(samples[-100:]).max() > 0.1  # silence is added where nothing joins on
    assert len(samples) % 2560 == 0


def test_a_long_clip_goes_without_its_transcript() -> None:
    heard = clip(12, "Ten boats came in.")
    body = asked(reference=heard, prompt=heard)
    assert "ref_text" not in body
    assert len(told(body)) >= 12 * 16_000


@pytest.mark.parametrize("text", ["", "  "])
def test_an_empty_transcript_is_never_sent(text: str) -> None:
    assert "ref_text" not in asked(reference=clip(5, text))
    with speaking(NOTHING) as (engine, _), pytest.raises(UsageError, match="transcript"):
        call(engine, prompt=clip(5, text))


def test_long_speech_to_continue_is_refused() -> None:
    with speaking(NOTHING) as (engine, _), pytest.raises(RecordingError, match="up to 10 s"):
        call(engine, prompt=clip(12, "Ten boats came in."))


def test_a_recording_that_the_server_would_refuse_is_refused_before() -> None:
    with speaking(NOTHING) as (engine, _), pytest.raises(RecordingError, match=r"0\.5 s"):
        call(engine, reference=clip(0.5))


def test_an_encoding_alone_cannot_be_sent() -> None:
    encoding = VoiceEncoding("mini", "0", {"reference": np.ones(4, np.float32)})
    with speaking(NOTHING) as (engine, _), pytest.raises(UsageError, match="only an encoding"):
        call(engine, reference=Recording(None, 16_000, encoding=encoding))


def test_a_style_goes_before_the_text_where_the_model_reads_it_there() -> None:
    assert asked(style=" calm ")["input"] == "(calm)Hello there."


def test_a_style_goes_with_a_recording_that_is_imitated() -> None:
    body = asked(style="calm", reference=clip(5))
    assert body["input"] == "(calm)Hello there."
    assert "ref_audio" in body


def test_what_the_model_is_not_told_there_is_refused_by_name() -> None:
    with speaking(NOTHING) as (engine, _):
        sampling = SamplingParams(parameters={"steps": 4})
        for refused in (engine.plan, engine.settled):
            with pytest.raises(
                UsageError, match=r"--steps .* 'openbmb/VoxCPM2 on vLLM-Omni 0.30.0'"
            ):
                refused(_utterance(sampling=sampling))


def test_continuity_is_refused() -> None:
    with speaking(NOTHING) as (engine, _), pytest.raises(UsageError, match="continuity"):
        call(engine, continuity=True)


def test_two_recordings_are_refused() -> None:
    with speaking(NOTHING) as (engine, _), pytest.raises(UsageError, match="no both mode"):
        call(engine, reference=clip(5, "One."), prompt=clip(5, "Two."))


# ---------------------------------------------------------------- Qwen3-TTS


def test_a_preset_voice_is_asked_for_with_language_and_instructions() -> None:
    with speaking(NOTHING, answers={**served(CUSTOM), **VOICES}) as (engine, replay):
        parameters = {"temperature": 0.5}
        given = engine.in_voice(_utterance(voice="Vivian", style="Calm."))
        pieces(engine, call(engine, voice=given.voice, style="Calm.", language="en",
                            sampling=SamplingParams(7, parameters=parameters)))  # fmt: skip
        body = replay.spoken[-1]
        assert engine.facts.voices == ("aiden", "ryan", "vivian")
        assert Mode.REFERENCE not in engine.facts.modes
    assert body.keys() == KNOWN | {
        "voice", "language", "instructions", "task_type", "extra_params"
    }  # fmt: skip
    assert (body["voice"], body["language"], body["task_type"]) == (
        "vivian", "English", "CustomVoice",
    )  # fmt: skip
    assert body["extra_params"] == {"temperature": 0.5, "top_k": 50, "top_p": 1.0}


VOICES = {("GET", "/v1/audio/voices"): answer("voices_list_qwen")}


def test_the_models_own_voice_needs_no_name() -> None:
    assert "voice" not in asked(CUSTOM)


def test_parameters_that_an_older_version_does_not_take_are_refused() -> None:
    assert "extra_params" not in asked(CUSTOM, "0.24.0")
    with speaking(NOTHING, answers=served(CUSTOM, "0.24.0")) as (engine, _):
        assert engine.facts.parameters == ()


def test_a_designed_voice_needs_its_words() -> None:
    assert asked(DESIGN, style="an old sailor")["instructions"] == "an old sailor"
    with speaking(NOTHING, answers=served(DESIGN)) as (engine, _):
        with pytest.raises(UsageError, match="give --style"):
            call(engine)
        with pytest.raises(UsageError, match="600 characters"):
            call(engine, style="x" * 600)


def test_the_small_model_follows_no_style() -> None:
    answers = served(QWEN.format("0.6B-CustomVoice"))
    with (
        speaking(NOTHING, answers=answers) as (engine, _),
        pytest.raises(UsageError, match="style"),
    ):
        call(engine, style="calm")


def test_a_voice_is_heard_with_its_transcript_or_by_its_sound() -> None:
    heard = clip(12, "Ten boats came in.")
    body = asked(BASE, reference=heard, prompt=heard)
    assert body["ref_text"] == "Ten boats came in."
    assert "x_vector_only_mode" not in body
    body = asked(BASE, reference=heard)
    assert body["x_vector_only_mode"] is True
    assert "ref_text" not in body
    with (
        speaking(NOTHING, answers=served(BASE)) as (engine, _),
        pytest.raises(UsageError, match="voxcli clone"),
    ):
        call(engine)


# ---------------------------------------------------------------- other servers, and voices


SCHEMA = {
    "paths": {"/v1/audio/speech": {"post": {"requestBody": {"content": {"application/json": {
        "schema": {"$ref": "#/components/schemas/Speech"}}}}}}},
    "components": {"schemas": {"Speech": {"properties": {"input": {}, "seed": {}, "speed": {}}}}},
}  # fmt: skip


def test_a_server_that_nobody_knows_is_asked_in_openais_words() -> None:
    answers = served("tts-1", owner="someone", sample_rate=24_000)
    answers["GET", "/v1/audio/voices"] = as_json({}, 404)
    with speaking(NOTHING, answers=answers) as (engine, replay):
        pieces(engine, call(engine))
        given = engine.in_voice(_utterance(voice="nova"))
        pieces(engine, call(engine, voice=given.voice))
        first, second = replay.spoken
        assert engine.facts.modes == (Mode.ZERO_SHOT,)
        assert not engine.facts.is_repeatable
    assert first == {
        "model": "tts-1", "input": "Hello there.", "voice": "alloy", "response_format": "wav",
    }  # fmt: skip
    assert second["voice"] == "nova"


def test_a_server_is_asked_for_what_it_describes() -> None:
    answers = served("tts-1", owner="someone", sample_rate=24_000)
    answers["GET", "/openapi.json"] = as_json(SCHEMA)
    with speaking(NOTHING, answers=answers) as (engine, replay):
        pieces(engine, call(engine, sampling=SamplingParams(seed=3)))
        body = replay.spoken[-1]
    assert body["seed"] == 3
    assert body["voice"] == "narrator"  # the first that it lists
    assert body.keys() == {"model", "input", "voice", "response_format", "seed"}


def test_a_voice_that_the_server_lists_is_asked_for_by_name() -> None:
    assert asked(voice="narrator")["voice"] == "narrator"
    with speaking(NOTHING) as (engine, _), pytest.raises(VoiceNotFoundError, match="narrator"):
        engine.in_voice(_utterance(voice="narator"))


def test_a_kept_voice_is_sent_as_its_recording(tmp_path: Any) -> None:
    store = VoiceStore(tmp_path)
    store.add(Voice("oscar", clip(5, "Ten boats came in.")))
    with speaking(NOTHING) as (engine, replay):
        utterance = engine.in_voice(_utterance(voice="Oscar"), store)
        assert utterance.mode is Mode.BOTH
        given = {"voice": "Oscar", "reference": utterance.reference, "prompt": utterance.prompt}
        pieces(engine, call(engine, **given))
        pieces(engine, call(engine, **given, style="calm"))
        first, second = replay.spoken
    assert first.keys() == KNOWN | {"ref_audio", "ref_text"}
    assert second.keys() == KNOWN | {"ref_audio"}


def test_half_characters_are_no_trouble() -> None:
    assert "Hello" in asked(text="Hello \udcff there.")["input"]


# ---------------------------------------------------------------- names


@pytest.mark.parametrize(
    ("name", "family"),
    [
        ("openbmb/VoxCPM2", "voxcpm2"), ("/models/voxcpm2/", "voxcpm2"),
        ("openbmb/VoxCPM1.5", None), ("tts-1", None), ("", None),
        (BASE, "qwen3_tts"), ("qwen3_tts_12hz_0.6b_base", "qwen3_tts"), ("Qwen/Qwen3-8B", None),
        ("Qwen/Qwen3-TTS-Tokenizer-12Hz", None),
    ],
)  # fmt: skip
def test_models_are_known_by_their_names(name: str, family: str | None) -> None:
    found = served_as(name)
    assert (found and found.facts.family) == family


def test_a_served_model_has_no_more_than_its_family() -> None:
    for name in (VOXCPM2, CUSTOM, DESIGN, BASE):
        found = served_as(name)
        assert found is not None
        (family,) = (each for each in FAMILIES if each.name == found.facts.family)
        assert set(found.facts.parameters) <= set(family.declaration)
        assert Mode.BOTH not in found.facts.modes


def _utterance(**given: Any) -> Utterance:
    return Utterance(**{"text": "Hello there.", **given})
