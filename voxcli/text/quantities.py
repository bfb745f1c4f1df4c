"""English: percentages, measures and durations: numbers with a unit.

Knows no exchange of units: what is written is said. The units themselves are in `units.py`.
"""

from __future__ import annotations

import re
from functools import lru_cache

from voxcli.text.changes import Draft
from voxcli.text.characters import NO_UNIT
from voxcli.text.patterns import pattern_of
from voxcli.text.spell import cardinal, fraction, mixed, number, plain, plural
from voxcli.text.tagger import CAPITAL, DIGIT, JOINED, SMALL, InWord, OneOf, Recogniser, led
from voxcli.text.units import (
    DIVISOR,
    LED,
    LENGTH,
    LENGTHS,
    PER_UNIT,
    TIMES,
    UNIT,
    UNITS,
    alternatives,
    powered,
    unit_name,
)

# Bounded groups keep it linear; the look-ahead keeps "1,2345" whole. "5,00,000" is Indian.
NUM = r"(?:\d{1,2}(?:,\d{2}){1,4},\d{3}(?![\d])(?:\.\d+)?|\d+(?:,\d{3}(?!\d)){0,6}(?:\.\d+)?|\.\d+)"
START = r"(?<![\w.^])(?<!\d,)(?<!\^-)"
NO_FRACTION = r"(?<!\d/)"  # the lower number of one
SIGN = rf"(?P<sign>[-+±−](?<![\w)\]^].))?(?(sign)|{START})"  # a sign, or the start of a number
SIGNS = {"-": "minus ", "−": "minus ", "+": "plus ", "±": "plus or minus ", None: "", "": ""}
# A comma before one or two figures, as other countries write decimals; thousands after a space.
_OTHER = (
    r"\d{1,3}(?:\.\d{3}){1,4},\d{1,4}(?![\d,])|"
    r"[1-9]\d{0,2}(?:\.\d{3}){2,4}(?![\d.])|\d{1,4},\d{1,2}(?![\d,])|"
    r"[1-9]\d{0,2}(?: \d{3}){1,3}(?![\d,])(?:\.\d+)?"
)
_ANY = rf"(?:{_OTHER}|{NUM})"
_WHOLE = r"(?![.,]?\d)"  # where a number ends: no unit is looked for in the middle of it
_WORDS = r"(?:hundred|thousand|million|billion|trillion)"

