"""Chinese: units and powers written out, then numbers, dates and more by wetext's grammars.

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
_DASH = r"\s?(?:[-–~～〜－−]|—{1,2})\s?"
_NUMBER = r"\d{1,9}(?:\.\d{1,4})?"
_WIDE_COLON = pattern_of(r"(?<=\d)(?<!\.\d)(?<!\.\d\d)[：∶](?=\d)")
_COLON_BEHIND_DECIMAL = pattern_of(r"(?<=\.\d)：(?=\d)|(?<=\.\d\d)：(?=\d)")
_FORMATION = pattern_of(r"(?<![\w.-])\d(?:-\d){2,4}(?![\d.-]|\s?[=＝])", re.ASCII)  # 4-4-2
_STANDARD_YEAR = pattern_of(
    r"(?<![A-Za-z])(?P<name>[A-Z]{2,5}) ?(?P<number>\d{3,6})[-:](?P<year>\d{2}|\d{4})(?!\d)"
)
_CARD = pattern_of(r"(?<!\d)\d{4}(?: \d{3,4}){2,5}(?! ?\d)")
_THOUSANDS = pattern_of(r"(?<![\d.,])\d{1,3}(?:,\d{3})+(?![\d,])", re.ASCII)
_YEARS = pattern_of(
    rf"(?<![\d.A-Za-z-])(?P<from>1\d{{3}}|20\d\d)(?P<year>年?)(?:{_DASH}|(?P<to>[至到]))"
    r"(?P<last>(?P<long>1\d{3}|20\d\d)|\d\d)(?![\d.,%％-])(?P<of>\s?(?:学年|赛季|财年|年度|年(?![前后])|届|[）)]|$|[，。；、])?)"
)
_SEASON = pattern_of(r"(?<!\d)(?P<from>20\d\d)/(?P<last>(?:20)?\d\d)(?=\s?(?:学年|赛季|财年|年度))")
_SCORE = pattern_of(
    r"(?<![\d.:-])(?P<ours>\d{1,3})[-–—:](?P<theirs>\d{1,3})(?=\s?[，。；、！？\s）)]|$|\s?(?:[\u4e00-\u9fff]{0,2}?"
    r"(?:胜|平|负|败|领先|落后|逆转|告负|夺冠|取|赢|输|的比分|拿下|淘汰)))"
)
_RESULT = pattern_of(
    r"(?:比分|战胜|击败|战平|领先|落后|大胜|完胜|险胜|逆转|[以胜负平败])[^\d，。；！？]{0,6}\Z"
)
_RESULT_BEHIND = pattern_of(r"\s?[\u4e00-\u9fff]{0,2}?(?:胜|平|负|败|领先|落后|逆转|夺冠|淘汰)")
# Between what is alike: "5-10℃", "10%~20%", "9:00—11:30", "3月5日-8日".
_FROM_TO = pattern_of(
    rf"(?<![\d.:/-])(?:(?<![A-Za-z])|(?<=[pP]))(?P<sign>-?)(?P<from>{_NUMBER})(?P<unit>\s?(?:[%％℃度元个日号月年点分秒时天周岁人米万亿章节页条期届倍]{{1,2}}|"
    r"°C?|[A-Za-z]{1,3}(?:/[A-Za-z]{1,3})?(?![A-Za-z]))|:\d\d)?"
    rf"{_DASH}(?=(?P<money>[¥￥$€]?)(?P<minus>-?)(?P<to>{_NUMBER})(?P<clock>:\d\d)?(?!\d|{_DASH}\d|/\d))"
)
_SAID_TO = pattern_of(  # "周一-周五", "一-三年级", "P1-P3"
    rf"(?<=[一二三四五六七八九十天日月]){_DASH}(?=(?:周|星期|第)?[一二三四五六七八九十天])"
    r"|(?<=\d)-(?=(?P<letter>[A-Z])\d)(?<=(?P=letter)\d-)"
)
_STANDARD = pattern_of(r"[A-Z]{2,4}(?:/[A-Z])?\s?\Z")
_MEASURED = pattern_of(r"\s?(?:[%％℃°A-Za-z]|[\u4e00-\u9fff])")
_ALONE = pattern_of(r"\s?[，。；、！？）)]|\s*$")
_PERCENT_BEHIND = pattern_of(r"\s?[%％]")
_PLUS_MINUS = pattern_of(r"\+\s?/\s?[-−–]|(?<!\S)\+[-−](?=\s?\d)")
_SQUARED_UNIT = pattern_of("[\u3371-\u33df]")
_IS_CALCULATED = pattern_of(r"\s?(?:=|＝|等于|得)")
_OF_BELOW = pattern_of(
    r"(?:[分数值球额量润为是到至于温达约近从在和与或跌低升降差率得超过即\d]|零下)\Z"
)
_NAMED = pattern_of(  # "歼-20", where a sign below zero has a unit
    r"(?<=[\u4e00-\u9fff])-(?=\d{1,4}(?![\d.]|\s?(?:[°℃度%％元米]|摄氏|华氏)))"
)
_CODE_LEAD = (
    "身份证|银行卡|区号|房间|验证码|校验码|密码|取件码|邀请码|提取码|账号|帐号|卡号|编号|学号|工号|单号|号码|房号|房间号|车牌号|邮编|"
    "尾号|证号|QQ|qq|微信号?|传真|热线|客服|电话|手机"
)
_CODE = pattern_of(
    rf"(?P<lead>(?:{_CODE_LEAD})(?:群|号)?[：:是为]?\s?)(?P<digits>\d{{3,20}})(?![\d.,%-]|[元年个万平米间])"
)
_ADDRESS = pattern_of(
    r"(?:https?://|www\.)[!-~]{1,400}|[\w.+-]{1,64}@[\w-]{1,63}(?:\.[\w-]{1,63}){1,4}", re.ASCII
)
_ALL_FIGURES = pattern_of(r"\d+")
_ROOM = pattern_of(r"(?<![\d.-])(?P<digits>(?:\d{1,3}-){0,2}\d{3,4})(?=室|号?房间?|宿舍)")
_SHORT_YEARS = pattern_of(r"(?<!\d)(?P<digits>\d0)(?=(?:、|和|后、)\d0后)")
_LINES = pattern_of(r"(?<!\d)(?P<digits>360|480|540|720|1080|1440|2160|4320)(?=[pPiI](?![A-Za-z]))")
_SIGNED_PERCENT = pattern_of(r"(?<![\d%％])(?P<sign>[-−+±])(?=\d{1,9}(?:\.\d{1,4})?\s?[%％])")
_SIGNED = {"-": "负", "−": "负", "+": "正", "±": "正负"}
_PER_MILLE = pattern_of(rf"(?P<number>{_NUMBER})\s?‰")
_VULGAR = pattern_of("(?P<whole>(?<=\\d))?(?P<char>[½⅓⅔¼¾⅕⅖⅗⅘⅙⅚⅛⅜⅝⅞])")
_HALF = pattern_of(r"(?<!\d)2(?=分之\d)")
_ANGLE = pattern_of(r"(?<=\d)°\s?(?P<minutes>\d{1,2})[′'](?:\s?(?P<seconds>\d{1,2})[″\"])?")
_ENCLOSED = pattern_of("[①-⑳]\\s?")
_EVENT = pattern_of(
    r"(?<![\d·])(?P<digits>\d{1,2}·\d{1,2}(?![\d·])|\d{1,2}\.\d{1,2}(?=晚会|地震|事件|大促|购物节))"
)  # "9·11", "6·18"
_PADDED = pattern_of(r"(?<=[年/])0(?=[1-9]月)|(?<=月)0(?=[1-9][日号])|(?<!\d)0(?=[1-9]月)")
_PER = pattern_of(r"(?<=\d)/(?=[天月年次人件个周日])|(?<=元)/(?=[股平度晚位张套台亩])")
_VERSION = pattern_of(r"(?<![\d.])\d{1,3}(?:\.\d{1,5}){2,3}(?![\d.])")
# A day or a month of a year, as wetext takes it, where it is no number.
_NO_MONTH = pattern_of(r"(?<![\d.])(?P<whole>\d{4})\.(?P<part>0?[1-9]|1[0-2])(?=[点元万亿米度%％])")
_MIDNIGHT = pattern_of(r"(?<![\d:])(?=0:[0-5]\d(?![\d:]))")
_TITLE = pattern_of(r"(?<=《)(?P<digits>(?:1\d|20)\d\d)(?=》)")
_ROOT = pattern_of(r"√(?=[\d(（A-Za-z])")
_CARET = pattern_of(r"(?<=[\d)）A-Za-z])\^(?P<power>-?\d{1,3}|[A-Za-z](?![A-Za-z]))")
_MONEY = pattern_of(
    r"(?<![A-Za-z])(?:(?P<land>US|HK|NT|A|C|S)\$|(?P<sign>[$€£¥￥₩₹₽฿]))\s?(?P<number>\d[\d.]{0,15})(?P<scale>[千百]?[万亿])?"
)
_CURRENCIES = {
    "$": "美元", "€": "欧元", "£": "英镑", "¥": "元", "￥": "元", "₩": "韩元", "₹": "卢比",
    "₽": "卢布", "฿": "泰铢", "US": "美元", "HK": "港元", "NT": "新台币", "A": "澳元",
    "C": "加元", "S": "新加坡元",
}  # fmt: skip
_MONEY_SPAN = pattern_of(rf"(?P<sign>[$€£])(?P<from>{_NUMBER})-(?P<to>{_NUMBER})(?![\d$€£.%-])")
_DECADES = pattern_of(rf"(?<!\d)(?P<from>\d0){_DASH}(?=\d0后)")
_LOWERED = pattern_of(r"(?<=(?<![A-Za-z/\d])[a-z])\s?-\s?(?=\d)")  # "n-1"
_PLUSES = pattern_of(r"\+\+(?=\d)")  # C++17
_PRESSURE = pattern_of(
    r"(?:(?P<of>血压[为是：:]?)|(?<!\d))(?P<high>\d{2,3})/(?P<low>\d{2,3})(?(of)(?!\d)|(?=\s?(?:mmHg|毫米汞柱)))"
)
_GRADE = pattern_of(
    r"(?<![A-Za-z])(?P<letter>[A-FO]|AB)(?P<sign>[+-])(?=[，。；、！？）)\s和或到至]|$|型|级|等|评级|血)"
)
_BLOOD = pattern_of(r"血型|[型血]")
_MODEL = pattern_of(r"(?:(?<=[A-Z])|(?<=[A-Za-z]{2}))-(?=\d)")  # "GPT-4"
_CALCULATED = pattern_of(
    r"(?<=[0-9A-Za-z²³)）α-ω])\s?(?P<sign>[+*÷≈≤≥≠<>]|×(?!10[²³⁰-⁹^])|(?<![?&][a-z])(?<![A-Za-z]{2})=)\s?"
    r"(?=[0-9(（√]|-\d|[A-Za-zα-ω](?![A-Za-z]))|(?<=\d)[xX](?=\d)"
)
_CALCULATIONS = {"+": "加", "*": "乘", "×": "乘", "x": "乘", "X": "乘", "÷": "除以", "=": "等于",
    "≈": "约等于", "≤": "小于等于", "≥": "大于等于", "≠": "不等于", "<": "小于", ">": "大于",
}  # fmt: skip
_PHONE = pattern_of(
    r"(?<![\w.-])(?:(?P<country>\+86[ -]?)?"
    r"(?P<mobile>1[3-9]\d[ -]\d{4}[ -]\d{4}|(?<=[6 -])1[3-9]\d{9})"
    r"|(?P<city>[（(]0\d{2,3}[)）] ?|0\d{2,3}-)(?P<line>\d{7,8})"
    r"|(?P<free>\+\d{1,3}(?:[ -]\d{2,4}){2,4}|[48]00-\d{3}-\d{4}|[48]00-\d{4}-\d{3}))"
    r"(?!\d|[ -]\d)",
    re.ASCII,
)
_DIGITS = str.maketrans("0123456789-", "零一二三四五六七八九杠")
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
    draft.sub(
        _VULGAR, lambda m: f"{'' if m['whole'] is None else '又'}{_plain(m['char'])}", "number"
    )
    draft.sub(_ENCLOSED, lambda m: f"{_plain(m.group().strip())}、", "number")
    draft.sub(_EVENT, lambda m: _figures(re.sub("[·.]", "", m["digits"])), "date")
    draft.sub(_FORMATION, lambda m: _figures(m.group().replace("-", "")), "number", "-")
    draft.sub(_STANDARD_YEAR, _standard, "number")
    draft.sub(_CARD, lambda m: _figures(m.group()), "number", " ")
    draft.sub(_DECADES, lambda m: f"{_figures(m['from'])}到", "date", "0后")
    draft.sub(_MONEY_SPAN, lambda m: f"{m['from']}到{m['to']}{_CURRENCIES[m['sign']]}", "money")
    draft.sub(_LOWERED, "减", "symbol", "-")
    draft.text = _PADDED.sub("", draft.text)
    draft.text = _COLON_BEHIND_DECIMAL.sub("，", _WIDE_COLON.sub(":", draft.text))
    draft.text = _THOUSANDS.sub(lambda m: m.group().replace(",", ""), draft.text)
    draft.sub(_PLUS_MINUS, "±", "symbol")
    draft.sub(_PHONE, _phone, "phone")
    draft.sub(_ADDRESS, _address, "address")
    draft.sub(_CODE, lambda m: f"{m['lead']}{_figures(m['digits'])}", "phone")
    draft.sub(_VERSION, lambda m: _figures(m.group()).replace(".", "点"), "number")
    draft.sub(_NO_MONTH, lambda m: f"{m['whole']}点{_figures(m['part'])}", "number")
    draft.text = _MIDNIGHT.sub("0", draft.text)
    for pattern in (_ROOM, _SHORT_YEARS, _LINES, _TITLE):
        draft.sub(pattern, lambda m: _figures(m["digits"]), "number")
    draft.sub(_YEARS, _years, "date")
    draft.sub(_SEASON, lambda m: f"{_figures(m['from'])}到{_figures(m['last'])}", "date")
    draft.sub(_SCORE, _score, "number")
    draft.sub(_FROM_TO, _from_to, "number")
    draft.sub(_SAID_TO, "到", "number")
    draft.sub(_MONEY, _money, "money")
    draft.sub(_SIGNED_PERCENT, lambda m: _SIGNED[m["sign"]], "number")
    draft.sub(_PER_MILLE, lambda m: f"千分之{m['number']}", "number", "‰")
    draft.sub(_ANGLE, _angle, "unit", "°")
    draft.sub(_PER, "每", "unit", "/")
    draft.sub(_ROOT, "根号", "symbol", "√")
    draft.sub(_CARET, _power, "number", "^")
    draft.sub(_NAMED, _named, "number", "-")
    draft.sub(_ABOUT, "约", "symbol")
    draft.sub(_PRESSURE, _pressure, "number", "/")
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


def _plain(char: str) -> str:
    """The figures of a fraction or a number in a circle."""
    return unicodedata.normalize("NFKC", char).replace("\u2044", "/")


def _money(match: re.Match[str]) -> str | None:
    """What wetext does not know: "$1.5万", "₩100", "HK$5"."""
    if not (match["land"] or match["scale"] or match["sign"] in "₩₹₽฿"):
        return None
    return f"{match['number']}{match['scale'] or ''}{_CURRENCIES[match['land'] or match['sign']]}"


def _angle(match: re.Match[str]) -> str:
    return f"度{match['minutes']}分" + (f"{match['seconds']}秒" if match["seconds"] else "")


def _counted(written: str) -> str:
    """Two or three figures as a number, where wetext would take 120 for a telephone number."""
    hundreds, rest = divmod(int(written), 100)
    tens, ones = divmod(rest, 10)
    said = f"{hundreds}百" if hundreds else ""
    if tens:
        said += f"{tens if said or tens > 1 else ''}十"
    elif said and ones:
        said += "零"
    return _figures(f"{said}{ones or ''}")


def _pressure(match: re.Match[str]) -> str:
    return f"{match['of'] or ''}{_counted(match['high'])}比{match['low']}"


def _figures(written: str) -> str:
    return written.translate(_DIGITS)


def _address(match: re.Match[str]) -> str:
    return _ALL_FIGURES.sub(lambda m: _figures(m.group()), match.group())


def _standard(match: re.Match[str]) -> str:
    """A standard and its year, figure by figure: "GB2312-80"."""
    return f"{match['name']} {_figures(match['number'])}杠{_figures(match['year'])}"


def _phone(match: re.Match[str]) -> str:
    """Figure by figure, in groups: "138 1234 5678", "010-12345678"."""
    lead = ["加八六"] if match["country"] else []
    if match["city"]:
        groups = [match["city"].strip("-()（） "), match["line"]]
    else:
        groups = re.split("[ -]", match["mobile"] or match["free"])
    return "，".join((*lead, *map(_figures, groups))).replace("+", "加")


def _years(match: re.Match[str]) -> str | None:
    """A year has its figures said; two numbers without a sign of years are none."""
    of = match["of"] or ""
    is_named = bool(match["year"]) or of.strip() in ("学年", "赛季", "财年", "年度", "年", "届")
    is_end = bool(of) or match.end() == len(match.string)
    is_one = match["long"] is not None and 1000 < int(match["from"]) < int(match["long"]) < 2100
    if match["long"] is None and of.strip() not in ("学年", "赛季", "财年", "年度", "年"):
        return None
    if not is_named and not (is_one and is_end and int(match["from"]) >= 1500):
        return None
    if not is_named and match["to"]:
        return None
    first, last = (_figures(match[name]) for name in ("from", "last"))
    return f"{first}{match['year']}{match['to'] or '到'}{last}{of}"


def _score(match: re.Match[str]) -> str | None:
    before = match.string[max(0, match.start() - 14) : match.start()]
    is_one = _RESULT.search(before) or _RESULT_BEHIND.match(match.string, match.end())
    return f"{match['ours']}比{match['theirs']}" if is_one else None


def _from_to(match: re.Match[str]) -> str | None:
    """A range; what is calculated stays, and a number of a thing has a bar: "3-201"."""
    end = match.end("clock") if match["clock"] else match.end("to")
    if _IS_CALCULATED.match(match.string, end):
        return None
    lead, unit = f"{match['sign']}{match['from']}", match["unit"] or ""
    is_timed = unit[:1] == ":"
    if is_timed != bool(match["clock"]):
        return None
    if not unit and _PERCENT_BEHIND.match(match.string, end):
        return f"{lead}%到"
    if not unit and _STANDARD.search(match.string[: match.start()][-8:]):
        return f"{_figures(lead)}杠"
    is_below = bool(match["sign"] or match["minus"])
    is_rising = is_below or float(match["from"]) < float(match["to"])
    figures = (match["from"], match["to"])
    if not unit and any(len(each) > 1 and each[0] == "0" and each[1] != "." for each in figures):
        return None
    if " " in match.group() and not unit and not _MEASURED.match(match.string, end):
        return None
    if unit or is_rising:
        return f"{lead}{unit}到"
    is_alone = _ALONE.match(match.string, end) and max(map(float, figures)) <= 30
    return f"{lead}{'比' if is_alone else '杠'}"


def _named(match: re.Match[str]) -> str | None:
    before = match.string[max(0, match.start() - 3) : match.start()]
    return None if _OF_BELOW.search(before) else ""


def _fraction(match: re.Match[str]) -> str:
    lower = "二" if match["lower"] == "2" else match["lower"]
    return f"{lower}分之{match['upper']}"


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
