"""English: abbreviations, initials, acronyms and words in capitals.

The bundled voice was never trained on spelled acronyms, so each becomes single letters ("F B I")
or a word ("Nasa"); words shouted in capitals become words. Abbreviation names are shared with the
segmenter through `ABBREVIATIONS`. Knows no grammar: the common reading wins.
"""

from __future__ import annotations

import re

from voxcli.text.changes import Draft
from voxcli.text.units import alternatives

_TITLES = {
    "Mr": "Mister", "Mrs": "Missus", "Ms": "Miz", "Dr": "Doctor", "Prof": "Professor",
    "Rev": "Reverend", "Hon": "Honorable", "Gen": "General", "Col": "Colonel", "Capt": "Captain",
    "Lt": "Lieutenant", "Sgt": "Sergeant", "Maj": "Major", "Gov": "Governor", "Sen": "Senator",
    "Rep": "Representative", "Pres": "President", "Fr": "Father", "Messrs": "Messieurs",
    "Mt": "Mount", "Ft": "Fort",
}  # fmt: skip
_PLAIN = {
    "e.g": "for example", "i.e": "that is", "E.g": "For example", "I.e": "That is",
    "etc": "et cetera", "vs": "versus", "cf": "compare", "approx": "approximately",
    "dept": "department", "Dept": "Department", "est": "established", "a.k.a": "also known as",
    "aka": "also known as", "ca": "circa", "esp": "especially", "incl": "including",
    "excl": "excluding", "viz": "namely", "et al": "and others", "misc": "miscellaneous",
    "max": "maximum", "min": "minimum", "avg": "average", "appt": "appointment",
    "ext": "extension", "govt": "government", "Inc": "Incorporated", "Ltd": "Limited",
    "Co": "Company", "Corp": "Corporation", "Bros": "Brothers", "Jr": "Junior", "Sr": "Senior",
    "Esq": "Esquire", "Ave": "Avenue", "Blvd": "Boulevard", "Rd": "Road", "Ln": "Lane",
    "Hwy": "Highway", "Sq": "Square", "Apt": "Apartment", "Univ": "University",
    "Assn": "Association", "Jan": "January", "Feb": "February", "Aug": "August",
    "Sept": "September", "Sep": "September", "Oct": "October", "Nov": "November",
    "Dec": "December", "Mon": "Monday", "Tue": "Tuesday", "Tues": "Tuesday", "Wed": "Wednesday",
    "Thu": "Thursday", "Thurs": "Thursday", "Fri": "Friday",
}  # fmt: skip
_NUMBERED = {
    "Vol": "Volume", "vol": "volume", "Fig": "Figure", "fig": "figure", "Figs": "Figures",
    "Ch": "Chapter", "ch": "chapter", "Sec": "Section", "sec": "section", "p": "page",
    "pp": "pages", "Eq": "Equation", "Art": "Article", "art": "article", "Ed": "Edition",
    "No": "number", "no": "number", "Nos": "numbers", "nos": "numbers", "Tab": "Table",
    "Pt": "Part", "pt": "part",
}  # fmt: skip
# Lower-case forms without the last full stop; the segmenter never ends a sentence on one of these.
ABBREVIATIONS = frozenset(
    {name.lower() for name in (*_TITLES, *_PLAIN, *_NUMBERED)}
    | {
        "st",
        "al",
        "u.s",
        "u.k",
        "ph.d",
        "m.d",
        "b.a",
        "a.m",
        "p.m",
        "in",
        "lb",
        "lbs",
        "oz",
        "ft",
        "yd",
        "hr",
        "hrs",
    }
) - {"no", "art", "in", "tab", "ed", "sec", "max", "sq", "fri", "mon", "wed", "co", "est"}
# ... except these, which end one as well when a capital follows.
SENTENCE_ENDING = frozenset(
    {"etc", "inc", "ltd", "corp", "jr", "sr", "esq", "a.m", "p.m", "ave", "blvd", "rd"}
)

