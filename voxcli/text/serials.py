"""English: numbers that are names: models, clauses, isotopes, serials, figures inside a word.

They are said as names are: two figures and two ("seven forty-seven"), or part by part. Knows no
amount.
"""

from __future__ import annotations

import re

from voxcli.text.acronyms import acronym
from voxcli.text.patterns import pattern_of
from voxcli.text.quantities import is_several
from voxcli.text.spell import cardinal, digits, is_year, number, plain, plural, roman
from voxcli.text.tagger import (
    CAPITAL,
    DIGIT,
    FIGURES,
    JOINED,
    LETTER_BEHIND,
    InWord,
    OneOf,
    Recogniser,
    led,
)
from voxcli.text.words import spaced

# Parts of figures and parts of letters: "19-cv-1234", "MIG-25/235212-asdg".
_SERIAL = pattern_of(
    r"(?<![\w.,/-])(?=[\w/-]{0,60}[A-Za-z])(?=[\w/-]{0,60}\d)"
    r"[A-Za-z0-9]{1,12}(?:[-/][A-Za-z0-9]{1,12}){2,10}(?![\w/-]|\.\d)"
)
_COURSE = pattern_of(
    r"\d+-\d+-[a-z]{3,12}|\d+-[a-z]{2,12}-[a-z]{2,12}|"
    r"[A-Za-z]{2,12}-[a-z]{1,12}-\d+"
)  # "6-8-week"
_CLAUSE = pattern_of(
    r"(?<![\w.])(?P<number>\d{1,4})\((?P<a>[A-Za-z0-9])\)(?:\((?P<b>[A-Za-z0-9]|[ivx]{2,4})\))?"
)
_CODED = pattern_of(r"(?<=[A-Z]-)\d{3,4}(?!\w|[.,-]\d)")  # B-204, GTX-1080
_LEADING = pattern_of(r"(?<![\w.,/$-])\d{4}(?=-[A-Z]{1,3}\d{0,4}(?![\w-]))")  # 4471-B2
# Of a court: its office, the year, the kind and the number of the case.
_DOCKET = pattern_of(r"(?<![\w:.])\d{1,2}:\d\d-(?P<kind>[a-z]{2})-\d{3,6}(?!\w)")
# "Case 19-1392": the year and the number of one case; two of them are cases, "Cases 10-12".
_CASE = pattern_of(
    r"(?<![\w.,/-])(?P<year>\d{2}|(?:19|20)\d\d)-(?P<number>\d{3,6})(?![\w-]|[.,]\d)"
)
_CASE_NOUN = OneOf("ase ", "ocket ", "atter ", "ause ", "ppeal ", "etition ", "omplaint ", "ction ")
_CASE_OF = pattern_of(
    r"\b(?:case|docket|matter|cause|appeal|petition|complaint|action)(?: numbers?| nos?\.?)?:?\s$",
    re.I,
)
_OIL = pattern_of(r"(?<![\w.,])(?P<cold>\d{1,2})W-(?P<hot>\d{2})(?!\w)")  # 5W-30
_BITS = pattern_of(r"(?<![\w.,])(?P<bit>[01])s(?= and [01]s\b)|(?<=\b[01]s and )(?P<last>[01])s\b")
_ISOTOPE = pattern_of(
    r"(?<!\w)(?P<symbol>Cs|Sr|Pu|Co|Ra|Po|Am|Tc|Xe|Kr|Th|Rn|He|Li|Be|Na|Ar|Fe|Ni|Rb|Ru|Ir|Pb|"
    r"Bi|Cf)-(?P<number>\d{1,3})m?(?!\w)"
)
_HEX = pattern_of(r"(?<!\w)(?:0x[0-9A-Fa-f]{1,16}|#(?=[A-Fa-f]{0,5}\d)[0-9A-Fa-f]{6})(?!\w)")
_PLAN = pattern_of(r"(?<![\w.])(?P<number>401|403|457|501|529)(?P<rest>[kK]|[bB]|[cC]\d?)(?!\w)")
_STANDARD = pattern_of(r"(?<![\w.])802\.(?P<number>\d{1,2})(?P<rest>[a-z]{0,2})(?!\w)")
_AIRCRAFT = pattern_of(  # of two makers; "747-400" is known by itself
    r"(?:(?<=Boeing |Airbus )|(?<![\w.,/$-])(?=7[0-8]7-(?:[1-9]00|[89]|10)\b)"
    r"|(?<=\b[Aa] )(?=7[0-8]7\b)|(?<=\b[Tt]he )(?=7[0-8]7\b(?! [a-z]+s\b)))"
    r"(?P<number>\d{3})(?:-(?P<more>\d{1,3}))?(?!\w|[.,]\d)"
)
# "RTX 4090", "Form 1040": two figures and two.
_PRODUCT = pattern_of(
    r"(?:(?<=[A-Z]{2} )|(?<=Form ))(?P<number>[1-9]\d[1-9]\d)(?![\w%]|[.,:/-]\d| [a-z])"
    r"|(?<![\w.,$€£/-])(?P<form>[1-9]\d[1-9]\d)(?= forms?\b)"
)
_MODEL = pattern_of(r"(?<!\w)(?P<letter>[A-Z])\.?(?P<number>[1-9]\d\d)(?P<s>s?)(?!\w|[.,]\d)")
_PLAYERS = pattern_of(r"(?<![\w.,])(?P<number>\d{1,4})-?er(?P<s>s?)(?!\w)")  # the 49ers
_PLURAL = pattern_of(r"(?<![\w.,$€£])(?P<number>\d{1,4})['’]?s(?!\w)")
_SIZED = pattern_of(r"\d\s?[x×]\s?$")  # "2 x 4s"
_RESOLUTION = pattern_of(
    r"(?<![\w.,])(?P<number>\d{3,4})(?P<scan>[pi])(?:(?P<rate>\d{2,3}))?(?!\w)"
)
_NAMED = pattern_of(  # PM2.5, iOS17.2
    r"(?<!\w)(?P<name>[A-Za-z]{1,12})(?P<number>\d{1,9}\.\d{1,9})(?P<unit>[a-z]?)(?!\w|\.\d)"
)
_AGE = pattern_of(r"(?<![\w.])(?P<number>\d{1,2})\s?-?y/?o(?!\w)")
_RACE = pattern_of(
    r"(?<![\w.,$€£])(?P<number>\d{1,3})[kK](?=\s(?:run|race|walk|ride|runner|"
    r"time)\b)"
)
_FOUR_K = pattern_of(
    r"(?<![\w.,$€£])(?P<number>[248])[kK](?!\w)(?!\s[a-z]{2,20}s\b)(?!\s(?:people|run|race|"
    r"steps|per|a|or more|in)\b)"
)
_MIXED = pattern_of(
    r"(?<!\w)(?=\w{0,60}\d)\w{2,60}(?:(?:-(?=\w{0,20}\d)|/(?=\w{0,20}[A-Za-z]))\w{1,20}){0,5}(?!\w)"
)
_TAIL = pattern_of(r"\d+|[^\W\d_]+|_+|[-/]")


