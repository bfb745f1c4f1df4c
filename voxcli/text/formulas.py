"""English and Chinese: chemical formulas said by letters, numbers and charges: "N A H C O three".

A formula is known by a lowered figure, a charge or a mass, or, in plain characters, by its symbols
of elements ("Fe2O3", "Ca2+", "NaCl"). Knows no names: "NaCl" is no "sodium chloride".
"""

from __future__ import annotations

import re
import unicodedata

from voxcli.text.changes import Draft, apart
from voxcli.text.characters import RAISED
from voxcli.text.patterns import pattern_of
from voxcli.text.spell import number
from voxcli.text.units import alternatives

_ELEMENTS_LIST = (
    "H He Li Be B C N O F Ne Na Mg Al Si P S Cl Ar K Ca Sc Ti V Cr Mn Fe Co Ni Cu Zn Ga Ge As Se "
    "Br Kr Rb Sr Y Zr Nb Mo Tc Ru Rh Pd Ag Cd In Sn Sb Te I Xe Cs Ba La Ce Pr Nd Pm Sm Eu Gd Tb Dy "
    "Ho Er Tm Yb Lu Hf Ta W Re Os Ir Pt Au Hg Tl Pb Bi Po At Rn Fr Ra Ac Th Pa U Np Pu Am Cm Bk Cf "
    "Es Fm Md No Lr Rf Db Sg Bh Hs Mt Ds Rg Cn Nh Fl Mc Lv Ts Og"
)
_ELEMENTS = frozenset(_ELEMENTS_LIST.split())
_ELEMENT = f"(?:{alternatives(_ELEMENTS)})"
_LOW = r"(?:[₀-₉ₙₓ₊₋]{1,6}(?:\.[₀-₉]{1,3})?(?![₀-₉]|[/⁄][₀-₉]))"
_ATOM = rf"(?:[A-Z]\u0307?[a-z]?(?:{_LOW}|(?![a-z])))"  # NOTE: the dot is V̇O₂'s, a rate
_PART = rf"(?:{_ATOM}|\({_ATOM}{{1,9}}\){_LOW}?)"
_NO_LETTER = r"(?<![^\W\d_])"
_LOWERED = pattern_of(
    rf"{_NO_LETTER}(?P<mass>[{RAISED}]{{2,3}}ᵐ?|[²³](?=H)|[³⁴](?=He)|[⁶⁷](?=Li)|⁷(?=Be))?"
    rf"(?P<formula>{_PART}{{1,12}}(?:[·⋅]\d{{0,2}}{_PART}{{1,12}})?)"
    rf"(?P<charge>[{RAISED}]?[⁺⁻](?![\w⁺⁻{RAISED}]))?",
    re.ASCII,  # a Chinese character beside is no part of it
)
_EVIDENCE = pattern_of(f"[₀-₉ₓ{RAISED}⁺⁻]")
_CANDIDATE = pattern_of(
    f"[0-9(+^−₀-₉ₓ{RAISED}⁺⁻CBOASIFNP-](?:(?<=[{RAISED}])ᵐ?[A-Z]|(?<=[A-Za-z)].)(?<![CBOASIFNP])(?!(?<=-)\\w)|"
    "(?<=[a-zA-Z]C)[lN]|(?<=[a-zA-Z]B)r|(?<=[a-zA-Z]O)H|(?<=[a-zA-Z]A)s|"
    "(?<=[a-z][OSIFNPC])(?![a-z]))"
)
_SYMBOL = pattern_of("[A-Z][a-z]?")
_FIGURE = pattern_of("[₀-₉]")
_COUNT = r"(?:[2-9]|[1-9]\d)"
_UNIT = rf"{_ELEMENT}{_COUNT}?"
_GROUP = rf"\((?:{_UNIT}){{2,6}}\){_COUNT}"
_PLAIN = pattern_of(
    rf"(?<![\w.^/])(?=[A-Za-z]{{1,9}}[\d(])(?P<formula>(?:{_UNIT}|{_GROUP}){{2,12}})"
    r"(?P<charge>\^?\d?\+|\^\d?-)?(?![\w(+^])",
    re.ASCII,
)
_LONG_ROW = pattern_of(r"[A-Z]{4,}\d+")
_METALS = "Na|Li|Mg|Ca|Sr|Ba|Al|Cr|Mn|Fe|Ni|Cu|Zn|Ag|Cd|Hg|Pb"
_ION = pattern_of(rf"(?<![\w.])(?:(?:{_METALS})\^?[2-4]?\+(?![\w+])|(?:Cl|Br)-(?![\w-]))", re.ASCII)
_POLYATOMIC = (
    "SO4|SO3|HSO4|S2O3|CO3|HCO3|PO4|HPO4|H2PO4|NO3|NO2|NH4|ClO4|ClO3|ClO2|ClO|MnO4|CrO4|Cr2O7|"
    "OH|CN|SCN|C2O4|SiO3|"
    "AsO4|BF4|PF6|CH3COO|HCOO|H3O|BO3|IO3|BrO3"
)
_CHARGED = pattern_of(
    rf"(?<![\w.])(?P<formula>{_POLYATOMIC})(?P<charge>\^?[1-4]?[+\-−])(?![\w+\-−])", re.ASCII
)
_SALT = pattern_of(
    rf"(?<!\w)(?:[HK](?:Cl|Br)|(?:{_METALS})(?:Cl|Br|I|F|OH|O|S|CN)|GaAs|GaN|InP|SiC)(?![\w'’])",
    re.ASCII,
)
_TOKEN = pattern_of(r"[A-Za-z]|\d+(?:\.\d+)?|[·⋅+-]")
_SIGNS = {
    "en": {"·": "dot", "⋅": "dot", "+": "plus", "-": "minus"},
    "zh": {"·": "点", "⋅": "点", "+": "正", "-": "负"},
}


