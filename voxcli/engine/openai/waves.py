"""Samples from the bytes of a WAV stream or of raw PCM, however they are split. No HTTP.

Letter: `S` samples.
"""

from __future__ import annotations

import struct

import numpy as np
from numpy.typing import NDArray

Samples = NDArray[np.float32]
EMPTY: Samples = np.zeros(0, np.float32)

MAX_HEADER = 1 << 16  # bytes before the samples
MIN_RATE, MAX_RATE = 4_000, 384_000  # Hz
MAX_CHANNELS = 8
# NOTE: a stream whose length was not known says 0, -1 or the most that fits, less a header or so
_LEAST_UNKNOWN = 0x7FFF_0000
_PCM, _FLOAT, _EXTENSIBLE = 1, 3, 0xFFFE


class CutError(ValueError):
    """The bytes end in the middle."""


class PcmReader:
    """Interleaved little-endian samples to mono.

    Args:
        rate: Hz.
        bits: 16, 24 or 32.
        is_float: of 32 bits.
    """

    def __init__(
        self, rate: int, bits: int = 16, *, num_channels: int = 1, is_float: bool = False
    ) -> None:
        self.rate: int | None = rate
        self._width = bits // 8
        self._is_float = is_float
        self._num_channels = num_channels
        self._rest = b""

    def feed(self, data: bytes) -> Samples:
        """The samples that are complete, float32 `[S]`."""
        data = self._rest + data if self._rest else data
        whole = len(data) - len(data) % (self._width * self._num_channels)
        self._rest = data[whole:]
        samples = self._numbers(data[:whole])
        if self._num_channels == 1:
            return samples
        mono: Samples = samples.reshape(-1, self._num_channels).mean(axis=1, dtype=np.float32)
        return mono

    def finish(self) -> Samples:
        """Nothing more comes.

        Raises:
            CutError: a sample is not complete.
        """
        if self._rest:
            raise CutError("it ends in the middle of a sample")
        return EMPTY

    def _numbers(self, data: bytes) -> Samples:
        if self._is_float:
            return np.frombuffer(data, "<f4").astype(np.float32)  # the guard looks for NaN
        if self._width == 3:
            wide = np.zeros((len(data) // 3, 4), np.uint8)
            wide[:, 1:] = np.frombuffer(data, np.uint8).reshape(-1, 3)
            numbers = wide.view("<i4").reshape(-1)
        else:
            numbers = np.frombuffer(data, f"<i{self._width}")
        scale = 2.0 ** (8 * numbers.dtype.itemsize - 1)
        return (numbers / scale).astype(np.float32)


class WavReader:
    """A WAV file or stream to mono; its rate is known once the header is there.

    Some servers send a whole file for each sentence, one behind the other: these are read as one.
    """

    def __init__(self) -> None:
        self._head = bytearray()  # of the file, or of what stands behind its samples
        self._pcm: PcmReader | None = None
        self._num_left: int | None = None  # bytes of samples to come; None until the end
        self._num_skipped = 0  # bytes behind them that are passed over

    @property
    def rate(self) -> int | None:
        """Hz; None before the header is complete."""
        return None if self._pcm is None else self._pcm.rate

    def feed(self, data: bytes) -> Samples:
        """The samples that are complete, float32 `[S]`.

        Raises:
            ValueError: no WAV, or of a kind that is not read.
        """
        if self._pcm is None:
            self._head += data
            data = self._begin()
            if self._pcm is None:
                return EMPTY
        if self._num_left is None:
            return self._pcm.feed(data)
        data, behind = data[: self._num_left], data[self._num_left :]
        self._num_left -= len(data)
        samples = self._pcm.feed(data)
        if not self._is_next(behind):
            return samples
        self._pcm.finish()
        self._pcm = None
        return np.concatenate((samples, self.feed(b"")))

    def finish(self) -> Samples:
        """Nothing more comes; no byte at all is no audio.

        Raises:
            CutError: it ends before its end.
        """
        if self._pcm is None:
            if self._head:
                raise CutError("it ends in the middle of its header")
            return EMPTY
        if self._num_left:
            raise CutError(f"{self._num_left} bytes of its samples are missing")
        return self._pcm.finish()

    def _is_next(self, behind: bytes) -> bool:
        """Whether another file begins behind the samples; what else stands there is passed over."""
        self._head += behind
        while True:
            skipped = min(self._num_skipped, len(self._head))
            del self._head[:skipped]
            self._num_skipped -= skipped
            if len(self._head) < 8:
                return False
            if self._head.startswith(b"RIFF"):
                return True
            (size,) = struct.unpack_from("<I", self._head, 4)
            self._num_skipped = 8 + size + size % 2

    def _begin(self) -> bytes:
        """Read the header if it is complete; the bytes after it."""
        head = bytes(self._head)
        if not b"RIFF".startswith(head[:4]) or not b"WAVE".startswith(head[8:12]):
            raise ValueError("it does not begin as a WAV file")
        at, form = 12, b""
        while len(head) >= at + 8:
            name, size = struct.unpack_from("<4sI", head, at)
            at += 8
            if name == b"data":
                self._pcm = _reader(form)
                self._num_left = size if 0 < size < _LEAST_UNKNOWN else None
                self._num_skipped = size % 2
                self._head.clear()
                return head[at:]
            if size > MAX_HEADER:
                raise ValueError("its header is too long")
            if name == b"fmt ":
                form = head[at : at + size]
            at += size + size % 2
        if len(head) > MAX_HEADER:
            raise ValueError("its header is too long")
        return b""


def _reader(form: bytes) -> PcmReader:
    """Who reads samples of this format chunk."""
    if len(form) < 16:
        raise ValueError("its header does not say what its samples are")
    tag, num_channels, rate, _, _, bits = struct.unpack_from("<HHIIHH", form)
    if tag == _EXTENSIBLE and len(form) >= 26:
        (tag,) = struct.unpack_from("<H", form, 24)
    if not MIN_RATE <= rate <= MAX_RATE:
        raise ValueError(f"its sample rate is {rate} Hz")
    if not 1 <= num_channels <= MAX_CHANNELS:
        raise ValueError(f"it has {num_channels} channels")
    if (tag, bits) not in ((_PCM, 16), (_PCM, 24), (_PCM, 32), (_FLOAT, 32)):
        raise ValueError(f"its samples are of {bits} bits and kind {tag}")
    return PcmReader(rate, bits, num_channels=num_channels, is_float=tag == _FLOAT)
