"""How long a text may take to say: the bounds behind "runaway" and "truncated".

Counts characters by kind, each with a slowest and a fastest plausible time, so that one rule covers
mixed texts. Knows nothing about samples. The bounds are wide on purpose: they catch seconds of
babble and missing halves, not a calm or a hurried voice.
"""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from dataclasses import dataclass
from functools import lru_cache

# Slowest and fastest seconds per character. English: 8-25 characters/s with the spaces, and 40 as
# the bound below which words must be missing. Chinese: 2.5-8 characters/s, 13 as that bound.
LETTER_S = (1 / 8, 1 / 40)
IDEOGRAPH_S = (1 / 2.5, 1 / 13)
KANA_S = (1 / 4, 1 / 20)  # one mora each, 7-10 a second in ordinary Japanese
DIGIT_S = (0.6, 1 / 20)  # alone "seven" takes 0.4 s; in "2000000" seven digits are two words
SPOKEN_SYMBOL_S = (0.9, 0.0)  # "%" or "&" may be read ("percent") or not
CAPITAL_S = (0.45, 1 / 40)  # a letter of an acronym may be spelled ("W" is the longest)
PAUSE_S = (0.7, 0.0)  # at a mark that ends a clause or sentence
ABJAD_SLOW_FACTOR = 1.6  # Arabic, Hebrew, …: short vowels are spoken but not written

ABJAD_LANGUAGES = frozenset({"ar", "fa", "he", "ps", "ur", "yi"})

ALLOWANCE_S = 1.5  # slow start, breath and trailing silence that every segment may have
MIN_CAP_S = 3.0  # a text of one or two characters may not run longer than this
MIN_SPEECH_S = 0.12  # the shortest word, "a" or "嗯", still lasts this long

_PAUSES = frozenset(".,;:!?…—–\n。，、；：！？")
_SPOKEN_SYMBOLS = frozenset({"Sc", "Sm", "So"})
_ACRONYM = re.compile(r"[A-Z](?<!\w.)[A-Z.]{1,5}\b")  # longer ones are read as words or shouted
_PAUSE_RUN = re.compile("([.,;:!?…—–。，、；：！？])[.,;:!?…—–。，、；：！？]+")


@dataclass(frozen=True)
class SpeakingTime:
    """Plausible seconds of speech for a text."""

    slowest_s: float
    fastest_s: float


def speaking_time(text: str, language: str | None = None) -> SpeakingTime:
    """Bounds for the time `text` takes, without any allowance."""
    text = _PAUSE_RUN.sub(r"\1", text)  # "......" is one pause
    acronyms = _ACRONYM.findall(text)
    num_spelled = sum(map(str.isalpha, "".join(acronyms))) if acronyms else 0
    slowest, fastest = (num_spelled * seconds for seconds in CAPITAL_S)
    said = _ACRONYM.sub(_without_letters, text) if num_spelled else text
    slow, fast = _ascii_time(said) if said.isascii() else _char_times(said)
    slowest, fastest = slowest + slow, fastest + fast
    if language in ABJAD_LANGUAGES:
        slowest *= ABJAD_SLOW_FACTOR
    return SpeakingTime(slowest, fastest)


def _char_times(text: str) -> tuple[float, float]:
    slowest = fastest = 0.0
    for char, count in Counter(text).items():
        slow, fast = _char_time(char)
        slowest += count * slow
        fastest += count * fast
    return slowest, fastest


def _ascii_time(text: str) -> tuple[float, float]:
    """The same for ASCII alone, whose characters are of a few kinds: four times as fast."""
    times, kinds = _ascii_kinds()
    kind_of_each = text.encode("ascii").translate(kinds)
    slowest = fastest = 0.0
    for kind, (slow, fast) in enumerate(times):
        count = kind_of_each.count(kind)
        slowest += count * slow
        fastest += count * fast
    return slowest, fastest


@lru_cache(1)
def _ascii_kinds() -> tuple[list[tuple[float, float]], bytes]:
    """The times that ASCII characters have, and a table from each to the place of its own."""
    found = [_char_time(chr(code)) for code in range(128)]
    times = list(dict.fromkeys(found))
    return times, bytes([times.index(each) for each in found]).ljust(256, b"\0")


def _without_letters(acronym: re.Match[str]) -> str:
    return "".join(char for char in acronym[0] if not char.isalpha())


@lru_cache(1 << 16)
def _char_time(char: str) -> tuple[float, float]:
    if "\u3040" <= char <= "\u30ff":
        return KANA_S
    if "\u3400" <= char <= "\u9fff" or "\uac00" <= char <= "\ud7af" or char >= "\U00020000":
        return IDEOGRAPH_S  # Hangul too: one written syllable is one spoken syllable
    category = unicodedata.category(char)
    if category == "Nd":
        return DIGIT_S
    if category[0] in "LN":
        return LETTER_S
    if char in _PAUSES:
        return PAUSE_S
    if category in _SPOKEN_SYMBOLS or char in "%&@#*/\\":
        return SPOKEN_SYMBOL_S
    if char == " ":
        return LETTER_S[0], 0.0  # the slow rate counts spaces; the fast bound does without
    return 0.0, 0.0


def max_audio_seconds(text: str, language: str | None = None) -> float:
    """The cap at which the engine stops a segment whose end token does not come."""
    return max(MIN_CAP_S, speaking_time(text, language).slowest_s + ALLOWANCE_S)


def min_speech_seconds(text: str, language: str | None = None) -> float:
    """Less speech than this means that words are missing."""
    return max(MIN_SPEECH_S, speaking_time(text, language).fastest_s)
