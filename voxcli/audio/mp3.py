"""The length of an MP3 file, counted, where the file states none or another one.

libsndfile takes the length from the first frame's bit rate where no frame says how many follow, and
reads no further: of a stream of a variable rate that may be a fifth. Such a file is given a first
frame that says it. The layout is that of Xing's header, which every encoder writes.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass

SUFFIX = ".mp3"
_KBITS = {  # of Layer III, by whether it is of MPEG 1
    True: (0, 32, 40, 48, 56, 64, 80, 96, 112, 128, 160, 192, 224, 256, 320),
    False: (0, 8, 16, 24, 32, 40, 48, 56, 64, 80, 96, 112, 128, 144, 160),
}
_RATES = (44_100, 48_000, 32_000)  # of MPEG 1; halved in MPEG 2, and again in 2.5
_TAGS = (b"Xing", b"Info")
_HAS_COUNT = 1
MIN_COVERED = 0.9  # of the file, by frames one behind the other; else it is damaged, or no MP3


@dataclass(frozen=True)
class _Frame:
    start: int
    size: int
    is_mpeg_1: bool
    is_mono: bool

    @property
    def tag_start(self) -> int:
        """Where Xing's header is, behind what a decoder needs of the frame."""
        side = (17 if self.is_mono else 32) if self.is_mpeg_1 else (9 if self.is_mono else 17)
        return self.start + 4 + side


def with_length(data: bytes) -> bytes:
    """The same sound, as a file that states its length; unchanged where it does already, or is no
    MP3 of frames that follow each other."""
    frames = list(_frames(data))
    if not frames or sum(frame.size for frame in frames) < MIN_COVERED * len(data):
        return data
    first, tag = frames[0], frames[0].tag_start
    is_tagged = data[tag : tag + 4] in _TAGS
    count = len(frames) - is_tagged
    if is_tagged:
        flags, stated = struct.unpack(">II", data[tag + 4 : tag + 12])
        if flags & _HAS_COUNT and stated == count:
            return data
    sound = data[first.start + is_tagged * first.size :]
    empty = bytearray(data[first.start : first.start + 4].ljust(first.size, b"\0"))
    empty[1] |= 1  # no checksum
    at = tag - first.start
    if at + 12 > first.size:  # the shortest frames have no room for it
        return data
    empty[at : at + 12] = b"Xing" + struct.pack(">II", _HAS_COUNT, count)
    return bytes(empty) + sound


def _frames(data: bytes) -> Iterator[_Frame]:
    at = 0
    if data[:3] == b"ID3" and len(data) > 10:
        size = 0
        for byte in data[6:10]:
            size = size << 7 | byte & 0x7F
        at = 10 + size
    while (frame := _frame_at(data, at)) is not None:
        yield frame
        at += frame.size


def _frame_at(data: bytes, at: int) -> _Frame | None:
    """The whole frame of Layer III that begins there, if one does."""
    head = data[at : at + 4]
    if len(head) < 4 or head[0] != 0xFF or head[1] & 0xE6 != 0xE2:
        return None
    version, kbits, rate = head[1] >> 3 & 3, head[2] >> 4, head[2] >> 2 & 3
    if version == 1 or kbits in (0, 15) or rate == 3:
        return None
    is_mpeg_1 = version == 3
    hertz = _RATES[rate] >> (0 if is_mpeg_1 else 1 if version == 2 else 2)
    factor = 144_000 if is_mpeg_1 else 72_000
    size = factor * _KBITS[is_mpeg_1][kbits] // hertz + (head[2] >> 1 & 1)
    return _Frame(at, size, is_mpeg_1, head[3] >> 6 == 3) if at + size <= len(data) else None
