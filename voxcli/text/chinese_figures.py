"""Chinese: figures and what stands between them, before wetext says the numbers.

Years, days, ranges, results of games, telephone numbers, codes, amounts, signs, and 二 or 两: what
wetext takes for a difference ("3-2"), a date ("10-20%") or a number below zero ("歼-20"). What is
no number of things is said figure by figure. Knows no unit but those that a range has.
"""

from __future__ import annotations

import re
import unicodedata

from voxcli.text.changes import Draft, Replace
from voxcli.text.patterns import pattern_of

_ANY = pattern_of(r"[\d¼-¾⅐-⅞①-⑳~～〜–—－-]")
_DASH = r"\s?(?:[-–~～〜－−]|—{1,2})\s?"
_NUMBER = r"\d{1,9}(?:\.\d{1,4})?"

# ------------------------------------------------------------ one writing
_VULGAR = pattern_of("(?P<whole>(?<=\\d))?(?P<char>[½⅓⅔¼¾⅕⅖⅗⅘⅙⅚⅛⅜⅝⅞])")
_ENCLOSED = pattern_of("[①-⑳]\\s?")
_PADDED = pattern_of(r"(?<=[年/])0(?=[1-9]月)|(?<=月)0(?=[1-9][日号])|(?<!\d)0(?=[1-9]月)")
_WIDE_COLON = pattern_of(r"(?<=\d)(?<!\.\d)(?<!\.\d\d)[：∶](?=\d)")
_COLON_BEHIND_DECIMAL = pattern_of(r"(?<=\.\d)：(?=\d)|(?<=\.\d\d)：(?=\d)")
_THOUSANDS = pattern_of(r"(?<![\d.,])\d{1,3}(?:,\d{3})+(?![\d,])", re.ASCII)
_PLUS_MINUS = pattern_of(r"\+\s?/\s?[-−–]|(?<!\S)\+[-−](?=\s?\d)")
_MIDNIGHT = pattern_of(r"(?<![\d:])(?=0:[0-5]\d(?![\d:]))")

# ------------------------------------------------------------ dates and times
_YEAR_LAST = pattern_of(
    r"(?<![\d/])(?P<first>\d{1,2})/(?P<second>\d{1,2})/(?P<year>(?:19|20)\d\d)(?![\d/])"
)
_DAY = pattern_of(
    r"(?<![\d/.])(?:(?<=截止)|(?<=截至)|(?P<near>))(?P<month>1[0-2]|0?[1-9])"
    r"/(?P<day>[12]\d|3[01]|0?[1-9])(?![\d/.])"
    r"(?(near)(?=\s?(?:国庆|儿童节|劳动节|元旦|情人节|圣诞|平安夜|上午|下午|晚上|早上|中午)))"
)
_EITHER = pattern_of(  # "5/6月"
    r"(?<![\d/.])(?P<first>[1-9]|[12]\d|3[01])/(?P<second>[1-9]|[12]\d|3[01])(?=[月号日楼]|年级)"
)
_LASTS = pattern_of(
    r"(?P<lead>(?:[用耗历计]时|[时片总全]长|全程|成绩|跑出|[总净]时间)[为是约了共]?[：:]?\s?)"
    r"(?:(?P<hours>\d{1,2}):)?(?P<minutes>\d{1,3}):(?P<seconds>[0-5]\d)"
    r"(?![\d:.]|\s?[-–—~～至到])"
)

