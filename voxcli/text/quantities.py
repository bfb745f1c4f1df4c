"""English: percentages, measures and durations: numbers with a unit.

Knows no exchange of units: what is written is said. The units themselves are in `units.py`.
"""

from __future__ import annotations

import re

from voxcli.text.changes import Draft
from voxcli.text.spell import cardinal, fraction, number, plural
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

# Bounded groups keep it linear; the look-ahead keeps "1,2345" whole.
NUM = r"(?:\d+(?:,\d{3}(?!\d)){0,6}(?:\.\d+)?|\.\d+)"
START = r"(?<![\w.^])(?<!\d,)(?<!\^-)"
NO_FRACTION = r"(?<!\d/)"  # the lower number of one; numerals.py says it whole
SIGN = r"(?P<sign>(?<![\w)\]^])[-+±−])?"
SIGNS = {"-": "minus ", "−": "minus ", "+": "plus ", "±": "plus or minus ", None: ""}

_RAISED = r"(?:[²³]|\^[23])"
# Units that a slash or a negative power divides by: "/m²/yr", "/(mol·K)", " mol^-1".
_PER_ONE = rf"(?:{DIVISOR})(?:{_RAISED}|(?<=[ms])[23](?!\d))?"
_PER = rf"\s?/\s?(?:(?:100\s)?{_PER_ONE}(?!\w)|\({_PER_ONE}(?:[·⋅*× ]{_PER_ONE}){{1,2}}\))"
_INVERSE = rf"(?:{DIVISOR})\^-[123](?!\d)"
_TAIL = rf"(?:{_PER}|[ ·⋅*]?{_INVERSE}){{0,3}}"
_TAIL_PART = re.compile(
    rf"(?P<hundred>100\s)?(?P<unit>{DIVISOR})(?:\^-?)?(?P<power>[²³123])?(?!\w)"
)
# Units multiplied: "N·m", "kg·m²/s²".
_TIMES = rf"(?:[·⋅](?:{DIVISOR}){_RAISED}?(?![\w^]))"
_TIMES_PART = re.compile(rf"[·⋅](?P<unit>{DIVISOR})\^?(?P<power>[²³23])?")
_LED = rf"(?:{alternatives(set(LED))})(?=[/·⋅])"
_FRACTION = r"(?:(?P<whole>\d{1,6})[ -])?(?P<upper>\d{1,3})/(?P<lower>\d{1,3})"
_SCALED = rf"(?P<scaled>{NUM}(?:\s?[x×·*]\s?10)?(?:[²³]|\^-?\d{{1,3}}))"  # numerals.py says it
_MEASURE = re.compile(
    rf"{START}{SIGN}(?:(?P<from>{NUM})\s?(?P<between>-|–|to|x|×|by)\s?(?!10[²³^]))?"
    rf"(?:{_FRACTION}|{_SCALED}|(?P<number>{NUM}))[\s-]?(?P<unit>{UNIT}|{_LED}|(?<= )t(?= of\b)"
    r"|in(?=\.)|in(?=[23²³])|in(?= (?:wide|long|tall|high|deep|thick)\b))"
    rf"(?P<power>{_RAISED}|(?<=m)[23](?!\d))?(?P<times>{_TIMES}{{0,2}})(?P<tail>{_TAIL})(?![\w/°]|\^\d)"
    r"(?P<dot>\.(?=\s+[a-z0-9]|[,;:)]))?"
)
_SPAN = re.compile(
    rf"{START}(?P<a>{NUM}\s?(?P<unit>(?:{UNIT}|in\b){_RAISED}?))(?:\s?–\s?|-)(?={NUM}\s?(?P=unit)(?!\w))"
)
_FREQUENCY = re.compile(
    rf"{START}{SIGN}(?:{_SCALED}|(?P<number>{NUM}))\s?(?P<tail>{_INVERSE})(?!\w)"
)
# Without a number: "in km²", "kg/m³", "km/h", "J/(mol·K)", but not "m² + n²" or "his/her".
_BARE = re.compile(
    rf"(?<![\w.^/$€£])(?<![=+*×−-] )(?<![=+*×−-])(?P<one>\b(?:per|an?|one|each|every) )?"
    rf"(?P<unit>{PER_UNIT}|{_LED})(?=[²³^·⋅/]|\s/)(?P<power>{_RAISED})?"
    rf"(?P<times>{_TIMES}{{0,2}})(?P<tail>{_TAIL})(?![\w/^°]|\s?[=+*×−]|\s-\s)"
)
_BARE_TAIL = re.compile(rf"/(?:{'|'.join(TIMES)}|mol|kg|g|[lL]|ml|mL|[µu]L|dl|dL|km)(?!\w)")
_POWERED_TAIL = re.compile(r"[²³^(]|[ms][23]")
_PER_ALONE = re.compile(
    rf"(?:(?<=[\w.)])\s?/\s?(?P<area>(?:{LENGTH}){_RAISED})|(?<=[$€£¥])/(?P<price>{PER_UNIT}))(?!\w)"
)
# Things by unit: "60 beats/min", "cells/µL", and a formula's last number, "g C O two/km".
_THINGS = re.compile(
    rf"\b(?!(?:this|his|was|yes|less|class|hours|hrs|mins|secs|days|weeks|months|years|yrs)\b)"
    rf"(?P<things>[a-z]{{3,20}}s|people|two|three|four|six|O)/(?P<tail>{'|'.join(TIMES)}|mL|µL|L|km|kg|kWh)(?!\w)"
)
_DEGREES = re.compile(r"\s?(?:°\s?|º\s?)(?P<scale>[CF])(?!\w)|\s?(?P<sign>[℃℉])")
_DURATION = re.compile(
    rf"{START}(?:(?P<hours>\d{{1,3}})\s?h(?:rs?|ours?)?\s?(?P<minutes>[0-5]?\d)(?:\s?m(?:in)?s?)?"
    r"|(?P<only_minutes>\d{1,3})\s?m(?:ins?)?(?=\s?[0-5]?\d\s?s\b))(?:\s?(?P<seconds>[0-5]?\d)\s?s(?:ecs?)?)?(?!\w)"
)
_INCHES = re.compile(
    r"(?<=feet )(?P<after_feet>\d{1,2}(?:\.\d)?)\s?in(?!\w)(?P<dot>\.(?=\s+[a-z0-9]|[,;:)]))?"
)
_FEET_MARK = re.compile(
    r"(?<![\w.'])(?P<number>\d{1,4})['′](?=\s(?:tall|long|wide|high|deep|by|x)\b)"
)
_INCH_MARK = re.compile(r"(?<![\w.])(?P<number>\d{1,3}(?:\.\d)?)[\"″](?!\w)|[\"\n]")
_FEET_INCHES = re.compile(r"(?<![\w.])(?P<feet>\d{1,2})['′] ?(?P<inches>1[01]|\d)(?:\"|″|'')(?!\w)")
_PERCENT = re.compile(
    rf"{START}{NO_FRACTION}{SIGN}(?:(?P<from>{NUM})\s?%?\s?(?:-|–|to)\s?)?"
    rf"(?P<number>{NUM})\s?(?P<unit>%|‰|percent\b)"
)


