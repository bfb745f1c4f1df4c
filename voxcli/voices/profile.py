"""A voice profile in memory, and what it may be called."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from voxcli.errors import UsageError, VoiceNotFoundError
from voxcli.utterance import Recording, Utterance, VoiceEncoding

MAX_NAME_CHARS = 64

# Names that mean something else to voxcli or to Windows.
RESERVED = frozenset(
    {"default", "auto", "none", "con", "prn", "aux", "nul"}
    | {f"{port}{number}" for port in ("com", "lpt") for number in range(10)}
)


@dataclass(frozen=True)
class VoiceCard:
    """What a list shows of a profile.

    Attributes:
        sample_rate, text: of its recording; Hz, and the words that are said.
        duration_s: of its recording.
        models: that it is encoded for.
    """

    name: str
    sample_rate: int
    text: str
    created: str
    consent: str
    duration_s: float
    models: tuple[str, ...]
    facts: Mapping[str, Any]


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
    encodings: tuple[VoiceEncoding, ...] = ()
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

    @property
    def card(self) -> VoiceCard:
        return VoiceCard(
            self.name, self.recording.sample_rate, self.recording.text, self.created, self.consent,
            self.duration_s, self.models, self.facts,
        )  # fmt: skip

    def encoded(self, encoding: VoiceEncoding) -> Voice:
        """The same voice with one encoding more, or newer."""
        kept = (
            other
            for other in self.encodings
            if encoding.encoder != other.encoder and encoding.model != other.model
        )
        return replace(self, encodings=(*kept, encoding))

    def apply(self, utterance: Utterance, model_name: str, encoder_checksum: str) -> Utterance:
        """The utterance in this voice: reference, and prompt where the transcript is known.

        Raises:
            VoiceNotFoundError: it is not encoded for this model.
        """
        found = [each for each in self.encodings if each.encoder == encoder_checksum]
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
        return self._heard(utterance, replace(self.recording, encoding=found[0], key=""))

    def recorded(self, utterance: Utterance) -> Utterance:
        """The same with the recording itself, for who encodes nothing."""
        return self._heard(utterance, self.recording)

    def _heard(self, utterance: Utterance, heard: Recording) -> Utterance:
        prompt = heard if heard.text.strip() else None
        return replace(utterance, reference=heard, prompt=prompt)


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


def same_name_key(name: str) -> str:
    """What makes two names the same: case and Unicode form do not count."""
    return unicodedata.normalize("NFC", unicodedata.normalize("NFC", name).casefold())
