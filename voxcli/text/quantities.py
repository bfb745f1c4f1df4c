"""English: percentages, measures and durations: numbers with a unit.

Knows no exchange of units: what is written is said. Single letters that are more often something
else (A, B, C, F, K without a degree sign) are no units here.
"""

from __future__ import annotations

import re

from voxcli.text.changes import Draft
from voxcli.text.spell import cardinal, fraction, number, plural

# Bounded groups keep it linear; the look-ahead keeps "1,2345" whole.
NUM = r"(?:\d+(?:,\d{3}(?!\d)){0,6}(?:\.\d+)?|\.\d+)"
START = r"(?<![\w.])(?<!\d,)"
NO_FRACTION = r"(?<!\d/)"  # the lower number of one; numerals.py says it whole
SIGN = r"(?P<sign>(?<![\w)\]])[-+±−])?"
SIGNS = {"-": "minus ", "−": "minus ", "+": "plus ", "±": "plus or minus ", None: ""}

_UNITS = {
    "km": "kilometer", "m": "meter", "cm": "centimeter", "mm": "millimeter", "µm": "micrometer",
    "nm": "nanometer", "mi": "mile", "yd": "yard", "ft": "foot", "in": "inch", "kg": "kilogram",
    "g": "gram", "mg": "milligram", "µg": "microgram", "lb": "pound", "lbs": "pound",
    "oz": "ounce", "L": "liter", "l": "liter", "ml": "milliliter", "mL": "milliliter",
    "cl": "centiliter", "dl": "deciliter", "gal": "gallon", "qt": "quart", "pt": "pint",
    "tbsp": "tablespoon", "tsp": "teaspoon", "ha": "hectare", "s": "second", "sec": "second",
    "secs": "second", "ms": "millisecond", "µs": "microsecond", "ns": "nanosecond",
    "min": "minute", "mins": "minute", "h": "hour", "hr": "hour", "hrs": "hour", "yr": "year",
    "yrs": "year", "wk": "week", "wks": "week", "mph": "mile per hour",
    "kph": "kilometer per hour", "kmh": "kilometer per hour", "rpm": "revolution per minute",
    "fps": "frame per second", "bpm": "beat per minute", "Hz": "hertz", "kHz": "kilohertz",
    "MHz": "megahertz", "GHz": "gigahertz", "dB": "decibel", "W": "watt", "kW": "kilowatt",
    "MW": "megawatt", "GW": "gigawatt", "Wh": "watt hour", "kWh": "kilowatt hour",
    "MWh": "megawatt hour", "V": "volt", "mV": "millivolt", "kV": "kilovolt", "mA": "milliamp",
    "mAh": "milliamp hour", "Ω": "ohm", "J": "joule", "kJ": "kilojoule", "cal": "calorie",
    "kcal": "kilocalorie", "Pa": "pascal", "kPa": "kilopascal", "hPa": "hectopascal",
    "psi": "pound per square inch", "bit": "bit", "KB": "kilobyte", "kB": "kilobyte",
    "MB": "megabyte", "GB": "gigabyte", "TB": "terabyte", "PB": "petabyte", "KiB": "kibibyte",
    "MiB": "mebibyte", "GiB": "gibibyte", "TiB": "tebibyte", "kbps": "kilobit per second",
    "Mbps": "megabit per second", "Gbps": "gigabit per second", "kbit": "kilobit",
    "Mbit": "megabit", "Gbit": "gigabit", "px": "pixel", "MP": "megapixel", "dpi": "dot per inch",
    "°C": "degree Celsius", "°F": "degree Fahrenheit", "°": "degree", "sq ft": "square foot",
    "sq m": "square meter", "fl oz": "fluid ounce", "ppm": "part per million",
}  # fmt: skip
_PER = {
    "h": "hour", "hr": "hour", "hour": "hour", "s": "second", "sec": "second", "min": "minute",
    "d": "day", "day": "day", "wk": "week", "week": "week", "mo": "month", "month": "month",
    "yr": "year", "year": "year", "person": "person", "night": "night",
}  # fmt: skip
_SAME = ("hertz", "kilohertz", "megahertz", "gigahertz")
_UNIT = "|".join(re.escape(unit) for unit in sorted(_UNITS, key=len, reverse=True) if unit != "in")
PER_UNIT = "|".join(sorted({*_PER, *(u for u in _UNITS if u.isalpha())}, key=len, reverse=True))
_FRACTION = r"(?:(?P<whole>\d{1,6})[ -])?(?P<upper>\d{1,3})/(?P<lower>\d{1,3})"
_MEASURE = re.compile(
    rf"{START}{SIGN}(?:(?P<from>{NUM})\s?(?P<between>-|–|to|x|×|by)\s?)?(?:{_FRACTION}|(?P<number>{NUM}))[\s-]?"
    rf"(?P<unit>{_UNIT}|in(?=\.)|in(?=[23²³])|in(?= (?:wide|long|tall|high|deep|thick)\b))"
    rf"(?P<power>[²³]|\^[23]|(?<=m)[23](?!\d))?(?:/(?P<per>{PER_UNIT})\b)?(?![\w/²³°])"
    r"(?P<dot>\.(?=\s+[a-z0-9]|[,;:)]))?"
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
    draft.sub(_MEASURE, _measure, "unit")
    draft.sub(_INCHES, lambda m: _counted(m["after_feet"], "inch"), "unit")


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
    unit = _UNITS[match.group("unit")]
    if match.group("power"):
        unit = f"{'cubic' if match.group('power')[-1] in '3³' else 'square'} {unit}"
    if not one:
        unit = _many(unit)
    per = match.group("per")
    tail = f" per {unit_name(per)}" if per else ""
    return f"{SIGNS[match.group('sign')]}{words} {unit}{tail}"


def _amount(match: re.Match[str]) -> tuple[str, bool] | None:
    """The number's words, and whether the unit stays singular."""
    if match.group("number"):
        return number(match.group("number")), match.group("number") in ("1", "-1")
    upper, lower = int(match.group("upper")), int(match.group("lower"))
    if not 0 < upper < lower:
        return None
    part = fraction(upper, lower)
    if match.group("whole"):
        return f"{cardinal(int(match.group('whole')))} and {mixed(part)}", False
    return part, True


def unit_name(short: str) -> str:
    """ "h" is "hour", as after a slash."""
    return _PER.get(short) or _UNITS[short]


def mixed(part: str) -> str:
    """ "one half" after a whole number is "a half"."""
    return f"a {part.removeprefix('one ')}" if part.startswith("one ") else part


def _many(unit: str) -> str:
    if unit in _SAME:
        return unit
    head, per, tail = unit.partition(" per ")
    first, _, rest = head.partition(" ")
    if first == "degree":
        return f"degrees {rest}".strip()
    head = f"{head[:-4]}feet" if head.endswith("foot") else plural(head)
    return f"{head}{per}{tail}"
