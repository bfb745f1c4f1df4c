"""What each token of an English text is, decided before anything is said.

A recogniser names the characters that its tokens start with, a pattern, and how a match is said.
Recognisers are tried in their order, each at every place where it can start; the first that
accepts a stretch of text owns it. All of them see the text as it was written, on both sides, and
none sees what another one says. Joining is done here alone: what is said is kept apart from a word
that it touches. Knows no rule itself.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import lru_cache
from itertools import chain

from voxcli.text.changes import Change, Draft
from voxcli.text.patterns import pattern_of

DIGIT, CAPITAL, SMALL = "0", "A", "a"  # starts: a run of digits, a word by its first letter
STOPPED = "S"  # a word with a full stop behind it
JOINED = "J"  # a word or a run of digits that something touches behind
FIGURES = "3"  # three figures in a row; where none are, many kinds of numbers need no look

_MAX_SETS = 4096
_MAX_WORDS, _MAX_WORD = 1 << 15, 40  # kept, characters of one
# A day, a month or the name of a time after "p.m." begins no sentence.
_WHEN = (
    "(?:Mon|Tues|Wednes|Thurs|Fri|Satur|Sun)days?|(?:Jan|Febr)uary|March|April|June|July|August|"
    "(?:Septem|Octo|Novem|Decem)ber|Eastern|Pacific|Central|Mountain|Greenwich|British|"
    "[A-Z]{1,2}[SD]?T"
)
_SENTENCE_END = pattern_of(rf"[\"')\]]{{0,3}}(?:\s*$|\n|\s+[\"'(]?(?!(?:{_WHEN})\b)[A-Z])")
_RANGED = ("date", "time", "money", "unit")  # a dash between two of a kind is "to"
_GLUE = (",", ";", "!", "?", ":")  # marks that a word would stick to: "123?123"
_DASH = pattern_of(r"\s?[-–]\s?")
_RUNS = (DIGIT, CAPITAL, SMALL)
_MAYBE = frozenset((STOPPED, JOINED))
_FIGURES_MEET = pattern_of(r"\d-\d")
_FIGURES = pattern_of(r"\d\d\d")
_SPOT = pattern_of(r"[0-9]+|[^\W\d_²³]+|[^\w\s]|[_²³]")
_ASCII_KINDS = {
    ord(char): DIGIT if char.isdigit() else CAPITAL if char.isupper() else SMALL
    for char in map(chr, range(128))
    if char.isalnum()
} | {ord(char): None for char in map(chr, range(128)) if char.isspace()}
_ASCII_RUNS = {  # each where its kind of run starts
    DIGIT: pattern_of("[0-9]++"),
    CAPITAL: pattern_of("(?<![A-Za-z])[A-Z]"),
    SMALL: pattern_of("(?<![A-Za-z])[a-z]"),
    STOPPED: pattern_of(r"(?<![A-Za-z])[A-Za-z]++(?=\.)"),
    JOINED: pattern_of(r"(?:[0-9]++|(?<![A-Za-z])[A-Za-z]++)(?=\S)"),
}


class OneOf:
    """Finds one of some strings in a text, at a tenth of the time that a pattern of them takes.

    Args:
        strings: in small letters where the case is ignored.
    """

    def __init__(self, *strings: str, ignores_case: bool = False) -> None:
        self._strings = strings
        self._ignores_case = ignores_case

    def search(self, text: str) -> bool:
        """Whether the text has one."""
        if self._ignores_case:
            text = text.casefold()
        for string in self._strings:  # noqa: SIM110 (a generator takes twice the time)
            if string in text:
                return True
        return False


class InWord:
    """Finds what one word has, a stretch without spaces; what a word has is kept for other texts.

    Args:
        glance: neither finds a space nor looks at one, and finds no word of small letters alone.
        needs: signs and classes that the word must all have.
    """

    def __init__(self, glance: re.Pattern[str] | OneOf | str, needs: str = "") -> None:
        self.glance = pattern_of(glance) if isinstance(glance, str) else glance
        self.needs = frozenset(needs)

    def search(self, text: str) -> bool:
        """Whether a word of the text has it, found without what is kept."""
        return any(
            self.needs.issubset(map(_start, word)) and self.glance.search(word)
            for word in text.split()
        )


FIGURES_JOINED = InWord(r"[-/.](?<=\d.)\d", DIGIT)
LETTER_BEHIND = InWord(r"\d(?=[^\W\d_])", DIGIT)  # a figure


@dataclass(frozen=True, slots=True)
class Recogniser:
    """One kind of token.

    Attributes:
        kind: of the recorded change.
        starts: first characters; `DIGIT`, `CAPITAL`, `SMALL`, `STOPPED` and `JOINED` stand for
            their classes.
        pattern: matched at a start; it may look around and must be bounded.
        say: the words; the text itself to keep it as it is; None for another recogniser.
        needs: signs and classes, or `FIGURES`, that the text must all have.
        search: what must be found somewhere in the text for the recogniser to be tried at all. A
            pattern should begin with a sign or a set of few, which are found at a glance.
    """

    kind: str
    starts: str
    pattern: re.Pattern[str]
    say: Callable[[re.Match[str]], str | None]
    needs: str = ""
    search: re.Pattern[str] | OneOf | InWord | None = None


class _Words(dict[str, int]):
    """What each word has, a bit for each `InWord`; looked at once and kept."""

    def __init__(self, recognisers: Iterable[Recogniser]) -> None:
        searches = {
            id(each.search): each.search for each in recognisers if isinstance(each.search, InWord)
        }
        self.bits = {identity: 1 << index for index, identity in enumerate(searches)}
        self._all = list(zip(self.bits.values(), searches.values(), strict=True))
        self._looks: dict[frozenset[str], list[tuple[int, Callable[[str], object]]]] = {}

    def __missing__(self, word: str) -> int:
        found = 0
        if not (word.isalpha() and word.islower()):
            kinds = frozenset(map(_start, word))
            looks = self._looks.get(kinds)
            if looks is None:
                if len(self._looks) >= _MAX_SETS:
                    self._looks.clear()
                looks = self._looks[kinds] = [
                    (bit, each.glance.search) for bit, each in self._all if each.needs <= kinds
                ]
            for bit, search in looks:
                if search(word):
                    found |= bit
        if len(word) <= _MAX_WORD:
            if len(self) >= _MAX_WORDS:
                self.clear()
            self[word] = found
        return found


class _Possible:
    """The recognisers for texts of the same signs and classes, each with the starts there are.

    Args:
        recognisers: in their order; others cannot match in such a text.
        present: signs and classes of the texts.
        words: what words have.
    """

    def __init__(
        self, recognisers: list[Recogniser], present: frozenset[str], words: _Words
    ) -> None:
        self._recognisers = [
            ("".join(start for start in each.starts if start in present), each)
            for each in recognisers
        ]
        self._words = words
        searches = {id(each.search): each.search for each in recognisers if each.search is not None}
        self._of_words = sum(
            words.bits[identity] for identity in searches if identity in words.bits
        )
        self._bits = dict(words.bits)
        self._looks: list[tuple[int, Callable[[str], object]]] = []
        for identity, search in searches.items():
            if identity not in self._bits:
                bit = self._bits[identity] = 1 << len(self._bits)
                self._looks.append((bit, search.search))
        self._to_try: dict[int, list[tuple[str, Recogniser]]] = {}

    def to_try(self, text: str) -> list[tuple[str, Recogniser]]:
        """Those whose search finds something; each search looks once, whoever shares it."""
        found, words = 0, self._words
        for word in text.split():
            found |= words[word]
        found &= self._of_words
        for bit, search in self._looks:
            if search(text):
                found |= bit
        chosen = self._to_try.get(found)
        if chosen is None:
            if len(self._to_try) >= _MAX_SETS:
                self._to_try.clear()
            chosen = self._to_try[found] = [
                (starts, each)
                for starts, each in self._recognisers
                if each.search is None or self._bits[id(each.search)] & found
            ]
        return chosen


@dataclass(frozen=True, slots=True)
class Token:
    """A stretch of the text that has an owner."""

    kind: str
    start: int
    end: int
    said: str


def _with_figures(kinds: frozenset[str], text: str) -> frozenset[str]:
    return kinds | {FIGURES} if DIGIT in kinds and _FIGURES.search(text) else kinds


class Spots:
    """Where tokens can start in a text, by kind of start.

    Attributes:
        kinds: that there are, and perhaps more.
        found: in order, by starts that were asked for.
    """

    kinds: frozenset[str]
    found: dict[str, list[int]]

    def __init__(self, text: str) -> None:
        self.found = {}
        for found in _SPOT.finditer(text):
            start, end = found.span()
            kind = _start(text[start])
            self.found.setdefault(kind, []).append(start)
            if kind in _RUNS and end < len(text) and not text[end].isspace():
                self.found.setdefault(JOINED, []).append(start)
                if text[end] == "." and kind != DIGIT:
                    self.found.setdefault(STOPPED, []).append(start)
        self.kinds = _with_figures(frozenset(self.found), text)

    def of(self, starts: str) -> list[int]:
        """In order, for all of the kinds."""
        found = self.found.get(starts)
        if found is None:
            if len(starts) == 1:
                return self._one(starts)
            found = self.found[starts] = sorted(chain.from_iterable(map(self._one, starts)))
        return found

    def _one(self, start: str) -> list[int]:
        return self.found.get(start, [])


class AsciiSpots(Spots):
    """The same for ASCII, where kinds are looked for when they are asked for: most never are."""

    def __init__(self, text: str) -> None:
        self._text = text
        self.found = {}
        self.kinds = _with_figures(_MAYBE.union(text.translate(_ASCII_KINDS)), text)

    def _one(self, start: str) -> list[int]:
        found = self.found.get(start)
        if found is None:
            if runs := _ASCII_RUNS.get(start):
                found = self.found[start] = [run.start() for run in runs.finditer(self._text)]
                return found
            found = self.found[start] = []
            at = self._text.find(start) if start in self.kinds else -1
            while at >= 0:
                found.append(at)
                at = self._text.find(start, at + 1)
        return found


class Tagger:
    """Tells the tokens of a text apart.

    Args:
        recognisers: in the order they are tried.
    """

    def __init__(self, recognisers: Iterable[Recogniser]) -> None:
        self._recognisers = tuple(recognisers)
        self._possible: dict[frozenset[str], _Possible] = {}
        self._words = _Words(self._recognisers)

    def tag(self, text: str) -> list[Token]:
        """Tokens in order; no two overlap, and the rest is plain words and signs."""
        spots = AsciiSpots(text) if text.isascii() else Spots(text)
        tokens: list[Token] = []
        taken = bytearray(len(text))
        places_of = spots.found.get
        for starts, recogniser in self._possible_with(spots.kinds).to_try(text):
            at = recogniser.pattern.match
            for spot in places_of(starts) or spots.of(starts):
                if taken[spot] or (match := at(text, spot)) is None:
                    continue
                end = match.end()
                if taken.find(1, spot, end) >= 0:
                    continue
                said = recogniser.say(match)
                if said is not None:
                    taken[spot:end] = b"\1" * (end - spot)
                    tokens.append(Token(recogniser.kind, spot, end, said))
        return sorted(tokens, key=lambda token: token.start)

    def _possible_with(self, present: frozenset[str]) -> _Possible:
        """Recognisers for a text with these signs and classes; texts share few sets of them."""
        found = self._possible.get(present)
        if found is None:
            if len(self._possible) >= _MAX_SETS:
                self._possible.clear()
            possible = [
                recogniser
                for recogniser in self._recognisers
                if not present.isdisjoint(recogniser.starts)
                and present.issuperset(recogniser.needs)
            ]
            found = self._possible[present] = _Possible(possible, present, self._words)
        return found

    def say(self, draft: Draft) -> None:
        """Put the words of every token in its place, apart from a letter or figure beside it."""
        text = draft.text
        out: list[str] = []
        done, was_new, kind = 0, False, ""

        def add(piece: str, is_apart: bool) -> None:
            if piece and is_apart and out and out[-1][-1].isalnum() and piece[0].isalnum():
                out.append(" ")
            if piece:
                out.append(piece)

        for token in self.tag(text):
            gap, before = text[done : token.start], text[token.start : token.end]
            is_new = token.said != before
            if kind == token.kind and kind in _RANGED and _DASH.fullmatch(gap):
                draft.changes.append(Change(gap.strip(), "to", kind))
                gap = " to "
            elif gap == "-" and was_new and is_new and _FIGURES_MEET.match(text, token.start - 2):
                gap = ", "  # "20-114B" is no "twenty-one hundred"
            if is_new and gap.endswith(_GLUE):
                gap += " "
            add(gap, was_new)
            add(token.said, is_new or (was_new and not gap))
            if is_new:
                change = Change(before.strip() or before, token.said.strip(), token.kind)
                draft.changes.append(change)
            done, was_new, kind = token.end, is_new, token.kind
        add(text[done:], was_new)
        draft.text = "".join(out)


def led(match: re.Match[str], pattern: re.Pattern[str]) -> bool:
    """Whether the pattern, of at most 24 characters, ends where the match starts."""
    before = match.string[max(0, match.start() - 24) : match.start()]
    return any(found.end() == len(before) for found in pattern.finditer(before))


def ends_sentence(match: re.Match[str]) -> bool:
    """Whether the full stop of an abbreviation also ends the sentence."""
    return _SENTENCE_END.match(match.string, match.end()) is not None


@lru_cache(maxsize=1024)
def _start(char: str) -> str:
    if char.isdecimal() and char.isascii():
        return DIGIT
    if char.isalpha():
        return CAPITAL if char.isupper() else SMALL
    return char
