"""Subtitles: every word of a file is spoken once or named as left out; tags, notes and labels."""

from __future__ import annotations

import random
import re
import time
from collections import Counter
from dataclasses import dataclass, field, replace
from itertools import pairwise
from pathlib import Path

import pytest
from batches import INPUTS, prepare

from voxcli.batch.captions import Names, spoken, without_tags
from voxcli.batch.cues import read_cues
from voxcli.batch.records import Record, Table
from voxcli.batch.rows import parse_row
from voxcli.batch.session import Choices, TableError
from voxcli.batch.tables import read_table
from voxcli.errors import UsageError


def read(folder: Path, content: str, name: str = "t.srt") -> Table:
    path = folder / name
    path.write_text(content, "utf-8")
    return read_table(path)


def texts(found: Table) -> list[str]:
    return [record.values["text"] for record in found.records]


def said(cue: str) -> list[tuple[str, str, str]]:
    """Words, speaker and why there are none, of each who speaks in a cue."""
    tagless = without_tags(cue)
    found = spoken(tagless.text, Names(), tagless)
    return [(each.words, each.speaker, each.skipped) for each in found]


def srt(*cues: str, step_s: int = 5) -> str:
    """A file with a gap between two cues."""
    return "".join(
        f"{i + 1}\n00:00:{i * step_s:02d},000 --> 00:00:{i * step_s + 2:02d},000\n{cue}\n\n"
        for i, cue in enumerate(cues)
    )


# Tags and notes


def test_tags_and_sound_notes_are_not_spoken(tmp_path: Path) -> None:
    """Tags, notes, music, a speaker's label, two lines, CRLF."""
    content = (INPUTS / "tags.srt").read_text("utf-8").replace("\n", "\r\n")
    found = read(tmp_path, content)
    assert texts(found) == ["Hello there.", "", "", "Where is the key?"]
    assert [record.skipped for record in found.records[1:3]] == [
        "a sound note: [MUSIC]", "music: ♪ la la ♪",
    ]  # fmt: skip
    last = found.records[3].values
    assert (last["speaker"], last["start"], last["end"]) == ("ANNA", "5.000", "8.000")
    assert [record.line for record in found.records] == [2, 6, 10, 14]
    assert found.notes == (
        "sound notes are not spoken: [MUSIC] (line 6)",
        "songs are not spoken: ♪ la la ♪ (line 10)",
        "names of speakers are not spoken: ANNA (line 14)",
    )


@pytest.mark.parametrize(
    ("cue", "words", "speaker"),
    [
        ("- Hi.\n- Bye.", "Hi. Bye.", ""),
        ("-Hi.\n-Bye.", "Hi. Bye.", ""),
        ("– Who\n– me, of course", "Who. me, of course", ""),
        ("— ¿Quién?\n— Yo.", "¿Quién? Yo.", ""),
        ("\u2010 Hi\n\u2212 Bye", "Hi. Bye", ""),
        ("- Ready? - Yes, I am.", "Ready? Yes, I am.", ""),
        ("<i>- Ready,</i>\n<i>- or not?</i>", "Ready, or not?", ""),
        (">> Hi.\n>> Bye", "Hi. Bye", ""),
        ("It was - or so. - he said", "It was - or so. - he said", ""),
        ("- It is 5 - 3.", "It is 5 - 3.", ""),
        ("[sighs] I know.", "I know.", ""),
        ("(door slams)\nWho is it?", "Who is it?", ""),
        ("DR. LEE: (whispers) Wait.", "Wait.", "DR. LEE"),
        ("MAN (on phone): Wait.", "Wait.", "MAN"),
        ("ANNA: Yes. ANNA: No.", "Yes. No.", "ANNA"),
        ("<v Ann>ANN: Yes.", "Yes.", "Ann"),
        ("[SPEAKER_01]: Yes.", "Yes.", "SPEAKER_01"),
        ("[SPEAKER_01] Yes.", "Yes.", "SPEAKER_01"),
        ("- Speaker 2: Yes.", "Yes.", "Speaker 2"),
        (">> ANNA: Yes.", "Yes.", "ANNA"),
        ("Note: this stays.", "Note: this stays.", ""),
        ("He shouted: Stop.", "He shouted: Stop.", ""),
        ("I (nearly) won at 5:30.", "I (nearly) won at 5:30.", ""),
        ('<font color="red">Tom &amp; Ann</font>', "Tom & Ann", ""),
        ("♪ We sing", "", ""),
        ("<c.loud>Now</c> <00:01.500>and <ruby>then<rt>later</rt></ruby>", "Now and then", ""),
        ("<i></i>", "", ""),
        (r"{\an8}{\i1}Up{\i0} here", "Up here", ""),
        ("If a<b and c>d then x<y and y>z.", "If a<b and c>d then x<y and y>z.", ""),
        ("Use List<String> & Map<K, V>.", "Use List<String> & Map<K, V>.", ""),
        ("I <3 you, <sic> and {so on}.", "I <3 you, <sic> and {so on}.", ""),
        ("One<br>two<BR/>three", "One two three", ""),
        ("...", "", ""),
    ],
)
def test_cues_become_the_words_that_are_said(cue: str, words: str, speaker: str) -> None:
    ((found, who, why),) = said(cue)
    assert (found, who, bool(why)) == (words, speaker, not words)


