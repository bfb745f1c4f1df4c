"""Any recording to mono float32 samples, judged by its bytes and never by its suffix.

libsndfile reads wav, flac, ogg, opus, mp3 and more; what it does not know goes to ffmpeg where that
is installed. Nothing wraps: integers are scaled by their own width, floats above full scale are
turned down. A recording is decoded in blocks, which become mono at once, and to a limit: a small
file may hold hours of silence in many channels. This module does not know what a recording is for.
Letters: `S` samples, `C` channels.
"""

from __future__ import annotations

import io
import os
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from voxcli.audio.chatter import native_stderr_hidden
from voxcli.audio.ffmpeg import FfmpegError, decoding
from voxcli.audio.files import temporary_file
from voxcli.audio.formats import has_ffmpeg
from voxcli.audio.mp3 import SUFFIX, with_length
from voxcli.audio.resample import Samples
from voxcli.errors import RecordingError, hint_for_file, reason_of, told_apart

MAX_BYTES = 1 << 30  # an hour and a half of CD-quality stereo
MAX_S = 7200.0  # of a recording: an hour at 48 kHz is 0.7 GB as float32
MAX_CHANNELS = 64
RATES = range(1_000, 384_001)  # Hz; a header may state any, which makes an hour of samples a moment
UNKNOWN_FORMAT = "in no audio format that voxcli knows"
BLOCK = 1 << 18  # values decoded at once, of all channels together
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
SNIFF_BYTES = 512  # tell what the bytes are
_UNKNOWN = 1 << 62  # libsndfile's length of a stream that does not state it is about as large
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
        reason = reason_of(err)
        hint = hint_for_file(path, "check the path")
        raise RecordingError(f"cannot read {path}: {reason}", hint=hint) from err
    if len(data) > MAX_BYTES:
        size = f"more than {MAX_BYTES / 1e9:.1f} GB"
        raise RecordingError(f"{path} is {size}", hint="cut out the part you need")
    return decode_audio(data, str(path))


