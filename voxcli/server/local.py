"""The interface that other voxcli commands use: match, plan, speak, encode.

What is said is in `voxcli/engine/remote/wire.py`.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import aclosing
from dataclasses import replace
from typing import TypeVar

from fastapi import APIRouter, Request
from starlette.responses import Response

from voxcli.audio.pcm import quantise
from voxcli.audio.resample import Samples
from voxcli.engine.remote import wire
from voxcli.errors import UsageError, VoxError
from voxcli.server.guard import is_near
from voxcli.server.listener import Listener
from voxcli.server.response import LiveResponse, Pieces, error_response, with_beats
from voxcli.server.service import Service

router = APIRouter(include_in_schema=False)

BEAT_S = 5.0  # between two signs of life; a client gives up after `transport.SILENCE_S`

T = TypeVar("T")
Messages = AsyncGenerator[bytes, None]
Handler = Callable[[Service, Request], Awaitable[Response]]


def _at(path: str) -> Callable[[Handler], Handler]:
    """Answer there, who speaks the same protocol; errors as voxcli's own."""

    def add(handle: Handler) -> Handler:
        async def answer(request: Request) -> Response:
            try:
                wire.check_protocol(request.headers)
                return await handle(request.app.state.service, request)
            except VoxError as err:
                return _as_error(err)

        router.post(path)(answer)
        return handle

    return add


@_at(wire.PATH_MATCH)
async def match(service: Service, request: Request) -> Response:
    """Whether this engine speaks what a command would load itself."""
    engine = service.engine
    wanted = (await _order(service, request, wire.Question, "question")).wanted
    if wanted.is_near and not is_near(request.scope):
        raise UsageError("a question about files of this machine came from another machine")

    async def answer() -> Messages:
        why = await service.beside(lambda: engine.mismatch(wanted))
        if why is not None:
            yield wire.pack_next(wire.Match(why))
        else:
            yield wire.pack_next(wire.Match(None, service.remote_facts, engine.setup))

    return _response(answer())


@_at(wire.PATH_PLAN)
async def plan(service: Service, request: Request) -> Response:
    """What would be spoken."""
    order = await _order(service, request, wire.PlanOrder)

    async def answer() -> Messages:
        made = await service.plan(order.utterance)
        yield wire.pack_next(
            wire.Planned(
                made.text, made.seed, dict(made.parameters), made.prompt_text, made.utterance.mode
            )
        )

    return _response(answer())


@_at(wire.PATH_SPEECH)
async def speech(service: Service, request: Request) -> Response:
    """Speak, as messages with samples."""
    service.worker.check_open()
    order = await _order(service, request, wire.SpeechOrder)
    as_bytes = _as_integers if order.takes_integers else _as_floats
    listener = Listener(service.worker)

    async def answer() -> Messages:
        made = await service.plan(order.utterance)
        made = replace(made, utterance=await service.encoder.encode_all(made.utterance))
        async with listener.speaking(made, is_live=order.is_live):
            yield wire.BEAT  # it is taken: should this server end now, it may be what ended it
            async for chunk in listener:
                account = listener.speech if chunk.is_last else None
                yield wire.pack_next(
                    wire.Chunk(
                        chunk.segment,
                        chunk.is_last,
                        as_bytes(chunk.samples),
                        account.reports if account else (),
                        account.ttfa_s if account else None,
                    )
                )

    return _response(answer(), on_end=service.metrics.ender(listener))


@_at(wire.PATH_ENCODE)
async def encode(service: Service, request: Request) -> Response:
    """What the model hears in a recording."""
    order = await _order(service, request, wire.EncodeOrder, "recording")

    async def answer() -> Messages:
        yield wire.pack_next(await service.encode(order.recording, order.uses))

    return _response(answer())


@_at(wire.PATH_CHECKSUM)
async def checksum(service: Service, request: Request) -> Response:
    """Of what encodes recordings, or of the whole model."""
    order = await _order(service, request, wire.ChecksumOrder, "question")

    async def answer() -> Messages:
        yield wire.pack_next(await service.checksum(of_encoder=order.of_encoder))

    return _response(answer())


async def _order(service: Service, request: Request, kind: type[T], what: str = "utterance") -> T:
    """What the client asks, read beside the event loop: it may be megabytes of a recording."""
    body = b"".join([piece async for piece in request.stream()])  # `body()` would keep it
    return await service.beside(lambda: wire.read_order(kind, body, what))


def _as_floats(samples: Samples) -> bytes:
    return samples.astype("<f4", copy=False).tobytes()


def _as_integers(samples: Samples) -> bytes:
    return quantise(samples, "16")


def _response(
    messages: Messages, on_end: Callable[[str], None] = lambda outcome: None
) -> LiveResponse:
    return LiveResponse(
        _told(messages), wire.STREAM_TYPE, headers=dict(wire.HEADERS), on_end=on_end,
        as_error=_as_error,
    )  # fmt: skip


async def _told(messages: Messages) -> Pieces:
    """The messages, with signs of life between them; an error after the first bytes is one too."""
    has_begun = False
    try:
        async with aclosing(with_beats(messages, wire.BEAT, BEAT_S)) as pieces:
            async for piece in pieces:
                has_begun = True
                yield piece
    except VoxError as err:
        if has_begun:
            yield wire.pack_failure(err)
        raise


def _as_error(error: VoxError) -> Response:
    response = error_response(error, voxcli=wire.error_out(error))
    response.headers.update(wire.HEADERS)
    return response
