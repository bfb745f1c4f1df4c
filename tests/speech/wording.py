"""Compares what was said with what was heard, word by word, whatever the spelling.

A recogniser writes "7:45", "$900" or "grey" as it likes. So texts are compared as lists of plain
words, and each number in them may be read in several ways. English only; knows no audio.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice, product

from num2words import num2words

MAX_READINGS = 256  # of one text; more than three free numbers are not worth trying

_NUMBER = re.compile(
    r"(?P<sign>[$£€])\s?(?P<money>\d[\d,]*)(?:\.(?P<cents>\d\d))?(?!\d)"
    r"|(?P<hour>\d{1,2}):(?P<minute>\d\d)"
    r"|(?P<whole>\d[\d,]*)\.(?P<fraction>\d+)"
    r"|(?P<ordinal>\d+)(?:st|nd|rd|th)\b"
    r"|(?P<integer>\d+(?:,\d{3})+|\d+)"
)
_SYMBOLS = {"%": " percent ", "&": " and ", "°": " degrees "}
_MONEY = {"$": ("dollar", "cent"), "£": ("pound", "pence"), "€": ("euro", "cent")}
# Right-hand form for spellings and short forms that a recogniser picks freely.
_SPELLINGS = {
    "mr": "mister", "mrs": "missus", "dr": "doctor", "st": "street", "ok": "okay", "till": "until",
    "alright": "allright", "grey": "gray", "colour": "color", "colours": "colors", "zero": "oh",
    "favourite": "favorite", "theatre": "theater", "centre": "center", "neighbour": "neighbor",
    "neighbours": "neighbors", "apologised": "apologized", "litre": "liter", "litres": "liters",
    "dec": "december", "metre": "meter", "metres": "meters", "kilometres": "kilometers",
}  # fmt: skip
_OPTIONAL_AND = re.compile(r"\b(hundred|thousand|million|dollars?|pounds?|euros?) and\b")


@dataclass(frozen=True)
class WordErrors:
    """Words wrong, missing or added, of how many that were said."""

    errors: int
    words: int

    @property
    def rate(self) -> float:
        return self.errors / self.words


def compare(said: str, heard: str) -> WordErrors:
    """Errors under the readings of numbers that agree best.

    Words that are only split or joined differently ("ice cream", "icecream") are right.
    """
    return min(
        (_errors(s, h) for s in readings(said) for h in readings(heard)),
        key=lambda found: found.errors,
    )


def readings(text: str) -> list[list[str]]:
    """The text as lists of plain words, one for each way to read its numbers."""
    pieces: list[list[str]] = []
    position = 0
    for match in _NUMBER.finditer(text):
        pieces += [[text[position : match.start()]], [*dict.fromkeys(_read(match))]]
        position = match.end()
    pieces.append([text[position:]])
    found = ("".join(choice) for choice in islice(product(*pieces), MAX_READINGS))
    return [list(words) for words in dict.fromkeys(tuple(_words(each)) for each in found)]


def _read(match: re.Match[str]) -> Iterator[str]:
    groups = match.groupdict()
    if groups["money"]:
        yield _read_money(groups["sign"], groups["money"].replace(",", ""), groups["cents"])
    elif groups["hour"]:
        yield f" {_cardinal(groups['hour'])} {_read_minute(groups['minute'])} "
    elif groups["whole"]:
        yield f" {_cardinal(groups['whole'])} point {_digits(groups['fraction'])} "
        if len(groups["fraction"]) == 2:  # "6.30" for half past six
            yield f" {_cardinal(groups['whole'])} {_read_minute(groups['fraction'])} "
    elif groups["ordinal"]:
        yield f" {num2words(int(groups['ordinal']), to='ordinal')} "
    else:
        yield from _read_integer(groups["integer"].replace(",", ""))


def _read_integer(digits: str) -> Iterator[str]:
    yield f" {_cardinal(digits)} "
    if len(digits) > 1:
        yield f" {_digits(digits)} "
    if len(digits) == 4:
        yield f" {num2words(int(digits), to='year')} "
    if len(digits) <= 2 and int(digits):
        yield f" {num2words(int(digits), to='ordinal')} "  # "December 12"


def _read_money(sign: str, digits: str, cents: str | None) -> str:
    name, small = _MONEY[sign]
    spoken = f" {_cardinal(digits)} {name}{'' if int(digits) == 1 else 's'} "
    if cents and int(cents):
        plural = "s" if small == "cent" and int(cents) != 1 else ""
        spoken += f"{_cardinal(cents)} {small}{plural} "
    return spoken


def _read_minute(digits: str) -> str:
    if digits == "00":
        return "o'clock"
    return f"oh {_cardinal(digits)}" if digits[0] == "0" else _cardinal(digits)


def _cardinal(digits: str) -> str:
    return str(num2words(int(digits.replace(",", ""))))


def _digits(digits: str) -> str:
    return " ".join(num2words(int(digit)) for digit in digits)


def _words(text: str) -> list[str]:
    text = unicodedata.normalize("NFKD", text).lower()
    for symbol, word in _SYMBOLS.items():
        text = text.replace(symbol, word)
    text = re.sub("[.'’‘](?=[a-z])", "", text)  # "p.m." and "don't" stay one word
    text = re.sub("[^a-z0-9 ]+", " ", text)
    text = _OPTIONAL_AND.sub(r"\1", " ".join(text.split()))
    return [_SPELLINGS.get(word, word) for word in text.split()]


def _errors(said: list[str], heard: list[str]) -> WordErrors:
    joined = _join_alike(said, heard), _join_alike(heard, said)
    return WordErrors(_edit_distance(*joined), len(said))


def _join_alike(words: list[str], others: list[str]) -> list[str]:
    """Join two or three neighbours that are one word on the other side only."""
    only_there = set(others) - set(words)
    joined: list[str] = []
    position = 0
    while position < len(words):
        for length in (3, 2, 1):
            word = "".join(words[position : position + length])
            if length == 1 or word in only_there:
                break
        joined.append(word)
        position += length
    return joined


def _edit_distance(one: Sequence[str], other: Sequence[str]) -> int:
    """Levenshtein's, one row of the table at a time."""
    row = list(range(len(other) + 1))
    for count, word in enumerate(one, 1):
        previous, row = row, [count]
        for index, against in enumerate(other):
            replaced = previous[index] + (word != against)
            row.append(min(replaced, previous[index + 1] + 1, row[index] + 1))
    return row[-1]
