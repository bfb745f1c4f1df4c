"""Subtitles to records: what is spoken, when, and by whom.

SRT, WebVTT and ASS are read here and not by `pysubs2`, which drops what it does not expect: lines
after a line of spaces, cues after 99 hours, words between `<` and `>`, columns in another order.
Every word of a file is in one record, or in a note that names it as left out.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Sequence
from dataclasses import replace
from itertools import accumulate, groupby
from pathlib import Path
from typing import NamedTuple

from voxcli.batch.ass import ass_blocks
from voxcli.batch.blocks import OUTSIDE, TIMES, Block, seconds
from voxcli.batch.captions import (
    AUTO,
    LeftOut,
    Names,
    Speech,
    by_voice,
    label_names,
    spoken,
    without_tags,
)
from voxcli.batch.records import Record
from voxcli.batch.rolling import Cue, unrolled
from voxcli.errors import UsageError

MAX_NUMBER_DIGITS = 4000  # of a cue; Python makes no number of many more
_TIMES = re.compile(rf"\s*{TIMES}\s*-->\s*{TIMES}(?:\s+[A-Za-z]\w*:\S*)*\s*")
# of three numbers, or with a fraction; and an arrow of some kind
_MEANT_AS_TIMES = re.compile(r"\s*\d+\s*[:：]\s*\d+(?:\s*[:：]|[.,]\d).*(?:[-–—]\s*(?:>|&gt;)|→)")
_METADATA = re.compile(r"[\w-]+\s*[:=].*")
SHOWN_LINES = 3  # of the file, for words that are left out more often


class Subtitles(NamedTuple):
    """What a file of subtitles has.

    Attributes:
        notes: on what is not spoken.
        lost: those of them that a file without mistakes has not.
    """

    records: list[Record]
    notes: tuple[str, ...]
    lost: tuple[str, ...] = ()


def read_cues(
    text: str, path: Path, *, labels: str = AUTO, cast: Collection[str] = ()
) -> Subtitles:
    """A record for each cue, with `text`, `start`, `end` and, where one is named, `speaker`. A cue
    of several speakers is a record for each, which share its time.

    Args:
        labels: "auto", "none", or names of speakers with commas between them.
        cast: names of speakers who have a voice; what looks like a name is one then.

    Raises:
        UsageError: there is no cue in it.
    """
    left = LeftOut()
    reader = _READERS.get(path.suffix.lower(), _srt_blocks)
    blocks = [part for block in reader(text.split("\n"), left) for part in _by_voice(block)]
    if not blocks:
        raise UsageError(f"{path} is not a subtitle file: {_LACKS[reader]}", hint=_HINTS[reader])
    tagged = [without_tags("\n".join(block.lines)) for block in blocks]
    cues = [
        Cue(*(block.times or (0.0, 0.0)), [*filter(None, map(str.strip, each.text.split("\n")))])
        for block, each in zip(blocks, tagged, strict=True)
    ]
    found = unrolled(cues)
    names = Names.asked(labels) or label_names(cue.lines for cue in found.cues)
    names = names.with_cast(cast)
    speeches = []
    for block, cue, tagless in zip(blocks, found.cues, tagged, strict=True):
        if block.speaker and not tagless.voices:
            tagless = replace(tagless, voices=(block.speaker,))
        speeches.append(spoken("\n".join(cue.lines), names, tagless))
    _name_others(blocks, speeches, found.said_in)
    parts = []
    for block, each in zip(blocks, speeches, strict=True):
        left.add(block.line, each[0].left_out)
        parts += [(replace(block), speech) for speech in each]
    _share_time(parts)
    records = [_record(number, *part) for number, part in enumerate(parts, start=1)]
    notes = left.notes(SHOWN_LINES)
    if found.num_repeated:
        said = f"{found.num_repeated} repeated lines are spoken once, in the cue where they are new"
        notes.insert(0, f"rolling captions: {said}")
    return Subtitles(records, tuple(notes), tuple(left.notes(SHOWN_LINES, OUTSIDE)))


def _name_others(
    blocks: Sequence[Block], speeches: list[list[Speech]], rolled: Sequence[int | None]
) -> None:
    """Put a reason in the place of what another cue says, with the number of its row."""
    lines = {block.line: index for index, block in reversed(list(enumerate(blocks)))}
    said_in = {index: ("rolling captions", other) for index, other in enumerate(rolled)}
    said_in |= {
        index: ("shown again", lines[block.said_in])
        for index, block in enumerate(blocks)
        if block.said_in is not None
    }
    again = {index: (why, other) for index, (why, other) in said_in.items() if other is not None}
    for index in again:
        speeches[index] = [Speech(left_out=speeches[index][0].left_out)]
    first_rows = list(accumulate(map(len, speeches), initial=1))
    for index, (why, other) in again.items():
        speeches[index][0].skipped = f"{why}: its words are in row {first_rows[other]}"


def _by_voice(block: Block) -> list[Block]:
    """A block for each voice that it names, in their order."""
    parts = by_voice("\n".join(block.lines))
    return [replace(block, lines=part.split("\n")) for part in parts]


def _share_time(speeches: list[tuple[Block, Speech]]) -> None:
    """Give each speaker of a cue a part of its time, by the length of the words."""
    for _, group in groupby(speeches, key=lambda pair: pair[0].line):
        parts = [(block, len(speech.words)) for block, speech in group if speech.words]
        total, done = sum(length for _, length in parts), 0
        for block, length in parts:
            if block.times is None:
                break
            start_s, end_s = block.times
            each_s = (end_s - start_s) / total
            block.times = start_s + done * each_s, start_s + (done + length) * each_s
            done += length


def _record(number: int, block: Block, speech: Speech) -> Record:
    values = {"text": speech.words}
    problem = ""
    if block.times is None:
        problem = f"its times cannot be read: '{block.header.strip()}'"
    else:
        start_s, end_s = block.times
        values["start"] = f"{start_s:.3f}"
        if end_s > start_s:
            values["end"] = f"{end_s:.3f}"
        elif not speech.skipped:
            problem = f"it ends at {end_s:.3f} s, and starts at {start_s:.3f} s"
    if speech.speaker:
        values["speaker"] = speech.speaker
    return Record(number, block.line, values, problem, skipped=speech.skipped)


# ------------------------------------------------------------ the formats


def _begin(line: int, text: str) -> Block | None:
    """The cue that begins with a line, if it is one of times, or was meant as one."""
    match = _TIMES.fullmatch(text)
    if match is not None:
        start, end = match.groups()[:3], match.groups()[3:]
        return Block(line, (seconds(*start), seconds(*end)), text)
    return Block(line, None, text) if _MEANT_AS_TIMES.match(text) else None


def _srt_blocks(lines: list[str], left: LeftOut) -> Iterator[Block]:
    """A cue lasts to the number of the next; empty lines end none."""
    block, last_number = Block(0, lines=[""]), 0  # as if an empty line were before the file
    for number, line in enumerate(lines, start=1):
        new = _begin(number, line)
        if new is None:
            block.lines.append(line)
            continue
        last_number = _take_number(block.lines, last_number)
        yield from _ended(block, left)
        block = new
    written = "\n".join(block.lines).rstrip().split("\n")
    if len(written) > 1 and not written[-2].strip() and written[-1].strip() == str(last_number + 1):
        block.lines = written[:-1]
        left.add(block.line, [("numbers of cues without times", written[-1])])
    yield from _ended(block, left)


def _take_number(lines: list[str], last: int) -> int:
    """Take the next cue's number off the lines before its times; returns the number."""
    word = lines[-1].strip() if lines else ""
    if not word.isdecimal() or len(word) > MAX_NUMBER_DIGITS:
        return last + 1
    before = lines[-2].strip() if len(lines) > 1 else ""
    if before and int(word) != last + 1 and not _is_doubled(lines):
        return last + 1
    if _is_doubled(lines):
        lines.pop()
    lines.pop()
    return int(word)


