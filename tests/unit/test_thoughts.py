"""What a language model thinks is left out, whole or in pieces, and named; nothing else is."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from voxcli.errors import TextError
from voxcli.text.arriving import ArrivingText
from voxcli.text.prepared import PreparedText
from voxcli.text.preparer import prepare
from voxcli.text.thoughts import Thoughts, outside_thoughts

PIECES = [
    *("<think>", "</think>", "[THINK]", "[/THINK]", "<thinking >", "◁think▷", "◁/think▷"),
    *("<|begin_of_thought|>", "<|end_of_thought|>", "<|", "\n", " ", "Hi. ", "<", "x"),
]


def prepared(text: str, *, rewrite: bool = True) -> PreparedText:
    return prepare(text, languages=("en",), max_chars=200, model="mini", rewrite=rewrite)


def in_pieces(text: str, sizes: list[int]) -> str:
    thoughts = Thoughts()
    said, position, turn = "", 0, 0
    while position < len(text):
        size = sizes[turn % len(sizes)]
        said += thoughts.feed(text[position : position + size])
        position, turn = position + size, turn + 1
    return said + thoughts.end()


@pytest.mark.parametrize(
    ("text", "said", "names"),
    [
        ("<think>\nThey said hi.\n\nOk.\n</think>\n\nHello!", "Hello!", ("<think>",)),
        ("<think></think>Hello!", "Hello!", ("<think>",)),
        ("So.\n<thinking>Hm [pause 2s].</thinking> Hello!", "So. Hello!", ("<thinking>",)),
        ("[THINK]Hm.[/THINK]Hello!", "Hello!", ("[THINK]",)),
        ("They said hi.\n</think>\n\nHello!", "Hello!", ("</think>",)),
        ("They said hi.</think>\nHello!", "Hello!", ("</think>",)),
        ("Hello!\n<think>It was cut he", "Hello!", ("<think>",)),
        ("◁think▷Hm.◁/think▷\nHello!", "Hello!", ("◁think▷",)),
        ("<reason>Hm.</reason>Hello!", "Hello!", ("<reason>",)),
        (
            "<|begin_of_thought|>\nHm.\n<|end_of_thought|>\nHello!",
            "Hello!",
            ("<|begin_of_thought|>",),
        ),
        ("他说你好，我应该问候他。\n</think>\nHello!", "Hello!", ("</think>",)),
    ],
)
@pytest.mark.parametrize("rewrite", [True, False])
def test_a_thought_is_left_out_and_named(
    text: str, said: str, names: tuple[str, ...], rewrite: bool
) -> None:
    made = prepared(text, rewrite=rewrite)
    assert (made.text, made.directions, made.silence_s) == (said, names, 0)
    assert all(each.silence_s == 0 for each in made.segments)


@pytest.mark.parametrize(
    "text",
    [
        "The `<think>` tag begins a thought.",
        "Use <think> and </think> around it.",
        "I think so. <b>Think!</b> [thinks]",
        "[Thought] It is late.\n[Reason] So it goes.",
        "A <thinker> has </thinks> thoughts.",
    ],
)
def test_a_text_about_such_tags_loses_no_word(text: str) -> None:
    assert outside_thoughts(text) == text == in_pieces(text, [1])


def test_a_text_that_is_a_thought_alone_has_nothing_to_say() -> None:
    with pytest.raises(TextError):
        prepared("<think>Nothing to say.</think>")


@settings(deadline=None)
@given(
    pieces=st.lists(st.sampled_from(PIECES), max_size=12),
    sizes=st.lists(st.sampled_from([1, 2, 3, 7, 30]), min_size=1, max_size=4),
)
def test_thoughts_do_not_depend_on_how_a_text_was_cut(pieces: list[str], sizes: list[int]) -> None:
    text = "".join(pieces)
    assert in_pieces(text, sizes) == in_pieces(text, [max(1, len(text))])


@pytest.mark.parametrize("size", [1, 4, 1000])
def test_sentences_that_arrive_have_no_thoughts_but_their_names(size: int) -> None:
    text = "<think>\nHm. (What\n\nnow?\n</think>\n\nHello! <b>You.</b>\n</think>\nBye.\n<think>Oh"
    arriving = ArrivingText(lambda said: "en")
    for at in range(0, len(text), size):
        arriving.feed(text[at : at + size])
    arriving.end()
    arriving.feed("And again. ")
    found = list(iter(arriving.next, None))
    assert [each.text for each in found] == ["Hello!", "<b>You.</b>", "Bye.", "And again."]
    assert [tag for each in found for tag in each.thoughts] == ["<think>", "</think>", "<think>"]


def test_a_thought_without_end_takes_no_memory_and_a_flush_does_not_end_it() -> None:
    thoughts = Thoughts()
    assert thoughts.feed("<think>") == ""
    assert all(thoughts.feed("and so on " * 1000) == "" for _ in range(10))
    assert thoughts.flush() == ""
    assert len(thoughts._held) < 40
    assert thoughts.feed("it is.</think>Yes.") == "Yes."


@pytest.mark.parametrize("begun", ["<", "<thi", " [TH", "</think"])
def test_what_only_looks_like_a_tag_is_held_until_that_is_known(begun: str) -> None:
    arriving = ArrivingText(lambda said: "en")
    arriving.feed(begun)
    assert arriving.next() is None
    assert arriving.clear() == begun
    arriving.feed(begun)
    arriving.flush()
    arriving.feed("x. ")
    arriving.end()
    assert "".join(each.text for each in iter(arriving.next, None)).endswith("x.")
