"""An EPUB's package: title, authors, cover, the order of its documents and its table of contents.

EPUB 2 (`toc.ncx`, `guide`) and 3 (`nav`, landmarks). Where one of them is missing or broken, the
book is read without it. What the documents say is not looked at here.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

from voxcli.audio.tags import IMAGES, image_format
from voxcli.batch.books import markup
from voxcli.batch.books.archive import Archive, Target
from voxcli.batch.books.markup import Element, attribute, tag, words_of
from voxcli.errors import TextError, UsageError

CONTAINER = "META-INF/container.xml"
ENCRYPTION = "META-INF/encryption.xml"
DOCUMENTS = ("application/xhtml+xml", "text/html", "application/x-dtbook+xml")
NCX = "application/x-dtbncx+xml"
# Fonts that are made unusable outside of the book; everything else that is encrypted is locked.
_FONTS = ("http://www.idpf.org/2008/embedding", "http://ns.adobe.com/pdf/enc#RC")
_LOCKS = {
    "META-INF/rights.xml": "Adobe",
    "META-INF/license.lcpl": "Readium LCP",
    "META-INF/sinf.xml": "Apple",
}


class Entry(NamedTuple):
    """A line of the table of contents; depth 1 is its top."""

    title: str
    target: Target
    depth: int


@dataclass(frozen=True)
class Document:
    """A document of the book.

    Attributes:
        is_linear: whether it is part of the text as it is read from beginning to end.
        is_nav: whether it is the table of contents of EPUB 3.
    """

    name: str
    is_linear: bool
    is_nav: bool = False


@dataclass(frozen=True)
class Package:
    """What the package says.

    Attributes:
        documents: in reading order; behind them those that no order has.
        kinds: name of a document to words for what it is, such as "copyright-page".
        notes: for people: what is broken in it.
    """

    title: str
    authors: tuple[str, ...]
    version: str
    documents: tuple[Document, ...]
    contents: tuple[Entry, ...]
    kinds: dict[str, set[str]]
    cover: bytes | None
    notes: tuple[str, ...]


@dataclass(frozen=True)
class _Item:
    """A file of the book's manifest."""

    target: Target
    media_type: str
    properties: frozenset[str]


def read_package(archive: Archive) -> Package:
    """Read what is not text.

    Raises:
        UsageError: there is no package, it has no document, or the book is locked.
    """
    _refuse_locked(archive)
    name = _package_name(archive)
    try:
        root = _tree(archive, name)
    except TextError as err:
        raise UsageError(f"{archive.path}: {err.message}", hint=err.hint) from err
    items = {
        attribute(item, "id"): _Item(
            archive.target(name, attribute(item, "href")),
            attribute(item, "media-type").lower(),
            frozenset(attribute(item, "properties").split()),
        )
        for item in markup.each(root, "item")
    }
    notes: list[str] = []
    documents = tuple(_documents(archive, root, items, notes))
    if not documents:
        raise UsageError(f"{archive.path} has no text: its package names no document",
                         hint="get the book again")  # fmt: skip
    contents, kinds = _contents(archive, root, items, notes)
    for reference in markup.each(root, "reference"):
        target = archive.target(name, attribute(reference, "href"))
        if not target.fragment:  # else it is a part of the document
            kinds.setdefault(target.name, set()).add(attribute(reference, "type").lower())
    return Package(
        title=next(_values(root, "title"), ""),
        authors=tuple(_authors(root)),
        version=attribute(root, "version") or "2.0",
        documents=documents,
        contents=tuple(contents),
        kinds=kinds,
        cover=_cover(archive, root, items, notes),
        notes=tuple(notes),
    )


def _tree(archive: Archive, name: str) -> Element:
    source = f"{archive.path}: {name}"
    return markup.parse(markup.decode(archive.read(name), None, source), source)


def _refuse_locked(archive: Archive) -> None:
    lock = next((maker for name, maker in _LOCKS.items() if name in archive), "")
    is_locked = bool(lock) and "META-INF/license.lcpl" in archive
    if ENCRYPTION in archive:
        is_locked = is_locked or any(method not in _FONTS for method in _methods(archive))
    if is_locked:
        raise UsageError(
            f"{archive.path} is locked by DRM{f' ({lock})' if lock else ''}: its text is encrypted",
            hint="give an EPUB without DRM; many shops offer the book so",
        )


def _methods(archive: Archive) -> list[str]:
    """How files are encrypted; "unknown" where that cannot be read."""
    try:
        root = _tree(archive, ENCRYPTION)
    except TextError:
        return ["unknown"]
    if tag(root) != "encryption":
        return ["unknown"]
    return [
        attribute(method, "algorithm")
        for data in markup.each(root, "encrypteddata")
        for method in markup.each(data, "encryptionmethod")[:1]
    ]


def _package_name(archive: Archive) -> str:
    """Where the package is."""
    found: list[str] = []
    if CONTAINER in archive:
        try:
            files = markup.each(_tree(archive, CONTAINER), "rootfile")
            found = [archive.target("", attribute(file, "full-path")).name for file in files]
        except TextError:
            pass  # the package itself may be found
    found += [name for name in archive.names if name.lower().endswith(".opf")]
    name = next(filter(None, found), None)
    if name is None:
        raise UsageError(
            f"{archive.path} is not an EPUB: it has no package document",
            hint="give an EPUB, Markdown or plain text",
        )
    return name


