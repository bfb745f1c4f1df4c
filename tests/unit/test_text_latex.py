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
    assert said(text).count("backslash") == text.count("\\")


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


@pytest.mark.parametrize(
    "piece", ["1", "a b", "x,", "(1", "1.1", "ab", "2n ", "x' ", "|x", "\\hat "]
)
def test_what_stands_between_two_dollars_takes_linear_time(piece: str) -> None:
    began = time.process_time()
    for end in ("", "~", "!!"):
        normalise(f"$a{piece * (390 // len(piece))}{end}$ " * 20, "en")
    assert time.process_time() - began < 10


@pytest.mark.parametrize(
    ("formula", "spoken"),
    [
        ("p < 0.05", "p is less than zero point zero five"),
        ("O(1)", "O of one"),
        (r"O(n \log n)", "O of n log n"),
        ("x", "x"),
        ("n = 5", "n equals five"),
        ("2 + 2 = 4", "two plus two equals four"),
        ("f(x) = x^2", "f of x equals x squared"),
        ("E=mc^2", "E equals mc squared"),
        (r"50\%", "fifty percent"),
        (r"A = \begin{pmatrix} 1 & 2 \\ 3 & 4 \end{pmatrix}", "A equals one two, three four"),
        (r"\hat x", "x hat"),
        (r"\bar{x}_1", "x bar one"),
        (r"\hat{\theta}", "theta hat"),
        (r"\vec v", "vector v"),
        ("|x|", "absolute value of x"),
        (r"\left|a - b\right|", "absolute value of a minus b"),
        ("|S|", "size of S"),
        (r"\|v\|", "norm of v"),
        ("P(A|B)", "P of A given B"),
        (r"\lfloor x \rfloor", "floor of x,"),
        (r"\lceil x \rceil", "ceiling of x,"),
        (r"a \equiv b \pmod n", "a is identical to b mod n"),
        (r"7 \bmod 3", "seven mod three"),
        (r"\{x \mid x > 0\}", ", x such that x is greater than zero,"),
        (r"X \sim N(0, 1)", "X is distributed as N of zero, one"),
        (r"x \in [0,1]", "x in, zero, one,"),
        ("x^*", "x star"),
        ("n!", "n factorial"),
        ("f'(x)", "f prime of x"),
        ("P(X=k)", "P of X equals k"),
        (r"\mathbb{E}[X]", "E of X"),
        ("f: A \\to B", "f: A to B"),
        (r"x^\top y", "x transpose y"),
        (r"\mathbb R", "R"),
        (r"p \land q", "p and q"),
        ("p <\n0.05", "p is less than zero point zero five"),
    ],
)
def test_dollars_enclose_a_formula(formula: str, spoken: str) -> None:
    assert said(f"So ${formula}$ here.") == f"So {spoken} here.".replace(" ,", ",")
    assert said(f"So $${formula}$$.") == f"So {spoken}.".replace(" ,", ",").replace(",.", ".")
    assert "$" not in said(f"Gut: ${formula}$ hier.", "de")


@pytest.mark.parametrize(
    "text",
    [
        "I have $5 and $10.", "($5, $10)", '"$5"/"$6"', "$5-$10", "$5–$10", "from US$5 to A$6",
        "It cost $5 (or $6).", "$5/hr, $6/hr and $7/hr", "$1 = 1.3 US$ today", "*$5* and **$9**",
        "cheap ($), fair ($$), dear ($$$)", "a $$ place and a $$$ place, the $$ was good",
        "cost $a and $b", "echo $HOME/$USER and $PATH", "$x=$y;", "{print $1,$2}", "${a}${b}",
        "$('a').x($('b'))", "$AAPL, $TSLA and $AAPL/$TSLA", "the $-sign and the $-key",
        "(foo)$|^bar$", r"(foo)$|^\s+$", "$5<br>or 6$", "$5, 10$ or more",
    ],
)  # fmt: skip
def test_dollars_of_money_and_programs_are_no_formula(text: str) -> None:
    found = said(text)
    assert found.count("dollar") == text.count("$"), found


