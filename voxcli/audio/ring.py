"""Samples on their way from the thread that makes them to the thread that plays them.

Memory is allocated once and there is no lock: each side writes its own counter and only reads the
other's, and a counter moves after the samples have. One writer, one reader. Knows no device.
"""

from __future__ import annotations

import numpy as np

from voxcli.audio.resample import Samples


class SampleRing:
    """A queue of float32 samples with a fixed capacity."""

    def __init__(self, capacity: int) -> None:
        self.capacity = capacity
        self._memory: Samples = np.zeros(capacity, np.float32)
        self._num_in = 0  # written by the side that pushes, alone
        self._num_out = 0  # written by the side that takes, alone

    def __len__(self) -> int:
        return self._num_in - self._num_out

    @property
    def room(self) -> int:
        """Samples that `push` has space for."""
        return self.capacity - len(self)

    def push(self, samples: Samples) -> int:
        """Append what fits of `samples`; returns how many that were."""
        count = min(len(samples), self.room)
        start = self._num_in % self.capacity
        first = min(count, self.capacity - start)
        self._memory[start : start + first] = samples[:first]
        self._memory[: count - first] = samples[first:count]
        self._num_in += count
        return count

    def take(self, most: int) -> Samples:
        """Remove and return the oldest samples, at most `most`."""
        count = max(0, min(most, len(self)))
        start = self._num_out % self.capacity
        first = min(count, self.capacity - start)
        taken = np.concatenate((self._memory[start : start + first], self._memory[: count - first]))
        self._num_out += count
        return taken
