"""A table on stderr that grows while the bench runs, with the time that is left.

Drawn at most once a second, from inside the loop that is measured: a drawing takes a few
milliseconds of a second. `--quiet`, or no terminal, costs nothing.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Self

from rich.console import Console
from rich.live import Live
from rich.table import Table

from voxcli.bench.cells import Cell
from voxcli.bench.tables import cell_row
from voxcli.closing import Closing

if TYPE_CHECKING:
    from voxcli.bench.session import Session

REFRESH_S = 1.0
COLUMNS = ("set", "lang", "load", "runs", "failed", "TTFA p50", "RTF p50", "audio s/s")


class LiveTable(Closing):
    """Shows a session; call `tick` from its loop."""

    def __init__(self, *, is_enabled: bool, console: Console | None = None) -> None:
        self._live: Live | None = None
        self._session: Session | None = None
        self._drawn_s = self._began_s = time.monotonic()
        if is_enabled:
            console = console or Console(stderr=True)
            self._live = Live(console=console, auto_refresh=False, transient=True)

    def watch(self, session: Session) -> None:
        self._session = session
        self._began_s = time.monotonic()

    def tick(self) -> None:
        """Draw again if it is time."""
        if self._live is None or self._session is None:
            return
        now_s = time.monotonic()
        if now_s - self._drawn_s >= REFRESH_S:
            self._live.update(draw(self._session, now_s - self._began_s), refresh=True)
            self._drawn_s = time.monotonic()

    def __enter__(self) -> Self:
        if self._live is not None:
            self._live.start()
        return self

    def close(self) -> None:
        if self._live is not None:
            self._live.stop()


def draw(session: Session, elapsed_s: float) -> Table:
    """The table at this moment."""
    left_s = remaining(session.cells, elapsed_s)
    caption = f"{elapsed_s:.0f} s gone" + ("" if left_s is None else f", about {left_s:.0f} s left")
    table = Table(title=f"voxcli bench: {session.engine.facts.model}", caption=caption)
    for number, name in enumerate(COLUMNS):
        table.add_column(name, justify="left" if number < 2 else "right")
    for cell in session.cells:
        table.add_row(*_row(cell))
    return table


def _row(cell: Cell) -> tuple[str, ...]:
    runs = f"{len(cell.runs)}/{cell.num_planned}"
    if not cell.runs:
        return (cell.set, cell.language, cell.load, runs, "", "", "", "")
    full = cell_row(cell.as_json())
    return (*full[:3], runs, full[4], full[5], full[7], full[10])


def remaining(cells: list[Cell], elapsed_s: float) -> float | None:
    """Seconds left if the rest takes as long a character as what is done; None before that."""
    done = sum(run.num_characters for cell in cells for run in cell.runs)
    planned = 0.0
    for cell in cells:
        length = sum(len(prompt.text) for prompt in cell.prompts) / len(cell.prompts)
        planned += length * cell.num_planned
    return elapsed_s * (planned / done - 1) if done else None
