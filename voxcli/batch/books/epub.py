"""An EPUB to chapters: its documents in reading order, cut where the table of contents says.

Every word of every document is in one chapter, or in a note that names it as left out. What is not
part of the text, such as a title page, is a chapter of its own kind, which says so.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path, PurePosixPath

from voxcli.batch.books import markup
from voxcli.batch.books.archive import Archive
from voxcli.batch.books.book import Aside, Book, Chapter, shortened, top_depth
from voxcli.batch.books.package import Document, read_package
from voxcli.batch.books.prose import NOTE_TYPES, Paragraph, Prose, read_prose
from voxcli.errors import TextError, UsageError

LIST = "a list of contents"
# The words of EPUB 3 and of EPUB 2's guide for what a document is, and what it is called here
_MATTER = {
    **dict.fromkeys(("cover",), "the cover"),
    **dict.fromkeys(("titlepage", "title-page", "halftitlepage", "seriespage"), "a title page"),
    **dict.fromkeys(("copyright-page", "imprint", "imprimatur", "colophon"), "a copyright page"),
    **dict.fromkeys(("toc", "landmarks", "page-list", "loi", "lot", "loa", "lov"), LIST),
    **dict.fromkeys(("index", "bibliography", "glossary", "errata"), "a work of reference"),
    **dict.fromkeys((*NOTE_TYPES, "notes"), "notes"),
}  # fmt: skip
BESIDE = "beside the reading order"
MAX_WORDS_BEFORE = 50  # of a chapter before its first heading in a document: an epigraph

Position = tuple[int, int]  # number of a document, number of a paragraph in it


@dataclass
class _Read:
    """A document that was read.

    Attributes:
        problem: why it could not be.
    """

    document: Document
    matter: str = ""
    prose: Prose = field(default_factory=Prose)
    problem: str = ""

    @property
    def is_apart(self) -> bool:
        return bool(self.matter or self.problem)


def read_epub(
    path: Path,
    *,
    encoding: str | None = None,
    also: Sequence[Aside] = (),
    depth: int | None = None,
) -> Book:
    """Read a book.

    Args:
        encoding: of its documents; None as each says, or UTF-8.
        also: what beside the text is spoken where it stands.
        depth: of the table of contents, down to which its lines begin chapters; None for its top,
            and for lines that begin a document.

    Raises:
        UsageError: it is no EPUB, is locked or has no text.
    """
    with Archive(path) as archive:
        package = read_package(archive)
        listed = Counter(entry.target.name for entry in package.contents)
        kinds = {name: said for name, said in package.kinds.items() if listed[name] <= 1}
        reads = [_read(archive, document, kinds, encoding, also) for document in package.documents]
    places = {read.document.name: number for number, read in enumerate(reads)}
    lines = [
        (title, level, _position(reads, places[target.name], target.fragment))
        for title, target, level in package.contents
        if target.name in places
    ]
    how = "chapters by its table of contents"
    if not lines:
        lines, how = _headings(reads), "chapters by its headings, for it has no table of contents"
    titles = _cuts(reads, lines, depth)
    chapters = tuple(_chapters(reads, titles))
    if not any(chapter.text or chapter.problem for chapter in chapters):
        raise UsageError(f"{path} has no words", hint="a book of images cannot be spoken")
    return Book(
        title=package.title or path.stem,
        authors=package.authors,
        chapters=chapters,
        cover=package.cover,
        how=f"EPUB {package.version}, {how}",
        notes=(*_left_out(reads, titles), *package.notes),
        lost=package.notes,
    )


def _read(
    archive: Archive,
    document: Document,
    kinds: Mapping[str, set[str]],
    encoding: str | None,
    also: Sequence[Aside],
) -> _Read:
    source = f"{archive.path}: {document.name}"
    try:
        root = markup.parse(markup.decode(archive.read(document.name), encoding, source), source)
        prose = read_prose(root, also, is_nav=document.is_nav)
    except (TextError, UsageError) as err:
        return _Read(document, problem=str(err))
    named = prose.kinds | kinds.get(document.name, set())
    if Aside.NOTES in also:
        named -= {*NOTE_TYPES, "notes"}
    matter = LIST if document.is_nav else next(filter(None, map(_matter, sorted(named))), "")
    return _Read(document, matter or ("" if document.is_linear else BESIDE), prose)


def _matter(kind: str) -> str:
    return _MATTER.get(kind) or _MATTER.get(kind.partition("-")[0], "") if kind else ""


# ------------------------------------------------------------ where chapters begin

Line = tuple[str, int, Position]  # title, depth, where it leads to


def _position(reads: Sequence[_Read], number: int, fragment: str) -> Position:
    return number, reads[number].prose.anchors.get(fragment, 0) if fragment else 0


def _headings(reads: Sequence[_Read]) -> list[Line]:
    """What stands in for a table of contents."""
    return [
        (" ".join(paragraph.text.split()), paragraph.level, (number, at))
        for number, read in enumerate(reads)
        for at, paragraph in enumerate(read.prose.paragraphs)
        if paragraph.level and not read.is_apart
    ]


def _cuts(
    reads: Sequence[_Read], lines: Sequence[Line], depth: int | None
) -> dict[Position, dict[str, None]]:
    """Where chapters begin, in reading order, and their titles, each once."""
    found: dict[Position, dict[str, None]] = {}
    top = depth or (top_depth([line[1] for line in lines]) if lines else 1)
    firsts: dict[int, Position] = {}
    for _, _, position in lines:
        firsts[position[0]] = min(position, firsts.get(position[0], position))
    after_few = {each for each in firsts.values() if _is_short(reads[each[0]], each[1])}
    for title, level, position in lines:
        if position in after_few:
            position = (position[0], 0)
        if level <= top or (depth is None and position[1] == 0):
            titles = found.setdefault(position, {})
            if title:
                titles[title] = None
    begun = min(found, default=(0, 0))
    for number, read in enumerate(reads):
        is_new = number == 0 or read.is_apart or reads[number - 1].is_apart
        opens = bool(read.prose.paragraphs) and 0 < read.prose.paragraphs[0].level <= 2
        if is_new or (number, 0) < begun or not lines or (number not in firsts and opens):
            found.setdefault((number, 0), {})
    return dict(sorted(found.items()))


def _is_short(read: _Read, stop: int) -> bool:
    """Whether few words come before a paragraph of a document."""
    before = read.prose.paragraphs[:stop]
    return sum(len(each.text.split()) for each in before) <= MAX_WORDS_BEFORE


def _chapters(
    reads: Sequence[_Read], titles: Mapping[Position, Iterable[str]]
) -> Iterator[Chapter]:
    end = (len(reads), 0)
    for (first, at), stop in pairwise([*titles, end]):
        paragraphs = [
            paragraph
            for number in range(first, min(stop[0] + 1, len(reads)))
            for paragraph in reads[number].prose.paragraphs[
                at if number == first else 0 : stop[1] if number == stop[0] else None
            ]
        ]
        read = reads[first]
        yield Chapter(
            title=shortened(" – ".join(titles[first, at])) or _title(paragraphs, read),
            text=joined(paragraphs),
            place=first + 1,
            matter=read.matter,
            problem=read.problem,
        )


def _title(paragraphs: Sequence[Paragraph], read: _Read) -> str:
    """Of what the table of contents does not name: its first heading, its head, or its file."""
    headings = (" ".join(each.text.split()) for each in paragraphs if each.level)
    found = next(headings, "") or read.prose.title or PurePosixPath(read.document.name).stem
    return shortened(found)


def joined(paragraphs: Sequence[Paragraph]) -> str:
    """Paragraphs with an empty line between them; lines of a list follow each other."""
    parts: list[str] = []
    for index, paragraph in enumerate(paragraphs):
        if index:
            parts.append("\n" if paragraph.is_line and paragraphs[index - 1].is_line else "\n\n")
        parts.append(paragraph.text)
    return "".join(parts)


# ------------------------------------------------------------ what is left out


def _left_out(reads: Sequence[_Read], titles: Mapping[Position, Iterable[str]]) -> Iterator[str]:
    """A sentence for each kind, which names all words and the chapters that they stand in."""
    starts = list(titles)
    kinds: dict[str, list[str]] = {}
    for number, read in enumerate(reads):
        for left in read.prose.left:
            chapter = bisect_right(starts, (number, left.at))
            kinds.setdefault(left.kind, []).append(f"{left.words} (row {chapter})")
    for kind, found in kinds.items():
        yield f"{kind} are not spoken: {', '.join(found)}"
