"""A server elsewhere as an engine: what it is found to be, how it fails, and what it leaves."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Iterator
from contextlib import aclosing, contextmanager, suppress
from itertools import count
from typing import Any

import numpy as np
import pytest
from asked import QUICK, VOXCPM2, call, heard, pieces, served, speaking
from needs import PATIENCE_S
from replayed import CUT, HANGING, SPEECH, Answer, Replay, answer, as_json
from steps import is_cancelled_at

from voxcli.audio import wav
from voxcli.config import SamplingParams
from voxcli.engine.calls import LoopThread
from voxcli.engine.openai import transport
from voxcli.engine.openai.engine import OpenAIEngine, open_server
from voxcli.engine.openai.transport import Limits, base_of
from voxcli.engine.openai.waves import EMPTY
from voxcli.errors import EngineError, SynthesisError, UnavailableError, UsageError, VoxError
from voxcli.utterance import FinishReason, Mode, Recording, Use, Utterance

MODELS = ("GET", "/v1/models")
NOW = Limits(first_s=0.05, silence_s=0.05)
EVENTS = {"content-type": "text/event-stream"}


@contextmanager
def opened(answers: dict[tuple[str, str], Any], wanted: str | None = None) -> Iterator[Any]:
    with Replay(answers) as replay, LoopThread("client") as loop:
        found = open_server(replay.url, wanted, None, loop, limits=QUICK)
        try:
            yield found
        finally:
            if found is not None:
                found.close()


def refused(answers: dict[tuple[str, str], Any], wanted: str | None = None) -> VoxError:
    with pytest.raises(VoxError) as caught, opened(answers, wanted):
        pass
    return caught.value


def wave(samples: np.ndarray, rate: int = 48_000, num_said: int | None = None) -> Answer:
    """Samples as a whole WAV file."""
    data = wav.wav_header(rate, "16", len(samples) if num_said is None else num_said)
    return Answer(200, {"content-type": "audio/wav"}, (data, samples.astype("<i2").tobytes()))


# ---------------------------------------------------------------- what it is


def test_a_known_model_is_what_its_family_says() -> None:
    with opened(served()) as engine:
        facts = engine.facts
        assert facts.name == f"vLLM-Omni 0.30.0 at {engine.profile.url}"
        assert (facts.model, facts.family, facts.sample_rate) == (VOXCPM2, "voxcpm2", 48_000)
        assert facts.voices == ("narrator",)
        assert facts.is_repeatable
        assert facts.is_elsewhere
        assert not facts.can_encode
        with pytest.raises(UsageError, match="encodes no voices"):
            engine.encode(Recording(np.ones(9, np.float32), 9), (Use.REFERENCE,))


@pytest.mark.parametrize(("version", "is_so"), [("0.28.0", False), ("", False), ("0.32.1", True)])
def test_a_seed_is_no_promise_where_it_decides_nothing(version: str, is_so: bool) -> None:
    with opened(served(version=version)) as engine:
        assert engine.facts.is_repeatable is is_so


def test_a_model_is_known_by_what_its_name_stands_for() -> None:
    with opened(served("tts", root="/models/VoxCPM2")) as engine:
        assert (engine.facts.model, engine.facts.family) == ("tts", "voxcpm2")
    with opened(served("tts", root=VOXCPM2), wanted=VOXCPM2) as engine:
        assert engine.facts.model == "tts"


def test_a_model_that_is_not_served_is_refused_with_those_that_are() -> None:
    rows = [{"id": name, "owned_by": "vllm"} for name in ("a", "b", VOXCPM2)]
    answers = {**served(), MODELS: as_json({"data": rows})}
    error = refused(answers, "openbmb/VoxCPM1.5")
    assert isinstance(error, UsageError)
    assert error.hint == f"did you mean '{VOXCPM2}'? it serves: {VOXCPM2}, a, b"
    assert "--model" in str(refused(answers))


def test_a_rate_that_nobody_knows_is_learned_from_one_word() -> None:
    answers = {**served("tts-1", owner="x"), SPEECH: wave(np.zeros(99), rate=22_050)}
    with opened(answers) as engine:
        assert engine.facts.sample_rate == 22_050
    answers = {**served(owner="x"), SPEECH: wave(np.zeros(99), rate=24_000)}
    with opened(answers) as engine:  # whoever serves it may have converted it
        assert engine.facts.sample_rate == 24_000
    answers[SPEECH] = answer("stream_raw_empty")
    assert "not known" in refused(answers).message
    answers[SPEECH] = answer("stream_raw_pcm")
    assert "at which rate" in refused(answers).message


def test_a_voxcli_server_is_left_to_its_own_protocol() -> None:
    with opened(served("mini", owner="voxcli")) as engine:
        assert engine is None


def test_a_server_that_is_too_old_is_refused() -> None:
    assert "0.20.0" in refused(served(version="0.20.0")).message


def test_a_server_without_speech_is_refused() -> None:
    answers = {**served("x", owner="y"), ("GET", "/openapi.json"): as_json({"paths": {"/a": {}}})}
    assert "no speech interface" in refused(answers).message


def test_a_server_without_a_list_of_models_may_know_a_name() -> None:
    answers = {SPEECH: wave(np.zeros(9))}
    with opened(answers, wanted="kokoro") as engine:
        assert engine.facts.model == "kokoro"
    assert "--model" in str(refused(answers))


@pytest.mark.parametrize("status", [401, 403])
def test_a_key_that_is_refused_names_its_variable(status: int) -> None:
    error = refused({MODELS: as_json({"error": "Unauthorized"}, status)})
    assert isinstance(error, UsageError)
    assert "VOXCLI_API_KEY" in str(error)


def test_a_key_is_sent_with_every_request() -> None:
    with speaking(answer("stream_sse_wav"), api_key="k-1") as (engine, replay):
        pieces(engine, call(engine))
        sent = {headers.get("authorization") for _, _, headers, _ in replay.requests}
    assert sent == {"Bearer k-1"}


def test_a_redirect_is_not_followed() -> None:
    with Replay({}) as other:
        away = Answer(307, {"location": f"{other.url}/v1/models"})
        error = refused({MODELS: away})
        assert other.requests == []
    assert isinstance(error, UsageError)
    assert other.url in error.message


def test_nobody_there_is_an_error_of_the_engine() -> None:
    with socket.socket() as free, LoopThread("client") as loop:
        free.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{free.getsockname()[1]}"
        with pytest.raises(UnavailableError, match=url):
            open_server(url, None, None, loop)


ODD: list[Any] = [
    [],
    1,
    "x",
    None,
    {"data": 5},
    {"data": [3, {"id": 7}, {"id": ""}, {"id": "a\nb"}]},
]


@pytest.mark.parametrize("value", ODD)
def test_odd_lists_of_models_are_none(value: Any) -> None:
    assert isinstance(refused({MODELS: as_json(value)}), UsageError)


@pytest.mark.parametrize("value", [*ODD, {"voices": {}}, {"voices": [{"name": 3}, None]}])
def test_odd_answers_about_voices_and_versions_are_ignored(value: Any) -> None:
    odd = as_json(value)
    answers = {**served(), ("GET", "/v1/audio/voices"): odd, ("GET", "/version"): odd}
    with opened(answers) as engine:
        assert engine.facts.voices == ()


def test_a_list_without_end_is_not_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(transport, "MAX_JSON", 1000)
    answers = {MODELS: Answer(200, {}, (b" " * 1001,), HANGING)}
    assert "no end" in refused(answers).message


def test_voices_are_read_in_every_shape() -> None:
    for value in (["a", "b"], {"data": [{"id": "a"}, {"name": "b"}]}):
        with opened({**served(), ("GET", "/v1/audio/voices"): as_json(value)}) as engine:
            assert engine.facts.voices == ("a", "b")


@pytest.mark.parametrize(
    "url", ["", "ftp://a", "http://", "http://a:x", "http://a b", "http://u:p@a"]
)
def test_what_is_no_address_is_refused(url: str) -> None:
    with pytest.raises(UsageError):
        base_of(url)


@pytest.mark.parametrize("url", ["http://a:1", "http://a:1/", "http://a:1/v1", "http://a:1/v1/"])
def test_the_address_of_the_interface_is_the_servers(url: str) -> None:
    assert base_of(url) == "http://a:1"


def test_servers_of_one_kind_and_model_speak_the_same() -> None:
    sums = []
    for answers in (served(), served(), served(version="0.28.0"), served("x", root=VOXCPM2)):
        with opened(answers) as engine:
            sums.append(engine.model_checksum())
    assert sums[0] == sums[1]
    assert len(set(sums)) == 3


@pytest.mark.parametrize(
    ("answers", "is_so"),
    [
        ({("GET", "/health"): answer("health_ok")}, True),
        ({("GET", "/health"): answer("health_dead")}, False),
        ({("GET", "/health"): Answer(200, {}, (b"x",), HANGING)}, True),
        ({("GET", "/health"): as_json({}, 404)}, True),
        ({("GET", "/health"): as_json({}, 404), MODELS: as_json({}, 500)}, False),
    ],
)
def test_health_is_asked_cheaply(answers: dict[tuple[str, str], Answer], is_so: bool) -> None:
    with speaking(Answer()) as (engine, replay):
        for key, value in answers.items():
            replay.set(key, value)
        assert engine.is_up(PATIENCE_S) is is_so


def test_a_server_that_is_gone_is_not_up() -> None:
    with speaking(Answer()) as (engine, replay):
        replay.close()
        for close in (lambda: None, engine.close):
            close()
            assert engine.is_up(PATIENCE_S) is False
            with pytest.raises(UnavailableError):
                pieces(engine, call(engine))


# ---------------------------------------------------------------- how it speaks


def test_more_audio_than_was_allowed_is_cut_off() -> None:
    frame = 7680
    long = wave(np.arange(3 * frame) % 100, num_said=10**8)
    endless = Answer(200, long.headers, long.pieces, HANGING)
    with speaking(endless) as (engine, replay):
        found = pieces(engine, call(engine, max_frames=2))
        replay.wait("num_left", 1)
    assert len(heard(found)) == 2 * frame
    assert sum(piece.num_frames for piece in found) == 2
    assert found[-1].reason is FinishReason.LENGTH


def test_whole_length_without_a_count_is_a_cut() -> None:
    with speaking(wave(np.zeros(3 * 7680))) as (engine, _):
        assert pieces(engine, call(engine, max_frames=2))[-1].reason is FinishReason.LENGTH
        assert pieces(engine, call(engine, max_frames=3))[-1].reason is FinishReason.LENGTH
        assert pieces(engine, call(engine, max_frames=4))[-1].reason is FinishReason.STOP


HEADER = answer("stream_sse_wav").pieces[0]
WAITS = {
    "before headers": None,
    "before the body": Answer(200, EVENTS, (), HANGING),
    "in an event": Answer(200, EVENTS, (HEADER[:40],), HANGING),
    "before samples": Answer(200, EVENTS, (HEADER,), HANGING),
    "after samples": Answer(200, EVENTS, answer("stream_sse_wav").pieces[:2], HANGING),
    "in a refusal": Answer(500, {}, (b"{",), HANGING),
}


@contextmanager
def waiting(where: str, limits: Limits) -> Iterator[tuple[OpenAIEngine, Replay]]:
    """An engine on a server that hangs."""
    found = WAITS[where]
    with speaking(found or Answer(), limits=limits) as (engine, replay):
        if found is None:
            replay.hang_before_headers = True
        yield engine, replay


def connections(engine: OpenAIEngine) -> list[Any]:
    """That it has open."""
    found: list[Any] = engine._transport._client._transport._pool.connections  # type: ignore[attr-defined]
    return found


@pytest.mark.parametrize("where", WAITS)
def test_a_server_that_hangs_is_given_up(where: str) -> None:
    with waiting(where, NOW) as (engine, replay):
        with pytest.raises(UnavailableError, match="did not answer in time"):
            pieces(engine, call(engine))
        replay.wait("num_left", 1)


@pytest.mark.parametrize("where", WAITS)
def test_a_call_that_is_cancelled_closes_its_connection_and_leaves_nothing(where: str) -> None:
    with waiting(where, QUICK) as (engine, replay):
        asked, loop = call(engine), engine._loop

        async def speak() -> None:
            async for _ in engine.speak(asked):
                pass

        async def num_tasks() -> int:
            return len(asyncio.all_tasks())

        running = loop.start(speak())
        replay.wait("num_spoken", 1)
        running.cancel()
        replay.wait("num_left", 1)
        while loop.run(num_tasks(), PATIENCE_S) > 1:
            pass
        assert all(connection.is_idle() for connection in connections(engine))


ANSWERS = {
    "events": answer("stream_sse_wav"),
    "a file": wave(np.zeros(3 * 7680)),
    "too much": Answer(200, wave(EMPTY).headers, wave(np.zeros(3 * 7680)).pieces, HANGING),
    "no speech": Answer(200, {"content-type": "text/html"}, (b"<html>",)),
    "spoilt": Answer(200, EVENTS, (b"data: {\n\n",), HANGING),
    "a refusal": as_json({"error": "no"}, 500),
}


@pytest.mark.parametrize("which", ANSWERS)
def test_a_call_that_is_cancelled_wherever_it_waits_leaves_nothing(which: str) -> None:
    with speaking(ANSWERS[which]) as (engine, _):
        asked = call(engine, max_frames=2)

        async def speak() -> None:
            with suppress(VoxError):
                async with aclosing(engine.speak(asked)) as found:
                    async for _ in found:
                        pass

        for step in count():
            is_cancelled = engine._loop.run(is_cancelled_at(step, speak()), PATIENCE_S)
            assert all(connection.is_idle() for connection in connections(engine))
            if not is_cancelled:
                break
        assert step > 3


def test_a_stream_that_says_it_is_done_is_done() -> None:
    said = answer("stream_sse_wav")
    with speaking(Answer(200, EVENTS, said.pieces, HANGING)) as (engine, replay):
        assert pieces(engine, call(engine))[-1].reason is FinishReason.STOP
        replay.wait("num_left", 1)


def test_a_connection_is_used_again() -> None:
    with speaking(answer("stream_sse_wav")) as (engine, replay):
        before = replay.num_opened
        for _ in range(5):
            pieces(engine, call(engine))
        assert replay.num_opened <= before + 1


def test_a_session_that_is_closed_ends_the_work() -> None:
    with waiting("after samples", QUICK) as (engine, replay):
        with engine.session() as session:
            session.add(engine.plan(Utterance("Hello there.")))
            session.poll()
            replay.wait("num_spoken", 1)
        replay.wait("num_left", 1)


def test_a_speech_without_audio_is_tried_with_the_next_seed_and_then_refused() -> None:
    with speaking(answer("stream_sse_no_audio")) as (engine, replay):
        sampling = SamplingParams(seed=7, retries=2)
        with pytest.raises(SynthesisError, match="refused 3 times"):
            engine.synthesize([Utterance("Hello there.", sampling=sampling)])
        assert [body["seed"] for body in replay.spoken] == [7, 8, 9]


def test_what_the_server_says_goes_wrong_ends_the_speech_alone() -> None:
    with (
        speaking(answer("err_400_voice")) as (engine, _),
        pytest.raises(UsageError, match="Invalid voice"),
    ):
        engine.synthesize([Utterance("Hello there.")])


def test_a_stream_that_is_cut_says_so() -> None:
    cut = Answer(200, EVENTS, answer("stream_sse_wav").pieces[:2], CUT)
    with speaking(cut) as (engine, _), pytest.raises(EngineError, match="went away"):
        pieces(engine, call(engine))


def test_a_mode_that_it_lacks_is_refused_for_this_server() -> None:
    with (
        speaking(Answer()) as (engine, _),
        pytest.raises(UsageError, match=r"'openbmb/VoxCPM2 on vLLM-Omni 0\.30\.0' has no both"),
    ):
        engine.require(Mode.BOTH)
