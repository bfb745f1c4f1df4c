"""Ways of writing that everyone meets: ranges, brackets, capitals, dates without a space."""

from __future__ import annotations

import pytest

from voxcli.text import normalise, prepare

AND_OR = [
    ("between 10,000 and 20,000 km", "between ten thousand and twenty thousand kilometers"),
    ("10,000 or 20,000 km", "ten thousand or twenty thousand kilometers"),
    ("sold 2,000 and 3,000 kg", "sold two thousand and three thousand kilograms"),
    ("5 or -5 °C", "five or minus five degrees Celsius"),
    ("from 10,000 to 20,000 km", "from ten thousand to twenty thousand kilometers"),
]  # fmt: skip
UNIT_RANGES = [
    ("9 a.m.-5 p.m.", "nine A M to five P M."),
    ("6:00 p.m.-7:30 p.m.", "six P M to seven thirty P M."),
    ("5°-10°C", "five degrees to ten degrees Celsius"),
    ("5 ft.-6 ft.", "five feet to six feet."),
    ("100 lb.–120 lb.", "one hundred pounds to one hundred twenty pounds."),
    ("It fell. -3 is low.", "It fell. minus three is low."),
]  # fmt: skip
UNSPACED_DATES = [
    ("Born May 5,1999.", "Born May fifth, nineteen ninety-nine."),
    ("July 4,1776", "July fourth, seventeen seventy-six"),
    ("Sept. 11,2001", "September eleventh, two thousand one"),
]  # fmt: skip


@pytest.mark.parametrize(("written", "spoken"), AND_OR)
def test_and_and_or_between_amounts_stay(written: str, spoken: str) -> None:
    assert normalise(written, "en").text == spoken


@pytest.mark.parametrize(("written", "spoken"), UNIT_RANGES)
def test_a_hyphen_after_a_unit_is_a_range(written: str, spoken: str) -> None:
    assert normalise(written, "en").text == spoken


@pytest.mark.parametrize(("written", "spoken"), UNSPACED_DATES)
def test_a_date_needs_no_space_before_its_year(written: str, spoken: str) -> None:
    assert normalise(written, "en").text == spoken


@pytest.mark.parametrize(
    ("written", "spoken"),
    [
        ("Press [1] for sales or [2] for help.", "Press, one, for sales or, two, for help."),
        ("Choose [a] or [b].", "Choose, a, or, b."),
        ("The answer is [42].", "The answer is, forty-two."),
        ("It took [2] days.", "It took, two, days."),
        ("The year was 19[45].", "The year was nineteen, forty-five."),
        ("Figure [2] shows it.", "Figure, two, shows it."),
        ("Question [7].", "Question, seven."),
        ("Seats [3] and [4] are free.", "Seats, three, and, four, are free."),
        ("my_list[1] = 5", "my list, one, equals five"),
        ("array[10]", "array, ten"),
        ("[1] First point. [2] Second point.", "one, First point. two, Second point."),
    ],
)
def test_a_bracket_that_counts_is_said(written: str, spoken: str) -> None:
    assert normalise(written, "en").text == spoken


@pytest.mark.parametrize(
    ("written", "spoken"),
    [
        ("It fell [3] because of rain.", "It fell because of rain."),
        ("It fell. [3] Then it rose.", "It fell. Then it rose."),
        ("It grew in 1998[3] again.", "It grew in nineteen ninety-eight again."),
        ("Some 5,000[4] came.", "Some five thousand came."),
    ],
)
def test_a_bracket_that_only_cites_is_not_said(written: str, spoken: str) -> None:
    assert normalise(written, "en").text == spoken


@pytest.mark.parametrize(
    ("written", "spoken"),
    [
        ("II. THE METHOD", "two. The method"),
        ("VII. THE END", "seven. The end"),
        ("THE END OF WORLD WAR II", "The end of world War two"),
        ("ROCKY IV IS ON TV", "Rocky four is on T V"),
        ("RICHARD III WINS", "Richard the third wins"),
        ("SUPER BOWL LVIII", "Super Bowl fifty-eight"),
        ("HENRY VIII AND HIS SIX WIVES", "Henry the eighth and his six wives"),
    ],
)
def test_a_numeral_in_a_line_of_capitals_is_a_number(written: str, spoken: str) -> None:
    assert normalise(written, "en").text == spoken


