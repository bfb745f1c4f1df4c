"""English: dates, years, decades and eras.

Numeric dates are read month first (03/04/2026 is March fourth) unless that is no date; dates with
the year first and dates with dots are unambiguous by custom. Knows no calendar beyond the ordinary
one; weekdays cut short are written out before (`weekdays.py`).
"""

from __future__ import annotations

import re

from voxcli.text.patterns import pattern_of
from voxcli.text.quantities import is_several
from voxcli.text.spell import cardinal, digits, number, ordinal, plural, year
from voxcli.text.tagger import (
    CAPITAL,
    DIGIT,
    FIGURES,
    FIGURES_JOINED,
    SMALL,
    STOPPED,
    InWord,
    OneOf,
    Recogniser,
    ends_sentence,
    led,
)

_MONTHS_LIST = (
    "January February March April May June July August September October November December"
)
_MONTHS = _MONTHS_LIST.split()
_SHORT = {name[:3].lower(): name for name in _MONTHS} | {"sept": "September"}
_MONTH = (
    rf"(?=(?i:[adfjmnos]))(?P<month>(?i:{'|'.join(_MONTHS)}|"
    r"(?:Jan|Feb|Mar|Apr|Jun|Jul|Aug|Sept?|Oct|Nov|Dec)\b\.?))"
)
_NTH = r"(?:st|nd|rd|th|ST|ND|RD|TH)"
_DAY = rf"(?P<day>0?[1-9]|[12]\d|3[01])(?P<nth>{_NTH})?"
_TO = rf"\s?[-–]\s?(?P<to>0?[1-9]|[12]\d|3[01]){_NTH}?"
_YEAR = r"(?P<year>1\d{3}|20\d{2})(?![\d%]|,\d|\.\d)"
# What may follow "March 4" without a year: anything but a noun it could count ("March 30 people").
_AFTER_DAY = (
    r"(?!\d|[:/%]|[.,]\d|st\b|nd\b|rd\b|th\b)(?=\s*(?:[^\w\s]|$|[A-Z]|\d{1,2}:\d\d|(?:at|and|"
    r"to|in|on|from|"
    r"until|till|or|through|is|was|were|for|by|with|the|a|we|i|he|she|they|it|this|that|when|"
    r"before|"
    r"after|between|as|will|has|had|of(?! (?:them|us|you|these|those)\b)|but|because|if|so|"
    r"there|my|our|his|her|twenty|nineteen)\b))"
)