@pytest.mark.parametrize(
    ("cue", "parts"),
    [
        ("OH. ANNA: Wait.", [("OH.", ""), ("Wait.", "ANNA")]),
        ("ANNA: WHAT? - BEN: NO. CLARA: Stop.", [("WHAT?", "ANNA"), ("NO.", "BEN"),
          ("Stop.", "CLARA")]),
        ("ANNA: Yes. BEN: No. ANNA: Yes.", [("Yes.", "ANNA"), ("No.", "BEN"), ("Yes.", "ANNA")]),
        ("ANNA: Yes.\nBEN (softly): - No.", [("Yes.", "ANNA"), ("No.", "BEN")]),
        ("<v Ann>Oh. BEN: No.", [("Oh.", "Ann"), ("No.", "BEN")]),
        ("ANNA: [laughs]\nBEN: No.", [("No.", "BEN")]),
        ("- Speaker 1: Yes.\n- Speaker 2: -5.", [("Yes.", "Speaker 1"), ("-5.", "Speaker 2")]),
    ],
)  # fmt: skip
def test_each_speaker_of_a_cue_has_a_part_of_it(cue: str, parts: list[tuple[str, str]]) -> None:
    assert [each[:2] for each in said(cue)] == parts


def test_a_web_subtitles_voice_tag_names_the_speaker(tmp_path: Path) -> None:
    cue = "WEBVTT\n\nNOTE made by hand\n\n00:01.000 --> 00:02.500\n<v Anna>Hello <b>you</b>.\n"
    row, _ = parse_row(read(tmp_path, cue, "t.vtt").records[0])
    assert (row.text, row.speaker, row.start, row.slot_s) == ("Hello you.", "Anna", 1.0, 1.5)


def test_notes_styles_and_names_of_web_subtitles_are_not_spoken(tmp_path: Path) -> None:
    blocks = [
        "WEBVTT - a film\nKind: captions", "STYLE\n::cue { color: red }", "REGION\nid:left",
        "first\n00:01.000 --> 00:02.000 line:0\nHello.", "NOTE by hand: 1 --> 2\nof two lines",
        "second-cue\n00:03.000 --> 00:04.000\nBye.\nBye.", "NOTE the end", "STYLE\n::cue(b) {}",
    ]  # fmt: skip
    found = read(tmp_path, "\n\n".join(blocks), "t.vtt")
    assert texts(found) == ["Hello.", "Bye. Bye."]
    assert [record.line for record in found.records] == [11, 18]
    assert found.notes == (
        "words of the header are not spoken: a film (line 1)",
        "names of cues are not spoken: first (line 10), second-cue (line 17)",
        "comments are not spoken: NOTE by hand: 1 --> 2 (line 14), of two lines (line 15), "
        "NOTE the end (line 22)",
    )


# Labels


