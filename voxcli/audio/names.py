"""A file name made from a text, safe on Linux, macOS and Windows.

Knows nothing about audio. A name that is free now may be taken a moment later; who writes asks for
the next one then. Of pathvalidate 3.3.1 only the reserved names could serve here, and it
lets `CON .wav` pass, which Windows does not.
"""

from __future__ import annotations

import itertools
import os
import unicodedata
from pathlib import Path

MAX_CHARS = 60  # readable in a listing
MAX_BYTES = 180  # of the 255 a file system allows, with room for "-2", suffix and hidden name
FALLBACK = "speech"

_RESERVED = {"con", "prn", "aux", "nul"} | {
    f"{port}{digit}" for port in ("com", "lpt") for digit in "0123456789¹²³"
}


def slug(text: str) -> str:
    """The first words of `text`, lower case, joined by dashes; never empty.

    Letters, digits and combining marks of any script are kept, everything else separates words.
    """
    kept = "".join(
        char if unicodedata.category(char)[0] in "LMN" and _can_store(char) else " "
        for char in unicodedata.normalize("NFC", text[: 10 * MAX_CHARS]).lower()
    )
    name = ""
    for word in kept.split():
        longer = f"{name}-{word}" if name else word
        if not _fits(longer):
            break
        name = longer
    name = name or _cut(kept.strip().split(" ")[0]) or FALLBACK
    return f"{FALLBACK}-{name}" if is_reserved(name) else name


def is_reserved(name: str) -> bool:
    """Whether Windows means a device by it, whatever its suffix: "CON", "com1.wav"."""
    return name.split(".")[0].rstrip().lower() in _RESERVED


def free_name(text: str, folder: str | Path, suffix: str) -> Path:
    """A path in `folder` that does not exist, named after `text`: `hello.wav`, `hello-2.wav`, …"""
    suffix = suffix if suffix.startswith(".") else f".{suffix}"
    return free_path(Path(folder) / f"{slug(text)}{suffix}")


def free_path(wanted: Path) -> Path:
    """`wanted`, or with the first number that makes a path which does not exist."""
    for number in itertools.count(1):
        name = wanted.name if number == 1 else f"{wanted.stem}-{number}{wanted.suffix}"
        path = wanted.with_name(name)
        if not os.path.lexists(path):
            return path
    raise AssertionError("unreachable")


def _fits(name: str) -> bool:
    return len(name) <= MAX_CHARS and len(name.encode()) <= MAX_BYTES


def _can_store(char: str) -> bool:
    """Whether the file system's encoding has it; ASCII where Python's UTF-8 mode is off."""
    try:
        return bool(os.fsencode(char))
    except UnicodeEncodeError:
        return False


def _cut(word: str) -> str:
    word = word[:MAX_CHARS]
    while not _fits(word):
        word = word[:-1]
    return word
