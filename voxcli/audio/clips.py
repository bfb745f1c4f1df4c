"""Reads a sound file piece by piece, as mono samples at the rate that is asked.

libsndfile where it knows the format, else ffmpeg where that is installed; the latter also reads the
sound of a video. Holds a piece at a time, however long the file is. Channels are averaged.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import soundfile

from voxcli.audio.ffmpeg import FfmpegError, decoding
from voxcli.audio.formats import has_ffmpeg
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
    try:
        file = soundfile.SoundFile(path)
    except soundfile.LibsndfileError as err:
        if not has_ffmpeg():
            raise RecordingError(
                f"{path} cannot be decoded: {err}", hint="install ffmpeg, or convert it to wav"
            ) from err
        return _from_ffmpeg(path, rate)
    return _from_sndfile(file, rate)


def _from_sndfile(file: soundfile.SoundFile, rate: int) -> Iterator[Samples]:
    with file:
        resampler = Resampler(file.samplerate, rate)
        for block in file.blocks(PIECE, dtype="float32", always_2d=True):
            mono = block[:, 0] if file.channels == 1 else block.mean(axis=1)
            if len(piece := resampler.push(np.ascontiguousarray(mono, np.float32))):
                yield piece
        if len(rest := resampler.flush()):
            yield rest


def _from_ffmpeg(path: Path, rate: int) -> Iterator[Samples]:
    try:
        with decoding(path, rate=rate) as (_, _, blocks):
            for block in blocks:
                yield block[:, 0]
    except FfmpegError as err:
        raise RecordingError(f"ffmpeg cannot decode {path}: {err.message}") from err
