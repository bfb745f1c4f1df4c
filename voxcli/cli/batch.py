"""`voxcli batch`: one file a row of a table, resumed where it stopped."""

from __future__ import annotations

import gc
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from voxcli.cli import output
from voxcli.cli.batch_options import (
    CastOptions,
    FileOptions,
    FitOptions,
    TableOptions,
    TimelineOptions,
    VerifyOptions,
)
from voxcli.cli.batch_shows import (
    clock,
    count_words,
    show_end,
    show_need,
    show_notes,
    show_plan,
    show_problems,
)
from voxcli.cli.book_options import BookOptions, of_book
from voxcli.cli.engine_options import EngineOptions, say_who, start
from voxcli.cli.options import ENGINE, OUTPUT, JsonOption, QuietOption, SpeechOptions, grouped
from voxcli.cli.parameter_options import ParameterOptions
from voxcli.cli.references import load_reference
from voxcli.cli.speech_report import warn_undescribed, warn_unseen
from voxcli.config import EngineConfig, UserSettings
from voxcli.engine.takeover import TakeOver, take_notes
from voxcli.errors import EXIT_ITEM_FAILED, UsageError

if TYPE_CHECKING:
    from voxcli.audio.fit import SpeedLimits
    from voxcli.batch.cast import Cast
    from voxcli.batch.chapters import BookChoice
    from voxcli.batch.jobs import Standing
    from voxcli.batch.rows import Defaults
    from voxcli.batch.session import Session
    from voxcli.batch.takes import Judge
    from voxcli.engine.base import SpeechEngine
    from voxcli.utterance import Utterance

EXAMPLES = (
    r"printf 'text,voice\nThe ferry leaves at noon.,emma\nBring a warm jacket.,hugo\n' > lines.csv "
    "&& voxcli batch lines.csv -o lines/",
    "voxcli batch lines.csv -o named/ --name '{index:04d}_{voice}' --format flac",
    "voxcli batch lines.csv -o lines/ --dry-run",
    r"printf '1\n00:00:01,000 --> 00:00:03,500\nThe ferry leaves at noon.\n' > cues.srt "
    "&& voxcli batch cues.srt -o dub/ --fit --mix dub.wav --lufs -16 --subtitles dub.srt",
    r"printf 'Ann: Who is there?\nBen: It is me.\n' > play.txt "
    "&& voxcli batch play.txt -o play/ --cast Ann=emma,Ben=george",
    r"printf '# One\n\nThe ferry leaves.\n\n# Two\n\nBring a jacket.\n' > book.md "
    "&& voxcli batch book.md -o book/ --mix book.m4b --loudness audiobook",
)

NUM_SLOTS = 64  # nobody waits for the first sound: the wider a step, the less a row of it costs
RUN = "Run"  # a panel of the help
STAGES = {"level": "level measured", "write": "written", "check": "checked"}  # of a mix
ANY_TEXT = "1"  # can be said in every language: what is checked is the voice


