"""How much of a text that is still being written is certainly whole sentences.

A sentence is, where it ends whatever comes next. Knows no reader and no voice.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from voxcli.text.changes import Draft
from voxcli.text.characters import clean, is_pictures
from voxcli.text.language import UNKNOWN, detect_language
from voxcli.text.markup import strip_markup
from voxcli.text.patterns import pattern_of
from voxcli.text.pauses import has_mark
from voxcli.text.segmenter import sentence_ends

MAX_OPEN = 1000  # characters without a certain end; then whole words have to do
# What may come next: more of the last word, a mark, a closing one, words of each kind, and who said
# what stands in quotation marks.
_FUTURES = (
    "x", "X", "1", ".", '"', ")", "」", "と", "说。", "他说。", " x", " X", " 1", " The x", ' "X'
)  # fmt: skip
_ITEM = pattern_of(r"\s*(?:[-*+#>]{1,6}\s+){0,3}[*_]{0,3}\(?\d{1,3}[.)][*_]{0,3}\Z")  # of a list
_OPEN_TAG = pattern_of(r"<[A-Za-z/][^<>\n]{0,200}\Z")


def whole_length(text: str, language: str) -> int:
    """Characters at the beginning of a line, still without its end, that can be spoken.

    Args:
        language: ISO 639-1, for where sentences end.

    Returns:
        0 where nothing is certain. Brackets, tags and code that are open are not cut.
    """
    if ends := whole_ends(text, language):
        return ends[-1]
    return 0 if len(text) <= MAX_OPEN else cut_of(text)


def whole_ends(text: str, language: str) -> list[int]:
    """Where sentences at the beginning of a line certainly end, as positions behind them."""
    ends: set[int] | None = None
    for future in _FUTURES:
        found = {end for end in sentence_ends(text + future, language) if end <= len(text)}
        ends = found if ends is None else ends & found
        if not ends:
            break
    return closed(text, ends or ())


def closed(text: str, ends: Iterable[int]) -> list[int]:
    """Of these positions those that are in no brackets, tag or code, and behind more than marks,
    emoji and the number of an item, in order."""
    return [end for end in sorted(ends) if not _is_begun(text[:end])]


def _is_begun(text: str) -> bool:
    return not has_word(text) or _ITEM.match(text) is not None or _is_open(text)


def cut_of(text: str) -> int:
    """Where to cut a text of more than `MAX_OPEN` characters that has no end: behind a word, or in
    one of more than twice as many; 0 where that is not known yet."""
    return text.rfind(" ", 0, MAX_OPEN) + 1 or (MAX_OPEN if len(text) > 2 * MAX_OPEN else 0)


def language_of(text: str, asked: str | None, languages: Sequence[str]) -> str:
    """The language whose sentences are looked for, ISO 639-1.

    Args:
        asked: what a user said it is.
        languages: what the model speaks; none means any.
    """
    language = asked or (languages[0] if len(languages) == 1 else "")
    language = language or detect_language(text)
    return "en" if language == UNKNOWN else language[:2].lower()


def says_nothing(text: str, language: str = "en") -> bool:
    """Whether a line is marks of layout alone: a fence of code, a rule, a comment.

    Args:
        language: ISO 639-1, for emoji that are all of a line.
    """
    if has_mark(text):
        return False
    draft = Draft(text)
    clean(draft, language)
    strip_markup(draft, language)
    return not (has_word(draft.text) or is_pictures(draft.text, language))


def has_word(text: str) -> bool:
    """Whether a letter or a figure is in it."""
    return any(map(str.isalnum, text))


def _is_open(text: str) -> bool:
    is_in_brackets = any(text.count(a) > text.count(b) for a, b in ("()", "[]"))
    return is_in_brackets or text.count("`") % 2 == 1 or _OPEN_TAG.search(text) is not None
