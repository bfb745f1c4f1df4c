"""When each part of a speech sounds: cues of subtitles, and JSON with segments and words.

Where a segment begins and ends was counted while it was made. Its words were measured where
`alignment.py` could; else times of words and of cues are shares of its time, by how long their
letters take, and are called estimated. Fields of the JSON have the names that Whisper and OpenAI's
transcriptions gave them. Knows no subtitle format.
"""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate, islice, pairwise
from typing import Any, Protocol

from voxcli.audio.pace import speaking_time
from voxcli.text import segment

MAX_LINE, MAX_LINES = 42, 2  # characters, lines
MIN_CUE_S, MAX_CUE_S = 1.0, 7.0
MIN_CHARACTERS = 12  # a cue is not cut shorter, however slow it is
_WIDE = 2  # letters of the room of a Chinese one
MEASURED, ESTIMATED = "measured", "estimated"
KINDS = {"times_of_segments": MEASURED, "times_of_words": ESTIMATED}  # where nobody listened


class Span(Protocol):
    """Words that sound from one time to another, as a segment's report has them."""

    @property
    def text(self) -> str: ...
    @property
    def start_s(self) -> float: ...
    @property
    def end_s(self) -> float: ...


@dataclass(frozen=True)
class Timed:
    """Words and when they sound.

    Attributes:
        text: a cue's lines have a newline between them.
        is_estimated: whether a time was not measured.
        words: of a segment, those between spaces, where they were measured.
    """

    text: str
    start_s: float
    end_s: float
    is_estimated: bool = False
    words: tuple[Timed, ...] = ()

    def later(self, by_s: float) -> Timed:
        """The same where its audio begins later."""
        moved = tuple(word.later(by_s) for word in self.words)
        return replace(self, start_s=self.start_s + by_s, end_s=self.end_s + by_s, words=moved)

    def until(self, end_s: float) -> Timed:
        """The same where its audio ends by then."""
        start_s, end_s = min(self.start_s, end_s), min(self.end_s, end_s)
        words = tuple(word.until(end_s) for word in self.words)
        return replace(self, start_s=start_s, end_s=end_s, words=words)


def cues(spans: Iterable[Span], language: str) -> list[Timed]:
    """Segments as cues of at most two lines of 42 characters and 7 s; from 1 s on, where the next
    one leaves the time.

    Args:
        language: ISO 639-1, for where sentences end.
    """
    return lasting(cue for span in spans for cue in in_cues(span, language))


def lasting(cues: Iterable[Timed]) -> list[Timed]:
    """Cues in the order of time, each in its lines, and as long as the next one lets a reader have
    it."""
    found = sorted(cues, key=lambda cue: cue.start_s)
    for index, cue in enumerate(found):
        next_s = found[index + 1].start_s if index + 1 < len(found) else float("inf")
        if cue.end_s - cue.start_s < MIN_CUE_S:
            end_s = max(cue.end_s, min(cue.start_s + MIN_CUE_S, next_s))
            found[index] = replace(cue, end_s=end_s)
    return [replace(cue, text="\n".join(_lines(cue.text))) for cue in found]


def words(span: Span, language: str) -> list[Timed]:
    """The words of a segment, with measured times where it has them."""
    return list(_measured(span)) or _shared(span, span.text.split(), language)


def as_json(spans: Iterable[Span], language: str) -> dict[str, Any]:
    """All of it as plain data in seconds, where each list says whether its times are measured."""
    segments = [segment_json(index, each, language) for index, each in enumerate(spans)]
    return {"language": language, **kinds_of(segments), "segments": segments}


def kinds_of(segments: Iterable[Mapping[str, Any]]) -> dict[str, str]:
    """What the times of some segments are, from `segment_json`; of words, the least of them."""
    are_measured = all(each["times_of_words"] == MEASURED for each in segments)
    return {**KINDS, "times_of_words": MEASURED if are_measured else ESTIMATED}


def segment_json(index: int, span: Span, language: str) -> dict[str, Any]:
    """A segment and its words as plain data, in seconds, and whether those times are measured."""
    found = words(span, language)
    is_estimated = any(word.is_estimated for word in found)
    return {
        "id": index,
        "start": round(span.start_s, 3),
        "end": round(span.end_s, 3),
        "text": span.text,
        "times_of_words": ESTIMATED if is_estimated else MEASURED,
        "words": [
            {"word": word.text, "start": round(word.start_s, 3), "end": round(word.end_s, 3)}
            for word in found
        ],
    }


def in_cues(span: Span, language: str) -> list[Timed]:
    """A segment in parts that fit a cue, cut where a reader expects it; not yet in lines."""
    text, duration_s = span.text, span.end_s - span.start_s
    room = MAX_LINE * MAX_LINES // (_WIDE if _is_wide(text) else 1)
    if duration_s > MAX_CUE_S:
        room = min(room, int(len(text) * MAX_CUE_S / duration_s))
    while True:
        room = max(room, MIN_CHARACTERS)
        pieces = [part.text for part in segment(text, room, language)]
        found = _shared(span, pieces if room < len(text) else [text], language)
        fits = all(
            len(_lines(each.text)) <= MAX_LINES and each.end_s - each.start_s <= MAX_CUE_S
            for each in found
        )
        if fits or room == MIN_CHARACTERS:
            return found
        room -= 6


def _shared(span: Span, pieces: Sequence[str], language: str) -> list[Timed]:
    """Pieces of a segment, each with the time of its words or its share of all."""
    if len(pieces) == 1:
        return [Timed(pieces[0], span.start_s, span.end_s)]
    if found := _by_words(span, pieces):
        return found
    costs = [speaking_time(piece, language).slowest_s + 1e-3 for piece in pieces]
    scale = (span.end_s - span.start_s) / sum(costs)
    bounds = [span.start_s + scale * done for done in accumulate(costs, initial=0.0)]
    bounds[-1] = span.end_s
    return [
        Timed(piece, start_s, end_s, is_estimated=True)
        for piece, (start_s, end_s) in zip(pieces, pairwise(bounds), strict=True)
    ]


def _by_words(span: Span, pieces: Sequence[str]) -> list[Timed]:
    """Pieces of a segment with the times of their words; none where those were not measured, or
    are cut."""
    timed = iter(_measured(span))
    found = []
    for piece in pieces:
        said = list(islice(timed, len(piece.split())))
        if [word.text for word in said] != piece.split():
            return []
        found.append(Timed(piece, said[0].start_s, said[-1].end_s))
    found[0] = replace(found[0], start_s=span.start_s)
    found[-1] = replace(found[-1], end_s=span.end_s)
    return found


def _measured(span: Span) -> tuple[Timed, ...]:
    return span.words if isinstance(span, Timed) else ()


def _lines(text: str) -> list[str]:
    """A cue's lines, of about equal length."""
    room = MAX_LINE // (_WIDE if _is_wide(text) else 1)
    if len(text) <= room:
        return [text]
    spaces = [index for index, char in enumerate(text) if char == " "]
    if not spaces:
        size = min(room, -(-len(text) // MAX_LINES))
        return [text[start : start + size] for start in range(0, len(text), size)]
    best = min(spaces, key=lambda index: abs(index - len(text) / 2))
    lines = [text[:best], text[best + 1 :]]
    return lines if max(map(len, lines)) <= room else textwrap.wrap(text, room)


def _is_wide(text: str) -> bool:
    """Whether most of its characters take the room of two, as Chinese ones do."""
    return 2 * sum("\u2e80" <= char <= "\uffef" for char in text) > len(text)
