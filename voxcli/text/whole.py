"""How much of a text that is still being written is certainly whole sentences.

A sentence is, where it ends whatever comes next. Knows no reader and no voice.
"""

from __future__ import annotations

from voxcli.text.patterns import pattern_of
from voxcli.text.segmenter import sentence_ends

MAX_OPEN = 1000  # characters without a certain end; then whole words have to do
# What may come next: more of the last word, a mark, a closing one, words of each kind, and who said
# what stands in quotation marks.
_FUTURES = (
    "x", "X", "1", ".", '"', ")", "」", "と", "说。", "他说。", " x", " X", " 1", " The x", ' "X'
)  # fmt: skip
_OPEN_TAG = pattern_of(r"<[A-Za-z/][^<>\n]{0,200}\Z")


def whole_length(text: str, language: str) -> int:
    """Characters at the beginning of a line, still without its end, that can be spoken.

    Args:
        language: ISO 639-1, for where sentences end.

    Returns:
        0 where nothing is certain. Brackets, tags and code that are open are not cut.
    """
    ends: set[int] | None = None
    for future in _FUTURES:
        found = {end for end in sentence_ends(text + future, language) if end <= len(text)}
        ends = found if ends is None else ends & found
        if not ends:
            break
    closed = [end for end in ends or () if not _is_open(text[:end])]
    if closed:
        return max(closed)
    return text.rfind(" ", 0, MAX_OPEN) + 1 if len(text) > MAX_OPEN else 0


def _is_open(text: str) -> bool:
    is_in_brackets = any(text.count(a) > text.count(b) for a, b in ("()", "[]"))
    return is_in_brackets or text.count("`") % 2 == 1 or _OPEN_TAG.search(text) is not None
