"""A file name in the output folder for each row, safe on Linux, macOS and Windows, each only once.

Names come from the row's `output`, its `id`, or a template. Looks at the folder's symbolic links
and nothing else on disk: what a file that exists means is the business of `resume.py`.

The rules are our own: pathvalidate 3.3.1 takes `..`, `CON .wav`, C1 controls and marks that turn
the direction of text for good names, so that most of the rules would stand here beside it.
"""

from __future__ import annotations

import os
import re
import stat
import string
import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path, PurePosixPath
from typing import Any

from voxcli.audio.formats import FORMATS, resolve_format
from voxcli.audio.names import is_reserved, slug
from voxcli.batch.records import shorten
from voxcli.batch.rows import Problem, Row
from voxcli.errors import OutputError, UsageError, nearest, reason_of

TEMPLATE = "{index:04d}"
MAX_PART_BYTES = 240  # of the 255 a file system allows, with room for a number and a hidden name
WORK_FOLDER = ".voxcli-batch"
MAX_PATH_BYTES = 1000  # of the 1,024 that macOS allows
MAX_WIDTH_DIGITS = 3  # of a number in a template
# Reserved somewhere, control characters, and those that turn the direction of what follows
_UNSAFE = re.compile(r'[<>:"/\\|?*\x00-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069]')
_NUMBERS = ("index", "record", "line")
_WORDS = ("output", "id", "voice", "style", "language", "speaker")


