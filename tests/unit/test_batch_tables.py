"""Tables as people have them: what is read, what is refused, and what is wrong with which row."""

from __future__ import annotations

import csv
import json
import random
import re
import resource
import time
from pathlib import Path

import pytest
from batches import INPUTS, prepare
from fakes import fake_engine

from voxcli.batch.columns import columns_of
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
        ("t.xlsx", "is not a table"),
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
    assert found.how == "utf-8, semicolon-separated; other columns: name"


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
    ("text", "encoding", "offered"),
    [
        ("Où est la clé? Ça va.", "latin-1", "--encoding cp1252 it says 'Où clé Ça'"),
        ("Größe und Straße – „ja“", "cp1252", "--encoding cp1252 it says 'Größe Straße'"),
        ("Привет, как дела? Сегодня хорошая погода.", "cp1251", "--encoding cp1251"),
        ("日本語のテキストです。これはテスト", "shift_jis", "--encoding shift_jis"),
    ],
)
@pytest.mark.parametrize("name", ["t.csv", "t.srt", "t.vtt", "t.txt", "t.jsonl"])
def test_an_encoding_is_never_guessed_but_offered(
    tmp_path: Path, text: str, encoding: str, offered: str, name: str
) -> None:
    """The one that is offered reads the file as it was written."""
    content = f'text,output\n"{text}",a.wav\n'.encode(encoding)
    with pytest.raises(TextError, match="is not utf-8") as caught:
        table(tmp_path, content, name)
    assert offered in str(caught.value)
    taken = str(caught.value).partition("--encoding ")[2].split()[0]
    assert texts(table(tmp_path, content, encoding=taken)) == [text]


@pytest.mark.parametrize("is_alone", [True, False])
@pytest.mark.parametrize(
    ("text", "encodings"),
    [
        ("Москва", "cp1251 koi8_r cp866 iso8859_5"),
        ("Сегодня хорошая погода, и мы идём в парк.", "cp1251 koi8_r cp866 iso8859_5 mac_cyrillic"),
        ("Привіт, як справи? Це моя їжа.", "cp1251 iso8859_5"),
        ("Здравей, как си днес?", "cp1251 koi8_r cp866"),
        ("Он сказал: «Да».", "cp1251"),
        ("Καλημέρα σας, τι κάνετε;", "cp1253"),
        ("Zażółć gęślą jaźń.", "cp1250 iso8859_2"),
        ("Příliš žluťoučký kůň úpěl.", "cp1250 iso8859_2"),
        ("Güneş bugün çok parlak, değil mi?", "cp1254"),
        ("L’été où j’ai créé ça.", "cp1252"),
        ("À l'œuvre", "cp1252"),
        ("Smörgåsbord på ön", "cp1252"),
    ],
)
def test_the_encoding_that_is_offered_reads_the_words_as_they_were_written(
    tmp_path: Path, text: str, encodings: str, is_alone: bool
) -> None:
    """Beside lines of English too, which say nothing of the encoding."""
    others = [] if is_alone else ["The ferry leaves at noon and costs four dollars."] * 5
    lines = ["text", *others, f'"{text}"']
    for encoding in encodings.split():
        with pytest.raises(TextError) as caught:
            table(tmp_path, "\n".join(lines).encode(encoding))
        taken = str(caught.value).partition("--encoding ")[2].split()[0]
        assert texts(table(tmp_path, "\n".join(lines).encode(encoding), encoding=taken))[-1] == text


