"""`--subtitles`: a file of when each part of a speech sounds, beside its audio."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from voxcli.errors import UsageError

if TYPE_CHECKING:
    from voxcli.times import Span

SUFFIXES = (".srt", ".vtt", ".json")

SubtitlesOption = Annotated[
    Path | None,
    typer.Option(
        "--subtitles",
        metavar="FILE",
        help="Also write subtitles: srt, vtt, or json with the time of each word.",
        show_default="none",
    ),
]


def check_subtitles(path: Path, *, overwrite: bool) -> None:
    """Refuse before any work a file that could not be written after it.

    Raises:
        UsageError: another suffix.
        OutputExistsError, OutputError: it is there, or cannot be made.
    """
    from voxcli.bench.report import check_file

    if path.suffix.lower() not in SUFFIXES:
        raise UsageError(f"--subtitles is '{path}'", hint=f"end it in {', '.join(SUFFIXES)}")
    check_file(path, overwrite=overwrite)


def write_subtitles(
    path: Path, segments: Sequence[Span], language: str, *, overwrite: bool
) -> None:
    """Write a whole file or none.

    Raises:
        OutputExistsError, OutputError: as `check_subtitles`.
    """
    import json

    from voxcli.batch.subtitles import Line, as_subtitles
    from voxcli.bench.report import write_text
    from voxcli.times import as_json, cues

    if path.suffix.lower() == ".json":
        text = json.dumps(as_json(segments, language), ensure_ascii=False, indent=1) + "\n"
    else:
        lines = [Line(cue.start_s, cue.end_s, cue.text) for cue in cues(segments, language)]
        text = as_subtitles(lines, path)
    write_text(path, text, overwrite=overwrite)
