"""What a table is once it was read: records of text, by field or by column, and headers.

Shared by the readers (`tables`, `cues`, `cast`) and by those who give the text a meaning (`rows`).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from voxcli.batch.books.book import Book

# What a column can be besides a parameter of the model, see `columns.py`.
FIELDS = (
    *("text", "output", "id", "voice", "ref", "ref_text", "style"),
    *("seed", "speed", "max_seconds", "language", "start", "end", "duration", "speaker"),
    "lexicon",
)


# What other programs call a field.
_ELSEWHERE = {
    "file": "output", "filename": "output", "file_name": "output", "character": "speaker",
    "actor": "speaker", "role": "speaker", "tempo": "speed", "locale": "language", "begin": "start",
    "stop": "end", "instructions": "style", "reference": "ref", "transcript": "ref_text",
}  # fmt: skip
_SHORTEST = 3  # letters of a header that can be misspelt, or be the beginning of another


def fold_header(header: str) -> str:
    """What makes two headers the same: "Guidance Scale" is guidance_scale."""
    return re.sub(r"[\s_-]+", "_", header.strip().casefold())


def misspelt(header: str, names: Iterable[str]) -> str:
    """The name from which a header differs by one letter, or by two that changed places; empty
    where there is none. The first letter is right in most slips, and short names are like many."""
    header = fold_header(header)
    return next((name for name in names if _is_slip(header, name)), "")


def _is_slip(typed: str, name: str) -> bool:
    if len(typed) < _SHORTEST or len(name) <= _SHORTEST or typed[0] != name[0]:
        return False
    begin = _num_alike(typed, name)
    left, right = typed[begin:], name[begin:]
    end = _num_alike(left[::-1], right[::-1])
    left, right = left[: len(left) - end], right[: len(right) - end]
    is_swapped = len(left) == len(right) == 2 and left == right[::-1]
    return is_swapped or max(len(left), len(right)) == 1


def _num_alike(one: str, other: str) -> int:
    """Letters that are the same at the beginning of both."""
    pairs = enumerate(zip(one, other, strict=False))
    return next((at for at, (a, b) in pairs if a != b), min(len(one), len(other)))


def likened(header: str, names: Iterable[str]) -> str:
    """The name that begins as a header, or a header's first words: lang, start_time; or what other
    programs call it; else empty."""
    header = fold_header(header)
    if _ELSEWHERE.get(header) in (names := list(names)):
        return _ELSEWHERE[header]
    if len(header) < _SHORTEST:
        return ""
    found = (n for n in names if n.startswith(header) or header.startswith(f"{n}_"))
    return next(found, "")


def shorten(text: str) -> str:
    """A long name or cell in a message."""
    return text if len(text) <= 60 else f"{text[:57]}..."


@dataclass(frozen=True, slots=True)
class Record:
    """One line to speak, as text.

    Attributes:
        number: 1 for the first record.
        line: of the file, where the record begins; 1 is the first.
        values: by field, or by column for columns that are no field.
        problem: why it could not be read; empty where it could.
        skipped: why it is not to be spoken, such as a sound note; empty where it is.
    """

    number: int
    line: int
    values: Mapping[str, str]
    problem: str = ""
    skipped: str = ""


@dataclass(frozen=True)
class Table:
    """A file's records and how it was read.

    Attributes:
        columns: as the file names them; empty for subtitles and plain text.
        how: for people: encoding and delimiter.
        notes: for people: what of the file is not spoken, all of it named.
        lost: those of them that say that the file has a mistake.
        book: whose chapters the records are; None for other files.
    """

    path: Path
    kind: str
    columns: tuple[str, ...]
    records: tuple[Record, ...]
    how: str
    notes: tuple[str, ...] = ()
    lost: tuple[str, ...] = ()
    book: Book | None = None
