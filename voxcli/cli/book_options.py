"""The options of `voxcli batch` for books, and what a book adds to its timeline."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, ClassVar

import typer

from voxcli.cli import output

if TYPE_CHECKING:
    from voxcli.batch.books.book import Book
    from voxcli.batch.chapters import BookChoice
    from voxcli.batch.timeline import Timeline

GAP_S = 2.0  # between chapters


@dataclass(frozen=True)
class BookOptions:
    """Which parts of a book are spoken."""

    panel: ClassVar[str] = "Book"

    chapters: Annotated[
        str | None,
        typer.Option(
            "--chapters",
            metavar="all|LIST",
            help="Chapters to speak, by the numbers that --dry-run shows, such as 3-7 or 1,3,9-; a "
            "TXT is read as a book then.",
            show_default="all but title pages, contents, notes and the like",
        ),
    ] = None
    speak: Annotated[
        str,
        typer.Option(
            "--speak",
            metavar="LIST",
            help="Parts of the book to speak too: notes, pages, images, or all.",
            show_default="nothing",
        ),
    ] = ""
    chapter_depth: Annotated[
        int | None,
        typer.Option(
            "--chapter-depth",
            metavar="N",
            help="Levels of the contents or headings that begin a chapter, 1 or more.",
            show_default="detected",
        ),
    ] = None

    def choice(self, mix: Path | None) -> BookChoice:
        """What they come to; an m4b is a book's, so a TXT that is mixed to one is a book.

        Raises:
            UsageError: a value that cannot be.
        """
        from voxcli.batch.chapters import BookChoice

        is_book = mix is not None and mix.suffix.lower() == ".m4b"
        return BookChoice.asked(self.chapters, self.speak, self.chapter_depth, is_book=is_book)


def of_book(timeline: Timeline | None, book: Book | None, gap_s: float | None) -> Timeline | None:
    """A timeline that says what it is of; a cover that cannot be used is told and left out.

    Args:
        gap_s: silence between chapters that was asked for.
    """
    if timeline is None or book is None:
        return timeline
    timeline = replace(
        timeline, title=book.title, artist=", ".join(book.authors),
        gap_s=GAP_S if gap_s is None else gap_s,
    )  # fmt: skip
    if timeline.mix is None:
        return timeline
    from voxcli.audio.formats import resolve_format
    from voxcli.audio.tags import cover_problem

    if not resolve_format(timeline.mix).has_marks:
        output.warn(
            f"{timeline.mix} can hold no chapter marks and no cover; a mix called .m4b or .m4a can"
        )
        return timeline
    if book.cover is None:
        return timeline
    if problem := cover_problem(book.cover):
        output.warn(f"the cover is left out: {problem}")
        return timeline
    return replace(timeline, cover=book.cover)
