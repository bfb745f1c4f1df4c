"""Encoders: float chunks in, an audio file at the given path out; and the check that reads it back.

Three of them behind `Encoder`: our own WAV (no time stamps, so same samples give the same bytes),
libsndfile (flac, mp3, ogg, opus) and ffmpeg (m4a, m4b, aac, wma). They know
nothing about names, rates or atomic renames; `write.py` does.
"""

from __future__ import annotations

import errno
import os
import tempfile
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from subprocess import DEVNULL, PIPE
from typing import IO, Protocol

import numpy as np

from voxcli.audio import pcm, wav
from voxcli.audio.chatter import native_stderr_hidden
from voxcli.audio.ffmpeg import FfmpegError, decoding, start, told
from voxcli.audio.files import beside, create
from voxcli.audio.formats import AudioFormat
from voxcli.audio.resample import Samples
from voxcli.audio.tags import Tags, as_ffmetadata, image_format, is_converted
from voxcli.errors import OutputError

BLOCK = 8192  # samples per libsndfile call; Vorbis uses stack in proportion to the block
LOSSY_BITRATE = "128k"  # of a mono voice: transparent, and every player takes it
FFMPEG_REPEATABLE = ("-fflags", "+bitexact", "-flags:a", "+bitexact")  # no time or version stamps
# Lossy codecs behind ffmpeg pad whole frames at both ends (AAC 1024, WMA up to 2048 samples).
FFMPEG_SLACK = 4 * 2048


class Encoder(Protocol):
    """Writes one file. `close` completes it and is safe to call twice; `discard` only lets go."""

    def write(self, samples: Samples) -> None: ...
    def close(self) -> None: ...
    def discard(self) -> None: ...


class WavEncoder:
    """PCM or float WAV, written as it comes; the sizes are filled in at the end."""

    def __init__(self, path: Path, sample_rate: int, bits: str) -> None:
        self._sample_rate = sample_rate
        self._bits = bits
        self._num_frames = 0
        self._file: IO[bytes] = open(path, "r+b", buffering=0)  # noqa: SIM115 (closed by us)
        self._write(wav.wav_header(sample_rate, bits, 0))

    def write(self, samples: Samples) -> None:
        total = (self._num_frames + len(samples)) * wav.BYTES_PER_SAMPLE[self._bits]
        if total > wav.MAX_WAV_BYTES:
            raise OutputError("a WAV file cannot hold more than 4 GiB", hint="write flac instead")
        self._write(pcm.quantise(samples, self._bits))
        self._num_frames += len(samples)

    def close(self) -> None:
        if self._file.closed:
            return
        if self._num_frames * wav.BYTES_PER_SAMPLE[self._bits] % 2:
            self._write(b"\0")  # RIFF chunks are padded to an even size
        self._file.seek(0)
        self._write(wav.wav_header(self._sample_rate, self._bits, self._num_frames))
        self._file.close()

    def discard(self) -> None:
        self._file.close()

    def _write(self, data: bytes) -> None:
        view = memoryview(data)
        while view:  # an unbuffered write may be partial, notably just before the disk is full
            view = view[self._file.write(view) :]


class SndfileEncoder:
    """flac, mp3, ogg and opus through libsndfile."""

    def __init__(self, path: Path, sample_rate: int, audio_format: AudioFormat) -> None:
        import soundfile

        self._bits = int(audio_format.bits) if audio_format.bits else None
        self._error: type[Exception] = soundfile.LibsndfileError
        with self._explained():
            self._file = soundfile.SoundFile(
                path, "w", sample_rate, 1, audio_format.codec, format=audio_format.container
            )

    def write(self, samples: Samples) -> None:
        if self._bits:
            # libsndfile truncates floats to integers; we round
            data = pcm.to_integers(samples, self._bits) << (32 - self._bits)
        else:
            data = np.clip(samples, -1.0, 1.0)
        with self._explained():
            for start in range(0, len(data), BLOCK):
                self._file.write(data[start : start + BLOCK])

    def close(self) -> None:
        with self._explained():
            self._file.close()

    def discard(self) -> None:
        try:
            self._file.close()
        except self._error:
            pass  # the file is thrown away; what failed has been raised already

    def _explained(self) -> _Explained:
        return _Explained(self._error)


class _Explained:
    """Turns libsndfile's errors into OSError, so that one place words them for the user."""

    def __init__(self, kind: type[Exception]) -> None:
        self._kind = kind

    def __enter__(self) -> None: ...

    def __exit__(self, kind: object, err: BaseException | None, trace: object) -> None:
        if isinstance(err, self._kind):
            raise OSError(0, str(err).rstrip(".")) from err


