"""English: times of day, what a clock counts, and their zones.

A colon is a ratio beside the words for one (`references.py`). Knows no calendar.
"""

from __future__ import annotations

import re

from voxcli.text.patterns import pattern_of
from voxcli.text.spell import cardinal, digits, plural
from voxcli.text.tagger import (
    CAPITAL,
    DIGIT,
    FIGURES,
    SMALL,
    STOPPED,
    InWord,
    OneOf,
    Recogniser,
    ends_sentence,
    led,
)

_HALF = r"(?:[AaPp](?:\.\s?[Mm]\b\.?|[Mm]\b|[Mm](?=[A-Z]{3}\b)))"
_ZONES = (
    "UTC|GMT|EST|EDT|CST|CDT|MST|MDT|PST|PDT|CET|CEST|EET|BST|IST|JST|KST|AEST|AEDT|AKST|HST|MSK"
)
_ZONE = (
    rf"(?P<zone>Z\b|(?:{_ZONES}|ET|PT)\b|(?:\+|(?<=\s)-|(?<=:\d\d:\d\d)-)(?:0\d|1[0-4]):?[0-5]\d\b"
    r"|(?<=[Mm][. ])(?i:[ECMP]\.?[SD]\.?T\b\.?)|(?<=[Mm]\. )(?i:[ECMP]\.?[SD]\.?T\b\.?))"
)
_TIME = pattern_of(
    r"(?:(?<![\w:.])|(?<=\dT))(?:(?P<from>(?:1[0-2]|0?[1-9])"
    r"(?::[0-5]\d)?)\s?[-–]\s?(?=[\d:]{1,5}\s?[AaPp]\.?\s?[Mm]\b))?"
    r"(?:(?P<hour>[01]?\d|2[0-4])(?::|\.(?=[0-5]\d\s?[ap]\.?m\b)"
    r")(?P<minute>[0-5]\d)(?::(?P<second>[0-5]\d))?(?:\.(?P<fraction>\d{1,6})(?!\.\d))?(?!\d|:\S)"
    rf"(?:\s?(?P<half>{_HALF}))?(?:\s?{_ZONE})?"
    rf"|(?P<only>1[0-2]|0?[1-9])\s?(?P<only_half>{_HALF})(?:\s?(?P<only_zone>(?:{_ZONES})\b))?)"
)
# With half of the day's half: "6-7p", "9a to 5p", "8:30a-5p"; "6p to 7p" are pence.
_SHORT_HALF = pattern_of(
    r"(?<![\w.,:/£-])(?P<from>(?:1[0-2]|[1-9])(?::[0-5]\d)?)(?:(?P<half>a)\s?(?:[-–]|to)|\s?[-–])\s?"
    r"(?P<to>(?:1[0-2]|[1-9])(?::[0-5]\d)?)p(?![\w/])"
    r"(?!\s(?:each|per|an?|coins?|off|more|less|extra|stamps?|bags?)\b)"
)
_PRICED = pattern_of(
    r"\b(?:[Pp]rice[sd]?|[Cc]ost(?:s|ing)?|[Pp]aid|[Pp]ay|[Ww]orth)(?: (?:at|of|is))?\s$"
)
_RATIO_BEFORE = pattern_of(
    r"\b(?:ratio|scale|odds|aspect|score[ds]?|won|lost|beat|mix(?:ed)?|proportions?|dilution|"
    r"diluted)"
    r"(?:\s(?:of|at|is|was|in|by|to|the|a|it|them))?\s",
    re.I,
)
_RATIO_AFTER = pattern_of(
    r"\s?-?(?:ratio|aspect|odds|mix|scale|screen|display|monitor|dilution|video|split|format)\b",
    re.I,
)
_BASIC = pattern_of(  # after the date of "20260304T103000Z"
    r"(?<=\d{8}T)(?P<hour>[01]\d|2[0-3])(?P<minute>[0-5]\d)(?P<second>[0-5]\d)?"
    r"(?:\.(?P<fraction>\d{1,6}))?(?P<zone>Z|[-+]\d\d(?:\d\d)?)?(?!\w)"
)
_MILITARY = pattern_of(
    r"(?<![\w.,])(?P<hour>[01]\d|2[0-3])(?P<minute>[0-5]\d)(?:(?P<h>h)\b|(?P<zulu>Z)\b)"
)
_HOURS = pattern_of(r"(?<![\w.,:])(?P<hour>[01]\d|2[0-4]):?(?P<minute>[0-5]\d)\s(?P<h>hrs|hours)\b")
_SHIFT = pattern_of(
    r"(?<!\w)(?P<zone>UTC|GMT)\s?(?P<sign>[-+−±])"
    r"\s?(?P<hours>\d{1,2})(?::?(?P<minutes>[0-5]\d))?(?!\w)"
)
_FROM_NOON = pattern_of(r"(?<!\w)(?P<word>(?i:noon|midnight))\s?[-–]\s?(?=\d)")
_HALF_ALONE = pattern_of(r"(?<![\w.])(?P<half>[AaPp]\.\s?[Mm]\.)")