class Template(string.Formatter):
    """`{index:04d}_{speaker}.wav`: numbers, fields and other columns of a row.

    Raises:
        UsageError: a placeholder that no row has, or a format that does not fit.
    """

    def __init__(self, template: str, columns: Iterable[str]) -> None:
        self.template = template
        self.known = tuple(dict.fromkeys((*_NUMBERS, *_WORDS, "text", *columns)))
        try:
            self._check_widths()
            self.name_of(Row(1, 1, "text", extra=dict.fromkeys(columns, "x")), 1)
        except (ValueError, IndexError, KeyError, AttributeError, TypeError) as err:
            raise UsageError(
                f"--name '{template}' cannot be used: {reason_of(err)}",
                hint="write it like '{index:04d}_{speaker}.wav'",
            ) from err

    def _check_widths(self) -> None:
        for _, _, spec, _ in self.parse(self.template):
            if re.search(rf"{{|\d{{{MAX_WIDTH_DIGITS + 1}}}", spec or ""):
                raise ValueError(f"the format '{spec}'")

    @property
    def has_suffix(self) -> bool:
        """Whether its own words end in a suffix: dots of cells, as in "1. The Sea", make none."""
        *_, (last, name, _, _) = (("", None, None, None), *self.parse(self.template))
        return name is None and "." in last

    def name_of(self, row: Row, index: int) -> str:
        """The name of a row; what is unsafe in its cells becomes a dash."""
        cells = {**row.extra, **row.parameters}
        values: dict[str, Any] = {name: _UNSAFE.sub("-", str(v)) for name, v in cells.items()}
        values |= {name: _UNSAFE.sub("-", getattr(row, name)) for name in _WORDS}
        values |= {"index": index, "record": row.number, "line": row.line, "text": slug(row.text)}
        return self.vformat(self.template, (), values)

    def get_value(self, key: int | str, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
        if key not in self.known:
            hint = f"{nearest(str(key), self.known)}known: {', '.join(self.known)}"
            raise UsageError(f"--name: no column '{key}'", hint=hint)
        return kwargs.get(str(key), "")

    def get_field(self, field_name: str, args: Any, kwargs: Any) -> Any:
        return self.get_value(field_name, args, kwargs), field_name  # no attributes, no items


class Namer:
    """Gives every row its path in the output folder.

    Args:
        folder: the output folder; need not exist.
        format: suffix for names that have none.
        template: for rows without `output` and `id`; None means `TEMPLATE`.
        is_numbering: give the second of two equal names a number instead of refusing it.
    """

    def __init__(
        self,
        folder: Path,
        template: Template | None,
        *,
        format: str = "wav",
        bits: str | None = None,
        rate: int | None = None,
        is_numbering: bool = False,
    ) -> None:
        self.folder = folder
        self.template = template
        self.suffix = f".{format}"
        self.is_numbering = is_numbering
        self._bits, self._rate = bits, rate
        self._folder_bytes = len(os.fsencode(os.path.join(os.path.abspath(folder), "")))
        self._taken: dict[str, Row] = {}
        self._folders: dict[str, Row] = {}
        self._formats: dict[str, str] = {}
        self._parents: dict[str, str] = {}
        self._is_new = not os.path.lexists(folder)

    def name(self, row: Row, *, has_output: bool) -> tuple[str, list[Problem]]:
        """The row's path below the folder, with `/`, and what is wrong with it.

        Args:
            has_output: the table has a column for names, so that an empty cell is a mistake.
        """
        column, name = self._asked(row, has_output=has_output)
        if not name:
            message = "is empty; give a file name, or use --name"
            return "", [Problem(row.number, row.line, column, message)]
        wrong = self._unsafe(name) or self._format_problem(name) or self._outside(name)
        if not wrong:
            name, wrong = self._claim(row, name)
        return name, [Problem(row.number, row.line, column, wrong)] if wrong else []

    def _asked(self, row: Row, *, has_output: bool) -> tuple[str, str]:
        if self.template is not None:
            name = self.template.name_of(row, row.number)
            return "name", self._with_suffix(name, is_sure=self.template.has_suffix)
        if row.output:
            return "output", self._with_suffix(row.output)
        if row.id:
            return "id", f"{row.id}{self.suffix}"
        return "output", "" if has_output else f"{row.number:04d}{self.suffix}"

    def _with_suffix(self, name: str, *, is_sure: bool = True) -> str:
        """Empty where nothing but a suffix is left, as of a template whose cells are empty.

        Args:
            is_sure: what follows the last dot is a suffix, of a format or not: the user wrote it.
        """
        last = name.rpartition("/")[2]
        if not last or last.lower().removeprefix(".") in FORMATS:
            return ""
        suffix = suffix_of(name)
        has_suffix = bool(suffix) and (is_sure or suffix.lower().removeprefix(".") in FORMATS)
        return name if has_suffix else f"{name}{self.suffix}"

    def _format_problem(self, name: str) -> str:
        suffix = suffix_of(name).lower()
        if suffix not in self._formats:
            try:
                chosen = resolve_format(f"x{suffix}", self._bits)
                if self._rate is not None:
                    chosen.choose_rate(self._rate, self._rate)
                self._formats[suffix] = ""
            except (UsageError, OutputError) as err:
                self._formats[suffix] = str(err)
        wrong = self._formats[suffix]
        return f"'{shorten(name)}': {wrong}" if wrong else ""

    def _unsafe(self, name: str) -> str:
        shown = shorten(name)
        if name.startswith("/"):
            return f"'{shown}' is absolute; give a name inside the output folder"
        parts = name.split("/")
        for part in parts:
            if part in ("", ".", ".."):
                return f"'{shown}' has the part '{part}'; give a name inside the output folder"
            if bad := _UNSAFE.search(part):
                return f"'{shown}' has {bad[0]!r}, which not every system allows in a name"
            if part[-1] in " ." or part[0] == " ":
                return f"'{shown}' has a part that begins with a space or ends with one or a dot"
            if is_reserved(part):
                return f"'{shown}' is a reserved name on Windows"
            if (size := len(part.encode("utf-8", "surrogateescape"))) > MAX_PART_BYTES:
                return f"'{shown}' is {size} bytes long; give at most {MAX_PART_BYTES}"
        size = self._folder_bytes + len(os.fsencode(name))
        if size > MAX_PATH_BYTES:
            return f"'{shown}' makes a path of {size} bytes; give at most {MAX_PATH_BYTES}"
        if parts[0].casefold() == WORK_FOLDER:
            return f"'{shown}' is in the folder that voxcli works in"
        return ""

    def _outside(self, name: str) -> str:
        """What is on the disk and in the way of a name; each parent is looked at once."""
        parent = name.rpartition("/")[0]
        if parent not in self._parents:
            self._parents[parent] = self._parent_problem(parent)
        if wrong := self._parents[parent]:
            return f"'{shorten(name)}' {wrong}"
        if self._is_new:
            return ""
        try:
            mode = os.lstat(f"{self.folder}/{name}").st_mode
        except (OSError, ValueError):
            return ""
        if stat.S_ISLNK(mode):
            return f"'{shorten(name)}' is a symbolic link; remove it or choose another name"
        return f"'{shorten(name)}' is a folder" if stat.S_ISDIR(mode) else ""

    def _parent_problem(self, parent: str) -> str:
        root = Path(os.path.realpath(self.folder))
        real = Path(os.path.realpath(self.folder / parent))
        if not real.is_relative_to(root):
            return f"leads out of the output folder by a link, to {real}"
        for path in (real, *real.parents):
            if path == root:
                break
            if os.path.lexists(path) and not path.is_dir():
                return f"needs a folder where there is a file, {path}"
        return ""

    def _claim(self, row: Row, asked: str) -> tuple[str, str]:
        """Take the name; equal ones differ at most in case or in the Unicode form."""
        name, count = asked, 1
        while (other := self._taken.get(key := _fold(name))) is not None:
            if not self.is_numbering:
                clash = f"is also the output of row {other.number} (line {other.line})"
                hint = "--on-duplicate number gives it a number"
                return name, f"'{shorten(name)}' {clash}; {hint}"
            count += 1
            stem, dot, suffix = asked.rpartition(".")
            name = f"{stem}-{count}{dot}{suffix}"
        if (other := self._folders.get(key)) is not None:
            return name, f"'{shorten(name)}' is a folder in the output of row {other.number}"
        parts = key.split("/")[:-1]
        parents = ["/".join(parts[:depth]) for depth in range(1, len(parts) + 1)]
        for parent in parents:
            if (other := self._taken.get(parent)) is not None:
                return name, f"'{parent}' is a file, the output of row {other.number}"
        self._taken[key] = row
        for parent in parents:
            self._folders.setdefault(parent, row)
        return name, ""


def check_format(format: str, bits: str | None, rate: int | None) -> None:
    """Refuse a suffix, depth or rate that no file could have.

    Raises:
        UsageError, OutputError: as `resolve_format`.
    """
    if format not in FORMATS:
        hint = f"{nearest(format, FORMATS)}known formats: {', '.join(FORMATS)}"
        raise UsageError(f"--format is '{format}'", hint=hint)
    chosen = resolve_format(format, bits)
    if rate is not None:
        chosen.choose_rate(rate, rate)


def suffix_of(name: str) -> str:
    """As of `PurePosixPath`, at a tenth of its time."""
    last = name.rpartition("/")[2]
    if last in ("", "."):  # the path is that of the folder
        return PurePosixPath(name).suffix
    dot = last.rfind(".")
    return last[dot:] if 0 < dot < len(last) - 1 else ""


def _fold(name: str) -> str:
    if name.isascii():
        return name.casefold()
    return unicodedata.normalize("NFC", unicodedata.normalize("NFKD", name).casefold())


def file_exists(path: str | Path) -> bool:
    """Whether something of that name is there, a broken link included."""
    return os.path.lexists(path)
