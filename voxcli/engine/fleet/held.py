"""Chunks of a speech that may not leave yet: a long one is held in a temporary file."""

from __future__ import annotations

import tempfile
from dataclasses import replace
from typing import IO

import numpy as np

from voxcli.errors import OutputError, reason_of
from voxcli.utterance import AudioChunk

IN_MEMORY_BYTES = 16 << 20  # of samples of one speech: 87 s at 48 kHz


class Held:
    """See the module. Samples are float32."""

    def __init__(self) -> None:
        self._chunks: list[AudioChunk] = []  # without samples, once they are in the file
        self._sizes: list[int] = []
        self._num_bytes = 0
        self._file: IO[bytes] | None = None

    def append(self, chunk: AudioChunk) -> None:
        """Raises OutputError where the file cannot be written."""
        self._chunks.append(chunk)
        self._sizes.append(len(chunk.samples))
        self._num_bytes += chunk.samples.nbytes
        try:
            if self._file is not None:
                self._put(-1)
            elif self._num_bytes > IN_MEMORY_BYTES:
                self._file = tempfile.TemporaryFile(prefix="voxcli-")  # noqa: SIM115 closed by `take`
                for at in range(len(self._chunks)):
                    self._put(at)
        except OSError as err:
            raise OutputError(
                f"speech cannot be held in {tempfile.gettempdir()}: {reason_of(err)}",
                hint="make room there, or set TMPDIR to another folder",
            ) from err

    def _put(self, at: int) -> None:
        """Move the samples of a chunk to the end of the file."""
        assert self._file is not None
        chunk = self._chunks[at]
        self._file.write(np.ascontiguousarray(chunk.samples, np.float32).data)
        self._chunks[at] = replace(chunk, samples=chunk.samples[:0].copy())

    def take(self) -> list[AudioChunk]:
        """All of them, and nothing is held any more. Samples in the file are read when they are
        used; it is gone with the last chunk."""
        chunks, sizes, file = self._chunks, self._sizes, self._file
        self._chunks, self._sizes, self._num_bytes, self._file = [], [], 0, None
        if file is None or not sum(sizes):
            return chunks
        with file:
            file.flush()
            samples = np.memmap(file, np.float32, "r", shape=(sum(sizes),))
        ends = np.cumsum(sizes)
        return [
            replace(chunk, samples=samples[end - size : end])
            for chunk, size, end in zip(chunks, sizes, ends, strict=True)
        ]

    def clear(self) -> None:
        """Throw them away; always safe."""
        if self._file is not None:
            self._file.close()
        self._chunks, self._sizes, self._num_bytes, self._file = [], [], 0, None
