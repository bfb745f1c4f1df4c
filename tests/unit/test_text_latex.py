"""LaTeX in running text, lines that a page wrapped before a sign, and line ends of programs."""

from __future__ import annotations

import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from voxcli.text import normalise
from voxcli.text.latex import _FUNCTIONS, _SIGNS

FIXED = settings(derandomize=True, max_examples=100, deadline=None, database=None)


def said(text: str, language: str = "en") -> str:
    return " ".join(normalise(text, language).text.split())


WRITTEN = [
    (r"\frac{a}{b}", "a over b"),
    (r"\frac{1}{3}", "one third"),
    (r"\frac{\frac{a}{b}}{c}", "a over b over c"),
    (r"\sqrt{x + 1}", "square root of x plus one"),
    (r"\sqrt[3]{x}", "cube root of x"),
    (r"x^{10}", "x to the power of ten"),
    (r"3 \times 4 = 12", "three times four equals twelve"),
    (r"\theta = 90^\circ", "theta equals ninety degrees"),
    (r"\sum_{i=1}^{n} i", "sum from i equals one to n of i"),
    (r"\int_0^1 x dx", "integral from zero to one of x dx"),
    (r"\lim_{x \to 0} x", "limit as x to zero of x"),
    (r"\text{speed} = 5", "speed equals five"),
    (r"\boxed{42}", "forty-two"),
    (r"x \in \mathbb{R}", "x in R"),
    (r"3\frac{1}{2}", "three and a half"),
    (r"5\times3", "five times three"),
]


@pytest.mark.parametrize(("written", "spoken"), WRITTEN)
@pytest.mark.parametrize("between", ["{}", r"\({}\)", r"\[{}\]", "${}$", "$${}$$"])
def test_a_formula_is_said_between_any_marks(written: str, spoken: str, between: str) -> None:
    assert said(f"So {between.replace('{}', written)} here.") == f"So {spoken} here."


def test_a_letter_in_braces_is_no_sign() -> None:
    assert said("$6{x}_{1} + 4{y}_{2}$") == "six x one plus four y two"


def test_the_minus_of_a_formula_is_said() -> None:
    formula = r"\[x = \frac{-b \pm \sqrt{b^2 - 4ac}}{2a}\]"
    root = "square root of b squared minus four ac"
    assert said(formula) == f"x equals minus b plus or minus {root} over two a"


@pytest.mark.parametrize("name", sorted({*_SIGNS, *_FUNCTIONS}))
def test_no_command_is_a_backslash_and_letters(name: str) -> None:
    for text in (rf"$a \{name} b$", rf"we see a \{name} b"):
        assert "backslash" not in said(text)


def test_an_environment_and_its_rows_are_a_formula() -> None:
    rows = "\\begin{align*}\na &= b + c \\\\\n&= d\n\\end{align*}"
    assert said(f"So\n{rows}\nholds.").startswith("So a equals b plus c, equals d")


def test_what_shows_words_in_another_way_keeps_them() -> None:
    assert said(r"\section{Intro} A \textbf{bold} \emph{word}.") == "Intro. A bold word."
    assert said("\\begin{itemize}\n\\item One\n\\item Two\n\\end{itemize}") == "One. Two."


@pytest.mark.parametrize(
    ("language", "written", "spoken"),
    [
        ("de", r"Der Wert ist $\frac{1}{2}$.", "Der Wert ist 1/2."),
        ("fr", r"La valeur \(\frac{a}{b}\) suffit.", "La valeur a/b suffit."),
        ("de", r"Es gilt $\alpha \leq 3$.", "Es gilt α ≤ 3."),
    ],
)
def test_other_languages_have_the_signs(language: str, written: str, spoken: str) -> None:
    assert said(written, language) == spoken


@pytest.mark.parametrize(
    "text",
    [
        r"C:\in\to\file.txt",
        r"src\in\to\main.py",
        r"regex \d+\.\d",
        r"a\Users\anna",
    ],
)
def test_paths_and_expressions_are_no_commands(text: str) -> None:
    assert said(text).count("backslash") == text.count("\\") - text.count("\\.")  # as Markdown's


def test_brackets_that_markdown_escapes_are_no_formula() -> None:
    assert said(r"See \[the notes below\] now.") == said("See [the notes below] now.")
    assert said(r"See \(the notes\) now.") == said("See (the notes) now.")


@FIXED
@given(
    st.lists(st.sampled_from(["a", " ", "\\", "{", "}", "$", "\\(", "\\frac", "^{", "pi", "\n"]))
)
def test_any_braces_and_backslashes_are_read(pieces: list[str]) -> None:
    once = normalise("".join(pieces), "en").text
    assert "\\" not in once