# ------------------------------------------------------------ figure by figure
_EVENT = pattern_of(
    r"(?<![\d·])(?P<digits>\d{1,2}·\d{1,2}(?![\d·])|\d{1,2}\.\d{1,2}(?=晚会|地震|事件|大促|购物节)|5\.1(?=假期|小长假)"
    r"|(?<![.点])[1-9]\d{2}(?=晚会|事件|大促|购物节|快乐|表白)|520(?=礼|情人)"
    r"|(?<!\.)(?:985|211|996)(?=[、，。！？和]|工作制|高校|大学|院校|名校))"
)  # "9·11", "6·18", "911事件"
_TYPED = pattern_of(  # said for their sound
    r"(?<![^\s，。！？；、哈])(?<!\d\s)(?P<digits>6{3,9}|23{2,9}|5{3,9}|520|1314|5201314|88|886)"
    r"(?=\s?[，。！？；~～…]|啊|呀|$)"
)
_FORMATION = pattern_of(r"(?<![\w.-])\d(?:-\d){2,4}(?![\d.-]|\s?[=＝])", re.ASCII)  # 4-4-2
_STANDARD_YEAR = pattern_of(
    r"(?<![A-Za-z])(?P<name>[A-Z]{2,5}) ?(?P<number>\d{3,6})[-:](?P<year>\d{2}|\d{4})(?!\d)"
)
_CARD = pattern_of(r"(?<!\d)\d{4}(?: \d{3,4}){2,5}(?! ?\d)")
_ADDRESS = pattern_of(
    r"(?:https?://|www\.)[!-~]{1,400}|[\w.+-]{1,64}@[\w-]{1,63}(?:\.[\w-]{1,63}){1,4}", re.ASCII
)
_ALL_FIGURES = pattern_of(r"\d+")
_CODE_LEAD = (
    "身份证|银行卡|区号|房间|验证码|校验码|密码|取件码|邀请码|提取码|账号|帐号|卡号|编号|"
    "学号|工号|单号|号码|房号|房间号|车牌号|邮编|尾号|证号|QQ|qq|微信号?|传真|热线|客服|电话|手机|拨打"
)
_CODE = pattern_of(
    rf"(?P<lead>(?:{_CODE_LEAD})(?:群|号)?[：:是为]?\s?[A-Za-z_]{{0,20}})(?P<digits>\d{{3,20}})"
    r"(?![\d.,%-]|[元年个万平米间次人位通部])"
)
_VERSION = pattern_of(r"(?<![\d.])\d{1,3}(?:\.\d{1,5}){2,3}(?![\d.])")
# A day or a month of a year, as wetext takes it, where it is no number.
_NO_MONTH = pattern_of(r"(?<![\d.])(?P<whole>\d{4})\.(?P<part>0?[1-9]|1[0-2])(?=[点元万亿米度%％])")
_ROOM = pattern_of(r"(?<![\d.-])(?P<digits>(?:\d{1,3}-){0,2}\d{3,4})(?=室|号?房间?|宿舍)")
_FLAT = pattern_of(
    r"(?:(?<=单元)|(?<=号楼)|(?<=[栋幢座]))(?P<digits>\d{3,4})(?![\d.,]|[个户元人平米万年])"
)
_EXTENSION = pattern_of(
    r"(?P<lead>(?:[\d零幺一二三四五六七八九请拨]转|分机号?|内线)[：:是为]?\s?|转(?!\d+0(?!\d)))"
    r"(?P<digits>\d{3,5})(?=\s?[，。；、！？）)\s号分]|$)"
)
_ROUTE = pattern_of(
    r"(?<![\d.])\d{3}(?=[国省县]道|路(?:公交|车|电车|[，。；、！？\s]|$))|(?<=波音)\d{3}(?!\d)"
)
# A flight, a train, a road, a model: "CA1234", "G1024次", "9C8801", "A320".
_LETTERED = pattern_of(
    r"(?<![A-Za-z\d.])(?P<lead>(?!RMB|USD|CNY|HKD|EUR|JPY|NO)"
    r"(?:\d[A-Z]|[A-Z]{1,4}|[A-Z]{2,4} (?=\d{4}(?!\d))))"
    r"(?P<digits>\d{3,20})(?![\d.,%％A-Za-z]|[元万亿人个块千百米倍度流]|\s?-)"
)
_SHORT_YEARS = pattern_of(
    r"(?<!\d)(?P<digits>\d0)(?=(?:、|和|后、)\d0后)"
    r"|(?<![\d.])(?P<cohort>[6-9]\d|0[05])(?=后(?![来续面果方才]))"
    r"|(?<![\d.])(?P<sale>[1-9][1-9])(?=折(?![叠合]))"
)
_NAMED_YEAR = pattern_of(r"(?<![\d.])(?:1[5-9]|20)\d\d(?=年前后|[QH][1-4](?![A-Za-z\d]))")
_LINES = pattern_of(r"(?<!\d)(?P<digits>360|480|540|720|1080|1440|2160|4320)(?=[pPiI](?![A-Za-z]))")
_TITLE = pattern_of(r"(?<=《)(?P<digits>(?:1\d|20)\d\d)(?=》)")
_PHONE = pattern_of(
    r"(?<![\w.-])(?:(?P<country>\+86[ -]?)?"
    r"(?P<mobile>1[3-9]\d[ -]\d{4}[ -]\d{4}|(?<=[6 -])1[3-9]\d{9})"
    r"|(?P<city>[（(]0\d{2,3}[)）] ?|0\d{2,3}-)(?P<line>\d{7,8}|\d{3,4}[ -]\d{4})"
    r"|(?P<free>\+\d{1,3}(?:[ -]\d{2,4}){2,4}|[48]00-\d{3}-\d{4}|[48]00-\d{4}-\d{3}))"
    r"(?!\d|[ -]\d)",
    re.ASCII,
)
_DIGITS = str.maketrans("0123456789-", "零一二三四五六七八九杠")

