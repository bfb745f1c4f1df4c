"""Markdown and HTML to the words a reader would say, and lines to paragraphs.

Own patterns rather than a Markdown parser: most texts are not Markdown, and a parser reads them as
if they were ("2 * 3 * 4", an indented line, "# 5") and drops link definitions without a trace.
Works on any language; knows nothing of numbers or abbreviations.
"""

from __future__ import annotations

import operator
import re
from itertools import groupby, pairwise

from voxcli.text import characters
from voxcli.text.changes import DIRECTION, Draft
from voxcli.text.characters import FIGURES_SHIFTED, shifted
from voxcli.text.patterns import pattern_of

_L = re.MULTILINE
# Of what stands behind a fence, a language and its settings are no words; a sentence is.
_FENCE = pattern_of(
    r"^[ ]{0,3}(?:`{3,}|~{3,})(?:[ \t]{0,8}(?:\{[^{}`\n]{0,200}\}|[\w.:+#*/-]{1,40}))?"
    r"(?:[ \t]{1,8}(?:\{[^{}`\n]{0,200}\}|[\w.:-]{1,40}=(?:\"[^\"`\n]{0,200}\"|'[^'`\n]{0,200}'|"
    r"[^\s`]{1,200}))){0,8}[ \t]{0,8}$\n?",
    _L,
)
_FENCE_MARK = pattern_of(r"^[ ]{0,3}(?:`{3,}|~{3,})(?=[^`~\n]{1,2000}$)", _L)
_COMMENT = pattern_of(r"<!--(?:(?!<!--)[\s\S]){0,4000}?-->")
# What a browser does not show either; one that is never closed hides nothing.
_UNSEEN = pattern_of(
    r"<(?P<name>script|style|template|noscript|head|svg|math|iframe|object|canvas|"
    r"select)\b[^<>\n]{0,300}>"
    r"(?:(?!<(?P=name)\b)[\s\S]){0,20000}?</(?P=name)\s{0,8}>",
    re.I,
)
_DECLARATION = pattern_of(
    r"<!doctype\b[^<>]{0,300}>|<\?xml\b[^<>]{0,300}\?>|<!\[CDATA\[|\]\]>", re.I
)
_BREAK_TAG = pattern_of(
    r"</?(?:address|article|aside|blockquote|body|br|button|caption|center|dd|div|dl|dt|fieldset|"
    r"figcaption|figure|footer|form|h[1-6]|header|hr|html|legend|li|main|nav|ol|option|p|pre|"
    r"section|"
    r"summary|table|tbody|td|textarea|tfoot|th|thead|title|tr|ul)(?:\s[^<>\n]{0,300})?/?>",
    re.I,
)
# Attributes of a tag have values, but for a few; "a<b and c>d" has no tag.
_ATTRIBUTE = (
    r"\s{1,4}(?:[A-Za-z_:][\w:.-]{0,40}\s{0,2}=\s{0,2}(?:\"[^\"<>]{0,300}\"|'[^'<>]{0,300}'|"
    r"[^\s\"'<>=]{1,300})"
    r"|(?:autoplay|checked|controls|default|disabled|hidden|loop|muted|open|readonly|required|"
    r"reversed|selected)\b)"
)
_TAG = pattern_of(
    r"</?(?:a|abbr|acronym|audio|b|base|bdi|bdo|big|break|c|cite|code|col|colgroup|data|del|"
    r"details|"
    r"dfn|em|embed|emphasis|font|i|img|input|ins|kbd|label|link|map|mark|meta|output|param|phoneme|"
    r"picture|prosody|q|rp|rt|ruby|s|samp|say-as|small|source|span|speak|strike|strong|sub|sup|"
    r"time|"
    rf"track|tt|u|v|var|video|voice|wbr)(?:\.[\w.]{{1,40}})?(?:{_ATTRIBUTE}){{0,12}}\s{{0,4}}/?>"
    r"|<v(?:\.[\w.]{1,40})?\s[A-Z][^<>\n]{0,80}>",
    re.I,
)
_SHIFTED = pattern_of(
    rf"<(?P<tag>su[pb])(?:\s[^<>\n]{{0,100}})?>(?P<text>{FIGURES_SHIFTED})</(?P=tag)>", re.I
)
_ANY_TAG = pattern_of(r"</?[A-Za-z][\w:.-]{0,60}(?:\s[^<>]{0,300})?/?>")
# What Perl marks: "C<done>".
_MARKED = pattern_of(r"(?<=\b[BCEFILSX])<(?P<text>[^<>\s]{1,80})>")
# "the <script> tag", and the types of a program: "Map<String, Integer>".
_PLACEHOLDER = pattern_of(
    r"</?(?P<name>[A-Z]|[A-Za-z][A-Za-z_:-]{1,30}|"
    r"(?<=\w<)[A-Z]\w{0,30}(?:, ?[A-Z]\w{0,30}){0,4})/?>"
)
# The types of a program, one in another: "map<string, List<int>>".
_TYPE = r"(?:[A-Za-z_]\w[\w:.]{0,30}|[A-Z])(?:\[\]|[*&?])?"
_TYPES = rf"{_TYPE}(?:,\s?{_TYPE}){{0,4}}"
for _ in range(2):  # as deep as people nest them
    _TYPES = rf"{_TYPE}(?:<{_TYPES}>)?(?:,\s?{_TYPE}(?:<{_TYPES}>)?){{0,4}}"
