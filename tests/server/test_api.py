"""The HTTP interface: formats, OpenAI's client, and whatever people send by mistake."""

from __future__ import annotations

import base64
import http.client
import json
import re
import socket
import subprocess
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import httpx
import numpy as np
import openai
import pytest
import schemathesis
from fakes import SAMPLE_RATE, fake_engine
from hypothesis import HealthCheck, given, settings
from prometheus_client.parser import text_string_to_metric_families
from running import WAIT_S, Running, rest_of_end, run_server, until

from voxcli import models
from voxcli.config import SamplingParams
from voxcli.parameters import Parameter
from voxcli.server import connections, guard
from voxcli.server.guard import TEXT_BYTES
from voxcli.server.schema import PATTERNS
from voxcli.utterance import Utterance

JSON = {"Content-Type": "application/json"}
TEXT = "The ferry leaves at noon. Bring a warm jacket, and mind the step."
needs_ffmpeg = pytest.mark.usefixtures("ffmpeg")


def ask(client: httpx.Client, **fields: Any) -> httpx.Response:
    return client.post("/v1/audio/speech", json={"model": "fake", "input": TEXT, **fields})


def offline(seed: int) -> np.ndarray:
    """The same text and seed without a server, 16 bits."""
    utterance = Utterance(TEXT, sampling=SamplingParams(seed=seed))
    samples = fake_engine().synthesize([utterance])[0].samples
    return np.clip(np.rint(samples.astype(np.float64) * 32768), -32768, 32767).astype(np.int16)


def decode(data: bytes) -> np.ndarray:
    """As players do: libsndfile itself wants lengths that a stream cannot have."""
    command = ["ffmpeg", "-v", "error", "-i", "pipe:0", "-f", "f32le", "-ar", "48000", "pipe:1"]
    return np.frombuffer(subprocess.run(command, input=data, capture_output=True).stdout, "<f4")


# ------------------------------------------------------------------------ audio


@needs_ffmpeg
@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("name", ["wav", "flac", "mp3", "opus"])
def test_every_format_decodes_to_the_whole_speech(
    client: httpx.Client, name: str, stream: bool
) -> None:
    answer = ask(client, response_format=name, stream=stream, seed=1)
    assert answer.status_code == 200
    assert answer.headers["content-type"].startswith("audio/")
    assert answer.headers["x-seed"] == "1"
    samples = decode(answer.content)
    wanted = len(offline(1)) / SAMPLE_RATE
    assert len(samples) / 48_000 == pytest.approx(wanted, abs=0.3)  # lossy codecs pad
    assert np.abs(samples).max() > 0.2


def test_streamed_pcm_is_the_offline_samples(client: httpx.Client) -> None:
    answer = ask(client, response_format="pcm", sample_rate=SAMPLE_RATE, stream=True, seed=5)
    assert answer.content == offline(5).tobytes()
    whole = ask(client, response_format="pcm", sample_rate=SAMPLE_RATE, seed=5)
    assert whole.content == answer.content


def test_max_seconds_cuts_the_whole_text_and_the_answer_says_so(client: httpx.Client) -> None:
    given = {"response_format": "pcm", "sample_rate": SAMPLE_RATE, "seed": 5, "max_seconds": 3.5}
    whole, stream = ask(client, **given), ask(client, **given, stream=True)
    assert whole.content == stream.content
    assert len(whole.content) == 2 * 3.5 * SAMPLE_RATE
    assert whole.headers["x-finish-reason"] == "length"
    events = ask(client, **given, stream_format="sse").text.split("\n\n")
    assert json.loads(events[-2][6:])["finish_reason"] == "length"
    assert ask(client, seed=5, max_seconds=60).headers["x-finish-reason"] == "stop"


def test_pcm_has_the_rate_that_openai_clients_expect(client: httpx.Client) -> None:
    answer = ask(client, response_format="pcm", stream=True, seed=5)
    assert answer.headers["x-sample-rate"] == "24000"
    assert len(answer.content) == 2 * len(offline(5)) * 24000 // SAMPLE_RATE


@needs_ffmpeg
def test_aac_is_a_whole_file_only(client: httpx.Client) -> None:
    assert ask(client, response_format="aac").content[:1] == b"\xff"
    refused = ask(client, response_format="aac", stream=True)
    assert refused.status_code == 400
    assert "cannot be streamed" in refused.json()["error"]["message"]


