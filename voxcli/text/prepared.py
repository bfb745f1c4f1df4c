"""A text that is ready to be spoken, as plain data: importing this compiles no pattern."""

from __future__ import annotations

from dataclasses import dataclass

from voxcli.text.changes import DIRECTION, Change

# Silence after a segment, in seconds.
PAUSE_PARAGRAPH_S = 0.6
PAUSE_LINE_S = 0.35
PAUSE_SENTENCE_S = 0.25
PAUSE_CLAUSE_S = 0.1


@dataclass(frozen=True, slots=True)
class Segment:
    """One part of the text.

    Attributes:
        text: never empty, no leading or trailing space, no newline.
        pause_s: silence that belongs after it; 0 after the last one and where a word was cut.
        silence_s: exact silence that the text asks for after it, in place of `pause_s`; 0 where it
            asks for none.
    """

    text: str
    pause_s: float
    silence_s: float = 0.0


@dataclass(frozen=True, slots=True)
class Unspeakable:
    """A character the voice cannot say and that was taken out."""

    char: str
    name: str
    count: int

    def __str__(self) -> str:
        times = "" if self.count == 1 else f", {self.count} times"
        return f"'{self.char}' (U+{ord(self.char):04X} {self.name}{times})"


@dataclass(frozen=True)
class PreparedText:
    """A text that is ready to be spoken.

    Attributes:
        original: what the user wrote.
        language: ISO 639-1; the model's own when the text shows none.
        text: what is said; the segments' texts joined.
        segments: in order.
        changes: every rewrite, for `--show-text`.
        unspeakable: characters taken out; the caller warns about each.
        silence_s: exact silence that the text asks for before the first segment.
    """

    original: str
    language: str
    text: str
    segments: tuple[Segment, ...]
    changes: tuple[Change, ...]
    unspeakable: tuple[Unspeakable, ...]
    silence_s: float = 0.0

    @property
    def silences_s(self) -> float:
        """All silence that the text asks for, in seconds."""
        return self.silence_s + sum(segment.silence_s for segment in self.segments)

    @property
    def ends_in_silence(self) -> bool:
        """Whether the text asks for what it ends with."""
        return self.segments[-1].silence_s > 0

    @property
    def directions(self) -> tuple[str, ...]:
        """Sounds and tags for an engine that the text asks for and that are not made."""
        found = [change.before for change in self.changes if change.kind == DIRECTION]
        names = {each.split()[0].strip("</>") for each in found if not each.startswith("</")}
        ends = {f"</{name}>" for name in names}  # of what is named already
        return tuple(dict.fromkeys(each for each in found if each not in ends))
