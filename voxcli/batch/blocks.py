"""A cue as it stands in a file of subtitles, whatever its format, before it is known what of it is
said."""

from __future__ import annotations

from dataclasses import dataclass, field

OUTSIDE = "lines outside of any cue"  # a kind of words that are left out
TIMES = r"(?:(\d+):)?(\d{1,2}):(\d{1,2}(?:[.,]\d{1,3})?)"  # three groups, see `seconds`


@dataclass
class Block:
    """See the module; without a line it is what comes before the first cue.

    Attributes:
        line: of its times.
        times: start and end in seconds; None where they cannot be read.
        header: what stands where its times should be.
        speaker: whom the format names, beside the words.
        said_in: line of the cue that has its words, where it shows them again.
    """

    line: int
    times: tuple[float, float] | None = None
    header: str = ""
    lines: list[str] = field(default_factory=list)
    speaker: str = ""
    said_in: int | None = None


def seconds(hours: str | None, minutes: str, rest: str) -> float:
    """Of the three groups of `TIMES`."""
    return 3600.0 * float(hours or 0) + 60.0 * float(minutes) + float(rest.replace(",", "."))
