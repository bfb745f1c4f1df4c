"""`voxcli batch`: one file a row of a table, resumed where it stopped."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from voxcli.cli import output
from voxcli.cli.options import (
    BitsOption,
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

if TYPE_CHECKING:
    from voxcli.audio.fit import SpeedLimits
    from voxcli.batch.resume import Standing
    from voxcli.batch.rows import Defaults, Problem
    from voxcli.batch.run import Judge
    from voxcli.batch.session import Session
    from voxcli.batch.timeline import Timeline
    from voxcli.hub import ModelFiles
    from voxcli.utterance import Utterance

EXAMPLES = (
    "voxcli batch samples/dubbing.csv -o lines/",
    "voxcli batch samples/dubbing.srt -o cues/ --name '{index:04d}_{speaker}' --format flac",
    "voxcli batch samples/dubbing.csv -o lines/ --dry-run",
    "voxcli batch samples/dubbing.srt -o dub/ --fit --mix dub.wav --lufs -16 --subs dub.srt",
)  # fmt: skip

SHOWN_PROBLEMS = 200


@dataclass(frozen=True)
class TableOptions:
    """How the table is read."""

    encoding: Annotated[
        str | None,
        typer.Option(
            "--encoding",
            metavar="NAME",
            help="Encoding of the table, such as cp1252.",
            show_default="found and reported",
        ),
    ] = None
    delimiter: Annotated[
        str | None,
        typer.Option(
            "--delimiter",
            metavar="CHAR",
            help="What separates cells: one character, or tab.",
            show_default="found and reported",
        ),
    ] = None
    map: Annotated[
        list[str] | None,
        typer.Option(
            "--map",
            metavar="FIELD=COLUMN",
            help="Which column is a field, such as text=Line; may be repeated.",
        ),
    ] = None

    def mapping(self) -> dict[str, str]:
        """Field to column.

        Raises:
            UsageError: not of the form.
        """
        pairs = [entry.partition("=") for entry in self.map or ()]
        for field, sign, column in pairs:
            if not (field and sign and column):
                raise UsageError(f"--map is '{field}{sign}{column}'", hint="write text=Line")
        return {field.strip(): column for field, _, column in pairs}


@dataclass(frozen=True)
class FileOptions:
    """What the files are called and how they are stored."""

    name: Annotated[
        str | None,
        typer.Option(
            "--name",
            metavar="TEMPLATE",
            help="Name of each file, such as '{index:04d}_{speaker}.wav'; any column, "
            "index, record, line and text.",
            show_default="the column output or id, else {index:04d}",
        ),
    ] = None
    format: Annotated[
        str,
        typer.Option("--format", metavar="NAME", help="Format of files whose name has no suffix."),
    ] = "wav"
    bits: BitsOption = None
    rate: Annotated[
        int | None,
        typer.Option(
            "--rate",
            metavar="HZ",
            help="Sample rate of the files in Hz.",
            show_default="that of the model",
        ),
    ] = None
    on_duplicate: Annotated[
        str,
        typer.Option(
            "--on-duplicate",
            metavar="refuse|number",
            help="What to do with a name that two rows have: refuse, or add -2, -3, ….",
        ),
    ] = "refuse"
    overwrite: Annotated[
        bool,
        typer.Option("--overwrite", help="Replace files that are not from this batch."),
    ] = False

    def check(self) -> None:
        """Refuse what no file could have.

        Raises:
            UsageError, OutputError: one of the values.
        """
        from voxcli.batch.names import check_format

        check_format(self.format, self.bits, self.rate)
        if self.on_duplicate not in ("refuse", "number"):
            raise UsageError(f"--on-duplicate is '{self.on_duplicate}'", hint="refuse or number")


@dataclass(frozen=True)
class ImitationOptions:
    """A voice to imitate, for rows that name none."""

    ref: Annotated[
        Path | None,
        typer.Option("--ref", metavar="FILE", help="Recording of a voice for rows without one."),
    ] = None
    ref_text: Annotated[
        str, typer.Option("--ref-text", metavar="TEXT", help="Transcript of that recording.")
    ] = ""
    style: Annotated[
        str, typer.Option("--style", metavar="TEXT", help="How it should sound, in words.")
    ] = ""


@dataclass(frozen=True)
class VerifyOptions:
    """Whether what was said is listened to."""

    verify: Annotated[
        str | None,
        typer.Option(
            "--verify",
            metavar="wer",
            help="Listen to each row with Whisper and speak it again where words are wrong.",
        ),
    ] = None
    verify_threshold: Annotated[
        float,
        typer.Option(
            "--verify-threshold", metavar="X", help="Share of wrong words that is fine, 0 to 1."
        ),
    ] = 0.25
    verify_model: Annotated[
        str,
        typer.Option(
            "--verify-model",
            metavar="FOLDER",
            help="A faster-whisper model: a folder, or a name that is in the local cache.",
        ),
    ] = "base"

    def judges(self, retries: int, threads: int) -> tuple[Judge, ...]:
        """What listens to the rows.

        Raises:
            UsageError, ModelNotFoundError: it cannot be done here.
        """
        if self.verify is None:
            return ()
        if self.verify != "wer":
            raise UsageError(f"--verify is '{self.verify}'", hint="use wer")
        if not 0.0 <= self.verify_threshold <= 1.0:
            raise UsageError(f"--verify-threshold is {self.verify_threshold:g}", hint="give 0 to 1")
        from voxcli.batch.verify import WordCheck, load_whisper

        return (
            WordCheck(load_whisper(self.verify_model, threads), self.verify_threshold, retries),
        )


@dataclass(frozen=True)
class FitOptions:
    """Speech fitted into the slots of a timeline."""

    fit: Annotated[
        bool,
        typer.Option("--fit", help="Trim each row that has start and end, and fit its tempo."),
    ] = False
    min_speed: Annotated[
        float,
        typer.Option(
            "--min-speed",
            metavar="X",
            help="Least tempo, 0.5 to 2; under 1, short speech is slowed to fill its slot.",
        ),
    ] = 1.0
    max_speed: Annotated[
        float,
        typer.Option(
            "--max-speed", metavar="X", help="Greatest tempo, 0.5 to 2; longer speech overflows."
        ),
    ] = 1.3

    def limits(self) -> SpeedLimits | None:
        """None without --fit.

        Raises:
            UsageError: a bound out of range, or given in vain.
        """
        from voxcli.audio.fit import SpeedLimits

        limits = SpeedLimits(self.min_speed, self.max_speed)
        if not self.fit and limits != SpeedLimits():
            raise UsageError("--min-speed and --max-speed are for --fit", hint="add --fit")
        return limits if self.fit else None


@dataclass(frozen=True)
class TimelineOptions:
    """The rows as one timeline."""

    mix: Annotated[
        Path | None,
        typer.Option("--mix", metavar="FILE", help="All rows at their start times in one file."),
    ] = None
    overlap: Annotated[
        str | None,
        typer.Option(
            "--overlap",
            metavar="POLICY",
            help="Cues that would sound at once: mix them, shift the later one, cut what outgrew "
            "its slot, or fail.",
            show_default="cut with --fit, else mix",
        ),
    ] = None
    lufs: Annotated[
        float | None,
        typer.Option(
            "--lufs",
            metavar="X",
            help="Loudness of the mix, -40 to -5; -16 for podcasts, -23 for broadcast.",
            show_default="as it comes",
        ),
    ] = None
    bed: Annotated[
        Path | None,
        typer.Option("--bed", metavar="FILE", help="Sound under the speech; audio or video."),
    ] = None
    bed_db: Annotated[
        float, typer.Option("--bed-db", metavar="DB", help="Gain of the bed, -60 to 20.")
    ] = 0.0
    duck_db: Annotated[
        float,
        typer.Option("--duck-db", metavar="DB", help="How much lower under speech, 0 to 60."),
    ] = 12.0
    duck_attack_ms: Annotated[
        float,
        typer.Option("--duck-attack-ms", metavar="MS", help="Its way down before speech."),
    ] = 150.0
    duck_release_ms: Annotated[
        float, typer.Option("--duck-release-ms", metavar="MS", help="Its way up after speech.")
    ] = 500.0
    stems: Annotated[
        Path | None,
        typer.Option("--stems", metavar="FOLDER", help="One file a speaker, as long as the mix."),
    ] = None
    subs: Annotated[
        Path | None,
        typer.Option("--subs", metavar="FILE", help="Subtitles of what was spoken: srt, vtt, ass."),
    ] = None

    def timeline(self, names: FileOptions, *, is_fitting: bool) -> Timeline | None:
        """None where nothing of it is asked.

        Raises:
            UsageError: a value that cannot be, or one given in vain.
        """
        from voxcli.audio.ducking import Ducking
        from voxcli.audio.placing import Policy
        from voxcli.batch.timeline import Timeline

        ducking = Ducking(
            self.bed_db, self.duck_db, self.duck_attack_ms / 1000, self.duck_release_ms / 1000
        )
        known = ", ".join(Policy)
        if self.overlap is not None and self.overlap not in list(Policy):
            raise UsageError(f"--overlap is '{self.overlap}'", hint=f"use one of {known}")
        if self.mix is None and self.lufs is not None:
            raise UsageError("--lufs is for --mix", hint="add --mix FILE")
        if self.mix is None and self.stems is None and self.bed is not None:
            raise UsageError("--bed is for --mix", hint="add --mix FILE")
        if self.bed is None and ducking != Ducking():
            raise UsageError("--bed-db and --duck-... are for --bed", hint="add --bed FILE")
        if self.mix is None and self.stems is None and self.subs is None:
            if self.overlap is not None:
                raise UsageError("--overlap is for a timeline", hint="add --mix, --stems or --subs")
            return None
        default = Policy.CUT if is_fitting else Policy.MIX
        return Timeline(
            Policy(self.overlap) if self.overlap else default,
            mix=self.mix, stems=self.stems, subs=self.subs, bed=self.bed, ducking=ducking,
            lufs=self.lufs, bits=names.bits, rate=names.rate, overwrite=names.overwrite,
        )  # fmt: skip


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
    ] = EngineConfig.max_slots,
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
        timeline=timeline.timeline(names, is_fitting=fitting.fit),
    )
    _show_problems(session.problems)
    session.check()
    output.note(f"{input}: {len(session.jobs)} rows, read as {session.table.how}", is_quiet=quiet)
    if dry_run:
        _show_plan(session, names, files, is_json=json)
        return
    judges = verify.judges(speech.retries, settings.threads)
    if fitting.fit:
        from voxcli.batch.fitting import FitJudge

        judges = (*judges, FitJudge())  # after those that listen to the voice's own tempo
    config = replace(engine.config(settings), max_slots=slots, solver=_solver(session))
    report = _run(session, engine, settings, files, config, judges, names, is_quiet=quiet)
    _finish(session, report, is_json=json, is_quiet=quiet)


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
    from voxcli.batch.names import Namer, Template
    from voxcli.batch.preflight import Rules, check_table
    from voxcli.batch.run import Storage
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
        check=lambda utterance: make_plan(utterance, model),
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
        style=imitation.style,
        speed=given.speed,
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


def _show_problems(problems: Sequence[Problem]) -> None:
    for problem in problems[:SHOWN_PROBLEMS]:
        output.warn(str(problem))
    if len(problems) > SHOWN_PROBLEMS:
        output.warn(f"and {len(problems) - SHOWN_PROBLEMS} more; --json lists all of them")


def _show_plan(session: Session, names: FileOptions, files: ModelFiles, *, is_json: bool) -> None:
    from dataclasses import asdict

    from voxcli.batch.forecast import describe, forecast
    from voxcli.batch.manifest import Manifest

    folder = session.folder.root
    standings = session.take_stock(Manifest(folder))
    rate = names.rate or (files.known.sample_rate if files.known else None)
    total = forecast(standings, folder, model=files.name, rate=rate, bits=names.bits)
    rows = describe(standings, session.casting, session.rules.model)
    if is_json:
        shown = {**asdict(total), "read_as": session.table.how, "seed": session.rules.defaults.seed}
        output.result_json({**shown, "rows": list(rows)})
        return
    for row in rows:
        reason = f" ({row['reason']})" if row["reason"] else ""
        output.result(f"{row['number']}: {row['output'] or '-'}: {row['status']}{reason}")
        for segment in row.get("segments", ()):
            output.result(f"    {segment}")
    wall = f"about {_clock(total.wall_s)}" if total.wall_s else "time known after a first run"
    output.result(
        f"{total.num_rows} rows to do: about {_clock(total.audio_s)} of audio, {wall}, "
        f"{total.num_bytes / 1e6:.1f} MB of {total.free_bytes / 1e6:.0f} MB free"
    )


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
    from voxcli.batch.run import Outcome, Tally

    def on_start(standings: Sequence[Standing]) -> None:
        counts = {status: 0 for status in Status}
        for standing in standings:
            counts[standing.status] += 1
        parts = [f"{count} {_WORDS[status]}" for status, count in counts.items() if count]
        output.note(", ".join(parts), is_quiet=is_quiet)
        progress.total = counts[Status.PENDING]

    def on_outcome(outcome: Outcome, tally: Tally) -> None:
        failed = f", {tally.num_failed} failed" if tally.num_failed else ""
        progress.describe(f"{_clock(tally.audio_s)} audio, {tally.speed_x:.1f}x{failed}")
        progress.update(tally.num_done)

    def load() -> Any:
        synthesizer = engine.load(settings, files, config, is_quiet=is_quiet)
        if synthesizer.setup.warning and not is_quiet:
            output.warn(synthesizer.setup.warning)
        return synthesizer

    with (
        output.Progress("batch", None, unit="rows", is_quiet=is_quiet) as progress,
        Interrupt(_say_stopping) as interrupt,
    ):
        report = session.run(
            load, judges=judges, on_start=on_start, on_outcome=on_outcome,
            is_stopping=lambda: interrupt.is_set,
        )  # fmt: skip
    if interrupt.is_set:
        output.note(f"report: {session.folder.root / 'report.json'}", is_quiet=is_quiet)
        raise KeyboardInterrupt
    return report


_WORDS = {
    "ok": "done", "kept": "done before", "failed": "failed", "skipped": "skipped",
    "invalid": "to be corrected", "pending": "to do",
}  # fmt: skip


def _say_stopping() -> None:
    output.note("voxcli: finishing the rows in flight; Ctrl-C again stops at once")


def _finish(session: Session, report: dict[str, Any], *, is_json: bool, is_quiet: bool) -> None:
    from voxcli.batch.report import failure_table

    failures = failure_table(report["rows"])
    if len(failures) > 1:
        output.warn("these rows have no file:\n" + output.table(failures))
    for row in report["rows"]:
        if row["status"] == "skipped" and row["output"]:
            output.warn(f"row {row['number']}: {row['output']}: {row['reason']}")
    _show_timeline(report)
    counts = report["counts"]
    words = ", ".join(f"{count} {_WORDS[status]}" for status, count in counts.items() if count)
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
        output.result(session.folder.root)
    if counts["failed"] or counts["invalid"]:
        raise typer.Exit(EXIT_ITEM_FAILED)


def _show_timeline(report: dict[str, Any]) -> None:
    """What does not lie on the timeline as it was asked."""
    overflowing = [row for row in report["rows"] if row.get("overflow_s", 0) > 0]
    for row in overflowing[:SHOWN_PROBLEMS]:
        lost = f", {row['cut_s']:.2f} s of it cut" if row.get("cut_s") else ""
        output.warn(
            f"row {row['number']} overflows its slot by {row['overflow_s']:.2f} s at "
            f"{row['speed']:g}x{lost}"
        )
    made = report.get("timeline")
    if made is None:
        return
    for what in ("overlapping", "shifted", "cut"):
        if made[what]:
            output.warn(f"timeline: {made[what]} rows {what}; see report.csv")
    if made.get("limited_db"):
        output.warn(f"timeline: the limiter took away up to {made['limited_db']:.1f} dB")


def _clock(seconds: float) -> str:
    """ "4.2 s", "3 min 20 s" or "2 h 5 min"."""
    if seconds < 60:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes} min {rest} s" if minutes < 60 else f"{minutes // 60} h {minutes % 60} min"
