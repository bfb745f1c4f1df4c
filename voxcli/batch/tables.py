"""A file of lines to speak -> records: CSV, TSV, JSONL, subtitles, a script or plain text.

Finds encoding and delimiter, and says what it found. A record is strings by field or column name,
with its number and file line; what the strings mean is `rows.py`. A record that cannot be read
keeps its place and says why, so that one bad line does not hide the others.
"""

from __future__ import annotations

import csv
import io
import json
import re
import shlex
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from itertools import islice
from pathlib import Path

from voxcli.batch.captions import AUTO
from voxcli.batch.chapters import TEXT_ALONE, BookChoice, read_chapters
from voxcli.batch.cues import read_cues
from voxcli.batch.encoding import read_input
from voxcli.batch.records import (
    FIELDS,
    Record,
    Table,
    fold_header,
    likened,
    misspelt,
    shorten,
)
from voxcli.batch.scripts import read_script
from voxcli.errors import UsageError, nearest, reason_of

SUFFIXES = {
    ".csv": "csv", ".tsv": "csv", ".tab": "csv", ".jsonl": "jsonl", ".ndjson": "jsonl",
    ".srt": "subtitles", ".vtt": "subtitles", ".ass": "subtitles", ".ssa": "subtitles",
    ".txt": "text", ".epub": "epub", ".md": "markdown", ".markdown": "markdown",
}  # fmt: skip
BOOKS = tuple(suffix for suffix, kind in SUFFIXES.items() if kind in ("epub", "markdown", "text"))
DELIMITERS = {",": "comma", ";": "semicolon", "\t": "tab", "|": "bar"}
SAMPLE_RECORDS = 100  # looked at to find the delimiter
# Two words and an end, or four words; "Nr." is none.
_SENTENCE = re.compile(r"\S\s.*[.!?…]\s*$|[。！？]\s*$|\S\s+\S+\s+\S+\s+\S")
_SEP = re.compile(r'"?sep=(.)"?', re.IGNORECASE)
MAX_CELL = 16 * 1024 * 1024  # characters; the csv module's own limit is shorter than a chapter


