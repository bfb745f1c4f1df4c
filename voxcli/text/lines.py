"""Lines of a pipe or a terminal as they arrive, read by a thread of their own.

Every line is decoded by itself, so one that cannot be is lost alone. A line whose writer takes its
time is handed on in parts, where the caller knows parts; else nothing is known of what lines say.
"""

from __future__ import annotations

import os
import queue
import select
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass

from voxcli.errors import TextError, UsageError
from voxcli.text.decode import decode_text

MAX_LINE_BYTES = 1 << 20
NUM_AHEAD = 64  # lines that wait; the writer of the pipe is held up by more
READ_BYTES = 1 << 16
PATIENCE_S = 0.02  # a part waits so long for the rest of its line, which may be on its way


@dataclass(frozen=True)
class Line:
    """One line without its end.

    Attributes:
        number: from 1.
        is_part: more of the line follows, be it nothing but its end.
        is_rest: parts of the line came before.
        error: why it cannot be read, in place of a text.
    """

    number: int
    text: str = ""
    error: TextError | None = None
    is_part: bool = False
    is_rest: bool = False


class LineReader:
    """Reads a file descriptor to its end.

    Args:
        descriptor: of a pipe, a terminal or a file; not closed.
        encoding: None for UTF-8.
        source: its name in messages.
        whole_length: how many characters of a line without its end can be handed on; None waits for
            the end of each.

    Raises:
        UsageError: lines cannot be told apart in this encoding.
    """

    def __init__(
        self,
        descriptor: int,
        *,
        encoding: str | None = None,
        source: str = "stdin",
        whole_length: Callable[[str], int] | None = None,
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
        self._whole_length = whole_length
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
        number, rest, is_rest = 1, b"", False
        part = b""  # of the rest, which can be handed on
        part_s = 0.0  # when it was there, on `time.monotonic`
        while True:
            if part and not self._has_more(part_s + PATIENCE_S):
                self._lines.put(self._decode(number, part, is_part=True, is_rest=is_rest))
                rest, is_rest = rest[len(part) :], True
                part = self._part_of(rest)
                continue
            if not (data := self._read_some()):
                break
            *whole, rest = (rest + data).split(b"\n")
            for line in whole:
                self._lines.put(self._decode(number, line, is_rest=is_rest))
                number, part, is_rest = number + 1, b"", False
            if len(rest) > MAX_LINE_BYTES:
                rest = rest[: MAX_LINE_BYTES + 1]  # refused when its end comes
            elif found := self._part_of(rest):
                part_s = part_s if part else time.monotonic()
                part = found
        if rest:
            self._lines.put(self._decode(number, rest, is_rest=is_rest))
        self._lines.put(None)

    def _has_more(self, until_s: float) -> bool:
        """Whether more is there, or comes in time; never later than that, however much comes."""
        left_s = until_s - time.monotonic()
        try:
            return left_s > 0 and bool(select.select([self._descriptor], [], [], left_s)[0])
        except (OSError, ValueError):  # a system where pipes cannot be waited for
            return False

    def _part_of(self, rest: bytes) -> bytes:
        """What of a line that is not whole can be handed on; bytes that are no text yet wait."""
        if self._whole_length is None or not rest.strip():
            return b""
        encoding = self._encoding or "utf-8"
        try:
            text = rest.decode(encoding)
        except UnicodeDecodeError as err:  # of a character that is not whole, or not at all
            text = rest[: err.start].decode(encoding)
        part = text[: self._whole_length(text)].encode(encoding)
        return part if rest.startswith(part) else b""

    def _read_some(self) -> bytes:
        try:
            return os.read(self._descriptor, READ_BYTES)
        except OSError:  # a terminal that was closed
            return b""

    def _decode(
        self, number: int, line: bytes, *, is_part: bool = False, is_rest: bool = False
    ) -> Line:
        source = f"line {number} of {self._source}"
        try:
            if len(line) > MAX_LINE_BYTES:
                raise TextError(f"{source} is longer than 1 MiB", hint="break it into lines")
            text = decode_text(line, encoding=self._encoding, source=source)
            return Line(number, text, is_part=is_part, is_rest=is_rest)
        except TextError as err:
            return Line(number, error=err, is_part=is_part, is_rest=is_rest)


def _newline(encoding: str) -> bytes:
    try:
        return "\n".encode(encoding)
    except (LookupError, ValueError) as err:
        hint = "use a name such as utf-8, cp1252 or gb18030"
        raise UsageError(f"--encoding '{encoding}' is unknown", hint=hint) from err