def test_no_label_is_spoken_and_each_begins_a_row() -> None:
    found = read_table(INPUTS / "labels.srt")
    spoken = [(each.values.get("speaker"), each.values["text"]) for each in found.records]
    assert spoken == [
        ("ANNA", "Are you ready?"), ("BEN", "Yes I am."), ("Olivia", "We can stop."),
        ("Erik", "Not yet."), ("Speaker 1", "Hello there."), ("SPEAKER_01", "The captain is here."),
        (None, "Are you sure? Yes, I am."),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("cues", "spoken_texts"),
    [
        (["Olivia: Come.", "Erik: No.", "Olivia: Please."], ["Come.", "No.", "Please."]),
        (["Olivia: Come. Erik: No.", "Erik: Why?"], ["Come.", "No.", "Why?"]),
        (["Olivia: Come.", "No. Olivia: Why?", "Dr. Lee: So."], ["Come.", "No.", "Why?", "So."]),
        (["张三：你好。", "李四： 再见。", "张三：走吧。"], ["你好。", "再见。", "走吧。"]),
        (["Jean de la Tour: Oui.", "Mrs. Brown: Yes.\nMrs. Brown: No."], ["Oui.", "Yes. No."]),
        (["Ann: Come.", "Ann: No.", "Monday: fish."], ["Come.", "No.", "Monday: fish."]),
        (["ANN: Come.", "Olivia: No.", "August: fish."], ["Come.", "No.", "August: fish."]),
        (["April: Come.", "Ann: No.", "April: Why?"], ["Come.", "No.", "Why?"]),
        (["Starter: soup.", "Dessert: cake."], ["Starter: soup.", "Dessert: cake."]),
        (["GO ON.", "REMEMBER: NO.", "I SAID SO. LISTEN: NO."], ["GO ON.", "REMEMBER: NO.",
          "I SAID SO. LISTEN: NO."]),
        (["ANNA: GO ON.", "BEN: NO. CLARA: WHY?", "SO."], ["GO ON.", "NO.", "WHY?", "SO."]),
        (["A line.", "Lesson: we bake.", "No."], ["A line.", "Lesson: we bake.", "No."]),
        (["Remember: salt.", "Note: sugar."], ["Remember: salt.", "Note: sugar."]),
    ],
)  # fmt: skip
def test_mixed_case_names_are_labels_where_the_file_uses_them_all_through(
    tmp_path: Path, cues: list[str], spoken_texts: list[str]
) -> None:
    assert texts(read(tmp_path, srt(*cues))) == spoken_texts


@pytest.mark.parametrize(
    ("labels", "spoken_texts"),
    [
        ("auto", ["Go.", "Part two: no.", "Why?"]),
        ("none", ["ANN: Go.", "Part two: no.", "Mr. Fox: Why?"]),
        ("mr. fox, Part Two", ["ANN: Go.", "no.", "Why?"]),
    ],
)
def test_the_user_may_say_which_words_before_a_colon_are_speakers(
    tmp_path: Path, labels: str, spoken_texts: list[str]
) -> None:
    path = tmp_path / "t.srt"
    path.write_text(srt("ANN: Go.", "Part two: no.", "Mr. Fox: Why?"), "utf-8")
    assert texts(read_table(path, labels=labels)) == spoken_texts


@pytest.mark.parametrize("cue", ["JOHN: Hi. MARY: Hello.", "JOHN: Hi.\nMARY: Hello."])
def test_labels_of_a_cue_are_rows_that_share_its_time(tmp_path: Path, cue: str) -> None:
    rows = [parse_row(record)[0] for record in read(tmp_path, srt(cue)).records]
    assert [(row.speaker, row.text) for row in rows] == [("JOHN", "Hi."), ("MARY", "Hello.")]
    assert [(row.start, row.end) for row in rows] == [(0.0, 0.667), (0.667, 2.0)]


def test_all_that_looks_like_a_name_is_one_where_speakers_have_voices(tmp_path: Path) -> None:
    cues = ["One.", "Two. Olivia: So.", "Erik: three.", "mr fox: four.", "Note: five.", "Six: no."]
    plain = read(tmp_path, srt(*cues))
    assert texts(plain) == cues
    cast = read_cues(srt(*cues), Path("t.srt"), cast=["olivia", "Mr  Fox"])
    assert [(each.values.get("speaker"), each.values["text"]) for each in cast.records] == [
        (None, "One."), (None, "Two."), ("Olivia", "So."), ("Erik", "three."), ("mr fox", "four."),
        (None, "Note: five."), ("Six", "no."),
    ]  # fmt: skip
    asked = read_cues(srt(*cues), Path("t.srt"), labels="Erik", cast=["olivia"])
    assert [each.values["text"] for each in asked.records] == [*cues[:2], "three.", *cues[3:]]


