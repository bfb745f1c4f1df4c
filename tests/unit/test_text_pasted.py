"""Text pasted from pages and made for engines: cut words, marks of notes, directions, tags."""

from __future__ import annotations

import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from voxcli.text import normalise, prepare

FIXED = settings(derandomize=True, max_examples=150, deadline=None, database=None)
LANGUAGES = st.sampled_from(["en", "de", "fr", "es", "ru"])


def said(text: str, language: str = "en") -> str:
    return normalise(text, language).text


@FIXED
@given(
    st.sampled_from(["government", "professor", "negative", "officer", "beautiful", "develop"]),
    st.integers(2, 6),
    st.sampled_from(["\n", " \n", "\n\n", "\n  "]),
    LANGUAGES,
)
def test_a_word_cut_at_the_end_of_a_line_is_whole(
    word: str, at: int, end: str, language: str
) -> None:
    assert said(f"so {word[:at]}-{end}{word[at:]} goes", language) == f"so {word} goes"


@pytest.mark.parametrize(
    ("written", "spoken"),
    [
        ("his well-\nknown face", "his well-known face"),
        ("an ex-\nwife", "an ex-wife"),
        ("a state-of-the-\nart lab", "a state-of-the-art lab"),
        ("the Anglo-\nSaxon one", "the Anglo-Saxon one"),
        ("a shop-\nkeeper", "a shopkeeper"),
        ("the ﬁ-\nnal oﬃ-\ncer", "the final officer"),
        ("the p-\nvalue", "the p-value"),
        ("a tree-\nlined street", "a tree-lined street"),
        ("pages 12-\n15", "pages twelve to fifteen"),
        ("a snow-white and a snow-\nwhite cat", "a snow-white and a snow-white cat"),
    ],
)
def test_a_true_hyphen_at_the_end_of_a_line_stays(written: str, spoken: str) -> None:
    assert said(written) == spoken


def test_a_true_hyphen_is_kept_in_other_languages_where_their_words_show_it() -> None:
    assert said("il est peut-\nêtre là", "fr") == "il est peut-être là"
    assert said("la mai-\nson", "fr") == "la maison"
    assert said("он из-\nза стола", "ru") == "он из-за стола"
    assert said("der Haupt-\nbahnhof", "de") == "der Hauptbahnhof"


def test_a_hanging_hyphen_joins_nothing() -> None:
    assert said("die Vor-\nund Nachteile", "de") == "die Vor- und Nachteile"


NOTES = [
    "[12]", " [12]", "[1][2][3]", "[1,2]", " [1, 2] and [7]", "[7]-[9]", "[4–6]", "[a]", "[note 3]",
    "[citation needed]", "[clarification needed]", "[who?]",
]  # fmt: skip


@FIXED
@given(st.sampled_from(NOTES), st.sampled_from(["the cats slept", "It fell, then rose"]), LANGUAGES)
def test_marks_of_notes_are_not_said(mark: str, sentence: str, language: str) -> None:
    assert said(f"{sentence}{mark}. Then", language) == f"{sentence}. Then"
    assert said(f"{sentence}.{mark} Then", language) == f"{sentence}. Then"
    assert said(f"{sentence}{mark} too.", language) == f"{sentence} too."


@pytest.mark.parametrize(
    ("written", "spoken"),
    [
        ("as shown in [12].", "as shown in, twelve."),
        ("[12] monkeys", "twelve, monkeys"),
        ("the [docs](http://a.example/b) say", "the docs say"),
        ("end.[2]Next", "end. Next"),
    ],
)
def test_a_bracket_that_the_sentence_needs_stays(written: str, spoken: str) -> None:
    assert said(written) == spoken


DIRECTIONS = [
    "[pause]", "[pause 1s]", "[pause:2.5s]", "[pause: 500ms]", "[long pause]", "[[pause 2s]]",
    '<break time="2s"/>', "<break time='500ms' />", '<break strength="weak"/>', "[laughs]",
    "[sighs]", "[clears throat]", "<laugh/>", "{pause 1s}", "(pause 2s)",
]  # fmt: skip


