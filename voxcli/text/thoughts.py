"""What a language model thinks before it answers, "<think> ... </think>": it is not spoken.

A thought begins where a line does. It ends with its closing tag, or with the text. Some models
write no opening tag: in a whole text, what comes before a closing tag that ends or begins a line is
a thought too. Works on any language.
"""

from __future__ import annotations

import re
from collections.abc import Callable

from voxcli.text.changes import DIRECTION, Change, Draft
from voxcli.text.patterns import pattern_of

NAMES = "think thinking thought thoughts reason reasoning"
KIND = "thought"

_NAME = f"(?:{NAMES.replace(' ', '|')})"
_OPENING = rf"(?:<{_NAME} ?>|(?-i:\[THINK\])|◁{_NAME}▷|<\|begin_of_{_NAME}\|>)"
_CLOSING = rf"(?:</{_NAME} ?>|(?-i:\[/THINK\])|◁/{_NAME}▷|<\|end_of_{_NAME}\|>)"
_MAX_CLOSING = max(len(f"<|end_of_{name}|>") for name in NAMES.split())
_THOUGHT = pattern_of(
    rf"^[ \t]{{0,8}}(?P<tag>{_OPENING})(?P<words>[\s\S]*?)(?:{_CLOSING}|\Z)", re.I | re.M
)
_LONE = pattern_of(rf"^[ \t]{{0,8}}{_CLOSING}|{_CLOSING}(?=[ \t]{{0,8}}$)", re.I | re.M)
_ANY_OPENING = pattern_of(_OPENING, re.I)
_ANY = pattern_of(rf"{_OPENING}|{_CLOSING}", re.I)
_ANY_CLOSING = pattern_of(_CLOSING, re.I)
_AT_LINE = pattern_of(rf"[ \t]{{0,8}}(?P<tag>{_OPENING}|{_CLOSING})", re.I)
_MAY_BE_TAG = pattern_of(r"[ \t]{0,8}(?:[<\[◁]/?[A-Za-z]{0,9} ?|<\|[A-Za-z_]{0,18}\|?)?")


def thoughts(draft: Draft) -> None:
    """Take thoughts out; each is a change, and its tag a direction that is not followed."""
    if not any(sign in draft.text for sign in "<[◁") or not _ANY.search(draft.text):
        return

    def take(match: re.Match[str]) -> str:
        draft.changes.append(Change(match["tag"], "", DIRECTION))
        return ""

    draft.sub(_THOUGHT, take, KIND)
    lone = list(_LONE.finditer(draft.text))
    if lone and not _ANY_OPENING.search(draft.text, 0, lone[-1].start()):
        words, draft.text = draft.text[: lone[-1].start()], draft.text[lone[-1].end() :]
        if words.strip():
            draft.changes.append(Change(words.strip(), "", KIND))
        draft.changes.append(Change(lone[-1].group().strip(), "", DIRECTION))


def outside_thoughts(text: str) -> str:
    """A text without them."""
    draft = Draft(text)
    thoughts(draft)
    return draft.text


class Thoughts:
    """Takes thoughts out of a text that comes in pieces; the same, however it is cut.

    Args:
        tell: called with the tag of each.
    """

    def __init__(self, tell: Callable[[str], None] = lambda tag: None) -> None:
        self._tell = tell
        self._held = ""  # the beginning of a tag, perhaps
        self._is_open = False
        self._is_line_begun = False

    def feed(self, text: str) -> str:
        """What of it is outside of thoughts; what may become a tag is held back."""
        self._held += text
        said: list[str] = []
        while self._held:
            if self._is_open:
                closing = _ANY_CLOSING.search(self._held)
                if closing is None:
                    self._held = self._held[-_MAX_CLOSING:]
                    break
                self._is_open, self._held = False, self._held[closing.end() :]
            elif self._is_line_begun:
                end = self._held.find("\n") + 1
                size = end or len(self._held)
                said.append(self._held[:size])
                self._held, self._is_line_begun = self._held[size:], not end
            elif tag := _AT_LINE.match(self._held):
                self._held = self._held[tag.end() :]
                self._is_open = _ANY_CLOSING.match(tag["tag"]) is None
                self._tell(tag["tag"])
            elif _MAY_BE_TAG.fullmatch(self._held):
                break
            else:
                self._is_line_begun = True
        return "".join(said)

    def flush(self) -> str:
        """What was held back, which is no tag after all."""
        if self._is_open:
            return ""
        said, self._held = self._held, ""
        self._is_line_begun = self._is_line_begun or bool(said)
        return said

    def end(self) -> str:
        """As `flush`; what comes next is the beginning of another text."""
        said = self.flush()
        self._held, self._is_open, self._is_line_begun = "", False, False
        return said
