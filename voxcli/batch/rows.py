"""Records to rows: strings to numbers, times to slots, and the command's values as defaults.

Every problem of a row is found, not the first alone. Knows no model and no files.
"""

from __future__ import annotations

import hashlib
import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from voxcli.batch.columns import ParameterColumns, way_out
from voxcli.batch.records import Record, shorten
from voxcli.config import MAX_SEED, MAX_SPEED, MIN_SPEED, SamplingParams
from voxcli.parameters import Values
from voxcli.utterance import Utterance

MAX_TIME_S = 1000 * 3600  # of a timeline; more is a mistake in the unit
MIN_AUDIO_S = 0.1  # shorter is no word
DERIVED_SEEDS = 2**31  # short enough to be typed again
# Excel, LibreOffice, Google Sheets and Numbers; in English, and some as other languages have them
_BROKEN = re.compile(
    r"#(?:REF|NAME|VALUE|DIV/0|NUM|NULL|SPILL|CALC|FIELD|BLOCKED|CONNECT|BUSY|UNKNOWN|EXTERNAL"
    r"|PYTHON|ERROR|CIRCULAR|WERT|BEZUG|FELD|ZAHL|ÜBERLAUF|KALK|VALEUR|NOM|NOMBRE|VALOR|NÚM|NUL"
    r"|NULO|VALORE|RIF|NOME|WAARDE|VERW|NAAM|GETAL|LEEG|DEEL/0|ЗНАЧ|ССЫЛКА|ИМЯ|ЧИСЛО|ДЕЛ/0)[!?]"
    r"|#(?:N/A|NV|N/D|N\.A\.|N\.D\.|N/B|Н/Д|GETTING_DATA)|#{4,}|(?:Err|Fehler):\d{3}",
    re.IGNORECASE,
)
_FORMULA = re.compile(
    r"=[\s+-]*(?:[A-Z][A-Z0-9._]*\(|\$?[A-Z]{1,3}\$?[0-9]+(?![A-Z0-9])|[0-9(\"{]|('[^']+'|\w+)!)",
    re.IGNORECASE,
)
# An error among words, as a formula that joins texts leaves it: those that can be nothing else
_BROKEN_PART = re.compile(
    r"(?<!\w)#(?:(?:REF|VALUE|DIV/0|NUM|NULL|SPILL|CALC|WERT|BEZUG|ZAHL|VALEUR|VALOR|VALORE)!"
    r"|NAME\?|N/A\b)"
)
_OPERAND = r"(?:\$?[A-Z]{1,3}\$?\d+|\d+(?:[.,]\d+)?%?|[A-Z][A-Z0-9.]*\([^()]*\))"
# As Lotus and its heirs write them: a function after @, a calculation after a sign
_SIGNED = re.compile(
    rf"@[A-Z][A-Z0-9.]*\(.*\)|[+-]\s*{_OPERAND}(?:\s*[-+*/^]\s*{_OPERAND})+", re.IGNORECASE
)
_SIGNED_NUMBER = re.compile(r"[+-]\d+/\d+|\+\d{1,3}(?:[-/ ]\d{2,}){2,}")  # a fraction; a telephone
_CLOCK = re.compile(r"(?:(\d+):)?(\d{1,2}):(\d{1,2}(?:[.,]\d+)?)|(\d+(?:[.,]\d+)?)")


@dataclass(frozen=True, slots=True)
class Row:
    """One line to speak.

    Attributes:
        number, line: of the record, see `Record`.
        seed, speed, max_seconds: None where the row does not say.
        start, end: the slot on a timeline in seconds; None where there is none.
        lexicon: a file, relative to the table's folder, or "none".
        parameters: of the model, those that the row gives.
        extra: other columns, for names and the report.
        skipped: why it is not to be spoken; empty where it is.
    """

    number: int
    line: int
    text: str
    output: str = ""
    id: str = ""
    voice: str = ""
    ref: str = ""
    ref_text: str = ""
    style: str = ""
    seed: int | None = None
    speed: float | None = None
    max_seconds: float | None = None
    language: str = ""
    speaker: str = ""
    lexicon: str = ""
    start: float | None = None
    end: float | None = None
    parameters: Values = field(default_factory=dict)
    extra: Mapping[str, str] = field(default_factory=dict)
    skipped: str = ""

    @property
    def slot_s(self) -> float | None:
        """Seconds the speech may take on the timeline."""
        return None if self.start is None or self.end is None else self.end - self.start