def _is_doubled(lines: list[str]) -> bool:
    """Whether lines end with an empty one and a number twice."""
    empty, *numbers = [line.strip() for line in ("-", "-", *lines)[-3:]]
    return not empty and numbers[0] == numbers[1] and numbers[0].isdecimal()


def _ended(block: Block, left: LeftOut) -> Iterator[Block]:
    if block.line:
        yield block
        return
    for number, line in enumerate(block.lines):
        if line.strip() and line.strip() != "WEBVTT":
            left.add(number, [(OUTSIDE, line)])


def _vtt_blocks(lines: list[str], left: LeftOut) -> Iterator[Block]:
    """A cue ends at an empty line, not at one of spaces, or where the next one begins."""
    start = 0
    while start < len(lines):
        end = next((i for i in range(start, len(lines)) if not lines[i]), len(lines))
        yield from _vtt_block(start + 1, lines[start:end], left)
        start = end + 1


def _vtt_block(first: int, lines: list[str], left: LeftOut) -> Iterator[Block]:
    begun = [(i, new) for i, line in enumerate(lines) if (new := _begin(first + i, line))]
    if not begun or lines[0].split()[:1] == ["NOTE"]:
        _leave_out(first, lines, left)
        return
    at = begun[0][0]
    if at == 2 and _is_doubled(["", *lines[:at]]):
        first, at, lines, begun = first + 1, 1, lines[1:], [(i - 1, new) for i, new in begun]
    _leave_out(first, lines[: max(0, at - 1)], left)
    if at and not lines[at - 1].strip().isdecimal():
        left.add(first + at - 1, [("names of cues", lines[at - 1])])
    ends = [*(at for at, _ in begun[1:]), len(lines)]
    for (at, block), end in zip(begun, ends, strict=True):
        block.lines = lines[at + 1 : end]
        if end < len(lines) and block.lines and block.lines[-1].strip().isdecimal():
            block.lines.pop()  # the number of the next
        yield block


def _leave_out(first: int, lines: list[str], left: LeftOut) -> None:
    """A block without times, or what stands before a cue's name."""
    if not lines:
        return
    head = lines[0].split()[:1]
    if head in (["STYLE"], ["REGION"]):
        return
    kind = "comments" if head == ["NOTE"] else OUTSIDE
    if first == 1 and head == ["WEBVTT"]:
        lines = [lines[0].strip().removeprefix("WEBVTT").lstrip(" -"), *lines[1:]]
        lines = [line for line in lines if not _METADATA.fullmatch(line)]
        kind = "words of the header"
    for number, line in enumerate(lines, start=first):
        if line.strip():
            left.add(number, [(kind, line)])


_READERS = {".vtt": _vtt_blocks, ".ass": ass_blocks, ".ssa": ass_blocks}
_NO_TIMES = "write them as 00:00:01,000 --> 00:00:02,500"
_LACKS = {
    _srt_blocks: "it has no line of times",
    _vtt_blocks: "it has no line of times",
    ass_blocks: "it has no line 'Dialogue:' below '[Events]'",
}
_HINTS = {_srt_blocks: _NO_TIMES, _vtt_blocks: _NO_TIMES, ass_blocks: "check what is in it"}