_RAISED = r"(?:[²³]|\^[23])"
# Units that a slash or a negative power divides by: "/m²/yr", "/(mol·K)", " mol^-1".
_PER_ONE = rf"(?:{DIVISOR})(?:{_RAISED}|(?<=[ms])[23](?!\d))?"
_PER = rf"\s?/\s?(?:(?:100\s)?{_PER_ONE}(?!\w)|\({_PER_ONE}(?:[·⋅*× ]{_PER_ONE}){{1,2}}\))"
_INVERSE = rf"(?:{DIVISOR})\^-[123](?!\d)"
_TAIL = rf"(?:{_PER}|[ ·⋅*]?{_INVERSE}){{0,3}}"
_TAIL_PART = pattern_of(
    rf"(?P<hundred>100\s)?(?P<unit>{DIVISOR})(?:\^-?)?(?P<power>[²³123])?(?!\w)"
)
# Units multiplied: "N·m", "kg·m²/s²".
_TIMES = rf"(?:[·⋅](?:{DIVISOR}){_RAISED}?(?![\w^]))"
_TIMES_PART = pattern_of(rf"[·⋅](?P<unit>{DIVISOR})\^?(?P<power>[²³23])?")
_LED = rf"(?:{alternatives(set(LED))})(?=[/·⋅](?!\d))"
_FRACTION = rf"(?:{NO_FRACTION}(?P<whole>\d{{1,6}})[ -])?(?P<upper>\d{{1,3}})/(?P<lower>\d{{1,3}})"
# Its words are those of a number times a power of ten: "3 × 10⁸", "10²³".
_SCALED = (
    r"(?P<scaled>(?:(?P<factor>\d+(?:\.\d+)?)\s?[x×·*]\s?(?=10[²³^]))?(?P<base>\d+)"
    r"(?:(?P<char>[²³])|\^(?P<power>-?\d{1,3})))"
)
_MEASURE = pattern_of(
    rf"{SIGN}"
    rf"(?:{NO_FRACTION}(?P<from>{_ANY}{_WHOLE}(?: ?[x×] ?{_ANY}{_WHOLE})?)"
    r"\s?(?P<between>-|–|to|x|×|by|and|or)\s?(?!10[²³^])(?P<minus>[-−](?=\d))?)?"
    rf"(?:{_FRACTION}|{_SCALED}|(?P<number>{_ANY}){_WHOLE}(?:[ -](?P<words>{_WORDS})(?=[ -]))?)"
    rf"(?P<gap>[\s-]?)(?P<unit>(?![\d.,;:!?)\s])(?:{UNIT})|{_LED}|(?<= )t(?= of\b)"
    r"|in(?=\.)|in(?=[23²³])|in(?= (?:wide|long|tall|high|deep|thick)\b))"
    rf"(?P<raised>{_RAISED}|(?<=m)[23](?!\d)"
    rf")?(?P<product>{_TIMES}{{0,2}})(?P<tail>{_TAIL})(?![\w°]|/(?!\d)|\^\d)"
    r"(?P<dot>\.(?=\s+[a-z0-9]|[,;:)]|\s?/))?"
)
_HAS_UNIT = pattern_of(
    r"[\d²³dn](?:(?<=[\d²³])|(?<=hundred)|(?<=thousand)|(?<=illion))[\s-]?"
    rf"(?:{UNIT}|{_LED}|t|in)(?![A-Za-z])"
)
_FREQUENCY = pattern_of(rf"{SIGN}(?:{_SCALED}|(?P<number>{NUM}))\s?(?P<tail>{_INVERSE})(?!\w)")
# "12/kg" is so many of something unnamed.
_NUMBER_PER = pattern_of(
    rf"{START}(?P<number>{NUM})"
    rf"(?P<tail>/(?:{alternatives(set(UNITS) - {'in', 'm', 'g', 's', 'h', 'l'})}))(?!\w)"
)
# Without a number: "in km²", "kg/m³", "km/h", "J/(mol·K)", but not "m² + n²" or "his/her".
_BARE = pattern_of(
    r"(?=(?:(?:per|an?|one|each|every) )?\w{1,10}(?:[²³^·⋅/]|\s/))"  # soon known to be none
    rf"(?P<one>\b(?:per|an?|one|each|every) )?(?<![\w.^/$€£{NO_UNIT}])(?<![=+*×−-] )(?<![=+*×−-])"
    rf"(?P<unit>{PER_UNIT}|{_LED})(?=[²³^·⋅/]|\s/)(?P<raised>{_RAISED})?"
    rf"(?P<product>{_TIMES}{{0,2}})(?P<tail>{_TAIL})(?![\w/^°]|\s?[=+*×−]|\s-\s)"
)
_BARE_TAIL = pattern_of(rf"/(?:{'|'.join(TIMES)}|mol|kg|g|[lL]|ml|mL|[µu]L|dl|dL|km)(?!\w)")
_POWERED_TAIL = pattern_of(r"[²³^(]|[ms][23]")
_PER_THING = pattern_of(
    r"/(?<=\d/)(?!half|third|quarter|fifth|seven|fifty)(?=(?:[a-z]{4,12}|day|hr|min|yr)(?![\w/-]|\.\w))"
)
_PER_ALONE = pattern_of(rf"/(?:(?<=[\w.)]/)|(?<=[\w.)] /))\s?(?P<area>(?:{LENGTH}){_RAISED})(?!\w)")
# Things by unit: "60 beats/min", "cells/µL", and a formula's last number, "g C O two/km".
_THINGS = pattern_of(
    rf"\b(?!(?:this|his|was|yes|less|class|hours|hrs|mins|secs|days|weeks|months|years|yrs)\b)"
    rf"(?P<things>[a-z]{{3,20}}s|people|two|three|four|six|O)/(?P<tail>{'|'.join(TIMES)}|mL|µL|"
    r"L|km|kg|kWh)(?!\w)"
)
_DEGREES = pattern_of(r"\s?(?:°\s?|º\s?)(?P<scale>[CF])(?!\w)|\s?(?P<sign>[℃℉])|º(?=\W|$)")
_NUMBER = pattern_of(r"(?<!\w)[Nn][º°]\s?(?=\d)")  # "Nº 5", "N° 7"
_COORDINATE = pattern_of(
    r"(?<![\w.])(?P<degrees>\d{1,3}(?:\.\d+)"
    r"?)°\s?(?:(?P<minutes>\d{1,2}(?:\.\d+)?)'\s?)?(?:(?P<seconds>\d{1,2}(?:\.\d+)?)(?:\"|'')\s?)?"
    r"(?P<side>[NSEW])?(?!\w)"
)
_SIDES = {"N": "north", "S": "south", "E": "east", "W": "west"}
_DURATION = pattern_of(
    rf"{START}(?:(?P<hours>\d{{1,3}})\s?h(?:rs?|ours?)?\s?(?P<minutes>[0-5]?\d)(?:\s?m(?:in)?s?)?"
    r"|(?P<only_minutes>\d{1,3})\s?m(?:ins?)"
    r"?(?=\s?[0-5]?\d\s?s\b))(?:\s?(?P<seconds>[0-5]?\d)\s?s(?:ecs?)?)?(?!\w)"
)
_FEET = pattern_of(
    r"(?<![\w.])(?P<feet>\d{1,2})\s?(?:ft|feet)\.?\s(?P<inches>\d{1,2}(?:\.\d)?)\s?(?:in|"
    r"inches)(?!\w)(?P<dot>\.(?=\s+[a-z0-9]|[,;:)]))?"
)
_FEET_MARK = pattern_of(
    r"(?<![\w.'])(?P<number>\d{1,4})'(?:(?<=x \d')|(?<=x \d\d')|(?<=x \d\d\d')|"
    r"(?=\s(?:tall|long|wide|high|deep|by|x|and\s\d)\b)|"
    r"(?<=\ba \d')(?=\s[a-z]{3})|(?<=\ba \d\d')(?=\s[a-z]{3}))"
)
_INCH_MARK = pattern_of(
    r"(?<![\w./,])(?P<number>(?:\d{1,3}[ -])?\d{1,2}/\d{1,2}|\d{1,3}(?:\.\d{1,2})?)\"(?!\w)"
    r"|(?<![\w./])(?P<sized>\d{1,3}(?:\.\d{1,2})?)\"(?=x\d)"
)
_FEET_INCHES = pattern_of(
    r"(?<![\w.])(?P<feet>\d{1,2})' ?(?P<inches>1[01]|\d)(?P<half>½| 1/2)?(?:\"|'')(?!\w)"
    r"|(?<![\w.])(?P<feet2>[4-7])'(?P<inches2>1[01]|\d)(?![\w'\"])"
)
_PERCENT = pattern_of(
    rf"{SIGN}{NO_FRACTION}(?:(?P<from>{_ANY}(?: ?[x×] ?{_ANY})?)(?:\s?%)?(?P<gap>\s?)(?:-|–|to)"
    r"(?P<behind>\s?))?"
    rf"(?:(?:(?P<whole>\d{{1,3}})[ -])?(?P<upper>\d{{1,2}})/(?P<lower>\d{{1,2}})"
    rf"|(?P<number>{_ANY}))"
    r"[\s-]?(?P<unit>%|‰|"
    r"percent\b|pct\b)"
)
# After "a" a measure describes what follows: "a 5 km run".
_ARTICLE = pattern_of(r"\b[Aa]n?\s$")
_NOUN = pattern_of(
    r"\s(?!(?:and|or|of|to|in|on|at|by|for|from|with|per|a|an|the|is|was|are|were|away|long|"
    r"wide|tall|high|deep|"
    r"thick|old|later|ago|each|every|than|more|less|as|if|but|so|after|before|up|down|below|above|"
    r"yesterday|today|tomorrow|tonight|daily|weekly|north|south|east|west|apart|ahead|behind|"
    r"long|left|total|"
    r"faster|slower|heavier|lighter|longer|shorter|higher|lower|because|while|when|since|until|"
    r"has|have|had|"
    r"will|would|can|could|may|should|into|over|under|off|out|only|then|now|and|plus|minus|"
    r"times)\b)[a-z]{3}"
)


