"""File names of rows: safe everywhere, inside the folder, each only once."""

from __future__ import annotations

import unicodedata
from pathlib import Path, PurePosixPath

import pytest
from batches import INPUTS, prepare
from hypothesis import given
from hypothesis import strategies as st

from voxcli.batch.names import Namer, Template, suffix_of
from voxcli.batch.rows import Row
from voxcli.batch.session import Session
from voxcli.errors import UsageError


def named(folder: Path, names: list[str], **options: object) -> tuple[list[str], list[int]]:
    """The names that rows get, and the numbers of the rows with problems."""
    namer = Namer(folder, None, **options)  # type: ignore[arg-type]
    rows = [Row(i, i + 1, "Hello.", output=name) for i, name in enumerate(names, start=1)]
    found = [namer.name(row, has_output=True) for row in rows]
    return [name for name, _ in found], [p.number for _, problems in found for p in problems]


def checked(table: Path, out: Path, **options: object) -> Session:
    return prepare(table, out, **options)  # type: ignore[arg-type]


def test_clashing_and_unsafe_names_are_found_before_anything_runs(tmp_path: Path) -> None:
    """Both rows of a clash are named."""
    session = checked(INPUTS / "dupes.csv", tmp_path)
    messages = {problem.number: problem.message for problem in session.problems}
    assert sorted(messages) == [2, 4, 5, 6, 7, 8]
    assert "also the output of row 1 (line 2)" in messages[2]
    assert "also the output of row 3 (line 4)" in messages[4]
    assert "304 bytes" in messages[7]


def test_numbers_are_added_only_where_they_are_asked_for(tmp_path: Path) -> None:
    session = checked(INPUTS / "dupes.csv", tmp_path, is_numbering=True)
    assert [job.name for job in session.jobs[:4]] == [
        "same.wav", "same-2.wav", "Case.wav", "case-2.wav",
    ]  # fmt: skip
    assert {problem.number for problem in session.problems} == {5, 6, 7, 8}


def test_names_that_differ_in_unicode_form_alone_clash(tmp_path: Path) -> None:
    composed = "caf\u00e9.wav"
    decomposed = unicodedata.normalize("NFD", composed)
    assert composed != decomposed
    assert named(tmp_path, [composed, decomposed, "STRASSE.wav", "straße.wav"])[1] == [2, 4]


@pytest.mark.parametrize(
    "name",
    [
        "../a.wav", "a/../b.wav", "/abs.wav", "C:\\a.wav", "\\\\host\\a.wav", "a//b.wav", "a\0.wav",
        "con.wav", "sub/LPT1.txt.wav", "a .wav/", "end./a.wav", " a.wav", "sub /a.wav", "a?.wav",
        ".voxcli-batch/x.wav", "x.xyz", "é" * 121 + ".wav", "a\u202evaw.exe.wav", "a\x85b.wav",
        "/".join(["d" * 200] * 5) + "/a.wav", "sub/.wav", ".FLAC",
    ],
)  # fmt: skip
def test_unsafe_names_are_problems(tmp_path: Path, name: str) -> None:
    assert named(tmp_path, [name])[1] == [1]


@pytest.mark.parametrize("name", ["文件 名.wav", "sub/c d.flac", "a.b.mp3", ".hidden.wav", "плюс"])
def test_ordinary_names_are_kept(tmp_path: Path, name: str) -> None:
    found, problems = named(tmp_path, [name])
    assert (found[0].removesuffix(".wav"), problems) == (name.removesuffix(".wav"), [])


def test_what_is_in_the_way_on_the_disk_is_a_problem(tmp_path: Path) -> None:
    out = tmp_path / "out"
    out.mkdir()
    (out / "away").symlink_to(tmp_path)
    (out / "inside").symlink_to(out)
    (out / "file.wav").symlink_to(tmp_path / "elsewhere.wav")
    (out / "folder.wav").mkdir()
    (out / "loop").symlink_to(out / "loop")
    (out / "taken").write_text("no folder", "utf-8")
    names = ["away/a.wav", "inside/a.wav", "file.wav", "folder.wav", "b.wav"]
    assert named(out, [*names, "loop/a.wav", "taken/deep/a.wav"])[1] == [1, 3, 4, 6, 7]


def test_a_file_and_a_folder_of_one_name_clash(tmp_path: Path) -> None:
    assert named(tmp_path, ["a.wav", "A.wav/b.wav", "c.wav/d.wav", "C.wav"])[1] == [2, 4]


def test_templates_take_every_column_and_make_cells_safe(tmp_path: Path) -> None:
    template = Template("{index:04d}_{speaker}_{Scene}", ["Scene"])
    row = Row(3, 4, "Hello.", speaker="A/B: C", extra={"Scene": "../x"})
    assert template.name_of(row, 3) == "0003_A-B- C_..-x"
    assert Template("{text}.mp3", []).name_of(row, 1) == "hello.mp3"


@pytest.mark.parametrize(
    "template",
    [
        *("{speker}", "{index:q}", "{0}", "{text.__class__}", "{", "{}"),
        *("{index:09999d}", "{id:{line}}"),
    ],
)
def test_templates_that_cannot_work_are_refused(template: str) -> None:
    with pytest.raises(UsageError, match="--name"):
        Template(template, [])


def test_a_template_whose_cells_are_empty_gives_no_name(tmp_path: Path) -> None:
    namer = Namer(tmp_path, Template("{line}/{speaker}.wav", []))
    (problem,) = namer.name(Row(1, 2, "Hello."), has_output=False)[1]
    assert problem.message.startswith("is empty")


@pytest.mark.parametrize(
    ("template", "title", "name"),
    [
        ("{title}", "1. The Sea", "1. The Sea.wav"),
        ("{line} {title}", "Mr.Fox", "2 Mr.Fox.wav"),
        ("v1.0 {title}", "The End...", "v1.0 The End....wav"),
        ("{title}", "b.mp3", "b.mp3"),
        ("{title}.flac", "1. The Sea", "1. The Sea.flac"),
        ("{title}.xyz", "1. The Sea", ""),
        ("a.b/{title}", "Sea", "a.b/Sea.wav"),
    ],
)
def test_a_dot_in_a_cell_begins_no_suffix(
    tmp_path: Path, template: str, title: str, name: str
) -> None:
    row = Row(1, 2, "Hello.", extra={"title": title})
    found, problems = Namer(tmp_path, Template(template, ["title"])).name(row, has_output=False)
    assert [found] * (not problems) == [name] * bool(name)


def test_rows_without_names_are_numbered(tmp_path: Path) -> None:
    (tmp_path / "t.txt").write_text("One.\nTwo.\n", "utf-8")
    session = checked(tmp_path / "t.txt", tmp_path / "out")
    assert [job.name for job in session.jobs] == ["0001.wav", "0002.wav"]


@given(st.text("ab./ é\n", max_size=12))
def test_the_quick_suffix_is_that_of_the_path(name: str) -> None:
    assert suffix_of(name) == PurePosixPath(name).suffix
