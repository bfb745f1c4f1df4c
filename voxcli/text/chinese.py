"""Chinese: figures, units and powers written out, then the numbers by wetext's grammars.

wetext ships with its grammars and needs no network; without it the digits stay, which the models
that speak Chinese read. It knows the units of daily life but takes the first letters of others for
one of these ("5 mA" for meters), so they are named before. Knows no other language.
"""

from __future__ import annotations

import re
import unicodedata
from functools import lru_cache
from typing import Any

from voxcli.text.changes import Draft
from voxcli.text.characters import LISTED, RAISED
from voxcli.text.chinese_figures import figures
from voxcli.text.patterns import pattern_of
from voxcli.text.units import alternatives, with_prefixes

_PREFIXES = {
    " ": "", "T": "太", "G": "吉", "M": "兆", "k": "千", "h": "百", "d": "分", "c": "厘", "m": "毫",
    "µ": "微", "n": "纳", "p": "皮",
}  # fmt: skip
_BASES = (
    ("m", "米", " kdcmµn"), ("g", "克", " kmµn"), ("L", "升", " dcmµ"), ("l", "升", " dcmµ"),
    ("s", "秒", " mµn"), ("Hz", "赫兹", " kMGT"), ("W", "瓦", " mkMGT"), ("Wh", "瓦时", " kMGT"),
    ("V", "伏", " mkµ"), ("A", "安", " mkµn"), ("Ah", "安时", "m"), ("Ω", "欧", " mkMG"),
    ("F", "法", " mµnp"), ("H", "亨", "mµn"), ("T", "特斯拉", "mµn"), ("J", "焦耳", " mkMG"),
    ("cal", "卡", " k"), ("eV", "电子伏", " mkMGT"), ("N", "牛", " mk"),
    ("Pa", "帕", " mhkMG"), ("mol", "摩尔", " kmµn"), ("Sv", "西弗", " mµ"),
    ("Gy", "戈瑞", " m"), ("Bq", "贝克勒尔", " kMG"), ("lm", "流明", " "), ("lx", "勒克斯", " "),
)  # fmt: skip
_UNITS = with_prefixes(_BASES, _PREFIXES) | {
    "min": "分钟", "h": "小时", "d": "天", "a": "年", "K": "开尔文", "°C": "摄氏度", "t": "吨",
    "ha": "公顷", "mmHg": "毫米汞柱", "dB": "分贝",
}  # fmt: skip
_SIGN = alternatives(set(_UNITS))
_POWER = r"(?:[²³]|⁻[¹²³])?"
_PART = rf"(?:{_SIGN}){_POWER}"
_MEASURE = pattern_of(
    rf"(?<=[\d{RAISED}])\s?(?P<unit>{_PART}(?:[·⋅ ]{_PART}){{0,3}}"
    rf"(?:/{_PART}|/\({_PART}(?:[·⋅]{_PART}){{1,2}}\)){{0,3}})"
    r"(?![A-Za-z0-9²³^⁻/])"
)
_PARTS = pattern_of(rf"(?P<sign>{_SIGN})(?P<power>{_POWER})")
_DAILY = r"(?:[kdcmn]?m|[kmn]g|L|ml|[mn]?s|kW|kcal|mol|min|h|ha|°C)"
# Left to wetext; one letter alone is more often a word ("5A景区") than a unit.
_KNOWN = pattern_of(rf"(?![gtV]\Z)[A-Za-z]|{_DAILY}(?:/{_DAILY})?")
_GENERATION = pattern_of(r"(?<!\d)[2-6]g(?=[网信手时基代])")  # "5g网络"
_RAISED = pattern_of(
    rf"(?:(?<=[0-9)）])|(?<=(?<![A-Za-z])[A-Za-ln-z]))(?P<power>⁻?[{RAISED}]{{1,3}}|ⁿ)(?![⁺⁻⁄ᴬ-ᶿⁿ])"
)
# As English writes a decade, which is no number of seconds.
_DECADE = pattern_of(
    r"(?<![\d.,了])(?:(?P<year>(?:1[5-9]|20)\d0)|['’‘](?P<short>[2-9]0))s(?:\s?年代)?(?![A-Za-z0-9])"
)
_SQUARED_UNIT = pattern_of("[\u3371-\u33df]")
_GRADE = pattern_of(
    r"(?<![A-Za-z])(?P<letter>[A-FO]|AB)(?P<sign>[+-])(?=[，。；、！？）)\s和或到至]|$|型|级|等|评级|血)"
)
_BLOOD = pattern_of(r"血型|[型血]")
_HALF = pattern_of(r"(?<!\d)2(?=分之\d)")
_ROOT = pattern_of(r"√(?=[\d(（A-Za-z])")
_CARET = pattern_of(r"(?<=[\d)）A-Za-z])\^(?P<power>-?\d{1,3}|[A-Za-z](?![A-Za-z]))")
_PLUSES = pattern_of(r"\+\+(?=\d)")  # C++17
_PER_MILLE = pattern_of(r"(?P<number>\d{1,9}(?:\.\d{1,4})?)\s?‰")
_ANGLE = pattern_of(r"(?<=\d)°\s?(?P<minutes>\d{1,2})[′'](?:\s?(?P<seconds>\d{1,2})[″\"])?")
_MODEL = pattern_of(r"(?:(?<=[A-Z])|(?<=[A-Za-z]{2}))-(?=\d)")  # "GPT-4"
_CALCULATED = pattern_of(
    r"(?<=[0-9A-Za-z²³)）α-ω方])\s?(?P<sign>[+*÷≈≤≥≠<>]|×(?!10[²³⁰-⁹^])|(?<![?&][a-z])(?<![A-Za-z]{2})=)\s?"
    r"(?=[0-9(（√]|-\d|[A-Za-zα-ω](?![A-Za-z]))|(?<=\d)[xX](?=\d)"
)
_CALCULATIONS = {"+": "加", "*": "乘", "×": "乘", "x": "乘", "X": "乘", "÷": "除以", "=": "等于",
    "≈": "约等于", "≤": "小于等于", "≥": "大于等于", "≠": "不等于", "<": "小于", ">": "大于",
}  # fmt: skip
_SPAN = pattern_of(r"(?<=[次立平]方)\s?[-–~]\s?(?=\d+的)")
_FRACTION = pattern_of(r"(?<![A-Za-z0-9./])(?P<upper>\d{1,4})/(?P<lower>\d{1,4})(?![A-Za-z0-9./])")
_ABOUT = pattern_of(r"(?<![\w~])[~∼≈]\s?(?=\d)")
_FIGURES = str.maketrans("⁰¹²³⁴⁵⁶⁷⁸⁹ⁿ", "0123456789n")
_SENTENCE = pattern_of(r"[^\n。！？；]{1,400}[。！？；]*")
_LATIN = "A-Za-z\u00c0-\u024f"
_BEHIND_FIGURE = pattern_of(rf"(?<=[\d%％])\s{{0,8}}(?P<word>[{_LATIN}]+(?:/[{_LATIN}]+){{0,3}})")
_HAS_LATIN = pattern_of(f"[{_LATIN}]")