def _time(match: re.Match[str]) -> str | None:
    lead = f"{_clock(*match['from'].partition(':')[::2])} to " if match["from"] else ""
    if match["only"]:
        zone = f" {_zone(match['only_zone'])}" if match["only_zone"] else ""
        return f"{lead}{cardinal(int(match['only']))} {_half(match, 'only_half')}{zone}"
    hour, minute, second, fraction = match.group("hour", "minute", "second", "fraction")
    half = _half(match, "half") if match["half"] else ""
    if not half and not second and _is_ratio(match):
        return None
    part = (fraction or "").rstrip("0") if second else ""
    if second and not 10 <= int(hour) <= 12 and not (half or match["zone"] or led(match, _AT)):
        return _lasting(hour, minute, second, part)
    if second:
        words = _precise(hour, minute, second, part, has_half=bool(half))
    else:
        words = _clock(hour, minute, has_half=bool(half))
    if fraction and not second:
        words += f" point {digits(fraction)}"
    zone = _zone(match["zone"] or "")
    stop = "." if (match["zone"] or "")[-1:] == "." and ends_sentence(match) else ""
    return lead + " ".join(filter(None, (words, half, zone))) + stop


_AT = pattern_of(
    r"(?:\b(?:[Aa]t|[Bb]y|[Uu]ntil|[Tt]ill|[Ff]rom|[Ss]ince|[Aa]round|[Bb]efore|"
    r"[Aa]fter)\s|\dT|\d\s)$"
)


def _seconds(second: str, part: str) -> str:
    """ "15" and "5" are "fifteen point five seconds"."""
    words = f"{cardinal(int(second))}{f' point {digits(part)}' if part else ''}"
    return f"{words} second{'' if int(second) == 1 and not part else 's'}"


def _lasting(hour: str, minute: str, second: str, part: str) -> str:
    """ "1:02:03" is what a clock counts: "one hour two minutes and three seconds"."""
    parts = [
        f"{cardinal(int(amount))} {unit if int(amount) == 1 else plural(unit)}"
        for amount, unit in ((hour, "hour"), (minute, "minute"))
        if int(amount)
    ]
    if int(second) or part:
        parts.append(_seconds(second, part))
    if not parts:
        return "zero seconds"
    return " and ".join(filter(None, (" ".join(parts[:-1]), parts[-1])))


def _is_ratio(match: re.Match[str]) -> bool:
    return led(match, _RATIO_BEFORE) or bool(_RATIO_AFTER.match(match.string, match.end()))


def _clock(hour: str, minute: str, has_half: bool = True) -> str:
    words = cardinal(int(hour))
    if not minute or (int(minute) == 0 and has_half):
        return words
    if int(minute) == 0:
        return words + (
            " o'clock" if 0 < int(hour) <= 12 else " hundred" if hour != "0" else " hours"
        )
    return f"{words} {'oh ' if int(minute) < 10 else ''}{cardinal(int(minute))}"


