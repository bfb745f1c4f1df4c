"""Signs that are read as words, brackets, and the last tidying of punctuation.

`brackets` serves every language: VoxCPM-like models take a leading "(…)" as a description of the
voice, so no text and no segment may keep parentheses. The rest is English. Knows no numbers.
"""

from __future__ import annotations

import re
import unicodedata

from voxcli.text.changes import Draft, apart
from voxcli.text.language import GREEK_SIGN

_NAMED = (
    (re.compile(r"\bC\+\+"), "C plus plus"),
    (re.compile(r"\b(?P<letter>[CFJ])#"), "{letter} sharp"),
    (re.compile(r"\bw/o\b"), "without"),
    (re.compile(r"\bw/(?=\s)"), "with"),
    (re.compile(r"\b(?P<a>[Aa]nd)/(?P<b>or)\b"), "{a} {b}"),
    (
        re.compile(r"\b(?P<a>[Hh]e|[Ss]he|[Hh]im|[Hh]is|[Hh]er)/(?P<b>she|he|her|his|him)\b"),
        "{a} or {b}",
    ),
    (re.compile(r"\b[Nn]/[Aa]\b"), "not applicable"),
    (re.compile(r"\s?(?:<?-+>|<?=+>|[→⇒➜➔⟶↦])\s?"), " to "),
    (re.compile(r"\s?(?:<-+|[←⇐])\s?"), " from "),
)
_SIGNS = {
    "&": "and", "@": "at", "+": "plus", "%": "percent", "°": "degrees", "©": "copyright",
    "§": "section", "±": "plus or minus", "×": "times", "÷": "divided by", "≈": "approximately",
    "≠": "is not equal to", "≤": "less than or equal to", "≥": "greater than or equal to",
    "√": "square root of", "∞": "infinity", "−": "minus", "$": "dollar", "€": "euro",
    "£": "pound", "¥": "yen", "¢": "cents", "№": "number", "¼": "one quarter", "∑": "sum",
    "∆": "delta", "∂": "partial", "∫": "integral of", "∈": "in", "∴": "therefore",
    "♯": "sharp", "♭": "flat", "↑": "up", "↓": "down", "‰": "per mille", "½": "one half",
}  # fmt: skip
_SIGN = re.compile(f"[{re.escape(''.join(_SIGNS))}]")
_EQUALS = re.compile(
    r"\s?(?P<sign>[<>]=|[!=]=+|=|(?<=[\w\s])<(?=[\s\d])|(?<=[\w\s])>(?=[\s\d]))\s?"
)
# A sign that touches a number: "<200 cells" is an amount, "x<5" a statement.
_BEFORE_NUMBER = re.compile(
    r"(?:(?P<value>(?<=[\w)\]]))|(?<![^\s(\[\"'“‘~]))(?P<sign>[<>])(?=[-−]?[$€£¥]?\d)"
)
_AMOUNT = {"<": "less than ", ">": "more than "}
_COMPARE = {
    "<": "is less than",
    ">": "is greater than",
    "<=": "is at most",
    ">=": "is at least",
    "!=": "is not equal to",
}
_HASH = re.compile(r"#(?=\w)")
_SLASH = re.compile(r"(?<=\w)\s?/\s?(?=\w)")
_BACKSLASH = re.compile(r"\\(?=\w)")
_PIPE = re.compile(r"\s?(?:[|•·‣◦▪●■¦]\s?)+")
_UNDERSCORE = re.compile(r"_+")
_POWER = re.compile(r"(?<=\w)\^(?=\w)")
_SILENT = re.compile(r"[™®†‡¶^~*#=<>{}\\|`/\u00a8\u00af\u00b8\u2500-\u25ff]+")

_CALL = re.compile(r"(?<=\w)\(\)")
_OPTIONAL = re.compile(r"(?<=[^\W\d_])\((?P<s>e?s)\)")
_OPEN = re.compile(r"\s?[(（\[【〔{｛]\s?")
_CLOSE = re.compile(r"\s?[)）\]】〕}｝](?P<next>\s?[,.;:!?，。；：！？、]*)")
_WIDE = re.compile("[\u3040-\u30ff\u3400-\u9fff，。！？；：]")

