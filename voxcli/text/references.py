"""English: numbers that point: verses and ratios.

A colon between numbers is a verse after the name of a book and a ratio beside the words for one;
times are recognised after them. Knows no text that is pointed at.
"""

from __future__ import annotations

import re

from voxcli.text.patterns import pattern_of
from voxcli.text.spell import cardinal, number, ordinal
from voxcli.text.tagger import CAPITAL, DIGIT, InWord, Recogniser, led

_BOOKS = {
    "Gen": "Genesis", "Ex": "Exodus", "Exod": "Exodus", "Lev": "Leviticus", "Num": "Numbers",
    "Deut": "Deuteronomy", "Josh": "Joshua", "Judg": "Judges", "Sam": "Samuel", "Kgs": "Kings",
    "Chr": "Chronicles", "Chron": "Chronicles", "Neh": "Nehemiah", "Esth": "Esther", "Ps": "Psalm",
    "Pss": "Psalms", "Prov": "Proverbs", "Eccl": "Ecclesiastes", "Isa": "Isaiah", "Jer": "Jeremiah",
    "Lam": "Lamentations", "Ezek": "Ezekiel", "Dan": "Daniel", "Hos": "Hosea", "Mic": "Micah",
    "Hab": "Habakkuk", "Zeph": "Zephaniah", "Hag": "Haggai", "Zech": "Zechariah", "Mal": "Malachi",
    "Matt": "Matthew", "Mt": "Matthew", "Mk": "Mark", "Lk": "Luke", "Jn": "John",
    "Rom": "Romans", "Cor": "Corinthians", "Gal": "Galatians", "Eph": "Ephesians",
    "Phil": "Philippians", "Col": "Colossians", "Thess": "Thessalonians", "Tim": "Timothy",
    "Tit": "Titus", "Heb": "Hebrews", "Jas": "James", "Pet": "Peter", "Rev": "Revelation",
}  # fmt: skip
_WHOLE = [
    "Genesis",
    "Exodus",
    "Leviticus",
    "Numbers",
    "Deuteronomy",
    "Joshua",
    "Judges",
    "Ruth",
    "Samuel",
    "Kings",
    "Chronicles",
    "Ezra",
    "Nehemiah",
    "Esther",
    "Job",
    "Psalm",
    "Psalms",
    "Proverbs",
    "Ecclesiastes",
    "Isaiah",
    "Jeremiah",
    "Lamentations",
    "Ezekiel",
    "Daniel",
    "Hosea",
    "Joel",
    "Amos",
    "Obadiah",
    "Jonah",
    "Micah",
    "Nahum",
    "Habakkuk",
    "Zephaniah",
    "Haggai",
    "Zechariah",
    "Malachi",
    "Matthew",
    "Mark",
    "Luke",
    "John",
    "Acts",
    "Romans",
    "Corinthians",
    "Galatians",
    "Ephesians",
    "Philippians",
    "Colossians",
    "Thessalonians",
    "Timothy",
    "Titus",
    "Philemon",
    "Hebrews",
    "James",
    "Peter",
    "Jude",
    "Revelation",
    "Wisdom",
    "Sirach",
    "Quran",
    "Qur'an",
    "Koran",
    "Surah",
    "Sura",
    "Gita",
]
_BOOK = (
    r"(?P<book>Song of Solomon|Song of Songs|"
    rf"{'|'.join(sorted((*_BOOKS, *_WHOLE), key=len, reverse=True))})"
)
_PLACE = r"\d{1,3}(?::\d{1,3}[a-c]?)?"
_VERSE = pattern_of(
    rf"(?<!\w)(?:(?P<nth>[123]|I{{1,3}})\s?)"
    rf"?{_BOOK}\.?\s(?P<place>\d{{1,3}}:\d{{1,3}}[a-c]?(?:(?:\s?[-–—]\s?|,\s?|"
    rf";\s?){_PLACE}(?!\s[A-Z])){{0,6}})(?P<ff>ff?\b\.?)?(?!\w|:\d)"
)
# Those of which there are several; "3.2 Gen 2" is none.
_NUMBERED_BOOK = (
    r"(?P<book>Samuel|Sam|Kings|Chronicles|Chron|Corinthians|Cor|Thessalonians|Thess|Timothy|Tim|"
    r"Peter|Pet|John|Jn)"
)
_BOOK_CHAPTER = pattern_of(rf"(?<![\w.,/$-])(?P<nth>[123])\s{_NUMBERED_BOOK}\.?(?=\s\d|\b)")
_SHORT_BOOK = pattern_of(
    r"(?<!\w)(?P<book>Gen|Exod|Lev|Deut|Josh|Judg|Ps|Pss|Prov|Eccl|Isa|Jer|Ezek|Matt|Rom|Gal|"
    r"Eph|Heb|Rev)\.\s(?=\d)"
)
_RATIO = pattern_of(
    r"(?<![\w.:])(?<!\d,)\d{1,9}(?:,\d{3})"
    r"{0,3}(?:\.\d+)?(?::\d{1,9}(?:,\d{3}){0,3}(?:\.\d+)?){1,4}(?!\w|:\S|\.\d)"
)
_SCALED_DOWN = pattern_of(r"(?<![\w.:,])1:\d{1,3}(?:,\d{3}){1,2}(?![\w:,.]*\d)")  # of a map
_RATIO_BY = pattern_of(
    r"(?:dilute|ratio|scale|odds|aspect|score[ds]?|won|lost|beat|mix(?:ed)?|proportions?|"
    r"dilution|diluted)"
    r"(?:\s(?:of|at|is|was|in|by|to|the|a|it|them|about|from|up)){0,2}\s",
    re.I,
)


