"""English: every other number: ordinals, fractions, ranges, scores, negatives, Roman, plain, mixed.

Runs after dates, times, money and units took theirs. After it no digit is left in the text.
"""

from __future__ import annotations

import re

from voxcli.text.changes import Draft, apart
from voxcli.text.characters import RAISED
from voxcli.text.quantities import NUM, START, mixed
from voxcli.text.spell import cardinal, fraction, number, ordinal, plural, roman, year

_VULGAR = {
    "½": "1/2", "⅓": "1/3", "⅔": "2/3", "¼": "1/4", "¾": "3/4", "⅕": "1/5", "⅖": "2/5", "⅗": "3/5",
    "⅘": "4/5", "⅙": "1/6", "⅚": "5/6", "⅛": "1/8", "⅜": "3/8", "⅝": "5/8", "⅞": "7/8", "⅐": "1/7",
    "⅑": "1/9", "⅒": "1/10",
}  # fmt: skip
_VULGAR_PATTERN = re.compile(f"(?P<whole>(?<=\\d) ?)?(?P<char>[{''.join(_VULGAR)}])")
_SLASH = re.compile("(?<=\\d)[\u2044\u2215](?=\\d)")
_SCIENTIFIC = re.compile(r"(?<![\w.])(?P<a>\d{1,9}(?:\.\d{1,9})?)[eE](?P<b>[-+]?\d{1,3})(?!\w)")
_SPACED = re.compile(
    r"(?<![\w.,+-])(?<!\d )(?P<number>[1-9]\d{0,2}(?: \d{3}){2,4})(?![\d,-]| \d|\.\d)"
)
_CHAIN = re.compile(r"(?<![\w.,/-])\d(?:-\d){2,6}(?![\w/-])")
_TENS_OF = re.compile(r"(?<![\w.,])(?P<number>\d{1,3}(?:,\d{3}|0){1,3})s(?= of\b)")
_CLAUSE = re.compile(r"(?<=\d)\((?P<a>[A-Za-z0-9])\)(?:\((?P<b>[A-Za-z0-9])\))?")
_ATTACHED = re.compile(  # 2.5x, PM2.5
    r"(?<![\w.])\d+\.\d+(?=[^\W\d_])|(?<=[^\W\d_])\d{1,9}\.\d{1,9}(?!\w|\.\d)"
)
_POWER = re.compile(
    r"(?<=[\w)])(?:\^?(?P<char>[²³])|\^(?P<power>-?\d{1,3}|-?[A-Za-z](?!\w)|\([\w+* -]{1,20}\)))"
)
_RAISED = re.compile("[²³]")
_TIMES = re.compile(r"(?<=\d)(?:\s?[*×·]\s?|\s[xX]\s|x)(?=\d)")
_POWER_OF_TEN = re.compile(r"(?:10|ten) (?:to the power of|squared|cubed)\b")
_OPERATORS = re.compile(
    r"(?<=[\d)])\s?(?P<sign>[+÷=])\s?(?=[-(]?\d)|(?<=\d)\s(?P<minus>[-−])\s(?=\d)"
)
_NUMBER_SIGN = re.compile(r"#\s?(?=\d)|\b[Nn]os?\.\s?(?=\d)|№\s?")
_APPROXIMATE = re.compile(r"(?<![\w~])[~∼≈]\s?(?=[-+−]?[$€£]?\.?\d)")
_SUFFIX = re.compile(rf"{START}(?P<number>{NUM})\s?(?P<scale>k|bn|mn)\b(?!/)")
_ORDINAL = re.compile(
    r"(?<![\w.])(?<!\d,)(?P<number>\d{1,12}(?:,\d{3}){0,3})(?:st|nd|rd|th)\b", re.I
)
_FRACTION = re.compile(
    r"(?<![\w./])(?:(?P<whole>\d{1,6})[ -])?(?P<upper>\d{1,4})/(?P<lower>\d{1,4})(?![\w/]|\.\d)"
)
_RATIO = re.compile(rf"{START}(?P<a>{NUM}):(?P<b>{NUM})(?![\w:])")
_RANGE = re.compile(rf"{START}(?P<a>{NUM})(?P<dash>[-–])(?P<b>{NUM})(?![\w-])")
_NEGATIVE = re.compile(r"(?<![\w)\]-])[-−](?=\.?\d)")
_PLUS = re.compile(r"(?<!\w)\+(?=\d)|(?<=\d)\+(?!\w)")
_ABOUT_YEAR = re.compile(
    r"\b(?P<word>[Ii]n|[Ss]ince|[Uu]ntil|[Yy]ear)\s(?P<year>10\d\d)\b(?![,.]\d)"
)
_PLAIN = re.compile(rf"(?<!\w){NUM}(?![\w])")
_COUNTED = re.compile(
    r"\s(?:feet|miles|men|dollars|pounds|years|people|euros|meters|steps|times|words)\b"
)
_MIXED = re.compile(r"(?<!\w)(?=\w{0,60}\d)\w{2,60}(?!\w)")
_RUNS = re.compile(r"\d+|[^\W\d_]+|_+")
_REST = re.compile(r"\d+")

