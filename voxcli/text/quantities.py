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
_TIMES = {
    "h": "hour", "hr": "hour", "hour": "hour", "s": "second", "sec": "second", "min": "minute",
    "d": "day", "day": "day", "wk": "week", "week": "week", "mo": "month", "month": "month",
    "yr": "year", "year": "year", "person": "person", "night": "night",
}  # fmt: skip
_LENGTHS = ("meter", "inch", "foot", "yard", "mile")  # their powers are areas and volumes
_SAME = ("hertz", "kilohertz", "megahertz", "gigahertz")
_UNIT = "|".join(re.escape(unit) for unit in sorted(_UNITS, key=len, reverse=True) if unit != "in")
PER_UNIT = "|".join(sorted({*_TIMES, *(u for u in _UNITS if u.isalpha())}, key=len, reverse=True))
_LENGTH = "|".join(u for u, name in _UNITS.items() if name.endswith(_LENGTHS) and u.isalpha())
_RAISED = r"(?:[²³]|\^[23])"
_PER = rf"\s?/\s?(?:100\s)?(?:{PER_UNIT})(?:{_RAISED}|(?<=[ms])[23](?!\d))?(?!\w)"
_INVERSE = rf"(?:{PER_UNIT})\^-[123](?!\d)"
_TAIL = rf"(?:{_PER}|[ ·⋅*]?{_INVERSE}){{0,2}}"
_TAIL_PART = re.compile(
    rf"(?P<hundred>100\s)?(?P<unit>{PER_UNIT})(?:\^-?)?(?P<power>[²³123])?(?!\w)"
)
_FRACTION = r"(?:(?P<whole>\d{1,6})[ -])?(?P<upper>\d{1,3})/(?P<lower>\d{1,3})"
_MEASURE = re.compile(
    rf"{START}{SIGN}(?:(?P<from>{NUM})\s?(?P<between>-|–|to|x|×|by)\s?)?(?:{_FRACTION}|(?P<number>{NUM}))[\s-]?"
    rf"(?P<unit>{_UNIT}|in(?=\.)|in(?=[23²³])|in(?= (?:wide|long|tall|high|deep|thick)\b))"
    rf"(?P<power>{_RAISED}|(?<=m)[23](?!\d))?(?P<tail>{_TAIL})(?![\w/°]|\^\d)"
    r"(?P<dot>\.(?=\s+[a-z0-9]|[,;:)]))?"
)
_FREQUENCY = re.compile(rf"{START}{SIGN}(?P<number>{NUM})\s?(?P<tail>{_INVERSE})(?!\w)")
# Without a number: "in km²", "kg/m³", "km/h", but not "m² + n²" or "his/her".
_AREA = rf"(?P<area>{_LENGTH})(?P<power>{_RAISED})(?P<area_tail>{_TAIL})"
_RATE = (
    rf"(?:(?P<unit>m|(?!in\b)(?:{PER_UNIT})(?<=\w\w))(?P<tail>/(?:{'|'.join(_TIMES)}|kg|g|l|L|ml|dl|km))"
    rf"|(?P<dense>{PER_UNIT})(?P<dense_tail>/(?:{PER_UNIT}){_RAISED}(?:/(?:{'|'.join(_TIMES)}))?))(?!\w)"
)
_BARE = re.compile(
    rf"(?<![\w.^/$€£])(?<![=+*×−-] )(?<![=+*×−-])(?P<one>\b(?:per|an?|one|each|every) )?"
    rf"(?:{_AREA}|{_RATE})(?![\w/^°]|\s?[=+*×−]|\s-\s)"
)
_PER_AREA = re.compile(rf"(?<=[\w.)])\s?/\s?(?P<tail>(?:{_LENGTH}){_RAISED})(?!\w)")
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
    draft.sub(_FREQUENCY, _frequency, "unit")
    draft.sub(_MEASURE, _measure, "unit")
    draft.sub(_INCHES, lambda m: _counted(m["after_feet"], "inch"), "unit")


def bare_units(draft: Draft) -> None:
    """Say units that stand by themselves: "the area in km²", "kg/m³"."""
    draft.sub(_BARE, _bare, "unit")
    draft.sub(_PER_AREA, lambda m: _per(m["tail"]), "unit")


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
    unit = _powered(_UNITS[match.group("unit")], match.group("power"), one=one)
    return f"{SIGNS[match.group('sign')]}{words} {unit}{_per(match.group('tail'))}"


def _frequency(match: re.Match[str]) -> str:
    """ "60 min^-1"."""
    return f"{SIGNS[match['sign']]}{number(match['number'])}{_per(match['tail'])}"


def _bare(match: re.Match[str]) -> str:
    short = match["area"] or match["unit"] or match["dense"]
    unit = _powered(unit_name(short), match["power"], one=bool(match["one"]))
    tail = match["area_tail"] or match["tail"] or match["dense_tail"] or ""
    return f"{match['one'] or ''}{unit}{_per(tail)}"


def _powered(unit: str, power: str | None, *, one: bool) -> str:
    """ "square meters", but "seconds squared"."""
    counted = unit if one else _many(unit)
    if not power or power[-1] == "1":
        return counted
    is_square = power[-1] in "2²"
    if unit.endswith(_LENGTHS):
        return f"{'square' if is_square else 'cubic'} {counted}"
    return f"{counted} {'squared' if is_square else 'cubed'}"


def _per(tail: str) -> str:
    """ "/m²/yr" is " per square meter per year"."""
    return "".join(
        f" per {part['hundred'] or ''}"
        + _powered(unit_name(part["unit"]), part["power"], one=not part["hundred"])
        for part in _TAIL_PART.finditer(tail)
    )


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
    return _TIMES.get(short) or _UNITS[short]


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
