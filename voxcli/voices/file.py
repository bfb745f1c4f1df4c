"""A voice profile as the bytes of one safetensors file, and back.

Everything but the tensors is JSON in the header, so that opening a profile never runs code. All of
it is checked when it is read. What the arrays of an encoding are is not known here. The format, and
that of version 1, which is still read: `docs/voices.md`.
"""

from __future__ import annotations

import hashlib
import json
import re
import stat
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from voxcli.errors import UsageError, VoiceFileError, hint_for_file, reason_of
from voxcli.utterance import Recording, VoiceEncoding
from voxcli.voices.profile import Voice, VoiceCard, check_name

FORMAT = "voxcli-voice"
VERSION = 2
SUFFIX = ".safetensors"
MAX_FILE_BYTES = 64 << 20  # a minute at 192 kHz is 46 MB; more is no voice
MAX_TEXT_CHARS = 10_000
ARRAY_TYPES = ("float32", "int64")
WAY_OUT = "add the voice again, or import a good copy"

Tensors = Mapping[str, np.ndarray]
T = TypeVar("T")
_MALFORMED = (ValueError, KeyError, TypeError, AttributeError, RecursionError, UsageError)


def voice_bytes(voice: Voice) -> bytes:
    """A profile as the bytes of its file.

    Raises:
        UsageError: its transcript is longer than a reader takes.
    """
    from safetensors.numpy import save

    if (length := len(voice.recording.text)) > MAX_TEXT_CHARS:
        raise UsageError(
            f"the transcript of '{voice.name}' has {length} characters, at most {MAX_TEXT_CHARS} "
            "can be kept",
            hint="give the words of the recording alone",
        )
    assert voice.recording.samples is not None
    tensors = {"samples": np.ascontiguousarray(voice.recording.samples, np.float32)}
    encodings = []
    for index, encoding in enumerate(voice.encodings):
        encodings.append({"model": encoding.model, "encoder": encoding.encoder})
        for name, values in encoding.arrays.items():
            assert values.dtype in ARRAY_TYPES, (name, values.dtype)
            tensors[f"encoding.{index}.{name}"] = np.asarray(values, order="C")
    table = {
        "name": voice.name,
        "created": voice.created,
        "consent": voice.consent,
        "text": voice.recording.text,
        "sample_rate": voice.recording.sample_rate,
        "encodings": encodings,
        "facts": dict(voice.facts),
    }
    text = json.dumps(table, ensure_ascii=False, allow_nan=False, sort_keys=True)
    metadata = {
        "format": FORMAT,
        "version": str(VERSION),
        "voice": text,
        "sha256": _digest(text, tensors),
    }
    data: bytes = save(tensors, metadata)
    return data


def read_voice(path: Path, name: str | None = None) -> Voice:
    """Read a profile and check all of it.

    Args:
        name: of a voice that is kept; messages then name it and not its file.

    Raises:
        VoiceFileError: not there, not a profile, damaged, or of a later version.
    """
    what = _called(path, name)
    metadata, tensors = _read_safetensors(path, what, lambda file, key: file.get_tensor(key))
    _check_version(what, metadata)
    text = metadata.get("voice", "")
    if metadata.get("sha256") != _digest(text, tensors):
        raise _damaged(what, "its checksum does not match")
    try:
        table = json.loads(text)
        if metadata["version"] == "1":
            table, tensors = _from_version_1(table, tensors)
        return _voice(table, tensors)
    except _MALFORMED as err:
        raise _damaged(what, str(err)) from err


def _called(path: Path, name: str | None) -> str:
    return str(path) if name is None else f"voice '{name}'"


def _check_version(what: str, metadata: Mapping[str, str]) -> None:
    """Refuse what this voxcli cannot read.

    Raises:
        VoiceFileError: of another kind or version.
    """
    if metadata.get("format") != FORMAT:
        raise VoiceFileError(
            f"{what} is not a voice profile",
            hint="make one with 'voxcli voices add NAME --ref FILE'",
        )
    version = metadata.get("version")
    if version not in ("1", str(VERSION)):
        raise VoiceFileError(
            f"{what} is a voice profile of version {version}, this voxcli reads 1 to {VERSION}",
            hint="upgrade voxcli" if str(version).isdecimal() else WAY_OUT,
        )


