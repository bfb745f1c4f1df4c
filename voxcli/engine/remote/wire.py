"""What a `voxcli serve` and its clients say to each other: one message a request, one or many an
answer.

A message is MessagePack of the shared dataclasses themselves (plans, utterances, reports, facts),
made and checked by msgspec, and arrays are their bytes. Samples are float32 and not rounded, so the
same seed gives the same bytes as an engine of one's own; a client that only passes them on asks for
16 bit integers. An answer is a stream of messages, each behind its kind and its length. While a
server works and has nothing to say it sends beats, which are empty, so that a client need not wait
for ever for one that is gone.

Both sides state `PROTOCOL` and their version in the headers of everything they send, and neither
reads a body of another protocol. An error is JSON in every version, so that anybody can show it.

NOTE: whoever changes a message, or a dataclass in one, makes `PROTOCOL` one more: a field that only
one side knows would be lost in silence. A test compares the bytes with those that it keeps.

Knows no socket and no HTTP. numpy is imported where there are arrays.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from functools import cache
from typing import IO, TYPE_CHECKING, Annotated, Any, Protocol, TypeVar

import msgspec

from voxcli import __version__, errors, utterance
from voxcli.config import check_pause, check_speed
from voxcli.engine.base import EngineFacts, Setup, Wanted
from voxcli.errors import EngineError, UsageError, VoxError
from voxcli.parameters import Value
from voxcli.text.prepared import PreparedText
from voxcli.utterance import Mode, Recording, SegmentReport, Use, Utterance, VoiceEncoding

if TYPE_CHECKING:
    import numpy as np

PROTOCOL = 4
PROTOCOL_HEADER, VERSION_HEADER = "X-Voxcli-Protocol", "X-Voxcli-Version"
HEADERS = {PROTOCOL_HEADER: str(PROTOCOL), VERSION_HEADER: __version__}
MEDIA_TYPE = "application/msgpack"
STREAM_TYPE = "application/x-voxcli-stream"
PATH_MATCH, PATH_PLAN, PATH_SPEECH, PATH_ENCODE, PATH_CHECKSUM = (
    f"/v1/voxcli/{name}" for name in ("match", "plan", "speech", "encode", "checksum")
)
WITH_AUDIO = (PATH_PLAN, PATH_SPEECH, PATH_ENCODE)  # their bodies may be large
RESTART = "restart it with 'voxcli serve --stop' and 'voxcli serve --background'"

MIN_RATE, MAX_RATE = 1_000, 1_000_000  # Hz, of a recording
MAX_SHOWN = 40  # characters of what the other side says it is
MAX_BYTES = 1 << 30  # of a message: no encoding of a recording comes near
MAX_VALUES = 100_000  # of an order: they take sixty bytes each; an array, and a text, is one
# MessagePack: first bytes of a value -> bytes that say its length, or of the value itself
_COUNTED = {
    **{0xC4: 1, 0xC5: 2, 0xC6: 4, 0xC7: 1, 0xC8: 2, 0xC9: 4},
    **{0xD9: 1, 0xDA: 2, 0xDB: 4, 0xDC: 2, 0xDD: 4, 0xDE: 2, 0xDF: 4},
}
_SIZES = {
    **{0xCA: 4, 0xCB: 8, 0xCC: 1, 0xCD: 2, 0xCE: 4, 0xCF: 8, 0xD0: 1, 0xD1: 2, 0xD2: 4, 0xD3: 8},
    **{0xD4: 2, 0xD5: 3, 0xD6: 5, 0xD7: 9, 0xD8: 17},
}
_HEAD = struct.Struct("<BI")  # kind and length of a message
_BEAT, _MESSAGE, _FAILURE = range(3)
BEAT = _HEAD.pack(_BEAT, 0)
_KINDS = {"float32": "<f4", "int64": "<i8"}  # numbers of an array

Plain = str | int | float | bool | None
T = TypeVar("T")


class _Message(msgspec.Struct, forbid_unknown_fields=True):
    """Base of all that is sent; a field that is not known is refused."""


class Question(_Message):
    """To `PATH_MATCH`: whether the server speaks what a command would load itself."""

    wanted: Wanted


class Match(_Message):
    """The answer; without a mismatch there are facts and setup."""

    mismatch: str | None
    facts: EngineFacts | None = None
    setup: Setup | None = None


class PlanOrder(_Message):
    """To `PATH_PLAN`."""

    utterance: Utterance


class Planned(_Message):
    """The answer: a plan without its utterance, which the client has.

    Attributes:
        mode: of the utterance as it will be spoken; a recording may have been left out.
    """

    text: PreparedText
    seed: int
    parameters: dict[str, Value]
    prompt_text: str
    mode: Mode


class SpeechOrder(_Message):
    """To `PATH_SPEECH`: an utterance with everything settled; the server plans it again, since a
    plan from elsewhere would have to be checked as thoroughly as a plan is made."""

    utterance: Utterance
    is_live: bool
    takes_integers: bool


class Chunk(_Message):
    """Samples on their way, as float32 or 16 bit integers; the last chunk has the account."""

    segment: int
    is_last: bool
    samples: bytes
    reports: tuple[SegmentReport, ...] = ()
    ttfa_s: float | None = None


class EncodeOrder(_Message):
    """To `PATH_ENCODE`; the answer is a `VoiceEncoding`."""

    recording: Recording
    uses: Annotated[tuple[Use, ...], msgspec.Meta(min_length=1)]


class ChecksumOrder(_Message):
    """To `PATH_CHECKSUM`; the answer is a str."""

    of_encoder: bool


class _Array(_Message):
    dtype: str
    shape: tuple[Annotated[int, msgspec.Meta(ge=0)], ...]
    data: bytes


# ---------------------------------------------------------------- bytes


def pack(message: object) -> bytes:
    """A message."""
    return _encoder().encode(message)


def unpack(kind: type[T], data: bytes) -> T:
    """The message that a server answered with.

    Raises:
        ValueError: it is none of this kind.
    """
    wanted: Any = kind
    try:
        message: T = _decoder(wanted).decode(data)
    except RecursionError as err:
        raise ValueError("it is nested too deeply") from err
    return message


def pack_next(message: object) -> bytes:
    """A message of a stream."""
    return _behind(_MESSAGE, pack(message))


def pack_failure(error: VoxError) -> bytes:
    """What ends a stream in its middle."""
    return _behind(_FAILURE, pack(error_out(error)))


def _behind(kind: int, data: bytes) -> bytes:
    return _HEAD.pack(kind, len(data)) + data


def read_next(kind: type[T], file: IO[bytes]) -> T:
    """The next message of a stream.

    Raises:
        VoxError: that ended the stream.
        EOFError: it ends in its middle.
        ValueError: it is no such message.
    """
    what = _BEAT
    while what == _BEAT:
        what, length = _HEAD.unpack(_whole(file, _HEAD.size))
        if what not in (_BEAT, _MESSAGE, _FAILURE) or length > MAX_BYTES:
            raise ValueError("no message of a stream")
        data = _whole(file, length)
    if what == _FAILURE:
        raise error_in(unpack(dict[str, Plain], data))
    return unpack(kind, data)


def _whole(file: IO[bytes], size: int) -> bytes:
    data = file.read(size)
    if len(data) != size:
        raise EOFError
    return data


@cache
def _encoder() -> msgspec.msgpack.Encoder:
    return msgspec.msgpack.Encoder(enc_hook=_array_out)


@cache
def _decoder(kind: Any) -> msgspec.msgpack.Decoder[Any]:
    if kind is VoiceEncoding:
        _read_annotations()
    return msgspec.msgpack.Decoder(kind, dec_hook=_array_in)


def _read_annotations() -> None:
    """Let msgspec read the annotations of dataclasses with arrays.

    NOTE: their module imports numpy for type checkers alone; here it is needed.
    """
    import numpy

    vars(utterance)["np"] = numpy


def _array_out(value: Any) -> _Array:
    if not hasattr(value, "tobytes"):
        raise TypeError(f"a {type(value).__name__} cannot be sent")
    dtype = "float32" if value.dtype.kind == "f" else "int64"
    return _Array(dtype, value.shape, value.astype(_KINDS[dtype], copy=False).tobytes())


def _array_in(kind: type, value: object) -> np.ndarray:
    import numpy as np

    assert kind is np.ndarray, kind
    array = msgspec.convert(value, _Array)
    if array.dtype not in _KINDS:
        raise ValueError(f"an array of {array.dtype[:MAX_SHOWN]!r}")
    flat = np.frombuffer(array.data, _KINDS[array.dtype])
    return flat.reshape(array.shape).astype(array.dtype)  # a copy that may be written to


# ---------------------------------------------------------------- what a client asks


def read_order(kind: type[T], body: bytes, what: str = "utterance") -> T:
    """What a client asks, every value of the type that its field says.

    Args:
        what: the message calls it so.

    Raises:
        UsageError: not one, or one that cannot be.
    """
    _read_annotations()
    try:
        if num_values(body, MAX_VALUES) > MAX_VALUES:
            raise ValueError(f"it has more than {MAX_VALUES:,} values")
        plain = msgspec.msgpack.decode(body)
        order = msgspec.convert(plain, kind, dec_hook=_array_in)
        _check(plain, order)
        return order
    except (ValueError, TypeError, AssertionError, RecursionError) as err:
        raise UsageError(f"the {what} is malformed: {err}", hint="upgrade voxcli") from err


def num_values(body: bytes, most: int) -> int:
    """How many values a message in MessagePack has, those of its arrays and maps included; it is
    read no further than to see that it has more than `most`."""
    at = num = 0
    num_left = 1
    while num_left and num <= most and at < len(body):
        head = body[at]
        at, num, num_left = at + 1, num + 1, num_left - 1
        if head < 0x80 or head >= 0xE0:  # a small number
            continue
        if head < 0xA0:  # a short map or array
            num_left += (head & 0xF) << (head < 0x90)
        elif head < 0xC0:  # a short text
            at += head & 0x1F
        elif head in _COUNTED:
            width = _COUNTED[head]
            length = int.from_bytes(body[at : at + width], "big")
            at += width
            if head >= 0xDC:  # array or map
                num_left += length << (head >= 0xDE)
            else:
                at += length + (0xC7 <= head <= 0xC9)  # an extension has a type too
        else:
            at += _SIZES.get(head, 0)
    return num


def _check(plain: Any, made: Any) -> None:
    """What types do not say, and that a dataclass was given all its fields and no other."""
    if isinstance(made, _Message):
        names: set[str] = set(made.__struct_fields__)
    elif is_dataclass(made):
        names = {each.name for each in fields(made)}
    else:
        return
    if plain.keys() != names:
        odd = ", ".join(sorted(str(name)[:MAX_SHOWN] for name in plain.keys() ^ names))
        raise ValueError(f"it has more or fewer fields than it should: {odd}")
    for name in names:
        _check(plain[name], getattr(made, name))
    if isinstance(made, Recording):
        _check_recording(made)
    if isinstance(made, Utterance):
        check_speed(made.speed)
        if made.pause_s is not None:
            check_pause(made.pause_s)


def _check_recording(recording: Recording) -> None:
    if not MIN_RATE <= recording.sample_rate <= MAX_RATE:
        raise ValueError(f"a sample rate of {recording.sample_rate} Hz")
    samples, encoding = recording.samples, recording.encoding
    if samples is not None and not (samples.ndim == 1 and _is_sound(samples)):
        raise ValueError("a recording that is empty, of a wrong shape, or not finite")
    arrays: Mapping[str, np.ndarray] = encoding.arrays if encoding else {}
    if encoding and not (arrays and all(map(_is_sound, arrays.values()))):
        raise ValueError("an encoding that is empty or not finite")


def _is_sound(array: np.ndarray) -> bool:
    return array.size > 0 and bool(abs(array).max() < float("inf"))


# ---------------------------------------------------------------- protocols and errors


class Headers(Protocol):
    """Of a request or an answer; names are found in any case."""

    def get(self, name: str, /) -> str | None: ...


def check_protocol(headers: Headers) -> None:
    """Raise UsageError unless a client speaks this server's protocol.

    Args:
        headers: of its request; without the protocol they are of a voxcli before there was one.
    """
    if headers.get(PROTOCOL_HEADER) != str(PROTOCOL):
        raise UsageError(
            f"this server speaks protocol {PROTOCOL} (voxcli {__version__}), the client speaks "
            f"{spoken(headers)}: {RESTART}"
        )


def spoken(headers: Headers) -> str:
    """`protocol 2 (voxcli 0.2.0)`, as the other side states it."""
    protocol, version = (
        shown(headers.get(name) or "", MAX_SHOWN) for name in (PROTOCOL_HEADER, VERSION_HEADER)
    )
    return f"protocol {protocol} (voxcli {version})" if protocol else "a former protocol"


def shown(text: str, most: int) -> str:
    """What the other side says, as a message may show it."""
    return "".join(char if char.isprintable() else "?" for char in text[:most])


def error_out(error: VoxError) -> dict[str, Plain]:
    """An error as plain values."""
    known = {key: value for key, value in vars(error).items() if isinstance(value, Plain)}
    return {"type": type(error).__name__, **known}


def error_in(plain: object) -> VoxError:
    """The same error on this side; one that only the server knows becomes an EngineError.

    Raises:
        ValueError: it is none.
    """
    values = msgspec.convert(plain, dict[str, Plain])
    kind = getattr(errors, str(values.pop("type", "")), EngineError)
    if not (isinstance(kind, type) and issubclass(kind, VoxError)):
        kind = EngineError
    hint = values.pop("hint", None)
    error: VoxError = kind(str(values.pop("message", "")), hint=None if hint is None else str(hint))
    vars(error).update({name: value for name, value in values.items() if name in vars(error)})
    return error
