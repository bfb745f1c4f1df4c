"""A book to records: a row for each chapter, with what of it is spoken."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from voxcli.batch.books.book import Aside, Book, Chapter
from voxcli.batch.encoding import read_input
from voxcli.batch.records import Record, Table
from voxcli.errors import UsageError, nearest
from voxcli.extras import require

ALL = "all"
_RANGE = re.compile(r"(\d{1,6})(?:\s*-\s*(\d{0,6}))?")


@dataclass(frozen=True)
class BookChoice:
    """What of a book is spoken.

    Attributes:
        chapters: "all", or numbers and ranges such as "1,3-7,9-"; None for the book's text without
            its title page and the like.
        also: what beside the text is spoken where it stands.
        depth: of the table of contents or the headings, down to which chapters begin; None to find
            it.
        is_book: whether plain text is a book, and not an utterance a line.
    """

    chapters: str | None = None
    also: tuple[Aside, ...] = ()
    depth: int | None = None
    is_book: bool = False

    @classmethod
    def asked(
        cls, chapters: str | None, also: str, depth: int | None, *, is_book: bool = False
    ) -> BookChoice:
        """From what was typed.

        Raises:
            UsageError: it cannot be read.
        """
        words = [word.strip().lower() for word in also.split(",") if word.strip()]
        unknown = next((word for word in words if word not in [*Aside, ALL]), None)
        if unknown is not None:
            hint = f"{nearest(unknown, list(Aside))}give some of {', '.join(Aside)}, or all"
            raise UsageError(f"--speak has '{unknown}'", hint=hint)
        if depth is not None and depth < 1:
            raise UsageError(f"--chapter-depth is {depth}", hint="give 1 or more")
        if chapters is not None and chapters != ALL:
            _ranges(chapters)
        found = tuple(Aside) if ALL in words else tuple(Aside(word) for word in words)
        return cls(chapters, found, depth, is_book or chapters is not None)

    @property
    def given(self) -> str:
        """The option that is for books alone; empty where none was given."""
        options = {"--chapters": self.chapters, "--speak": self.also, "--chapter-depth": self.depth}
        return next((option for option, value in options.items() if value), "")

    def left_out(self, number: int, chapter: Chapter, count: int) -> str:
        """Why a chapter is not spoken; empty where it is.

        Raises:
            UsageError: a number is asked for that the book does not have.
        """
        if chapter.problem:
            return ""
        if not chapter.text:
            return "it has no words"
        if self.chapters == ALL:
            return ""
        if self.chapters is None:
            return f"{chapter.matter}; --chapters {number} or all has it spoken" * bool(
                chapter.matter
            )
        ranges = _ranges(self.chapters)
        beyond = next((first for first, _ in ranges if first > count), None)
        if beyond is not None:
            raise UsageError(
                f"--chapters {self.chapters}: there are {count} chapters",
                hint="--dry-run lists them",
            )
        is_asked = any(first <= number <= last for first, last in ranges)
        return "" if is_asked else f"not among --chapters {self.chapters}"


TEXT_ALONE = BookChoice()


def _ranges(chapters: str) -> list[tuple[int, float]]:
    """First and last number of each.

    Raises:
        UsageError: it cannot be read.
    """
    found = []
    for part in chapters.split(","):
        match = _RANGE.fullmatch(part.strip())
        first = int(match[1]) if match else 0
        last = first if match is None or match[2] is None else int(match[2] or 0) or float("inf")
        if not 1 <= first <= last:
            hint = "give all, or numbers and ranges such as 1,3-7,9-"
            raise UsageError(f"--chapters is '{chapters}'", hint=hint)
        found.append((first, last))
    return found


def read_chapters(path: Path, kind: str, choice: BookChoice, encoding: str | None) -> Table:
    """A record for each chapter, with `text` and `title`; those that are not spoken say why.

    Args:
        kind: "epub", "markdown" or "text".

    Raises:
        UsageError, TextError: it cannot be read, or none of it is to be spoken.
    """
    book = _read(path, kind, choice, encoding)
    records = _records(book.chapters, choice)
    if all(record.skipped for record in records):
        raise UsageError(
            f"{path}: none of {len(records)} chapters is to be spoken: {records[0].skipped}",
            hint="name others with --chapters, or give --chapters all",
        )
    notes = (*_unspoken(records), *book.notes)
    return Table(path, "book", (), tuple(records), book.how, notes, book.lost, book)


def _read(path: Path, kind: str, choice: BookChoice, encoding: str | None) -> Book:
    if kind == "epub":
        require("an EPUB", "lxml")
        from voxcli.batch.books.epub import read_epub

        return read_epub(path, encoding=encoding, also=choice.also, depth=choice.depth)
    from voxcli.batch.books import headings

    text, how = read_input(path, encoding)
    if not text.strip():
        raise UsageError(f"{path} is empty", hint="give a book with words")
    if kind == "markdown":
        book = headings.read_markdown(text, path, also=choice.also, depth=choice.depth)
    else:
        if choice.also or choice.depth:
            raise UsageError(f"{choice.given} is given, but {path} is plain text: it marks none",
                             hint="leave it out")  # fmt: skip
        book = headings.read_plain(text, path)
    return replace(book, how=f"{how}, {book.how}")


def _records(chapters: Sequence[Chapter], choice: BookChoice) -> list[Record]:
    return [
        Record(
            number, chapter.place, {"text": chapter.text, "title": chapter.title},
            chapter.problem, choice.left_out(number, chapter, len(chapters)),
        )
        for number, chapter in enumerate(chapters, start=1)
    ]  # fmt: skip


def _unspoken(records: Sequence[Record]) -> list[str]:
    """Chapters that nobody asked to leave out, by name."""
    found = [
        f"{record.number} '{record.values['title']}' ({record.skipped.partition(';')[0]})"
        for record in records
        if record.skipped and not record.skipped.startswith("not among")
    ]
    return [f"chapters are not spoken: {', '.join(found)}"] if found else []
