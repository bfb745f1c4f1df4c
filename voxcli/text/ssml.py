"""Tags of SSML that say how words are read: documents, sentences, `<say-as>` and `<sub>`.

Pauses are `pauses.py`; what no model follows is left to `directions.py`, which keeps its words.
Works on any language; only English has words for figures and signs here.
"""

from __future__ import annotations

import re
from collections.abc import Callable

from voxcli.text import spell
from voxcli.text.addresses import SIGNS
from voxcli.text.changes import Draft
from voxcli.text.patterns import pattern_of

KIND = "ssml"

_DOCUMENT = pattern_of(r"<speak(?:\s[^<>]{0,2000})?>", re.I)
_DOCUMENT_TAG = pattern_of(r"</?speak(?:\s[^<>]{0,2000})?/?>", re.I)
_UNSPOKEN = pattern_of(
    r"<(?P<name>metadata|desc)(?:\s[^<>\n]{0,300})?>(?:(?!<(?P=name)\b)[\s\S]){0,4000}?"
    r"</(?P=name)\s?>",
    re.I,
)
_PARAGRAPH = pattern_of(r"\s?</?(?:p|paragraph)(?:\s[^<>\n]{0,300})?/?>\s?", re.I)
_SENTENCE = pattern_of(r"\s?</?(?:s|sentence)(?:\s[^<>\n]{0,300})?/?>\s?", re.I)
_NEXT_SENTENCE = pattern_of(r"</s>\s{0,8}<s(?:\s[^<>\n]{0,300})?>", re.I)
_TOKEN = pattern_of(r"</?(?:w|token)(?:\s[^<>\n]{0,300})?/?>", re.I)
_VALUE = (
    r"\s?=\s?(?:\"(?P<{0}>[^\"<>]{1,300})\"|'(?P<{0}1>[^'<>]{1,300})'"
    r"|[“”](?P<{0}2>[^“”<>]{1,300})[“”])"
)
_SUB = pattern_of(
    r"<sub\s(?:[^<>]{0,200}?\s)?alias" + _VALUE.replace("{0}", "alias")
    + r"[^<>]{0,100}>(?P<text>[^<>]{0,300})</sub\s?>",
    re.I,
)  # fmt: skip
_SAY_AS = pattern_of(r"<say-as\s(?P<told>[^<>]{1,300})>(?P<text>[^<>]{1,1000})</say-as\s?>", re.I)
_ATTRIBUTE = pattern_of(r"(?P<name>interpret-as|type|format)\s?=\s?[\"'“”]?(?P<value>[\w:-]{1,40})")
_UNIT = pattern_of(r"\d|[^\W\d_]|[^\w\s]|_")
_WHOLE = pattern_of(r"\d{1,3}(?:,\d{3}){1,5}|\d{1,18}")
_NUMBER = pattern_of(
    r"(?P<sign>[-−])?\s?(?P<number>(?:\d{1,3}(?:,\d{3}){1,5}|\d{1,18})(?:\.\d{1,9})?)"
)
_FRACTION = pattern_of(
    r"(?:(?P<whole>\d{1,6})[ +])?(?P<top>\d{1,6})\s?[/⁄]\s?(?P<bottom>[1-9]\d{0,5})"
)
_DATE_PARTS = pattern_of(r"(\d{1,4})[-/. ](\d{1,4})(?:[-/. ](\d{1,4}))?")

# What rules for the language read by themselves, once the tag is away.
_READ_ANYWAY = frozenset(
    [
        "date",
        "time",
        "currency",
        "duration",
        "unit",
        "address",
        "net",
        "name",
        "cardinal",
        "number",
        "ordinal",
        "fraction",
    ]
)


def is_document(text: str) -> bool:
    """Whether a text has the tag that a document of SSML begins with."""
    return "<" in text and _DOCUMENT.search(text) is not None


def tags(draft: Draft, language: str) -> bool:
    """Read what tags say of words, and take the tags away; before directions and markup.

    Returns:
        whether the text is a document, in which all that looks like a tag is one.
    """
    if "<" not in draft.text:
        return False
    is_whole = is_document(draft.text)
    if is_whole:
        _document(draft)
    draft.sub(_NEXT_SENTENCE, "\n", KIND, "<s")
    draft.sub(_SUB, _alias, KIND)
    draft.sub(_SAY_AS, lambda m: _beside_tags(m, _said_as(m, language)), KIND)
    return is_whole