@pytest.mark.parametrize(
    ("written", "spoken"),
    [
        ("MET XI JINPING", "Met Xi jinping"),
        ("BIDEN MET XI JINPING IN BALI", "Biden Met Xi jinping in bali"),
        ("CHAPTER XI JINPING", "Chapter eleven jinping"),
        ("PART II", "Part two"),
        ("PARTS II AND III WIN", "Parts two and three win"),
        ("DR. KING JR. BLVD WALKS", "Doctor King Junior Boulevard walks"),
        ("SUNSET BLVD CLOSED TODAY", "Sunset boulevard closed today"),
        ("ST. PATRICK'S DAY", "Saint Patrick's day"),
        ("CHURCH OF ST. MARY", "Church of Saint Mary"),
        ("HE LIVES AT 5 ELM ST.", "He lives at five elm street."),
        ("ELM ST. IS CLOSED TODAY", "Elm street is closed today"),
        ("OAK RD. CLOSED AHEAD", "Oak road closed ahead"),
        (
            "SUNSET AVE. IS SHUT. USE ELM ST. INSTEAD.",
            "Sunset avenue is shut. Use elm street instead.",
        ),
        ("HE LEFT ELM ST. THE HOUSE IS OLD", "He left elm street. The house is old"),
        ("THE DR. WILL SEE YOU", "The doctor will see you"),
        ("THE DEPT. OF HEALTH IS OPEN", "The department of health is open"),
        ("APPROX. 5 MEN VS. THE WORLD", "Approximately five men versus the world"),
    ],
)
def test_names_and_short_forms_in_a_line_of_capitals_are_what_they_are_in_others(
    written: str, spoken: str
) -> None:
    assert normalise(written, "en").text == spoken


@pytest.mark.parametrize(
    ("written", "spoken"),
    [
        ("Thurston Howell III was rich.", "Thurston Howell the third was rich."),
        ("Winthrop Rockefeller IV", "Winthrop Rockefeller the fourth"),
        ("Jurassic Park III", "Jurassic Park three"),
        ("Mortal Kombat III", "Mortal Kombat three"),
        ("World Wars I and II", "World Wars one and two"),
        ("Volumes I–III", "Volumes one to three"),
        ("Parts I, II, and IV are here", "Parts one, two, and four are here"),
        ("Chapters IX through XII", "Chapters nine through twelve"),
        ("Kings Henry IV–VI", "Kings Henry the fourth to the sixth"),
        ("Henry VIII, IX and XI", "Henry the eighth, the ninth and the eleventh"),
        ("Part IV and I left", "Part four and I left"),
    ],
)
def test_numerals_of_people_and_of_several_parts(written: str, spoken: str) -> None:
    assert normalise(written, "en").text == spoken


@pytest.mark.parametrize(
    ("written", "spoken"),
    [
        ("10/10", "ten out of ten"),
        ("I give it 8/10.", "I give it eight out of ten."),
        ("Rated 4/5, it won.", "Rated four out of five, it won."),
        ("I got 95/100 on it", "I got ninety-five out of one hundred on it"),
        ("3/10 of a mile", "three tenths of a mile"),
        ("He rated 4/5 of them.", "He rated four fifths of them."),
        ("7/10 inch", "seven tenths inch"),
        ("①②③", "one two three"),
    ],
)
def test_marks_are_out_of_so_many_and_circled_figures_stand_alone(
    written: str, spoken: str
) -> None:
    assert normalise(written, "en").text == spoken