def read_table(
    path: Path,
    *,
    encoding: str | None = None,
    delimiter: str | None = None,
    mapping: Mapping[str, str] | None = None,
    parameters: Mapping[str, str] | None = None,
    has_header: bool = True,
    labels: str = AUTO,
    cast: Collection[str] = (),
    book: BookChoice = TEXT_ALONE,
) -> Table:
    """Read all records of a file; its suffix says what it is.

    Args:
        delimiter: of a CSV, or None to find it.
        mapping: field -> the column it is in; empty where it is in none.
        parameters: headers of further fields -> the field.
        has_header: whether the first record of a CSV names its columns; else they are 1, 2, ….
        labels, cast: which words before a colon in subtitles and scripts are speakers, see
            `read_cues`.
        book: what of a book is spoken.

    Raises:
        UsageError: unreadable, of an unknown kind, without the column `text`, or without records.
        TextError: undecodable.
    """
    kind = SUFFIXES.get(path.suffix.lower())
    if path.is_dir():
        raise UsageError(f"{path} is a folder", hint=f"give a file: {', '.join(SUFFIXES)}")
    if kind is None:
        hint = f"use one of {', '.join(SUFFIXES)}; spreadsheets save .csv, Calibre makes .epub"
        what = f"its suffix is '{path.suffix}'" if path.suffix else "it has no suffix"
        raise UsageError(f"{path} is not a table: {what}", hint=hint)
    mapping = mapping or {}
    if kind in ("epub", "markdown") or (kind == "text" and book.is_book):
        _refuse_for_tables(path, mapping, has_header=has_header, labels=labels)
        _refuse_delimiter(path, delimiter)
        return read_chapters(path, kind, book, encoding)
    if book.given:
        hint = f"leave it out, or give one of {', '.join(BOOKS)}"
        raise UsageError(f"{book.given} is given, but {path} is not a book", hint=hint)
    text, how = read_input(path, encoding)
    if not text.strip():
        raise UsageError(f"{path} is empty", hint="check what is in it")
    columns: tuple[str, ...] = ()
    names: list[str] = []
    notes: tuple[str, ...] = ()
    lost: tuple[str, ...] = ()
    named = {field: field for field in FIELDS} | dict(parameters or {})
    fields = {fold_header(header): field for header, field in named.items()}
    if kind not in ("subtitles", "text") and labels != AUTO:
        hint = "leave it out; the column speaker names who speaks"
        raise UsageError(f"--labels is given, but {path} is a table", hint=hint)
    if kind != "csv":
        _refuse_no_header(path, has_header=has_header)
        _refuse_delimiter(path, delimiter)
    if kind == "csv":
        sep, text = _take_sep(text)
        found = delimiter or sep or _find_delimiter(
            text, mapping, fields, path.suffix.lower(), has_header=has_header
        )  # fmt: skip
        columns, names, records = _read_csv(
            text, found, mapping, fields, path, has_header=has_header
        )
        how += f", {DELIMITERS.get(found, repr(found))}-separated"
        of_text = [name for field, name in mapping.items() if fold_header(field) == "text"]
        if has_header and any(map(_SENTENCE.search, of_text)):
            shown = shorten(", ".join(columns))
            notes = (
                f"the first line is the header, which is not spoken: {shown}; if it is a row, "
                "add --no-header",
            )
    elif kind == "jsonl":
        columns, names, records = _read_jsonl(text, mapping, fields, path)
    else:
        _refuse_mapping(mapping, path)
        if kind == "subtitles":
            records, notes, lost = read_cues(text, path, labels=labels, cast=cast)
        elif (script := read_script(text, labels=labels, cast=cast)) is not None:
            records, notes = script
            how += ", as a script"
        else:
            _refuse_hidden_table(text, fields, path)
            records = _read_text(text)
    if kind in ("csv", "jsonl") and has_header:
        more, near = _others(names, _missing(names, mapping, fields), set(fields.values()))
        how, notes = how + more, (*notes, *near)
    if not records:
        hint = "add a row below the header" if kind == "csv" else "check what is in it"
        raise UsageError(f"{path} has 0 rows", hint=hint)
    return Table(path, kind, columns, tuple(records), how, notes, lost)


def _empty(path: Path) -> UsageError:
    return UsageError(f"{path} is empty", hint="give a table with a column 'text'")


def _refuse_for_tables(
    path: Path, mapping: Mapping[str, str], *, has_header: bool, labels: str
) -> None:
    """Refuse for a book what is for tables and subtitles."""
    if labels != AUTO:
        raise UsageError(f"--labels is given, but {path} is a book", hint="leave it out")
    _refuse_no_header(path, has_header=has_header)
    _refuse_mapping(mapping, path)


def _refuse_no_header(path: Path, *, has_header: bool) -> None:
    if not has_header:
        raise UsageError(f"--no-header is given, but {path} has no header", hint="leave it out")


def _refuse_delimiter(path: Path, delimiter: str | None) -> None:
    if delimiter is not None:
        message = f"--delimiter is given, but {path} is not a CSV file"
        raise UsageError(message, hint="leave it out")


def _refuse_mapping(mapping: Mapping[str, str], path: Path) -> None:
    if mapping:
        raise UsageError(f"--map is given, but {path} has no columns", hint="leave --map out")


def _refuse_hidden_table(text: str, fields: Mapping[str, str], path: Path) -> None:
    """Refuse a plain text that is a table by its first line: spreadsheets save "Unicode Text"."""
    first = text.partition("\n")[0]
    for delimiter, name in DELIMITERS.items():
        cells = [fold_header(cell) for cell in first.split(delimiter)]
        if len(cells) > 1 and "text" in cells and all(cell in fields for cell in cells):
            suffix = ".tsv" if delimiter == "\t" else ".csv"
            hint = f"rename it {path.with_suffix(suffix)}, or take the first line out"
            raise UsageError(f"{path} is a table with a {name} between cells", hint=hint)


def _read_text(text: str) -> list[Record]:
    lines = enumerate(text.split("\n"), start=1)
    spoken = [(line, words.strip()) for line, words in lines if words.strip()]
    return [Record(i, line, {"text": words}) for i, (line, words) in enumerate(spoken, start=1)]


