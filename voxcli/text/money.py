"""English: amounts of money, before and after their sign or code, in ranges, with cents and scales.

Knows no exchange: what is written is said.
"""

from __future__ import annotations

import re

from voxcli.text.changes import Draft
from voxcli.text.quantities import NO_FRACTION, NUM, SIGN, SIGNS, START
from voxcli.text.spell import cardinal, number, plural
from voxcli.text.units import PER_UNIT, unit_name

_CURRENCIES = {
    "$": ("dollar", "cent"), "€": ("euro", "cent"), "£": ("pound", "penny"), "¥": ("yen", ""),
    "₹": ("rupee", "paisa"), "₩": ("won", ""), "₽": ("ruble", "kopeck"), "₿": ("bitcoin", ""),
    "₺": ("lira", ""), "₴": ("hryvnia", ""), "₪": ("shekel", ""), "USD": ("U S dollar", "cent"),
    "EUR": ("euro", "cent"), "GBP": ("pound", "penny"), "JPY": ("yen", ""), "CNY": ("yuan", ""),
    "CHF": ("Swiss franc", ""), "CAD": ("Canadian dollar", "cent"), "INR": ("rupee", "paisa"),
    "AUD": ("Australian dollar", "cent"), "¢": ("cent", ""), "₱": ("peso", "centavo"),
    "SEK": ("Swedish krona", ""), "NOK": ("Norwegian krone", ""), "DKK": ("Danish krone", ""),
    "PLN": ("zloty", ""), "zł": ("zloty", ""), "kr": ("krone", ""), "MXN": ("Mexican peso", ""),
    "BRL": ("Brazilian real", ""), "NZD": ("New Zealand dollar", "cent"), "Rs": ("rupee", "paisa"),
}  # fmt: skip
_PREFIXES = {
    "US": "U S ", "CA": "Canadian ", "C": "Canadian ", "AU": "Australian ", "A": "Australian ",
    "NZ": "New Zealand ", "HK": "Hong Kong ", "MX": "Mexican ", "S": "Singapore ",
}  # fmt: skip
_PLURALS = {
    "penny": "pence",
    "yen": "yen",
    "won": "won",
    "yuan": "yuan",
    "paisa": "paise",
    "lira": "lira",
    "Swedish krona": "Swedish kronor",
    "Norwegian krone": "Norwegian kroner",
    "Danish krone": "Danish kroner",
    "krone": "kroner",
    "Brazilian real": "Brazilian reais",
}
_CODES = r"(?:USD|EUR|GBP|JPY|CNY|CHF|CAD|AUD|INR|SEK|NOK|DKK|PLN|MXN|BRL|NZD)"
_SCALES = {
    "k": "thousand", "m": "million", "mn": "million", "b": "billion", "bn": "billion",
    "t": "trillion", "tn": "trillion",
}  # fmt: skip
_SCALE = (
    r"(?:[\s-]?(?P<scale>million|billion|trillion|thousand|hundred)\b"
    r"|\s?(?P<short>[kKmMbBT]|mn|bn|tn)\b)?"
)
_MONEY = re.compile(
    rf"{SIGN}(?:\b(?P<prefix>US|CA|C|AU|A|NZ|HK|MX|S))?(?P<currency>[$€£¥₹₩₽₿₺₴₪₱])"
    rf"\s?(?P<minus>[-−])?(?P<number>{NUM})"
    rf"(?:\s?(?:-|–|to)\s?(?P=currency)?(?P<to>{NUM}))?{_SCALE}"
    r"(?P<noun>[ -](?:bill|note|coin|store|fee|tax|fine|bonus|coupon|voucher|discount|prize)\b)?"
)
_MONEY_AFTER = re.compile(
    rf"{START}{NO_FRACTION}{SIGN}(?P<number>{NUM})(?:[-–](?P<to>{NUM}))?{_SCALE}\s?"
    rf"(?P<currency>[$€£¥₹₩₽₿¢₱]|(?:{_CODES}|zł|kr)\b)(?!\d)"
)
_MONEY_CODE = re.compile(
    rf"\b(?P<currency>{_CODES}|Rs(?=\.? ?\d)|kr(?=\.? \d))\.?\s?{SIGN}(?P<number>{NUM})"
    rf"(?:[-–](?P<to>{NUM}))?{_SCALE}"
)
_SCALED_SPAN = re.compile(rf"(?P<a>[$€£]{NUM}(?:[kKmMbBT]|mn|bn|tn)?)\s?[-–]\s?(?=[$€£]{NUM})")
_NO_CENTS = re.compile(r"(?<=\d)\.[-–—](?!\d)")  # CHF 20.-
_REAIS = re.compile(r"\bR\$\s?(?=\d)")
_PENCE = re.compile(rf"{START}(?P<number>\d{{1,2}})p(?!\w)")
_COMMA_CENTS_AFTER = re.compile(
    r"(?P<currency>[€]|\bEUR)\s?(?P<whole>\d{1,3}(?:\.\d{3}){0,4}),(?P<cents>\d\d)(?![\d,]|\.\d)"
)
_COMMA_CENTS = re.compile(
    r"(?<![\d.,])(?P<whole>\d{1,3}(?:\.\d{3}){0,4}),(?P<cents>\d\d)(?=\s?(?:€|EUR\b))"
)
_PER_WORD = re.compile(rf"(?<=[a-z])\s?/\s?(?P<per>{PER_UNIT})\b")


