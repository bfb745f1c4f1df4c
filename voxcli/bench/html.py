"""The report as one page that opens offline, in light and dark, and prints well.

Charts are plotly's, whose script stands in the page once: 5 MB, and a person can hover over values,
hide series and save a chart. It comes with the extra `bench`; see `require_charts`.
"""

from __future__ import annotations

from html import escape
from importlib.resources import files as resource_files

from voxcli.bench import tables
from voxcli.bench.report import Report
from voxcli.extras import require

NEEDED = "plotly"
_CHART = {
    "responsive": True,
    "displaylogo": False,
    "displayModeBar": "hover",
    "modeBarButtons": [["toImage", "resetScale2d"]],
}
# a chart is drawn when the page ends before the next one, which narrows it
_FIT = "<script>window.dispatchEvent(new Event('resize'))</script>"


def require_charts() -> None:
    """Raise MissingPackageError unless what makes charts is installed."""
    require("'--html'", NEEDED)


def report_as_html(report: Report) -> str:
    """A whole page: style, script and charts inside, nothing to load."""
    from plotly.offline import get_plotlyjs

    style = resource_files("voxcli.bench").joinpath("report.css").read_text("utf-8")
    who = report["identity"]
    title = f"voxcli bench: {who['model']} on {who['device_name']}"
    warnings = "".join(
        f'<p class="warning">{escape(text)}</p>'
        for text in [*tables.warnings(report), *report["notes"]]
    )
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        '<link rel="icon" href="data:,">\n'
        f"<title>{escape(title)}</title>\n<style>\n{style}</style>\n<script>{get_plotlyjs()}</script>\n</head>\n<body>\n"
        f'<h1>{escape(title)}</h1>\n<p class="lead">{escape(_lead(report))}</p>\n{warnings}\n'
        f"<h2>Results</h2>\n{_results(report)}\n"
        f'<section class="plots">\n{_figures(report)}</section>\n'
        f"<h2>What was measured, and where</h2>\n{_facts(report)}\n"
        f"<h2>What the numbers mean</h2>\n{_definitions(report)}\n"
        f"<details><summary>Every run</summary>\n{_runs(report)}\n</details>\n"
        f"{_FIT}\n"
        "</body>\n</html>\n"
    )


def _lead(report: Report) -> str:
    runs = [run for run in report["runs"] if run["phase"] == "measured"]
    others = len(report["runs"]) - len(runs)
    audio_s = sum(run["audio_s"] or 0.0 for run in runs)
    return (
        f"{len(runs)} measured runs, {audio_s:.0f} s of audio; {others} more before them "
        f"(first request, warm-ups) count in no statistic. {report['identity']['time']}"
    )


def _table(header: tuple[str, ...], rows: list[tuple[str, ...]]) -> str:
    head = "".join(f"<th>{escape(name)}</th>" for name in header)
    body = "\n".join(
        "<tr>" + "".join(f"<td>{escape(value)}</td>" for value in row) + "</tr>" for row in rows
    )
    return (
        f'<div class="scroll"><table class="numbers"><thead><tr>{head}</tr></thead>\n'
        f"<tbody>\n{body}\n</tbody></table></div>"
    )


def _results(report: Report) -> str:
    header, *rows = tables.rows(report)
    return _table(header, rows)


def _figures(report: Report) -> str:
    from voxcli.bench.plots import charts

    parts = []
    for number, (title, text, figure) in enumerate(charts(report)):
        chart = figure.to_html(
            config=_CHART, include_plotlyjs=False, full_html=False, div_id=f"chart{number}"
        )
        parts.append(
            f"<figure><figcaption>{escape(title)}<small>{escape(text)}</small></figcaption>"
            f"{chart}</figure>\n"
        )
    return "".join(parts)


def _facts(report: Report) -> str:
    rows = "\n".join(
        f"<tr><th>{escape(name)}</th><td>{escape(value)}</td></tr>"
        for name, value in tables.facts(report)
    )
    return f'<table class="facts">\n{rows}\n</table>'


def _definitions(report: Report) -> str:
    terms = "\n".join(
        f"<dt>{escape(name)}</dt><dd>{escape(text)}</dd>"
        for name, text in report["definitions"].items()
    )
    return f"<dl>\n{terms}\n</dl>"


def _runs(report: Report) -> str:
    header = ("prompt", "phase", "load", "seed", "status", "TTFA", "wall", "audio", "RTF")
    rows: list[tuple[str, ...]] = [
        (
            run["prompt"],
            run["phase"],
            tables.load_of(run),
            str(run["seed"]),
            run["status"],
            tables.seconds(run["ttfa_s"]),
            tables.seconds(run["wall_s"]),
            tables.seconds(run["audio_s"]),
            tables.number(run["rtf"]),
        )
        for run in report["runs"]
    ]
    return _table(header, rows)
