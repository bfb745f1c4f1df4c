"""The order of all rules: what a user wrote becomes what is said, every change recorded.

English goes through all rules; Chinese through wetext where it is installed; every other language
keeps its words and digits and loses only markup, marks of notes, emoji and brackets. Knows no voice
and no model.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Any

from voxcli.text import (
    addresses,
    characters,
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
        symbols.brackets(draft)
        if language == "zh":
            _chinese(draft)
    draft.text = "\n".join(line.strip() for line in draft.text.split("\n")).strip()
    return draft.done()


def _english(draft: Draft) -> None:
    numerals.roman_numerals(draft)  # before letters stand alone: "Round CO₂" is no Round C
    formulas.formulas(draft)
    raised.raised(draft)
    characters.straighten(draft)
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


_SENTENCE = re.compile(r"[^\n。！？；]{1,400}[。！？；]*")


def _chinese(draft: Draft) -> None:
    """Numbers, dates and units by wetext's grammars, which ship with it and need no network.

    Without the package the digits stay: the models that speak Chinese read them.
    """
    normaliser = _wetext()
    if normaliser is not None and re.search("[0-9a-zA-Z%$￥¥=]", draft.text):
        draft.sub(_SENTENCE, lambda m: str(normaliser.normalize(m.group())), "number")


@lru_cache(maxsize=1)
def _wetext() -> Any:
    try:
        from wetext import Normalizer
    except ImportError:
        return None
    return Normalizer(lang="zh", operator="tn", remove_erhua=False)