_REPEATED = re.compile(r"(?P<mark>[!?])[!?]+")
_SPACE_BEFORE = re.compile(r" +(?=[,.;:!?](?:[\s\"')]|$))")
_COMMAS = re.compile(r"(?:[,;:] ?){2,}")
_COMMA_STOP = re.compile(r"[,;:—] ?(?=[.!?])")
_STOP_COMMA = re.compile(r"(?P<stop>[!?][\"']?),(?=\s|$)")
_LINE_START = re.compile(r"^[ ,;:.\-—!?]+(?=[\w\"'$])|^[\s,;:.\-—!?]+$", re.MULTILINE)
_SPACES = re.compile(r" {2,}")
_EMPTY_QUOTES = re.compile(r"\"\s?\"|(?<!\w)'\s?'(?!\w)")


def comparisons(draft: Draft) -> None:
    """Say `<` and `>` that touch a number, before it is words."""

    def said(match: re.Match[str]) -> str:
        sign = match.group("sign")
        return _AMOUNT[sign] if match.group("value") is None else f" {_COMPARE[sign]} "

    draft.sub(_BEFORE_NUMBER, said, "symbol")


def symbols(draft: Draft) -> None:
    """Say signs; take out, recorded, those that have no sound."""
    for pattern, words in _NAMED:
        draft.sub(pattern, lambda m, words=words: words.format(**m.groupdict()), "symbol")  # type: ignore[misc]
    draft.sub(_EQUALS, lambda m: f" {_COMPARE.get(m.group('sign'), 'equals')} ", "symbol")
    draft.sub(GREEK_SIGN, _letter, "symbol")
    draft.sub(_SIGN, lambda m: f" {_SIGNS[m.group()]} ", "symbol")
    draft.sub(_HASH, "number ", "symbol")
    draft.sub(_SLASH, " slash ", "symbol")
    draft.sub(_BACKSLASH, " backslash ", "symbol")
    draft.sub(_PIPE, ", ", "symbol")
    draft.sub(_POWER, " to the power of ", "symbol")
    draft.sub(_UNDERSCORE, " ", "symbol")


def _letter(match: re.Match[str]) -> str:
    """The name of a Greek letter, kept apart from the word or number that it touches."""
    if match.group() == "Ω":
        name = "ohm"
    else:
        letter = unicodedata.normalize("NFKC", match.group())  # ϕ and the micro sign too
        name = unicodedata.name(letter).split()[-1].lower().replace("lamda", "lambda")
    return apart(name, match)


def silence(draft: Draft) -> None:
    """Take out signs without a sound; after `brackets`."""
    draft.sub(_SILENT, " ", "symbol")


def brackets(draft: Draft) -> None:
    """Parentheses and brackets become commas: "(note) Prices rose" is "note, Prices rose"."""
    draft.sub(_CALL, "", "bracket")
    draft.sub(_OPTIONAL, lambda m: m.group("s"), "bracket")
    draft.sub(_OPEN, _open, "bracket")
    draft.sub(_CLOSE, _close, "bracket")


def _open(match: re.Match[str]) -> str:
    before = match.string[match.start() - 1] if match.start() else ""
    if not before or before in "\n":
        return ""
    if before in ",.;:!?—([{\"'，。；：！？":
        return " " if match.group()[0] == " " or match.group()[-1] == " " else ""
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
        return gap
    return "，" if _WIDE.match(before) else ", "


def tidy(draft: Draft) -> None:
    """Repair punctuation that other rules left side by side; only repeated marks are recorded."""
    draft.sub(_REPEATED, lambda m: "?" if "?" in m.group() else "!", "punctuation")
    text = _EMPTY_QUOTES.sub("", draft.text)
    text = _SPACES.sub(" ", text)
    text = _SPACE_BEFORE.sub("", text)
    text = _COMMAS.sub(lambda m: m.group()[0] + (" " if m.group()[-1] == " " else ""), text)
    text = _COMMA_STOP.sub("", text)
    text = _STOP_COMMA.sub(lambda m: m.group("stop"), text)
    text = _LINE_START.sub("", text)
    draft.text = _SPACES.sub(" ", text)
