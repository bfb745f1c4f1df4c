"""A file of what was heard: samples wait beside their writer until they have been played.

So a file that ends with an interruption holds what the listener heard, and nothing of what was made
ahead. Knows no device; someone says how far the listener is.
"""

from __future__ import annotations

from collections import deque

from voxcli.audio.resample import Samples
from voxcli.audio.write import AudioWriter, WrittenAudio


class HeardFile:
    """Writes samples to an open `AudioWriter` as they are heard."""

    def __init__(self, writer: AudioWriter) -> None:
        self._writer = writer
        self._waiting: deque[Samples] = deque()
        self._num_written = 0

    def push(self, samples: Samples) -> None:
        """Samples at the writer's source rate that will be heard."""
        self._waiting.append(samples)

    def heard(self, heard_s: float) -> None:
        """Write up to `heard_s` seconds after the first sample."""
        self._write(round(heard_s * self._writer.source_rate) - self._num_written)

    def heard_all(self) -> None:
        """Write all that waits."""
        self._write(sum(map(len, self._waiting)))

    def commit(self) -> WrittenAudio | None:
        """Give the file its name; None, and no file, when nothing was heard.

        Raises:
            SynthesisError, OutputError, OutputExistsError: as `AudioWriter.commit`.
        """
        return self._writer.commit() if self._num_written else None

    def _write(self, count: int) -> None:
        while count > 0 and self._waiting:
            samples = self._waiting.popleft()
            if len(samples) > count:
                self._waiting.appendleft(samples[count:])
                samples = samples[:count]
            self._writer.write(samples)
            self._num_written += len(samples)
            count -= len(samples)
