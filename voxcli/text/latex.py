r"""LaTeX as language models and papers write it, in the signs that the rules of a language read.

"\frac{a}{b}" is "a over b", "\alpha" the letter, "\textbf{word}" the word. Inside "\( \)", "\[ \]",
"$ $", "$$ $$" and environments every command is LaTeX, and one that nobody knows is its name;
elsewhere those alone that are known, so that paths and escapes stay. Dollars enclose a formula
where no amount and no prose stands between them (`_is_formula`). Own patterns: pylatexenc
2.11 writes "\frac{a}{b+c}" as "a/b+c", where nothing tells what is under the bar, and leaves out
what it does not know: of "C:\temp\new" it keeps "C:". Knows no numbers.
"""

from __future__ import annotations

import re
import unicodedata

from voxcli.text.changes import Change, Draft
from voxcli.text.characters import FIGURES_SHIFTED, NO_UNIT, shifted
from voxcli.text.patterns import pattern_of

KIND = "formula"

_GREEK = [
    "alpha", "beta", "gamma", "delta", "epsilon", "zeta", "eta", "theta", "iota", "kappa",
    "lamda", "mu", "nu", "xi", "omicron", "pi", "rho", "sigma", "tau", "upsilon", "phi", "chi",
    "psi", "omega",
]  # fmt: skip
_SIGNS = {
    "lambda": "λ", "Lambda": "Λ", "varepsilon": "ε", "vartheta": "θ", "varphi": "φ",
    "times": "×", "cdot": "×", "div": "÷", "pm": "±", "mp": "±", "leq": "≤", "le": "≤",
    "leqslant": "≤", "geq": "≥", "ge": "≥", "geqslant": "≥", "neq": "≠", "ne": "≠", "approx": "≈",
    "equiv": "≡", "propto": "∝", "ll": "≪", "gg": "≫", "lt": "<", "gt": ">", "infty": "∞",
    "partial": "∂", "nabla": "∇", "in": "∈", "notin": "∉", "subset": "⊂", "subseteq": "⊂",
    "cup": "∪", "cap": "∩", "emptyset": "∅", "varnothing": "∅", "forall": "∀", "exists": "∃",
    "angle": "∠", "therefore": "∴", "to": "→", "rightarrow": "→", "longrightarrow": "→",
    "mapsto": "→", "leftarrow": "←", "leftrightarrow": "↔", "iff": "⇔", "Leftrightarrow": "⇔",
    "implies": "⇒", "Rightarrow": "⇒", "uparrow": "↑", "downarrow": "↓", "degree": "°",
    "sum": "∑", "prod": "∏", "int": "∫", "ldots": "…", "dots": "…", "cdots": "…", "vdots": "…",
    "quad": " ", "qquad": " ", "left": "", "right": "", "displaystyle": "", "limits": "",
    "big": "", "Big": "", "bigg": "", "Bigg": "", "bigl": "", "bigr": "", "nonumber": "",
    "mid": "|", "vert": "|", "lvert": "|", "rvert": "|", "prime": "'", "ell": "l", "hbar": "ℏ",
    "colon": ":", "sim": "∼", "lfloor": "⌊", "rfloor": "⌋", "lceil": "⌈", "rceil": "⌉",
    "lVert": "‖", "rVert": "‖", "langle": "⟨", "rangle": "⟩", "lnot": "¬", "lor": "∨",
    "setminus": "∖", "cong": "≅", "simeq": "≃", "supset": "⊃", "supseteq": "⊃", "noindent": "",
    "textstyle": "", "hline": "", "biggl": "", "biggr": "", "Bigl": "", "Bigr": "",
    "xrightarrow": "→", "xleftarrow": "←",
} | {
    spelled: unicodedata.lookup(f"GREEK {size} LETTER {name.upper()}")
    for name in _GREEK
    for spelled, size in ((name, "SMALL"), (name.capitalize(), "CAPITAL"))
}  # fmt: skip
# Words of English too, so commands in a formula alone.
_SIGNS_OF_FORMULAS = {
    "land": "∧", "wedge": "∧", "vee": "∨", "neg": "¬", "perp": "⊥", "parallel": "∥", "Vert": "‖",
    "circ": "∘", "ast": "*", "star": "⋆", "bullet": "•", "top": "⊤", "triangle": "△",
    "square": "□", "middle": "", "mod": "mod", "bmod": "mod", "Pr": "Pr",
}  # fmt: skip
_ENGLISH = {
    "mid": "given", "implies": "implies", "Rightarrow": "implies", "cdots": ", and so on",
    "times": "times", "cdot": "times", "land": "and", "wedge": "and", "lor": "or", "vee": "or",
    "lnot": "not", "neg": "not", "setminus": "minus", "perp": "is perpendicular to",
    "parallel": "is parallel to", "cong": "is congruent to", "simeq": "is approximately",
    "supset": "is a superset of", "supseteq": "is a superset of", "circ": "of", "star": "star",
    "ast": "star", "top": "transpose", "triangle": "triangle", "square": "square",
    "Vert": "norm", "bullet": "dot",
}  # fmt: skip
_FUNCTIONS = [
    "sin", "cos", "tan", "cot", "sec", "csc", "arcsin", "arccos", "arctan", "sinh", "cosh",
    "tanh", "log", "ln", "lg", "exp", "det", "gcd", "max", "min", "sup", "inf", "lim", "arg",
    "dim", "ker", "deg",
]  # fmt: skip
_DRESS = (  # what shows its words in another way: font, box, accent
    r"math(?:bb|bf|cal|frak|it|rm|scr|sf|tt)|text(?:bf|it|tt|rm|sc|sf|up|normal)?|operatorname\*?|"
    r"boxed|fbox|mbox|emph|underline|overline|widehat|widetilde|hat|bar|vec|ddot|dot|tilde|"
    r"(?:under|over)brace|url|boldsymbol|bm|ce|text(?:sub|super)script|textcolor\{\w{1,30}\}|"
    r"color\{\w{1,30}\}|href\{[^{}\s]{1,400}\}"
)
_SET_APART = r"(?:sub){0,2}section\*?|chapter\*?|paragraph\*?|title|author|caption"
_UNSPOKEN = (
    r"label|(?:eq|page|auto|[cC])?ref|cite[a-z]?\*?|tag\*?|[vh]space\*?|[vh]?phantom|usepackage|"
    r"documentclass|footnotemark|includegraphics(?:\[[^\[\]\n]{0,80}\])?|bibliography(?:style)?"
)
_SIZED = (  # what dresses the rest of a group: "{\large words}"
    r"tiny|scriptsize|footnotesize|small|normalsize|[lL]arge|LARGE|[hH]uge|bf|it|em|tt|sc|sf|rm|sl|"
    r"bfseries|itshape|ttfamily|scshape|sffamily|slshape|mdseries|upshape|centering"
)
_MARKS = r"sum|prod|int|lim"

