"""Books to rows: each word once, in order, or named as left out; files from elsewhere."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import zipfile
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from epubs import Epub, page, png
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from voxcli import extras
from voxcli.batch.books import archive, epub, markup
from voxcli.batch.books.book import Aside
from voxcli.batch.books.epub import read_epub
from voxcli.batch.chapters import BookChoice
from voxcli.batch.records import Table
from voxcli.batch.tables import read_table
from voxcli.errors import MissingPackageError, TextError, UsageError

TWO = {"a.xhtml": page("<h1>One</h1><p>First words.</p>"), "b.xhtml": page("<p>Last words.</p>")}
LISTED = [("One", "a.xhtml", 1), ("Two", "b.xhtml", 1)]


IMAGE = '<img src="a.png" alt="a"/>'


def read(
    path: Path, chapters: str | None = None, also: str = "", depth: int | None = None
) -> Table:
    return read_table(path, book=BookChoice.asked(chapters, also, depth, is_book=True))


def rows(table: Table) -> dict[str, str]:
    """Title to text of what is spoken; "-" for what is not."""
    return {
        record.values["title"]: "-" if record.skipped else record.values["text"]
        for record in table.records
    }


def body(tmp_path: Path, markup: str, also: str = "") -> tuple[str, str]:
    """What is read of a document, on one line, and the notes on it."""
    made = Epub({"a.xhtml": page(markup)}, [("One", "a.xhtml", 1)], version=2)
    table = read(made.write(tmp_path / "one.epub"), also=also)
    return " ".join(table.records[0].values["text"].split()), "; ".join(table.notes)


# ------------------------------------------------------------ every word once

WORD = st.integers(0, 10**9).map(lambda number: f"w{number}x")
WORDS = st.lists(WORD, min_size=1, max_size=4).map(" ".join)


def wrapped(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    """Markup around markup, sound or not."""
    templates = (
        *("<p>{}</p>", "<div>{}</div>", "<i>{}</i> "),
        "<table><tr><td>{}</td><td>{}</td></tr></table>",
        *("<ul><li>{}</li><li>{}</li></ul>", "<h2>{}</h2>"),
        '<aside epub:type="footnote">{}</aside>',
        *('<span epub:type="pagebreak">{}</span> ', "<ruby>{}<rt>{}</rt></ruby> ", "{}<br/>{} "),
        *('<p hidden="">{}</p>', "<pre>{}\n{}</pre>", '<a href="#x">{}</a> ', "<!-- c -->{} "),
        *('<a epub:type="noteref" href="#x">{}</a> ', "<blockquote><p>{}</p>{}</blockquote>"),
        *("<nav>{}</nav>", "<p>{}<br>{}", "<b><i>{}</b></i> ", "<section>{}</section>"),
    )  # fmt: skip

    def fill(template: str) -> st.SearchStrategy[str]:
        return st.lists(inner, min_size=2, max_size=2).map(lambda parts: template.format(*parts))

    return st.sampled_from(templates).flatmap(fill)


DOCUMENTS = st.recursive(WORDS, wrapped, max_leaves=8)


@settings(max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    bodies=st.lists(DOCUMENTS, min_size=1, max_size=4),
    listed=st.lists(st.integers(0, 3), max_size=4),
    kinds=st.lists(st.sampled_from(["", "", "titlepage", "endnotes"]), min_size=4, max_size=4),
    also=st.sampled_from(["", "notes", "all"]),
    version=st.sampled_from([2, 3]),
)
def test_each_word_is_in_one_row_or_named_as_left_out(
    tmp_path: Path, bodies: list[str], listed: list[int], kinds: list[str], also: str, version: int
) -> None:
    pages = {f"{i}.xhtml": page(f"<p>{made}</p>", kind=kinds[i]) for i, made in enumerate(bodies)}
    pages["9.xhtml"] = page("<p>Never empty.</p>")
    contents = [(f"T{i}", f"{i}.xhtml", 1) for i in listed if i < len(bodies)]
    path = Epub(pages, contents, version=version, beside=["1.xhtml"]).write(tmp_path / "b.epub")
    table = read(path, chapters="all", also=also)
    said = " ".join(record.values["text"] for record in table.records)
    found = Counter(re.findall(r"w\d+x", f"{said} {' '.join(table.notes)}"))
    assert found == Counter(re.findall(r"w\d+x", " ".join(bodies)))
    in_order = re.findall(r"w\d+x", said)
    spine = [i for i in range(len(bodies)) if i != 1] + [1]
    wanted = re.findall(r"w\d+x", " ".join(bodies[i] for i in spine if i < len(bodies)))
    places = [wanted.index(word) for word in dict.fromkeys(in_order)]
    assert places == sorted(places) or len(set(wanted)) < len(wanted)


MARKDOWN = st.lists(
    st.one_of(
        WORDS.map(lambda words: f"# {words}\n\n"), WORDS.map(lambda words: f"## {words}\n\n"),
        WORDS.map(lambda words: f"{words}\n---\n\n"), WORDS.map(lambda words: f"{words}.\n\n"),
        WORDS.map(lambda words: f"```\n# {words}\n```\n\n"),
        WORDS.map(lambda words: f"\n\n{words}\n\n"),
        st.tuples(WORD, WORDS).map(lambda pair: f"text[^1] {pair[0]}\n\n[^1]: {pair[1]}\n\n"),
        WORDS.map(lambda words: f"![{words}](a.png) \n\n"), st.just("CHAPTER IV\n\n"),
    ),
    min_size=1, max_size=8,
)  # fmt: skip


@pytest.mark.parametrize("suffix", [".md", ".txt"])
@settings(max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(parts=MARKDOWN, first=WORDS)
def test_each_word_of_a_text_is_in_one_row_or_named(
    tmp_path: Path, suffix: str, parts: list[str], first: str
) -> None:
    path = tmp_path / f"b{suffix}"
    path.write_text(f"{first}\n\n{''.join(parts)}", "utf-8")
    table = read(path, chapters="all")
    said = " ".join((*(record.values["text"] for record in table.records), *table.notes))
    words = re.findall(r"w\d+x", path.read_text("utf-8"))
    assert Counter(re.findall(r"w\d+x", said)) == Counter(words)
    lines = path.read_text("utf-8").split("\n")
    for record in table.records:
        assert record.values["text"].split("\n")[0] in lines[record.line - 1]


# ------------------------------------------------------------ where chapters begin


def test_chapters_are_those_of_the_contents_with_documents_that_go_on(tmp_path: Path) -> None:
    pages = {
        "t.xhtml": page("<p>Title</p>", kind="titlepage"),
        "p.xhtml": page("<h1>Part</h1>"),
        "1.xhtml": page("<h2>A</h2><p>a one</p><h3 id='s'>Section</h3><p>a two</p>"),
        "1b.xhtml": page("<p>a three</p>"),
        "2.xhtml": page("<p>Epigraph</p><h2 id='b'>B</h2><p>b one</p><h2 id='c'>C</h2>"),
    }
    contents = [
        ("Part", "p.xhtml", 1), ("A", "1.xhtml", 2), ("Section", "1.xhtml#s", 3),
        ("B", "2.xhtml#b", 1), ("C", "2.xhtml#c", 1),
    ]  # fmt: skip
    for version in (2, 3):
        path = Epub(pages, contents, version=version).write(tmp_path / f"{version}.epub")
        found = {
            title: " ".join(text.split())
            for title, text in rows(read(path)).items()
            if title != "Contents"
        }
        assert found == {
            "t": "-", "Part": "Part", "A": "A a one Section a two a three",
            "B": "Epigraph B b one", "C": "C",
        }  # fmt: skip
    assert list(rows(read(path, depth=3)))[2:4] == ["A", "Section"]
    assert list(rows(read(path, depth=1)))[:3] == ["t", "Part", "B"]


@pytest.mark.parametrize("contents", [None, [], [("Nowhere", "../../etc/passwd", 1)]])
def test_without_contents_headings_begin_chapters(tmp_path: Path, contents: Any) -> None:
    text = page("<p>Before.</p><h2>A</h2><p>a</p><h3>Section</h3><p>b</p><h2>A</h2><p>c</p>")
    table = read(Epub({"a.xhtml": text}, contents, version=2).write(tmp_path / "b.epub"))
    said = [record.values["text"].split() for record in table.records]
    assert said == [["Before."], ["A", "a", "Section", "b"], ["A", "c"]] or said == [
        ["Before.", "A", "a", "Section", "b"], ["A", "c"],
    ]  # fmt: skip
    assert any("etc" in note or "Nowhere" in note for note in table.lost) == bool(contents)


def test_documents_are_read_in_the_order_of_the_spine(tmp_path: Path) -> None:
    path = Epub(TWO, list(reversed(LISTED)), beside=["a.xhtml"]).write(tmp_path / "b.epub")
    assert list(rows(read(path, chapters="all")))[:2] == ["Two", "One"]


def test_plain_text_is_cut_at_lines_that_are_set_apart(tmp_path: Path) -> None:
    path = tmp_path / "b.txt"
    path.write_text(
        "THE SEA\n\nby Ann\n\n\nCHAPTER I. Tide\n\nIt was late.\nHe came.\n\nChapter 12 was dull.\n"
        "So he left.\n\nCHAPTER II\n\nShe left.\n\n\nAfterword\n\nThe end.\n"
    )
    assert list(rows(read(path))) == ["THE SEA", "CHAPTER I. Tide", "CHAPTER II", "Afterword"]
    assert len(read_table(path).records) == 11  # without a word on books, an utterance a line


def test_markdown_names_its_book(tmp_path: Path) -> None:
    path = tmp_path / "b.md"
    (tmp_path / "c.png").write_bytes(png())
    head = "---\ntitle: The Sea\nauthor:\n  - Ann\n  - Ben\ncover: c.png\n---\n"
    path.write_text(f"{head}# The Sea\n\n## One *day*\n\nText.\n\n## One *day*\n\nMore.\n")
    table = read(path)
    assert table.book is not None
    assert (table.book.title, table.book.authors) == ("The Sea", ("Ann", "Ben"))
    assert table.book.cover == png()
    assert [record.values["title"] for record in table.records] == ["The Sea", "One day", "One day"]
    path.write_text(head.replace("c.png", "../../../etc/passwd") + "Text.\n")
    assert "the cover ../../../etc/passwd is left out" in read(path).notes[0]


# ------------------------------------------------------------ what is chosen


def test_chapters_are_chosen_by_number_and_others_say_why_they_are_not_spoken(
    tmp_path: Path,
) -> None:
    pages = {f"{i}.xhtml": page(f"<p>words {i}</p>") for i in range(5)}
    pages["0.xhtml"] = page("<p>words 0</p>", kind="copyright-page")
    path = Epub(pages, [(f"T{i}", f"{i}.xhtml", 1) for i in range(5)]).write(tmp_path / "b.epub")

    def spoken(chapters: str | None) -> list[int]:
        return [record.number for record in read(path, chapters).records if not record.skipped]

    assert spoken(None) == [2, 3, 4, 5]
    assert spoken("1,3-4") == [1, 3, 4]
    assert spoken("4-") == [4, 5, 6]
    assert spoken("all") == [1, 2, 3, 4, 5, 6]
    why = [record.skipped for record in read(path).records]
    assert why[0] == "a copyright page; --chapters 1 or all has it spoken"
    assert why[5] == "a list of contents; --chapters 6 or all has it spoken"
    for wrong in ("", "0", "5-3", "x", "3-x", "1,,2"):
        with pytest.raises(UsageError, match="--chapters is"):
            read(path, wrong)
    with pytest.raises(UsageError, match="there are 6 chapters"):
        read(path, "7")
    with pytest.raises(UsageError, match="--speak has 'note'"):
        read(path, also="note")


def test_chapters_without_words_and_books_without_any_are_named(tmp_path: Path) -> None:
    pages = {"a.xhtml": page('<img src="x.png" alt="A map"/>'), "b.xhtml": page("<p>Words.</p>")}
    table = read(Epub(pages, LISTED).write(tmp_path / "b.epub"), "all")
    assert table.records[0].skipped == "it has no words"
    assert "1 'One' (it has no words)" in table.notes[0]
    assert "A map (row 1)" in " ".join(table.notes)
    only = Epub({"a.xhtml": pages["a.xhtml"]}, None).write(tmp_path / "c.epub")
    with pytest.raises(UsageError, match="has no words"):
        read(only)
    titled = Epub({"a.xhtml": page("<p>T</p>", kind="titlepage")}, None).write(tmp_path / "d.epub")
    with pytest.raises(UsageError, match="none of 1 chapters is to be spoken: a title page"):
        read(titled)


def test_options_for_books_are_refused_for_tables(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text("text\nHello.\n")
    with pytest.raises(UsageError, match=r"--chapters is given, but .* is not a book"):
        read(path, "1")
    book = Epub(TWO, LISTED).write(tmp_path / "b.epub")
    for wrong in ({"mapping": {"text": "x"}}, {"has_header": False}, {"labels": "Ann"}):
        with pytest.raises(UsageError, match="is given, but"):
            read_table(book, **wrong)  # type: ignore[arg-type]


# ------------------------------------------------------------ what is read of a document


@pytest.mark.parametrize(
    ("markup", "said"),
    [
        ("<p>a&nbsp;b &mdash; caf&eacute; &amp; &lt;c&gt; &#233;&#x41;</p>", "a b — café & <c> éA"),
        ("<p>R&D &unknown; x&y</p>", "R&D &unknown; x&y"),
        ("<p>one<br/>two<br>three</p>", "one two three"),
        ("<table><tr><th>Age</th><td>4</td></tr><tr><td>x.</td><td>y</td></tr></table>",
         "Age, 4. x. y."),
        ("<ul><li>Salt</li><li>Rum:<ol><li>dark</li></ol></li></ul><dl><dt>A</dt><dd>B?</dd></dl>",
         "Salt. Rum: dark. A. B?"),
        ("<p>The <ruby>漢<rp>(</rp><rt>kan</rt><rp>)</rp></ruby> sign</p>", "The 漢 sign"),
        ('<p><img src="t.png" alt="T"/>he cat</p>', "The cat"),
        ('<h1><img src="h.png" alt="Chapter One"/></h1><p>x</p>', "Chapter One x"),
        ('<h1>One<img src="h.png" alt="flourish"/></h1>', "One"),
        ('<p>word<a href="#n1"><sup>1</sup></a>, word<sup><a href="#n2">[2]</a></sup>.</p>',
         "word, word."),
        ("<p>10<sup>-3</sup> m<sup> 2 </sup>, H<sub>2</sub>O, 1<sup>st</sup></p>",
         "10⁻³ m², H₂O, 1st"),
        ('<p>see <a href="#c2">2</a> and <a href="#c3">page 3</a></p>', "see 2 and page 3"),
        ('<p>x<span class="pagenum">[12]</span> y</p><div class="footnote">n</div>', "x y"),
        ('<div class="poem"><span class="line">one</span><span class="line">two</span></div>',
         "one two"),
        ('<p dir="rtl">שלום <bdi>עולם</bdi></p>', "שלום עולם"),
        ("<p>x <math alttext='a squared'></math> y</p>", "x a squared y"),
        ("<script>var x;</script><style>p {}</style><p>x</p>", "x"),
        ("<p>x<![CDATA[ <y> ]]>z</p>", "x <y> z"),
        ("<p>a<span/>b <a id='q'/>c</p><br/>d <p/>e", "ab c d e"),
        ("<p>not <b>closed<p>next</b> one <i>end", "not closed next one end"),
        ("<p>bell \x07 sign</p>", "bell \x07 sign"),
    ],
)  # fmt: skip
def test_a_document_is_read_as_it_is_meant(tmp_path: Path, markup: str, said: str) -> None:
    assert body(tmp_path, markup)[0].replace("\xa0", " ") == said


@pytest.mark.parametrize(
    ("markup", "aside", "note"),
    [
        ('<p>x</p><aside epub:type="footnote">The note.</aside>', "notes", "footnotes"),
        ('<p>x <span role="doc-pagebreak" title="9"></span></p>', "pages", ""),
        ('<p>x <span epub:type="pagebreak">The note.</span></p>', "pages", "page numbers"),
        ('<p>x <img src="i.png" alt="The note."/></p>', "images", "descriptions of images"),
    ],
)
def test_what_stands_beside_the_text_is_spoken_where_it_is_asked_for(
    tmp_path: Path, markup: str, aside: str, note: str
) -> None:
    said, notes = body(tmp_path, markup)
    assert (said, notes) == ("x", f"{note} are not spoken: The note. (row 1)" if note else "")
    said, notes = body(tmp_path, markup, also=aside)
    assert (said, notes) == ("x The note." if note else "x 9", "")
    assert Aside(aside)


@pytest.mark.parametrize(
    ("data", "said"),
    [
        ("<p>café</p>".encode("utf-8-sig"), "café"),
        ("<p>café</p>".encode("utf-16"), "café"),
        (b'<?xml version="1.0" encoding="iso-8859-1"?><html><body>\x93caf\xe9\x94</body></html>',
         "“café”"),
        (b'<html><head><meta charset="windows-1251"></head><body>\xec\xee\xf0\xe5</body></html>',
         "море"),
        (b'<?xml version="1.0" encoding="Shift_JIS"?><html><body>\x8aC</body></html>', "海"),
    ],
)  # fmt: skip
def test_documents_are_decoded_as_they_say(tmp_path: Path, data: bytes, said: str) -> None:
    path = Epub({"a.xhtml": data}, None).write(tmp_path / "b.epub")
    assert read(path).records[0].values["text"] == said


def test_a_document_that_cannot_be_read_is_a_row_to_be_corrected(tmp_path: Path) -> None:
    """The others are spoken; an encoding that helps is offered, and taken."""
    deep = f"<html><body>{'<i>x' * 5000}</body></html>"
    pages = {"a.xhtml": TWO["a.xhtml"], "b.xhtml": b"<p>caf\xe9 d\xe9j\xe0</p>", "c.xhtml": deep}
    path = Epub(pages, LISTED).write(tmp_path / "b.epub")
    good, bad, worse = read(path).records[:3]
    assert not good.problem
    assert "b.xhtml is not utf-8" in bad.problem
    assert "--encoding cp1252 it says 'café déjà'" in bad.problem
    assert "Excessive depth" in worse.problem
    taken = read_table(path, encoding="cp1252").records[1]
    assert (taken.problem, taken.values["text"]) == ("", "café déjà")


# ------------------------------------------------------------ files from elsewhere


def test_locked_books_are_refused_by_name_and_hidden_fonts_are_no_lock(tmp_path: Path) -> None:
    def encrypted(method: str) -> str:
        return (
            '<encryption xmlns="urn:oasis:names:tc:opendocument:xmlns:container">'
            '<e:EncryptedData xmlns:e="http://www.w3.org/2001/04/xmlenc#">'
            f'<e:EncryptionMethod Algorithm="{method}"/><e:CipherData>'
            '<e:CipherReference URI="OEBPS/a.xhtml"/></e:CipherData></e:EncryptedData></encryption>'
        )

    name = "META-INF/encryption.xml"
    aes = encrypted("http://www.w3.org/2001/04/xmlenc#aes128-cbc")
    for files, lock in (
        ({name: aes, "META-INF/rights.xml": "<rights/>"}, r"\(Adobe\)"),
        ({"META-INF/license.lcpl": "{}"}, r"\(Readium LCP\)"),
        ({name: aes}, "DRM"),
        ({name: "rubbish <"}, "DRM"),
    ):
        path = Epub(TWO, LISTED, files=files).write(tmp_path / "b.epub")
        with pytest.raises(UsageError, match=f"is locked by DRM.*{lock}|{lock}"):
            read(path)
    fonts = {name: encrypted("http://www.idpf.org/2008/embedding")}
    assert len(read(Epub(TWO, LISTED, files=fonts).write(tmp_path / "b.epub")).records) == 3


def test_what_is_larger_than_a_book_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is unpacked is counted, whatever the archive says of its sizes."""
    monkeypatch.setattr(archive, "MAX_FILE", 1 << 20)
    path = Epub({"a.xhtml": b"<p>" + b"0" * (3 << 20)}, None).write(tmp_path / "b.epub")
    assert path.stat().st_size < 20_000
    assert "larger than a book may be" in read(path, "all").records[0].problem
    monkeypatch.setattr(archive, "MAX_FILES", 3)
    with pytest.raises(UsageError, match="an EPUB may have 3"):
        read(path)


