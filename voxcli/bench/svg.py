"""Four kinds of chart as SVG text, coloured by the page's style sheet. Knows no report.

Own code instead of a plotting library: the charts follow the page's light, dark and print colours,
weigh a few kilobytes, and need nothing installed. Every mark of data has the class `mark` and a
tooltip; a chart without data is None.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from html import escape

WIDTH, LEFT, RIGHT, TOP, BOTTOM = 560, 64, 16, 12, 44
HEIGHT = 250
NUM_COLOURS = 6
MIN_LABELLED_WIDTH = 28  # a narrower bar has its value in the tooltip alone


@dataclass(frozen=True)
class Point:
    """A value over a category, with a range from `value` to `high`."""

    category: str
    value: float
    high: float
    note: str


@dataclass(frozen=True)
class Row:
    """Values on one horizontal line; `series` picks the colour."""

    label: str
    series: int
    values: Sequence[float]


@dataclass(frozen=True)
class Scale:
    """A linear axis from zero to a round number above the largest value."""

    top: float
    ticks: list[float]

    @classmethod
    def of(cls, largest: float) -> Scale:
        raw = max(largest, 1e-9) / 4
        power = 10 ** math.floor(math.log10(raw))
        step = next(power * nice for nice in (1, 2, 2.5, 5, 10) if raw <= power * nice * 1.0001)
        count = math.ceil(largest / step - 1e-9) or 1
        return cls(step * count, [step * index for index in range(count + 1)])

    def share(self, value: float) -> float:
        return value / self.top


def _text(x: float, y: float, text: str, anchor: str = "middle", css: str = "") -> str:
    return (
        f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" class="{css}">{escape(text)}</text>'
    )


def _line(x1: float, y1: float, x2: float, y2: float, css: str) -> str:
    return f'<line x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}" class="{css}"/>'


def _colour(series: int) -> str:
    return f"s{series % NUM_COLOURS}"


def _frame(body: list[str], height: float, title: str) -> str:
    return (
        f'<svg viewBox="0 0 {WIDTH} {height:.0f}" role="img" aria-label="{escape(title)}">'
        + "".join(body)
        + "</svg>"
    )


def _legend(names: Sequence[str], y: float) -> list[str]:
    """One entry a series, left to right; none for a single one."""
    parts, x = [], float(LEFT)
    for index, name in enumerate(names if len(names) > 1 else ()):
        parts.append(
            f'<rect x="{x:.1f}" y="{y - 9:.1f}" width="10" height="10" class="{_colour(index)}"/>'
        )
        parts.append(_text(x + 15, y, name, "start", "label"))
        x += 28 + 7 * len(name)
    return parts


def _vertical_axis(scale: Scale, unit: str, limit: float | None) -> list[str]:
    def y(value: float) -> float:
        return TOP + (HEIGHT - TOP - BOTTOM) * (1 - scale.share(value))

    parts = []
    for tick in scale.ticks:
        parts.append(_line(LEFT, y(tick), WIDTH - RIGHT, y(tick), "grid"))
        parts.append(_text(LEFT - 8, y(tick) + 4, f"{tick:.4g}", "end"))
    if limit is not None and limit <= scale.top:
        parts.append(_line(LEFT, y(limit), WIDTH - RIGHT, y(limit), "limit"))
        parts.append(_text(WIDTH - RIGHT - 4, y(limit) - 5, "real time", "end"))
    parts.append(
        _text(14, (HEIGHT - BOTTOM + TOP) / 2, unit, css="axis").replace(
            'class="axis"', f'transform="rotate(-90 14 {(HEIGHT - BOTTOM + TOP) / 2:.0f})"'
        )
    )
    return parts


def lines(
    title: str, unit: str, x_title: str, series: dict[str, list[Point]], limit: float | None = None
) -> str | None:
    """Lines over categories in order of appearance, each point with its range upwards.

    Args:
        limit: a value worth a dashed line ("real time").
    """
    points = [point for group in series.values() for point in group]
    if not points:
        return None
    largest = max(point.high for point in points)
    if limit is not None and largest > 0.5 * limit:
        largest = max(largest, limit)
    scale = Scale.of(largest)
    categories = list(dict.fromkeys(point.category for point in points))
    parts = _vertical_axis(scale, unit, limit)

    def place(point: Point, index: int, value: float) -> tuple[float, float]:
        slot = (WIDTH - LEFT - RIGHT) / len(categories)
        shift = (index - (len(series) - 1) / 2) * min(9.0, slot / (len(series) + 1))
        x = LEFT + slot * (categories.index(point.category) + 0.5) + shift
        return x, TOP + (HEIGHT - TOP - BOTTOM) * (1 - scale.share(value))

    for index, group in enumerate(series.values()):
        colour = _colour(index)
        path = " ".join("{:.1f},{:.1f}".format(*place(p, index, p.value)) for p in group)
        if len(group) > 1:
            parts.append(f'<polyline points="{path}" class="line {colour}"/>')
        for point in group:
            x, y = place(point, index, point.value)
            parts.append(_line(x, y, x, place(point, index, point.high)[1], f"range {colour}"))
            parts.append(
                f'<circle cx="{x:.1f}" cy="{y:.1f}" r="4.5" class="mark {colour}">'
                f"<title>{escape(point.note)}</title></circle>"
            )
    slot = (WIDTH - LEFT - RIGHT) / len(categories)
    parts += [
        _text(LEFT + slot * (i + 0.5), HEIGHT - BOTTOM + 16, name)
        for i, name in enumerate(categories)
    ]
    parts.append(_text((LEFT + WIDTH - RIGHT) / 2, HEIGHT - BOTTOM + 32, x_title))
    parts += _legend(list(series), HEIGHT + 4)
    return _frame(parts, HEIGHT + (12 if len(series) > 1 else -6), title)


def bars(title: str, unit: str, x_title: str, series: dict[str, list[Point]]) -> str | None:
    """Grouped bars over categories; `high` is not drawn."""
    points = [point for group in series.values() for point in group]
    if not points:
        return None
    scale = Scale.of(max(point.value for point in points))
    categories = list(dict.fromkeys(point.category for point in points))
    slot = (WIDTH - LEFT - RIGHT) / len(categories)
    width = min(48.0, 0.8 * slot / len(series))
    parts = _vertical_axis(scale, unit, None)
    floor = HEIGHT - BOTTOM
    for index, group in enumerate(series.values()):
        for point in group:
            middle = LEFT + slot * (categories.index(point.category) + 0.5)
            x = middle + (index - len(series) / 2) * width
            height = (HEIGHT - TOP - BOTTOM) * scale.share(point.value)
            parts.append(
                f'<rect x="{x + 1:.1f}" y="{floor - height:.1f}" width="{width - 2:.1f}" '
                f'height="{height:.1f}" class="mark bar {_colour(index)}">'
                f"<title>{escape(point.note)}</title></rect>"
            )
            if width >= MIN_LABELLED_WIDTH:
                parts.append(_text(x + width / 2, floor - height - 3, f"{point.value:.3g}"))
    parts += [_text(LEFT + slot * (i + 0.5), floor + 16, name) for i, name in enumerate(categories)]
    parts.append(_text((LEFT + WIDTH - RIGHT) / 2, floor + 32, x_title))
    parts += _legend(list(series), HEIGHT + 4)
    return _frame(parts, HEIGHT + (12 if len(series) > 1 else -6), title)


def strips(title: str, unit: str, rows: list[Row]) -> str | None:
    """One row of dots for each group, with a tick at the median."""
    rows = [row for row in rows if row.values]
    if not rows:
        return None
    left, pitch = 150, 26
    scale = Scale.of(max(max(row.values) for row in rows))
    bottom = TOP + pitch * len(rows)
    parts = []

    def x(value: float) -> float:
        return left + (WIDTH - RIGHT - left) * scale.share(value)

    for tick in scale.ticks:
        parts.append(_line(x(tick), TOP, x(tick), bottom, "grid"))
        parts.append(_text(x(tick), bottom + 16, f"{tick:.4g}"))
    for index, row in enumerate(rows):
        y = TOP + pitch * (index + 0.5)
        parts.append(_text(left - 10, y + 4, row.label, "end", "label"))
        for number, value in enumerate(row.values):
            # NOTE: a fixed spread, so that the same report gives the same picture
            spread = ((number * 7) % 5 - 2) * 2.2
            parts.append(
                f'<circle cx="{x(value):.1f}" cy="{y + spread:.1f}" r="3.5" '
                f'class="mark dot {_colour(row.series)}"><title>{value:.4g} {unit}</title></circle>'
            )
        middle = sorted(row.values)[len(row.values) // 2]
        if len(row.values) % 2 == 0:
            middle = (middle + sorted(row.values)[len(row.values) // 2 - 1]) / 2
        parts.append(_line(x(middle), y - 9, x(middle), y + 9, "median"))
    parts.append(_text((left + WIDTH - RIGHT) / 2, bottom + 34, unit))
    return _frame(parts, bottom + 40, title)


def stack(title: str, shares: dict[str, float], show: Callable[[float], str]) -> str | None:
    """One horizontal bar a part, with its value as `show` writes it; parts of zero are left out."""
    shares = {name: value for name, value in shares.items() if value > 0}
    if not shares:
        return None
    left, pitch, room = 150, 26, 90
    largest = max(shares.values())
    parts = []
    for index, (name, value) in enumerate(shares.items()):
        y, width = TOP + pitch * index, (WIDTH - left - room) * value / largest
        parts.append(_text(left - 10, y + 16, name, "end", "label"))
        parts.append(
            f'<rect x="{left}" y="{y + 3}" width="{max(width, 1):.1f}" height="{pitch - 7}" '
            f'class="mark bar s0"><title>{name}: {show(value)}</title></rect>'
        )
        parts.append(_text(left + width + 6, y + 16, show(value), "start"))
    return _frame(parts, TOP + pitch * len(shares) + 6, title)