_ISO = pattern_of(
    r"(?<![\w./-])(?P<year>\d{4})(?P<sep>[-/.])(?P<month>0?[1-9]|1[0-2])(?P=sep)"
    r"(?P<day>0[1-9]|[12]\d|3[01]|[1-9])(?:(?P<time>T(?=\d\d:\d\d))|(?![\w./-]*\d))"
)
# Without signs between: "20260304T103000Z"; and a week of a year: "2026-W10", "2026-W10-3".
_ISO_BASIC = pattern_of(
    r"(?<!\w)(?P<year>(?:19|20)\d\d)(?P<month>0[1-9]|1[0-2])(?P<day>0[1-9]|[12]\d|3[01])"
    r"(?P<time>T(?=\d{4}(?:\d\d)?(?:\.\d{1,6})?(?:Z|[+-]\d\d)?))"
)
_ISO_WEEK = pattern_of(
    r"(?<![\w-])(?P<year>(?:19|20)\d\d)-?W(?P<week>[0-5]\d)(?:-(?P<day>[1-7]))?(?![\w-])"
)
_WEEKDAYS = ["Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday"]
_NUMERIC = pattern_of(
    r"(?<![\w/.-])(?P<a>\d{1,2})(?P<sep>[/.-])(?P<b>\d{1,2})(?P=sep)(?P<year>\d{4}|"
    r"\d{2})(?![\w/-]|\.\d)"
)
_MONTH_DAYS = pattern_of(rf"(?<!\w){_MONTH}[\s-]{_DAY}{_TO}(?!\w|-)(?:,\s{_YEAR})?")
_MONTH_DAY_YEAR = pattern_of(
    rf"(?<!\w){_MONTH}[\s-]{_DAY}(?:,?[\s-]|,(?=[12]))(?P<year>\d{{4}})(?!\d|,\d)"
)
_DAY_MONTH = pattern_of(
    rf"(?<![\w.,/$£€-]){_DAY}(?:{_TO})?"
    rf"(?:\s?(?P<of>of\s)|[\s/-]|\.\s(?=\w{{3,9}}\.?\s\d{{4}})){_MONTH}(?!\w)(?:,?[\s/-]{_YEAR})?"
)
_MONTH_DAY = pattern_of(rf"(?<!\w){_MONTH}[\s-]{_DAY}(?!-\d){_AFTER_DAY}")
_MONTH_YEAR = pattern_of(rf"(?<!\w){_MONTH}(?:,?\s|-){_YEAR}")
_DAY_NUMERIC = pattern_of(
    r"(?<!\w)(?:(?P<a>0?[1-9]|1[0-2])/(?P<b>0?[1-9]|[12]\d|3[01])|(?P<day>1[3-9]|2\d|3[01])/"
    r"(?P<month>0[1-9]|1[0-2]))(?![\w/%]|[.,]\d)(?!\s(?:of|off|inch(?:es)?|in\.|cups?|miles?|tsp|tbsp|(?:tea|table)spoons?|pounds?|lbs?|"
    r"oz|ounces?|yards?|feet|ft|hours?|price|full|majority|time|meter|bars?)(?!\w))"
)
_DATED = pattern_of(
    r"(?:[A-Z]\w{2,5}day,?|[Oo]n|[Dd]ated?:?|[Dd]ue(?: on)?:?|[Uu]ntil|[Dd]eadline:?|"
    r"\b(?:[Dd]ue|[Dd]one|[Pp]ay|[Rr]eady|[Rr]eply|[Rr]egister|[Rr]eturn|[Ss]ubmit|RSVP) by|"
    r"\b(?:[Cc]losed|[Ss]ale|[Vv]acation|[Ee]ffective|[Ee]xpir(?:es|ed|ing)|[Ss]tart(?:s|ed|ing)|"
    r"[Bb]egin(?:s|ning)|[Ee]nd(?:s|ed|ing)|[Ss]hipped|[Uu]pdated|[Pp]osted))\s"
)
# Behind those an amount may stand too: "by 4/15", but "by 1/3".
_PERHAPS_DATED = pattern_of(
    r"\b(?:(?<!ased |uced |ease |duce |iply |vide |ided |rose |grew |fell )"
    r"[Bb]y|[Ff]rom|[Ss]ince|[Bb]efore|[Aa]fter|[Tt]hrough|[Tt]ill|[Oo]pen)\s"
)
_AT_A_TIME = pattern_of(
    r",?\s(?:(?:at|@)\s?)?(?:\d{1,2}(?::[0-5]\d)?\s?[AaPp]\.?[Mm]\b|\d{1,2}:[0-5]\d|noon\b|"
    r"midnight\b)"
)
_LINK = r"\s?(?:[-–&]|to|through|thru|till|until)\s?"
_OTHER_DAY = r"(?P<upper>0?[1-9]|1[0-2])/(?P<lower>0?[1-9]|[12]\d|3[01])"
_DAY_BEFORE = pattern_of(rf"(?<![\w./]){_OTHER_DAY}{_LINK}\Z")
_DAY_BEHIND = pattern_of(rf"{_LINK}{_OTHER_DAY}(?![\w/%]|[.,]\d)")
_DENOMINATORS = (2, 3, 4, 5, 6, 7, 8, 9, 10, 12, 16)
_NO_DAYS = ("9/11", "7/11")  # names
_NO_DATED = pattern_of(
    r"\b(?:[Rr]atios?|[Oo]dds|[Ss]ignatures?|[Ss]cales?|[Aa]spect|[Vv]otes?|[Ss]cores?|[Mm]eter)\b"
    r"[^.!?\n]{0,20}\Z"
)
_MONTH_OF = pattern_of(
    r"(?<![\w/.-])(?<!\b[Nn]o\. )(?<!\b[Nn]os\. )"
    r"(?P<month>0[1-9]|1[0-2])/(?P<year>(?:19|20)\d\d)(?![\w/]|[.,]\d)"
)
_QUARTER = pattern_of(r"(?<!\w)(?P<quarter>[1-4])Q\s?(?P<year>20\d\d|\d\d)(?!\w)")


