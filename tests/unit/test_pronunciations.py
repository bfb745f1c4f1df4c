"""How words are said: a user's table, what of a text it changes, and what it may cost."""

from __future__ import annotations

from pathlib import Path
from time import process_time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from voxcli.errors import TextError, UsageError
from voxcli.text import normalise
from voxcli.text.pronunciations import (
    EXPRESSIONS_S,
    MAX_EXPRESSIONS,
    MAX_FORMS,
    extended,
    load_lexicon,
    read_forms,
    uses,
)

FIXED = settings(derandomize=True, deadline=None, database=None, max_examples=100)


def said(text: str, lexicon: str, language: str = "en") -> str:
    return normalise(text, language, lexicon=lexicon).text


@pytest.mark.parametrize(
    ("lexicon", "text", "spoken"),
    [
        ("nginx,engine X", "Get nginx, Nginx's NGINX.", "Get engine X, engine X's engine X."),
        ("US,you ess", "Send us to the US.", "Send us to the you ess."),
        ("Polish,Poe lish", "Polish a Polish door; polish.", "Poe lish a Poe lish door; polish."),
        ("cat,dog", "cats concatenate a cat-flap cat", "cats concatenate a dog-flap dog"),
        ("New York,Gotham\nYork,Ebor\nNew York City,Big Apple", "New York City, New York and York.",
         "Big Apple, Gotham and Ebor."),
        ("a,b\nb,c\nc,a", "a b c", "b c a"),
        ("New York,Gotham", "To New\nYork.\n\nNew\n\nYork.", "To Gotham.\n\nNew\n\nYork."),
        ("O'Brien,oh brian", "I saw O’Brien", "I saw oh brian"),
        ("→,leads to", "A→B", "A leads to B"),
        ("C++,see plus plus", "I like C++ here", "I like see plus plus here"),
        (r'"(\d+)k",\1 thousand,,regex', "It has 20k rows", "It has twenty thousand rows"),
        (r"(?i)colou?r,hue,,regex", "Color and colours", "hue and hues"),
        ("GIF,jif\n[A-Z]{3},three,,regex", "A GIF or PNG", "A jif or three"),
        ("km,mile", "5 km", "five mile"),
        ("k8s,kubernetes 8", "Use k8s", "Use kubernetes eight"),
    ],
)  # fmt: skip
def test_written_forms_are_said_as_the_table_has_it(lexicon: str, text: str, spoken: str) -> None:
    assert said(text, lexicon) == spoken


@pytest.mark.parametrize(
    ("lexicon", "text", "spoken"),
    [
        ("重庆,崇庆", "我在重庆的家", "我在崇庆的家"),
        ("nginx,恩金克斯", "用nginx部署", "用恩金克斯部署"),
        ("行长,航长\n行,航", "行长行", "航长航"),
    ],
)
def test_chinese_has_no_bounds_of_words(lexicon: str, text: str, spoken: str) -> None:
    assert said(text, lexicon, "zh") == spoken


def test_a_language_counts_for_its_texts_alone_and_before_any() -> None:
    lexicon = "chat,shah,fr\nchat,talk\nzoo,tsoh,de-AT"
    assert said("Le chat zoo", lexicon, "fr") == "Le shah zoo"
    assert said("A chat zoo", lexicon, "en") == "A talk zoo"
    assert said("Ein Zoo", lexicon, "de") == "Ein tsoh"


def test_every_use_is_among_the_changes_before_numbers() -> None:
    done = normalise("**Geis** has 3 Geis", "en", lexicon="Geis,Guyss\nrow,line")
    kinds = [(change.before, change.after) for change in done.changes if change.kind == "lexicon"]
    assert kinds == [("Geis", "Guyss")] * 2
    assert done.text == "Guyss has three Guyss"
    assert uses("**Geis** has 3 Geis", "Geis,Guyss\nrow,line", "en") == kinds


@pytest.mark.parametrize(
    "table",
    [
        "written,spoken\nnginx,engine X\n", "spoken,written\nengine X,nginx\n",
        "\ufeffwritten;spoken;language;match\r\nnginx;engine X;;word\r\n", "nginx\tengine X\n",
        "# a comment\n\nnginx,engine X\n", '"nginx","engine X"', "nginx , engine X ,en, Word",
    ],
)  # fmt: skip
def test_tables_are_read_as_people_write_them(tmp_path: Path, table: str) -> None:
    path = tmp_path / "words.csv"
    path.write_text(table, "utf-8")
    assert said("nginx", load_lexicon(path)) == "engine X"


@pytest.mark.parametrize(
    ("table", "message"),
    [
        ("ok,fine\nnginx", "words.csv, line 2: it has no spoken form"),
        ("ok,fine\n,x", "words.csv, line 2: it has no written form"),
        ("a,b,c,d,e", "line 1: it has 5 cells; put quotes"),
        ("a,b,english language", "line 1: 'english language' is not a language code"),
        ("a,b,en,prefix", "line 1: 'prefix' is neither 'word' nor 'regex'"),
        ("ok,fine\n\n\n(,x,,regex", r"line 4: the expression '\(' cannot be used"),
        (r"a,\1,,regex", r"line 1: the expression 'a' cannot be used"),
        ("a*,x,,regex", "matches nothing, which is everywhere"),
        ("a,b\nc,d\na,e", "line 3: 'a' is in line 1 already"),
        ("written,spoken,lang\na,b,c", "header has 'lang'"),
        (f"{'a' * 101},b", "written form has 101 characters; the most is 100"),
        (f"a,{'b' * 501}", "spoken form has 501 characters"),
        ("a,b [pause 1s]", "a spoken form is words"),
        ('ok,fine\n"a,b', "line 2: unexpected end of data"),
    ],
)  # fmt: skip
def test_a_bad_line_is_named_with_its_file(tmp_path: Path, table: str, message: str) -> None:
    path = tmp_path / "words.csv"
    path.write_text(table, "utf-8")
    with pytest.raises(UsageError, match=message):
        load_lexicon(path)


