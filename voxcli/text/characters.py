"""Characters that are no words: control, invisible, full-width, typographic, emoji, foreign.

Works on any language unless a function says otherwise. Knows no voice: `fold` is told what can be
said.
"""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from collections.abc import Callable
from html.entities import html5

from voxcli.text import lexicon
from voxcli.text.changes import Draft
from voxcli.text.patterns import pattern_of

NO_UNIT = "\u2062"  # before a letter of a formula, until its numbers are said
RAISED = "⁰¹²³⁴-⁹"  # figures, for a class of characters in a pattern

_NEWLINES = pattern_of(r"\r\n?|[\x0b\x0c\x85\u2028]")
_CONTROL = pattern_of(r"[\x00-\x08\x0e-\x1f\x7f-\x84\x86-\x9f\ufffc\ufffd\ud800-\udfff]+")
# What colours a terminal, names its window or links in it: "\x1b[31m", "\x1b]8;;https://a.b\x07".
_TERMINAL = pattern_of(
    r"\x1b\[[0-?]{0,64}[ -/]{0,4}[@-~]|\x1b[\]PX^_][^\x07\x1b\n]{0,2000}(?:\x07|\x1b\\)"
    r"|\x1b[ -/]{0,4}[0-Z\\^-~]"
)
_SOFT_CUT = pattern_of("(?<=[^\\W\\d_])\u00ad[ \\t]{0,4}\n\\s{0,20}(?=[^\\W\\d_])")
_INVISIBLE = pattern_of(
    "[\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180e\u200b\u200e\u200f\u202a-\u202e\u2060-\u2064"
    "\u2066-\u206f\ufeff\ufff9-\ufffb]+"
)
_JOINERS = pattern_of("[\u200c\u200d]+")  # they shape words in Persian and Indic scripts
# Line ends and tabs as programs write them. Before a capital, a list or the end they are certain;
# those that are spoken of are none: "Use \n here", "print('one\n')".
_ESCAPED = pattern_of(r"(?<!\\n)(?<!\\t)(?<!\\)(?:(?:\\r)?\\{1,2}n|\\t){1,8}")
_BEGINS_LINE = pattern_of(r"[A-Z\u00c0-\u00de\u0400-\u042f\u3000-\u9fff*#-]|[\"“'(]\w|\d+[.)]\s")
_ENDS_SENTENCE = pattern_of(r"\w[\"'”’)]{0,2}[.!?,:;…][\"'”’)]{0,2}\Z")
_DRIVE = pattern_of(r"(?<!\w)[A-Za-z]:\Z")
_LETTERS = pattern_of(r"[^\W\d_]{1,40}")
_CODE_POINT = pattern_of(
    r"(?<!\\)\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}|(?<!\\)\\u[0-9a-fA-F]{4}"
)
_ENTITY = pattern_of(r"&(?:#[0-9]{1,7}|#[xX][0-9a-fA-F]{1,6}|[A-Za-z][A-Za-z0-9]{1,30});")
# UTF-8 read as cp1252 and saved again: "â€™", "Ã©", "Â£".
_MOJIBAKE = pattern_of("[ÃÂâð][\x80-\xbf€‚ƒ„…†‡ˆ‰Š‹ŒŽ‘’“”•–—˜™š›œžŸ]")
_WIDE = pattern_of("[\uff01-\uff5e\u3000\uffe0-\uffe6]+")
_WIDE_THOUSANDS = pattern_of("[１-９][０-９]{0,2}(?:，[０-９]{3}){1,4}(?![０-９])")
LISTED = pattern_of(r"(?<=[0-9])，(?=[0-9])")  # of numbers; it groups the digits of none
_WIDE_WORDS = pattern_of("[\uff10-\uff19\uff21-\uff3a\uff41-\uff5a\uff05\u3000]+")
_STYLED = pattern_of(
    "[\U0001d400-\U0001d7ff\u3371-\u33df\u2460-\u24ff\u00b9\u2070-\u209c\u2160-\u217f\ufb00-\ufb06]+"
)
_ENCLOSED = pattern_of("[\u2460-\u24ff](?=[\u2460-\u24ff])")
_TAB = pattern_of(r"(?<=\S)\t(?=\S)")  # at the beginning of a line it is layout
_SPACES = pattern_of("[\u00a0\u1680\u2000-\u200a\u202f\u205f]")

