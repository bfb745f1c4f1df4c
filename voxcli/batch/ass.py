"""ASS and SSA: lines of `Dialogue:` to cues, with an actor or a style as their speaker.

What such a file shows twice at once, a word over its own shadow or one picture after the other, is
one cue. Knows nothing of labels and notes in the words.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence

from voxcli.batch.blocks import OUTSIDE, TIMES, Block, seconds
from voxcli.batch.captions import LeftOut
from voxcli.batch.records import shorten

_FIELDS = ("layer", "start", "end", "style", "name", "marginl", "marginr", "marginv", "effect",
           "text")  # fmt: skip
_SECTION = re.compile(r"\[([^\]]+)\]")
_ENTRY = re.compile(r"(dialogue|comment|format|picture|sound|movie|command)\s*:(.*)", re.I | re.S)
_TIME = re.compile(rf"\s*{TIMES}\s*")
_BRACES = re.compile(r"\{([^{}]*)\}")
_DRAWING = re.compile(r"\\p(\d+)(?![\w.])")
MAX_GAP_S = 0.05  # between two pictures of one caption
PICTURE_S = 0.25  # nothing is said in a shorter time


def ass_blocks(lines: Sequence[str], left: LeftOut) -> Iterator[Block]:
    """A block for each line of `Dialogue:`, in the order of the file."""
    found = list(_dialogues(lines, left))
    _show_once(found)
    return (block for _, block in found)


def _dialogues(lines: Sequence[str], left: LeftOut) -> Iterator[tuple[str, Block]]:
    """Actor and block of each."""
    section = ""
    fields: tuple[str, ...] = _FIELDS
    for number, line in enumerate(lines, start=1):
        if (found := _SECTION.fullmatch(line.strip())) is not None:
            section = found[1].strip().casefold()
            continue
        if section and section != "events":
            continue
        entry = _ENTRY.fullmatch(line.strip()) if section else None
        if entry is None:
            if line.strip() and not line.lstrip().startswith((";", "!:")):
                left.add(number, [(OUTSIDE, line)])
            continue
        kind, told = entry[1].casefold(), entry[2].strip()
        if kind == "format":
            fields = _fields(told)
        elif kind == "dialogue":
            values = _values(told, fields)
            yield values["name"].strip(), _dialogue(number, values, left)
        elif kind == "comment":
            left.add(number, [("comments", _values(told, fields)["text"])])


def _fields(told: str) -> tuple[str, ...]:
    names = [name.strip().casefold() for name in told.split(",")]
    named = tuple("name" if name == "actor" else name for name in names)
    return named if "text" in named else _FIELDS


def _values(told: str, fields: Sequence[str]) -> dict[str, str]:
    """By field; the last one may have commas."""
    cells = told.split(",", len(fields) - 1)
    if len(cells) < len(fields):
        cells = [*([""] * (len(fields) - len(cells))), *cells]
    return {
        "start": "",
        "end": "",
        "style": "",
        "name": "",
        **dict(zip(fields, cells, strict=True)),
    }


def _dialogue(number: int, values: Mapping[str, str], left: LeftOut) -> Block:
    text = _plain(values["text"], number, left)
    start, end = _TIME.fullmatch(values["start"]), _TIME.fullmatch(values["end"])
    times = (seconds(*start.groups()), seconds(*end.groups())) if start and end else None
    speaker = values["name"].strip() or values["style"].strip().lstrip("*")
    header = f"{values['start']},{values['end']}"
    return Block(number, times, header, text.split("\n"), speaker)


def _plain(text: str, number: int, left: LeftOut) -> str:
    """The words of a dialogue, without tags, comments and drawings."""
    words, is_drawing, taken = [], False, []
    parts = _BRACES.split(text)
    for index, part in enumerate(parts):
        if index % 2 == 0:
            if is_drawing:
                taken.append(("drawings", shorten(part.strip())))
            else:
                words.append(part)
        elif "\\" in part:
            for scale in _DRAWING.findall(part):
                is_drawing = scale != "0"
        else:
            taken.append(("comments", part))
    left.add(number, taken)
    return "".join(words).replace("\\N", "\n").replace("\\n", " ").replace("\\h", " ")


def _show_once(found: Sequence[tuple[str, Block]]) -> None:
    """Have blocks that show again what another one shows point at it."""
    last: dict[tuple[str, str], Block] = {}  # the latest of an actor with these words
    for actor, block in sorted(found, key=lambda pair: pair[1].times or (0.0, 0.0)):
        words = (actor, " ".join(" ".join(block.lines).split()))
        if block.times is None or not words[1]:
            continue
        before = last.get(words)
        if before is None or not _goes_on(before, block):
            last[words] = block
            continue
        start_s, end_s = before.times or block.times
        before.times = start_s, max(end_s, block.times[1])
        block.said_in = before.line


def _goes_on(before: Block, block: Block) -> bool:
    """Whether a cue is another layer or the next picture of the one before it."""
    assert before.times is not None
    assert block.times is not None
    (start_s, end_s), (next_s, last_s) = before.times, block.times
    is_picture = min(end_s - start_s, last_s - next_s) < PICTURE_S
    return next_s < end_s - MAX_GAP_S or (is_picture and next_s <= end_s + MAX_GAP_S)
