"""English: addresses of places: numbers of houses, kinds of streets, states and their postal codes.

Knows the United States by custom; a street of another country is only a name.
"""

from __future__ import annotations

import re

from voxcli.text.patterns import pattern_of
from voxcli.text.serials import house
from voxcli.text.spell import cardinal, digits, ordinal
from voxcli.text.tagger import CAPITAL, DIGIT, FIGURES, InWord, Recogniser, ends_sentence
from voxcli.text.words import STARTS

_KINDS = {
    "st": "Street", "ave": "Avenue", "rd": "Road", "blvd": "Boulevard", "dr": "Drive",
    "ln": "Lane", "ct": "Court", "pl": "Place", "hwy": "Highway", "expy": "Expressway",
    "pkwy": "Parkway", "sq": "Square", "cir": "Circle", "ter": "Terrace", "trl": "Trail",
}  # fmt: skip
_SIDES = {
    "N": "North", "S": "South", "E": "East", "W": "West", "NE": "Northeast", "NW": "Northwest",
    "SE": "Southeast", "SW": "Southwest",
}  # fmt: skip
_STATES = {
    "AL": "Alabama", "AK": "Alaska", "AZ": "Arizona", "AR": "Arkansas", "CA": "California",
    "CO": "Colorado", "CT": "Connecticut", "DE": "Delaware", "FL": "Florida", "GA": "Georgia",
    "HI": "Hawaii", "ID": "Idaho", "IL": "Illinois", "IN": "Indiana", "IA": "Iowa", "KS": "Kansas",
    "KY": "Kentucky", "LA": "Louisiana", "ME": "Maine", "MD": "Maryland", "MA": "Massachusetts",
    "MI": "Michigan", "MN": "Minnesota", "MS": "Mississippi", "MO": "Missouri", "MT": "Montana",
    "NE": "Nebraska", "NV": "Nevada", "NH": "New Hampshire", "NJ": "New Jersey",
    "NM": "New Mexico", "NY": "New York", "NC": "North Carolina", "ND": "North Dakota",
    "OH": "Ohio", "OK": "Oklahoma", "OR": "Oregon", "PA": "Pennsylvania", "RI": "Rhode Island",
    "SC": "South Carolina", "SD": "South Dakota", "TN": "Tennessee", "TX": "Texas", "UT": "Utah",
    "DC": "D C", "VT": "Vermont", "VA": "Virginia", "WA": "Washington", "WV": "West Virginia",
    "WI": "Wisconsin", "WY": "Wyoming",
}  # fmt: skip
_WHOLE = "|".join(sorted(set(_KINDS.values()) - {"Court", "Place", "Square"}))
_KIND = rf"(?P<kind>(?i:{'|'.join(_KINDS)})\b|{_WHOLE})"
_SIDE = "(?:N|S|E|W|NE|NW|SE|SW)"
_STREET = pattern_of(
    rf"(?<![\w.,$€£/-])(?P<house>\d{{1,5}})(?P<letter>[A-Z])?\s(?:(?P<side>{_SIDE})\.?\s)?"
    rf"(?P<names>(?:(?:[A-Z][a-z'’]{{1,20}}|\d{{1,3}}(?:st|nd|rd|th))\s){{1,4}}){_KIND}(?P<dot>\.?)"
    rf"(?:\s(?P<last>{_SIDE})\b(?!\.?\s[A-Z][a-z]+\s(?:St|Ave|Rd)))?(?!\w)"
)
_STATE = pattern_of(
    rf"(?P<state>(?!ID\b(?<!, ID))(?:{'|'.join(_STATES)}))(?P<gap>,?\s)"  # "my ID 12345"
    r"(?P<zip>\d{5}(?:-\d{4})?)(?![\w-])"
)
_STATE_ALONE = pattern_of(
    rf"(?<=[a-z], )(?P<state>{'|'.join(_STATES)})(?=[,.;:)]|\s*$|\s*\n|\s(?:and|in|on|to|for|"
    r"is|was|at|when|where|with|before|after|from|has|by)\b)",
    re.MULTILINE,
)
_POSTAL = pattern_of(
    r"(?<!\w)(?:(?P<state>ON|QC|BC|AB|MB|SK|NS|NB|NL|"
    r"PE)\s)?(?P<first>[A-Z]\d[A-Z])\s(?P<last>\d[A-Z]\d)(?!\w)"
)
_BRITISH = pattern_of(r"(?<!\w)(?P<first>[A-Z]{1,2}\d[A-Z\d]?)\s(?P<last>\d[A-Z]{2})(?!\w)")
_ZIP = pattern_of(
    r"(?<![\w.,$€£/-])(?P<zip>\d{5}-\d{4}|\d{5}(?=\s(?:area|zip|postal code)\b))(?![\w-]|[.,]\d)"
)
_SHORT_STATE = pattern_of(
    r"(?<=, )(?P<state>Ala|Ariz|Ark|Calif|Colo|Conn|Del|Fla|Ga|Ill|Ind|Kan|Ky|La|Mass|Md|Mich|"
    r"Minn|Miss|Mo|"
    r"Mont|Neb|Nev|Okla|Ore|Pa|Tenn|Tex|Va|Vt|Wash|Wis|Wyo)\.(?:(?P<gap>\s)(?P<zip>\d{5}))?(?!\w)"
)
_SHORT_STATES = {
    "Ala": "AL", "Ariz": "AZ", "Ark": "AR", "Calif": "CA", "Colo": "CO", "Conn": "CT", "Del": "DE",
    "Fla": "FL", "Ga": "GA", "Ill": "IL", "Ind": "IN", "Kan": "KS", "Ky": "KY", "La": "LA",
    "Mass": "MA", "Md": "MD", "Mich": "MI", "Minn": "MN", "Miss": "MS", "Mo": "MO", "Mont": "MT",
    "Neb": "NE", "Nev": "NV", "Okla": "OK", "Ore": "OR", "Pa": "PA", "Tenn": "TN", "Tex": "TX",
    "Va": "VA", "Vt": "VT", "Wash": "WA", "Wis": "WI", "Wyo": "WY",
}  # fmt: skip
_PROVINCES = {
    "ON": "Ontario", "QC": "Quebec", "BC": "British Columbia", "AB": "Alberta", "MB": "Manitoba",
    "SK": "Saskatchewan", "NS": "Nova Scotia", "NB": "New Brunswick", "NL": "Newfoundland",
    "PE": "Prince Edward Island",
}  # fmt: skip
_SIDE_OF = pattern_of(
    rf"(?<![\w.])(?<!\d )(?P<side>{_SIDE})\.?(?=\s(?:[A-Z][a-z]{{2,20}}|\d{{1,3}}(?:st|nd|rd|"
    rf"th))\s{_KIND})"
)
_ROUTE = pattern_of(r"(?<!\w)(?P<road>I|US|SR)-(?P<number>\d{1,3})(?P<side>[NSEW])?(?!\w)")


