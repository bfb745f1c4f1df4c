"""English text becomes what is said; other languages keep their words; every change is recorded."""

from __future__ import annotations

import re
import unicodedata
from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from voxcli.text import normalise

EXAMPLES = [
    # sources and formulas as language models write them
    ("It is blue[1](https://a.b/c_(d))[2](https://e.f). Yes", "It is blue. Yes"),
    ('It is blue [[3]](https://a.b). [4](https://a.b "C") Yes', "It is blue. Yes"),
    ("It is【4:0†source】 blue.【12†a.pdf】 Yes", "It is blue. Yes"),
    ("See [1](https://a.b), or [3](https://a.b) ways", "See one, or three ways"),
    ("$$E = mc^2$$ and $x^2$, $n$ of $N$", "E equals mc squared and x squared, n of N"),
    ("$5 and $6, $5 and 6$", "five dollars and six dollars, five dollars and six dollars"),
    ("cost $a and $b", "cost dollar a and dollar b"),
    # raised and lowered by tags
    ("x<sup>2</sup>, 10<sup>-3</sup> m<sup>2</sup>", "x squared, ten to the power of minus three "
     "square meters"),
    ("H<sub>2</sub>O, the 1<sup>st</sup> word<sup>12</sup>", "H two O, the first word"),
    # terminals
    ("\x1b[1;31mred\x1b[0m and \x1b[38;5;12mblue\x1b[K\x1b(B", "red and blue"),
    ("\x1b]8;;https://a.b\x1b\\a link\x1b]8;;\x1b\\ in \x1b]0;a window\x07", "a link in"),
    # numbers
    ("7", "seven"),
    ("I have 1,299 books.", "I have one thousand two hundred ninety-nine books."),
    ("1,299.50", "one thousand two hundred ninety-nine point five zero"),
    ("<200 cells, >5 km", "less than two hundred cells, more than five kilometers"),
    ("(<1%), costs <$5", "less than one percent, costs less than five dollars"),
    ("5>3 if x<5", "five is greater than three if x is less than five"),
    ("<-5 °C", "less than minus five degrees Celsius"),
    ("3.14", "three point one four"),
    ("0.5", "zero point five"),
    (".5", "point five"),
    ("007", "zero zero seven"),
    ("It fell to -5.", "It fell to minus five."),
    ("-5 degrees", "minus five degrees"),
    ("1st, 2nd, 3rd and 21st", "first, second, third and twenty-first"),
    ("the 100th time", "the one hundredth time"),
    ("1/2", "one half"),
    ("1/2 %", "one half percent"),
    ("½ €", "one half euro"),
    ("3/4 of it", "three quarters of it"),
    ("2 1/2 cups", "two and a half cups"),
    ("2½ cups", "two and a half cups"),
    ("pages 3-5", "pages three to five"),
    ("3–5 apples", "three to five apples"),
    ("open 24/7", "open twenty-four seven"),
    ("5k users", "five thousand users"),
    ("1,234,567", "one million two hundred thirty-four thousand five hundred sixty-seven"),
    ("1" * 16, " ".join(["one"] * 16)),
    ("a ratio of 3:1", "a ratio of three to one"),
    ("2 * 3 = 6", "two times three equals six"),
    ("2+2=4", "two plus two equals four"),
    ("7 - 3", "seven minus three"),
    ("x² + y²", "x squared plus y squared"),
    ("2^10", "two to the power of ten"),
    ("x⁴ and x⁻¹", "x to the power of four and x to the power of minus one"),
    ("10²³", "ten to the power of twenty-three"),
    ("sin²x", "sin squared x"),
    ("See note ² and ³.", "See note two and three."),
    ("π r and 2πr²", "pi r and two pi r squared"),
    ("an α-particle, Δt, χ²", "an alpha-particle, delta t, chi squared"),
    ("μ, the micro sign µ, and ϕ", "mu, the micro sign mu, and phi"),
    ("a \u03a2", "a \u03a2"),  # no character, though among the capitals of Greek
    ("the word πατήρ or ο λόγος", "the word πατήρ or ο λόγος"),  # a word is no row of signs
    ("1920x1080", "nineteen twenty by one thousand eighty"),
    ("No. 5", "number five"),
    ("#1", "number one"),
    ("~20 people", "about twenty people"),
    ("Chapter IV", "Chapter four"),
    ("Henry VIII ruled", "Henry the eighth ruled"),
    ("World War II ended", "World War two ended"),
    ("I am. MIX", "I am. M I X"),
    ("version 2.0.1", "version two point zero point one"),
    ("192.168.0.1", "one nine two dot one six eight dot zero dot one"),
    ("3.0e8", "three point zero times ten to the power of eight"),
    ("2.5x faster", "two point five x faster"),
    ("1,000s of people", "thousands of people"),
    ("1 000 000", "one million"),
    ("1.000.000", "one million"),
    ("1-2-3", "one, two, three"),
    ("4-8-15-16-23-42", "four, eight, fifteen, sixteen, twenty-three, forty-two"),
    ("a Core i7-9700K chip", "a Core i seven nine thousand seven hundred K chip"),
    ("50/50", "fifty fifty"),
    ("the 2019/20 season", "the twenty nineteen to twenty season"),
    ("a 401(k)", "a four oh one K"),
    # weekdays and months cut short
    ("Sat Nov 28", "Saturday November twenty-eighth"),
    ("Sat, Nov 28, 2026", "Saturday, November twenty-eighth, twenty twenty-six"),
    ("Sat. Nov. 28", "Saturday November twenty-eighth"),
    ("Sat 28 Nov 2026", "Saturday the twenty-eighth of November, twenty twenty-six"),
    ("Thu, 26-Nov-2026", "Thursday, the twenty-sixth of November, twenty twenty-six"),
    ("Sun, May 3", "Sunday, May third"),
    ("Sat 11/28", "Saturday November twenty-eighth"),
    ("Fri the 13th", "Friday the thirteenth"),
    ("Wed 5pm", "Wednesday five P M"),
    ("on Sat, we meet", "on Saturday, we meet"),
    ("Tue and Thu", "Tuesday and Thursday"),
    ("Sat/Sun", "Saturday and Sunday"),
    ("Mon-Fri 9-5, Sun closed", "Monday to Friday nine to five, Sunday closed"),
    ("in Mar", "in March"),
    ("Nov 2026", "November twenty twenty-six"),
    ("I sat. Sat down again. The Sun is hot.", "I sat. Sat down again. The Sun is hot."),
    ("Jan will wed. Wed her.", "Jan will wed. Wed her."),
    # other dates and times
    ("28-30 Nov", "the twenty-eighth to the thirtieth of November"),
    ("2026/11/28", "November twenty-eighth, twenty twenty-six"),
    ("2026.11.28", "November twenty-eighth, twenty twenty-six"),
    ("due 11/28", "due November twenty-eighth"),
    ("5.30pm", "five thirty P M"),
    ("05:16 +0530", "five sixteen U T C plus five thirty"),
    ("1h30", "one hour thirty minutes"),
    ("2m 30s", "two minutes thirty seconds"),
    ("1 800 555 0142", "one, eight hundred, five five five, oh one four two"),
    # money
    ("€5,00", "five euros"),
    ("CHF 20.-", "twenty Swiss francs"),
    ("500 SEK", "five hundred Swedish kronor"),
    ("R$5", "five Brazilian reais"),
    ("₱500", "five hundred pesos"),
    ("50p", "fifty pence"),
    ("$5M-$10M", "five million dollars to ten million dollars"),
    ("6 ft 2 in", "six feet two inches"),
    ('a 27" and a 24" screen', "a twenty-seven inch and a twenty-four inch screen"),
    ('He said "I am 5" twice.', 'He said "I am five" twice.'),
    ("$5", "five dollars"),
    ("$1", "one dollar"),
    ("$1,299.50", "one thousand two hundred ninety-nine dollars and fifty cents"),
    ("$0.99", "ninety-nine cents"),
    ("$3.5 million", "three point five million dollars"),
    ("$5k", "five thousand dollars"),
    ("$10-20", "ten to twenty dollars"),
    ("-$5", "minus five dollars"),
    ("a $20 bill", "a twenty dollar bill"),
    ("€50", "fifty euros"),
    ("50 €", "fifty euros"),
    ("5,50 EUR", "five euros and fifty cents"),
    ("£3.20", "three pounds and twenty pence"),
    ("¥500", "five hundred yen"),
    ("99¢", "ninety-nine cents"),
    ("US$5", "five U S dollars"),
    ("50 USD", "fifty U S dollars"),
    ("$15/hour", "fifteen dollars per hour"),
    # dates and years
    ("03/04/2026", "March fourth, twenty twenty-six"),
    ("25/12/2024", "the twenty-fifth of December, twenty twenty-four"),
    ("2026-03-04", "March fourth, twenty twenty-six"),
    ("24.12.2025", "the twenty-fourth of December, twenty twenty-five"),
    ("4 March 2026", "the fourth of March, twenty twenty-six"),
    ("March 4, 2026", "March fourth, twenty twenty-six"),
    ("on Jan. 5", "on January fifth"),
    ("March 30 people came", "March thirty people came"),
    ("May 2024", "May twenty twenty-four"),
    ("in 1984", "in nineteen eighty-four"),
    ("in 1905", "in nineteen oh five"),
    ("in 2000 and 2007", "in two thousand and two thousand seven"),
    ("the 1990s", "the nineteen nineties"),
    ("the '90s", "the nineties"),
    ("in his 20s", "in his twenties"),
    ("1990-1995", "nineteen ninety to nineteen ninety-five"),
    ("1500 people", "one thousand five hundred people"),
    # times
    ("at 5:30 p.m.; later", "at five thirty P M; later"),
    ("7:46 pm is late", "seven forty-six P M is late"),
    ("17:45", "seventeen forty-five"),
    ("5:00", "five o'clock"),
    ("9:05", "nine oh five"),
    ("12:30:15", "twelve thirty and fifteen seconds"),
    ("at 5 p.m. He left", "at five P M. He left"),
    ("9-5 pm", "nine to five P M"),
    # units
    ("3.5 kg", "three point five kilograms"),
    ("1 kg", "one kilogram"),
    ("10 km/h", "ten kilometers per hour"),
    ("20 °C", "twenty degrees Celsius"),
    ("-4°F", "minus four degrees Fahrenheit"),
    ("90°", "ninety degrees"),
    ("5 GB", "five gigabytes"),
    ("1/2 in. screws", "one half inch screws"),
    ("6 ft. 2 in. tall", "six feet two inches tall"),
    ("5'10\" tall", "five foot ten tall"),
    ("50 m²", "fifty square meters"),
    ("3-5 km", "three to five kilometers"),
    ("5%", "five percent"),
    ("3-5 %", "three to five percent"),
    ("5 in the morning", "five in the morning"),
    # telephone
    ("call 555-0142", "call five five five, oh one four two"),
    ("(555) 123-4567", "five five five, one two three, four five six seven"),
    ("call 911", "call nine one one"),
    # abbreviations, initials, acronyms, capitals
    ("Dr. Lee", "Doctor Lee"),
    ("J. R. Lee", "J R Lee"),
    ("Mr. and Mrs. Smith", "Mister and Missus Smith"),
    ("5 Main St. near St. Paul", "five Main Street near Saint Paul"),
    ("e.g. this, i.e. that", "for example this, that is that"),
    ("cats vs. dogs", "cats versus dogs"),
    ("pens, etc. Then", "pens, et cetera. Then"),
    ("Smith & Co. Ltd.", "Smith and Company Limited."),
    ("Mon-Fri 9am-5pm", "Monday to Friday nine A M to five P M"),
    ("Plan B. The end.", "Plan B. The end."),
    ("UK, EU. I LOVE IT!", "U K, E U. I love it!"),
    ("Acme Inc. won", "Acme Incorporated won"),
    ("No.", "No."),
    ("No. I will not.", "No. I will not."),
    ("the FBI", "the F B I"),
    ("NASA", "Nasa"),
    ("GPUs", "G P U's"),
    ("the U.S. team", "the U S team"),
    ("AT&T", "A T and T"),
    ("STOP! THIS IS NOT A DRILL.", "Stop! This is not a drill."),
    ("OK", "okay"),
    ("MP3 and H2O", "M P three and H two O"),
    ("A", "A"),
    # addresses
    ("See https://www.example.com/a/b?x=1.", "See example dot com slash a slash b."),
    ("jane.doe@example.com", "jane dot doe at example dot com"),
    ("/usr/local/bin", "slash usr slash local slash bin"),
    ("end.Then", "end. Then"),
    ("@anna likes #BlueSky", "at anna likes hashtag Blue Sky"),
    # markup
    ("# Title\nText", "Title.\n\nText"),
    ("**bold** and _it_ and `code`", "bold and it and code"),
    ("a [link](http://x.com/y) here", "a link here"),
    ("- one\n- two", "one.\ntwo."),
    ("1. Milk\n2. Eggs", "one, Milk.\ntwo, Eggs."),
    ("| a | b |\n|---|---|\n| 1 | 2 |", "a, b.\n\none, two."),
    ("snake_case", "snake case"),
    ("<b>bold</b> &amp; more", "bold and more"),
    # typography, brackets, symbols
    ("“Hi” — ‘you’…", "\"Hi\" — 'you'..."),
    ("wait--what", "wait — what"),
    ("(note) Prices rose again.", "note, Prices rose again."),
    ("The cat (a tabby) slept.", "The cat, a tabby, slept."),
    ("item(s)", "items"),
    ("What?!!", "What?"),
    ("ＡＢＣ　１２", "A B C twelve"),
    ("zero\u200bwidth\ufeff", "zerowidth"),
    ("C++ and C#", "C plus plus and C sharp"),
    ("Tom & Ann", "Tom and Ann"),
    ("and/or", "and or"),
    ('<script>alert("no");</script>Hello <b>there</b>.', "Hello there."),
    ("<style>\np { margin: 0 }\n</style>\n<p>Read me</p>", "Read me"),
    ("<html><head><title>Tab</title></head><body><h1>Top</h1></body></html>", "Top"),
    ("<!DOCTYPE html><section>One</section>", "One"),
    ('<label>Name <input type="text"></label>', "Name"),
    ("Use the <script> tag.", "Use the script tag."),
    ("<script>never closed", "script never closed"),
    ("Acme™", "Acme"),
    ("© 2024", "copyright twenty twenty-four"),
    ("I love it 😀!", "I love it!"),
    ("👍", "thumbs up sign"),
    ("itâ€™s", "it's"),
]  # fmt: skip


