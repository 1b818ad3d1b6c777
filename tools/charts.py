"""Small SVG charts for the docs: readable on light and dark pages, with nothing to load."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

WIDTH, HEIGHT = 760, 340
LEFT, RIGHT, TOP, BOTTOM = 60, 200, 16, 52
FOREST_LEFT, ROW = 300, 22
COLOURS = ("#c2410c", "#1d4ed8", "#15803d", "#7e22ce", "#a16207", "#475569", "#0e7490", "#be185d")


@dataclass(frozen=True)
class Line:
    """One line of a chart; lines of one group share a colour, dashed ones are references."""

    name: str
    values: Sequence[float]
    group: str
    dashed: bool = False


@dataclass(frozen=True)
class Points:
    """One cloud of labelled points."""

    name: str
    xy: Sequence[tuple[float, float]]
    joined: bool = False


@dataclass(frozen=True)
class Whisker:
    """One row of a forest plot: a value with its interval; rows of one group stand together under its name."""

    group: str
    name: str
    value: float
    low: float | None
    high: float | None


def forest_chart(panels: Sequence[Sequence[Whisker]], x_axis: str) -> str:
    """Values with intervals, one row each, with a line at 0; each panel has a number axis of its own."""
    body: list[str] = []
    top = 0
    for rows in panels:
        body += _forest_panel(rows, top)
        top += ROW * len(rows) + 34
    body.append(_text((FOREST_LEFT + WIDTH - 20) / 2, top + 16, x_axis, anchor="middle"))
    return _svg(body, top + 30)


def _forest_panel(rows: Sequence[Whisker], top: int) -> list[str]:
    left, right = _range([x for row in rows for x in (row.value, row.low, row.high) if x is not None])
    first, bottom = top + 20, top + 20 + ROW * len(rows)

    def x_of(value: float) -> float:
        return FOREST_LEFT + (value - left) / (right - left) * (WIDTH - 20 - FOREST_LEFT)

    body = []
    for value in _nice(left, right):
        x, strong = x_of(value), "0.7" if value == 0 else "0.2"
        line = f'x1="{x:.1f}" x2="{x:.1f}" y1="{first - 12}" y2="{bottom - 8}"'
        body.append(f'<line {line} stroke="#888" opacity="{strong}"/>')
        body.append(_text(x, bottom + 6, f"{value:+g}" if value else "0", anchor="middle"))
    for number, row in enumerate(rows):
        y, colour = first + ROW * number, COLOURS[int(number > 0 and rows[number - 1].group == row.group)]
        if number == 0 or rows[number - 1].group != row.group:
            body.append(_text(8, y + 4, row.group))
        body.append(_text(FOREST_LEFT - 10, y + 4, row.name, anchor="end"))
        if row.low is not None and row.high is not None:
            ends = f'x1="{x_of(row.low):.1f}" x2="{x_of(row.high):.1f}" y1="{y}" y2="{y}"'
            body.append(f'<line {ends} stroke="{colour}" stroke-width="2"/>')
        body.append(f'<circle cx="{x_of(row.value):.1f}" cy="{y}" r="4" fill="{colour}"/>')
    return body


def line_chart(lines: Sequence[Line], ticks: Sequence[str], x_axis: str, y_axis: str) -> str:
    """Lines over named places, evenly spaced."""
    low, high = _range([value for line in lines for value in line.values])
    groups = list(dict.fromkeys(line.group for line in lines))
    step = (WIDTH - LEFT - RIGHT) / max(len(ticks) - 1, 1)
    body = _frame(low, high, x_axis, y_axis)
    for place, tick in enumerate(ticks):
        body.append(_text(LEFT + place * step, HEIGHT - BOTTOM + 18, tick, anchor="middle"))
    for number, line in enumerate(lines):
        colour = COLOURS[groups.index(line.group)]
        xy = [(LEFT + place * step, _y(value, low, high)) for place, value in enumerate(line.values)]
        body += _path(xy, colour, dashed=line.dashed)
        body += _legend(number, line.name, colour, dashed=line.dashed)
    return _svg(body)


def scatter_chart(clouds: Sequence[Points], x_axis: str, y_axis: str) -> str:
    """Points on two number axes; joined clouds are drawn as a path."""
    low, high = _range([y for cloud in clouds for _, y in cloud.xy])
    left, right = _range([x for cloud in clouds for x, _ in cloud.xy])
    span = WIDTH - LEFT - RIGHT
    body = _frame(low, high, x_axis, y_axis)
    for value in _nice(left, right):
        x = LEFT + (value - left) / (right - left) * span
        body.append(_text(x, HEIGHT - BOTTOM + 18, f"{value:g}", anchor="middle"))
    for number, cloud in enumerate(clouds):
        colour = COLOURS[number % len(COLOURS)]
        xy = [(LEFT + (x - left) / (right - left) * span, _y(y, low, high)) for x, y in cloud.xy]
        if cloud.joined:
            body += _path(xy, colour)
        else:
            body += [f'<circle cx="{x:.1f}" cy="{y:.1f}" r="4" fill="{colour}"/>' for x, y in xy]
        body += _legend(number, cloud.name, colour)
    return _svg(body)


def _frame(low: float, high: float, x_axis: str, y_axis: str) -> list[str]:
    body = []
    for value in _nice(low, high):
        y = _y(value, low, high)
        strong = "0.7" if value == 0 else "0.2"
        body.append(
            f'<line x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{y:.1f}" y2="{y:.1f}" stroke="#888" opacity="{strong}"/>'
        )
        body.append(_text(LEFT - 8, y + 4, f"{value:+g}" if value else "0", anchor="end"))
    body.append(_text((LEFT + WIDTH - RIGHT) / 2, HEIGHT - 12, x_axis, anchor="middle"))
    middle = (TOP + HEIGHT - BOTTOM) / 2
    body.append(
        f'<text x="14" y="{middle}" transform="rotate(-90 14 {middle})" text-anchor="middle">{escape(y_axis)}</text>'
    )
    return body


def _path(xy: Sequence[tuple[float, float]], colour: str, *, dashed: bool = False) -> list[str]:
    points = " ".join(f"{x:.1f},{y:.1f}" for x, y in xy)
    dash = ' stroke-dasharray="5 4"' if dashed else ""
    dots = [] if dashed else [f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3" fill="{colour}"/>' for x, y in xy]
    return [f'<polyline points="{points}" fill="none" stroke="{colour}" stroke-width="2"{dash}/>', *dots]


def _legend(number: int, name: str, colour: str, *, dashed: bool = False) -> list[str]:
    y = TOP + 12 + 20 * number
    dash = ' stroke-dasharray="5 4"' if dashed else ""
    x = WIDTH - RIGHT + 16
    line = f'<line x1="{x}" x2="{x + 20}" y1="{y - 4}" y2="{y - 4}" stroke="{colour}" stroke-width="3"{dash}/>'
    return [line, _text(x + 26, y, name)]


def _text(x: float, y: float, text: str, *, anchor: str = "start") -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}">{escape(text)}</text>'


def _y(value: float, low: float, high: float) -> float:
    return TOP + (high - value) / (high - low) * (HEIGHT - TOP - BOTTOM)


def _range(values: Sequence[float]) -> tuple[float, float]:
    low, high = min(*values, 0), max(*values, 0)
    margin = (high - low) * 0.08 or 1
    return low - margin, high + margin


def _nice(low: float, high: float) -> list[float]:
    """Round numbers between low and high, about six of them."""
    raw = (high - low) / 6
    size = 10.0 ** _floor_log10(raw)
    step = next(size * factor for factor in (1, 2, 5, 10) if size * factor >= raw)
    first = int(low / step) - 1
    return [round(step * n, 10) for n in range(first, first + 12) if low <= step * n <= high]


def _floor_log10(value: float) -> int:
    exponent = 0
    while 10.0 ** (exponent + 1) <= value:
        exponent += 1
    while 10.0**exponent > value:
        exponent -= 1
    return exponent


def _svg(body: Sequence[str], height: float = HEIGHT) -> str:
    style = "text{font:12px system-ui,sans-serif;fill:#444}@media(prefers-color-scheme:dark){text{fill:#ccc}}"
    inner = "\n".join(body)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height:g}" role="img">'
        f"<style>{style}</style>\n{inner}\n</svg>\n"
    )
