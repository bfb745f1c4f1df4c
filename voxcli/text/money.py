"""English: amounts of money, before and after their sign or code, in ranges, with cents and scales.

Knows no exchange: what is written is said.
"""

from __future__ import annotations

import re

from voxcli.text.patterns import pattern_of
from voxcli.text.quantities import NO_FRACTION, NUM, SIGNS, START
from voxcli.text.spell import cardinal, number, plural
from voxcli.text.tagger import CAPITAL, DIGIT, SMALL, InWord, Recogniser, led
from voxcli.text.units import PER_UNIT, unit_name

_CURRENCIES = {
    "$": ("dollar", "cent"), "€": ("euro", "cent"), "£": ("pound", "penny"), "¥": ("yen", ""),
    "₹": ("rupee", "paisa"), "₩": ("won", ""), "₽": ("ruble", "kopeck"), "₿": ("bitcoin", ""),
    "₺": ("lira", ""), "₴": ("hryvnia", ""), "₪": ("shekel", ""), "USD": ("U S dollar", "cent"),
    "EUR": ("euro", "cent"), "GBP": ("pound", "penny"), "JPY": ("yen", ""), "CNY": ("yuan", ""),
    "CHF": ("Swiss franc", "centime"), "CAD": ("Canadian dollar", "cent"),
    "INR": ("rupee", "paisa"),
    "AUD": ("Australian dollar", "cent"), "¢": ("cent", ""), "₱": ("peso", "centavo"),
    "SEK": ("Swedish krona", ""), "NOK": ("Norwegian krone", ""), "DKK": ("Danish krone", ""),
    "PLN": ("zloty", ""), "zł": ("zloty", ""), "kr": ("krone", ""), "MXN": ("Mexican peso", ""),
    "BRL": ("Brazilian real", ""), "NZD": ("New Zealand dollar", "cent"), "Rs": ("rupee", "paisa"),
    "R$": ("Brazilian real", ""), "₦": ("naira", ""), "₫": ("dong", ""), "฿": ("Thai baht", ""),
    "RM": ("ringgit", ""), "₵": ("cedi", ""), "₸": ("tenge", ""), "HUF": ("forint", ""),
    "CZK": ("Czech koruna", ""), "THB": ("Thai baht", ""), "KRW": ("won", ""),
    "ZAR": ("rand", ""), "SGD": ("Singapore dollar", "cent"), "HKD": ("Hong Kong dollar", "cent"),
    "TRY": ("lira", ""), "RUB": ("ruble", "kopeck"), "ILS": ("shekel", ""),
    "TWD": ("Taiwan dollar", ""), "PHP": ("peso", "centavo"), "VND": ("dong", ""),
    "NGN": ("naira", ""), "AED": ("dirham", ""), "SAR": ("riyal", ""),
    "euros": ("euro", "cent"), "Euro": ("euro", "cent"),
    "pounds": ("pound", "penny"), "dollars": ("dollar", "cent"), "rupees": ("rupee", "paisa"),
}  # fmt: skip
_PREFIXES = {
    "US": "U S ", "CA": "Canadian ", "C": "Canadian ", "AU": "Australian ", "A": "Australian ",
    "NZ": "New Zealand ", "HK": "Hong Kong ", "MX": "Mexican ", "S": "Singapore ",
    "NT": "New Taiwan ",
}  # fmt: skip
_PLURALS = {
    "penny": "pence", "yen": "yen", "won": "won", "yuan": "yuan", "paisa": "paise", "lira": "lira",
    "Swedish krona": "Swedish kronor", "Norwegian krone": "Norwegian kroner",
    "Danish krone": "Danish kroner", "krone": "kroner", "Brazilian real": "Brazilian reais",
    "naira": "naira", "dong": "dong", "ringgit": "ringgit",
    "forint": "forint", "rand": "rand", "Czech koruna": "Czech koruny",
}  # fmt: skip
_CODES = (
    r"(?:USD|EUR|GBP|JPY|CNY|CHF|CAD|AUD|INR|SEK|NOK|DKK|PLN|MXN|BRL|NZD|HUF|CZK|THB|KRW|"
    r"ZAR|SGD|HKD|TRY|RUB|ILS|TWD|PHP|VND|NGN|AED|SAR)"
)
_SYMBOLS = "[$€£¥₹₩₽₿₺₴₪₱₦₫฿₵₸]"
_SCALES = {
    "k": "thousand", "m": "million", "mn": "million", "mm": "million", "mil": "million",
    "b": "billion", "bn": "billion", "t": "trillion", "tn": "trillion", "cr": "crore",
}  # fmt: skip
_SCALE = (
    r"(?:[\s-]?(?P<scale>million|billion|trillion|thousand|hundred|crores?|lakhs?)\b"
    r"|\s?(?P<short>[kKmMbBT]|mn|bn|tn|mm|MM|mil|[cC]r)\b)?"
)
_SHORT = r"(?:[\s-]?(?P<from_scale>million|billion|thousand)\b|(?P<from_short>[kKmMbBT]|mn|bn)\b)?"
_NOUN = (
    r"(?P<noun>[ -](?:bill|note|coin|store|fee|tax|fine|bonus|coupon|voucher|discount|prize|deal|"
    r"house|car|ticket|budget|lawsuit|deficit|investment|contract|increase|raise|check|cheque|loan|"
    r"donation|gift|grant|question|a-[a-z]{3,6})\b)?"
)
# "1.234,56": stops between thousands and a comma before cents.
_EUROPEAN = (
    r"\d{1,3}(?:\.\d{3}){0,4},[-–—]{1,2}(?![\w-])|"
    r"(?:\d{1,3}(?:[. ]\d{3}){1,4}|\d{1,9}),\d{2}(?![\d,]|\.\d)|"
    r"\d{1,3}(?:\.\d{3}){2,4}(?![\d,])|\d{1,3}\.\d{3}(?=\s?€)"
)
_AMOUNT = rf"(?:(?P<european>{_EUROPEAN})|(?P<number>{NUM})(?:\.[-–—](?!\d))?)"
_PER = (
    rf"(?:\s?/\s?(?P<per>{PER_UNIT}|month|mo|week|day|hour|year|night|person)\b\.?(?![²³\^])"
    r"|/[-=](?!\w))?"  # "500/-", nothing after it
)
_MONEY = pattern_of(
    r"(?P<sign>[-−+±](?<![\w)\]^].))?(?P<currency>(?:US\s(?=\$)|(?:US|CA|C|AU|A|NZ|NT|HK|MX|Mex|"
    rf"S)(?=\$))?{_SYMBOLS}|R\$|(?:(?<![A-Z]/){_CODES}|Rs|kr|RM)(?=\.?\s?[-−]?\d)\.?)"
    rf"\s?(?P<minus>[-−])?{_AMOUNT}"
    rf"(?:{_SHORT}\s?(?:-|–|to)\s?(?P<again>{_SYMBOLS})?(?P<to>{NUM})(?!\d|\s?(?:[¢%]|cents?\b|"
    rf"percent\b)))?{_SCALE}{_NOUN}{_PER}"
)
_AFTER = pattern_of(
    rf"{START}{NO_FRACTION}{_AMOUNT}(?:\s?[-–]\s?(?P<to>{NUM}))?{_SCALE}\s?"
    rf"(?P<currency>[€£¥₹₩₽₿¢₱₦₫฿₺₴₪₸]|\$(?!\d)|(?:{_CODES}|zł|kr|Euro)\b|(?<=,\d\d )(?:euros|"
    rf"pounds|dollars|rupees)\b)(?!\w){_PER}"
)
_PENCE = pattern_of(rf"{START}(?P<number>\d{{1,3}})p(?!\w)")
_CENTS = pattern_of(rf"{START}(?P<number>\d{{1,2}})c(?!\w)")
_BARE_PER = pattern_of(rf"(?P<currency>{_SYMBOLS})\s?/\s?(?P<per>{PER_UNIT})(?!\w|[²³^])")
_HALF = pattern_of(r"(?P<upper>1)/(?P<lower>[234])\s?(?P<currency>[€£$])(?!\d)")


