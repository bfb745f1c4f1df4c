"""Asks a server once what it is and what it can do; see `profile.py` for what is made of it."""

from __future__ import annotations

import asyncio
import json
import logging
from typing import Any

from voxcli.engine.openai import profile
from voxcli.engine.openai.answer import reader_of
from voxcli.engine.openai.failures import in_one_line
from voxcli.engine.openai.profile import Kind, ModelRow, Profile
from voxcli.engine.openai.transport import Limits, Transport, pieces_of
from voxcli.errors import EngineError, UnavailableError, UsageError, VoxError

logger = logging.getLogger(__name__)

ANSWER_S = 10.0  # a server that does not say within this what it is counts as absent
WORD = "Hello."  # is spoken where a rate is not known
NUM_WORDS, PAUSE_S = 4, 0.5  # that it is asked for at most, and until the second time


async def probe(transport: Transport, wanted: str | None) -> Profile:
    """What the server is.

    Args:
        wanted: a model that it has to serve; None means the only one.

    Raises:
        UsageError: it does not serve that, has no speech, is too old or refuses the key.
        EngineError: nothing answers.
    """
    rows = profile.rows_of(await transport.get("/v1/models", ANSWER_S))
    if not rows and wanted is not None:  # a server that lists none may know the name all the same
        rows = [ModelRow(wanted, wanted, "")]
    row = profile.choose(rows, wanted, transport.name)
    kind = profile.kind_of(row.owner)
    paths = {
        Kind.VLLM_OMNI: ("/version", "/v1/audio/voices"),
        Kind.VOXCLI: ("/health", "/v1/audio/voices", "/v1/openapi.json"),
        Kind.OTHER: ("/health", "/v1/audio/voices", "/openapi.json"),
    }[kind]
    said, listed, *described = await _all(transport, *paths)
    description = described[0] if described else None
    version = said.get("version") if isinstance(said, dict) else ""
    version = in_one_line(version)[:40] if isinstance(version, str) else ""
    release = profile.release_of(version)
    if kind is Kind.VLLM_OMNI and release and release < profile.OLDEST:
        oldest = ".".join(map(str, profile.OLDEST))
        raise UsageError(f"{transport.name} is {kind} {version}", hint=f"it has to be {oldest}")
    if not profile.has_speech(description):
        raise UsageError(f"{transport.name} has no speech interface", hint="check the URL")
    voices = profile.voices_of(listed)
    return Profile(
        transport.url,
        kind,
        version,
        row,
        profile.fields_of(kind, release, description),
        voices,
        lists_voices=listed is not None,
    )


async def _all(transport: Transport, *paths: str) -> list[Any]:
    """What the server says at each path; None where it says nothing."""
    return await asyncio.gather(*(_unless_refused(transport, path) for path in paths))


async def _unless_refused(transport: Transport, path: str) -> Any:
    try:
        return await transport.get(path, ANSWER_S)
    except VoxError:
        return None


async def learn_rate(transport: Transport, known: Profile, limits: Limits) -> int:
    """The rate of a model that nobody knows by its name: one word is spoken for it, and given up as
    soon as the header is there. Where the server fails, it is asked again as for any row.

    Raises:
        VoxError: it is not spoken.
    """
    for num in range(NUM_WORDS - 1):
        try:
            return await _spoken_rate(transport, known, limits)
        except UnavailableError as err:
            logger.info("%s", err)
            await asyncio.sleep(PAUSE_S * 2**num)
    return await _spoken_rate(transport, known, limits)


async def _spoken_rate(transport: Transport, known: Profile, limits: Limits) -> int:
    body = {"model": known.model.name, "input": WORD, "response_format": "wav"}
    body["voice"] = known.voices[0] if known.voices else profile.ANY_VOICE
    with transport.explained():
        async with asyncio.timeout(limits.first_s):
            async with transport.post(profile.SPEECH, json.dumps(body).encode()) as response:
                if response.status_code != 200:
                    raise await transport.refusal(response)
                reader = reader_of(response.headers, transport.name)
                try:
                    async for data in pieces_of(response):
                        reader.feed(data)
                        if reader.rate is not None:
                            return reader.rate
                    reader.finish()
                except ValueError as err:
                    raise UnavailableError(f"{transport.name} cannot be read: {err}") from err
    if reader.rate is None:
        raise EngineError(f"{transport.name} said nothing, so its sample rate is not known")
    return reader.rate