@pytest.mark.parametrize(
    ("written", "spoken"),
    [
        ("I'LL BE BACK", "I'll be back"),
        ("I’VE GOT IT", "I've got it"),
        ("YOU'RE ON", "You're on"),
        ("I CAN'T do that", "I can't do that"),
        ("AM I?", "Am I?"),
        ("DO IT", "Do it"),
        ("TELL US", "Tell us"),
        ("MR SMITH AND DR JONES WENT TO ST LOUIS",
         "Mister Smith and Doctor Jones went to Saint Louis"),
        ("FIG. 3", "Figure three"),
        ("DR. WHO", "Doctor who"),
        ("SENATE GOP", "Senate G O P"),
        ("the IT team of the US", "the I T team of the U S"),
    ],
)  # fmt: skip
def test_capitals_are_words_where_a_reader_says_words(written: str, spoken: str) -> None:
    assert normalise(written, "en").text == spoken


@pytest.mark.parametrize(
    ("language", "written", "spoken"),
    [
        ("en", "an exam\u00ad\nple", "an example"),
        ("de", "ein Bei\u00ad \n spiel", "ein Beispiel"),
        ("en", "ex\u00adam\u00adple", "example"),
        ("en", "a well\u00ad\nknown", "a wellknown"),
        ("fr", "peut-\nêtre", "peut-être"),
        ("fr", "dit-\nil", "dit-il"),
        ("fr", "une mai-\nson", "une maison"),
        ("ru", "кто-\nто", "кто-то"),
        ("ru", "из-\nза", "из-за"),
        ("ru", "по-\nлучить", "получить"),
        ("en", "the p-\nvalue", "the p-value"),
        ("en", "end-\nto-end", "end-to-end"),
        ("en", "a risk-\naverse man", "a risk-averse man"),
        ("en", "a time-\nconsuming task", "a time-consuming task"),
        ("en", "a time-\nly task", "a timely task"),
        ("en", "a NATO-\nled force", "a Nato-led force"),
    ],
)
def test_only_a_hyphen_of_the_word_stays_at_the_end_of_a_line(
    language: str, written: str, spoken: str
) -> None:
    assert normalise(written, language).text == spoken


def test_a_soft_hyphen_joins_where_nothing_else_is_rewritten() -> None:
    done = prepare("an exam\u00ad\nple", languages=("en",), max_chars=99, model="m", rewrite=False)
    assert done.text == "an example"


@pytest.mark.parametrize(
    ("written", "spoken"),
    [
        ('He said: "[W]e are here."', 'He said: "We are here."'),
        ("[T]he cat saw the[m] and cat[s].", "The cat saw them and cats."),
        ("colo(u)r and child(ren)", "colour and children"),
        ("an (un)happy end", "an unhappy end"),
        ("f(x) and sin(x)", "f of x and sin of x"),
        ("y[i] here", "y, i, here"),
    ],
)
def test_letters_an_editor_put_into_a_word_belong_to_it(written: str, spoken: str) -> None:
    assert normalise(written, "en").text == spoken


@pytest.mark.parametrize(
    ("written", "spoken"),
    [
        ("1_000_000", "one million"),
        ("12 345,67", "twelve thousand three hundred forty-five point six seven"),
        ("pages 5,6", "pages five, six"),
        ("the set [0,1]", "the set, zero, one"),
        ("Hi <#0.5#> there", "Hi there"),
        ("Hi [[slnc 500]] there", "Hi there"),
        ("[sad]Hello[/sad] you", "Hello you"),
    ],
)
def test_separators_and_directions_are_not_said(written: str, spoken: str) -> None:
    assert normalise(written, "en").text == spoken


@pytest.mark.parametrize(
    ("written", "spoken"),
    [
        ("Chapter 01", "Chapter one"),
        ("Part 02: The Sea", "Part two: The Sea"),
        ("Act 01, scene 010.", "Act one, scene ten."),
        ("Lesson 003", "Lesson three"),
        ("Section 01.2", "Section zero one point two"),
        ("Part 0815", "Part zero eight one five"),
        ("Agent 007", "Agent zero zero seven"),
        ("Counterpart 07", "Counterpart zero seven"),
    ],
)
def test_zeros_that_only_let_chapters_sort_are_not_said(written: str, spoken: str) -> None:
    assert normalise(written, "en").text == spoken


