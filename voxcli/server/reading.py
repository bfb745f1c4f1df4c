"""A speech request to a plan: in whose voice, and what of it means nothing here."""

from __future__ import annotations

from dataclasses import replace

from voxcli.engine.base import OWN_VOICE, uses_of
from voxcli.errors import UsageError, VoiceFileError, VoiceNotFoundError, VoxError
from voxcli.plan import Plan
from voxcli.server.failures import ApiError, http_message, refused
from voxcli.server.recordings import SCHEME, data_of, hear, key_of
from voxcli.server.schema import SpeechRequest
from voxcli.server.service import Service
from voxcli.utterance import Mode, Utterance
from voxcli.voices import Voice

NO_PLACE = (
    "is a path or an address, and this server opens neither for its clients; send the recording "
    "itself as data:audio/wav;base64,… or name a stored voice"
)


def check_model(name: str | None, service: Service) -> None:
    """Raise ApiError unless the name, where one is given, means the served model."""
    served, others = service.facts.model, service.dialect.models
    if name in (None, served, *others):
        return
    also = f", also as {', '.join(others)}" if others else ""
    raise ApiError(
        404, f"the model '{name}' is not served here, '{served}' is{also}",
        code="model_not_found", param="model",
    )  # fmt: skip


async def plan_of(body: SpeechRequest, service: Service) -> tuple[Plan, list[str]]:
    """What is to be spoken, and the fields of the request that were ignored.

    Raises:
        ApiError, VoxError: it cannot be spoken as it is asked.
    """
    ignored = list(body.model_extra or ())
    utterance = body.utterance(await service.lexicon_with(body.lexicon))
    if utterance.style and Mode.STYLE not in service.facts.modes and not service.dialect.is_strict:
        utterance = replace(utterance, style="")
        ignored.append("instructions")
    text = (body.ref_text or "").strip()
    if body.ref_audio is None:
        if text:
            raise _refused("ref_text", "goes with 'ref_audio'; a stored voice has its transcript")
        return await service.plan(utterance, takes_aliases=True), ignored
    if service.dialect.voice(body.voice_name) is None and body.voice_name != OWN_VOICE:
        raise _refused("ref_audio", f"and the voice '{body.voice_name}' cannot be used together")
    if body.ref_audio[: len(SCHEME)].lower() == SCHEME:
        return await service.plan(await _in_voice_of(utterance, body, text, service)), ignored
    if text:
        raise _refused("ref_text", "is kept with a stored voice; leave it out")
    if len(body.ref_audio) > 200 or any(each in body.ref_audio for each in "/\\:"):
        raise _refused("ref_audio", NO_PLACE)
    try:
        return await service.plan(replace(utterance, voice=body.ref_audio)), ignored
    except (VoiceNotFoundError, VoiceFileError) as err:
        raise _about_reference(err) from err


async def _in_voice_of(
    utterance: Utterance, body: SpeechRequest, text: str, service: Service
) -> Utterance:
    """The utterance in the voice of the recording that came with it."""
    uri = body.ref_audio or ""
    key = await service.beside(lambda: key_of(uri, text))
    voice = service.heard.get(key)
    if voice is None:
        try:
            service.engine.require(Mode.REFERENCE)
            voice = await service.uploads.run(lambda: hear(data_of(uri), text))
        except UsageError as err:
            raise _about_reference(err) from err
        if service.facts.can_encode:
            recording = voice.recording
            voice = voice.encoded(await service.encode(recording, uses_of(recording)))
        service.heard.keep(key, voice)
    return await _spoken_by(voice, utterance, service)


async def _spoken_by(voice: Voice, utterance: Utterance, service: Service) -> Utterance:
    nameless = replace(utterance, voice=None)
    if not service.facts.can_encode:
        return voice.recorded(nameless)
    checksum = await service.checksum(of_encoder=True)
    return voice.apply(nameless, service.facts.model, checksum)


def _refused(param: str, why: str) -> ApiError:
    return refused(f"'{param}' {why}", param=param)


def _about_reference(error: VoxError) -> ApiError:
    return ApiError(
        400, f"'ref_audio': {http_message(error)}", code="invalid_value", param="ref_audio"
    )
