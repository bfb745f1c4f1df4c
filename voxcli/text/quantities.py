"""English: money, percentages, and numbers with a unit.

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
SIGN = r"(?P<sign>(?<![\w)\]])[-+±−])?"
_SIGNS = {"-": "minus ", "−": "minus ", "+": "plus ", "±": "plus or minus ", None: ""}

_CURRENCIES = {
    "$": ("dollar", "cent"), "€": ("euro", "cent"), "£": ("pound", "penny"), "¥": ("yen", ""),
    "₹": ("rupee", "paisa"), "₩": ("won", ""), "₽": ("ruble", "kopeck"), "₿": ("bitcoin", ""),
    "₺": ("lira", ""), "₴": ("hryvnia", ""), "₪": ("shekel", ""), "USD": ("U S dollar", "cent"),
    "EUR": ("euro", "cent"), "GBP": ("pound", "penny"), "JPY": ("yen", ""), "CNY": ("yuan", ""),
    "CHF": ("Swiss franc", ""), "CAD": ("Canadian dollar", "cent"), "INR": ("rupee", "paisa"),
    "AUD": ("Australian dollar", "cent"), "¢": ("cent", ""),
}  # fmt: skip
_PREFIXES = {
    "US": "U S ", "CA": "Canadian ", "C": "Canadian ", "AU": "Australian ", "A": "Australian ",
    "NZ": "New Zealand ", "HK": "Hong Kong ",
}  # fmt: skip
_PLURALS = {
    "penny": "pence",
    "yen": "yen",
    "won": "won",
    "yuan": "yuan",
    "paisa": "paise",
    "lira": "lira",
}
_SCALES = {
    "k": "thousand", "m": "million", "mn": "million", "b": "billion", "bn": "billion",
    "t": "trillion", "tn": "trillion",
}  # fmt: skip
_SCALE = (
    r"(?:[\s-]?(?P<scale>million|billion|trillion|thousand|hundred)\b"
    r"|\s?(?P<short>[kKmMbBT]|mn|bn|tn)\b)?"
)
_MONEY = re.compile(
    rf"{SIGN}(?:\b(?P<prefix>US|CA|C|AU|A|NZ|HK))?(?P<currency>[$€£¥₹₩₽₿₺₴₪])"
    rf"\s?(?P<minus>[-−])?(?P<number>{NUM})"
    rf"(?:\s?(?:-|–|to)\s?(?P=currency)?(?P<to>{NUM}))?{_SCALE}"
    r"(?P<noun>[ -](?:bill|note|coin|store|fee|tax|fine|bonus|coupon|voucher|discount|prize)\b)?"
)
_MONEY_AFTER = re.compile(
    rf"{START}{SIGN}(?P<number>{NUM})(?:[-–](?P<to>{NUM}))?{_SCALE}\s?"
    r"(?P<currency>[$€£¥₹₩₽₿¢]|(?:USD|EUR|GBP|JPY|CNY|CHF|CAD|AUD|INR)\b)(?!\d)"
)
_MONEY_CODE = re.compile(
    rf"\b(?P<currency>USD|EUR|GBP|JPY|CNY|CHF|CAD|AUD|INR)\s?{SIGN}(?P<number>{NUM})(?:[-–](?P<to>{NUM}))?{_SCALE}"
)
_COMMA_CENTS = re.compile(
    r"(?<![\d.,])(?P<whole>\d{1,3}(?:\.\d{3}){0,4}),(?P<cents>\d\d)(?=\s?(?:€|EUR\b))"
)

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
_PER_UNIT = "|".join(sorted({*_PER, *(u for u in _UNITS if u.isalpha())}, key=len, reverse=True))
_FRACTION = r"(?:(?P<whole>\d{1,6})[ -])?(?P<upper>\d{1,3})/(?P<lower>\d{1,3})"
_MEASURE = re.compile(
    rf"{START}{SIGN}(?:(?P<from>{NUM})\s?(?P<between>-|–|to|x|×|by)\s?)?(?:{_FRACTION}|(?P<number>{NUM}))[\s-]?"
    rf"(?P<unit>{_UNIT}|in(?=\.)|in(?=[23²³])|in(?= (?:wide|long|tall|high|deep|thick)\b))"
    rf"(?P<power>[²³]|\^[23]|(?<=m)[23](?!\d))?(?:/(?P<per>{_PER_UNIT})\b)?(?![\w/²³°])"
    r"(?P<dot>\.(?=\s+[a-z0-9]|[,;:)]))?"
)
_PER_WORD = re.compile(rf"(?<=[a-z])\s?/\s?(?P<per>{_PER_UNIT})\b")
_DEGREES = re.compile(r"\s?(?:°\s?|º\s?)(?P<scale>[CF])(?!\w)|\s?(?P<sign>[℃℉])")
_FEET_INCHES = re.compile(r"(?<![\w.])(?P<feet>\d{1,2})['′] ?(?P<inches>1[01]|\d)(?:\"|″|'')(?!\w)")
_PERCENT = re.compile(
    rf"{START}{SIGN}(?:(?P<from>{NUM})\s?%?\s?(?:-|–|to)\s?)?(?P<number>{NUM})\s?(?P<unit>%|‰|percent\b)"
)


def money(draft: Draft) -> None:
    """Say amounts of money."""
    draft.sub(
        _COMMA_CENTS, lambda m: f"{m.group('whole').replace('.', '')}.{m.group('cents')}", "money"
    )
    for pattern in (_MONEY, _MONEY_CODE, _MONEY_AFTER):
        draft.sub(pattern, _money, "money")
    draft.sub(_PER_WORD, _per_word, "unit")


def units(draft: Draft) -> None:
    """Say percentages and measures."""
    draft.sub(
        _DEGREES,
        lambda m: f"°{m.group('scale') or ('C' if m.group('sign') == '℃' else 'F')}",
        "unit",
    )
    draft.sub(_FEET_INCHES, _feet, "unit")
    draft.sub(_PERCENT, _percent, "unit")
    draft.text = draft.text.replace("μ", "µ")  # the Greek letter and the micro sign
    draft.sub(_MEASURE, _measure, "unit")


def _group(match: re.Match[str], name: str) -> str | None:
    return match.groupdict().get(name)


def _money(match: re.Match[str]) -> str:
    name, cent = _CURRENCIES[match.group("currency")]
    name = _PREFIXES.get(_group(match, "prefix") or "", "") + name
    sign = _SIGNS[match.group("sign")] or ("minus " if _group(match, "minus") else "")
    amount, to = match.group("number"), match.group("to")
    scale = match.group("scale") or _SCALES.get((match.group("short") or "").lower(), "")
    if scale or to or not cent or len(amount.partition(".")[2]) != 2:
        first = f"{number(amount)} to {number(to)}" if to else number(amount)
        one = amount == "1" and not scale and not to
        noun = _group(match, "noun")
        counted = name if one or noun else _PLURALS.get(name) or plural(name)
        return (
            sign + " ".join(filter(None, (first, scale, counted))) + (noun or "").replace("-", " ")
        )
    return sign + _dollars_and_cents(amount, name, cent) + (_group(match, "noun") or "")


def _dollars_and_cents(amount: str, name: str, cent: str) -> str:
    whole, _, rest = amount.replace(",", "").partition(".")
    cents = int(rest)
    parts = []
    if whole.strip("0") or not cents:
        one = whole.lstrip("0") == "1"
        parts.append(
            f"{number(whole or '0')} {name if one else _PLURALS.get(name) or plural(name)}"
        )
    if cents:
        parts.append(
            f"{cardinal(cents)} {cent if cents == 1 else _PLURALS.get(cent) or plural(cent)}"
        )
    return " and ".join(parts)


def _per_word(match: re.Match[str]) -> str | None:
    before = match.string[max(0, match.start() - 12) : match.start()]
    if not re.search(
        r"(?:dollars?|euros?|pounds?|cents?|pence|yen|rupees?|million|thousand)$", before
    ):
        return None
    per = match.group("per")
    return f" per {_PER.get(per) or _UNITS[per]}"


def _percent(match: re.Match[str]) -> str:
    lead = f"{number(match.group('from'))} to " if match.group("from") else ""
    unit = "per mille" if match.group("unit") == "‰" else "percent"
    return f"{_SIGNS[match.group('sign')]}{lead}{number(match.group('number'))} {unit}"


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
    tail = f" per {_PER.get(per) or _UNITS[per]}" if per else ""
    return f"{_SIGNS[match.group('sign')]}{words} {unit}{tail}"


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
