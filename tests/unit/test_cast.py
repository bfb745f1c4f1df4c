"""Several speakers: who says each word of a file, in every format that can name speakers."""

from __future__ import annotations

import json
import random
import re
from collections import Counter
from pathlib import Path

import pytest
from batches import VOICES, prepare, speak, statuses

from voxcli.batch.cast import Cast
from voxcli.batch.cues import read_cues
from voxcli.batch.session import Session
from voxcli.errors import UsageError

NAMES = {"Anna": "emma", "Mr. Fox": "george", "Zoë Marlowe": "mia", "BEN": "alba"}
Turn = tuple[str, str]  # who, and a sentence; a narrator has no name


class Dialogue:
    """A file in which every word stands for itself (w1, w2, …), and who says each."""

    def __init__(self, seed: int) -> None:
        self.chance = random.Random(seed)
        self.num_words = 0
        self.spoken: dict[str, str] = {}

    def turn(self, *, is_narrated: bool = False) -> Turn:
        name = "" if is_narrated else self.chance.choice(list(NAMES))
        words = []
        for _ in range(self.chance.randint(1, 4)):
            self.num_words += 1
            words.append(f"w{self.num_words}")
            self.spoken[words[-1]] = NAMES.get(name, "")
        return name, f"{' '.join(words)}."

    def cues(self) -> list[list[Turn]]:
        """Narrators begin a cue, if they speak in it at all."""
        found = []
        for _ in range(self.chance.randint(2, 7)):
            narrated = [self.turn(is_narrated=True)] if self.chance.random() < 0.3 else []
            turns = [self.turn() for _ in range(self.chance.randint(0 if narrated else 1, 3))]
            found.append([*narrated, *turns])
        return found

    def cased(self, name: str) -> str:
        return self.chance.choice([name, name.upper(), name.lower()])

    def labelled(self, turns: list[Turn]) -> str:
        text = ""
        for name, words in turns:
            label = self.chance.choice([f"{self.cased(name)}: ", f"[{name}]: ", f"- {name}: "])
            glue = self.chance.choice([" ", "\n"]) if label[0] not in "[-" else "\n"
            text += (glue if text else "") + (label if name else "") + words
        return text

    # ------------------------------------------------------------ the formats

    def srt(self) -> str:
        return "".join(
            f"{i}\n00:00:{i:02d},000 --> 00:00:{i:02d},900\n{self.labelled(turns)}\n\n"
            for i, turns in enumerate(self.cues(), start=1)
        )

    def vtt(self) -> str:
        cues = [
            "".join(f"<v {name}>{words}</v> " if name else f"{words} " for name, words in turns)
            if turns[0][0]
            else self.labelled(turns)
            for turns in self.cues()
        ]
        times = (f"00:{i:02d}.000 --> 00:{i:02d}.900" for i in range(len(cues)))
        pairs = zip(times, cues, strict=True)
        return "WEBVTT\n\n" + "\n\n".join(f"{time}\n{text}" for time, text in pairs) + "\n"

    def ass(self) -> str:
        """Actors, or styles of them; columns in some order, of which the text is the last."""
        columns = ["Layer", "Start", "End", "Style", "Name", "Effect"]
        self.chance.shuffle(columns)
        lines = ["[Script Info]", "; by hand", "[Events]", f"Format: {', '.join(columns)}, Text"]
        for i, (name, words) in enumerate(turn for turns in self.cues() for turn in turns):
            is_styled = self.chance.random() < 0.5
            cells = {
                "Layer": "0", "Effect": "", "Start": f"0:00:{i:02d}.00", "End": f"0:00:{i:02d}.90",
                "Style": self.cased(name) if is_styled else "Default",
                "Name": "" if is_styled else self.cased(name),
            }  # fmt: skip
            if not name:
                cells |= {"Style": "Narration", "Name": ""}
            head, *others = words.split(" ")
            text = "".join((head, *(rf"{{\k2}} {{\i1}}{word}{{\i0}}" for word in others)))
            told = ",".join(cells[column] for column in columns)
            lines += [f"Dialogue: {told},{text}"] * self.chance.choice([1, 1, 2])
        return "\n".join(lines) + "\n"

    def txt(self) -> str:
        """Names in bold or plain, lines that go on, and a narrator after an empty line."""
        lines = []
        for name, words in (turn for turns in self.cues() for turn in turns):
            written = self.chance.choice([words, words.replace(" ", "\n")])
            labels = [f"{name}: ", f"**{name}:** ", f"*{name}*: ", f"{name}:\n", f"{name}\n"]
            labels += [f"[{name}] ", f"<{name}> ", f"[{name}]\n", f"00:12 {name}: "]
            label = self.chance.choice(labels)
            lines.append(f"{label}{written}\n" if name else f"\n{words}\n\n")
        return "".join(lines)

    def csv(self) -> str:
        turns = [turn for turns in self.cues() for turn in turns]
        return "speaker,text\n" + "".join(f"{self.cased(n)},{words}\n" for n, words in turns)

    def jsonl(self) -> str:
        turns = [turn for turns in self.cues() for turn in turns]
        return "".join(f"{json.dumps({'speaker': n, 'text': words})}\n" for n, words in turns)


