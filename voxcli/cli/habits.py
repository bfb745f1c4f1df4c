"""How people write it elsewhere: names in other programs, numbers with units, quotation marks.

Knows no command and no option of voxcli but by name.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Sequence

# What other programs call it: say, espeak, edge-tts, piper, Coqui's tts, ffmpeg, whisper.
OPTIONS = {
    "v": "--voice", "speaker": "--voice", "voice-name": "--voice", "speaker-wav": "--ref",
    "audio-prompt": "--ref", "length-scale": "--speed", "tempo": "--speed",
    "sentence-silence": "--pause", "i": "--file", "input": "--file", "input-file": "--file",
    "text-file": "--file", "w": "--output", "write-media": "--output", "outfile": "--output",
    "out-file": "--output", "out-path": "--output", "filename": "--output", "d": "--output",
    "outdir": "--output", "out-dir": "--output", "write-subtitles": "--subtitles",
    "srt": "--subtitles", "vtt": "--subtitles", "y": "--overwrite", "yes": "--overwrite",
    "force": "--overwrite", "ar": "--rate", "sample-rate": "--rate", "samplerate": "--rate",
    "cuda": "--device cuda", "use-cuda": "--device cuda", "gpu": "--device cuda",
    "jobs": "--slots", "j": "--slots", "workers": "--slots", "parallel": "--slots",
    "max-workers": "--slots", "stdout": "-o -",
    "output-raw": "-o - --format raw", "silent": "--quiet",
    "V": "--version", "p": "--port", "daemon": "--background", "detach": "--background",
    "bind": "--host", "listen": "--host", "address": "--host",
}  # fmt: skip
# What other programs call commands below a noun; the first that is there.
VERBS = {
    "rm": ("remove",), "delete": ("remove",), "del": ("remove",), "ls": ("list",),
    "get": ("pull", "show"), "download": ("pull",), "install": ("pull",), "create": ("add",),
    "new": ("add",), "describe": ("show", "info"), "info": ("show",), "show": ("info",),
    "mv": ("rename",), "check": ("verify",),
}  # fmt: skip
_UNITS = {
    "": 1, "s": 1, "sec": 1, "secs": 1, "seconds": 1, "ms": 1e-3, "m": 60, "min": 60, "mins": 60,
    "h": 3600, "hz": 1, "khz": 1000, "k": 1000, "x": 1, "%": 0.01, "db": 1, "lufs": 1,
}  # fmt: skip
_KINDS: dict[type, str] = {int: "a whole number", float: "a number"}
_NUMBER = re.compile(r"([+-]?)(\d+(?:[.,_' ]\d+)*)\s*([a-z%]*)")
_CLOCK = re.compile(r"(?:(\d+):)?(\d{1,2}):(\d{1,2}(?:[.,]\d+)?)")
_MARKED = re.compile(r"([“„«‹‘‚])([^“”„«»‹›]*?)([”“»›’‘])(?![^\W_])")


def number_hint(text: str, kind: type, metavar: str) -> str:
    """What to give instead of a value that is no number; arguments as of `meant_number`."""
    if "%" in text and metavar == "HZ" and (tempo := meant_number(text, float, "X")):
        # edge-tts has its tempo here
        return f"give the sample rate in Hz; for the tempo, write --speed {tempo}"
    meant = meant_number(text, kind, metavar)
    return f"give {_KINDS[kind]}{f': {meant}' if meant else ''}"


def meant_number(text: str, kind: type, metavar: str) -> str:
    """The number that somebody meant by a value with a unit or a comma; empty where none is seen.

    Args:
        kind: int or float.
        metavar: of the option, such as S, MS or HZ.
    """
    word = text.strip().lower().replace("−", "-")
    if (clock := _CLOCK.fullmatch(word)) and metavar in ("S", "SECONDS"):
        hours, minutes, seconds = (
            float((part or "0").replace(",", ".")) for part in clock.groups()
        )
        return _typed_number(hours * 3600 + minutes * 60 + seconds, kind)
    match = _NUMBER.fullmatch(word)
    if match is None or match[3] not in _UNITS:
        return ""
    sign, digits, unit = match.groups()
    if kind is int and re.fullmatch(r"\d{1,3}([.,_' ]\d{3})+", digits) and not unit:
        number = float(re.sub(r"\D", "", digits))
    elif re.fullmatch(r"\d+([.,]\d+)?", digits):
        number = float(digits.replace(",", "."))
    else:
        return ""
    number *= _UNITS[unit] * (1000 if metavar == "MS" and unit else 1)
    number = -number if sign == "-" else number
    if sign and unit == "%":  # as a change
        number += 1
    return _typed_number(number, kind)


def _typed_number(number: float, kind: type) -> str:
    if number.is_integer():
        return str(int(number))
    return "" if kind is int else f"{number:g}"


def straight_quotes(words: Sequence[str]) -> str:
    """A hint for quotation marks that no shell knows; empty where there are none.

    Between marks that a shell knows, others may stand.
    """
    bare = " ".join(word if len(word.split()) == 1 else "" for word in words)
    found = re.search(rf"(?:^|[\s=]){_MARKED.pattern}", bare)
    if not found:
        return ""
    return f"{found[1]} and {found[3]} are no quotes to a shell: write {quoted(found[2])}"


def quoted(text: str) -> str:
    """A text as a shell takes it for one word."""
    return shlex.quote(text) if re.search(r'[\\"$`!]', text) else f'"{text}"'


def unmarked(text: str) -> str:
    """A text without the quotation marks around it."""
    return match[2] if (match := _MARKED.fullmatch(text)) else text
