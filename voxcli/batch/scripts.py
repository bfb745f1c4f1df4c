"""Scripts to records: lines of text with the name of who says them before a colon.

A line without a name goes on with the speaker of the line before it; an empty line ends that. Every
word of a file is in one record, or in a note that names it as left out.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Sequence
from itertools import pairwise

from voxcli.batch.captions import AUTO, LeftOut, Names, Tagless, label_names, spoken
from voxcli.batch.records import Record

SHOWN_LINES = 3  # of the file, for words that are left out more often
# A name in bold or italics, its colon inside or after, perhaps in a list
_MARKED_UP = re.compile(r"^\s*(?:[-*+]\s+)?(\*{1,3}|_{1,3})([^*_:：]{1,40})(?:[:：]\1|\1\s?[:：])")
_TIME = r"\d{1,2}:\d\d(?::\d\d)?(?:[.,]\d{1,3})?"  # when it was said


def read_script(
    text: str, *, labels: str = AUTO, cast: Collection[str] = ()
) -> tuple[list[Record], tuple[str, ...]] | None:
    """A record for each line, or part of one, with `text` and `speaker`, and what is not spoken;
    None where the text names no speakers.

    Args:
        labels, cast: as in `cues.read_cues`.
    """
    lines = [_MARKED_UP.sub(r"\2:", line).strip() for line in text.split("\n")]
    asked = Names.asked(labels)
    found = asked or label_names([line] for line in lines if line)
    names = found.with_cast(cast)
    is_script = bool(names.only) if asked else bool(found.is_labelled or cast)
    if not is_script:
        return None
    given = names.only or names.cast
    return _read(list(_with_colons(lines, given) if given else enumerate(lines, start=1)), names)


def _with_colons(lines: Sequence[str], given: Collection[str]) -> Iterator[tuple[int, str]]:
    """Each line, or part of one, with its number; names that a user gives get a colon where they
    stand in brackets or alone, and a time before one gets brackets.

    Args:
        given: folded.
    """
    longest_first = sorted(given, key=len, reverse=True)
    name = "|".join(r"\s+".join(map(re.escape, each.split())) for each in longest_first)
    alone = re.compile(rf"(?:{name})(?:\s*\([^()]*\))?", re.IGNORECASE)
    tag = re.compile(
        rf"(?:(?<=\s)|^)(?:\[({name})\]|<({name})>)(?:\s*[:：]|(?=\s|$))", re.IGNORECASE
    )
    timed = re.compile(rf"^({_TIME})[\s–—-]+(?=(?:{name})\s*[:：(])", re.IGNORECASE)
    for number, line in enumerate(lines, start=1):
        if alone.fullmatch(line):
            yield number, f"{line}:"
            continue
        begins = [match.start() for match in tag.finditer(line)]
        for begin, end in pairwise([0, *begins, len(line)]):
            part = tag.sub(lambda match: f"{match[1] or match[2]}:", line[begin:end]).strip()
            if part or not begins:
                yield number, timed.sub(r"[\1] ", part)


def _read(lines: Sequence[tuple[int, str]], names: Names) -> tuple[list[Record], tuple[str, ...]]:
    records: list[Record] = []
    left = LeftOut()
    speaker, has_spoken = "", False
    for number, line in lines:
        if not line:
            speaker, has_spoken = ("", False) if has_spoken else (speaker, False)
            continue
        for speech in spoken(line, names, Tagless(line, (speaker,) if speaker else ())):
            left.add(number, speech.left_out)
            is_new = speech.speaker != speaker
            has_spoken = bool(speech.words) or (has_spoken and not is_new)
            speaker = speech.speaker
            if is_new and not speech.words:  # a name alone; its words are on the lines below
                continue
            values = {"text": speech.words} | ({"speaker": speaker} if speaker else {})
            records.append(Record(len(records) + 1, number, values, skipped=speech.skipped))
    return records, tuple(left.notes(SHOWN_LINES))
