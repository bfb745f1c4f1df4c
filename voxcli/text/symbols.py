"""Signs that are read as words, brackets, and the last tidying of punctuation.

`brackets` serves every language: VoxCPM-like models take a leading "(…)" as a description of the
voice, so no text and no segment may keep parentheses. The rest is English. Knows no numbers.
"""

from __future__ import annotations

import re
import unicodedata

from voxcli.text.changes import Draft, apart
from voxcli.text.characters import NO_UNIT
from voxcli.text.language import GREEK_SIGN
from voxcli.text.patterns import pattern_of
from voxcli.text.tagger import Recogniser

_NAMED = (
    (pattern_of(r"\bC\+\+"), "C plus plus"),
    (pattern_of(r"\b(?P<letter>[A-GJ])#(?=m(?:aj|in)?\d?\b|\d|\W|\Z)"), "{letter} sharp "),
    (
        pattern_of(
            r"(?<=[Pp]ress )#|(?<=\b[Hh]it )#(?!\w)|(?<!\S)#(?= (?:key|sign|symbol|"
            r"button)\b)|(?<=\bthe )#(?!\w)"
        ),
        "pound",
    ),
    (pattern_of(r"\b(?P<letter>[A-G])b(?= (?:major|minor|trumpet|clarinet)\b)"), "{letter} flat"),
    (pattern_of(r"(?<=[a-z])#(?!\w)"), " pound"),  # of a telephone
    (pattern_of(r"(?P<a>\b[A-Z][a-z]{2,20}) > (?=[A-Z][a-z])"), "{a}, "),
    (pattern_of(r"♩(?=\s?=)"), "quarter note"),
    (pattern_of(r"\s?&&\s?"), " and "),
    (pattern_of(r"(?<=\w)\s?\|\|\s?(?=\w)"), " or "),
    (pattern_of(r"\bw/o\b"), "without"),
    (pattern_of(r"\bw/in\b"), "within"),
    (pattern_of(r"\bb/w\b"), "between"),
    (
        pattern_of(r"\b(?P<a>Mister|Missus|Miz|Doctor)/(?P<b>Mister|Missus|Miz|Doctor)\b"),
        "{a} or {b}",
    ),
    (pattern_of(r"(?<=\b[b-z]) % (?=[a-z])"), " mod "),
    (pattern_of(r"\bb/c\b"), "because"),
    (pattern_of(r"\bc/o\b"), "care of"),
    (pattern_of(r"\s?°C\b"), " degrees Celsius"),
    (pattern_of(r"\s?°F\b"), " degrees Fahrenheit"),
    (pattern_of(r"\bw/(?=\s)"), "with"),
    (pattern_of(r"(?<=[\w.])\s?/\s?ea\b\.?"), " each"),
    (pattern_of(r"\b[Yy]/[Yy]\b"), "year over year"),
    (pattern_of(r"\b[Qq]/[Qq]\b"), "quarter over quarter"),
    (pattern_of(r"\b[Mm]/[Mm]\b"), "month over month"),
    (pattern_of(r"\b(?P<a>[Aa]nd)/(?P<b>or)\b"), "{a} {b}"),
    (
        pattern_of(r"\b(?P<a>[Hh]e|[Ss]he|[Hh]im|[Hh]is|[Hh]er)/(?P<b>she|he|her|his|him)\b"),
        "{a} or {b}",
    ),
    (pattern_of(r"\b[Nn]/[Aa]\b"), "not applicable"),
    (pattern_of(r"\s?(?:<?-+>|<?=+>|[→⇒➜➔⟶↦])\s?"), " to "),
    (pattern_of(r"\s?(?:<-+|[←⇐])\s?"), " from "),
    (pattern_of("[⌋⌉]"), ", "),
    (pattern_of(r">&(?=\w)"), " greater than ampersand "),
    (pattern_of(r"(?<=\[)\^(?=\S)"), "caret "),
    (pattern_of("[⟨⟩]"), ", "),
    (
        pattern_of(
            r"(?<![\w|])\|(?P<of>(?:minus )?\w{1,12}(?: (?:minus|plus) \w{1,12})?)\|"
            r"(?=\s?(?:[<>≤≥]|!?=))"
        ),
        "absolute value of {of}",
    ),
    (pattern_of(r"‖(?P<of>[^‖\n]{1,60})‖"), "norm of {of}, "),
)
_LEADING_ARROW = pattern_of(r"^\s{0,8}(?:[-=]+>|[→⇒➜➔⟶↦←⇐])\s{1,8}", re.MULTILINE)  # as of a list
_ANY = pattern_of(r"[^\w\s.,;:!?'\"()\[\]—-]")  # anything but words and their marks
_FLAT = pattern_of(r"b (?<=[A-G]b )(?<!\w...)[a-z]")  # "Bb major"
_SIGNS = {
    "&": "and", "@": "at", "+": "plus", "%": "percent", "°": "degrees", "©": "copyright",
    "§": "section", "±": "plus or minus", "×": "times", "÷": "divided by", "≈": "approximately",
    "≠": "is not equal to", "≤": "less than or equal to", "≥": "greater than or equal to",
    "√": "square root of", "∛": "cube root of", "∜": "fourth root of",
    "∞": "infinity", "−": "minus", "$": "dollar", "€": "euro",
    "£": "pound", "¥": "yen", "¢": "cents", "№": "number", "¼": "one quarter", "∑": "sum",
    "∆": "delta", "∂": "partial", "∫": "integral of", "∈": "in", "∴": "therefore",
    "♯": "sharp", "♭": "flat", "♮": "natural", "₩": "won", "≪": "is much less "
    "than", "≫": "is much greater than",
    "∝": "is proportional to", "≡": "is identical to", "∀": "for all", "∃": "there exists",
    "∪": "union", "∩": "intersection", "∅": "empty set", "∠": "angle", "⊂": "is a subset of",
    "∉": "not in", "⊃": "is a superset of", "∧": "and", "∨": "or", "¬": "not",
    "⊥": "is perpendicular to", "∥": "is parallel to", "≅": "is congruent to",
    "≃": "is approximately", "⌊": "floor of", "⌈": "ceiling of", "∏": "product", "∇": "nabla",
    "⇔": "if and only if", "↔": "to",
    "↑": "up", "↓": "down", "‰": "per mille", "½": "one half",
}  # fmt: skip
_SIGN = pattern_of(f"[{re.escape(''.join(_SIGNS))}]")
_EQUALS = pattern_of(
    r"\s?(?P<sign>[<>]=|[!=]=+|=|(?<=[\w\s)])<(?=[\s\w(])|(?<=[\w\s)])>(?=[\s\w(]))\s?"
)
# A sign that touches a number: "<200 cells" is an amount, "x<5" a statement.
_BEFORE_NUMBER = pattern_of(
    r"(?:(?P<value>(?<=[\w)\]])|(?<=\b[b-hj-z] )|(?<=\bif a ))|"
    r"(?<![^\s(\[\"'“‘~,;|]))(?P<sign>[<>])(?=[-−]?[$€£¥]?\d)"
)
_AMOUNT = {"<": "less than ", ">": "more than "}
_COMPARE = {
    "<": "is less than",
    ">": "is greater than",
    "<=": "is at most",
    ">=": "is at least",
    "!=": "is not equal to",
}
_INNER_HASH = pattern_of(r"(?<=\w)#(?=\w)")
# In a row of signs each of them is named: "/$€#%".
_ROW_OF_SIGNS = pattern_of(r"[#/](?=[$€£¥₩%&@+#])|(?<=[$€£¥₩%&@+#])[#/](?!\w)")
_PART = pattern_of(r"(?P<sign>§§?|¶¶?)\s?(?=[\dIVX])")
_HASH = pattern_of(r"#(?=\w)")
_SLASH = pattern_of(r"(?<=[\w.\"'])\s?/\s?(?=[\w\"'$])|(?<=\b[A-Z]:)/(?=\w)")
_OVER = pattern_of(r"(?<=\))(?P<gap>\s?)/\s?(?=[\w(])|(?<=\w)\s?/\s?(?=\()")
_BACKSLASH = pattern_of(r"\\(?:(?P<stop>\.)(?=\S)|(?=[^\s\"']))")
_PIPE = pattern_of(r"\s?(?:[|•·‣◦▪●■¦]\s?)+")
_UNDERSCORE = pattern_of(r"_+")
_INNER = pattern_of(r"\([^()]*\)\Z")
_DRIVE = pattern_of(r"\b[A-Z]:(?:/| slash | backslash )[^\n]*\Z")
_WORDED = pattern_of(  # words of no sum
    r"\b(?!(?:plus|minus|times|over|squared|cubed|equals|point|hundred|thousand|million|zero|one|two|"
    r"three|four|five|six|seven|eight|nine|ten|eleven|twelve|\w+teen|\w+ty(?:-\w+)?)\b)[A-Za-z]{3,}"
)
_POWER = pattern_of(r"(?<=\w)\^(?=\w)")
_SILENT = pattern_of(r"[™®†‡¶^~*#=<>{}\\|`/\u00a8\u00af\u00b8\u2500-\u25ff]+")