# A space that does not break between figures parts thousands, where it parts nothing else, such as
# a telephone number; a quotation opens after a stop.
_GAP = "[\u00a0\u2009\u202f]"
_SPACED_FIGURES = pattern_of(
    rf"(?<![\d+.,])(?<![\d+.,]{_GAP})[1-9]\d{{0,2}}(?:{_GAP}\d{{3}}){{1,7}}(?!{_GAP}?\d)"
)
_GAPS = pattern_of(_GAP)
_OPENING = pattern_of("(?<=[^\\W\\d_][.,!?])(?=[“«])|(?<=[”»])(?=[“«])")

_PICTURE = (
    "\U0001f000-\U0001faff\u2600-\u2668\u266a-\u266c\u2670-\u27bf\u2b00-\u2bff\u231a\u231b\u2328\u23cf\u23e9-\u23fa"
    "\u25aa\u25ab\u25b6\u25c0\u25fb-\u25fe\u2934\u2935\u3297\u3299"
)
_EMOJI = pattern_of(
    "(?P<key>[#*0-9])\ufe0f?\u20e3|"
    f"[{_PICTURE}][{_PICTURE}\ufe0e\ufe0f\u200d\U000e0020-\U000e007f]*"
)
_EMOTICON = pattern_of(
    r"(?<!\S)(?:[:;=]['’]?-?[()DPpOo|/\\*]{1,3}|<3(?=(?:\s*<3)*\s*(?:[.,!?\n]|$))|"
    r"\^_?\^)(?=[\s.,!?]|$)"
)

_ANY_EYES = pattern_of("[:;=<^]")
_STAR = pattern_of(r"(?<=\d)[ -]?★(?!★)")
_HEART = pattern_of(r"(?:(?<=\w\w )|(?<=\bI ))<3(?= \w)|(?<=\bI )[❤♥]\ufe0f?(?= \w)")
_MAX_NAMED = 200  # characters; a longer text of emoji alone is noise

_QUOTES = str.maketrans({**dict.fromkeys("‘’‚‛′´ʼ`", "'"), **dict.fromkeys("“”„‟″«»「」『』", '"')})
_TEX_QUOTE = pattern_of("``|''")  # ``so''
_QUOTE = pattern_of("[‘’‚‛′´ʼ`“”„‟″«»「」『』]")
_ELLIPSIS = pattern_of(r"…|(?<!\.)\.{4,}|\.(?: \.){2,}")
# A minus between a space and a figure is a sign, and no dash of a range: "S&P 500 −1.2%".
_HYPHEN = pattern_of(
    "[\u2010\u2011\u2012\u2043\ufe63](?=\\S)|\u2212(?=\\S)(?!(?<=\\d \u2212)\\d)|"
    "(?<=[0-9])\u2013(?=[0-9])"
)
_ANY_DASH = pattern_of("[\u2013-\u2015\u2e3a\u2e3b]|--| -[ \n]")
_DASH = pattern_of(
    " ?(?:[\u2014\u2015\u2e3a\u2e3b]+|(?<!-)-{2,3}(?!-)) ?| [-\u2013](?: |(?=\n))|\u2013"
)


def has_content(text: str) -> bool:
    """Whether a text has anything but space, control and invisible characters."""
    return any(unicodedata.category(char)[0] not in "ZC" for char in text)


def clean(draft: Draft, language: str, *, is_document: bool = False) -> None:
    """Newlines, broken encodings, entities, control and invisible characters; then NFC.

    Args:
        is_document: of SSML, in which an escaped "<" begins no tag; see `angles`.
    """
    draft.text = _NEWLINES.sub("\n", draft.text).replace("\u2029", "\n\n")
    if not draft.text.isascii() and _MOJIBAKE.search(draft.text):
        _mend(draft)
    entity = _entity_but_angles if is_document else _entity
    draft.sub(_ENTITY, entity, "entity", "&")
    if not draft.text.isprintable():
        draft.sub(_TERMINAL, "", "control", "\x1b")
        draft.sub(_CONTROL, " ", "control")
        draft.sub(_SOFT_CUT, "", "hyphen", "\u00ad")
        draft.sub(_INVISIBLE, "", "invisible")
    draft.text = unicodedata.normalize("NFC", draft.text)
    if language == "en":
        if not draft.text.isascii():
            draft.text = _SPACED_FIGURES.sub(lambda m: _GAPS.sub(",", m.group()), draft.text)
            draft.text = _SPACES.sub(" ", draft.text)
        if "\t" in draft.text:
            draft.text = _TAB.sub(" ", draft.text)


