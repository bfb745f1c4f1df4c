"""Text pasted from pages: words that were cut at the end of a line become whole.

A hyphen that is one of the word stays: before a capital or a figure, where the text writes the word
with it elsewhere, and beside the parts of compounds listed here. The lists are English,
French and Russian; cut words of every language are joined. Knows no dictionary.
"""

from __future__ import annotations

import re

from voxcli.text.changes import Draft

_HYPHENS = "-\u2010"
_HANGS = "und|oder|bzw|and|or|to|et|ou|y|o|e"  # "Vor- und Nachteile"
_CUT = re.compile(
    r"(?<![^\W\d_])(?<![^\W_]-)(?P<head>[^\W\d_]{1,40})"
    rf"[{_HYPHENS}][ \t]{{0,4}}\n\s{{0,20}}(?!(?:{_HANGS})\b(?!-))"
    r"(?P<tail>[^\W\d_]{1,40})"
)
_BROKEN = re.compile(
    rf"(?P<hyphen>(?<=\w)[-–])[ \t]{{0,4}}\n[ \t]{{0,20}}(?:(?P<hangs>(?=(?:{_HANGS})\b(?!-)))|"
    r"(?=[^\W_]))"
)
_COMPOUND = re.compile(r"[^\W\d_]{2,40}-[^\W\d_]{2,40}")
# First and second parts that keep their hyphen, whatever stands beside them.
_FIRST_LIST = (
    "well ill ex self half all high low long short old new full part cross ever non anti post pre "
    "quasi first second third last left right top bottom one two three four five six seven eight "
    "nine ten twenty thirty forty fifty sixty seventy eighty ninety hundred much little best "
    "better hard soft so mid vice great grand brother sister mother father son daughter state "
    "north south east west hand word world wide open close deep air water year day blue red green "
    "white black decision would"
)
_SECOND_LIST = (
    "wife husband known term based like free time old made driven wide year level law house half "
    "up off out in of the art to going looking making speaking thinking being esteem range called "
    "style size sized scale rate quality grade class minded hearted eyed headed handed haired "
    "sided faced related oriented specific friendly proof ready conscious century day week month "
    "hour minute mile foot point end back down over through first second third fourth fifth sixth "
    "seventh eighth ninth one two three four five six seven eight nine"
)
_FIRST, _SECOND = frozenset(_FIRST_LIST.split()), frozenset(_SECOND_LIST.split())
# Nouns that keep it before a participle or an adjective: "time-consuming", "cost-effective".
_NOUNS = frozenset(["risk", "time", "peer", "cost", "user"])
_ADJECTIVE = re.compile(r"averse|free|\w{3,}(?:ed|ing|ive)")
_COMPOUNDS = {
    "fr": re.compile(
        r"(?:(?:peut|dit|est|ont|a|sont|faut|avez|allez|vas|veux|peux|dis|fait|font|sait|vient|"
        r"voit|crois|demanda|répondit|moi|toi|lui|elle|eux|nous|vous|celui|celle|ceux|celles|"
        r"donne|allons|y)-(?:être|il|elle|ils|elles|on|je|tu|nous|vous|ce|moi|toi|lui|le|la|les|"
        r"leur|y|en|là|ci|même|mêmes|t)|(?:rendez|avant|après|demi|arrière|celui|celle|grand|"
        r"quatre|vingt|soixante|cinquante|quarante|trente|dix)-\w+)"
    ),
    "ru": re.compile(
        r"(?:кто|кого|кому|кем|что|чего|чему|чем|где|куда|откуда|когда|как|почему|зачем|чей|"
        r"как(?:ой|ая|ое|ие|ую|ого|ому|им|их))-(?:то|нибудь|либо)|из-(?:за|под)|кое-\w+|"
        r"во-(?:первых|вторых)|в-третьих|всё-таки|все-таки|"
        r"по-(?:моему|твоему|своему|нашему|вашему|прежнему|другому|разному|видимому|настоящему|"
        r"русски|английски)"
    ),
    "en": re.compile(r"[b-df-hj-np-tv-z]-\w+"),  # "p-value", "t-test"
}


def join_cut_words(draft: Draft, language: str) -> None:
    """Words cut at the end of a line, or of a page, become whole."""
    if not any(hyphen in draft.text for hyphen in _HYPHENS + "–"):
        return
    hyphened = {word.lower() for word in _COMPOUND.findall(draft.text)}

    compound = _COMPOUNDS.get(language)

    def join(match: re.Match[str]) -> str:
        head, tail = match["head"], match["tail"]
        keeps = (
            tail[0].isupper()
            or head.isupper()
            or (compound is not None and bool(compound.fullmatch(f"{head}-{tail}".lower())))
            or (head.lower() in _NOUNS and bool(_ADJECTIVE.fullmatch(tail)))
            or f"{head}-{tail}".lower() in hyphened
            or head.lower() in _FIRST
            or (tail.lower() in _SECOND and len(head) > 2)
        )
        return f"{head}{'-' if keeps else ''}{tail}"

    draft.sub(_CUT, join, "hyphen", "\n")
    draft.sub(_BROKEN, lambda m: m["hyphen"] + ("" if m["hangs"] is None else " "), "hyphen", "\n")