_GROUP = r"\{[^{}\n]{0,400}+\}"
for _ in range(3):  # as deep as people nest them
    _GROUP = rf"\{{(?:[^{{}}\n]|{_GROUP}){{0,400}}+\}}"
_NAMES = "|".join(sorted((*_SIGNS, *_FUNCTIONS), key=len, reverse=True))
_GROUPED = (  # what has braces, and so is no part of a path
    rf"(?<!\\)\\(?:(?:[dtc]?frac|[dt]?binom)\s?{_GROUP}\s?{_GROUP}"
    rf"|sqrt(?:\[[^\[\]\n]{{1,20}}\])?\s?{_GROUP}"
    rf"|(?:{_DRESS}|{_SET_APART}|{_UNSPOKEN}|footnote|pmod)\s?{_GROUP})|[∑∏∫](?=_{_GROUP})"
)
_KNOWN = rf"\\(?:pmod\s?\w(?!\w)|(?:{_NAMES})(?![A-Za-z]))"
_RAISED = rf"(?:[_^](?:{_GROUP}|\\[A-Za-z]{{1,20}}|\w)){{0,2}}"
_LONE = pattern_of(
    rf"{_GROUPED}{_RAISED}"
    rf"|(?<![A-Za-z:\\._-])(?<!\w\\)(?:{_KNOWN}{_RAISED})(?!\\\w{{0,30}}(?:\.\w|\\)"
    rf"|\\(?!(?:{_NAMES})(?![A-Za-z])|[A-Za-z]{{1,20}}\s?\{{)\w)"
    rf"|\{{\\(?:{_SIZED})(?![A-Za-z])(?:[^{{}}\n]|{_GROUP}){{0,400}}\}}"
    rf"|(?<=[\w)\]])(?:\^\s?\\circ(?![A-Za-z])|[_^]{_GROUP}|\\text(?:sub|super)script{_GROUP}){{1,2}}"
)
_COMMANDS = pattern_of(
    rf"{_NAMES}|{'|'.join(_SIGNS_OF_FORMULAS)}|[dtc]?frac|[dt]?binom|not|{_DRESS}|{_SET_APART}|"
    rf"{_UNSPOKEN}|{_SIZED}|text[a-z]+"
)
_ITEM = pattern_of(r"^[ \t]{0,16}\\item(?:\[[^\[\]\n]{0,80}\])?[ \t]{0,4}", re.MULTILINE)
_ENVIRONMENTS = (
    r"(?:equation|align|aligned|gather|gathered|multline|eqnarray|split|cases|math|displaymath|"
    r"[pbvBV]?matrix|smallmatrix|array)\*?"
)
_ENVIRONMENT = pattern_of(
    rf"\\begin\{{(?P<name>{_ENVIRONMENTS})\}}"
    r"(?P<words>(?:(?!\\begin\{)[\s\S]){0,4000}?)\\end\{(?P=name)\}"
)
_EDGE = pattern_of(
    rf"\\(?:begin|end)\{{{_ENVIRONMENTS}\}}(?:\{{[lcr| ]{{1,20}}\}})?|\A\{{[lcr| ]+\}}"
)
_OTHER_ENVIRONMENT = pattern_of(r"\\(?:begin|end)\{[A-Za-z]{2,20}\*?\}(?:\[[^\[\]\n]{0,40}\])?")
# A dollar opens a formula beside what is no space, and closes one there too, before no figure.
_SPAN = pattern_of(
    r"(?<!\\)\\\((?P<round>(?:(?!\\[()])[^\n]){1,400})\\\)"
    r"|(?<!\\)\\\[(?P<square>(?:(?!(?<!\\)\\[\[\]]|\n\s*\n)[\s\S]){1,2000})\\\]"
    r"|(?<![$\\])\$\$(?!\$)(?P<shown>[^$]{1,2000})\$\$(?!\$)"
    r"|(?<![A-Za-z0-9_$\\])\$(?![\s$])(?P<inline>(?:[^$\n]|(?<=\\)\$|\n(?![ \t]{0,8}\n)){1,400})"
    r"(?<![\s\\])\$(?![\d$\{]|(?!(?:st|nd|rd|th|s)\b)\w)"
)
_ESCAPED = pattern_of(r"[A-Za-z]{3,} [A-Za-z]{3}")  # of words in brackets
_MATHEMATICS = pattern_of(r"\\[A-Za-z]|[\^_=<>+]|^\s*[A-Za-z](?:\s?\([A-Za-z]\))?\s*$|\d\s?[*/-]")
# What a regular expression escapes, which LaTeX has no command for.
_EXPRESSION = pattern_of(r"\\(?:[bBdDwWsSnrt](?![A-Za-z])|[.?/-])|\|\^|\(\?[:=!<]|\[\^|\.\*")
# Of what dollars enclose: words that are no prose, and the rest of it.
_NAMED_WORDS = pattern_of(rf"\\(?:{_DRESS})\s?{_GROUP}|\\[A-Za-z]+\*?|[_^]\s?{_GROUP}")
_PROSE = pattern_of(
    r"[A-Za-z]{3,},? [A-Za-z]{2}|[\u3040-\u30ff\u3400-\u9fff\uac00-\ud7a3]{2}|[€£¥₹]|"
    r"</?[A-Za-z]+[^<>]*>"
)
_RELATED = pattern_of(r"[\\^_=<>+|≤≥≠≈∈×·±]|[*−-](?![A-Za-z]{3})")
_PRICED = pattern_of(  # "5 per", "5, 10", "5 = 7 US"
    r"\d[\d.,]*[kKmMbB]?\s?(?:[,;)]|(?:a|[A-Za-z]{2,})\b)|\d.*\s(?:US|CA|AU|NZ|HK)\Z"
)
_UNRELATED = pattern_of(  # "x", "2n", "O(1)", "(x, y)", "5"
    r"[-−]?\d[\d.,]*%?|[(\[][\d., ]{1,20}[)\]]|(?=[^A-Za-zα-ω]{0,20}[A-Za-zα-ω])"
    r"(?:\s?+(?:\d++(?:\.\d++)?+|[()\[\],:;/]|"
    r"(?:log|exp|sin|cos|tan|max|min|Var|Cov|[A-Za-zα-ωΑ-Ω]{1,2})(?![A-Za-z])'{0,2}+!?+)){1,40}+"
)


