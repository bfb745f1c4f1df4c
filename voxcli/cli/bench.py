"""`voxcli bench`: measure and report; `voxcli bench compare`: two reports side by side."""

from __future__ import annotations

import math
import sys
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from voxcli.cli import new_app, output
from voxcli.cli.options import (
    EngineOptions,
    JsonOption,
    MaxSlotsOption,
    OverwriteOption,
    QuietOption,
    StepsOption,
    StyleOption,
    VoiceOption,
    find_model,
    grouped,
    resolve_voice,
)
from voxcli.cli.references import ReferenceOptions
from voxcli.config import EngineConfig, SamplingParams, UserSettings
from voxcli.errors import EXIT_ITEM_FAILED, UsageError
from voxcli.utterance import Utterance

if TYPE_CHECKING:
    from voxcli.bench.compare import Change
    from voxcli.bench.report import Report
    from voxcli.hub import ModelFiles

EXAMPLES = (
    "voxcli bench --prompts short --repeats 2",
    "voxcli bench --prompts short --concurrency 1,2 --repeats 1 --json new.json --html new.html",
    "voxcli bench --prompts short --json old.json && voxcli bench compare old.json old.json",
)
STDOUT = "-"
DEFAULT_PROMPTS = "short,medium,long"
DEFAULT_LANG = "en"


@dataclass(frozen=True)
class Outputs:
    """Where the report goes besides the terminal."""

    json: str | None
    html: Path | None
    csv: Path | None
    is_overwriting: bool

    @property
    def is_json_on_stdout(self) -> bool:
        return self.json == STDOUT

    @property
    def json_file(self) -> Path | None:
        return None if self.json in (None, STDOUT) else Path(str(self.json))

    @property
    def paths(self) -> list[Path]:
        return [path for path in (self.json_file, self.html, self.csv) if path is not None]


app = new_app(
    """Measure how fast this machine speaks: time to first audio, real-time factor, throughput.

    The table is on stdout. What each number means is in the JSON report and in docs/benchmarks.md.
    Ctrl-C writes what was measured so far. Ends with 1 when a measured run failed.
    """
)


@app.callback(invoke_without_command=True)
@grouped
def bench(
    ctx: typer.Context,
    engines: EngineOptions,
    reference: ReferenceOptions,
    prompts: Annotated[
        str | None,
        typer.Option(
            metavar="LIST",
            help="What to say: short, medium, long, everyday, or files with one text a line.",
            show_default=DEFAULT_PROMPTS,
        ),
    ] = None,
    lang: Annotated[
        str | None,
        typer.Option(
            metavar="LIST",
            help="Languages of the prompts, such as en,zh.",
            show_default=DEFAULT_LANG,
        ),
    ] = None,
    concurrency: Annotated[
        str | None,
        typer.Option(
            metavar="LIST",
            help="Streams in flight, 1 or more each; a new one starts when one ends.",
            show_default="1",
        ),
    ] = None,
    rate: Annotated[
        float | None,
        typer.Option(
            metavar="R", help="Start at R random arrivals a second instead of --concurrency."
        ),
    ] = None,
    max_slots: MaxSlotsOption = EngineConfig.max_slots,
    repeats: Annotated[
        int | None,
        typer.Option(
            metavar="N",
            help="Times each prompt is spoken, or each stream speaks, 1 or more.",
            show_default="3",
        ),
    ] = None,
    warmup: Annotated[
        int | None,
        typer.Option(
            metavar="N",
            help="Runs before each measurement that do not count, 0 or more.",
            show_default="1",
        ),
    ] = None,
    seed: Annotated[
        int | None,
        typer.Option(
            metavar="N", help="Seed of the first repeat; the next ones count up.", show_default="1"
        ),
    ] = None,
    stream: Annotated[
        bool,
        typer.Option(
            "--stream/--no-stream", help="Take audio as it is made, or whole checked segments."
        ),
    ] = True,
    steps: StepsOption = None,
    voice: VoiceOption = None,
    style: StyleOption = "",
    engine: Annotated[
        str | None,
        typer.Option(
            metavar="ENGINE",
            help="What runs the model; native is the only one.",
            show_default="native",
        ),
    ] = None,
    dummy_weights: Annotated[
        Path | None,
        typer.Option(
            metavar="CONFIG", help="Random weights of the size in this config.json; speed alone."
        ),
    ] = None,
    patches: Annotated[
        int | None,
        typer.Option(
            metavar="N", help="Length of speech from --dummy-weights.", show_default="125"
        ),
    ] = None,
    json: Annotated[
        str | None, typer.Option(metavar="FILE|-", help="Write the whole report as JSON.")
    ] = None,
    html: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Write a page with plots; opens offline.")
    ] = None,
    csv: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Write every run as a row.")
    ] = None,
    save_audio: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Keep the audio of the measured runs.")
    ] = None,
    overwrite: OverwriteOption = False,
    quiet: QuietOption = False,
) -> None:
    """Measure, unless a verb follows."""
    if ctx.invoked_subcommand is not None:
        return
    _check_choices(engine, rate, concurrency, patches, dummy_weights)
    _check_voice(voice, reference, dummy_weights)
    from voxcli.bench.cells import BenchOptions
    from voxcli.bench.launch import measure, prepare
    from voxcli.bench.live import LiveTable
    from voxcli.bench.report import check_file

    settings = engines.settings()
    typed: dict[str, Any] = {
        "rate": rate,
        "repeats": repeats,
        "warmup": warmup,
        "seed": seed,
        "concurrency": () if rate is not None else _numbers("--concurrency", concurrency),
    }
    options = BenchOptions(
        **{name: value for name, value in typed.items() if value is not None},
        steps=steps,
        is_streaming=stream,
        save_audio=save_audio,
        is_overwriting=overwrite,
    )
    outputs = Outputs(json, html, csv, overwrite)
    for path in outputs.paths:
        check_file(path, overwrite=overwrite)
    files = None if dummy_weights is not None else find_model(settings)
    manner = _manner(voice, style, steps, reference, settings, files)
    launch = prepare(
        prompts or DEFAULT_PROMPTS,
        _words(lang or DEFAULT_LANG),
        options,
        manner,
        replace(engines.config(settings), max_slots=max_slots),
        files,
        dummy=dummy_weights,
        num_patches=patches,
    )
    for note in launch.notes:
        output.warn(note)
    live = LiveTable(is_enabled=output.can_show_progress(is_quiet=quiet))
    warn = output.warn if not quiet else lambda message: None
    report = measure(launch, ["voxcli", *sys.argv[1:]], live, warn)
    for note in report["notes"][len(launch.notes) :]:
        output.warn(note)
    _finish(report, outputs, is_quiet=quiet)