def escapes(draft: Draft, language: str, is_command: Callable[[str], bool]) -> None:
    r"""Characters, line ends and tabs that a program wrote as "\u00e9", "\n", "\t"; none in a path.

    Args:
        is_command: whether LaTeX has a command of this name.
    """
    draft.sub(_CODE_POINT, _code_point, "control", "\\u")
    if "\\n" not in draft.text and "\\t" not in draft.text:
        return
    found = {
        m.start(): _is_line_end(m, language, is_command) for m in _ESCAPED.finditer(draft.text)
    }
    is_written = True in found.values()

    def written(match: re.Match[str]) -> str | None:
        is_end = found[match.start()]
        if is_end is None:
            is_end = is_written
        return ("\n" * match.group().count("n") or "\t") if is_end else None

    draft.sub(_ESCAPED, written, "control")


def _code_point(match: re.Match[str]) -> str | None:
    units = b"".join(int(unit, 16).to_bytes(2, "big") for unit in match.group().split("\\u")[1:])
    char = units.decode("utf-16-be", "replace")
    return None if _is_path(match) or char == "\ufffd" else char


def _is_path(match: re.Match[str]) -> bool:
    start = max(0, match.start() - 200)
    word = (match.string[start : match.start()].split() or [""])[-1]
    if match.string[match.start() - 1 : match.start()].isspace():
        word = ""
    others = _ESCAPED.sub("", word)
    is_small = match.string[match.end() : match.end() + 1].islower()
    is_drive = ":\\" in word or (is_small and _DRIVE.search(word) is not None)
    return is_drive or word.startswith("\\\\") or ("\\" in others and "\\u" not in others)


def _is_line_end(
    match: re.Match[str], language: str, is_command: Callable[[str], bool]
) -> bool | None:
    """None where it depends on others in the text."""
    before = match.string[max(0, match.start() - 8) : match.start()]
    end = match.end()
    if _is_path(match):
        return False
    is_behind = bool(before) and not before[-1].isspace() and before[-1] not in "\"'`(["
    if _BEGINS_LINE.match(match.string, end) and (is_behind or "\\\\" not in match.group()):
        return True
    if not is_behind:
        return False
    following = match.string[end : end + 1]
    if not following or following.isspace():
        return True
    letters = _LETTERS.match(match.string, end)
    if letters is None:
        return None if following.isdecimal() else False
    name = f"{match.string[end - 1]}{letters.group()}"
    if is_command(name):
        return False
    if _ENDS_SENTENCE.search(before):
        return True
    if language not in lexicon.LANGUAGES:
        return None if lexicon.is_word(name) else True
    if lexicon.is_word(name, language):
        return None
    return lexicon.is_word(letters.group(), language) or None


def _mend(draft: Draft) -> None:
    from ftfy import fix_encoding  # 0.1 s of import that only damaged text pays

    draft.sub(re.compile(r"[^\n]+"), lambda m: fix_encoding(m.group()), "encoding")


def _entity(match: re.Match[str]) -> str | None:
    name = match.group()[1:]
    if name[0] != "#":
        return html5.get(name)
    code = int(name[2:-1], 16) if name[1] in "xX" else int(name[1:-1])
    if not 0 < code < 0x110000 or 0xD800 <= code < 0xE000:
        return None
    return chr(code) if code >= 32 else " "


def _entity_but_angles(match: re.Match[str]) -> str | None:
    char = _entity(match)
    return None if char in ("<", ">") else char


def angles(draft: Draft) -> None:
    """The escaped "<" and ">" of a document, once its tags are taken."""
    draft.sub(_ENTITY, lambda m: char if (char := _entity(m)) in ("<", ">") else None, "entity")


_PLAIN_FIGURES = "0123456789+-−n"
_SHIFTED = {
    "sup": str.maketrans(_PLAIN_FIGURES, "⁰¹²³⁴⁵⁶⁷⁸⁹⁺⁻⁻ⁿ"),
    "sub": str.maketrans(_PLAIN_FIGURES, "₀₁₂₃₄₅₆₇₈₉₊₋₋ₙ"),
}
FIGURES_SHIFTED = rf"[{re.escape(_PLAIN_FIGURES)}]{{1,8}}"  # what `shifted` can shift


def shifted(figures: str, tag: str) -> str:
    """Figures as characters that are raised or lowered themselves.

    Args:
        tag: of HTML, "sup" or "sub".
    """
    return figures.translate(_SHIFTED[tag.lower()])


