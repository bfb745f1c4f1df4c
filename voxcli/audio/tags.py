"""What a file says beside its sound: title, author, cover and chapter marks.

Only files of MPEG-4 (m4a, m4b) hold all of it. Knows nothing about books. Letters: `S` samples.
"""

from __future__ import annotations

import re
import subprocess
from dataclasses import dataclass
from typing import NamedTuple

MAX_PIXELS = 100_000_000  # of a cover; shops ask for 6
MAX_COVER_S = 20
IMAGES = "JPEG, PNG, GIF or WebP"  # for people
_IMAGES = (
    (re.compile(rb"\xff\xd8\xff"), "jpeg_pipe"),
    (re.compile(rb"\x89PNG\r\n\x1a\n"), "png_pipe"),
    (re.compile(rb"GIF8[79]a"), "gif_pipe"),
    (re.compile(rb"RIFF....WEBP", re.DOTALL), "webp_pipe"),
)


class Mark(NamedTuple):
    """A chapter: the samples from `start` to before `stop`."""

    title: str
    start: int
    stop: int


@dataclass(frozen=True)
class Tags:
    """What a file says beside its sound; empty values are not written.

    Attributes:
        cover: an image of a kind that `image_format` names.
        marks: in order, none over another.
    """

    title: str = ""
    artist: str = ""
    cover: bytes | None = None
    marks: tuple[Mark, ...] = ()


def image_format(data: bytes) -> str:
    """ffmpeg's name of an image by its first bytes; empty for one that cannot be a cover."""
    for begin, name in _IMAGES:
        if begin.match(data):
            return name
    return ""


def is_converted(image: bytes) -> bool:
    """Whether no file of sound holds such an image as it is."""
    return image_format(image) not in ("jpeg_pipe", "png_pipe")


def cover_problem(cover: bytes) -> str:
    """Why ffmpeg cannot put an image into a file; empty where it can. It is decoded for that."""
    command = ["ffmpeg", "-loglevel", "error", "-xerror", "-max_pixels", str(MAX_PIXELS)]
    command += ["-f", image_format(cover), "-i", "pipe:0", "-frames:v", "1", "-f", "null", "-"]
    try:
        run = subprocess.run(command, input=cover, capture_output=True, timeout=MAX_COVER_S)
    except subprocess.TimeoutExpired:
        return f"it is not decoded in {MAX_COVER_S} s"
    if not run.returncode:
        return ""
    from voxcli.audio.ffmpeg import last_line  # imports numpy

    return last_line(run.stderr, "ffmpeg cannot decode it")


def as_ffmetadata(tags: Tags, rate: int) -> str:
    """The tags but for the cover, in ffmpeg's own form.

    Args:
        rate: of the samples that marks count, in Hz.
    """
    named = (("title", tags.title), ("album", tags.title), ("artist", tags.artist))
    lines = [";FFMETADATA1"]
    lines += [f"{name}={_escaped(value)}" for name, value in named if value]
    if tags.marks:
        lines.append("genre=Audiobook")
    for mark in tags.marks:
        lines += [
            "[CHAPTER]", f"TIMEBASE=1/{rate}", f"START={mark.start}", f"END={mark.stop}",
            f"title={_escaped(mark.title)}",
        ]  # fmt: skip
    return "\n".join(lines) + "\n"


def _escaped(value: str) -> str:
    value = " ".join(value.split()).replace("\0", "")
    return "".join(f"\\{char}" if char in "=;#\\" else char for char in value)
