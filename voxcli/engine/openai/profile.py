"""What a server is, as far as it says: kind, version, model, voices, and the fields it takes.

Knows no connection. What is known of a model by its name is its family's (`models/served.py`).
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from enum import StrEnum
from typing import Any

from voxcli.engine.openai.failures import in_one_line
from voxcli.errors import UsageError, nearest
from voxcli.models import served_as
from voxcli.models.served import ServedModel

MAX_LISTED = 1000  # models and voices
MAX_NAME = 200  # characters of one
SPEECH = "/v1/audio/speech"
PLACEHOLDER = "default"  # no voice, by name
ANY_VOICE = "alloy"  # the first of OpenAI's, which servers like it take where they list none

OPENAI_FIELDS = frozenset({"model", "input", "voice", "response_format"})
OMNI_FIELDS = OPENAI_FIELDS | {
    *("instructions", "stream", "stream_format", "task_type", "language", "ref_audio", "ref_text"),
    *("x_vector_only_mode", "max_new_tokens", "seed", "extra_params"),
}
OLDEST = (0, 22)  # before it, audio was repeated in what was streamed
STREAMS_EVENTS_SINCE = (0, 24)
EXTRAS_SINCE = (0, 26)


class Kind(StrEnum):
    """Which program it is."""

    VLLM_OMNI = "vLLM-Omni"
    VOXCLI = "voxcli serve"
    OTHER = "a speech server"


@dataclass(frozen=True)
class ModelRow:
    """One row of `/v1/models`.

    Attributes:
        root: the folder or hub name that a served name stands for.
        sample_rate, languages, modes: where the server states them, as `voxcli serve` does.
    """

    name: str
    root: str
    owner: str
    sample_rate: int | None = None
    languages: tuple[str, ...] = ()
    modes: tuple[str, ...] = ()


@dataclass(frozen=True)
class Profile:
    """What a server is.

    Attributes:
        url: its address.
        version: as it says; empty where it does not.
        fields: of a speech request, which it takes.
        voices: by name, without the placeholder; empty where it lists none.
        lists_voices: whether other names are refused.
    """

    url: str
    kind: Kind
    version: str
    model: ModelRow
    fields: frozenset[str]
    voices: tuple[str, ...] = ()
    lists_voices: bool = False

    @property
    def name(self) -> str:
        """What messages call it."""
        return " ".join(filter(None, (str(self.kind), self.version, f"at {self.url}")))

    @property
    def release(self) -> tuple[int, ...]:
        return release_of(self.version)

    @property
    def family(self) -> ServedModel | None:
        """What the model's family knows of it."""
        return served_as(self.model.name) or served_as(self.model.root)

    @property
    def checksum(self) -> str:
        """SHA-256 over what is known to decide the samples."""
        known = {"kind": self.kind, "version": self.version, **asdict(self.model)}
        return hashlib.sha256(json.dumps(known, sort_keys=True).encode()).hexdigest()


def release_of(version: str) -> tuple[int, ...]:
    """(0, 30) of "0.30.1"; empty where it is no number."""
    words = version.split(".")[:2]
    is_number = len(words) == 2 and all(word.isdecimal() and len(word) < 6 for word in words)
    return tuple(map(int, words)) if is_number else ()


def rows_of(found: Any) -> list[ModelRow]:
    """The models of `/v1/models`; what is no such list is none."""
    data = found.get("data") if isinstance(found, dict) else None
    rows = []
    for row in data[:MAX_LISTED] if isinstance(data, list) else ():
        if isinstance(row, dict) and (name := _name(row.get("id"))):
            rate = row.get("sample_rate")
            rows.append(
                ModelRow(
                    name,
                    _name(row.get("root")) or name,
                    _name(row.get("owned_by")),
                    rate if isinstance(rate, int) and 4_000 <= rate <= 384_000 else None,
                    _names(row.get("languages")),
                    _names(row.get("modes")),
                )
            )
    return rows


