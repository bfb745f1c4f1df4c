"""An EPUB's XML and XHTML to trees, by lxml: strictly, or as a browser would where it is broken.

No tree has entities of other files, and no parser uses the network. Knows nothing of books.
"""

from __future__ import annotations

import codecs
import re
from html.entities import html5
from typing import Any

from lxml import etree

from voxcli.batch.encoding import decode_table
from voxcli.errors import TextError, reason_of

Element = Any  # an lxml element, which has no types of its own
_OPS = "{http://www.idpf.org/2007/ops}"
MAX_TAGS = 2_000_000  # of a document, with its entities; the longest novels have some 100,000
_HEAD = 1024  # bytes in which a document says its encoding
_ENCODINGS = (
    re.compile(rb"""<\?xml[^>]*?\sencoding\s*=\s*["']([\w.:-]+)["']"""),
    re.compile(rb"""<meta[^>]*?charset\s*=\s*["']?\s*([\w.:-]+)""", re.IGNORECASE),
)
_MARKS = (codecs.BOM_UTF8, codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)
_DECLARATION = re.compile(r"\A\s*<\?xml\b[^>]*\?>")
_DECLARED = re.compile(r"""<!ENTITY\s+([\w.-]+)\s+["']""")
_REFERENCE = re.compile(r"&(?:([A-Za-z][\w.-]{0,40});|(?![#\w]))")
_OF_XML = ("amp", "lt", "gt", "quot", "apos")
_EMPTY = re.compile(r"<([A-Za-z][\w:.-]*)((?:\s[^<>]*?)?)/>")
_VOID = frozenset((  # elements of HTML that have no end
    *("area", "base", "br", "col", "embed", "hr", "img", "input", "link", "meta", "param"),
    *("source", "track", "wbr"),
))  # fmt: skip


def decode(data: bytes, encoding: str | None, source: str) -> str:
    """A document's text: as it is asked, as its first bytes say, or UTF-8.

    Raises:
        TextError: it cannot be decoded; the message offers what it may be.
    """
    if encoding is None and not data.startswith(_MARKS):
        found = next((match for each in _ENCODINGS if (match := each.search(data[:_HEAD]))), None)
        encoding = _known(found[1].decode("ascii"), data) if found else None
    return decode_table(data, encoding, source)[0]


def _known(name: str, data: bytes) -> str | None:
    """Python's name of an encoding; None for one that is unknown, or UTF-8."""
    try:
        known = codecs.lookup(name).name
    except LookupError:
        return None
    if known in ("ascii", "iso8859-1"):  # as browsers do: quotes of cp1252 are declared as these
        try:
            data.decode("cp1252")
        except UnicodeDecodeError:
            return "iso8859-1"
        return "cp1252"
    return None if known in ("utf-8", "utf-16") else known


def parse(text: str, source: str) -> Element:
    """The root of a document.

    Raises:
        TextError: there is no markup in it, far too much, or it cannot be read to its end.
    """
    if (num_tags := text.count("<") + text.count("&")) > MAX_TAGS:  # a tree takes memory for each
        raise TextError(
            f"{source} has {num_tags:,} tags and entities; at most {MAX_TAGS:,} can be read",
            hint="check what it is",
        )
    text = _DECLARATION.sub("", text)
    declared = set(_DECLARED.findall(text[: text.find("]>") + 1])) if "<!ENTITY" in text else set()

    def resolved(match: re.Match[str]) -> str:
        name = match[1]
        if name in _OF_XML or name in declared:
            return match[0]
        char = html5.get(f"{name};") if name else None
        return f"&amp;{match[0][1:]}" if char is None else _escaped(char)

    data = _REFERENCE.sub(resolved, text).encode()
    try:
        parser = etree.XMLParser(
            encoding="utf-8", resolve_entities="internal", no_network=True, load_dtd=False
        )
        return etree.fromstring(data, parser)
    except etree.XMLSyntaxError:
        return _parse_html(text, source)


def _escaped(char: str) -> str:
    return {"&": "&amp;", "<": "&lt;"}.get(char, char)


def _parse_html(text: str, source: str) -> Element:
    """A tree of what is no XML."""
    whole = _EMPTY.sub(
        lambda m: m[0] if m[1].lower() in _VOID else f"<{m[1]}{m[2]}></{m[1]}>", text
    )
    parser = etree.HTMLParser(encoding="utf-8", no_network=True)
    try:
        root = etree.fromstring(whole.encode(), parser)
    except etree.XMLSyntaxError as err:
        raise TextError(
            f"{source} cannot be read: {reason_of(err)}", hint="get the book again"
        ) from err
    fatal = [str(each.message) for each in parser.error_log if each.level_name == "FATAL"]
    if root is None or fatal:
        why = fatal[0] if fatal else "there is nothing in it"
        raise TextError(f"{source} cannot be read: {why.strip()}", hint="get the book again")
    return root


def tag(element: Element) -> str:
    """Its name without a namespace, in lower case; empty for comments and the like."""
    name = element.tag
    if not isinstance(name, str):
        return ""
    return name.rpartition("}")[2].rpartition(":")[2].lower()


def attribute(element: Element, name: str) -> str:
    """An attribute's value, whatever its namespace; empty where it has none."""
    if (value := element.get(name)) is not None:
        return str(value)
    keys = (  # NOTE: lxml looks for the value of each again, where it is asked for all of them
        key for key in element.attrib if key.rpartition("}")[2].rpartition(":")[2].lower() == name
    )
    return str(element.get(next(keys, name), ""))


def types(element: Element) -> set[str]:
    """What the element is, as EPUB 3 and ARIA say it: "footnote", "pagebreak"."""
    said = f"{element.get(f'{_OPS}type') or element.get('epub:type') or ''} "
    said += str(element.get("role") or "")
    return {word.lower().removeprefix("doc-").rpartition(":")[2] for word in said.split()}


def words_of(element: Element) -> str:
    """All text in it, with single spaces."""
    return " ".join("".join(element.itertext()).split())


def each(element: Element, name: str) -> list[Element]:
    """The elements of a name in it, in their order."""
    return [found for found in element.iter() if tag(found) == name]
