"""ffmpeg as a program beside us, and sound that it decodes, a block at a time.

Its messages go to a file: a pipe that nobody reads while sound is read would be full at 64 kB, and
both sides would wait for ever. Knows no format.
"""

from __future__ import annotations

import signal
import struct
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import IO

import numpy as np

from voxcli.audio.resample import Samples
from voxcli.errors import RecordingError

BLOCK = 1 << 16  # bytes a read
TAIL = 4096  # bytes at the end of its messages in which the reason is looked for
# Sun's AU: the shortest header that states rate and channels, and may leave the length open.
_HEADER = struct.Struct(">4s5I")
# Containers of one file. Playlists and scripts name other files, or addresses to wait for, so none
# is here; for what a container may still refer to there are protocols of this machine alone.
_CONTAINERS = (
    "mov,mp4,m4a,3gp,3g2,mj2,matroska,webm,asf,avi,flv,mpeg,mpegts,mxf,ogg,wav,w64,aiff,au,caf,"
    "mp3,aac,ac3,eac3,flac,amr,amrnb,amrwb,ape,wv,tta,tak,mpc,mpc8,dts,gsm,voc,rm,dsf,sox"
)
_OWN_FILE = ("-protocol_whitelist", "file,pipe,fd", "-format_whitelist", _CONTAINERS)


class FfmpegError(RecordingError):
    """ffmpeg cannot decode it; the message is its own reason."""


Decoded = tuple[int, int, Iterator[Samples]]
if sys.platform == "win32":
    _FLAGS = subprocess.CREATE_NEW_PROCESS_GROUP
else:
    _FLAGS = 0
    _STOPS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


@contextmanager
def decoding(path: Path, *, rate: int | None = None) -> Iterator[Decoded]:
    """The sound of a file: its sample rate in Hz, its channels, and blocks of float32 `[S, C]`.

    Args:
        rate: Hz, and one channel; None means as in the file.

    Raises:
        FfmpegError: it cannot be decoded; also while blocks are taken.
    """
    command = ["ffmpeg", "-nostdin", "-loglevel", "error", *_OWN_FILE, "-i", str(path), "-vn"]
    command += [] if rate is None else ["-ac", "1", "-ar", str(rate)]
    command += ["-c:a", "pcm_f32be", "-f", "au", "-"]
    with tempfile.TemporaryFile() as messages, _started(command, messages) as process:
        assert process.stdout is not None
        head = process.stdout.read(_HEADER.size)
        if len(head) < _HEADER.size:
            process.wait()
            raise FfmpegError(told(messages))
        _, offset, _, _, found_rate, channels = _HEADER.unpack(head)
        process.stdout.read(offset - _HEADER.size)
        yield found_rate, channels, _blocks(process, process.stdout, messages, channels)


@contextmanager
def _started(command: list[str], messages: IO[bytes]) -> Iterator[subprocess.Popen[bytes]]:
    """A program that ends with the block."""
    with ExitStack() as at_end:
        with _signals_later():
            process = start(command, messages, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE)
            at_end.enter_context(process)
            at_end.callback(process.kill)
        yield process


def start(
    command: list[str], messages: IO[bytes], *, stdin: int, stdout: int
) -> subprocess.Popen[bytes]:
    """A program that Ctrl-C and a stop of the terminal do not reach: they are for us alone, who
    may want to finish what is in progress. It ends with its pipes, or killed by us."""
    with _deaf():
        return subprocess.Popen(
            command, stdin=stdin, stdout=stdout, stderr=messages, creationflags=_FLAGS
        )


@contextmanager
def _deaf() -> Iterator[None]:
    """Programs started by this thread in the block never get these signals."""
    if sys.platform == "win32":
        yield
        return
    before = signal.pthread_sigmask(signal.SIG_BLOCK, _STOPS)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


@contextmanager
def _signals_later() -> Iterator[None]:
    """Ctrl-C and SIGTERM at the end of the block: raised between the start of a program and who
    knows of it, they would leave it running."""
    if threading.current_thread() is not threading.main_thread():
        yield  # others get no signals
        return
    numbers: list[int] = []
    kinds = (signal.SIGINT, signal.SIGTERM)
    before = {kind: signal.getsignal(kind) for kind in kinds}
    for kind, handler in before.items():
        if callable(handler):
            signal.signal(kind, lambda number, frame: numbers.append(number))
    try:
        yield
    finally:
        for kind, handler in before.items():
            if callable(handler):
                signal.signal(kind, handler)
        for number in numbers:
            signal.raise_signal(number)


def _blocks(
    process: subprocess.Popen[bytes], stdout: IO[bytes], messages: IO[bytes], channels: int
) -> Iterator[Samples]:
    frame = 4 * channels
    while data := stdout.read(BLOCK // frame * frame or frame):
        whole = data[: len(data) // frame * frame]
        yield np.frombuffer(whole, ">f4").astype(np.float32).reshape(-1, channels)
    if process.wait():
        raise FfmpegError(told(messages))


def told(messages: IO[bytes]) -> str:
    """Why it failed, by what it wrote to this file."""
    messages.seek(max(0, messages.seek(0, 2) - TAIL))
    return last_line(messages.read())


def last_line(said: bytes, otherwise: str = "no reason given") -> str:
    """The last line of what it said, which is why it failed."""
    lines = said.decode(errors="replace").strip().splitlines()
    return lines[-1] if lines else otherwise