# ------------------------------------------------------------ columns


def name_columns(
    columns: tuple[str, ...], mapping: Mapping[str, str], fields: Mapping[str, str], path: Path
) -> list[str]:
    """The field that each column is, or its own name.

    Args:
        fields: folded header to field.

    Raises:
        UsageError: a column twice, or a mapping to what is not there.
    """
    folded = [fold_header(column) for column in columns]
    names = [fields.get(fold_header(column), column.strip()) for column in columns]
    known = list(dict.fromkeys(fields.values()))
    for asked, column in mapping.items():
        field = fold_header(asked)
        if field not in fields:
            if fold_header(column) in fields:
                raise UsageError(
                    f"--map {field}={column}: the field comes first",
                    hint=f"write --map '{column}={asked}'",
                )
            hint = f"{nearest(field, known)}fields: {', '.join(known)}"
            raise UsageError(f"--map {field}={column}: no field '{field}'", hint=hint)
        names = [f"({name})" if name == fields[field] else name for name in names]
        if not column.strip():
            continue
        if fold_header(column) not in folded:
            hint = f"{nearest(column, columns)}columns found: {', '.join(columns)}"
            raise UsageError(f"--map {field}={column}: {path} has no such column", hint=hint)
        names[folded.index(fold_header(column))] = fields[field]
    counts = Counter(names)
    twice = next((name for name in names if name and counts[name] > 1), None)
    if twice is not None:
        raise UsageError(f"{path} has the column '{twice}' twice", hint="rename one of them")
    return names


def _missing(
    names: Sequence[str], mapping: Mapping[str, str], fields: Mapping[str, str]
) -> dict[str, str]:
    """Folded headers, and their fields, that are in no column and that nobody mapped."""
    there = {*names, *(fields.get(fold_header(asked), "") for asked in mapping)}
    return {header: field for header, field in fields.items() if field not in there}


def _misspelt(
    names: Sequence[str], missing: Mapping[str, str], known: Collection[str]
) -> dict[str, str]:
    """Columns that are nearly called like a field that the table lacks, and the field of each."""
    others = [name for name in names if name not in known]
    return {name: missing[found] for name in others if (found := misspelt(name, missing))}


def _refuse_misspelt(meant: Mapping[str, str], path: Path) -> None:
    if meant:
        plural = "s" if len(meant) > 1 else ""
        shown = " and ".join(f"'{name}'" for name in meant)
        vain = " ".join(f"--map {field}=" for field in meant.values())
        hint = f"{_rename(meant)}; to leave the column{plural} unused, add {vain}"
        raise UsageError(f"{path} has the column{plural} {shown}", hint=hint)


def _rename(meant: Mapping[str, str]) -> str:
    wanted = " and ".join(f"'{field}'" for field in meant.values())
    maps = " ".join(f"--map {shlex.quote(f'{field}={name}')}" for name, field in meant.items())
    return f"did you mean {wanted}? rename {'it' if len(meant) == 1 else 'them'}, or add {maps}"


def _others(
    names: Sequence[str], missing: Mapping[str, str], known: Collection[str]
) -> tuple[str, tuple[str, ...]]:
    """For people: the columns that are no field, and which of them may be meant for one."""
    others = [name for name in names if name and name not in known and not name.startswith("(")]
    notes = []
    for name in others:
        if meant := likened(name, missing):
            field = missing[meant]
            add = shlex.quote(f"{field}={name}")
            notes.append(
                f"the column '{shorten(name)}' is not used; if it is '{field}', add --map {add}, "
                f"else --map {field}="
            )
    shown = shorten(", ".join(others)) if others else ""
    return (f"; other columns: {shown}" if shown else ""), tuple(notes)