def formulas(draft: Draft, language: str) -> None:
    """Say formulas, in English or Chinese; before superscripts, subscripts and numbers."""
    if not _CANDIDATE.search(draft.text):
        return
    if _EVIDENCE.search(draft.text):
        draft.sub(_LOWERED, lambda m: _lowered(m, language), "formula")
    draft.sub(_CHARGED, lambda m: _said(f"{m['formula']} {m['charge']}", language), "formula")
    draft.sub(_PLAIN, lambda m: _plain(m, language), "formula")
    draft.sub(_ION, lambda m: _said(m.group(), language), "formula")
    draft.sub(_SALT, lambda m: _said(m.group(), language), "formula")


def _lowered(match: re.Match[str], language: str) -> str | None:
    formula, mass, charge = match["formula"], match["mass"] or "", match["charge"] or ""
    symbols = _SYMBOL.findall(formula)
    is_known = len(symbols) > 1 or len(symbols[0]) == 1 or symbols[0] in _ELEMENTS
    is_weighed = bool(mass) and symbols[0] in _ELEMENTS
    is_counted = _FIGURE.search(formula) or (len(symbols) > 1 and "ₓ" in formula)
    if not is_known or not (is_weighed or is_counted or charge):
        return None
    return apart(_said(f"{mass} {formula} {charge}", language), match)


def _plain(match: re.Match[str], language: str) -> str | None:
    """A row of capitals is one only if it is short: "NO2", but not "VISION5"."""
    is_word = match["formula"].isalpha() or _LONG_ROW.fullmatch(match["formula"])
    return None if is_word else _said(f"{match['formula']} {match['charge'] or ''}", language)


def _said(formula: str, language: str) -> str:
    """Chinese keeps the figures, which its own rules of numbers say."""
    folded = unicodedata.normalize("NFKC", formula).replace("\u2212", "-")
    return " ".join(
        number(token)
        if token[0].isdecimal() and language == "en"
        else _SIGNS[language].get(token, token.upper())
        for token in _TOKEN.findall(folded)
    )
