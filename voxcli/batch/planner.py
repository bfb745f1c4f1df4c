"""Plans of rows, in the order in which they are asked for.

Where another process plans, it is asked in a thread of its own: neither the rows that are spoken
nor who wants to stop wait for its answer.
"""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable

from voxcli.batch.keep import RowInWork
from voxcli.closing import Closing
from voxcli.engine.base import SpeechEngine
from voxcli.errors import EngineFaultError, VoxError
from voxcli.plan import Plan
from voxcli.utterance import Utterance

WAIT_S = 1.0  # for a plan, where there is nothing else to do

Planned = tuple[RowInWork, Plan | VoxError]


class Planner(Closing):
    """See the module.

    Args:
        on_planned: called in the other thread, after each.
    """

    def __init__(self, engine: SpeechEngine, on_planned: Callable[[], None]) -> None:
        self._engine = engine
        self._on_planned = on_planned
        self._rows: set[RowInWork] = set()  # that were asked for and not taken
        self._orders: queue.SimpleQueue[tuple[RowInWork, Utterance] | None] = queue.SimpleQueue()
        self._plans: queue.SimpleQueue[tuple[RowInWork, Plan | Exception]] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._work, name="planner", daemon=True)

    def __len__(self) -> int:
        return len(self._rows)

    @property
    def rows(self) -> frozenset[RowInWork]:
        """That were asked for and not taken."""
        return frozenset(self._rows)

    def ask(self, row: RowInWork, utterance: Utterance) -> None:
        """Have a row planned; an engine in this process does it at once."""
        self._rows.add(row)
        if self._engine.facts.is_elsewhere:
            if self._thread.ident is None:
                self._thread.start()
            self._orders.put((row, utterance))
        else:
            self._plans.put((row, self._plan(utterance)))

    def take(self, *, is_waiting: bool) -> list[Planned]:
        """What is planned; waits a moment for the first, if there is nothing else to do.

        Raises:
            EngineFaultError: it concerns them all.
        """
        found: list[Planned] = []
        while self._rows:
            try:
                is_first = is_waiting and not found
                row, plan = (
                    self._plans.get(timeout=WAIT_S) if is_first else self._plans.get_nowait()
                )
            except queue.Empty:
                break
            if row not in self._rows:  # it was dropped
                continue
            self._rows.discard(row)
            if isinstance(plan, EngineFaultError) or not isinstance(plan, Plan | VoxError):
                raise plan
            found.append((row, plan))
        return found

    def drop(self) -> None:
        """Forget what is not planned yet."""
        self._rows.clear()

    def close(self) -> None:
        """End the thread, once it has an answer to what it asked; always safe."""
        self.drop()
        self._orders.put(None)

    def _work(self) -> None:
        while (order := self._orders.get()) is not None:
            row, utterance = order
            if row in self._rows:
                self._plans.put((row, self._plan(utterance)))
                self._on_planned()

    def _plan(self, utterance: Utterance) -> Plan | Exception:
        try:
            return self._engine.plan(utterance)
        except Exception as err:
            return err
