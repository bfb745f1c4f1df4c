"""English: every other number: ordinals, fractions, ranges, lists, separators, plain ones.

Knows dates, times, money and units only as what other recognisers have taken already. After it no
figure is left in the text.
"""

from __future__ import annotations

import re

from voxcli.text.changes import Draft
from voxcli.text.patterns import pattern_of
from voxcli.text.quantities import NUM, START, amount
from voxcli.text.spell import cardinal, fraction, is_year, mixed, number, ordinal, plain, plural
from voxcli.text.tagger import (
    CAPITAL,
    DIGIT,
    FIGURES,
    FIGURES_JOINED,
    STOPPED,
    InWord,
    OneOf,
    Recogniser,
    led,
)
from voxcli.text.units import TIMES

_VULGAR = {
    "½": "1/2", "⅓": "1/3", "⅔": "2/3", "¼": "1/4", "¾": "3/4", "⅕": "1/5", "⅖": "2/5", "⅗": "3/5",
    "⅘": "4/5", "⅙": "1/6", "⅚": "5/6", "⅛": "1/8", "⅜": "3/8", "⅝": "5/8", "⅞": "7/8", "⅐": "1/7",
    "⅑": "1/9", "⅒": "1/10",
}  # fmt: skip
_VULGAR_PATTERN = pattern_of(f"(?P<whole>(?<=\\d) ?)?(?P<char>[{''.join(_VULGAR)}])")
_SWISS = pattern_of(r"(?<![\w.,])\d{1,3}(?:'\d{3}){1,4}(?!\w)")  # 1'250'000
_UNDERSCORED = pattern_of(r"(?<![\w.])\d{1,3}(?:_\d{3}){1,5}(?!\w)")  # 1_000_000
# Thousands parted by spaces, and decimals: "1 234 567,89".
_SPACED_DECIMAL = pattern_of(
    r"(?<![\w.,+-])(?<!\d )(?P<whole>[1-9]\d{0,2}(?: \d{3}){1,4})[.,]"
    r"(?P<part>\d{1,2})(?![\w,]|\.\d)"
)
_PAGES = pattern_of(r"(?<=\b[Pp]ages )\d{1,4},(?=\d{1,4}(?!\d|,\d|\.\d))|(?<=[\[])\d,(?=\d\])")
_SLASH = pattern_of("(?<=\\d)[\u2044\u2215](?=\\d)")
_SCIENTIFIC = pattern_of(r"(?<![\w.])(?P<a>\d{1,9}(?:\.\d{1,9})?)[eE](?P<b>[-+]?\d{1,3})(?!\w)")
_SPACED = pattern_of(
    r"(?<![\w.,+-])(?<!\d )[1-9]\d{0,2}(?:(?: \d{3}){2,4}|(?: 000)|(?: \d{3})(?= (?:people|"
    r"years|men|women|times|"
    r"copies|words|soldiers|inhabitants|votes|francs|pounds|dollars|euros|troops|tons|tonnes|"
    r"steps|items)\b))(?![\d,-]| \d|\.\d)"
)
_CHAIN = pattern_of(r"(?<![\w.,/-])(?:\d(?:-\d){2,6}|\d{1,2}(?:-\d{1,2}){3,8})(?![\w/-])")
_LIST = pattern_of(r"(?<![\w.,$€£])\d{1,6}(?:,\d{1,6}){2,40}(?![\d\w%]|,\d|\.\d)")
# Of a point, a function or an expression; three figures behind the comma are thousands.
_PAIR = pattern_of(r"(?<=[({])(?![1-9]\d{0,2},\d{3}[)}])\d{1,6}(?:,\d{1,6})(?=[)}])")
_DECIMAL_COMMA = pattern_of(r"(?<![\w.,$€£])(?:\d{1,4},\d{1,2}|\d{1,2},\d{4,9})(?![\w,%]|\.\d)")
_EUROPEAN = pattern_of(
    r"(?<![\w.,])(?:\d{1,3}(?:\.\d{3}){1,4},\d{1,4}|[1-9]\d{0,2}(?:\.\d{3}){2,4}(?!\.))(?![\d,])"
)
_TENS_OF = pattern_of(
    r"(?<![\w.,])(?P<number>\d{1,3}(?:(?:,\d{3}){1,3}|(?:,\d{3}|0){1,3}(?=s of\b)))s(?!\w)"
)
_LETTERED = pattern_of(  # 2.5x
    r"(?<![\w.])\d+\.\d+(?=[^\W\d_])"
)
_SCALE = pattern_of(
    rf"{START}(?:(?P<from>{NUM})\s?[-–]\s?)?(?P<number>{NUM})\s?(?P<scale>k|K(?=\s[a-z])|bn|mn|"
    r"mil(?=\s[a-z])|(?<=\d)(?:K(?=\+)|M(?=\+?\s(?!solutions?\b)[a-z]{3})(?:(?<=\d\dM)|(?<=\.\dM)|"
    r"(?=\+?\s(?:people|[a-z]{3,12}s)\b))|(?<=\.\d)B(?=\+?\s[a-z]{3})))"
    r"\b(?!/|['’])"
)
_ORDINAL = pattern_of(
    r"(?<![\w.])(?<!\d,)(?<!\d/)(?P<number>\d{1,12}(?:,\d{3}){0,3})(?P<nth>st|nd|rd|"
    r"th)(?P<more>['’]s)?(?!\w)",
    re.I,
)
_SHORT_ORDINAL = pattern_of(r"(?<![\w.])(?P<number>\d{0,2}[23])d(?=\s[A-Z])")  # the 42d Infantry
_DECIMAL_MARK = pattern_of(  # 4.5/5
    r"(?<![\w./,])(?P<mark>\d{1,2}\.\d{1,2})/(?P<of>5|10|20|100)(?![\w/]|\.\d)"
)
_OVER = pattern_of(r"(?<![\w.,/])(?P<number>\d{1,4})/(?P<name>[a-z])(?![\w/'’-]|\.\w)")  # 1/f
_MANY_TIMES = pattern_of(
    r"(?<![\w.-])(?P<number>\d{1,3}(?:\.\d)?)x(?:(?=\s(?:as|a|per|daily|weekly)\s)|\s?/\s?"
    rf"(?P<per>{'|'.join(TIMES)})(?!\w))"
)
_FRACTION = pattern_of(
    r"(?<![\w./])(?:(?P<whole>\d{1,6})(?: |"
    r"-(?=\d/\d)))?(?P<upper>\d{1,5})(?P<space>\s?)/(?P=space)(?P<lower>\d{1,5})(?P<nth>(?:st|"
    r"nd|rd|th)s?(?!\w))?(?![\w/]|\.\d)",
    re.I,
)
_SIGN = pattern_of(r"(?<!\w)[-−+±](?=\.?[\d²³]|∞|\([-−+]\d)")
# A hyphen after a unit or half of a day with a stop, or after a degree: "9 a.m.-5 p.m.".
_RANGE_OF_UNITS = pattern_of(r"(?P<unit>(?<=\d)(?:°|\s?(?:[AaPp]\.[Mm]|[a-z]{1,3})\.))[-–](?=\d)")
_PLUS_MINUS = pattern_of(r"[-−]\s?/\s?\+|\+\s?/\s?[-−–]|(?<!\S)\+[-−](?=\s?[$€£]?\.?\d)")
# "20~30" and "5°C ~ 10°C", as a dash would say it.
_TIMES_RANGE = pattern_of(r"(?<=\dx)\s?[-–]\s?(?=\d{1,3}(?:\.\d)?x(?!\w))")  # 1.5x-2x
_WAVE = pattern_of(
    r"(?P<unit>(?<=\d)(?:\s?(?:%|°[CF]?|[kcm]?m|k?g|m?[lL]|min|[hskKM]|[ap]\.?m\.?))?)\s?[~\u301c∼]\s?"
    r"(?P<sign>[-−]?)(?=[$€£¥]?\d{1,9}(?![^\W\d_]{3}))"
)
# A sign that stands apart from its number: "x = - 5", "at - 40 degrees", "is - 5."
_UNARY = pattern_of(r"(?P<before>[=<>≤≥≈×] |\( ?)[-−–] (?=[$€£]?\.?\d)")
_APART = pattern_of(
    r"(?P<before>(?:(?<= )-\d{1,4}(?:°[CF]?)? (?:and|or|to)|\b(?:at|by|of|to|from|below|above|than|"
    r"around|about|near|reach(?:es|ed)?|hits?|between|is|was|are|were|be|equals?|"
    r"(?:temperature|temp|change|minimum|maximum|low|high):)) )[-−–] "
    r"(?=[$€£]?\d{1,6}(?:[.,]\d{1,3})?(?:\s?(?:°|%)|\s[CF]\b|\s(?:degrees?|percent)\b|"
    r"\s?(?:[.,;:!?)](?!\d)|$)| to [-−–]?\s?\d))",
    re.I,
)
_BELOW = pattern_of(r"[\d.,]{1,9}(?:\s?[°%]|\s[CF]\b|\s(?:degrees?|percent)\b)")
_DASHED = pattern_of(r" [-–] [^.!?\n]{0,100}\Z")
# Whether those can match at all, at a glance.
_ANY_SCIENTIFIC = pattern_of(r"[eE][-+\d](?<=\d..)")
_ANY_SPACED_DECIMAL = pattern_of(r" \d{3}[.,]\d")
_ANY_RANGE_OF_UNITS = pattern_of("[-–](?<=[.°].)")
_DOTS = pattern_of(r"(?<=\d)\.\.(?=\d)")
_INNER_STOP = pattern_of(r"(?<=[A-Z]{2})\.(?=\d)")  # BS.1770
_NTH_RANGE = pattern_of(r"(?<=\dst|\dnd|\drd|\dth)[-–](?=\d{1,3}(?:st|nd|rd|th)\b)")
_RANGE = pattern_of(rf"{START}(?P<a>{NUM})(?P<dash>\s?–\s?|-)(?P<b>{NUM})(?!-?\d|[^\Wx]|x\w|\.\d)")
_APPROXIMATE = pattern_of(r"(?<![\w~])[~∼≈]\s?(?=[-+−]?[$€£]?\.?\d)")
_NUMBER_SIGN = pattern_of(r"(?:(?<!\w)|(?<=\b[A-Z]{2})|(?<=[a-z]))#\s?(?=\d|[A-Z]-?\d)|№\s?")
_NUMBER_WORD = pattern_of(
    r"(?<!\w)(?P<word>[Nn]o|[Nn]os|N[oº]|[Nn]r)\.\s?(?=\d|[A-Z]-?\d|[A-Z]{2,4}-\d{1,6}-\d)"
)
_COUNTED = pattern_of(
    r"\s(?:feet|miles|men|women|dollars|pounds|years|people|euros|meters|metres|steps|times|"
    r"words|pages|"
    r"votes|jobs|troops|soldiers|items|points|copies|students|workers|employees|homes|calories|"
    r"kilometers|"
    r"kilometres|tons|tonnes|acres|copies|cars|units|members|patients|cases|deaths|square|"
    r"cubic|million)\b"
)
_PLAIN = pattern_of(rf"(?<!\w)(?!(?<=\.)\.){NUM}(?!\w)")
_FIGURES = pattern_of("[0-9]+")
_REST = pattern_of(r"\d+")