def degrees(draft: Draft) -> None:
    """Degrees and the micro sign as units write them; before tokens are told apart."""
    if draft.text.isascii():
        return
    draft.sub(_NUMBER, "number ", "abbreviation")
    draft.sub(
        _DEGREES,
        lambda m: "°" + (m["scale"] or {"℃": "C", "℉": "F", None: ""}[m["sign"]]),
        "unit",
    )
    draft.text = draft.text.replace("μ", "µ")  # the Greek letter and the micro sign


def amount(text: str) -> str:
    """The words of a number in any of the writings of `_ANY`."""
    if "x" in text or "×" in text:
        return " by ".join(map(amount, re.split("[x×]", text)))
    written = "".join(text.split())
    if written.count(".") > 1:
        written = written.replace(".", "")
    if re.fullmatch(r"[\d.]+,(?:\d{1,2}|\d{4,9})|[\d.]*\.\d{3},\d+", written):
        written = written.replace(".", "")
        written = written.replace(",", ".")
    return number(written)


def power_words(match: re.Match[str]) -> str:
    """ "3 × 10⁸" is "three times ten to the power of eight"."""
    lead = f"{number(match['factor'])} times " if match["factor"] else ""
    return f"{lead}{plain(match['base'])} {exponent(match['char'], match['power'])}"