@pytest.mark.parametrize(
    ("written", "spoken"),
    [
        ("an A+ and a B-.", "an A plus and a B minus."),
        ("Plan A- the best", "Plan A- the best"),
        ("USB 3.2 Gen 2x2", "U S B three point two Gen two by two"),
        ("2 Kings and 1 John", "Second Kings and First John"),
        ("Rs. 5,000/- and ₹500/-", "five thousand rupees and five hundred rupees"),
        ("EUR/USD 1.08", "E U R slash U S D one point zero eight"),
        ("S&P 500 −1.2%", "S and P five hundred minus one point two percent"),
        ("10−12 km", "ten to twelve kilometers"),
        ("TL;DR: it works", "T L D R: it works"),
        ("late b/c of rain", "late because of rain"),
        ("→ Next", "Next"),
        ("A → B", "A to B"),
        ("T-10 seconds", "T minus ten seconds"),
        ("a T-34 tank", "a T-thirty-four tank"),
        ("shot at f/2.8", "shot at f two point eight"),
        ("$1.10 est. today", "one dollar and ten cents estimated today"),
        ("est. 1990", "established nineteen ninety"),
        ("•one\n•two", "one.\ntwo."),
    ],
)
def test_signs_and_short_forms_are_known_by_what_is_beside_them(written: str, spoken: str) -> None:
    assert normalise(written).text == spoken


@pytest.mark.parametrize(
    ("written", "spoken"),
    [
        ("My blood type is O-.", "My blood type is O negative."),
        ("AB+ blood and A- donors", "A B positive blood and A negative donors"),
        ("rated BBB- by S&P", "rated B B B minus by S and P"),
        ("from AA+ to AA- now", "from A A plus to A A minus now"),
        ("B+ in art, C- in math, D", "B plus in art, C minus in math, D"),
        ("Grade: B- (A-)", "Grade: B minus, A minus"),
        ("the A- and B-roads", "the A- and B-roads"),
        ("pre- and post-war, vitamin B- and C-rich", "pre- and post-war, vitamin B- and C-rich"),
        ("an A-rated bond and Plan B- the end", "an A-rated bond and Plan B- the end"),
    ],
)
def test_a_minus_behind_a_grade_or_a_type_of_blood_is_said(written: str, spoken: str) -> None:
    assert normalise(written, "en").text == spoken


@pytest.mark.parametrize("sign", ["+/-", "±", "+-", "-/+", "+/- ", "± "])
def test_plus_or_minus_has_many_writings(sign: str) -> None:
    assert normalise(f"It was {sign}3 %.", "en").text == "It was plus or minus three percent."
    assert normalise(f"5 {sign}2 mm", "en").text == "five plus or minus two millimeters"


@pytest.mark.parametrize(
    ("written", "spoken"),
    [
        ("20~30 people", "twenty to thirty people"),
        ("20～30 people", "twenty to thirty people"),
        ("$20~$30", "twenty dollars to thirty dollars"),
        ("10%~20%", "ten to twenty percent"),
        ("5 km ~ 6 km", "five kilometers to six kilometers"),
        ("-5°C~-3°C", "minus five degrees Celsius to minus three degrees Celsius"),
        ("9:00~11:30", "nine o'clock to eleven thirty"),
        ("~30 people and x ~ 5", "about thirty people and x about five"),
        ("in ~/x and v~1", "in tilde slash x and v one"),
    ],
)
def test_a_wave_between_numbers_is_a_range(written: str, spoken: str) -> None:
    assert normalise(written, "en").text == spoken


@pytest.mark.parametrize(
    ("written", "spoken"),
    [
        ("It was at - 40 degrees.", "It was at minus forty degrees."),
        ("down to – 5 °C", "down to minus five degrees Celsius"),
        ("It is - 5 ℃ now.", "It is minus five degrees Celsius now."),
        ("from - 5 to 5", "from minus five to five"),
        ("The answer is - 5.", "The answer is minus five."),
        ("x = - 5 and (- 3)", "x equals minus five and, minus three"),
        ("between -5 and - 2", "between minus five and minus two"),
        ("I fell - oh - to - 40 degrees.", "I fell — oh — to minus forty degrees."),
        ("He is - or was - 40.", "He is — or was — forty."),
        ("It was cold - 40 degrees.", "It was cold — forty degrees."),
        ("He left - 40 people stayed.", "He left — forty people stayed."),
        ("what he dreamed of - 10 dogs", "what he dreamed of — ten dogs"),
        ("pages 10 - 12", "pages ten to twelve"),
    ],
)
def test_a_sign_may_stand_apart_from_its_number(written: str, spoken: str) -> None:
    assert normalise(written, "en").text == spoken


