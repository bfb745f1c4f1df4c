"""`voxcli bench`: measure and report."""

from __future__ import annotations

import sys
from dataclasses import replace
from typing import TYPE_CHECKING

import typer

from voxcli.cli import new_app, output
from voxcli.cli.bench_compare import compare
from voxcli.cli.bench_options import (
    DEFAULT_PROMPTS,
    NATIVE,
    BenchEngineOptions,
    LoadOptions,
    MannerOptions,
    ReportFiles,
    WeightsOptions,
)
from voxcli.cli.options import QuietOption, grouped
from voxcli.cli.parameter_options import ParameterOptions
from voxcli.cli.references import ReferenceOptions
from voxcli.cli.speech_report import warn_unseen
from voxcli.errors import EXIT_ITEM_FAILED, UsageError

if TYPE_CHECKING:
    from voxcli.bench.report import Report

EXAMPLES = (
    "voxcli bench --prompts short --repeats 2",
    "voxcli bench --prompts short --concurrency 1,2 --repeats 1 --json new.json --html new.html",
    "voxcli bench --prompts short --json old.json && voxcli bench compare old.json old.json",
)

app = new_app(
    """Measure how fast this machine speaks: time to first audio, real-time factor, throughput.

    The table goes to stdout. The JSON report and docs/benchmarks.md explain each number. After
    Ctrl-C, the report has what was measured so far. The exit code is 1 if a measured run failed.
    """
)


app.command()(compare)


@app.callback(invoke_without_command=True)
@grouped
def bench(
    ctx: typer.Context,
    engines: BenchEngineOptions,
    reference: ReferenceOptions,
    load: LoadOptions,
    parameters: ParameterOptions,
    manner: MannerOptions,
    weights: WeightsOptions,
    outputs: ReportFiles,
    quiet: QuietOption = False,
) -> None:
    """Measure, unless a verb follows."""
    if ctx.invoked_subcommand is not None:
        return
    _check(engines, reference, load, manner, weights)
    from voxcli.bench.launch import measure, prepare
    from voxcli.bench.live import LiveTable

    told, settings = parameters.given(), engines.settings()
    options = load.options(told, outputs)
    _check_files(outputs)
    spoken = manner.manner(reference, settings, told, is_random=weights.are_random)
    room = max(load.max_slots, *options.concurrency, 1)
    config = replace(engines.config(settings), max_slots=room)
    files = engines.files(settings, weights)
    with weights.open(config) or engines.open(
        settings, config, is_quiet=quiet, files=files
    ) as engine:
        launch = prepare(
            load.prompts or DEFAULT_PROMPTS, load.languages, options, spoken, engine, files,
            is_random=weights.are_random,
        )  # fmt: skip
        warn_unseen([spoken.voice], engine.facts)
        for note in launch.notes:
            output.warn(note)
        live = LiveTable(is_enabled=output.can_show_progress(is_quiet=quiet))
        warn = output.warn if not quiet else lambda message: None
        report = measure(launch, ["voxcli", *sys.argv[1:]], live, warn)
    for note in report["notes"][len(launch.notes) :]:
        output.warn(note)
    _finish(report, outputs, is_quiet=quiet)


def _check(
    engines: BenchEngineOptions,
    reference: ReferenceOptions,
    load: LoadOptions,
    manner: MannerOptions,
    weights: WeightsOptions,
) -> None:
    """Refuse what cannot be, or not together."""
    if load.rate is not None and load.concurrency is not None:
        raise UsageError("--rate and --concurrency cannot be used together", hint="drop one")
    if weights.frames is not None and not weights.are_random:
        raise UsageError("--frames is only for --dummy-weights", hint="drop it")
    reference.check()
    if manner.voice is not None and reference.ref is not None:
        raise UsageError("--voice and --ref cannot be used together", hint="drop one")
    if not weights.are_random:
        return
    if manner.voice is not None:
        raise UsageError("saved voices do not work with random weights", hint="use --ref")
    if engines.engine != NATIVE:
        raise UsageError(
            f"random weights and --engine {engines.engine} cannot be used together",
            hint=f"use --engine {NATIVE}",
        )


def _check_files(outputs: ReportFiles) -> None:
    """Refuse before anything is loaded what could not be written after it."""
    from voxcli.bench.html import require_charts
    from voxcli.bench.report import check_file

    for path in outputs.paths:
        check_file(path, overwrite=outputs.overwrite)
    if outputs.html is not None:
        require_charts()


def _finish(report: Report, outputs: ReportFiles, *, is_quiet: bool) -> None:
    """Write the files, show the table, and end with the code the runs deserve."""
    from voxcli.bench import tables
    from voxcli.bench.html import report_as_html
    from voxcli.bench.report import report_as_json, runs_as_csv, write_text

    makers = {outputs.json_file: report_as_json, outputs.html: report_as_html}
    makers |= {outputs.csv: runs_as_csv}
    for path, make in makers.items():
        if path is not None:
            write_text(path, make(report), overwrite=outputs.overwrite)
            output.note(f"wrote {path}", is_quiet=is_quiet)
    for warning in tables.warnings(report):
        output.warn(warning)
    shown = output.table(tables.rows(report))
    for name, value in tables.facts(report):
        output.note(f"{name}: {value}", is_quiet=is_quiet)
    if outputs.is_json_on_stdout:
        output.note(shown, is_quiet=is_quiet)
        output.result_json(report, is_exact=True)
    else:
        output.result("\n".join([*([report["stamp"]] if report["stamp"] else []), shown]))
    if report["is_partial"]:
        raise KeyboardInterrupt
    if any(cell["num_failed"] for cell in report["cells"]):
        raise typer.Exit(EXIT_ITEM_FAILED)
