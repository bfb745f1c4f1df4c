"""English: what units are called, by their signs: a base with its prefixes, or a name of its own.

Signs that are more often something else (A, C, F, K, M, T) are units only beside other units. Knows
no number.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from voxcli.text.spell import plural

Bases = tuple[tuple[str, str, str], ...]


def with_prefixes(bases: Bases, prefixes: dict[str, str]) -> dict[str, str]:
    """Names by sign: `bases` are signs, names and the prefixes of each, " " being none."""
    return {
        f"{prefix.strip()}{sign}": f"{prefixes[prefix]}{name}"
        for sign, name, taken in bases
        for prefix in taken
    }


_PREFIXES = {
    " ": "", "T": "tera", "G": "giga", "M": "mega", "k": "kilo", "h": "hecto", "d": "deci",
    "c": "centi", "m": "milli", "µ": "micro", "n": "nano", "p": "pico", "P": "peta",
}  # fmt: skip
# Sign, name and the prefixes it is met with; the space stands for none.
_BASES = (
    ("m", "meter", " kdcmµn"), ("g", "gram", " kmµn"), ("L", "liter", " hdcmµn"),
    ("l", "liter", " hdcmµ"), ("s", "second", " mµn"), ("Hz", "hertz", " kMGT"),
    ("W", "watt", " mkMGT"), ("Wh", "watt hour", " kMGT"), ("V", "volt", " mkµ"),
    ("A", "amp", "mkµn"), ("Ah", "amp hour", "m"), ("VA", "volt ampere", "k"),
    ("Ω", "ohm", " mkMG"), ("F", "farad", "mµnp"), ("H", "henry", "mµn"), ("T", "tesla", "mµn"),
    ("J", "joule", " mkMG"), ("cal", "calorie", " k"), ("eV", "electron volt", " mkMGT"),
    ("N", "newton", "mk"), ("Nm", "newton meter", " mk"), ("Pa", "pascal", " mhkMG"),
    ("bar", "bar", "m"), ("mol", "mole", " kmµn"), ("M", "molar", "mµn"),
    ("Sv", "sievert", " mµ"), ("Gy", "gray", " m"), ("Bq", "becquerel", " kMG"),
    ("lm", "lumen", " "), ("lx", "lux", " k"), ("bit", "bit", " kMG"), ("B", "byte", "kMGTP"),
)  # fmt: skip
_OWN = {
    "mi": "mile", "yd": "yard", "ft": "foot", "in": "inch", "lb": "pound", "lbs": "pound",
    "oz": "ounce", "gal": "gallon", "qt": "quart", "pt": "pint", "tbsp": "tablespoon",
    "tsp": "teaspoon", "ha": "hectare", "sec": "second", "secs": "second", "min": "minute",
    "mins": "minute", "h": "hour", "hr": "hour", "hrs": "hour", "yr": "year", "yrs": "year",
    "wk": "week", "wks": "week", "mph": "mile per hour", "kph": "kilometer per hour",
    "kmh": "kilometer per hour", "rpm": "revolution per minute", "fps": "frame per second",
    "bpm": "beat per minute", "dB": "decibel", "psi": "pound per square inch",
    "yds": "yard", "Tbsp": "tablespoon", "TBSP": "tablespoon", "Tsp": "teaspoon", "bbl": "barrel",
    "inHg": "inch of mercury", "lb-ft": "pound foot", "ft-lb": "foot pound",
    "ft-lbs": "foot pound", "lbf": "pound force",
    "mmHg": "millimeter of mercury", "mm Hg": "millimeter of mercury", "KB": "kilobyte",
    "KiB": "kibibyte", "MiB": "mebibyte", "GiB": "gibibyte", "TiB": "tebibyte",
    "kbps": "kilobit per second", "Mbps": "megabit per second", "Gbps": "gigabit per second",
    "px": "pixel", "MP": "megapixel", "dpi": "dot per inch", "°C": "degree Celsius",
    "°F": "degree Fahrenheit", "°": "degree", "Å": "angstrom", "sq ft": "square foot",
    "sq m": "square meter", "fl oz": "fluid ounce", "ppm": "part per million",
    "ppb": "part per billion", "mcg": "microgram", "uF": "microfarad", "uL": "microliter",
    "KG": "kilogram", "Kg": "kilogram", "Km": "kilometer", "KM": "kilometer",
    "KPH": "kilometer per hour", "MPH": "mile per hour", "mbps": "megabit per second",
    "gbps": "gigabit per second", "Kbps": "kilobit per second", "gb": "gigabyte", "mb": "megabyte",
    "cc": "C C", "mpg": "mile per gallon", "hp": "horsepower", "mo": "month", "mos": "month",
    "BPM": "beat per minute",
    "sq. ft": "square foot", "sq in": "square inch", "sq. in": "square inch",
    "sq. m": "square meter", "sq mi": "square mile", "sq. mi": "square mile",
    "sq km": "square kilometer", "fl. oz": "fluid ounce", "cu ft": "cubic foot",
    "cu. ft": "cubic foot", "kn": "knot", "kts": "knot",
    "kΩ": "kilohm", "MΩ": "megohm", "IU": "international "
    "unit", "mEq": "milliequivalent",
}  # fmt: skip
UNITS = with_prefixes(_BASES, _PREFIXES) | _OWN
# Units only where another one follows: "N·m", "t/ha", "CFU/mL".
LED = {
    "N": "newton", "K": "kelvin", "U": "unit", "t": "metric ton", "pg": "picogram",
    "cd": "candela", "rad": "radian", "CFU": "colony-forming unit",
}  # fmt: skip
# What stands for a time after a slash: there "h" is one hour.
TIMES = {
    "h": "hour", "hr": "hour", "hour": "hour", "s": "second", "sec": "second", "min": "minute",
    "d": "day", "day": "day", "wk": "week", "week": "week", "mo": "month", "month": "month",
    "yr": "year", "year": "year", "person": "person", "night": "night",
    "serving": "serving", "dose": "dose", "user": "user",
}  # fmt: skip
_DIVISORS = {"a": "year", "K": "kelvin", "sr": "steradian"}  # units only after a slash or a dot

LENGTHS = ("meter", "inch", "foot", "yard", "mile")  # their powers are areas and volumes
_SAME = ("hertz", "molar", "lux", "C C", "horsepower")  # their own plurals


def alternatives(signs: Iterable[str]) -> str:
    """A pattern of any of these signs, the longest first."""
    return "|".join(re.escape(sign) for sign in sorted(signs, key=lambda s: (-len(s), s)))


UNIT = alternatives(set(UNITS) - {"in"})
PER_UNIT = alternatives({*TIMES, *filter(str.isalpha, UNITS)})
DIVISOR = alternatives({*TIMES, *_DIVISORS, *filter(str.isalpha, UNITS), "°C", "°F"})
LENGTH = alternatives({u for u, name in UNITS.items() if name.endswith(LENGTHS) and u.isalpha()})


def unit_name(sign: str) -> str:
    """ "h" is "hour", as after a slash."""
    return TIMES.get(sign) or UNITS.get(sign) or _DIVISORS.get(sign) or LED[sign]


def many(unit: str) -> str:
    """ "degrees Celsius", "feet", "miles per hour", "hertz"."""
    if unit.endswith(_SAME):
        return unit
    head, link, tail = re.fullmatch(r"(.*?)( per | of |$)(.*)", unit).groups()  # type: ignore[union-attr]
    first, _, rest = head.partition(" ")
    if first == "degree":
        return f"degrees {rest}".strip()
    return (
        f"{head[:-4]}feet{link}{tail}" if head.endswith("foot") else f"{plural(head)}{link}{tail}"
    )


def powered(unit: str, power: str | None, *, one: bool) -> str:
    """ "square meters", but "seconds squared"."""
    counted = unit if one else many(unit)
    if not power or power[-1] == "1":
        return counted
    is_square = power[-1] in "2²"
    if unit.endswith(LENGTHS):
        return f"{'square' if is_square else 'cubic'} {counted}"
    return f"{counted} {'squared' if is_square else 'cubed'}"
