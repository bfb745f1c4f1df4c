"""What a text is looked at for first, at a glance, misses nothing that the slow look finds."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from spellchecker import SpellChecker

from voxcli.text import characters, lexicon, normalise, weekdays

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
