"""Text pasted from pages: words that were cut at the end of a line become whole.

A hyphen that is one of the word stays: before a capital or a figure, where the text writes the word
with it elsewhere, and between two words that make none when joined, in the languages that
`lexicon.py` has. German and its neighbours join such words anyway.
"""

from __future__ import annotations

import re
import unicodedata

from voxcli.text import lexicon
from voxcli.text.changes import Draft
from voxcli.text.patterns import pattern_of

_HYPHENS = "-\u2010"
_HANGS = "und|oder|bzw|and|or|to|et|ou|y|o|e"  # "Vor- und Nachteile"
_CUT = pattern_of(
    r"(?<![^\W\d_])(?<![^\W_]-)(?P<head>[^\W\d_]{1,40})"
    rf"[{_HYPHENS}][ \t]{{0,4}}\n\s{{0,20}}(?!(?:{_HANGS})\b(?!-))"
    r"(?P<tail>[^\W\d_]{1,40})"
)
_BROKEN = pattern_of(
    rf"(?P<hyphen>(?<=\w)[-–])[ \t]{{0,4}}\n[ \t]{{0,20}}(?:(?P<hangs>(?=(?:{_HANGS})\b(?!-)))|"
    r"(?=[^\W_]))"
)
_COMPOUND = pattern_of(r"[^\W\d_]{2,40}-[^\W\d_]{2,40}")


def join_cut_words(draft: Draft, language: str) -> None:
    """Words cut at the end of a line, or of a page, become whole."""
    if "\n" not in draft.text or not any(hyphen in draft.text for hyphen in _HYPHENS + "–"):
        return
    hyphened = {word.lower() for word in _COMPOUND.findall(draft.text)}

    def join(match: re.Match[str]) -> str:
        head, tail = match["head"], match["tail"]
        keeps = (
            tail[0].isupper()
            or head.isupper()
            or f"{head}-{tail}".lower() in hyphened
            or (language in lexicon.LANGUAGES and _is_compound(head, tail, language))
        )
        return f"{head}{'-' if keeps else ''}{tail}"

    draft.sub(_CUT, join, "hyphen")
    draft.sub(_BROKEN, lambda m: m["hyphen"] + ("" if m["hangs"] is None else " "), "hyphen")


def _is_compound(head: str, tail: str, language: str) -> bool:
    """Whether both parts are words, "ex-wife" and "p-value", that make none when joined."""
    head, tail = (unicodedata.normalize("NFKC", part) for part in (head, tail))  # ligatures
    if lexicon.is_word(head + tail, language) or len(tail) < 2:
        return False
    return len(head) == 1 or all(lexicon.is_word(part, language) for part in (head, tail))
