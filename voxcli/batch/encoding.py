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
WESTERN_MARKS = frozenset("’‘“”„«»‹›–—…•€£§°¿¡·\u00a0")
MAX_WESTERN_SHARE = 0.4  # of the letters that have accents; above, it is another script's bytes
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
