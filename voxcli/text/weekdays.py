"""English: weekdays and months cut short, written out where the text around them shows a date.

"Sat Nov 28", "Thu, 26-Nov-2026", "in Feb", "Tue and Thu". "Sat", "Sun", "Wed", "Mar" and "Jan" are
words and names as well, so none is touched without a date, a time, a preposition or another such
word beside it. Runs before the dates, which then see whole names.
"""

from __future__ import annotations

import re

from voxcli.text.changes import Draft
from voxcli.text.patterns import pattern_of

DAYS = {
    "Mon": "Monday", "Tue": "Tuesday", "Tues": "Tuesday", "Wed": "Wednesday", "Weds": "Wednesday",
    "Thu": "Thursday", "Thur": "Thursday", "Thurs": "Thursday", "Fri": "Friday", "Sat": "Saturday",
    "Sun": "Sunday",
}  # fmt: skip
MONTHS = {
    "Jan": "January", "Feb": "February", "Mar": "March", "Apr": "April", "May": "May",
    "Jun": "June", "Jul": "July", "Aug": "August", "Sept": "September", "Sep": "September",
    "Oct": "October", "Nov": "November", "Dec": "December",
}  # fmt: skip
_NAMES = DAYS | MONTHS
_INITIALS = sorted({name[0] for name in _NAMES})
_ANY = pattern_of(  # "Mon", "Tue", ...: a set of first letters is found at a glance
    f"[{''.join(_INITIALS)}](?:"
    + "|".join(
        f"(?<={first})(?:{'|'.join(sorted({name[1:3] for name in _NAMES if name[0] == first}))})"
        for first in _INITIALS
    )
    + ")"
)
_DAY, _MONTH = "|".join(DAYS), "|".join(MONTHS)
_ANY_DAY = rf"(?:{_DAY}|{'|'.join(dict.fromkeys(DAYS.values()))})\b"
_ANY_MONTH = rf"(?:{_MONTH}|{'|'.join(MONTHS.values())})\b"
_CLOCK = r"(?:(?:1[0-2]|0?[1-9])\s?[ap]\.?m\b|[0-2]?\d[:.][0-5]\d)"
_NUMBER = r"\d{1,2}(?:st|nd|rd|th)?"
# What may follow a weekday for it to be one.
_WHEN = (
    rf"(?:{_ANY_MONTH}\.?[\s-]\d|(?:the\s)?{_NUMBER}[\s/-](?:of\s)?{_ANY_MONTH}"
    r"|(?:the\s)?\d{1,2}(?:st|nd|rd|th)\b|\d{1,4}[-/.]\d{1,2}(?:[-/.]\d{1,4})?\b"
    rf"|\d{{1,2}}\s?[-–]\s?\d|(?:at\s)?{_CLOCK}|(?:morning|afternoon|evening|night|closed)\b)"
)
_DATED = pattern_of(rf"(?<![\w.])(?P<name>{_DAY})(?P<dot>\.?)(?=,?\s{_WHEN})")
_LED = pattern_of(
    r"(?P<lead>\b(?:[Oo]n|[Uu]ntil|[Tt]ill|[Bb]y|[Ee]very|[Nn]ext|[Ll]ast|[Tt]his|[Ss]ince|"
    r"[Dd]ue)\s)"
    rf"(?P<name>{_DAY})(?P<dot>\.?)(?![\w'’-]|\s[A-Z])"
)
_SPANS = pattern_of(
    rf"(?<![\w.]){_ANY_DAY}(?:(?:\.?\s?[/&+–-]\s?|\.?,?\s(?:and|or|to|through|thru)\s|"
    rf"\.?,\s){_ANY_DAY}){{1,6}}(?!['’])(?:\.(?=,?\s{_WHEN}))?"
    rf"|(?<![\w.]){_ANY_MONTH}(?:\.?\s?[/&+–-]\s?|\.?\s(?:and|or|to|through|"
    rf"thru)\s){_ANY_MONTH}(?!['’])"
)
_MONTH_LED = pattern_of(
    r"(?P<lead>\b(?:[Ii]n|[Ss]ince|[Uu]ntil|[Tt]ill|[Ll]ate|[Ee]arly|[Mm]id|[Ll]ast|[Nn]ext|"
    r"[Tt]his|[Oo]f)[\s-])"
    rf"(?P<name>{_MONTH})(?P<dot>\.?)(?![\w'’])(?!\s[A-Z])"
)
_MONTH_NUMBERED = pattern_of(
    rf"(?<![\w.])(?P<name>{_MONTH})(?P<dot>\.?)(?=[\s-](?:\d{{1,2}}\b|\d{{4}}\b|['’]\d\d\b))"
    rf"|(?<=\d[\s/-])(?P<after>{_MONTH})\b(?=[\s/-]\d{{4}}\b)"
)
_ABBREVIATED = pattern_of(rf"\b(?P<name>{_DAY}|{_MONTH})\b\.?")
_SPANNED = pattern_of(r"\w[-–]\w")
_LINKS = pattern_of(r"\s?[/&+–-]\s?")


def weekdays(draft: Draft) -> None:
    """Write out what is cut short."""
    if not _ANY.search(draft.text):
        return
    draft.sub(_SPANS, _span, "date")
    draft.sub(_DATED, lambda m: _NAMES[m.group("name")], "date")
    draft.sub(_LED, _led, "date")
    draft.sub(_MONTH_LED, _led, "date")
    draft.sub(_MONTH_NUMBERED, lambda m: _NAMES[m.group("name") or m.group("after")], "date")


def _span(match: re.Match[str]) -> str | None:
    """ "Mon-Fri" is a span, "Sat/Sun" are two; whole names alone are left as they are."""
    if not _ABBREVIATED.search(match.group()) and not _SPANNED.search(match.group()):
        return None
    whole = _ABBREVIATED.sub(lambda m: _NAMES[m.group("name")], match.group())
    return _LINKS.sub(lambda m: " to " if m.group().strip() in "-–" else " and ", whole)


def _led(match: re.Match[str]) -> str:
    ends = re.compile(r"[\"')\]]{0,3}(?:\Z|\n|\s+[\"'(]?[A-Z])").match(match.string, match.end())
    dot = match.group("dot") if ends else ""
    return f"{match.group('lead')}{_NAMES[match.group('name')]}{dot}"