def _inner(name: str) -> str:
    return rf"\{{(?P<{name}>[^{{}}]{{0,400}})\}}"


_FRACTION = pattern_of(
    r"\\(?P<kind>[dtc]?frac|[dt]?binom)\s?" + _inner("upper") + r"\s?" + _inner("lower")
)
_ACCENTS = {
    "hat": " {} hat ", "widehat": " {} hat ", "bar": " {} bar ", "overline": " {} bar ",
    "tilde": " {} tilde ", "widetilde": " {} tilde ", "dot": " {} dot ", "ddot": " {} double dot ",
    "vec": " vector {} ",
}  # fmt: skip
_ACCENTED = pattern_of(
    rf"\\(?P<accent>{'|'.join(_ACCENTS)})(?:\s?\{{\s?(?P<of>\\[A-Za-z]{{1,10}}|[A-Za-z])\s?\}}"
    r"|(?:\s(?=[A-Za-z])|(?=\\))(?P<bare>\\[A-Za-z]{1,10}|[A-Za-z]))"
)
_NOTE = pattern_of(r"\s?\\footnote\s?" + _inner("words"))
_STACKED = pattern_of(
    r"\\(?:overset|underset|stackrel)\s?" + _inner("upper") + r"\s?" + _inner("lower")
)
_RESIZED = pattern_of(rf"\{{\\(?:{_SIZED})(?![A-Za-z])\s?(?P<words>[^{{}}]{{0,400}})\}}")
_MODULO = pattern_of(r"\\pmod\s?(?:\{(?P<of>[^{}]{1,40})\}|(?P<one>\w(?!\w)))")
_LISTED = pattern_of(r"(?<=\d),(?=\d)(?!\d{3}(?!\d))|(?<=[A-Za-z)]),(?=\w)|(?<=\w),(?=[A-Za-z(])")
_ALIGNED = pattern_of(r"(?<!\\)&")
_BARE_DRESS = pattern_of(rf"\\(?:{_DRESS})(?![A-Za-z])")
_APPLIED = pattern_of(
    r"(?<![A-Za-z\\])(?P<name>[fghpqA-Z]'{0,2})\((?P<of>[^()=<>]{1,40})\)"
    r"|(?<![A-Za-z\\])(?P<chance>\\?(?:Pr|Var|Cov)|[EP])\s?(?:\((?P<event>[^()]{1,60})\)|"
    r"\[(?P<variable>[^\[\]]{1,60})\])"
)
_STARRED = pattern_of(r"\^\s?(?:\*|\{\s?(?:\*|\\ast|\\star)\s?\}|\\ast|\\star)(?![A-Za-z])")
_TRANSPOSED = pattern_of(r"\^\s?(?:\\top|\{\s?\\top\s?\})(?![A-Za-z])")
_PRIMES = {1: " prime", 2: " double prime"}
_PRIMED = pattern_of(r"(?<=[A-Za-z])(?P<primes>'{1,2})(?![\w'])")
_FACTORIAL = pattern_of(r"(?<=[\w)])!(?![=!])")
_BRACE = pattern_of(r"\\[{}]")
_PRINTED = pattern_of(r"\\(?P<sign>[%$#&_])")
_NORM = pattern_of(
    r"(?:\\\||\\[lr]?Vert(?![A-Za-z]))(?P<of>[^|]{1,60}?)(?:\\\||\\[lr]?Vert(?![A-Za-z]))"
)
_BAR = pattern_of(r"\\(?:[lr]?vert|mid)(?![A-Za-z])")
_SUCH = pattern_of(r"(?P<of>\\\{[^{}|]{1,40})\|(?=[^|]{0,80}\\\})")
_GIVEN = pattern_of(r"\((?P<of>[^()|]{1,40})\|(?P<by>[^()|]{1,40})\)")
_ABSOLUTE = pattern_of(r"\|(?P<of>[^|]{1,60})\|")
_SET = pattern_of(r"[A-Z](?:_\w)?")
_LONE_BAR = pattern_of(r"(?<!\|)\|(?!\|)")
_ROOT = pattern_of(r"\\sqrt(?:\[(?P<degree>[^\[\]]{1,20})\])?\s?" + _inner("of"))
_DRESSED = pattern_of(rf"\\(?:{_DRESS})\s?" + _inner("words"))
_TITLED = pattern_of(rf"\\(?:{_SET_APART})\s?" + _inner("words"))
_DROPPED = pattern_of(rf"\\(?:{_UNSPOKEN})\s?" + _inner("words"))
_SUMMED = pattern_of(
    rf"(?:\\(?P<mark>{_MARKS})(?:\\limits)?|(?P<sign>[∑∏∫]))\s?_(?:{_inner('low')}|(?P<first>\w))"
    rf"(?:\s?\^(?:{_inner('high')}|(?P<last>\w)|\\infty(?P<never>)))?"
)
_ANGLE = pattern_of(r"\^\s?(?:\{\s?\\circ\s?\}|\\circ(?![A-Za-z]))")
_LONE_LETTER = pattern_of(r"(?<![A-Za-z}])\{(\w)\}(?=[_^])")
_SHIFT = pattern_of(r"(?P<sign>[_^])(?:" + _inner("words") + r"|(?P<figure>\d))")
_SHIFTED = pattern_of(r"\\text(?P<sign>su(?:b|per))script" + _inner("words"))
_BARE_ROW = pattern_of(r"\\sqrt\s?(?P<one>\w)|\\[dt]?frac(?P<upper>\d)(?P<lower>\d)")
_GAP = pattern_of(r"\\[,;:! ]|(?<!\\)~")
_ROW = pattern_of(r"\s?\\\\(?:\[[^\[\]\n]{1,10}\])?\s?")
_COMMAND = pattern_of(r"\\(?P<name>[A-Za-z]+)\*?")
_BEFORE_FIGURE = pattern_of(r"\s?[-$]?\d")
_PATH = pattern_of(r"(?:(?<!\w)[A-Za-z]:\\|(?<!\S)\\\\\w)\S*\Z")
_FUNCTION = pattern_of(r"\s{0,3}[a-z](?:\s?\(| of )")
_SIMPLE = pattern_of(r"[\w.∞π]{1,12}")
_FIGURES = pattern_of(r"\d{1,6}")
# A letter behind a number is a variable and no unit; a unit is dressed, divided or longer.
_FACTOR = pattern_of(
    r"(?<=\d)(?P<gap>\s?)(?=[mgLlsWVJNhKA](?![A-Za-z]|\s?[/·]|\s[a-z]\^\{?-))"
    r"|(?<=\d\})(?P<space>\s?)(?=[A-Za-z](?![A-Za-z]|\s?[/·]))"
    r"|(?<=\d\})(?!km|cm|mm|kg)(?P<first>[a-z])(?=[a-z](?![A-Za-z]))"  # "mv²"
)
_ALL_SHIFTED = pattern_of(FIGURES_SHIFTED)
_MINUS = pattern_of(r"(?<![A-Za-z]{2})\s?[-−]\s?(?=[\w(√])(?![A-Za-z]{2})")
_ROOTS = {"2": "square root of", "3": "cube root of", "4": "fourth root of", "n": "nth root of"}
_FROM = {"∑": "sum", "∏": "product", "∫": "integral"}
_MARKED = ("\\", "^{", "_{")
_COMBINING = {
    '"': "DIAERESIS", "'": "ACUTE ACCENT", "`": "GRAVE ACCENT", "^": "CIRCUMFLEX ACCENT",
    "~": "TILDE", "=": "MACRON", ".": "DOT ABOVE", "c": "CEDILLA", "H": "DOUBLE ACUTE ACCENT",
    "v": "CARON", "u": "BREVE", "k": "OGONEK", "r": "RING ABOVE",
}  # fmt: skip
# Without braces within a word alone: an escaped quotation mark looks the same.
_ACCENT = pattern_of(
    r"\\(?P<mark>[\"'`^~=.cHvukr])\{\\?(?P<letter>[A-Za-z])\}"
    r"|(?<=[A-Za-z])\\(?P<bare>[\"^~])(?P<vowel>[aeiouynAEIOUYN])(?=[A-Za-z])"
    r"|(?<=[A-Za-z]{2})\\(?P<acute>')(?P<last>e)(?![A-Za-z])"
)


