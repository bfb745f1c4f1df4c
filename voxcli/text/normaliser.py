"""The order of all rules: what a user wrote becomes what is said, every change recorded.

Three stages. Characters and markup are brought to one writing, in every language. Then English is
told apart into tokens (`tagger.py`): `_TAGGER` has their order. Last, signs and brackets that no
token took. Chinese has rules of its own and wetext's; every other language keeps its words and
digits. Knows no voice and no model.
"""

from __future__ import annotations

from voxcli.text import (
    acronyms,
    characters,
    chinese,
    directions,
    formulas,
    latex,
    markup,
    notes,
    numerals,
    pages,
    pauses,
    pronunciations,
    quantities,
    raised,
    ssml,
    symbols,
    tagger,
    thoughts,
    weekdays,
    words,
)
from voxcli.text.addresses import ADDRESSES
from voxcli.text.changes import Draft, Normalised, Silence
from voxcli.text.clock import TIMES
from voxcli.text.dates import DATES, SHORT_YEARS
from voxcli.text.mathematics import MATHEMATICS
from voxcli.text.money import MONEY
from voxcli.text.patterns import pattern_of
from voxcli.text.references import RATIOS, REFERENCES
from voxcli.text.romans import ROMAN
from voxcli.text.serials import CODES, MIXED, NAMES, SERIALS
from voxcli.text.streets import STREETS
from voxcli.text.telephone import TELEPHONE, TELEPHONE_SHAPES

_TAGGER = tagger.Tagger(
    (
        *TELEPHONE_SHAPES,
        *ADDRESSES,
        *ROMAN,
        *REFERENCES,
        *STREETS,
        *numerals.NUMBERS_FIRST,
        *symbols.COMPARISONS,
        *CODES,
        *DATES,
        *TELEPHONE,
        *TIMES,
        *MONEY,
        *quantities.QUANTITIES,
        *SHORT_YEARS,
        *RATIOS,
        *quantities.BARE_UNITS,
        *words.ABBREVIATED,
        *NAMES,
        *MATHEMATICS,
        *numerals.COUNTED,
        *SERIALS,
        *numerals.NUMBERS,
        *MIXED,
        *numerals.REST,
        *acronyms.ACRONYMS,
    )
)

# Most lines of a table are words, figures and commas. What brings others to one writing changes
# nothing in them, and of the English rules those for signs and figures change nothing in words.
_WORD = "[A-Z]?[a-z]++(?:'[a-z]++)?+"
_FIGURES = r"(?:[$£€]?[0-9]++(?:[.:,][0-9]++)*+)"
_PLAIN_LINE = pattern_of(rf"{_WORD}(?:,?+ (?:[ap]\.m\.|{_WORD}|[AI]|{_FIGURES}))*+[.?!]?+")
_WORDS_ALONE = pattern_of(rf"(?:{_WORD}|[AI])(?:,?+ (?:{_WORD}|[AI]))*+[.?!]?+")


def normalise(
    text: str, language: str = "en", *, lexicon: str = "", keeps_marks: bool = False
) -> Normalised:
    """Rewrite a text so that a voice reads it as a person would.

    Args:
        text: anything; Markdown, HTML entities and emoji are understood.
        language: ISO 639-1; "en" has rules for numbers, dates, money, units, abbreviations.
        lexicon: how words are said, as `pronunciations.py` reads it.
        keeps_marks: leave a character of `pauses.PLACEHOLDER` where silence is asked for.

    Returns:
        The spoken text and every change. Normalising the result again changes nothing that matters.

    Raises:
        TextError: it asks for more silence than may be, or an expression of the lexicon takes too
            long.
        UsageError: the lexicon cannot be read.
    """
    draft = Draft(text)
    silences: tuple[Silence, ...] = ()
    if not _PLAIN_LINE.fullmatch(text):
        silences = _read_layout(draft, language, keeps_marks=keeps_marks)
    if lexicon:
        pronunciations.pronounce(draft, lexicon, language)
    if language == "en":
        _english(draft)
    else:
        if language in ("zh", "ja", "ko"):
            characters.narrow(draft)
        if language == "zh":
            formulas.formulas(draft, language)
            chinese.write_out(draft)
        symbols.brackets(draft)
        if language == "zh":
            chinese.numbers(draft)
    if "\n" in draft.text:
        draft.text = markup.end_lines("\n".join(map(str.strip, draft.text.split("\n"))))
    draft.text = draft.text.strip()
    return draft.done(silences)


def _read_layout(draft: Draft, language: str, *, keeps_marks: bool) -> tuple[Silence, ...]:
    """Bring characters and markup to one writing; a plain line stays as it is.

    Returns:
        what it asks for between words.
    """
    characters.escapes(draft, language, latex.is_command)
    characters.clean(draft, language, is_document=ssml.is_document(draft.text))
    thoughts.thoughts(draft)
    latex.latex(draft, language)
    is_document = ssml.tags(draft, language)
    silences = pauses.take_pauses(draft, are_kept=keeps_marks)
    directions.directions(draft)
    notes.citations(draft, language)
    markup.strip_markup(draft, language, is_document=is_document)
    characters.emoji(draft, language)
    pages.join_cut_words(draft, language)
    draft.text = markup.reflow(draft.text)
    notes.notes(draft, language)
    return silences


def _english(draft: Draft) -> None:
    before = draft.text if _WORDS_ALONE.fullmatch(draft.text) else None
    if before is None:
        symbols.inside(draft)
        formulas.formulas(draft, "en")
        raised.raised(draft)
        characters.straighten(draft)
        quantities.degrees(draft)
        numerals.canonical(draft)
    weekdays.weekdays(draft)
    acronyms.shout(draft)
    _TAGGER.say(draft)
    if draft.text == before:
        return
    numerals.remaining(draft)
    characters.dashes(draft)
    symbols.symbols(draft)
    symbols.brackets(draft)
    symbols.silence(draft)
    symbols.tidy(draft)
