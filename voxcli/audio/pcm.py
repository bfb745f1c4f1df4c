"""Float samples to integer PCM bytes, and the WAV header around them.

Rounds to nearest and clips, never wraps. Little-endian, mono. Knows nothing about files.
"""

from __future__ import annotations

import struct

import numpy as np
from numpy.typing import NDArray

from voxcli.audio.resample import Samples

BYTES_PER_SAMPLE = {"8": 1, "16": 2, "24": 3, "32f": 4}
UNKNOWN_LENGTH = 0xFFFFFFFF  # what ffmpeg, sox and aplay take for "until the end of the stream"
MAX_WAV_BYTES = 0xFFFFFFFF - 1024  # RIFF sizes are 32 bit; room for the header

_TAG_PCM = 1
_TAG_FLOAT = 3


def as_mono(samples: Samples) -> Samples:
    """Contiguous float32 `[S]`; a wrong rank is our own bug."""
    array = np.ascontiguousarray(samples, dtype=np.float32)
    assert array.ndim == 1, f"mono samples expected, got shape {array.shape}"
    return array


def quantise(samples: Samples, bits: str) -> bytes:
    """float32 `[S]` in [-1, 1] -> PCM bytes; values outside are clipped."""
    if bits == "32f":
        return np.clip(samples, -1.0, 1.0).astype("<f4").tobytes()
    steps = to_integers(samples, int(bits))
    if bits == "8":
        return (steps + 128).astype(np.uint8).tobytes()  # 8-bit WAV is unsigned
    if bits == "16":
        return steps.astype("<i2").tobytes()
    return steps.astype("<i4").view(np.uint8).reshape(-1, 4)[:, :3].tobytes()


def to_integers(samples: Samples, bits: int) -> NDArray[np.int32]:
    """float32 `[S]` -> int32 `[S]` in [-2**(bits-1), 2**(bits-1))."""
    scale = 2 ** (bits - 1)
    # float64: 24-bit steps near full scale are below float32's own rounding after scaling
    scaled = np.rint(samples.astype(np.float64) * scale)
    steps: NDArray[np.int32] = np.clip(scaled, -scale, scale - 1).astype(np.int32)
    return steps


def wav_header(sample_rate: int, bits: str, num_frames: int | None) -> bytes:
    """Everything before the samples.

    Args:
        num_frames: None for a stream whose length is not known.
    """
    width = BYTES_PER_SAMPLE[bits]
    is_float = bits == "32f"
    tag = _TAG_FLOAT if is_float else _TAG_PCM
    form = struct.pack("<HHIIHH", tag, 1, sample_rate, sample_rate * width, width, width * 8)
    chunks = struct.pack("<4sI", b"fmt ", len(form)) + form
    if is_float:  # the standard asks for a fact chunk in all but plain PCM
        frames = UNKNOWN_LENGTH if num_frames is None else num_frames
        chunks += struct.pack("<4sII", b"fact", 4, frames)
    if num_frames is None:
        riff = data = UNKNOWN_LENGTH
    else:
        data = num_frames * width
        riff = 4 + len(chunks) + 8 + data + data % 2
    return (
        struct.pack("<4sI4s", b"RIFF", riff, b"WAVE") + chunks + struct.pack("<4sI", b"data", data)
    )