def is_command(name: str) -> bool:
    """Whether LaTeX has a command of this name that is known here."""
    return _COMMANDS.fullmatch(name) is not None


def latex(draft: Draft, language: str) -> None:
    """Say formulas and commands; before notes, directions and markup, which have brackets too.

    Args:
        language: ISO 639-1.
    """
    if not any(mark in draft.text for mark in _MARKED) and draft.text.count("$") < 2:
        return
    draft.sub(_ACCENT, _accented, KIND, "\\")
    draft.sub(_SPAN, lambda m: _span(m, language), KIND)
    draft.sub(_ENVIRONMENT, lambda m: f" {_said(m.group(), language, is_formula=True)} ", KIND)
    if NO_UNIT in draft.text:
        draft.changes[:] = [
            Change(each.before, each.after.replace(NO_UNIT, ""), each.kind)
            for each in draft.changes
        ]
    draft.sub(_OTHER_ENVIRONMENT, "\n", KIND, "{")
    draft.sub(_ITEM, "- ", KIND, "item")
    draft.sub(_LONE, lambda m: _lone(m, language), KIND)


def _accented(match: re.Match[str]) -> str | None:
    mark = match["mark"] or match["bare"] or match["acute"]
    letter = match["letter"] or match["vowel"] or match["last"]
    made = unicodedata.normalize(
        "NFC", letter + unicodedata.lookup(f"COMBINING {_COMBINING[mark]}")
    )
    return made if len(made) == 1 else None


