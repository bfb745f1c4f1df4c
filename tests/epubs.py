"""Small EPUBs for tests: well made by default, and with every part replaceable."""

from __future__ import annotations

import struct
import zipfile
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from html import escape
from pathlib import Path

XHTML = (
    '<?xml version="1.0" encoding="UTF-8"?>\n<!DOCTYPE html>\n'
    '<html xmlns="http://www.w3.org/1999/xhtml" xmlns:epub="http://www.idpf.org/2007/ops">'
    "<head><title>{title}</title></head><body{attributes}>{body}</body></html>"
)
CONTAINER = (
    '<container xmlns="urn:oasis:names:tc:opendocument:xmlns:container" version="1.0"><rootfiles>'
    '<rootfile full-path="{opf}" media-type="application/oebps-package+xml"/></rootfiles>'
    "</container>"
)


def page(body: str, title: str = "", kind: str = "") -> str:
    attributes = f' epub:type="{kind}"' if kind else ""
    return XHTML.format(title=title, attributes=attributes, body=body)


def png(width: int = 8, height: int = 8) -> bytes:
    """A grey image."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        check = zlib.crc32(kind + data)
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", check)

    rows = (b"\0" + b"\x80" * width) * height
    header = struct.pack(">2I5B", width, height, 8, 0, 0, 0, 0)
    parts = (chunk(b"IHDR", header), chunk(b"IDAT", zlib.compress(rows)), chunk(b"IEND", b""))
    return b"\x89PNG\r\n\x1a\n" + b"".join(parts)


@dataclass
class Epub:
    """An EPUB in the making.

    Attributes:
        pages: name of a document below OEBPS to its text or bytes, in reading order.
        contents: title, link and depth of each line; None has no table of contents.
        beside: names of documents that are not linear.
        outside: names of documents that are in the manifest alone.
        files: further members of the archive, by full name; they replace those made here.
    """

    pages: Mapping[str, str | bytes]
    contents: Sequence[tuple[str, str, int]] | None = ()
    title: str = "The Sea"
    authors: Sequence[str] = ("Ann Author",)
    version: int = 3
    beside: Sequence[str] = ()
    outside: Sequence[str] = ()
    guide: Mapping[str, str] = field(default_factory=dict)
    cover: bytes | None = None
    files: Mapping[str, str | bytes] = field(default_factory=dict)
    opf: str = "OEBPS/content.opf"

    def write(self, path: Path) -> Path:
        members: dict[str, str | bytes] = {
            "mimetype": "application/epub+zip",
            "META-INF/container.xml": CONTAINER.format(opf=self.opf),
            self.opf: self._package(),
            **{f"OEBPS/{name}": text for name, text in self.pages.items()},
        }
        if self.contents is not None:
            name = "nav.xhtml" if self.version == 3 else "toc.ncx"
            members[f"OEBPS/{name}"] = self._nav() if self.version == 3 else self._ncx()
        if self.cover is not None:
            members["OEBPS/cover.png"] = self.cover
        members |= self.files
        with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as file:
            for name, data in members.items():
                file.writestr(name, data)
        return path

    def _package(self) -> str:
        items = [
            f'<item id="i{number}" href="{escape(name)}" media-type="application/xhtml+xml"/>'
            for number, name in enumerate(self.pages)
        ]
        if self.contents is not None:
            items.append(
                '<item id="nav" href="nav.xhtml" media-type="application/xhtml+xml" '
                'properties="nav"/>'
                if self.version == 3
                else '<item id="ncx" href="toc.ncx" media-type="application/x-dtbncx+xml"/>'
            )
        meta = ""
        if self.cover is not None:
            properties = ' properties="cover-image"' if self.version == 3 else ""
            items.append(f'<item id="pic" href="cover.png" media-type="image/png"{properties}/>')
            meta = '<meta name="cover" content="pic"/>' if self.version == 2 else ""
        spine = [
            f'<itemref idref="i{number}" linear="{_yes(name not in self.beside)}"/>'
            for number, name in enumerate(self.pages)
            if name not in self.outside
        ]
        creators = [f"<dc:creator>{escape(name)}</dc:creator>" for name in self.authors]
        guide = [
            f'<reference type="{kind}" href="{name}" title="x"/>'
            for name, kind in self.guide.items()
        ]
        return (
            f'<?xml version="1.0"?><package xmlns="http://www.idpf.org/2007/opf" '
            f'version="{self.version}.0" unique-identifier="u">'
            '<metadata xmlns:dc="http://purl.org/dc/elements/1.1/">'
            f"<dc:title>{escape(self.title)}</dc:title>{''.join(creators)}{meta}</metadata>"
            f"<manifest>{''.join(items)}</manifest>"
            f"<spine{_toc(self.version)}>{''.join(spine)}</spine>"
            f"<guide>{''.join(guide)}</guide></package>"
        )

    def _nav(self) -> str:
        return page(f'<nav epub:type="toc"><h1>Contents</h1>{_lists(self.contents or ())}</nav>')

    def _ncx(self) -> str:
        return (
            '<ncx xmlns="http://www.daisy.org/z3986/2005/ncx/" version="2005-1"><navMap>'
            f"{_points(self.contents or ())}</navMap></ncx>"
        )


def _yes(is_so: bool) -> str:
    return "yes" if is_so else "no"


def _toc(version: int) -> str:
    return ' toc="ncx"' if version == 2 else ""


def _lists(lines: Sequence[tuple[str, str, int]]) -> str:
    parts, depth = [], 0
    for title, link, level in lines:
        if level > depth:
            parts.append("<ol>" * (level - depth))
        else:
            parts.append("</li>" + "</ol></li>" * (depth - level))
        parts.append(f'<li><a href="{escape(link)}">{escape(title)}</a>')
        depth = level
    return "".join(parts) + "</li></ol>" * depth


def _points(lines: Sequence[tuple[str, str, int]]) -> str:
    parts, depth = [], 0
    for number, (title, link, level) in enumerate(lines):
        parts.append("</navPoint>" * (depth - level + 1))
        parts.append(
            f'<navPoint id="n{number}"><navLabel><text>{escape(title)}</text></navLabel>'
            f'<content src="{escape(link)}"/>'
        )
        depth = level
    return "".join(parts) + "</navPoint>" * depth
