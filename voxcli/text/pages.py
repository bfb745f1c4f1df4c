"""Text pasted from pages: words that were cut at the end of a line become whole.

A hyphen that is one of the word stays: before a capital or a figure, where the text writes the word
with it elsewhere, and beside the parts of compounds listed here. The lists are English; cut words
of every language are joined. Knows no dictionary.
"""

from __future__ import annotations

import re

from voxcli.text.changes import Draft

_HYPHENS = "-\u00ad\u2010"
_HANGS = "und|oder|bzw|and|or|to|et|ou|y|o|e"  # "Vor- und Nachteile"
_CUT = re.compile(
    r"(?<![^\W\d_])(?<![^\W_]-)(?P<head>[^\W\d_]{1,40})"
    rf"[{_HYPHENS}][ \t]{{0,4}}\n\s{{0,20}}(?!(?:{_HANGS})\b)(?P<tail>[^\W\d_]{{1,40}})"
)
_BROKEN = re.compile(
    rf"(?P<hyphen>(?<=\w)[-–])[ \t]{{0,4}}\n[ \t]{{0,20}}(?:(?P<hangs>(?=(?:{_HANGS})\b))|"
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


def join_cut_words(draft: Draft) -> None:
    """Words cut at the end of a line, or of a page, become whole."""
    if not any(hyphen in draft.text for hyphen in _HYPHENS + "–"):
        return
    hyphened = {word.lower() for word in _COMPOUND.findall(draft.text)}

    def join(match: re.Match[str]) -> str:
        head, tail = match["head"], match["tail"]
        keeps = (
            tail[0].isupper()
            or (len(head) == 1 and head.isupper())
            or f"{head}-{tail}".lower() in hyphened
            or head.lower() in _FIRST
            or (tail.lower() in _SECOND and len(head) > 2)
        )
        return f"{head}{'-' if keeps else ''}{tail}"

    draft.sub(_CUT, join, "hyphen", "\n")
    draft.sub(_BROKEN, lambda m: m["hyphen"] + ("" if m["hangs"] is None else " "), "hyphen", "\n")
