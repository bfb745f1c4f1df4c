"""English: abbreviations, titles, initials and letters with stops.

What an abbreviation is depends on what stands after it: "Dr. Lee", "Lake Dr.", "No. 5". Names are
shared with the segmenter through `ABBREVIATIONS`. Knows no grammar: the common reading wins.
"""

from __future__ import annotations

import re

from voxcli.text.patterns import pattern_of
from voxcli.text.tagger import CAPITAL, SMALL, STOPPED, InWord, Recogniser, ends_sentence

TITLES = {
    "Mr": "Mister", "Mrs": "Missus", "Ms": "Miz", "Dr": "Doctor", "Prof": "Professor",
    "Rev": "Reverend", "Hon": "Honorable", "Gen": "General", "Col": "Colonel", "Capt": "Captain",
    "Lt": "Lieutenant", "Sgt": "Sergeant", "Maj": "Major", "Gov": "Governor", "Sen": "Senator",
    "Rep": "Representative", "Pres": "President", "Fr": "Father", "Messrs": "Messieurs",
    "Mt": "Mount", "Ft": "Fort", "Pvt": "Private", "Adm": "Admiral", "Supt": "Superintendent",
    "Cpl": "Corporal", "Cmdr": "Commander", "Treas": "Treasurer",
    "Rt": "Right", "Cdr": "Commander", "Brig": "Brigadier",
    "Insp": "Inspector", "Atty": "Attorney", "Amb": "Ambassador", "Det": "Detective",
    "Sts": "Saints", "Drs": "Doctors", "Ste": "Sainte", "Profs": "Professors", "Gens": "Generals",
    "Reps": "Representatives", "Sens": "Senators", "Mses": "Mizzes", "Mmes": "Mesdames",
    "Pfc": "Private First Class", "Asst": "Assistant", "Assoc": "Associate",
    "Dir": "Director", "Br": "Brother", "Ald": "Alderman", "Cllr": "Councillor",
    "Spc": "Specialist",
    "Sec": "Secretary", "Dep": "Deputy", "Bp": "Bishop", "Abp": "Archbishop", "Card": "Cardinal",
    "Msgr": "Monsignor", "Ens": "Ensign", "Mme": "Madame", "Mlle": "Mademoiselle",
}  # fmt: skip
_PLAIN = {
    "e.g": "for example", "i.e": "that is", "E.g": "For example", "I.e": "That is",
    "resp": "respectively", "elev": "elevation", "acct": "account", "Acct": "Account",
    "etc": "et cetera", "vs": "versus", "cf": "compare", "approx": "approximately",
    "dept": "department", "Dept": "Department", "est": "established", "a.k.a": "also known as",
    "aka": "also known as", "ca": "circa", "esp": "especially", "incl": "including",
    "excl": "excluding", "viz": "namely", "et al": "and others", "misc": "miscellaneous",
    "doz": "dozen",
    "max": "maximum", "min": "minimum", "avg": "average", "appt": "appointment",
    "ext": "extension", "govt": "government", "Inc": "Incorporated", "Ltd": "Limited",
    "Co": "Company", "Corp": "Corporation", "Bros": "Brothers", "Jr": "Junior", "Sr": "Senior",
    "Esq": "Esquire", "Ave": "Avenue", "Blvd": "Boulevard", "Rd": "Road", "Ln": "Lane",
    "Hwy": "Highway", "Sq": "Square", "Pkwy": "Parkway", "Expy": "Expressway",
    "Apt": "Apartment", "Univ": "University",
    "Assn": "Association", "Jan": "January", "Feb": "February", "Aug": "August",
    "Sept": "September", "Sep": "September", "Oct": "October", "Nov": "November",
    "Dec": "December", "Mon": "Monday", "Tue": "Tuesday", "Tues": "Tuesday", "Wed": "Wednesday",
    "Thu": "Thursday", "Thurs": "Thursday", "Fri": "Friday",
}  # fmt: skip
NUMBERED = {
    "Vol": "Volume", "vol": "volume", "Fig": "Figure", "fig": "figure", "Figs": "Figures",
    "Ch": "Chapter", "ch": "chapter", "Sec": "Section", "sec": "section", "p": "page",
    "Rt": "Route", "Rte": "Route", "Op": "Opus", "op": "opus", "Amend": "Amendment",
    "Ex": "Exhibit", "Prop": "Proposition",
    "Reg": "Regulation", "Vit": "Vitamin", "ed": "edition", "Pl": "Plate", "App": "Appendix",
    "Sched": "Schedule", "Bldg": "Building", "Fl": "Floor", "temp": "temperature",
    "Tel": "Telephone", "tel": "telephone", "Cl": "Clause", "cl": "clause", "Que": "Question",
    "Ser": "Series",
    "Hwy": "Highway", "mvt": "movement",
    "pp": "pages", "Pp": "pages", "P": "page", "para": "paragraph", "paras": "paragraphs",
    "ll": "lines", "eq": "equation", "chap": "chapter", "Chap": "Chapter", "vols": "volumes",
    "Vols": "Volumes", "figs": "figures", "Secs": "Sections", "Apt": "Apartment", "Ste": "Suite",
    "Rm": "Room", "Ext": "extension", "ext": "extension", "Bk": "Book", "Nr": "number",
    "Eq": "Equation", "Art": "Article", "art": "article", "Ed": "Edition",
    "No": "number", "no": "number", "Nos": "numbers", "nos": "numbers", "Tab": "Table",
    "Pt": "Part", "pt": "part",
}  # fmt: skip
# Lower-case forms without the last full stop; the segmenter never ends a sentence on one of these.
ABBREVIATIONS = frozenset(
    {name.lower() for name in (*TITLES, *_PLAIN, *NUMBERED)}
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
# Short forms of plain words as a line of capitals has them
LOUD_SHORT = {
    name.upper(): said
    for name, said in _PLAIN.items()
    if name in ABBREVIATIONS and name.isalpha() and said.islower()
}

ROADS = {
    "Dr": "Drive", "Pl": "Place", "Ct": "Court", "Cir": "Circle", "Ter": "Terrace",
    "Ave": "Avenue", "Blvd": "Boulevard", "Rd": "Road", "Ln": "Lane", "Hwy": "Highway",
    "Pkwy": "Parkway", "Expy": "Expressway", "Sq": "Square", "Sta": "Station",
}  # fmt: skip
_SINCE = pattern_of(r"\s(?:in\s|c\.?\s|ca\.?\s)?['’]?\d{2}")  # "est. 1990"
_NAMES = {name.lower() for name in (*TITLES, *_PLAIN, *NUMBERED, *ROADS)} | {"st"}
_ET_AL = pattern_of(r"(?<![\w.])(?P<name>et al)\.(?!\w)")
_ABBREVIATION = pattern_of(r"(?<![\w.])(?P<name>[A-Za-z]{1,8}(?:\.[A-Za-z]){0,2})\.(?!\w)")
_GLUED = pattern_of(
    rf"(?<![\w.])(?P<name>{'|'.join(NUMBERED)}|{'|'.join(TITLES)})\.(?=\d|(?<=Dr\.|Mr\.)[A-Z])"
)
_BARE = pattern_of(
    r"(?<![\w.])(?:(?P<title>(?:Mr|Mrs|Ms|Dr|Prof)(?=\s+[A-Z][a-z]*)|(?:Capt|Lt|Sgt|Col|Cpl|"
    r"Maj|Gov|Pvt|Adm)(?=\s[A-Z][a-z]))|"
    r"(?P<saint>St)(?=\s[A-Z][a-z]{2})|(?P<route>Hwy|Rte|Apt|Ste|Rm|Bldg|Ext)(?=\s#?\d)|"
    r"(?P<road>(?:Ave|Blvd|Pkwy|Hwy|Expy|Rd)(?![\w.])|St(?=[,;]|\.?\s*\Z|\.?\n))|(?P<vs>vs|"
    r"VS)(?=\s)|(?P<aka>aka)\b|"
    r"(?P<latin>eg|ie)(?=[,:]))"
)
_HAS_BARE = pattern_of(
    r"[A-Zvk,:](?:(?<=M)(?:r|s\s|aj\s)|(?<=D)r|(?<=P)(?:r|vt\s|kwy)|(?<=C)(?:apt|ol|pl)\s|"
    r"(?<=L)t\s|(?<=S)(?:gt\s|t)|(?<=G)ov\s|(?<=A)(?:dm\s|ve|pt)|(?<=B)(?:lvd|ldg)|(?<=H)wy|"
    r"(?<=E)x(?:py|t)|(?<=R)(?:d|te|m)|(?<=V)S|(?<=v)s|(?<=ak)a|(?<=eg[,:])|(?<=ie[,:]))"
)
_TITLED = pattern_of(r"\s+(?:[A-Z]|and [MD]|of State)|/(?:Mrs?|Ms|Dr)\.?\s+[A-Z]")
_LETTER = pattern_of(r"\s?(?:\d|[IVX]{2,}\b|[A-Z]-?\d|[A-Z]\b)")
_LETTERED = (
    "Ex",
    "Bldg",
    "Vit",
    "App",
    "Sched",
    "Fig",
    "fig",
    "Tab",
    "Pl",
    "Apt",
    "Ste",
    "Rm",
)  # "Ex. B"
_COUNTING = pattern_of(r"\s?(?:\d|\(\d{1,3}\)|[IVX]{2,}\b|[A-Z]-?\d)")
_PLACED = pattern_of(r"(?:\b(?P<word>[A-Z][a-z]{1,30})|\b\d{1,4}(?:st|nd|rd|th))\s$")
_COURT = pattern_of(r"(?:\b\d{1,2}(?:st|nd|rd|th|d)|\bFed\.|\bD\.C\.)\s$")  # "the 9th Cir."
_NOT_A_STREET_LIST = "In At To The From Of And Near On For By With Visit See Saint When Is Was But"
_NOT_A_STREET = frozenset(_NOT_A_STREET_LIST.split())
_BEFORE_SAINT = pattern_of(r"\b(?:Port|Fort|East|West|North|South|Lake|Bay|Mount|Sault) $")
_STARTERS_LIST = (
    "A An The He She It We They I You This That These Those There Then When If But And So Or In On "
    "At For From To As What Why How Who Where His Her My Our Your Their Its No Not Yes Now Please "
    "After Before While Since Although Because Some Many Most All Each Every One Two It's He's "
    "She's They're We're I'm There's That's Here However Later Next Today Do Does Did Is Are Was "
    "Can Could Would Will Let Nobody Everyone Meanwhile Finally First Perhaps Maybe Only Even"
)
# Words that open a sentence: after "Plan B." they show that it ended, after "J." that it goes on.
SENTENCE_STARTERS = frozenset(_STARTERS_LIST.split())
_STARTER = "|".join(map(re.escape, _STARTERS_LIST.split()))
_INITIALS = pattern_of(
    rf"(?<![\w.])(?<![A-Z] )(?P<letters>(?:[A-Z]\.\s?){{1,4}})"
    rf"(?=[A-Z][a-z'’]+)(?!(?:{_STARTER}|Mrs?|Ms|Dr|Prof)\b)"
)
_DOTTED = pattern_of(
    r"(?<![\w.])(?P<letters>(?:[A-Z]\.){1,6}[A-Z])(?P<dot>\.?)(?P<suffix>['’]?s)?"
    r"(?:(?!\w)|(?<=\.)(?=[A-Za-z][a-z]))"  # "U.S.Army" is glued
)
_DEGREE = pattern_of(
    r"(?<![\w.])(?P<name>Ph\.?D|M\.?Sc|B\.?Sc|M\.D|LL\.?M)(?P<dot>\.?)(?P<plural>s)?(?!\w)"
)
STARTS = pattern_of(rf"[\"')\]]{{0,3}}(?:\s*\Z|\s*\n|\s*[\"'(“]?(?:{_STARTER})\b)")

_AMPERSAND = pattern_of(r"(?<!\w)(?P<a>[A-Z]{1,3})&(?P<b>[A-Z]{1,3})(?!\w)")


def spaced(letters: str) -> str:
    """ "F.B.I" is "F B I"."""
    return " ".join(c for c in letters if c.isalpha())


def _stop(match: re.Match[str]) -> str:
    """The full stop again, where the abbreviation also ended the sentence."""
    if not match["dot"] or not STARTS.match(match.string, match.end()):
        return ""
    return ". " if match.string[match.end() : match.end() + 1].isalpha() else "."


def _abbreviation(match: re.Match[str]) -> str | None:
    """One of the lists, by what stands after it."""
    name = match["name"]
    if name.lower() not in _NAMES:
        return None
    string, end = match.string, match.end()
    if name.capitalize() == "St":
        return _saint(match)
    if name in NUMBERED and (_LETTER if name in _LETTERED else _COUNTING).match(string, end):
        return f"{NUMBERED[name]}{'' if string[end].isspace() else ' '}"
    if name == "Cir" and _COURT.search(string[max(0, match.start() - 8) : match.start()]):
        return "Circuit"
    if name in ROADS and _placed(match) and not (_TITLED.match(string, end) and name == "Dr"):
        is_end = STARTS.match(string, end) is not None
        return f"{ROADS[name]}{'.' if is_end else ''}"
    if name == "dr" and not _TITLED.match(string, end):
        return "doctor"
    if name in TITLES and _TITLED.match(string, end):
        return TITLES[name]
    if name == "est" and not _SINCE.match(match.string, match.end()):
        return "estimated"
    if name in _PLAIN:
        closes = ends_sentence(match) and (
            name.lower() in SENTENCE_ENDING - {"jr", "sr"} or bool(STARTS.match(string, end))
        )
        return f"{_PLAIN[name]}{'.' if closes else ''}"
    return None


def _placed(match: re.Match[str]) -> bool:
    """Whether the name of a street stands before."""
    found = _PLACED.search(match.string[max(0, match.start() - 32) : match.start()])
    return found is not None and found["word"] not in _NOT_A_STREET


def _bare(match: re.Match[str]) -> str | None:
    if match["title"]:
        return TITLES[match["title"]]
    if match["route"]:
        return NUMBERED[match["route"]]
    if match["saint"]:
        return None if _placed(match) else "Saint"
    if match["road"]:
        return ({"St": "Street"} | ROADS)[match["road"]] if _placed(match) else None
    return _PLAIN["vs" if match["vs"] else "aka" if match["aka"] else ".".join(match["latin"])]


def _saint(match: re.Match[str]) -> str | None:
    is_named = re.compile(r"\s+[A-Z]").match(match.string, match.end())
    if is_named and (
        not _placed(match)
        or _BEFORE_SAINT.search(match.string[max(0, match.start() - 8) : match.start()])
    ):
        return "Saint" if match["name"] == "St" else None
    if not _placed(match):
        return None
    return "Street." if STARTS.match(match.string, match.end()) else "Street"


ABBREVIATED = (
    Recogniser(
        "acronym", CAPITAL, _AMPERSAND, lambda m: f"{spaced(m['a'])} and {spaced(m['b'])}", "&"
    ),
    Recogniser(
        "abbreviation",
        CAPITAL,
        _DEGREE,
        lambda m: spaced(m["name"].replace(".", "").upper()) + ("'s" if m["plural"] else _stop(m)),
        search=InWord(r"[DcM]s?\b", CAPITAL),
    ),
    Recogniser(
        "acronym",
        CAPITAL,
        _DOTTED,
        lambda m: f"{spaced(m['letters'])}{chr(39) + 's' if m['suffix'] else _stop(m)}",
        ".",
        InWord(r"[A-Z]\.[A-Z]", ".A"),
    ),
    Recogniser("abbreviation", STOPPED, _ABBREVIATION, _abbreviation),
    Recogniser("abbreviation", SMALL, _ET_AL, _abbreviation, ".", InWord(r"\bal\.", ".")),
    Recogniser(
        "abbreviation",
        CAPITAL + SMALL,
        _GLUED,
        lambda m: f"{NUMBERED.get(m['name']) or TITLES[m['name']]} ",
        ".",
        InWord(r"\.(?<=[A-Za-z]\.)[\dA-Z]", "."),
    ),
    Recogniser("abbreviation", CAPITAL + SMALL, _BARE, _bare, search=_HAS_BARE),
    Recogniser(
        "abbreviation",
        CAPITAL,
        _INITIALS,
        lambda m: f"{spaced(m['letters'])} ",
        ".",
        InWord(r"\.(?<=[A-Z]\.)(?<!\w..)", ".A"),
    ),
)