@FIXED
@given(st.sampled_from(DIRECTIONS), st.sampled_from(["en", "de", "zh"]), st.booleans())
def test_a_direction_to_an_engine_is_not_said_and_is_named(
    mark: str, language: str, rewrite: bool
) -> None:
    done = prepare(
        f"Ready. {mark} Go.",
        languages=(),
        language=language,
        max_chars=99,
        model="m",
        rewrite=rewrite,
    )
    assert done.text == "Ready. Go."
    is_made = rewrite and "laugh" not in mark and "sigh" not in mark and "throat" not in mark
    assert (done.segments[0].silence_s > 0) is is_made
    assert done.directions == (() if is_made else (mark,))


def test_words_around_a_direction_stay_apart_and_those_inside_stay() -> None:
    assert said("One [pause] two") == "One two"
    assert said("One[pause]two") == "One two"
    assert said("One [laughs] two") == "One, two"
    assert said('It is <emphasis level="strong">big</emphasis>.') == "It is big."
    assert said("Press pause 1 time (pause it).") == "Press pause one time, pause it."
    assert said("H<sub>2</sub>O") == "H two O"


@FIXED
@given(st.permutations(["a", "b", "i", "x", "u", "s"]))
def test_a_comparison_is_no_tag(names: list[str]) -> None:
    a, b, c, d = names[:4]
    assert said(f"If {a}<{b} and {c}>{d} then stop.") == (
        f"If {a} is less than {b} and {c} is greater than {d} then stop."
    )


@pytest.mark.parametrize(
    ("written", "spoken"),
    [
        ("Use List<String> here.", "Use List String here."),
        ("a Map<String, Integer> of it", "a Map String, Integer of it"),
        ('<a href="b.html" class=x>link</a> <input disabled>', "link"),
        ("<v Roger Bingham>We are here", "We are here"),
    ],
)
def test_tags_go_and_words_between_angles_stay(written: str, spoken: str) -> None:
    assert said(written) == spoken


@FIXED
@given(
    st.sampled_from([".", "!", "?"]),
    st.sampled_from(["[They leave]", "(note)", "[12]", "<b>So,</b> ", "[pause 1s]"]),
    st.sampled_from(["And then", "So it", "Ten men"]),
)
def test_what_takes_a_mark_away_glues_no_neighbours(stop: str, mark: str, after: str) -> None:
    spoken = said(f"He laughed loudly{stop}{mark}{after} went.")
    assert spoken.startswith(f"He laughed loudly{stop} ")
    assert re.search(rf"(?:^|[ .,!?]){after} went\.$", spoken)


def test_a_bracket_at_the_start_of_a_line_leaves_the_line_before_alone() -> None:
    spoken = said("Hello there.\n[00:01:27] Speaker 2: Good evening.")
    assert spoken.startswith("Hello there.\n")


@pytest.mark.parametrize(
    ("written", "spoken"),
    [
        ("Apples\nBread\nOat milk", "Apples,\nBread,\nOat milk"),
        ("to buy\napples\nbread", "to buy,\napples,\nbread"),
        ("Anna Smith\nMill Lane,\nLeeds", "Anna Smith,\nMill Lane,\nLeeds"),
        ("Name: Bob\nCity: Rome\nFrom: Ann", "Name: Bob,\nCity: Rome,\nFrom: Ann"),
        (
            "The rain came down all night\nAnd nobody heard the bell\nThe boats went at five.",
            "The rain came down all night,\nAnd nobody heard the bell,\nThe boats went at five.",
        ),
        ("Chapter One\nIt was dark. Rain fell.", "Chapter One.\nIt was dark. Rain fell."),
        ("The Art of Tea\nWarm the pot.", "The Art of Tea.\nWarm the pot."),
        ("Dear Anna\nThank you\nfor the tea.", "Dear Anna.\nThank you for the tea."),
    ],
)
def test_lines_that_only_the_eye_tells_apart_end_audibly(written: str, spoken: str) -> None:
    assert said(written) == spoken
    assert said(spoken) == spoken


@pytest.mark.parametrize(
    "text",
    [
        "He met\nPresident Lincoln\nToday at noon.",
        "I saw the\nEiffel Tower in\nParis and the\nLouvre.",
        "My name is\nBob Smith", "Anna and\nBob came.", "Stop!\nWait.\nGo on.",
        "We went down to the harbour with\nAnna, and saw the ships.", "One line alone",
    ],
)  # fmt: skip
def test_lines_that_an_editor_wrapped_get_no_marks(text: str) -> None:
    assert said(text).split() == text.split()


def test_items_in_chinese_end_with_the_comma_of_chinese() -> None:
    assert said("苹果\n面包\n牛奶", "zh") == "苹果，\n面包，\n牛奶"
