"""Server-sent events from bytes, however they are split. Knows no HTTP and no audio."""

from __future__ import annotations

MAX_EVENT = 16 << 20  # bytes: two minutes of 48 kHz in one event; real ones have some 100,000

_BOM = b"\xef\xbb\xbf"


class EventParser:
    """The data of each event of a stream, in order.

    An event without data is none. Names of events are left out: the data of a speech server says
    what it is.
    """

    def __init__(self) -> None:
        self._rest = bytearray()  # of a line whose end has not come
        self._num_searched = 0  # of its bytes
        self._data: list[bytes] = []
        self._num_held = 0
        self._is_first = True
        self._skips_newline = False  # the line before ended with "\r", perhaps of "\r\n"

    @property
    def is_between(self) -> bool:
        """Whether no event is begun."""
        return not self._rest and not self._data

    def feed(self, data: bytes) -> list[bytes]:
        """Take the next bytes.

        Returns:
            the data of the events that are complete.

        Raises:
            ValueError: an event is longer than `MAX_EVENT`.
        """
        self._rest += data
        events: list[bytes] = []
        start = 0
        if self._skips_newline and self._rest:
            start = int(self._rest[0] == 0x0A)
            self._skips_newline = False
        position = max(start, self._num_searched)
        while (end := self._end(position)) >= 0:
            line = bytes(self._rest[start:end])
            is_return = self._rest[end] == 0x0D
            start = end + 1
            if is_return and start == len(self._rest):
                self._skips_newline = True
            elif is_return and self._rest[start] == 0x0A:
                start += 1
            position = start
            self._take(line, events)
        del self._rest[:start]
        self._num_searched = len(self._rest)
        if len(self._rest) + self._num_held > MAX_EVENT:
            raise ValueError("an event has no end")
        return events

    def _end(self, start: int) -> int:
        """Where the line ends that goes on at `start`; -1 where its end has not come.

        NOTE: a pattern for both ends takes forty times as long as two searches for one byte.
        """
        newline = self._rest.find(b"\n", start)
        before = self._rest.find(b"\r", start, len(self._rest) if newline < 0 else newline)
        return newline if before < 0 else before

    def _take(self, line: bytes, events: list[bytes]) -> None:
        if self._is_first:
            line = line.removeprefix(_BOM)
            self._is_first = False
        if not line:
            if self._data:
                events.append(b"\n".join(self._data))
            self._data, self._num_held = [], 0
            return
        name, _, value = line.partition(b":")
        if name == b"data":
            self._data.append(value.removeprefix(b" "))
            self._num_held += len(line)  # one without data is kept too