class FfmpegEncoder:
    """m4a, m4b, aac and wma: ffmpeg encodes the samples as they come.

    They have no header, for that of a WAV file ends at 4 GiB: twelve hours at 48 kHz.
    """

    def __init__(
        self, path: Path, sample_rate: int, audio_format: AudioFormat, tags: Tags | None = None
    ) -> None:
        self._path = path
        self._format = audio_format
        self._beside: list[Path] = []  # what ffmpeg reads besides the samples
        self._messages = tempfile.TemporaryFile()  # noqa: SIM115 (closed by us)
        try:
            command = ["ffmpeg", "-nostdin", "-loglevel", "error", "-y", "-f", "s16le", "-ar"]
            command += [str(sample_rate), "-ac", "1", "-i", "pipe:0"]
            command += self._tagged(tags, sample_rate) if tags else []
            command += ["-c:a", audio_format.codec, "-b:a", LOSSY_BITRATE, *FFMPEG_REPEATABLE]
            command += [*audio_format.options, "-f", audio_format.container, str(path)]
            self._process = start(command, self._messages, stdin=PIPE, stdout=DEVNULL)
        except BaseException:
            self._remove()
            raise

    def write(self, samples: Samples) -> None:
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(pcm.quantise(samples, "16"))
        except BrokenPipeError:
            self._end()
            raise

    def close(self) -> None:
        try:
            self._end()
        finally:
            self._remove()

    def discard(self) -> None:
        self._process.kill()
        assert self._process.stdin is not None
        with suppress(OSError):  # the file is thrown away; what failed has been raised already
            self._process.stdin.close()
        self._process.wait()
        self._remove()

    def _end(self) -> None:
        """Let ffmpeg complete the file, and say why it could not."""
        assert self._process.stdin is not None
        with suppress(BrokenPipeError):
            self._process.stdin.close()
        if self._process.wait():
            reason = told(self._messages)
            if os.strerror(errno.ENOSPC).lower() in reason.lower():
                raise OSError(errno.ENOSPC, reason)
            raise OutputError(
                f"ffmpeg cannot write {self._format.name}: {reason}",
                hint="write wav or flac, or check 'ffmpeg -encoders'",
            )

    def _remove(self) -> None:
        self._messages.close()
        for path in self._beside:
            path.unlink(missing_ok=True)

    def _tagged(self, tags: Tags, sample_rate: int) -> list[str]:
        """What gives the file its tags and its cover."""
        words = [
            "-f",
            "ffmetadata",
            "-i",
            self._laid("tags", as_ffmetadata(tags, sample_rate).encode()),
        ]
        taken = ["-map", "0:a", "-map_metadata", "1", "-map_chapters", "1"]
        if tags.cover is None:
            return [*words, *taken]
        picture = ["-f", image_format(tags.cover), "-i", self._laid("cover", tags.cover)]
        codec = "png" if is_converted(tags.cover) else "copy"
        shown = ["-map", "2:v", "-c:v", codec, "-frames:v", "1", "-disposition:v", "attached_pic"]
        return [*words, *picture, *taken, *shown]

    def _laid(self, kind: str, data: bytes) -> str:
        """The name of a file beside ours, with these bytes."""
        path = beside(self._path, kind)
        create(path)
        self._beside.append(path)
        path.write_bytes(data)
        return str(path)


def open_encoder(
    path: Path, sample_rate: int, audio_format: AudioFormat, tags: Tags | None = None
) -> Encoder:
    """An encoder writing into the existing empty file `path`; `tags` for `has_marks` formats."""
    if audio_format.encoder == "wav":
        assert audio_format.bits is not None, audio_format
        return WavEncoder(path, sample_rate, audio_format.bits)
    if audio_format.encoder == "sndfile":
        return SndfileEncoder(path, sample_rate, audio_format)
    return FfmpegEncoder(path, sample_rate, audio_format, tags)


@dataclass(frozen=True)
class Measured:
    """What a file holds when it is decoded again."""

    num_frames: int
    sample_rate: int
    peak: float
    rms: float
    is_finite: bool


def measure(
    path: Path, audio_format: AudioFormat, tell: Callable[[int], None] = lambda num_frames: None
) -> Measured:
    """Decode the whole file.

    Args:
        tell: how many samples there were so far.

    Raises:
        OutputError: it does not decode.
    """
    num_frames, peak, energy, sample_rate = 0, 0.0, 0.0, 0
    with native_stderr_hidden():
        for block, sample_rate in _decode(path, audio_format):  # noqa: B007 (the last is used)
            num_frames += len(block)
            peak = max(peak, float(np.abs(block).max(initial=0.0)))
            energy += float(np.square(block, dtype=np.float64).sum())
            tell(num_frames)
    return Measured(
        num_frames=num_frames,
        sample_rate=sample_rate,
        peak=peak,
        rms=float(np.sqrt(energy / max(num_frames, 1))),
        is_finite=bool(np.isfinite(energy)),
    )


def _decode(path: Path, audio_format: AudioFormat) -> Iterator[tuple[Samples, int]]:
    """Blocks and their rate; none of them may be empty but the first."""
    try:
        if audio_format.encoder == "ffmpeg":
            with decoding(path) as (rate, _, blocks):
                for block in blocks:
                    yield block[:, 0], rate
            return
        import soundfile

        with soundfile.SoundFile(path) as file:
            yield np.zeros(0, np.float32), file.samplerate
            for block in file.blocks(blocksize=1 << 16, dtype="float32"):
                yield block, file.samplerate
    except FfmpegError as err:
        raise OutputError(f"the written {audio_format.name} does not decode: {err}") from err
    except RuntimeError as err:  # LibsndfileError is one
        raise OutputError(f"the written {audio_format.name} does not decode: {err}") from err