def exponent(char: str | None, power: str | None) -> str:
    """ "squared", "cubed", "to the power of minus three"."""
    if char or power in ("2", "3"):
        return "squared" if (char or power) in ("²", "2") else "cubed"
    assert power is not None
    sign = "minus " if power[0] in "-−" else ""
    return f"to the power of {sign}{cardinal(int(power.strip('-−')))}"


def _counted(written: str, unit: str) -> str:
    return f"{number(written)} {unit if written.lstrip('0') == '1' else plural(unit)}"


def _duration(match: re.Match[str]) -> str:
    """ "1h30", "2 h 15 min", "2m 30s"."""
    hours, seconds = match["hours"], match["seconds"]
    minutes = match["minutes"] or match["only_minutes"]
    parts = ((hours, "hour"), (minutes, "minute"), (seconds, "second"))
    return " ".join(_counted(each, unit) for each, unit in parts if each and int(each))


def _is_attribute(match: re.Match[str]) -> bool:
    """Whether the measure describes a noun: "a 32-bit chip", "a 5 km run"."""
    before = match.string[max(0, match.start() - 8) : match.start()]
    return bool(_ARTICLE.search(before) and _NOUN.match(match.string, match.end()))


_QUOTE = pattern_of(r"\n|\d?\"")


@lru_cache(maxsize=1)
def _quoted(text: str) -> frozenset[int]:
    """Where quotation marks close a quotation of their line."""
    closing = []
    is_open = False
    for quote in _QUOTE.finditer(text):
        if is_open and quote.group() != "\n":
            closing.append(quote.end() - 1)
        is_open = not is_open and quote.group() == '"'
    return frozenset(closing)


