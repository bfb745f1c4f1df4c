"""What normalisation did: `Change`, `Normalised`, and `Draft`, the text while it is rewritten.

Every rule of this package goes through `Draft.sub`, so that no word can vanish unrecorded; `apart`
keeps what one says from sticking to the text beside it. Knows no rule itself.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field

DIRECTION = "direction"  # the kind of what speaks to an engine and is not followed, "[laughs]"
PAUSE = "pause"  # of what asks for silence, which is made

Replace = Callable[[re.Match[str]], str | None]


@dataclass(frozen=True, slots=True)
class Change:
    """One rewrite.

    Attributes:
        before: what the text had.
        after: what is said instead; empty means removed.
        kind: "number", "money", "date", "abbreviation", "emoji", "markup", ...
    """

    before: str
    after: str
    kind: str


@dataclass(frozen=True, slots=True)
class Silence:
    """A mark that asks for silence.

    Attributes:
        seconds: above 0.
    """

    mark: str
    seconds: float


@dataclass(frozen=True)
class Normalised:
    """Text ready to be segmented, and how it got there.

    Attributes:
        text: paragraphs are separated by a blank line, lines that must stay apart by a newline.
        changes: in the order the rules ran, not in text order.
        silences: that the text asks for, in text order.
    """

    text: str
    changes: tuple[Change, ...]
    silences: tuple[Silence, ...] = ()


@dataclass
class Draft:
    """Text under rewriting; rules run one after the other over the whole text."""

    text: str
    changes: list[Change] = field(default_factory=list)

    def sub(
        self, pattern: re.Pattern[str], replace: str | Replace, kind: str, needs: str = ""
    ) -> None:
        """Replace every match; a `replace` function may return None to leave a match alone.

        Args:
            needs: what every match has in it; a text without it is not searched.

        NOTE: `pattern` must be linear on any input: bounded repeats, or a look-behind that allows
        one start a token. `tests/unit/test_text_speed.py` tries hostile texts.
        """

        if needs not in self.text:
            return

        def apply(match: re.Match[str]) -> str:
            before = match.group()
            after = replace if isinstance(replace, str) else replace(match)
            if after is None or after == before:
                return before
            self.changes.append(Change(before.strip() or before, after.strip(), kind))
            return after

        self.text = pattern.sub(apply, self.text)

    def done(self, silences: tuple[Silence, ...] = ()) -> Normalised:
        return Normalised(self.text, tuple(self.changes), silences)


def apart(said: str, match: re.Match[str]) -> str:
    """What is said for a match, with a space where a letter or a figure touches the match."""
    start, end = match.span()
    before, after = match.string[max(0, start - 1) : start], match.string[end : end + 1]
    return said.join(" " if beside.isalnum() else "" for beside in (before, after))
