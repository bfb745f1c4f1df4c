"""Text that arrives in pieces, cut into sentences, each as soon as it is certainly whole.

However a text was cut into pieces, its sentences are the same. A line ends a sentence, as in every
stream. What a language model thinks before it answers is left out. Knows no voice and no reader.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from voxcli.text.decode import whole_characters
from voxcli.text.prepared import PAUSE_LINE_S, PAUSE_PARAGRAPH_S, PAUSE_SENTENCE_S
from voxcli.text.segmenter import sentence_ends
from voxcli.text.thoughts import Thoughts
from voxcli.text.whole import MAX_OPEN, closed, cut_of, has_word, says_nothing, whole_ends

_WINDOWS = (100, 400, MAX_OPEN + 1, 2 * MAX_OPEN + 1)  # a long text is looked at in parts


@dataclass(frozen=True)
class Sentence:
    """What can be spoken.

    Attributes:
        text: without space at its ends; never empty.
        pause_s: silence that belongs before it, where another one came before.
        thoughts: tags of the thoughts that were left out since the last sentence was asked for.
    """

    text: str
    pause_s: float
    thoughts: tuple[str, ...] = ()


class ArrivingText:
    """See the module. Each call does a bounded amount of work but `feed`, which only copies.

    Args:
        language_of: ISO 639-1, of the beginning of what is there.
        is_raw: marks of layout are words too.
    """

    def __init__(self, language_of: Callable[[str], str], *, is_raw: bool = False) -> None:
        self._language_of = language_of
        self._is_raw = is_raw
        self._text = ""
        self._num_whole = 0  # characters that were declared whole by `flush`
        self._pause_s = PAUSE_SENTENCE_S
        self._is_in_line = False  # something of this line was taken
        self._half = ""  # of a character beyond 16 bits, which some programs cut in two
        self._left_out: list[str] = []
        self._thoughts = Thoughts(self._left_out.append)

    def feed(self, text: str) -> None:
        """More of it."""
        text = self._half + text
        self._half = text[-1:] if "\ud800" <= text[-1:] <= "\udbff" else ""
        self._text += self._thoughts.feed(whole_characters(text.removesuffix(self._half)))

    def flush(self) -> None:
        """What is there is whole: nothing more of its last sentence follows."""
        self._text += self._thoughts.flush()
        self._num_whole = len(self._text)

    def end(self) -> None:
        """As `flush`; what follows is another text, even where a thought has no end."""
        self._half = ""
        self._text += self._thoughts.end()
        self._num_whole = len(self._text)

    def clear(self) -> str:
        """Forget it; returns what was not taken."""
        left, self._text = self._text + self._thoughts.end(), ""
        self._num_whole, self._pause_s, self._is_in_line = 0, PAUSE_SENTENCE_S, False
        self._left_out.clear()
        self._half = ""
        return left

    def next(self) -> Sentence | None:
        """The next sentence; None where more of it has to arrive."""
        while self._text:
            size, has_newline = self._next_size()
            if not size and not has_newline:
                return None
            text = self._text[:size].strip()
            self._text = self._text[size + has_newline :]
            self._num_whole = max(0, self._num_whole - size - has_newline)
            sentence = None
            if self._is_spoken(text):
                sentence = Sentence(text, self._pause_s, tuple(self._left_out))
                self._left_out.clear()
                self._pause_s, self._is_in_line = PAUSE_SENTENCE_S, True
            if has_newline:
                pause_s = PAUSE_LINE_S if self._is_in_line else PAUSE_PARAGRAPH_S
                self._pause_s, self._is_in_line = max(self._pause_s, pause_s), False
            if sentence is not None:
                return sentence
        return None

    def _is_spoken(self, text: str) -> bool:
        """Emoji alone are, where they are all of a line, as in a whole text."""
        if self._is_raw or (self._is_in_line and not has_word(text)):
            return has_word(text)
        return bool(text) and not says_nothing(text, self._language_of(text))

    def _next_size(self) -> tuple[int, bool]:
        """Characters of the next piece, 0 where none is whole, and whether a line's end follows."""
        newline = self._text.find("\n")
        if newline < 0 and not self._num_whole:
            return _first_whole(self._text, self._language_of), False
        end = min(each for each in (newline, self._num_whole or -1) if each >= 0)
        line = self._text[:end]
        size = len(line)
        if size > MAX_OPEN:
            size = _first_whole(line, self._language_of) or size
        elif line.strip():
            ends = sentence_ends(line, self._language_of(line))
            size = next(iter(closed(line, ends)), size)
        if not line[size:].strip():  # what follows is the line's end
            size = end
        return size, size == end == newline


def _first_whole(line: str, language_of: Callable[[str], str]) -> int:
    """Where the first sentence of a line without an end is certain to end; 0 where it is not.

    What is found is what would have been, had the line come letter by letter.
    """
    for limit in _WINDOWS:
        window = line[:limit]
        if ends := whole_ends(window, language_of(window)):
            return ends[0]
        if len(window) > MAX_OPEN and (size := cut_of(window)):
            return size
        if len(line) < limit:
            break
    return 0
