"""Markdown and plain text to chapters, by their headings.

The text of a chapter is the file's own, markup included: taking that away is the business of
`text/`. Markdown's headings are found by markdown-it-py. Plain text has none by rule; a line is
taken for one where it is set apart and is numbered, or is short and ends no sentence.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

from markdown_it import MarkdownIt

from voxcli.audio.tags import IMAGES, image_format
from voxcli.batch.books.book import Aside, Book, Chapter, shortened, top_depth
from voxcli.errors import reason_of

MAX_COVER = 32 << 20  # bytes
MAX_HEADING = 80  # characters of a line
_METADATA = re.compile(r"\A---[ \t]*\n((?:[^\n]*\n){0,200}?)(?:---|\.\.\.)[ \t]*(?:\n|\Z)")
_PAIR = re.compile(r"([A-Za-z][\w -]*?)[ \t]*:[ \t]*(.*)")
_ITEM = re.compile(r"[ \t]*-[ \t]+(.+)")
_NOTE = re.compile(r"(?m)^[ ]{0,3}\[\^([^\]\s]+)\]:[ \t]?(.*(?:\n(?:[ ]{4}|\t).*)*)\n?")
# NOTE: bounds, for a line of nothing but beginnings would be searched to its end from each of them
_MARK = re.compile(r"\[\^[^\]\s]{1,200}\]")
_LINK = r"(?:data:[^)\n]*|[^)\n]{0,2000})"
_IMAGE = re.compile(rf"!\[([^\]\n]{{0,1000}})\](?:\({_LINK}\)|\[[^\]\n]{{0,1000}}\])")
_NUMBER = r"(?:\d{1,4}|[IVXLCDM]{1,8}|[ivxlcdm]{1,8})"
_NUMBERED = re.compile(rf"(?P<word>[^\W\d_]+)\.?[ \t]+{_NUMBER}(?:[.:)]|(?=[ \t—–-])|$).*")
_NUMBER_ALONE = re.compile(rf"{_NUMBER}\.?")
_EAST_ASIAN = re.compile(r"第[0-9０-９一二三四五六七八九十百千〇零]{1,8}[章回节節部卷話话編篇幕].*")
_ENDS_SENTENCE = re.compile(r"[.!?,;:…。！？，、；：][\"'”’»)\]]*\Z")


class Heading(NamedTuple):
    """A heading; depth 1 is the top, `line` is its line, counted from 0."""

    line: int
    title: str
    depth: int


def read_markdown(
    text: str, path: Path, *, also: Sequence[Aside] = (), depth: int | None = None
) -> Book:
    """A book of Markdown. Metadata in its head names title, author and cover.

    Args:
        also: what beside the text is spoken where it stands.
        depth: level down to which headings begin chapters; None for the first that comes twice.
    """
    said: dict[str, list[str]] = {}
    if match := _METADATA.match(text):
        said = _metadata(match[1])
        text = "\n" * match[0].count("\n") + text[match.end() :]
    left: dict[str, list[str]] = {}
    text = _without_asides(text, also, left)
    tokens = MarkdownIt("commonmark").parse(text)
    headings = [
        Heading(token.map[0], _plain(inner.children or ()), int(token.tag[1]))
        for token, inner in pairwise(tokens)
        if token.type == "heading_open" and token.map and token.level == 0
    ]
    notes = [f"{kind} are not spoken: {', '.join(words)}" for kind, words in left.items()]
    cover, note = _cover(next(iter(said.get("cover-image", said.get("cover", []))), ""), path)
    return Book(
        title=" ".join(said.get("title", [])) or _book_title(headings) or path.stem,
        authors=tuple(said.get("author", said.get("authors", []))),
        chapters=tuple(_chapters(text, headings, depth)),
        cover=cover,
        how="Markdown, chapters by its headings",
        notes=(*notes, *note),
    )


def read_plain(text: str, path: Path) -> Book:
    """A book of plain text."""
    return Book(
        title=path.stem,
        authors=(),
        chapters=tuple(_chapters(text, list(_set_apart(text.split("\n"))), None)),
        how="plain text, chapters by its headings",
    )


def _chapters(text: str, headings: Sequence[Heading], depth: int | None) -> Iterator[Chapter]:
    lines = text.split("\n")
    deepest = depth or (top_depth([each.depth for each in headings]) if headings else 1)
    found = [each for each in headings if each.depth <= deepest]
    before = "\n".join(lines[: found[0].line]).strip() if found else text.strip()
    if before:
        first = next(number for number, line in enumerate(lines, start=1) if line.strip())
        yield Chapter(shortened(before.split("\n")[0]), before, first)
    for heading, stop in pairwise([*found, Heading(len(lines), "", 0)]):
        said = "\n".join(lines[heading.line : stop.line]).strip()
        yield Chapter(shortened(heading.title) or "(no title)", said, heading.line + 1)


# ------------------------------------------------------------ Markdown


def _metadata(block: str) -> dict[str, list[str]]:
    """Names and values of a head in the simple form that such heads have: `title: The Sea`, and
    lists of `- value`."""
    found: dict[str, list[str]] = {}
    name = ""
    for line in block.split("\n"):
        if match := _PAIR.fullmatch(line):
            name = match[1].lower()
            value = match[2].strip()
            values = value[1:-1].split(",") if value[:1] == "[" and value[-1:] == "]" else [value]
            found[name] = [each.strip().strip("\"'") for each in values if each.strip()]
        elif (match := _ITEM.fullmatch(line)) and name:
            found[name].append(match[1].strip().strip("\"'"))
    return found


def _without_asides(text: str, also: Sequence[Aside], left: dict[str, list[str]]) -> str:
    """The text without footnotes and images; a line stays where it was."""

    def note(match: re.Match[str]) -> str:
        if Aside.NOTES in also:
            return f"{match[2]}\n"
        left.setdefault("footnotes", []).append(" ".join(match[2].split()))
        return "\n" * match[0].count("\n")

    def image(match: re.Match[str]) -> str:
        words = " ".join(match[1].split())
        if Aside.IMAGES in also or not words:
            return words
        left.setdefault("descriptions of images", []).append(words)
        return ""

    def mark(match: re.Match[str]) -> str:
        left.setdefault("marks of footnotes", []).append(match[0])
        return ""

    return _MARK.sub(mark, _IMAGE.sub(image, _NOTE.sub(note, text)))


def _plain(tokens: Iterable[object]) -> str:
    """The words of a heading."""
    words = (getattr(token, "content", "") for token in tokens)
    return " ".join("".join(word or " " for word in words).split())


def _book_title(headings: Sequence[Heading]) -> str:
    """The lone heading at the top, which is the book's title and no chapter's."""
    tops = [each for each in headings if each.depth == headings[0].depth]
    return tops[0].title if len(tops) == 1 and len(headings) > 1 else ""


def _cover(name: str, path: Path) -> tuple[bytes | None, tuple[str, ...]]:
    """The image that a head names, from the book's own folder."""
    if not name:
        return None, ()
    folder = path.parent.resolve()
    file = (folder / name).resolve()
    why = ""
    try:
        if not file.is_relative_to(folder):
            why = "it is outside of the book's folder"
        elif file.stat().st_size > MAX_COVER:
            why = f"it is larger than {MAX_COVER >> 20} MiB"
        elif image_format(data := file.read_bytes()):
            return data, ()
        else:
            why = f"it is not {IMAGES}"
    except (OSError, ValueError) as err:
        why = reason_of(err)
    return None, (f"the cover {name} is left out: {why}",)


# ------------------------------------------------------------ plain text


def _set_apart(lines: Sequence[str]) -> Iterator[Heading]:
    """Lines that look like headings, all of one depth."""
    padded = ["", "", *(line.strip() for line in lines), ""]
    alone = [
        (number, line)
        for number, line in enumerate(line.strip() for line in lines)
        if line and len(line) <= MAX_HEADING and not padded[number + 1] and not padded[number + 3]
    ]
    words = Counter(
        match["word"].casefold() for _, line in alone if (match := _NUMBERED.fullmatch(line))
    )
    for number, line in alone:
        match = _NUMBERED.fullmatch(line)
        is_numbered = match is not None and words[match["word"].casefold()] > 1
        is_far = not padded[number]  # two empty lines before it
        is_titled = is_far and re.search(r"\w", line) and not _ENDS_SENTENCE.search(line)
        is_sign = _NUMBER_ALONE.fullmatch(line) or _EAST_ASIAN.fullmatch(line)
        if is_numbered or is_titled or is_sign or re.match(r"#{1,6}[ \t]+\S", line):
            yield Heading(number, line.lstrip("# \t"), 1)