def test_a_document_of_nothing_but_tags_is_named_and_not_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(markup, "MAX_TAGS", 1000)
    pages = {**TWO, "c.xhtml": page("<i/>" * 1000), "d.xhtml": page("<p>" + "&amp;" * 1000)}
    found = read(Epub(pages, None).write(tmp_path / "b.epub"), "all").records
    assert [each.problem.partition(": ")[2] for each in found if each.problem] == [
        f"OEBPS/{name}.xhtml has {count:,} tags and entities; at most 1,000 can be read; "
        "check what it is"
        for name, count in (("c", 1010), ("d", 1011))
    ]


@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("_is_short", Epub(TWO, [(f"One {each}", "b.xhtml#here", 1) for each in range(200)])),
        ("words_of", Epub({"a.xhtml": page(f"<h1>{IMAGE * 200}</h1><p>x</p>")}, None)),
    ],
)
def test_no_part_of_a_book_is_looked_at_again_for_each_of_its_lines(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, told: Epub
) -> None:
    module: Any = epub if name == "_is_short" else markup
    look, count = getattr(module, name), Counter[str]()

    def counted(*given: Any) -> Any:
        count[name] += 1
        return look(*given)

    monkeypatch.setattr(module, name, counted)
    path = told.write(tmp_path / "b.epub")
    assert read_epub(path).chapters
    assert count[name] < 20


