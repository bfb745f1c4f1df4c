"""English: Roman numerals of chapters, headings, kings, things and years.

A numeral is known by what stands before it; one letter alone is a number only where letters are
not used as well. Knows no history: the names of rulers are a closed list.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import lru_cache

from voxcli.text import lexicon
from voxcli.text.characters import RAISED
from voxcli.text.patterns import pattern_of
from voxcli.text.spell import cardinal, ordinal, roman, year
from voxcli.text.tagger import CAPITAL, SMALL, InWord, Recogniser
from voxcli.text.words import SENTENCE_STARTERS

_ENDS = rf"[{RAISED}]{{0,3}}(?!\w|['’]\w\w|['’][a-rt-z]|-\w)"  # with a mark of a note, not said
_COUNTED = (
    "Chapter|Part|Volume|Vol\\.|Book|Act|Scene|Section|Figure|Fig\\.|Table|Appendix|War|Phase|"
    "Level|Round|Bowl|"
    "Article|Title|Unit|Stage|Mark|Episode|Class|Type|Annex|Tier|Division|Canto|Psalm|Schedule|"
    "Category|Grade|Group|Factor|Factors|Species|Chapters|Parts|Books|Acts|Sections|Amendment|"
    "Olympiad|Corps|"
    "Legion|Lesson|Exercise|Question|Problem|Theorem|Season|Series|Step|Day|Week|Line|Order|"
    "Method|Quantum|Stages"
)
_SHORT = {
    "vol": "volume", "ch": "chapter", "pt": "part", "bk": "book", "art": "article",
    "sec": "section", "amend": "amendment", "mvt": "movement", "fig": "figure", "chap": "chapter",
    "app": "appendix",
}  # fmt: skip
_SHORTENED = "(?i:" + "|".join(_SHORT) + ")\\."
_COUNTED_CAPITALS = _COUNTED.upper().replace("\\.", "")
_COUNTED_WORD = pattern_of(rf"(?:{_COUNTED_CAPITALS})S?")
# Between two numerals of one word: "Parts I, II and IV", "Chapters IX–XII".
_LINK = r"(?:,\s(?:and\s)?|\s?[-–]\s?|\s(?:and|to|or|through)\s)"
_LINKED = pattern_of(rf"(?P<link>{_LINK})(?P<roman>[IVXLC]+)")
_LETTERED = frozenset(["appendix", "annex", "exhibit", "schedule"])
_NUMBERED = pattern_of(
    rf"(?<!\w)(?P<word>{_SHORTENED}|(?:{_COUNTED})s?|(?:{_COUNTED_CAPITALS})S?|(?:chapter|part|"
    r"volume|book|act|"
    r"scene|section|figure|table|phase|type|stage|class|level|grade|article|"
    rf"appendix)s?(?=\s[IVXLC]{{1,7}}\b))"
    rf"\s(?P<roman>[IVXLCDM]{{1,8}})(?P<others>(?:{_LINK}(?!I(?!\w))[IVXLC]{{1,7}}(?!\w)){{0,8}})"
    rf"(?P<point>\.\d{{1,2}}(?!\d))?{_ENDS}"
)
_RULERS = (
    "Henry|Louis|George|Elizabeth|Charles|Edward|William|James|Richard|Philip|Pius|Napoleon|"
    "Catherine|Nicholas|Frederick|Alexander|John Paul|Benedict|Leo|Gregory|Innocent|Clement|"
    "Ramesses|Ramses|Rameses|Ptolemy|Gustav|Christian|Ivan|Peter|Otto|Mehmed|Wilhelm|Darius|"
    "Xerxes|Artaxerxes|Cyrus|Cambyses|Seti|Thutmose|Amenhotep|Mentuhotep|Cleopatra|Antiochus|"
    "Seleucus|Philippe|Ferdinand|Alfonso|Pedro|Juan Carlos|Felipe|Carlos|Charlemagne|Umberto|"
    "Victor Emmanuel|Franz Joseph|Maximilian|Rudolf|Leopold|Albert|Baudouin|Mary|Anne|Robert|"
    "Alexius|Constantine|Theodosius|Justinian|Basil|Murad|Selim|Suleiman|Bayezid|Abdul Hamid|"
    "Paul|Urban|Boniface|Sixtus|Julius|Adrian|Celestine|Honorius|Eugene|Nicholas|Stephen|Boris|"
    "Sigismund|Casimir|Haakon|Olav|Harald|Magnus|Canute|Eric|Oscar|Margrethe|Beatrix|Joseph|Maria|"
    "Bela|Béla|Mithridates|Tiglath-Pileser|Sargon|Ashurbanipal|Shalmaneser|Nebuchadnezzar|"
    "Menelik|Haile|"
    "Theodoric|Clovis|Pepin|Hugh|Lothair|Conrad|Tuthmosis|Senusret|Pepi|Akbar|Rama|Chulalongkorn"
)
_RULER = pattern_of(
    r"(?<!\w)(?P<word>(?:King|Queen|Pope|Emperor|Empress|Tsar|Czar|Prince|Sultan|Pharaoh|"
    rf"Kaiser) (?:[A-Z][a-zéë]{{2,15}})(?: [A-Z][a-z]{{2,15}})?|{_RULERS}) "
    rf"(?P<roman>[IVX]{{2,6}}|[VX]|I(?=['’]s|\s(?!(?:am|have|will|would|can|could|think|know|"
    r"guess|believe|mean|feel|want|see|say|do|did|like|love|need|shall|should|must|may|might|"
    r"hope|wish|wonder|don|just|really)\b)[a-z]{2}|\s(?:of|was|ruled|reigned|"
    r"died|became|and [A-Z]\w+|had|and [a-z])\b|[,.;:)]|\s?$))"
    rf"(?P<others>(?:{_LINK}[IVX]{{2,6}}(?!\w)){{0,8}}){_ENDS}"
)
_HEIR = pattern_of(
    rf"(?<!\w)(?P<word>[A-Z][a-z]{{1,15}} (?:[A-Z]\. ){{1,2}}[A-Z][a-z]{{2,15}},?|(?:[Mm]r|"
    rf"[Dd]r|Sir|Lord|Senator|Captain|Professor)\.? (?:[A-Z][a-z]{{1,15}} )?[A-Z][a-z]{{1,15}}|"
    rf"(?:John|Thomas|Robert|Harry|Davis|Sam|Samuel) (?:[A-Z][a-z]{{2,15}})|"
    rf"Sam),? (?P<roman>II|III|IV){_ENDS}"
)
# "Thurston Howell III", where no word is one that a title has, such as "Iron Man III".
_PERSON = pattern_of(
    rf"(?<!\w)(?<![A-Z][a-z] )(?P<word>[A-Z][a-z]{{2,15}} [A-Z][a-z]{{2,15}},?) "
    rf"(?P<roman>II|III|IV){_ENDS}"
)
# After "page" and the like small letters count as well.
_SMALL_NUMERAL = pattern_of(
    r"(?<!\w)(?P<word>(?i:pages?|pp?\.|scene|chapter|act|book|part|canto|psalm|section|volume))"
    r"\s(?P<roman>[ivxl]{2,7}|(?<=age )[ivx]|(?<=\. )[ivx])(?:[-–](?P<second>[ivxl]{1,7}))?"
    r"(?!\w|['’])"
)
_SMALL_ITEM = pattern_of(
    r"(?:(?<!.)|(?<=\s\()|(?<!.\()(?<=\())(?P<roman>[ivx]{1,6})(?=\))", re.MULTILINE
)
_YEAR_NUMERAL = pattern_of(r"(?<![\w.])(?P<roman>M[MDCLXVI]{3,12})(?!\w|['’]\w)")
_WORLD_WAR = pattern_of(r"(?<!\w)WW(?P<roman>I{1,3})(?P<rest>['’]s)?(?!\w)")
_NTH = pattern_of(r"(?<!\w)(?P<roman>(?!I[a-z])[IVX]{1,8}|[LC][IVXLC]{1,7})(?:th|st|nd|rd)(?!\w)")
_CENTURY = pattern_of(
    r"(?<!\w)(?P<roman>[IVX]{1,5})(?P<word> (?:century|centuries|Century|"
    r"Olympi[a-z]{1,8}|Congress|Legion|Corps|Army|Dynasty|dynasty))"
)
# A numeral that opens a line, as a heading does: with a stop and a title, or alone.
_HEADING = pattern_of(
    r"(?:(?<=\n)|(?<!.))(?P<roman>[IVXLC]{1,8})(?P<stop>\.(?=\s[A-Z][\w'’-]*(?:[ :,-]|\.?$|"
    r"\.?\n))|\)(?=\s\w)|(?=\.?[ \t]*(?:$|\n))|(?=:\s[A-Z])|(?= [-–—] [A-Z]))",
    re.MULTILINE,
)
_DASHED = pattern_of(r":\s[A-Z]| [-–—] [A-Z]")
_TITLE_LINE = pattern_of(r"\.\s[A-Z][^\n.!?]{0,60}(?:\.?(?:\n|$)|[:–—])")
# "V. Putin spoke.": a surname and a comma, or a sentence that goes on with no word of titles.
_SURNAME = pattern_of(
    rf"\.\s(?!(?:{'|'.join(map(re.escape, SENTENCE_STARTERS))})\b)[A-Z][\w'’-]+(?:,\s[a-z]|\s"
    r"(?!(?:of|and|or|in|on|for|to|the|a|an|with|from|by|at|as|is|are)\b)[a-z][^\n.!?]{0,80}[.!?])"
)
_SURE_HEADING = pattern_of(r"^(?:I{2,3}|IV|VI{0,3}|IX|XI{0,3})\.\s[A-Z]", re.MULTILINE)
# After a name that no list has: "Final Fantasy VII", "Rocky IV", "Apollo XI".
_NAMED = pattern_of(
    rf"(?P<roman>[IVX]{{2,7}}|V(?=\s[a-z]|[,;:!?)]|\.?\s*$)|L[IVX]{{2,6}}|X[LC][IVX]{{1,5}}){_ENDS}"
)
_NAME_BEFORE = pattern_of(r"(?:^|[^\w'’.])(?P<name>[A-Z][a-zé]{2,20}|[A-Z]{3,12})\s$")
_NO_NAMES = frozenset(
    [
        "The",
        "An",
        "This",
        "That",
        "Her",
        "His",
        "My",
        "Our",
        "Your",
        "Their",
        "Its",
        "No",
        "Her",
        "New",
        "Some",
        "Any",
        "Each",
        "Every",
        "With",
        "And",
        "But",
        "Or",
        "For",
        "From",
        "Into",
        "Start",
        "Stop",
        "Give",
        "Use",
        "Place",
        "Insert",
        "Remove",
        "By",
        "On",
        "In",
        "At",
        "To",
        "Of",
        "Via",
        "When",
        "If",
        "After",
        "Before",
        "While",
        "Begin",
        "Hang",
        "Push",
        "Peripheral",
        "Central",
        "Get",
        "Needs",
        "Need",
        "Type",
        "One",
        "Two",
    ]
)
_NO_NUMERALS = frozenset({"IV", "XX"})  # "Morphine IV", "XX chromosomes", unless a thing is named


def is_counted(word: str) -> bool:
    """Whether a word in capitals is one that numerals follow: "CHAPTER"."""
    return _COUNTED_WORD.fullmatch(word) is not None


def _numbered(match: re.Match[str]) -> str | None:
    word, written = match["word"], match["roman"]
    word = _SHORT.get(word.lower().rstrip("."), word) if word.endswith(".") else word
    if match["word"][0].isupper():
        word = word[0].upper() + word[1:]
    is_lettered = word.lower() in _LETTERED
    if len(written) == 1 and (written in "CLDM" or is_lettered):
        return match.group()  # the letter
    value = roman(written)
    if not value:
        return None
    others = _others(match["others"], cardinal)
    if others is None:
        return None
    return f"{word} {cardinal(value)}{others}{_point(match['point'])}"


def _others(written: str, say: Callable[[int], str]) -> str | None:
    """Numerals that follow another one, with what links them; None where one of them is none."""
    said = ""
    for found in _LINKED.finditer(written):
        value, link = roman(found["roman"]), found["link"]
        if not value:
            return None
        said += f"{' to ' if link.strip() in ('-', '–') else link}{say(value)}"
    return said


def _point(written: str | None) -> str:
    """ ".2" after a numeral."""
    return f" point {cardinal(int(written[1:]))}" if written else ""


def _ruler(match: re.Match[str]) -> str | None:
    value = roman(match["roman"])
    if not value or (match["roman"] in "VX" and match.string.startswith(("'", "’"), match.end())):
        return None
    others = _others(match["others"], lambda number: f"the {ordinal(number)}")
    rest = match["others"] if others is None else others
    return f"{match['word']} the {ordinal(value)}{rest}"


def _heir(match: re.Match[str]) -> str | None:
    return f"{match['word'].rstrip(',')} the {ordinal(roman(match['roman']))}"


def _person(match: re.Match[str]) -> str | None:
    names = match["word"].rstrip(",").split()
    return None if any(map(lexicon.is_common, names)) else _heir(match)


def _century(match: re.Match[str]) -> str | None:
    value = roman(match["roman"])
    return f"{ordinal(value)}{match['word']}" if value else None


def _nth(match: re.Match[str]) -> str | None:
    value = roman(match["roman"])
    return ordinal(value) if value else None


def _heading(match: re.Match[str]) -> str | None:
    written, stop = match["roman"], match["stop"]
    value = roman(written)
    if not value:
        return None
    if len(written) == 1 and stop == ".":
        title = _TITLE_LINE.match(match.string, match.start("stop"))
        if not title or written in "CL" or _is_initial(match):
            return None
    if len(written) == 1 and stop != "." and not _DASHED.match(match.string, match.end()):
        return None
    return f"{cardinal(value)}{'.' if stop == '.' else ',' if stop == ')' else ''}"


def _is_initial(match: re.Match[str]) -> bool:
    """Whether a person is named, in a text that has no other numbered heading."""
    if not _SURNAME.match(match.string, match.start("stop")):
        return False
    headings = _headings(match.string)
    return len(headings) == (match.start() in headings)


@lru_cache(maxsize=1)
def _headings(text: str) -> frozenset[int]:
    return frozenset(found.start() for found in _SURE_HEADING.finditer(text))


def _small_numeral(match: re.Match[str]) -> str | None:
    values = [roman(match[name].upper()) for name in ("roman", "second") if match[name]]
    word = {"p.": "page", "pp.": "pages"}.get(match["word"].lower(), match["word"])
    return f"{word} {' to '.join(map(cardinal, values))}" if all(values) else None


def _small_item(match: re.Match[str]) -> str | None:
    value = roman(match["roman"].upper())
    return cardinal(value) if value and value < 40 else None


def _year_numeral(match: re.Match[str]) -> str | None:
    value = roman(match["roman"])
    return year(value) if value else None


def _named(match: re.Match[str]) -> str | None:
    before = _NAME_BEFORE.search(match.string[max(0, match.start() - 24) : match.start()])
    if not before or before["name"] in _NO_NAMES:
        return None
    value = roman(match["roman"])
    name = before["name"]
    if match["roman"] == "V" and name.lower() in (
        "channel",
        "vitamin",
        "hepatitis",
        "model",
        "type",
        "appendix",
        "plan",
        "exhibit",
    ):
        return None
    if not value or (name.isupper() and roman(name)):
        return None
    if match["roman"] in _NO_NUMERALS and re.match(
        r"\s(?:drip|fluids?|line|therapy|antibiotics?|bag|infusion|access|chromosomes?|"
        r"injection|push|catheter|needle|dose|use|drugs?|pole|site|tube)",
        match.string[match.end() : match.end() + 16],
    ):
        return match.group()
    return cardinal(value)


_HAS_NUMERAL = InWord(r"[IVXLCDM](?<!\w.)[IVXLCDM]{0,7}(?![A-Za-z])", CAPITAL)
ROMAN = (
    Recogniser("number", CAPITAL, _HEADING, _heading, search=_HAS_NUMERAL),
    Recogniser("number", CAPITAL + SMALL, _NUMBERED, _numbered, search=_HAS_NUMERAL),
    Recogniser("number", CAPITAL, _RULER, _ruler, search=_HAS_NUMERAL),
    Recogniser("number", CAPITAL, _HEIR, _heir, search=_HAS_NUMERAL),
    Recogniser("number", CAPITAL, _PERSON, _person, search=_HAS_NUMERAL),
    Recogniser(
        "number",
        CAPITAL + SMALL,
        _SMALL_NUMERAL,
        _small_numeral,
        search=pattern_of(r" (?<=[a-zA-Z.] )[ivxl]+\b"),
    ),
    Recogniser("number", SMALL, _SMALL_ITEM, _small_item, ")", InWord(r"\b[ivx]+\)", ")")),
    Recogniser("number", CAPITAL, _YEAR_NUMERAL, _year_numeral, search=_HAS_NUMERAL),
    Recogniser(
        "number",
        CAPITAL,
        _WORLD_WAR,
        lambda m: f"World War {cardinal(len(m['roman']))}{m['rest'] or ''}",
        search=InWord("WWI", CAPITAL),
    ),
    Recogniser("number", CAPITAL, _NTH, _nth, search=InWord(r"[IVXLC](?:th|st|nd|rd)\b", CAPITAL)),
    Recogniser("number", CAPITAL, _CENTURY, _century, search=_HAS_NUMERAL),
    Recogniser("number", CAPITAL, _NAMED, _named, search=_HAS_NUMERAL),
)
