"""Voice profiles: a recording that was checked once, its encodings for models, and where they lie.

A profile is one safetensors file with everything else as JSON in its header, so that opening one
never runs code. The format: `docs/voices.md`. This module encodes nothing, knows no model and
imports no torch; models are told apart by a checksum that the caller gives.

Letters: `S` samples, `A` patches, `P` latent vectors in a patch, `D` latent width.
"""

from __future__ import annotations

import hashlib
import json
import re
import unicodedata
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from voxcli.audio import files
from voxcli.config import data_dir
from voxcli.errors import UsageError, VoiceFileError, VoiceNotFoundError, nearest
from voxcli.utterance import Recording, Utterance

FORMAT = "voxcli-voice"
VERSION = 1
SUFFIX = ".safetensors"
MAX_FILE_BYTES = 256 << 20  # a minute at 192 kHz is 46 MB; more is no voice
MAX_NAME_CHARS = 64
MAX_TEXT_CHARS = 10_000

# Names that mean something else to voxcli or to Windows.
RESERVED = frozenset(
    {"default", "auto", "none", "con", "prn", "aux", "nul"}
    | {f"{port}{number}" for port in ("com", "lpt") for number in range(10)}
)


@dataclass(frozen=True, eq=False)
class Encoding:
    """What one model hears in a recording.

    Attributes:
        model: its name, for messages.
        checksum: SHA-256 of what the encoding depends on.
        reference: float32 `[A, P, D]`, padded on the right, to be imitated.
        prompt: float32 `[A, P, D]`, padded on the left, to be continued; with a transcript only.
    """

    model: str
    checksum: str
    reference: np.ndarray
    prompt: np.ndarray | None = None


@dataclass(frozen=True, eq=False)
class Voice:
    """A profile.

    Attributes:
        recording: kept, so that it can be encoded for another model; with its transcript.
        encodings: one a model.
        created: UTC, ISO 8601.
        consent: whose voice it is and what they agreed to, in the user's words.
        facts: the report of the recording's preflight.
    """

    name: str
    recording: Recording
    encodings: tuple[Encoding, ...] = ()
    created: str = ""
    consent: str = ""
    facts: Mapping[str, Any] = field(default_factory=dict)

    @property
    def duration_s(self) -> float:
        assert self.recording.samples is not None
        return len(self.recording.samples) / self.recording.sample_rate

    @property
    def models(self) -> tuple[str, ...]:
        return tuple(encoding.model for encoding in self.encodings)

    def encoded(self, encoding: Encoding) -> Voice:
        """The same voice with one encoding more, or newer."""
        kept = (
            other
            for other in self.encodings
            if encoding.checksum != other.checksum and encoding.model != other.model
        )
        return replace(self, encodings=(*kept, encoding))

    def apply(self, utterance: Utterance, model_name: str, model_checksum: str) -> Utterance:
        """The utterance in this voice: reference, and prompt where the transcript is known.

        A style in words and speech to continue exclude each other, so a style gets the reference
        alone.

        Raises:
            VoiceNotFoundError: it is not encoded for this model.
        """
        found = [e for e in self.encodings if e.checksum == model_checksum]
        if not found:
            known = ", ".join(sorted(set(self.models))) or "none"
            what = f"voice '{self.name}' is not encoded for model '{model_name}' (it is for: "
            if model_name in self.models:
                what = f"voice '{self.name}' was encoded by another version of model '{model_name}'"
                what += " (its encodings: "
            raise VoiceNotFoundError(
                f"{what}{known})",
                hint=f"run 'voxcli voices encode {self.name} --model {model_name}'",
            )
        heard, text = found[0], self.recording.text
        rate = self.recording.sample_rate
        samples = self.recording.samples
        reference = Recording(samples, rate, text, heard.reference)
        prompt = None
        if heard.prompt is not None and not utterance.style.strip():
            prompt = Recording(samples, rate, text, heard.prompt)
        return replace(utterance, reference=reference, prompt=prompt)


# ---------------------------------------------------------------- names


def check_name(name: str) -> str:
    """The name in its one Unicode form.

    Raises:
        UsageError: it could not be a file name everywhere, or means something else.
    """
    normal = unicodedata.normalize("NFC", name)
    hint = f"use up to {MAX_NAME_CHARS} letters, digits, '-', '_' and '.', a letter or digit first"
    if not normal:
        raise UsageError("the name of the voice is empty", hint=hint)
    is_plain = re.fullmatch(r"[^\W_][\w.-]*", normal) and not normal.endswith(".")
    if not is_plain or len(normal) > MAX_NAME_CHARS or len(normal.encode()) > 200:
        raise UsageError(f"'{name}' cannot be the name of a voice", hint=hint)
    if normal.casefold().split(".")[0] in RESERVED:
        raise UsageError(f"the name '{name}' is reserved", hint="choose another name")
    return normal