_ANY_BRACKET = pattern_of("[][(){}（）【】〔〕｛｝]")
_CALL = pattern_of(r"(?<=\w)\(\)")
_OPTIONAL = pattern_of(r"(?<=[^\W\d_])\((?P<s>e?s)\)")
_OPEN = pattern_of(r"[^\S\n]?[(（\[【〔{｛][^\S\n]?")
_CLOSE = pattern_of(r"\s?[)）\]】〕}｝](?P<next>[^\S\n]?[,.;:!?，。；：！？、]*)")
_WIDE = pattern_of("[\u3040-\u30ff\u3400-\u9fff，。！？；：]")

# Whether any of the patterns below can match.
_UNTIDY = pattern_of(
    r"[!?,;:.\"'](?:(?<=[!?,;:—\s\"'][!?,;:.])|(?<=[!?])\"|(?<=\")\s?\"|(?<=')\s?'|"
    r"(?<=[.!?])\"?[^\W\d_]|(?<=\.)\.\.\w)"
)
_UNTIDY_LINE = pattern_of(r"^[\s,;:.\-—!?]", re.MULTILINE)
_REPEATED = pattern_of(r"(?P<mark>[!?])[!?]+")
_SPACE_BEFORE = pattern_of(r" +(?=[,.;:!?](?:[\s\"')]|$))")
_COMMAS = pattern_of(r"(?:[,;:] ?){2,}")
_COMMA_STOP = pattern_of(r"[,;:—] ?(?=[.!?])")
_STOP_COMMA = pattern_of(r"(?P<stop>[!?][\"']?),(?=\s|$)")
_LINE_START = pattern_of(r"^[ ,;:.\-—!?]+(?=[\w\"'$])|^[\s,;:.\-—!?]+$", re.MULTILINE)
_SPACES = pattern_of(r" {2,}")
# A sentence that begins without a space: "It ended.Then we left."
_GLUED = pattern_of(
    r"(?:(?<=[^\W\d_]{2})[.!?]|(?<=\w)\.\.\.)(?=[A-Z][a-z]+(?![A-Z])|(?<=\.\.\.)\w)|"
    r"(?<=\w)[.!?]\"(?=[a-z]{2})"
)
_EMPTY_QUOTES = pattern_of(r"\"\"|(?<![\w.,;:!?])\"\s\"(?!\w)|(?<!\w)'\s?'(?!\w)")


