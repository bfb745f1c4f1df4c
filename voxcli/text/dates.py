"""English: dates, clock times, years, decades and telephone numbers.

Numeric dates are read month first (03/04/2026 is March fourth) unless that is no date; dates with
the year first and dates with dots are unambiguous by custom. Knows no calendar beyond the ordinary
one; names cut short are written out before (`weekdays.py`).
"""

from __future__ import annotations

import re

from voxcli.text.changes import Draft
from voxcli.text.spell import cardinal, digits, number, ordinal, plural, year

_MONTHS_LIST = (
    "January February March April May June July August September October November December"
)
_MONTHS = _MONTHS_LIST.split()
_SHORT = {name[:3]: name for name in _MONTHS} | {"Sept": "September"}
_MONTH = rf"(?P<month>{'|'.join(_MONTHS)}|(?:Jan|Feb|Mar|Apr|Jun|Jul|Aug|Sept?|Oct|Nov|Dec)\b\.?)"
_DAY = r"(?P<day>0?[1-9]|[12]\d|3[01])(?:st|nd|rd|th)?"
_YEAR = r"(?P<year>1\d{3}|20\d{2})(?![\d%]|,\d|\.\d)"
# What may follow "March 4" without a year: anything but a noun it could count ("March 30 people").
_AFTER_DAY = (
    r"(?!\d|[:/%]|[.,]\d|-\d|st\b|nd\b|rd\b|th\b)(?=\s*(?:[^\w\s]|$|[A-Z]|\d{1,2}:\d\d|(?:at|and|to|in|on|from|"
    r"until|till|or|through|is|was|were|for|by|with|the|a|we|i|he|she|they|it|this|that|when|before|"
    r"after|between|as|will|has|had|of|but|because|if|so|there|my|our|his|her)\b))"
)

_ISO = re.compile(
    r"(?<![\w./-])(?P<year>\d{4})(?P<sep>[-/.])(?P<month>0?[1-9]|1[0-2])(?P=sep)"
    r"(?P<day>0[1-9]|[12]\d|3[01]|[1-9])(?:T(?=\d\d:)|(?![\w./-]*\d))"
)
_NUMERIC = re.compile(
    r"(?<![\w/.-])(?P<a>\d{1,2})(?P<sep>[/.-])(?P<b>\d{1,2})(?P=sep)(?P<year>\d{4}|\d{2})(?![\w/-]|\.\d)"
)
_MONTH_DAY_YEAR = re.compile(rf"\b{_MONTH}\s{_DAY},?\s(?P<year>\d{{4}})(?!\d)")
_DAY_MONTH = re.compile(
    rf"(?<![\w.,/$£€-])(?P<the>[Tt]he )?{_DAY}"
    r"(?:\s?[-–]\s?(?P<to>0?[1-9]|[12]\d|3[01])(?:st|nd|rd|th)?)?"
    rf"(?:\s?(?P<of>of\s)|[\s/-]|\.\s(?=\w{{3,9}}\.?\s\d{{4}})){_MONTH}(?!\w)(?:,?[\s/-]{_YEAR})?"
)
_MONTH_DAYS = re.compile(
    rf"\b{_MONTH}\s{_DAY}\s?[-–]\s?(?P<to>0?[1-9]|[12]\d|3[01])\b(?!-)(?:,\s{_YEAR})?"
)
_MONTH_DAY = re.compile(rf"\b{_MONTH}\s{_DAY}{_AFTER_DAY}")
_MONTH_YEAR = re.compile(rf"\b{_MONTH}(?:,?\s|-){_YEAR}")
_DAY_NUMERIC = re.compile(
    r"(?P<lead>\b(?:\w{3,6}day,?|[Oo]n|[Dd]ated?:?|[Dd]ue(?: on)?:?|[Uu]ntil|[Dd]eadline:?)\s)"
    r"(?P<a>0?[1-9]|1[0-2])/(?P<b>0?[1-9]|[12]\d|3[01])(?![\w/%]|[.,]\d)(?!\s(?:of|inch|cup|mile)\b)"
)

_TIME = re.compile(
    r"(?<![\w:.])(?P<hour>[01]?\d|2[0-4])(?::|\.(?=[0-5]\d\s?[ap]\.?m\b))(?P<minute>[0-5]\d)(?::(?P<second>[0-5]\d)(?:\.\d{1,6})?)?(?![\d:])"
    r"(?:\s?(?P<half>[AaPp](?:\.\s?[Mm]\b\.?|[Mm]\b)))?(?:\s?(?P<zone>Z\b|UTC\b|GMT\b|[+-](?:0\d|1[0-4]):?[0-5]\d\b))?"
    r"|(?<![\w:.,])(?P<only>1[0-2]|0?[1-9])\s?(?P<only_half>[AaPp](?:\.\s?[Mm]\b\.?|[Mm]\b))"
)
_TIME_RANGE = re.compile(r"(?<=\d|m)\s?[-–]\s?(?=\d{1,2}(?::[0-5]\d|\s?[ap]\.?m\b))", re.I)
_HALF_ALONE = re.compile(r"(?<![\w.])(?P<half>[AaPp]\.\s?[Mm]\.)")

