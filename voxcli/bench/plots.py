"""Which charts a report gets, and from which of its fields, as plotly's figures.

Colours are readable on light and on dark paper; those of text and lines between are the style
sheet's.
"""

from __future__ import annotations

from collections.abc import Callable
from html import escape
from typing import Any, NamedTuple

import plotly.graph_objects as go

from voxcli.bench.report import Report
from voxcli.bench.tables import load_of, number, seconds

COLOURS = ("#2f81f7", "#e8590c", "#37b24d", "#9775fa", "#c99a00", "#e64980")
HEIGHT, ROW_HEIGHT, AROUND = 280, 34, 90  # pixels: of a chart, or of a row and what is around all
REAL_TIME = 1.0
_HOVER = "%{customdata}<extra></extra>"


class Chart(NamedTuple):
    """A figure with what stands above it."""

    title: str
    explanation: str
    figure: go.Figure


def charts(report: Report) -> list[Chart]:
    """Every chart that has data."""
    x_title = "streams in flight"
    if any(cell["rate"] is not None for cell in report["cells"]):
        x_title = "arrivals a second"
    upwards = "median, with a line up to the 95th percentile; lower is better"
    every = "one dot a measured run, and a box from the first to the third quarter of them"
    found = [
        Chart(
            f"Time to first audio against {x_title}",
            upwards,
            _lines(report, "ttfa_s", x_title, "seconds"),
        ),
        Chart(
            f"Real-time factor against {x_title}",
            f"wall / audio, {upwards}",
            _with_real_time(_lines(report, "rtf", x_title, "RTF")),
        ),
        Chart("Time to first audio, every run", every, _dots(report, "ttfa_s")),
        Chart("Time to the last sample, every run", every, _dots(report, "wall_s")),
        Chart(
            "Throughput",
            "audio seconds made a second, all streams together; higher is better",
            _throughput(report, x_title),
        ),
        Chart("Set-up", "what happens once, before the first measured run", _parts(_setup(report))),
        Chart(
            "Where a run's time goes",
            "one extra run with the engine's stages timed one by one; host is the rest",
            _parts(_breakdown(report)),
        ),
    ]
    return [chart for chart in found if chart.figure.data]


def _figure(height: int = HEIGHT, **layout: Any) -> go.Figure:
    clear = "rgba(0,0,0,0)"
    return go.Figure(
        layout={
            "template": "none",
            "colorway": COLOURS,
            "height": height,
            "paper_bgcolor": clear,
            "plot_bgcolor": clear,
            "margin": {"l": 60, "r": 15, "t": 25, "b": 45},
            "legend": {"orientation": "h", "y": 1.02, "yanchor": "bottom"},
            "hovermode": "closest",
            "modebar": {"bgcolor": clear},
            **layout,
        }
    )


def _over_loads(x_title: str, y_title: str, **layout: Any) -> go.Figure:
    """An empty figure with loads as categories, from zero upwards."""
    return _figure(
        xaxis={"title": x_title, "type": "category"},
        yaxis={"title": y_title, "rangemode": "tozero"},
        **layout,
    )


def _name(cell: dict[str, Any]) -> str:
    return escape(f"{cell['set']} ({cell['language']})")  # plotly reads tags in it


def _by_name(report: Report) -> dict[str, list[dict[str, Any]]]:
    """Cells by prompt set and language, each a series of its own."""
    series: dict[str, list[dict[str, Any]]] = {}
    for cell in report["cells"]:
        series.setdefault(_name(cell), []).append(cell)
    return series


def _show(field: str) -> Callable[[float | None], str]:
    return seconds if field.endswith("_s") else number