def test_one_letter_keeps_the_ending_of_its_number() -> None:
    assert said("the $n$th, the $k$-th and the $x$-axis") == "the nth, the k-th and the x-axis"


@pytest.mark.parametrize(
    ("written", "spoken"),
    [
        (r"A word\footnote{See below.} and more.", "A word, See below, and more."),
        (r"See \href{https://a.b/c}{this page} now.", "See this page now."),
        (r"See \url{https://a.b/c} now.", "See a dot b slash c now."),
        (r"A {\large big word} and {\bf a bold} one.", "A big word and a bold one."),
        (r"As said\cite{a} in Section~\ref{b}.", "As said in Section."),
    ],
)
def test_commands_of_prose_leave_their_words(written: str, spoken: str) -> None:
    assert said(written) == spoken


@pytest.mark.parametrize(
    "text",
    [
        r"Match \(\d+\) here.", r"\d+\.\d{2}", r"\w+\s*\( for it", r"^\$\d+\(\w+\)$",
        r"C:\alpha\beta\(old)\gamma", r"D:\[old]\_tmp\-x", r"C:\Program Files\(x86)\app",
        r"\\server\share\$x", r"\alpha\beta\file.txt", r"\bfoo\b", r"[\w.]+\@\w+\.com",
        r"$\d+\.\d$", r"\[\s\S]",
    ],
)  # fmt: skip
def test_no_backslash_of_a_path_or_an_expression_is_lost(text: str) -> None:
    assert said(text).count("backslash") == text.count("\\")


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


@pytest.mark.parametrize(
    ("written", "spoken"),
    [
        (r"first\nsecond", "first second"),
        (r"Hello.\nhow are you", "Hello. how are you"),
        (r"one\ntwo\nnever\nthree", "one, two, never, three"),  # the others decide for "never"
        (r"Name\tAge\tCity", "Name Age City"),
        (r"One.\\nTwo.", "One. Two."),
        (r"caf\u00e9 \u2014 \ud83d\ude00", "café —"),
    ],
)
def test_what_a_program_wrote_of_a_line_is_read(written: str, spoken: str) -> None:
    assert said(written) == spoken


def test_line_ends_before_small_letters_are_known_in_every_language() -> None:
    assert said(r"erste Zeile\nzweite Zeile\nnein", "de") == "erste Zeile, zweite Zeile, nein"
    assert said(r"première ligne\nseconde ligne", "fr") == "première ligne seconde ligne"
    assert said(r"C:\neu und dir\name", "de") == r"C:\neu und dir\name"


@pytest.mark.parametrize(
    "text",
    [
        r"C:\Name\nFoo", r"\\server\nNew", r"the \name of it", r"C:\temp\new", r"dir\name",
        r"see \new and \temp", r"x\neq y", r"a\nu b", r"\w+\t\d", r"C:\u2024abc", r"the [\n]+ part",
    ],
)  # fmt: skip
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


@pytest.mark.parametrize(
    ("formula", "spoken"),
    [
        (r"\frac{1}{2}mv^2", "one half m v squared"),
        (r"\frac{1}{2} m v^2", "one half m v squared"),
        (r"\frac{4}{3}\pi r^3", "four thirds pi r cubed"),
        (r"\frac{3}{4}x", "three quarters x"),
        (r"\frac{1}{2}bh", "one half b h"),
        (r"\frac{1}{2}kx^2", "one half k x squared"),
        (r"\frac{1}{2} g t^2", "one half g t squared"),
        ("3 g", "three g"),
        ("10 L", "ten L"),
        ("2m + 3g", "two m plus three g"),
        ("2m^2", "two m squared"),
        # units are dressed, divided or longer
        (r"5 \text{ m}", "five meters"),
        (r"\frac{1}{2}\text{ m}", "one half meter"),
        (r"g = 9.8 \mathrm{m/s^2}", "g equals nine point eight meters per second squared"),
        ("v = 9.8 m/s^2", "v equals nine point eight meters per second squared"),
        ("5 km", "five kilometers"),
    ],
)
def test_a_letter_behind_a_number_of_a_formula_is_no_unit(formula: str, spoken: str) -> None:
    assert normalise(f"${formula}$", "en").text == spoken
