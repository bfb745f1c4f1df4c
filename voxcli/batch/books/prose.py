"""A document of XHTML to paragraphs: what is read aloud of it, and what stands beside its text.

Every word of the body is in a paragraph or among what is left out, with its kind. Knows nothing of
other documents, and not where chapters begin.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import NamedTuple

from lxml import etree

from voxcli.batch.books import markup
from voxcli.batch.books.book import Aside
from voxcli.batch.books.markup import Element, attribute, tag, types
from voxcli.text.characters import FIGURES_SHIFTED, shifted

NOTES, PAGES, IMAGES = "footnotes", "page numbers", "descriptions of images"
MARKS, READINGS, LISTS = "marks of footnotes", "readings above words", "lists of contents"
HIDDEN, INSTEAD = "hidden words", "words for readers without sound or pictures"
_ASKED = {NOTES: Aside.NOTES, PAGES: Aside.PAGES, IMAGES: Aside.IMAGES}
NOTE_TYPES = frozenset(("footnote", "footnotes", "endnote", "endnotes", "rearnote", "rearnotes"))

_BLOCKS = frozenset((
    *("address", "article", "aside", "blockquote", "body", "caption", "center", "dd", "details"),
    *("dialog", "dir", "div", "dl", "dt", "fieldset", "figcaption", "figure", "footer", "form"),
    *("header", "hgroup", "hr", "legend", "li", "main", "menu", "nav", "ol", "p", "pre"),
    *("section", "summary", "table", "tbody", "tfoot", "thead", "tr", "ul"),
))  # fmt: skip
_LINES = frozenset(("li", "tr", "dt", "dd"))  # a pause of lines between them, not of paragraphs
_HEADING = re.compile(r"h([1-6])")
_UNSPOKEN = frozenset(("script", "style", "template", "head"))  # no words
_WITHOUT = frozenset(("audio", "video", "object", "iframe", "canvas"))
# As EPUB 2 and its makers name what EPUB 3 has types for
_NOTE_CLASS = re.compile(r"(?:foot|end|rear)[-_]?notes?")
_MARK_CLASS = re.compile(r"(?:fn|(?:foot|end)?note)[-_]?(?:ref|anchor|call|mark|link)s?")
_PAGE_CLASS = re.compile(r"page[-_]?(?:nums?|numbers?|no|break)")
_LINE_CLASS = re.compile(r"(?:verse|stanza|poem)?[-_]?(?:line|verse|stanza)")
MAX_MARK = 200  # characters of a mark of a footnote, with the spaces around it
_MARK = re.compile(r"[\[(]?\s*(?:\d{1,4}|[a-z]|[*†‡§¶‖#]{1,3})\s*[\])]?")
_ENCLOSED = re.compile(r"[\[(].*[\])]|[*†‡§¶‖#]+")
_UNSEEN = re.compile(r"display\s*:\s*none|visibility\s*:\s*hidden", re.IGNORECASE)
_SPACE = re.compile(r"[ \t\r\n\f]+")
_FIGURES = re.compile(FIGURES_SHIFTED)
_STOP = re.compile(r"[.,;:!?…。！？،؛؟]\W*\Z")


class LeftOut(NamedTuple):
    """Words that are in no paragraph; `at` is the number of the paragraph that comes next."""

    at: int
    kind: str
    words: str


@dataclass(frozen=True, slots=True)
class Paragraph:
    """A paragraph, a heading, or a line of a list or a table.

    Attributes:
        level: 1 to 6 of a heading; 0 of others.
    """

    text: str
    level: int = 0
    is_line: bool = False


@dataclass
class Prose:
    """What a document says.

    Attributes:
        anchors: id to the number of the paragraph that it is in, or that comes next.
        kinds: what the whole document is, as it says itself.
        title: of its head.
    """

    paragraphs: list[Paragraph] = field(default_factory=list)
    anchors: dict[str, int] = field(default_factory=dict)
    left: list[LeftOut] = field(default_factory=list)
    kinds: set[str] = field(default_factory=set)
    title: str = ""


def read_prose(root: Element, also: Iterable[Aside] = (), *, is_nav: bool = False) -> Prose:
    """Read a document.

    Args:
        also: what beside the text is spoken where it stands.
        is_nav: whether lists of contents are the document's own text.
    """
    bodies = markup.each(root, "body")
    heads = [each for name in ("title", "doctitle") for each in markup.each(root, name)[:1]]
    prose = Prose(title=markup.words_of(heads[0]) if heads else "")
    bodies = bodies or [root]
    whole = _wholes(bodies[0])
    prose.kinds = {word for element in whole for word in types(element)}
    if any(_has_class(element, _NOTE_CLASS) for element in whole):
        prose.kinds.add("footnotes")
    walk = _Walk(prose, frozenset(also), whole, is_nav=is_nav)
    for body in bodies:
        walk.read(body)
    return prose


def _wholes(body: Element) -> list[Element]:
    """The body and what has all of it: what they are the whole document is."""
    found = [body]
    while True:
        inner = [child for child in found[-1] if tag(child)]
        has_words = bool((found[-1].text or "").strip()) or any(
            (child.tail or "").strip() for child in found[-1]
        )
        if len(inner) != 1 or has_words or tag(inner[0]) not in ("section", "div", "article"):
            return found
        found.append(inner[0])


def _has_class(element: Element, wanted: re.Pattern[str]) -> bool:
    return any(wanted.fullmatch(word) for word in attribute(element, "class").lower().split())


def _text_of(element: Element) -> str | None:
    """What stands at the beginning of an element; figures in `sup` and `sub` stay what they are."""
    name = tag(element)
    text: str | None = element.text
    if name in ("sup", "sub") and not len(element) and text and _FIGURES.fullmatch(text.strip()):
        return shifted(text.strip(), name)
    return text


class _Walk:
    """Goes through a body once, however deep it is."""

    def __init__(
        self, prose: Prose, also: frozenset[Aside], whole: list[Element], *, is_nav: bool
    ) -> None:
        self._prose = prose
        self._also = also
        self._whole = whole
        self._is_nav = is_nav
        self._parts: list[str] = []  # of the paragraph that is being read
        self._level = 0
        self._is_worded = False  # the heading that is being read has words of its own
        self._is_line = False
        self._num_pre = 0
        self._aside: tuple[Element, str] | None = None  # what is being left out
        self._aside_parts: list[str] = []

    def read(self, body: Element) -> None:
        events = ("start", "end", "comment", "pi")
        for event, element in etree.iterwalk(body, events=events):
            if event == "start":
                self._start(element)
                self._add(_text_of(element))
                continue
            if event == "end":
                self._end(element)
            if element is not body:
                self._add(element.tail)
        self._flush()

    # ------------------------------------------------------------ elements

    def _start(self, element: Element) -> None:
        name = tag(element)
        if self._is_block(element, name) and self._aside is None:
            self._flush()
        self._keep_anchors(element, name)
        if self._aside is not None:
            if self._is_block(element, name) or name in ("br", "td", "th"):
                self._aside_parts.append(" ")
            return
        kind = self._kind(element, name)
        if kind and _ASKED.get(kind) not in self._also:
            self._aside, self._aside_parts = (element, kind), []
            if name == "img":
                self._aside_parts.append(attribute(element, "alt"))
            return
        if kind:
            self._parts.append(" ")
        if name == "img":
            self._parts.append(attribute(element, "alt"))
        elif kind == PAGES and not markup.words_of(element):
            self._parts.append(attribute(element, "title") or attribute(element, "aria-label"))
        elif name == "math" and (alternative := attribute(element, "alttext")):
            self._parts.append(f" {alternative} ")
        elif name == "br":
            self._parts.append("\n")
        elif name in ("td", "th") and (said := "".join(self._parts).rstrip()):
            self._parts.append(" " if _STOP.search(said) else ", ")
        elif name == "pre":
            self._num_pre += 1
        elif match := _HEADING.fullmatch(name):
            self._level = int(match[1])
            self._is_worded = bool(markup.words_of(element))
        self._is_line = self._is_line or name in _LINES

    def _end(self, element: Element) -> None:
        name = tag(element)
        if self._aside is not None:
            if self._aside[0] is element:
                self._leave_out(self._aside[1])
            return
        if self._also and self._kind(element, name):
            self._parts.append(" ")
        if name == "pre":
            self._num_pre -= 1
        if self._is_block(element, name):
            self._flush()
        if name in _LINES:
            self._is_line = False

    def _is_block(self, element: Element, name: str) -> bool:
        if name in _BLOCKS or _HEADING.fullmatch(name):
            return True
        return name == "span" and _has_class(element, _LINE_CLASS)

    def _keep_anchors(self, element: Element, name: str) -> None:
        for key in ("id", "name") if name == "a" else ("id",):
            if anchor := attribute(element, key):
                self._prose.anchors.setdefault(anchor, len(self._prose.paragraphs))

    # ------------------------------------------------------------ what stands beside the text

    def _kind(self, element: Element, name: str) -> str:
        """What an element is that is not spoken, or not always; empty for the text."""
        if any(element is each for each in self._whole):
            return ""
        said = types(element)
        if name == "img":
            return "" if self._is_letter(element) else IMAGES
        if said & NOTE_TYPES or _has_class(element, _NOTE_CLASS):
            return NOTES
        if said & {"noteref", "backlink"} or self._is_mark(element, name):
            return MARKS
        if "pagebreak" in said or _has_class(element, _PAGE_CLASS):
            return PAGES
        if name in ("rt", "rp"):
            return READINGS
        if name == "nav" and not self._is_nav:
            return LISTS
        if name in ("title", "desc"):  # of a drawing
            return IMAGES
        if name in _WITHOUT or name == "case":
            return INSTEAD
        is_hidden = element.get("hidden") is not None or _UNSEEN.search(attribute(element, "style"))
        return HIDDEN if is_hidden or name in _UNSPOKEN else ""

    def _is_mark(self, element: Element, name: str) -> bool:
        """Whether a link is the mark of a footnote: a raised number, one in brackets, a sign."""
        if name == "sup" and len(element) == 1 and tag(element[0]) == "a":
            return self._is_mark(element[0], "a")
        if name != "a" or "#" not in attribute(element, "href"):
            return False
        if _has_class(element, _MARK_CLASS):
            return True
        words = ""
        for text in element.itertext():
            words += text
            if len(words) > MAX_MARK:
                return False
        words = " ".join(words.split())
        if not _MARK.fullmatch(words):
            return False
        above = element.getparent()
        is_raised = bool(markup.each(element, "sup")) or (above is not None and tag(above) == "sup")
        return is_raised or _ENCLOSED.fullmatch(words) is not None

    def _is_letter(self, image: Element) -> bool:
        """Whether an image is text: the letter that begins a word, or a heading."""
        words = attribute(image, "alt").strip()
        tail = image.tail or ""
        if self._level:
            return not self._is_worded
        return 0 < len(words) <= 2 and words.isalpha() and (tail[:1].islower() or tail[:1] == "’")

    def _leave_out(self, kind: str) -> None:
        """End what is left out."""
        assert self._aside is not None
        words = " ".join("".join(self._aside_parts).split())
        is_code = tag(self._aside[0]) in _UNSPOKEN
        self._aside = None
        if words and not is_code:
            self._prose.left.append(LeftOut(len(self._prose.paragraphs), kind, words))

    # ------------------------------------------------------------ text

    def _add(self, text: str | None) -> None:
        if not text:
            return
        if self._aside is not None:
            self._aside_parts.append(text)
        else:
            self._parts.append(text if self._num_pre else _SPACE.sub(" ", text))

    def _flush(self) -> None:
        """End the paragraph, if there is one."""
        text = "".join(self._parts)
        self._parts = []
        lines = (_SPACE.sub(" ", line).strip() for line in text.split("\n"))
        text = "\n".join(filter(None, lines))
        if text:
            is_line = self._is_line and not self._level
            if is_line and not _STOP.search(text):
                text += "."  # so that it is not spoken as one sentence with the next line
            self._prose.paragraphs.append(Paragraph(text, self._level, is_line))
        self._level = 0
