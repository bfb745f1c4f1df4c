"""The header of a WAV file or stream, and its limits. No numpy: a pipe begins with it."""

from __future__ import annotations

import struct

BYTES_PER_SAMPLE = {"8": 1, "16": 2, "24": 3, "32f": 4}
UNKNOWN_LENGTH = 0xFFFFFFFF  # what ffmpeg, sox and aplay take for "until the end of the stream"
MAX_WAV_BYTES = 0xFFFFFFFF - 1024  # RIFF sizes are 32 bit; room for the header

_TAG_PCM = 1
_TAG_FLOAT = 3


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
