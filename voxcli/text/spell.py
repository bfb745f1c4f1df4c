"""Digits to English words, in the way the bundled voice was trained: no "and", hyphened tens.

`num2words` and `inflect` were weighed and left: both cost 0.1 s or more of import, 0.1 ms a number,
and write "one thousand, two hundred and five", whose comma would be heard. Knows no context: which
reading a number needs is for the caller to say.
"""

from __future__ import annotations

from functools import lru_cache

_ONES_LIST = (
    "zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen "
    "fifteen sixteen seventeen eighteen nineteen"
)
_ONES = _ONES_LIST.split()
_TENS_LIST = "zero ten twenty thirty forty fifty sixty seventy eighty ninety"
_TENS = _TENS_LIST.split()
_SCALES = (
    (10**18, "quintillion"), (10**15, "quadrillion"), (10**12, "trillion"), (10**9, "billion"),
    (10**6, "million"), (1000, "thousand"),
)  # fmt: skip
_ORDINALS = {
    "one": "first", "two": "second", "three": "third", "five": "fifth", "eight": "eighth",
    "nine": "ninth", "twelve": "twelfth",
}  # fmt: skip
_FRACTIONS = {2: "half", 4: "quarter"}
_MAX_DIGITS = 15  # a longer row is no amount, unless commas group it
_MAX_GROUPED = 21  # beyond that nobody follows: digit by digit


@lru_cache(maxsize=4096)
def cardinal(n: int) -> str:
    """`1299` -> "one thousand two hundred ninety-nine"."""
    assert 0 <= n < 10**_MAX_GROUPED, n
    if n < 20:
        return _ONES[n]
    if n < 100:
        return _TENS[n // 10] + (f"-{_ONES[n % 10]}" if n % 10 else "")
    if n < 1000:
        return f"{_ONES[n // 100]} hundred" + (f" {cardinal(n % 100)}" if n % 100 else "")
    size, name = next(scale for scale in _SCALES if n >= scale[0])
    return f"{cardinal(n // size)} {name}" + (f" {cardinal(n % size)}" if n % size else "")


def ordinal(n: int) -> str:
    """`23` -> "twenty-third"."""
    words = cardinal(n)
    cut = max(words.rfind(" "), words.rfind("-")) + 1
    last = words[cut:]
    if last.endswith("y"):
        return f"{words[:-1]}ieth"
    return words[:cut] + _ORDINALS.get(last, f"{last}th")


def year(n: int) -> str:
    """`1905` -> "nineteen oh five"; years around 2000 as cardinals."""
    if not (1000 < n < 2000 or 2010 <= n < 3000) or n % 1000 == 0:
        return cardinal(n)
    century, rest = divmod(n, 100)
    if rest == 0:
        return f"{cardinal(century)} hundred"
    return f"{cardinal(century)} " + (f"oh {_ONES[rest]}" if rest < 10 else cardinal(rest))


def digits(text: str, zero: str = "zero") -> str:
    """`"0142"` -> "zero one four two"; other characters are skipped."""
    return " ".join(zero if int(c) == 0 else _ONES[int(c)] for c in text if c.isdecimal())


def number(text: str) -> str:
    """`"1,299.50"` -> words with "point"; `"007"` digit by digit."""
    whole, _, fraction = text.replace(",", "").partition(".")
    if not whole:
        words = ""
    elif len(whole) > (_MAX_GROUPED if "," in text else _MAX_DIGITS) or (
        len(whole) > 1 and int(whole[0]) == 0
    ):
        words = digits(whole)
    else:
        words = cardinal(int(whole))
    return f"{words} point {digits(fraction)}".strip() if fraction else words


def is_year(text: str) -> bool:
    """Whether a number without context is read as a year is: four figures from 1100 on."""
    return (
        len(text) == 4 and text.isdecimal() and ("1100" <= text < "2000" or "2010" <= text < "2100")
    )


def plain(text: str) -> str:
    """A number without context: `"1984"` -> "nineteen eighty-four"."""
    return year(int(text)) if is_year(text) else number(text)


def fraction(numerator: int, denominator: int) -> str:
    """`1, 2` -> "one half"; `3, 4` -> "three quarters"; `22, 3` -> "twenty-two thirds"."""
    part = _FRACTIONS.get(denominator) or ordinal(denominator)
    if numerator != 1:
        part = "halves" if denominator == 2 else f"{part}s"
    return f"{cardinal(numerator)} {part}"


def mixed(whole: int, numerator: int, denominator: int) -> str:
    """`2, 1, 2` -> "two and a half"."""
    part = fraction(numerator, denominator)
    part = f"a {part.removeprefix('one ')}" if numerator == 1 else part
    return f"{cardinal(whole)} and {part}"


def plural(noun: str) -> str:
    """The plural of the last word of a spoken noun: "nineteen ninety" -> "nineteen nineties"."""
    if noun.endswith("y") and noun[-2:-1] not in "aeiou":
        return f"{noun[:-1]}ies"
    return f"{noun}es" if noun.endswith(("s", "x", "ch", "sh")) else f"{noun}s"


_ROMAN = {"I": 1, "V": 5, "X": 10, "L": 50, "C": 100, "D": 500, "M": 1000}


def roman(text: str) -> int:
    """Value of a Roman numeral, 0 when it is not a well-formed one."""
    if not _ROMAN.keys() >= set(text):
        return 0
    values = [_ROMAN[c] for c in text]
    total = sum(-v if v < max(values[i + 1 :], default=0) else v for i, v in enumerate(values))
    return total if total > 0 and _to_roman(total) == text else 0


def _to_roman(n: int) -> str:
    steps = ["M", "CM", "D", "CD", "C", "XC", "L", "XL", "X", "IX", "V", "IV", "I"]
    sizes = (1000, 900, 500, 400, 100, 90, 50, 40, 10, 9, 5, 4, 1)
    out = ""
    for step, size in zip(steps, sizes, strict=True):
        out += step * (n // size)
        n %= size
    return out