def session(folder: Path, name: str, content: str, *asked: str, **given: object) -> Session:
    path = folder / name
    path.write_text(content, "utf-8")
    has_rest = bool(given.get("has_rest"))
    return prepare(path, folder / "out", cast=Cast.read(asked, has_rest=has_rest))


def voices(made: Session) -> list[tuple[str, str]]:
    """Text and voice of each row that is spoken."""
    parts = [(job.row, made.casting.part_of(job.row)) for job in made.jobs if not job.row.skipped]
    return [(row.text, part.voice or part.ref or "") for row, part in parts]


@pytest.mark.parametrize("kind", ["srt", "vtt", "ass", "txt", "csv", "jsonl"])
def test_each_word_is_said_once_and_by_its_speaker(tmp_path: Path, kind: str) -> None:
    asked = ",".join(f"{name.lower()}={voice}" for name, voice in NAMES.items())
    for seed in range(20):
        made = Dialogue(seed)
        content = getattr(made, kind)()
        found = session(tmp_path, f"t.{kind}", content, asked, "Narration=none", has_rest=True)
        said = [(word, voice) for text, voice in voices(found) for word in re.findall(r"\S+", text)]
        silent = [job.row.text for job in found.jobs if job.row.skipped and kind == "ass"]
        left_out = set(re.findall(r"w\d+", " ".join(silent)))
        wanted = {word: who for word, who in made.spoken.items() if word not in left_out}
        assert {word.strip("."): voice for word, voice in said} == wanted, content
        assert max(Counter(word for word, _ in said).values()) == 1, content
        assert all(not made.spoken[word] for word in left_out)
        assert not found.problems


def test_speakers_without_a_voice_are_listed_all_at_once_and_no_other_rows(tmp_path: Path) -> None:
    table = "speaker,voice,text\nAnna,,One.\nBen,,Two.\nCleo,,Three.\n,,Four.\nDan,alba,Five.\n"
    table += "ben,,Six.\nanna,alba,Seven.\n"
    found = session(tmp_path, "t.csv", table, "Anna=emma,Bent=mia")
    problems = [(each.number, each.column, each.message) for each in found.problems]
    assert [each[:2] for each in problems] == [(2, "speaker"), (3, "speaker"), (6, "speaker")]
    assert "'Ben' has no voice; did you mean 'Bent'? add 'Ben=VOICE' to --cast" in problems[0][2]
    assert "'Cleo' has no voice" in problems[1][2]
    good = [
        (text, voice) for text, voice in voices(found) if text not in ("Two.", "Three.", "Six.")
    ]
    assert good == [("One.", "emma"), ("Four.", ""), ("Five.", "alba"), ("Seven.", "alba")]
    rows = [job.row for job in found.jobs]
    assert found.rules.cast.notes(rows) == [
        "nobody in the table is called Bent (did you mean 'Ben'?)"
    ]


def test_others_have_the_voice_of_the_command_where_it_gives_one(tmp_path: Path) -> None:
    found = session(tmp_path, "t.csv", "speaker,text\nA,One.\nB,Two.\n", "A=emma", has_rest=True)
    assert not found.problems
    assert voices(found) == [("One.", "emma"), ("Two.", "")]
    notes = found.rules.cast.notes(job.row for job in found.jobs)
    assert notes == ["not in the cast, so in the command's voice: B (1)"]