@pytest.mark.parametrize("language", ["en", "de", "es"])
@pytest.mark.parametrize("mark", ["-", "–", "—", "– ", "— ", "+", "*"])
def test_items_glued_to_their_marks_are_items(mark: str, language: str) -> None:
    text = f"{mark}milk\n{mark}eggs\n{mark}bread"
    assert normalise(text, language).text == "milk.\neggs.\nbread."


@pytest.mark.parametrize(
    "text", ["-5\n-3", "foo\n-bar", "-v on\n-q off", "*bold*\n*word*", "1990\n–1995"]
)
def test_lines_that_only_begin_with_a_sign_are_no_items(text: str) -> None:
    assert "." not in normalise(text, "en").text


def test_both_speakers_of_a_dialogue_are_read_without_their_dashes() -> None:
    assert normalise("—Hola.\n—¿Qué tal?", "es").text == "Hola.\n¿Qué tal?"
    assert normalise("– Bonjour.\n– Salut.", "fr").text == "Bonjour.\nSalut."


@pytest.mark.parametrize(
    ("written", "spoken"),
    [
        # a cell of a table, then a number below zero
        ("2023 310 -1.5%", "twenty twenty-three three hundred ten minus one point five percent"),
        ("S&P 500 -1.2%", "S and P five hundred minus one point two percent"),
        ("10-12%, 10 -12%", "ten to twelve percent, ten to twelve percent"),
        # what follows words in brackets is no sum
        ("the old one (from Rome) - 2nd try", "the old one, from Rome, — second try"),
        ("(a + b) - 3", "a plus b, minus three"),
        # versions
        ("from 2.x to 3.0-rc.1", "from two point x to three point zero R C one"),
        ("see error.log.1", "see error.log.one"),
        ("v1.2.3-beta.2", "version one point two point three beta two"),
        # names of invoices are no hashtags
        ("#INV-2024-0042", "number I N V, twenty twenty-four, zero zero four two"),
        ("#BlueSky and #covid-19", "hashtag Blue Sky and hashtag covid one nine"),
        # amounts
        ("€1.200,-", "one thousand two hundred euros"),
        ("1.400,— €", "one thousand four hundred euros"),
        ("$9.99/ea. now", "nine dollars and ninety-nine cents each now"),
        ("up 8.3% y/y", "up eight point three percent year over year"),
        # dates
        ("due 30/09", "due the thirtieth of September"),
        ("from 1493 to 1479 BC", "from fourteen ninety-three to fourteen seventy-nine B C"),
        ("Open Mon.–Fri. 8:30", "Open Monday to Friday eight thirty"),
        ("He came Mon.–Fri. He left.", "He came Monday to Friday. He left."),
        # units
        ("3x/day for 2x a week", "three times per day for two times a week"),
        ("410 lb-ft", "four hundred ten pound feet"),
        ("30.1 inHg", "thirty point one inches of mercury"),
        ("291 yds., then", "two hundred ninety-one yards, then"),
        ("a 50' x 120' lot", "a fifty feet by one hundred twenty feet lot"),
        ("pandas>=2.0,<3", "pandas is at least two point zero, less than three"),
        # what is calculated
        ("f'(x) = 2x, f''(x) = 2", "f prime of x equals two x, f double prime of x equals two"),
        ("n·(n-1) and x·y", "n times, n minus one, and x times y"),
        ("= n(n+1)/2", "equals n, n plus one, over two"),
        ("the (old)/new one", "the, old, slash new one"),
        ("|-5| = 5", "absolute value of minus five equals five"),
        ("∛27", "cube root of twenty-seven"),
        ("∑_{i=1}^n i", "sum from i equals one to n of i"),
        ("x**2 and **2**", "x squared and two"),
        ("if x % 2 == 0", "if x mod two equals zero"),
        ("a % of it", "a percent of it"),
        ("up 2 1/2%", "up two and a half percent"),
        # signs that were lost, and numbers with letters
        ("6'2\" / 88 cm", "six foot two slash eighty-eight centimeters"),
        ("95 lb. / 88 kg", "ninety-five pounds slash eighty-eight kilograms"),
        ("Dear Mr./Ms. Smith", "Dear Mister or Miz Smith"),
        ("n=50/group", "n equals fifty per group"),
        ("350 kcal/serving", "three hundred fifty kilocalories per serving"),
        ("b/w 9 and 5, w/in 2 mi.", "between nine and five, within two miles."),
        ("1.2M displaced, 3M users", "one point two million displaced, three million users"),
        ("300K+ homes", "three hundred thousand plus homes"),
        ("the 3M company and a 2B pencil", "the three M company and a two B pencil"),
        ("1 of 1,000s", "one of thousands"),
        ("a 1:50,000 map", "a one to fifty thousand map"),
        ("Apt #4B", "Apartment number four B"),
        ("00:1A:2B:3C:4D:5E", "zero zero, one A, two B, three C, four D, five E"),
        ("lineage B.1.1.7 then", "lineage B point one point one point seven then"),
        ("main.py:42", "main dot P Y: forty-two"),
        ("1) Open it 2) Tap \"Go\" 3) Wait", "one, Open it, two, Tap \"Go\", three, Wait."),
        ("press *67, then 9#.", "press star sixty-seven, then nine pound."),
        ("File > Save As", "File, Save As"),
        ("X > Y", "X is greater than Y"),
        ("$1.5–2.5M", "one point five to two point five million dollars"),
        ("1.5x–2x", "one point five x to two x"),
        ("4K/8K and Eq. (3)", "four K slash eight K and Equation, three"),
        ("5㎏", "five kilograms"),
        # lines stay lines
        ("Budget (v2)\nDate: now", "Budget, version two\nDate: now"),
        ("name: test\nversion: 2", "name: test\nversion: two"),
        ("+--+--+\n| a | b |\n+--+--+", "a, b."),
        ("=== RUN Foo\n== Title ==", "run Foo\nTitle"),
        ("It has 2) twice", "It has two, twice"),
    ],
)  # fmt: skip
def test_what_strangers_wrote_is_read(written: str, spoken: str) -> None:
    assert normalise(written, "en").text == spoken