_GENERIC = pattern_of(rf"(?<=\w\w)<(?P<types>{_TYPES})>(?!\w)")
_TABLE_RULE = pattern_of(
    r"^[ ]{0,3}\|?[ ]{0,8}:?-{2,}:?[ ]{0,8}(?:\|[ ]{0,8}:?-{2,}:?[ ]{0,8}){0,60}\|?[ ]{0,8}$\n?", _L
)
_SET_OFF = pattern_of(r"^={2,6}[ ]{1,4}(?=[^\n]{0,400}[^=\s\n][ ]{0,4}$)", _L)  # "=== RUN"
_TABLE_EDGE = pattern_of(r"^[ ]{0,3}\+(?:[-=]{2,200}\+){1,60}[ ]{0,8}$\n?", _L)
_TABLE_ROW = pattern_of(r"^[ ]{0,3}\|(?P<cells>[^\n]*)\|[ \t]{0,8}$", _L)
_RULE = pattern_of(r"^[ ]{0,3}(?:(?:\*[ ]?){3,}|(?:_[ ]?){3,}|={3,}|~{3,}|#{3,})[ ]{0,8}$\n?", _L)
_HEADING = pattern_of(r"^[ ]{0,3}#{1,6}[ \t]{1,8}(?P<text>[^\n]*?\w[^\n]*)$", _L)
_SETEXT = pattern_of(r"^(?P<text>[^\s\n][^\n]{0,200})\n[ ]{0,3}(?:={2,}|-{3,})[ ]{0,8}$", _L)
_QUOTED = pattern_of(r"^[ ]{0,3}(?:>[ ]?){1,20}(?<!>(?=[\d$€£.-]))(?=[^\n>=])", _L)
_BULLET = pattern_of(
    r"^[ \t]{0,16}(?:[-*+•‣◦▪●·・][ \t]{1,4}|[•‣◦▪●・](?=\w))"
    r"(?:\[[ xX]\][ ]{1,4})?(?P<text>[^\s\n][^\n]*)$",
    _L,
)
# Items glued to their marks, or behind dashes: several lines with the same one.
_GLUE = r"(?:(?=[^\W\d_]{2}|[¿¡\"“«])|(?<=[–—])[ \t]{1,4}(?=[\w¿¡\"“«]))"
_GLUED = pattern_of(
    rf"^[ \t]{{0,16}}(?P<mark>[-–—+*]){_GLUE}[^\n*]{{0,2000}}"
    rf"(?:\n[ \t]{{0,16}}(?P=mark){_GLUE}[^\n*]{{0,2000}})+$",
    _L,
)
_GLUED_MARK = pattern_of(r"^[ \t]{0,16}[-–—+*][ \t]{0,4}", _L)
_NUMBERED = pattern_of(
    r"^[ \t]{0,16}(?P<number>\d{1,3})[.)][ \t]{1,4}(?:\[[ xX]\][ ]{1,4})?(?P<text>[^\s\n][^\n]*)$",
    _L,
)
_RUN_ON = pattern_of(r"(?<=\S) (?P<number>[2-9]|1\d)\) ")
_LETTERED = pattern_of(
    r"^[ \t]{0,16}(?:(?P<open>\()(?P<inner>[A-Za-z])\)|(?P<letter>[A-Za-z](?=\))|[a-z])[.)])"
    r"[ \t]{1,4}(?P<text>[^\s\n][^\n]*)$",
    _L,
)
_DEFINITION = pattern_of(
    r"^[ ]{0,3}\[(?!\^)[^\[\]\n]{1,80}\]:[ \t]{1,8}(?:https?://|/|#|<)\S*[^\n]*$\n?", _L
)
_FOOTNOTE = pattern_of(
    r"(?P<glued>(?<=[\w.,;:!?\"”’)*\]]))?\[\^(?P<name>[^\[\]\s]{1,40})\](?![*+?{])(?P<colon>:?)"
)
_LINK = pattern_of(
    r"!?\[(?P<text>[^\[\]\n]{0,500})\]"
    r"\([^()\n]{0,1000}(?:\([^()\n]{0,200}\)[^()\n]{0,200})?\)"
)
_REFERENCE = pattern_of(r"(?<!\w)!?\[(?P<text>[^\[\]\n]{0,500})\]\[[^\[\]\n]{0,80}\]")
_AUTOLINK = pattern_of(
    r"<(?P<text>(?:https?://|mailto:)[^<>\s]{1,1000}|"
    r"[\w.+-]{1,64}@[\w-]{1,63}(?:\.[\w-]{1,63}){1,4})>"
)
_CODE = pattern_of(r"(?P<ticks>`{1,2})(?P<text>[^`\n]{1,1000})(?P=ticks)")
_PYTHONIC = pattern_of(r"(?<=[a-z0-9)\]])\*\*(?=[\d(]|[a-z](?!\w))(?!\d{1,4}\*\*)")  # x**2
_STRONG = pattern_of(r"(?P<mark>\*\*\*|\*\*|~~|={2,6})(?P<text>[^*~=\n]{1,1000})(?P=mark)")
_EMPHASIS = pattern_of(
    r"(?<![\w*])\*(?P<star>[^\s*](?:[^*\n]{0,1000}[^\s*])?)\*(?![\w*])"
    r"|(?<!\w)__(?P<two>[^\s_](?:[^_\n]{0,1000}[^\s_])?)__(?!\w)"
    r"|(?<!\w)_(?P<one>[^\s_](?:[^_\n]{0,1000}[^\s_])?)_(?!\w)"
)
_ESCAPE = pattern_of(r"\\(?P<text>[\\`*_{}\[\]()#+\-.!|>~'\"%&])|(?<![:\w])\\(?P<money>\$)")
_IN_CODE = pattern_of(r"\\(?:\\[^\W_]|[A-Za-z])|(?<![^\W_])[A-Za-z]:\\")
_ENDED = pattern_of(r"[.!?…:;,。！？：；，、—-][\"'”’)\]*_`]{0,4}\s*$")


