"""English: strings of figures that are no amount: telephone numbers, codes, numbers of cards.

They are said figure by figure, in the groups they are written in. Knows the shapes of the countries
by custom only: no number is checked.
"""

from __future__ import annotations

import re

from voxcli.text.patterns import pattern_of
from voxcli.text.spell import digits, number
from voxcli.text.tagger import DIGIT, FIGURES, InWord, Recogniser, led

_AFTER = r"(?![\w-]|[.,:/]\d)"
_PHONE = pattern_of(
    r"(?<![\w.,-])(?<!\d )(?:(?P<plus>\+)(?P<country>\d{1,3})[ .-]?|(?P<one>1)[ .-]?)?"
    r"(?:\((?P<area>\d{3})\)[ ./-]?|(?P<area2>\d{3})[ ./-])?"
    rf"(?P<a>\d{{3}})(?P<gap>[ .-])(?P<b>\d{{4}}){_AFTER}(?! \d)"
    r"(?:,?\s(?P<ext>x|ext\.?|extension)\s?(?P<number>\d{1,6})(?!\w))?"
)
_VANITY = pattern_of(
    r"(?<![\w.,-])(?:(?P<one>1)[ -])?(?P<area>\(?8\d\d\)?|900)(?:-|(?(one) |(?!)))"
    r"(?P<name>(?=[A-Z0-9-]{0,11}[A-Z]{2})(?:[A-Z0-9]{1,7}-){0,3}[A-Z0-9]{1,11})(?![\w-])"
)
# With one point it is an amount: "+123.45".
_INTERNATIONAL = pattern_of(
    r"(?<!\w)\+(?!\d++\.\d++(?!\.\d|-\d{3}))"
    r"(?P<number>[1-9]\d{0,2}(?:[ .-]?\(?\d{1,4}\)?){2,6})(?!\d)"
)
# A number in its own country begins with a zero that no amount has: "020 7946 0958".
_NATIONAL = pattern_of(
    r"(?<![\w.,/$€£:+-])(?=(?:[ /().-]{0,2}\d)"
    r"{8,12}(?!\d))\(?0\d{1,4}\)?(?:[ /-]\d{2,8}){1,4}(?![\w/-]|[.,:]\d)"
)
_PAIRS = pattern_of(
    r"(?<![\w.,/$€£:+-])(?:0\d(?P<gap>[ .])\d\d(?:(?P=gap)\d\d){3}|"
    r"(?=[\d.]{10,15}(?![\d.]))0\d{2,4}(?:\.\d{2,8}){2,4})(?![\w/-]|[.,:]\d)"
)
_CALLED = pattern_of(
    r"(?:\b(?:[Cc]all(?:ed|ing)?|[Dd]ial(?:l?ed|l?ing)?|[Pp]hone|[Pp]honed|[Rr]ing|[Rr]ang|"
    r"[Tt]ext|[Ff]ax|[Tt]el|"
    r"[Tt]elephone|[Ee]xtension|[Ee]xt|[Mm]obile|[Cc]ell|[Ww]hats[Aa]pp|[Hh]otline|[Hh]elpline|"
    r"[Tt]ext(?:ing)? [A-Z]{2,10} to)[.:]?\s(?:me |us |them |him |her |at |on |is |to |number |"
    r"line ){0,3}"
    r"|\b(?:phone|telephone|mobile|fax) numbers? (?:is |was |are |of )?"
    r"|\b(?:[Cc]all(?:ed|ing)?|[Dd]ial(?:l?ed|l?ing)?|[Rr]ing|[Tt]ext|[Ff]ax) \d{3,6} (?:or|and) )$"
)
# Numbers of one length in several places: "Call 999 in Britain, 112 elsewhere".
_ELSEWHERE = pattern_of(
    r"\b(?:[Cc]all|[Dd]ial|[Rr]ing|[Tt]ext) (?P<first>\d{3,4})\b"
    r"(?:[^.!?\n]{1,48}?(?:, | and | or )\d{3,4}\b){0,3}"
    r"[^.!?\n\d]{1,48}(?:, | and | or )(?:and |or )?$"
)
_IN_A_PLACE = pattern_of(
    r"[,.;!?]?\s*\Z|[,.;!?]\s|\s(?:elsewhere|everywhere|anywhere|in|from|for|if|when|at|on|outside|"
    r"inside|abroad|and|or)\b"
)
_REACH = 160  # characters
_CALL = pattern_of(
    r"(?<![\w.,$€£])(?:1-)?\d{3,5}(?:[ -]\d{2,5}){0,4}(?!-?\w|:|%|[.,/-]\d|\s?(?:times|people|men|"
    r"friends|of|km|minutes|hours|dollars|days|customers|o'clock|a\.m|p\.m|am\b|pm\b)\b)"
    r"|(?<![\w.,$€£])(?:\d{6,15}|\d{3}\.\d{4})(?![\w%]|[.,/:-]\d)"
)
_NUMBERED = pattern_of(
    r"\b(?:otp|pin|id|lot|batch|code|passcode|password|zip|account|card|serial|tracking|routing|reference|"
    r"ref|order|invoice|"
    r"flight|model|license|licence|passport|SSN|ISBN|IMEI|zip code|ending in|ends in|"
    r"ending with|booking)"
    r"(?: code| number| no\.?|:)?(?: is| was|:| to)?[: ]\s?(?:#|no\. )?$",
    re.I,
)
_SPELLED = pattern_of(
    r"(?:\d{3,20}|\d{1,8}(?:-\d{1,8}){1,4})(?![\w%]|[.,/:-]\d|\s(?:million|thousand|billion|"
    r"percent|dollars|people|years|"
    r"items|of)\b)"
)
_CODE = pattern_of(r"(?<![\w.,/-])\d{2,6}(?:-\d{1,6}){2,5}(?![\w-])")
_CARD = pattern_of(
    r"(?<![\w.,/-])\d{4}(?P<gap>[ -])\d{4}(?P=gap)\d{4}(?P=gap)\d{1,4}(?![\w-]|[.,]\d)"
)