@pytest.mark.parametrize(("written", "spoken"), EXAMPLES)
def test_english_is_read_as_a_person_would(written: str, spoken: str) -> None:
    assert normalise(written, "en").text == spoken


@pytest.mark.parametrize("spoken", [spoken for _, spoken in EXAMPLES])
def test_spoken_text_is_left_alone(spoken: str) -> None:
    assert normalise(spoken, "en").text.rstrip(".") == re.sub("^Mr. ", "Mister ", spoken).rstrip(
        "."
    )


def test_a_sentence_full_of_dots_is_read_whole() -> None:
    text = (
        "The bill is $1,299.50, due 03/04/2026 at 5:30 p.m.; call 555-0142. "
        "Dr. J. R. Lee weighed 3.5 kg of e.g. 1/2 in. screws."
    )
    done = normalise(text, "en")
    assert done.text == (
        "The bill is one thousand two hundred ninety-nine dollars and fifty cents, due March "
        "fourth, twenty twenty-six at five thirty P M; call five five five, oh one four two. "
        "Doctor J R Lee weighed three point five kilograms of for example one half inch screws."
    )
    assert {"money", "date", "time", "phone", "unit", "abbreviation"} <= {
        c.kind for c in done.changes
    }


@pytest.mark.parametrize(
    ("language", "text"),
    [
        ("de", "Am 4. März 2026 kostete es 1.299,50 €."),
        ("fr", "Le prix est de 3,5 € (environ)."),
        ("ru", "Цена 5 рублей."),
    ],
)
def test_other_languages_keep_words_and_digits(language: str, text: str) -> None:
    words = re.findall(r"\w+", text)
    assert re.findall(r"\w+", normalise(text, language).text) == words