def _plural(match: re.Match[str]) -> str | None:
    """ "747s" are seven forty-sevens, "6s" sixes; a phone is a "five S"."""
    written = match["number"]
    if len(written) == 1:
        if match.group()[1] != "s":
            return f"{number(written)}'s"
        is_many = is_several(match) or led(match, _SIZED)
        return plural(number(written)) if is_many else f"{number(written)} S"
    return plural(_named(written))


def _model(match: re.Match[str]) -> str:
    """ "A320" is "A three twenty"."""
    words = _named(match["number"])
    return f"{match['letter']} {plural(words) if match['s'] else words}"


def _hex(match: re.Match[str]) -> str:
    """Letters and figures one by one."""
    written = match.group().lstrip("#")
    lead = "hash " if match.group()[0] == "#" else ""
    return lead + " ".join(digits(c) if c.isdecimal() else c.upper() for c in written)


def _plan(match: re.Match[str]) -> str:
    """ "401k", "501c3"."""
    rest = [number(char) if char.isdecimal() else char.upper() for char in match["rest"]]
    return " ".join([_named(match["number"]), *rest])


def _standard(match: re.Match[str]) -> str:
    """ "802.11ac" is "eight oh two dot eleven A C"."""
    return " ".join(["eight oh two dot", number(match["number"]), *match["rest"].upper()])


def _aircraft(match: re.Match[str]) -> str:
    """ "737-800" is "seven thirty-seven eight hundred"."""
    return " ".join(filter(None, (_named(match["number"]), number(match["more"] or ""))))


def _isotope(match: re.Match[str]) -> str:
    return f"{' '.join(match['symbol'].upper())} {_named(match['number'])}"


def _players(match: re.Match[str]) -> str:
    """ "49ers" are forty-niners."""
    words = number(match["number"])
    return f"{words}{'r' if words.endswith('e') else 'er'}{match['s']}"


