"""What was spoken and when, as a subtitle file: SRT, VTT or whatever pysubs2 knows by suffix."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from voxcli.errors import UsageError
from voxcli.extras import require

SUFFIXES = (".srt", ".vtt", ".ass")


@dataclass(frozen=True)
class Line:
    """Words, and when they sound."""

    start_s: float
    end_s: float
    text: str


def check_suffix(path: Path) -> None:
    """Refuse a suffix that is no subtitle format, and any where the extra `dub` is not installed.

    Raises:
        UsageError: with those that are.
        MissingPackageError: what writes them.
    """
    if path.suffix.lower() not in SUFFIXES:
        raise UsageError(f"--subs is '{path}'", hint=f"end it in {', '.join(SUFFIXES)}")
    require("'--subs'", "pysubs2")


def as_subtitles(lines: Iterable[Line], path: Path) -> str:
    """The text of a subtitle file in the format of `path`, in the order of time."""
    import pysubs2

    events = [
        pysubs2.SSAEvent(
            start=round(line.start_s * 1000), end=round(line.end_s * 1000), text=_escaped(line.text)
        )
        for line in sorted(lines, key=lambda line: line.start_s)
    ]
    file = pysubs2.SSAFile()
    file.events = events
    return file.to_string(path.suffix.lower()[1:])


def _escaped(text: str) -> str:
    r"""pysubs2 takes `{…}` for tags and `\N` for a line break."""
    return text.strip().replace("{", "(").replace("}", ")").replace("\n", "\\N")
