"""When each row of a timeline is said: cues of a subtitle file, or JSON with segments and words.

A cue has the row's text as it was written, without marks. A row is one cue where a reader can take
it in as one, else it is cut at its segments, whose times in the file were counted: where one ends
in the text is known by the words around it, which are spoken as they are written, or else it is not
cut there. Words are measured in the row's file where they can be.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from difflib import SequenceMatcher
from itertools import accumulate, chain, pairwise
from pathlib import Path
from typing import Any

from voxcli.alignment import RATE, can_align, with_words
from voxcli.audio.clips import ClipReader
from voxcli.audio.placing import Placement
from voxcli.batch.subtitles import JSON, Line, as_subtitles
from voxcli.text.changes import Draft
from voxcli.text.markup import strip_markup
from voxcli.text.patterns import pattern_of
from voxcli.text.pauses import has_mark
from voxcli.text.segmenter import UNSPACED_SCRIPTS
from voxcli.times import Timed, in_cues, kinds_of, lasting, segment_json
from voxcli.utterance import FinishReason

_WORD = pattern_of(f"[{UNSPACED_SCRIPTS}]|[^\\W{UNSPACED_SCRIPTS}]+")
# Where to cut what lies between two words: quotes that open stay with the second.
_SEAM = pattern_of(r"\s+(?=\S*$)|(?=[\"'“‘«(\[¿¡「『（《【]*$)")


@dataclass(frozen=True)
class Placed:
    """A row of the report that has a file.

    Attributes:
        segments: on the timeline, without what is cut away.
    """

    row: Mapping[str, Any]
    segments: Sequence[Timed]


def subtitles_of(
    rows: Sequence[Mapping[str, Any]], placements: Sequence[Placement], folder: Path, path: Path
) -> str:
    """The text of a file in the format of `path`.

    Args:
        rows: of the report, those that have a file.
        placements: where each sounds.
        folder: of the files.

    Raises:
        RecordingError: a row's file cannot be read.
    """
    placed = [
        Placed(row, _segments(row, place, folder / row["output"]))
        for row, place in zip(rows, placements, strict=True)
    ]
    if path.suffix.lower() == JSON:
        return json.dumps(_as_json(placed), ensure_ascii=False, indent=1) + "\n"
    spoken = [(cue, each.row["speaker"]) for each in placed for cue in _cues(each)]
    spoken.sort(key=lambda pair: pair[0].start_s)
    shown = lasting(cue for cue, _ in spoken)
    return as_subtitles(
        (
            Line(cue.start_s, cue.end_s, cue.text, speaker)
            for cue, (_, speaker) in zip(shown, spoken, strict=True)
        ),
        path,
    )


def _as_json(placed: Iterable[Placed]) -> dict[str, Any]:
    found = [(segment, each.row) for each in placed for segment in each.segments]
    found.sort(key=lambda pair: pair[0].start_s)
    segments = []
    for index, (segment, row) in enumerate(found):
        language = row["spoken_language"]
        about = {name: row[name] for name in ("number", "output", "speaker")}
        segments.append({**segment_json(index, segment, language), "language": language, **about})
    return {**kinds_of(segments), "segments": segments}


def _segments(row: Mapping[str, Any], place: Placement, path: Path) -> list[Timed]:
    """A row's segments on the timeline, without what is cut away; of a row whose segments nobody
    noted, the whole.

    Args:
        path: the row's file.
    """
    noted = [
        Timed(each["text"], each["start_s"], each["end_s"])
        for each in row.get("segments", ())
        if each["end_s"] > each["start_s"]
    ]
    is_whole = row.get("finish_reason") == FinishReason.STOP
    if noted and is_whole and can_align(row["spoken_language"]):
        noted = _with_words(noted, path)
    noted = noted or [Timed(row["text"], 0.0, place.audio_s)]
    return [
        each.until(place.audio_s).later(place.start_s)
        for each in noted
        if each.start_s < place.audio_s
    ]


def _with_words(segments: Sequence[Timed], path: Path) -> list[Timed]:
    """Segments, in order, with the words that are found in their file."""
    found, done = [], 0
    with ClipReader(path, RATE) as file:
        for each in segments:
            first, last = round(each.start_s * RATE), round(each.end_s * RATE)
            file.read(first - done)
            found.append(with_words(each, file.read(last - first)))
            done = last
    return found


def _cues(placed: Placed) -> Iterator[Timed]:
    row, segments, language = placed.row, placed.segments, placed.row["spoken_language"]
    if not segments:
        return
    text = _shown(row["text"], language)
    if has_mark(text):  # of pauses and SSML, which nobody is to read
        text = " ".join(each.text for each in segments)
    cues = in_cues(Timed(text, segments[0].start_s, segments[-1].end_s), language)
    if len(cues) > 1 or "\n\n" in row["text"]:  # a heading stands alone
        cues = [cue for each in as_written(text, segments) for cue in in_cues(each, language)]
    yield from cues


def _shown(text: str, language: str) -> str:
    draft = Draft(text)
    strip_markup(draft, language, is_shown=True)
    return " ".join(draft.text.split())


def as_written(text: str, segments: Sequence[Timed]) -> list[Timed]:
    """Segments with the words of `text` that they say; those between which it is not known where
    to cut it are one.

    Of two segments that meet, the word before or the one behind has to be written as it is spoken.
    """
    words = list(_WORD.finditer(text))
    said = [_WORD.findall(each.text.casefold()) for each in segments]
    matcher = SequenceMatcher(
        None, [word[0].casefold() for word in words], list(chain.from_iterable(said))
    )
    written = {
        block.b + index: block.a + index
        for block in matcher.get_matching_blocks()
        for index in range(block.size)
    }
    found: list[Timed] = []
    begun_at, first = 0, segments[0]
    for count, (last, after) in zip(accumulate(map(len, said)), pairwise(segments), strict=False):
        behind = written.get(count, written.get(count - 1, -2) + 1)  # the word behind the seam
        if not 0 < behind < len(words):
            continue
        seam = _SEAM.search(text, words[behind - 1].end(), words[behind].start())
        assert seam, "the end of what lies between two words is a seam"
        if part := text[begun_at : seam.end()].strip():
            found.append(_saying(part, first, last))
            begun_at, first = seam.end(), after
    return [*found, _saying(text[begun_at:].strip(), first, segments[-1])]


def _saying(text: str, first: Timed, last: Timed) -> Timed:
    """Segments from one to another with what they say as it was written."""
    if first is last:
        return replace(first, text=text)
    return Timed(text, first.start_s, last.end_s)
