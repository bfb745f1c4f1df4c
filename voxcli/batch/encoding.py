"""The bytes of a table to text: UTF-8, what its byte-order mark says, or what the user says.

Never a guess: a guess that is wrong is spoken as other letters. Where nothing fits, the error has
what the file may be, with words of it to judge by. Knows nothing of columns.
"""

from __future__ import annotations

import re

from voxcli.errors import TextError
from voxcli.text import decode_text

# What spreadsheets and subtitle editors save; what is offered is among these alone.
CANDIDATES = (
    *("cp1252", "cp1250", "cp1251", "cp1253", "cp1254"),
    *("gb18030", "big5", "shift_jis", "euc_jp", "euc_kr"),
)
WESTERN_MARKS = "’‘“”„«»‹›–—…•€£§°¿¡·.,:!?()'\u00a0"  # at the ends of words
_CYRILLIC = "оеаинтсрвлкмдпуяыьгзбчйжшхюцщіїєґ"
_CENTRAL = "ąćęłńóśźżáčďéěíňřšťúůýžöüőűôľĺŕăâîșțşţđ"
_GREEK = "αβγδεζηθικλμνοπρσςτυφχψωάέήίόύώ"
# The usual letters beyond ASCII of one-byte encodings, the likelier encoding first.
LETTERS = {
    "cp1252": "éèêëàâäáãåæçîïíñôöóòõøœùûüúß",
    "cp1251": _CYRILLIC,
    "cp1250": _CENTRAL,
    "cp1254": "ışğçöüâî",
    "cp1253": _GREEK,
    "iso8859_2": _CENTRAL,
    "koi8_r": _CYRILLIC,
    "cp866": _CYRILLIC,
    "mac_cyrillic": _CYRILLIC,
    "iso8859_5": _CYRILLIC,
}
LIKELY = 0.75  # of the same
MAX_ACCENTS = 2  # in a Latin word without an unaccented letter, such as "à" or "été" has one
SAMPLE_BYTES = 100_000
SHOWN_WORDS = 3


def decode_table(data: bytes, encoding: str | None, source: str) -> tuple[str, str]:
    """Decode a whole file; line ends become "\\n". Also returns the encoding.

    Raises:
        TextError: undecodable, binary, or an unknown `encoding`.
    """
    try:
        text = decode_text(data, encoding=encoding, source=source)
    except TextError as err:
        if encoding is None and b"\0" not in data and (name := _guess(data)):
            words = " ".join(_telling_words(data.decode(name)))
            err.hint = (
                f"save it as UTF-8, or name its encoding: with --encoding {name} it says '{words}'"
            )
        raise
    wide = "utf-32" if b"\0\0" in data[:4] else "utf-16"
    marked = wide if data[:2] in (b"\xff\xfe", b"\xfe\xff") else "utf-8"
    return text.replace("\r\n", "\n").replace("\r", "\n"), encoding or marked


def _telling_words(text: str) -> list[str]:
    """The first words that read otherwise in another encoding."""
    return [word[:20] for word in re.findall(r"\w+", text) if not word.isascii()][:SHOWN_WORDS]


def _guess(data: bytes) -> str | None:
    """The likeliest encoding, from the lines that are not ASCII alone."""
    telling = b"\n".join(line for line in data.splitlines() if not line.isascii())
    telling = telling[: telling.find(b"\n", SAMPLE_BYTES) if len(telling) > SAMPLE_BYTES else None]
    likelihoods = {name: _likelihood(telling, name) for name in LETTERS}
    likeliest = max(likelihoods, key=lambda name: likelihoods[name])  # the first of equal ones
    if likelihoods[likeliest] >= LIKELY:
        return likeliest
    from charset_normalizer import from_bytes

    best = from_bytes(telling, cp_isolation=list(CANDIDATES)).best()
    return best.encoding if best else None


def _likelihood(data: bytes, encoding: str) -> float:
    """The share of the characters beyond ASCII that are usual letters in words of one script, with
    capitals where words have them."""
    try:
        text = data.decode(encoding)
    except UnicodeDecodeError:
        return 0.0
    usual, total, good = LETTERS[encoding], 0, 0
    is_latin = usual[0] < "\u0370"
    for word in re.findall(r"[^\s,;|\"’'…–—]+", text):
        within = word.strip(WESTERN_MARKS)
        odd = [char.lower() for char in within if not char.isascii()]
        total += len(odd)
        parts = re.findall(r"[^\W\d_]+", word)
        is_cased = all(part in (part.lower(), part.upper(), part.capitalize()) for part in parts)
        is_latin_word = re.search("[A-Za-z]", word) is not None or len(odd) <= MAX_ACCENTS
        if is_cased and (is_latin_word if is_latin else not re.search("[A-Za-z]", word)):
            good += sum(char in usual for char in odd)
    return good / total if total else 0.0