_DECADE = pattern_of(r"(?P<mark>'(?<!\w'))?(?P<number>(?:1\d|20)\d0|\d0)['’]?s(?!\w)")
# Parted by mistake: "the 1980 s"; a time in seconds is led by what lasts.
_SPACED_DECADE = pattern_of(r"(?<![\w.,])(?P<number>1[89]\d0|20[0-3]0) s(?![\w²³^/'’-])")
_OF_A_DECADE = pattern_of(
    r"(?:\b(?:his|her|their|my|your|our|age[ds]?|the(?: [a-z]{4,12})?|early|mid|late|in|both|and|"
    r"to|or|through)[ -]|['’]|"
    r"s\s?[-–]\s?)",
    re.I,
)
_LASTING = pattern_of(
    r"\b(?:wait(?:s|ed|ing)?|for|after|within|every|in|took|takes?|lasts?|lasted|about|under|over|"
    r"than|up to|by|a|an|per|timeout|of|at|only|just|another|ran|runs|times?|delays?|intervals?|"
    r"durations?|splits?|≈|~)(?: of| for| to)?[ =:]\s?$",
    re.I,
)
_IN = pattern_of(r"(?<!the )\bin $")  # "in 20s" lasts
# Several in a row, "20s, 30s and 40s", are all decades or all last.
_NEXT = r"(?:,\s(?:and\s|or\s)?|\s(?:and|or|to|through|&)\s(?:the\s)?|\s?[-–/]\s?)"
_MEMBER = r"(?<![\w.,])['’]?\d{1,3}['’]?s"
_ROW_BEFORE = pattern_of(rf"(?:{_MEMBER}{_NEXT}){{1,6}}\Z")
_ROW_BEHIND = pattern_of(rf"(?:{_NEXT}{_MEMBER}(?!\w)){{1,6}}")
_NO_TENS = pattern_of(r"[1-9]['’]?s")
_STYLED = pattern_of(
    r"\s(?:kids?|music|movies?|films?|style|fashion|era|songs?|hits?|pop|rock|band|bands|child|"
    r"children|babies|baby|party|night|nostalgia|vibes?|show|shows|sitcoms?|generation)\b"
)
_YEARS = pattern_of(
    r"(?<![\w.,/-])(?P<a>1\d{3}|20\d\d)(?:\s?[-–]\s?|/(?=(?:\d\d|20\d\d|"
    r"1\d{3})\b))(?P<b>1[1-9]\d\d|20\d\d|"
    r"\d\d)(?![\w/-]|[.,]\d|\s(?:kg|km|m|g|lb|lbs|ft|miles|people|feet|MB|GB|Hz|W|V|K)\b)"
)
_YEARS_LED = pattern_of(
    r"(?P<lead>[Ff]rom|[Bb]etween)\s(?P<a>1\d{3}|20\d\d)\s(?P<to>to|and|until|till|"
    r"through)\s(?P<b>1\d{3}|20\d\d)"
    r"(?![\w/-]|[.,]\d|\s(?:feet|miles|men|dollars|pounds|people|euros|meters|steps|words|kg|"
    r"km|m)\b)"
)
_ERA = pattern_of(
    r"(?<![\w.,])(?:(?P<from>\d{1,4})(?:\s?[-–]\s?|\sto\s))?(?P<number>\d{1,4})\s?(?P<era>B\.?C\.?E?\.?|"
    r"C\.?E\.|A\.?D\.?)(?!\w)"
)
_AD = pattern_of(r"(?<!\w)A\.?D\.?\s(?P<year>\d{1,4})\b")
_SHORT_YEAR = pattern_of(r"'(?P<number>\d\d)(?![\w'])")
_CIRCA = pattern_of(r"(?<!\w)ca?\.\s?(?=\d{3,4}(?![\w,.]\d|\w))")
_ABOUT_YEAR = pattern_of(
    r"(?<!\w)(?P<word>[Ii]n|[Ss]ince|[Uu]ntil|[Yy]ear|[Bb]y|[Cc]irca|[Bb]efore|[Aa]fter|"
    r"[Oo]f)\s(?P<year>10\d\d|(?<=[Yy]ear )[1-9]\d{3})(?![\w,.]\d|\w|\s[a-z]+s\b)"
)