def units(draft: Draft) -> None:
    """Say percentages and measures."""
    draft.sub(
        _DEGREES,
        lambda m: f"°{m.group('scale') or ('C' if m.group('sign') == '℃' else 'F')}",
        "unit",
    )
    draft.sub(_FEET_INCHES, _feet, "unit")
    draft.sub(_FEET_MARK, lambda m: f"{m['number']} ft", "unit")
    _inch_marks(draft)
    draft.sub(_DURATION, _duration, "unit")
    draft.sub(_PERCENT, _percent, "unit")
    draft.text = draft.text.replace("μ", "µ")  # the Greek letter and the micro sign
    draft.sub(_SPAN, lambda m: f"{m['a']} to ", "unit")
    draft.sub(_FREQUENCY, _frequency, "unit")
    draft.sub(_MEASURE, _measure, "unit")
    draft.sub(_INCHES, lambda m: _counted(m["after_feet"], "inch"), "unit")


def bare_units(draft: Draft) -> None:
    """Say units that stand by themselves: "the area in km²", "kg/m³"."""
    draft.sub(_BARE, _bare, "unit")
    draft.sub(_PER_ALONE, lambda m: _per(m["area"] or m["price"]), "unit")
    draft.sub(_THINGS, lambda m: f"{m['things']}{_per(m['tail'])}", "unit")