# ------------------------------------------------------------ years, results, ranges
_DECADES = pattern_of(rf"(?<!\d)(?P<from>\d0){_DASH}(?=\d0后)")
_YEARS = pattern_of(
    rf"(?<![\d.A-Za-z-])(?P<from>1\d{{3}}|20\d\d)(?P<year>年?)(?:{_DASH}|(?P<to>[至到]))"
    r"(?P<last>(?P<long>1\d{3}|20\d\d)|\d\d)(?![\d.,%％-])"
    r"(?P<of>\s?(?:学年|赛季|财年|年度|年(?![前后])|届|[）)]|$|[，。；、])?)"
)
_SEASON = pattern_of(r"(?<!\d)(?P<from>20\d\d)/(?P<last>(?:20)?\d\d)(?=\s?(?:学年|赛季|财年|年度))")
_SCORE = pattern_of(
    r"(?<![\d.:-])(?P<ours>\d{1,3})[-–—:](?P<theirs>\d{1,3})"
    r"(?=\s?[，。；、！？\s）)]|$|\s?(?:[\u4e00-\u9fff]{0,2}?"
    r"(?:胜|平|负|败|领先|落后|逆转|告负|夺冠|取|赢|输|的比分|拿下|淘汰)))"
)
_SCORES = pattern_of(r"(?<![\d:.-])\d{1,3}[:-]\d{1,3}(?:[、 ]\d{1,3}[:-]\d{1,3}){1,6}(?![\d:-])")
_CLOCK = pattern_of(r"(?:[01]?\d|2[0-4]):[0-5]?\d")
_RESULT = pattern_of(
    r"(?:比分|打完|打成|战成|[扳追]成|常规赛|半场|全场|终场|战胜|击败|战平|领先|落后|大胜|完胜|险胜|逆转|[以胜负平败])[^\d，。；！？]{0,6}\Z"
)
_RESULT_BEHIND = pattern_of(r"\s?[\u4e00-\u9fff]{0,2}?(?:胜|平|负|败|领先|落后|逆转|夺冠|淘汰)")
# Between what is alike: "5-10℃", "10%~20%", "9:00—11:30", "3月5日-8日".
_FROM_TO = pattern_of(
    rf"(?<![\d.:/-])(?:(?<![A-Za-z])|(?<=[pP]))(?P<sign>-?)(?P<from>{_NUMBER})"
    r"(?P<unit>\s?(?:[%％℃度元个日号月年点分秒时天周岁人米万亿章节页条期届倍]{1,2}|"
    r"°C?|[A-Za-z]{1,3}(?:/[A-Za-z]{1,3})?(?![A-Za-z]))|:\d\d)?"
    rf"{_DASH}(?=(?P<money>[¥￥$€]?)(?P<minus>-?)(?P<to>{_NUMBER})(?P<clock>:\d\d)?"
    rf"(?!\d|{_DASH}\d|/\d))"
)
_IS_CALCULATED = pattern_of(r"\s?(?:=|＝|等于|得)")
_PERCENT_BEHIND = pattern_of(r"\s?[%％]")
_STANDARD = pattern_of(r"[A-Z]{2,4}(?:/[A-Z])?\s?\Z")
_MEASURED = pattern_of(r"\s?(?:[%％℃°A-Za-z]|[\u4e00-\u9fff])")
_HOUR = pattern_of(r"\s?(?:点(?!球)|月)")  # "9-5点"
_ALONE = pattern_of(r"\s?[，。；、！？）)]|\s*$")
_SAID_TO = pattern_of(  # "周一-周五", "一-三年级", "P1-P3"
    rf"(?<=[一二三四五六七八九十天日月]){_DASH}(?=(?:周|星期|第)?[一二三四五六七八九十天])"
    r"|(?<=\d)-(?=(?P<letter>[A-Z])\d)(?<=(?P=letter)\d-)"
)