_TITLE = re.compile(rf"(?<![\w.])(?P<name>{'|'.join(_TITLES)})\.(?=\s+(?:[A-Z]|and M))")
_TITLE_BARE = re.compile(r"(?<![\w.])(?P<name>Mr|Mrs|Ms|Dr)(?=\s+[A-Z][a-z]*)")
_PLAIN_PATTERN = re.compile(
    rf"(?<![\w.])(?P<name>{alternatives(_PLAIN)})"
    r"(?P<dot>\.|\b(?<=vs|ka))(?!\w)(?=(?P<ends>[\"')\]]{0,3}(?:\Z|\n|\s+[\"'(]?[A-Z]))?)"
)
_EG_BARE = re.compile(r"(?<![\w.])(?P<name>eg|ie)(?=[,:])")
_NUMBERED_PATTERN = re.compile(rf"(?<![\w.])(?P<name>{'|'.join(_NUMBERED)})\.(?=\s?\d)")
_SAINT = re.compile(
    r"(?P<before>(?<![\w.])(?:[A-Z][a-z]{1,30}|\d{1,4}(?:st|nd|rd|th))\s)?\bSt\.(?P<after>\s+[A-Z])?"
)
_DRIVE = re.compile(
    r"(?<![\w.])(?P<before>(?:[A-Z][a-z]{1,30}) )Dr\.(?:(?=\s*(?P<more>[,;]))|(?=\s*(?:$|\n)))"
)
_NOT_A_STREET_LIST = "In At To The From Of And Near On For By With Visit See Saint When Is Was But"
_NOT_A_STREET = frozenset(_NOT_A_STREET_LIST.split())
_STARTERS_LIST = (
    "A An The He She It We They I You This That These Those There Then When If But And So Or In On "
    "At For From To As What Why How Who Where His Her My Our Your Their Its No Not Yes Now Please"
)
# Words that open a sentence: after "Plan B." they show that it ended, after "J." that it goes on.
SENTENCE_STARTERS = frozenset(_STARTERS_LIST.split())
_INITIALS = re.compile(
    rf"(?<![\w.])(?<![A-Z] )(?P<letters>(?:[A-Z]\.\s?){{1,4}})"
    rf"(?=[A-Z][a-z'’]+)(?!(?:{'|'.join(_STARTERS_LIST.split())})\b)"
)
_DOTTED = re.compile(
    r"(?<![\w.])(?P<letters>(?:[A-Z]\.){1,6}[A-Z])(?P<dot>\.?)(?P<suffix>'s)?(?!\w)"
)
_DEGREE = re.compile(r"(?<![\w.])(?P<name>Ph\.?D|M\.?Sc|B\.?Sc|M\.D|LL\.?M)(?P<dot>\.?)(?!\w)")

_WORDS = {
    "OK": "okay", "ASCII": "askey", "JPEG": "jay peg", "JSON": "jason", "SQL": "sequel",
    "GUI": "gooey", "YAML": "yamel", "GIF": "gif", "RAM": "ram", "ROM": "rom", "PIN": "pin",
    "SIM": "sim", "LAN": "lan", "WAN": "wan", "SIDS": "sids", "AIDS": "aids", "ZIP": "zip",
    "MIDI": "middy", "CAD": "cad", "MIT": "M I T", "WYSIWYG": "wizzy wig", "ASAP": "A S A P",
    "AKA": "also known as", "VS": "versus", "ETA": "E T A",
}  # fmt: skip
_SPELLED_LIST = (
    "UK EU UN USA FBI CIA USB CPU GPU API URL PDF TV AI IBM BBC CNN NBA NFL DVD CD PC ID IQ UFO "
    "DIY FAQ CEO CFO CTO ATM VIP GPS DNA RNA HIV UAE NYC USSR UCLA YMCA YWCA NAACP IEEE ISBN "
    "USPS AARP ESPN UEFI IAEA AAAS AIIMS EULA IUCN OECD ACLU USMC USDA USAF ICAO IATA"
)
_SPELLED = frozenset(_SPELLED_LIST.split())
_SHORT_WORDS_LIST = (
    "NO YES NOT ALL AND THE BUT FOR YOU ARE WAS NOW NEW OUT ONE TWO SIX TEN OFF TOO WHO WHY HOW "
    "CAN MAY GO DO SO UP WE HE SHE IT IS IN ON AT BY TO OF OR IF AS AN BE ME MY HIS HER ITS OUR "
    "HAS HAD DID GET GOT LET SAY SEE RUN BIG BAD OLD DAY MAN BOY END WAR RED HOT TOP WIN FUN "
    "TRY USE ANY FEW HEY OH AH HA WOW OW BOO BYE AGO AIR ASK BAR BED BIT BOX BUY CAR CAT CUT "
    "DOG EAT EGG EYE FAR FIT FLY GUN GUY HIM HIT JOB KEY LAW LAY LEG LIE LOT LOW MAD MOM DAD "
    "NOR OIL OWN PAY PUT RAW SAD SAT SEA SET SIR SIT SKY SON SUN TAX TEA THY TOY VAN WAY WET "
    "WON YET ZOO FREE"
)
_SHORT_WORDS = frozenset(_SHORT_WORDS_LIST.split())
_CAPITALS = r"[A-Z]{2,30}(?:['’][A-Z]{1,4})?"
_SHOUT = re.compile(
    rf"(?<!\w){_CAPITALS}(?:[ ,!?.\-\n]{{1,3}}(?:{_CAPITALS}|[IA](?![\w.]))(?!\w)){{2,400}}(?!\w)"
)
_ACRONYM = re.compile(r"(?<!\w)(?P<letters>[A-Z]{2,30})(?P<suffix>s|['’]s|['’]d)?(?!\w|['’]\w)")
_AMPERSAND = re.compile(r"(?<!\w)(?P<a>[A-Z]{1,3})&(?P<b>[A-Z]{1,3})(?!\w)")
_IT = re.compile(
    r"\bIT(?= (?:department|team|support|staff|manager|sector|industry|system|security|desk)s?\b)"
)
_VOWEL = re.compile("[AEIOUY]")