def _key(name: str) -> str:
    """What makes two names the same: case and Unicode form do not count."""
    return unicodedata.normalize("NFC", unicodedata.normalize("NFC", name).casefold())


# ---------------------------------------------------------------- files


def voice_bytes(voice: Voice) -> bytes:
    """A profile as the bytes of its file."""
    from safetensors.numpy import save

    assert voice.recording.samples is not None
    tensors = {"samples": np.ascontiguousarray(voice.recording.samples, np.float32)}
    encodings = []
    for index, encoding in enumerate(voice.encodings):
        encodings.append({"model": encoding.model, "checksum": encoding.checksum})
        tensors[f"reference.{index}"] = np.ascontiguousarray(encoding.reference, np.float32)
        if encoding.prompt is not None:
            tensors[f"prompt.{index}"] = np.ascontiguousarray(encoding.prompt, np.float32)
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


def read_voice(path: Path) -> Voice:
    """Read a profile and check all of it.

    Raises:
        VoiceFileError: not there, not a profile, damaged, or of a later version.
    """
    metadata, tensors = _read_safetensors(path)
    if metadata.get("format") != FORMAT:
        raise VoiceFileError(
            f"{path} is no voice profile", hint="make one with 'voxcli voices add NAME --ref FILE'"
        )
    if metadata.get("version") != str(VERSION):
        raise VoiceFileError(
            f"{path} is a voice profile of version {metadata.get('version')}, this voxcli reads "
            f"version {VERSION}",
            hint="upgrade voxcli",
        )
    text = metadata.get("voice", "")
    if metadata.get("sha256") != _digest(text, tensors):
        raise _damaged(path, "its checksum does not match")
    try:
        return _voice(json.loads(text), tensors)
    except (ValueError, KeyError, TypeError, AttributeError, UsageError) as err:
        raise _damaged(path, str(err)) from err


def _read_safetensors(path: Path) -> tuple[dict[str, str], dict[str, np.ndarray]]:
    from safetensors import SafetensorError, safe_open

    try:
        size = path.stat().st_size
        if size > MAX_FILE_BYTES:
            raise VoiceFileError(f"{path} is no voice profile: it has {size / 1e6:,.0f} MB")
        with safe_open(path, framework="np") as file:
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
            return dict(file.metadata() or {}), tensors
    except OSError as err:
        reason = (err.strerror or str(err)).lower()
        raise VoiceFileError(f"cannot read {path}: {reason}", hint="check the path") from err
    except (SafetensorError, ValueError, TypeError) as err:
        raise _damaged(path, str(err)) from err


def _voice(table: dict[str, Any], tensors: dict[str, np.ndarray]) -> Voice:
    rate, text = table["sample_rate"], table["text"]
    if not (isinstance(rate, int) and 1_000 <= rate <= 1_000_000):
        raise ValueError(f"its sample rate is {rate}")
    if not isinstance(text, str) or len(text) > MAX_TEXT_CHARS:
        raise ValueError("its transcript is no text of a sensible length")
    encodings = tuple(
        Encoding(
            str(entry["model"]),
            str(entry["checksum"]),
            _tensor(tensors[f"reference.{index}"], 3),
            _tensor(tensors[f"prompt.{index}"], 3) if f"prompt.{index}" in tensors else None,
        )
        for index, entry in enumerate(table["encodings"])
    )
    return Voice(
        name=check_name(table["name"]),
        recording=Recording(_tensor(tensors["samples"], 1), rate, text),
        encodings=encodings,
        created=str(table["created"]),
        consent=str(table["consent"]),
        facts=dict(table["facts"]),
    )


def _tensor(values: np.ndarray, rank: int) -> np.ndarray:
    is_sound = values.dtype == np.float32 and values.ndim == rank and values.size > 0
    if not is_sound or not np.isfinite(values).all():
        raise ValueError("a tensor has a wrong type, a wrong shape, or is not finite")
    return values


