"""Text to segments: sentence-sized parts that a voice speaks well, with the pause after each.

Works on normalised text, and on raw text as well: abbreviations, decimals, times and addresses are
not taken for sentence ends. It only cuts and joins with spaces: no word is added, lost or moved.
Knows no model: the caller says how long a segment may be.

Where a sentence ends is found by sentencex. English, Chinese and Japanese have rules of their own:
sentencex ends one behind a quotation in the middle of it, as in 「はい。」と, and knows none of the
words that start an English sentence behind an initial ("J. R. The next").
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import accumulate

from voxcli.errors import UsageError
from voxcli.text.patterns import pattern_of
from voxcli.text.prepared import (
    PAUSE_CLAUSE_S,
    PAUSE_LINE_S,
    PAUSE_PARAGRAPH_S,
    PAUSE_SENTENCE_S,
    Segment,
)
from voxcli.text.stops import goes_on
from voxcli.text.words import ABBREVIATIONS, SENTENCE_ENDING, SENTENCE_STARTERS

_OWN_RULES = ("en", "zh", "ja")
_UNSPACED = tuple("。！？…।॥")  # marks that need no space behind them
_COMFORT = 0.6  # sentences are packed up to this share of the limit
_SHORT_WORDS = 2  # segments this short are what voices read worst
_SHORT_CHARS = 12

_CJK = "\u3040-\u30ff\u3400-\u9fff\uf900-\ufaff\uff66-\uff9f"
# Scripts that part no words by spaces: these, Thai, Lao, Burmese and Khmer
UNSPACED_SCRIPTS = f"{_CJK}\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff"
_CLOSERS = "\"'”’»)\\]」』】）"
# A mark with its closing quotes, then space; or a CJK mark, which needs none.
_END = pattern_of(
    f"[.!?…。！？।؟۔](?:(?<=[.!?…])(?<![.!?…].)[.!?…]*[{_CLOSERS}*_]*(?=\\s)|"
    f"(?<=[。！？…])[。！？…]*[{_CLOSERS}]*|(?<=[।؟۔])[।؟۔]*(?=\\s))"
)
_QUOTED = "」』”’"
# What follows a quotation in the middle of its sentence: 「はい。」と, “好！”他说.
_REPORTED = pattern_of(
    "[とっなのをがはもへに]|[^。！？，、]{1,14}[说道问答喊叫想][他她我你它]?们?(?=[，。：着]|$)"
)
_NEXT = pattern_of(r"\s+[\"'“‘«(\[¿¡—-]*\s?(?P<char>\S)")
_WORD = pattern_of(r"\w+")
_TOKEN = pattern_of(r"[^\s(\[\"'“‘]*\Z")
_CLAUSE = pattern_of(
    f"[;:—–；：-](?:(?<=[;:—–])[{_CLOSERS}]*(?=\\s)|(?<=\\s[—–-])(?=\\s)|(?<=[；：]))"
)
_COMMA = pattern_of(f"[,，、](?:(?<=,)[{_CLOSERS}]*(?=\\s)|(?<=[，、]))")
_JOINING = pattern_of(
    r"\s(?=(?:and|or|but|nor|so|because|that|which|who|when|while|where|if|as|than|then|until|"
    r"und|oder|aber|weil|dass|et|ou|mais|que|y|o|pero|e|ma|che)\s)"
)
_SPACE = pattern_of(r"\s")
_PARAGRAPHS = pattern_of(r"\n[^\S\n]*\n\s*")


@dataclass(slots=True)
class _Part:
    text: str
    pause_s: float
    glued: bool = False  # no space between this one and the next (CJK, a cut word)


def segment(text: str, max_chars: int, language: str = "en") -> list[Segment]:
    """Cut a text into segments of at most `max_chars` characters.

    Args:
        language: ISO 639-1, for where sentences end.

    Sentence ends first; short neighbours are packed together; a longer sentence is cut at clause
    marks, else before a joining word, else between words; only a word longer than the limit is cut
    itself. The words of the segments are the words of the text, in order, for any input.
    """
    if max_chars < 1:
        raise UsageError(f"max_chars is {max_chars}", hint="give 1 or more characters")
    if "\n" not in text and language in _OWN_RULES:
        line = " ".join(text.split())
        if len(line) <= max_chars and not _END.search(line):  # one sentence, as most rows are
            return [Segment(line, 0.0)] if line else []
    parts: list[_Part] = []
    for paragraph in _PARAGRAPHS.split(text.strip()):
        packed = _pack(list(_sentences(paragraph, max_chars, language)), max_chars)
        if packed:
            packed[-1].pause_s = max(packed[-1].pause_s, PAUSE_PARAGRAPH_S)
        parts += packed
    if parts:
        parts[-1].pause_s = 0.0
    return [Segment(part.text, part.pause_s) for part in parts]


def _sentences(paragraph: str, max_chars: int, language: str) -> Iterator[_Part]:
    for line in paragraph.split("\n"):
        line = " ".join(line.split())
        pieces = list(_cut(line, sentence_ends(line, language)))
        for index, (sentence, glued) in enumerate(pieces):
            pause = PAUSE_LINE_S if index == len(pieces) - 1 else PAUSE_SENTENCE_S
            yield from _fit(sentence, max_chars, pause, glued, language)


def _cut(text: str, ends: list[int]) -> Iterator[tuple[str, bool]]:
    """Pieces between the positions, and whether no space followed the piece."""
    start = 0
    for end in [*ends, len(text)]:
        piece = text[start:end].strip()
        if piece:
            yield piece, end < len(text) and not text[end].isspace()
        start = end


def sentence_ends(line: str, language: str) -> list[int]:
    """Where sentences end in one line, as positions behind them."""
    if language in _OWN_RULES:
        return [match.end() for match in _END.finditer(line) if _is_end(line, match)]
    from sentencex import segment as sentences  # loaded for the languages that need it

    found = (len(line[:end].rstrip()) for end in accumulate(map(len, sentences(language, line))))
    return [
        end for end in found if _is_between_words(line, end) and not goes_on(line, end, language)
    ]


def _is_between_words(line: str, end: int) -> bool:
    """Whether a sentence may end there: no word is cut."""
    rest = line[end:]
    return not rest or rest[0].isspace() or line[end - 1 : end] in _UNSPACED


def _is_end(line: str, match: re.Match[str]) -> bool:
    marks = match.group()
    if match.end() == len(line):
        return True
    if marks[0] not in ".!?…":
        return not (marks[-1] in _QUOTED and _REPORTED.match(line, match.end()))
    following = _NEXT.match(line, match.end())
    char = following.group("char") if following else ""
    if not marks.startswith(".") or marks.startswith(".."):
        # `"Why?" he asked` goes on; so does "well... perhaps".
        return not (char.islower() and len(marks) > 1)
    token = _TOKEN.search(line, max(0, match.start() - 40), match.start())
    word = token.group().lower() if token else ""
    if len(word) == 1 and word.isalpha() and word != "i":
        if line[
            match.start() - 1
        ].isupper():  # an initial, J. R., unless a sentence starts after it
            opening = _WORD.match(line, following.end() - 1) if following else None
            return opening is not None and opening.group() in SENTENCE_STARTERS
        return not char.islower()
    if word in SENTENCE_ENDING or ("." in word and word.replace(".", "").isalpha()):
        return word in SENTENCE_ENDING and char.isupper()
    if word in ABBREVIATIONS or (word in ("no", "nos", "art", "sec") and char.isdigit()):
        return False
    # Unknown abbreviations are short and go on in lower case ("1/2 in. screws").
    return not (char.islower() and len(word) < 4)


def _fit(
    sentence: str, max_chars: int, pause_s: float, glued: bool, language: str
) -> Iterator[_Part]:
    """A sentence as it is, or cut into pieces of about equal length."""
    rest = sentence
    while len(rest) > max_chars:
        end, pause = _best_cut(rest, max_chars, language)
        head, tail = rest[:end].rstrip(), rest[end:]
        yield _Part(head, pause, glued=not tail[:1].isspace() and len(head) == end)
        rest = tail.lstrip()
    if rest:
        yield _Part(rest, pause_s, glued)


def _best_cut(text: str, max_chars: int, language: str) -> tuple[int, float]:
    """Where to cut, in (0, max_chars]: near equal pieces, at the best kind of boundary."""
    window = text[: max_chars + 1]
    pieces = -(-len(text) // max_chars)
    ideal = min(max_chars, len(text) / pieces)
    lowest = max(1, int(ideal * 0.35))
    best = (float("inf"), 0, 0.0)
    for pattern, cost, pause in (
        (_END, 0.0, PAUSE_CLAUSE_S), (_CLAUSE, 0.0, PAUSE_CLAUSE_S), (_COMMA, 0.1, PAUSE_CLAUSE_S),
        (_JOINING, 0.45, 0.0), (_SPACE, 0.75, 0.0),
    ):  # fmt: skip
        for match in pattern.finditer(window):
            end = match.start() if pattern in (_JOINING, _SPACE) else match.end()
            if not lowest <= end <= max_chars:
                continue
            if pattern is _END and not (language in _OWN_RULES and _is_end(text, match)):
                continue
            score = abs(end - ideal) / ideal + cost
            best = min(best, (score, end, pause))
    if best[1]:
        return best[1], best[2]
    space = window.rfind(" ")
    if space > 0:
        return space, 0.0
    return _inside_word(text, max_chars), 0.0


def _inside_word(text: str, max_chars: int) -> int:
    """Cut a giant word; not before a combining mark or between halves of an emoji sequence."""
    end = max_chars
    while end > max(1, max_chars - 8) and not text[end].isprintable() | text[end].isalnum():
        end -= 1
    return end


def _pack(parts: list[_Part], max_chars: int) -> list[_Part]:
    """Join neighbours: up to a comfortable length, and past it when one is very short."""
    packed: list[_Part] = []
    comfort = max_chars * _COMFORT
    for part in parts:
        last = packed[-1] if packed else None
        if last is not None:
            length = len(last.text) + len(part.text) + (not last.glued)
            short = _is_short(last.text) or _is_short(part.text)
            if length <= comfort or (short and length <= max_chars):
                last.text += ("" if last.glued else " ") + part.text
                last.pause_s, last.glued = part.pause_s, part.glued
                continue
        packed.append(part)
    return packed


def _is_short(text: str) -> bool:
    if re.search(f"[{_CJK}]", text):
        return len(text) <= 4
    return len(text) <= _SHORT_CHARS or text.count(" ") < _SHORT_WORDS