def _span(match: re.Match[str], language: str) -> str | None:
    words = match["round"] or match["square"]
    if words:
        is_one = _MATHEMATICS.search(words) and not _EXPRESSION.search(words)
        if not is_one or ("\\" not in words and _ESCAPED.search(words)):
            return None  # brackets that Markdown or an expression escapes
    else:
        words = match["shown"] or match["inline"]
        if not _is_formula(words):
            return None
    said = _said(words, language, is_formula=True).strip()
    is_nth = match.string.startswith(("th", "st", "nd", "rd"), match.end()) and len(said) == 1
    return said if is_nth else _apart(said, match)


def _is_formula(words: str) -> bool:
    """Whether what dollars enclose is a formula: neither prose nor the way from price to price."""
    if _EXPRESSION.search(words):
        return False
    bare = _NAMED_WORDS.sub(" x ", words)
    if _PROSE.search(bare) or sum(map(bare.count, "([{")) != sum(map(bare.count, ")]}")):
        return False
    if bare != words and "\\" in words:
        return True
    return _UNRELATED.fullmatch(bare.strip()) is not None or (
        _RELATED.search(bare) is not None and not _PRICED.match(bare)
    )


def _lone(match: re.Match[str], language: str) -> str | None:
    if _PATH.search(match.string[max(0, match.start() - 100) : match.start()]):
        return None
    return _apart(_said(match.group(), language, is_formula=False), match)