def _document(draft: Draft) -> None:
    """A document's lines are no lines of the text: its tags say where sentences end."""
    draft.text = draft.text.replace("\n", " ")
    draft.sub(_UNSPOKEN, " ", KIND)
    draft.sub(_DOCUMENT_TAG, "", KIND)
    draft.sub(_PARAGRAPH, "\n\n", KIND)
    draft.sub(_SENTENCE, "\n", KIND)
    draft.sub(_TOKEN, "", KIND)


def _alias(match: re.Match[str]) -> str:
    return (match["alias"] or match["alias1"] or match["alias2"]).strip()


def _beside_tags(match: re.Match[str], said: str | None) -> str | None:
    """What is said, apart from what stands beside it, which may be a tag that goes too."""
    if said is None:
        return None
    before = match.string[max(0, match.start() - 1) : match.start()]
    after = match.string[match.end() : match.end() + 1]
    lead = " " if before == ">" or before.isalnum() else ""
    return f"{lead}{said}{' ' if after == '<' or after.isalnum() else ''}"


def _said_as(match: re.Match[str], language: str) -> str | None:
    """What is said for the words in the tag; None leaves a value that nobody knows."""
    told = {
        each["name"].lower(): each["value"].lower() for each in _ATTRIBUTE.finditer(match["told"])
    }
    kind = told.get("interpret-as") or told.get("type") or ""
    kind, _, detail = kind.partition(":")
    text = " ".join(match["text"].split())
    if kind in _SPELLED:
        return spelled(text, language)
    if language == "en" and kind in _ENGLISH:
        said = _ENGLISH[kind](text)
        return text if said is None else said
    if kind == "date":
        return _date(text, told.get("format") or detail)
    return text if kind in _READ_ANYWAY or kind == "telephone" else None


_SPELLED = frozenset(
    [
        "characters",
        "character",
        "chars",
        "letters",
        "spell-out",
        "spell",
        "verbatim",
        "digits",
        "digit",
        "number_digit",
    ]
)


def spelled(text: str, language: str) -> str:
    """Each letter, figure and sign alone: "W3C-1" is "W three C dash one"."""
    units = [unit.upper() if len(unit.upper()) == 1 else unit for unit in _UNIT.findall(text)]
    if language == "en":
        units = [
            spell.digits(unit) if unit.isdecimal() else SIGNS.get(unit, unit) for unit in units
        ]
    return " ".join(units)


def _cardinal(text: str) -> str | None:
    match = _NUMBER.fullmatch(text)
    if match is None:
        return None
    return f"{'minus ' if match['sign'] else ''}{spell.number(match['number'])}"


def _ordinal(text: str) -> str | None:
    bare = re.sub(r"(?<=\d)(?:st|nd|rd|th)$", "", text, flags=re.I)
    if value := spell.roman(bare):
        return spell.ordinal(value)
    return spell.ordinal(int(bare.replace(",", ""))) if _WHOLE.fullmatch(bare) else None


def _fraction(text: str) -> str | None:
    match = _FRACTION.fullmatch(text)
    if match is None:
        return None
    top, bottom = int(match["top"]), int(match["bottom"])
    if match["whole"]:
        return spell.mixed(int(match["whole"]), top, bottom)
    return spell.fraction(top, bottom)


def _telephone(text: str) -> str:
    """Figure by figure, with the pauses that its groups have."""
    groups = [spelled(group, "en") for group in re.split(r"[\s().,/-]+", text) if group]
    return ", ".join(groups)


_ENGLISH: dict[str, Callable[[str], str | None]] = {
    "cardinal": _cardinal, "number": _cardinal, "ordinal": _ordinal, "fraction": _fraction,
    "telephone": _telephone, "phone": _telephone,
}  # fmt: skip


def _date(text: str, order: str) -> str:
    """A date as ISO 8601 writes it, which is read everywhere, where the tag tells its order."""
    match = _DATE_PARTS.fullmatch(text)
    if match is None or match[3] is None or sorted(order) != sorted("dmy"):
        return text
    parts = dict(zip(order, match.groups(), strict=True))
    if len(parts["y"]) != 4 or len(parts["m"]) > 2 or len(parts["d"]) > 2:
        return text
    return f"{parts['y']}-{int(parts['m']):02}-{int(parts['d']):02}"