def _named(written: str) -> str:
    """A number that is a name: two figures, then two ("seven forty-seven", "ten eighty")."""
    head, tail = written[:-2], written[-2:]
    if len(written) == 4 and tail == "00" and head[1] != "0" and head[0] != "0":
        return f"{cardinal(int(head))} hundred"
    if not head or written[0] == "0" or tail == "00" or (head[1:] == "0" and tail[0] == "0"):
        return number(written)
    return f"{cardinal(int(head))} {_pair(tail)}"


def _pair(written: str) -> str:
    """ "05" is "oh five"."""
    return f"oh {cardinal(int(written))}" if written[0] == "0" else cardinal(int(written))


def _resolution(match: re.Match[str]) -> str:
    rate = number(match["rate"]) if match["rate"] else ""
    return f"{_named(match['number'])} {match['scan'].upper()} {rate}".rstrip()


def _clause(match: re.Match[str]) -> str:
    is_plan = match["number"] in ("401", "403", "457", "501", "529")
    lead = _named(match["number"]) if is_plan else number(match["number"])
    said = [
        cardinal(roman(part.upper()))
        if len(part) > 1 and roman(part.upper())
        else part.upper()
        if part.isalpha()
        else number(part)
        for part in (match["a"], match["b"])
        if part
    ]
    return " ".join([lead, *said])


def house(written: str) -> str:
    """The number of a house: "twenty-seven eighty-eight", "seven oh eight"."""
    return _named(written) if len(written) < 5 else digits(written)


def _mixed(match: re.Match[str]) -> str:
    """Letters and figures in one word: MP3, 3D, B2B, F-16, A1B2-33."""
    parts = _TAIL.findall(match.group())
    out: list[str] = []
    is_code = sum(part.isdecimal() for part in parts) > 1 and any(
        len(p) > 2 and p.isdecimal() for p in parts
    )
    for index, part in enumerate(parts):
        if part[0] == "_" or part == "-":
            continue
        if part == "/":
            out.append("slash")
        elif part.isdecimal():
            out.append(_run(part, parts, index, is_code))
        elif part == "s" and index == len(parts) - 1 and out and parts[index - 1].isdecimal():
            out[-1] = plural(out[-1])
        else:
            out.append(_letters(part))
    return " ".join(out)


_CODE_NOUN = OneOf(" number", " no", " code", ignores_case=True)
# What a code stands behind, which is dictated.
_CODE_OF = pattern_of(
    r"\b(?:serial|part|tracking|reference|ref|order|invoice|lot|batch|account|policy|product|case|"
    r"licen[cs]e|booking|confirmation)(?: code| number| no\.?)(?: is| was|:)?\s$",
    re.I,
)


def _dictated(match: re.Match[str]) -> str | None:
    """ "4821-77B" is "four eight two one, seventy-seven B" where it is told to be a code."""
    if not led(match, _CODE_OF):
        return None
    pieces = []
    for piece in re.split("[-_]", match.group()):
        pieces.append(
            " ".join(
                digits(part)
                if part.isdecimal() and (len(part) > 2 or part[0] == "0")
                else plain(part)
                if part.isdecimal()
                else "slash"
                if part == "/"
                else _letters(part)
                for part in _TAIL.findall(piece)
            )
        )
    return ", ".join(filter(None, pieces))


def _decimal_name(match: re.Match[str]) -> str:
    return f"{_letters(match['name'])} {number(match['number'])} {match['unit']}".rstrip()


_NUMBERS_JOINED = pattern_of(r"\d-\d")


def _serial(match: re.Match[str]) -> str | None:
    """Part by part: no range, no fraction."""
    written = match.group()
    if _COURSE.fullmatch(written):
        return None
    # "twenty twenty-one-one hundred" would run two numbers together
    joint = ", " if _NUMBERS_JOINED.search(written) else "-"
    out = []
    for piece in re.split(r"([-/])", written):
        runs = _TAIL.findall(piece)
        if piece in "-/":
            out.append(joint if piece == "-" else " slash ")
        elif len(runs) == 1 and piece.isdecimal():
            is_row = len(piece) > 4 or piece[0] == "0"
            out.append(digits(piece) if is_row else _named(piece) if piece[3:] else plain(piece))
        else:
            out.append(" ".join(plain(r) if r.isdecimal() else _letters(r) for r in runs))
    return "".join(out)


def _docket(match: re.Match[str]) -> str:
    """ "2:19-cv-01234" is "two, nineteen, C V, zero one two three four"."""
    office, year, _, case = re.split("[:-]", match.group())
    return ", ".join([number(office), number(year), spaced(match["kind"].upper()), digits(case)])


