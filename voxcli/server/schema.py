"""The bodies of the HTTP interface, as they stand in the OpenAPI document.

`speech_request` makes the fields of what models can be told from their declaration.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated, Any, Literal

from pydantic import (
    AliasChoices,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    computed_field,
    create_model,
    model_validator,
)
from pydantic.fields import FieldInfo
from pydantic_core import PydanticCustomError

from voxcli.config import MAX_SEED, MAX_SPEED, MIN_SPEED, SamplingParams
from voxcli.errors import UsageError
from voxcli.parameters import Parameter
from voxcli.text.decode import whole_characters
from voxcli.utterance import Utterance
from voxcli.voices import MAX_TEXT_CHARS

MAX_CHARACTERS = 100_000  # two hours of speech
MAX_STYLE = 4096  # as OpenAI has it; what a model has no room for is refused by its plan
MAX_LEXICON = 200_000  # characters; larger tables are the server's own
LANGUAGE = "^[A-Za-z]{2,8}([-_][A-Za-z0-9]{1,8})*$"  # it is said again in a header
PATTERNS = {LANGUAGE: "a language code such as en or zh-TW"}  # each pattern of a field, in words


def _whole(value: object) -> object:
    return int(value) if isinstance(value, float) and value.is_integer() else value


def _in_unicode(value: object) -> object:
    return whole_characters(value) if isinstance(value, str) else value


IsWhole = BeforeValidator(_whole)  # NOTE: behind a range, which else would be asked of None too


class VoiceId(BaseModel):
    """OpenAI's other way to name a voice."""

    model_config = ConfigDict(extra="forbid", strict=True)
    id: Annotated[str, Field(min_length=1, max_length=200)]


