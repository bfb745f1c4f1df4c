"""What a token is: decided by its whole neighbourhood, before anything is said."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import replace
from datetime import datetime
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from voxcli.text import normalise, normaliser, tagger
from voxcli.text.changes import Draft
from voxcli.text.spell import cardinal, digits, ordinal
from voxcli.text.tagger import (
    CAPITAL,
    DIGIT,
    FIGURES,
    JOINED,
    SMALL,
    STOPPED,
    AsciiSpots,
    InWord,
    Recogniser,
    Spots,
    Tagger,
    _Words,
)

FIXED = settings(derandomize=True, max_examples=150, deadline=None, database=None)
NUMERALS = {
    1: "I", 2: "II", 3: "III", 4: "IV", 5: "V", 6: "VI", 7: "VII", 8: "VIII", 9: "IX", 10: "X",
    11: "XI", 12: "XII", 14: "XIV", 16: "XVI", 20: "XX", 23: "XXIII", 34: "XXXIV",
}  # fmt: skip


WRITTEN = [
    line.split(" => ")[0]
    for path in sorted((Path(__file__).parents[1] / "text_set" / "seen" / "en").glob("*.txt"))
    for line in path.read_text("utf-8").splitlines()
    if " => " in line
]


def said(text: str) -> str:
    return normalise(text, "en").text


@FIXED
@given(st.text(st.sampled_from("aZ0 909.b-_$\n"), max_size=12))
def test_starts_of_tokens_are_the_same_for_ascii_and_for_any_text(text: str) -> None:
    here, anywhere = AsciiSpots(text), Spots(text)
    for starts in (*"aZ0.-_$", CAPITAL, SMALL, STOPPED, JOINED, CAPITAL + SMALL, DIGIT + ".$"):
        assert here.of(starts) == anywhere.of(starts)
    assert here.kinds >= anywhere.kinds
    has_figures = re.search(r"\d{3}", text) is not None
    assert (FIGURES in here.kinds) == (FIGURES in anywhere.kinds) == has_figures
    assert all(kind in text for kind in here.kinds.intersection(".-_$"))


def test_what_a_rule_looks_for_first_is_in_every_text_that_it_rewrites() -> None:
    rules = normaliser._TAGGER._recognisers
    slow = Tagger(replace(rule, needs="", search=None) for rule in rules)
    texts = [*WRITTEN[::6], *(" ".join(WRITTEN[at : at + 4]) for at in range(0, len(WRITTEN), 24))]
    texts += [change(text) for text in texts[::4] for change in (str.upper, str.lower, str.title)]
    for text in texts:
        assert normaliser._TAGGER.tag(text) == slow.tag(text), text


def words_of(rules: Iterable[Recogniser]) -> list[InWord]:
    return list(
        {id(s): s for s in (rule.search for rule in rules) if isinstance(s, InWord)}.values()
    )


@FIXED
@given(st.lists(st.sampled_from([*" \n.,-/'0159AIVMbmsº²é", "th", "the ", "St", "al", "x"])))
def test_what_is_kept_of_words_is_what_their_texts_have(pieces: list[str]) -> None:
    text = "".join(pieces)
    words = _Words(normaliser._TAGGER._recognisers)
    for look in (1, 2):  # the second finds what is kept
        found = 0
        for word in text.split():
            found |= words[word]
        for search in words_of(normaliser._TAGGER._recognisers):
            assert bool(found & words.bits[id(search)]) == search.search(text), (
                look,
                search.glance,
            )


def test_a_word_of_small_letters_has_nothing_that_a_look_into_words_finds() -> None:
    words = sorted({word for text in WRITTEN for word in text.split() if word.isalpha()})
    small = [word.lower() for word in words] + list("abcdefghijklmnopqrstuvwxyzéß")
    for search in words_of(normaliser._TAGGER._recognisers):
        assert not search.search(" ".join(small)), search.glance


def test_words_are_kept_within_bounds(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tagger, "_MAX_WORDS", 10)
    words = _Words(normaliser._TAGGER._recognisers)
    for number in range(41, 100):
        assert words[f"{number}th"] == words["4th"] != 0
        assert len(words) <= 10
    long = "4th" * tagger._MAX_WORD
    assert words[long] != 0
    assert long not in words


def test_the_first_recogniser_owns_a_token_and_no_other_sees_what_it_says() -> None:
    tagger = Tagger(
        [
            Recogniser("word", CAPITAL, re.compile(r"Ten|Two"), lambda m: {"Ten": "10"}.get(m[0])),
            Recogniser("number", DIGIT, re.compile(r"\d+"), lambda m: "number"),
            Recogniser("other", CAPITAL, re.compile(r"T\w+"), lambda m: "other"),
        ]
    )
    draft = Draft("Ten Two 5")
    tagger.say(draft)
    assert draft.text == "10 other number"
    assert [change.kind for change in draft.changes] == ["word", "other", "number"]


def test_what_is_said_is_kept_apart_from_what_it_touches() -> None:
    tagger = Tagger([Recogniser("number", DIGIT, re.compile(r"\d"), lambda m: "five")])
    draft = Draft("a5b 5,5 5!5")
    tagger.say(draft)
    assert draft.text == "a five b five, five five! five"


@FIXED
@given(st.sampled_from(["Appendix", "Type", "Part", "Class", "Section", "Figure", "Unit"]))
def test_a_letter_after_a_counted_noun_is_a_letter(noun: str) -> None:
    for letter in "ABCDEFGLM":
        assert said(f"See {noun} {letter} here.") == f"See {noun} {letter} here."


@FIXED
@given(
    st.sampled_from(["Chapter", "Part", "Act", "Volume", "Phase"]),
    st.sampled_from(sorted(NUMERALS)),
)
def test_a_numeral_after_a_numbered_noun_is_a_number(noun: str, value: int) -> None:
    assert said(f"In {noun} {NUMERALS[value]} it ends.") == f"In {noun} {cardinal(value)} it ends."


@FIXED
@given(
    st.sampled_from(["Introduction", "The Storm", "A Long Way Home", "Results and Methods"]),
    st.sampled_from(sorted(NUMERALS)),
)
def test_a_numeral_that_opens_a_line_is_a_number(title: str, value: int) -> None:
    heading = f"{NUMERALS[value]}. {title}"
    assert said(heading) == f"{cardinal(value)}. {title}"
    assert said(f"It ends here.\n\n{heading}").endswith(f"{cardinal(value)}. {title}")


@FIXED
@given(
    st.sampled_from(["Final Fantasy", "Rocky", "Apollo", "Quest", "Super Bowl"]),
    st.sampled_from([value for value in NUMERALS if len(NUMERALS[value]) > 1]),
)
def test_a_numeral_after_a_name_that_no_list_has_is_a_number(name: str, value: int) -> None:
    assert said(f"{name} {NUMERALS[value]} is on.") == f"{name} {cardinal(value)} is on."


@FIXED
@given(
    st.sampled_from(["Darius", "Xerxes", "Henry", "Pope Pius", "King Edward"]),
    st.sampled_from([value for value in NUMERALS if len(NUMERALS[value]) > 1]),
)
def test_a_numeral_after_a_ruler_is_an_ordinal(name: str, value: int) -> None:
    assert said(f"{name} {NUMERALS[value]} came.") == f"{name} the {ordinal(value)} came."


@pytest.mark.parametrize(
    ("written", "spoken"),
    [
        ("I. too, was there", "I. too, was there"),
        ("an IV drip, a CD, XP", "an I V drip, a C D, X P"),
        ("The IV line", "The I V line"),
        ("WWII ended. WWI began.", "World War two ended. World War one began."),
        ("Xerxes I and Darius III", "Xerxes the first and Darius the third"),
        ("Chapters IV and V", "Chapters four and five"),
    ],
)
def test_initials_and_units_are_no_numerals(written: str, spoken: str) -> None:
    assert said(written) == spoken


@FIXED
@given(st.from_regex(r"\A(?![5-9]00)[2-9]\d\d[-. ][2-9]\d\d[-. ]\d{4}\Z"))
def test_a_telephone_number_is_said_figure_by_figure_in_its_groups(number: str) -> None:
    groups = ", ".join(digits(part, "oh") for part in re.split("[-. ]", number))
    assert said(f"My number is {number}.") == f"My number is {groups}."
    assert said(f"1-{number}") == f"one, {groups}"


@pytest.mark.parametrize(
    ("written", "spoken"),
    [
        ("020 7946 0958", "oh two oh, seven nine four six, oh nine five eight"),
        ("06 12 34 56 78", "oh six, one two, three four, five six, seven eight"),
        ("1-800-FLOWERS", "one, eight hundred, Flowers"),
        ("dial 112", "dial one one two"),
        ("text GO to 40404", "text go to four oh four oh four"),
        ("my PIN is 0042", "my pin is zero zero four two"),
        ("192.168.0.12:80", "one nine two dot one six eight dot zero dot one two colon eighty"),
    ],
)
def test_strings_of_figures_are_no_amounts(written: str, spoken: str) -> None:
    assert said(written) == spoken


@FIXED
@given(
    st.sampled_from([("Psalm", "Psalm"), ("Gen.", "Genesis"), ("1 Cor.", "First Corinthians")]),
    st.integers(1, 150),
    st.integers(1, 40),
    st.integers(1, 20),
)
def test_a_colon_after_a_book_is_a_verse(
    book: tuple[str, str], chapter: int, verse: int, more: int
) -> None:
    place = f"{cardinal(chapter)}, {cardinal(verse)}"
    assert said(f"{book[0]} {chapter}:{verse}") == f"{book[1]} {place}"
    to = f"{place} to {cardinal(verse + more)}"
    assert said(f"Read {book[0]} {chapter}:{verse}–{verse + more}.") == f"Read {book[1]} {to}."


@pytest.mark.parametrize(
    ("written", "spoken"),
    [
        ("1:2:3", "one to two to three"),
        ("a 16:10 screen", "a sixteen to ten screen"),
        ("a ratio of 3:10", "a ratio of three to ten"),
        ("odds of 10:15", "odds of ten to fifteen"),
        ("at 10:15", "at ten fifteen"),
        ("10:30-11:45", "ten thirty to eleven forty-five"),
        ("10:30: Breakfast", "ten thirty: Breakfast"),
        ("at 12:30:15: the end", "at twelve thirty and fifteen seconds: the end"),
        ("a ratio of 3:10: much", "a ratio of three to ten: much"),
    ],
)
def test_a_colon_is_a_ratio_or_a_time_by_its_neighbours(written: str, spoken: str) -> None:
    assert said(written) == spoken


@FIXED
@given(st.integers(100_000, 10**9))
def test_indian_groups_are_one_number(value: int) -> None:
    head, tail = divmod(value, 1000)
    pairs: list[str] = []
    while head >= 100:
        head, pair = divmod(head, 100)
        pairs.insert(0, f"{pair:02}")
    written = ",".join([str(head), *pairs, f"{tail:03}"])
    assert said(f"{written} of them") == f"{cardinal(value)} of them"
    assert said(f"Rs. {written}") == f"{cardinal(value)} rupees"


@FIXED
@given(st.integers(1, 99), st.integers(1, 99))
def test_a_decimal_comma_before_a_unit_is_a_point(whole: int, tenths: int) -> None:
    words = f"{cardinal(whole)} point {digits(str(tenths))}"
    assert said(f"It weighs {whole},{tenths} kg.") == f"It weighs {words} kilograms."


@FIXED
@given(st.lists(st.integers(0, 99), min_size=3, max_size=8))
def test_commas_without_spaces_part_a_list(numbers: list[int]) -> None:
    written = ",".join(map(str, numbers))
    assert said(f"Say {written} now.") == f"Say {', '.join(map(cardinal, numbers))} now."


@pytest.mark.parametrize(
    ("written", "spoken"),
    [
        ("1.234,56 euros", "one thousand two hundred thirty-four euros and fifty-six cents"),
        ("25.000 €", "twenty-five thousand euros"),
        ("10 000 km", "ten thousand kilometers"),
        ("1'250'000 people", "one million two hundred fifty thousand people"),
        ("12\u202f500 people", "twelve thousand five hundred people"),
    ],
)
def test_separators_of_other_countries(written: str, spoken: str) -> None:
    assert said(written) == spoken


@FIXED
@given(
    st.integers(2, 99),
    st.sampled_from(
        [("-bit chip", " bit chip"), ("pt font", " point font"), ("-kg bag", " kilogram bag")]
    ),
)
def test_a_measure_before_a_noun_stays_singular(value: int, tail: tuple[str, str]) -> None:
    assert said(f"a {value}{tail[0]}") == f"a {cardinal(value)}{tail[1]}"


@pytest.mark.parametrize(
    ("written", "spoken"),
    [
        ("90s kids", "nineties kids"),
        ("in the 80s", "in the eighties"),
        ("wait 90s", "wait ninety seconds"),
        ("It took 4s.", "It took four seconds."),
        ("1080p and 4K", "ten eighty P and four K"),
        ("747s, F-16s", "seven forty-sevens, F-sixteens"),
        ("From 1066 to 1087", "From ten sixty-six to ten eighty-seven"),
        ("2001–05", "two thousand one to oh five"),
        ("the 49ers", "the forty-niners"),
        ("3x - 4", "three x minus four"),
        ("f(x) = 2", "f of x equals two"),
        ("a[0]", "a, zero"),
        ("B♭ and F♯", "B flat and F sharp"),
        ("SO42- and NH4+", "S O four two minus and N H four plus"),
    ],
)
def test_a_number_with_letters_is_known_by_them(written: str, spoken: str) -> None:
    assert said(written) == spoken


@FIXED
@given(
    st.sampled_from(["U.S.", "U.K.", "D.C.", "p.m.", "etc.", "Inc.", "Ph.D."]),
    st.sampled_from(["He left.", "She sang.", "The end.", "It rained.", "They know."]),
)
def test_an_abbreviation_that_ends_a_sentence_keeps_its_stop(short: str, after: str) -> None:
    spoken = said(f"It was 5 {short} {after}")
    assert spoken.endswith(f". {after}")
    assert spoken.count(".") == 2


@pytest.mark.parametrize("after", ["Government", "Navy", "Senate", "census", "dollar"])
def test_an_abbreviation_in_a_sentence_has_no_stop(after: str) -> None:
    assert said(f"The U.S. {after} rose.") == f"The U S {after} rose."


@FIXED
@given(
    st.sampled_from(["IRS", "DMV", "FBI", "HTML", "NSA", "BBC", "DVD", "XML", "NYPD"]),
    st.sampled_from(["DO NOT USE THE {} FILE", "CALL THE {} NOW", "WHO RUNS THE {} HERE?"]),
)
def test_an_acronym_in_a_line_of_capitals_is_spelled(letters: str, line: str) -> None:
    spoken = said(line.format(letters))
    assert " ".join(letters) in spoken
    assert line.split()[0].capitalize() in spoken


@FIXED
@given(st.text(alphabet="ab AxI59010.,-/:;()[]$%°'\"²⁻\n", max_size=24))
def test_no_figure_is_left_in_what_is_said(text: str) -> None:
    assert not re.search("[0-9²³]", said(text))


@FIXED
@given(st.datetimes(min_value=datetime(1950, 1, 1), max_value=datetime(2049, 12, 31)))
def test_every_writing_of_a_moment_is_said_alike(moment: datetime) -> None:
    moment = moment.replace(microsecond=0)
    whole = said(f"{moment:%Y-%m-%dT%H:%M:%S}Z")
    assert re.fullmatch(r"\D+ U T C", whole)
    assert said(f"{moment:%Y%m%dT%H%M%S}Z") == whole
    assert said(f"{moment:%Y-%m-%dT%H:%M:%S}.000Z") == whole
    assert said(f"{moment:%Y-%m-%dT%H:%M:%S}+02:00") == f"{whole} plus two"


@FIXED
@given(st.integers(1, 31), st.integers(1, 12), st.integers(1, 99))
def test_no_century_is_made_up(day: int, month: int, year: int) -> None:
    spoken = said(f"{month}/{day}/{year:02}")
    assert not re.search(r"nineteen \w|twenty (?!\w+-?\w*\Z)|thousand", spoken.partition(", ")[2])
    assert spoken.startswith(said(f"{month}/{day}/1905").partition(",")[0])


@FIXED
@given(st.integers(16, 21), st.sampled_from(["", ".", " The end"]))
def test_a_grouped_amount_has_scales_and_a_long_row_has_none(length: int, after: str) -> None:
    row = "123456789123456789123"[:length]
    assert said(f"{int(row):,}{after}").startswith(cardinal(int(row)))
    assert said(row + after).startswith(digits(row))


SURNAMES = st.sampled_from(["Putin", "Newton", "Woolf", "Xu", "Asimov", "O'Hara", "Kumar"])


@FIXED
@given(st.sampled_from("IVX"), SURNAMES, st.sampled_from(["spoke", "wrote it", "came home late"]))
def test_an_initial_before_a_surname_is_a_letter_and_one_before_a_title_a_number(
    letter: str, name: str, rest: str
) -> None:
    assert said(f"{letter}. {name} {rest}.") == f"{letter} {name} {rest}."
    value = cardinal({"I": 1, "V": 5, "X": 10}[letter])
    assert said(f"{letter}. Methods") == f"{value}. Methods"
    assert said(f"III. Aims\n\n{letter}. Signs seen so far.").endswith(
        f"{value}. Signs seen so far."
    )


@FIXED
@given(st.sampled_from(sorted(NUMERALS.keys() - {1})))
def test_a_numeral_with_an_ending_is_an_ordinal(value: int) -> None:
    ending = {1: "st", 2: "nd", 3: "rd"}.get(value % 10 if value // 10 != 1 else 0, "th")
    assert said(f"the {NUMERALS[value]}{ending} time") == f"the {ordinal(value)} time"


@FIXED
@given(st.sampled_from(["Fig", "vol", "p", "no", "ch"]), st.integers(2, 99))
def test_a_figure_after_a_stop_is_a_note_unless_the_stop_is_of_an_abbreviation(
    short: str, number: int
) -> None:
    assert said(f"The cat slept.{number} The dog ran.") == "The cat slept. The dog ran."
    assert said(f'"Sleep!"{number} The dog ran.') == '"Sleep!" The dog ran.'
    assert cardinal(number) in said(f"See {short}.{number} The dog ran.")


@pytest.mark.parametrize("address", ["https://www.example.org/a/", "www.example.org/a/"])
def test_an_address_alone_is_dictated_and_one_in_a_sentence_is_short(address: str) -> None:
    alone = said(address)
    assert "W W W dot example dot org slash a slash" in alone
    assert said(f"See {address} now.") == "See example dot org slash a now."
    assert said(f"{address}?q=1").endswith(" question mark q equals one")


@FIXED
@given(st.permutations(["int", "string", "bool", "T", "Node"]))
def test_types_of_a_program_lose_no_word_and_are_no_comparison(types: list[str]) -> None:
    a, b, c = types[:3]
    assert said(f"map<{a}, list<{b}>> {c}") == f"map {a}, list {b} {c}"
    assert "is less than" in said(f"if foo<{a.lower()} and {b.lower()}>bar")


def test_figures_that_a_hyphen_parts_stay_two_numbers() -> None:
    assert said("ref. 20-114B") == "ref. twenty, one hundred fourteen B"
    assert said("a 20-year-old") == "a twenty-year-old"


@pytest.mark.parametrize(
    "lead", ["Serial number", "part no.", "The tracking code is", "Invoice no."]
)
def test_a_code_that_is_told_to_be_one_is_dictated(lead: str) -> None:
    assert "four eight two one, seventy-seven B" in said(f"{lead} 4821-77B")
    assert "C X three three oh" in said(f"{lead} CX330").replace("zero", "oh")


def test_a_second_number_to_call_is_said_figure_by_figure_too() -> None:
    assert said("Dial 911 or 112 at once.") == "Dial nine one one or one one two at once."
    assert said("Call 911 people or 112 men.").endswith("or one hundred twelve men.")


@FIXED
@given(
    st.sampled_from(["case", "Case", "docket", "Docket no.", "Matter", "Appeal No."]),
    st.integers(10, 99),
    st.integers(1100, 9999).filter(lambda value: value % 1000),
)
def test_the_number_of_one_case_is_no_range(noun: str, year: int, number: int) -> None:
    words = said(f"The {noun} {year}-{number} was heard.")
    assert " to " not in words
    assert f"{cardinal(year)}, " in words
    assert " to " in said(f"The judge heard cases {year}-{number} there.")


def test_the_number_of_a_case_with_letters_is_a_number_part_by_part() -> None:
    assert said("See docket no. CV-2021-118.") == (
        "See docket number C V, twenty twenty-one, one hundred eighteen."
    )
    assert said("I said no. GPT-4 won.").startswith("I said no. ")


@FIXED
@given(
    st.sampled_from(["Call", "Dial", "Ring"]),
    st.integers(111, 999),
    st.sampled_from(["elsewhere", "in Spain", "from abroad"]),
)
def test_every_number_that_a_sentence_says_to_call_is_dictated(
    verb: str, number: int, place: str
) -> None:
    dictated = digits(str(number), "oh")
    assert said(f"{verb} 999 in Britain, {number} {place}.").endswith(f"{dictated} {place}.")
    assert said(f"{verb} 911 here, 999 in Britain and {number} {place}.").endswith(
        f"{dictated} {place}."
    )
    counted = said(f"{verb} 999 in Britain, {number} people did.")
    assert counted.endswith(f"{cardinal(number)} people did.")


@pytest.mark.parametrize("name", ["KIM JONG UN", "KIM JONG IL", "CHOI SEUNG HO"])
def test_a_syllable_that_ends_a_name_is_none_of_an_acronym(name: str) -> None:
    assert said(name).lower() == name.lower()
    assert said(f"{name} WON THE GREAT PRIZE").lower().startswith(name.lower())


def test_an_acronym_after_a_word_or_one_name_stays_one() -> None:
    assert said("THE UN MET IN GENEVA").startswith("The U N met")
    assert said("IRAQ UN MISSION ENDS TODAY").startswith("Iraq U N mission")
