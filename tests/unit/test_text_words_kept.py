"""Words of a text among all kinds of signs and numbers: each is spoken once, in order."""

from __future__ import annotations

import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from voxcli.errors import TextError
from voxcli.text import normalise, prepare

WORDS = [
    "lantern", "harbour", "pebble", "meadow", "candle", "orchard", "velvet", "thunder", "marble",
    "copper", "willow", "saddle", "beacon", "cradle", "falcon", "ginger", "hammock",
]  # fmt: skip
BESIDE = [
    *".,;:!?…—–-_*~`\"'“”‘’«»()[]{}<>/\\|@#$%&+=§¶†•·°©™¿", "...", "--", "**", "~~", "->", "<=",
    "==", "&amp;", "&lt;", "&nbsp;", "<b>", "</i>", "<br>", "<p>", "</p>", "[1]", "(2)", "# ", "> ",
    "- ", "1. ", "| ", "\n", "\n\n", "\r\n", "\t", "\u00a0", "\u2009", "\u200b", "\u00ad",
    "\ufeff", "\u2028", "\u3000", "😀", "❤️", "①", "Ⅳ", "é", "漢", "д", "\x00", "\ufffd", "e.g.",
    "Dr.", "etc.", "U.S.", "p.m.", "NASA", "I", "3", "12", "1,000", "3.5", "1990", "007", "1/2",
    "12:30", "$5", "€3.20", "50%", "3rd", "XII", "5kg", "10 km", "3-4", "2026-01-05", "555-0142",
    "10^3", "H2O", "25°C", "-3", "№5", "p. 5", "3x", "1080p", "A4", "½", "²", "5,00,000",
    "$x$", "$O(n)$", "$a", "|x|", r"\frac{a}{b}", r"\hat", r"\pmod", r"{\large", r"\footnote{",
    r"\(", r"\)", r"\n", r"\t", r"\u00e9", r"C:\x", r"\d+", "O-", "AA-", "+/-", "20~30", "- 40",
    "at - 5", "3-2", "a)", "(b)", "1937—1945年", "比分", "⌊", "⌋", "‖",
]  # fmt: skip


@st.composite
def texts(draw: st.DrawFn) -> tuple[str, list[str]]:
    """A text, and the words in it."""
    words = draw(st.lists(st.sampled_from(WORDS), min_size=1, max_size=8, unique=True))
    between = st.lists(st.sampled_from(BESIDE), max_size=4).map(" ".join)
    gaps = draw(st.lists(between, min_size=len(words), max_size=len(words)))
    return " ".join(part for pair in zip(gaps, words, strict=True) for part in pair), words


@settings(derandomize=True, max_examples=80, deadline=None, database=None)
@pytest.mark.parametrize("language", ["en", "de", "zh"])
@given(case=texts())
def test_every_word_of_a_text_is_spoken_once_in_order(
    language: str, case: tuple[str, list[str]]
) -> None:
    text, words = case
    try:
        done = prepare(text, languages=(), language=language, max_chars=300, model="m")
    except TextError:  # asks for more than may be
        return
    said = " ".join(segment.text for segment in done.segments).lower()
    assert re.findall("|".join(WORDS), said) == words, text


NUMBERS = st.sampled_from(["3", "11", "24", "2.5", "50%", "1/2", "2024", "12:30"])
LATIN = st.text("abcdefghiklmnoprstuvwyHLMS", min_size=4, max_size=9)


@settings(derandomize=True, max_examples=60, deadline=None, database=None)
@given(number=NUMBERS, word=LATIN, gap=st.sampled_from(["", " ", "\u00a0"]))
def test_no_part_of_a_word_behind_a_number_is_a_unit_in_chinese(
    number: str, word: str, gap: str
) -> None:
    assert word in normalise(f"我看{number}{gap}{word}。", "zh").text


@pytest.mark.parametrize(
    ("written", "spoken"),
    [
        ("Windows 11 home 版", "Windows 十一 home 版"),
        ("每天24 hours营业", "每天二十四 hours营业"),
        ("价格50%off", "价格百分之五十off"),
        ("限速60 km/hour", "限速六十 km/hour"),
        ("喝了100 mL水", "喝了一百毫升水"),
        ("跑了5km，用时30 s", "跑了五公里，用时三十秒"),
    ],
)
def test_a_unit_behind_a_number_is_a_whole_word_in_chinese(written: str, spoken: str) -> None:
    assert normalise(written, "zh").text == spoken


@pytest.mark.parametrize(
    ("written", "spoken"),
    [
        ("``` Words behind a fence\nand below", "Words behind a fence and below"),
        ("~~~ Waves around it ~~~\nand below", "Waves around it and below"),
        ("```py\nlines = 2\n```", "lines equals two"),
        ('```python title="a file.py" {1,3}\nSay it.\n```', "Say it."),
        ("``` js\nSay it.\n```", "Say it."),
        ("```{r echo=FALSE}\nSay it.\n```", "Say it."),
    ],
)
def test_of_what_stands_behind_a_fence_a_sentence_is_spoken(written: str, spoken: str) -> None:
    assert normalise(written).text == spoken