def choose(rows: list[ModelRow], wanted: str | None, name: str) -> ModelRow:
    """The model that is spoken with.

    Args:
        wanted: by its name or what that stands for; None means the only one, whatever other names
            it is listed under.
        name: what messages call the server.

    Raises:
        UsageError: it is not served, or several are and none is named.
    """
    if wanted is not None:
        for row in rows:
            if wanted in (row.name, row.root):
                return row
    elif len(own := _without_aliases(rows)) == 1:
        return own[0]
    names = sorted((row.name for row in rows), key=lambda each: each != _near(wanted, rows))
    served = ", ".join(map(in_one_line, names[:20])) or "none"
    if not rows:
        raise UsageError(
            f"{name} names no model, so it may not be a speech server",
            hint="check the URL, or say which with --model",
        )
    if wanted is None:
        raise UsageError(f"{name} serves {served}", hint="say which with --model")
    raise UsageError(
        f"{name} does not serve '{wanted}'",
        hint=f"{nearest(wanted, (row.name for row in rows))}it serves: {served}",
    )


def _without_aliases(rows: list[ModelRow]) -> list[ModelRow]:
    """The rows that are no other name of a model with a row of its own."""
    own = {row.name for row in rows if row.root == row.name}
    return [row for row in rows if row.root == row.name or row.root not in own]


def _near(wanted: str | None, rows: list[ModelRow]) -> str:
    import difflib

    found = difflib.get_close_matches(wanted or "", [row.name for row in rows], 1, 0)
    return found[0] if found else ""


def kind_of(owner: str) -> Kind:
    """Whose `owned_by` it is."""
    return {"vllm": Kind.VLLM_OMNI, "voxcli": Kind.VOXCLI}.get(owner.lower(), Kind.OTHER)


def voices_of(found: Any) -> tuple[str, ...]:
    """The names of `/v1/audio/voices`: of strings or of rows, in a list or under "voices"."""
    if isinstance(found, dict):
        found = next((found[key] for key in ("voices", "data") if key in found), None)
    names = []
    for each in found[:MAX_LISTED] if isinstance(found, list) else ():
        if isinstance(each, dict):
            each = None if each.get("problem") else each.get("name") or each.get("id")
        if (name := _name(each)) and name != PLACEHOLDER:
            names.append(name)
    return tuple(dict.fromkeys(names))


def fields_of(kind: Kind, release: tuple[int, ...], description: Any) -> frozenset[str]:
    """The fields that a speech request may have.

    vLLM-Omni drops what it does not know, so its release alone decides. Of others, what they do not
    describe is left out, because they may refuse it.

    Args:
        description: the OpenAPI document, or None.
    """
    if kind is not Kind.VLLM_OMNI:
        return OPENAI_FIELDS | _described(description)
    fields = OMNI_FIELDS
    if release and release < STREAMS_EVENTS_SINCE:
        fields -= {"stream", "stream_format"}
    if release and release < EXTRAS_SINCE:
        fields -= {"extra_params"}
    return fields


def has_speech(description: Any) -> bool:
    """Whether an OpenAPI document has the speech call; so it is where there is no document."""
    paths = description.get("paths") if isinstance(description, dict) else None
    return not isinstance(paths, dict) or not paths or SPEECH in paths


def _described(description: Any) -> frozenset[str]:
    """The fields of the speech call in an OpenAPI document."""
    schema = description
    for key in ("paths", SPEECH, "post", "requestBody", "content", "application/json", "schema"):
        schema = schema.get(key) if isinstance(schema, dict) else None
    return frozenset(_properties(description, schema, depth=4))


def _properties(description: Any, schema: Any, depth: int) -> Iterator[str]:
    if not isinstance(schema, dict) or depth == 0:
        return
    reference = schema.get("$ref")
    if isinstance(reference, str) and reference.startswith("#/"):
        found = description
        for key in reference[2:].split("/"):
            found = found.get(key) if isinstance(found, dict) else None
        yield from _properties(description, found, depth - 1)
    properties = schema.get("properties")
    yield from filter(None, map(_name, properties if isinstance(properties, dict) else ()))
    for key in ("anyOf", "oneOf", "allOf"):
        parts = schema.get(key)
        for part in parts[:20] if isinstance(parts, list) else ():
            yield from _properties(description, part, depth - 1)


def _names(found: Any) -> tuple[str, ...]:
    listed = found[:MAX_LISTED] if isinstance(found, list) else ()
    return tuple(filter(None, map(_name, listed)))


def _name(found: Any) -> str:
    """A name as it is; empty where it is none."""
    is_name = isinstance(found, str) and 0 < len(found) <= MAX_NAME and found.isprintable()
    return found if is_name else ""