def _street(match: re.Match[str]) -> str:
    kind = _KINDS.get(match["kind"].lower(), match["kind"])
    names = re.sub(r"(\d+)(?:st|nd|rd|th)", lambda m: ordinal(int(m[1])), match["names"]).strip()
    rest = STARTS.match(match.string, match.end())
    parts = [
        house(match["house"]),
        match["letter"] or "",
        _SIDES[match["side"]] if match["side"] else "",
        names,
        kind,
        _SIDES[match["last"]] if match["last"] else "",
    ]
    stop = "." if match["dot"] and rest and not match["last"] else ""
    return " ".join(filter(None, parts)) + stop


def _zip(written: str) -> str:
    return ", dash ".join(map(digits, written.split("-")))


def _postal(match: re.Match[str]) -> str:
    """Letters and figures one by one: "K one A, zero B one"."""
    parts = [
        " ".join(digits(char) if char.isdecimal() else char for char in match[name])
        for name in ("first", "last")
    ]
    state = match.groupdict().get("state")
    return f"{_PROVINCES[state]} {', '.join(parts)}" if state else ", ".join(parts)


def _short_state(match: re.Match[str]) -> str:
    tail = f" {_zip(match['zip'])}" if match["zip"] else ""
    stop = "." if not tail and ends_sentence(match) else ""
    return f"{_STATES[_SHORT_STATES[match['state']]]}{tail}{stop}"


def _route(match: re.Match[str]) -> str:
    road = {"I": "I", "US": "U S", "SR": "S R"}[match["road"]]
    side = f" {_SIDES[match['side']]}" if match["side"] else ""
    return f"{road}-{cardinal(int(match['number']))}{side}"


_HAS_SIDE = pattern_of(r"[NSEW](?<!\w.)[NSEW]?\.? [A-Z\d]")
STREETS = (
    Recogniser("address", DIGIT, _STREET, _street, search=pattern_of(r"\d [A-Z\d]")),
    Recogniser(
        "address",
        CAPITAL,
        _STATE,
        lambda m: f"{_STATES[m['state']]}{m['gap']}{_zip(m['zip'])}",
        FIGURES,
    ),
    Recogniser(
        "address",
        CAPITAL,
        _STATE_ALONE,
        lambda m: _STATES[m["state"]],
        ",",
        pattern_of(r", [A-Z]{2}\b"),
    ),
    Recogniser("address", CAPITAL, _POSTAL, _postal, DIGIT, InWord(r"[A-Z]\d[A-Z]", "A0")),
    Recogniser("address", CAPITAL, _BRITISH, _postal, DIGIT, InWord(r"[A-Z]\d", "A0")),
    Recogniser("address", DIGIT, _ZIP, lambda m: _zip(m["zip"]), FIGURES),
    Recogniser(
        "address", CAPITAL, _SHORT_STATE, _short_state, ".,", pattern_of(r", [A-Z][a-z]+\.")
    ),
    Recogniser("address", CAPITAL, _SIDE_OF, lambda m: _SIDES[m["side"]], search=_HAS_SIDE),
    Recogniser("address", CAPITAL, _ROUTE, _route, "-" + DIGIT),
)