def test_a_stream_sends_new_samples_while_the_rest_is_made() -> None:
    """The first bytes arrive before the model may go on."""
    with run_server() as running, running.client() as client:
        running.model.steps_left = 4
        body = {"model": "fake", "input": TEXT, "response_format": "pcm", "stream": True, "seed": 5}
        with client.stream("POST", "/v1/audio/speech", json=body) as answer:
            blocks = answer.iter_raw()
            first = next(blocks)
            until(lambda: not running.model.gate.is_set())
            assert running.worker.num_running == 1
            running.model.gate.set()
            rest = b"".join(blocks)
        assert min(len(first), len(rest)) > 0
        assert len(first + rest) == 2 * len(offline(5)) * 24000 // SAMPLE_RATE


def test_server_sent_events_carry_the_same_audio(client: httpx.Client) -> None:
    answer = ask(
        client, response_format="pcm", sample_rate=SAMPLE_RATE, stream_format="sse", seed=5
    )
    assert answer.headers["content-type"].startswith("text/event-stream")
    events = [json.loads(line[6:]) for line in answer.text.split("\n\n") if line]
    audio = b"".join(base64.b64decode(e["audio"]) for e in events[:-1])
    assert audio == offline(5).tobytes()
    assert {e["type"] for e in events[:-1]} == {"speech.audio.delta"}
    assert events[-1]["type"] == "speech.audio.done"
    assert events[-1]["usage"]["total_tokens"] > 0


# ------------------------------------------------------------------------ OpenAI's client


@pytest.fixture(scope="module")
def official(server: Running) -> Iterator[openai.OpenAI]:
    with openai.OpenAI(base_url=f"{server.url}/v1", api_key="unused", max_retries=0) as client:
        yield client


def test_the_official_client_gets_a_file_and_a_stream(official: openai.OpenAI) -> None:
    made = official.audio.speech.create(
        model="fake", voice="default", input=TEXT, response_format="flac", extra_body={"seed": 3}
    )
    assert made.content[:4] == b"fLaC"
    with official.audio.speech.with_streaming_response.create(
        model="fake",
        voice="default",
        input=TEXT,
        response_format="pcm",
        extra_body={"stream": True, "seed": 5, "sample_rate": SAMPLE_RATE},
    ) as stream:
        assert b"".join(stream.iter_bytes()) == offline(5).tobytes()
    assert next(iter(official.models.list())).id == "fake"


def test_the_official_client_understands_refusals(official: openai.OpenAI) -> None:
    with pytest.raises(openai.BadRequestError) as refused:
        official.audio.speech.create(model="fake", voice="albba", input=TEXT)
    assert refused.value.code == "voice_not_found"
    assert refused.value.param == "voice"
    with pytest.raises(openai.NotFoundError, match="'tts-9' is not served here, 'fake' is"):
        official.audio.speech.create(model="tts-9", voice="default", input=TEXT)


# ------------------------------------------------------------------------ mistakes

MISTAKES: dict[str, tuple[dict[str, Any], str]] = {
    "empty text": ({"input": ""}, "input"),
    "nothing to say": ({"input": " \n "}, "the text is empty"),
    "another language": ({"input": "今天天气很好，我们去公园。"}, "speaks only English"),
    "unknown voice": ({"voice": "albba"}, "no voice 'albba'"),
    "a path as voice": ({"voice": "../../etc/passwd"}, "no voice '../../etc/passwd'"),
    "wrong format": ({"response_format": "midi"}, "response_format"),
    "negative speed": ({"speed": -1}, "speed"),
    "speed is no number": ({"speed": "fast"}, "speed"),
    "a rate the format lacks": ({"response_format": "opus", "sample_rate": 44100}, "cannot store"),
    "unknown field": ({"temperature": 1}, "temperature"),
    "huge seed": ({"seed": 2**70}, "seed"),
    "speed is a truth": ({"speed": True}, "'speed' must be a number, but is true"),
    "a truth in words": ({"stream": "yes"}, "'stream' must be true or false, but is \"yes\""),
    "a number in words": ({"seed": "5"}, "'seed' must be a whole number, but is \"5\""),
    "no language code": ({"language": "e n"}, "must be a language code such as en or zh-TW"),
    "a voice of no known shape": ({"voice": {}}, "'id' of 'voice' is missing"),
    "a surrogate in a wrong place": ({"seed": "\\ud800"}, "'seed' must be a whole number"),
    "too short for the text": ({"max_seconds": 0.1}, "needs at least"),
    "too short for the model": (
        {"input": "Go.", "max_seconds": 0.3},
        "'max_seconds' is 0.30, but this model speaks 0.64 s or more",
    ),
}


