"""What the command line gets: a prepared text or a refusal that says what to do."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from voxcli.errors import TextError
from voxcli.text import PreparedText, decode_text, is_plain, prepare


def can_say(char: str) -> bool:
    return " " <= char <= "~" or char in "—é"


def mini(text: str, language: str | None = None) -> PreparedText:
    return prepare(
        text,
        languages=("en",),
        language=language,
        max_chars=150,
        can_say=can_say,
        model="mini",
        alternatives=("openbmb/VoxCPM2",),
    )


@pytest.mark.parametrize("text", ["", " ", " \n\t\n", "\ufeff", "\u200b\n"])
def test_an_empty_text_is_refused(text: str) -> None:
    with pytest.raises(TextError, match="the text is empty") as caught:
        mini(text)
    assert caught.value.exit_code == 2


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("A", "A"),
        ("7", "seven"),
        ("No.", "No."),
        ("1次", "one"),
        ("7:46 pm", "seven forty-six P M"),
        ("Σ", "sigma"),
        ("σ²", "sigma squared"),
        ("α β", "alpha beta"),
        ("-²", "minus two"),
    ],
)
def test_the_shortest_texts_give_something_to_say(text: str, said: str) -> None:
    assert mini(text).text == said


def test_an_unspeakable_character_is_reported() -> None:
    done = mini("1次 or two 次")
    assert [(u.char, u.count) for u in done.unspeakable] == [("次", 2)]
    assert str(done.unspeakable[0]) == "'次' (U+6B21 CJK UNIFIED IDEOGRAPH-6B21, 2 times)"
    assert any("次" in change.before for change in done.changes)


def test_foreign_letters_are_folded_and_recorded() -> None:
    done = mini("A naïve café in Straße, Ærø and Москва")
    assert done.text == "A naive café in Strasse, Aero and Moskva"
    assert not done.unspeakable
    assert mini("He said πατήρ, ο λόγος and π.", "en").text == "He said patir, o logos and pi."
    assert ("naïve", "naive") in [(c.before, c.after) for c in done.changes]


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("嗯", "Chinese"),
        ("Guten Morgen, wie geht es dir heute?", "German"),
        ("Привет, как дела?", "Russian"),
        ("αβγ", "Greek"),
    ],
)
def test_a_language_the_model_does_not_speak_is_refused(text: str, name: str) -> None:
    with pytest.raises(TextError, match=f"is in {name}.*'mini' speaks only English") as caught:
        mini(text)
    assert "--model openbmb/VoxCPM2" in str(caught.value)
    assert "--language en" in str(caught.value)


def test_language_can_be_forced_but_not_to_one_the_model_lacks() -> None:
    assert mini("Guten Morgen, wie geht es dir heute?", "en").language == "en"
    with pytest.raises(TextError, match="--language de was given"):
        mini("Hello", "de")


def test_a_text_of_signs_alone_is_refused() -> None:
    with pytest.raises(TextError, match="nothing in the text can be spoken"):
        mini("?!...")


@pytest.mark.parametrize(
    "text", ["(note) Prices rose again.", "（note）Prices rose.", "((a)) b", "[x] y"]
)
def test_no_segment_starts_like_a_style_prompt(text: str) -> None:
    done = mini(text)
    assert not any(part.text.startswith(("(", "（", "[")) for part in done.segments)
    assert any(change.kind in ("bracket", "letter", "markup") for change in done.changes)


def test_without_rewriting_words_stay_as_written() -> None:
    done = prepare("(5 kg) of it", languages=(), max_chars=50, model="big", rewrite=False)
    assert done.text == "5 kg, of it"


@settings(derandomize=True, max_examples=150, deadline=None, database=None)
@given(st.text(max_size=120), st.integers(20, 150))
def test_segments_join_to_the_prepared_text(text: str, max_chars: int) -> None:
    try:
        done = prepare(
            text, languages=("en",), language="en", max_chars=max_chars, can_say=can_say, model="m"
        )
    except TextError:
        return
    joined = "".join("".join(part.text.split()) for part in done.segments)
    assert joined == "".join(done.text.split())
    assert all(can_say(char) for char in done.text)
    assert any(char.isalnum() for char in done.text)


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "utf-32"])
def test_utf8_and_any_marked_unicode_is_read(encoding: str) -> None:
    assert decode_text("Zoë\n".encode(encoding), source="a.txt") == "Zoë\n"


def test_another_encoding_must_be_named() -> None:
    data = "Zo\xeb".encode("cp1252")
    with pytest.raises(TextError, match=r"a\.txt is not utf-8: 0xeb at byte 2.*--encoding cp1252"):
        decode_text(data, source="a.txt")
    assert decode_text(data, encoding="cp1252", source="a.txt") == "Zoë"
    with pytest.raises(TextError, match="--encoding 'klingon' is unknown"):
        decode_text(data, encoding="klingon", source="a.txt")


def test_a_mark_before_other_bytes_is_no_text_and_counts_in_the_offset() -> None:
    data = b"\xef\xbb\xbf" + "Zo\xeb".encode("cp1252")
    with pytest.raises(TextError, match=r"a\.txt is not utf-8: 0xeb at byte 5"):
        decode_text(data, source="a.txt")
    assert decode_text(data, encoding="cp1252", source="a.txt") == "Zoë"


def test_binary_is_refused_with_the_offset() -> None:
    with pytest.raises(TextError, match="a NUL at byte 1"):
        decode_text(b"a\0b", source="stdin")


PIECES = [
    "abc", "XD", "ok", ":", "(", ")", "pause", "2s", "&nbsp;", "&", "*", "_", "#", "-", "=", "|",
    "\n", "é", "字", "“", "—", "😀", "\u200b", "http", "://", ".", "www", "@", "'", '"', "note",
    "1", "[", "<br>", "~~~", "+", "^", "(pause 2s)", "$", "%", " ",
]  # fmt: skip


@settings(derandomize=True, max_examples=400, deadline=None, database=None)
@given(st.lists(st.sampled_from(PIECES), min_size=1, max_size=7))
def test_a_text_that_is_plain_at_a_glance_leaves_something_to_say(pieces: list[str]) -> None:
    text = "".join(pieces)
    if is_plain(text):
        assert prepare(
            text, languages=(), language="en", max_chars=99, can_say=str.isascii, model="m"
        ).segments


@pytest.mark.parametrize(
    "text", ["He — who was late — ran…", "“Hello”, she said (twice).", "a café at 5: 3 + 4 @ 2"]
)
def test_ordinary_signs_leave_a_text_plain(text: str) -> None:
    assert is_plain(text)


@pytest.mark.parametrize(
    "text", ["(pause 2s)", "[pause]", "&nbsp;", "https://a.example", "www.a.example", "<br>", "5"]
)
def test_what_a_rewrite_may_take_away_is_not_plain(text: str) -> None:
    assert not is_plain(text)
