"""How words are said, as a user's table has it: `--lexicon`.

A table is CSV of a written form, a spoken form and, if wanted, a language and how it matches: as a
whole word or as a regular expression. A form with a capital matches as it stands, one without in
any case. Of forms that match at one place the longest counts, and what is said for one is not
looked up again. Knows no rule of a language.
"""

from __future__ import annotations

import csv
import io
import re
import stat
import time
import unicodedata
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING

from voxcli.errors import TextError, UsageError, hint_for_file, reason_of
from voxcli.text.changes import Change, Draft
from voxcli.text.decode import decode_text
from voxcli.text.patterns import pattern_of
from voxcli.text.pauses import has_mark
from voxcli.text.segmenter import UNSPACED_SCRIPTS

if TYPE_CHECKING:
    from regex import Pattern

KIND = "lexicon"
MAX_BYTES = 1 << 20  # of a table
MAX_FORMS = 20_000
MAX_EXPRESSIONS = 200
MAX_WRITTEN, MAX_SPOKEN = 100, 500  # characters
SOURCE = "the lexicon"  # that came without a file
FIELDS = ("written", "spoken", "language", "match")
WORD, EXPRESSION = "word", "regex"
EXPRESSIONS_S = 1.0  # of processor time for all on one text, and again for each `PER_CHARACTERS`
PER_CHARACTERS = 100_000

_LANGUAGE = pattern_of(r"[A-Za-z]{2,3}(?:[-_][A-Za-z0-9]{1,8}){0,3}")
_SPACED = pattern_of(f"[^\\W{UNSPACED_SCRIPTS}]")  # a letter of a word that ends at a space
_APOSTROPHES = str.maketrans("‘’ʼ", "'''")  # each as long as what it stands for
_IN_LINE = _APOSTROPHES | {ord("\n"): " "}  # a form of several words may go over a line's end


@dataclass(frozen=True, slots=True)
class Form:
    """One line of a table.

    Attributes:
        line: in the table, from 1.
        language: ISO 639-1; empty for any.
        expression: None for a whole word.
    """

    line: int
    written: str
    spoken: str
    language: str = ""
    expression: Pattern[str] | None = None

    @property
    def is_exact(self) -> bool:
        """Whether it has a capital, so that its case counts."""
        return self.written != self.written.lower()

    @property
    def is_word(self) -> bool:
        """Whether it matches as a whole word."""
        return self.expression is None

    @property
    def cells(self) -> tuple[str, str, str, str]:
        """It as a line of a table, in the order of `FIELDS`."""
        return self.written, self.spoken, self.language, WORD if self.is_word else EXPRESSION


@dataclass
class _Lookup:
    """The forms for one language.

    Attributes:
        exact, folded: whole words by what is written.
        lengths: of the forms that begin with a character in lower case, longest first.
    """

    exact: dict[str, Form] = field(default_factory=dict)
    folded: dict[str, Form] = field(default_factory=dict)
    lengths: dict[str, list[int]] = field(default_factory=dict)
    expressions: list[Form] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class _Use:
    start: int
    end: int
    said: str
    form: Form


@lru_cache(maxsize=16)
def read_forms(lexicon: str, source: str = SOURCE) -> tuple[Form, ...]:
    """The lines of a table.

    Args:
        source: what messages call it.

    Raises:
        UsageError: a line cannot be used, or the table is too large.
    """
    if len(lexicon) > MAX_BYTES:
        raise UsageError(f"{source} has more than {MAX_BYTES:,} characters")
    first = next((line for line in lexicon.split("\n") if line.strip()), "")
    delimiter = "\t" if "\t" in first else ";" if ";" in first and "," not in first else ","
    reader = csv.reader(io.StringIO(lexicon, newline=""), delimiter=delimiter, strict=True)
    names: tuple[str, ...] = FIELDS
    forms: list[Form] = []
    seen: dict[tuple[str, str, bool], int] = {}
    line, num_expressions = 1, 0
    try:
        for cells in reader:
            here, line = line, reader.line_num + 1
            values = [cell.strip() for cell in cells]
            if not any(values) or (values[0].startswith("#") and len(values) == 1):
                continue
            if not forms and set(FIELDS[:2]) <= {value.lower() for value in values}:
                names = tuple(value.lower() for value in values)
                continue
            form = _form(here, names, values)
            key = (form.written, form.language, form.expression is None)
            if seen.setdefault(key, here) != here:
                raise ValueError(f"'{form.written}' is in line {seen[key]} already")
            forms.append(form)
            if len(forms) > MAX_FORMS:
                raise ValueError(f"there are more than {MAX_FORMS:,} forms")
            num_expressions += form.expression is not None
            if num_expressions > MAX_EXPRESSIONS:
                raise ValueError(f"there are more than {MAX_EXPRESSIONS} regular expressions")
    except csv.Error as err:
        raise UsageError(f"{source}, line {line}: {err}", hint=_WAY) from err
    except ValueError as err:
        raise UsageError(f"{source}, line {here}: {err}", hint=_WAY) from err
    return tuple(forms)