# ------------------------------------------------------------ names


def _values(root: Element, name: str) -> Iterator[str]:
    for metadata in markup.each(root, "metadata")[:1]:
        for element in markup.each(metadata, name):
            if words := words_of(element):
                yield words


def _authors(root: Element) -> Iterator[str]:
    """Creators, but for those of whom the package says that they did something else."""
    roles = {
        attribute(meta, "refines").lstrip("#"): words_of(meta)
        for meta in markup.each(root, "meta")
        if attribute(meta, "property") == "role"
    }
    for creator in markup.each(root, "creator"):
        role = attribute(creator, "role") or roles.get(attribute(creator, "id"), "aut")
        if role == "aut" and (words := words_of(creator)):
            yield words


def _cover(
    archive: Archive, root: Element, items: dict[str, _Item], notes: list[str]
) -> bytes | None:
    named = [
        attribute(meta, "content")
        for meta in markup.each(root, "meta")
        if attribute(meta, "name") == "cover"
    ]
    found = [item for item in items.values() if "cover-image" in item.properties]
    found += [items[each] for each in named if each in items]
    images = [item for item in found if item.target.name and "xhtml" not in item.media_type]
    for item in images[:1]:
        try:
            data = archive.read(item.target.name)
        except UsageError as err:
            notes.append(f"the cover is left out: {err}")
            return None
        if image_format(data):
            return data
        notes.append(f"the cover is left out: {item.target.name} is not {IMAGES}")
    return None


# ------------------------------------------------------------ documents


def _documents(
    archive: Archive, root: Element, items: dict[str, _Item], notes: list[str]
) -> Iterator[Document]:
    """Those that are read in order, those beside it, and those that only the manifest names."""
    beside: list[Document] = []
    seen: set[str] = set()
    for reference in markup.each(root, "itemref"):
        item = items.get(attribute(reference, "idref"))
        if item is None or not item.target.name:
            notes.append(f"the order names a document that is missing: "
                         f"{attribute(reference, 'idref') or '(no name)'}")  # fmt: skip
            continue
        name = item.target.name
        if name in seen or item.media_type.startswith(("image/", "audio/", "video/")):
            continue
        seen.add(name)
        is_linear = attribute(reference, "linear").lower() != "no"
        document = Document(name, is_linear, "nav" in item.properties)
        if is_linear:
            yield document
        else:
            beside.append(document)
    yield from beside
    for item in items.values():
        name = item.target.name
        if name and name not in seen and item.media_type in DOCUMENTS:
            seen.add(name)
            yield Document(name, False, "nav" in item.properties)


# ------------------------------------------------------------ the table of contents


def _contents(
    archive: Archive, root: Element, items: dict[str, _Item], notes: list[str]
) -> tuple[list[Entry], dict[str, set[str]]]:
    """The table's lines, and what its landmarks say of documents."""
    kinds: dict[str, set[str]] = {}
    entries: list[Entry] = []
    wanted = {attribute(spine, "toc") for spine in markup.each(root, "spine")}
    navs = [item for item in items.values() if "nav" in item.properties]
    ncxs = [item for key, item in items.items() if item.media_type == NCX or key in wanted]
    for item, read in (*((nav, _nav) for nav in navs), *((ncx, _ncx) for ncx in ncxs)):
        name = item.target.name
        if not name or entries:
            continue
        try:
            entries = list(read(archive, name, _tree(archive, name), kinds))
        except (TextError, UsageError) as err:
            notes.append(f"the table of contents is not used: {err}")
    missing = [entry.title or "(no title)" for entry in entries if not entry.target.name]
    if missing:
        notes.append(f"the table of contents leads nowhere: {', '.join(missing)}")
    return [entry for entry in entries if entry.target.name], kinds


def _nav(archive: Archive, name: str, root: Element, kinds: dict[str, set[str]]) -> Iterator[Entry]:
    navs = markup.each(root, "nav")
    for nav in navs:
        if "landmarks" in markup.types(nav):
            for link in markup.each(nav, "a"):
                target = archive.target(name, attribute(link, "href"))
                if not target.fragment:
                    kinds.setdefault(target.name, set()).update(markup.types(link))
    tables = [nav for nav in navs if "toc" in markup.types(nav)] or navs[:1]
    for link in (link for nav in tables[:1] for link in markup.each(nav, "a")):
        depth = sum(tag(above) in ("ol", "ul") for above in link.iterancestors())
        yield Entry(words_of(link), archive.target(name, attribute(link, "href")), max(1, depth))


def _ncx(archive: Archive, name: str, root: Element, kinds: dict[str, set[str]]) -> Iterator[Entry]:
    for point in markup.each(root, "navpoint"):
        label = next((child for child in point if tag(child) == "navlabel"), None)
        content = next((child for child in point if tag(child) == "content"), None)
        if content is None:
            continue
        depth = 1 + sum(tag(above) == "navpoint" for above in point.iterancestors())
        title = words_of(label) if label is not None else ""
        yield Entry(title, archive.target(name, attribute(content, "src")), depth)