def emoji(draft: Draft, language: str) -> None:
    """Drop emoji between words; say their names where the whole text has no word.

    A listener wants the sentence, not "face with tears of joy" after it; but a text of one emoji
    must not become silence.
    """
    draft.sub(_HEART, "love" if language == "en" else " ", "symbol", "<3")
    if _ANY_EYES.search(draft.text):
        draft.sub(_EMOTICON, " ", "emoji")
    if draft.text.isascii():
        return
    only = is_pictures(draft.text, language)

    def replace(match: re.Match[str]) -> str:
        if match.group("key"):
            return match.group("key")
        return f" {_names(match.group())} " if only else " "

    if language == "en":
        draft.sub(_HEART, "love", "symbol")
        draft.sub(_STAR, " star", "symbol", "★")
    draft.sub(_EMOJI, replace, "emoji")


def is_pictures(text: str, language: str) -> bool:
    """Whether emoji are all that a text says, so that their names are spoken."""
    if language != "en" or text.isascii() or len(text) >= _MAX_NAMED:
        return False
    bare, count = _EMOJI.subn(lambda m: m.group("key") or "", text)
    return count > 0 and not any(char.isalnum() for char in bare)


def _names(pictures: str) -> str:
    names = []
    for char in pictures:
        name = unicodedata.name(char, "").lower()
        if name and not name.startswith(("variation", "zero width", "tag", "emoji modifier")):
            names.append(re.sub("[^a-z0-9 ]", " ", name).replace("symbol letter", "").strip())
    return ", ".join(names)


def straighten(draft: Draft) -> None:
    """English: full-width, styled and typographic characters to the plain ones a voice knows."""
    if not draft.text.isascii():
        draft.sub(_JOINERS, "", "invisible")
        draft.sub(_STYLED, _compatible, "letter")
        draft.sub(_WIDE, _compatible, "letter")
        draft.text = _OPENING.sub(" ", draft.text)
        draft.sub(_ELLIPSIS, "...", "punctuation", "…")
        draft.sub(_HYPHEN, "-", "dash")
    draft.sub(_TEX_QUOTE, '"', "quote", "``")
    draft.sub(_ELLIPSIS, "...", "punctuation", "....")
    draft.sub(_ELLIPSIS, "...", "punctuation", ". .")
    if "`" not in draft.text and draft.text.isascii():
        return
    draft.sub(_QUOTE, lambda m: m.group().translate(_QUOTES), "quote")


def dashes(draft: Draft) -> None:
    """English: every dash that is a pause becomes " — "; after numbers, which need the hyphens."""
    if not _ANY_DASH.search(draft.text):
        return
    draft.sub(_DASH, lambda m: "-" if m.group() == "–" else " — ", "dash")


def narrow(draft: Draft) -> None:
    """Chinese and others: full-width letters and digits only, punctuation stays."""
    draft.sub(_WIDE_THOUSANDS, _compatible, "number", "，")
    draft.text = LISTED.sub("、", draft.text)
    draft.sub(_WIDE_WORDS, _compatible, "letter")
    draft.text = _SPACES.sub(" ", draft.text)


def _compatible(match: re.Match[str]) -> str:
    """The plain letters; those that stand each in a circle or brackets of its own stay apart."""
    apart = _ENCLOSED.sub(lambda m: f" {m.group()} ", match.group())
    return unicodedata.normalize("NFKC", apart)


# Scripts with letters for sounds, whose Latin spelling an English reader can guess.
_ALPHABETS = ("LATIN", "GREEK", "CYRILLIC", "ARMENIAN", "GEORGIAN")
_SPOKEN = pattern_of(r"[^\s]+")


def fold(draft: Draft, can_say: Callable[[str], bool]) -> Counter[str]:
    """Bring each character onto ones the voice can say; take out what cannot be.

    Returns:
        The characters taken out and how often; each is also a recorded change.
    """
    lost: Counter[str] = Counter()
    table: dict[str, str | None] = {
        char: _plain(char, can_say)
        for char in set(draft.text)
        if not can_say(char) and not char.isspace()
    }
    if not table:
        return lost

    def replace(match: re.Match[str]) -> str:
        out = []
        for char in match.group():
            plain = table.get(char, char)
            if plain is None:
                lost[char] += 1
            out.append(plain or "")
        return "".join(out)

    draft.sub(_SPOKEN, replace, "letter")
    return lost


def _plain(char: str, can_say: Callable[[str], bool]) -> str | None:
    """The nearest sayable spelling; "" for a bare mark, None when there is none."""
    if unicodedata.category(char) in ("Mn", "Cf"):
        return ""
    bare = "".join(
        c for c in unicodedata.normalize("NFKD", char) if not unicodedata.combining(c)
    ).translate(_QUOTES)
    if bare and all(map(can_say, bare)):
        return bare
    if unicodedata.name(char, "").startswith(_ALPHABETS):
        from anyascii import anyascii

        latin = anyascii(char)
        if latin and all(map(can_say, latin)):
            return latin
    return None
