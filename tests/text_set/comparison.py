"""Whether two spoken forms say the same: letter case, commas, hyphens and spelling are style.

Also style: "the fifth of May" for "May fifth", "and" beside a number, "oh" for zero, "negative"
for minus, British spelling, "a hundred" for "one hundred", "three fourths", "o'clock", "Mr." for
"mister". A word in capitals may be read as letters or as a word, so it matches both "I R S" and
"irs"; "I R S" never matches "irs".
"""

from __future__ import annotations

import re
import unicodedata

_ONES = "zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen"
_TEENS = "fifteen sixteen seventeen eighteen nineteen twenty thirty forty fifty sixty seventy"
_REST = "eighty ninety hundred thousand million billion trillion half quarter quarters a"
_ORDINALS = "first second third fourth fifth sixth seventh eighth ninth tenth"
_NUMBERS = frozenset(f"{_ONES} {_TEENS} {_REST} {_ORDINALS}".split())

_MONTH = "january|february|march|april|may|june|july|august|september|october|november|december"
_DAY = (
    "(?:(?:twenty|thirty)[- ])?(?:first|second|third|fourth|fifth|sixth|seventh|eighth|ninth)|"
    "tenth|eleventh|twelfth|(?:thir|four|fif|six|seven|eigh|nine)teenth|twentieth|thirtieth"
)

_STYLE = [
    (re.compile(pattern, re.IGNORECASE), same)
    for pattern, same in [
        (r"\ba (?=hundred|thousand|million|billion|half\b|quarter\b)", "one "),
        (r"\b(one|three) fourth(s?)\b", r"\1 quarter\2"),
        (r"\bper cent\b", "percent"),
        (r"\bnegative(?= )", "minus"),
        (r"\bo'clock\b", " "),
        (r"\b(kilo|centi|milli|nano|micro|deci|hecto|)(met|lit)re(s?)\b", r"\1\2er\3"),
        (r"\bmister\b", "mr"),
        (r"\b(?:missus|mistress|misses)\b", "mrs"),
        (r"\b(?:miz|mizz)\b", "ms"),
        (r"\bcelcius\b", "celsius"),
        (r"\be-?mail", "email"),
        (r"\bweb ?site", "website"),
        (r"\bokay\b", "ok"),
        (r"\bet cetera\b", "etcetera"),
        (r"\bwi[- ]fi\b", "wifi"),
        (r"\bkilo (?=calor|byte|watt|met)", "kilo"),
        (rf"\b(?:the )?({_DAY}) (?:of )?({_MONTH})\b", r"\2 \1"),
        (rf"\b({_MONTH}) the ({_DAY})\b", r"\1 \2"),
        (r"'s\b", "s"),
        (r"\b(Mr|Mrs|Ms)\.", r"\1"),
    ]
]
_STOP = "."
_END = re.compile(r"((?:\b[A-Za-z]\.){2,}|[.!?…]+)[\"'”’)\]]*(?=\s|\Z)")
_TOKEN = re.compile(r"[^\W_]+(?:'[^\W_]+)*|§|¶")

# One token of what is said: every way to read it.
_Readings = list[tuple[str, ...]]


def is_same(said: str, wanted: str, *, stops: bool = False) -> bool:
    """Whether what is said has the content of a right answer.

    Args:
        stops: whether the marks that end sentences count too.
    """
    right = tuple(word for readings in _tokens(wanted, stops, exact=True) for word in readings[0])
    places = {0}
    for readings in _tokens(said, stops):
        places = {
            place + len(words)
            for place in places
            for words in readings
            if right[place : place + len(words)] == words
        }
    return len(right) in places


def _tokens(text: str, stops: bool, *, exact: bool = False) -> list[_Readings]:
    text = unicodedata.normalize("NFKD", text).replace("’", "'")
    text = "".join(char for char in text if not unicodedata.combining(char))
    for pattern, same in _STYLE:
        text = pattern.sub(same, text)
    if stops:
        # An abbreviation's own point may be a stop as well (¶).
        text = _END.sub(lambda m: f"{m[1]} ¶ " if m[1][0].isalpha() else " § ", text)
    found = [_readings(token, exact) for token in _TOKEN.findall(text)]
    neighbours = zip([None, *found], found, [*found[1:], None], strict=False)
    kept = [
        here
        for before, here, after in neighbours
        if here != [("and",)] or not (_is_number(before) or _is_number(after))
    ]
    return [[tuple(map(_zero, words)) for words in readings] for readings in kept]


def _zero(word: str) -> str:
    return "zero" if word in ("o", "oh") else word


def _readings(token: str, exact: bool) -> _Readings:
    lower = token.lower()
    if token == "§":
        return [(_STOP,)]
    if token == "¶":
        return [(_STOP,), ()]
    if "一" <= token[0] <= "鿿":
        return [tuple(token)]
    if exact:
        return [(lower,)]
    letters = re.fullmatch(r"(?=.+[A-Z])([A-Za-z]+?)(s?)", token)
    if letters or re.fullmatch("[bcdfghjklmnpqrstvwxz]{2,}", token):
        spelt = list(letters[1].lower() if letters else lower)
        if letters and letters[2]:
            spelt[-1] += "s"
        return [(lower,), tuple(spelt)]
    return [(lower,)]


def _is_number(readings: _Readings | None) -> bool:
    return readings is not None and len(readings) == 1 and readings[0][0] in _NUMBERS