def test_labels_of_a_table_without_cues_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text("text\nANN: Go.\n", "utf-8")
    with pytest.raises(UsageError, match="--labels is given, but"):
        read_table(path, labels="none")


# Several voices in a cue


@pytest.mark.parametrize("name", ["t.srt", "t.vtt"])
@pytest.mark.parametrize(
    ("cue", "parts"),
    [
        ("<v Ann>Yes.</v> <v Bob>No.", [("Ann", "Yes.", 1, 11 / 7), ("Bob", "No.", 11 / 7, 2)]),
        ("<v Ann>Yes.\n<v.loud Bob>Yes.", [("Ann", "Yes.", 1, 1.5), ("Bob", "Yes.", 1.5, 2)]),
        ("<v Ann>Yes.</v> <v Ann>No.</v>", [("Ann", "Yes. No.", 1, 2)]),
        ("<v Ann>[laughs]</v> <v Bob>No.</v>", [("Ann", "", 1, 2), ("Bob", "No.", 1, 2)]),
        ("So. <v Ann>Yes.", [("Ann", "So. Yes.", 1, 2)]),
        (
            "<v A>One.</v><v B>Two.</v><v A>One.</v>",
            [("A", "One.", 1, 4 / 3), ("B", "Two.", 4 / 3, 5 / 3), ("A", "One.", 5 / 3, 2)],
        ),
    ],
)
def test_each_voice_of_a_cue_has_its_row_and_its_part_of_the_time(
    tmp_path: Path, name: str, cue: str, parts: list[tuple[str, str, float, float]]
) -> None:
    content = f"WEBVTT\n\n00:00:01.000 --> 00:00:02.000\n{cue}\n\n00:09.000 --> 00:10.000\nEnd.\n"
    found = read(tmp_path, content, name).records
    assert [record.number for record in found] == list(range(1, len(parts) + 2))
    rows = [parse_row(record)[0] for record in found[:-1]]
    assert [(row.speaker, row.text) for row in rows] == [part[:2] for part in parts]
    times = [(row.start, row.end) for row in rows if row.text]
    assert times == [pytest.approx(part[2:], abs=1e-3) for part in parts if part[1]]


# What ends a cue, and times


def test_a_line_of_spaces_ends_no_cue_and_words_outside_of_cues_are_named(tmp_path: Path) -> None:
    content = (
        "WEBVTT\n\n00:01.000 --> 00:03.000\nFirst\n \nthird\n\n00:04.000 --> 00:06.000\n \nBegins\n"
        "\n00:07.000 --> 00:09.000\n\nOutside of it.\n"
    )
    found = read(tmp_path, content, "t.vtt")
    assert texts(found) == ["First third", "Begins", ""]
    assert found.notes == ("lines outside of any cue are not spoken: Outside of it. (line 14)",)
    content = content.removeprefix("WEBVTT\n\n").replace("00:0", "00:00:0").replace(".000", ",000")
    found = read(tmp_path, content)
    assert texts(found) == ["First third", "Begins", "Outside of it."]


def test_words_outside_of_cues_are_an_error_where_the_table_must_be_right(tmp_path: Path) -> None:
    path = tmp_path / "t.vtt"
    path.write_text("WEBVTT\n\nNOTE by hand\n\n00:01.000 --> 00:03.000\nIn.\n\nOut of it.\n")
    session = prepare(path, tmp_path / "out")
    session.check()
    strict = replace(session, choices=Choices(strict=True))
    with pytest.raises(TableError, match=r"Out of it\. \(line 8\)"):
        strict.check()
    path.write_text("WEBVTT\n\nNOTE by hand\n\n00:01.000 --> 00:03.000\n[sighs] In.\n")
    replace(prepare(path, tmp_path / "out"), choices=Choices(strict=True)).check()


