"""Which rows step next, where their settings cannot share a step.

A step runs rows of one graph key. Rows of other keys take steps of their own, some of them many
times as long, such as those of a hundred solver steps. If every key had its step in turn, one such
row would make all others wait for it. So time is shared, not steps: who has had the least of it for
each of its rows is next. A stream keeps the pace that so many streams of its own settings would
have. Knows no model and no device.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from voxcli.engine.native.request import Request
from voxcli.models.base import GraphKey

Group = list[Request]  # of one key


class Turns:
    """The time that each key has had, in seconds a row."""

    def __init__(self, clock: Callable[[], float] = time.perf_counter) -> None:
        self._clock = clock
        self._had_s: dict[GraphKey, float] = {}

    def next(self, groups: Sequence[Group]) -> list[Group]:
        """The one group that steps now; none of none."""
        if not groups:
            return []
        keys = [group[0].key for group in groups]
        # who comes anew has as much behind it as who is next, or what it owes from before
        least_s = min((self._had_s[key] for key in keys if key in self._had_s), default=0.0)
        owed = {key: had_s for key, had_s in self._had_s.items() if had_s > least_s}
        self._had_s = {**dict.fromkeys(keys, least_s), **owed}
        return [min(groups, key=lambda group: self._had_s[group[0].key])]

    @contextmanager
    def taken(self, group: Group) -> Iterator[None]:
        """Count the time of the block as that of a group that is next."""
        began_s = self._clock()
        yield
        self._had_s[group[0].key] += (self._clock() - began_s) / len(group)