def test_files_that_are_none_are_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="cannot read"):
        load_lexicon(tmp_path / "gone.csv")
    with pytest.raises(UsageError, match="not a regular file"):
        load_lexicon(tmp_path)
    (tmp_path / "big.csv").write_bytes(b"a" * ((1 << 20) + 1))
    with pytest.raises(UsageError, match="more than 1,048,576 bytes"):
        load_lexicon(tmp_path / "big.csv")


def test_tables_are_bounded() -> None:
    with pytest.raises(UsageError, match=f"more than {MAX_FORMS:,} forms"):
        read_forms("".join(f"word{i},x\n" for i in range(MAX_FORMS + 1)))
    with pytest.raises(UsageError, match=f"more than {MAX_EXPRESSIONS} regular"):
        read_forms("".join(f"word{i},x,,regex\n" for i in range(MAX_EXPRESSIONS + 1)))


@pytest.mark.parametrize("expression", [r"(a|aa)+$", r"(\w+\s?)+\d", r"(.*a){20}z$"])
def test_an_expression_that_takes_too_long_is_named_in_time(expression: str) -> None:
    text = f"b ! z {'a' * 4000} c"
    began = process_time()
    with pytest.raises(TextError, match=r"the lexicon, line 2: the expression .* takes too long"):
        normalise(text, "de", lexicon=f"x,y\n{expression},z,,regex")
    assert process_time() - began < 3 * EXPRESSIONS_S


def test_a_large_table_costs_little_for_a_text() -> None:
    lexicon = "".join(f"word{i} and more,{i}\n" for i in range(MAX_FORMS))
    text = "Some words of a text, word7 and more of it. " * 200
    normalise(text, "de", lexicon=lexicon)  # reads the table

    def cost_s() -> float:
        began = process_time()
        normalise(text, "de", lexicon=lexicon)
        return process_time() - began

    assert any(cost_s() < 0.5 for _ in range(5))


@FIXED
@given(st.lists(st.sampled_from(["ab", "abc", "b", "abc d", "Ab", "x", "é", "d"]), max_size=12))
def test_the_longest_form_at_each_place_is_said_once(parts: list[str]) -> None:
    """The slow way: at each word try every form, longest first."""
    table = {"ab": "b", "abc": "ab", "abc d": "abc", "Ab": "x", "b": "abc d", "é": "e"}
    text = " ".join(["go", *parts])
    forms = sorted(table, key=len, reverse=True)
    expected, left = [], text.split(" ")
    while left:
        for form in forms:
            size = form.count(" ") + 1
            here = " ".join(left[:size])
            if here == form or (
                form == form.lower() and here.lower() == form and here not in table
            ):
                expected.append(table[form])
                left = left[size:]
                break
        else:
            expected.append(left.pop(0))
    lexicon = "\n".join(f"{written},{spoken}" for written, spoken in table.items())
    assert said(text, lexicon, "de") == " ".join(expected)


WORDS = st.dictionaries(
    st.tuples(st.sampled_from(["ab", "Ab", "x", "é"]), st.sampled_from(["", "de", "fr"])),
    st.sampled_from(["one", "two", "three, four", 'a "five"', "six\nseven"]),
    max_size=6,
)


def as_table(forms: dict[tuple[str, str], str], lead: str = "") -> str:
    quoted = [(*form, spoken.replace('"', '""')) for form, spoken in forms.items()]
    return lead + "".join(f'{written},"{spoken}",{code}\n' for written, code, spoken in quoted)


@FIXED
@given(WORDS, WORDS, st.sampled_from(["", "\n\n", "# mine\n", "written,spoken,language\n"]))
def test_a_form_of_a_request_goes_before_those_of_the_server(
    own: dict[tuple[str, str], str], others: dict[tuple[str, str], str], lead: str
) -> None:
    """The slow way: each word in the table of the request, then in the server's."""
    both = extended(as_table(own, lead), as_table(others))
    assert read_forms(both)[: len(own)] == read_forms(as_table(own, lead)), "numbers of lines too"
    words = ["ab", "Ab", "AB", "x", "é"]
    first, then, found = (
        said(" - ".join(words), table, "de").replace(",\n", "\n").split(" - ")  # lines end audibly
        for table in (as_table(own), as_table(others), both)
    )
    assert found == [
        mine if mine != word else its for word, mine, its in zip(words, first, then, strict=True)
    ]


def test_expressions_and_words_do_not_replace_each_other() -> None:
    both = extended("ab,word\nx+,few,,regex", "ab,any,,regex\nx+,more,,regex\nAB,c")
    assert [(form.written, form.spoken) for form in read_forms(both)] == [
        ("ab", "word"), ("x+", "few"), ("ab", "any")
    ]  # fmt: skip