def _apart(said: str, match: re.Match[str]) -> str:
    """What is said, with a space where a letter or a figure of it would touch another."""
    before = match.string[max(0, match.start() - 1) : match.start()]
    after = match.string[match.end() : match.end() + 1]
    is_word = said[:1].isalpha() or said[:1].isdecimal()  # and no raised figure
    lead = " " if before.isalnum() and is_word else ""
    return f"{lead}{said}{' ' if said[-1:].isalnum() and after.isalnum() else ''}"


def _said(text: str, language: str, *, is_formula: bool) -> str:
    text = _SHIFTED.sub(lambda m: f"{'_' if m['sign'] == 'sub' else '^'}{{{m['words']}}}", text)
    text = _LONE_LETTER.sub(r"\1", _ANGLE.sub("°", text))
    if is_formula:
        text = _EDGE.sub(" ", text)
        if language == "en":
            text = _FACTOR.sub(_factor, text)
        if language == "en":
            text = _TRANSPOSED.sub(" transpose ", _STARRED.sub(" star ", _barred(text)))
        text = _BRACE.sub(lambda m: "(" if m.group() == "\\{" else ")", text)
    for _ in range(6):  # from the innermost braces on
        before = text
        text = _DROPPED.sub("", text)
        if language == "en":
            text = _ACCENTED.sub(lambda m: _ACCENTS[m["accent"]].format(m["of"] or m["bare"]), text)
        text = _DRESSED.sub(_undressed, text)
        text = _NOTE.sub(lambda m: f" ({m['words'].rstrip(' .')})", text)
        text = _STACKED.sub(r"\g<lower> \g<upper>", text)
        text = _RESIZED.sub(r"\g<words>", text)
        text = _TITLED.sub(lambda m: f"\n\n# {m['words']}\n\n", text)
        text = _FRACTION.sub(lambda m: _fraction(m, language), text)
        text = _ROOT.sub(lambda m: _root(m, language), text)
        text = _SUMMED.sub(lambda m: _summed(m, language), text)
        text = _SHIFT.sub(_shift, text)
        if text == before:
            break
    text = _BARE_ROW.sub(
        lambda m: f"√{m['one']}" if m["one"] else f"{m['upper']}/{m['lower']}", text
    )
    if is_formula:
        text = _ALIGNED.sub(" ", _ROW.sub(", ", text))
    text = _GAP.sub(" ", text)
    text = _MODULO.sub(lambda m: f" mod {m['of'] or m['one']}", text)
    if is_formula:
        text = _LISTED.sub(", ", _BARE_DRESS.sub(" ", text))
        if language == "en":
            text = _APPLIED.sub(_applied, text.replace(":", ": "))
            text = _PRIMED.sub(lambda m: _PRIMES[len(m["primes"])], text)
            text = _FACTORIAL.sub(" factorial ", text)
            text = _MINUS.sub(" minus ", text)
    text = _COMMAND.sub(lambda m: _command(m, language, is_formula=is_formula), text)
    text = text.replace("{", "").replace("}", "")
    return _PRINTED.sub(r"\g<sign>", text) if is_formula else text