def test_lettered_lines_are_items_where_a_neighbour_is_one() -> None:
    assert normalise("a) First\nb) Second").text == "a, First.\nb, Second."
    assert normalise("(a) First\n(b) Second").text == "a, First.\nb, Second."
    assert normalise("J. Smith\nK. Lee").text == "J Smith.\nK Lee"
    assert normalise("a) only one").text == "a, only one"


@pytest.mark.parametrize(
    ("written", "spoken"),
    [
        ("Up +123.45 points.", "Up plus one hundred twenty-three point four five points."),
        ("+45.67", "plus forty-five point six seven"),
        ("+1.25 (+0.5%)", "plus one point two five, plus zero point five percent"),
        ("+12.30, +3.1415", "plus twelve point three zero, plus three point one four one five"),
        ("+212.33 (0.5%)", "plus two hundred twelve point three three, zero point five percent"),
        ("+1 555.123.4567", "plus one, five five five, one two three, four five six seven"),
        ("+49.30.123456", "plus four nine, three oh, one two three four five six"),
        ("+44 20 7946 0958", "plus four four, two oh, seven nine four six, oh nine five eight"),
    ],
)  # fmt: skip
def test_a_plus_and_one_point_are_an_amount_and_no_telephone(written: str, spoken: str) -> None:
    assert normalise(written, "en").text == spoken