def test_wrapped_lines_are_joined_and_paragraphs_kept() -> None:
    text = (
        "This line was wrapped by an editor because it is long\nand goes on.\n\nNew one.\r\nShort"
    )
    assert normalise(text, "en").text == (
        "This line was wrapped by an editor because it is long and goes on.\n\nNew one.\nShort"
    )


def letters(text: str) -> Counter[str]:
    folded = unicodedata.normalize("NFKD", text).casefold()
    return Counter(unicodedata.normalize("NFKD", c)[0] for c in folded if c.isalnum())


@settings(derandomize=True, max_examples=150, deadline=None, database=None)
@given(
    st.lists(
        st.one_of(
            st.sampled_from([written for written, _ in EXAMPLES]),
            st.text(max_size=20),
            st.text(alphabet="aB1 .,-/:$%()[]*_#\n", max_size=20),
        ),
        max_size=6,
    ).map(" ".join),
    st.sampled_from(["en", "de"]),
)
def test_every_letter_is_said_or_in_a_recorded_change(text: str, language: str) -> None:
    done = normalise(text, language)
    kept = letters(done.text) + sum((letters(c.before) for c in done.changes), Counter())
    # Entities and broken encodings appear in changes as written, so nothing else may be missing.
    assert not letters(text) - kept


@pytest.mark.parametrize(
    ("text", "language", "said"),
    [
        ("3. Oktober war schön.", "de", None),
        ("Gestern.\n1. FC Köln gewinnt.", "de", None),
        ("2. Weltkrieg\n\n1. Mai", "de", "2, Weltkrieg.\n\n1, Mai."),  # as a list is written
        ("1. Brot kaufen\n2. Milch kaufen", "de", "1, Brot kaufen.\n2, Milch kaufen."),
        ("3) Milch kaufen", "de", "3, Milch kaufen."),
        ("5. juni er en fridag", "da", None),
        ("17. listopadu 1989", "cs", None),
        ("6. joulukuuta juhlitaan", "fi", None),
        ("3. pomme rouge", "fr", "3, pomme rouge."),
        ("3. Apples are red", "en", "three, Apples are red."),
    ],
)
def test_an_ordinal_begins_no_list_by_itself(text: str, language: str, said: str | None) -> None:
    assert normalise(text, language).text == (text if said is None else said)
