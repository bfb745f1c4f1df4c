"""The interface that other voxcli commands use: match, plan, speak, encode.

What is said is in `voxcli/engine/remote/wire.py`.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import replace

from fastapi import APIRouter, Request
from starlette.responses import Response

from voxcli.audio.pcm import quantise
from voxcli.audio.resample import Samples
from voxcli.engine.remote import wire
from voxcli.errors import VoxError
from voxcli.server.listener import Listener
from voxcli.server.response import LiveResponse, Pieces, error_response
from voxcli.server.service import Service

router = APIRouter(include_in_schema=False)

Handler = Callable[[Service, bytes], Awaitable[Response]]


def _at(path: str) -> Callable[[Handler], Handler]:
    """Answer there, who speaks the same protocol; errors as voxcli's own."""

    def add(handle: Handler) -> Handler:
        async def answer(request: Request) -> Response:
            try:
                wire.check_protocol(request.headers)
                return await handle(request.app.state.service, await request.body())
            except VoxError as err:
                return _as_error(err)

        router.post(path)(answer)
        return handle

    return add


@_at(wire.PATH_MATCH)
async def match(service: Service, body: bytes) -> Response:
    """Whether this engine speaks what a command would load itself."""
    engine = service.engine
    wanted = wire.read_order(wire.Question, body, "question").wanted
    why = await service.beside(lambda: engine.mismatch(wanted))
    if why is not None:
        return _message(wire.Match(why))
    return _message(wire.Match(None, service.remote_facts, engine.setup))


@_at(wire.PATH_PLAN)
async def plan(service: Service, body: bytes) -> Response:
    """What would be spoken."""
    order = await service.beside(lambda: wire.read_order(wire.PlanOrder, body))
    made = await service.plan(order.utterance)
    return _message(
        wire.Planned(
            made.text, made.seed, dict(made.parameters), made.prompt_text, made.utterance.mode
        )
    )


@_at(wire.PATH_SPEECH)
async def speech(service: Service, body: bytes) -> Response:
    """Speak, as messages with samples."""
    service.worker.check_open()
    order = await service.beside(lambda: wire.read_order(wire.SpeechOrder, body))
    made = await service.plan(order.utterance)
    made = replace(made, utterance=await service.encoder.encode_all(made.utterance))
    listener = Listener(service.worker, made, is_live=order.is_live)
    response = LiveResponse(
        _chunks(listener, _as_integers if order.takes_integers else _as_floats),
        wire.STREAM_TYPE,
        headers=dict(wire.HEADERS),
        on_end=service.ender(listener),
        as_error=_as_error,
    )
    listener.submit()
    return response


@_at(wire.PATH_ENCODE)
async def encode(service: Service, body: bytes) -> Response:
    """What the model hears in a recording."""
    order = await service.beside(lambda: wire.read_order(wire.EncodeOrder, body, "recording"))
    return _message(await service.encode(order.recording, order.uses))


@_at(wire.PATH_CHECKSUM)
async def checksum(service: Service, body: bytes) -> Response:
    """Of what encodes recordings, or of the whole model."""
    order = wire.read_order(wire.ChecksumOrder, body, "question")
    return _message(await service.checksum(of_encoder=order.of_encoder))


def _as_floats(samples: Samples) -> bytes:
    return samples.astype("<f4", copy=False).tobytes()


def _as_integers(samples: Samples) -> bytes:
    return quantise(samples, "16")


async def _chunks(listener: Listener, as_bytes: Callable[[Samples], bytes]) -> Pieces:
    has_begun = False
    try:
        async with listener:
            async for chunk in listener:
                account = listener.speech if chunk.is_last else None
                message = wire.Chunk(
                    chunk.segment,
                    chunk.is_last,
                    as_bytes(chunk.samples),
                    account.reports if account else (),
                    account.ttfa_s if account else None,
                )
                has_begun = True
                yield wire.pack_next(message)
    except VoxError as err:
        if has_begun:
            yield wire.pack_next(wire.Failure(wire.error_out(err)))
        raise


def _message(message: object) -> Response:
    return Response(wire.pack(message), media_type=wire.MEDIA_TYPE, headers=dict(wire.HEADERS))


def _as_error(error: VoxError) -> Response:
    response = error_response(error, voxcli=wire.error_out(error))
    response.headers.update(wire.HEADERS)
    return response
