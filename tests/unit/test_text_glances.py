"""What a text is looked at for first, at a glance, misses nothing that the slow look finds."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from spellchecker import SpellChecker

from voxcli.text import (
    acronyms,
    characters,
    formulas,
    lexicon,
    normalise,
    normaliser,
    notes,
    numerals,
    segment,
    segmenter,
    weekdays,
)

FIXED = settings(derandomize=True, max_examples=100, deadline=None, database=None)


@pytest.mark.parametrize("language", ["es", "ru"])
def test_a_list_of_words_is_the_one_that_its_package_reads(language: str) -> None:
    whole = SpellChecker(language=language).word_frequency.dictionary
    assert lexicon._words_of(language) == set(whole)


def test_a_word_is_one_in_any_case() -> None:
    assert lexicon.is_word("Casa", "es")
    assert lexicon.is_word("CASA", "es")
    assert not lexicon.is_word('casa": 5', "es")


@FIXED
@given(st.text(st.sampled_from("MTWFSJAONDaeourpnbgctvliyhd .5"), max_size=8))
def test_a_name_of_a_day_or_a_month_is_seen(text: str) -> None:
    names = {name[:3] for name in weekdays.DAYS | weekdays.MONTHS}
    assert (weekdays._ANY.search(text) is not None) == any(name in text for name in names)


@FIXED
@given(st.lists(st.sampled_from([*":;=<3^_|-()DPpo/\\*' .,!?\n", "ab"]), max_size=8))
def test_no_emoticon_is_without_eyes(pieces: list[str]) -> None:
    text = "".join(pieces)
    if characters._EMOTICON.search(text):
        assert characters._ANY_EYES.search(text)


@FIXED
@given(st.lists(st.sampled_from(["½", "5", "°", "C", "'", "`", "“", "μ", " ", "m", ".", "- "])))
def test_a_text_of_ascii_has_none_of_the_signs_that_are_not_looked_for(pieces: list[str]) -> None:
    said = normalise("".join(pieces), "en").text
    assert not set(said) & set("½°`“μ")


@FIXED
@given(st.lists(st.sampled_from([*'0123 .,eE+-–°_[]()"!?/⁄', "ages ", "Pages ", "am", "km"])))
def test_what_a_rule_of_figures_or_notes_looks_for_first_is_in_all_that_it_matches(
    pieces: list[str],
) -> None:
    text = "".join(pieces)
    for rule, glance in (
        (numerals._SCIENTIFIC, numerals._ANY_SCIENTIFIC),
        (numerals._SPACED_DECIMAL, numerals._ANY_SPACED_DECIMAL),
        (numerals._RANGE_OF_UNITS, numerals._ANY_RANGE_OF_UNITS),
        (notes._GLUED, notes._STOP_AND_FIGURE),
    ):
        assert glance.search(text) or not rule.search(text)
    assert "ages " in text or "[" in text or not numerals._PAGES.search(text)


@FIXED
@given(st.lists(st.sampled_from([*"AI.,! -'’\"(1", "US", "MR", "FIG", "GO", "x"]), max_size=12))
def test_a_line_of_capitals_is_seen(pieces: list[str]) -> None:
    text = "".join(pieces)
    rules = (acronyms._SHOUT, acronyms._PAIR, acronyms._TITLE)
    assert acronyms._LOUD_NEXT.search(text) or not any(rule.search(text) for rule in rules)


@FIXED
@given(st.lists(st.sampled_from([*"+-^24(x ", "Cl", "Na", "SO", "Fe", "OH", "gpu"]), max_size=8))
def test_a_formula_is_seen(pieces: list[str]) -> None:
    text = "".join(pieces)
    rules = (formulas._CHARGED, formulas._ION, formulas._SALT)
    said = [rule.search(text) for rule in rules]
    said += [match for match in formulas._PLAIN.finditer(text) if formulas._plain(match, "en")]
    assert formulas._CANDIDATE.search(text) or not any(said)


_NEVER = re.compile(r"(?!)")
_SOURCES = sorted(Path(normaliser.__file__).parent.glob("*.py"))
# Words that rules name, and figures of the kinds that a plain line may have
_WORDS = sorted(
    {
        word
        for path in _SOURCES
        for word in re.findall(r"[A-Z]?[a-z]{1,14}\b", path.read_text("utf-8"))
    }
)
_FIGURES = ["5", "12:30", "$1900", "£7.50", "€3,50", "1,234", "3.14", "p.m.", "A", "I", "1990"]
_PLAIN = st.tuples(
    st.lists(
        st.one_of(st.sampled_from(_WORDS), st.sampled_from([*_FIGURES, "don't", "o'clock", "Bb"])),
        min_size=1,
        max_size=9,
    ),
    st.sampled_from([" ", ", "]),
    st.sampled_from(["", ".", "?", "!"]),
).map(lambda parts: parts[1].join([" ".join(parts[0][:3]), *parts[0][3:]]) + parts[2])


@settings(FIXED, max_examples=150)
@given(text=_PLAIN, language=st.sampled_from(["en", "de"]))
def test_a_plain_line_is_said_as_if_every_rule_looked_at_it(text: str, language: str) -> None:
    said = normalise(text, language)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(normaliser, "_PLAIN_LINE", _NEVER)
        patch.setattr(normaliser, "_WORDS_ALONE", _NEVER)
        assert normalise(text, language) == said


def test_lines_of_words_are_plain() -> None:
    assert normaliser._WORDS_ALONE.fullmatch("The ferry, which I like, leaves today.")
    assert normaliser._PLAIN_LINE.fullmatch("We pay $20 at 4:30 p.m. on weekdays!")
    for text in ("- one", "1. one", "a  b", "one\ntwo", "(a)", "see *this*", "<b>", "a - b", "x²"):
        assert not normaliser._PLAIN_LINE.fullmatch(text)


@FIXED
@given(
    text=st.lists(st.sampled_from([*'ab .!?,\n。"', "Mr.", " Z"]), max_size=12).map("".join),
    most=st.sampled_from([4, 300]),
    language=st.sampled_from(["en", "zh", "ja"]),
)
def test_one_sentence_is_cut_as_any_text(text: str, most: int, language: str) -> None:
    parts = [
        part
        for paragraph in segmenter._PARAGRAPHS.split(text.strip())
        for part in segmenter._pack(list(segmenter._sentences(paragraph, most, language)), most)
    ]
    assert [part.text for part in segment(text, most, language)] == [part.text for part in parts]
