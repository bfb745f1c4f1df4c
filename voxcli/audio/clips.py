"""Reads a sound file piece by piece, as mono samples at the rate that is asked.

libsndfile where it knows the format, else ffmpeg where that is installed; the latter also reads the
sound of a video. Holds a piece at a time, however long the file is. Channels are averaged.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import numpy as np
import soundfile

from voxcli.audio.chatter import native_stderr_hidden
from voxcli.audio.ffmpeg import FfmpegError, decoding
from voxcli.audio.files import temporary_file
from voxcli.audio.formats import has_ffmpeg
from voxcli.audio.mp3 import SUFFIX, with_length
from voxcli.audio.read import RATES, SNIFF_BYTES, sniff
from voxcli.audio.resample import EMPTY, Resampler, Samples
from voxcli.closing import Closing
from voxcli.errors import RecordingError, hint_for_file

PIECE = 1 << 14  # samples a read


class ClipReader(Closing):
    """Reads `path` from its start.

    Raises:
        RecordingError: no such file, or nothing here can decode it.
    """

    def __init__(self, path: Path, rate: int) -> None:
        self._pieces = _open(path, rate)
        self._held: Samples = next(self._pieces, EMPTY)  # what cannot be read is noticed here

    def read(self, count: int) -> Samples:
        """The next `count` samples, float32; fewer only at the end."""
        parts, missing = [], count
        while missing > 0 and len(self._held):
            parts.append(self._held[:missing])
            missing -= len(parts[-1])
            self._held = self._held[len(parts[-1]) :]
            if len(self._held) == 0:
                self._held = next(self._pieces, EMPTY)
        return np.concatenate(parts) if parts else EMPTY

    def close(self) -> None:
        """Let go of the file; safe to call twice."""
        self._pieces.close()  # type: ignore[attr-defined]


def _open(path: Path, rate: int) -> Iterator[Samples]:
    """Non-empty pieces."""
    if not path.is_file():
        raise RecordingError(f"no sound file {path}", hint=hint_for_file(path, "check the path"))
    with ExitStack() as opened:
        try:
            source = opened.enter_context(_source(path))
            file = opened.enter_context(soundfile.SoundFile(source))
        except (soundfile.LibsndfileError, OSError) as err:
            if not has_ffmpeg():
                raise RecordingError(
                    f"{path} cannot be decoded: {err}", hint="install ffmpeg, or convert it to wav"
                ) from err
            return _from_ffmpeg(path, rate)
        if file.samplerate not in RATES:
            raise RecordingError(
                f"{path} has {file.samplerate:,} samples a second", hint="export it again"
            )
        return _from_sndfile(file, path, rate, opened.pop_all())


@contextmanager
def _source(path: Path) -> Iterator[Path]:
    """The file, or that of an MP3 that states its length, under a suffix that says what it is."""
    with path.open("rb") as file:
        is_mp3 = sniff(file.read(SNIFF_BYTES)) == "MP3"
        file.seek(0)
        data = file.read() if is_mp3 else b""
    if not is_mp3:
        yield path
        return
    with temporary_file(with_length(data), SUFFIX) as copy:
        yield copy


def _from_sndfile(
    file: soundfile.SoundFile, path: Path, rate: int, opened: ExitStack
) -> Iterator[Samples]:
    with opened:
        resampler = Resampler(file.samplerate, rate)
        while len(block := _block(file, path)):
            mono = block[:, 0] if file.channels == 1 else block.mean(axis=1)
            if len(piece := resampler.push(np.ascontiguousarray(mono, np.float32))):
                yield piece
        if len(rest := resampler.flush()):
            yield rest


def _block(file: soundfile.SoundFile, path: Path) -> Samples:
    try:
        with native_stderr_hidden():
            found: Samples = file.read(PIECE, dtype="float32", always_2d=True)
    except soundfile.LibsndfileError as err:
        raise RecordingError(f"{path} is damaged: {err}", hint="get it again") from err
    return found


def _from_ffmpeg(path: Path, rate: int) -> Iterator[Samples]:
    try:
        with decoding(path, rate=rate) as (_, _, blocks):
            for block in blocks:
                yield block[:, 0]
    except FfmpegError as err:
        raise RecordingError(f"ffmpeg cannot decode {path}: {err.message}") from err
