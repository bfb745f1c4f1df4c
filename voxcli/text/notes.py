"""Marks of notes: raised figures that point below the text and, like "[1]", are no words of it.

The rule: a raised figure is the mark of a note after a word of three letters or more, a year, a
numbered thing ("Table 3"), an amount, a bracket of words, a closing quotation mark or punctuation;
it is a power after other numbers, one or two letters, functions, units and brackets of a formula,
and wherever a sign of mathematics is beside it. All languages lose marks of notes; the words listed
here are mostly English. Knows no power itself.
"""

from __future__ import annotations

import re

from voxcli.text.changes import Draft
from voxcli.text.characters import RAISED
from voxcli.text.patterns import pattern_of
from voxcli.text.words import ABBREVIATIONS, NUMBERED, SENTENCE_ENDING

_RAISED_ANY = pattern_of(f"[{RAISED}]")
_MARKS = rf"(?P<marks>[{RAISED}]{{1,3}}(?:[,˒⁻–][{RAISED}]{{1,3}})*)"
_STOPS = ".,;:!?…。！？"
_CJK = "\u3040-\u30ff\u3400-\u9fff"
# No word, number, charge or fraction goes on after a mark, but a sentence may ("one.¹Next").
_END = rf"(?![^\WA-Z{_CJK}]|[⁺⁻⁄]|/[₀-₉])"
_AFTER_SIGN = pattern_of(
    rf"(?:(?<=[\w\"”’»)\]%][.,:;!?…])|(?<=[{_STOPS}][\"“”’»)\]])|(?<=[\w{_STOPS}][ \u00a0\u202f]»)"
    rf"|(?<=\w[\"“”»])|(?<=[$€£¥%。，、；：！？」』])|(?<=[{_CJK}])(?<!米)"
    rf"|(?P<price>[$€£¥]\d{{1,9}}(?:[.,]\d{{1,3}})*)){_MARKS}{_END}"
)
_NOTE_ITSELF = pattern_of(
    rf"^(?P<mark>[{RAISED}]{{1,3}})(?: (?=[^\W\d])|(?=[A-Z][a-z]{{2}}))", re.MULTILINE
)
_PLAIN = f"[^\\W_{RAISED}₀-ₜ¼-¾⅐-⅞]"  # a letter or a digit that is neither raised nor lowered
_AFTER_WORD = pattern_of(
    rf"(?<!{_PLAIN})(?:(?P<label>[A-Za-z]{{1,9}})\.?[ \u00a0])?"
    rf"(?P<lead>\d{{1,9}}[.,:]|[^\W\d_]{{2,9}}-|['’])?(?P<base>{_PLAIN}{{1,40}}){_MARKS}{_END}"
)
_AFTER_BRACKET = pattern_of(rf"(?P<bracket>[(（][^()（）\n]{{1,80}}[)）]){_MARKS}{_END}")

_NUMBERED_LIST = (
    "act appendix article book box ch chapter day episode eq equation exhibit fig figs figure "
    "footnote grade item level line no nos note number p page pages paragraph part phase pp psalm "
    "question rule scene sec section stage step tab table unit verse vol volume week "
    "jan january feb february mar march apr april may jun june jul july aug august sep sept "
    "september oct october nov november dec december"
)
_NUMBERED = frozenset(_NUMBERED_LIST.split())
_YEAR = pattern_of(r"1\d{3}|20\d\d")
_SQUARED_YEARS = ("1000", "1024", "2048")  # sizes that are squared more often than noted
_DATED = pattern_of(r"\d{1,4}(?:st|nd|rd|th)|\d{3}0s")  # 19th, 1990s
_NAMED = pattern_of(r"[^\W\d]{2,}\d+|[^\W\d]+\d+[^\W\d]+\d*")  # MP3, H1N1
_SHORT_WORDS_LIST = "as by do go he if is it me my no of on so to up us we eu uk un"
_SHORT_WORDS = frozenset(_SHORT_WORDS_LIST.split())
_POWERED_LIST = (
    "sin cos tan cot sec csc sinh cosh tanh log exp det var abs mol rad min bar yds mil lbs "
    "second seconds feet foot inch inches yard yards mile miles mètre mètres metro metros metri"
)
_POWERED = frozenset(_POWERED_LIST.split())
_LENGTHS = ("meter", "meters", "metre", "metres")  # with their prefixes
_LONG_WORD = pattern_of(rf"[^\W\d_]{{4,}}|[A-Z]{{3,}}|[{_CJK}]+")
_SIGN_BEFORE = pattern_of(r"[=+×·⋅*÷≈√∑∫/−][ \u00a0]?\Z")
_SIGN_AFTER = pattern_of(r"[ \u00a0]?[=+×·⋅*÷≈^−]")
_OPERATOR = pattern_of(r"[=+×·⋅*÷/^−]|[\s\w]-[\s\w]")