def _group(match: re.Match[str], name: str) -> str:
    try:
        return match[name] or ""
    except IndexError:
        return ""


def _currency(written: str) -> tuple[str, str]:
    """The name with its country, and the name of its hundredth."""
    written = written.rstrip(".").replace(" ", "")
    prefix = written[:-1] if len(written) in (2, 3, 4) and written.endswith("$") else ""
    if prefix in ("R", "MX", "Mex"):
        return _CURRENCIES["R$" if prefix == "R" else "MXN"]
    name, cent = _CURRENCIES[written[-1] if prefix else written]
    return _PREFIXES.get(prefix, "") + name, cent


def _plain(european: str, written: str) -> str:
    """The amount as English writes it."""
    return re.sub("[. ]", "", european.rstrip(",-–—")).replace(",", ".") if european else written


def _counted(name: str, *, one: bool) -> str:
    return name if one else _PLURALS.get(name) or plural(name)


def _money(match: re.Match[str]) -> str | None:
    name, cent = _currency(match["currency"])
    lead = SIGNS[_group(match, "sign") or None] or ("minus " if _group(match, "minus") else "")
    amount, to = _plain(_group(match, "european"), match["number"] or ""), _group(match, "to")
    short = _group(match, "short")
    scale = _group(match, "scale") or _SCALES.get(short.lower(), "")
    noun = _group(match, "noun")
    per = _group(match, "per")
    tail = f" per {unit_name(per)}" if per else ""
    if to:
        said = _range(match, amount, to, name, cent, scale)
    elif scale or not cent or not _has_cents(amount):
        one = _trimmed(amount) == "1" and not scale
        whole = amount if scale or not cent else _trimmed(amount)
        said = " ".join(filter(None, (number(whole), scale, _counted(name, one=one or bool(noun)))))
    else:
        said = _dollars_and_cents(amount, name, cent)
    return f"{lead}{said}{noun.replace('-', ' ')}{tail}"