def _numbers(text: str) -> str:
    """ "13:4-8, 11" is "thirteen, four to eight, eleven"."""
    said = re.sub(r"\s?[-–—]\s?", " to ", text)
    said = re.sub(r"\s?[:,;]\s?", ", ", said)
    said = re.sub(r"(?<=\d)[a-c]", lambda m: f" {m.group().upper()}", said)
    return re.sub(r"\d+", lambda m: cardinal(int(m.group())), said)


def _book(match: re.Match[str]) -> str:
    nth = match.groupdict().get("nth") or ""
    lead = ordinal(len(nth) if nth[:1] == "I" else int(nth)).capitalize() + " " if nth else ""
    return f"{lead}{_BOOKS.get(match['book'], match['book'])}"


def _verse(match: re.Match[str]) -> str:
    following = " and following" if match["ff"] else ""
    return f"{_book(match)} {_numbers(match['place'])}{following}"


def _ratio(match: re.Match[str]) -> str:
    return " to ".join(map(number, match.group().split(":")))


def _ratio_first(match: re.Match[str]) -> str | None:
    after = re.compile(
        r"(?:\s|-)(?:ratio|aspect|odds|mix|scale|screen|display|monitor|dilution|video|format)\b"
    )
    if not (led(match, _RATIO_BY) or after.match(match.string, match.end())):
        return None
    return _ratio(match)


REFERENCES = (
    Recogniser("number", "0", _SCALED_DOWN, _ratio, ":,", InWord(r"1:\d+,", ":,0")),
    Recogniser("number", CAPITAL + DIGIT, _VERSE, _verse, ":"),
    Recogniser("number", DIGIT, _BOOK_CHAPTER, _book, search=pattern_of(r"\b[123] [A-Z]")),
    Recogniser(
        "number",
        CAPITAL,
        _SHORT_BOOK,
        lambda m: f"{_BOOKS[m['book']]} ",
        DIGIT + ".",
        InWord(r"\b[A-Z][a-z]{1,4}\.\Z", ".A"),
    ),
    Recogniser("number", DIGIT, _RATIO, _ratio_first, ":"),
)
RATIOS = (Recogniser("number", DIGIT, _RATIO, _ratio, ":"),)
