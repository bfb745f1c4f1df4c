"""What of a text that is still being written is spoken: certain ends alone, and no word lost."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from voxcli.text.segmenter import sentence_ends
from voxcli.text.whole import MAX_OPEN, whole_length

TEXTS = [
    ("en", "Mr. Smith met J. R. Ewing at 5 p.m. in St. Louis. He paid $5.50, i.e. little! Did he?"),
    ("en", '"Why?" he asked. "Because..." she said... and left. It is 3.5 in. wide. The end. So.'),
    ("en", "I live in the U.S. He does too. See fig. 3. Plan B. The next one. Wait?! Yes. no."),
    ("en", "Visit www.example.com. It is at 12:30. Version 2.0.1 is out. Dr. No (1962) was fun."),
    ("de", "Am 2. Mai kam Dr. Weiß, z. B. mit Frau S. Er blieb bis ca. 5 Uhr. Dann ging er. Ja!"),
    ("fr", "M. Dupont est arrivé. Il a dit : « Bonjour ! » Puis il est parti. C'est la p. 5. Oui."),
    ("zh", "你好。我叫王。「是的。」他说。今天很好！我们去吧。"),
    ("ja", "「はい。」と言った。今日は。いい天気！"),
]


def pieces(text: str, language: str, sizes: list[int]) -> list[str]:
    """What is handed on while a text is written in pieces of these sizes, over and over."""
    found, pending, position, turn = [], "", 0, 0
    while position < len(text):
        size = sizes[turn % len(sizes)]
        pending += text[position : position + size]
        position, turn = position + size, turn + 1
        if length := whole_length(pending, language):
            found.append(pending[:length])
            pending = pending[length:]
    return [*found, pending]


@given(case=st.sampled_from(TEXTS), sizes=st.lists(st.integers(1, 12), min_size=1, max_size=5))
def test_what_is_handed_on_ends_where_a_sentence_of_the_whole_text_ends(
    case: tuple[str, str], sizes: list[int]
) -> None:
    language, text = case
    found = pieces(text, language, sizes)
    assert "".join(found) == text
    ends, position = sentence_ends(text, language), 0
    for piece in found[:-1]:
        position += len(piece)
        assert position in ends, text[:position]


@pytest.mark.parametrize(
    ("text", "length"),
    [
        ("Hello there. ", 12),
        ("Hello there.", 0),
        ("Hello there. How", 12),
        ("It costs 3.", 0),
        ("Is it? ", 6),
        ("One is done. Two is done. Thr", 25),
        ("I met Mr. ", 0),
        ("I met Mr. Smith", 0),
        ("you", 0),
        ("", 0),
        ("**Bold here. And", 12),
        ("See (this one. And", 0),
        ("See (this one. And) that. So", 25),
        ("Use `a. b` now. So", 15),
        ("Use `a. b", 0),
        ('A <break time="1. 5', 0),
    ],
)
def test_a_sentence_is_whole_when_nothing_can_change_that(text: str, length: int) -> None:
    assert whole_length(text, "en") == length


def test_words_without_a_sentence_are_handed_on_at_last() -> None:
    found = pieces("word " * 2 * MAX_OPEN, "en", [7])
    assert "".join(found) == "word " * 2 * MAX_OPEN
    assert max(map(len, found)) <= MAX_OPEN
    assert all(piece.endswith(" ") for piece in found[:-1])
