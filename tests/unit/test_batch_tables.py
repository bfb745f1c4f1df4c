"""Tables as people have them: what is read, what is refused, and what is wrong with which row."""

from __future__ import annotations

import csv
import json
import random
import resource
import time
from pathlib import Path

import pytest
from batches import INPUTS, prepare

from voxcli.batch.cues import spoken_words
from voxcli.batch.records import Record, Table
from voxcli.batch.rows import Row, parse_row
from voxcli.batch.tables import read_table
from voxcli.errors import TextError, UsageError


def table(folder: Path, content: str | bytes, name: str = "t.csv", **options: object) -> Table:
    path = folder / name
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return read_table(path, **options)  # type: ignore[arg-type]


def texts(found: Table) -> list[str]:
    return [record.values["text"] for record in found.records]


def test_a_spreadsheets_byte_order_mark_does_not_hide_the_first_column() -> None:
    found = read_table(INPUTS / "bom.csv")
    assert texts(found) == ["The shop opens at nine.", "Please close the door."]
    assert found.how == "utf-8, comma-separated"


def test_quotes_newlines_and_blank_lines_make_one_row_a_record() -> None:
    """A line beginning with # is a row like others; numbers are those of record and line."""
    found = read_table(INPUTS / "quotes.csv")
    assert texts(found) == [
        "First line second line, with a comma.", 'He said "yes" twice.', "# row",
    ]  # fmt: skip
    assert [(record.number, record.line) for record in found.records] == [(1, 2), (2, 4), (3, 6)]


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("no_column.csv", "no column 'text'; found: line, file; required: text"),
        ("header_only.csv", "has 0 rows"),
        ("empty.csv", "is empty"),
        ("", "is a folder"),
        ("none.csv", "cannot read"),
        ("t.xlsx", "is no table"),
    ],
)
def test_what_is_no_table_is_refused_with_what_was_found(name: str, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        read_table(INPUTS / name)


@pytest.mark.parametrize("delimiter", [",", ";", "\t", "|"])
def test_the_delimiter_is_found(tmp_path: Path, delimiter: str) -> None:
    rows = [["output", "text"], ["a.wav", '"Well, yes; or no | maybe."'], ["b.wav", "Plain."]]
    found = table(tmp_path, "\n".join(delimiter.join(row) for row in rows))
    assert texts(found) == ["Well, yes; or no | maybe.", "Plain."]


def test_a_spreadsheets_own_line_names_the_delimiter(tmp_path: Path) -> None:
    found = table(tmp_path, '"sep=;"\r\nname;text\r\nx;One, two.\r\n')
    assert texts(found) == ["One, two."]
    assert found.records[0].line == 3
    assert found.how == "utf-8, semicolon-separated"


@pytest.mark.parametrize("content", ["", " \n\n", ",,,\n,,,\n", "sep=;\n", "sep=;"])
def test_a_table_of_nothing_is_empty(tmp_path: Path, content: str) -> None:
    with pytest.raises(UsageError, match="is empty"):
        table(tmp_path, content, delimiter=",")


def test_one_column_with_commas_needs_no_quotes(tmp_path: Path) -> None:
    assert texts(table(tmp_path, "text\nOne, two.\nThree, four, five.\n")) == [
        "One, two.", "Three, four, five.",
    ]  # fmt: skip


def test_a_row_that_cannot_be_read_keeps_its_place(tmp_path: Path) -> None:
    found = table(tmp_path, 'text,output\nOne, two,a.wav\n"Yes" he said,b.wav\nFine.,c.wav\n"Open')
    problems = [record.problem for record in found.records]
    assert [problem.split(";")[0] for problem in problems] == [
        "3 cells where the header has 2", "text follows a closing quote", "",
        "a quote is opened here and never closed",
    ]  # fmt: skip
    assert [record.line for record in found.records] == [2, 3, 4, 5]


def test_rows_of_empty_cells_at_the_end_are_no_rows(tmp_path: Path) -> None:
    assert len(table(tmp_path, "text,output\nOne.,a.wav\n,\n,\n").records) == 1


@pytest.mark.parametrize(
    ("text", "encoding", "found"),
    [
        ("Où est la clé? Ça va.", "latin-1", "cp1252"),
        ("Größe und Straße – „ja“", "cp1252", "cp1252"),
        ("Привет, как дела? Сегодня хорошая погода.", "cp1251", "cp1251"),
        ("日本語のテキストです。これはテスト", "shift_jis", "shift_jis"),
        ("naïve café", "utf-16", "utf-16"),
    ],
)
def test_encodings_are_found_and_told(tmp_path: Path, text: str, encoding: str, found: str) -> None:
    read = table(tmp_path, f'text,output\n"{text}",a.wav\n'.encode(encoding))
    assert texts(read) == [text]
    assert read.how.startswith(found)
    assert ("a guess" in read.how) == (encoding != "utf-16")


def test_a_forced_encoding_is_not_guessed_around(tmp_path: Path) -> None:
    with pytest.raises(TextError, match="is not utf-8"):
        table(tmp_path, "text\nclé\n".encode("latin-1"), encoding="utf-8")


def test_other_headers_are_mapped_and_other_columns_kept(tmp_path: Path) -> None:
    found = table(tmp_path, "Line,ID,Scene\nHello.,a1,3\n", mapping={"text": "line"})
    row, problems = parse_row(found.records[0])
    assert (row.text, row.id, dict(row.extra), problems) == ("Hello.", "a1", {"Scene": "3"}, [])


@pytest.mark.parametrize("mapping", [{"txt": "Line"}, {"text": "Lines"}])
def test_a_mapping_to_nothing_is_refused_with_the_nearest(
    tmp_path: Path, mapping: dict[str, str]
) -> None:
    with pytest.raises(UsageError, match=r"did you mean '(text|Line)'"):
        table(tmp_path, "Line\nHello.\n", mapping=mapping)


def test_json_lines_keep_numbers_and_say_which_line_is_wrong(tmp_path: Path) -> None:
    lines = ['{"text": "One.", "seed": 3, "voice": null}', "", "{oops", '{"text": "Two."}']
    found = table(tmp_path, "\n".join(lines), "t.jsonl")
    row, _ = parse_row(found.records[0])
    assert (row.seed, row.voice) == (3, "")
    assert [(record.line, bool(record.problem)) for record in found.records] == [
        (1, False), (3, True), (4, False),
    ]  # fmt: skip


def test_values_that_are_no_text_are_problems_of_their_rows(tmp_path: Path) -> None:
    lines = [r'{"text": "Half \ud800."}', '{"text": ["One."]}', "[" * 100_000, '{"text": "Two."}']
    problems = [record.problem for record in table(tmp_path, "\n".join(lines), "t.jsonl").records]
    assert [problem.partition(";")[0].split(",")[0][:25] for problem in problems] == [
        "has half a character", "'text' is a list or an ob", "is not JSON: maximum recu", "",
    ]  # fmt: skip


def test_a_plain_text_is_one_row_a_line(tmp_path: Path) -> None:
    found = table(tmp_path, "One.\r\n\r\n  Two, three.  \r\n", "t.txt")
    assert texts(found) == ["One.", "Two, three."]
    assert [record.line for record in found.records] == [1, 3]


# Subtitles


@pytest.mark.parametrize("encoding", ["utf-8", "latin-1"])
def test_tags_and_sound_notes_are_not_spoken(tmp_path: Path, encoding: str) -> None:
    """Tags, notes, music, a speaker's label, two lines, CRLF, Latin-1."""
    text = (INPUTS / "tags.srt").read_text("utf-8").replace("Hello there", "Voilà, ça va")
    content = text.replace("♪", "#" if encoding == "latin-1" else "♪").replace("\n", "\r\n")
    found = table(tmp_path, content.encode(encoding), "t.srt")
    records = found.records
    assert [record.values["text"] for record in (records[0], records[3])] == [
        "Voilà, ça va.", "Where is the key?",
    ]  # fmt: skip
    assert records[1].skipped == "a sound note: [MUSIC]"
    assert encoding == "latin-1" or records[2].skipped == "music: ♪ la la ♪"
    assert records[3].values["speaker"] == "ANNA"
    assert (records[3].values["start"], records[3].values["end"]) == ("5.000", "8.000")
    assert [record.line for record in records] == [2, 6, 10, 14]


@pytest.mark.parametrize(
    ("cue", "words", "speaker"),
    [
        ("- Hi.\n- Bye.", "Hi. Bye.", ""),
        ("[sighs] I know.", "I know.", ""),
        ("(door slams)\nWho is it?", "Who is it?", ""),
        ("DR. LEE: (whispers) Wait.", "Wait.", "DR. LEE"),
        ("Note: this stays.", "Note: this stays.", ""),
        ("I (nearly) won at 5:30.", "I (nearly) won at 5:30.", ""),
        ('<font color="red">Tom &amp; Ann</font>', "Tom & Ann", ""),
        ("♪ We sing", "", ""),
        ("<c.loud>Now</c> <00:01.500>and <ruby>then<rt>later</rt></ruby>", "Now and then", ""),
        ("<i></i>", "", ""),
    ],
)
def test_cues_become_the_words_that_are_said(cue: str, words: str, speaker: str) -> None:
    said, who, why = spoken_words(cue)
    assert (said, who, bool(why)) == (words, speaker, not words)


def test_a_web_subtitles_voice_tag_names_the_speaker(tmp_path: Path) -> None:
    cue = "WEBVTT\n\nNOTE made by hand\n\n00:01.000 --> 00:02.500\n<v Anna>Hello <b>you</b>.\n"
    row, _ = parse_row(table(tmp_path, cue, "t.vtt").records[0])
    assert (row.text, row.speaker, row.start, row.slot_s) == ("Hello you.", "Anna", 1.0, 1.5)


def test_notes_styles_and_names_of_web_subtitles_are_not_spoken(tmp_path: Path) -> None:
    blocks = [
        "WEBVTT - a film\nKind: captions", "STYLE\n::cue { color: red }", "REGION\nid:left",
        "first\n00:01.000 --> 00:02.000 line:0\nHello.", "NOTE by hand: 1 --> 2\nof two lines",
        "second-cue\n00:03.000 --> 00:04.000\nBye.\nBye.", "NOTE the end", "STYLE\n::cue(b) {}",
    ]  # fmt: skip
    found = table(tmp_path, "\n\n".join(blocks), "t.vtt")
    assert texts(found) == ["Hello.", "Bye. Bye."]
    assert [record.line for record in found.records] == [11, 18]


# Rows


def row(**values: str) -> tuple[Row, list[str]]:
    parsed, problems = parse_row(Record(1, 2, {"text": "Hello.", **values}))
    return parsed, [problem.column for problem in problems]


def test_every_problem_of_a_row_is_found() -> None:
    values = {"seed": "-1", "speed": "fast", "start": "now", "text": " ", "voice": "a", "ref": "b"}
    assert sorted(row(**values)[1]) == ["ref", "seed", "speed", "start", "text"]


@pytest.mark.parametrize(
    ("cells", "slot"),
    [
        ({"start": "1.5", "end": "2"}, (1.5, 2.0)),
        ({"start": "00:01:02,500", "duration": "3"}, (62.5, 65.5)),
        ({"start": "1:00:00.25"}, (3600.25, None)),
    ],
)
def test_times_are_seconds_or_clock_times(
    cells: dict[str, str], slot: tuple[float, float | None]
) -> None:
    parsed, problems = row(**cells)
    assert ((parsed.start, parsed.end), problems) == (slot, [])


@pytest.mark.parametrize(
    "cells",
    [
        {"start": "2", "end": "1"}, {"start": "2", "duration": "0"}, {"end": "1"},
        {"start": "1", "end": "2", "duration": "1"}, {"speed": "3"}, {"speed": "nan"},
        {"seed": "1.5"}, {"seed": str(2**63)}, {"start": "9" * 20},
    ],
)  # fmt: skip
def test_impossible_numbers_are_problems(cells: dict[str, str]) -> None:
    assert len(row(**cells)[1]) == 1


def test_a_rows_values_beat_the_commands(tmp_path: Path) -> None:
    """Row 4 has an unknown voice; relative recordings lie beside the table."""
    (tmp_path / "me.wav").write_bytes(b"abcd")
    rows = [
        {"text": "One.", "voice": "alba", "seed": 1, "speed": 1.2, "language": "en"},
        {"text": "Two.", "ref": "me.wav"},
        {"text": "Three."},
        {"text": "Four.", "voice": "no_such_voice"},
        {"text": "Five.", "ref": "you.wav"},
        {"text": "早上好。", "language": "zh"},
    ]
    path = tmp_path / "t.jsonl"
    path.write_text("\n".join(map(json.dumps, rows)), "utf-8")
    session = prepare(path, tmp_path / "out")
    assert [(problem.number, problem.column) for problem in session.problems] == [
        (4, "voice"), (5, "ref"), (6, "text"),
    ]  # fmt: skip
    first = session.jobs[0].utterance
    assert (first.sampling.seed, first.speed, first.language) == (1, 1.2, "en")
    second = session.casting.fill(session.jobs[1].row, session.jobs[1].utterance)
    assert second.reference is not None
    assert session.jobs[2].utterance.speed == 1.0
    assert len({job.key for job in session.jobs[:3]}) == 3


def test_ten_thousand_rows_are_checked_in_seconds_and_little_memory(tmp_path: Path) -> None:
    """Two seconds on a quiet core; the bounds leave room for a busy one."""
    sentence = "the ferry leaves at noon and costs $4.50 for each of 12 people until 5:30 p.m."
    chance = random.Random(1)
    path = tmp_path / "big.csv"
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["text", "output", "seed"])
        for i in range(10_000):
            words_of_row = " ".join(chance.choices(sentence.split(), k=12))
            writer.writerow([f"{words_of_row}.", f"d{i % 50}/r{i}.wav", i if i % 3 else ""])
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    started = time.process_time()
    session = prepare(path, tmp_path / "out")
    assert time.process_time() - started < 15
    assert (len(session.jobs), session.problems) == (10_000, [])
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 100 * 1024