# Languages whose ordinals are figures and a stop: "3. Oktober" begins no list by itself.
_ORDINALS_STOP = frozenset(("bg", "cs", "da", "de", "et", "fi", "hr", "hu", "is", "lv", "no", "pl",
                            "sk", "sl", "sr", "tr"))  # fmt: skip


_LINE_MARK = pattern_of(r"^[ \t]{0,16}(?:[-–—#>*+=_~|:•‣◦▪●·・]|\d{1,3}[.)]|\(?[A-Za-z][.)])", _L)
# A sign that a line begins with though it begins no item, since the line before goes on with it.
_SIGNED = pattern_of(r"^[ \t]{0,3}(?P<sign>[-+])[ \t]{1,4}(?P<item>\S[^\n]*)$")
_OPERAND = r"(?:[\d(√][^\s]{0,12}|[^\W\d_](?![^\W\d_'’-]))"
_BEGINS_OPERAND = pattern_of(_OPERAND)
_ENDS_OPERAND = pattern_of(r"(?:[\d²³%)]|(?<![^\W\d_])[^\W\d_])$")
_SPAN_MARKS = ("*", "_", "~~", "==")


def strip_markup(
    draft: Draft, language: str = "en", *, is_document: bool = False, is_shown: bool = False
) -> None:
    """Take Markdown and HTML away and keep the words; list items and headings get a full stop.

    Args:
        language: ISO 639-1.
        is_document: of SSML, in which a tag that nobody knows is a direction that is not followed.
        is_shown: to readers, who need no full stops, and whose lists keep their numbers.
    """
    if "-->" in draft.text:
        draft.sub(_COMMENT, "", "markup")
    if "<" in draft.text:
        draft.sub(_UNSEEN, "", "markup")
        draft.sub(_DECLARATION, "", "markup")
    if "```" in draft.text or "~~~" in draft.text:
        draft.sub(_FENCE, "", "markup")
        draft.sub(_FENCE_MARK, "", "markup")
    if "<" in draft.text:
        draft.sub(_BREAK_TAG, "\n", "markup")
        draft.sub(_AUTOLINK, lambda m: m["text"].removeprefix("mailto:"), "markup")
        draft.sub(_SHIFTED, lambda m: shifted(m["text"], m["tag"]), "markup")
        draft.sub(_TAG, _untagged, "markup")
        if is_document:
            draft.sub(_ANY_TAG, _untagged, DIRECTION)
    if is_document:
        characters.angles(draft)
    draft.sub(_DEFINITION, "", "markup", "]:")
    if "[^" in draft.text:
        _footnotes(draft)
    if _LINE_MARK.match(draft.text) or ("\n" in draft.text and _LINE_MARK.search(draft.text)):
        _lines(draft, language, is_shown=is_shown)
    draft.sub(_LINK, lambda m: m["text"], "markup", "](")
    draft.sub(_REFERENCE, lambda m: m["text"], "markup", "][")
    draft.sub(_PYTHONIC, "^", "symbol", "**")
    draft.sub(_CODE, lambda m: m["text"], "markup", "`")
    draft.sub(_ESCAPE, _unescaped, "markup", "\\")
    if any(mark in draft.text for mark in _SPAN_MARKS):
        draft.sub(_STRONG, lambda m: m["text"], "markup")
        draft.sub(_EMPHASIS, lambda m: m["star"] or m["two"] or m["one"], "markup")
    if "<" in draft.text:
        draft.sub(_MARKED, lambda m: f" {m['text']} ", "markup")
        draft.sub(
            _GENERIC, lambda m: f" {' '.join(re.sub('[<>]', ' ', m['types']).split())} ", "markup"
        )
        draft.sub(_PLACEHOLDER, lambda m: f" {m['name']} ", "markup")