@pytest.mark.parametrize(
    ("written", "spoken"),
    [
        ("The crowd (12,500) cheered.", "The crowd, twelve thousand five hundred, cheered."),
        ("It was (5,000) in May.", "It was, five thousand, in May."),
        ("(3,450)", "three thousand four hundred fifty"),
        ("f(1,000)", "f, one thousand"),
        ("the point (3,4) or (0,100)", "the point, three, four, or, zero, one hundred"),
        ("(10,20) and f(2,3)", "ten, twenty, and f, two, three"),
        ("a{2,5}", "a, two, five"),
        (r"\d{1,3}", "backslash d, one, three"),
    ],
)
def test_a_comma_in_brackets_lists_or_parts_thousands(written: str, spoken: str) -> None:
    assert normalise(written, "en").text == spoken


@pytest.mark.parametrize(
    ("written", "spoken"),
    [
        ("Sale 9/5-9/12.", "Sale September fifth to September twelfth."),
        ("10/31-11/2", "October thirty-first to November second"),
        ("Rest 7/4-7/10 in Maine.", "Rest July fourth to July tenth in Maine."),
        ("Open from 3/1 to 5/31.", "Open from March first to May thirty-first."),
        ("from 12/1 through 12/24", "from December first through December twenty-fourth"),
        ("Due by 4/15.", "Due by April fifteenth."),
        ("received by 4/15, since 4/15", "received by April fifteenth, since April fifteenth"),
        ("Closed 12/25 & 1/1.", "Closed December twenty-fifth and January first."),
        ("Sign up by 9/1.", "Sign up by September first."),
        ("7/4 at 5pm", "July fourth at five P M"),
        ("Meet 3/4 at noon", "Meet March fourth at noon"),
        # fractions stay
        ("3/4 cup", "three quarters cup"),
        ("1/2 in. wide", "one half inch wide"),
        ("1/4 to 1/2 cup", "one quarter to one half cup"),
        ("from 1/2 to 3/4 of it", "from one half to three quarters of it"),
        ("Increase by 1/3.", "Increase by one third."),
        ("reduced by 1/20", "reduced by one twentieth"),
        ("Use 1/2 at a time.", "Use one half at a time."),
        ("Sale 1/2 off", "Sale one half off"),
        ("since 9/11", "since nine eleven"),
        ("a ratio of 9/5 to 5/4", "a ratio of nine fifths to five quarters"),
        ("5/8-3/4 in. thick", "five eighths, three quarters inch thick"),
        ("from 3/16 to 1/8", "from three sixteenths to one eighth"),
        ("rated 9/10 to 10/10", "rated nine out of ten to ten out of ten"),
        ("No. 12/2019", "number twelve slash twenty nineteen"),
        ("Rule No. 1/2003", "Rule number one slash two thousand three"),
        ("in 12/2019", "in December twenty nineteen"),
    ],
)
def test_two_days_or_a_day_beside_its_word_are_dates(written: str, spoken: str) -> None:
    assert normalise(written, "en").text == spoken


@pytest.mark.parametrize(
    ("written", "spoken"),
    [
        ("20s and 30s were hard.", "twenties and thirties were hard."),
        ("in the 20s, 30s and 40s", "in the twenties, thirties and forties"),
        ("in their 20s, 30s, and 40s", "in their twenties, thirties, and forties"),
        ("age 30s, ages 20s-30s", "age thirties, ages twenties to thirties"),
        ("wait 30s and 40s", "wait thirty seconds and forty seconds"),
        ("It took 10s, 20s.", "It took ten seconds, twenty seconds."),
        ("15s, 20s and 30s", "fifteen seconds, twenty seconds and thirty seconds"),
        ("timeout 30s to 60s", "timeout thirty seconds to sixty seconds"),
        ("three 30s clips in 20s", "three thirty second clips in twenty seconds"),
        ("two 5s and three 10s", "two fives and three tens"),
        ("all 7s, a pair of 8s", "all sevens, a pair of eights"),
        ("Roll 6s. Straight 9s.", "Roll sixes. Straight nines."),
        ("2 x 4s", "two by fours"),
        ("two 5s delays, then 3s.", "two five second delays, then three seconds."),
        ("my iPhone 5s, now", "my iPhone five S, now"),
        ("in 5s, 5s-10s", "in five seconds, five seconds to ten seconds"),
    ],
)
def test_figures_with_an_s_are_decades_or_plurals_unless_they_last(
    written: str, spoken: str
) -> None:
    assert normalise(written, "en").text == spoken