_DECADE = re.compile(
    r"(?<![\w.,$£€])(?P<early>(?:(?:his|her|their|my|your|our|the|early|mid|late|in)[ -])|['’])?"
    r"(?P<number>(?:1\d|20)\d0|\d0)['’]?s\b",
    re.I,
)
_YEARS = re.compile(
    r"(?<![\w.,/-])(?P<a>1[1-9]\d\d|20\d\d)(?:\s?[-–]\s?|/(?=\d\d\b))(?P<b>1[1-9]\d\d|20\d\d|\d\d)(?![\w/-]|[.,]\d)"
)
_ERA = re.compile(
    r"(?<![\w.,])(?P<number>\d{1,4})\s?(?P<era>B\.?C\.?E?\.?|C\.?E\.|A\.?D\.?)(?!\w)"
    r"|\b(?P<ad>A\.?D\.?)\s(?P<ad_year>\d{1,4})\b"
)
_SHORT_YEAR = re.compile(r"(?<!\w)'(?P<number>\d\d)(?![\w'])")

_PHONE = re.compile(
    r"(?<![\w.,-])(?:(?P<plus>\+)(?P<country>\d{1,3})[ .-]?|1[ .-])?"
    r"(?:\((?P<area>\d{3})\)[ .-]?|(?P<area2>\d{3})[ .-])?"
    r"(?P<a>\d{3})(?P<gap>[ .-])(?P<b>\d{4})(?![\w-]|\.\d)"
)
_INTERNATIONAL = re.compile(r"(?<!\w)\+(?P<number>[1-9]\d{0,2}(?:[ .-]?\(?\d{1,4}\)?){2,6})(?!\d)")
_CALL = re.compile(
    r"\b(?P<verb>[Cc]all|[Dd]ial|[Pp]hone|[Rr]ing|[Tt]ext)\s(?P<number>\d{3,6})(?![\w:%]|[.,/-]\d)"
)
_CODE = re.compile(r"(?<![\w.,/-])\d{2,6}(?:-\d{1,6}){2,5}(?![\w-])")


def dates(draft: Draft) -> None:
    """Say dates, then decades, spans of years and eras."""
    draft.sub(_ISO, _iso, "date")
    draft.sub(_NUMERIC, _numeric, "date")
    draft.sub(_DAY_NUMERIC, _day_numeric, "date")
    draft.sub(_MONTH_DAYS, _month_days, "date")
    draft.sub(_MONTH_DAY_YEAR, _month_day_year, "date")
    draft.sub(_DAY_MONTH, _day_month, "date")
    draft.sub(_MONTH_YEAR, lambda m: f"{_month(m)} {year(int(m.group('year')))}", "date")
    draft.sub(_MONTH_DAY, lambda m: f"{_month(m)} {ordinal(int(m.group('day')))}", "date")
    draft.sub(_DECADE, _decade, "date")
    draft.sub(_YEARS, _years, "date")
    draft.sub(_ERA, _era, "date")


def times(draft: Draft) -> None:
    """Say clock times and what is left of a.m. and p.m."""
    draft.sub(_TIME_RANGE, " to ", "time")
    draft.sub(_TIME, _time, "time")
    draft.sub(_HALF_ALONE, lambda m: _half(m.group("half"), m), "time")


def phones(draft: Draft) -> None:
    """Say telephone numbers and hyphened codes digit by digit."""
    draft.sub(_PHONE, _phone, "phone")
    draft.sub(_INTERNATIONAL, lambda m: f"plus {_groups(m.group('number'))}", "phone")
    draft.sub(_CALL, lambda m: f"{m.group('verb')} {digits(m.group('number'))}", "phone")
    draft.sub(_CODE, lambda m: _groups(m.group()), "phone")


def short_years(draft: Draft) -> None:
    """Say '98; after times, which have no apostrophe, and decades, which do."""
    draft.sub(_SHORT_YEAR, lambda m: number(m.group("number")), "date")


def _month(match: re.Match[str]) -> str:
    name = match.group("month").rstrip(".")
    return _SHORT.get(name, name)


def _date(month: int, day: int, of_year: int) -> str:
    return f"{_MONTHS[month - 1]} {ordinal(day)}, {year(of_year)}"


def _iso(match: re.Match[str]) -> str:
    spoken = _date(int(match.group("month")), int(match.group("day")), int(match.group("year")))
    return f"{spoken} " if match.group().endswith("T") else spoken