def _month(match: re.Match[str]) -> str:
    name = match["month"].rstrip(".").lower()
    return _SHORT.get(name) or name.capitalize()


def _is_word(match: re.Match[str]) -> bool:
    """ "may" and "march" in small letters are words unless a year or "5th" shows a date."""
    is_small = match["month"] in ("may", "march", "mar", "dec", "oct", "sept", "sep")
    groups = match.groupdict()
    return is_small and not (groups.get("year") or groups.get("nth") or match["month"][0] in "dos")


def _date(month: int, day: int, of_year: str) -> str:
    return f"{_MONTHS[month - 1]} {ordinal(day)}, {of_year}"


def _iso(match: re.Match[str]) -> str:
    spoken = _date(int(match["month"]), int(match["day"]), year(int(match["year"])))
    return f"{spoken} at " if match["time"] else spoken


def _iso_week(match: re.Match[str]) -> str:
    day = f"{_WEEKDAYS[int(match['day']) - 1]} of " if match["day"] else ""
    return f"{day}week {cardinal(int(match['week']))} of {year(int(match['year']))}"


def _numeric(match: re.Match[str]) -> str | None:
    a, b, written = int(match["a"]), int(match["b"]), match["year"]
    if len(written) == 2 and match["sep"] != "/":
        return None  # 1.2.34 and 10-20-30 are more often something else
    of_year = cardinal(2000) if written == "00" else _short(written)  # no century is made up
    day_first = (match["sep"] == "." and b <= 12) or a > 12
    month, day = (b, a) if day_first else (a, b)
    if not (1 <= month <= 12 and 1 <= day <= 31):
        return None
    if day_first:
        return (
            f"{'' if led(match, _THE) else 'the '}{ordinal(day)} of {_MONTHS[month - 1]}, {of_year}"
        )
    return _date(month, day, of_year)


def _day_numeric(match: re.Match[str]) -> str | None:
    if not (led(match, _DATED) or _is_day(match)):
        return None
    if match["day"]:
        return f"the {ordinal(int(match['day']))} of {_MONTHS[int(match['month']) - 1]}"
    return f"{_MONTHS[int(match['a']) - 1]} {ordinal(int(match['b']))}"


def _is_day(match: re.Match[str]) -> bool:
    """Whether a value that no sure word of a date leads is a day: beside a time or another day."""
    string, written = match.string, match.group()
    if _AT_A_TIME.match(string, match.end()):
        return True
    if written in _NO_DAYS or _NO_DATED.search(string[max(0, match.start() - 32) : match.start()]):
        return False
    if led(match, _PERHAPS_DATED) and _is_rare(int(written.split("/")[1])):
        return True
    other = _DAY_BEHIND.match(string, match.end()) or _DAY_BEFORE.search(
        string[max(0, match.start() - 16) : match.start()]
    )
    if other is None:
        return False
    pairs = (tuple(map(int, written.split("/"))), (int(other["upper"]), int(other["lower"])))
    return any(upper > lower or upper == lower == 1 or _is_rare(lower) for upper, lower in pairs)