@pytest.mark.parametrize("name", ["t.srt", "t.vtt"])
def test_times_may_be_after_99_hours_and_in_any_order(tmp_path: Path, name: str) -> None:
    content = (
        "WEBVTT\n\n123:00:01.000 --> 123:00:02.500\nLast.\n"
        "\n00:00:01.000 --> 00:00:02.000\nFirst.\n"
    )
    found = read(tmp_path, content, name)
    rows = [parse_row(record) for record in found.records]
    assert [(row.text, row.start, problems) for row, problems in rows] == [
        ("Last.", 442801.0, []), ("First.", 1.0, []),
    ]  # fmt: skip


def test_times_that_cannot_be_read_are_problems_of_their_rows(tmp_path: Path) -> None:
    content = srt("One.") + "2\n00:00:1O,0 --> 00:00:12,000\nTwo.\n\n"
    content += "3\n00:00:20,000 --> 00:00:19,000\nThree.\n"
    records = read(tmp_path, content).records
    assert [(record.values["text"], record.problem) for record in records] == [
        ("One.", ""),
        ("Two.", "its times cannot be read: '00:00:1O,0 --> 00:00:12,000'"),
        ("Three.", "it ends at 19.000 s, and starts at 20.000 s"),
    ]


@pytest.mark.parametrize("arrow", ["->", "– >", "—>", "→", "--&gt;", "-- >", "-->"])
@pytest.mark.parametrize("end", ["0:00:06,000", "00：00：06，000", ""])
@pytest.mark.parametrize("is_first", [True, False])
def test_a_line_meant_as_times_is_never_spoken_and_loses_no_cue(
    tmp_path: Path, arrow: str, end: str, is_first: bool
) -> None:
    if arrow == "-->" and end.isascii() and end:
        return  # as it should be
    odd = f"2\n00:00:05,000 {arrow} {end}\nThe second one.\n\n"
    found = read(tmp_path, odd + srt("Hello.") if is_first else srt("Hello.") + odd)
    number = 0 if is_first else 1
    assert found.records[number].values["text"] == "The second one."
    assert "times cannot be read" in found.records[number].problem
    assert found.records[1 - number].values["text"] == "Hello."


@pytest.mark.parametrize(
    "line", ["10:30 --> 11:30 is my slot.", "The set {x: x>0} is open.", "-5 degrees.", "-$5 each."]
)
def test_what_only_looks_like_times_tags_or_dashes_is_spoken(tmp_path: Path, line: str) -> None:
    assert texts(read(tmp_path, srt(line, "And so on."))) == [line, "And so on."]


def test_dashes_of_two_speakers_are_no_signs(tmp_path: Path) -> None:
    found = read(tmp_path, srt("-5 degrees?\n-No, 7.", "- 5 people.", "{y:i}{c:$0000ff}Blue."))
    assert texts(found) == ["5 degrees? No, 7.", "5 people.", "Blue."]


def test_readings_without_an_end_take_no_time() -> None:
    assert said("<rt>" * 20_000 + "word")[0][0] == "word"


def test_a_file_without_cues_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="has no line of times"):
        read(tmp_path, "Just some words.\n")


def test_a_cue_of_a_number_alone_is_spoken(tmp_path: Path) -> None:
    assert texts(read(tmp_path, srt("7", "8", "Nine\n9"))) == ["7", "8", "Nine 9"]


def test_the_number_of_a_cue_that_is_missing_is_not_spoken(tmp_path: Path) -> None:
    found = read(tmp_path, srt("One.", "Two.") + "3\n")
    assert texts(found) == ["One.", "Two."]
    assert found.notes == ("numbers of cues without times are not spoken: 3 (line 6)",)


@pytest.mark.parametrize("name", ["t.srt", "t.vtt"])
def test_a_number_that_stands_twice_is_not_spoken(tmp_path: Path, name: str) -> None:
    cues = [f"{i}\n{i}\n00:0{i}.000 --> 00:0{i}.500\nWord {i}.\n" for i in range(1, 4)]
    found = read(tmp_path, "\n".join(cues), name)
    assert (texts(found), found.notes) == (["Word 1.", "Word 2.", "Word 3."], ())


def test_numbers_that_are_said_before_a_number_stay(tmp_path: Path) -> None:
    content = "1\n00:01.000 --> 00:02.000\n2\n2\n00:03.000 --> 00:04.000\n7\n\n"
    content += "3\n00:05.000 --> 00:06.000\n9\n"
    assert texts(read(tmp_path, content)) == ["2", "7", "9"]