@dataclass(frozen=True, slots=True)
class Problem:
    """Something in a record that must be corrected."""

    number: int
    line: int
    column: str
    message: str

    def __str__(self) -> str:
        return f"row {self.number} (line {self.line}): {self.column}: {self.message}"


@dataclass(frozen=True)
class Defaults:
    """What the command gives for rows that do not say; the seed is the run's.

    Attributes:
        seed: the rows' seeds are derived from it, see `row_seed`.
        sampling: the model's parameters, and limits; its own seed is not looked at.
        lexicon: a table as text.
    """

    seed: int
    voice: str | None = None
    ref: str = ""
    ref_text: str = ""
    style: str = ""
    speed: float = 1.0
    pause_s: float | None = None
    language: str | None = None
    sampling: SamplingParams = field(default_factory=SamplingParams)
    is_normalised: bool = True
    lexicon: str = ""


def row_seed(row: Row, defaults: Defaults) -> int:
    """The row's own seed, or one derived from the run's seed and the row's text.

    Not from its place: rows that are added, removed, sorted or done already change no other row.
    """
    if row.seed is not None:
        return row.seed
    digest = hashlib.sha256(f"{defaults.seed}\n{row.text}".encode()).digest()
    return int.from_bytes(digest[:8], "big") % DERIVED_SEEDS


def longest_s(row: Row, defaults: Defaults) -> float | None:
    """The longest that a row's audio may be; None without a limit."""
    return defaults.sampling.max_seconds if row.max_seconds is None else row.max_seconds


def utterance_of(row: Row, defaults: Defaults) -> Utterance:
    """What is to be said; the voice is a name here, and imitated recordings are not yet in it. A
    lexicon of the row's own is not yet read."""
    sampling = defaults.sampling
    return Utterance(
        text=row.text,
        voice=row.voice or (None if row.ref else defaults.voice),
        sampling=replace(
            sampling,
            seed=row_seed(row, defaults),
            max_seconds=longest_s(row, defaults),
            parameters={**sampling.parameters, **row.parameters},
        ),
        language=row.language or defaults.language,
        speed=defaults.speed if row.speed is None else row.speed,
        is_normalised=defaults.is_normalised,
        pause_s=defaults.pause_s,
        lexicon="" if row.lexicon else defaults.lexicon,
        id=str(row.number),
    )


# ------------------------------------------------------------ parsing


def spreadsheet_problem(cell: str) -> str:
    """What a spreadsheet left in a cell instead of its words; empty where nothing."""
    word = cell.strip()
    if not word:
        return ""
    if _BROKEN.fullmatch(word):
        return f"is '{word}', which a spreadsheet leaves where a formula failed"
    if "#" in word and (broken := _BROKEN_PART.search(word)):
        return f"has '{broken[0]}', which a spreadsheet leaves where a formula failed"
    if word[0] not in "=@+-":
        return ""
    is_signed = _SIGNED.fullmatch(word) and not _SIGNED_NUMBER.fullmatch(word)
    if is_signed or _FORMULA.match(word):
        return f"is the formula '{shorten(word)}'; save the table with its values"
    return ""