def _case(match: re.Match[str]) -> str | None:
    if not led(match, _CASE_OF):
        return None
    number_ = match["number"]
    is_row = len(number_) > 4 or number_[0] == "0"
    said = digits(number_) if is_row else _named(number_) if number_[3:] else plain(number_)
    return f"{plain(match['year'])}, {said}"


def _run(part: str, parts: list[str], index: int, is_code: bool) -> str:
    if part[0] == "0" and len(part) > 1:
        return digits(part)
    is_lower_code = not part.endswith("00") and (
        index > 0 and parts[index - 1].islower() and len(parts[index - 1]) < 3 and len(part) > 2
    )
    if len(part) > 4 or is_lower_code:
        return digits(part)
    if len(part) == 4 and not (is_code or is_year(part)):
        return _named(part)
    return plain(part)


def _letters(part: str) -> str:
    """A row of capitals, or one without vowels, letter by letter, unless it is a word."""
    if len(part) < 2:
        return part
    return (
        acronym(part)
        if part.isupper()
        else spaced(part.upper())
        if _UNSAID.fullmatch(part)
        else part
    )


_UNSAID = pattern_of("[b-df-hj-np-tv-xz]{2,6}")  # "cv"
_TWO_JOINTS = InWord(r"[-/](?<=\w.)\w{1,12}[-/]\w", DIGIT)
_THOUSANDS = InWord(r"\d[kK]", DIGIT)
_HAS_DECIMAL_NAME = InWord(r"[A-Za-z]\d{1,9}\.\d", ".0")

CODES = (  # before dates and units
    Recogniser("number", DIGIT, _DOCKET, _docket, ":-"),
    Recogniser("number", DIGIT, _CASE, _case, "-", _CASE_NOUN),
    Recogniser("number", DIGIT, _OIL, lambda m: f"{number(m['cold'])} W {number(m['hot'])}", "-"),
    Recogniser("number", JOINED, _MIXED, _dictated, DIGIT, _CODE_NOUN),
    Recogniser(
        "number",
        DIGIT,
        _BITS,
        lambda m: "ones" if "1" in m.group() else "zeros",
        search=InWord(r"[01]s\b", DIGIT),
    ),
)
NAMES = (
    Recogniser("number", DIGIT + "#", _HEX, _hex, search=InWord(OneOf("0x", "#"), DIGIT)),
    Recogniser("number", DIGIT, _PLAN, _plan, FIGURES, LETTER_BEHIND),
    Recogniser("number", DIGIT, _STANDARD, _standard, FIGURES + "."),
    Recogniser("number", DIGIT, _AIRCRAFT, _aircraft, FIGURES),
    Recogniser("number", DIGIT, _PRODUCT, lambda m: _named(m.group()), FIGURES),
    Recogniser("number", DIGIT, _CLAUSE, _clause, "("),
    Recogniser("number", DIGIT, _RESOLUTION, _resolution, FIGURES, LETTER_BEHIND),
    Recogniser("number", DIGIT, _RACE, lambda m: f"{number(m['number'])} K", search=_THOUSANDS),
    Recogniser("number", DIGIT, _FOUR_K, lambda m: f"{number(m['number'])} K", search=_THOUSANDS),
    Recogniser(
        "number",
        DIGIT,
        _AGE,
        lambda m: f"{number(m['number'])} year old",
        search=OneOf("yo", "y/o"),
    ),
)
# After fractions: "a 5/8-inch bolt" is no serial.
SERIALS = (
    Recogniser("number", JOINED, _SERIAL, _serial, DIGIT, _TWO_JOINTS),
    Recogniser("number", JOINED, _NAMED, _decimal_name, DIGIT + ".", _HAS_DECIMAL_NAME),
    Recogniser("number", DIGIT, _CODED, lambda m: _named(m.group()), "-"),
    Recogniser("number", DIGIT, _LEADING, lambda m: _named(m.group()), "-" + CAPITAL),
    Recogniser("number", CAPITAL, _MODEL, _model, FIGURES),
    Recogniser("number", CAPITAL, _ISOTOPE, _isotope, "-" + DIGIT),
    Recogniser("number", DIGIT, _PLAYERS, _players, search=InWord(r"\d-?er", DIGIT)),
    Recogniser(
        "number", DIGIT, _PLURAL, _plural, search=InWord(r"s(?:(?<=\ds)|(?<=\d['’]s))", DIGIT)
    ),
)
# After ranges.
MIXED = (Recogniser("number", JOINED, _MIXED, _mixed, DIGIT),)
