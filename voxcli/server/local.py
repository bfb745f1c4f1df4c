"""The interface that other voxcli commands use: match, plan, speak. The protocol: `hot/wire.py`."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import asdict, replace
from typing import Any

from fastapi import APIRouter, Request
from starlette.responses import JSONResponse, Response

from voxcli.audio.pcm import quantise
from voxcli.audio.resample import Samples
from voxcli.errors import UsageError, VoxError
from voxcli.engine.remote import wire
from voxcli.server.listener import Listener
from voxcli.server.response import LiveResponse, Pieces, error_response
from voxcli.server.service import Service, mismatch

router = APIRouter(include_in_schema=False)


@router.post(wire.PATH_MATCH)
async def match(request: Request) -> Response:
    """Whether this engine speaks what a command would load itself."""
    service: Service = request.app.state.service
    try:
        wanted, _ = wire.unpack(await request.body())
        try:
            why = mismatch(service, **wanted)
        except (TypeError, ValueError, AttributeError) as err:
            raise UsageError(f"the question is not understood: {err}", hint="upgrade") from err
        synthesizer = service.synthesizer
    except VoxError as err:
        return _as_error(err)
    return JSONResponse(
        {
            "mismatch": why,
            "setup": asdict(synthesizer.setup),
            "sample_rate": synthesizer.sample_rate,
            "reference_sample_rate": synthesizer.reference_sample_rate,
            "max_streams": service.worker.limits.max_streams,
            "name": f"pid {os.getpid()}, {service.url}",
        }
    )


@router.post(wire.PATH_PLAN)
async def plan(request: Request) -> Response:
    """What would be spoken."""
    service: Service = request.app.state.service
    try:
        utterance = wire.utterance_of(*wire.unpack(await request.body()))
        made = await service.plan(utterance)
    except VoxError as err:
        return _as_error(err)
    return JSONResponse(wire.plan_out(made))


@router.post(wire.PATH_SPEECH)
async def speech(request: Request) -> Response:
    """Speak, as frames of float samples."""
    service: Service = request.app.state.service
    try:
        service.worker.check_open()
        header, payload = wire.unpack(await request.body())
        made = await service.plan(wire.utterance_of(header, payload))
        made = replace(made, utterance=await service.encoder.encode_all(made.utterance))
        listener = Listener.submit(service.worker, made, is_live=bool(header.get("is_live")))
        as_bytes = _as_integers if header.get("is_pcm") else _as_floats
    except VoxError as err:
        return _as_error(err)
    return LiveResponse(
        _frames(listener, as_bytes),
        wire.MEDIA_TYPE,
        on_end=service.ender(listener),
        as_error=_as_error,
    )


def _as_floats(samples: Samples) -> bytes:
    return samples.astype("<f4", copy=False).tobytes()


def _as_integers(samples: Samples) -> bytes:
    return quantise(samples, "16")


async def _frames(listener: Listener, as_bytes: Callable[[Samples], bytes]) -> Pieces:
    has_begun = False
    try:
        async with listener:
            async for chunk in listener:
                header: dict[str, Any] = {
                    "sample_rate": chunk.sample_rate,
                    "segment": chunk.segment,
                    "is_last": chunk.is_last,
                }
                if chunk.is_last:
                    header["reports"] = [asdict(report) for report in listener.speech.reports]
                    header["ttfa_s"] = listener.speech.ttfa_s
                has_begun = True
                yield wire.pack(header, as_bytes(chunk.samples))
    except VoxError as err:
        if has_begun:
            yield wire.pack({"error": wire.error_out(err)})
        raise


def _as_error(error: VoxError) -> Response:
    return error_response(error, voxcli=wire.error_out(error))