SENTENCES = {
    "French": (
        "Le café fermé rouvrira l’été prochain.|"
        "Elle a vingt-six ans, à peu près.|"
        "Ça m'a gêné.|"
        "Où vas-tu, mon frère ?|"
        "Cette forêt cachait un château."
    ),
    "Spanish": (
        "¿Cómo estás, señora?|"
        "El año pasado vivió en Málaga.|"
        "Mi corazón está aquí.|"
        "Los niños tenían sueño.|"
        "Ningún avión salió ayer."
    ),
    "German": (
        "Das Mädchen hörte die Glocken.|"
        "Wir fuhren über die Brücke.|"
        "Es regnete, doch schön war es.|"
        "Die Straße führt zum Schloß.|"
        "Möchten Sie noch etwas Käse?"
    ),
    "Polish": (
        "Wczoraj padał śnieg, więc zostaliśmy.|"
        "Mój brat kupił żółty rower.|"
        "Gdzie są moje książki?|"
        "Będę czekać na ciebie.|"
        "Pociąg odjeżdża o piątej."
    ),
    "Czech": (
        "Včera pršelo, tak jsme zůstali doma.|"
        "Můj bratr koupil žluté kolo.|"
        "Kde jsou mé knížky?|"
        "Budu na tebe čekat u řeky.|"
        "Vlak odjíždí v pět večer."
    ),
    "Russian": (
        "Вчера шёл снег, и мы остались дома.|"
        "Мой брат купил жёлтый велосипед.|"
        "Где мои книги?|"
        "Я буду ждать тебя у реки.|"
        "Поезд уходит в пять вечера."
    ),
    "Greek": (
        "Χθες χιόνιζε και μείναμε σπίτι.|"
        "Πού είναι τα βιβλία μου;|"
        "Το τρένο φεύγει στις πέντε.|"
        "Θα σε περιμένω στο ποτάμι.|"
        "Ο αδερφός μου αγόρασε ποδήλατο."
    ),
    "Turkish": (
        "Dün kar yağdı, evde kaldık.|"
        "Kardeşim sarı bir bisiklet aldı.|"
        "Kitaplarım nerede acaba?|"
        "Seni ırmağın yanında bekleyeceğim.|"
        "Tren akşam beşte kalkıyor."
    ),
    "Hebrew": (
        "אתמול ירד שלג ונשארנו בבית.|"
        "אחי קנה אופניים צהובים.|"
        "איפה הספרים שלי?|"
        "אחכה לך ליד הנהר.|"
        "הרכבת יוצאת בחמש בערב."
    ),
    "Arabic": (
        "نزل الثلج أمس فبقينا في البيت.|"
        "اشترى أخي دراجة صفراء.|"
        "أين كتبي؟|"
        "سأنتظرك عند النهر.|"
        "يغادر القطار في الخامسة مساء."
    ),
    "Chinese": (
        "外面下雪了，所以我们没有出门。|"
        "我的弟弟买了一辆自行车。|"
        "我的书在哪里？|"
        "我会在河边等你。|"
        "火车五点就要开了。"
    ),
    "Taiwanese": (
        "外面下雪了，所以我們沒有出門。|"
        "我的弟弟買了一輛自行車。|"
        "我的書在哪裡？|"
        "我會在河邊等你。|"
        "火車五點就要開了。"
    ),
    "Japanese": (
        "雪が降ったので家にいました。|"
        "弟は黄色い自転車を買った。|"
        "私の本はどこにありますか。|"
        "川のそばで待っています。|"
        "列車は五時に出ます。"
    ),
    "Korean": (
        "눈이 와서 우리는 집에 있었다.|"
        "동생이 노란 자전거를 샀어요.|"
        "내 책은 어디에 있나요?|"
        "강가에서 너를 기다릴게.|"
        "기차는 다섯 시에 떠난다."
    ),
}
WRITTEN_IN = {
    "cp1252": "French", "mac_roman": "French", "cp850": "Spanish", "cp437": "German",
    "cp1250": "Polish", "iso8859_2": "Czech", "cp852": "Polish", "cp1251": "Russian",
    "koi8_r": "Russian", "cp866": "Russian", "mac_cyrillic": "Russian", "iso8859_5": "Russian",
    "cp1253": "Greek", "cp1254": "Turkish", "cp1255": "Hebrew", "cp1256": "Arabic",
    "gb18030": "Chinese", "big5": "Taiwanese", "shift_jis": "Japanese", "euc_kr": "Korean",
}  # fmt: skip
MISREAD = 3  # of the hundred; sentences of one or two accents are the same in several encodings


def test_nearly_all_offers_read_one_sentence_as_it_was_written(tmp_path: Path) -> None:
    misread = []
    for encoding, language in WRITTEN_IN.items():
        for text in SENTENCES[language].split("|"):
            content = f'text\n"{text}"\n'.encode(encoding, "ignore")
            with pytest.raises(TextError) as caught:
                table(tmp_path, content)
            taken = str(caught.value).partition("--encoding ")[2].partition(" ")[0] or "cp1252"
            if content.decode(taken, "replace") != content.decode(encoding):
                misread.append((encoding, taken, text))
    assert len(misread) <= MISREAD, misread


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "utf-32"])
def test_utf_8_and_byte_order_marks_are_read(tmp_path: Path, encoding: str) -> None:
    read = table(tmp_path, "text,output\nnaïve café,a.wav\n".encode(encoding))
    assert texts(read) == ["naïve café"]
    assert read.how.startswith(encoding.removesuffix("-sig"))


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


