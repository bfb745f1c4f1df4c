"""Audio to stdout (`-o -`): a WAV stream, or raw little-endian PCM.

Every chunk is written through at once, in whole samples. The header goes out with the first
samples, so a synthesis that fails before them leaves the pipe empty. It states no length; where
stdout is a file that can be rewound, the true one is put there at the end.
numpy is imported with the first float samples.
"""

from __future__ import annotations

import errno
import os
import stat
import sys
from typing import IO, TYPE_CHECKING, Any, Protocol, Self

from voxcli.audio.formats import FORMATS, STREAM_FORMATS, resolve_format
from voxcli.audio.wav import BYTES_PER_SAMPLE, MAX_WAV_BYTES, wav_header
from voxcli.errors import EXIT_BROKEN_PIPE, OutputError, UsageError, VoxError, reason_of
from voxcli.utterance import Pcm

if TYPE_CHECKING:
    from voxcli.audio.resample import Resampler, Samples

_CLOSED = (errno.EPIPE, errno.ECONNRESET, errno.ESHUTDOWN)
_CLOSED_WINDOWS = (*_CLOSED, errno.EINVAL)  # what Windows says for a pipe without a reader


class ReaderClosedError(VoxError):
    """The program reading our stdout has gone. Not a failure: stop, and say nothing."""

    exit_code = EXIT_BROKEN_PIPE


class _BinaryOut(Protocol):
    def write(self, data: memoryview, /) -> Any: ...
    def flush(self) -> Any: ...


def open_stdout() -> IO[bytes]:
    """Standard output without a buffer.

    A buffer would hold samples back, and complain at interpreter exit when the reader has gone.
    """
    return open(sys.stdout.fileno(), "wb", buffering=0, closefd=False)


def _can_rewind(file: Any) -> bool:
    """Whether it is a regular file, so that its beginning can be written again; not after `>>`."""
    try:
        descriptor = file.fileno()
        is_regular = stat.S_ISREG(os.fstat(descriptor).st_mode)
    except (AttributeError, OSError, ValueError):  # no file of the system's
        return False
    if not is_regular or os.name != "posix":
        return is_regular
    import fcntl

    return not fcntl.fcntl(descriptor, fcntl.F_GETFL) & os.O_APPEND


class StreamWriter:
    """Writes mono chunks to a binary file object as they come.

    Args:
        file: opened for bytes; its `write` may be partial.
        source_rate: of the samples that will be written, in Hz.
        rate: of the stream in Hz; None means the source's.
        bits: "8", "16", "24" or "32f".
        container: "wav" or "raw" (samples alone; 16 bits is s16le).
    """

    def __init__(
        self,
        file: _BinaryOut,
        source_rate: int,
        *,
        rate: int | None = None,
        bits: str | int | None = None,
        container: str = "wav",
    ) -> None:
        if container not in STREAM_FORMATS:
            hint = f"to a pipe use {' or '.join(STREAM_FORMATS)}; other formats need a file name"
            raise UsageError(f"'{container}' cannot be streamed", hint=hint)
        self.bits = resolve_format("wav", bits).bits or "16"
        self.sample_rate = FORMATS["wav"].choose_rate(source_rate, rate)
        self.num_frames = 0
        self._file: Any = file
        self._has_header = container == "raw"
        self._header_at: int | None = None  # where it is, if it can be written again
        self._source_rate = source_rate
        self._resampler: Resampler | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: object, *_: object) -> None:
        if kind is None:
            self.close()

    def write(self, samples: Samples | Pcm) -> None:
        """Send float32 `[S]` on, or integers where the stream has 16 bits and the source's rate.

        Raises:
            ReaderClosedError: nobody reads any more.
            OutputError: the system refused, for instance a full disk behind a redirection.
        """
        if isinstance(samples, Pcm):
            assert (self.bits, self.sample_rate) == ("16", self._source_rate)
            self._send(samples.data)
            return
        from voxcli.audio.pcm import as_mono
        from voxcli.audio.resample import Resampler

        if self._resampler is None:
            self._resampler = Resampler(self._source_rate, self.sample_rate)
        self._send(self._quantised(self._resampler.push(as_mono(samples))))

    def close(self) -> None:
        """Send what the resampler still holds and state the length; does not close the file."""
        if self._resampler is not None:
            self._send(self._quantised(self._resampler.flush()))
        if self._header_at is not None:
            self._state_length(self._header_at)

    def _state_length(self, header_at: int) -> None:
        num_bytes = self.num_frames * BYTES_PER_SAMPLE[self.bits]
        if num_bytes > MAX_WAV_BYTES:
            return
        if num_bytes % 2:
            self._write(b"\0")
        self._file.seek(header_at)
        self._write(wav_header(self.sample_rate, self.bits, self.num_frames))
        self._file.seek(0, os.SEEK_END)

    def _quantised(self, samples: Samples) -> bytes:
        from voxcli.audio.pcm import quantise

        return quantise(samples, self.bits)

    def _send(self, data: bytes) -> None:
        if not data:
            return
        self.num_frames += len(data) // BYTES_PER_SAMPLE[self.bits]
        if not self._has_header:
            data = wav_header(self.sample_rate, self.bits, None) + data
            self._has_header = True
            if _can_rewind(self._file):
                self._header_at = self._file.tell()
        self._write(data)

    def _write(self, data: bytes) -> None:
        try:
            self._write_all(memoryview(data))
        except OSError as err:
            closed = _CLOSED_WINDOWS if os.name == "nt" else _CLOSED
            if err.errno in closed:
                raise ReaderClosedError("the reader of the audio stream has closed it") from err
            reason = reason_of(err)
            raise OutputError(
                f"cannot write audio to stdout: {reason}", hint="check where it goes"
            ) from err

    def _write_all(self, view: memoryview) -> None:
        while view:
            written = self._file.write(view)
            if written is None:
                raise OSError(errno.EAGAIN, "the pipe is set to non-blocking and is full")
            view = view[written:]
        self._file.flush()
