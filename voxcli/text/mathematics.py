"""English: what is calculated: powers, products, sums, variables, functions.

Recognisers take signs, and numbers only where a sign makes them more than one. Knows no result.
"""

from __future__ import annotations

import re

from voxcli.text.patterns import pattern_of
from voxcli.text.quantities import exponent, power_words
from voxcli.text.spell import number
from voxcli.text.tagger import CAPITAL, DIGIT, LETTER_BEHIND, SMALL, InWord, Recogniser, led

_COUNT = pattern_of(r"(?<![\w.,/-])\d(?: [-–] \d){2,6}(?![\w/-]| [-–=]|\.\d)")  # "1 - 2 - 3, go"
_TIMES = pattern_of(r"(?:(?<=[\w)])|(?<=[\w)]\s))[*×·÷](?=\s?[-(]?[\w(])")
_CROSS = pattern_of(r"(?:(?<=\d)|(?<=\d\s)|(?<=[a-z\"'] )(?=x\s)|(?<=[\"']))[xX](?=\s?\d)")
_POWER = pattern_of(
    r"(?<![\w.])(?P<scaled>(?:(?P<factor>\d+(?:\.\d+)"
    r"?)\s?[x×·*]\s?(?=10(?:[²³^])))?(?P<base>\d+(?:\.\d+)?)(?:(?P<char>[²³])|"
    r"\^(?P<power>[-−]?\d{1,3})))(?![\d²³])"
)
_RAISED = pattern_of(
    r"(?<=[\w)])(?:(?P<char>[²³])|\^(?P<power>[-−]?\d{1,3}|-?[A-Za-z](?!\w)|\([\w+* -]{1,20}\)))"
)
_LONE_RAISED = pattern_of("[²³]")
_VARIABLE = pattern_of(
    r"(?<![\w.$€£])(?P<number>\d{1,4}(?:\.\d+)?)(?P<name>[a-z]{1,2})(?=\s?[-+=*×^²³)]\s?[\w(]|"
    r"[²³^])"
)
_FUNCTION = pattern_of(
    r"(?<![\w.])(?P<name>[fghFGP]'{0,2}|sin|cos|tan|log|ln|exp)\((?P<of>[-−]?[a-z]|-?\d{1,4}|"
    r"[a-z](?:, ?[a-z]){1,3})\)(?!\w)"
)


def _raised(match: re.Match[str]) -> str:
    power = match["power"]
    if match["char"] or re.fullmatch(r"[-−]?\d+", power):
        return f" {exponent(match['char'], power)}"
    said = re.sub(r"\d+", lambda m: f" {number(m.group())} ", power.strip("()"))
    said = said.replace("-", " minus ").replace("+", " plus ").replace("*", " times ")
    return f" to the power of {' '.join(said.split())}"


_NO_VARIABLES_LIST = "st nd rd th am pm kg km cm mm ft in s m g h k bn mn mb gb"
_NO_VARIABLES = frozenset(_NO_VARIABLES_LIST.split())


def _variable(match: re.Match[str]) -> str | None:
    """ "3x - 4" is "three x minus four"."""
    if match["name"] in _NO_VARIABLES:
        return None
    return f"{number(match['number'])} {match['name']}"


_SIZED = pattern_of(r"[\d.](?:\s?[a-z]{1,3}|[\"'])?\s?[xX×]\s?\d")


_KEY = pattern_of(r"[A-Za-z]{2} \*\d")  # "press *67"
_PRODUCT = pattern_of(r"(?<!\w)[a-z][*·][a-z](?!\w)")  # "x·y"
_LOWERED = pattern_of(  # "(n-1)", "2n-1", "5-(-3)"
    r"(?<=\([a-z])-(?=\d{1,3}\))|(?<=\d[nxyz])-(?=\d{1,4}(?![\w,-]|\.\d| times))"
    r"|(?<=[\d)])-(?=\([-−]\d)"
)