@grouped
def batch(
    input: Annotated[
        Path,
        typer.Argument(
            metavar="INPUT",
            help="The table: CSV, TSV, JSONL, SRT, VTT, ASS or TXT. Or a book: EPUB or MD.",
        ),
    ],
    tables: TableOptions,
    books: BookOptions,
    names: FileOptions,
    speech: SpeechOptions,
    parameters: ParameterOptions,
    voices: CastOptions,
    verify: VerifyOptions,
    fitting: FitOptions,
    timeline: TimelineOptions,
    engine: EngineOptions,
    out: Annotated[
        Path,
        typer.Option(
            "-o",
            "--output",
            metavar="FOLDER",
            help="Folder for the files.",
            rich_help_panel=OUTPUT,
        ),
    ],
    strict: Annotated[
        bool,
        typer.Option(
            "--strict/--keep-going",
            help="If rows must be corrected: speak no row, or speak the good rows.",
            rich_help_panel=RUN,
        ),
    ] = False,
    force: Annotated[
        bool,
        typer.Option(
            "--force", help="Speak all rows again, even those that are done.", rich_help_panel=RUN
        ),
    ] = False,
    dry_run: Annotated[
        bool,
        typer.Option(
            "--dry-run",
            help="Check everything, show what would be spoken, and stop.",
            rich_help_panel=RUN,
        ),
    ] = False,
    slots: Annotated[
        int | None,
        typer.Option(
            "--slots",
            "--max-slots",
            metavar="N",
            help="Segments to speak at the same time, 1 or more. For servers: rows of each.",
            show_default=f"{NUM_SLOTS}, or 8 a server and more if this is faster",
            rich_help_panel=ENGINE,
        ),
    ] = None,
    json: JsonOption = False,
    quiet: QuietOption = False,
) -> None:
    """Speak every row of a table, or every chapter of a book, into a separate file.

    Columns: text, output or id, voice, ref, ref_text, style, seed, speed, max_seconds, language,
    lexicon, start, end or duration, speaker, and the model's parameters. Other columns are kept for
    the report. Options apply to empty cells. voxcli reports every problem before it loads the
    model, and then speaks the good rows, or none with --strict. To go on after a stop, run the
    command again: rows that are done and unchanged are kept. --fit, --mix and --subtitles place the
    rows on a timeline by start and end, see docs/dubbing.md. For books, see docs/books.md. Ctrl-C
    finishes the rows in progress. A second Ctrl-C stops at once. The exit code is 1 if a row
    failed, must be corrected or was cut.
    """
    from voxcli.batch.cast import Cast
    from voxcli.batch.session import Choices
    from voxcli.engine.choose import planning_spec

    settings = engine.settings()
    if dry_run:  # nothing is spoken, so nobody else is asked
        settings = replace(settings, engine=planning_spec(settings.engine))
    names.check()
    if slots is not None and slots < 1:
        raise UsageError(f"--slots is {slots}", hint="give 1 or more")
    rows = _defaults(speech, parameters, voices, settings, out)
    has_rest = speech.voice is not None or voices.ref is not None
    cast = Cast.read(voices.cast or (), settings.cast, has_rest=has_rest)
    choices = Choices(names.overwrite, force, strict)
    book = books.choice(timeline.mix)
    planned = timeline.timeline(names)
    config = replace(engine.config(settings), max_slots=slots or NUM_SLOTS)
    with engine.open(settings, config, is_quiet=quiet, rows_a_server=slots) as speaker:
        session = replace(
            _prepare(
                input, out, tables, book, names, rows, settings, speaker, fitting.limits(), cast,
                is_quiet=quiet,
            ),
            choices=choices,
        )  # fmt: skip
        of_this = of_book(planned, session.table.book, timeline.gap)
        session = replace(session, timeline=of_this)
        show_notes((*session.table.notes, *cast.notes(job.row for job in session.jobs)))
        show_problems(session.problems)
        session.check()
        spoken = {session.casting.part_of(job.row).voice for job in session.jobs}
        warn_unseen(sorted(filter(None, spoken)), speaker.facts)
        if not all(job.row.style for job in session.jobs):
            warn_undescribed(rows.style, speaker.facts)
        num_rows = len(session.jobs)
        read = f"{num_rows} row{'s' if num_rows != 1 else ''}, read as {session.table.how}"
        output.note(f"{input}: {read}", is_quiet=quiet)
        judges = verify.judges(speech.retries, settings.threads)
        if dry_run:
            speaker.check_machine()
            show_plan(session, names, is_json=json, is_quiet=quiet)
            if session.problems:
                raise typer.Exit(EXIT_ITEM_FAILED)
            return
        if fitting.fit:
            from voxcli.batch.fitting import FitJudge

            judges = (*judges, FitJudge())  # after those that listen to the voice's own tempo
        load = partial(
            _start, session, engine, settings, config, is_quiet=quiet, rows_a_server=slots
        )
        report = _run(session, load, judges, names, is_quiet=quiet)
    show_end(report, is_json=json, is_quiet=quiet)
    if report["counts"]["failed"] or report["counts"]["invalid"] or report["limited"]:
        raise typer.Exit(EXIT_ITEM_FAILED)


def _prepare(
    input: Path,
    out: Path,
    tables: TableOptions,
    book: BookChoice,
    names: FileOptions,
    defaults: Defaults,
    settings: UserSettings,
    engine: SpeechEngine,
    limits: SpeedLimits | None,
    cast: Cast,
    *,
    is_quiet: bool,
) -> Session:
    """Read the table and find everything that is wrong with it."""
    from voxcli.batch.casting import Casting
    from voxcli.batch.columns import columns_of
    from voxcli.batch.folder import OutputFolder
    from voxcli.batch.names import Namer, Template
    from voxcli.batch.preflight import Rules, check_table
    from voxcli.batch.session import Session
    from voxcli.batch.tables import read_table

    table = read_table(
        input,
        encoding=tables.encoding,
        delimiter=tables.separator(),
        mapping=tables.mapping(),
        has_header=not tables.no_header,
        labels=tables.labels,
        cast=cast.names,
        book=book,
        parameters=columns_of(engine.facts).headers,
    )
    rules = Rules(defaults, engine, engine.model_checksum(), names.stored, limits, cast)
    casting = Casting(
        defaults,
        input.parent,
        named=engine.in_voice,
        imitate=lambda utterance, path, text: _imitate(utterance, path, text, settings),
        check=lambda utterance: engine.plan(replace(utterance, text=ANY_TEXT)),
    )
    columns = {name for record in table.records for name in record.values}
    template = Template(names.name, sorted(columns)) if names.name else None
    namer = Namer(
        out, template, format=names.format, bits=names.bits, rate=names.rate,
        is_numbering=names.on_duplicate == "number",
    )  # fmt: skip
    total = len(table.records)
    gc.freeze()  # what was imported stays, and need not be looked at while rows are made
    with output.Progress("check", total, unit="rows", is_quiet=is_quiet) as progress:
        jobs = check_table(table, rules, casting, namer, on_row=progress.advance)
    return Session(table, rules, casting, jobs, OutputFolder(out), names.storage)