def _factor(match: re.Match[str]) -> str:
    if match["first"]:
        return f" {NO_UNIT}{match['first']} "
    return f"{match['gap'] if match['space'] is None else ' '}{NO_UNIT}"


def _barred(text: str) -> str:
    """The words of bars: "|x|", "P(A|B)", "{x | x > 0}"."""
    text = _NORM.sub(r" norm of \g<of> ", text)
    text = _BAR.sub("|", text)
    text = _SUCH.sub(r"\g<of> such that ", text)
    text = _GIVEN.sub(r"(\g<of> given \g<by>)", text)
    text = _ABSOLUTE.sub(_absolute, text)
    return _LONE_BAR.sub(" given ", text)


def _applied(match: re.Match[str]) -> str:
    """ "O(n)" is "O of n"; what follows without a sign is apart."""
    after = match.string[match.end() : match.end() + 1]
    of = match["of"] or match["event"] or match["variable"]
    name = (match["name"] or match["chance"]).lstrip("\\")
    return f" {name} of {of}{', ' if after.isalnum() else ''}"


def _absolute(match: re.Match[str]) -> str:
    of = match["of"].strip()
    if of.count("(") != of.count(")"):
        return match.group()
    name = "size" if _SET.fullmatch(of) else "absolute value"
    return f" {name} of {of} "