def decode_audio(data: bytes, name: str, *, max_s: float = MAX_S) -> Audio:
    """Decode a file's bytes.

    Args:
        name: for messages alone.
        max_s: a longer recording is refused, before it is decoded where its length is stated.

    Raises:
        RecordingError: as `read_audio`, or longer than `max_s`.
    """
    if not data:
        raise RecordingError(f"{name} is an empty file (0 bytes)", hint="give another recording")
    import soundfile

    is_mp3 = sniff(data) == "MP3"
    if is_mp3:
        data = with_length(data)
    try:
        by_sndfile = _mp3_by_sndfile if is_mp3 else _by_sndfile
        mono, sound, downmix = _to_mono(lambda: by_sndfile(data), name, max_s)
    except (soundfile.SoundFileError, OSError):  # also in its middle
        kind = _kind_for_ffmpeg(data, name)
        mono, sound, downmix = _to_mono(lambda: _by_ffmpeg(data, name, kind), name, max_s)
    peak = float(np.abs(mono).max(initial=0.0))
    over = max(peak, 1.0)
    return Audio(
        samples=mono if over == 1.0 else (mono / over).astype(np.float32),
        sample_rate=sound.rate,
        name=name,
        format=sound.format,
        channels=sound.channels,
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
    is_text = not data[:SNIFF_BYTES].translate(None, _TEXT_BYTES)
    return "text" if is_text else ""


@dataclass(frozen=True)
class _Sound:
    """A recording that is being decoded.

    Attributes:
        duration_s: where the file states it.
        blocks: float32 `[S, C]`, never empty.
    """

    rate: int
    channels: int
    format: str
    duration_s: float | None
    blocks: Iterator[Samples]


_Opener = Callable[[], AbstractContextManager[_Sound]]  # each time from the beginning


def _by_sndfile(data: bytes) -> AbstractContextManager[_Sound]:
    return _sndfile_sound(io.BytesIO(data))


@contextmanager
def _mp3_by_sndfile(data: bytes) -> Iterator[_Sound]:
    """From a file, since libsndfile 1.2 knows many by that suffix alone."""
    with temporary_file(data, SUFFIX) as path, _sndfile_sound(path) as sound:
        yield sound


@contextmanager
def _sndfile_sound(source: io.BytesIO | Path) -> Iterator[_Sound]:
    import soundfile

    with native_stderr_hidden(), soundfile.SoundFile(source) as file:
        duration_s = file.frames / file.samplerate if 0 < file.frames < _UNKNOWN else None
        yield _Sound(
            file.samplerate, file.channels, f"{file.format} {file.subtype}", duration_s,
            _sndfile_blocks(file, max(1, BLOCK // file.channels)),
        )  # fmt: skip


def _sndfile_blocks(file: Any, size: int) -> Iterator[Samples]:
    while len(block := file.read(size, dtype="float32", always_2d=True)):
        yield block


def _kind_for_ffmpeg(data: bytes, name: str) -> str:
    """What libsndfile cannot read, by its first bytes; refused where ffmpeg is no help."""
    kind = sniff(data)
    what = f"{name} is {kind or UNKNOWN_FORMAT}"
    if kind.startswith(("a ", "text")):
        raise RecordingError(f"{what}, not audio", hint="give a recording, such as a wav file")
    if not has_ffmpeg():
        raise RecordingError(
            f"{what}, which needs ffmpeg and ffprobe to be read",
            hint="install ffmpeg, or convert it to wav, flac, mp3 or ogg",
        )
    return kind


@contextmanager
def _by_ffmpeg(data: bytes, name: str, kind: str) -> Iterator[_Sound]:
    with temporary_file(data) as path:
        try:
            with decoding(path) as (rate, channels, blocks):
                yield _Sound(rate, channels, f"{kind or 'other'} (by ffmpeg)", None, blocks)
        except FfmpegError as err:
            what = f"a damaged {kind} file, or has no sound" if kind else UNKNOWN_FORMAT
            raise RecordingError(
                f"{name} is {what}", hint="convert it to wav, flac, mp3 or ogg"
            ) from err


def _to_mono(opened: _Opener, name: str, max_s: float) -> tuple[Samples, _Sound, str]:
    """A recording `[S]`, what it was, and how its channels became one: the mean of those that carry
    sound, unless they cancel.

    What carries sound is known at the end alone, so that more than one channel is read twice.
    """
    with opened() as sound:
        _check_size(sound, name, max_s)
        if sound.channels == 1:
            return _join(block[:, 0] for block in _checked(sound, name, max_s)), sound, ""
        power = sum(
            (
                np.square(block, dtype=np.float64).sum(axis=0)
                for block in _checked(sound, name, max_s)
            ),
            np.zeros(sound.channels),
        )
    num_channels = sound.channels
    levels = _decibels(power)
    loudest = int(levels.argmax())
    active = np.flatnonzero(levels > levels[loudest] - ACTIVE_DB)
    with opened() as again:
        mean = _join(
            block[:, active].mean(axis=1, dtype=np.float64).astype(np.float32)
            for block in again.blocks
        )
    if _decibels(np.square(mean, dtype=np.float64).sum()) < levels[loudest] - CANCELLED_DB:
        with opened() as again:
            one = _join(block[:, loudest] for block in again.blocks)
        return one, sound, f"channel {loudest + 1} of {num_channels}"
    if len(active) < num_channels:
        how = f"mean of the {len(active)} of {num_channels} channels that carry sound"
        return mean, sound, how
    return mean, sound, f"mean of {num_channels} channels"


def _check_size(sound: _Sound, name: str, max_s: float) -> None:
    if sound.rate not in RATES:
        raise RecordingError(
            f"{name} has {sound.rate:,} samples a second, and voxcli reads {RATES[0]:,} to "
            f"{RATES[-1]:,}",
            hint="export it again",
        )
    if sound.duration_s is not None and sound.duration_s > max_s:
        length, _ = told_apart(sound.duration_s, max_s)
        raise _too_long(name, f"{length} s long", max_s)
    if sound.channels > MAX_CHANNELS:
        raise RecordingError(
            f"{name} has {sound.channels} channels, at most {MAX_CHANNELS} can be read",
            hint="export it with one or two",
        )


def _checked(sound: _Sound, name: str, max_s: float) -> Iterator[Samples]:
    """The blocks, as long as they are numbers and not too many."""
    num_samples = 0
    for block in sound.blocks:
        num_samples += len(block)
        if num_samples > max_s * sound.rate:
            raise _too_long(name, f"longer than {max_s:g} s", max_s)
        if not np.isfinite(block).all():
            raise RecordingError(
                f"{name} has samples that are not numbers (NaN or infinite)", hint="export it again"
            )
        yield block


def _too_long(name: str, what: str, max_s: float) -> RecordingError:
    return RecordingError(
        f"{name} is {what}, at most {max_s:g} s can be used", hint="cut out the part you need"
    )


def _join(parts: Iterator[Samples]) -> Samples:
    """One array that holds no part of a block alive."""
    return np.concatenate([np.zeros(0, np.float32), *(np.array(part) for part in parts)])


def _decibels(power: Any) -> NDArray[Any]:
    levels: NDArray[Any] = 10 * np.log10(power + 1e-20)
    return levels