def _footnotes(draft: Draft) -> None:
    """Take marks of notes out; letters apart from a word are one if a note has them."""
    noted = {m["name"] for m in _FOOTNOTE.finditer(draft.text) if m["colon"]}

    def replace(match: re.Match[str]) -> str | None:
        name = match["name"]
        is_note = match["glued"] is not None or name in noted or name.isdecimal()
        return "" if is_note else None

    draft.sub(_FOOTNOTE, replace, "markup")


def _untagged(match: re.Match[str]) -> str:
    """Nothing for a tag inside a word, a space after a stop."""
    before = match.string[match.start() - 1 : match.start()]
    after = match.string[match.end() : match.end() + 1]
    return " " if before and before in ".,;:!?" and after.isalnum() else ""


def _unescaped(match: re.Match[str]) -> str | None:
    """The sign; None in a path or an expression, whose words have backslashes before letters."""
    first = max(0, match.start() - 100)
    start = max(first, match.string.rfind(" ", first, match.start()) + 1)
    word = match.string[start : match.end() + 100].split(maxsplit=1)[0]
    return None if _IN_CODE.search(word) else match["text"] or match["money"]


def _join_signs(text: str) -> str:
    """Lines that a page wrapped before a sign of a sum, a range or a dash, joined again."""
    lines = text.split("\n")
    joined = lines[:1]
    at = 1
    while at < len(lines):
        run: list[re.Match[str]] = []
        while at + len(run) < len(lines) and (match := _SIGNED.match(lines[at + len(run)])):
            run.append(match)
        before = joined[-1].rstrip()
        if run and before and not _LINE_MARK.match(before) and _goes_on(before, run):
            joined[-1] = " ".join((before, *(f"{each['sign']} {each['item']}" for each in run)))
        else:
            joined += lines[at : at + max(1, len(run))]
        at += max(1, len(run))
    return "\n".join(joined)