# Parts of a work that are counted: zeros before their numbers only let files sort. "Chapter 01"
_PARTS = (
    "chapter part book volume section lesson unit episode track act scene step day week page song"
)
_BEHIND_PART = "|".join(rf"(?<=\b{word} )" for word in _PARTS.split())
_PADDED = pattern_of(
    rf"(?:{_BEHIND_PART})(?=\d{{2,3}}(?!\w|[.,:/–-]\d))0{{1,2}}(?P<number>[1-9]\d?)", re.I
)


def canonical(draft: Draft) -> None:
    """Vulgar fractions to plain figures, before tokens are told apart."""
    if not draft.text.isascii():
        draft.sub(_VULGAR_PATTERN, _vulgar, "number")
    if not _REST.search(draft.text):
        return
    draft.sub(_PLUS_MINUS, "±", "symbol", "+")
    draft.sub(_TIMES_RANGE, " to ", "number", "x")
    if "~" in draft.text or not draft.text.isascii():
        draft.sub(_WAVE, lambda m: f"{m['unit']}{' to -' if m['sign'] else '–'}", "number")
    if "- " in draft.text or not draft.text.isascii():
        draft.sub(_UNARY, lambda m: f"{m['before']}-", "number")
        draft.sub(_APART, _signed_apart, "number")
    if not draft.text.isascii():
        draft.text = _SLASH.sub("/", draft.text)
    if _ANY_SCIENTIFIC.search(draft.text):
        draft.text = _SCIENTIFIC.sub(lambda m: f"{m['a']}×10^{int(m['b'])}", draft.text)
    draft.sub(_UNDERSCORED, lambda m: m.group().replace("_", ","), "number", "_")
    if _ANY_SPACED_DECIMAL.search(draft.text):
        draft.sub(
            _SPACED_DECIMAL, lambda m: f"{m['whole'].replace(' ', ',')}.{m['part']}", "number"
        )
    if "ages " in draft.text or "[" in draft.text:
        draft.text = _PAGES.sub(lambda m: f"{m.group()} ", draft.text)
    if _ANY_RANGE_OF_UNITS.search(draft.text):
        draft.sub(_RANGE_OF_UNITS, lambda m: f"{m['unit']} to ", "number")
    if "'" in draft.text:
        draft.sub(_SWISS, lambda m: m.group().replace("'", ","), "number")