@pytest.mark.parametrize("cue", ["♪", "♪ ", "♪\n", "♪ la\n", "[a] ", "(a)\n", "A: ", "<v B>a\n"])
def test_the_time_of_a_cue_grows_with_its_length(cue: str) -> None:
    """100 kB take 0.3 s here, and took hours; 20 s are for a machine that does more."""
    content = f"1\n00:00:01,000 --> 00:00:09,000\n{cue * (100_000 // len(cue.encode()))}\n"
    started = time.process_time()
    read_cues(content, Path("t.srt"))
    assert time.process_time() - started < 20


# Rolling captions


@pytest.mark.parametrize("num_shown", [4, 6])
@pytest.mark.parametrize("step", [1, 2])
def test_a_window_that_moves_word_by_word_is_spoken_once(
    tmp_path: Path, num_shown: int, step: int
) -> None:
    text = "we plant some beans today and water them well before the sun is high"
    words = text.split()
    shown = [words[max(0, end - num_shown) : end] for end in range(step, len(words) + 1, step)]
    found = read(tmp_path, srt(*map(" ".join, shown), step_s=2))
    assert " ".join(texts(found)).split() == words


def test_a_refrain_is_no_window_of_words(tmp_path: Path) -> None:
    cues = ["la la la la", "la la la la", "no no no no", "we go home", "we go home", "home we go"]
    assert texts(read(tmp_path, srt(*cues, step_s=2))) == cues


@pytest.mark.parametrize("name", ["rolling.srt", "rolling.vtt"])
def test_a_line_that_rolls_is_spoken_where_it_is_new(name: str) -> None:
    found = read_table(INPUTS / name)
    assert [bool(text) for text in texts(found)] == [True, False, True, False, True]
    pairs = [" ".join(pair) for pair in pairwise(" ".join(texts(found)).split())]
    assert len(set(pairs)) == len(pairs) > 12
    assert found.notes[0].startswith("rolling captions: 4 repeated lines are spoken once")
    assert found.records[1].skipped == "rolling captions: its words are in row 1"


def test_lines_that_grow_word_by_word_are_spoken_once(tmp_path: Path) -> None:
    assert texts(read(tmp_path, srt("I", "I think", "I think so.", step_s=2))) == [
        "I", "think", "so.",
    ]  # fmt: skip


@pytest.mark.parametrize("step_s", [2, 3, 9])
@pytest.mark.parametrize(
    "cues",
    [
        ["Stop!", "Stop!", "I said stop!"],
        ["Stop!", "Stop!\nNow!", "And then?", "No.", "Nothing.", "No."],
        ["La la la", "La la la", "La la la"],
        ["No.\nNo.", "No.\nNo."],
    ],
)
def test_what_a_person_says_twice_is_spoken_twice(
    tmp_path: Path, cues: list[str], step_s: int
) -> None:
    assert texts(read(tmp_path, srt(*cues, step_s=step_s))) == [
        " ".join(cue.split("\n")) for cue in cues
    ]


# Every word