def _defaults(
    speech: SpeechOptions,
    parameters: ParameterOptions,
    voices: CastOptions,
    settings: UserSettings,
    out: Path,
) -> Defaults:
    from voxcli.batch.rows import Defaults
    from voxcli.batch.session import choose_seed

    given = speech.utterance("", settings, parameters.given())
    if voices.ref is not None and speech.voice is not None:
        raise UsageError("--voice and --ref are both given", hint="keep one of them")
    return Defaults(
        seed=choose_seed(speech.seed, out),
        voice=None if voices.ref else given.voice,
        ref=str(voices.ref or ""),
        ref_text=voices.ref_text,
        style=given.style,
        speed=given.speed,
        pause_s=given.pause_s,
        language=given.language,
        sampling=given.sampling,
        is_normalised=given.is_normalised,
        lexicon=given.lexicon,
    )


def _imitate(utterance: Utterance, path: Path, text: str, settings: UserSettings) -> Utterance:
    """Let an utterance sound like a recording; with a transcript the model also continues it."""
    found = load_reference(path, text or None, None, settings, "base", utterance.language)
    return replace(utterance, reference=found.recording, prompt=found.recording if text else None)


def _start(
    session: Session,
    options: EngineOptions,
    settings: UserSettings,
    config: EngineConfig,
    *,
    is_quiet: bool,
    rows_a_server: int | None,
) -> SpeechEngine:
    """Who speaks the rows, ready for what they tell the model."""
    from voxcli.engine.choose import AUTO

    engine, wanted = session.rules.engine, session.parameters
    # whether the user's own server can be told that is known only now; those at URLs have to
    if engine.facts.is_elsewhere and settings.engine == AUTO:
        engine = options.open(
            settings, replace(config, graphs=tuple(wanted)),
            is_quiet=is_quiet, rows_a_server=rows_a_server,
        )  # fmt: skip
    say_who(engine, is_quiet=is_quiet)
    start(engine, wanted, is_quiet=is_quiet)
    return engine


def _run(
    session: Session,
    load: Callable[[], SpeechEngine],
    judges: Sequence[Judge],
    names: FileOptions,
    *,
    is_quiet: bool,
) -> dict[str, Any]:
    """Speak with progress; Ctrl-C ends it in two steps."""
    from voxcli.batch.interrupt import Interrupt
    from voxcli.batch.jobs import Status
    from voxcli.batch.takes import Outcome, Tally

    def on_level(done: int, total: int) -> None:
        progress.describe("level of files that are done")
        progress.update(done, total)

    def on_start(standings: Sequence[Standing]) -> None:
        counts: dict[str, int] = {status: 0 for status in Status}
        for standing in standings:
            counts[standing.status] += 1
        progress.describe("batch")
        output.note(count_words(counts), is_quiet=is_quiet)
        show_need(standings, session, names)
        progress.total = counts[Status.PENDING] + counts[Status.OK] + counts[Status.FAILED]

    def on_outcome(outcome: Outcome, tally: Tally) -> None:
        failed = f", {tally.num_failed} failed" if tally.num_failed else ""
        progress.describe(f"{clock(tally.audio_s)} audio, {tally.speed_x:.1f}x{failed}")
        progress.update(tally.num_done)

    line = output.LiveLine(is_quiet=is_quiet)

    def on_mix(stage: str, share: float) -> None:
        progress.stop()
        line.show(f"mix: {STAGES[stage]}, {min(share, 1):.0%}")

    if session.timeline is not None:
        session = replace(session, timeline=replace(session.timeline, tell=on_mix))
    try:
        with (
            output.Progress("batch", None, unit="rows", is_quiet=is_quiet) as progress,
            Interrupt(_say_stopping) as interrupt,
        ):
            report = session.run(
                load, take_notes(), judges=judges, on_level=on_level, on_start=on_start,
                on_outcome=on_outcome, is_stopping=lambda: interrupt.is_set,
                while_speaking=interrupt.rows_in_flight,
            )  # fmt: skip
    except TakeOver as end:
        output.warn(f"{end.fault.message}; a new process goes on with the other rows")
        raise
    finally:
        line.clear()
    if interrupt.is_set:
        where = session.folder.root / "report.json"
        output.note(f"report: {where}; the same command goes on", is_quiet=is_quiet)
        raise KeyboardInterrupt
    return report


def _say_stopping() -> None:
    output.note("voxcli: finishing the rows in progress; press Ctrl-C again to stop at once")