_ENDS = rf"[{RAISED}]{{0,3}}(?!\w|['’]|-\w)"  # with the mark of a note, which is not said
_NUMERAL = r"(?P<roman>[IVXLC]{1,7})"
_NUMBERED = re.compile(
    r"\b(?P<word>Chapter|Part|Volume|Vol\.|Book|Act|Scene|Section|Figure|Table|Appendix|War|Phase|Level|"
    r"Round|Bowl|Article|Title|Unit|Stage|Mark|Episode|Class|Type|Annex|Tier|Division|Canto|Psalm|"
    rf"CHAPTER|PART|BOOK|ACT|SCENE|VOLUME|SECTION) {_NUMERAL}{_ENDS}"
)
_MONARCH = re.compile(
    r"\b(?P<word>(?:King|Queen|Pope|Emperor|Tsar|Prince) [A-Z][a-z]{2,15}|Henry|Louis|George|"
    r"Elizabeth|Charles|Edward|William|James|Richard|Philip|Pius|Napoleon|Catherine|Nicholas|"
    r"Frederick|Alexander|John Paul|Benedict|Leo|Gregory|Innocent|Clement|Ramesses|Ptolemy|Gustav|"
    r"Christian|Ivan|Peter|Otto|Mehmed|Wilhelm) "
    rf"(?P<roman>[IVX]{{2,6}}|[VX]){_ENDS}"
)
_CENTURY = re.compile(r"\b(?P<roman>[IVX]{1,5})(?P<word>(?:th)? (?:century|Century|Olympi\w+))")


def roman_numerals(draft: Draft) -> None:
    """Say Roman numerals, but only after a word that is numbered so: Chapter IV, Henry VIII."""
    draft.sub(_NUMBERED, _numbered, "number")
    draft.sub(_MONARCH, _monarch, "number")
    draft.sub(_CENTURY, _century, "number")


def numerals(draft: Draft) -> None:
    """Say every digit that is left."""
    draft.sub(_NUMBER_SIGN, "number ", "abbreviation")
    draft.sub(_TIMES, _times, "symbol")
    draft.sub(_OPERATORS, _operator, "symbol")
    draft.sub(_SUFFIX, _suffix, "number")
    draft.sub(_ORDINAL, _ordinal, "number")
    draft.sub(_FRACTION, _fraction, "number")
    draft.sub(_CHAIN, lambda m: ", ".join(map(number, m.group().split("-"))), "number")
    draft.sub(_RATIO, lambda m: f"{number(m.group('a'))} to {number(m.group('b'))}", "number")
    draft.sub(_RANGE, lambda m: f"{_plain(m.group('a'))} to {_plain(m.group('b'))}", "number")
    draft.sub(_NEGATIVE, "minus ", "number")
    draft.sub(_PLUS, lambda m: " plus ", "symbol")
    draft.sub(_ABOUT_YEAR, lambda m: f"{m.group('word')} {year(int(m.group('year')))}", "number")
    draft.sub(_ATTACHED, lambda m: apart(number(m.group()), m), "number")
    draft.sub(_PLAIN, _in_context, "number")
    draft.sub(_MIXED, _mixed, "number")
    draft.sub(_REST, lambda m: f" {number(m.group())} ", "number")


def _times(match: re.Match[str]) -> str:
    """Sizes are "3 by 4", but a number times a power of ten is one number."""
    is_size = match.group().strip() in "xX×"
    return " by " if is_size and not _POWER_OF_TEN.match(match.string, match.end()) else " times "