def _inch_mark(match: re.Match[str]) -> str | None:
    """A quotation mark after a number is an inch where no quotation is open."""
    if match.end() - 1 in _quoted(match.string):
        return None
    before = match.string[max(0, match.start() - 8) : match.start()]
    is_noun = _ARTICLE.search(before) or _NOUN.match(match.string, match.end())
    written = match["number"] or match["sized"]
    if "/" in written:
        whole, upper, lower = re.fullmatch(r"(?:(\d+)[ -])?(\d+)/(\d+)", written).groups()  # type: ignore[union-attr]
        said = (
            mixed(int(whole), int(upper), int(lower)) if whole else fraction(int(upper), int(lower))
        )
    else:
        said = number(written)
    return f"{said} {'inch' if is_noun or written == '1' else 'inches'}"


def _percent(match: re.Match[str]) -> str | None:
    if match["from"] and match["gap"] and not match["behind"] and not _is_rising(match):
        return None  # a cell of a table, then one below zero: "1,310 -1.5%"
    lead = f"{amount(match['from'])} to " if match["from"] else ""
    unit = "per mille" if match["unit"] == "‰" else "percent"
    if match["whole"]:
        said = mixed(*(int(match[name]) for name in ("whole", "upper", "lower")))
    elif match["upper"]:
        said = fraction(int(match["upper"]), int(match["lower"]))
    else:
        said = amount(match["number"])
    return f"{SIGNS[match['sign']]}{lead}{said} {unit}"


def _is_rising(match: re.Match[str]) -> bool:
    first, last = (match[name].replace(",", "") for name in ("from", "number"))
    return "x" in first or "×" in first or float(first) < float(last)


def _feet_inches(match: re.Match[str]) -> str:
    feet, inches = match["feet"] or match["feet2"], match["inches"] or match["inches2"]
    half = " and a half" if match["half"] else ""
    return f"{cardinal(int(feet))} foot {cardinal(int(inches))}{half}"


def _feet(match: re.Match[str]) -> str:
    feet = "foot" if match["feet"] == "1" else "feet"
    return f"{number(match['feet'])} {feet} {_counted(match['inches'], 'inch')}"


def _feet_mark(match: re.Match[str]) -> str:
    return f"{number(match['number'])} {'foot' if _is_attribute(match) else 'feet'}"


def _coordinate(match: re.Match[str]) -> str | None:
    if not match["minutes"] and not match["side"]:
        return None
    parts = [
        _counted(match[name], name[:-1])
        for name in ("degrees", "minutes", "seconds")
        if match[name]
    ]
    return " ".join([*parts, *([_SIDES[match["side"]]] if match["side"] else [])])


_LABEL = pattern_of(r"(?<= )[A-Za-z]:\s?\d")  # "M: 7 L: 9", "H:80 L:60"
_LABELLED = pattern_of(r"\b[A-Za-z]:\s?$")
_FONT = pattern_of(
    r"\s?(?:font|type|text|size|bold|italic|Arial|Times|Helvetica|Courier|heading|leading|"
    r"spacing|margin)"
)


def _measure(match: re.Match[str]) -> str | None:
    found = _amount(match)
    if found is None:
        return None
    if _LABEL.match(match.string, match.end() - 1) and led(match, _LABELLED):
        return None
    words, one = found
    if match["from"]:
        between = match["between"]
        if between in ("and", "or"):
            link = between
        else:
            link = "by" if between in ("x", "×", "by") else "to"
        minus = "minus " if match["minus"] else ""
        words, one = f"{amount(match['from'])} {link} {minus}{words}", False
    if match["words"]:
        words, one = f"{words} {match['words']}", False
    is_tight = match["gap"] == "" and bool(_NOUN.match(match.string, match.end()))
    is_tight = is_tight and (
        "°" not in match["unit"] or bool(_ANGLE.match(match.string, match.end()))
    )
    is_attribute = match["gap"] == "-" or is_tight or _is_attribute(match)
    sign = match["unit"]
    if sign == "pt" and (match["gap"] == "" or _FONT.match(match.string, match.end())):
        said = (
            "point" if one or is_attribute or _NOUN.match(match.string, match.end()) else "points"
        )
    elif sign == "s" and (
        match["between"] == "x"
        or (
            match["gap"] == ""
            and (not _is_lasting(match) or match.string.startswith(",000s", match.end() - 5))
        )
    ):
        return None
    else:
        said = _unit(match, sign, one=one or is_attribute)
    return f"{SIGNS[match['sign']]}{words} {said}{_per(match['tail'])}"


