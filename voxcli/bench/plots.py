"""Which charts a report gets, and from which of its fields."""

from __future__ import annotations

from typing import Any

from voxcli.bench import svg
from voxcli.bench.report import Report
from voxcli.bench.tables import load_of, number, seconds

Chart = tuple[str, str, str]  # title, explanation, SVG


def charts(report: Report) -> list[Chart]:
    """Title, explanation and SVG of every chart that has data."""
    x_title = "streams in flight"
    if any(cell["rate"] is not None for cell in report["cells"]):
        x_title = "arrivals a second"
    found = [
        (
            f"Time to first audio against {x_title}",
            "median, with a line up to the 95th percentile; lower is better",
            svg.lines("TTFA", "seconds", x_title, _series(report, "ttfa_s")),
        ),
        (
            f"Real-time factor against {x_title}",
            "wall / audio, median, with a line up to the 95th percentile; lower is better",
            svg.lines("RTF", "RTF", x_title, _series(report, "rtf"), limit=1.0),
        ),
        (
            "Time to first audio, every run",
            "one dot a measured run, the tick is the median",
            svg.strips("TTFA of every run", "seconds", _rows(report, "ttfa_s")),
        ),
        (
            "Time to the last sample, every run",
            "one dot a measured run, the tick is the median",
            svg.strips("Latency of every run", "seconds", _rows(report, "wall_s")),
        ),
        (
            "Throughput",
            "audio seconds made a second, all streams together; higher is better",
            svg.bars("Throughput", "audio-s / s", x_title, _throughput(report)),
        ),
        (
            "Set-up",
            "what happens once, before the first measured run",
            svg.stack("Set-up", _setup(report), seconds),
        ),
        (
            "Where a run's time goes",
            "one extra run with the engine's stages timed one by one; host is the rest",
            svg.stack("Breakdown", _breakdown(report), seconds),
        ),
    ]
    return [(title, text, chart) for title, text, chart in found if chart is not None]


def _name(cell: dict[str, Any]) -> str:
    return f"{cell['set']} ({cell['language']})"


def _names(report: Report) -> list[str]:
    return list(dict.fromkeys(_name(cell) for cell in report["cells"]))


def _series(report: Report, field: str) -> dict[str, list[svg.Point]]:
    series: dict[str, list[svg.Point]] = {name: [] for name in _names(report)}
    show = seconds if field.endswith("_s") else number
    for cell in report["cells"]:
        found = cell[field]
        if found["n"]:
            note = f"{_name(cell)}, {load_of(cell)}: p50 {show(found['p50'])}, "
            note += f"p95 {show(found['p95'])}, {found['n']} runs"
            point = svg.Point(load_of(cell), found["p50"], found["p95"], note)
            series[_name(cell)].append(point)
    return series


def _throughput(report: Report) -> dict[str, list[svg.Point]]:
    series: dict[str, list[svg.Point]] = {name: [] for name in _names(report)}
    for cell in report["cells"]:
        value = cell["audio_throughput"]
        if value is not None:
            note = f"{_name(cell)}, {load_of(cell)}: {value:.3g} audio seconds a second"
            series[_name(cell)].append(svg.Point(load_of(cell), value, value, note))
    return series


def _rows(report: Report, field: str) -> list[svg.Row]:
    names = _names(report)
    rows = []
    for cell in report["cells"]:
        values = [
            run[field]
            for run in report["runs"]
            if run["phase"] == "measured"
            and run["status"] == "ok"
            and all(run[key] == cell[key] for key in ("set", "language", "concurrency", "rate"))
        ]
        rows.append(svg.Row(f"{_name(cell)}, {load_of(cell)}", names.index(_name(cell)), values))
    return rows


def _setup(report: Report) -> dict[str, float]:
    setup = report["setup"]
    return {
        "import": setup["import_s"],
        "load": setup["load_s"] - setup["capture_s"],
        "capture graphs": setup["capture_s"],
        "first request": setup["first_wall_s"] or 0.0,
    }


def _breakdown(report: Report) -> dict[str, float]:
    found = report["breakdown"]
    return {name.removesuffix("_s"): found[name] for name in found if name != "wall_s"}