def _is_rare(lower: int) -> bool:
    """Whether nobody divides by this number: "4/15"."""
    return lower not in _DENOMINATORS


def _month_days(match: re.Match[str]) -> str | None:
    if _is_word(match):
        return None
    days = f"{_month(match)} {ordinal(int(match['day']))} to {ordinal(int(match['to']))}"
    return f"{days}, {year(int(match['year']))}" if match["year"] else days


def _month_day_year(match: re.Match[str]) -> str:
    return f"{_month(match)} {ordinal(int(match['day']))}, {year(int(match['year']))}"


def _month_day(match: re.Match[str]) -> str | None:
    return None if _is_word(match) else f"{_month(match)} {ordinal(int(match['day']))}"


_THE = pattern_of(r"\b[Tt]he\s")
_AFTER_MONTH = pattern_of(rf"\b{_MONTH}\s", re.I)


def _day_month(match: re.Match[str]) -> str | None:
    if match["month"] in ("Mar", "may", "mar", "march") and not (match["year"] or match["nth"]):
        return None
    if led(match, _AFTER_MONTH):
        return None  # "Nov. 5-Dec. 2" is two dates
    days = f"{'' if led(match, _THE) else 'the '}{ordinal(int(match['day']))}"
    if match["to"]:
        days += f" to the {ordinal(int(match['to']))}"
    stop = "." if match.group().endswith(".") and ends_sentence(match) else ""
    spoken = f"{days} of {_month(match)}"
    return f"{spoken}, {year(int(match['year']))}" if match["year"] else f"{spoken}{stop}"


def _quarter(match: re.Match[str]) -> str:
    the = "" if led(match, _THE) else "the "
    written = match["year"]
    said = year(int(written)) if len(written) == 4 else number(written)
    return f"{the}{ordinal(int(match['quarter']))} quarter of {said}"


def _decade(match: re.Match[str]) -> str | None:
    """ "90s" is a decade unless it lasts; "20s" lasts unless something shows a decade."""
    value = int(match["number"])
    if value < 100:
        before = match.string[max(0, match.start() - 16) : match.start()]
        in_row = _in_row(match)
        if in_row is False:
            return None
        is_decade = (
            match["mark"]
            or in_row
            or (led(match, _OF_A_DECADE) and not _IN.search(before))
            or is_several(match)
            or _STYLED.match(match.string, match.end())
        )
        if not is_decade and (value < 50 or _LASTING.search(before)):
            return None
    if match.start() and match.string[match.start() - 1] in "$£€.,":
        return None
    return plural(cardinal(value) if value % 1000 == 0 else year(value))


def _in_row(match: re.Match[str]) -> bool | None:
    """Whether several in a row are decades; None for one that stands alone."""
    string, start = match.string, match.start()
    row = _ROW_BEFORE.search(string[max(0, start - 60) : start])
    rows = [each for each in (row, _ROW_BEHIND.match(string, match.end())) if each]
    if not rows:
        return None
    first = start - len(row.group()) if row else start
    is_lasting = _LASTING.search(string[max(0, first - 24) : first])
    return not (is_lasting or any(_NO_TENS.search(each.group()) for each in rows))


def _spaced_decade(match: re.Match[str]) -> str | None:
    return None if led(match, _LASTING) else plural(year(int(match["number"])))


def _years(match: re.Match[str]) -> str:
    return f"{year(int(match['a']))} to {_short(match['b'])}"


def _short(written: str) -> str:
    """A year of four or two figures: "05" is "oh five"."""
    if len(written) == 4:
        return year(int(written))
    return number(written) if written[0] != "0" else digits(written, "oh")


def _old(n: int) -> str:
    """A year of three figures as one of four is said: 753 is "seven fifty-three"."""
    if not 100 < n < 1000 or n % 100 == 0:
        return year(n)
    hundreds, rest = divmod(n, 100)
    return f"{cardinal(hundreds)} {'oh ' if rest < 10 else ''}{cardinal(rest)}"


