"""Answers with speech, from bytes to samples: events, WAV, raw PCM or a whole file of another kind.

What an answer is, its Content-Type says, whatever was asked. Its rate is in a WAV header, or beside
raw PCM; it is never assumed. Knows no connection: bytes go in as they come.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

import msgspec
import numpy as np

from voxcli.engine.openai.failures import in_one_line
from voxcli.engine.openai.sse import EventParser
from voxcli.engine.openai.waves import (
    EMPTY,
    MAX_RATE,
    MIN_RATE,
    CutError,
    PcmReader,
    Samples,
    WavReader,
)
from voxcli.errors import EngineError, RecordingError, UnavailableError

EVENTS = "text/event-stream"
WAV = ("audio/wav", "audio/x-wav", "audio/wave", "audio/vnd.wave")
PCM = ("audio/pcm", "audio/x-pcm", "audio/raw")
FILES = ("audio/mpeg", "audio/mp3", "audio/flac", "audio/x-flac", "audio/ogg", "audio/opus")
MAX_FILE = 64 << 20  # bytes of a whole file
MAX_S = 600.0  # of sound in it
_TOKENS = "x-vllm-omni-output-tokens"


class Reader(Protocol):
    """Bytes of an answer to samples at `rate`, Hz, which is known with the first of them.

    Attributes:
        num_tokens: of output, where the server says how many.
        is_done: the answer has said that it is at its end.
    """

    num_tokens: int | None
    is_done: bool

    @property
    def rate(self) -> int | None: ...

    def feed(self, data: bytes) -> Samples:
        """New samples; raises ValueError, VoxError for what is no speech."""
        ...

    def finish(self) -> Samples:
        """The rest, when no byte follows; raises CutError where some should."""
        ...


def reader_of(headers: Mapping[str, str], name: str) -> Reader:
    """Who reads an answer with status 200.

    Args:
        headers: of the answer, names in lower case.
        name: what messages call the server.

    Raises:
        EngineError: its Content-Type is none of speech, it is compressed, or its rate is nowhere.
    """
    if packed := headers.get("content-encoding", "").strip().lower().removeprefix("identity"):
        raise EngineError(
            f"{name} compresses its answers ({in_one_line(packed)}), which it was not asked to",
            hint="turn that off there, or in a proxy before it",
        )
    kind, _, rest = headers.get("content-type", "").lower().partition(";")
    kind = kind.strip()
    rate = _stated_rate(rest, headers)
    if kind == EVENTS:
        return EventReader(rate, name)
    tokens = headers.get(_TOKENS, "")
    num_tokens = int(tokens) if tokens.isdecimal() and len(tokens) < 10 else None
    if kind in WAV:
        return PlainReader(WavReader(), num_tokens)
    if kind in PCM:
        return PlainReader(_pcm_reader(rate, name), num_tokens)
    if kind in FILES:
        return FileReader(num_tokens)
    raise EngineError(
        f"{name} answers with {in_one_line(kind) or 'something without a type'}, which is not "
        "speech",
        hint="check the URL",
    )


def _stated_rate(parameters: str, headers: Mapping[str, str]) -> int | None:
    """Hz, as the type's parameters or a header state it."""
    stated = dict(word.strip().partition("=")[::2] for word in parameters.split(";") if "=" in word)
    text = stated.get("rate") or headers.get("x-sample-rate", "")
    found = int(text) if text.isdecimal() and len(text) < 10 else 0
    return found if MIN_RATE <= found <= MAX_RATE else None


def _pcm_reader(rate: int | None, name: str) -> PcmReader:
    if rate is None:
        raise EngineError(
            f"{name} answers with raw samples and does not say at which rate",
            hint="make it answer in WAV; an older server may need an upgrade",
        )
    return PcmReader(rate)


class PlainReader:
    """WAV or raw samples as they are."""

    is_done = False

    def __init__(self, wave: WavReader | PcmReader, num_tokens: int | None = None) -> None:
        self._wave = wave
        self.num_tokens = num_tokens

    @property
    def rate(self) -> int | None:
        return self._wave.rate

    def feed(self, data: bytes) -> Samples:
        return self._wave.feed(data)

    def finish(self) -> Samples:
        return self._wave.finish()


class FileReader:
    """A whole file of another kind."""

    is_done = False

    def __init__(self, num_tokens: int | None = None) -> None:
        self.num_tokens = num_tokens
        self.rate: int | None = None
        self._data = bytearray()

    def feed(self, data: bytes) -> Samples:
        self._data += data
        if len(self._data) > MAX_FILE:
            raise ValueError("its file is too long")
        return EMPTY

    def finish(self) -> Samples:
        from voxcli.audio.read import decode_audio

        if not self._data:
            return EMPTY
        try:
            found = decode_audio(bytes(self._data), "its file", max_s=MAX_S)
        except RecordingError as err:
            raise ValueError(err.message) from err
        self.rate = found.sample_rate
        return found.samples


class _Event(msgspec.Struct):
    type: str = ""
    audio: bytes | None = None  # of base64
    response_format: str | None = None
    usage: dict[str, Any] | None = None
    error: Any = None


def _event(data: bytes) -> _Event:
    try:
        return msgspec.json.decode(data, type=_Event)
    except RecursionError as err:
        raise ValueError("an event is nested too deeply") from err


class EventReader:
    """Speech in server-sent events: deltas, then done or an error.

    Args:
        rate: of raw samples, where the answer states it.
        name: what messages call the server.
    """

    def __init__(self, rate: int | None, name: str) -> None:
        self.num_tokens: int | None = None
        self.is_done = False
        self._events = EventParser()
        self._stated_rate = rate
        self._name = name
        self._wave: WavReader | PcmReader | None = None

    @property
    def rate(self) -> int | None:
        return None if self._wave is None else self._wave.rate

    def feed(self, data: bytes) -> Samples:
        found = [self._take(event) for event in self._events.feed(data)]
        return np.concatenate(found) if found else EMPTY

    def finish(self) -> Samples:
        if not self.is_done:
            raise CutError("it ends without having said so")
        return EMPTY if self._wave is None else self._wave.finish()

    def _take(self, data: bytes) -> Samples:
        if self.is_done:
            return EMPTY
        if data.strip() == b"[DONE]":
            self.is_done = True
            return EMPTY
        event = _event(data)
        if event.error is not None or event.type.rpartition(".")[2] == "error":
            said = event.error
            said = said.get("message", "") if isinstance(said, dict) else said
            why = in_one_line(str(said or "it does not say why"))
            raise UnavailableError(f"{self._name} failed: {why}")
        if event.type.endswith(".done"):
            self._count(event.usage or {})
            self.is_done = True
        if event.audio is None:
            return EMPTY
        return self._hear(event.audio, event.response_format)

    def _hear(self, data: bytes, form: str | None) -> Samples:
        if self._wave is None:
            if not data:
                return EMPTY
            is_raw = form == "pcm"
            self._wave = _pcm_reader(self._stated_rate, self._name) if is_raw else WavReader()
        return self._wave.feed(data)

    def _count(self, usage: dict[str, Any]) -> None:
        found = usage.get("output_tokens")
        if isinstance(found, int) and found >= 0:
            self.num_tokens = found