# ------------------------------------------------------------ money and signs
_MONEY = pattern_of(
    r"(?<![A-Za-z])(?:(?P<land>US|HK|NT|A|C|S)\$|(?P<sign>[$€£¥￥₩₹₽฿]))\s?"
    r"(?P<number>\d[\d.]{0,15})(?P<scale>[千百]?[万亿])?"
)
_CURRENCIES = {
    "$": "美元", "€": "欧元", "£": "英镑", "¥": "元", "￥": "元", "₩": "韩元", "₹": "卢比",
    "₽": "卢布", "฿": "泰铢", "US": "美元", "HK": "港元", "NT": "新台币", "A": "澳元",
    "C": "加元", "S": "新加坡元",
}  # fmt: skip
_MONEY_SPAN = pattern_of(rf"(?P<sign>[$€£])(?P<from>{_NUMBER})-(?P<to>{_NUMBER})(?![\d$€£.%-])")
_SIGNED_PERCENT = pattern_of(r"(?<![\d%％])(?P<sign>[-−+±])(?=\d{1,9}(?:\.\d{1,4})?\s?[%％])")
_SIGNED = {"-": "负", "−": "负", "+": "正", "±": "正负"}
_LOWERED = pattern_of(r"(?<=(?<![A-Za-z/\d])[a-z])\s?-\s?(?=\d)")  # "n-1"
_NAMED = pattern_of(  # "歼-20", where a sign below zero has a unit
    r"(?<=[\u4e00-\u9fff])-(?=\d{1,4}(?![\d.]|\s?(?:[°℃度%％元米]|摄氏|华氏)))"
)
_OF_BELOW = pattern_of(
    r"(?:[分数值球额量润为是到至于温达约近从在和与或跌低升降差率得超过即\d]|零下)\Z"
)
_PER = pattern_of(
    r"(?<=\d)/(?=[天月年次人件个周日])|(?<=次)/(?=[分秒])|(?<=[元万千])/(?=[股平度晚位张套台亩年次件间份袋片箱桶]|公里|小时|分钟)"
)
_SIZE = pattern_of(r"(?<=\d{3})/(?=\d{2}[A-C](?![A-Za-z]))")  # "170/92A"
_MORE = pattern_of(r"(?<=\d)(?P<scale>[千万亿]?|w)\+(?P<of>(?!级)[\u4e00-\u9fff])?(?![\d+A-Za-z])")
_PACE = pattern_of(r"(?<![\d°.高])(?P<minutes>\d{1,2})['′’](?P<seconds>[0-5]\d)(?:[\"″”]|'{2})")
_THAN = pattern_of(r"(?<=[\u4e00-\u9fff])\s?(?P<sign>[<>≤≥])\s?(?=\d)")
_THAN_SAID = {"<": "小于", ">": "大于", "≤": "小于等于", "≥": "大于等于"}
# As people type 万 and 千, where no lamp or charger has so many watts.
_TYPED_SCALE = pattern_of(
    r"(?<![\d.A-Za-z])(?:(?P<from>\d{1,3})到)?(?P<number>\d{1,4}(?:\.\d)?)(?P<letter>[wk])"
    r"(?=\d(?![\d.])|(?!快充|灯|充|的?功率)[/\u4e00-\u9fff，。；、！？]|\s*$)"
)
_OF_MONEY = pattern_of("[薪资钱价元块费额花]|预算|存款|首付|收入|奖金|贷|粉丝|阅读|播放|点赞|销量")
_CLAUSE_END = pattern_of("[，。；！？、\\s]")
_OF_POWER = pattern_of("[灯充瓦电]|功率|适配")
_PRESSURE = pattern_of(
    r"(?:(?P<of>血压[为是：:]?)|(?<!\d))(?P<high>\d{2,3})/(?P<low>\d{2,3})"
    r"(?(of)(?!\d)|(?=\s?(?:mmHg|毫米汞柱)))"
)