def abbreviations(draft: Draft) -> None:
    """Say titles, Latin abbreviations, company forms, initials and degrees."""
    draft.sub(
        _AMPERSAND, lambda m: _spaced(m.group("a")) + " and " + _spaced(m.group("b")), "acronym"
    )
    draft.sub(
        _DRIVE,
        lambda m: f"{m.group('before')}Drive" + ("" if m.group("more") else "."),
        "abbreviation",
    )
    draft.sub(_SAINT, _saint, "abbreviation")
    draft.sub(_NUMBERED_PATTERN, lambda m: f"{_NUMBERED[m.group('name')]} ", "abbreviation")
    draft.sub(_TITLE, lambda m: _TITLES[m.group("name")], "abbreviation")
    draft.sub(_TITLE_BARE, lambda m: _TITLES[m.group("name")], "abbreviation")
    draft.sub(_PLAIN_PATTERN, _plain, "abbreviation")
    draft.sub(_EG_BARE, lambda m: _PLAIN[".".join(m.group("name"))], "abbreviation")
    draft.sub(
        _DEGREE,
        lambda m: _spaced(m.group("name").replace(".", "").upper()) + _stop(m),
        "abbreviation",
    )
    draft.sub(
        _DOTTED,
        lambda m: f"{_spaced(m.group('letters'))}{m.group('suffix') or ''}{_stop(m)}",
        "acronym",
    )
    draft.sub(_INITIALS, lambda m: f"{_spaced(m.group('letters'))} ", "abbreviation")


def acronyms(draft: Draft) -> None:
    """Say words in capitals: as a word where it is one, else letter by letter."""
    draft.sub(_IT, "I T", "acronym")
    draft.sub(_SHOUT, _shout, "capitals")
    draft.sub(_ACRONYM, _acronym, "acronym")


def _spaced(letters: str) -> str:
    return " ".join(c for c in letters if c.isalpha())


def _stop(match: re.Match[str]) -> str:
    """The full stop again, where the abbreviation also ended the sentence."""
    ends = re.compile(r"[\"')\]]{0,3}(?:\Z|\n)").match(match.string, match.end())
    return "." if match.group("dot") and ends else ""


def _plain(match: re.Match[str]) -> str:
    name, ends = match.group("name"), match.group("ends")
    if not match.group("dot") or ends is None:
        return _PLAIN[name]
    closes = not ends[-1:].isalpha() or name.lower() in SENTENCE_ENDING
    return f"{_PLAIN[name]}{'.' if closes else ''}"


def _saint(match: re.Match[str]) -> str:
    before, after = match.group("before") or "", match.group("after") or ""
    if after and before.strip() in ("", *_NOT_A_STREET):
        return f"{before}Saint{after}"
    stop = "." if re.compile(r"\s*(?:\n|\Z)").match(match.string, match.end()) else ""
    return f"{before}Street{stop}{after}"


def _shout(match: re.Match[str]) -> str:
    def lower(word: re.Match[str]) -> str:
        text = word.group()
        if (
            text in _SPELLED
            or text in _WORDS
            or text == "I"
            or (not _VOWEL.search(text) and len(text) > 1)
        ):
            return text  # left for the acronym rule
        return text.lower()

    spoken = re.sub(r"[A-Z]+(?:['’][A-Z]+)?", lower, match.group())
    return re.sub(r"(?:^|[.!?] )[a-z]", lambda first: first.group().upper(), spoken)


def _acronym(match: re.Match[str]) -> str:
    letters, suffix = match.group("letters"), match.group("suffix") or ""
    if suffix == "s":
        suffix = "'s" if not _is_word(letters) else "s"
    if letters in _WORDS:
        return _WORDS[letters] + suffix
    if _is_word(letters):
        return (letters.lower() if letters in _SHORT_WORDS else letters.capitalize()) + suffix
    return _spaced(letters) + suffix


def _is_word(letters: str) -> bool:
    if letters in _SPELLED:
        return False
    if letters in _SHORT_WORDS:
        return True
    return (
        len(letters) > 3
        and bool(_VOWEL.search(letters))
        and not re.search(r"[^AEIOUY]{5}", letters)
    )