@dataclass
class Maker:
    """Makes a file of subtitles in which every word stands for itself: w0, w1, …"""

    chance: random.Random
    is_vtt: bool
    num_words: int = 0
    is_rolling: bool = False
    carried: list[str] = field(default_factory=list)

    def word(self) -> str:
        self.num_words += 1
        return f"w{self.num_words}"

    def words(self) -> str:
        return " ".join(self.word() for _ in range(self.chance.randint(1, 4)))

    def line(self) -> str:
        word, words, pick = self.word, self.words, self.chance.choice
        tag = pick(["i", "b", "c.x", "font color='red'", "u"])
        return pick([
            words, words, words,
            lambda: f"<{tag}>{words()}</{tag.split('.')[0].split()[0]}>",
            lambda: f"{word()}<{word()} and {word()}>{word()}",
            lambda: f"{word()} <{word()}> {{{words()}}}",
            lambda: f"[{words()}] {words()}",
            lambda: f"({words()})",
            lambda: f"♪ {words()} ♪",
            lambda: f"{word().upper()}: {words()}",
            lambda: f"{word().upper()} ({word()}): {words()}. {word().upper()}: {words()}",
            lambda: f"[{word()}_1]: {words()}",
            lambda: f"Speaker {self.number()}: {words()}",
            lambda: f"{word().title()}: {words()}",
            lambda: f"- {words()}",
            lambda: f"<v {word()}>{words()}</v>",
            lambda: f"<ruby>{word()}<rt>{word()}</rt></ruby>",
            lambda: f"<00:00:01.000><c> {words()}</c>",
            lambda: f"{word()} &lt; {word()} &amp; {word()}",
            lambda: f"{word()} --> {word()}",
        ])()  # fmt: skip

    def number(self) -> str:
        self.num_words += 1
        return f"w{self.num_words}".removeprefix("w")

    def text(self) -> str:
        lines = [self.line() for _ in range(self.chance.randint(0, 3))]
        if self.is_rolling:
            lines = [self.words()]
            shown, self.carried = [*self.carried, *lines], lines
            return "\n".join(shown)
        for blank in (" ", "\t ") if self.is_vtt else (" ", ""):
            if self.chance.random() < 0.2:
                lines.insert(self.chance.randint(0, len(lines)), blank)
        return "\n".join(lines)

    def file(self) -> str:
        num = self.chance.randint(3 if self.is_rolling else 1, 8)
        at = [3600 * self.chance.choice([0, 1, 99, 100, 240]) + 3 * i for i in range(num)]
        if self.is_rolling:
            at = [2 * i for i in range(num)]
        elif self.chance.random() < 0.5:
            self.chance.shuffle(at)
        blocks = []
        for number, start in enumerate(at, start=1):
            times = f"{clock(start)}.000 --> {clock(start + 2)}.000"
            name = self.word() if self.is_vtt and self.chance.random() < 0.3 else str(number)
            head = f"{name}\n" if self.chance.random() < 0.8 else ""
            blocks.append(f"{head}{times}\n{self.text()}")
            if self.is_vtt and self.chance.random() < 0.2:
                blocks.append(self.chance.choice([f"NOTE {self.words()}", self.words()]))
        if self.chance.random() < 0.2:
            blocks.insert(0, self.words())
        return "WEBVTT\n\n" * self.is_vtt + "\n\n".join(blocks) + "\n"


def clock(seconds: int) -> str:
    return f"{seconds // 3600:02d}:{seconds // 60 % 60:02d}:{seconds % 60:02d}"


def found_words(text: str) -> list[str]:
    return re.findall(r"(?i)\bw\d+", text)


@pytest.mark.parametrize("is_rolling", [False, True])
@pytest.mark.parametrize("name", ["t.srt", "t.vtt"])
def test_every_word_of_a_file_is_spoken_once_or_named_as_left_out(
    name: str, is_rolling: bool
) -> None:
    for seed in range(400):
        maker = Maker(random.Random(seed), name == "t.vtt", is_rolling=is_rolling)
        content = maker.file()
        records, notes, _ = read_cues(content, Path(name))
        rows = [word.lower() for record in records for word in found_words(record.values["text"])]
        named = {word.lower() for note in notes for word in found_words(note)}
        wanted = {word.lower() for word in found_words(content)}
        assert {*rows} | named == wanted, content
        assert max(Counter(rows).values(), default=0) <= 1, content
        assert not {*rows} & named, content
        assert not any(record.problem for record in records), content
        assert all(_is_told(record) for record in records), content


def _is_told(record: Record) -> bool:
    """Nothing to say, and no reason, is no answer."""
    return bool(record.values["text"]) != bool(record.skipped)


def test_a_number_of_a_cue_may_have_any_length(tmp_path: Path) -> None:
    number = "9" * 5000  # more than Python makes a number of
    first, second = "00:00:01,000 --> 00:00:02,000", "00:00:03,000 --> 00:00:04,000"
    found = read(tmp_path, f"{number}\n{first}\nHello.\n\n{number}\n{second}\nBye.\n")
    assert [text.split()[-1] for text in texts(found)][-1] == "Bye."
    long = f"12345678901\n{first}\nHello.\n\n12345678902\n{second}\nBye.\n"
    assert texts(read(tmp_path, long)) == ["Hello.", "Bye."]
