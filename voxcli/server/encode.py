"""Speech as the bytes of a response: piece by piece while it is made, or a whole checked file.

Formats are those of OpenAI's API. An encoder and a file belong to one thread at a time; see
`strand.py`. Knows nothing about HTTP or jobs.
"""

from __future__ import annotations

import io
from dataclasses import dataclass
from typing import IO, Any, Protocol

import numpy as np

from voxcli.audio import pcm, wav
from voxcli.audio.encode import BLOCK
from voxcli.audio.formats import FORMATS, AudioFormat, resolve_format
from voxcli.audio.resample import Resampler, Samples
from voxcli.audio.write import AudioWriter
from voxcli.errors import OutputError, UsageError
from voxcli.server.scratch import Scratch

PCM_RATE = 24_000  # Hz; what OpenAI's clients take a pcm response for
MEDIA_TYPES = {
    "mp3": "audio/mpeg",
    "opus": "audio/ogg",
    "aac": "audio/aac",
    "flac": "audio/flac",
    "wav": "audio/wav",
    "pcm": "audio/pcm",
}
STREAMED = ("wav", "pcm", "mp3", "flac", "opus")


class StreamEncoder(Protocol):
    """Float chunks at the model's rate to bytes; `finish` gives the rest; `close` always safe."""

    def encode(self, samples: Samples) -> bytes: ...
    def finish(self) -> bytes: ...
    def close(self) -> None: ...


@dataclass(frozen=True)
class Coding:
    """A response format at a sample rate.

    Attributes:
        name: a key of `MEDIA_TYPES`.
        rate: Hz of what the client gets.
    """

    name: str
    rate: int

    @property
    def media_type(self) -> str:
        return MEDIA_TYPES[self.name]

    @property
    def is_light(self) -> bool:
        """Whether a second of it is encoded in a fraction of a millisecond."""
        return self.name in ("wav", "pcm")

    def check_stream(self) -> None:
        """Refuse to stream a format that exists only as a whole file.

        Raises:
            UsageError: with those that can be streamed.
        """
        if self.name not in STREAMED:
            raise UsageError(
                f"{self.name} cannot be streamed",
                hint=f"use {', '.join(STREAMED)}, or leave 'stream' out",
            )

    def stream(self, source_rate: int) -> StreamEncoder:
        """An encoder whose bytes may leave as they come; nothing is open before its first call."""
        if self.is_light:
            return _PcmStream(source_rate, self.rate, has_header=self.name == "wav")
        return _SndfileStream(source_rate, self.rate, resolve_format(self.name))


def choose_coding(name: str, source_rate: int, rate: int | None) -> Coding:
    """The format a client asked for.

    Args:
        rate: Hz; None means the model's own, and 24 kHz for pcm, whose clients expect that.

    Raises:
        UsageError: the format cannot have that rate, or its encoder is not on this machine.
    """
    if name == "pcm":
        return Coding(name, FORMATS["wav"].choose_rate(PCM_RATE, rate))
    try:
        audio_format = resolve_format(name)
    except OutputError as err:
        raise UsageError(f"{name} cannot be written here: {err.message}") from err
    return Coding(name, audio_format.choose_rate(source_rate, rate))


class WholeFile:
    """A complete file, read back before the first byte of it is given; on disk, not in memory."""

    def __init__(self, coding: Coding, source_rate: int) -> None:
        self._coding = coding
        self._source_rate = source_rate
        self._scratch: Scratch | None = None
        self._writer: AudioWriter | None = None
        self._file: IO[bytes] | None = None

    def write(self, samples: Samples) -> None:
        """As `AudioWriter.write`."""
        self._open().write(samples)

    def commit(self) -> None:
        """As `AudioWriter.commit`; from now on it can be read."""
        path = self._open().commit().path
        self._file = open(path, "rb")  # noqa: SIM115 (closed by us)
        if self._coding.name == "pcm":
            self._file.seek(len(wav.wav_header(self._coding.rate, "16", 0)))

    def read(self, num_bytes: int) -> bytes:
        """The next bytes; none at the end."""
        assert self._file is not None
        return self._file.read(num_bytes)

    def close(self) -> None:
        """Leave nothing behind; always safe."""
        if self._file is not None:
            self._file.close()
        if self._writer is not None:
            self._writer.abort()
        if self._scratch is not None:
            self._scratch.close()

    def _open(self) -> AudioWriter:
        if self._writer is None:
            self._scratch = Scratch()
            name = "wav" if self._coding.name == "pcm" else self._coding.name
            path = self._scratch.path / f"speech.{name}"
            self._writer = AudioWriter(path, self._source_rate, rate=self._coding.rate)
            self._writer.__enter__()
        return self._writer


class _PcmStream:
    """16-bit samples, behind a WAV header of unknown length where asked for."""

    def __init__(self, source_rate: int, rate: int, *, has_header: bool) -> None:
        self._resampler = Resampler(source_rate, rate)
        self._header = wav.wav_header(rate, "16", None) if has_header else b""

    def encode(self, samples: Samples) -> bytes:
        return self._put(self._resampler.push(samples))

    def finish(self) -> bytes:
        return self._put(self._resampler.flush())

    def close(self) -> None: ...

    def _put(self, samples: Samples) -> bytes:
        header, self._header = self._header, b""
        return header + pcm.quantise(samples, "16")


class _Drain(io.RawIOBase):
    """A file that libsndfile writes and that is read as it grows.

    Seeking back to correct a header is accepted and ignored: those bytes have left. Decoders take
    the header as written first, which says that the length is not known.
    """

    def __init__(self) -> None:
        self._fresh = bytearray()
        self._num_left = 0
        self._position = 0

    def writable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._position

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        base = (0, self._position, self._num_left + len(self._fresh))[whence]
        self._position = base + offset
        return self._position

    def write(self, data: Any) -> int:
        data = bytes(data)
        start = self._position - self._num_left
        kept = data[max(0, -start) :]
        start = max(0, start)
        self._fresh[start : start + len(kept)] = kept
        self._position += len(data)
        return len(data)

    def take(self) -> bytes:
        data = bytes(self._fresh)
        self._num_left += len(data)
        self._fresh.clear()
        return data


class _SndfileStream:
    """mp3, flac and opus through libsndfile into a `_Drain`."""

    def __init__(self, source_rate: int, rate: int, audio_format: AudioFormat) -> None:
        self._resampler = Resampler(source_rate, rate)
        self._rate = rate
        self._format = audio_format
        self._bits = int(audio_format.bits) if audio_format.bits else None
        self._drain = _Drain()
        self._file: Any = None

    def encode(self, samples: Samples) -> bytes:
        self._put(self._resampler.push(samples))
        return self._drain.take()

    def finish(self) -> bytes:
        self._put(self._resampler.flush())
        self._file.close()
        return self._drain.take()

    def close(self) -> None:
        if self._file is not None:
            self._file.close()

    def _put(self, samples: Samples) -> None:
        if self._file is None:
            import soundfile

            self._file = soundfile.SoundFile(
                self._drain, "w", self._rate, 1, self._format.codec, format=self._format.container
            )
        data: Any = np.clip(samples, -1.0, 1.0)
        if self._bits:
            data = pcm.to_integers(samples, self._bits) << (32 - self._bits)
        for start in range(0, len(data), BLOCK):
            self._file.write(data[start : start + BLOCK])
