"""Any recording to mono float32 samples, judged by its bytes and never by its suffix.

libsndfile reads wav, flac, ogg, opus, mp3 and more; what it does not know goes to ffmpeg where that
is installed. Nothing wraps: integers are scaled by their own width, floats above full scale are
turned down. This module does not know what a recording is for. Letters: `S` samples, `C` channels.
"""

from __future__ import annotations

import io
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from voxcli.audio.chatter import native_stderr_hidden
from voxcli.audio.encode import import_pydub
from voxcli.audio.formats import has_ffmpeg
from voxcli.audio.resample import Samples
from voxcli.errors import RecordingError

MAX_BYTES = 1 << 30  # an hour and a half of CD-quality stereo
ACTIVE_DB = 50.0  # a channel this far under the loudest one is silent, such as unused surround
CANCELLED_DB = 12.0  # a mean this far under the loudest channel: the channels cancel each other

# What a file is by its first bytes: (offset, bytes, name). For messages; libsndfile decides itself.
_SIGNATURES = (
    (4, b"ftyp", "MP4 or M4A"),
    (0, b"\x1a\x45\xdf\xa3", "WebM or Matroska"),
    (0, b"\x30\x26\xb2\x75\x8e\x66\xcf\x11", "WMA or WMV"),
    (0, b"#!AMR", "AMR"),
    (0, b"ID3", "MP3"),
    (0, b"\xff\xf1", "AAC"),
    (0, b"\xff\xf9", "AAC"),
    (0, b"OggS", "Ogg"),
    (0, b"fLaC", "FLAC"),
    (0, b"RIFF", "WAV"),
    (0, b"FORM", "AIFF"),
    (0, b"\x89PNG", "a PNG image"),
    (0, b"\xff\xd8\xff", "a JPEG image"),
    (0, b"%PDF", "a PDF document"),
    (0, b"PK\x03\x04", "a ZIP archive"),
    (0, b"\x1f\x8b", "a gzip archive"),
)
_SNIFF_BYTES = 512
_TEXT_BYTES = bytes(range(32, 256)) + b"\t\r\n"


@dataclass(frozen=True)
class Audio:
    """A decoded recording.

    Attributes:
        samples: float32 `[S]`, mono, in [-1, 1].
        sample_rate: Hz, as in the file.
        name: of the file, for messages.
        format: what it really is, such as "WAV PCM_16".
        channels: in the file.
        downmix: how they became one; empty for mono.
        gain_db: what was turned down because floats went over full scale, else 0.
    """

    samples: Samples
    sample_rate: int
    name: str
    format: str
    channels: int
    downmix: str = ""
    gain_db: float = 0.0

    @property
    def duration_s(self) -> float:
        return len(self.samples) / self.sample_rate


def read_audio(path: str | os.PathLike[str]) -> Audio:
    """Decode a file.

    Raises:
        RecordingError: not there, not readable, no audio, or of a format nothing here decodes.
    """
    path = Path(path)
    if path.is_dir():
        raise RecordingError(f"{path} is a folder", hint="give an audio file")
    try:
        with path.open("rb") as file:
            data = file.read(MAX_BYTES + 1)
    except OSError as err:
        reason = (err.strerror or str(err)).lower()
        raise RecordingError(f"cannot read {path}: {reason}", hint="check the path") from err
    if len(data) > MAX_BYTES:
        size = f"more than {MAX_BYTES / 1e9:.1f} GB"
        raise RecordingError(f"{path} is {size}", hint="cut out the part that you need")
    return decode_audio(data, str(path))