@pytest.mark.parametrize("name", MISTAKES)
def test_a_mistake_is_a_400_that_says_what(client: httpx.Client, name: str) -> None:
    fields, words = MISTAKES[name]
    answer = ask(client, **fields)
    assert answer.status_code == 400
    error = answer.json()["error"]
    assert words in error["message"]
    assert error["type"] == "invalid_request_error"
    assert "Traceback" not in answer.text


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("inputt", "'input' is missing; was it meant by \"inputt\"?"),
        ("imput", "'input' is missing; was it meant by \"imput\"?"),
        ("words", "'input' is missing"),
    ],
)
def test_a_misspelt_field_is_named_with_the_one_that_is_missing(
    client: httpx.Client, name: str, words: str
) -> None:
    answer = client.post("/v1/audio/speech", json={"model": "fake", name: TEXT, "seed": 1})
    assert answer.status_code == 400
    error = answer.json()["error"]
    assert (error["message"], error["param"]) == (words, "input")


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({"max_seconds": 0.1}, "max_seconds"),
        ({"input": "Go.", "max_seconds": 0.3}, "max_seconds"),
        ({"max_seconds": -1}, "max_seconds"),
        ({"language": "ja"}, "language"),
        ({"language": ""}, "language"),
        ({"language": "日本"}, "language"),
        ({"seed": 5.5}, "seed"),
        ({"steps": 1e300}, "steps"),
        ({"input": "今天天气很好，我们去公园。"}, "input"),
    ],
)
def test_a_refusal_names_the_field(
    client: httpx.Client, fields: dict[str, Any], param: str
) -> None:
    answer = ask(client, **fields)
    assert answer.status_code == 400
    assert answer.json()["error"]["param"] == param


def test_each_pattern_of_a_field_has_words_for_a_refusal(client: httpx.Client) -> None:
    def patterns(part: Any) -> Iterator[str]:
        if isinstance(part, dict):
            yield from (value for key, value in part.items() if key == "pattern")
        for inside in part.values() if isinstance(part, dict) else part:
            if isinstance(inside, dict | list):
                yield from patterns(inside)

    found = set(patterns(client.get("/v1/openapi.json").json()))
    assert found == PATTERNS.keys()


def test_a_whole_number_is_an_integer_however_it_is_written(client: httpx.Client) -> None:
    fields = {"response_format": "pcm", "retries": 0.0, "steps": 10.0}
    answer = ask(client, **fields, sample_rate=float(SAMPLE_RATE), seed=5.0)
    assert answer.headers["x-seed"] == "5"
    assert answer.content == offline(5).tobytes()


def test_a_parameter_has_its_own_name_and_hidden_ones(client: httpx.Client) -> None:
    fields = {"response_format": "pcm", "sample_rate": SAMPLE_RATE, "seed": 5}
    for name in ("guidance_scale", "cfg"):
        assert ask(client, **fields, **{name: 1.5}).content == offline(5).tobytes()
        refused = ask(client, **fields, **{name: 11})
        assert refused.status_code == 400
        assert refused.json()["error"]["param"] == name
    document = client.get("/v1/openapi.json").json()
    shown = document["components"]["schemas"]["SpeechRequest"]["properties"]
    assert {"steps", "guidance_scale"} < shown.keys()
    assert "cfg" not in shown
    assert "2" in str(shown["steps"])
    assert "Steps that refine" in shown["steps"]["description"]


class Other:
    """Another family, as far as its declaration goes."""

    declaration = (Parameter("temperature", "float", "Sampling temperature", 0.9, 0.1, 2.0),)