@pytest.mark.parametrize(
    ("written", "spoken"),
    [
        # a letter and a colon are a label
        ("H:80 L:60", "H: eighty L: sixty"),
        ("Size S: 5 M: 7 L: 9", "Size S: five M: seven L: nine"),
        ("s: 5 m: 7", "s: five m: seven"),
        ("It took 5 s: 3 for A", "It took five seconds: three for A"),
        ("Run 5 km: 3 times", "Run five kilometers: three times"),
        # what an expression excludes is no note
        ("Match [^abc] here.", "Match, caret abc, here."),
        ("See[^1] this.[^note] [^2]", "See this."),
        ("One [^n] more.\n\n[^n]: A note.", "One more.\n\nA note."),
        # hearts, and numbers that something is less than
        ("I love you <3 <3", "I love you"),
        ("I <3 you", "I love you"),
        ("if a <3 then", "if a is less than three then"),
        ("x <3 and a <5 minute walk", "x is less than three and a less than five minute walk"),
        # half of a day by one letter
        ("6-7p.", "six to seven P M."),
        ("9a to 5p.", "nine A M to five P M."),
        ("8:30a-5p", "eight thirty A M to five P M"),
        ("6-7p each, costs 5p.", "six, seven pence each, costs five pence."),
        ("from 5p to 7p", "from five pence to seven pence"),
        # signs
        ("Nº 5 and N° 7", "number five and number seven"),
        ("25° N", "twenty-five degrees north"),
        ("C:/Program Files (x86)/Steam", "C: slash Program Files, x eighty-six, slash Steam"),
        ("(n + 1)/2", "n plus one, over two"),
        ("← Back to home", "Back to home"),
        ("A ← B", "A from B"),
    ],
)
def test_small_signs_are_what_their_place_makes_them(written: str, spoken: str) -> None:
    assert normalise(written, "en").text == spoken


@pytest.mark.parametrize(
    ("written", "spoken"),
    [
        # ratings and types of blood
        ("Fitch A-.", "Fitch A minus."),
        ("Rated A-.", "Rated A minus."),
        ("A- from Fitch", "A minus from Fitch"),
        ("Rh- or Rh+", "R H negative or R H positive"),
        ("AB-", "A B negative"),
        ("A+ve", "A positive"),
        ("an A-okay B-road", "an A-okay B-road"),
        # what is below zero or taken away
        ("2n-1", "two n minus one"),
        ("(-∞, 0)", "minus infinity, zero"),
        ("-(-3), 5-(-3)", "minus, minus three, five minus, minus three"),
        ("f(-x) and f(-2)", "f of minus x and f of minus two"),
        ("x-1, 4a-1, 2x-3x", "x-one, four a-one, two x to three x"),
        # marks and rates
        ("4.5/5 stars", "four point five out of five stars"),
        ("8.5/10", "eight point five out of ten"),
        ("8/day, 3/week", "eight per day, three per week"),
        ("3/4 day", "three quarters day"),
        # a day of twenty-four hours
        ("0745 hrs", "oh seven forty-five hours"),
        ("2200 hrs", "twenty-two hundred hours"),
        ("06:00 hrs", "oh six hundred hours"),
        ("100 hrs", "one hundred hours"),
        # names of things, and ranges of them
        ("Table 4-1", "Table four dash one"),
        ("Fig. 3-2", "Figure three dash two"),
        ("Section 2-5", "Section two dash five"),
        ("Sections 2-5, Chapters 4-6", "Sections two to five, Chapters four to six"),
        # signs of programs
        ("2>&1", "two greater than ampersand one"),
        ('5 !== "5"', 'five is not equal to "five"'),
        ("a === b", "a equals b"),
    ],
)
def test_signs_beside_letters_and_figures_lose_nothing(written: str, spoken: str) -> None:
    assert normalise(written, "en").text == spoken
