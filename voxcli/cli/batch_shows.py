"""What `voxcli batch` tells people: problems, the plan of a dry run, and how a run ended."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from voxcli.cli import output

if TYPE_CHECKING:
    from voxcli.batch.forecast import Forecast
    from voxcli.batch.jobs import Standing
    from voxcli.batch.rows import Problem
    from voxcli.batch.session import Session
    from voxcli.cli.batch_options import FileOptions

SHOWN_PROBLEMS = 200
SHOWN_NOTE = 4000  # characters
SHOWN_ROWS = 20  # of each kind
LEAST_SHOWN_DB = 0.1
_WORDS = {
    "ok": "done", "kept": "done before", "failed": "failed", "skipped": "skipped",
    "invalid": "to be corrected", "pending": "to do",
}  # fmt: skip


# Fact of a row -> what it means where it is above zero.
_MISPLACED = {
    "overflow_s": "overflows its slot by {seconds} at {speed:g}x (takes: {takes})",
    "overlap_s": "sounds over an earlier one for {seconds}; --overlap shift would wait for it",
    "shift_s": "starts {seconds} late, after the one before",
    "cut_s": "loses its last {seconds}, where the next one starts",
}


def _place(row: Mapping[str, Any]) -> str:
    """Where a row of the report is: subtitles have numbers of their own, which it may not have."""
    return f"row {row['number']} (line {row['line']})"


def count_words(counts: Mapping[str, int]) -> str:
    """Rows by status, such as "3 done, 1 failed"."""
    return ", ".join(f"{count} {_WORDS[status]}" for status, count in counts.items() if count)


def show_notes(notes: Sequence[str]) -> None:
    """What of the table is not spoken."""
    for note in notes:
        more = "… and more; --dry-run --json has all of it"
        output.warn(note if len(note) <= SHOWN_NOTE else f"{note[:SHOWN_NOTE]}{more}")


def show_problems(problems: Sequence[Problem]) -> None:
    """What must be corrected in the table."""
    found: dict[tuple[str, str], list[Problem]] = {}
    for problem in problems:
        found.setdefault((problem.column, problem.message), []).append(problem)
    for first, *others in list(found.values())[:SHOWN_PROBLEMS]:
        plural = "s" * (len(others) > 1)
        more = f" ({len(others)} more row{plural}, to {others[-1].number})" if others else ""
        output.warn(f"{first}{more}")
    if len(found) > SHOWN_PROBLEMS:
        output.warn(f"and {len(found) - SHOWN_PROBLEMS} more; --json lists all of them")


def _forecast(standings: Sequence[Standing], session: Session, names: FileOptions) -> Forecast:
    from voxcli.batch.forecast import forecast

    facts = session.rules.engine.facts
    return forecast(
        standings, session.folder.root,
        model=facts.model, rate=names.rate or facts.sample_rate, bits=names.bits,
        timeline=session.timeline,
    )  # fmt: skip


def show_need(standings: Sequence[Standing], session: Session, names: FileOptions) -> None:
    """A warning for each disk that will not hold the files that are to come."""
    for disk in _forecast(standings, session, names).disks:
        if disk.num_bytes > disk.free_bytes:
            output.warn(
                f"the files need about {output.size(disk.num_bytes)}, but "
                f"{output.size(disk.free_bytes)} are free at {disk.folder}; "
                "the run ends when the disk is full"
            )


def show_plan(session: Session, names: FileOptions, *, is_json: bool, is_quiet: bool) -> None:
    """What a run would do."""
    from dataclasses import asdict

    from voxcli.batch.forecast import describe, plans, status_of
    from voxcli.batch.manifest import Manifest
    from voxcli.engine.base import OWN_VOICE

    standings = session.take_stock(Manifest(session.folder.root))
    total = _forecast(standings, session, names)
    casting, engine = session.casting, session.rules.engine
    if is_json:
        shown = {
            **asdict(total),
            "read_as": session.table.how,
            "notes": session.table.notes,
            "seed": session.rules.defaults.seed,
        }
        found = []
        with output.Progress("plan", len(standings), unit="rows", is_quiet=is_quiet) as progress:
            for row in describe(standings, casting, engine):
                progress.advance()
                found.append(row)
        output.result_json({**shown, "rows": found})
        return
    if session.table.book is not None:
        output.result(output.table(_chapters(standings)))
        standings_shown: Sequence[Standing] = ()
    else:
        standings_shown = standings
    for standing, plan in plans(standings_shown, casting, engine):
        job = standing.job
        reason = f" ({standing.reason})" if standing.reason else ""
        part = casting.part_of(job.row)
        voice = part.voice or part.ref or OWN_VOICE
        who = f"; {job.row.speaker} in {voice}" if job.row.speaker and job.name else ""
        first = f"{job.row.number}: {job.name or '-'}: {status_of(standing)}{reason}{who}"
        segments = [segment.text for segment in plan.text.segments] if plan else []
        output.result("\n    ".join((first, *segments)), is_last=False)
    wall = f"about {clock(total.wall_s)}" if total.wall_s else "time known after a first run"
    disks = " and ".join(
        f"{output.size(disk.num_bytes)} of {output.size(disk.free_bytes)} free at {disk.folder}"
        for disk in total.disks
    )
    rows = f"{total.num_rows} row{'' if total.num_rows == 1 else 's'} to do"
    output.result(f"{rows}: about {clock(total.audio_s)} of audio, {wall}, {disks}")


def _chapters(standings: Sequence[Standing]) -> list[list[str]]:
    """The chapters of a book, with a header."""
    from voxcli.batch.forecast import status_of

    rows = [["chapter", "title", "words", "about", "file"]]
    for standing in standings:
        job = standing.job
        status = f"{status_of(standing)}{f': {standing.reason}' if standing.reason else ''}"
        has_file = bool(job.name) and not job.problems
        rows.append([
            str(job.row.number), job.row.extra.get("title", ""), str(_num_words(job.row.text)),
            clock(job.estimated_audio_s) if has_file else "-",
            job.name if status == "to do" else f"{job.name} ({status})".strip(),
        ])  # fmt: skip
    return rows


def _num_words(text: str) -> int:
    """Those of Markdown's marks that stand alone are none."""
    return sum(any(map(str.isalnum, word)) for word in text.split())