def _undressed(match: re.Match[str]) -> str:
    """The words; a letter of a formula stays apart from the one before it."""
    before = match.string[max(0, match.start() - 1) : match.start()]
    return f"{' ' if len(match['words']) == 1 and before.isalnum() else ''}{match['words']}"


def _fraction(match: re.Match[str], language: str) -> str:
    upper, lower = match["upper"].strip(), match["lower"].strip()
    if match["kind"].endswith("binom"):
        return f" {upper} choose {lower} " if language == "en" else f"({upper} {lower})"
    if language == "zh":
        return f"{lower}分之{upper}"
    if language == "en" and not (_FIGURES.fullmatch(upper) and _FIGURES.fullmatch(lower)):
        return f" {upper} over {lower} "
    behind = match.string[match.end() : match.end() + 1]
    return f" {upper}/{lower}{' ' if behind.isalpha() or behind == chr(92) else ''}"


def _root(match: re.Match[str], language: str) -> str:
    degree, of = match["degree"] or "2", match["of"].strip()
    if language == "en":
        return f" {_ROOTS.get(degree, f'{degree}th root of')} {of} "
    return f"√{of}" if _SIMPLE.fullmatch(of) else f"√({of})"


def _summed(match: re.Match[str], language: str) -> str:
    mark = match["mark"] or {"∑": "sum", "∏": "prod", "∫": "int"}[match["sign"]]
    low = match["low"] if match["low"] is not None else match["first"]
    high = match["high"] if match["high"] is not None else match["last"]
    if high is None and match["never"] is not None:
        high = "∞"
    if language != "en":
        sign = _SIGNS.get(mark, mark)
        return f" {sign} {low}{f' {high}' if high else ''} "
    if mark == "lim":
        return f" limit as {low} of "
    name = _FROM[_SIGNS[mark]]
    return f" {name} from {low} to {high} of " if high else f" {name} over {low} of "


def _shift(match: re.Match[str]) -> str:
    words, tag = (
        (match["words"] or match["figure"] or "").strip(),
        "sup" if match["sign"] == "^" else "sub",
    )
    is_x = tag == "sub" and match.string[: match.start()].endswith("x")  # "6x₁" is six by one
    if _ALL_SHIFTED.fullmatch(words) and not is_x:
        return shifted(words, tag)
    if words in ("st", "nd", "rd", "th"):
        return words
    if tag == "sup":
        return f"^{words}" if len(words) == 1 else f"^({words})"
    return f"_{words}" if len(words) == 1 else f" {words} "


def _command(match: re.Match[str], language: str, *, is_formula: bool) -> str:
    name = match["name"]
    if language == "en" and name == "sim" and not _BEFORE_FIGURE.match(match.string, match.end()):
        is_alike = "triangle" in match.string or _FUNCTION.match(match.string, match.end())
        return " is similar to " if is_alike else " is distributed as "
    if language == "en" and name in _ENGLISH and (is_formula or name in _SIGNS):
        return f" {_ENGLISH[name]} "
    sign = _SIGNS.get(name, _SIGNS_OF_FORMULAS.get(name) if is_formula else None)
    if sign is not None:
        return f" {sign} " if sign and unicodedata.category(sign[0]) in ("Sm", "So") else sign
    if name in _FUNCTIONS:
        return f" {name}"
    return f" {name} " if is_formula else match.group()