# ------------------------------------------------------------ 二 or 两
# wetext says 两 before its measure words and 二 before any other: 第2名, 2月2日, 2次.
_RANKED = pattern_of(
    r"(?:(?<=第)|(?<=第\d[、到至和]))(?P<digits>2\d{2}|2)(?![\d.]|[万亿])"
    r"|(?<=央视)2(?=[套台])|(?<=排)2(?=座)|(?:(?<=点)|(?<=\d时))2(?=分(?!钟))|(?<=[A-Z在到上去])2(?=层(?!楼))"
    r"|(?<=月)2(?=(?:[到至、和]\d{1,2})?日)"
    r"|(?<![\d.A-Za-z期近短续])2(?=(?:[到至、和]\d{1,2})?日(?![元圆内后间游]|之内|以[内后]))"
    r"|(?<![\d.])2(?=单元|季度|线|世|代(?!人)|手[房车货书机]|寸(?=照|证件|免冠)|字头)"
)
_COUNT = (
    "次(?![元方函项曲型]|世界|感染|电池)|年(?!级)|点(?!球|\\d(?![\\d分刻]))|室(?=\\d厅)|组(?![长团])|"
    "卫(?!星)|居(?!民)|[排行列](?!\\d)|栋(?=[楼别房建大高住])|星期|连[胜败]|公斤|英[镑里]|海里|"
    "下(?![午周月班载面降跌一个方列])|大(?![于学])|成(?![功立为员果])|处(?![理于])|晚(?!上)|球(?![队员星迷])|"
    "[美欧日韩港澳]元|[倍种台部间份句段步遍项所把顿站副盘朵节声轮题批包餐股厅胜负平门科眼局样例起宗"
    "款架艘枚幅扇则届国省市县村校番亩荤素菜]"
)
_COUNTED = pattern_of(
    rf"(?<![\d.A-Za-z:/比点])(?<![\dA-Z] )(?<!第\d[、到至和])2(?=\s?"
    rf"(?:(?:[到至、][3-9])?(?:{_COUNT})|"
    r"、3(?:个|天|人|[小十百千万]|分钟|[位名岁周本张家件只条杯瓶块斤米元])))"
)


def figures(draft: Draft) -> None:
    """Say them as a person would; units and powers are left to `chinese.py`."""
    if not _ANY.search(draft.text):
        return
    for pattern, replace, kind in _RULES:
        draft.sub(pattern, replace, kind)


def _plain(char: str) -> str:
    """The figures of a fraction or a number in a circle."""
    return unicodedata.normalize("NFKC", char).replace("\u2044", "/")


def _figures(written: str) -> str:
    return written.translate(_DIGITS)


def _spelled(written: str) -> str:
    """Of a number that is dialled or called out, where 1 is 幺."""
    return _figures(written).replace("一", "幺")


def _lettered(match: re.Match[str]) -> str:
    is_standard = len(match["lead"]) > 2 or match["lead"] == "GB"
    say = _figures if is_standard else _spelled
    return f"{match['lead']}{say(match['digits'])}"


def _address(match: re.Match[str]) -> str:
    return _ALL_FIGURES.sub(lambda m: _figures(m.group()), match.group())


def _standard(match: re.Match[str]) -> str:
    """A standard and its year, figure by figure: "GB2312-80"."""
    return f"{match['name']} {_figures(match['number'])}杠{_figures(match['year'])}"


