"""The bytes of a table to text: UTF-8, what its byte-order mark says, or what the user says.

Never a guess: a guess that is wrong is spoken as other letters. Where nothing fits, the error has
what the file may be, with words of it to judge by. Knows nothing of columns.
"""

from __future__ import annotations

import codecs
import math
import re
from collections import Counter
from pathlib import Path

from voxcli.errors import TextError, UsageError, hint_for_file, reason_of
from voxcli.text import decode_text

# What spreadsheets and subtitle editors save; what is offered is among these alone.
CANDIDATES = (
    *("cp1252", "cp1250", "cp1251", "cp1253", "cp1254"),
    *("gb18030", "big5", "shift_jis", "euc_jp", "euc_kr"),
)
WESTERN_MARKS = "’‘“”„«»‹›–—…•€£§°¿¡·.,:!?()'\u00a0"  # at the ends of words
# Letters beyond ASCII of languages, the most frequent first.
_WESTERN = "éäöüèàóíáßçñêãåøæôâúîûõòùëïœìðþýÿ"
_CENTRAL = ("ąęłóśżćńź", "íáěéřýžšůčúťďňóľôĺŕä", "éáöőíóúüű", "ăâîșțşţ", "šžčćđ")
_TURKISH = "ıüşğçöİâîû"
_CYRILLIC = "оеаинтсрвлкмдпуяыьгзбчйжшхюцщіїєґ"
_GREEK = "αοιετσνηυρπκμλςίόάγέήδωχθύφβώξζψϊϋΐΰ"
_HEBREW = "יוהלארתבשמםכנחדפקעטגןצזסךףץ"
_ARABIC = "اليمنتوربعسهدفكقحجةشصطأخىضذغئزثءإظآؤ"
# Of one-byte encodings, the likelier first.
LETTERS = {
    "cp1252": (_WESTERN,),
    "cp1251": (_CYRILLIC,),
    "cp1250": _CENTRAL,
    "cp1254": (_TURKISH,),
    "cp1253": (_GREEK,),
    "cp1255": (_HEBREW,),
    "cp1256": (_ARABIC,),
    "iso8859_2": _CENTRAL,
    "koi8_r": (_CYRILLIC,),
    "mac_roman": (_WESTERN,),
    "cp850": (_WESTERN,),
    "cp852": _CENTRAL,
    "cp437": (_WESTERN,),
    "cp866": (_CYRILLIC,),
    "mac_cyrillic": (_CYRILLIC,),
    "iso8859_5": (_CYRILLIC,),
    "iso8859_6": (_ARABIC,),
}
# Characters that are a third of what people write, in encodings of two bytes.
USUAL = {
    "gb18030": "的一是不了在人有我他这个们中来上大为和国地到以说时要就出会可也你对生能而子那得于着"
    "下自年过发后作里用道行所然家事成方多经去学同现没面起看天分还进好小样她本前开从今昨很打请谢给北京",
    "big5": "的一是不了在人有我他這個們中來上大為和國地到以說時要就出會可也你對生能而子那得於著"
    "下自年過發後作裡用道行所然家事成方多經去學同現沒面起看天分還進好小樣她本前開從今昨很打請謝給臺灣",
    "shift_jis": "のにはをたがでてとしれさあいうるなもんかくらりきっすまこよせ。、日本人",
    "euc_jp": "のにはをたがでてとしれさあいうるなもんかくらりきっすまこよせ。、日本人",
    "euc_kr": "이다는에을가고의지하한기사로도어서나를은니리시아대자그인해요과스라정일수보만게들습",
}
MIN_USUAL = 0.25  # of the characters of two bytes
RANK_OFFSET = 3  # the first letters of an alphabet differ little
MARK = 0.01  # how often a character beyond ASCII is a mark; less than any letter
UNUSUAL = 1e-5  # how often a character is no letter of the alphabet
LIKELY = 0.75  # of the same
MAX_ACCENTS = 2  # in a Latin word without an unaccented letter, such as "à" or "été" has one
SAMPLE_BYTES = 100_000
SHOWN_WORDS = 3