@pytest.mark.parametrize(
    ("header", "field"),
    [
        ("Guidance Scale", "guidance_scale"), (" GUIDANCE-SCALE ", "guidance_scale"),
        ("CFG", "guidance_scale"), ("Ref Text", "ref_text"), ("Max Seconds", "max_seconds"),
        ("Scene Number", "Scene Number"),
    ],
)  # fmt: skip
def test_a_header_is_a_field_however_it_is_written(tmp_path: Path, header: str, field: str) -> None:
    parameters = columns_of(fake_engine().facts).headers
    for content, name in (
        (f"text,{header}\nHello.,2\n", "t.csv"),
        (json.dumps({"text": "Hello.", header: 2}), "t.jsonl"),
    ):
        found = table(tmp_path, content, name, parameters=parameters)
        assert found.records[0].values == {"text": "Hello.", field: "2"}


def test_a_column_that_is_called_like_a_field_by_chance_can_be_told_so(tmp_path: Path) -> None:
    """The message says how, and what it says works; of parameters of all models, and of numbers."""
    path = tmp_path / "t.csv"
    path.write_text("text,Steps,temperature,speed\nWalk.,by the river,mild,slow\nRun.,,,\n")
    problems = prepare(path, tmp_path / "out").problems
    assert sorted(problem.column for problem in problems) == ["speed", "steps", "temperature"]
    hints = [problem.message.partition("--map ")[2].split()[0] for problem in problems]
    session = prepare(path, tmp_path / "out", mapping=dict.fromkeys((h[:-1] for h in hints), ""))
    assert session.problems == []
    assert session.jobs[0].row.extra == {
        "(steps)": "by the river", "(temperature)": "mild", "(speed)": "slow",
    }  # fmt: skip


SLIPS = {
    "voise": "voice", "spead": "speed", "Langauge": "language", "speakr": "speaker",
    "ref-txt": "ref_text", "stiles": "", "styles": "style", "sead": "seed",
    "guidence_scale": "guidance_scale", "cfgg": "", "state": "", "idx": "", "invoice": "",
    "title": "", "note": "",
}  # fmt: skip


@pytest.mark.parametrize("kind", ["csv", "jsonl"])
@pytest.mark.parametrize(("column", "field"), SLIPS.items())
def test_a_misspelt_column_is_asked_about_and_others_are_named(
    tmp_path: Path, kind: str, column: str, field: str
) -> None:
    parameters = columns_of(fake_engine().facts).headers

    def read(columns: list[str], mapping: dict[str, str] | None = None) -> Table:
        rows = [dict.fromkeys(columns, "1")]
        lines = [",".join(columns), ",".join(["1"] * len(columns))]
        text = "\n".join(lines if kind == "csv" else map(json.dumps, rows))
        return table(tmp_path, text, f"t.{kind}", parameters=parameters, mapping=mapping)

    if not field:
        assert read(["text", column]).how.endswith(f"; other columns: {column}")
        return
    with pytest.raises(UsageError) as caught:
        read(["text", column, "title"])
    assert f"has the column '{column}'; did you mean '{field}'?" in str(caught.value)
    assert f"add --map {field}={column}; to leave" in str(caught.value).replace("'", "")
    named = read(["text", column, "title"], {field: column})
    assert named.records[0].values == {"text": "1", field: "1", "title": "1"}
    assert named.how.endswith("; other columns: title")
    assert read(["text", column], {field: ""}).how.endswith(f"; other columns: {column}")
    assert read(["text", column, field]).how.endswith(f"; other columns: {column}")


def test_a_table_with_no_text_but_nearly_one_is_told_all_at_once(tmp_path: Path) -> None:
    told = "did you mean 'text' and 'voice'? rename them, or add --map text=txt --map voice=voise"
    for content, name in (("txt,voise\nHello.,a\n", "t.csv"), ('{"txt":"a","voise":1}', "t.jsonl")):
        with pytest.raises(UsageError, match="has no column 'text'") as caught:
            table(tmp_path, content, name)
        assert caught.value.hint == told


@pytest.mark.parametrize(
    ("column", "field"),
    [
        ("lang", "language"), ("start_time", "start"), ("Voice Name", "voice"),
        ("File Name", "output"), ("Character", "speaker"), ("tempo", "speed"),
    ],
)  # fmt: skip
def test_a_column_that_begins_as_a_field_is_warned_about(
    tmp_path: Path, column: str, field: str
) -> None:
    content = f"text,{column}\nHello.,1\n"
    (note,) = table(tmp_path, content).notes
    assert f"the column '{column}' is not used; if it is '{field}', add --map " in note
    assert not table(tmp_path, content, mapping={field: ""}).notes
    assert not table(tmp_path, content, mapping={field: column}).notes
    assert not table(tmp_path, f"text,{column},{field}\nHello.,1,\n").notes