def remaining(draft: Draft) -> None:
    """Figures that no token took, when another one ended inside their row."""
    if _FIGURES.search(draft.text):
        draft.sub(_FIGURES, lambda m: f" {number(m.group())} ", "number")


def _signed_apart(match: re.Match[str]) -> str | None:
    """None for the second dash of a pair: "He is - or was - 40."."""
    before = match.string[max(0, match.start() - 100) : match.start()]
    is_measured = _BELOW.match(match.string, match.end())
    return None if _DASHED.search(before) and not is_measured else f"{match['before']}-"


def _vulgar(match: re.Match[str]) -> str:
    """Apart from a whole number before and a letter after: 2½, ½mv."""
    after = " " if match.string[match.end() : match.end() + 1].isalpha() else ""
    return f"{'' if match['whole'] is None else ' '}{_VULGAR[match['char']]}{after}"


def _signed(match: re.Match[str]) -> str | None:
    before = match.string[match.start() - 1 : match.start()] if match.start() else ""
    if before in (")", "]", "-") and match.group() in "-−":
        return None
    return {"-": "minus ", "−": "minus ", "+": "plus ", "±": "plus or minus "}[match.group()]


_AFTER_NUMBER = pattern_of(r"(?<=\d)\+(?!\w)")


_OF_A_MODEL = pattern_of(r"[A-Za-z]\d{0,6}-$")  # "i7-9700K" has no thousands


