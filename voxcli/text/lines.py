"""Lines of a pipe or a terminal as they arrive, read by a thread of their own.

Every line is decoded by itself, so one that cannot be is lost alone. Knows nothing of what lines
say.
"""

from __future__ import annotations

import os
import queue
import threading
from dataclasses import dataclass

from voxcli.errors import TextError, UsageError
from voxcli.text.decode import decode_text

MAX_LINE_BYTES = 1 << 20
NUM_AHEAD = 64  # lines that wait; the writer of the pipe is held up by more
READ_BYTES = 1 << 16


@dataclass(frozen=True)
class Line:
    """One line without its end.

    Attributes:
        number: from 1.
        error: why it cannot be read, in place of a text.
    """

    number: int
    text: str = ""
    error: TextError | None = None


class LineReader:
    """Reads a file descriptor to its end.

    Args:
        descriptor: of a pipe, a terminal or a file; not closed.
        encoding: None for UTF-8.
        source: its name in messages.

    Raises:
        UsageError: lines cannot be told apart in this encoding.
    """

    def __init__(
        self, descriptor: int, *, encoding: str | None = None, source: str = "stdin"
    ) -> None:
        if encoding is not None and _newline(encoding) != b"\n":
            raise UsageError(
                f"--encoding {encoding} cannot be read line by line",
                hint=f"pipe it through: iconv -f {encoding} -t UTF-8",
            )
        self.is_over = False  # the last line has been taken
        self._descriptor = descriptor
        self._encoding = encoding
        self._source = source
        self._lines: queue.Queue[Line | None] = queue.Queue(NUM_AHEAD)
        threading.Thread(target=self._read, name="lines", daemon=True).start()

    def get(self, timeout_s: float) -> Line | None:
        """The next line; None when none came in time or there are no more (`is_over`)."""
        if self.is_over:
            return None
        try:
            line = self._lines.get(timeout=timeout_s) if timeout_s else self._lines.get_nowait()
        except queue.Empty:
            return None
        self.is_over = line is None
        return line

    @property
    def has_waiting(self) -> bool:
        """Whether `get` would answer at once."""
        return not self._lines.empty()

    def _read(self) -> None:
        # NOTE: not sys.stdin: its lock, held by a waiting thread, stops the interpreter's exit
        number, rest = 0, b""
        while data := self._read_some():
            *whole, rest = (rest + data).split(b"\n")
            for line in whole:
                number += 1
                self._lines.put(self._decode(number, line))
            if len(rest) > MAX_LINE_BYTES:
                rest = rest[: MAX_LINE_BYTES + 1]  # refused when its end comes
        if rest:
            self._lines.put(self._decode(number + 1, rest))
        self._lines.put(None)

    def _read_some(self) -> bytes:
        try:
            return os.read(self._descriptor, READ_BYTES)
        except OSError:  # a terminal that was closed
            return b""

    def _decode(self, number: int, line: bytes) -> Line:
        source = f"line {number} of {self._source}"
        try:
            if len(line) > MAX_LINE_BYTES:
                raise TextError(f"{source} is longer than 1 MiB", hint="break it into lines")
            return Line(number, decode_text(line, encoding=self._encoding, source=source))
        except TextError as err:
            return Line(number, error=err)


def _newline(encoding: str) -> bytes:
    try:
        return "\n".encode(encoding)
    except (LookupError, ValueError) as err:
        hint = "use a name such as utf-8, cp1252 or gb18030"
        raise UsageError(f"--encoding '{encoding}' is unknown", hint=hint) from err