def _check_choices(
    engine: str | None,
    rate: float | None,
    concurrency: str | None,
    patches: int | None,
    dummy_weights: Path | None,
) -> None:
    if engine not in (None, "native"):
        hint = "only native is there; recipes/load_server.py measures a running server"
        raise UsageError(f"--engine is '{engine}'", hint=hint)
    if rate is not None and concurrency is not None:
        raise UsageError("--rate and --concurrency exclude each other", hint="drop one")
    if patches is not None and dummy_weights is None:
        raise UsageError("--patches is for --dummy-weights alone", hint="drop it")


def _check_voice(voice: str | None, reference: ReferenceOptions, dummy: Path | None) -> None:
    reference.check()
    if voice is not None and reference.ref is not None:
        raise UsageError("--voice and --ref exclude each other", hint="drop one")
    if voice is not None and dummy is not None:
        raise UsageError("random weights know no saved voice", hint="use --ref")


def _manner(
    voice: str | None,
    style: str,
    steps: int | None,
    reference: ReferenceOptions,
    settings: UserSettings,
    files: ModelFiles | None,
) -> Utterance:
    """How every prompt is spoken: in whose voice, in which style, with how many steps."""
    heard = reference.load(settings)
    manner = Utterance("", sampling=SamplingParams(steps=steps), style=style)
    if heard is not None:
        recording = heard.recording
        prompt = recording if recording.text else None
        return replace(manner, voice=str(reference.ref), reference=recording, prompt=prompt)
    if files is None:
        return manner
    return resolve_voice(replace(manner, voice=settings.voice if voice is None else voice), files)


def _words(text: str) -> tuple[str, ...]:
    return tuple(dict.fromkeys(word.strip() for word in text.split(",") if word.strip()))


def _numbers(option: str, text: str | None) -> tuple[int, ...] | None:
    if text is None:
        return None
    try:
        return tuple(int(word) for word in _words(text))
    except ValueError as err:
        raise UsageError(f"{option} is '{text}'", hint="give numbers such as 1,4,16") from err