def _lines(report: Report, field: str, x_title: str, y_title: str) -> go.Figure:
    """Medians over loads, each with its range upwards."""
    figure, show = _over_loads(x_title, y_title, scattermode="group", scattergap=0.8), _show(field)
    for name, own in _by_name(report).items():
        cells = [cell for cell in own if cell[field]["n"]]
        if not cells:
            continue
        values = [cell[field] for cell in cells]
        figure.add_scatter(
            name=name,
            x=[load_of(cell) for cell in cells],
            y=[value["p50"] for value in values],
            error_y={
                "array": [value["p95"] - value["p50"] for value in values],
                "arrayminus": [0.0] * len(values),
                "symmetric": False,
            },
            mode="lines+markers",
            customdata=[
                f"{name}, {load_of(cell)}: p50 {show(value['p50'])}, p95 {show(value['p95'])}, "
                f"{value['n']} runs"
                for cell, value in zip(cells, values, strict=True)
            ],
            hovertemplate=_HOVER,
        )
    return figure


def _with_real_time(figure: go.Figure) -> go.Figure:
    """The same with a dashed line at real time, where the values come near it."""
    highest = max((max(each.y) for each in figure.data), default=0.0)
    if highest > 0.5 * REAL_TIME:
        figure.add_hline(
            REAL_TIME,
            line={"dash": "dash"},
            annotation_text="real time",
            annotation_position="top left",
        )
    return figure


def _throughput(report: Report, x_title: str) -> go.Figure:
    figure = _over_loads(x_title, "audio-s / s", barmode="group")
    for name, own in _by_name(report).items():
        cells = [cell for cell in own if cell["audio_throughput"] is not None]
        if not cells:
            continue
        figure.add_bar(
            name=name,
            x=[load_of(cell) for cell in cells],
            y=[cell["audio_throughput"] for cell in cells],
            customdata=[
                f"{name}, {load_of(cell)}: {cell['audio_throughput']:.3g} audio seconds a second"
                for cell in cells
            ],
            hovertemplate=_HOVER,
        )
    return figure


def _dots(report: Report, field: str) -> go.Figure:
    """Every run of each cell, a row of dots over its box."""
    names, cells = list(_by_name(report)), report["cells"]
    figure = _figure(
        AROUND + ROW_HEIGHT * len(cells),
        xaxis={"title": "seconds", "rangemode": "tozero"},
        yaxis={"autorange": "reversed", "automargin": True},
        showlegend=False,
    )
    for cell in cells:
        runs = _good_runs(report, cell)
        if not runs:
            continue
        colour = COLOURS[names.index(_name(cell)) % len(COLOURS)]
        figure.add_box(
            name=f"{_name(cell)}, {load_of(cell)}",
            x=[run[field] for run in runs],
            boxpoints="all",
            pointpos=0,
            jitter=0.7,
            marker={"color": colour, "opacity": 0.6, "size": 5},
            line={"color": colour, "width": 1},
            customdata=[
                f"{escape(run['prompt'])}, seed {run['seed']}: {_show(field)(run[field])}"
                for run in runs
            ],
            hovertemplate=_HOVER,
            hoveron="points",
        )
    return figure


def _good_runs(report: Report, cell: dict[str, Any]) -> list[dict[str, Any]]:
    keys = ("set", "language", "concurrency", "rate")
    return [
        run
        for run in report["runs"]
        if run["phase"] == "measured"
        and run["status"] == "ok"
        and all(run[key] == cell[key] for key in keys)
    ]


def _parts(shares: dict[str, float]) -> go.Figure:
    """One horizontal bar a part; parts of zero are left out."""
    shares = {name: value for name, value in shares.items() if value > 0}
    figure = _figure(
        AROUND + ROW_HEIGHT * len(shares),
        xaxis={"title": "seconds"},
        yaxis={"autorange": "reversed", "automargin": True},
    )
    if shares:
        shown = [seconds(value) for value in shares.values()]
        figure.add_bar(
            x=list(shares.values()),
            y=list(shares),
            orientation="h",
            text=shown,
            textposition="auto",
            customdata=[f"{name}: {value}" for name, value in zip(shares, shown, strict=True)],
            hovertemplate=_HOVER,
        )
    return figure


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
