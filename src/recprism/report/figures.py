"""Charts of the front, the metrics and the segments: pure functions that return a specification and a table."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import altair as alt

from recprism.report.charts import (
    BLUE,
    GREEN,
    GREY,
    ORANGE,
    Figure,
    Table,
    as_budget,
    as_certified,
    as_p,
    as_share,
    chart_of,
    spec_of,
)
from recprism.report.content import Change, Chosen, Content, FrontPoint
from recprism.report.words import amount, interval, signed_percent
from recprism.result.summary import unit_of


def front(content: Content) -> Figure | None:
    """Draw price against gain along the path, the certified points and this run."""
    if not content.front:
        return None
    reach = f"The green area is what is certified: at most {as_budget(content.budget)} lower accuracy."
    if content.decided_on not in (None, content.part):
        reach += f" The {content.decided_on} part decided this, and the {content.part} part placed the points."
    if not _certified(content):
        reach = "No point is certified."
    mine = " The diamond is this run." if content.chosen is not None else ""
    return Figure(
        "front",
        "What diversity costs",
        "Each point is one way to make all lists: further right costs more accuracy, further up gives more. "
        f"{reach}{mine}",
        spec_of(alt.layer(*_front_layers(content)), f"Front: gain in {content.goal} against loss of {content.cost}"),
        _front_table(content),
    )


def _front_layers(content: Content) -> list[Any]:
    within, beyond, measured = f"certified: at most {as_budget(content.budget)}", "certified for more", "not certified"

    def row(loss: float, gain: float, state: str, certified_for: float | None) -> dict[str, Any]:
        return {"loss": 100 * loss, "gain": 100 * gain, "state": state, "told": as_certified(certified_for)}

    def state(budget: float | None) -> str:
        return measured if budget is None else within if budget <= content.budget else beyond

    rows = [row(it.loss, it.gain, state(it.certified_for), it.certified_for) for it in content.front]
    there = {it["state"] for it in rows} | (set() if content.chosen is None else {"this run"})
    colours = {within: GREEN, beyond: BLUE, measured: GREY, "this run": ORANGE}
    states = [it for it in colours if it in there]
    scale = alt.Scale(domain=states, range=[colours[it] for it in states])
    x = alt.X("loss:Q", title="accuracy lost, %")
    y = alt.Y(
        "gain:Q",
        title=f"gain, %: {unit_of(content.goal, content.sizes).what[:1].lower()}"
        f"{unit_of(content.goal, content.sizes).what[1:]}",
    )
    shown: dict[str, Any] = {
        "x": x,
        "y": y,
        "color": alt.Color("state:N", title=None, scale=scale, legend=alt.Legend(orient="top", columns=2)),
        "tooltip": [
            alt.Tooltip("loss:Q", title=f"{content.cost} lost, %", format=".1f"),
            alt.Tooltip("gain:Q", title=f"gain in {content.goal}, %", format=".1f"),
            alt.Tooltip("told:N", title="certified"),
        ],
    }
    own = content.chosen if content.chosen is not None and content.chosen.budget is not None else None
    line = [*rows, *(() if own is None else (row(own.loss, own.gain, measured, None),))]
    path = chart_of([row(0.0, 0.0, measured, None), *line]).mark_line(color=GREY, strokeWidth=1.5)
    layers = [
        *_certified_region(content, x, y),
        path.encode(x=x, y=y, order="gain:Q"),
        chart_of(rows).mark_point(size=80, filled=True, opacity=1).encode(**shown),
    ]
    if content.chosen is not None:
        here = row(content.chosen.loss, content.chosen.gain, "this run", content.chosen.budget)
        layers.append(chart_of([here]).mark_point(size=260, shape="diamond", filled=True, opacity=1).encode(**shown))
    return layers


def _certified(content: Content) -> list[tuple[float, float]]:
    """Return loss and gain of the points that are certified to keep the budget."""
    points: list[FrontPoint | Chosen] = [it for it in content.front if (it.certified_for or 1.0) <= content.budget]
    if content.chosen is not None and (content.chosen.budget or 1.0) <= content.budget:
        points.append(content.chosen)
    return [(it.loss, it.gain) for it in points]


def _certified_region(content: Content, x: Any, y: Any) -> list[Any]:
    """Shade the certified part of the path, up to the budget; nothing if no point is certified.

    Labels of another part placed the points, so a certified one may have lost more than the budget here, or gained.
    """
    points = _certified(content)
    if not points:
        return []
    losses, gains = zip((0.0, 0.0), (content.budget, 0.0), *points, strict=True)
    area = {"loss": min(losses), "end": max(losses), "gain": min(gains), "top": max(gains)}
    region = chart_of([{name: 100 * it for name, it in area.items()}])
    return [
        region.mark_rect(color=GREEN, opacity=0.12).encode(x=x, x2="end:Q", y=y, y2="top:Q"),
        chart_of([{"loss": 100 * content.budget}]).mark_rule(color=GREEN, strokeDash=[4, 4]).encode(x=x),
    ]


def _front_table(content: Content) -> Table:
    rows = [
        (f"{it.trade_off:g}", signed_percent(it.loss), signed_percent(it.gain), as_budget(it.certified_for))
        for it in content.front
    ]
    if content.chosen is not None:
        chosen = content.chosen
        rows.append(("this run", signed_percent(chosen.loss), signed_percent(chosen.gain), as_budget(chosen.budget)))
    columns = ("trade-off", f"loss of {content.cost}", f"gain in {content.goal}", "certified within")
    return Table(columns, tuple(rows), (0, 1, 2, 3))


def changes(content: Content) -> Figure | None:
    """Draw the relative change of every metric, with its interval."""
    return _dots(
        "changes",
        "Before and after",
        "How far each metric moved, as a share of its value before; the line is a 95 % interval over users.",
        content.changes,
    )


def payers(content: Content) -> Figure | None:
    """Draw the change in accuracy of each group of users."""
    return _dots(
        "payers",
        f"Who pays, in {content.cost}",
        f"The change in {content.cost} for groups of users, each about a third of all, by {content.payers_of}. "
        "Lines are 95 % intervals; a line that crosses 0 may be chance.",
        content.payers,
        "p that it pays more",
    )


# -- shared pieces ----------------------------------------------------------------------------------------------------


def _dots(name: str, title: str, caption: str, rows: Sequence[Change], p_column: str = "p") -> Figure | None:
    """Draw a dot per row at its relative change, and its interval."""
    known = [row for row in rows if row.relative is not None]
    if not known:
        return None
    plain = [
        {
            "name": row.name,
            "change": 100 * (row.relative or 0.0),
            "low": None if row.low is None else 100 * row.low,
            "high": None if row.high is None else 100 * row.high,
            "kind": _kind(row),
            "words": row.words,
        }
        for row in known
    ]
    y = alt.Y("name:N", title=None, sort=[row.name for row in known])
    colours = {"better": GREEN, "worse": ORANGE, "not clear": GREY}
    there = [it for it in colours if any(row["kind"] == it for row in plain)]
    scale = alt.Scale(domain=there, range=[colours[it] for it in there])
    color = alt.Color("kind:N", title=None, scale=scale, legend=alt.Legend(orient="top", columns=2))
    zero = chart_of([{"zero": 0}]).mark_rule(color=GREY, strokeDash=[2, 2]).encode(x="zero:Q")
    line = chart_of(plain).mark_rule(strokeWidth=2).encode(x=alt.X("low:Q"), x2="high:Q", y=y, color=color)
    dot = (
        chart_of(plain)
        .mark_point(size=70, filled=True, opacity=1)
        .encode(
            x=alt.X("change:Q", title="change, %"),
            y=y,
            color=color,
            tooltip=["name:N", "words:N", alt.Tooltip("change:Q", format="+.2f", title="change, %")],
        )
    )
    chart = alt.layer(zero, line, dot).properties(height=max(120, 26 * len(plain)))
    return Figure(name, title, caption, spec_of(chart, title), change_table(rows, p_column))


def _kind(row: Change) -> str:
    """Return "not clear" for a change that may be chance."""
    by_chance = row.low is not None and row.high is not None and row.low <= 0 <= row.high
    return "not clear" if row.better is None or by_chance else "better" if row.better else "worse"


def change_table(rows: Sequence[Change], p_column: str = "p") -> Table:
    """Return a table of values before and after, with the interval of the change."""
    cells = tuple(
        (
            row.name,
            row.words,
            amount(row.before, 4),
            amount(row.after, 4),
            signed_percent(row.relative),
            interval(row),
            as_p(row.p_value),
            f"{row.n:,}",
        )
        for row in rows
    )
    columns = ("", "what it is", "before", "after", "change", "95 % interval", p_column, "n")
    return _with_popularity(Table(columns, cells, (2, 3, 4, 5, 6, 7)), rows)


def now_table(rows: Sequence[Change]) -> Table:
    """Return the table of an audit: values and their intervals."""
    cells = tuple(
        (
            row.name,
            row.words,
            f"{row.n:,}",
            amount(row.before, 4),
            "" if row.low is None or row.high is None else f"{row.low:.4f} to {row.high:.4f}",
        )
        for row in rows
    )
    return _with_popularity(Table(("", "what it is", "n", "now", "95 % interval"), cells, (2, 3, 4)), rows)


def _with_popularity(table: Table, rows: Sequence[Change]) -> Table:
    """Add a column for popularity, if it is known."""
    if all(row.popularity is None for row in rows):
        return table
    cells = zip(table.rows, rows, strict=True)
    wider = tuple((*line, "" if row.popularity is None else amount(row.popularity, 4)) for line, row in cells)
    return Table((*table.columns, "popularity"), wider, (*table.numeric, len(table.columns)))


def exposure_table(rows: Sequence[Change]) -> Table:
    """Return a table of shares of all places, before and after."""
    cells = tuple(
        (
            *(row.name, row.words, f"{row.n:,}", as_share(row.before), as_share(row.after)),
            *(signed_percent(row.relative), interval(row)),
        )
        for row in rows
    )
    return Table(("", "what it is", "items", "before", "after", "change", "95 % interval"), cells, (2, 3, 4, 5, 6))