def _groups(text: str) -> str:
    return ", ".join(filter(None, (digits(part, "oh") for part in re.split(r"[ /.()-]+", text))))


_NO_PLACE = pattern_of("[5-9]00")  # areas of services: "eight hundred"


def _area(written: str) -> str:
    return number(written) if _NO_PLACE.fullmatch(written) else digits(written, "oh")


def _phone(match: re.Match[str]) -> str | None:
    area = match["area"] or match["area2"]
    if not area and (match["plus"] or match["one"] or match["gap"] in " ."):
        return None
    parts = [digits(match[name], "oh") for name in ("a", "b")]
    if area:
        parts.insert(0, _area(area))
    if match["country"]:
        parts.insert(0, f"plus {digits(match['country'], 'oh')}")
    elif match["one"]:
        parts.insert(0, "one")
    if match["ext"]:
        parts.append(f"extension {digits(match['number'], 'oh')}")
    return ", ".join(parts)


_WORDS = ("GO", "NO", "UP", "ME", "MY", "US", "WE", "IT", "TO", "SO", "DO")


def _vanity(match: re.Match[str]) -> str:
    """ "1-800-FLOWERS": figures, then the word that the keys spell."""
    parts = ["one"] if match["one"] else []
    parts.append(_area(match["area"].strip("()")))
    for part in match["name"].split("-"):
        runs = re.findall(r"\d+|[A-Z]+", part)
        parts.append(
            " ".join(
                digits(run, "oh")
                if run.isdecimal()
                else run.capitalize()
                if run in _WORDS or (len(run) > 2 and re.search("[AEIOUY]", run))
                else " ".join(run)
                for run in runs
            )
        )
    return ", ".join(parts)


_STAR = pattern_of(r"(?<=[Dd]ial )(?P<key>[*#])(?P<number>\d{1,6})(?!\w)")
_KEYS = {"*": "star", "#": "pound"}
_OWNED = pattern_of(r"\b(?:[Mm]y|[Yy]our|[Hh]is|[Hh]er|[Oo]ur|[Tt]heir|[Tt]he) number(?: is|:)\s$")


def _call(match: re.Match[str]) -> str | None:
    is_owned = len(match.group()) >= 7 and led(match, _OWNED)
    is_called = is_owned or led(match, _CALLED) or _is_another(match)
    return _groups(match.group()) if is_called else None


def _is_another(match: re.Match[str]) -> bool:
    """Whether the sentence says to call a number of this length somewhere else."""
    string, start, end = match.string, match.start(), match.end()
    is_short = end - start in (3, 4) and string[start] != "0"  # "000" is said as it is anyway
    if not is_short or not _IN_A_PLACE.match(string, end):
        return False
    found = _ELSEWHERE.search(string[max(0, start - _REACH) : start])
    return found is not None and len(found["first"]) == end - start


def _spelled(match: re.Match[str]) -> str | None:
    if not led(match, _NUMBERED):
        return None
    return ", ".join(map(digits, match.group().split("-")))


_HAS_ZERO_FIRST = InWord(r"0\d", DIGIT)
_NAMED_NUMBER = pattern_of(r"\d[) -][A-Z0-9) -]{0,14}[A-Z]{2}")
TELEPHONE_SHAPES = (
    Recogniser("phone", DIGIT, _PAIRS, lambda m: _groups(m.group()), search=_HAS_ZERO_FIRST),
    Recogniser("phone", DIGIT + "(+", _PHONE, _phone, FIGURES),
    Recogniser("phone", DIGIT + "(", _VANITY, _vanity, FIGURES, _NAMED_NUMBER),
)
TELEPHONE = (
    Recogniser("phone", "*#", _STAR, lambda m: f"{_KEYS[m['key']]} {digits(m['number'], 'oh')}"),
    Recogniser("phone", "+", _INTERNATIONAL, lambda m: f"plus {_groups(m['number'])}", DIGIT),
    Recogniser(
        "phone", DIGIT + "(", _NATIONAL, lambda m: _groups(m.group()), search=_HAS_ZERO_FIRST
    ),
    Recogniser("phone", DIGIT, _CALL, _call, FIGURES),
    Recogniser("phone", DIGIT, _CARD, lambda m: _groups(m.group()), FIGURES),
    Recogniser("phone", DIGIT, _SPELLED, _spelled, search=InWord(r"\d\d\d|\d-\d", DIGIT)),
    Recogniser("phone", DIGIT, _CODE, lambda m: _groups(m.group()), "-"),
)
