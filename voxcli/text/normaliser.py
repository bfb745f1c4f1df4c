"""The order of all rules: what a user wrote becomes what is said, every change recorded.

English goes through all rules; Chinese through its own and wetext's; every other language keeps its
words and digits and loses only markup, marks of notes, emoji and brackets. Knows no voice and no
model.
"""

from __future__ import annotations

from voxcli.text import (
    addresses,
    characters,
    chinese,
    dates,
    formulas,
    markup,
    money,
    notes,
    numerals,
    quantities,
    raised,
    symbols,
    weekdays,
    words,
)
from voxcli.text.changes import Draft, Normalised


def normalise(text: str, language: str = "en") -> Normalised:
    """Rewrite a text so that a voice reads it as a person would.

    Args:
        text: anything; Markdown, HTML entities and emoji are understood.
        language: ISO 639-1; "en" has rules for numbers, dates, money, units, abbreviations.

    Returns:
        The spoken text and every change. Normalising the result again changes nothing that matters.
    """
    draft = Draft(text)
    characters.clean(draft, language)
    markup.strip_markup(draft)
    characters.emoji(draft, language)
    draft.text = markup.reflow(draft.text)
    notes.notes(draft)
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
    draft.text = "\n".join(line.strip() for line in draft.text.split("\n")).strip()
    return draft.done()


def _english(draft: Draft) -> None:
    numerals.roman_numerals(draft)  # before letters stand alone: "Round CO₂" is no Round C
    formulas.formulas(draft, "en")
    raised.raised(draft)
    characters.straighten(draft)
    symbols.comparisons(draft)
    addresses.addresses(draft)
    numerals.compatible_numbers(draft)
    weekdays.weekdays(draft)
    if any(c.isdigit() for c in draft.text):
        dates.dates(draft)
        dates.phones(draft)
        dates.times(draft)
        money.money(draft)
        quantities.units(draft)
        dates.short_years(draft)
    quantities.bare_units(draft)
    words.abbreviations(draft)
    numerals.powers(draft)
    numerals.numerals(draft)
    characters.dashes(draft)
    words.acronyms(draft)
    symbols.symbols(draft)
    symbols.brackets(draft)
    symbols.silence(draft)
    symbols.tidy(draft)
