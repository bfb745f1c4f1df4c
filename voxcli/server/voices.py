"""`/v1/audio/voices`: saved voices listed, made from a recording, removed."""

from __future__ import annotations

from contextlib import suppress
from datetime import datetime
from functools import lru_cache
from pathlib import Path
from typing import Annotated, Any

from fastapi import APIRouter, File, Form, Request, UploadFile

from voxcli.engine.base import OWN_VOICE, uses_of
from voxcli.errors import UsageError, VoiceFileError, VoiceNotFoundError
from voxcli.server.failures import ApiError, http_message
from voxcli.server.recordings import hear
from voxcli.server.schema import ErrorBody, VoiceDeleted, VoiceList, VoiceName, VoiceRow
from voxcli.server.service import Service
from voxcli.utterance import Mode
from voxcli.voices import MAX_TEXT_CHARS, VoiceStore
from voxcli.voices.file import SUFFIX, read_card
from voxcli.voices.store import bundled_folder

router = APIRouter()
MAX_CONSENT = 1000

_REFUSALS: dict[int | str, dict[str, Any]] = {
    status: {"model": ErrorBody} for status in (400, 401, 404, 409, 413, 429, 503, 507)
}


@router.get("/v1/voices", include_in_schema=False)
@router.get("/v1/audio/voices")
async def list_voices(request: Request) -> VoiceList:
    """The model's own voices, the saved ones, and those of voxcli that the model speaks."""
    return VoiceList(voices=await voice_rows(request.app.state.service))


async def voice_rows(service: Service) -> list[VoiceRow]:
    """Of all voices that can be asked for by name, and of those whose files are damaged."""
    saved = await service.files.run(lambda: _rows(service.store, service.facts.model))
    presets = [VoiceRow(name=name) for name in (OWN_VOICE, *service.facts.voices)]
    taken = {row.name.casefold() for row in (*presets, *saved)}
    for row in (*presets, *saved):
        names = service.dialect.names_of(row.name)
        row.aliases = [name for name in names if name.casefold() not in taken]
    return [*presets, *saved]


@router.post("/v1/audio/voices", responses=_REFUSALS)
async def create_voice(
    request: Request,
    name: Annotated[str, Form(max_length=200)],
    audio_sample: Annotated[UploadFile, File(description="Recording: 3 to 30 s of speech.")],
    consent: Annotated[
        str, Form(min_length=1, max_length=MAX_CONSENT, description="What its owner agreed to.")
    ],
    ref_text: Annotated[
        str, Form(max_length=MAX_TEXT_CHARS, description="What is said in it.")
    ] = "",
    overwrite: Annotated[bool, Form(description="Replace a voice of that name.")] = False,
) -> VoiceRow:
    """Check a recording, encode it and keep it under a name."""
    service: Service = request.app.state.service
    service.worker.check_ready()
    if Mode.REFERENCE not in service.facts.modes:
        raise UsageError(f"model '{service.facts.model}' cannot imitate a voice", hint="see modes")
    name = service.store.check_free(name.strip(), overwrite=overwrite)
    voice = await service.uploads.run(
        lambda: hear(audio_sample.file.read(), ref_text, name=name, consent=consent)
    )
    recording = voice.recording
    encoded = voice.encoded(await service.encode(recording, uses_of(recording)))
    await service.files.run(lambda: service.store.add(encoded, overwrite=overwrite))
    return await service.files.run(lambda: _row(service.store, name))


@router.patch("/v1/audio/voices/{name}", responses=_REFUSALS)
async def rename_voice(request: Request, name: str, body: VoiceName) -> VoiceRow:
    """Call a saved voice otherwise."""
    service: Service = request.app.state.service
    try:
        new_name = await service.files.run(lambda: service.store.rename(name, body.name.strip()))
    except VoiceNotFoundError as err:
        raise ApiError(404, http_message(err), code="voice_not_found", param="name") from err
    return await service.files.run(lambda: _row(service.store, new_name))


@router.delete("/v1/audio/voices/{name}", responses=_REFUSALS)
async def delete_voice(request: Request, name: str) -> VoiceDeleted:
    """Remove a saved voice; answers with what it was."""
    service: Service = request.app.state.service
    try:
        row = await service.files.run(lambda: _row(service.store, name))
        await service.files.run(lambda: service.store.remove(name))
    except VoiceNotFoundError as err:
        raise ApiError(404, http_message(err), code="voice_not_found", param="name") from err
    return VoiceDeleted(**row.model_dump(exclude={"id", "object"}))


def _rows(store: VoiceStore, model: str) -> list[VoiceRow]:
    """Of all saved voices, and of the bundled ones that are encoded for the model; one that was
    removed meanwhile is left out."""
    rows, bundled = [], store.bundled()
    for name in (*store.names(), *bundled):
        with suppress(VoiceNotFoundError):
            row = _row(store, name).model_copy()  # what is kept is not changed
            if name not in bundled or model in row.models:
                rows.append(row)
    return rows


def _row(store: VoiceStore, name: str) -> VoiceRow:
    """The header of a file is read; what it said is kept until the file changes."""
    path = store.path(name)
    try:
        found = path.stat()
    except OSError:  # a dead link: reading it says so
        return _row_of(path, (0, 0, 0))
    return _row_of(path, (found.st_mtime_ns, found.st_size, found.st_ino))


@lru_cache(maxsize=1024)
def _row_of(path: Path, state: tuple[int, int, int]) -> VoiceRow:
    name, is_own = path.name.removesuffix(SUFFIX), path.parent != bundled_folder()
    try:
        voice = read_card(path)
    except VoiceFileError as err:
        return VoiceRow(name=name, is_own=is_own, problem=http_message(err))
    return VoiceRow(
        name=name,
        is_own=is_own,
        created_at=_seconds(voice.created),
        created=voice.created,
        consent=voice.consent,
        duration_s=round(voice.duration_s, 2),
        has_transcript=bool(voice.text),
        models=list(voice.models),
        warnings=[str(warning) for warning in voice.facts.get("warnings", ())],
    )


def _seconds(moment: str) -> int:
    """ISO 8601 to seconds since 1970; 0 where it is no time."""
    try:
        return int(datetime.fromisoformat(moment).timestamp())
    except (ValueError, OverflowError, OSError):
        return 0