_SCALES = {
    "k": "thousand", "m": "million", "mn": "million", "mil": "million", "b": "billion",
    "bn": "billion",
}  # fmt: skip


def _scale(match: re.Match[str]) -> str | None:
    if led(match, _OF_A_MODEL):
        return None
    scale = _SCALES[match["scale"].lower()]
    lead = f"{number(match['from'])} to " if match["from"] else ""
    return f"{lead}{number(match['number'])} {scale}"


_ENDING = {"1": "st", "2": "nd", "3": "rd"}


def _ordinal(match: re.Match[str]) -> str | None:
    """A wrong ending is said as it is written: "1th", "4rd"."""
    written = match["number"].replace(",", "")
    value = int(written)
    if value >= 10**15:
        return None
    right = "th" if value % 100 in (11, 12, 13) else _ENDING.get(written[-1], "th")
    more = "'s" if match["more"] else ""
    if match["nth"].lower() != right:
        return f"{number(match['number'])} {match['nth'].lower()}{more}"
    return ordinal(value) + more


_FIXED = {(24, 7), (9, 11), (50, 50), (20, 20), (7, 11), (365, 24)}
_PAIRED = pattern_of(
    r"[ -](?:split|rule|mix|blend|chance|odds|beat|beats|time|meter|metre|bar|bars|signature|"
    r"rhythm|vision|hearing|raid|attack|attacks|season)\b"
)
_PRESSURE = pattern_of(r"\b(?:blood pressure|BP)(?: of| was| is)? $")


