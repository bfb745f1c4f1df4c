"""Sample-rate conversion as a stream: chunks in, chunks out, the total exact to one sample.

Wraps soxr (libsoxr, "HQ"); knows nothing about files. Letters: `S` samples.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

Samples = NDArray[np.float32]
EMPTY: Samples = np.zeros(0, np.float32)
BLOCK = 1 << 15


class Resampler:
    """Converts mono float32 chunks from one rate to another; equal rates pass through.

    The result may overshoot the input's peak by a little, so the writer still clips.
    """

    def __init__(self, source_rate: int, target_rate: int) -> None:
        self.source_rate = source_rate
        self.target_rate = target_rate
        self._stream = None
        if source_rate != target_rate:
            import soxr

            self._stream = soxr.ResampleStream(source_rate, target_rate, 1, dtype="float32")

    def push(self, samples: Samples) -> Samples:
        """float32 `[S]` at the source rate -> what is ready at the target rate."""
        return self._convert(samples, is_last=False)

    def flush(self) -> Samples:
        """The rest; nothing may be pushed afterwards."""
        return self._convert(EMPTY, is_last=True)

    def _convert(self, samples: Samples, *, is_last: bool) -> Samples:
        if self._stream is None:
            return samples  # a flush passes the empty array on
        result: Samples = self._stream.resample_chunk(samples, last=is_last)
        return result


def resampled_blocks(samples: Samples, source_rate: int, target_rate: int) -> Iterator[Samples]:
    """A whole recording, float32 `[S]`, at another rate, in blocks."""
    resampler = Resampler(source_rate, target_rate)
    for first in range(0, len(samples), BLOCK):
        yield resampler.push(samples[first : first + BLOCK])
    yield resampler.flush()


def resample(samples: Samples, source_rate: int, target_rate: int) -> Samples:
    """A whole recording, float32 `[S]`, at another rate."""
    resampler = Resampler(source_rate, target_rate)
    return np.concatenate((resampler.push(samples), resampler.flush()))