def read_card(path: Path, name: str | None = None) -> VoiceCard:
    """The header of a profile, for lists: a file of 64 MB is no more work than one of 1 MB.

    Args:
        name: as for `read_voice`.

    Raises:
        VoiceFileError: as `read_voice`, but for arrays that were changed in their place.
    """
    what = _called(path, name)
    metadata, shapes = _read_safetensors(
        path, what, lambda file, key: file.get_slice(key).get_shape()
    )
    _check_version(what, metadata)
    try:
        table = json.loads(metadata.get("voice", ""))
        return VoiceCard(
            name=check_name(table["name"]),
            sample_rate=_rate(table),
            text=_text(table),
            created=str(table["created"]),
            consent=str(table["consent"]),
            duration_s=int(np.prod(shapes["samples"])) / _rate(table),
            models=tuple(dict.fromkeys(str(entry["model"]) for entry in table["encodings"])),
            facts=dict(table["facts"]),
        )
    except _MALFORMED as err:
        raise _damaged(what, str(err)) from err


def _read_safetensors(
    path: Path, what: str, read: Callable[[Any, str], T]
) -> tuple[dict[str, str], dict[str, T]]:
    """Its metadata, and what is read of each array.

    Raises:
        VoiceFileError: it is not there, or no file of that kind.
    """
    from safetensors import SafetensorError, safe_open

    try:
        found = path.stat()
        if not stat.S_ISREG(found.st_mode):  # a pipe would be waited for without end
            message = f"{what} is not a regular file, so not a voice profile"
            raise VoiceFileError(message, hint=WAY_OUT)
        size = found.st_size
        if size > MAX_FILE_BYTES:
            raise VoiceFileError(f"{what} is not a voice profile: it has {size / 1e6:,.0f} MB")
        with safe_open(path, framework="np") as file:
            tensors = {name: read(file, name) for name in file.keys()}  # noqa: SIM118
            return dict(file.metadata() or {}), tensors
    except OSError as err:
        reason = reason_of(err)
        raise VoiceFileError(
            f"cannot read {what}: {reason}", hint=hint_for_file(path, "check the path")
        ) from err
    except (SafetensorError, ValueError, TypeError) as err:
        raise VoiceFileError(f"{what} is damaged, or not a voice profile", hint=WAY_OUT) from err


def _from_version_1(
    table: dict[str, Any], tensors: Tensors
) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """Version 1 had one float32 array a use, and another word for the encoder."""
    encodings = [
        {"model": entry["model"], "encoder": entry["checksum"]} for entry in table["encodings"]
    ]
    renamed = {
        re.sub(r"^(reference|prompt)\.(\d+)$", r"encoding.\2.\1", name): values
        for name, values in tensors.items()
    }
    return {**table, "encodings": encodings}, renamed


def _voice(table: dict[str, Any], tensors: Tensors) -> Voice:
    rate, text = _rate(table), _text(table)
    samples = _checked(tensors["samples"])
    if samples.dtype != np.float32 or samples.ndim != 1:
        raise ValueError("its samples have a wrong type or shape")
    return Voice(
        name=check_name(table["name"]),
        recording=Recording(samples, rate, text),
        encodings=tuple(
            _encoding(index, entry, tensors) for index, entry in enumerate(table["encodings"])
        ),
        created=str(table["created"]),
        consent=str(table["consent"]),
        facts=dict(table["facts"]),
    )


def _rate(table: Mapping[str, Any]) -> int:
    rate = table["sample_rate"]
    if not (isinstance(rate, int) and 1_000 <= rate <= 1_000_000):
        raise ValueError(f"its sample rate is {rate}")
    return rate


def _text(table: Mapping[str, Any]) -> str:
    text = table["text"]
    if not isinstance(text, str) or len(text) > MAX_TEXT_CHARS:
        raise ValueError("its transcript is no text of a sensible length")
    return text


def _encoding(index: int, entry: dict[str, str], tensors: Tensors) -> VoiceEncoding:
    prefix = f"encoding.{index}."
    arrays = {
        name.removeprefix(prefix): _checked(values)
        for name, values in tensors.items()
        if name.startswith(prefix)
    }
    if not arrays:
        raise ValueError("an encoding has no arrays")
    return VoiceEncoding(str(entry["model"]), str(entry["encoder"]), arrays)


def _checked(values: np.ndarray) -> np.ndarray:
    is_sound = values.dtype in ARRAY_TYPES and values.size > 0
    if not is_sound or not np.isfinite(values).all():
        raise ValueError("a tensor has a wrong type, is empty, or is not finite")
    return values


def _digest(text: str, tensors: Mapping[str, np.ndarray]) -> str:
    digest = hashlib.sha256(text.encode())
    for name in sorted(tensors):
        digest.update(f"\n{name} {tensors[name].dtype} {tensors[name].shape}\n".encode())
        digest.update(tensors[name].tobytes())
    return digest.hexdigest()


def _damaged(what: str, why: str) -> VoiceFileError:
    return VoiceFileError(f"{what} is damaged: {why}", hint=WAY_OUT)