def _digest(text: str, tensors: Mapping[str, np.ndarray]) -> str:
    digest = hashlib.sha256(text.encode())
    for name in sorted(tensors):
        digest.update(f"\n{name} {tensors[name].dtype} {tensors[name].shape}\n".encode())
        digest.update(tensors[name].tobytes())
    return digest.hexdigest()


def _damaged(path: Path, why: str) -> VoiceFileError:
    return VoiceFileError(
        f"{path} is damaged: {why}", hint="add the voice again, or import a good copy"
    )


# ---------------------------------------------------------------- store


class VoiceStore:
    """The profiles of this user, one file each.

    Args:
        folder: where; None means the user's own.
    """

    def __init__(self, folder: Path | None = None) -> None:
        self.folder = data_dir() / "voices" if folder is None else folder

    def names(self) -> list[str]:
        """Of all profiles, in order; the files are not opened."""
        return sorted((name for name, _ in self._entries()), key=str.casefold)

    def path(self, name: str) -> Path:
        """The file of a profile that is here.

        Raises:
            VoiceNotFoundError: none of that name, with the nearest one.
        """
        for known, path in self._entries():
            if _key(known) == _key(name):
                return path
        hint = f"{nearest(name, self.names())}see 'voxcli voices list'"
        raise VoiceNotFoundError(f"no voice '{name}'", hint=hint)

    def find(self, name: str) -> Voice:
        """Read a profile.

        Raises:
            VoiceNotFoundError: none of that name.
            VoiceFileError: its file is damaged.
        """
        path = self.path(name)
        return replace(read_voice(path), name=path.name.removesuffix(SUFFIX))

    def check_free(self, name: str, *, overwrite: bool) -> str:
        """A valid name that is not taken, or may be replaced.

        Raises:
            UsageError: not a possible name.
            OutputExistsError: there is a voice of that name.
        """
        name = check_name(name)
        if not overwrite and _key(name) in {_key(known) for known, _ in self._entries()}:
            raise files.exists_error(self.folder / f"{name}{SUFFIX}")
        return name

    def add(self, voice: Voice, *, overwrite: bool = False) -> Path:
        """Keep a profile; a reader sees the whole new file or what was there.

        Raises:
            UsageError, OutputExistsError: as `check_free`.
            OutputError: it cannot be written.
        """
        name = self.check_free(voice.name, overwrite=overwrite)
        older = [path for known, path in self._entries() if _key(known) == _key(name)]
        path = older[0] if older else self.folder / f"{name}{SUFFIX}"
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
        except OSError as err:
            raise files.output_error(err, path) from err
        _write(path, voice_bytes(replace(voice, name=name)), overwrite=overwrite)
        return path

    def remove(self, name: str) -> Path:
        """Delete a profile, damaged or not.

        Raises:
            VoiceNotFoundError: none of that name.
            OutputError: it cannot be deleted.
        """
        path = self.path(name)
        try:
            path.unlink()
        except OSError as err:
            raise files.output_error(err, path) from err
        return path

    def export(self, name: str, target: Path, *, overwrite: bool = False) -> Path:
        """Copy a profile, once it has been checked, into one file.

        Raises:
            VoiceNotFoundError, VoiceFileError: as `find`.
            OutputExistsError, OutputError: it cannot be written.
        """
        path = self.path(name)
        read_voice(path)
        _write(target, path.read_bytes(), overwrite=overwrite)
        return target

    def import_file(self, path: Path, name: str | None = None, *, overwrite: bool = False) -> Path:
        """Keep a copy of an exported profile, under its own name or another.

        Raises:
            VoiceFileError: it is no sound profile.
            UsageError, OutputExistsError, OutputError: as `add`.
        """
        voice = read_voice(path)
        return self.add(replace(voice, name=name or voice.name), overwrite=overwrite)

    def _entries(self) -> Iterator[tuple[str, Path]]:
        """Name and file of each profile."""
        for path in sorted(self.folder.glob(f"*{SUFFIX}")):
            if not path.name.startswith("."):
                yield unicodedata.normalize("NFC", path.name.removesuffix(SUFFIX)), path


def _write(path: Path, data: bytes, *, overwrite: bool) -> None:
    if path.exists() and not overwrite:
        raise files.exists_error(path)
    temporary = files.hidden_name(path)
    try:
        files.create(temporary)
        temporary.write_bytes(data)
        files.publish(temporary, path, overwrite=overwrite)
    except OSError as err:
        raise files.output_error(err, path) from err
    finally:
        temporary.unlink(missing_ok=True)
