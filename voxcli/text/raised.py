"""English: superscripts and subscripts by what they are: powers, charges, indices.

A power becomes what people type ("x^2", "x^(n+1)"), so that the rules of numbers and units know one
spelling; a lone ² or ³ stays, for units have squares of their own. Marks of notes are gone before
(`notes.py`). Knows no other number.
"""

from __future__ import annotations

import re
import unicodedata

from voxcli.text.changes import Draft
from voxcli.text.characters import RAISED
from voxcli.text.patterns import pattern_of
from voxcli.text.spell import cardinal

_LETTERS = "ʰ-ʸˡ-ˣᴬ-ᵡᶜ-ᶻⁱⁿ"
_LOW_LETTERS = "ₐ-ₜᵢ-ᵪⱼ"
_LETTER = rf"[^\W\d_{RAISED}₀-₉{_LETTERS}{_LOW_LETTERS}]"  # not raised or lowered itself
_ANY = pattern_of(f"[{RAISED}₀-₎⁺⁻{_LETTERS}{_LOW_LETTERS}^]")
_TERM = rf"(?:[{RAISED}]{{1,3}}[{_LETTERS}]?|[{_LETTERS}])"
_FRACTION = pattern_of(
    rf"(?P<before>(?<=\d) ?|(?<=[^\W\d]))?(?P<parts>[{RAISED}₀-₉]{{1,3}}[⁄/][₀-₉]{{1,3}})"
)
_WORD = pattern_of(rf"[{_LETTERS}]{{2,}}")  # 1ˢᵗ, nᵗʰ, Mᵐᵉ
_MASS = pattern_of(rf"(?<![\w)⁺⁻])[{RAISED}]{{2,3}}")  # ²³⁵U
_INDEX = pattern_of(f"(?<=[^\\W_])(?=[₀-₉]*[{_LOW_LETTERS}])[₀-₉{_LOW_LETTERS}₊₋]+")
_SPEED = pattern_of("(?<![^\\W_])v(?P<index>[₀-₉]{1,2})")  # v₀, which is no version
_LOWERED = pattern_of("[₀-₎]")
_CHARGE = pattern_of(rf"(?<=[^\W_])(?P<count>[{RAISED}]?)(?P<sign>[⁺⁻])(?![\w⁺⁻])")
# After one letter, a digit or a bracket; a negative one after any word ("min⁻¹").
_EXPONENT = pattern_of(
    rf"(?:(?<=[\d)])|(?<=(?<!{_LETTER}){_LETTER})|"
    rf"(?<={_LETTER})(?=⁻))(?![²³](?![{RAISED}{_LETTERS}⁺⁻]))"
    rf"(?P<power>[⁺⁻]?{_TERM}(?:[⁺⁻]{_TERM})*)"
)

# A span of powers of ten, and what is taken from a power; a hyphen after a unit joins ("m²-5").
_SPAN = pattern_of(
    r"(?P<power>(?<!\w)10(?:[²³]|\^-?\d{1,3}))(?:\s?–\s?|"
    r"-)(?=(?:\d(?:\.\d{1,3})?\s?[×·x]\s?)?10[²³^])"
)
_MINUS = pattern_of(
    rf"(?<=[²³])(?:\s?−\s?|(?<![Mm].)(?:-|\s[-–]\s))(?=\d|\(|{_LETTER}(?!{_LETTER}))"
)


def raised(draft: Draft) -> None:
    """Superscripts and subscripts to plain characters; before all other number rules."""
    if not _ANY.search(draft.text):
        return
    draft.sub(
        _FRACTION, lambda m: f"{'' if m['before'] is None else ' '}{_plain(m['parts'])}", "letter"
    )
    draft.sub(_WORD, lambda m: _plain(m.group()), "letter")
    draft.sub(_MASS, lambda m: _plain(m.group()), "letter")
    draft.sub(_INDEX, _apart, "letter")
    draft.sub(_SPEED, lambda m: f"v {cardinal(int(_plain(m['index'])))}", "letter")
    draft.sub(_LOWERED, lambda m: _plain(m.group()), "letter")
    draft.sub(_CHARGE, _apart, "letter")
    draft.sub(_EXPONENT, _exponent, "letter")
    draft.sub(_SPAN, lambda m: f"{m['power']} to ", "number")
    draft.sub(_MINUS, " minus ", "symbol")


def _plain(text: str) -> str:
    return unicodedata.normalize("NFKC", text).replace("\u2212", "-").replace("⁄", "/")


def _apart(match: re.Match[str]) -> str:
    """Words of their own: an index ("a n plus 1"), a charge ("Ca 2 plus")."""
    words = _plain(match.group()).replace("+", " plus ").replace("-", " minus ").strip()
    return f" {words}{' ' if match.string[match.end() : match.end() + 1].isalnum() else ''}"


def _exponent(match: re.Match[str]) -> str:
    power = _plain(match["power"]).lstrip("+")
    if not re.fullmatch(r"-?(?:\d+|[^\W\d])", power):
        return f"^({power})"
    is_followed = power[-1].isalpha() and match.string[match.end() : match.end() + 1].isalnum()
    return f"^{power}{' ' if is_followed else ''}"