def _is_calculated(match: re.Match[str]) -> bool:
    """Whether an equation is beside the match, or it is a pressure of blood."""
    before = match.string[max(0, match.start() - 18) : match.start()]
    after = match.string[match.end() : match.end() + 3].lstrip()
    return (
        before.rstrip()[-1:] in ("=", "*", "×", "÷")
        or after[:1] == "="
        or bool(_PRESSURE.search(before))
    )


def _fraction(match: re.Match[str]) -> str | None:
    upper, lower = int(match["upper"]), int(match["lower"])
    whole = match["whole"]
    if whole and match["space"]:
        return None
    if (upper, lower) in _FIXED and not whole:
        return f"{cardinal(upper)} {'seven' if lower == 7 else cardinal(lower)}"
    if len(match["lower"]) == 4 and led(match, _OF_A_CASE):  # "No. 1/2003" is of that year
        return f"{number(match['upper'])} slash {plain(match['lower'])}"
    if is_year(match["upper"]) and not (whole or match["nth"] or match["space"]):
        return f"{plain(match['upper'])} slash {number(match['lower'])}"
    if lower in (0, 1) or not upper:
        lead = f"{cardinal(int(whole))} and " if whole else ""
        return f"{lead}{number(match['upper'])} over {number(match['lower'])}"
    if not match["nth"] and _PAIRED.match(match.string, match.end()):
        return f"{cardinal(upper)} {cardinal(lower)}"
    if not whole and upper >= lower and _is_calculated(match):
        return f"{cardinal(upper)} over {cardinal(lower)}"
    if whole:
        return mixed(int(whole), upper, lower)
    if not match["nth"] and _is_mark(match, upper, lower):
        return f"{cardinal(upper)} out of {cardinal(lower)}"
    is_score = (
        20 < lower < 1000 and upper > 10 and lower not in (24, 32, 50, 64) and not match["nth"]
    )
    if is_score and lower <= 300 and upper != 1:
        return f"{cardinal(upper)} over {cardinal(lower)}"
    return fraction(upper, lower)


_MARKS = pattern_of(
    r"\b(?:rat(?:e|es|ed|ing)|scor(?:e|es|ed|ing)|got|gets?|gave|giv(?:e|es|en|ing)|mark|a solid)\b"
    r"[^.!?\n]{0,24}$",
    re.I,
)
_IS_ALONE = pattern_of(r"\s*(?:[.!?,;:)]|$|(?:would|rating|score|stars)\b)")


def _is_mark(match: re.Match[str], upper: int, lower: int) -> bool:
    """Whether "8/10" is how good something is: all of it, or as marks are given."""
    if upper == lower:
        return lower > 2
    if lower not in (5, 10, 20, 100) or upper > lower:
        return False
    before = match.string[max(0, match.start() - 40) : match.start()]
    is_alone = _IS_ALONE.match(match.string, match.end()) is not None
    is_given = _MARKS.search(before) is not None and not match.string.startswith(" of", match.end())
    return (is_alone or is_given) if lower in (10, 100) else (is_alone and is_given)


# One of those is named by its chapter and its number: "Table 4-1".
_OF_A_THING = pattern_of(
    r"\b(?:[Tt]able|TABLE|[Ff]igure|[Ff]ig\.|FIG\.|[Ss]ection|[Ss]ec\.|[Ee]xhibit|[Aa]ppendix|"
    r"[Ee]quation|[Ee]q\.|[Ll]isting|[Ff]ormula|[Dd]iagram)\s$"
)
_OF_A_CASE = pattern_of(r"\b[Nn]os?\.\s$")


def _range(match: re.Match[str]) -> str:
    link = "dash" if led(match, _OF_A_CASE) or led(match, _OF_A_THING) else "to"
    return f"{plain(match['a'])} {link} {plain(match['b'])}"


def _chain(match: re.Match[str]) -> str:
    return ", ".join(map(number, match.group().split("-")))


def _list(match: re.Match[str]) -> str | None:
    written = match.group()
    if re.fullmatch(r"[1-9]\d{0,2}(?:,\d{3})+|[1-9]\d?(?:,\d\d){1,4},\d{3}", written):
        return None
    return ", ".join(map(number, written.split(",")))


def _european(match: re.Match[str]) -> str:
    return number(match.group().replace(".", "").replace(",", "."))


def _in_context(match: re.Match[str]) -> str:
    counted = _COUNTED.match(match.string, match.end()) or led(match, _AMOUNT_BEFORE)
    return number(match.group()) if counted else plain(match.group())