def _comparison(match: re.Match[str]) -> str:
    sign = match["sign"]
    return _AMOUNT[sign] if match["value"] is None else f" {_COMPARE[sign]} "


# Before numbers, so that "-5" after one of them is a number below zero.
def _part(match: re.Match[str]) -> str:
    word = "section" if match["sign"][0] == "§" else "paragraph"
    return f"{word}{'s' if len(match['sign']) > 1 else ''} "


COMPARISONS = (
    Recogniser("symbol", "<>", _BEFORE_NUMBER, _comparison),
    Recogniser("symbol", "§¶", _PART, _part),
)


def symbols(draft: Draft) -> None:
    """Say signs; take out, recorded, those that have no sound."""
    if not draft.text.isascii():
        draft.sub(GREEK_SIGN, _letter, "symbol")
    if not (_ANY.search(draft.text) or "_" in draft.text or _FLAT.search(draft.text)):
        return
    draft.sub(_LEADING_ARROW, "", "symbol")
    for pattern, words in _NAMED:
        draft.sub(pattern, lambda m, words=words: words.format(**m.groupdict()), "symbol")  # type: ignore[misc]
    draft.sub(_BACKSLASH, lambda m: f" backslash {'dot ' if m['stop'] else ''}", "symbol")
    draft.sub(_ROW_OF_SIGNS, lambda m: f" {'hash' if m.group() == '#' else 'slash'} ", "symbol")
    draft.sub(_EQUALS, lambda m: f" {_compared(m.group('sign'))} ", "symbol")
    draft.sub(_SIGN, lambda m: f" {_SIGNS[m.group()]} ", "symbol")
    draft.sub(_INNER_HASH, " hash ", "symbol")
    draft.sub(_HASH, "number ", "symbol")
    draft.sub(_OVER, _over, "symbol", "/")
    draft.sub(_SLASH, " slash ", "symbol")
    draft.sub(_PIPE, ", ", "symbol")
    draft.sub(_POWER, " to the power of ", "symbol")
    draft.sub(_UNDERSCORE, " ", "symbol")


def _compared(sign: str) -> str:
    return _COMPARE.get(sign[:2] if sign[0] == "!" else sign, "equals")


