"""StreamWriter: what a pipe receives."""

from __future__ import annotations

import errno
import io
import os
import subprocess
import sys

import numpy as np
import pytest
import soundfile
from needs import PATIENCE_S

from voxcli.audio.resample import Samples
from voxcli.audio.write import ReaderClosedError, StreamWriter
from voxcli.errors import OutputError, UsageError

RATE = 24_000
TONE: Samples = (0.5 * np.sin(2 * np.pi * 220 * np.arange(RATE) / RATE)).astype(np.float32)


class Pipe(io.RawIOBase):
    """Takes a few bytes a call, as a full pipe does, and fails with `error` after `room` bytes."""

    def __init__(self, room: int = 1 << 30, error: int = errno.EPIPE) -> None:
        self.data = b""
        self.num_flushes = 0
        self._room = room
        self._error = error

    def writable(self) -> bool:
        return True

    def write(self, data: object) -> int:
        taken = bytes(data)[:777]  # type: ignore[call-overload]
        if len(self.data) + len(taken) > self._room:
            raise OSError(self._error, os.strerror(self._error))
        self.data += taken
        return len(taken)

    def flush(self) -> None:
        self.num_flushes += 1


def test_wav_stream_has_the_unknown_length_header() -> None:
    pipe = Pipe()
    with StreamWriter(pipe, RATE) as writer:
        writer.write(TONE)
    assert pipe.data[:4] == b"RIFF"
    assert pipe.data[4:8] == b"\xff\xff\xff\xff"
    assert pipe.data[36:44] == b"data\xff\xff\xff\xff"
    assert len(pipe.data) == 44 + 2 * len(TONE)
    read, rate = soundfile.read(io.BytesIO(pipe.data), dtype="float32")
    assert rate == RATE
    assert np.abs(read - TONE).max() <= 2**-16 + 1e-7


def test_raw_stream_is_samples_alone() -> None:
    pipe = Pipe()
    with StreamWriter(pipe, RATE, container="raw") as writer:
        writer.write(TONE)
    assert np.abs(np.frombuffer(pipe.data, "<i2") / 2**15 - TONE).max() <= 2**-16 + 1e-7


@pytest.mark.parametrize("size", [1, 7, 1000, RATE])
@pytest.mark.parametrize("rate", [None, 16_000])
def test_bytes_do_not_depend_on_chunk_sizes(size: int, rate: int | None) -> None:
    whole, pieces = Pipe(), Pipe()
    with StreamWriter(whole, RATE, rate=rate, container="raw") as writer:
        writer.write(TONE[:5000])
    with StreamWriter(pieces, RATE, rate=rate, container="raw") as writer:
        for start in range(0, 5000, size):
            writer.write(TONE[start : min(start + size, 5000)])
            assert len(pieces.data) % 2 == 0
    assert len(whole.data) == len(pieces.data) == 2 * round(5000 * (rate or RATE) / RATE)
    gap = np.frombuffer(whole.data, "<i2").astype(int) - np.frombuffer(pieces.data, "<i2")
    assert np.abs(gap).max() <= (0 if rate is None else 1)  # the resampler rounds in float32


def test_every_chunk_is_flushed() -> None:
    pipe = Pipe()
    writer = StreamWriter(pipe, RATE)
    for number in range(1, 4):
        writer.write(TONE[:100])
        assert pipe.num_flushes == number


def test_nothing_is_sent_before_the_first_sample() -> None:
    pipe = Pipe()
    with StreamWriter(pipe, RATE) as writer:
        writer.write(TONE[:0])
    assert pipe.data == b""


def test_closed_reader_is_told_apart_from_a_failure() -> None:
    with pytest.raises(ReaderClosedError) as caught:
        StreamWriter(Pipe(room=1000), RATE).write(TONE)
    assert caught.value.exit_code == 141
    with pytest.raises(OutputError, match="no space left"):
        StreamWriter(Pipe(room=1000, error=errno.ENOSPC), RATE).write(TONE)


def test_format_that_cannot_be_streamed_is_refused() -> None:
    with pytest.raises(UsageError, match="wav or raw"):
        StreamWriter(Pipe(), RATE, container="mp3")


def test_reader_that_leaves_early_causes_no_noise() -> None:
    code = (
        "import numpy as np, sys\n"
        "from voxcli.audio.write import StreamWriter, ReaderClosedError, open_stdout\n"
        "writer = StreamWriter(open_stdout(), 24000)\n"
        "try:\n"
        "    while True: writer.write(np.zeros(2400, np.float32))\n"
        "except ReaderClosedError as err:\n"
        "    sys.exit(err.exit_code)\n"
    )
    with subprocess.Popen(
        [sys.executable, "-c", code], stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as child:
        assert child.stdout is not None
        assert child.stderr is not None
        assert len(child.stdout.read(1000)) == 1000
        child.stdout.close()
        assert child.wait(timeout=PATIENCE_S) == 141
        assert child.stderr.read() == b""