@pytest.mark.parametrize("begun", ["![", "![a](", "[^", "[^a"])
def test_a_line_of_beginnings_that_never_end_is_text(tmp_path: Path, begun: str) -> None:
    (tmp_path / "a.md").write_text(f"![x](data:{'y' * 9999})# One\n\n{begun * 5_000}\n")
    (record,) = read(tmp_path / "a.md").records
    assert begun * 5_000 in record.values["text"]
    assert "yyy" not in record.values["text"]


def test_entities_that_multiply_or_name_files_bring_nothing_in(tmp_path: Path) -> None:
    secret = tmp_path / "secret.txt"
    secret.write_text("hunter2")
    levels = "".join(f'<!ENTITY a{i} "{f"&a{i - 1};" * 10 if i else "lol"}">' for i in range(12))
    outside = f'<!DOCTYPE html [{levels}<!ENTITY x SYSTEM "{secret.as_uri()}">]>'
    html = f"{outside}<html><body><p>one &a11; two &x; three</p></body></html>"
    table = read(Epub({"a.xhtml": html}, None).write(tmp_path / "b.epub"))
    said = " ".join((*(each.values["text"] for each in table.records), *table.notes))
    assert "hunter2" not in said
    assert len(said) < 10_000


@settings(max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_a_broken_archive_is_refused_or_read(tmp_path: Path, data: st.DataObject) -> None:
    """Never with anything but a word on what is wrong."""
    whole = bytearray(Epub(TWO, LISTED).write(tmp_path / "b.epub").read_bytes())
    broken = tmp_path / "c.epub"
    for _ in range(data.draw(st.integers(1, 4))):
        at = data.draw(st.integers(0, len(whole) - 1))
        whole[at] = data.draw(st.integers(0, 255))
    broken.write_bytes(whole[: data.draw(st.integers(0, len(whole)))])
    try:
        assert read(broken, "all").records
    except (UsageError, TextError) as err:
        why = str(err)
    else:
        return
    assert str(broken) in why


@pytest.mark.parametrize(
    ("files", "why"),
    [
        ({"META-INF/container.xml": "<container/>", "OEBPS/content.opf": "<package/>"},
         "its package names no document"),
        ({"OEBPS/content.opf": " "}, "OEBPS/content.opf cannot be read"),
        ({"OEBPS/content.opf": b"\xff\xfe\x00"}, "OEBPS/content.opf"),
    ],
)  # fmt: skip
def test_a_package_that_says_nothing_is_refused(
    tmp_path: Path, files: dict[str, str], why: str
) -> None:
    path = Epub(TWO, LISTED, files=files).write(tmp_path / "b.epub")
    with pytest.raises(UsageError, match=re.escape(why)):
        read(path)


def test_what_a_book_lacks_is_done_without_and_told(tmp_path: Path) -> None:
    """A container, a document, a table of contents; a cover that is no picture."""
    files = {"META-INF/container.xml": "rubbish", "OEBPS/nav.xhtml": "", "OEBPS/cover.png": b"GIF8"}
    made = Epub(TWO, LISTED, cover=png(), files=files).write(tmp_path / "b.epub")
    with zipfile.ZipFile(made) as old, zipfile.ZipFile(tmp_path / "c.epub", "w") as new:
        for name in old.namelist():
            if not name.endswith("b.xhtml"):
                new.writestr(name.upper() if name.endswith("a.xhtml") else name, old.read(name))
    book = read_epub(tmp_path / "c.epub")
    assert [chapter.text for chapter in book.chapters if chapter.text] == ["One\n\nFirst words."]
    assert book.cover is None
    told = " ".join(book.notes)
    for part in ("a document that is missing: i1", "the table of contents is not used",
                 "is not JPEG, PNG, GIF or WebP"):  # fmt: skip
        assert part in told


def test_a_cover_that_is_a_drawing_is_named_as_left_out(tmp_path: Path) -> None:
    made = Epub(TWO, LISTED, cover=b"<svg/>").write(tmp_path / "b.epub")
    with zipfile.ZipFile(made) as old, zipfile.ZipFile(tmp_path / "c.epub", "w") as new:
        for name in old.namelist():
            new.writestr(name, old.read(name).replace(b"image/png", b"image/svg+xml"))
    book = read_epub(tmp_path / "c.epub")
    assert book.cover is None
    assert any("the cover is left out" in note for note in book.notes)


def test_without_lxml_an_epub_names_the_extra(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(extras, "find_spec", lambda name: None if name == "lxml" else object())
    path = Epub(TWO, LISTED).write(tmp_path / "b.epub")
    with pytest.raises(
        MissingPackageError, match=r"an EPUB needs the Python package lxml"
    ) as caught:
        read(path)
    assert caught.value.exit_code == 4
    assert "voxcli[books]" in str(caught.value.hint)


@pytest.mark.parametrize("suffix", [".md", ".txt"])
def test_only_an_epub_needs_its_reader(suffix: str, tmp_path: Path) -> None:
    path = tmp_path / f"book{suffix}"
    path.write_text("# One\n\nFirst words.\n\n# Two\n\nLast words.\n", "utf-8")
    (tmp_path / "lxml.py").write_text("raise ModuleNotFoundError(name='lxml')", "utf-8")
    words = ["batch", path, "-o", tmp_path / "out", "--chapters", "all", "--dry-run"]
    done = subprocess.run(
        [sys.executable, "-m", "voxcli", *words], capture_output=True, text=True,
        env={**os.environ, "PYTHONPATH": str(tmp_path)},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert "Two" in done.stdout