def _over(match: re.Match[str]) -> str:
    """ "(n + 1)/2" is calculated, "(old)/new" is not."""
    inside = _INNER.search(match.string, max(0, match.start() - 60), match.start())
    is_path = _DRIVE.search(match.string, max(0, match.start() - 120), match.start())
    is_calculated = inside is not None and not is_path and _WORDED.search(inside.group()) is None
    return " over " if is_calculated else " slash "


def _letter(match: re.Match[str]) -> str:
    """The name of a Greek letter, kept apart from the word or number that it touches."""
    if match.group() == "Ω":
        name = "ohm"
    else:
        letter = unicodedata.normalize("NFKC", match.group())  # ϕ and the micro sign too
        name = unicodedata.name(letter).split()[-1].lower().replace("lamda", "lambda")
    return apart(name, match)


# Letters of a word that an editor set in brackets; a closed set, since "f(x)" is no word.
_INSIDE = pattern_of(
    r"(?<!\w)\[(?P<first>[A-Z])\](?=[a-z])|(?<=[a-z]{2})(?<!sin|cos|tan|log|exp)\((?P<middle>[a-w]{1,3})\)"
    r"(?=[a-z]{1,20}\b(?!\())"
    r"|(?<=[a-z]{3})\[(?P<last>s|m|r|d|ed|es|er|ing|ly)\](?![\w\[(]|\s?=)"
    r"|(?<=[a-z]{3})\((?P<ending>ren|en|ed|er|r|d|ing|ly)\)(?!\w)"
    r"|(?<!\w)\((?P<prefix>un|re|in|im|dis|non|pre|mis|fe|s)\)(?=[a-z]{2})"
)


def inside(draft: Draft) -> None:
    """Join letters that an editor put into a word: "[W]e", "colo(u)r"; after notes."""
    if "(" in draft.text or "[" in draft.text:
        draft.sub(_INSIDE, lambda m: m.group()[1:-1], "bracket")


def silence(draft: Draft) -> None:
    """Take out signs without a sound; after `brackets`."""
    draft.text = draft.text.replace(NO_UNIT, " ")
    draft.sub(_SILENT, " ", "symbol")


def brackets(draft: Draft) -> None:
    """Parentheses and brackets become commas: "(note) Prices rose" is "note, Prices rose"."""
    if not _ANY_BRACKET.search(draft.text):
        return
    draft.sub(_CALL, _call, "bracket")
    draft.sub(_OPTIONAL, lambda m: m.group("s"), "bracket")
    draft.sub(_OPEN, _open, "bracket")
    draft.sub(_CLOSE, _close, "bracket")


def _call(match: re.Match[str]) -> str:
    """Nothing for "()", a space before a figure or a capital: "malloc()ed", "3()20"."""
    after = match.string[match.end() : match.end() + 1]
    return " " if after.isalnum() and not after.islower() else ""


def _open(match: re.Match[str]) -> str:
    before = match.string[match.start() - 1] if match.start() else ""
    if not before or before in "\n":
        return ""
    if before in "，。；：！？、":
        return ""
    if before in ",.;:!?—([{\"'":
        is_apart = before in ",.;:!?" or " " in (match.group()[0], match.group()[-1])
        return " " if is_apart else ""
    return "，" if _WIDE.match(before) else ", "


def _close(match: re.Match[str]) -> str:
    following = match.group("next").strip()
    end = match.end()
    after = match.string[end] if end < len(match.string) else ""
    before = match.string[match.start() - 1] if match.start() else ""
    gap = " " if match.group("next").startswith(" ") or match.group("next").endswith(" ") else ""
    if following or not after or after in "\n\"')]}）】":
        return match.group("next")
    if not before or before in ",.;:!?—([{\n，。；：！？":
        return gap or (" " if after.isalnum() else "")
    return "，" if _WIDE.match(before) else ", "


def tidy(draft: Draft) -> None:
    """Repair punctuation that other rules left side by side; only repeated marks are recorded."""
    text = draft.text
    is_untidy = "  " in text or _UNTIDY.search(text) or _UNTIDY_LINE.match(text)
    if not is_untidy and not ("\n" in text and _UNTIDY_LINE.search(text)):
        return
    draft.sub(_REPEATED, lambda m: "?" if "?" in m.group() else "!", "punctuation")
    text = _EMPTY_QUOTES.sub(" ", _GLUED.sub(lambda m: f"{m.group()} ", draft.text))
    text = _SPACES.sub(" ", text)
    text = _SPACE_BEFORE.sub("", text)
    text = _COMMAS.sub(lambda m: m.group()[0] + (" " if m.group()[-1] == " " else ""), text)
    text = _COMMA_STOP.sub("", text)
    text = _STOP_COMMA.sub(lambda m: m.group("stop"), text)
    text = _LINE_START.sub("", text)
    draft.text = _SPACES.sub(" ", text)