def _require_text(
    names: Sequence[str],
    columns: Sequence[str],
    path: Path,
    rows: Sequence[Sequence[str]],
    meant: Mapping[str, str],
) -> None:
    """Refuse a table whose text cannot be told, with what would tell it.

    Args:
        rows: cells of some records below the header, and of it where it may be one of them.
        meant: see `_misspelt`.
    """
    if "text" in names:
        return
    found = ", ".join(column or "(no name)" for column in columns)
    index = max(range(len(columns)), key=lambda i: sum(len(row[i]) for row in rows if i < len(row)))
    hint = f"name the column of the text with --map 'text={columns[index]}'"
    if rows and rows[0] == list(columns):
        number = f" --map text={index + 1}" if len(columns) > 1 else ""
        without = f"add --no-header{number}"
        is_words = any(_SENTENCE.search(cell) for cell in columns)
        hint = f"if its first line is a row, {without}" + ("" if is_words else f"; else {hint}")
    if "text" in meant.values():
        hint = _rename(meant)
    if any(fold_header(column) == "text" for column in columns):
        hint = "--map makes another field of it; name the column of the text with --map text=COLUMN"
    raise UsageError(f"{path} has no column 'text'; found: {found}; required: text", hint=hint)


# ------------------------------------------------------------ CSV


def _take_sep(text: str) -> tuple[str, str]:
    """The delimiter that a spreadsheet's first line `sep=;` names, and the text without the line.

    An empty line takes its place, so that line numbers stay those of the file.
    """
    line, _, rest = text.partition("\n")
    match = _SEP.fullmatch(line)
    return (match[1], f"\n{rest}") if match else ("", text)


def _parse_csv(text: str, delimiter: str) -> Iterator[tuple[int, list[str] | str]]:
    """Line and cells of each record, or what is wrong with it; blank lines are no records."""
    limit = csv.field_size_limit(MAX_CELL)
    try:
        reader = csv.reader(io.StringIO(text, newline=""), delimiter=delimiter, strict=True)
        while True:
            line = reader.line_num + 1
            try:
                cells = next(reader)
            except StopIteration:
                return
            except csv.Error as err:
                yield line, _quote_problem(str(err))
                continue
            if any(cell.strip() for cell in cells):  # spreadsheets end files with ",,,"
                yield line, cells
    finally:
        csv.field_size_limit(limit)


def _quote_problem(message: str) -> str:
    if "unexpected end" in message:
        return "a quote is opened here and never closed"
    if "expected after" in message:
        return 'text follows a closing quote; write a quote inside a quoted cell twice: ""'
    return f"cannot be read: {message}"


def _find_delimiter(
    text: str,
    mapping: Mapping[str, str],
    fields: Mapping[str, str],
    suffix: str,
    *,
    has_header: bool,
) -> str:
    """The delimiter under which the header has the wanted columns and records are equally wide.

    Commas that are followed by spaces are of sentences, where no header says otherwise.
    """
    wanted = {*fields, *(fold_header(column) for column in mapping.values())} if has_header else {}
    needed = fold_header(mapping.get("text", "text"))

    def score(delimiter: str) -> tuple[bool, int, bool, bool, float, int]:
        parsed = _parse_csv(text, delimiter)
        rows = [cells for _, cells in islice(parsed, SAMPLE_RECORDS)]
        tables = [cells for cells in rows if isinstance(cells, list)]
        header = {fold_header(cell) for cell in tables[0]} if tables else set()
        width = len(tables[0]) if tables else 0
        even = sum(len(cells) == width for cells in tables) / max(1, len(rows))
        is_usual = suffix in (".tsv", ".tab") and delimiter == "\t"
        later = [cell for cells in tables for cell in cells[1:]]
        is_prose = sum(cell.startswith(" ") for cell in later) * 2 > len(later)
        return (
            has_header and needed in header, len(header & set(wanted)), is_usual, not is_prose,
            even, width,
        )  # fmt: skip

    return max(DELIMITERS, key=score)