def test_a_speaker_may_be_left_out_and_that_is_told(tmp_path: Path) -> None:
    table = "speaker,text\nA,One.\nSigns,EXIT\nSigns,ENTER\n"
    found = session(tmp_path, "t.csv", table, "A=emma,signs=None")
    assert voices(found) == [("One.", "emma")]
    assert [job.row.skipped for job in found.jobs[1:]] == ["the cast leaves out 'Signs'"] * 2
    notes = found.rules.cast.notes(job.row for job in found.jobs)
    assert notes == ["rows of speakers whom the cast leaves out: Signs (2)"]


def test_the_config_gives_voices_and_asks_for_none(tmp_path: Path) -> None:
    cast = Cast.read((), {"anna": "emma", "Ben": "mia"}, has_rest=False)
    path = tmp_path / "t.csv"
    path.write_text("speaker,text\nANNA,One.\nCleo,Two.\n", "utf-8")
    found = prepare(path, tmp_path / "out", cast=cast)
    assert not found.problems
    assert voices(found) == [("One.", "emma"), ("Two.", "")]
    assert cast.notes(job.row for job in found.jobs) == []
    quiet = prepare(path, tmp_path / "out", cast=Cast.read((), {"cleo": "None"}, has_rest=True))
    assert voices(quiet) == [("One.", "")]
    assert quiet.rules.cast.notes(job.row for job in quiet.jobs) == [
        "rows of speakers whom the cast leaves out: Cleo (1)"
    ]
    both = Cast.read(("Anna=mia",), {"anna": "emma", "Cleo": "alba"}, has_rest=False)
    assert voices(prepare(path, tmp_path / "out", cast=both)) == [("One.", "mia"), ("Two.", "alba")]


def test_a_file_gives_voices_recordings_and_styles(tmp_path: Path) -> None:
    (tmp_path / "cast").mkdir()
    (tmp_path / "cast" / "me.raw").write_bytes(bytes(range(200)))
    lines = ["Speaker;voice;ref;ref_text;style", "Anna;emma;;;warm", ";;;;", "Ben;;me.raw;I am;"]
    path = tmp_path / "cast" / "cast.csv"
    path.write_text("\n".join(lines), "utf-8")
    table = "speaker,style,text\nAnna,,One.\nAnna,cold,Two.\nBen,,Three.\n"
    found = session(tmp_path, "t.csv", table, str(path), "Cleo=mia")
    assert not found.problems
    parts = [found.casting.part_of(job.row) for job in found.jobs]
    assert [part.style for part in parts] == ["warm", "cold", ""]
    ref = str(tmp_path / "cast" / "me.raw")
    assert (parts[2].voice, parts[2].ref, parts[2].ref_text) == (None, ref, "I am")


@pytest.mark.parametrize(
    ("asked", "message"),
    [
        (("Anna=emma,Ben",), "--cast is 'Anna=emma,Ben'"),
        (("=emma",), "--cast is '=emma'"),
        (("Anna=emma;Ben=mia",), "--cast is 'Anna=emma;Ben=mia'; write Anna=emma,Ben=george"),
        (("Anna=emma", "ANNA=mia"), "--cast has 'ANNA' twice"),
        (("gone.csv",), "cannot read the cast gone.csv"),
        (("name,voice\nAnna,emma",), "has the columns name, voice"),
        (("speaker,voise\nAnna,emma",), "has the columns speaker, voise; did you mean 'voice'?"),
        (("speaker,voice,sytle\nAnna,emma,x",), "did you mean 'style'? columns: speaker, voice"),
        (("speaker,voice\nAnna,emma\nBen,",), "line 3 cannot be used"),
        (("speaker,voice\nAnna,emma,mia",), "line 2 cannot be used"),
    ],
)
def test_a_cast_that_cannot_be_is_refused(
    tmp_path: Path, asked: tuple[str, ...], message: str
) -> None:
    if "\n" in asked[0]:
        path = tmp_path / "cast.csv"
        path.write_text(asked[0], "utf-8")
        asked = (str(path),)
    with pytest.raises(UsageError, match=re.escape(message)):
        Cast.read(asked, has_rest=False)


