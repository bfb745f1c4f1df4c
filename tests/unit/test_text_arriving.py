"""Text that arrives in pieces: the same sentences however it was cut, none lost, none too long."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from voxcli.text.arriving import ArrivingText, Sentence
from voxcli.text.prepared import PAUSE_LINE_S, PAUSE_PARAGRAPH_S, PAUSE_SENTENCE_S
from voxcli.text.preparer import prepare
from voxcli.text.whole import MAX_OPEN, says_nothing

ANSWER = """# Ferries

Here is **what** to do. It takes *some* time:

```python
print("done")
```

1. Go to St. Louis by 5 p.m. and wait.
2. Ask Mr. Smith (he knows. Really.) for i.e. $5.50

| from | to |
|---|---|
| here | there |

"Why?" he asked. "Because..." she said... and left. So! \t
The end. Is"""
TEXTS = [
    ("en", ANSWER),
    ("de", "Am 2. Mai kam Dr. Weiß, z. B. mit Frau S. Er blieb bis ca. 5 Uhr.\nDann ging er. Ja!"),
    ("fr", "M. Dupont est arrivé. Il a dit : « Bonjour ! » Puis il est parti. C'est la p. 5. Oui."),
    ("zh", "你好。我叫王。「是的。」他说。\n\n今天很好！我们去吧。"),
    ("ja", "「はい。」と言った。今日は。いい天気！"),
    ("en", "🎉! We won. 🎉 Yes!\n🙂\n👍 ok. 🙂\n🙂 "),
]
LONG = f"{'word ' * 450}end. Then {'x' * 2300} comes. " + "A sentence. " * 100
SIZES = st.lists(st.sampled_from([1, 2, 3, 5, 8, 40]), min_size=1, max_size=6)


def arrived(text: str, language: str, sizes: list[int]) -> list[Sentence]:
    """The sentences of a text that comes in pieces of these sizes, over and over."""
    arriving = ArrivingText(lambda said: language)
    found: list[Sentence] = []

    def take() -> None:
        while sentence := arriving.next():
            found.append(sentence)

    position, turn = 0, 0
    while position < len(text):
        size = sizes[turn % len(sizes)]
        arriving.feed(text[position : position + size])
        position, turn = position + size, turn + 1
        take()
    arriving.flush()
    take()
    assert not arriving.clear()
    return found


@settings(deadline=None, max_examples=30)
@given(case=st.sampled_from(TEXTS), sizes=SIZES)
def test_sentences_do_not_depend_on_how_a_text_was_cut(
    case: tuple[str, str], sizes: list[int]
) -> None:
    language, text = case
    assert arrived(text, language, sizes) == arrived(text, language, [len(text)])


@pytest.mark.parametrize("sizes", [[40, 170], [1000], [1001], [3000, 9]])
def test_nor_do_they_in_a_text_that_has_to_be_cut(sizes: list[int]) -> None:
    assert arrived(LONG, "en", sizes) == arrived(LONG, "en", [len(LONG)])


@settings(deadline=None)
@given(pieces=st.lists(st.sampled_from(["A b. ", "\n", "x", "Dr. ", "(", ") ", "ok? ", "3."])))
def test_no_word_is_lost_or_said_twice(pieces: list[str]) -> None:
    text = "".join(pieces)
    said = "".join(each.text for each in arrived(text, "en", [7]))
    assert [c for c in said if c.isalnum()] == [c for c in text if c.isalnum()]


def test_lines_blank_lines_and_sentences_are_apart_as_in_a_whole_text() -> None:
    found = arrived("One is. Two is.\nThree is.\n\n\nFour is. \n---\nFive is.", "en", [3])
    pauses = [each.pause_s for each in found[1:]]
    line, paragraph = PAUSE_LINE_S, PAUSE_PARAGRAPH_S
    assert pauses == [PAUSE_SENTENCE_S, line, paragraph, paragraph]


@pytest.mark.parametrize(
    ("text", "sentences"),
    [
        ("1. Go there. 2. Come back. ", ["1. Go there.", "2. Come back."]),
        ("- **3.** It is so. ", ["- **3.** It is so."]),
        ("Have fun! 🙂 ", ["Have fun!"]),
        ("```sh\nls\n```\n", ["ls"]),
        ("[pause 2s]\n", ["[pause 2s]"]),
        ("\x1b[0m\n&nbsp;\n\x1b[1mSo\x1b[0m it is.\n", ["\x1b[1mSo\x1b[0m it is."]),
        ("<!-- a note -->\r\nSo it is.\r\n", ["So it is."]),
    ],
)
def test_what_is_no_sentence_of_its_own(text: str, sentences: list[str]) -> None:
    assert [each.text for each in arrived(text, "en", [1])] == sentences


@pytest.mark.parametrize(
    ("text", "sentences"),
    [
        ("🙂", ["🙂"]),
        ("🙂! \n", ["🙂!"]),
        ("So.\n👍 🎉\nGo.\n", ["So.", "👍 🎉", "Go."]),
        ("🎉! We won. 🎉\n", ["🎉! We won."]),
        ("We won! 🎉\n🙂\n", ["We won!", "🙂"]),
    ],
)
@pytest.mark.parametrize("sizes", [[1], [3], [100]])
def test_emoji_are_spoken_where_a_line_has_nothing_else_as_in_a_whole_text(
    text: str, sentences: list[str], sizes: list[int]
) -> None:
    assert [each.text for each in arrived(text, "en", sizes)] == sentences
    for line in text.splitlines():
        said = prepare(line, languages=("en",), max_chars=200, model="mini").text
        assert ("face" in said or "party" in said) == (line.strip("!👍🎉🙂 ") == "")


def test_emoji_that_no_language_names_say_nothing() -> None:
    assert arrived("🙂\n好。\n", "zh", [1])[0].text == "好。"


def test_marks_of_layout_are_words_in_raw_text() -> None:
    raw = ArrivingText(lambda said: "en", is_raw=True)
    raw.feed("```sh\n")
    assert raw.next() == Sentence("```sh", PAUSE_SENTENCE_S)
    assert says_nothing("```sh")


def test_a_flush_ends_a_sentence_and_not_its_line() -> None:
    arriving = ArrivingText(lambda said: "en")
    arriving.feed("It goes on")
    assert arriving.next() is None
    arriving.flush()
    assert arriving.next() == Sentence("It goes on", PAUSE_SENTENCE_S)
    arriving.feed("and on.\n")
    assert arriving.next() == Sentence("and on.", PAUSE_SENTENCE_S)


@pytest.mark.parametrize("piece", ["x", "word ", "你", "(", "Dr. ", "<a "])
def test_text_without_end_is_never_held_for_long(piece: str) -> None:
    arriving = ArrivingText(lambda said: "en")
    num_held = 0
    for _ in range(700):
        arriving.feed(piece * 4)
        num_held += 4 * len(piece)
        while sentence := arriving.next():
            assert len(sentence.text) <= MAX_OPEN
            num_held = 0
    assert len(arriving.clear()) <= 2 * MAX_OPEN + 4 * len(piece)