def _goes_on(before: str, run: list[re.Match[str]]) -> bool:
    """Whether the lines of a run go on with the line before, so that they are no list.

    A list has several items, or one behind a line that has ended; a sum has operands.
    """
    if _ENDED.search(before[-8:]) and before[-1] != ")":
        return False
    is_sum = len(run) == 1 or "=" in before or any(each["sign"] == "+" for each in run)
    if is_sum and _ENDS_OPERAND.search(before):
        *inner, last = (each["item"].rstrip() for each in run)
        is_one = _BEGINS_OPERAND.match(last) and all(map(_BEGINS_OPERAND.fullmatch, inner))
        if is_one:
            return True
    [first, *others] = run
    return not others and (first["sign"] == "+" or first["item"][0].islower())


def _lines(draft: Draft, language: str, *, is_shown: bool) -> None:
    ended = str.rstrip if is_shown else _ended
    if "\n" in draft.text and ("- " in draft.text or "+ " in draft.text):
        draft.text = _join_signs(draft.text)
    draft.sub(_GLUED, lambda m: _GLUED_MARK.sub("- ", m.group()), "markup", "\n")
    draft.sub(_SETEXT, lambda m: f"\n\n{ended(m.group('text'))}\n\n", "markup")
    draft.sub(_TABLE_RULE, "\n", "markup")
    draft.sub(_SET_OFF, "", "markup", "==")
    draft.sub(_TABLE_EDGE, "", "markup", "+-")
    draft.sub(_TABLE_ROW, lambda m: ended(_row(m)), "markup")
    draft.sub(_RULE, "\n", "markup")
    draft.sub(_QUOTED, "", "markup")
    draft.sub(_HEADING, lambda m: f"\n\n{ended(m.group('text').rstrip(' #'))}\n\n", "markup")
    draft.sub(_BULLET, lambda m: ended(m.group("text")), "markup")
    if not is_shown:
        _numbered(draft, language)
        _lettered(draft)


def _numbered(draft: Draft, language: str) -> None:
    numbers = {int(match["number"]) for match in _NUMBERED.finditer(draft.text)}

    def item(match: re.Match[str]) -> str | None:
        number = int(match["number"])
        is_alone = not numbers & {number - 1, number + 1}
        if is_alone and language in _ORDINALS_STOP and match.string[match.end("number")] == ".":
            return None
        return f"{match['number']}, {_ended(match['text'])}"

    draft.sub(_NUMBERED, item, "markup")
    draft.sub(_RUN_ON, _run_on, "markup", ")")


def _run_on(match: re.Match[str]) -> str | None:
    """ "1) Open it 2) Tap", where the number before is marked so too."""
    before = int(match["number"]) - 1
    first = max(0, match.start() - 400)
    line = match.string[
        max(first, match.string.rfind("\n", first, match.start()) + 1) : match.start()
    ]
    is_next = f" {before}) " in f" {line}" or line.startswith(f"{before}, ")
    return f"{'' if _ENDED.search(line[-8:]) else ','} {match['number']}, " if is_next else None


