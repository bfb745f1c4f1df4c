"""When each row of a timeline is said: cues of a subtitle file, or JSON with segments and words.

A cue has the row's text as it was written. A row is one cue where a reader can take it in as one,
else it is cut: at its segments, whose times in the file were counted, where they are spoken as they
are written, and else by estimated shares.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from voxcli.audio.placing import Placement
from voxcli.batch.subtitles import JSON, Line, as_subtitles
from voxcli.text.pauses import has_mark
from voxcli.times import KINDS, Timed, in_cues, lasting, segment_json


def subtitles_of(
    rows: Sequence[Mapping[str, Any]], placements: Sequence[Placement], path: Path
) -> str:
    """The text of a file in the format of `path`.

    Args:
        rows: of the report, those that have a file.
        placements: where each sounds.
    """
    placed = list(zip(rows, placements, strict=True))
    if path.suffix.lower() == JSON:
        return json.dumps(_as_json(placed), ensure_ascii=False, indent=1) + "\n"
    spoken = [(cue, row["speaker"]) for row, place in placed for cue in _cues(row, place)]
    spoken.sort(key=lambda pair: pair[0].start_s)
    shown = lasting(cue for cue, _ in spoken)
    return as_subtitles(
        (
            Line(cue.start_s, cue.end_s, cue.text, speaker)
            for cue, (_, speaker) in zip(shown, spoken, strict=True)
        ),
        path,
    )


def _as_json(placed: Iterable[tuple[Mapping[str, Any], Placement]]) -> dict[str, Any]:
    found = [
        (segment, row)
        for row, place in placed
        for segment in _segments(row, place)
    ]  # fmt: skip
    found.sort(key=lambda pair: pair[0].start_s)
    segments = []
    for index, (segment, row) in enumerate(found):
        language = row["spoken_language"]
        about = {name: row[name] for name in ("number", "output", "speaker")}
        segments.append({**segment_json(index, segment, language), "language": language, **about})
    return {**KINDS, "segments": segments}


def _segments(row: Mapping[str, Any], place: Placement) -> list[Timed]:
    """A row's segments on the timeline, without what is cut away; of a row whose segments nobody
    noted, the whole."""
    noted = [
        Timed(each["text"], place.start_s + each["start_s"], place.start_s + each["end_s"])
        for each in row.get("segments", ())
        if each["end_s"] > each["start_s"]
    ]
    noted = noted or [Timed(row["text"], place.start_s, place.end_s)]
    return [
        replace(each, end_s=min(each.end_s, place.end_s))
        for each in noted
        if each.start_s < place.end_s
    ]


def _cues(row: Mapping[str, Any], place: Placement) -> Iterator[Timed]:
    segments, language = _segments(row, place), row["spoken_language"]
    if not segments:
        return
    text, said = " ".join(row["text"].split()), " ".join(each.text for each in segments)
    if has_mark(text):  # of pauses and SSML, which nobody is to read
        text = said
    cues = in_cues(Timed(text, segments[0].start_s, segments[-1].end_s), language)
    if len(cues) > 1 and said == text:
        cues = [cue for each in segments for cue in in_cues(each, language)]
    yield from cues