def compatible_numbers(draft: Draft) -> None:
    """Vulgar fractions and the like to plain digits; before all other number rules."""
    draft.sub(_APPROXIMATE, "about ", "symbol")
    draft.sub(
        _VULGAR_PATTERN,
        _vulgar,
        "number",
    )
    draft.text = _SLASH.sub("/", draft.text)
    draft.sub(_SCIENTIFIC, _scientific, "number")
    draft.sub(_SPACED, lambda m: m.group().replace(" ", ","), "number")
    draft.sub(_TENS_OF, lambda m: plural(number(m.group("number")).removeprefix("one ")), "number")
    draft.sub(
        _CLAUSE, lambda m: f" {m.group('a').upper()} {m.group('b') or ''}".rstrip(), "bracket"
    )


def _vulgar(match: re.Match[str]) -> str:
    """Apart from a whole number before and a letter after: 2½, ½mv."""
    after = " " if match.string[match.end() : match.end() + 1].isalpha() else ""
    return f"{'' if match['whole'] is None else ' '}{_VULGAR[match['char']]}{after}"


def powers(draft: Draft) -> None:
    """x², 2^10, x^(n+1); after units, which have squares of their own. A lone ² is a number."""
    draft.sub(_POWER, _power, "symbol")
    draft.sub(_RAISED, lambda m: "2" if m.group() == "²" else "3", "number")


def _numbered(match: re.Match[str]) -> str | None:
    value = roman(match.group("roman"))
    return f"{match.group('word')} {cardinal(value)}" if value else None


def _monarch(match: re.Match[str]) -> str | None:
    value = roman(match.group("roman"))
    return f"{match.group('word')} the {ordinal(value)}" if value else None


def _century(match: re.Match[str]) -> str | None:
    value = roman(match.group("roman"))
    return f"{ordinal(value)}{match.group('word').removeprefix('th')}" if value else None


def _power(match: re.Match[str]) -> str:
    power = match["power"] or ("2" if match["char"] == "²" else "3")
    if power in ("2", "3"):
        words = " squared" if power == "2" else " cubed"
    else:
        said = power.strip("()").replace("-", " minus ").replace("+", " plus ")
        words = f" to the power of {' '.join(said.split())}"
    return words + (" " if match.string[match.end() : match.end() + 1].isalnum() else "")


def _scientific(match: re.Match[str]) -> str:
    exponent = match.group("b").replace("-", "minus ").lstrip("+")
    return f"{match.group('a')} times ten to the power of {exponent}"


def _operator(match: re.Match[str]) -> str:
    names = {"+": "plus", "÷": "divided by", "=": "equals"}
    return f" {names[match.group('sign')] if match.group('sign') else 'minus'} "


def _suffix(match: re.Match[str]) -> str:
    scale = {"k": "thousand", "bn": "billion", "mn": "million"}[match.group("scale")]
    return f"{number(match.group('number'))} {scale}"


def _ordinal(match: re.Match[str]) -> str | None:
    value = int(match.group("number").replace(",", ""))
    return ordinal(value) if value < 10**15 else None


def _fraction(match: re.Match[str]) -> str:
    upper, lower = int(match.group("upper")), int(match.group("lower"))
    whole = match.group("whole")
    if 0 < upper < lower <= 100 and (lower <= 10 or lower in (12, 16, 20, 24, 25, 32, 50, 64, 100)):
        part = fraction(upper, lower)
        return f"{cardinal(int(whole))} and {mixed(part)}" if whole else part
    lead = f"{cardinal(int(whole))} " if whole else ""
    between = " " if (upper, lower) in ((24, 7), (9, 11), (50, 50)) else " over "
    return f"{lead}{cardinal(upper)}{between}{cardinal(lower)}"


def _plain(text: str) -> str:
    """A number without context; four digits from 1100 on are read as a year is."""
    return year(int(text)) if re.fullmatch(r"1[1-9]\d\d|20[1-9]\d", text) else number(text)


def _in_context(match: re.Match[str]) -> str:
    counted = _COUNTED.match(match.string, match.end())
    return number(match.group()) if counted else _plain(match.group())


def _mixed(match: re.Match[str]) -> str:
    """Letters and digits in one word: MP3, 3D, B2B, H2O, COVID19."""
    parts = _RUNS.findall(match.group())
    return " ".join(
        _plain(part) if part[0].isdecimal() else part for part in parts if part[0] != "_"
    )