class SpeechRequest(BaseModel):
    """`POST /v1/audio/speech`: OpenAI's fields, and after `stream_format` those of voxcli.

    What models can be told is added by `speech_request`. JSON has types, so `true` is no number and
    "yes" is no `true` here. It has one type of number: 5.0 is the integer 5. A field that is null
    counts as left out, and one that is not known is ignored, or refused by a strict server.
    """

    model_config = ConfigDict(extra="allow", strict=True, allow_inf_nan=False)

    model: Annotated[
        str | None,
        Field(description="Name of the model that is served, or another name that stands for it."),
    ] = None
    input: Annotated[
        str,
        Field(min_length=1, max_length=MAX_CHARACTERS, description="The text to speak."),
        BeforeValidator(_in_unicode),  # clients that cut texts leave half of a character
    ]
    voice: Annotated[
        Annotated[str, Field(min_length=1, max_length=200)] | VoiceId,
        Field(description="'default', a stored voice, or a name that stands for one of these."),
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

    timestamps: Annotated[
        bool,
        Field(
            description="Say when each segment and word sounds: an event of SSE for each segment, "
            "or without `stream` JSON in place of the file, with the audio in base64."
        ),
    ] = False
    ref_audio: Annotated[
        str | None,
        Field(
            description="The voice: a recording as a data URI in base64, or a stored one's name."
        ),
    ] = None
    ref_text: Annotated[
        str | None,
        Field(max_length=MAX_TEXT_CHARS, description="What is said in that recording."),
    ] = None
    sample_rate: Annotated[
        int | None,
        Field(ge=8_000, le=192_000, description="Hz; the model's own, 24000 for pcm."),
        IsWhole,
    ] = None
    seed: Annotated[int | None, Field(ge=0, le=MAX_SEED), IsWhole] = None
    language: Annotated[
        str | None,
        Field(max_length=35, pattern=LANGUAGE, description="ISO 639-1; found from the text."),
    ] = None
    max_seconds: Annotated[float | None, Field(gt=0, le=86_400)] = None
    retries: Annotated[int, Field(ge=0, le=20), IsWhole] = SamplingParams().retries
    raw_text: Annotated[
        bool, Field(description="Do not write out numbers and abbreviations; make no pauses.")
    ] = False
    lexicon: Annotated[
        str | None,
        Field(
            max_length=MAX_LEXICON,
            description="How words are said: CSV of written, spoken, and if wanted language and "
            "'regex'. Goes before the server's own; an empty one is none at all.",
        ),
    ] = None

    @model_validator(mode="before")
    @classmethod
    def _one_name_each(cls, given: Any) -> Any:
        """Leave out what is null, and refuse two names of one parameter, which else are a field too
        many."""
        if not isinstance(given, dict):
            return given
        names = {name: _names_of(name, field) for name, field in cls.model_fields.items()}
        known = {each for every in names.values() for each in every}
        given = {key: given[key] for key in given if given[key] is not None or key not in known}
        for name, every in names.items():
            found = [each for each in every if each in given]
            if len(found) > 1:
                shown = " and ".join(f"'{each}'" for each in found)
                raise PydanticCustomError(
                    "two_names",
                    "is given by two names, {names}; give one",
                    {"names": shown, "param": name},
                )
        return given

    @property
    def is_streamed(self) -> bool:
        return self.stream or self.stream_format is not None

    @property
    def voice_name(self) -> str:
        return self.voice if isinstance(self.voice, str) else self.voice.id

    @property
    def parameters(self) -> dict[str, Any]:
        """What the model is told."""
        names = type(self).model_fields.keys() - SpeechRequest.model_fields.keys()
        given = {name: getattr(self, name) for name in sorted(names)}
        return {name: value for name, value in given.items() if value is not None}

    def utterance(self, lexicon: str = "") -> Utterance:
        """What is to be said.

        Args:
            lexicon: how words are said, the server's own table and the request's as one.

        Raises:
            UsageError: raw text with a lexicon.
        """
        if self.raw_text and self.lexicon:
            raise UsageError("raw_text and lexicon are both given", hint="drop one of them")
        return Utterance(
            self.input,
            self.voice_name,
            SamplingParams(self.seed, self.max_seconds, self.retries, self.parameters),
            self.language,
            self.speed,
            not self.raw_text,
            style=self.instructions or "",
            lexicon="" if self.raw_text else lexicon,
        )


class _Strict(SpeechRequest):
    model_config = ConfigDict(extra="forbid")


def speech_request(
    parameters: Iterable[Parameter], *, is_strict: bool = False
) -> type[SpeechRequest]:
    """The body with a field for each parameter; other names for it are taken and not shown.

    Args:
        is_strict: fields that are not known are refused.
    """
    fields: dict[str, Any] = {each.name: (_field(each), None) for each in parameters}
    base = _Strict if is_strict else SpeechRequest
    return create_model("SpeechRequest", __base__=base, **fields)


def _names_of(name: str, field: FieldInfo) -> tuple[str, ...]:
    """The names under which a field may be given."""
    choices = field.validation_alias
    return tuple(map(str, choices.choices)) if isinstance(choices, AliasChoices) else (name,)


def _field(parameter: Parameter) -> Any:
    note = f"; {parameter.note}" if parameter.note else ""
    field = Field(
        ge=parameter.minimum,
        le=parameter.maximum,
        description=f"{parameter.meaning}{note}. The model's best where it is left out.",
        validation_alias=AliasChoices(parameter.name, *parameter.aliases),
    )
    if parameter.kind == "int":
        return Annotated[int | None, field, IsWhole]
    return Annotated[parameter.type | None, field]


class ErrorDetail(BaseModel):
    message: str
    type: str
    param: str | None
    code: str | None


class ErrorBody(BaseModel):
    """What every refusal answers with."""

    error: ErrorDetail


class ModelRow(BaseModel):
    """One row of `GET /v1/models`; the last fields are voxcli's.

    Attributes:
        root: the served model, where the row has another name of it.
    """

    id: str
    root: str
    object: Literal["model"] = "model"
    created: int
    owned_by: str
    sample_rate: int
    languages: list[str]
    modes: list[str]


class ModelList(BaseModel):
    object: Literal["list"] = "list"
    data: list[ModelRow]


class AudioModel(BaseModel):
    id: str
    name: str


class AudioModelList(BaseModel):
    """`GET /v1/audio/models`: the same models as Open WebUI reads them."""

    models: list[AudioModel]


class VoiceRow(BaseModel):
    """One voice, with OpenAI's fields and then those of voxcli.

    Attributes:
        id: its name, under which it is asked for.
        created_at: seconds since 1970; 0 for the model's own.
        type: of OpenAI's; a voice of the model's own was made from recordings too.
        aliases: other names that stand for it.
        is_own: it was saved here, and can be renamed, replaced and deleted.
        problem: why it cannot be used.
    """

    name: str
    created_at: int = 0
    object: Literal["audio.voice"] = "audio.voice"
    type: Literal["audio_sample"] = "audio_sample"
    aliases: list[str] = []
    is_own: bool = False
    created: str = ""
    consent: str = ""
    duration_s: float | None = None
    has_transcript: bool = False
    models: list[str] = []
    warnings: list[str] = []
    problem: str | None = None

    @computed_field  # type: ignore[prop-decorator]
    @property
    def id(self) -> str:
        return self.name


class VoiceName(BaseModel):
    """What a voice is to be called."""

    model_config = ConfigDict(extra="forbid", strict=True)

    name: Annotated[str, Field(max_length=200)]


class VoiceList(BaseModel):
    voices: list[VoiceRow]


class VoiceDeleted(VoiceRow):
    """A voice that was removed, as it was."""

    object: Literal["audio.voice.deleted"] = "audio.voice.deleted"  # type: ignore[assignment]
    deleted: bool = True


class ReplicaRow(BaseModel):
    """One replica of a server that has some.

    Attributes:
        status: loading, ready, resting (it ended and is started again), or failed.
        streams: that it speaks now.
        rows: texts that it spoke, of all its processes.
        error: why its process ended last.
    """

    name: str
    status: str
    pid: int | None
    streams: int
    rows: int
    audio_s: float
    restarts: int
    error: str | None = None


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
    replicas: list[ReplicaRow] = []