def _phone(match: re.Match[str]) -> str:
    """Figure by figure, in groups: "138 1234 5678", "010-12345678"."""
    lead = ["加八六"] if match["country"] else []
    if match["city"]:
        groups = [match["city"].strip("-()（） "), *re.split("[ -]", match["line"])]
    else:
        groups = re.split("[ -]", match["mobile"] or match["free"])
    return "，".join((*lead, *map(_spelled, groups))).replace("+", "加")


def _year_last(match: re.Match[str]) -> str | None:
    """The month is first where the second number is no month; else the day, as wetext has it."""
    day, month = int(match["first"]), int(match["second"])
    if month > 12:
        day, month = month, day
    return f"{match['year']}年{month}月{day}日" if 1 <= month <= 12 and 1 <= day <= 31 else None


def _either(match: re.Match[str]) -> str:
    first, second = match["first"], match["second"]
    is_said_as_one = int(first) + 1 == int(second) < 10
    return _figures(first + second) if is_said_as_one else f"{first}、{second}"


def _lasts(match: re.Match[str]) -> str | None:
    """How long something takes: "2:15:30" is no time of the day."""
    hours, minutes, seconds = (int(match[name] or 0) for name in ("hours", "minutes", "seconds"))
    if not match["hours"] and not seconds:
        return f"{match['lead']}{minutes}分钟"
    said = f"{hours}小时" if hours else ""
    for number, unit in ((minutes, "分"), (seconds, "秒")):
        if number:
            spoken = f"零{_figures(str(number))}" if said and number < 10 else number
            said += f"{spoken}{unit}"
    return f"{match['lead']}{said}" if said else None


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


def _scores(match: re.Match[str]) -> str | None:
    """Sets of a match, of which one at least is no time of the day: "25:20、22:25"."""
    is_result = _RESULT_BEHIND.match(match.string, match.end())
    is_clock = all(map(_CLOCK.fullmatch, re.split("[、 ]", match.group())))
    if not is_result and (is_clock or "-" in match.group()):
        return None
    return re.sub("[:-]", "比", match.group())


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
    if not unit and _STANDARD.search(match.string[max(0, match.start() - 8) : match.start()]):
        return f"{_figures(lead)}杠"
    is_below = bool(match["sign"] or match["minus"])
    is_rising = is_below or float(match["from"]) < float(match["to"])
    figures = (match["from"], match["to"])
    if not unit and any(len(each) > 1 and each[0] == "0" and each[1] != "." for each in figures):
        return None
    if " " in match.group() and not unit and not _MEASURED.match(match.string, end):
        return None
    if unit or is_rising or _HOUR.match(match.string, end):
        return f"{lead}{unit}到"
    is_alone = _ALONE.match(match.string, end) and max(map(float, figures)) <= 30
    return f"{lead}{'比' if is_alone else '杠'}"


def _money(match: re.Match[str]) -> str | None:
    """What wetext does not know: "$1.5万", "₩100", "HK$5"."""
    if not (match["land"] or match["scale"] or match["sign"] in "₩₹₽฿"):
        return None
    return f"{match['number']}{match['scale'] or ''}{_CURRENCIES[match['land'] or match['sign']]}"


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


def _typed_scale(match: re.Match[str]) -> str | None:
    before = match.string[max(0, match.start() - 14) : match.start()]
    behind = match.string[match.end() : match.end() + 8]
    near = _CLAUSE_END.split(before)[-1] + _CLAUSE_END.split(behind)[0]
    if not _OF_MONEY.search(near) or _OF_POWER.search(near):
        return None
    if match["letter"] == "w":
        return f"{match.group()[:-1]}万"
    lead = f"{int(match['from']) * 1000}到" if match["from"] else ""
    return f"{lead}{round(float(match['number']) * 1000)}"


def _more(match: re.Match[str]) -> str:
    """ "200+人" is more than 200; "10w+" is a name for 100,000 and more."""
    scale = "万" if match["scale"] == "w" else match["scale"]
    return f"{scale}{'多' if match['of'] else '加'}{match['of'] or ''}"


