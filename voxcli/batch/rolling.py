"""Rolling captions, as sites of videos make them: each cue repeats lines of the one before it.

A line is kept in the cue where it is new. What a person says twice in two ordinary cues stays:
a file is taken for a rolling one only where cues repeat and go on, again and again. Knows cues as
times and lines, no file format.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

MAX_GAP_S = 1.0  # between a cue and the next one that goes on with its lines
MAX_ECHO_GAP_S = 0.1  # between a cue and one that has nothing but its lines
ECHO_S = 0.05  # a shorter cue only moves lines up
MIN_SHARED_WORDS = 2  # different ones, of a window of words that moves on
MIN_SHARE = 1 / 3  # of neighbouring cues that repeat, in a rolling file


@dataclass(frozen=True)
class Cue:
    """What is shown from when to when, in seconds."""

    start_s: float
    end_s: float
    lines: Sequence[str]


@dataclass(frozen=True)
class Unrolled:
    """Cues with their new lines.

    Attributes:
        said_in: for each cue the index of the one that has its words, where it has no new ones.
        num_repeated: lines that were taken away.
    """

    cues: list[Cue]
    said_in: list[int | None]
    num_repeated: int = 0


def unrolled(cues: Sequence[Cue]) -> Unrolled:
    """The cues in the order given, which need not be that of their times."""
    found = Unrolled(list(cues), [None] * len(cues))
    in_time = sorted(range(len(cues)), key=lambda index: cues[index].start_s)
    order = [index for index in in_time if cues[index].lines]
    pairs = list(pairwise(order))
    new = {cue: _new_lines(cues[before], cues[cue]) for before, cue in pairs}
    repeats = {cue: lines for cue, lines in new.items() if lines != list(cues[cue].lines)}
    going_on = sum(bool(lines) for lines in repeats.values())
    has_echoes = any(not lines and _is_echo(cues[cue]) for cue, lines in repeats.items())
    is_rolling = going_on > 1 or (going_on and has_echoes)
    if not is_rolling or len(repeats) < MIN_SHARE * len(pairs):
        return found
    if has_echoes:  # whole lines move up in it, also after a pause, and no windows of words
        new = {cue: _new_whole_lines(cues[before], cues[cue]) for before, cue in pairs}
        repeats = {cue: lines for cue, lines in new.items() if lines != list(cues[cue].lines)}
    num_repeated = 0
    for before, cue in pairs:
        if cue not in repeats:
            continue
        num_repeated += max(1, len(cues[cue].lines) - len(repeats[cue]))
        found.cues[cue] = replace(cues[cue], lines=repeats[cue])
        if not repeats[cue]:
            said_in = found.said_in[before]
            found.said_in[cue] = before if said_in is None else said_in
    return replace(found, num_repeated=num_repeated)


def _is_echo(cue: Cue) -> bool:
    return cue.end_s - cue.start_s <= ECHO_S


def _new_whole_lines(before: Cue, cue: Cue) -> list[str]:
    """The same in a file whose lines move up by cues that are too short to be read."""
    old, lines = list(before.lines), list(cue.lines)
    if _is_echo(cue) and lines == old[-len(lines) :]:
        return []
    return _below_old(old, lines) or lines


def _below_old(old: list[str], lines: list[str]) -> list[str]:
    """The lines below those that the cue before had at its end; none where it had none of them."""
    for num in range(min(len(old), len(lines) - 1), 0, -1):
        if lines[:num] == old[-num:]:
            return lines[num:]
    return []


def _new_lines(before: Cue, cue: Cue) -> list[str]:
    """The lines of a cue without those that it takes over from the one before it."""
    old, lines = list(before.lines), list(cue.lines)
    gap_s = cue.start_s - before.end_s
    if gap_s > MAX_GAP_S:
        return lines
    is_echo = _is_echo(cue)
    if is_echo and lines == old[-len(lines) :]:
        return []
    if below := _below_old(old, lines):
        return below
    if gap_s <= MAX_ECHO_GAP_S and lines == old[-len(lines) :]:
        return []
    old_words, words = " ".join(old).split(), " ".join(lines).split()
    if len(old_words) < len(words) and words[: len(old_words)] == old_words:
        return [" ".join(words[len(old_words) :])]
    return _after_window(old_words, words) or lines


def _after_window(old: Sequence[str], words: Sequence[str]) -> list[str]:
    """The words that are new where a cue shows the last ones of the cue before it and goes on;
    empty where it shows too few of them to tell."""
    for num in range(min(len(old), len(words) - 1), 0, -1):
        is_window = 2 * num >= len(words) and len(set(words[:num])) >= MIN_SHARED_WORDS
        if is_window and list(words[:num]) == list(old[-num:]):
            return [" ".join(words[num:])]
    return []
