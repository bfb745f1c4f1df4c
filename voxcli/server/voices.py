"""`/v1/audio/voices`: saved voices listed, made from a recording, removed."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import asdict
from datetime import UTC, datetime
from functools import lru_cache
from pathlib import Path
from typing import Annotated, Any

from fastapi import APIRouter, File, Form, Request, UploadFile

from voxcli.engine.base import uses_of
from voxcli.errors import UsageError, VoiceFileError, VoiceNotFoundError
from voxcli.server.failures import ApiError, http_message
from voxcli.server.schema import ErrorBody, VoiceList, VoiceRow
from voxcli.server.service import Service
from voxcli.utterance import Mode
from voxcli.voices import MAX_TEXT_CHARS, Voice, VoiceStore
from voxcli.voices.file import SUFFIX, read_card

router = APIRouter()
DEFAULT = VoiceRow(name="default")
MAX_CONSENT = 1000
MAX_UPLOAD_S = 60.0  # of a recording; of one that is too long to be used whole the best part is

_REFUSALS: dict[int | str, dict[str, Any]] = {
    status: {"model": ErrorBody} for status in (400, 401, 404, 409, 413, 429, 503, 507)
}


@router.get("/v1/audio/voices")
async def list_voices(request: Request) -> VoiceList:
    """The model's own voices, and the saved ones."""
    service: Service = request.app.state.service
    saved = await service.files.run(lambda: _rows(service.store))
    presets = [VoiceRow(name=name) for name in service.facts.voices]
    return VoiceList(voices=[DEFAULT, *presets, *saved])


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
) -> VoiceRow:
    """Check a recording, encode it and keep it under a name."""
    service: Service = request.app.state.service
    service.worker.check_ready()
    if Mode.REFERENCE not in service.facts.modes:
        raise UsageError(f"model '{service.facts.model}' cannot imitate a voice", hint="see modes")
    name = service.store.check_free(name.strip(), overwrite=False)
    voice = await service.uploads.run(
        lambda: _hear(name, audio_sample.file.read(), ref_text, consent)
    )
    recording = voice.recording
    encoded = voice.encoded(await service.encode(recording, uses_of(recording)))
    await service.files.run(lambda: service.store.add(encoded))
    return await service.files.run(lambda: _row(service.store, name))


@router.delete("/v1/audio/voices/{name}", responses=_REFUSALS)
async def delete_voice(request: Request, name: str) -> VoiceRow:
    """Remove a saved voice; answers with what it was."""
    service: Service = request.app.state.service
    try:
        row = await service.files.run(lambda: _row(service.store, name))
        await service.files.run(lambda: service.store.remove(name))
    except VoiceNotFoundError as err:
        raise ApiError(404, http_message(err), code="voice_not_found", param="name") from err
    return row


def _hear(name: str, data: bytes, text: str, consent: str) -> Voice:
    """A recording that passed its checks, as a voice without encodings."""
    from voxcli.audio.read import decode_audio
    from voxcli.audio.reference import add_transcript, prepare_reference

    has_text = bool(text.strip())
    recording, report = prepare_reference(
        decode_audio(data, "the recording", max_s=MAX_UPLOAD_S), has_text=has_text
    )
    if has_text:
        recording, report = add_transcript(recording, report, text)
    return Voice(
        name=name,
        recording=recording,
        created=datetime.now(UTC).isoformat(timespec="seconds"),
        consent=consent.strip(),
        facts={**asdict(report), "transcript": recording.text},
    )


def _rows(store: VoiceStore) -> list[VoiceRow]:
    """Of all saved voices; one that was removed meanwhile is left out."""
    rows = []
    for name in store.names():
        with suppress(VoiceNotFoundError):
            rows.append(_row(store, name))
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
    name = path.name.removesuffix(SUFFIX)
    try:
        voice = read_card(path)
    except VoiceFileError as err:
        return VoiceRow(name=name, problem=http_message(err))
    return VoiceRow(
        name=name,
        created=voice.created,
        consent=voice.consent,
        duration_s=round(voice.duration_s, 2),
        has_transcript=bool(voice.text),
        models=list(voice.models),
        warnings=[str(warning) for warning in voice.facts.get("warnings", ())],
    )