def _read_csv(
    text: str,
    delimiter: str,
    mapping: Mapping[str, str],
    fields: Mapping[str, str],
    path: Path,
    *,
    has_header: bool,
) -> tuple[tuple[str, ...], list[str], list[Record]]:
    if len(delimiter) != 1:
        hint = f"give one character, or {', '.join(DELIMITERS.values())}"
        raise UsageError(f"--delimiter is '{delimiter}'", hint=hint)
    parsed = list(_parse_csv(text, delimiter))
    if not parsed:
        raise _empty(path)
    line, first = parsed[0]
    if isinstance(first, str):
        raise UsageError(f"{path}, line {line}: {first}", hint="correct it")
    sample = [cells for _, cells in parsed[:SAMPLE_RECORDS] if isinstance(cells, list)]
    columns = tuple(first)
    if has_header:
        del parsed[0]
        names = name_columns(columns, mapping, fields, path)
        meant = _misspelt(names, _missing(names, mapping, fields), set(fields.values()))
        _require_text(names, columns, path, sample, meant)
        _refuse_misspelt(meant, path)
    else:
        columns = tuple(str(number) for number in range(1, len(first) + 1))
        alone = {"text": "1"} if len(columns) == 1 else {}
        names = name_columns(columns, {**alone, **mapping}, fields, path)
        _require_text(names, columns, path, sample, {})
    records = []
    for number, (line, cells) in enumerate(parsed, start=1):
        problem = cells if isinstance(cells, str) else ""
        values = {} if isinstance(cells, str) else dict(zip(names, cells, strict=False))
        if len(cells) > len(names) and any(cells[len(names) :]) and not problem:
            problem = (
                f"{len(cells)} cells where the header has {len(names)}; "
                f"quote a cell that holds a {DELIMITERS.get(delimiter, 'delimiter')}"
            )
        if "text" in values:
            values["text"] = " ".join(values["text"].split("\n")).strip()
        records.append(Record(number, line, values, problem))
    return columns, names, records


# ------------------------------------------------------------ JSONL


def _read_jsonl(
    text: str, mapping: Mapping[str, str], fields: Mapping[str, str], path: Path
) -> tuple[tuple[str, ...], list[str], list[Record]]:
    objects: list[tuple[int, dict[str, object] | str]] = []
    for line, words in enumerate(text.split("\n"), start=1):
        if not words.strip():
            continue
        try:
            value = json.loads(
                words, parse_int=str, parse_float=str, parse_constant=str,
                object_pairs_hook=_each_once,
            )  # fmt: skip
            json.dumps(value, ensure_ascii=False).encode()
        except UnicodeEncodeError:
            objects.append((line, r"has half a character, such as \ud800 alone"))
            continue
        except (ValueError, RecursionError) as err:
            objects.append((line, f"is not a row of JSON: {reason_of(err)}"))
            continue
        objects.append((line, value if isinstance(value, dict) else "is not a JSON object"))
    tables = [value for _, value in objects if isinstance(value, dict)]
    if not tables:
        raise UsageError(f"{path} has no JSON object", hint='write {"text": "…"}, one a line')
    columns = tuple(dict.fromkeys(key for value in tables for key in value))
    named = name_columns(columns, mapping, fields, path)
    names = dict(zip(columns, named, strict=True))
    sample = [[_as_text(value.get(key)) for key in columns] for value in tables[:SAMPLE_RECORDS]]
    meant = _misspelt(named, _missing(named, mapping, fields), set(fields.values()))
    _require_text(named, columns, path, sample, meant)
    _refuse_misspelt(meant, path)
    known = set(fields.values())
    records = []
    for number, (line, value) in enumerate(objects, start=1):
        if isinstance(value, str):
            records.append(Record(number, line, {}, value))
            continue
        cells = {names[key]: _as_text(cell) for key, cell in value.items()}
        nested = [key for key, cell in value.items() if isinstance(cell, (dict, list))]
        wrong = [key for key in nested if names[key] in known]
        problem = f"'{wrong[0]}' is a list or an object; give text or a number" if wrong else ""
        records.append(Record(number, line, cells, problem))
    return columns, named, records


def _each_once(pairs: list[tuple[str, object]]) -> dict[str, object]:
    """An object; raises ValueError for a name that it has twice, of which json keeps the last."""
    found = dict(pairs)
    if len(found) < len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        raise ValueError(f"it has '{shorten(twice)}' twice")
    return found


def _as_text(value: object) -> str:
    if value is None:
        return ""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
