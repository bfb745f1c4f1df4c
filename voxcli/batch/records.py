"""What a table is once it was read: records of text, by field or by column.

Shared by the readers (`tables`, `cues`) and by those who give the text a meaning (`rows`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from voxcli.batch.books.book import Book

# What a column can be besides a parameter of the model, see `columns.py`.
FIELDS = (
    *("text", "output", "id", "voice", "ref", "ref_text", "style"),
    *("seed", "speed", "max_seconds", "language", "start", "end", "duration", "speaker"),
    "lexicon",
)


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