_LASTING = pattern_of(
    r"\b(?:wait(?:s|ed|ing)?|for|after|within|every|in|took|takes?|lasts?|lasted|about|under|"
    r"over|than|to|by|an?|"
    r"per|timeout|of|at|is|was|only|just|another|approximately|and|or|runs?|ran|minutes?|"
    r"hours?|mins?|first|last|"
    r"each|time|delay|duration|latency|RTT|ping)(?: of| for)?[ =:(]{0,2}~?$|[~≈<>=:(±]\s?$|\dm\s?$",
    re.I,
)
_LAST = pattern_of(
    r"[,.;:)]|\s?[-/]|\s(?:delay|timeout|pause|clip|video|audio|break|later|ago|long|into|left|"
    r"interval|countdown|"
    r"window|wait|faster|slower|exposure|of|each|per|to|and|or|for|after|before|ahead|behind)\b"
)


_SPAN_BEHIND = pattern_of(r"\s?[-–]\s?\d{1,3}s(?!\w)")  # "5s-10s"; of decades it is none here
_SPAN_BEFORE = pattern_of(r"\d{1,3}s\s?[-–]\s?\Z")
_ANGLE = pattern_of(r"\s(?:angle|turn|rotation|view|bend|slope|incline|arc)\b")
_NAME_BEFORE = pattern_of(r"\b\w*[A-Z]\w*\s$")


# Before numbers of which there are several: "two 5s", "a pair of 8s", "roll 6s".
_SEVERAL = pattern_of(
    r"\b(?:two|three|four|five|six|seven|eight|nine|ten|several|few|some|many|all|perfect|"
    r"straight|double|triple|pairs? of|roll(?:s|ed|ing)?|count(?:s|ed|ing)? (?:by|in)) $",
    re.I,
)
_ATTRIBUTE = pattern_of(
    r"\s(?:delay|timeout|pause|clip|video|break|interval|window|exposure|countdown)s?\b"
)


def is_several(match: re.Match[str]) -> bool:
    """Whether "5s" are fives; "two 5s delays" last."""
    before = match.string[max(0, match.start() - 16) : match.start()]
    is_attribute = _ATTRIBUTE.match(match.string, match.end())
    return _SEVERAL.search(before) is not None and not is_attribute


def _is_lasting(match: re.Match[str]) -> bool:
    """Whether "4s" is a time; else it is a name or more than one four."""
    before = match.string[max(0, match.start() - 24) : match.start()]
    if is_several(match):
        return False
    return (
        bool(_ATTRIBUTE.match(match.string, match.end()))
        or bool(_SPAN_BEHIND.match(match.string, match.end()) or _SPAN_BEFORE.search(before))
        or bool(match["tail"] or match["from"] or match["sign"] or not match["number"])
        or "." in (match["number"] or "")
        or bool(_LASTING.search(before))
        or (len(match["number"]) == 2 and not _NAME_BEFORE.search(before) and before[-1:] != "-")
        or (
            len(match["number"]) < 3
            and before[-1:].isspace()
            and not _NAME_BEFORE.search(before)
            and bool(_LAST.match(match.string, match.end()))
        )
    )