def write_out(draft: Draft) -> None:
    """Name units, powers and "~"; before brackets go and after formulas."""
    draft.text = draft.text.replace("μ", "µ")  # the Greek letter and the micro sign
    draft.text = draft.text.replace("㎡", "m²").replace("㎥", "m³")
    draft.text = _SQUARED_UNIT.sub(lambda m: unicodedata.normalize("NFKC", m.group()), draft.text)
    figures(draft)
    draft.sub(_PER_MILLE, lambda m: f"千分之{m['number']}", "number", "‰")
    draft.sub(_ANGLE, _angle, "unit", "°")
    draft.sub(_ROOT, "根号", "symbol", "√")
    draft.sub(_CARET, _power, "number", "^")
    draft.sub(_ABOUT, "约", "symbol")
    draft.sub(_FRACTION, _fraction, "number")
    draft.sub(_HALF, "二", "number", "分之")
    draft.sub(_PLUSES, "++ ", "number", "++")
    draft.sub(_MODEL, " ", "number", "-")
    draft.sub(_GRADE, _grade, "symbol")
    draft.sub(_DECADE, lambda m: f"{m['year'] or m['short']}年代", "date", "0s")
    draft.sub(_MEASURE, _measure, "unit")
    draft.sub(_CALCULATED, lambda m: _CALCULATIONS[m["sign"] or "x"], "symbol")
    draft.sub(_RAISED, _power, "number")
    draft.sub(_SPAN, "到", "number")
    draft.text = LISTED.sub("、", draft.text)