def _era(match: re.Match[str]) -> str:
    era = match["era"]
    dot = "." if era.endswith(".") and ends_sentence(match) else ""
    lead = f"{_old(int(match['from']))} to " if match["from"] else ""
    return f"{lead}{_old(int(match['number']))} {' '.join(era.replace('.', ''))}{dot}"


_ANY = CAPITAL + SMALL
_HAS_MONTH = OneOf(
    "jan",
    "feb",
    "mar",
    "apr",
    "may",
    "jun",
    "jul",
    "aug",
    "sep",
    "oct",
    "nov",
    "dec",
    ignores_case=True,
)
DATES = (
    Recogniser("date", DIGIT, _ISO, _iso, FIGURES, FIGURES_JOINED),
    Recogniser("date", DIGIT, _ISO_BASIC, _iso, CAPITAL + FIGURES),
    Recogniser("date", DIGIT, _ISO_WEEK, _iso_week, CAPITAL + "-"),
    Recogniser("date", DIGIT, _NUMERIC, _numeric, search=InWord(r"\d[/.-]\d{1,2}[/.-]\d", DIGIT)),
    Recogniser("date", DIGIT, _DAY_NUMERIC, _day_numeric, "/"),
    Recogniser("date", _ANY, _MONTH_DAYS, _month_days, DIGIT, _HAS_MONTH),
    Recogniser("date", _ANY, _MONTH_DAY_YEAR, _month_day_year, FIGURES, _HAS_MONTH),
    Recogniser("date", DIGIT, _DAY_MONTH, _day_month, search=_HAS_MONTH),
    Recogniser(
        "date",
        _ANY,
        _MONTH_YEAR,
        lambda m: f"{_month(m)} {year(int(m['year']))}",
        FIGURES,
        _HAS_MONTH,
    ),
    Recogniser("date", _ANY, _MONTH_DAY, _month_day, DIGIT, _HAS_MONTH),
    Recogniser("date", DIGIT, _QUARTER, _quarter, search=InWord(r"\dQ", DIGIT)),
    Recogniser(
        "date",
        DIGIT,
        _MONTH_OF,
        lambda m: f"{_MONTHS[int(m['month']) - 1]} {year(int(m['year']))}",
        "/",
    ),
    Recogniser(
        "date", "'" + DIGIT, _DECADE, _decade, search=InWord(OneOf("0s", "0's", "0’s"), DIGIT)
    ),
    Recogniser("date", DIGIT, _SPACED_DECADE, _spaced_decade, FIGURES, OneOf("0 s")),
    Recogniser("date", DIGIT, _YEARS, _years, FIGURES, InWord(OneOf("-", "–", "/"))),
    Recogniser(
        "date",
        _ANY,
        _YEARS_LED,
        lambda m: f"{m['lead']} {year(int(m['a']))} {m['to']} {year(int(m['b']))}",
        FIGURES,
        pattern_of(r"(?:rom|etween) \d"),
    ),
    Recogniser("date", DIGIT, _ERA, _era, CAPITAL, InWord(r"B\.?C|C\.?E|A\.?D", CAPITAL)),
    Recogniser("date", STOPPED, _CIRCA, lambda m: "circa ", FIGURES),
    Recogniser(
        "date",
        CAPITAL,
        _AD,
        lambda m: f"A D {_old(int(m['year']))}",
        DIGIT,
        InWord(r"A\.?D", CAPITAL),
    ),
    Recogniser(
        "date",
        _ANY,
        _ABOUT_YEAR,
        lambda m: f"{m['word']} {year(int(m['year']))}",
        FIGURES,
        pattern_of(r"[a-z] [1-9]\d{3}"),
    ),
)
SHORT_YEARS = (Recogniser("date", "'", _SHORT_YEAR, lambda m: _short(m["number"])),)