_AMOUNT_BEFORE = pattern_of(
    r"(?:\b(?:about|over|nearly|almost|roughly|around|than|approximately|total of|worth)\s|~|"
    r"[<>] ?)$"
)

NUMBERS_FIRST = (
    Recogniser("symbol", "~∼≈", _APPROXIMATE, lambda m: "about ", DIGIT),
    Recogniser("abbreviation", "#№", _NUMBER_SIGN, lambda m: "number "),
    Recogniser(
        "abbreviation",
        STOPPED,
        _NUMBER_WORD,
        lambda m: "numbers " if m["word"].endswith("s") else "number ",
        DIGIT + ".",
        InWord(r"[Nn](?:os?|º|r)\.", "."),
    ),
)
COUNTED = (
    Recogniser(
        "number",
        DIGIT,
        _SPACED,
        lambda m: number(m.group().replace(" ", "")),
        FIGURES,
        pattern_of(r" (?<=\d )\d{3}"),
    ),
    Recogniser(
        "number",
        DIGIT,
        _TENS_OF,
        lambda m: plural(number(m["number"]).removeprefix("one ")),
        search=InWord(r"0s\b", DIGIT),
    ),
    Recogniser("number", DIGIT, _SCALE, _scale, search=pattern_of(r"\d\s?(?:k|K|M|B|bn|mn|mil)\b")),
    Recogniser(
        "number",
        DIGIT,
        _DECIMAL_MARK,
        lambda m: f"{number(m['mark'])} out of {number(m['of'])}",
        "./",
    ),
    Recogniser("number", DIGIT, _FRACTION, _fraction, "/"),
    Recogniser("number", DIGIT, _OVER, lambda m: f"{number(m['number'])} over {m['name']}", "/"),
    Recogniser("number", DIGIT, _ORDINAL, _ordinal, search=InWord(r"\d(?i:st|nd|rd|th)", DIGIT)),
    Recogniser(
        "number",
        DIGIT,
        _SHORT_ORDINAL,
        lambda m: ordinal(int(m["number"])),
        search=InWord(r"[23]d\b", DIGIT),
    ),
    Recogniser(
        "number",
        DIGIT,
        _MANY_TIMES,
        lambda m: f"{number(m['number'])} times{' per ' + TIMES[m['per']] if m['per'] else ''}",
        search=InWord(r"\dx\b", DIGIT),
    ),
)
NUMBERS = (
    Recogniser("number", "0", _PADDED, lambda m: number(m["number"]), search=InWord(r"\A0", DIGIT)),
    Recogniser("number", ".", _DOTS, lambda m: " to ", DIGIT, InWord(OneOf(".."), DIGIT)),
    Recogniser(
        "symbol",
        ".",
        _INNER_STOP,
        lambda m: " dot ",
        DIGIT + CAPITAL,
        InWord(r"[A-Z]\.\d", CAPITAL),
    ),
    Recogniser("number", "-–", _NTH_RANGE, lambda m: " to ", DIGIT),
    Recogniser("number", DIGIT, _EUROPEAN, _european, FIGURES, FIGURES_JOINED),
    Recogniser("number", DIGIT, _LIST, _list, ","),
    Recogniser("number", DIGIT, _PAIR, lambda m: ", ".join(map(number, m.group().split(","))), ","),
    Recogniser("number", DIGIT, _DECIMAL_COMMA, lambda m: amount(m.group()), ","),
    Recogniser("number", DIGIT, _CHAIN, _chain, "-"),
    Recogniser("number", DIGIT + ".", _RANGE, _range, DIGIT, InWord(OneOf("-", "–"))),
    Recogniser("number", "-−+±", _SIGN, _signed),
    Recogniser("symbol", "+", _AFTER_NUMBER, lambda m: " plus "),
    Recogniser(
        "number",
        DIGIT,
        _LETTERED,
        lambda m: number(m.group()),
        search=InWord(r"\d\.\d+[^\W\d_]", ".0"),
    ),
    Recogniser("number", DIGIT + ".", _PLAIN, _in_context, DIGIT),
)
REST = (Recogniser("number", DIGIT, _REST, lambda m: plain(m.group())),)