def show_end(report: dict[str, Any], *, is_json: bool, is_quiet: bool) -> None:
    """How the rows ended; the result is the folder and the files of the timeline, or the report."""
    from voxcli.batch.report import failure_table

    failures = failure_table(report["rows"])
    if len(failures) > 1:
        output.warn("these rows have no file:\n" + output.table(failures))
    skipped = [row for row in report["rows"] if row["status"] == "skipped" and row["output"]]
    for row in skipped[:SHOWN_PROBLEMS]:
        output.warn(f"{_place(row)}: {row['output']}: {row['reason']}")
    if len(skipped) > SHOWN_PROBLEMS:
        output.warn(f"and {len(skipped) - SHOWN_PROBLEMS} more; see report.csv")
    _show_doubts(report["rows"])
    _show_timeline(report)
    show_servers(report.get("servers") or {})
    words = count_words(report["counts"])
    _show_limited(report["rows"])
    if report["overflowing"]:
        words += f", {report['overflowing']} of them longer than their slots"
    speed = (
        f"; {report['audio_s']:.1f} s of audio in {report['wall_s']:.1f} s "
        f"({report['speed_x']:.1f}x real time)"
        if report["audio_s"]
        else ""
    )
    output.note(f"{words}{speed}, seed {report['seed']}", is_quiet=is_quiet)
    if is_json:
        output.result_json(report)
    else:
        output.result(report["output"])
        made = report.get("timeline") or {}
        paths = (made.get("mix"), *made.get("stems", ()), made.get("subtitles"))
        for path in filter(None, paths):
            output.result(path)


def show_servers(servers: Mapping[str, Mapping[str, Any]]) -> None:
    """Those that did not do all they were asked for."""
    for url, did in servers.items():
        if why := did.get("retired"):
            output.warn(f"{url} got no more rows: {why}")
        elif count := did["times_down"]:
            times = f" {count} times" * (count > 1)
            output.warn(f"{url} went down{times}; voxcli spoke its unfinished rows again")


def _show_doubts(rows: Sequence[Mapping[str, Any]]) -> None:
    """What the check of the audio let pass in the rows of this run."""
    doubtful = [row for row in rows if row["status"] == "ok" and row.get("warnings")]
    for row in doubtful[:SHOWN_ROWS]:
        output.warn(f"{_place(row)}: {'; '.join(row['warnings'])}")
    if len(doubtful) > SHOWN_ROWS:
        output.warn(f"and {len(doubtful) - SHOWN_ROWS} more; see warnings in report.csv")


def _show_limited(rows: Sequence[Mapping[str, Any]]) -> None:
    """Rows whose speech was longer than they may be."""
    cut = [
        row for row in rows if row.get("finish_reason") == "length" and row["status"] != "failed"
    ]
    for row in cut[:SHOWN_ROWS]:
        output.warn(f"{_place(row)}: cut at {row['max_seconds']:g} s, its max_seconds")
    if len(cut) > SHOWN_ROWS:
        output.warn(f"and {len(cut) - SHOWN_ROWS} more; see finish_reason in report.csv")


def _show_timeline(report: dict[str, Any]) -> None:
    """What does not lie on the timeline as it was asked."""
    for fact, words in _MISPLACED.items():
        rows = [row for row in report["rows"] if row.get(fact, 0) > 0]
        for row in rows[:SHOWN_ROWS]:
            seconds = f"{row[fact]:.2f} s"
            output.warn(f"{_place(row)}: {words.format(seconds=seconds, **row)}")
        if len(rows) > SHOWN_ROWS:
            output.warn(f"and {len(rows) - SHOWN_ROWS} more; see {fact} in report.csv")
    lacking = [row for row in report["rows"] if row.get("shortfalls")]
    for row in lacking[:SHOWN_ROWS]:
        output.warn(f"{row['output']}: {'; '.join(row['shortfalls'])}; see docs/books.md")
    if len(lacking) > SHOWN_ROWS:
        output.warn(f"and {len(lacking) - SHOWN_ROWS} more; see shortfalls in report.csv")
    made = report.get("timeline") or {}
    for shortfall in made.get("shortfalls", ()):
        output.warn(f"{made['mix']}: {shortfall}; see docs/books.md")
    if made.get("limited_db", 0.0) >= LEAST_SHOWN_DB:
        output.warn(f"timeline: the limiter reduced peaks by up to {made['limited_db']:.1f} dB")


def clock(seconds: float) -> str:
    """ "4.2 s", "3 min 20 s" or "2 h 5 min"."""
    if seconds < 60:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes} min {rest} s" if minutes < 60 else f"{minutes // 60} h {minutes % 60} min"
