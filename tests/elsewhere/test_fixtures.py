"""Every answer that a server is known to give, and what it has to mean."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from asked import COUNTED, VOXCPM2, call, clip, heard, pieces, served, speaking
from replayed import FOLDER, Answer, answer, exchange

from voxcli.errors import BusyError, EngineError, UnavailableError, UsageError, VoxError
from voxcli.utterance import FinishReason

SPLITS = {"as it comes": None, "in one piece": 0, "byte by byte": 1, "inside base64": 7}

SPOKEN = ("clone_ref_only", "clone_ref_text", "speech_length_limit", "speech_unknown_fields",
          "speech_wav", "speech_wav_026", "stream_raw_wav", "stream_sse_wav")  # fmt: skip
AT_24_KHZ = ("qwen_base_clone", "qwen_customvoice")
WITHOUT_RATE = ("other_sglang_stream", "speech_pcm", "stream_022", "stream_raw_pcm",
                "stream_sse_default")  # fmt: skip
WITHOUT_AUDIO = ("err_400_no_audio", "stream_raw_empty", "stream_sse_no_audio")
GONE = ("err_400_internal_before_030", "err_500_engine_dead", "err_500_internal_030",
        "err_500_qwen_codec_limit", "stream_raw_cut", "stream_sse_cut",
        "stream_sse_error_before_audio", "stream_sse_error_mid",
        "stream_sse_qwen_codec_limit")  # fmt: skip
BUSY = {"err_proxy_429": 2.0, "other_sglang_503": None}
REFUSED = ("err_400_content_type", "err_400_empty_input", "err_400_qwen_ref_text",
           "err_400_ref_short", "err_400_sample_rate", "err_400_schema_embedding_and_ref",
           "err_400_schema_missing_input", "err_400_schema_seed", "err_400_schema_speed",
           "err_400_schema_stream_format", "err_400_schema_stream_mp3", "err_400_speed_stream",
           "err_400_timestamps", "err_400_voice", "err_401", "err_404_model", "err_404_no_route",
           "err_404_no_speech")  # fmt: skip
NO_SPEECH = ("health_dead", "health_ok", "models", "speech_flac_types", "version", "voices_list",
             "voices_list_qwen")  # fmt: skip


def split(name: str, size: int | None) -> Answer:
    found = answer(name)
    return found if size is None else found.split(size)


def test_every_file_has_its_place() -> None:
    known = {*SPOKEN, *AT_24_KHZ, *WITHOUT_RATE, *WITHOUT_AUDIO, *GONE, *BUSY, *REFUSED, *NO_SPEECH}
    assert {path.stem for path in FOLDER.glob("*.json")} == {*known, "recorded_0_26"}


@pytest.mark.parametrize("size", list(SPLITS.values()), ids=list(SPLITS))
@pytest.mark.parametrize("name", SPOKEN)
def test_samples_come_once_and_in_order(name: str, size: int | None) -> None:
    with speaking(split(name, size)) as (engine, _):
        found = pieces(engine, call(engine))
    assert np.array_equal(heard(found), COUNTED)
    assert [piece.reason for piece in found[:-1]] == [None] * (len(found) - 1)
    assert found[-1].reason is FinishReason.STOP


@pytest.mark.parametrize("name", ["speech_length_limit", "stream_sse_wav"])
def test_as_many_tokens_as_were_allowed_are_a_cut(name: str) -> None:
    with speaking(answer(name)) as (engine, replay):
        found = pieces(engine, call(engine, max_frames=6))
        assert replay.spoken[-1]["max_new_tokens"] == 6
    assert np.array_equal(heard(found), COUNTED)
    assert found[-1].reason is FinishReason.LENGTH


@pytest.mark.parametrize("name", AT_24_KHZ)
def test_another_rate_than_the_model_has_is_refused(name: str) -> None:
    with (
        speaking(answer(name)) as (engine, _),
        pytest.raises(EngineError, match="24000 Hz, and 48000 Hz") as caught,
    ):
        pieces(engine, call(engine))
    assert not isinstance(caught.value, UnavailableError)


@pytest.mark.parametrize("size", list(SPLITS.values()), ids=list(SPLITS))
@pytest.mark.parametrize("name", WITHOUT_RATE)
def test_raw_samples_without_a_rate_are_refused(name: str, size: int | None) -> None:
    with (
        speaking(split(name, size)) as (engine, _),
        pytest.raises(EngineError, match="does not say at which rate; make it answer in WAV"),
    ):
        pieces(engine, call(engine))


@pytest.mark.parametrize("name", WITHOUT_AUDIO)
def test_no_audio_is_a_speech_without_samples(name: str) -> None:
    with speaking(answer(name)) as (engine, _):
        (only,) = pieces(engine, call(engine))
    assert len(only.samples) == 0
    assert only.reason is FinishReason.STOP


@pytest.mark.parametrize("size", list(SPLITS.values()), ids=list(SPLITS))
@pytest.mark.parametrize("name", GONE)
def test_failures_of_the_server_are_worth_another(name: str, size: int | None) -> None:
    model = exchange(name)["request"]["json"].get("model", VOXCPM2)
    with speaking(split(name, size), answers=served(model)) as (engine, _):
        asked = call(engine, **({} if model == VOXCPM2 else {"reference": clip(3)}))
        with pytest.raises(UnavailableError) as caught:
            pieces(engine, asked)
    _check_message(caught.value, exchange(name))


@pytest.mark.parametrize(("name", "after_s"), list(BUSY.items()))
def test_a_full_server_is_busy(name: str, after_s: float | None) -> None:
    with speaking(answer(name)) as (engine, _), pytest.raises(BusyError) as caught:
        pieces(engine, call(engine))
    assert caught.value.retry_after_s == after_s


@pytest.mark.parametrize("name", REFUSED)
def test_refusals_are_shown_in_the_servers_words(name: str) -> None:
    with speaking(answer(name)) as (engine, _), pytest.raises(UsageError) as caught:
        pieces(engine, call(engine))
    _check_message(caught.value, exchange(name))
    assert ("VOXCLI_API_KEY" in str(caught.value)) == (name == "err_401")


@pytest.mark.parametrize("name", [each for each in NO_SPEECH if each != "speech_flac_types"])
def test_what_is_no_speech_is_an_error(name: str) -> None:
    with speaking(answer(name)) as (engine, _), pytest.raises(EngineError):
        pieces(engine, call(engine))


def _check_message(error: VoxError, known: dict[str, Any]) -> None:
    """One line that says what the server said, if it said something."""
    assert error.message.isprintable()
    assert "vLLM-Omni 0.30.0 at http://127.0.0.1:" in error.message
    response = known["response"]
    said = response.get("json", {}).get("error", "")
    for event in response.get("events", ()):
        said = event["data"].get("error", said)
    said = said["message"] if isinstance(said, dict) else said
    assert " ".join(said.split())[:200] in error.message