def _operator(match: re.Match[str]) -> str | None:
    """Between numbers a cross is a size, and in an equation a product."""
    sign, string = match.group(), match.string
    before = string[max(0, match.start() - 2) : match.start()].rstrip()[-1:]
    after = string[match.end() : match.end() + 2].lstrip()[:1]
    if sign in "xX×":
        near = string[max(0, match.start() - 16) : match.end() + 16]
        is_size = after.isdecimal() and not re.search(r"[=^²³]", near) and _SIZED.search(near)
        return " by " if is_size else " times "
    if sign == "*" and _KEY.match(string[max(0, match.start() - 3) : match.end() + 1]):
        return "star "
    if sign in "*·":
        is_one = before.isdecimal() or after.isdecimal() or after == "(" or before == ")"
        return " times " if is_one or _PRODUCT.match(string, match.start() - 1) else None
    return " divided by "


def _binary(match: re.Match[str]) -> str:
    return {"+": " plus ", "-": " minus ", "−": " minus "}[match["sign"]]


# A sign between two operands of an equation or between spaced numbers.
_BINARY = pattern_of(
    r"(?:(?<=[\d)²³])|(?<=[\d)²³]\s)|(?<=\d[a-z])|(?<=\d[a-z]\s)|"
    r"(?<=(?<!\w)[a-z]\s))(?P<sign>[-+−])(?:(?=\s[-(]?\d)|(?=\s[a-z](?!\w))|(?=\s?\d{1,6}\s?=)|"
    r"(?<=\+)(?=[\d(]))"
)
_COUNTED_BEFORE = pattern_of(
    r"\b(?:weeks|pages|pp\.|chapters|days|ages|aged|years|grades|verses|lines|steps|levels|"
    r"rooms|hours|minutes|between|from|of|items|"
    r"questions|parts|sections|volumes|figures|tables|numbers|nos?\.|months|units|sizes|"
    r"players|kids|children)\s[\d.,]{1,9}\s?$",
    re.I,
)


_ASIDE = pattern_of(r"\([^()]*[A-Za-z]{3}[^()]*\) ?\Z")  # words in brackets, then a dash


def _sum(match: re.Match[str]) -> str | None:
    """ "7 - 3", "2+2", "1-2=5", but no range and no telephone number."""
    string, sign = match.string, match["sign"]
    before = string[: match.start()].rstrip()[-1:]
    is_spaced = (
        string[match.start() - 1].isspace() and string[match.end() : match.end() + 1].isspace()
    )
    if sign in "-−" and before.isalpha() and not is_spaced:
        return None
    if (
        before == ")"
        and is_spaced
        and _ASIDE.search(string[max(0, match.start() - 80) : match.start()])
    ):
        return None
    if sign == "-" and _COUNTED_BEFORE.search(string[max(0, match.start() - 24) : match.start()]):
        return " to "
    if (
        sign in "-"
        and before.isalpha()
        and not re.search(r"[=^\d]", string[max(0, match.start() - 12) : match.end() + 12])
    ):
        return None
    return _binary(match)


def _function(match: re.Match[str]) -> str:
    """ "f(x)" is "f of x"."""
    of = re.sub(r"\d+", lambda m: number(m.group()), re.sub("[-−]", "minus ", match["of"]))
    name, primes = match["name"].rstrip("'"), match["name"].count("'")
    return f"{name}{('', ' prime', ' double prime')[primes]} of {of}"