_WAY = "a line is: written,spoken[,language[,word or regex]]"


def _form(line: int, names: tuple[str, ...], values: list[str]) -> Form:
    """The form of a line; ValueError says what is wrong with it."""
    if odd := [name for name in names if name not in FIELDS]:
        raise ValueError(f"the header has '{odd[0]}'; it may have {', '.join(FIELDS)}")
    if len(values) > len(names):
        raise ValueError(f"it has {len(values)} cells; put quotes around one with a comma in it")
    given: Mapping[str, str] = dict(zip(names, values, strict=False))
    written = unicodedata.normalize("NFC", given.get("written", "")).translate(_APOSTROPHES)
    spoken = unicodedata.normalize("NFC", given.get("spoken", ""))
    language, match = given.get("language", ""), given.get("match", "").lower() or WORD
    for name, value, most in (("written", written, MAX_WRITTEN), ("spoken", spoken, MAX_SPOKEN)):
        if not value:
            raise ValueError(f"it has no {name} form")
        if len(value) > most:
            raise ValueError(f"its {name} form has {len(value)} characters; the most is {most}")
    if has_mark(spoken):
        raise ValueError("a spoken form is words; put pauses into the text")
    if language and not _LANGUAGE.fullmatch(language):
        raise ValueError(f"'{language}' is not a language code such as en")
    if match not in (WORD, EXPRESSION):
        raise ValueError(f"'{match}' is neither '{WORD}' nor '{EXPRESSION}'")
    code = re.split("[-_]", language.lower())[0]
    if match == WORD:
        return Form(line, written, spoken, code)
    return Form(line, given["written"], spoken, code, _compiled(given["written"], spoken))


def _compiled(expression: str, spoken: str) -> Pattern[str]:
    import regex  # it can be told how long a search may take; few texts need it

    try:
        pattern = regex.compile(expression)
        regex.sub(f"{expression}|", spoken, "", count=1)  # a group that is not there
        if pattern.search("", timeout=EXPRESSIONS_S):
            raise ValueError(f"the expression '{expression}' matches nothing, which is everywhere")
    except (regex.error, IndexError, TimeoutError, RecursionError) as err:
        raise ValueError(f"the expression '{expression}' cannot be used: {err}") from err
    return pattern


def load_lexicon(path: Path) -> str:
    """A table as text, all of whose lines can be used.

    Raises:
        UsageError: it cannot be read, or a line cannot be used, which is named.
    """
    try:
        if not stat.S_ISREG(path.stat().st_mode):
            raise UsageError(f"{path} is not a regular file", hint="give a CSV file as the lexicon")
        with path.open("rb") as file:
            content = file.read(MAX_BYTES + 1)
    except (OSError, ValueError) as err:
        hint = hint_for_file(path, "check the lexicon's name")
        raise UsageError(f"cannot read {path}: {reason_of(err)}", hint=hint) from err
    if len(content) > MAX_BYTES:
        raise UsageError(f"{path} has more than {MAX_BYTES:,} bytes")
    text = decode_text(content, source=str(path))
    read_forms(text, str(path))
    return text


@lru_cache(maxsize=16)
def extended(lexicon: str, base: str) -> str:
    """A table with those forms of another that it does not say otherwise; its lines keep their
    numbers.

    Raises:
        UsageError: a line of it cannot be used.
    """
    own = read_forms(lexicon)
    table = io.StringIO()
    rows = csv.writer(table, lineterminator="\n")
    line = 1
    if not own or own[0].line > 1:  # what parts the cells is told by the first line
        rows.writerow(FIELDS)
        line = 2
    said: dict[tuple[str, bool], dict[str, Form]] = {}  # by what is written, then by language
    for form in own:
        said.setdefault((form.written, form.is_word), {})[form.language] = form
        table.write("\n" * (form.line - line))
        rows.writerow(form.cells)
        line = form.line + 1 + sum(cell.count("\n") for cell in form.cells)
    for form in read_forms(base):
        same = said.get((form.written, form.is_word), {})
        loose = said.get((form.written.lower(), True), {}) if form.is_word else {}
        if not {"", form.language}.isdisjoint({*same, *loose}):
            continue
        rows.writerow(form.cells)
        if form.language:
            continue
        for code in loose.keys() - same.keys():  # one with a capital would go before these
            rows.writerow((form.written, loose[code].spoken, code, WORD))
    return table.getvalue()