def _unit(match: re.Match[str], sign: str, *, one: bool) -> str:
    """One unit or a product, whose last part alone is counted: "newton meters"."""
    parts = [(UNITS.get(sign) or unit_name(sign), match["raised"])]
    parts += [
        (unit_name(p["unit"]), p["power"]) for p in _TIMES_PART.finditer(match["product"] or "")
    ]
    last = len(parts) - 1
    return " ".join(powered(*part, one=one or i < last) for i, part in enumerate(parts))


def _frequency(match: re.Match[str]) -> str:
    """ "60 min^-1"."""
    said = power_words(match) if match["scaled"] else number(match["number"])
    return f"{SIGNS[match['sign']]}{said}{_per(match['tail'])}"


def _bare(match: re.Match[str]) -> str | None:
    sign, power, times, tail = match.group("unit", "raised", "product", "tail")
    is_rate = _BARE_TAIL.match(tail) and (
        (len(sign) > 1 and sign != "in") or sign == "m" or (sign in "gJ" and tail[1:2] in "mk")
    )
    is_product = times and (len(sign) > 1 or sign == "N")
    is_dense = tail[:1] == "/" and _POWERED_TAIL.search(tail)
    if not (is_rate or is_product or is_dense or (power and UNITS.get(sign, "").endswith(LENGTHS))):
        return None
    return f"{match['one'] or ''}{_unit(match, sign, one=bool(match['one']))}{_per(tail)}"


def _per(tail: str) -> str:
    """ "/m²/yr" is " per square meter per year"."""
    return "".join(
        f" per {'one hundred ' if part['hundred'] else ''}"
        + powered(unit_name(part["unit"]), part["power"], one=not part["hundred"])
        for part in _TAIL_PART.finditer(tail)
    )


def _amount(match: re.Match[str]) -> tuple[str, bool] | None:
    """The number's words, and whether the unit stays singular."""
    if match["scaled"]:
        return power_words(match), False
    if match["number"]:
        return amount(match["number"]), match["number"] == "1"
    upper, lower = int(match["upper"]), int(match["lower"])
    if match["unit"] in ("mmHg", "mm Hg"):
        return f"{cardinal(upper)} over {cardinal(lower)}", False
    if not 0 < upper < lower:
        return None
    if match["whole"]:
        return mixed(int(match["whole"]), upper, lower), False
    return fraction(upper, lower), True


_SIGNED = "-−+±"
QUANTITIES = (
    Recogniser("unit", DIGIT, _COORDINATE, _coordinate, "°"),
    Recogniser("unit", DIGIT, _FEET_INCHES, _feet_inches, "'"),
    Recogniser("unit", DIGIT, _FEET, _feet, search=OneOf("ft", "feet")),
    Recogniser("unit", DIGIT, _FEET_MARK, _feet_mark, "'"),
    Recogniser("unit", DIGIT, _INCH_MARK, _inch_mark, '"'),
    Recogniser("unit", DIGIT, _DURATION, _duration, search=pattern_of(r"\d\s?[hm]")),
    Recogniser(
        "unit", _SIGNED + DIGIT + ".", _PERCENT, _percent, DIGIT, OneOf("%", "‰", "perc", "pec")
    ),
    Recogniser("unit", _SIGNED + DIGIT, _FREQUENCY, _frequency, "^"),
    Recogniser("unit", _SIGNED + DIGIT + ".", _MEASURE, _measure, DIGIT, _HAS_UNIT),
    Recogniser(
        "unit", DIGIT, _NUMBER_PER, lambda m: f"{number(m['number'])}{_per(m['tail'])}", "/"
    ),
)
BARE_UNITS = (
    Recogniser("unit", SMALL + CAPITAL, _BARE, _bare, search=InWord(r"[²³^·⋅/](?<!\d.)")),
    Recogniser("unit", "/", _PER_THING, lambda m: " per ", DIGIT),
    Recogniser("unit", "/", _PER_ALONE, lambda m: f" {_per('/' + m['area']).strip()} "),
    Recogniser("unit", JOINED, _THINGS, lambda m: f"{m['things']}{_per('/' + m['tail'])}", "/"),
)