def _numeric(match: re.Match[str]) -> str | None:
    a, b, digits_of_year = int(match.group("a")), int(match.group("b")), match.group("year")
    of_year = int(digits_of_year)
    if len(digits_of_year) == 2:
        if match.group("sep") != "/":
            return None  # 1.2.34 and 10-20-30 are more often something else
        of_year += 1900 if of_year >= 50 else 2000
    day_first = match.group("sep") == "." or a > 12
    month, day = (b, a) if day_first else (a, b)
    if month > 12:
        month, day = day, month
    return _date(month, day, of_year) if 1 <= month <= 12 and 1 <= day <= 31 else None


def _day_numeric(match: re.Match[str]) -> str:
    month, day = _MONTHS[int(match.group("a")) - 1], ordinal(int(match.group("b")))
    return f"{match.group('lead')}{month} {day}"


def _month_days(match: re.Match[str]) -> str:
    days = (
        f"{_month(match)} {ordinal(int(match.group('day')))} to {ordinal(int(match.group('to')))}"
    )
    return f"{days}, {year(int(match.group('year')))}" if match.group("year") else days


def _month_day_year(match: re.Match[str]) -> str:
    day = ordinal(int(match.group("day")))
    return f"{_month(match)} {day}, {year(int(match.group('year')))}"


def _day_month(match: re.Match[str]) -> str | None:
    if _month(match) == "March" and match.group("month") == "Mar" and not match.group("year"):
        return None
    days = f"{match.group('the') or 'the '}{ordinal(int(match.group('day')))}"
    if match.group("to"):
        days += f" to the {ordinal(int(match.group('to')))}"
    spoken = f"{days} of {_month(match)}"
    return f"{spoken}, {year(int(match.group('year')))}" if match.group("year") else spoken


def _decade(match: re.Match[str]) -> str | None:
    lead, value = match.group("early") or "", int(match.group("number"))
    if value < 100 and not lead:
        return None  # "20s" may be seconds
    spoken = plural(cardinal(value) if value % 1000 == 0 else year(value))
    return f"{lead.replace('’', '').replace(chr(39), '')}{spoken}"


def _years(match: re.Match[str]) -> str:
    b = match.group("b")
    return f"{year(int(match.group('a')))} to {year(int(b)) if len(b) == 4 else number(b)}"


def _era(match: re.Match[str]) -> str:
    if match.group("ad"):
        return f"A D {year(int(match.group('ad_year')))}"
    era = match.group("era")
    dot = "." if era.endswith(".") and _ends_sentence(match) else ""
    return f"{year(int(match.group('number')))} {' '.join(era.replace('.', ''))}{dot}"


def _time(match: re.Match[str]) -> str:
    if match.group("only"):
        return f"{cardinal(int(match.group('only')))} {_half(match.group('only_half'), match)}"
    hour, minute, second = (match.group(name) for name in ("hour", "minute", "second"))
    half = _half(match.group("half"), match) if match.group("half") else ""
    words = cardinal(int(hour))
    if int(minute) == 0 and not half:
        words += " o'clock" if 0 < int(hour) <= 12 else " hundred" if hour != "0" else " hours"
    elif int(minute):
        words += f" {'oh ' if int(minute) < 10 else ''}{cardinal(int(minute))}"
    if second and int(second):
        words += f" and {cardinal(int(second))} second{'' if int(second) == 1 else 's'}"
    zone = _zone(match.group("zone") or "")
    return " ".join(filter(None, (words, half, zone)))


def _zone(name: str) -> str:
    """ "+05:30" is "U T C plus five thirty"."""
    if name[:1] not in ("+", "-"):
        return {"Z": "U T C", "UTC": "U T C", "GMT": "G M T"}.get(name, "")
    hours, minutes = int(name[1:3]), int(name[-2:])
    shift = " ".join(cardinal(n) for n in (hours, minutes) if n)
    sign = "plus" if name[0] == "+" else "minus"
    return f"U T C {sign} {shift}" if shift else "U T C"


def _half(text: str, match: re.Match[str]) -> str:
    dot = "." if text.endswith(".") and _ends_sentence(match) else ""
    return f"{text[0].upper()} M{dot}"


_SENTENCE_END = re.compile(r"[\"')\]]{0,3}(?:\s*$|\n|\s+[\"'(]?[A-Z])")


def _ends_sentence(match: re.Match[str]) -> bool:
    """Whether the full stop of an abbreviation also ends the sentence."""
    return bool(_SENTENCE_END.match(match.string, match.end()))


def _phone(match: re.Match[str]) -> str | None:
    area = match.group("area") or match.group("area2")
    country = match.group("country")
    if not area and (match.group("plus") or match.group("gap") == " "):
        return None
    parts = [digits(match.group(name), "oh") for name in ("a", "b")]
    if area:
        parts.insert(0, digits(area, "oh"))
    if country:
        parts.insert(0, f"plus {digits(country, 'oh')}")
    elif area and match.group().startswith("1"):
        parts.insert(0, "one")
    return ", ".join(parts)


def _groups(text: str) -> str:
    return ", ".join(filter(None, (digits(part, "oh") for part in re.split(r"[ .()-]+", text))))
