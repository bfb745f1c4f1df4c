"""`POST /v1/audio/speech`: OpenAI's speech call, whole or as a stream."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Coroutine, Iterator
from contextlib import aclosing
from typing import Any

import msgspec
from fastapi import APIRouter, Request
from fastapi.routing import APIRoute
from starlette.responses import Response

from voxcli.alignment import WordTimer
from voxcli.engine.base import OWN_VOICE
from voxcli.errors import VoxError
from voxcli.plan import Plan
from voxcli.server.dialect import in_header
from voxcli.server.encode import Coding, WholeFile, choose_coding
from voxcli.server.failures import ApiError, explain, refused
from voxcli.server.guard import TEXT_BYTES, understood
from voxcli.server.listener import Listener
from voxcli.server.reading import check_model, plan_of
from voxcli.server.response import LiveResponse, Pieces
from voxcli.server.schema import ErrorBody, SpeechRequest
from voxcli.server.service import Service
from voxcli.server.strand import Strand
from voxcli.text.directions import names_of
from voxcli.times import KINDS, as_json, segment_json
from voxcli.utterance import Mode

NO_PLACE = (
    '\'timestamps\' have no place in a stream of audio; add "stream_format": "sse", or leave out '
    "'stream' for one answer in JSON"
)
FILE_BLOCK = 1 << 16  # bytes of a finished file sent at once

_ANSWERS: dict[int | str, dict[str, Any]] = {
    200: {
        "description": "Audio, server-sent events, or with `timestamps` JSON.",
        "content": {"audio/*": {}},
    },
    **{
        status: {"model": ErrorBody, "description": text}
        for status, text in (
            (400, "Something in the request cannot be."),
            (401, "The key is missing or wrong."),
            (404, "Another model is served."),
            (413, "The body is too large."),
            (422, "No attempt turned the text into good speech."),
            (429, "Too many requests; see Retry-After."),
            (503, "Loading, stopping or failed."),
            (507, "The server has no room on its disk."),
        )
    },
}


def build_router(request_type: type[SpeechRequest]) -> APIRouter:
    """The route.

    Args:
        request_type: with a field for each parameter.
    """
    router = APIRouter(route_class=_Route)

    async def create_speech(body: SpeechRequest, request: Request) -> Response:
        """Speak a text."""
        return await _create_speech(body, request)

    create_speech.__annotations__["body"] = request_type  # what FastAPI reads the body as
    router.post("/v1/audio/speech", responses=_ANSWERS, response_class=Response)(create_speech)
    return router


class _Route(APIRoute):
    """A route whose body may have a recording in it."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        handle = super().get_route_handler()

        async def handled(request: Request) -> Response:
            return await handle(_Request(request.scope, request.receive))

        return handled


class _Recording(msgspec.Struct):
    """What may be large in a body; all else of it is passed over without being kept."""

    ref_audio: msgspec.Raw = msgspec.Raw(b"")


class _Request(Request):
    """A request whose body is large for its recording alone; then it is parsed beside others."""

    _is_checked = False

    async def body(self) -> bytes:
        body = await super().body()
        if len(body) > TEXT_BYTES and not self._is_checked:
            service: Service = self.app.state.service
            await service.beside(lambda: _check_large(body))
            self._is_checked = True
        return body

    async def json(self) -> Any:
        body = await self.body()
        if len(body) <= TEXT_BYTES:
            return await super().json()
        service: Service = self.app.state.service
        return await service.beside(lambda: _parsed(body))


def _check_large(body: bytes) -> None:
    """Raise ApiError where there is more of anything but a recording than a text may have."""
    try:
        recording = memoryview(msgspec.json.decode(body, type=_Recording).ref_audio)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        recording = memoryview(b"")
    size = len(body) - (len(recording) if bytes(recording[:1]) == b'"' else 0)
    if size > TEXT_BYTES:
        message = f"the body has {size:,} bytes beside 'ref_audio', {TEXT_BYTES:,} are allowed"
        raise ApiError(413, message, code="too_large")


def _parsed(body: bytes) -> Any:
    """As `json.loads`, which holds up all threads for long where a text is long."""
    try:
        return msgspec.json.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError) as err:
        raise json.JSONDecodeError(str(err), "", 0) from err