def _angle(match: re.Match[str]) -> str:
    return f"度{match['minutes']}分" + (f"{match['seconds']}秒" if match["seconds"] else "")


def _fraction(match: re.Match[str]) -> str:
    upper, lower = ("二" if each == "2" else each for each in match.group("upper", "lower"))
    return f"{lower}分之{upper}"


def _grade(match: re.Match[str]) -> str | None:
    near = match.string[max(0, match.start() - 8) : match.end() + 4]
    letter = " ".join(match["letter"])
    if _BLOOD.search(near):
        return f"{letter}{'阳性' if match['sign'] == '+' else '阴性'}"
    if match["letter"] in ("O", "AB"):
        return None
    return f"{letter}{'加' if match['sign'] == '+' else '减'}"


def numbers(draft: Draft) -> None:
    """Say numbers, dates and what else wetext knows."""
    if _wetext() is not None and re.search("[0-9a-zA-Z%$￥¥=]", draft.text):
        draft.sub(_SENTENCE, lambda m: _said(m.group()), "number")


def _said(text: str) -> str:
    """What wetext says, of no word but whole ones: it takes the h of "24 hours" for a unit."""
    pieces: list[str] = []
    done = 0
    for match in _BEHIND_FIGURE.finditer(text):
        if _is_torn(match["word"]):
            pieces += [_said_alone(text[done : match.start("word")]), match["word"]]
            done = match.end()
    return "".join((*pieces, _said_alone(text[done:])))


@lru_cache(1 << 12)
def _is_torn(word: str) -> bool:
    """Whether wetext reads a part of a word behind a figure."""
    said = _said_alone(f"5{word}")
    return not said.endswith(word) and _HAS_LATIN.search(said) is not None


def _said_alone(text: str) -> str:
    """Of a text, with the spaces at its ends."""
    bare = text.strip()
    if not bare:
        return text
    start = text.index(bare)
    said = str(_wetext().normalize(bare))
    if '\\"' not in bare:
        said = said.replace('\\"', '"')  # which it puts before some quotation marks
    return f"{text[:start]}{said}{text[start + len(bare) :]}"


@lru_cache(maxsize=1)
def _wetext() -> Any:
    try:
        from wetext import Normalizer
    except ImportError:
        return None
    return Normalizer(lang="zh", operator="tn", remove_erhua=False)


def _measure(match: re.Match[str]) -> str | None:
    unit = match["unit"]
    is_after_power = not match.string[match.start() - 1].isdecimal()
    if _KNOWN.fullmatch(unit) and not is_after_power:
        return None
    if _GENERATION.match(match.string, match.start() - 1):
        return None
    slash = unit.find("/") if "/" in unit else len(unit)
    return "".join(
        ("每" if part.start() > slash or "⁻" in part["power"] else "")
        + {"²": "平方", "³": "立方"}.get(part["power"][-1:], "")
        + _UNITS[part["sign"]]
        for part in _PARTS.finditer(unit)
    )


def _power(match: re.Match[str]) -> str:
    power = match["power"].translate(_FIGURES).replace("⁻", "负")
    return {"2": "的平方", "3": "的立方"}.get(power, f"的{power}次方")