def read_input(path: Path, encoding: str | None) -> tuple[str, str]:
    """`decode_table` for the file that a batch is made of.

    Raises:
        UsageError: it cannot be read.
        TextError: as `decode_table`.
    """
    try:
        return decode_table(path.read_bytes(), encoding, str(path))
    except OSError as err:
        raise UsageError(
            f"cannot read {path}: {reason_of(err)}", hint=hint_for_file(path, "check INPUT")
        ) from err


def decode_table(data: bytes, encoding: str | None, source: str) -> tuple[str, str]:
    """Decode a whole file; line ends become "\\n". Also returns the encoding.

    Raises:
        TextError: undecodable, binary, or an unknown `encoding`.
    """
    try:
        text = decode_text(data, encoding=encoding, source=source)
    except TextError as err:
        is_encoding = isinstance(err.__cause__, UnicodeDecodeError) and b"\0" not in data
        body = data.removeprefix(codecs.BOM_UTF8)
        if encoding is None and is_encoding and (name := _guess(body)):
            words = " ".join(_telling_words(body.decode(name)))
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
    narrow = {name: _letters(telling, name) for name in LETTERS}
    likely = [name for name in narrow if narrow[name][0] >= LIKELY]
    if likely:
        return max(likely, key=lambda name: narrow[name][1])  # the first of equal ones
    wide = {name: _usual_share(telling, name) for name in USUAL}
    widest = max(wide, key=lambda name: wide[name])
    if wide[widest] >= MIN_USUAL:
        return widest
    from charset_normalizer import from_bytes

    best = from_bytes(telling, cp_isolation=list(CANDIDATES)).best()
    return best.encoding if best else None


def _letters(data: bytes, encoding: str) -> tuple[float, float]:
    """The share of the characters beyond ASCII that are usual letters of one language, in words of
    one script with capitals where words have them; and their mean log probability."""
    try:
        text = data.decode(encoding)
    except UnicodeDecodeError:
        return 0.0, -math.inf
    good: Counter[str] = Counter()
    total, is_latin = 0, LETTERS[encoding][0][0] < "\u0370"
    num_odd = sum(not char.isascii() for char in text)
    for word in re.findall(r"[^\s,;|\"'’…–—]+", text):
        within = word.strip(WESTERN_MARKS)
        odd = [char.lower() for char in within if not char.isascii()]
        total += len(odd)
        parts = re.findall(r"[^\W\d_]+", word)
        is_cased = all(part in (part.lower(), part.upper(), part.capitalize()) for part in parts)
        is_latin_word = re.search("[A-Za-z]", word) is not None or len(odd) <= MAX_ACCENTS
        if is_cased and (is_latin_word if is_latin else not re.search("[A-Za-z]", word)):
            good.update(odd)
    if not total:
        return 0.0, -math.inf
    fits = [_fit(good, total, alphabet) for alphabet in LETTERS[encoding]]
    share, logs = max(fits)
    return share, (logs + (num_odd - total) * math.log(MARK)) / num_odd


def _fit(letters: Counter[str], total: int, alphabet: str) -> tuple[float, float]:
    """The share of letters in an alphabet, and their log probability: a letter is as frequent as
    its rank is low."""
    norm = sum(1 / (rank + RANK_OFFSET) for rank in range(len(alphabet)))
    usual = 0
    logs = 0.0
    for char, count in letters.items():
        rank = alphabet.find(char)
        if rank >= 0:
            usual += count
            logs -= count * math.log((rank + RANK_OFFSET) * norm)
    return usual / total, logs + (total - usual) * math.log(UNUSUAL)


def _usual_share(data: bytes, encoding: str) -> float:
    """The share of the most usual characters among those beyond ASCII."""
    try:
        text = data.decode(encoding)
    except UnicodeDecodeError:
        return 0.0
    odd = [char for char in text if not char.isascii()]
    return sum(char in USUAL[encoding] for char in odd) / len(odd) if odd else 0.0
