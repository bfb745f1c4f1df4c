"""The bodies of the HTTP interface, as they stand in the OpenAPI document."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, field_validator

from voxcli.config import MAX_SEED, MAX_SPEED, MIN_SPEED, SamplingParams
from voxcli.utterance import Utterance

MAX_CHARACTERS = 100_000  # two hours of speech
MAX_STYLE = 500


class VoiceId(BaseModel):
    """OpenAI's other way to name a voice."""

    model_config = ConfigDict(extra="forbid", strict=True)
    id: Annotated[str, Field(min_length=1, max_length=200)]


class SpeechRequest(BaseModel):
    """`POST /v1/audio/speech`: OpenAI's fields, and after `stream_format` those of voxcli.

    JSON has types, so `true` is no number and "yes" is no `true` here. It has one type of number:
    5.0 is the integer 5.
    """

    model_config = ConfigDict(extra="forbid", strict=True, allow_inf_nan=False)

    model: Annotated[str, Field(description="Name of the model that is served.")]
    input: Annotated[
        str, Field(min_length=1, max_length=MAX_CHARACTERS, description="The text to speak.")
    ]
    voice: Annotated[
        Annotated[str, Field(min_length=1, max_length=200)] | VoiceId,
        Field(description="'default', or a stored voice; see `GET /v1/audio/voices`."),
    ] = "default"
    response_format: Literal["mp3", "opus", "aac", "flac", "wav", "pcm"] = "mp3"
    speed: Annotated[float, Field(ge=MIN_SPEED, le=MAX_SPEED)] = 1.0
    instructions: Annotated[
        str | None,
        Field(max_length=MAX_STYLE, description="How it should sound, where the model can."),
    ] = None
    stream: Annotated[
        bool,
        Field(description="Send audio while it is made; else the whole, checked and tried again."),
    ] = False
    stream_format: Annotated[
        Literal["audio", "sse"] | None, Field(description="Given at all, it turns `stream` on.")
    ] = None

    sample_rate: Annotated[
        int | None,
        Field(ge=8_000, le=192_000, description="Hz; the model's own, 24000 for pcm."),
    ] = None
    seed: Annotated[int | None, Field(ge=0, le=MAX_SEED)] = None
    language: Annotated[
        str | None,
        Field(min_length=1, max_length=35, description="ISO 639-1; found from the text."),
    ] = None
    steps: Annotated[int | None, Field(ge=2, le=100)] = None
    cfg: Annotated[float | None, Field(ge=0, le=10)] = None
    max_seconds: Annotated[float | None, Field(gt=0, le=86_400)] = None
    retries: Annotated[int, Field(ge=0, le=20)] = SamplingParams().retries
    raw_text: Annotated[bool, Field(description="Do not write out numbers and abbreviations.")] = (
        False
    )

    @field_validator("sample_rate", "seed", "steps", "retries", mode="before")
    @classmethod
    def _whole(cls, value: object) -> object:
        return int(value) if isinstance(value, float) and value.is_integer() else value

    @property
    def is_streamed(self) -> bool:
        return self.stream or self.stream_format is not None

    @property
    def voice_name(self) -> str:
        return self.voice if isinstance(self.voice, str) else self.voice.id

    def utterance(self) -> Utterance:
        return Utterance(
            self.input,
            self.voice_name,
            SamplingParams(self.seed, self.steps, self.cfg, self.max_seconds, self.retries),
            self.language,
            self.speed,
            not self.raw_text,
            style=self.instructions or "",
        )


class ErrorDetail(BaseModel):
    message: str
    type: str
    param: str | None
    code: str | None


class ErrorBody(BaseModel):
    """What every refusal answers with."""

    error: ErrorDetail


class ModelRow(BaseModel):
    """One row of `GET /v1/models`; the last fields are voxcli's."""

    id: str
    object: Literal["model"] = "model"
    created: int
    owned_by: str
    sample_rate: int
    languages: list[str]
    modes: list[str]


class ModelList(BaseModel):
    object: Literal["list"] = "list"
    data: list[ModelRow]


class VoiceRow(BaseModel):
    """One voice; `problem` says why it cannot be used."""

    name: str
    object: Literal["audio.voice"] = "audio.voice"
    created: str = ""
    consent: str = ""
    duration_s: float | None = None
    has_transcript: bool = False
    models: list[str] = []
    warnings: list[str] = []
    problem: str | None = None


class VoiceList(BaseModel):
    voices: list[VoiceRow]


class Health(BaseModel):
    """`GET /health`: 200 when ready, else 503."""

    status: str
    model: str
    version: str
    pid: int
    streams: int
    queue: int
    restarts: int
    error: str | None = None
