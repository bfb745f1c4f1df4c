"""What was spoken and when, as the text of a subtitle file: SRT, WebVTT or ASS."""

from __future__ import annotations

import html
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from voxcli.errors import UsageError
from voxcli.extras import require

JSON = ".json"
SUFFIXES = (".srt", ".vtt", ".ass", JSON)


@dataclass(frozen=True)
class Line:
    """Words, when they sound and who says them. A newline parts lines of the screen."""

    start_s: float
    end_s: float
    text: str
    speaker: str = ""


def check_suffix(path: Path) -> None:
    """Refuse a suffix that none of these files has, and `.ass` where the extra `dub` is missing.

    Raises:
        UsageError: with those that are.
        MissingPackageError: what writes ASS.
    """
    if path.suffix.lower() not in SUFFIXES:
        raise UsageError(f"--subtitles is '{path}'", hint=f"end it in {', '.join(SUFFIXES)}")
    if path.suffix.lower() == ".ass":
        require("'--subtitles' of ASS", "pysubs2")


def as_subtitles(lines: Iterable[Line], path: Path) -> str:
    """The text of a subtitle file in the format of `path`, in the order of time."""
    found = sorted(lines, key=lambda line: line.start_s)
    match path.suffix.lower():
        case ".srt":
            return _as_srt(found)
        case ".vtt":
            return _as_vtt(found)
    return _as_ass(found)


def _as_srt(lines: Sequence[Line]) -> str:
    return "\n".join(
        f"{number}\n{_times(line, ',')}\n{line.text.strip()}\n"
        for number, line in enumerate(lines, start=1)
    )


def _as_vtt(lines: Sequence[Line]) -> str:
    cues = [
        f"{_times(line, '.')}\n"
        f"{_voice_tag(line.speaker)}{html.escape(line.text.strip(), quote=False)}\n"
        for line in lines
    ]
    return "\n".join(("WEBVTT\n", *cues))


def _voice_tag(speaker: str) -> str:
    name = " ".join(speaker.split())
    return f"<v {html.escape(name, quote=False)}>" if name else ""


def _times(line: Line, point: str) -> str:
    return f"{_clock(line.start_s, point)} --> {_clock(line.end_s, point)}"


def _clock(seconds: float, point: str) -> str:
    rest, ms = divmod(round(seconds * 1000), 1000)
    return f"{rest // 3600:02d}:{rest // 60 % 60:02d}:{rest % 60:02d}{point}{ms:03d}"


def _as_ass(lines: Sequence[Line]) -> str:
    import pysubs2

    file = pysubs2.SSAFile()
    file.events = [
        pysubs2.SSAEvent(
            start=round(line.start_s * 1000), end=round(line.end_s * 1000),
            text=_escaped(line.text), name=line.speaker.replace(",", " "),
        )
        for line in lines
    ]  # fmt: skip
    return file.to_string("ass")


def _escaped(text: str) -> str:
    r"""ASS takes `{…}` for tags and `\N` for a line break."""
    return text.strip().replace("{", "(").replace("}", ")").replace("\n", "\\N")
