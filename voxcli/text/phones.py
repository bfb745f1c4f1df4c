"""A rough pronunciation of an English word from its letters.

For a listener who knows what to expect, as an aligner does; nobody could learn to speak from it.
Phones are those of the CMU dictionary, without stress.
"""

from __future__ import annotations

import re

_SOUNDS = {
    "tion": "SH AH N", "sion": "ZH AH N", "ough": "AO", "augh": "AO", "eigh": "EY", "tch": "CH",
    "dge": "JH", "igh": "AY", "sch": "SH", "ci": "S IY", "ce": "S EH", "cy": "S IY", "ge": "JH EH",
    "ph": "F", "sh": "SH", "ch": "CH", "th": "TH", "wh": "W", "ck": "K", "gh": "G", "qu": "K W",
    "ng": "NG", "cz": "CH", "rz": "ZH", "sz": "SH", "zh": "ZH", "kh": "K",
    "ee": "IY", "ea": "IY", "oo": "UW", "ou": "AW", "ow": "OW", "oa": "OW", "oi": "OY", "oy": "OY",
    "ai": "EY", "ay": "EY", "au": "AO", "aw": "AO", "ei": "AY", "ey": "IY", "ie": "IY", "ue": "UW",
    "ew": "UW", "ui": "UW", "ar": "AA R", "er": "ER", "ir": "ER", "ur": "ER", "or": "AO R",
    "a": "AE", "b": "B", "c": "K", "d": "D", "e": "EH", "f": "F", "g": "G", "h": "HH", "i": "IH",
    "j": "JH", "k": "K", "l": "L", "m": "M", "n": "N", "o": "OW", "p": "P", "q": "K", "r": "R",
    "s": "S", "t": "T", "u": "AH", "v": "V", "w": "W", "x": "K S", "y": "IY", "z": "Z",
}  # fmt: skip
_FIRST = {"kn": "N", "wr": "R", "ps": "S", "x": "Z", "y": "Y"}
_NAMES = {
    "a": "EY", "b": "B IY", "c": "S IY", "d": "D IY", "e": "IY", "f": "EH F", "g": "JH IY",
    "h": "EY CH", "i": "AY", "j": "JH EY", "k": "K EY", "l": "EH L", "m": "EH M", "n": "EH N",
    "o": "OW", "p": "P IY", "q": "K Y UW", "r": "AA R", "s": "EH S", "t": "T IY", "u": "Y UW",
    "v": "V IY", "w": "D AH B AH L Y UW", "x": "EH K S", "y": "W AY", "z": "Z IY",
}  # fmt: skip
_PART = re.compile("|".join(sorted(_SOUNDS, key=len, reverse=True)))
_BEGINNING = re.compile("|".join(_FIRST))
_TWICE = re.compile(r"([b-df-hj-np-tv-z])\1")
_SILENT_E = re.compile(r"(?<=[a-z]{2}[^aeiou])e(?=s?$)")


def phones_of(word: str) -> str:
    """Phones with spaces between them.

    Args:
        word: lower-case letters of ASCII, at least one; a word without a vowel is spelled.
    """
    if not re.search("[aeiouy]", word):
        return " ".join(_NAMES[letter] for letter in word)
    word = _SILENT_E.sub("", _TWICE.sub(r"\1", word))
    first = _BEGINNING.match(word)
    said = [_FIRST[first[0]]] if first else []
    said += [_SOUNDS[part[0]] for part in _PART.finditer(word, first.end() if first else 0)]
    return " ".join(said)
