"""Rows that wait, in order, so kept that the next ones to send are found without a look at all."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator
from heapq import merge
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from voxcli.engine.fleet.dispatcher import Row


class Waiting:
    """See the module. Rows keep their places while they wait, and what is known of them.

    Attributes:
        fresh: nothing has gone wrong with them; any server may have them at once.
        again: a try failed, or they have to wait for a while.
        suspects: a server went down while it had them.
    """

    def __init__(self) -> None:
        self.fresh: OrderedDict[Row, int] = OrderedDict()  # with their numbers, which grow
        self.again: OrderedDict[Row, int] = OrderedDict()
        self.suspects: OrderedDict[Row, int] = OrderedDict()
        self._first, self._last = 0, 0

    def __len__(self) -> int:
        return len(self.fresh) + len(self.again) + len(self.suspects)

    def __iter__(self) -> Iterator[Row]:
        return self.in_order(self.fresh, self.again, self.suspects)

    @staticmethod
    def in_order(*parts: OrderedDict[Row, int]) -> Iterator[Row]:
        """Rows of some parts, which may not change meanwhile."""
        if len(parts) == 1 or not any(parts[1:]):
            return iter(parts[0])
        numbered = (((number, row) for row, number in part.items()) for part in parts)
        return (row for _, row in merge(*numbered, key=lambda each: each[0]))

    def append(self, row: Row) -> None:
        self._last += 1
        self._part_of(row)[row] = self._last

    def appendleft(self, row: Row) -> None:
        self._first -= 1
        part = self._part_of(row)
        part[row] = self._first
        part.move_to_end(row, last=False)

    def discard(self, row: Row) -> None:
        for part in (self.fresh, self.again, self.suspects):
            part.pop(row, None)

    def _part_of(self, row: Row) -> OrderedDict[Row, int]:
        if row.num_faults:
            return self.suspects
        return self.again if row.tried or row.not_before_s > 0.0 else self.fresh