def uses(text: str, lexicon: str, language: str) -> list[tuple[str, str]]:
    """What of a text is said by the lexicon: written and spoken forms.

    Raises:
        as `pronounce`.
    """
    from voxcli.text.normaliser import normalise

    changes = normalise(text, language, lexicon=lexicon).changes
    return [(change.before, change.after) for change in changes if change.kind == KIND]


@lru_cache(maxsize=16)
def _lookup(lexicon: str, language: str) -> _Lookup:
    """The forms for a language; one that names it counts for more than one for any."""
    found = _Lookup()
    forms = [form for form in read_forms(lexicon) if form.language in ("", language)]
    for form in sorted(forms, key=lambda form: form.language != ""):
        if form.expression is not None:
            found.expressions.append(form)
            continue
        if form.is_exact:
            found.exact[form.written] = form
        else:
            found.folded[form.written] = form
        lengths = found.lengths.setdefault(form.written[0].lower(), [])
        if len(form.written) not in lengths:
            lengths.append(len(form.written))
    for lengths in found.lengths.values():
        lengths.sort(reverse=True)
    return found


def pronounce(draft: Draft, lexicon: str, language: str) -> None:
    """Put spoken forms in the place of written ones; after markup, before numbers.

    Args:
        lexicon: the table as text.

    Raises:
        UsageError: it cannot be read.
        TextError: its expressions take too long on this text.
    """
    lookup = _lookup(lexicon, language)
    uses = [*_words(draft.text, lookup), *_expressions(draft.text, lookup)]
    uses.sort(key=lambda use: (use.start, -use.end, use.form.line))
    pieces: list[str] = []
    done = 0
    for use in uses:
        if use.start < done:
            continue
        before = draft.text[use.start : use.end]
        draft.changes.append(Change(before, use.said, KIND))
        pieces += (draft.text[done : use.start], use.said)
        done = use.end
    draft.text = "".join((*pieces, draft.text[done:]))


def _words(text: str, lookup: _Lookup) -> Iterator[_Use]:
    """The longest form at each place where one stands as a whole word."""
    plain = text.translate(_IN_LINE)
    for start, char in enumerate(plain):
        for length in lookup.lengths.get(char.lower(), ()):
            end = start + length
            written = plain[start:end]
            form = lookup.exact.get(written) or lookup.folded.get(written.lower())
            if form is None or not _is_whole(plain, start, end):
                continue
            yield _Use(start, end, _apart(form.spoken, plain, start, end), form)
            break


def _is_whole(text: str, start: int, end: int) -> bool:
    """Whether no word goes on at either end; in scripts without spaces none does."""
    after = text[end : end + 1]
    if after and unicodedata.combining(after):
        return False
    return not any(
        _SPACED.match(inside) and _SPACED.match(beside)
        for inside, beside in (
            (text[start : start + 1], text[max(0, start - 1) : start]),
            (text[end - 1 : end], after),
        )
    )


def _apart(spoken: str, text: str, start: int, end: int) -> str:
    """What is said for a sign between words does not stick to them."""
    before, after = text[max(0, start - 1) : start], text[end : end + 1]
    lead = " " if _SPACED.match(before) and _SPACED.match(spoken) else ""
    trail = " " if _SPACED.match(after) and _SPACED.match(spoken[-1]) else ""
    return f"{lead}{spoken}{trail}"


def _expressions(text: str, lookup: _Lookup) -> Iterator[_Use]:
    if not lookup.expressions:
        return
    deadline = time.thread_time() + EXPRESSIONS_S * (1 + len(text) / PER_CHARACTERS)
    for form in lookup.expressions:
        assert form.expression is not None
        try:
            left_s = max(deadline - time.thread_time(), 1e-3)
            for match in form.expression.finditer(text, timeout=left_s):
                if match.end() > match.start():
                    said = match.expand(form.spoken)
                    yield _Use(match.start(), match.end(), said, form)
                if time.thread_time() > deadline:
                    raise TimeoutError
        except TimeoutError as err:
            raise TextError(
                f"{SOURCE}, line {form.line}: the expression '{form.written}' takes too long on "
                f"this text of {len(text):,} characters",
                hint="bound its repeats, such as {0,20} for *",
            ) from err
