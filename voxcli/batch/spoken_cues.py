"""When each row of a timeline is said: cues of a subtitle file, or JSON with segments and words.

A cue has the row's text as it was written. A row is one cue where a reader can take it in as one,
else it is cut: at its segments, whose times in the file were counted, where they are spoken as they
are written, and else by estimated shares. Words are measured in the row's file where they can be.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from voxcli.alignment import RATE, can_align, with_words
from voxcli.audio.clips import ClipReader
from voxcli.audio.placing import Placement
from voxcli.batch.subtitles import JSON, Line, as_subtitles
from voxcli.text.pauses import has_mark
from voxcli.times import Timed, in_cues, kinds_of, lasting, segment_json
from voxcli.utterance import FinishReason


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
    text, said = " ".join(row["text"].split()), " ".join(each.text for each in segments)
    if has_mark(text):  # of pauses and SSML, which nobody is to read
        text = said
    cues = in_cues(Timed(text, segments[0].start_s, segments[-1].end_s), language)
    if len(cues) > 1 and said == text:
        cues = [cue for each in segments for cue in in_cues(each, language)]
    yield from cues
