"""Faster or slower speech with the pitch kept, as a stream.

WSOLA: W. Verhelst and M. Roelands, "An overlap-add technique based on waveform similarity (WSOLA)
for high quality time-scale modification of speech", ICASSP 1993. Own code, because the best
library found (python-stretch 0.3.1, Signalsmith) takes whole recordings only and, as a phase
vocoder, smears voice pulses: crest factor of a male voice 3.4 -> 2.9, here 3.4, at the same
spectral distance.

Knows nothing about files or models. Letters: `S` samples; `W` window, `H` = W/2 output hop.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from voxcli.audio.resample import EMPTY, Samples
from voxcli.config import check_speed

WINDOW_S = 0.032  # two periods of a 62 Hz voice, shorter than most phones
SEARCH_S = 0.010  # each way; covers a whole period of a 50 Hz voice
COARSE_RATE = 12_000  # Hz; the first search looks at this rate, the second at all samples nearby


class TimeStretch:
    """Stretches a mono stream; `speed` 2.0 halves the duration.

    Output lags input by about 50 ms of it; the total is exactly `round(S / speed)` samples, however
    the input is cut into chunks. A speed of 1 returns the samples untouched.

    Args:
        rate: sample rate in Hz.
        speed: from 0.25 to 4; under 0.5 sounds are repeated so often that they ring, above 2 short
            ones are passed over.
    """

    def __init__(self, rate: int, speed: float) -> None:
        self.speed = check_speed(speed)
        self._hop = round(rate * WINDOW_S / 2)
        self._search = round(rate * SEARCH_S)
        self._step = max(1, rate // COARSE_RATE)
        angles = 2 * np.pi * np.arange(2 * self._hop) / (2 * self._hop)
        self._window = (0.5 - 0.5 * np.cos(angles)).astype(np.float32)  # two halves add up to 1
        self._num_in = 0
        self._num_out = 0
        # Positions below count from `_hop` zeros put before the input, so that the first sample
        # lies in the middle of the first window.
        self._buffer: Samples = np.zeros(self._hop, np.float32)
        self._buffer_start = 0
        self._frame = 0
        self._next_natural = 0  # where the last piece would go on if nothing were stretched
        self._tail: Samples = np.zeros(self._hop, np.float32)  # second half of the last piece

    def push(self, samples: Samples) -> Samples:
        """float32 `[S]` -> the stretched samples that are ready."""
        self._num_in += len(samples)
        if self.speed == 1.0:
            self._num_out += len(samples)
            return samples
        self._buffer = np.concatenate([self._buffer, samples])
        return self._run()

    def flush(self) -> Samples:
        """The rest; nothing may be pushed afterwards."""
        missing = round(self._num_in / self.speed) - self._num_out
        if missing <= 0:
            return EMPTY
        reach = int((missing + 4 * self._hop) * self.speed) + 4 * self._hop + 2 * self._search
        self._buffer = np.concatenate([self._buffer, np.zeros(reach, np.float32)])
        return self._run(missing)

    def _run(self, limit: int | None = None) -> Samples:
        pieces: list[Samples] = []
        ready = 0
        while self._has_frame() and (limit is None or ready < limit):
            piece = self._next_piece()
            if self._frame > 1:  # the first half window covers only the zeros put in front
                pieces.append(piece)
                ready += len(piece)
        self._forget()
        joined = np.concatenate(pieces)[:limit] if pieces else EMPTY
        self._num_out += len(joined)
        return joined

    def _ideal(self) -> int:
        return round(self._frame * self._hop * self.speed)

    def _has_frame(self) -> bool:
        last = max(self._ideal() + self._search, self._next_natural) + 2 * self._hop
        return last <= self._buffer_start + len(self._buffer)

    def _next_piece(self) -> Samples:
        start = self._best_start() if self._frame else 0
        windowed = self._view(start, 2 * self._hop) * self._window
        piece: Samples = self._tail + windowed[: self._hop]
        self._tail = windowed[self._hop :]
        self._next_natural = start + self._hop
        self._frame += 1
        return piece

    def _best_start(self) -> int:
        """Start of the piece nearest in shape to the natural continuation."""
        target = self._view(self._next_natural, 2 * self._hop)
        low = max(self._ideal() - self._search, self._buffer_start)
        high = self._ideal() + self._search
        field = self._view(low, high - low + 2 * self._hop)
        coarse = _best_lag(field[:: self._step], target[:: self._step]) * self._step
        first = max(coarse - self._step, 0)
        last = min(coarse + self._step, high - low)
        return low + first + _best_lag(field[first : last + 2 * self._hop], target)

    def _view(self, start: int, length: int) -> Samples:
        offset = start - self._buffer_start
        assert offset >= 0, f"position {start} is before the buffer at {self._buffer_start}"
        return self._buffer[offset : offset + length]

    def _forget(self) -> None:
        keep = min(self._next_natural, self._ideal() - self._search)
        drop = keep - self._buffer_start
        if drop > 0:
            self._buffer = self._buffer[drop:]
            self._buffer_start = keep


def _best_lag(field: Samples, target: Samples) -> int:
    """The shift of `target` in `field` with the highest normalised correlation."""
    product: NDArray[np.float64] = np.correlate(field, target, "valid").astype(np.float64)
    energy = np.concatenate([[0.0], np.cumsum(np.square(field, dtype=np.float64))])
    energy = energy[len(target) :][: len(product)] - energy[: len(product)]
    return int(np.argmax(product / np.sqrt(np.maximum(energy, 1e-9))))


def stretch(samples: Samples, rate: int, speed: float) -> Samples:
    """A whole recording at once; the same samples as the stream gives."""
    stream = TimeStretch(rate, speed)
    return np.concatenate([stream.push(samples), stream.flush()])