def _range(match: re.Match[str], amount: str, to: str, name: str, cent: str, scale: str) -> str:
    first_scale = _group(match, "from_scale") or _SCALES.get(
        _group(match, "from_short").lower(), ""
    )
    is_shared = bool(scale) and not first_scale and not _group(match, "again")  # "$1.5-2.5M"
    if not is_shared and (_group(match, "again") or _has_cents(amount) or _has_cents(to)):
        parts = []
        for each, of in ((amount, first_scale), (to, scale)):
            if of or not cent or not _has_cents(each):
                said = " ".join(filter(None, (number(_trimmed(each) if not of else each), of)))
                parts.append(f"{said} {_counted(name, one=said == 'one')}")
            else:
                parts.append(_dollars_and_cents(each, name, cent))
        return " to ".join(parts)
    first = " ".join(filter(None, (number(amount), first_scale)))
    return " ".join(filter(None, (f"{first} to {number(to)}", scale, _counted(name, one=False))))


def _trimmed(amount: str) -> str:
    """Without zeros of no cent: "5.00", "2.000"."""
    return re.sub(r"\.0+$", "", amount)


def _has_cents(amount: str) -> bool:
    """Whether two figures are left behind the point: "3.20", "20.010", ".5" and "0.5"."""
    fraction = amount.partition(".")[2]
    return bool(fraction.strip("0")) and (len(fraction) == 2 or len(fraction.rstrip("0")) <= 2)


def _dollars_and_cents(amount: str, name: str, cent: str) -> str:
    whole, _, rest = amount.replace(",", "").partition(".")
    cents = int(rest.ljust(2, "0")[:2])
    parts = []
    if whole.strip("0"):
        parts.append(f"{number(whole)} {_counted(name, one=whole.lstrip('0') == '1')}")
    parts.append(f"{cardinal(cents)} {_counted(cent, one=cents == 1)}")
    return " and ".join(parts)


_COSTING = pattern_of(
    r"\b(?:for|of|costs?|at|only|just|about|under|worth|each|paid|an extra|save[ds]?)\s$"
)


def _cents(match: re.Match[str]) -> str | None:
    """ "50c", where the words before speak of a price."""
    if not led(match, _COSTING):
        return None
    return f"{number(match['number'])} {'cent' if match['number'] == '1' else 'cents'}"


def _pence(match: re.Match[str]) -> str | None:
    value = int(match["number"])
    if value > 99:
        return None
    return f"{number(match['number'])} {'penny' if value == 1 else 'pence'}"


def _half(match: re.Match[str]) -> str:
    part = {"2": "half", "3": "third", "4": "quarter"}[match["lower"]]
    return f"one {part} {_currency(match['currency'])[0]}"


def _bare_per(match: re.Match[str]) -> str:
    return f"{_currency(match['currency'])[0]} per {unit_name(match['per'])}"


# A sign or a code behind letters or a sign, and one behind an amount.
_HAS_LED = pattern_of(
    rf"{_SYMBOLS}(?:(?<=[-−+±A-Za-z].)|(?<=S\s.))|[A-Zk][A-Zrs]{{1,2}}\.?\s?[-−]?\d"
)
_HAS_FOLLOWING = pattern_of(
    r"[€£¥₹₩₽¢₱₦₫฿₺₴₪₸$A-Zkz,](?:(?<=[€£¥₹₩₽¢₱₦₫฿₺₴₪₸])|(?<=\$)(?!\d)|(?<=[A-Z])[A-Z]{2}\b|(?<=k)r\b|"
    r"(?<=z)ł\b|(?<=E)uro\b|(?<=,)\d\d (?:euros|pounds|dollars|rupees)\b)"
)
MONEY = (
    Recogniser("money", DIGIT, _HALF, _half, "/"),
    Recogniser("money", "-−+±" + CAPITAL + SMALL, _MONEY, _money, DIGIT, _HAS_LED),
    Recogniser("money", "$€£¥₹₩₽₿₺₴₪₱₦₫฿₵₸", _MONEY, _money, DIGIT),
    Recogniser("money", DIGIT + ".", _AFTER, _money, DIGIT, _HAS_FOLLOWING),
    Recogniser("money", DIGIT, _PENCE, _pence, search=InWord(r"\dp\b", DIGIT)),
    Recogniser("money", DIGIT, _CENTS, _cents, search=InWord(r"\dc\b", DIGIT)),
    Recogniser("unit", "$€£¥₹₩₽", _BARE_PER, _bare_per, "/"),
)