_NUMBERS = r"\d{1,3}(?:\s?[,;–-]\s?\d{1,3}){0,8}"
_TARGET = (  # of a link, as language models write their sources
    r"\((?:https?://|#)[^()\s]{1,1000}(?:\([^()\s]{0,200}\)[^()\s]{0,200})?"
    r"(?:\s\"[^\"\n]{0,200}\")?\)"
)
_CITED = (
    rf"(?:\[{_NUMBERS}\](?:{_TARGET})?|\[\[{_NUMBERS}\]\]{_TARGET}"
    r"|【\d{1,3}[^【】\n]{0,20}†[^【】\n]{0,80}】)"
)
_WORDED = (
    r"\[(?:[a-h]|(?<=[a-z]{4}\[)i|[ivx]{2,4}|(?:note|nb|lower-alpha|upper-alpha|n|fn|"
    r"footnote)\.? ?\d{1,3}|"
    r"citations? needed|"
    r"clarification needed|verification needed|failed verification|page needed|when|who|which|"
    r"by whom|"
    r"according to whom|where|why|how|dubious|dubious[ –-]{1,3}discuss|original research|"
    r"better source needed|disputed|"
    r"vague|update|edit|sic|not in citation given|dead link|full citation needed|year needed|"
    r"quote|specify|further explanation needed)\??\]"
)
_ANY_NOTE = rf"(?:{_CITED}|{_WORDED})"
# In a row, as a list, as a range: "[1][2]", "[7]-[9]", "[1,2] and [5]".
_BRACKETED = pattern_of(
    rf"(?:(?<=[^\W\d_]{{2}})|(?<=[\d%€$£.,;:!?\"”’)。，！？])|"
    rf"(?P<space>(?<=[\w.,;:!?\"”’)€$£%])[ \u00a0]))(?P<all>{_ANY_NOTE}(?:\s?(?:[-–,;]|and|"
    rf"&)?\s?{_ANY_NOTE}){{0,8}})(?!\(|\w{{0,30}}\]|\[)"
)
_REFERRED = pattern_of(
    r"(?:\b(?:[Ss]ee|[Ii]n|[Bb]y|[Ff]rom|[Oo]f|[Rr]efs?|[Rr]eferences?|[Tt]o|[Cc]f|[Ww]ith|"
    r"[Uu]sing|[Cc]ompare|[Ee]q|[Ff]ig)\.?)$"
)
# What a bracket belongs to: a key to press, what something is, a thing that is numbered.
_NEEDING_LIST = (
    "press choose type select enter pick hit dial push click is are was were be equals or "
    "between than option button key room seat gate platform apartment suite floor row column "
    "player exercise problem answer"
)
_NEEDING = frozenset(_NEEDING_LIST.split()) | _NUMBERED
_LAST_WORD = pattern_of(r"(?<![^\W_])(?P<word>[A-Za-z]{1,12})\.?$")
_NEXT_NOUN = pattern_of(r" (?P<word>[a-z]{1,20})(?![\w'’])")
# Words that may go on after a note, as no noun does that a number counts.
_GOING_ON_LIST = (
    "and or but nor so yet too also as because that which who whose while when where whereas "
    "although though since if unless than then is are was were has have had can could will would "
    "may might must should do does did in on at by from to of with for into about after before "
    "under over through between during among against without within the a an this these he she "
    "it they we you i not however thus hence therefore here there"
)
_GOING_ON = frozenset(_GOING_ON_LIST.split())
_WIDE = pattern_of(f"[{_CJK}]")
_ZERO = pattern_of(r"\[0")
_LETTER = pattern_of(r"\[[a-z]\]")
_ASSIGNED = pattern_of(r"\s?(?:[-+*/]?=|\[)")
_INDEXED = pattern_of(r"(?:(?<![\d.,])\d{1,3}|\w_\w{1,30}|\b(?:array|arr|argv|args|matrix))$")
_LISTED = pattern_of(r"^\s*\[1\]\s", re.MULTILINE)


def _is_needed(match: re.Match[str], language: str, is_listed: bool) -> bool:
    """Whether the sentence speaks of the bracket, or the bracket is an index."""
    before = match.string[max(0, match.start() - 32) : match.start()]
    if _ZERO.match(match["all"]) or match["all"] == "[sic]":
        return True
    if _ASSIGNED.match(match.string, match.end()):
        return True
    if not match["space"]:
        return bool(_INDEXED.search(before))
    if _REFERRED.search(before) or _LETTER.match(match["all"]):
        return True
    word = _LAST_WORD.search(before)
    if word and not _NEEDING.isdisjoint((word["word"].lower(), word["word"].lower().rstrip("s"))):
        return True
    if before[-1:] in ".!?":
        return is_listed
    noun = _NEXT_NOUN.match(match.string, match.end())
    return language == "en" and noun is not None and noun["word"] not in _GOING_ON