def parse_row(record: Record, columns: ParameterColumns | None = None) -> tuple[Row, list[Problem]]:
    """A record's row, as far as it can be read, and everything that is wrong with it.

    Args:
        columns: that are parameters of models; None for a table without any.
    """
    columns = columns or ParameterColumns()
    parser = _Parser(record)
    start, end = parser.slot()
    values = record.values
    fields = columns.fields
    row = Row(
        number=record.number,
        line=record.line,
        text=values.get("text", "") or "",
        **{name: parser.word(name) for name in _WORDS},
        seed=parser.seed(),
        speed=parser.number("speed", MIN_SPEED, MAX_SPEED),
        max_seconds=parser.number("max_seconds", MIN_AUDIO_S, MAX_TIME_S),
        start=start,
        end=end,
        parameters=parser.parameters(columns),
        extra={name: value for name, value in values.items() if name not in fields},
        skipped=record.skipped,
    )
    if record.problem:
        return row, [Problem(record.number, record.line, "record", record.problem)]
    if not row.text.strip() and not row.skipped:
        parser.refuse("text", "is empty")
    for column in _SPOKEN:
        if (cell := values.get(column)) and (why := spreadsheet_problem(cell)):
            parser.refuse(column, why)
    if row.voice and row.ref:
        parser.refuse("ref", f"is given beside voice '{row.voice}'; keep one of them")
    return row, parser.problems


# Cells that are said or become names as they are; others are refused for what they are not
_SPOKEN = ("text", "output", "id", "ref_text", "style", "speaker")
_WORDS = ("output", "id", "voice", "ref", "ref_text", "style", "language", "speaker", "lexicon")


class _Parser:
    """Reads one record's cells and collects what is wrong."""

    def __init__(self, record: Record) -> None:
        self.record = record
        self.problems: list[Problem] = []

    def refuse(self, column: str, message: str) -> None:
        self.problems.append(Problem(self.record.number, self.record.line, column, message))

    def refuse_cell(self, column: str, wanted: str) -> None:
        cell = shorten(self.word(column))
        self.refuse(column, f"is '{cell}'; give {wanted}{way_out(column)}")

    def word(self, column: str) -> str:
        cell = self.record.values.get(column)
        return cell.strip() if cell else ""

    def seed(self) -> int | None:
        cell = self.word("seed")
        if not cell:
            return None
        cell = re.sub(r"[.,]0+$", "", cell)  # as programs write a column with empty cells
        if not re.fullmatch(r"[0-9]{1,19}", cell) or int(cell) > MAX_SEED:
            self.refuse_cell("seed", f"a whole number from 0 to {MAX_SEED}")
            return None
        return int(cell)

    def number(self, column: str, least: float, most: float) -> float | None:
        cell = self.word(column)
        if not cell:
            return None
        try:
            number = float(cell.replace(",", "."))
        except ValueError:
            number = math.nan
        if not least <= number <= most:
            self.refuse_cell(column, f"a number from {least} to {most}")
            return None
        return number

    def parameters(self, columns: ParameterColumns) -> Values:
        values, wrong = columns.read(self.record.values)
        for column, message in wrong.items():
            self.refuse(column, message)
        return values

    def slot(self) -> tuple[float | None, float | None]:
        start, end, duration = self.time("start"), self.time("end"), self.time("duration")
        if end is not None and duration is not None:
            self.refuse("duration", "is given beside end; keep one of them")
        if start is None:
            for column, value in (("end", end), ("duration", duration)):
                if value is not None and not self.word("start"):
                    self.refuse(column, "is given without start")
            return None, None
        end = start + duration if end is None and duration is not None else end
        if end is not None and end > MAX_TIME_S:  # of start and duration together
            self.refuse("duration", f"ends after {MAX_TIME_S // 3600} hours")
            return start, None
        if end is not None and end <= start:
            self.refuse("end" if self.word("end") else "duration", "the slot is empty or negative")
            return start, None
        return start, end

    def time(self, column: str) -> float | None:
        """Seconds, as "12.5" or "1:02:03,500"."""
        cell = self.word(column)
        if not cell:
            return None
        match = _CLOCK.fullmatch(cell)
        if match is None:
            self.refuse_cell(column, "seconds such as 12.5, or 00:01:02.500")
            return None
        if match[4]:
            seconds = float(match[4].replace(",", "."))
        else:
            seconds = 3600.0 * float(match[1] or 0) + 60.0 * int(match[2])
            seconds += float(match[3].replace(",", "."))
        if seconds > MAX_TIME_S:
            self.refuse(column, f"is '{shorten(cell)}', which is after {MAX_TIME_S // 3600} hours")
            return None
        return seconds