def test_a_column_of_a_cast_that_says_nothing_is_named(tmp_path: Path) -> None:
    path = tmp_path / "cast.csv"
    path.write_text("Speaker,voice,age,Ref-Text\nAnna,emma,9,\n", "utf-8")
    cast = Cast.read((str(path),), has_rest=False)
    assert cast.roles["anna"].voice == "emma"
    assert cast.notes([]) == [f"the cast {path} has columns that are not used: age"]


def test_another_voice_of_a_speaker_speaks_the_rows_of_that_one_again(tmp_path: Path) -> None:
    script = "Anna: One.\nBen: Two.\nAnna: Three.\n"
    first = speak(session(tmp_path, "t.txt", script, "Anna=emma,Ben=mia"))
    assert statuses(first) == ["ok"] * 3
    assert [row["voice"] for row in first["rows"]] == ["emma", "mia", "emma"]
    again = speak(session(tmp_path, "t.txt", script, "Anna=emma,Ben=george"))
    assert statuses(again) == ["kept", "ok", "kept"]
    assert {row["voice"] for row in again["rows"]} <= set(VOICES)


# Scripts


@pytest.mark.parametrize(
    ("script", "rows"),
    [
        ("ANNA: Hi.\nBEN: Ho.", [("ANNA", "Hi."), ("BEN", "Ho.")]),
        ("Anna: Hi.\nBen: Ho.\nAnna: Oh.", [("Anna", "Hi."), ("Ben", "Ho."), ("Anna", "Oh.")]),
        ("ANNA: Hi.\nYou.\n\nIt rains.\nBEN: Ho.", [("ANNA", "Hi."), ("ANNA", "You."),
          ("", "It rains."), ("BEN", "Ho.")]),
        ("ANNA:\n\nHi.\nBEN (softly): (laughs) Ho.", [("ANNA", "Hi."), ("BEN", "Ho.")]),
        ("ANNA: [pause 1s] Hi.\nBEN: At 10:30.", [("ANNA", "[pause 1s] Hi."),
          ("BEN", "At 10:30.")]),
        ("- **Anna:** Hi.\n- __Ben__: Ho.\n- *Anna:* Oh.", [("Anna", "Hi."), ("Ben", "Ho."),
          ("Anna", "Oh.")]),
        ("One thing: this.\nAnother one.", [("", "One thing: this."), ("", "Another one.")]),
        ("Note: this.\nNote: that.", [("", "Note: this."), ("", "Note: that.")]),
        ("WARNING: this.\nWARNING: that.", [("", "WARNING: this."), ("", "WARNING: that.")]),
        ("Day 1: rain.\nDay 2: sun.", [("", "Day 1: rain."), ("", "Day 2: sun.")]),
        ("Tea: hot.\nIce: cold.\nSoup: hot.", [("", "Tea: hot."), ("", "Ice: cold."),
          ("", "Soup: hot.")]),
    ],
)  # fmt: skip
def test_lines_of_a_text_with_names_are_a_script(
    tmp_path: Path, script: str, rows: list[tuple[str, str]]
) -> None:
    made = session(tmp_path, "t.txt", script)
    assert [(job.row.speaker, job.row.text) for job in made.jobs if not job.row.skipped] == rows


@pytest.mark.parametrize(
    ("script", "rows"),
    [
        ("[Anna] Hi. [Ben] Ho.\n<anna> [laughs] Oh.", [("Anna", "Hi."), ("Ben", "Ho."),
          ("anna", "Oh.")]),
        ("ANNA (V.O.)\nHi.\n\n   BEN\n  (low)\n Ho.", [("ANNA", "Hi."), ("BEN", "Ho.")]),
        ("[0:05] Anna: Hi.\n0:05 - Ben: Ho.\n1:00:05,5 Anna (low): Oh.", [("Anna", "Hi."),
          ("Ben", "Ho."), ("Anna", "Oh.")]),
        ("Anna: Ben is here.\n10:30 Anna left. <b>Anna</b>", [("Anna", "Ben is here."),
          ("Anna", "10:30 Anna left. <b>Anna</b>")]),
    ],
)  # fmt: skip
def test_names_of_a_cast_are_found_without_a_colon_too(
    tmp_path: Path, script: str, rows: list[tuple[str, str]]
) -> None:
    made = session(tmp_path, "t.txt", script, "Anna=emma,Ben=mia")
    assert [(job.row.speaker, job.row.text) for job in made.jobs if not job.row.skipped] == rows


