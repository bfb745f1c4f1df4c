"""The bytes of a table to text: UTF-8 or what its byte-order mark says, else a guess that is told.

Unlike `text/decode.py`, which refuses, a table from a spreadsheet of twenty years may be guessed:
the user sees what was assumed and can force another encoding. Knows nothing of columns.
"""

from __future__ import annotations

from dataclasses import dataclass

from voxcli.errors import TextError
from voxcli.text import decode_text

# What spreadsheets and subtitle editors save; the guess is among these alone.
CANDIDATES = (
    *("cp1252", "cp1250", "cp1251", "cp1253", "cp1254"),
    *("gb18030", "big5", "shift_jis", "euc_jp", "euc_kr"),
)
WESTERN_MARKS = frozenset("’‘“”„«»‹›–—…•€£§°¿¡·\u00a0")
MAX_WESTERN_SHARE = 0.4  # of the letters that have accents; above, it is another script's bytes


@dataclass(frozen=True)
class Decoded:
    """A table's text and how its bytes were read."""

    text: str
    encoding: str
    is_guessed: bool = False


def decode_table(data: bytes, encoding: str | None, source: str) -> Decoded:
    """Decode a whole file; line ends become "\\n".

    Raises:
        TextError: undecodable, binary, or an unknown `encoding`.
    """
    try:
        text = decode_text(data, encoding=encoding, source=source)
    except TextError:
        if encoding is not None or b"\0" in data:
            raise
        name = _guess(data)
        if name is None:
            raise
        return Decoded(_unix(data.decode(name)), name, is_guessed=True)
    wide = "utf-32" if b"\0\0" in data[:4] else "utf-16"
    marked = wide if data[:2] in (b"\xff\xfe", b"\xfe\xff") else "utf-8"
    return Decoded(_unix(text), encoding or marked)


def _unix(text: str) -> str:
    return text.replace("\r\n", "\n").replace("\r", "\n")


def _guess(data: bytes) -> str | None:
    if _is_western(data):
        return "cp1252"  # Latin-1 and what Windows adds to it
    from charset_normalizer import from_bytes

    best = from_bytes(data, cp_isolation=list(CANDIDATES)).best()
    return best.encoding if best else None


def _is_western(data: bytes) -> bool:
    """Whether cp1252 gives words with a few accents, which short texts give no statistics for."""
    try:
        text = data.decode("cp1252")
    except UnicodeDecodeError:
        return False
    accented = [char for char in text if not char.isascii() and char not in WESTERN_MARKS]
    num_letters = sum(char.isalpha() for char in text)
    is_few = len(accented) <= MAX_WESTERN_SHARE * num_letters
    return is_few and all(char.isalpha() and char not in "ªºµ" for char in accented)