def decode_audio(data: bytes, name: str) -> Audio:
    """Decode a file's bytes.

    Args:
        name: for messages alone.

    Raises:
        RecordingError: as `read_audio`.
    """
    if not data:
        raise RecordingError(f"{name} is an empty file (0 bytes)", hint="give another recording")
    kind = sniff(data)
    frames, rate, container = _decode_sndfile(data) or _decode_ffmpeg(data, name, kind)  # [S, C]
    if not np.isfinite(frames).all():
        raise RecordingError(
            f"{name} has samples that are no numbers (NaN or infinite)", hint="export it again"
        )
    mono, downmix = _downmix(frames)
    peak = float(np.abs(mono).max(initial=0.0))
    over = max(peak, 1.0)
    return Audio(
        samples=mono if over == 1.0 else (mono / over).astype(np.float32),
        sample_rate=rate,
        name=name,
        format=container,
        channels=frames.shape[1],
        downmix=downmix,
        gain_db=round(-20 * float(np.log10(over)), 2) + 0.0,
    )


def sniff(data: bytes) -> str:
    """What the bytes are by their beginning, such as "MP3"; empty when unknown."""
    for offset, magic, kind in _SIGNATURES:
        if data[offset : offset + len(magic)] == magic:
            return kind
    if len(data) > 1 and data[0] == 0xFF and data[1] & 0xE6 in (0xE2, 0xE4, 0xE6):
        return "MP3"
    is_text = not data[:_SNIFF_BYTES].translate(None, _TEXT_BYTES)
    return "text" if is_text else ""


def _decode_sndfile(data: bytes) -> tuple[Samples, int, str] | None:
    """Frames `[S, C]`, rate and format; None where libsndfile cannot read it."""
    import soundfile

    try:
        with native_stderr_hidden(), soundfile.SoundFile(io.BytesIO(data)) as file:
            frames: Samples = file.read(dtype="float32", always_2d=True)
            return frames, file.samplerate, f"{file.format} {file.subtype}"
    except (soundfile.SoundFileError, OSError):
        return None


def _decode_ffmpeg(data: bytes, name: str, kind: str) -> tuple[Samples, int, str]:
    what = f"{name} is {kind or 'in no audio format that voxcli knows'}"
    if kind.startswith(("a ", "text")):
        raise RecordingError(f"{what}, not audio", hint="give a recording, such as a wav file")
    if not has_ffmpeg():
        raise RecordingError(
            f"{what}, which needs ffmpeg and ffprobe to be read",
            hint="install ffmpeg, or convert it to wav, flac, mp3 or ogg",
        )
    pydub = import_pydub()
    try:
        sound = pydub.AudioSegment.from_file(io.BytesIO(data))
    except (pydub.exceptions.CouldntDecodeError, IndexError, KeyError, ValueError, OSError) as err:
        shown = f"{name} is a damaged {kind} file, or has no sound" if kind else f"{what}"
        raise RecordingError(shown, hint="convert it to wav, flac, mp3 or ogg") from err
    scale = float(2 ** (8 * sound.sample_width - 1))
    samples = np.asarray(sound.get_array_of_samples(), np.float32) / np.float32(scale)
    frames = samples.reshape(-1, sound.channels)
    return frames, int(sound.frame_rate), f"{kind or 'other'} (by ffmpeg)"


def _downmix(frames: Samples) -> tuple[Samples, str]:
    """`[S, C]` -> `[S]` and how: the mean of the channels that carry sound, unless they cancel."""
    num_frames, channels = frames.shape
    if channels == 1 or num_frames == 0:
        return np.ascontiguousarray(frames[:, 0]), ""
    levels = _level_db(frames)  # [C]
    loudest = int(levels.argmax())
    active = np.flatnonzero(levels > levels[loudest] - ACTIVE_DB)
    mono = frames[:, active].mean(axis=1, dtype=np.float64).astype(np.float32)
    if _level_db(mono[:, None])[0] < levels[loudest] - CANCELLED_DB:
        return np.ascontiguousarray(frames[:, loudest]), f"channel {loudest + 1} of {channels}"
    if len(active) < channels:
        return mono, f"mean of the {len(active)} of {channels} channels that carry sound"
    return mono, f"mean of {channels} channels"


def _level_db(frames: Samples) -> NDArray[Any]:
    """RMS of each channel in dBFS: `[S, C]` -> `[C]`."""
    power = np.square(frames, dtype=np.float64).mean(axis=0)
    levels: NDArray[Any] = 10 * np.log10(power + 1e-20)
    return levels