def _left_out(match: re.Match[str]) -> str:
    following = match.string[match.end() : match.end() + 1]
    return " " if following.isalnum() and not _WIDE.match(following) else ""


def citations(draft: Draft, language: str) -> None:
    """Take out marks of notes in brackets; before markup, where "[1][2]" is a link."""
    if "[" not in draft.text and "†" not in draft.text:
        return
    is_listed = bool(_LISTED.search(draft.text))  # "[1] First. [2] Second."

    def cited(match: re.Match[str]) -> str | None:
        return None if _is_needed(match, language, is_listed) else _left_out(match)

    draft.sub(_BRACKETED, cited, "markup")


_STOP_AND_FIGURE = pattern_of(r"[.!?\"”)][1-9](?:(?<=[^\W\d_]..)|(?<=[^\W\d_]...))")
# In plain figures, glued to the end of a sentence by a page that lost its raised ones.
_GLUED = pattern_of(
    r"(?<![\w/\\@])(?<!\d-)(?<!\w\.)(?P<word>[^\W\d_]{2,30})(?P<stop>[.!?][\"”’)]?|[\"”)][.!?]|[\"”)])"
    r"(?P<marks>[1-9]\d{0,2}(?:[,–-][1-9]\d{0,2}){0,4})"
    r"(?=\s+[\"“‘(]?[A-Z]|\s*\Z|\s*\n)"
)


def _glued(match: re.Match[str]) -> str | None:
    """ "slept.12 The", but not "no.5" and "Fig.3"."""
    is_cut = match["word"].lower() in ABBREVIATIONS - SENTENCE_ENDING or match["word"] in NUMBERED
    is_stop = match["stop"] != ")" and not is_cut
    return f"{match['word']}{match['stop']}" if is_stop and match["word"][-1].islower() else None


def notes(draft: Draft, language: str) -> None:
    """Take out marks of notes, raised or glued to a stop; before the rules of powers."""
    if language == "en" and _STOP_AND_FIGURE.search(draft.text):
        draft.sub(_GLUED, _glued, "markup")
    if not _RAISED_ANY.search(draft.text):
        return
    draft.sub(_AFTER_SIGN, lambda m: m["price"] or "", "markup")
    draft.sub(_AFTER_WORD, _after_word, "markup")
    draft.sub(_AFTER_BRACKET, _after_bracket, "markup")
    draft.sub(_NOTE_ITSELF, lambda m: f"{m['mark'].translate(_FIGURES)}, ", "markup")


_NUMERAL = pattern_of("[IVX]{2}")
_FIGURES = str.maketrans("⁰¹²³⁴⁵⁶⁷⁸⁹", "0123456789")


def _after_word(match: re.Match[str]) -> str | None:
    base = match["base"].lstrip("0123456789") or match["base"]
    is_note = (
        bool(_DATED.fullmatch(match["base"]))
        or bool(_NAMED.fullmatch(base))
        or (_is_noted_number(match) if base.isdecimal() else _is_noted_word(base, match))
    )
    return _unmarked(match) if is_note and not _is_calculated(match) else None


def _is_noted_number(match: re.Match[str]) -> bool:
    base, lead = match["base"], match["lead"] or ""
    return (
        (match["label"] or "").lower() in _NUMBERED
        or (bool(_YEAR.fullmatch(base)) and base not in _SQUARED_YEARS and not lead)
        or (lead[-1:] == "," and len(base) == 3)  # 1,234
        or (bool(lead) and lead[-1] in ":-'’")  # 10:30, COVID-19, '98
        or (match["marks"] == "¹" and base not in ("2", "10"))
    )


def _is_noted_word(base: str, match: re.Match[str]) -> bool:
    word, label = base.lower(), (match["label"] or "").lower()
    if len(word) == 1:
        return base.isupper() and label in _NUMBERED  # Table A
    if len(word) == 2:
        is_numeral = label in _NUMBERED and bool(_NUMERAL.fullmatch(base))
        return word in _SHORT_WORDS or match["marks"] == "¹" or is_numeral
    return not (word in _POWERED or word.endswith(_LENGTHS) or label == "per")


def _after_bracket(match: re.Match[str]) -> str | None:
    words = _LONG_WORD.findall(match["bracket"])
    has_words = bool(_YEAR.search(match["bracket"])) or not _POWERED.issuperset(words)
    is_formula = _OPERATOR.search(match["bracket"]) or _is_calculated(match)
    return _unmarked(match) if has_words and not is_formula else None


def _is_calculated(match: re.Match[str]) -> bool:
    """Whether a sign of mathematics is beside the match."""
    before = match.string[max(0, match.start() - 2) : match.start()]
    return bool(_SIGN_BEFORE.search(before) or _SIGN_AFTER.match(match.string, match.end()))


def _unmarked(match: re.Match[str]) -> str:
    return match.group()[: match.start("marks") - match.start()]
