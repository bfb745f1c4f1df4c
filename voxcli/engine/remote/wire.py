"""What a hot engine and its clients say to each other: frames over HTTP.

A frame is a JSON header and raw bytes: two little-endian uint32 lengths, then both. A request is
one frame (an utterance; its arrays are the bytes), an answer is many: a frame a chunk, the last
one with the reports, or an "error". Samples are float32 and not rounded, so the same seed gives the
same bytes as an engine of one's own; a client that only passes them on asks for 16 bit integers.

Knows no socket and no HTTP. numpy is imported when there are arrays.
"""

from __future__ import annotations

import json
import math
import struct
from dataclasses import asdict, fields, is_dataclass
from typing import IO, TYPE_CHECKING, Any

from voxcli import errors
from voxcli.config import SamplingParams, check_pause, check_speed
from voxcli.errors import EngineError, UsageError, VoxError
from voxcli.utterance import Recording, Utterance

if TYPE_CHECKING:
    import numpy as np

    from voxcli.plan import Plan

MEDIA_TYPE = "application/x-voxcli-frames"
PATH_MATCH, PATH_PLAN, PATH_SPEECH = (
    f"/v1/voxcli/{name}" for name in ("match", "plan", "speech")
)  # fmt: skip
_LENGTHS = struct.Struct("<II")
MIN_RATE, MAX_RATE = 1_000, 1_000_000  # Hz, of a recording
MAX_HEADER = 16 << 20  # bytes; the texts of a plan are in a header


def pack(header: dict[str, Any], payload: bytes = b"") -> bytes:
    """One frame."""
    head = json.dumps(header, ensure_ascii=False, separators=(",", ":")).encode("utf-8")
    return _LENGTHS.pack(len(head), len(payload)) + head + payload


def unpack(data: bytes) -> tuple[dict[str, Any], memoryview]:
    """The one frame that a body holds.

    Raises:
        UsageError: it holds something else.
    """
    try:
        num_head, num_payload = _LENGTHS.unpack_from(data)
        start = _LENGTHS.size + num_head
        header = json.loads(data[_LENGTHS.size : start])
    except (struct.error, ValueError) as err:
        raise UsageError(f"the body is no frame: {err}", hint="upgrade voxcli") from err
    if not isinstance(header, dict) or len(data) != start + num_payload:
        raise UsageError("the body is no whole frame", hint="upgrade voxcli")
    return header, memoryview(data)[start:]


def read_frame(file: IO[bytes]) -> tuple[dict[str, Any], bytes] | None:
    """The next frame of an answer; None at its end."""
    lengths = file.read(_LENGTHS.size)
    if not lengths:
        return None
    num_head, num_payload = _LENGTHS.unpack(_whole(lengths, _LENGTHS.size))
    if num_head > MAX_HEADER:
        raise EngineError("the server's answer is not understood", hint="upgrade voxcli")
    header = json.loads(_whole(file.read(num_head), num_head))
    return header, _whole(file.read(num_payload), num_payload) if num_payload else b""


def _whole(data: bytes, size: int) -> bytes:
    if len(data) != size:
        raise EOFError
    return data


# ---------------------------------------------------------------- utterances

_NESTED = {"sampling": SamplingParams, "reference": Recording, "prompt": Recording}


def utterance_frame(utterance: Utterance, **header: Any) -> bytes:
    """An utterance with what else the header says."""
    arrays: list[np.ndarray] = []
    plain = _plain(utterance, arrays)
    payload = b"".join(array.astype("<f4", copy=False).tobytes() for array in arrays)
    shapes = [array.shape for array in arrays]
    return pack({**header, "utterance": plain, "arrays": shapes}, payload)


def _plain(value: Any, arrays: list[np.ndarray]) -> Any:
    if is_dataclass(value):
        return {each.name: _plain(getattr(value, each.name), arrays) for each in fields(value)}
    if hasattr(value, "tobytes"):
        arrays.append(value)
        return {"array": len(arrays) - 1}
    return value


def utterance_of(header: dict[str, Any], payload: memoryview) -> Utterance:
    """The utterance of a frame.

    Raises:
        UsageError: not one, or one that cannot be.
    """
    import numpy as np

    try:
        if "is_live" in header and not isinstance(header["is_live"], bool):
            raise TypeError("is_live")
        arrays, start = [], 0
        for shape in header["arrays"]:
            count = int(np.prod(shape, dtype=np.int64))
            flat = np.frombuffer(payload, "<f4", count, 4 * start)
            arrays.append(flat.reshape(shape).copy())
            start += count
        plain = dict(header["utterance"])
        for name, kind in _NESTED.items():
            if plain[name] is not None:
                values = {
                    key: arrays[value["array"]] if isinstance(value, dict) else value
                    for key, value in plain[name].items()
                }
                plain[name] = _made(kind, values)
        utterance: Utterance = _made(Utterance, plain)
        check_speed(utterance.speed)
        if utterance.pause_s is not None:
            check_pause(utterance.pause_s)
        return utterance
    except (KeyError, TypeError, ValueError, IndexError, AttributeError, AssertionError) as err:
        raise UsageError(f"the utterance is malformed: {err!r}", hint="upgrade voxcli") from err


# What a field may hold, by the words of its annotation.
_TYPES: dict[str, tuple[type, ...]] = {
    "str": (str,), "int": (int,), "float": (int, float), "bool": (bool,), "None": (type(None),),
}  # fmt: skip


def _made(kind: type, values: dict[str, Any]) -> Any:
    """A dataclass from values of the types that it says; a bool is no number, NaN is no length."""
    for each in fields(kind):
        value, names = values[each.name], [name.strip() for name in str(each.type).split("|")]
        is_number = isinstance(value, float)
        allowed = [found for name in names for found in _TYPES.get(name, ())]
        is_nested = type(value).__name__ in [name.removeprefix("np.") for name in names]
        is_typed = isinstance(value, tuple(allowed)) and (
            not isinstance(value, bool) or bool in allowed
        )
        if not (is_nested or is_typed) or (is_number and not math.isfinite(value)):
            raise TypeError(f"{each.name} is {str(value)[:40]!r}")
    made = kind(**values)
    if isinstance(made, Recording):
        _check_recording(made)
    return made


def _check_recording(recording: Recording) -> None:
    if not MIN_RATE <= recording.sample_rate <= MAX_RATE:
        raise ValueError(f"a sample rate of {recording.sample_rate} Hz")
    for array, rank in ((recording.samples, 1), (recording.latents, 3)):
        is_sound = array is None or (array.ndim == rank and array.size > 0)
        if not is_sound or (array is not None and not bool(abs(array).max() < float("inf"))):
            raise ValueError("a recording that is empty, of a wrong shape, or not finite")


# ---------------------------------------------------------------- plans and errors


def plan_out(plan: Plan) -> dict[str, Any]:
    """A plan without its utterance, which the client has."""
    return {
        "seed": plan.seed,
        "steps": plan.steps,
        "cfg": plan.cfg,
        "estimated_audio_s": plan.estimated_audio_s,
        "text": asdict(plan.text),
    }


def error_out(error: VoxError) -> dict[str, Any]:
    return {"type": type(error).__name__, **vars(error)}


def error_in(plain: dict[str, Any]) -> VoxError:
    """The same error on this side; one that only the server knows becomes an EngineError."""
    values = dict(plain)
    kind = getattr(errors, str(values.pop("type", "")), EngineError)
    if not (isinstance(kind, type) and issubclass(kind, VoxError)):
        kind = EngineError
    error: VoxError = kind(str(values.pop("message", "")), hint=values.pop("hint", None))
    vars(error).update(values)
    return error
