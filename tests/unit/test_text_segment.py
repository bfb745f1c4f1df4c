"""Segments: no word lost, no cut inside a number or a name, never longer than asked."""

from __future__ import annotations

import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from voxcli.errors import UsageError
from voxcli.text import Segment, segment

BILL = (
    "The bill is $1,299.50, due 03/04/2026 at 5:30 p.m.; call 555-0142. "
    "Dr. J. R. Lee weighed 3.5 kg of e.g. 1/2 in. screws."
)
NOUNS = "bread rain smoke music letters dust lanterns snow horses glass thunder sleep".split()  # noqa: SIM905
CLAUSES = ", ".join(f"it was the hour of {noun}" for noun in NOUNS) + "."


def texts(text: str, max_chars: int = 150) -> list[str]:
    return [part.text for part in segment(text, max_chars)]


@pytest.mark.parametrize("max_chars", [40, 60, 80, 150])
def test_no_cut_inside_numbers_and_abbreviations(max_chars: int) -> None:
    parts = texts(BILL, max_chars)
    assert " ".join(parts) == BILL
    whole = ["$1,299.50,", "03/04/2026", "5:30", "J. R.", "3.5 kg", "e.g. 1/2 in."]
    for piece in whole if max_chars > 40 else whole[:3]:
        assert any(piece in part for part in parts), piece
    assert not any(part.endswith(("Dr.", "J.", "R.", "e.g.")) for part in parts)


def test_sentences_end_where_they_end() -> None:
    text = (
        'Mr. Brown left at 5 p.m. yesterday. "Why?" he asked. He lives in the U.S. now, etc. '
        "Then it rained! Visit https://a.example.com/x?y=1. Fine."
    )
    assert texts(text, 45) == [
        "Mr. Brown left at 5 p.m. yesterday.",
        '"Why?" he asked.',
        "He lives in the U.S. now, etc.",
        "Then it rained!",
        "Visit https://a.example.com/x?y=1. Fine.",
    ]


def test_all_twelve_clauses_stay() -> None:
    parts = texts(CLAUSES)
    assert len(parts) == 3
    assert " ".join(parts) == CLAUSES
    assert all(part.startswith("it was") for part in parts)


@pytest.mark.parametrize("count", [130, 700])
def test_a_sentence_without_marks_loses_no_word(count: int) -> None:
    words = [("copper", "lamp", "window", "river", "quiet")[i * i % 5] for i in range(count)]
    parts = texts(" ".join(words))
    assert len(parts) >= 2
    assert " ".join(parts).split() == words
    assert min(map(len, parts)) > 75  # near equal pieces, no orphan at the end


def test_short_sentences_are_packed_and_shortest_merged() -> None:
    assert texts("Yes. No. I see. Go on, then.") == ["Yes. No. I see. Go on, then."]
    long = "This sentence is long enough to stand well on its own in any company at all, I think."
    assert texts(f"{long} Right. {long}") == [f"{long} Right.", long]


def test_pauses_grow_with_the_boundary() -> None:
    long = "This sentence is long enough to stand on its own, surely, in whatever company it is."
    first, second, third = segment(f"{long} {long}\n\n{long}", 150)
    assert 0 < first.pause_s < second.pause_s
    assert third.pause_s == 0
    assert segment("word " * 40, 50)[0].pause_s == 0


def test_chinese_is_cut_at_its_own_marks() -> None:
    assert segment("今天天气很好。明天也会很好！", 8) == [
        Segment("今天天气很好。", 0.25),
        Segment("明天也会很好！", 0.0),
    ]


def test_a_giant_word_is_cut_as_the_last_resort() -> None:
    parts = texts("see " + "x" * 100, 30)
    assert "".join(parts) == "see" + "x" * 100
    assert max(map(len, parts)) <= 30


def test_blank_text_has_no_segment_and_a_bad_limit_is_refused() -> None:
    assert segment(" \n\t ", 150) == []
    with pytest.raises(UsageError, match="max_chars is 0"):
        segment("a", 0)


@settings(derandomize=True, max_examples=300, deadline=None, database=None)
@given(
    st.one_of(
        st.text(max_size=300),
        st.text(alphabet="ab .!?,;:\"'()\n—…。，好0-", max_size=300),
        st.lists(st.sampled_from(["Dr.", "e.g.", "well", "3.5", '"No!"', "—", "(so)", "\n\n"])).map(
            " ".join
        ),
    ),
    st.integers(1, 160),
)
def test_words_of_the_segments_are_the_words_of_the_text(text: str, max_chars: int) -> None:
    parts = segment(text, max_chars)
    assert all(part.text == part.text.strip() != "" for part in parts)
    assert all(len(part.text) <= max_chars for part in parts)
    assert "".join("".join(part.text.split()) for part in parts) == "".join(text.split())
    ideographs = re.search("[\u3000-\uffff…]", text)
    if not ideographs and max(map(len, text.split()), default=0) <= max_chars:
        assert " ".join(part.text for part in parts).split() == text.split()


