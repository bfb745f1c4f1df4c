"""Bytes to text: UTF-8 always, unless the user names another encoding.

The locale's encoding is never asked: the same file gives the same speech on every machine. Knows
nothing of what the text says.
"""

from __future__ import annotations

import codecs

from voxcli.errors import TextError

# The UTF-32 marks start with the UTF-16 ones, so they are tried first.
_BOMS = (
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF32_LE, "utf-32"),
    (codecs.BOM_UTF32_BE, "utf-32"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)

# How files begin that are no plain text, whatever the encoding, and what each of them is.
_DOCUMENTS = (
    (b"%PDF", "a PDF"),
    (b"{\\rtf", "a document in RTF"),
    (b"\xd0\xcf\x11\xe0", "an Office document"),
    (b"PK\x03\x04", "a packed document, such as .docx, .xlsx, .odt or .epub"),
    (b"\x1f\x8b", "a compressed file"),
)
_SOUNDS = (b"RIFF", b"fLaC", b"OggS", b"ID3")  # and no text, where a NUL follows


def decode_text(data: bytes, *, encoding: str | None = None, source: str) -> str:
    """Decode what a file, stdin or an argument holds.

    Args:
        data: the raw bytes; a byte-order mark (UTF-8, UTF-16, UTF-32) decides and is removed.
        encoding: what the user said it is, or None.
        source: how to name the origin in a message.

    Raises:
        TextError: undecodable or binary; names source, byte offset and `--encoding`.
    """
    what = next((what for begin, what in _DOCUMENTS if data.startswith(begin)), "")
    if data.startswith(_SOUNDS) and b"\0" in data:
        what = "a recording"
    if what:
        raise TextError(f"{source} is {what}, not plain text", hint="save it as plain text")
    marked = next((name for bom, name in _BOMS if data.startswith(bom)), None)
    name = encoding or marked or "utf-8"
    bom = len(codecs.BOM_UTF8) if data.startswith(codecs.BOM_UTF8) else 0
    try:
        text = data[bom:].decode(name)
    except UnicodeDecodeError as err:
        if b"\0" in data and encoding is None:  # as in documents, archives and recordings
            hint = "save its words as plain text, in UTF-8"
            raise TextError(f"{source} is not a text file", hint=hint) from err
        at = bom + err.start
        byte = f"0x{data[at]:02x}" if at < len(data) else "the end"
        hint = "save it as UTF-8 or name its encoding, e.g. --encoding cp1252"
        where = f"{source} is not {name}: {byte} at byte {at} cannot be decoded"
        raise TextError(where, hint=hint) from err
    except (LookupError, ValueError) as err:
        hint = "use a name such as utf-8, utf-16, cp1252 or gb18030"
        raise TextError(f"--encoding '{encoding}' is unknown", hint=hint) from err
    text = text.removeprefix("\ufeff")
    if "\0" in text:
        offset = data.index(b"\0")
        hint = "give a text file, or name its encoding, e.g. --encoding utf-16"
        raise TextError(f"{source} has a NUL at byte {offset}, so it is not plain text", hint=hint)
    return text


def whole_characters(text: str) -> str:
    """A text in which surrogates are the characters that pairs of them stand for; a half without
    its other one becomes U+FFFD."""
    if text.isascii():
        return text
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