async def _create_speech(body: SpeechRequest, request: Request) -> Response:
    service: Service = request.app.state.service
    facts = service.engine.facts
    service.worker.check_open()
    check_model(body.model, service)
    coding = choose_coding(body.response_format, facts.sample_rate, body.sample_rate)
    if body.is_streamed:
        coding.check_stream()
    if body.timestamps and body.is_streamed and body.stream_format != "sse":
        raise refused(NO_PLACE, param="timestamps")
    plan, ignored = await plan_of(body, service)
    understood(request.scope)
    headers = {
        "X-Model": in_header(facts.model),
        "X-Sample-Rate": str(coding.rate),
        "X-Seed": str(plan.seed),
        "X-Language": plan.text.language,
        "X-Estimated-Seconds": f"{plan.estimated_audio_s:.2f}",
        **service.dialect.headers(ignored),
    }
    if plan.text.directions:
        headers["X-Not-Followed"] = names_of(plan.text.directions)
    if (voice := plan.utterance.voice) or plan.utterance.mode is Mode.ZERO_SHOT:
        headers["X-Voice"] = in_header(voice or OWN_VOICE)
    is_streamed = body.is_streamed
    media_type = coding.media_type
    listener = Listener(service.worker)
    if not is_streamed and body.timestamps:
        media_type = "application/json"
        pieces = _timed(listener, plan, coding, facts.sample_rate)
    elif not is_streamed:
        pieces = _whole(listener, plan, coding, facts.sample_rate)
    elif body.stream_format == "sse":
        media_type = "text/event-stream"
        pieces = _events(listener, plan, coding, facts.sample_rate, has_times=body.timestamps)
    else:
        pieces = _audio(listener, plan, coding, facts.sample_rate)
    if coding.name == "pcm" and media_type == coding.media_type:
        media_type = f"audio/pcm;rate={coding.rate};channels=1"

    def late_headers() -> dict[str, str]:  # a whole file is made before its first byte leaves
        return {} if is_streamed else {"X-Finish-Reason": listener.speech.finish_reason}

    return LiveResponse(
        pieces, media_type, headers=headers, late_headers=late_headers,
        on_end=service.metrics.ender(listener),
    )  # fmt: skip


async def _audio(listener: Listener, plan: Plan, coding: Coding, source_rate: int) -> Pieces:
    """Encoded audio, new samples only."""
    encoder = coding.stream(source_rate)
    async with Strand(encoder.close, is_light=coding.is_light) as strand:
        async with listener.speaking(plan, is_live=True):
            async for chunk in listener:
                yield await strand.call(encoder.encode, chunk.samples)
        yield await strand.call(encoder.finish)


async def _events(
    listener: Listener, plan: Plan, coding: Coding, source_rate: int, *, has_times: bool
) -> Pieces:
    """The same as OpenAI's server-sent events.

    Args:
        has_times: with an event for each segment, after the audio in which it ends.
    """
    has_begun = False
    segments = _Segments(plan) if has_times else None
    try:
        async with aclosing(_audio(listener, plan, coding, source_rate)) as pieces:
            async for piece in pieces:
                if piece:
                    audio = base64.b64encode(piece).decode("ascii")
                    has_begun = True
                    yield _event({"type": "speech.audio.delta", "audio": audio})
                for segment in segments.ended(listener) if segments else ():
                    yield _event({"type": "speech.audio.segment", **segment})
    except VoxError as err:
        if has_begun:
            yield _event({"type": "error", **explain(err)[1]})
        raise
    spoken = sum(report.num_frames for report in listener.speech.reports)
    usage = {
        "input_tokens": len(plan.text.text),
        "output_tokens": spoken,
        "total_tokens": len(plan.text.text) + spoken,
    }
    reason = listener.speech.finish_reason
    for segment in segments.ended(listener) if segments else ():
        yield _event({"type": "speech.audio.segment", **segment})
    kinds = KINDS if segments else {}
    done = {"type": "speech.audio.done", "usage": usage, "finish_reason": reason, **kinds}
    yield _event(done)


class _Segments:
    """When the segments of a speech sound, each told once, as soon as it has ended."""

    def __init__(self, plan: Plan) -> None:
        self._language = plan.text.language
        self._num_told = 0

    def ended(self, listener: Listener) -> Iterator[dict[str, Any]]:
        for report in listener.speech.reports[self._num_told :]:
            if not report.end_s:  # it has not left
                return
            yield segment_json(self._num_told, report, self._language)
            self._num_told += 1


def _event(data: dict[str, Any]) -> bytes:
    return f"data: {json.dumps(data)}\n\n".encode()


async def _whole(
    listener: Listener,
    plan: Plan,
    coding: Coding,
    source_rate: int,
    timer: WordTimer | None = None,
) -> Pieces:
    """A complete file, read back before the first byte leaves.

    Args:
        timer: gets all samples.
    """
    file = WholeFile(coding, source_rate)
    async with Strand(file.close) as strand:
        async with listener.speaking(plan, is_live=False):
            async for chunk in listener:
                await strand.call(file.write, chunk.samples)
                if timer is not None:
                    await strand.call(timer.push, chunk.samples)
                    await strand.call(timer.catch_up, listener.speech.reports)
        await strand.call(file.commit)
        if timer is not None:
            await strand.call(timer.finish, listener.speech.reports)
        while block := await strand.call(file.read, FILE_BLOCK):
            yield block


async def _timed(listener: Listener, plan: Plan, coding: Coding, source_rate: int) -> Pieces:
    """JSON with a complete file in base64, and when each segment and word of it sounds."""
    timer = WordTimer(source_rate, plan.text.language)
    head, rest = b'{"audio": "', b""
    async with aclosing(_whole(listener, plan, coding, source_rate, timer)) as blocks:
        async for block in blocks:
            data = rest + block
            num_coded = len(data) - len(data) % 3  # so that pieces can follow each other
            yield head + base64.b64encode(data[:num_coded])
            head, rest = b"", data[num_coded:]
    speech = listener.speech
    about = {
        "audio_format": coding.name,
        "sample_rate": coding.rate,
        "duration": round(listener.audio_s, 6),
        "finish_reason": speech.finish_reason,
        **as_json(timer.segments, plan.text.language),
    }
    yield base64.b64encode(rest) + b'", ' + json.dumps(about).encode()[1:]