@pytest.mark.parametrize(
    "piece", ["\\frac{", "\\(", "\\[", "$\\a", "\\sqrt{a}{", "^{a", "\\begin{align}", "\\n", "{{a}"]
)
def test_hostile_formulas_take_linear_time(piece: str) -> None:
    began = time.process_time()
    normalise(piece * 2000, "en")
    normalise("\\" + piece * 2000, "de")
    assert time.process_time() - began < 10


# ------------------------------------------------------------ lines that begin with a sign


@pytest.mark.parametrize(
    ("written", "spoken"),
    [
        ("The sum of 2\n+ 3 is 5.", "The sum of two plus three is five."),
        ("See pages 10\n- 12 for more.", "See pages ten to twelve for more."),
        ("The result is 2\n+ 3\n+ 4.", "The result is two plus three plus four."),
        ("We saw that it was over\n- and he left.", "We saw that it was over — and he left."),
        ("Now x = a\n- b\n+ c", "Now x equals a minus b plus c"),
        ("We need salt\n+ pepper.", "We need salt plus pepper."),
        ("It is the total\n+ Tax.", "It is the total plus Tax."),
    ],
)
def test_a_line_wrapped_before_a_sign_is_no_item(written: str, spoken: str) -> None:
    assert said(written) == spoken


@pytest.mark.parametrize("end", ["", ":", "."])
@pytest.mark.parametrize("sign", ["-", "+", "*"])
def test_lists_stay_lists(end: str, sign: str) -> None:
    assert said(f"In 2024{end}\n{sign} 5 apples\n{sign} three pears").endswith(
        "five apples. three pears."
    )
    assert said(f"{sign} one\n{sign} two") == "one. two."


@pytest.mark.parametrize("language", ["de", "fr", "es", "it", "pt"])
def test_no_sign_is_lost_in_other_languages(language: str) -> None:
    assert said("A 5\n- 10 B", language) == "A 5 - 10 B"
    assert said("A 5\n- x\n- y", language) == said("A 5\n* x\n* y", language)


# ------------------------------------------------------------ line ends of programs


def test_line_ends_that_a_program_wrote_are_line_ends() -> None:
    assert said(r"One.\nTwo.\n\nThree.\n") == "One. Two. Three."
    assert said(r"Eins.\r\nZwei.", "de") == "Eins. Zwei."
    assert said(r"Steps:\n- two\n- three") == said("Steps:\n- two\n- three")


@pytest.mark.parametrize("text", [r"C:\Name\nFoo", r"\\server\nNew", r"the \name of it"])
def test_a_path_has_no_line_end(text: str) -> None:
    assert "backslash" in said(text)


@pytest.mark.parametrize(
    ("written", "spoken"),
    [
        ("出生于1990s的美国", "年代"),
        ("在2000s期间", "年代"),
        ("’90s的音乐", "年代"),
        ("跑了90s", "秒"),
        ("用了200s", "秒"),
    ],
)
def test_a_decade_in_chinese_is_no_number_of_seconds(written: str, spoken: str) -> None:
    pytest.importorskip("wetext")
    found = normalise(written, "zh").text
    assert spoken in found
    assert ("秒" in found) == (spoken == "秒")


@pytest.mark.parametrize(
    "text",
    [
        r"Use \n for a new line.", r"Replace \r\n with \n here.", r'Call print("Hello\n") twice.',
        r'Write printf("%d\n", x) then.', r"The \n character ends it.", r"Say split('\n') here.",
    ],
)  # fmt: skip
def test_a_line_end_that_is_spoken_of_is_said(text: str) -> None:
    assert said(text).count("backslash n") == text.count(r"\n")


def test_wide_commas_between_figures_part_numbers() -> None:
    assert said("价格是200，300，400元。", "zh") == "价格是两百、三百、四百元。"
    assert said("他得了3，5，7分。", "zh") == "他得了三、五、七分。"
    assert said("１，２００元", "zh") == said("1,200元", "zh") == "一千二百元"


@pytest.mark.parametrize(
    ("written", "spoken"),
    [
        (r"It costs \$50.", "It costs fifty dollars."),
        (r"It is \$5 to \$10.", "It is five dollars to ten dollars."),
        (r"\*stars\* and \_lines\_", "stars and lines"),
        (r"I don\'t know.", "I don't know."),
        (r"He said \"go\" again.", 'He said "go" again.'),
        (r"R\&D takes 50\% of it.", "R and D takes fifty percent of it."),
    ],
)
def test_what_markdown_escapes_is_no_backslash(written: str, spoken: str) -> None:
    assert said(written) == spoken


def test_accents_are_letters_and_quotation_marks_stay() -> None:
    written = r"M\"uller, Erd\H{o}s, Fran\c{c}ois, na\"{\i}ve, Poincar\'{e} and a caf\'e"
    assert said(written) == "Müller, Erdős, François, naïve, Poincaré and a café"
    assert said(r"He said \"aye\" and d\'accord.") == 'He said "aye" and d\'accord.'
