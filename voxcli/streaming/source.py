"""Where the texts of a stream come from: one text, or lines that arrive while others are spoken.

Knows no outlet; imports no numpy, so that a running server can be asked before that is there.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Protocol

from voxcli.errors import TextError, UsageError, VoxError

if TYPE_CHECKING:
    from voxcli.plan import Plan
    from voxcli.text.lines import Line, LineReader
    from voxcli.text.thoughts import Thoughts


@dataclass(frozen=True)
class Item:
    """What comes next: a text, a pause, or why a line cannot be spoken.

    Attributes:
        silence_s: exact silence that a text of pauses alone asks for.
        line: its number, from 1; 0 for a text that is no line.
        is_part: more of its line follows.
        is_rest: parts of its line came before; with neither text nor error it is the line's end.
    """

    plan: Plan | None = None
    error: VoxError | None = None
    line: int = 0
    is_part: bool = False
    is_rest: bool = False
    silence_s: float = 0.0


class Source(Protocol):
    """Where texts come from."""

    @property
    def is_over(self) -> bool:
        """Whether there is nothing more, now and later."""
        ...

    @property
    def is_by_line(self) -> bool:
        """Whether texts are lines or parts of them: each ends with a pause, and may fail alone."""
        ...

    @property
    def has_waiting(self) -> bool:
        """Whether `next` would answer at once."""
        ...

    def next(self, timeout_s: float) -> Item | None:
        """The next item; None when none came in time."""
        ...


class OneText:
    """A source of one text."""

    is_by_line = False
    has_waiting = False

    def __init__(self, plan: Plan) -> None:
        self.is_over = False
        self._plan = plan

    def next(self, timeout_s: float) -> Item | None:
        self.is_over = True
        return Item(self._plan)


class TextLines:
    """A source of lines; an empty one is a pause.

    Args:
        reader: of the lines.
        make_plan: a line's text to its plan; TextError where it cannot be spoken.
        silence_of: seconds that a text of pauses alone asks for; 0 for others.
        says_nothing: whether a text is marks of layout alone, which count as an empty line.
        thoughts: what takes the thoughts of a language model out of the lines.
    """

    is_by_line = True

    def __init__(
        self,
        reader: LineReader,
        make_plan: Callable[[str], Plan],
        *,
        silence_of: Callable[[str], float] = lambda text: 0.0,
        says_nothing: Callable[[str], bool] = lambda text: not text.strip(),
        thoughts: Thoughts,
    ) -> None:
        self._thoughts = thoughts
        self._says_nothing = says_nothing
        self._silence_of = silence_of
        self._reader = reader
        self._make_plan = make_plan
        self._peeked: Line | None = None

    @property
    def is_over(self) -> bool:
        return self._reader.is_over and self._peeked is None

    @property
    def has_waiting(self) -> bool:
        return self._peeked is not None or self._reader.has_waiting

    def is_empty(self, timeout_s: float) -> bool:
        """Whether the end has come, or comes in time, before any line with words."""
        while self._peeked is None:
            line = self._read(timeout_s)
            if line is None:
                return self._reader.is_over
            if line.error or self._is_spoken(line):
                self._peeked = line
        return False

    def next(self, timeout_s: float) -> Item | None:
        line, self._peeked = self._peeked or self._read(timeout_s), None
        if line is None:
            return None
        plan: Plan | None = None
        error: VoxError | None = line.error
        silence_s = 0.0
        if error is None and self._is_spoken(line):
            try:
                silence_s = self._silence_of(line.text)
                plan = None if silence_s else self._make_plan(line.text)
            except (TextError, UsageError) as err:
                error = err
        return Item(plan, error, line.number, line.is_part, line.is_rest, silence_s)

    def _read(self, timeout_s: float) -> Line | None:
        """A line without its thoughts."""
        line = self._reader.get(timeout_s)
        if line is None or line.error:
            return line
        said = self._thoughts.feed(line.text if line.is_part else f"{line.text}\n")
        return replace(line, text=said.removesuffix("\n"))

    def _is_spoken(self, line: Line) -> bool:
        """Emoji alone are, where they are all of a line."""
        from voxcli.text.whole import has_word  # where lines are read it is there already

        return not (self._says_nothing(line.text) or (line.is_rest and not has_word(line.text)))