def _finish(report: Report, outputs: Outputs, *, is_quiet: bool) -> None:
    """Write the files, show the table, and end with the code the runs deserve."""
    from voxcli.bench import tables
    from voxcli.bench.html import report_as_html
    from voxcli.bench.report import report_as_json, runs_as_csv, write_text

    makers = {outputs.json_file: report_as_json, outputs.html: report_as_html}
    makers |= {outputs.csv: runs_as_csv}
    for path, make in makers.items():
        if path is not None:
            write_text(path, make(report), overwrite=outputs.is_overwriting)
            output.note(f"wrote {path}", is_quiet=is_quiet)
    for warning in tables.warnings(report):
        output.warn(warning)
    shown = output.table(tables.rows(report))
    for name, value in tables.facts(report):
        output.note(f"{name}: {value}", is_quiet=is_quiet)
    if outputs.is_json_on_stdout:
        output.note(shown, is_quiet=is_quiet)
        output.result_json(report)
    else:
        output.result("\n".join([*([report["stamp"]] if report["stamp"] else []), shown]))
    if report["is_partial"]:
        raise KeyboardInterrupt
    if any(cell["num_failed"] for cell in report["cells"]):
        raise typer.Exit(EXIT_ITEM_FAILED)


@app.command()
def compare(
    old: Annotated[
        Path,
        typer.Argument(
            metavar="OLD", help="A report of 'voxcli bench --json', or a folder of them."
        ),
    ],
    new: Annotated[Path, typer.Argument(metavar="NEW", help="The same, to be judged against it.")],
    fail_over: Annotated[
        str, typer.Option(metavar="P%", help="Slowdown that still passes, in percent.")
    ] = "5%",
    force: Annotated[
        bool, typer.Option("--force", help="Compare different cards, models or settings too.")
    ] = False,
    json: JsonOption = False,
) -> None:
    """Lay reports side by side; ends with 1 when NEW is slower.

    Slower means: by more than --fail-over and by more than the noise. Two processes of the same
    program differ by several percent on most machines, so give folders of 8 reports each,
    made in turn (old, new, old, new): what their pairs differ by is the noise then. Unclear, with
    a warning and exit code 0, means that a slowdown of twice --fail-over could not be ruled out.
    """
    from voxcli.bench import compare as comparing
    from voxcli.bench.report import load_reports

    limit = _percent(fail_over)
    before, after = load_reports(old), load_reports(new)
    changes = comparing.compare(list(before.values()), list(after.values()), limit, is_forced=force)
    reports = [*before.items(), *after.items()]
    for path, report in reports:
        if report["is_partial"]:
            output.warn(f"{path} is partial: its run was interrupted")
    for difference in comparing.differences([report for _, report in reports]):
        output.warn(f"not the same {difference}")
    slower = [change for change in changes if change.is_regression]
    unclear = [change for change in changes if change.verdict == comparing.Verdict.UNCLEAR]
    if json:
        output.result_json(
            {
                "is_regression": bool(slower),
                "is_clear": not unclear,
                "fail_over": limit,
                "num_reports": [len(before), len(after)],
                "definitions": comparing.DEFINITIONS,
                "changes": [asdict(change) for change in changes],
            }
        )
    else:
        output.result(output.table(_change_rows(changes)))
    if unclear:
        hidden = f"{100 * comparing.RULED_OUT * limit:g}%"
        output.warn(
            f"{len(unclear)} of {len(changes)} changes are unclear: the noise would hide a "
            f"slowdown of {hidden}; give folders of more reports, made in turn"
        )
    if any(change.noise is None and change.verdict == "unknown" for change in changes):
        output.warn("some changes cannot be judged: too few runs; use --repeats 3 or more")
    if slower:
        raise typer.Exit(EXIT_ITEM_FAILED)


def _percent(text: str) -> float:
    try:
        value = float(text.strip().removesuffix("%")) / 100
    except ValueError:
        value = math.nan
    if not 0 <= value < math.inf:
        raise UsageError(f"--fail-over is '{text}'", hint="give percent, such as 5%")
    return value


def _change_rows(changes: list[Change]) -> list[tuple[str, ...]]:
    from voxcli.bench.tables import MISSING, number

    rows: list[tuple[str, ...]] = [
        ("set", "lang", "load", "metric", "pairs", "old", "new", "new/old", "noise", "verdict")
    ]
    for change in changes:
        noise = MISSING if change.noise is None else f"±{100 * change.noise:.1f}%"
        ratio = MISSING if change.ratio is None else f"{change.ratio:.3f}"
        medians = (number(change.old), number(change.new))
        rows.append(
            (*change.cell, change.metric, str(change.num_pairs), *medians, ratio, noise,
             str(change.verdict))
        )  # fmt: skip
    return rows