def test_names_in_a_script_are_spoken_where_that_is_asked(tmp_path: Path) -> None:
    from voxcli.batch.tables import read_table

    path = tmp_path / "t.txt"
    path.write_text("ANNA: Hi.\nBEN: Ho.\n", "utf-8")
    assert [each.values["text"] for each in read_table(path, labels="none").records] == [
        "ANNA: Hi.", "BEN: Ho.",
    ]  # fmt: skip
    found = read_table(path, labels="ben")
    assert [each.values["text"] for each in found.records] == ["ANNA: Hi.", "Ho."]
    assert read_table(path).notes == (
        "names of speakers are not spoken: ANNA (line 1), BEN (line 2)",
    )


# ASS

HEAD = "[Events]\nFormat: Layer, Start, End, Style, Name, MarginL, MarginR, MarginV, Effect, Text\n"


def event(text: str, start: float = 1, end: float = 2, *, style: str = "Default", actor: str = "",
          kind: str = "Dialogue") -> str:  # fmt: skip
    times = f"0:00:{start:05.2f},0:00:{end:05.2f}"
    return f"{kind}: 0,{times},{style},{actor},0,0,0,,{text}\n"


def rows_of(content: str, name: str = "t.ass") -> list[tuple[str, str, str, str]]:
    records = read_cues(content, Path(name)).records
    return [
        tuple(each.values.get(key, "") for key in ("speaker", "text", "start", "end"))  # type: ignore[misc]
        for each in records
        if not each.skipped
    ]


def test_ass_shows_words_once_whatever_it_draws() -> None:
    pictures = "".join(event(r"{\pos(1,2)}Open", 5 + i * 0.04, 5.04 + i * 0.04) for i in range(25))
    content = (
        HEAD
        + event(r"{\an8\i1}Hello,\Nyou\hthere{\i0}, {aside}and {\k20}wel{\k30}come.")
        + event(r"{\blur4}Hello,\Nyou\hthere, and welcome.", style="Shadow")
        + event("Unseen words.", kind="Comment")
        + event(r"{\p1}m 0 0 l 9 9{\p0}After it.", 3, 4, actor="Ann")
        + pictures
        + event("No.", 7, 8, actor="Ann") + event("No.", 8, 9, actor="Ann")
        + event("No.", 7, 8, actor="Bob")
    )  # fmt: skip
    found = read_cues(content, Path("t.ass"))
    assert rows_of(content) == [
        ("Default", "Hello, you there, and welcome.", "1.000", "2.000"),
        ("Ann", "After it.", "3.000", "4.000"),
        ("Default", "Open", "5.000", "6.000"),
        ("Ann", "No.", "7.000", "8.000"), ("Ann", "No.", "8.000", "9.000"),
        ("Bob", "No.", "7.000", "8.000"),
    ]  # fmt: skip
    assert found.records[1].skipped == "shown again: its words are in row 1"
    named = " ".join(found.notes)
    assert all(words in named for words in ("aside", "Unseen words.", "m 0 0 l 9 9"))
    assert found.lost == ()


def test_what_is_no_event_of_an_ass_file_is_named_or_a_problem() -> None:
    content = HEAD + event("One.") + "Two.\n\nDialogue: 0,0:00:1x.00,0:00:09.00,A,B,0,0,0,,Three.\n"
    found = read_cues(content, Path("t.ssa"))
    assert found.lost == ("lines outside of any cue are not spoken: Two. (line 4)",)
    assert [each.values["text"] for each in found.records] == ["One.", "Three."]
    assert "its times cannot be read" in found.records[1].problem
    with pytest.raises(UsageError, match="it has no line 'Dialogue:'"):
        read_cues("[Events]\nFormat: Start, End, Text\n", Path("t.ass"))


def test_a_label_in_an_ass_file_is_the_speaker_of_its_words() -> None:
    content = HEAD + event("ANN: One. BEN: Two.", actor="Cleo") + event("Three.", 3, 4, style="Alt")
    assert [row[:2] for row in rows_of(content)] == [
        ("ANN", "One."), ("BEN", "Two."), ("Alt", "Three."),
    ]  # fmt: skip