def _pressure(match: re.Match[str]) -> str:
    return f"{match['of'] or ''}{_counted(match['high'])}比{match['low']}"


def _named(match: re.Match[str]) -> str | None:
    before = match.string[max(0, match.start() - 3) : match.start()]
    return None if _OF_BELOW.search(before) else ""


def _called(match: re.Match[str]) -> str:
    return _spelled(match["digits"])


def _listed(match: re.Match[str]) -> str:
    return _figures(match["digits"])


_RULES: tuple[tuple[re.Pattern[str], str | Replace, str], ...] = (
    (_VULGAR, lambda m: f"{'' if m['whole'] is None else '又'}{_plain(m['char'])}", "number"),
    (_ENCLOSED, lambda m: f"{_plain(m.group().strip())}、", "number"),
    (_EVENT, lambda m: _figures(re.sub("[·.]", "", m["digits"])), "date"),
    (_FORMATION, lambda m: _figures(m.group().replace("-", "")), "number"),
    (_STANDARD_YEAR, _standard, "number"),
    (_CARD, lambda m: _spelled(m.group()), "number"),
    (_DECADES, lambda m: f"{_figures(m['from'])}到", "date"),
    (_MONEY_SPAN, lambda m: f"{m['from']}到{m['to']}{_CURRENCIES[m['sign']]}", "money"),
    (_LOWERED, "减", "symbol"),
    (_PADDED, "", "date"),
    (_WIDE_COLON, ":", "punctuation"),
    (_COLON_BEHIND_DECIMAL, "，", "punctuation"),
    (_YEAR_LAST, _year_last, "date"),
    (_DAY, lambda m: f"{int(m['month'])}月{int(m['day'])}日", "date"),
    (_EITHER, _either, "date"),
    (_LASTS, _lasts, "time"),
    (_THOUSANDS, lambda m: m.group().replace(",", ""), "number"),
    (_PLUS_MINUS, "±", "symbol"),
    (_PHONE, _phone, "phone"),
    (_ADDRESS, _address, "address"),
    (_CODE, lambda m: f"{m['lead']}{_spelled(m['digits'])}", "phone"),
    (_TYPED, _listed, "number"),
    (_VERSION, lambda m: _figures(m.group()).replace(".", "点"), "number"),
    (_NO_MONTH, lambda m: f"{m['whole']}点{_figures(m['part'])}", "number"),
    (_MIDNIGHT, "0", "time"),
    (_ROOM, _called, "number"),
    (_FLAT, _called, "number"),
    (_EXTENSION, lambda m: f"{m['lead']}{_spelled(m['digits'])}", "phone"),
    (_ROUTE, lambda m: _spelled(m.group()), "number"),
    (_LETTERED, _lettered, "number"),
    (_SHORT_YEARS, lambda m: _figures(m.group()), "date"),
    (_NAMED_YEAR, lambda m: _figures(m.group()), "date"),
    (_LINES, _listed, "number"),
    (_TITLE, _listed, "date"),
    (_YEARS, _years, "date"),
    (_SEASON, lambda m: f"{_figures(m['from'])}到{_figures(m['last'])}", "date"),
    (_SCORES, _scores, "number"),
    (_SCORE, _score, "number"),
    (_FROM_TO, _from_to, "number"),
    (_SAID_TO, "到", "number"),
    (_MONEY, _money, "money"),
    (_SIGNED_PERCENT, lambda m: _SIGNED[m["sign"]], "number"),
    (_TYPED_SCALE, _typed_scale, "number"),
    (_PER, "每", "unit"),
    (_SIZE, "杠", "number"),
    (_THAN, lambda m: _THAN_SAID[m["sign"]], "symbol"),
    (_MORE, _more, "number"),
    (_PACE, lambda m: f"{int(m['minutes'])}分{m['seconds']}秒", "time"),
    (_NAMED, _named, "number"),
    (_PRESSURE, _pressure, "number"),
    (_RANKED, lambda m: _counted(m["digits"] or "2"), "number"),
    (_COUNTED, "两", "number"),
)