@pytest.mark.parametrize(("delimiter", "suffix"), [("\t", ".tsv"), (";", ".csv"), (",", ".csv")])
def test_a_table_that_is_called_a_text_is_refused(
    tmp_path: Path, delimiter: str, suffix: str
) -> None:
    content = f"Voice{delimiter}Text\nemma{delimiter}Hello.\n"
    with pytest.raises(UsageError, match=rf"is a table with a .* rename it .*t\{suffix}"):
        table(tmp_path, content, "t.txt")
    texts_of = texts(table(tmp_path, "Text, in a word\nThe text, voice\n", "t.txt"))
    assert texts_of == ["Text, in a word", "The text, voice"]


@pytest.mark.parametrize("mapping", [{"Line": "text"}, {"words": "speaker"}])
def test_a_mapping_the_wrong_way_round_is_turned(tmp_path: Path, mapping: dict[str, str]) -> None:
    ((column, field),) = mapping.items()
    with pytest.raises(UsageError, match=f"write --map '{field}={column}'"):
        table(tmp_path, f"{column},text\nHello.,a\n", mapping=mapping)


HEADERLESS = [
    ("Hello there.\nGood day.\nGood night.\n", ["Hello there.", "Good day.", "Good night."]),
    ("a.wav,Hello there\nb.wav,Good day\n", ["Hello there", "Good day"]),
    ("1;Hello there, you.;x\n2;Good day, all.;y\n", ["Hello there, you.", "Good day, all."]),
    ("Hello, you.\nYes, no.\n", ["Hello, you.", "Yes, no."]),
    ("Hello\n", ["Hello"]),
]


@pytest.mark.parametrize(("content", "spoken"), HEADERLESS)
def test_the_hint_for_a_table_without_a_header_costs_no_row(
    tmp_path: Path, content: str, spoken: list[str]
) -> None:
    with pytest.raises(UsageError, match="no column 'text'") as caught:
        table(tmp_path, content)
    hint = caught.value.hint or ""
    assert "--no-header" in hint
    column = re.search(r"--no-header --map text=(\d)", hint)
    mapping = {"text": column[1]} if column else {}
    found = table(tmp_path, content, has_header=False, mapping=mapping)
    assert texts(found) == spoken
    assert [record.line for record in found.records] == [*range(1, len(spoken) + 1)]


def test_a_first_line_of_words_that_is_used_as_the_header_is_told(tmp_path: Path) -> None:
    found = table(tmp_path, "Hello there.\nGood day.\n", mapping={"text": "Hello there."})
    assert texts(found) == ["Good day."]
    assert "not spoken: Hello there.; if it is a row, add --no-header" in found.notes[0]


def test_a_header_with_abbreviations_is_one(tmp_path: Path) -> None:
    """As spreadsheets have them; the message names the column of the text."""
    content = "Nr.;Prompt;max. Sekunden\n1;Press 2 for sales.;8,5\n"
    with pytest.raises(UsageError) as caught:
        table(tmp_path, content)
    assert "--map 'text=Prompt'" in (caught.value.hint or "")
    found = table(tmp_path, content, mapping={"text": "Prompt", "max_seconds": "max. Sekunden"})
    assert found.notes == ()
    assert (found.records[0].values["text"], found.records[0].values["max_seconds"]) == (
        "Press 2 for sales.", "8,5",
    )  # fmt: skip


def test_a_table_without_a_header_and_with_many_columns_is_told_which_is_the_text(
    tmp_path: Path,
) -> None:
    content = "a.wav,Hello there\nb.wav,Good day\n"
    with pytest.raises(UsageError, match=r"found: 1, 2; .*--map 'text=2'"):
        table(tmp_path, content, has_header=False)
    found = table(tmp_path, content, has_header=False, mapping={"text": "2", "output": "1"})
    assert found.records[0].values == {"output": "a.wav", "text": "Hello there"}


def test_a_column_without_words_is_not_taken_for_a_header_less_table(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"add --no-header --map text=1; else .*--map 'text=line'"):
        table(tmp_path, "line,file\nHello there.,a\n")


@pytest.mark.parametrize("name", ["t.jsonl", "t.srt", "t.txt"])
def test_only_a_csv_can_lack_a_header(tmp_path: Path, name: str) -> None:
    with pytest.raises(UsageError, match="--no-header"):
        table(tmp_path, "Hello.", name, has_header=False)


