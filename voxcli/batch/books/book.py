"""What a book is once it was read: chapters in reading order, and what names the whole."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

SHOWN_TITLE = 80  # characters


class Aside(StrEnum):
    """What stands beside a book's text and is spoken only where it is asked for."""

    NOTES = "notes"
    PAGES = "pages"
    IMAGES = "images"


@dataclass(frozen=True, slots=True)
class Chapter:
    """A part of the text, spoken as one row.

    Attributes:
        title: as the table of contents has it, else the first heading; never empty.
        text: paragraphs with an empty line between them; empty where it has no words.
        place: the line of a text file, or the number of an EPUB's document; from 1.
        matter: what it is where it is not of the body, such as "a title page"; else empty.
        problem: why it cannot be read; empty where it could.
    """

    title: str
    text: str
    place: int
    matter: str = ""
    problem: str = ""


@dataclass(frozen=True)
class Book:
    """A book.

    Attributes:
        authors: in the book's order.
        cover: a JPEG or PNG image; None where there is none.
        how: for people: what it was read as.
        notes: for people: what of it is in no chapter, all of it named.
        lost: those of them that say that the book has a mistake.
    """

    title: str
    authors: tuple[str, ...]
    chapters: tuple[Chapter, ...]
    cover: bytes | None = None
    how: str = ""
    notes: tuple[str, ...] = ()
    lost: tuple[str, ...] = ()


def shortened(title: str) -> str:
    """A title on one line, and not longer than a player shows."""
    line = " ".join(title.split())
    return line if len(line) <= SHOWN_TITLE else f"{line[: SHOWN_TITLE - 1].rstrip()}…"


def top_depth(depths: Sequence[int]) -> int:
    """The first depth that has more than one line, for a lone line is the book's own title."""
    return next((each for each in sorted(set(depths)) if depths.count(each) > 1), max(depths))