def test_a_parameter_of_another_family_is_refused_with_what_this_one_has(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(models, "FAMILIES", [*models.FAMILIES, Other()])
    with run_server() as running, running.client() as client:
        for value, words in (
            (0.5, "'temperature' is not a parameter of model 'fake'"),
            (5, "must be 2 or less"),
        ):
            answer = ask(client, temperature=value)
            assert answer.status_code == 400
            error = answer.json()["error"]
            assert error["param"] == "temperature"
            assert words in error["message"]
        assert (
            "'steps' (from 2 to 100), 'guidance_scale' (from 0 to 10)"
            in (ask(client, temperature=0.5).json()["error"]["message"])
        )


def test_a_body_that_is_not_utf_8_is_told_so(client: httpx.Client) -> None:
    content = '{"model": "fake", "input": "café"}'.encode("latin-1")
    headers = {"Content-Type": "application/json"}
    answer = client.post("/v1/audio/speech", content=content, headers=headers)
    assert answer.status_code == 400
    error = answer.json()["error"]
    assert error["message"] == "the body must be JSON in UTF-8; byte 0xe9 at offset 31 is not"
    assert error["code"] == "json"


@pytest.mark.parametrize(
    ("content", "status"),
    [
        (b'{"model": "fake", ', 400),
        (b"", 400),
        (b"[]", 400),
        (b'"hello"', 400),
        (b"\xff\xfe\x00", 400),
        (b'{"model": "fake", "input": "\\ud800"}', 400),
        (b'{"model": "fake", "input": NaN}', 400),
    ],
)
def test_a_malformed_body_is_refused(client: httpx.Client, content: bytes, status: int) -> None:
    headers = {"Content-Type": "application/json"}
    answer = client.post("/v1/audio/speech", content=content, headers=headers)
    assert answer.status_code == status, answer.text
    assert answer.json()["error"]["message"]


@pytest.mark.parametrize(
    ("content", "place"),
    [
        ('{"model": "fake", "input": "One.\nTwo."}', "at character 33"),
        ('{"model": "fake",', "at character 18"),
        ("{'model': 'fake'}", "at character 2"),
    ],
)
def test_a_body_that_is_no_json_is_told_where(
    client: httpx.Client, content: str, place: str
) -> None:
    headers = {"Content-Type": "application/json"}
    answer = client.post("/v1/audio/speech", content=content.encode(), headers=headers)
    assert answer.json()["error"]["message"].endswith(place)


def test_half_of_a_character_is_left_out_of_a_text(client: httpx.Client) -> None:
    fields = '"model": "fake", "response_format": "pcm", "seed": 3'
    answers = []
    for text in ("It is good.", "It is good. \\ud83d"):
        body = f'{{{fields}, "input": "{text}"}}'
        headers = {"Content-Type": "application/json"}
        answers.append(client.post("/v1/audio/speech", content=body.encode(), headers=headers))
    assert answers[0].status_code == answers[1].status_code == 200
    assert answers[0].content == answers[1].content


def test_ten_megabytes_of_text_are_refused(client: httpx.Client) -> None:
    assert ask(client, input="word " * 2_000_000).status_code == 413

    def pieces() -> Iterator[bytes]:  # without a length in the header
        yield b'{"model": "fake", "input": "'
        for _ in range(2 * TEXT_BYTES // 1000):
            yield b"word " * 200
        yield b'"}'

    headers = {"Content-Type": "application/json"}
    answer = client.post("/v1/audio/speech", content=pieces(), headers=headers)
    assert answer.status_code == 413


def test_unknown_paths_and_methods_answer_in_the_same_shape(client: httpx.Client) -> None:
    assert client.get("/v1/nothing").json()["error"]["message"] == "GET /v1/nothing: not found"
    assert client.get("/v1/audio/speech").status_code == 405
    assert client.get("/page/..%2f..%2fconfig.py").status_code == 404
    assert client.get("/page/app.py").status_code == 404


@pytest.mark.parametrize(
    "path", ["/audio/speech", "/v1/v1/audio/speech", "/v1/audio/speech/", "//v1/audio/speech"]
)
def test_a_base_url_with_the_wrong_end_is_told_the_path(client: httpx.Client, path: str) -> None:
    answer = client.post(f"{client.base_url}{path}", json={"input": "One."})
    assert answer.status_code == 404
    told = answer.json()["error"]["message"]
    assert "; the path is /v1/audio/speech: check the base URL" in told


@pytest.mark.parametrize("header", ["Host: [::1", "Origin: http://[::1"])
def test_an_address_that_is_none_is_refused(client: httpx.Client, header: str) -> None:
    name, value = header.split(": ")
    assert client.get("/health", headers={name: value}).status_code == 403


def test_a_client_that_says_nothing_more_is_let_go(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    head = b"POST /v1/audio/speech HTTP/1.1\r\nHost: localhost\r\nContent-Length: 500\r\n"
    with run_server() as running:
        host, port = running.url.removeprefix("http://").split(":")
        for sent, answer in ((head, b""), (head + b"\r\n{", b"HTTP/1.1 413")):
            monkeypatch.setattr(guard, "BODY_SILENCE_S", 0.1 if answer else WAIT_S)
            monkeypatch.setattr(connections, "HEAD_S", WAIT_S if answer else 0.1)
            with socket.create_connection((host, int(port)), timeout=WAIT_S) as raw:
                with suppress(ConnectionError):
                    raw.sendall(sent)
                assert rest_of_end(raw, 12) == answer
    (line,) = caplog.messages
    said = (
        r"was cut off: it sent next to nothing of its body for \d+\.\d s \(POST /v1/audio/speech\)"
    )
    assert re.search(said, line)


def test_a_request_of_rubbish_is_a_400(server: Running) -> None:
    host, port = server.url.removeprefix("http://").split(":")
    with socket.create_connection((host, int(port)), timeout=WAIT_S) as raw:
        raw.sendall(b"\x16\x03\x01 what is this\r\n\r\n")
        assert raw.recv(1000).startswith(b"HTTP/1.1 400")


@pytest.mark.parametrize("is_answered_before", [False, True])
def test_a_body_that_turns_to_rubbish_is_no_bug(
    server: Running, caplog: pytest.LogCaptureFixture, is_answered_before: bool
) -> None:
    host, port = server.url.removeprefix("http://").split(":")
    head = b"POST /nowhere HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n"
    rubbish = b"this is no length\r\n"
    with socket.create_connection((host, int(port)), timeout=WAIT_S) as raw:
        raw.sendall(head if is_answered_before else head + rubbish)
        assert raw.recv(1).startswith(b"H")
        if is_answered_before:
            raw.sendall(rubbish)
        rest_of_end(raw)
    assert not [each for each in caplog.records if each.levelname == "ERROR"]


def test_a_bug_is_a_500_and_its_traceback_is_logged(
    server: Running, client: httpx.Client, monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:  # fmt: skip
    monkeypatch.setattr(server.worker.engine, "plan", lambda _: 1 / 0)
    answer = ask(client)
    assert answer.status_code == 500
    assert answer.json()["error"]["message"] == "the server failed; see its log"
    logged = next(each for each in caplog.records if each.name == "voxcli.server.app")
    assert logged.getMessage() == "POST /v1/audio/speech failed"
    assert logged.exc_info is not None


def test_no_request_of_the_own_document_is_answered_with_a_5xx(server: Running) -> None:
    schema = schemathesis.openapi.from_url(f"{server.url}/v1/openapi.json")
    for found in schema.get_all_operations():
        operation = found.ok()

        @settings(
            max_examples=15, deadline=None, derandomize=True, database=None,
            suppress_health_check=list(HealthCheck),
        )  # fmt: skip
        @given(case=operation.as_strategy())
        def holds(case: Any) -> None:
            answer = case.call()
            assert answer.status_code < 500, (case.as_curl_command(), answer.text)

        holds()


# ------------------------------------------------------------------------ who may ask


def test_health_models_and_voices(client: httpx.Client) -> None:
    health = client.get("/health").json()
    assert health["status"] == "ready"
    row = client.get("/v1/models").json()["data"][0]
    assert (row["id"], row["sample_rate"], row["languages"]) == ("fake", SAMPLE_RATE, ["en"])
    assert "default" in [row["name"] for row in client.get("/v1/audio/voices").json()["voices"]]


def test_a_key_is_asked_for_where_one_is_set() -> None:
    with run_server(api_key="a-long-secret") as running:
        with running.client() as client:
            for path in ("/v1/models", "/metrics", "/v1/openapi.json"):
                answer = client.get(path)
                assert answer.status_code == 401
                assert answer.json()["error"]["code"] == "invalid_api_key"
            assert client.get("/health").status_code == 200
            assert client.get("/").status_code == 200
            wrong = client.get("/v1/models", headers={"Authorization": "Bearer é".encode()})
            assert wrong.status_code == 401
        with running.client(Authorization="Bearer a-long-secret") as client:
            assert client.get("/v1/models").status_code == 200


def test_foreign_pages_and_foreign_names_are_turned_away(client: httpx.Client) -> None:
    foreign = client.get("/v1/models", headers={"Origin": "https://example.org"})
    assert foreign.status_code == 403
    rebound = client.get("/v1/models", headers={"Host": "example.org"})
    assert rebound.status_code == 403
    assert "VOXCLI_API_KEY" in rebound.json()["error"]["message"]
    own = client.get("/v1/models", headers={"Origin": str(client.base_url).rstrip("/")})
    assert own.status_code == 200


@pytest.mark.parametrize(
    ("method", "path", "headers", "body", "status"),
    [
        ("GET", "/v1/models", {}, b"", 200),
        ("GET", "/v1/models", {"Origin": "https://example.org"}, b"", 403),
        ("GET", "/v1/none", {}, b"", 404),
        ("PUT", "/v1/models", {}, b"{}", 405),
        ("POST", "/v1/audio/speech", {}, b"{", 400),
        ("POST", "/v1/audio/speech", {}, b" " * (TEXT_BYTES + 1), 413),
        ("POST", "/v1/audio/speech", JSON, b'{"model": "fake", "input": "A bug."}', 500),
    ],
)
def test_a_connection_that_is_to_stay_answers_again_after_any_answer(
    method: str, path: str, headers: dict[str, str], body: bytes, status: int
) -> None:
    with run_server() as running:
        running.worker.engine.plan = lambda _: 1 / 0  # type: ignore[method-assign]
        host, port = running.url.removeprefix("http://").split(":")
        connection = http.client.HTTPConnection(host, int(port), timeout=WAIT_S)
        for _ in range(2):
            connection.request(method, path, body or None, headers)
            answer = connection.getresponse()
            answer.read()
            assert (answer.status, answer.will_close) == (status, False)
            assert httpx.get(f"{running.url}/health", timeout=WAIT_S).is_success  # all was done
        connection.close()


def test_a_request_that_came_in_time_is_answered_by_a_server_that_was_late(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The connection was idle for nearly as long as it may be, and the server is busy until after
    that."""
    monkeypatch.setattr(connections, "HEAD_S", 2.0)
    with run_server() as running:
        host, port = running.url.removeprefix("http://").split(":")
        connection = http.client.HTTPConnection(host, int(port), timeout=WAIT_S)
        connection.request("GET", "/v1/models")
        connection.getresponse().read()
        loop, is_late, has_asked = running.process.loop, threading.Event(), threading.Event()
        assert loop is not None

        def be_late() -> None:
            is_late.set()
            has_asked.wait(WAIT_S)
            time.sleep(2.1)

        loop.call_soon_threadsafe(be_late)
        assert is_late.wait(WAIT_S)
        connection.request("GET", "/v1/models")
        has_asked.set()
        assert connection.getresponse().status == 200
        connection.close()


def test_two_names_of_one_parameter_are_told_apart_from_a_field_too_many(
    client: httpx.Client,
) -> None:
    for first, second in ((2.0, 3.0), (2.0, 2.0)):
        refused = ask(client, guidance_scale=first, cfg=second)
        error = refused.json()["error"]
        assert (refused.status_code, error["param"]) == (400, "guidance_scale")
        assert "two names, 'guidance_scale' and 'cfg'; give one" in error["message"]
    assert ask(client, guidance_scale=None, cfg=2.0).status_code == 200
    assert ask(client, guidance_scale=2.0, cfg=None).status_code == 200
    assert ask(client, guidance=2.0).headers["x-ignored-fields"] == "guidance"


def test_metrics_parse_and_count() -> None:
    with run_server() as running, running.client() as client:
        ask(client, response_format="pcm", stream=True)
        ask(client, speed=-1)
        families = {
            family.name: family
            for family in text_string_to_metric_families(client.get("/metrics").text)
        }
        outcomes = {
            sample.labels["outcome"]: sample.value
            for sample in families["voxcli_requests"].samples
            if sample.name == "voxcli_requests_total"
        }
        assert (outcomes["ok"], outcomes["refused"], outcomes["failed"]) == (1, 1, 0)
        for name in ("ttfa_seconds", "rtf", "queue", "streams", "underruns", "graph_captures"):
            assert f"voxcli_{name}" in families
        assert running.metric("voxcli_ttfa_seconds_count") == 1
        assert running.metric("voxcli_audio_seconds_total") > 1