@pytest.mark.parametrize(
    "cell",
    [
        "#REF!", "#NAME?", "#N/A", "#VALUE!", "#DIV/0!", "#NUM!", "#NULL!", "#SPILL!", "#CALC!",
        "#ref!", " #N/A ", "#BEZUG!", "#NV", "#######", "Err:502", "=SUM(A1:A3)", "=A1&B1",
        "=IF(A1>2,1,0)", "=$B$7", "='My Sheet'!A1", '="Hello "&A1', "=-A1", "=1+2",
        "See #REF! here", "It costs #DIV/0!.", "#NAME? and so on", "Total: #N/A", "@SUM(A1)",
        "@if(A1>2,1,0)", "+1-2", "-1+2", "+A1*B2", "-A1/2", "+SUM(A1:A3)-2", "-2-3-4",
    ],
)  # fmt: skip
def test_cells_that_a_spreadsheet_left_broken_are_no_lines(cell: str) -> None:
    for column in ("text", "output", "speaker", "ref_text"):
        assert column in row(**{column: cell})[1]


@pytest.mark.parametrize(
    "cell",
    [
        "#1 hit",
        "#REF",
        "# row",
        "N/A",
        "= equals",
        "=> so",
        "#hashtag!",
        "a=SUM(A1)",
        "1+2=3",
        "#",
        "I am #busy!",
        "C# N/A",
        "-5",
        "+1",
        "-3/4",
        "-5 degrees",
        "- A dash.",
        "@anna hello",
        "+1-800-555-1234",
        "+44 20 7946 0958",
        "5-3",
        "@home (now)",
        "x@y.com",
    ],
)
def test_cells_of_words_that_look_a_little_like_it_are_lines(cell: str) -> None:
    assert row(text=cell)[1] == []


def test_json_lines_keep_numbers_and_say_which_line_is_wrong(tmp_path: Path) -> None:
    lines = ['{"text": "One.", "seed": 3, "voice": null}', "", "{oops", '{"text": "Two."}']
    found = table(tmp_path, "\n".join(lines), "t.jsonl")
    row, _ = parse_row(found.records[0])
    assert (row.seed, row.voice) == (3, "")
    assert [(record.line, bool(record.problem)) for record in found.records] == [
        (1, False), (3, True), (4, False),
    ]  # fmt: skip


@pytest.mark.parametrize("number", ["9" * 30, "9" * 5000, "1e999", "-1e999", "Infinity", "NaN"])
@pytest.mark.parametrize("column", ["seed", "speed", "start", "steps", "max_seconds"])
def test_a_number_that_cannot_be_is_told_plainly(tmp_path: Path, column: str, number: str) -> None:
    path = tmp_path / "t.jsonl"
    path.write_text(f'{{"text": "One.", "{column}": {number}}}')
    problems = prepare(path, tmp_path / "out").problems
    assert [problem.column for problem in problems] == [column]
    assert "give " in str(problems[0]) or "hours" in str(problems[0])
    assert number[:10] in str(problems[0])
    assert len(str(problems[0])) < 250


def test_values_that_are_no_text_are_problems_of_their_rows(tmp_path: Path) -> None:
    lines = [r'{"text": "Half \ud800."}', '{"text": ["One."]}', "[" * 100_000, '{"text": "Two."}']
    lines.append('{"text": "Three.", "text": "Four."}')
    problems = [record.problem for record in table(tmp_path, "\n".join(lines), "t.jsonl").records]
    assert [problem.partition(";")[0].split(",")[0][:25] for problem in problems] == [
        "has half a character", "'text' is a list or an ob", "is not a row of JSON: max", "",
        "is not a row of JSON: it ",
    ]  # fmt: skip


def test_a_plain_text_is_one_row_a_line(tmp_path: Path) -> None:
    found = table(tmp_path, "One.\r\n\r\n  Two, three.  \r\n", "t.txt")
    assert texts(found) == ["One.", "Two, three."]
    assert [record.line for record in found.records] == [1, 3]


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
        {"start": "1", "end": "2", "duration": "1"}, {"speed": "5"}, {"speed": "nan"},
        {"seed": "1.5"}, {"seed": str(2**63)}, {"start": "9" * 20},
        {"max_seconds": "0"}, {"max_seconds": "long"},
        {"start": "999:00:00", "duration": "2:00:00"}, {"start": "0", "end": "1001:00:00"},
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
    """Under two seconds of CPU on a busy machine; a bar is told of each row."""
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
    times: list[float] = []
    while not times or (times[-1] >= 5 and len(times) < 3):  # others share the processor's caches
        started = time.process_time()
        session = prepare(path, tmp_path / "out")
        times.append(time.process_time() - started)
    assert times[-1] < 5
    assert (len(session.jobs), session.problems) == (10_000, [])
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 100 * 1024