@pytest.mark.parametrize(
    ("language", "text"),
    [
        ("de", "Am 3. Oktober 1990 war es so weit."),
        ("de", "Viele Tiere, z. B. Hunde und Katzen, leben hier."),
        ("de", "Er wohnt in der Hauptstr. 5 bei Bremen."),
        ("es", "El Sr. García llegó a las nueve."),
        ("ru", "Он живёт на ул. Ленина у реки."),
        ("nl", "Dat is o.a. een goed idee voor morgen."),
        ("it", "Il sig. Rossi arriva domani."),
        ("pl", "W dniu 3. maja było zimno."),
        ("de", "Der Krieg begann vor dem 2. Weltkrieg in diesem Land."),
        ("de", "Er zahlt 30 Euro inkl. Versand und Verpackung."),
        ("fr", "Hier soir, Mme. Durand a chanté pour M. Dupont."),
        ("fr", "Le livre de J. Verne compte, cf. p. 12, trois parties."),
        ("es", "La Sra. López vive en la Avda. Goya, n. 5."),
        ("it", "Abita in via Roma n. 5, si veda a pag. 12 del libro."),
        ("pt", "O Prof. Alves mora na Av. Paulista há anos."),
        ("ru", "Ехать ок. 3 ч. без пересадок до г. Тверь."),
        ("ru", "«Иди сюда!» — крикнул он брату."),
        ("nl", "Dhr. De Vries komt om 3 uur, d.w.z. te laat."),
        ("da", "Han kom d. 3. maj med hr. Jensen og dr. Berg."),
        ("sv", "Han kom kl. 5 med dr. Berg och fru Ek."),
        ("fi", "Hän tuli esim. Matin kanssa klo 5. toukokuuta."),
        ("pl", "Mieszka przy ul. Długiej obok dr. Nowaka i św. Jana."),
        ("zh", "“快过来！”他大声地对弟弟喊道，然后跑开了。"),
        ("ja", "「はい。」と答えて、彼女は静かに部屋を出た。"),
    ],
)
def test_abbreviations_and_ordinals_of_a_language_end_no_sentence(language: str, text: str) -> None:
    (whole,) = segment(f"{text}", 200, language)
    assert whole.text == text
    ends = [part.text for part in segment(f"{text} {text}", len(text) + 2, language)]
    assert ends == [text, text]


@pytest.mark.parametrize(
    ("language", "text", "after"),
    [
        ("de", "Er ist 42.", "Danach kam sie."),
        ("fr", "Il est parti en 1990.", "Elle reste."),
        ("es", "Vive en Madrid.", "Ella no."),
        ("ru", "Он уехал.", "Она осталась."),
        ("nl", "Hij kwam om 3 uur.", "Zij niet."),
        ("pl", "Poszedł do domu.", "Ona nie."),
        ("it", "Vive a Roma.", "Lei no."),
    ],
)
def test_a_sentence_that_ends_is_cut(language: str, text: str, after: str) -> None:
    assert next(part.text for part in segment(f"{text} {after}", len(text) + 3, language)) == text


@settings(derandomize=True, max_examples=300, deadline=None, database=None)
@given(
    st.one_of(
        st.text(max_size=200),
        st.lists(
            st.sampled_from(["Am 3.", "z. B.", "Sr.", "ja", "Nein!", "¿Qué?", "ул.", "o.a.", "है।"])
        ).map(" ".join),
    ),
    st.sampled_from(["de", "es", "fr", "ru", "hi", "ar", "ko", "el", "nl"]),
    st.integers(1, 80),
)
def test_words_are_those_of_the_text_in_any_language(
    text: str, language: str, max_chars: int
) -> None:
    parts = segment(text, max_chars, language)
    assert all(len(part.text) <= max_chars for part in parts)
    assert "".join("".join(part.text.split()) for part in parts) == "".join(text.split())
    ideographs = re.search("[\u0900-\u097f\u3000-\uffff…]", text)
    if not ideographs and max(map(len, text.split()), default=0) <= max_chars:
        assert " ".join(part.text for part in parts).split() == text.split()