def money(draft: Draft) -> None:
    """Say amounts of money."""
    draft.sub(
        _COMMA_CENTS, lambda m: f"{m.group('whole').replace('.', '')}.{m.group('cents')}", "money"
    )
    draft.sub(
        _COMMA_CENTS_AFTER,
        lambda m: f"{m['currency']}{m['whole'].replace('.', '')}.{m['cents']}",
        "money",
    )
    draft.sub(_NO_CENTS, "", "money")
    draft.sub(_REAIS, "BRL ", "money")
    draft.sub(_SCALED_SPAN, lambda m: f"{m['a']} to ", "money")
    draft.sub(
        _PENCE,
        lambda m: f"{number(m['number'])} {'penny' if int(m['number']) == 1 else 'pence'}",
        "money",
    )
    for pattern in (_MONEY, _MONEY_CODE, _MONEY_AFTER):
        draft.sub(pattern, _money, "money")
    draft.sub(_PER_WORD, _per_word, "unit")


def _group(match: re.Match[str], name: str) -> str | None:
    return match.groupdict().get(name)


def _money(match: re.Match[str]) -> str:
    name, cent = _CURRENCIES[match.group("currency")]
    name = _PREFIXES.get(_group(match, "prefix") or "", "") + name
    sign = SIGNS[match.group("sign")] or ("minus " if _group(match, "minus") else "")
    amount, to = match.group("number"), match.group("to")
    scale = match.group("scale") or _SCALES.get((match.group("short") or "").lower(), "")
    if scale or to or not cent or len(amount.partition(".")[2]) != 2:
        first = f"{number(amount)} to {number(to)}" if to else number(amount)
        one = amount == "1" and not scale and not to
        noun = _group(match, "noun")
        counted = name if one or noun else _PLURALS.get(name) or plural(name)
        return (
            sign + " ".join(filter(None, (first, scale, counted))) + (noun or "").replace("-", " ")
        )
    return sign + _dollars_and_cents(amount, name, cent) + (_group(match, "noun") or "")


def _dollars_and_cents(amount: str, name: str, cent: str) -> str:
    whole, _, rest = amount.replace(",", "").partition(".")
    cents = int(rest)
    parts = []
    if whole.strip("0") or not cents:
        one = whole.lstrip("0") == "1"
        parts.append(
            f"{number(whole or '0')} {name if one else _PLURALS.get(name) or plural(name)}"
        )
    if cents:
        parts.append(
            f"{cardinal(cents)} {cent if cents == 1 else _PLURALS.get(cent) or plural(cent)}"
        )
    return " and ".join(parts)


def _per_word(match: re.Match[str]) -> str | None:
    before = match.string[max(0, match.start() - 12) : match.start()]
    if not re.search(
        r"(?:dollars?|euros?|pounds?|cents?|pence|yen|rupees?|million|thousand)$", before
    ):
        return None
    per = match.group("per")
    return f" per {unit_name(per)}"