def _lettered(draft: Draft) -> None:
    """ "a) First", where the letter before or behind has a line too."""
    letters = {match["letter"] or match["inner"] for match in _LETTERED.finditer(draft.text)}

    def item(match: re.Match[str]) -> str | None:
        letter = match["letter"] or match["inner"]
        if letters.isdisjoint((chr(ord(letter) - 1), chr(ord(letter) + 1))):
            return None
        return f"{letter}, {_ended(match['text'])}"

    if len(letters) > 1:
        draft.sub(_LETTERED, item, "markup")


def _ended(text: str) -> str:
    text = text.rstrip()
    return text if _ENDED.search(text[-8:]) else f"{text}."


def _row(match: re.Match[str]) -> str:
    cells = [cell.strip() for cell in match.group("cells").split("|")]
    return ", ".join(cell for cell in cells if cell)


_KEYED = pattern_of(r"[\w.-]{1,30}:(?:\s|\Z)")  # "version: 2" is a line of its own
_MIN_WRAPPED = 45  # a line this long that ends without a mark was wrapped by an editor
_MIN_VERSE = 16  # characters
_MAX_ITEM_WORDS = 3
_WIDE_END = pattern_of("[\u3040-\u30ff\u3400-\u9fff][\"'”’」』)）]*$")
_TITLE = pattern_of(
    r"[A-Z\d][\w'’-]*(?:,? (?:(?:a|an|and|for|in|of|on|the|to) )*[A-Z\d][\w'’-]*)*+"
)


def reflow(text: str) -> str:
    """Join wrapped lines, keep short ones apart, one blank line between paragraphs, one space."""
    lines = (" ".join(line.split()) for line in text.split("\n"))
    parts = (list(part) for is_blank, part in groupby(lines, operator.not_) if not is_blank)
    return "\n\n".join(map(_reflowed, parts))


def _reflowed(lines: list[str]) -> str:
    if _are_items(lines):
        return "\n".join(lines)
    pieces = lines[:1]
    for previous, line in pairwise(lines):
        pieces += (" " if _continues(previous, line) else "\n", line)
    return "".join(pieces)


def _are_items(lines: list[str]) -> bool:
    """Whether these are a list without marks: shorter than any editor wraps, and no sentence."""
    is_short = len(lines) > 2 and all(line.count(" ") < _MAX_ITEM_WORDS for line in lines)
    return is_short and not _ENDED.search(lines[-1][-8:])


def end_lines(text: str) -> str:
    """Lines of a list, a verse or a title end audibly where the writer left it to the eye.

    A voice would else run them on. What an editor wrapped has lines that begin in the middle of a
    sentence, so with small letters.
    """
    return "\n\n".join("\n".join(_lines_ended(part.split("\n"))) for part in text.split("\n\n"))


def _lines_ended(lines: list[str]) -> list[str]:
    first, *others = lines
    is_verse = len(lines) > 2 and all(
        _MIN_VERSE <= len(line) < _MIN_WRAPPED and not line[:1].islower() for line in lines
    )
    if is_verse or _are_items(lines):
        return [*map(_with_comma, lines[:-1]), lines[-1]]
    if others and len(first) < _MIN_WRAPPED and others[0][:1].isupper() and _TITLE.fullmatch(first):
        return [_ended(first), *others]
    return lines


def _with_comma(line: str) -> str:
    if not line or _ENDED.search(line[-8:]):
        return line
    return line + ("，" if _WIDE_END.search(line[-8:]) else ",")


def _continues(previous: str, line: str) -> bool:
    """Whether a line break is only an editor's wrap."""
    if len(previous) >= _MIN_WRAPPED:
        return True
    return line[0].islower() and not (_ENDED.search(previous[-8:]) or _KEYED.match(line))