# Grades, ratings and types of blood; no part of a word that another one completes: "A- and
# B-roads".
_GRADE = pattern_of(
    r"(?<![\w.'’-])(?P<letter>A{1,3}|B{1,3}|C{1,3}|AB|Rh|[DFO])(?P<sign>[-−+])(?P<ve>ve\b)?"
    r"(?=[.,;:!?)/\]\"']|\s|\Z)"
    r"(?!\s(?:and|or|to|und|oder|et|ou|y|o)\s(?:[a-z]{1,10}\s)?[^\W_]{1,20}-\w)"
)
_OF_A_GRADE = pattern_of(
    r"(?:\b(?:an?|grades?|got|from|to|and|or|than|of|average|solid|straight)\s|:\s|[+−-]/|\()$"
)
_OTHER_GRADE = pattern_of(r"(?<!\w)[A-DF][-−+](?:[,;/]|\s(?:and|or|to)\s)|[,/]\s?[A-DF][-−+](?!\w)")
_RATED = pattern_of(r"(?<![\w-])(?:Fitch|Moody's|S&P|DBRS|[Rr]at(?:ed|ing)|[Cc]redit|[Oo]utlook)\b")
_OF_BLOOD = pattern_of(r"\b(?:[Bb]lood|[Dd]onors?|[Tt]ransfusions?|Rh)\b")
_COUNTED_DOWN = pattern_of(
    r"(?<!\w)T(?P<sign>[-−+])(?=\d{1,4}(?:[:.]\d{1,2})?\s(?:second|minute|hour|day|week|month)s?\b)"
)
_APERTURE = pattern_of(r"(?<!\w)[fF]/(?=\d{1,2}(?:\.\d)?(?![\w/]))")


def _grade(match: re.Match[str]) -> str | None:
    letter, sign, string = match["letter"], match["sign"], match.string
    near = string[max(0, match.start() - 80) : match.end() + 80]
    is_blood = letter in ("AB", "Rh") or match["ve"] is not None
    if is_blood or (letter in ("A", "B", "O") and _OF_BLOOD.search(near)):
        return f"{' '.join(letter.upper())} {'positive' if sign == '+' else 'negative'}"
    if sign == "+":
        return None
    is_one = len(letter) > 1 or letter == "O" or led(match, _OF_A_GRADE) or _RATED.search(near)
    return f"{' '.join(letter)} minus" if is_one or _OTHER_GRADE.search(near) else None


MATHEMATICS = (
    Recogniser(
        "symbol", CAPITAL, _GRADE, _grade, search=InWord(r"[A-DFOh][-−+](?:\W|ve|\Z)", CAPITAL)
    ),
    Recogniser(
        "symbol",
        CAPITAL,
        _COUNTED_DOWN,
        lambda m: f"T {'plus' if m['sign'] == '+' else 'minus'} ",
        DIGIT,
        InWord(r"T[-−+]\d", CAPITAL + DIGIT),
    ),
    Recogniser(
        "symbol",
        SMALL + CAPITAL,
        _APERTURE,
        lambda m: f"{m.group()[0]} ",
        "/" + DIGIT,
        InWord(r"[fF]/\d", "/" + DIGIT),
    ),
    Recogniser("symbol", SMALL + CAPITAL, _FUNCTION, _function, "("),
    Recogniser("number", DIGIT, _POWER, power_words, search=InWord("[²³^]", DIGIT)),
    Recogniser("number", DIGIT, _VARIABLE, _variable, search=LETTER_BEHIND),
    Recogniser("symbol", "²³^", _RAISED, _raised),
    Recogniser("number", "²³", _LONE_RAISED, lambda m: "two" if m.group() == "²" else "three"),
    Recogniser("symbol", "*×·÷", _TIMES, _operator, DIGIT),
    Recogniser("symbol", SMALL + CAPITAL, _CROSS, _operator, DIGIT, pattern_of(r"[xX]\s?\d")),
    Recogniser(
        "number",
        DIGIT,
        _COUNT,
        lambda m: ", ".join(map(number, re.findall(r"\d", m.group()))),
        search=InWord(r"\A[-–]\Z"),
    ),
    Recogniser("symbol", "-", _LOWERED, lambda m: " minus ", DIGIT),
    Recogniser("symbol", "-+−", _BINARY, _sum),
)
