"""`voxcli batch`: one file a row of a table, resumed where it stopped."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from voxcli.cli import output
from voxcli.cli.batch_options import (
    FileOptions,
    FitOptions,
    ImitationOptions,
    TableOptions,
    TimelineOptions,
    VerifyOptions,
)
from voxcli.cli.batch_shows import clock, count_words, show_end, show_need, show_plan, show_problems
from voxcli.cli.options import (
    HotEngineOptions,
    JsonOption,
    QuietOption,
    SpeechOptions,
    find_model,
    grouped,
    resolve_voice,
)
from voxcli.cli.references import load_reference
from voxcli.config import EngineConfig, UserSettings
from voxcli.errors import EXIT_ITEM_FAILED, UsageError
from voxcli.engine.takeover import TakeOver, take_notes

if TYPE_CHECKING:
    from voxcli.audio.fit import SpeedLimits
    from voxcli.batch.resume import Standing
    from voxcli.batch.rows import Defaults
    from voxcli.batch.session import Session
    from voxcli.batch.takes import Judge
    from voxcli.hub import ModelFiles
    from voxcli.utterance import Utterance

EXAMPLES = (
    "voxcli batch samples/dubbing.csv -o lines/",
    "voxcli batch samples/dubbing.srt -o cues/ --name '{index:04d}_{speaker}' --format flac",
    "voxcli batch samples/dubbing.csv -o lines/ --dry-run",
    "voxcli batch samples/dubbing.srt -o dub/ --fit --mix dub.wav --lufs -16 --subs dub.srt",
)  # fmt: skip

NUM_SLOTS = 64  # nobody waits for the first sound: the wider a step, the less a row of it costs
ANY_TEXT = "1"  # can be said in every language: what is checked is the voice


@grouped
def batch(
    input: Annotated[
        Path,
        typer.Argument(metavar="INPUT", help="The table: CSV, TSV, JSONL, SRT, VTT or TXT."),
    ],
    tables: TableOptions,
    names: FileOptions,
    speech: SpeechOptions,
    imitation: ImitationOptions,
    verify: VerifyOptions,
    fitting: FitOptions,
    timeline: TimelineOptions,
    engine: HotEngineOptions,
    out: Annotated[
        Path, typer.Option("-o", "--output", metavar="FOLDER", help="Where the files go.")
    ],
    keep_going: Annotated[
        bool, typer.Option("--keep-going", help="Speak the good rows of a table with bad ones.")
    ] = False,
    force: Annotated[
        bool, typer.Option("--force", help="Speak again what is done already.")
    ] = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Show what would be spoken, and stop.")
    ] = False,
    slots: Annotated[
        int,
        typer.Option(
            "--slots", "--max-slots", metavar="N", help="Segments spoken at once, 1 or more."
        ),
    ] = NUM_SLOTS,
    json: JsonOption = False,
    quiet: QuietOption = False,
) -> None:
    """Speak every row of a table into a file of its own.

    Columns: text, output or id, voice, ref, ref_text, style, seed, speed, language, start, end or
    duration, speaker; others are kept for the report. What a row leaves empty the options give.
    Every problem of the table is reported before the model loads. Run it again to go on where it
    stopped: rows that are done and unchanged are kept. --fit, --mix and --subs make a timeline of
    the rows by start and end, see docs/dubbing.md. Ctrl-C finishes the rows in flight; twice
    stops at once. Ends with 1 when a row failed.
    """
    from voxcli.batch.session import Choices

    settings = engine.settings()
    names.check()
    if slots < 1:
        raise UsageError(f"--slots is {slots}", hint="give 1 or more")
    files = find_model(settings)
    choices = Choices(names.overwrite, force, keep_going)
    session = replace(
        _prepare(
            input, out, tables, names, speech, imitation, settings, files, choices, fitting.limits()
        ),
        timeline=timeline.timeline(names),
    )
    show_problems(session.problems)
    session.check()
    output.note(f"{input}: {len(session.jobs)} rows, read as {session.table.how}", is_quiet=quiet)
    if dry_run:
        show_plan(session, names, files, is_json=json)
        return
    judges = verify.judges(speech.retries, settings.threads)
    if fitting.fit:
        from voxcli.batch.fitting import FitJudge

        judges = (*judges, FitJudge())  # after those that listen to the voice's own tempo
    config = replace(engine.config(settings), max_slots=slots, solver=_solver(session))
    report = _run(session, engine, settings, files, config, judges, names, is_quiet=quiet)
    show_end(report, is_json=json, is_quiet=quiet)
    if report["counts"]["failed"] or report["counts"]["invalid"]:
        raise typer.Exit(EXIT_ITEM_FAILED)


def _prepare(
    input: Path,
    out: Path,
    tables: TableOptions,
    names: FileOptions,
    speech: SpeechOptions,
    imitation: ImitationOptions,
    settings: UserSettings,
    files: ModelFiles,
    choices: Any,
    limits: SpeedLimits | None,
) -> Session:
    """Read the table and find everything that is wrong with it."""
    from voxcli.batch.casting import Casting
    from voxcli.batch.folder import OutputFolder
    from voxcli.batch.keep import Storage
    from voxcli.batch.names import Namer, Template
    from voxcli.batch.preflight import Rules, check_table
    from voxcli.batch.session import Session
    from voxcli.batch.tables import read_table
    from voxcli.hub import model_checksum
    from voxcli.plan import make_plan, voice_model

    model = voice_model(files)
    delimiter = "\t" if tables.delimiter == "tab" else tables.delimiter
    table = read_table(
        input, encoding=tables.encoding, delimiter=delimiter, mapping=tables.mapping()
    )
    rules = Rules(
        defaults=_defaults(speech, imitation, settings, out),
        model=model,
        checksum=model_checksum(files),
        storage={"bits": names.bits, "rate": names.rate},
        fit=limits,
    )
    casting = Casting(
        rules.defaults,
        input.parent,
        named=lambda utterance: resolve_voice(utterance, files),
        imitate=lambda utterance, path, text: _imitate(utterance, path, text, settings),
        check=lambda utterance: make_plan(replace(utterance, text=ANY_TEXT), model),
    )
    columns = {name for record in table.records for name in record.values}
    template = Template(names.name, sorted(columns)) if names.name else None
    namer = Namer(
        out, template, format=names.format, bits=names.bits, rate=names.rate,
        is_numbering=names.on_duplicate == "number",
    )  # fmt: skip
    jobs = check_table(table, rules, casting, namer)
    storage = Storage(names.bits, names.rate)
    return Session(table, rules, casting, jobs, OutputFolder(out), storage, choices)


def _defaults(
    speech: SpeechOptions, imitation: ImitationOptions, settings: UserSettings, out: Path
) -> Defaults:
    from voxcli.batch.rows import Defaults
    from voxcli.batch.session import choose_seed

    given = speech.utterance("", settings)
    if imitation.ref is not None and speech.voice is not None:
        raise UsageError("--voice and --ref are both given", hint="keep one of them")
    return Defaults(
        seed=choose_seed(speech.seed, out),
        voice=None if imitation.ref else given.voice,
        ref=str(imitation.ref or ""),
        ref_text=imitation.ref_text,
        style=given.style,
        speed=given.speed,
        pause_s=given.pause_s,
        language=given.language,
        sampling=given.sampling,
        is_normalised=given.is_normalised,
    )


def _imitate(utterance: Utterance, path: Path, text: str, settings: UserSettings) -> Utterance:
    """Let an utterance sound like a recording; with a transcript the model also continues it."""
    found = load_reference(path, text or None, None, settings, "base", utterance.language)
    return replace(utterance, reference=found.recording, prompt=found.recording if text else None)


def _solver(session: Session) -> tuple[tuple[int, bool], ...]:
    """(steps, is_guided) that the rows need, for which graphs are captured."""
    from voxcli.batch.report import effective_values

    values = [
        effective_values(job, session.rules, session.casting)
        for job in session.jobs
        if job.name and not job.problems
    ]
    return tuple(sorted({(row["steps"], row["cfg"] != 1.0) for row in values}))


def _run(
    session: Session,
    engine: HotEngineOptions,
    settings: UserSettings,
    files: ModelFiles,
    config: EngineConfig,
    judges: Sequence[Judge],
    names: FileOptions,
    *,
    is_quiet: bool,
) -> dict[str, Any]:
    """Speak with progress; Ctrl-C ends it in two steps."""
    from voxcli.batch.interrupt import Interrupt
    from voxcli.batch.resume import Status
    from voxcli.batch.takes import Outcome, Tally

    def on_start(standings: Sequence[Standing]) -> None:
        counts: dict[str, int] = {status: 0 for status in Status}
        for standing in standings:
            counts[standing.status] += 1
        output.note(count_words(counts), is_quiet=is_quiet)
        show_need(standings, session, names, files)
        progress.total = counts[Status.PENDING] + counts[Status.OK] + counts[Status.FAILED]

    def on_outcome(outcome: Outcome, tally: Tally) -> None:
        failed = f", {tally.num_failed} failed" if tally.num_failed else ""
        progress.describe(f"{clock(tally.audio_s)} audio, {tally.speed_x:.1f}x{failed}")
        progress.update(tally.num_done)

    def load() -> Any:
        synthesizer = engine.load(settings, files, config, is_quiet=is_quiet)
        if synthesizer.setup.warning and not is_quiet:
            output.warn(synthesizer.setup.warning)
        return synthesizer

    try:
        with (
            output.Progress("batch", None, unit="rows", is_quiet=is_quiet) as progress,
            Interrupt(_say_stopping) as interrupt,
        ):
            report = session.run(
                load, take_notes(), judges=judges, on_start=on_start, on_outcome=on_outcome,
                is_stopping=lambda: interrupt.is_set,
                while_speaking=interrupt.rows_in_flight,
            )  # fmt: skip
    except TakeOver as end:
        output.warn(f"{end.fault.message}; a fresh process goes on with the rows that are left")
        raise
    if interrupt.is_set:
        output.note(f"report: {session.folder.root / 'report.json'}", is_quiet=is_quiet)
        raise KeyboardInterrupt
    return report


def _say_stopping() -> None:
    output.note("voxcli: finishing the rows in flight; Ctrl-C again stops at once")