def _counted(amount: str, unit: str) -> str:
    return f"{number(amount)} {unit if amount.lstrip('0') == '1' else plural(unit)}"


def _duration(match: re.Match[str]) -> str:
    """ "1h30", "2 h 15 min", "2m 30s"."""
    hours, seconds = match["hours"], match["seconds"]
    minutes = match["minutes"] or match["only_minutes"]
    parts = ((hours, "hour"), (minutes, "minute"), (seconds, "second"))
    return " ".join(_counted(amount, unit) for amount, unit in parts if amount and int(amount))


def _inch_marks(draft: Draft) -> None:
    """A quotation mark after a number is an inch where no quotation is open."""
    is_open = False

    def replace(match: re.Match[str]) -> str | None:
        nonlocal is_open
        if match["number"] and not is_open:
            return f"{match['number']} inch"
        is_open = match.group() != "\n" and not is_open
        return None

    draft.sub(_INCH_MARK, replace, "unit")


def _percent(match: re.Match[str]) -> str:
    lead = f"{number(match.group('from'))} to " if match.group("from") else ""
    unit = "per mille" if match.group("unit") == "‰" else "percent"
    return f"{SIGNS[match.group('sign')]}{lead}{number(match.group('number'))} {unit}"


def _feet(match: re.Match[str]) -> str:
    return f"{cardinal(int(match.group('feet')))} foot {cardinal(int(match.group('inches')))}"


def _measure(match: re.Match[str]) -> str | None:
    amount = _amount(match)
    if amount is None:
        return None
    words, one = amount
    if match.group("from"):
        between = "by" if match.group("between") in ("x", "×", "by") else "to"
        words, one = f"{number(match.group('from'))} {between} {words}", False
    unit = _unit(match, match["unit"], one=one)
    return f"{SIGNS[match.group('sign')]}{words} {unit}{_per(match['tail'])}"


def _unit(match: re.Match[str], sign: str, *, one: bool) -> str:
    """One unit or a product, whose last part alone is counted: "newton meters"."""
    parts = [(UNITS.get(sign) or unit_name(sign), match["power"])]
    parts += [
        (unit_name(p["unit"]), p["power"]) for p in _TIMES_PART.finditer(match["times"] or "")
    ]
    last = len(parts) - 1
    return " ".join(powered(*part, one=one or i < last) for i, part in enumerate(parts))


def _frequency(match: re.Match[str]) -> str:
    """ "60 min^-1"."""
    amount = match["scaled"] or number(match["number"])
    return f"{SIGNS[match['sign']]}{amount}{_per(match['tail'])}"


def _bare(match: re.Match[str]) -> str | None:
    sign, power, times, tail = match.group("unit", "power", "times", "tail")
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
        f" per {part['hundred'] or ''}"
        + powered(unit_name(part["unit"]), part["power"], one=not part["hundred"])
        for part in _TAIL_PART.finditer(tail)
    )


def _amount(match: re.Match[str]) -> tuple[str, bool] | None:
    """The number's words, and whether the unit stays singular."""
    if match.group("scaled"):
        return match.group("scaled"), False
    if match.group("number"):
        return number(match.group("number")), match.group("number") in ("1", "-1")
    upper, lower = int(match.group("upper")), int(match.group("lower"))
    if match["unit"] in ("mmHg", "mm Hg"):
        return f"{cardinal(upper)} over {cardinal(lower)}", False
    if not 0 < upper < lower:
        return None
    part = fraction(upper, lower)
    if match.group("whole"):
        return f"{cardinal(int(match.group('whole')))} and {mixed(part)}", False
    return part, True


def mixed(part: str) -> str:
    """ "one half" after a whole number is "a half"."""
    return f"a {part.removeprefix('one ')}" if part.startswith("one ") else part