def _precise(hour: str, minute: str, second: str, part: str, *, has_half: bool) -> str:
    """ "10:30:15.5" is "ten thirty and fifteen point five seconds"."""
    is_exact = not (int(second) or part)
    words = _clock(hour, minute, has_half=has_half or (not is_exact and bool(hour.strip("0"))))
    return words if is_exact else f"{words} and {_seconds(second, part)}"


def _short_half(match: re.Match[str]) -> str | None:
    if led(match, _PRICED):
        return None
    first, last = (_clock(*match[name].partition(":")[::2]) for name in ("from", "to"))
    return f"{first}{' A M' if match['half'] else ''} to {last} P M"


def _basic(match: re.Match[str]) -> str:
    part = (match["fraction"] or "").rstrip("0")
    words = _precise(match["hour"], match["minute"], match["second"] or "0", part, has_half=False)
    zone = match["zone"] or ""
    return f"{words} {_zone(zone if len(zone) != 3 else zone + '00')}".rstrip()


def _military(match: re.Match[str]) -> str:
    hour, minute = int(match["hour"]), int(match["minute"])
    words = f"{'oh ' if hour < 10 else ''}{cardinal(hour)} "
    words += "hundred" if minute == 0 else f"{'oh ' if minute < 10 else ''}{cardinal(minute)}"
    return f"{words} {'hours' if match['h'] else 'Zulu'}"


def _shift(match: re.Match[str]) -> str:
    """ "UTC-5" is "U T C minus five"."""
    sign = "plus" if match["sign"] == "+" else "plus or minus" if match["sign"] == "±" else "minus"
    minutes = f" {cardinal(int(match['minutes']))}" if int(match["minutes"] or 0) else ""
    return f"{' '.join(match['zone'])} {sign} {cardinal(int(match['hours']))}{minutes}"


def _zone(name: str) -> str:
    """ "+05:30" is "U T C plus five thirty"."""
    if name[:1] not in ("+", "-"):
        letters = "UTC" if name == "Z" else name.replace(".", "").upper()
        return " ".join(letters)
    hours, minutes = int(name[1:3]), int(name[-2:])
    shift = " ".join(cardinal(n) for n in (hours, minutes) if n)
    sign = "plus" if name[0] == "+" else "minus"
    return f"U T C {sign} {shift}" if shift else "U T C"


def _half(match: re.Match[str], group: str) -> str:
    """The full stop stays where the abbreviation also ends the sentence."""
    text = match[group]
    dot = (
        "."
        if text.endswith(".") and match.end(group) == match.end() and ends_sentence(match)
        else ""
    )
    return f"{text[0].upper()} M{dot}"


TIMES = (
    Recogniser("time", DIGIT, _BASIC, _basic, CAPITAL + FIGURES),
    Recogniser("time", DIGIT, _HOURS, _military, search=OneOf(" hrs", " hours")),
    Recogniser("time", DIGIT, _SHORT_HALF, _short_half, search=InWord(r"\dp\b", DIGIT)),
    Recogniser("time", DIGIT, _TIME, _time, search=pattern_of(r"\d(?::\d|\s?[AaPp]\.?\s?[Mm])")),
    Recogniser("time", CAPITAL, _SHIFT, _shift, DIGIT, InWord(OneOf("UTC", "GMT"), CAPITAL)),
    Recogniser(
        "time",
        CAPITAL + SMALL,
        _FROM_NOON,
        lambda m: f"{m['word']} to ",
        DIGIT,
        OneOf("noon", "midnight", ignores_case=True),
    ),
    Recogniser("time", DIGIT, _MILITARY, _military, FIGURES),
    Recogniser(
        "time",
        STOPPED,
        _HALF_ALONE,
        lambda m: _half(m, "half"),
        ".",
        InWord(r"[mM]\.", "."),
    ),
)
