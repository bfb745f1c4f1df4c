"""Pauses that a text asks for: "[pause 0.8s]", "<break time='500ms'/>", and where they belong.

A mark changes no word. The text is read once as if its marks were not there, which gives the words,
and once with a character in the place of each mark, which shows between which of these words it
stands. Knows no sound.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from voxcli.errors import TextError
from voxcli.text.changes import PAUSE, Change, Draft, Silence
from voxcli.text.patterns import pattern_of
from voxcli.text.prepared import Segment
from voxcli.text.segmenter import UNSPACED_SCRIPTS, segment

MAX_SILENCE_S = 60.0  # at one place of a text
MAX_SILENCES_S = 3600.0  # in a whole text
# What W3C's SSML names and gives no length; the lengths are those of Azure's speech service.
STRENGTHS = {"none": 0.0, "x-weak": 0.25, "weak": 0.5, "medium": 0.75, "strong": 1.0,
             "x-strong": 1.25}  # fmt: skip
_WORDED = {"brief": "x-weak", "short": "weak", "medium": "medium", "long": "x-strong"}
_UNITS = {"ms": 0.001, "s": 1.0, "min": 60.0}

# A mark while rules run: of a plane for private use, the mark's place in the row of all of them.
_FIRST, _LAST = 0xF0000, 0xFFFFD
PLACEHOLDER = pattern_of(f"[{chr(_FIRST)}-{chr(_LAST)}]")

_NUMBER = r"(?:\d{1,6}(?:[.,]\d{1,6})?|[.,]\d{1,6})"
_UNIT = r"(?:ms|msecs?|milliseconds?|s|secs?|seconds?|min|minutes?)"
_LENGTH = rf"\+?{_NUMBER}\s?{_UNIT}?"
_SPOKEN = (  # as in brackets
    r"(?:(?P<{0}size>short|long|medium|brief)\s)?"
    r"(?P<{0}name>pause|break|silence|wait|slnc|beat)"
    rf"(?:\s?[ :=]\s?(?:(?P<{{0}}length>{_LENGTH})|(?P<{{0}}worded>short|long|medium|brief)))?"
    rf"|(?P<{{0}}before>{_LENGTH})\s(?:pause|break|silence)"
)
_QUOTE = "[\"'“”‘’]"
MARK = pattern_of(
    rf"[ \t]{{0,8}}(?:\[\[?\s?(?:{_SPOKEN.replace('{0}', 'a_')})\s?\]?\](?!\()"
    rf"|\{{\{{?\s?(?:{_SPOKEN.replace('{0}', 'b_')})\s?\}}?\}}"
    rf"|\((?:pause|break|silence)\s?[ :=]\s?(?P<round>{_LENGTH})\)"
    r"|<\#(?P<sign>\d{1,3}(?:\.\d{1,3})?)\#>"
    r"|<(?P<tag>break|pause|silence)(?P<told>(?:[\s:=][^<>\n]{0,300})?)/?>"
    r"(?:\s{0,8}</(?P=tag)>)?)",
    re.I,
)
_TOLD = pattern_of(
    rf"(?P<what>time|duration|dur|length|value|msec|ms|strength)\s?=\s?{_QUOTE}?\s?"
    rf"(?P<value>[^\"'“”‘’\s]{{1,40}}(?:\s{_UNIT})?)\s?{_QUOTE}?",
    re.I,
)
_AMOUNT = pattern_of(rf"\+?(?P<number>{_NUMBER})\s?(?P<unit>{_UNIT})?", re.I)
_CLOSING = ".,;:!?…。，、；：！？)]}»”’」』）】"
_OPENING = "([{«“‘「『（【"
_WORD = pattern_of(f"[{UNSPACED_SCRIPTS}]|[^\\W{UNSPACED_SCRIPTS}]+")
_PIECES = pattern_of(f"[{UNSPACED_SCRIPTS}]|[^\\W{UNSPACED_SCRIPTS}]+|{PLACEHOLDER.pattern}")
_WORD_END = pattern_of(f"[^\\w\\s{re.escape(_OPENING)}]*(?:[ \\t]+[—–-]+(?=\\s))?")
_REACH = 16  # words that a rule may say differently for a mark in their middle


def take_pauses(draft: Draft, *, are_kept: bool) -> tuple[Silence, ...]:
    """Take the marks of pauses out, in every way of writing whose length can be read.

    Args:
        are_kept: put a character of `PLACEHOLDER` in the place of each, else nothing.

    Raises:
        TextError: one is longer than may be, or there are too many.
    """
    found: list[Silence] = []
    draft.sub(PLACEHOLDER, " ", "control")

    def taken(match: re.Match[str]) -> str:
        seconds = _seconds(match)
        if seconds is None:
            return match[0]
        mark = match[0].strip()
        draft.changes.append(Change(mark, "", PAUSE))
        if not seconds:
            return _gap(match)
        if seconds > MAX_SILENCE_S:
            raise TextError(
                f"'{mark}' asks for {seconds:g} s of silence; the longest is {MAX_SILENCE_S:g} s",
                hint="a number without a unit is seconds: write 500ms or 2s",
            )
        found.append(Silence(mark, seconds))
        if _FIRST + len(found) > _LAST:
            raise TextError("the text has too many pauses", hint="cut it into parts")
        return f" {chr(_FIRST + len(found) - 1)} " if are_kept else _gap(match)

    if "[" in draft.text or "{" in draft.text or "(" in draft.text or "<" in draft.text:
        draft.text = MARK.sub(taken, draft.text)
    return tuple(found)


def has_mark(text: str) -> bool:
    """Whether a text asks for silence somewhere."""
    return any(_seconds(match) is not None for match in MARK.finditer(text))


def silence_alone(text: str) -> float:
    """Seconds that a text of marks alone asks for; 0 where it has words, or no marks.

    Raises:
        TextError: one of them asks for more than may be.
    """
    if not MARK.search(text):
        return 0.0
    draft = Draft(text)
    silences = take_pauses(draft, are_kept=False)
    if any(char.isalnum() for char in draft.text):
        return 0.0
    return min(sum(silence.seconds for silence in silences), MAX_SILENCE_S)


def is_timed(text: str) -> bool:
    """Whether a text is one mark that says how long, which is no note on what is heard."""
    return MARK.fullmatch(text.strip()) is not None and any(map(str.isdecimal, text))


def _seconds(match: re.Match[str]) -> float | None:
    """The length that a mark asks for; None where it cannot be read."""
    if match["tag"]:
        return _told_seconds(match["told"])
    if amount := match["round"] or match["sign"]:
        return _amount(amount, "s")
    kind = "a_" if match["a_name"] or match["a_before"] else "b_"
    size, name, length, worded, before = (
        match[f"{kind}{each}"] for each in ("size", "name", "length", "worded", "before")
    )
    if amount := length or before:  # "[[slnc 500]]" is in milliseconds on every Mac
        return _amount(amount, "ms" if name and name.lower() == "slnc" else "s")
    return STRENGTHS[_WORDED[(size or worded or "medium").lower()]]


def _told_seconds(told: str) -> float | None:
    """The length of a tag by its attributes; a time counts for more than a strength."""
    if not told.strip(" \t/"):
        return STRENGTHS["medium"]
    values = {match["what"].lower(): match["value"].rstrip("/") for match in _TOLD.finditer(told)}
    strength = values.pop("strength", None)
    for what, value in values.items():
        return _amount(value, "ms" if what in ("ms", "msec") else "s")
    if strength is not None:
        return STRENGTHS.get(strength.lower())
    return _amount(told.strip(" \t:=/\"'"), "s")


def _amount(text: str, unit: str) -> float | None:
    match = _AMOUNT.fullmatch(text.strip())
    if match is None:
        return None
    named = (match["unit"] or unit).lower()
    kind = "min" if named.startswith("min") else "ms" if named.startswith("m") else "s"
    return float(match["number"].replace(",", ".")) * _UNITS[kind]


def _gap(match: re.Match[str]) -> str:
    """What stays in the place of a mark that is taken out: the space that words need, or none."""
    text, end = match.string, match.end()
    before, after = text[match.start() - 1 : match.start()], text[end : end + 1]
    if not before or before.isspace() or before in _OPENING or not after or after.isspace():
        return ""
    is_unspaced = re.match(f"[{UNSPACED_SCRIPTS}]", after) or before >= "\u3000"
    return "" if after in _CLOSING or is_unspaced else " "


# ------------------------------------------------------------ where they belong


@dataclass(frozen=True, slots=True)
class Place:
    """Silence in a text that is read.

    Attributes:
        word: how many words stand before it.
    """

    word: int
    seconds: float


def placed(said: str, marked: str, silences: Sequence[Silence]) -> list[Place]:
    """Where the silences stand in what is said; those at one place are one.

    Args:
        said: the text without marks.
        marked: the same with marks. Its words may differ where a mark parted what is said together.

    Raises:
        TextError: too much silence.
    """
    words = _WORD.findall(said)
    others: list[str] = []
    found: list[Silence] = []
    places: list[int] = []
    for piece in _PIECES.findall(marked):
        if PLACEHOLDER.match(piece):
            found.append(silences[ord(piece) - _FIRST])
            places.append(len(others))
        else:
            others.append(piece)
    lengths: dict[int, float] = {}
    for silence, word in zip(found, _carried(places, others, words), strict=True):
        lengths[word] = lengths.get(word, 0.0) + silence.seconds
    if (longest := max(lengths.values(), default=0.0)) > MAX_SILENCE_S:
        raise TextError(
            f"pauses that follow each other ask for {longest:g} s of silence; the longest is "
            f"{MAX_SILENCE_S:g} s"
        )
    if (total := sum(lengths.values())) > MAX_SILENCES_S:
        raise TextError(
            f"the text asks for {total:g} s of silence in all; the most is {MAX_SILENCES_S:g} s"
        )
    return [Place(word, seconds) for word, seconds in sorted(lengths.items())]


def _carried(places: Iterable[int], others: list[str], words: list[str]) -> Iterator[int]:
    """Places between the words of one reading as places between those of another."""
    i = j = 0  # both readings have come to here
    for place in places:
        while i < place:
            if j < len(words) and others[i] == words[j]:
                i, j = i + 1, j + 1
                continue
            di, dj = _shift(others, words, i, j)
            if place < i + di:  # in the middle of what is said differently
                yield j + round((place - i) / di * dj)
                break
            i, j = i + di, j + dj
        else:
            yield j


def _shift(others: list[str], words: list[str], i: int, j: int) -> tuple[int, int]:
    """How far on both agree again, for two words or to the end; (1, 1) where they do not soon."""
    num_i, num_j = len(others) - i, len(words) - j
    for total in range(1, 2 * _REACH):
        for di in range(max(0, total - _REACH), min(total, num_i, _REACH) + 1):
            dj = total - di
            if dj > num_j or others[i + di : i + di + 1] != words[j + dj : j + dj + 1]:
                continue
            if others[i + di : i + di + 2] == words[j + dj : j + dj + 2]:
                return di, dj
    return 1, min(1, num_j)


def segmented(
    said: str, places: Sequence[Place], max_chars: int, language: str
) -> tuple[float, list[Segment]]:
    """A text as segments, and how long it is silent before the first."""
    words = list(_WORD.finditer(said))
    lead_s = places[0].seconds if places and places[0].word == 0 else 0.0
    segments: list[Segment] = []
    start = 0
    for place in places:
        if place.word == 0:
            continue
        end = len(said)
        if place.word < len(words):
            last = _WORD_END.match(said, words[place.word - 1].end())
            end = words[place.word - 1].end() if last is None else last.end()
        segments += segment(said[start:end], max_chars, language)
        segments[-1] = replace(segments[-1], silence_s=place.seconds)
        start = end
    return lead_s, segments + segment(said[start:], max_chars, language)
