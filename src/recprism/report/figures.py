"""Pure functions from what a page says to its charts: a vega-lite specification, a caption and the same as a table."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import altair as alt

from recprism.report.content import Change, Content, Explained
from recprism.report.words import percent

BLUE, ORANGE, GREEN, GREY = "#3b7dd8", "#d9730d", "#2a9d6f", "#8a919c"  # each readable on white and on near-black
HEIGHT = 300
TITLES = {"individual": "entries of every row", "shared": "factors for all"}
CURVES = {
    "top": ("the largest first", BLUE),
    "matched": ("at random, same sum", ORANGE),
    "squares": ("at random, same squares", GREEN),
}


@dataclass(frozen=True)
class Table:
    """columns: headings; rows: cells as text, in order; numeric: which columns stand to the right."""

    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    numeric: tuple[int, ...] = ()


@dataclass(frozen=True)
class Figure:
    """name: its id on the page; spec: vega-lite without a schema address; caption: what to see, in plain words."""

    name: str
    title: str
    caption: str
    spec: dict[str, Any]
    table: Table


def front(content: Content) -> Figure | None:
    """Price against gain along the path, what is certified, and where this run stands."""
    if not content.front:
        return None
    known = [point.certified_for for point in content.front if point.certified_for is not None]
    rows = [
        {
            "loss": 100 * point.loss,
            "gain": 100 * point.gain,
            "state": "measured only" if point.certified_for is None else "certified",
            "told": "not certified" if point.certified_for is None else f"within {100 * point.certified_for:g} %",
        }
        for point in content.front
    ]
    x = alt.X("loss:Q", title=f"price: loss of {content.cost}, %")
    y = alt.Y("gain:Q", title=f"gain in {content.goal}, %")
    tooltip = [
        alt.Tooltip("loss:Q", title=f"loss of {content.cost}, %", format=".2f"),
        alt.Tooltip("gain:Q", title=f"gain in {content.goal}, %", format=".1f"),
        alt.Tooltip("told:N", title="certified"),
    ]
    states = alt.Color(
        "state:N",
        title=None,
        scale=alt.Scale(domain=["certified", "measured only", "this run"], range=[GREEN, GREY, ORANGE]),
        legend=alt.Legend(orient="top"),
    )
    path = [{"loss": 0.0, "gain": 0.0, "state": "measured only", "told": "as it is"}, *rows]
    layers: list[Any] = [
        _chart(path).mark_line(color=GREY, strokeWidth=1.5).encode(x=x, y=y, order="gain:Q"),
        _chart(rows).mark_point(size=80, filled=True, opacity=1).encode(x=x, y=y, color=states, tooltip=tooltip),
    ]
    if content.chosen is not None:
        here = [
            {"loss": 100 * content.chosen.loss, "gain": 100 * content.chosen.gain, "state": "this run"}
            | {
                "told": "not certified"
                if content.chosen.budget is None
                else f"within {100 * content.chosen.budget:g} %"
            }
        ]
        mark = _chart(here).mark_point(size=260, shape="diamond", filled=True, opacity=1)
        layers.append(mark.encode(x=x, y=y, color=states, tooltip=tooltip))
        if content.chosen.budget is not None:
            rule = _chart([{"loss": 100 * content.chosen.budget}]).mark_rule(color=ORANGE, strokeDash=[4, 4])
            layers.append(rule.encode(x=x))
    table = [(f"{p.trade_off:g}", percent(p.loss, 2), percent(p.gain), _budget(p.certified_for)) for p in content.front]
    if content.chosen is not None:
        here_row = (percent(content.chosen.loss, 2), percent(content.chosen.gain), _budget(content.chosen.budget))
        table.append(("this run", *here_row))
    columns = ("trade-off", f"loss of {content.cost}", f"gain in {content.goal}", "certified within")
    reach = f"Green points are certified, up to a budget of {100 * max(known):g} %." if known else "None is certified."
    mine = " The diamond is what the vectors of this run give." if content.chosen is not None else ""
    return Figure(
        "front",
        "What diversity costs",
        f"Each point is a set of lists: to the right it costs more accuracy, further up it shows more. {reach}{mine}",
        _spec(alt.layer(*layers), f"Front: gain in {content.goal} against loss of {content.cost}"),
        Table(
            ("trade-off", f"loss of {content.cost}", f"gain in {content.goal}", "certified within"),
            tuple(table),
            (0, 1, 2, 3),
        ),
    )


def changes(content: Content) -> Figure | None:
    """The relative change of every metric, with its interval."""
    return _dots(
        "changes",
        "Before and after",
        "How far each metric moved, as a share of its value before; the line is a 95 % interval over users.",
        content.changes,
    )


def payers(content: Content) -> Figure | None:
    """The change in accuracy of each group of users."""
    return _dots(
        "payers",
        f"Who pays, in {content.cost}",
        f"The change in {content.cost} for groups of users, each about a third of all, at {content.payers_of}. "
        "Lines are 95 % intervals; a line that crosses 0 may be chance.",
        content.payers,
    )


def controls(explained: Explained) -> Figure | None:
    """The gain beside what rivals reach that know nothing of factors."""
    if not explained.controls:
        return None
    own = max((it.gain / it.share for it in explained.controls if it.share), default=0.0)
    rows = [{"name": "this change", "gain": own, "kind": "learned"}]
    rows += [{"name": it.name, "gain": it.gain, "kind": "control"} for it in explained.controls]
    color = alt.Color("kind:N", legend=None, scale=alt.Scale(domain=["learned", "control"], range=[BLUE, GREY]))
    chart = (
        _chart(rows)
        .mark_bar(height={"band": 0.6})
        .encode(
            x=alt.X("gain:Q", title=f"gain in {explained.objective}"),
            y=alt.Y("name:N", title=None, sort=[row["name"] for row in rows], axis=alt.Axis(labelLimit=170)),
            color=color,
            tooltip=[alt.Tooltip("name:N"), alt.Tooltip("gain:Q", format=".4f")],
        )
        .properties(height=34 * len(rows))
    )
    table = [("this change", f"{own:+.4f}", "100 %", "")]
    table += [(it.name, f"{it.gain:+.4f}", _share(it.share), _p(it.p_value)) for it in explained.controls]
    return Figure(
        "controls",
        "Is it more than chance and promotion?",
        "What the change gains, beside changes that know nothing of factors: its own values shuffled, and the best "
        "plain promotion of items. Only what these do not reach can be due to factors.",
        _spec(chart, "Gain of the change beside its controls"),
        Table(("", f"gain in {explained.objective}", "of the gain", "p, corrected"), tuple(table), (1, 2, 3)),
    )


def features(explained: Explained) -> Figure | None:
    """What erasing each factor or direction alone takes back."""
    known = [it for it in explained.features if it.taken_back is not None]
    if not known:
        return None
    rows = [{"label": it.label, "name": it.name, "kind": it.kind, "back": 100 * (it.taken_back or 0.0)} for it in known]
    chart = (
        _chart(rows)
        .mark_bar(height={"band": 0.6})
        .encode(
            x=alt.X("back:Q", title=f"erasing it alone takes back, % of the gain in {explained.objective}"),
            y=alt.Y("label:N", title=None, sort=[row["label"] for row in rows]),
            color=alt.Color("kind:N", title=None, legend=alt.Legend(orient="top"), scale=_two(("direction", "factor"))),
            tooltip=[alt.Tooltip("label:N"), alt.Tooltip("name:N"), alt.Tooltip("back:Q", format=".1f", title="%")],
        )
        .properties(height=26 * len(rows))
    )
    table = [(it.label, it.name, f"{it.size:.4f}", _share(it.taken_back)) for it in explained.features]
    return Figure(
        "features",
        "What each factor is worth",
        "A factor is an axis of the model, a direction an axis of the change itself. The bar is how much of the gain "
        "is lost again when this one alone is taken out.",
        _spec(chart, "Share of the gain that erasing each factor or direction takes back"),
        Table(("", "name", "size", "takes back"), tuple(table), (2, 3)),
    )


def erasure(explained: Explained) -> list[Figure]:
    """What remains of the gain as features are erased, largest first and at random; one chart per manner."""
    made = []
    for by, sentence in zip(TITLES, explained.erasure_sentences, strict=False):
        points = [it for it in explained.erased if it.by == by and it.remaining is not None]
        if points:
            made.append(_erasure(by, points, sentence))
    return made


def _erasure(by: str, points: Sequence[Any], sentence: str) -> Figure:
    rows = [
        {
            "features": it.features,
            "left": 100 * it.remaining,
            "low": 100 * it.low,
            "high": 100 * it.high,
            "which": CURVES[it.which][0],
        }
        for it in points
    ]
    names, colours = zip(*CURVES.values(), strict=True)
    color = alt.Color(
        "which:N", title=None, scale=alt.Scale(domain=names, range=colours), legend=alt.Legend(orient="top", columns=1)
    )
    x = alt.X("features:Q", title="features erased")
    band = _chart(rows).mark_area(opacity=0.15).encode(x=x, y="low:Q", y2="high:Q", color=color)
    line = (
        _chart(rows)
        .mark_line(point=True)
        .encode(
            x=x,
            y=alt.Y("left:Q", title="of the gain that remains, %"),
            color=color,
            tooltip=["which:N", "features:Q", alt.Tooltip("left:Q", format=".0f", title="remains, %")],
        )
    )
    counts = sorted({it.features for it in points})
    left = {(it.which, it.features): f"{100 * it.remaining:.0f} %" for it in points}
    table = tuple((str(n), *(left[which, n] for which in CURVES)) for n in counts)
    return Figure(
        f"erasure-{by}",
        f"Erasing {TITLES[by]}",
        sentence,
        _spec(alt.layer(band, line), f"What remains of the gain as {TITLES[by]} are erased"),
        Table(("erased", *names), table, (0, 1, 2, 3)),
    )


def heat(explained: Explained) -> Figure | None:
    """Items by factors."""
    if not explained.heat:
        return None
    rows = [{"item": it.item, "factor": it.factor, "value": it.value} for it in explained.heat]
    items, factors = (list(dict.fromkeys(row[name] for row in rows)) for name in ("item", "factor"))
    largest = max(abs(it.value) for it in explained.heat) or 1.0
    scale = alt.Scale(domain=[-largest, 0, largest], range=[ORANGE, "#e9ecef", BLUE], interpolate="rgb")
    chart = (
        _chart(rows)
        .mark_rect(stroke="transparent")
        .encode(
            x=alt.X("factor:N", title=None, sort=factors, axis=alt.Axis(labelAngle=-45)),
            y=alt.Y("item:N", title=None, sort=items, axis=alt.Axis(labelLimit=150)),
            color=alt.Color("value:Q", title=None, scale=scale, legend=alt.Legend(orient="top", format="+.2f")),
            tooltip=["item:N", "factor:N", alt.Tooltip("value:Q", format="+.4f")],
        )
        .properties(height=24 * len(items))
    )
    values = {(it.item, it.factor): f"{it.value:+.4f}" for it in explained.heat}
    table = tuple((item, *(values.get((item, factor), "") for factor in factors)) for item in items)
    means = (
        "A cell is what was added to the item's vector in that factor; shown are the items and factors that moved most."
        if explained.heat_side == "item"
        else "Only users' vectors moved, so a cell is what that factor added to the item's score, against the item it "
        "replaced, on average over the lists it came into; shown are the items that came into most lists."
    )
    return Figure(
        "heat",
        "Items and factors",
        f"{means} Blue raises, orange lowers.",
        _spec(chart, "Heat map of items by factors"),
        Table(("item", *factors), table, tuple(range(1, len(factors) + 1))),
    )


# -- shared pieces ----------------------------------------------------------------------------------------------------


def _dots(name: str, title: str, caption: str, rows: Sequence[Change]) -> Figure | None:
    """A dot per row at its relative change, and its interval."""
    known = [row for row in rows if row.relative is not None]
    if not known:
        return None
    plain = [
        {
            "name": row.name,
            "change": 100 * (row.relative or 0.0),
            "low": None if row.low is None else 100 * row.low,
            "high": None if row.high is None else 100 * row.high,
            "kind": "neither" if row.better is None else "better" if row.better else "worse",
            "words": row.words,
        }
        for row in known
    ]
    y = alt.Y("name:N", title=None, sort=[row["name"] for row in plain])
    scale = alt.Scale(domain=["better", "worse", "neither"], range=[GREEN, ORANGE, GREY])
    color = alt.Color("kind:N", title=None, scale=scale, legend=alt.Legend(orient="top"))
    zero = _chart([{"zero": 0}]).mark_rule(color=GREY, strokeDash=[2, 2]).encode(x="zero:Q")
    line = _chart(plain).mark_rule(strokeWidth=2).encode(x=alt.X("low:Q"), x2="high:Q", y=y, color=color)
    dot = (
        _chart(plain)
        .mark_point(size=70, filled=True, opacity=1)
        .encode(
            x=alt.X("change:Q", title="change, %"),
            y=y,
            color=color,
            tooltip=["name:N", "words:N", alt.Tooltip("change:Q", format="+.2f", title="change, %")],
        )
    )
    chart = alt.layer(zero, line, dot).properties(height=max(120, 26 * len(plain)))
    return Figure(name, title, caption, _spec(chart, title), change_table(rows))


def change_table(rows: Sequence[Change]) -> Table:
    """Before and after with the interval of the change; a row that has only one side shows that one."""
    cells = tuple(
        (
            row.name,
            row.words,
            f"{row.n:,}",
            f"{row.before:.4f}",
            f"{row.after:.4f}",
            percent(row.relative),
            "" if row.low is None or row.high is None else f"{percent(row.low)} to {percent(row.high)}",
            _p(row.p_value),
        )
        for row in rows
    )
    return Table(("", "what it is", "n", "before", "after", "change", "95 % interval", "p"), cells, (2, 3, 4, 5, 6, 7))


def now_table(rows: Sequence[Change]) -> Table:
    """Of an audit: values and their intervals."""
    cells = tuple(
        (
            row.name,
            row.words,
            f"{row.n:,}",
            f"{row.before:.4f}",
            "" if row.low is None or row.high is None else f"{row.low:.4f} to {row.high:.4f}",
        )
        for row in rows
    )
    return Table(("", "what it is", "n", "now", "95 % interval"), cells, (2, 3, 4))


def _chart(rows: Sequence[dict[str, Any]]) -> Any:
    return alt.Chart(alt.InlineData(values=list(rows)))


def _spec(chart: Any, description: str) -> dict[str, Any]:
    """As wide as its place on the page; no address of a schema, for nothing is to be looked up."""
    sized = chart.properties(width="container", description=description)
    found: dict[str, Any] = sized.to_dict()
    found.pop("$schema", None)
    found.pop("config", None)  # colours and fonts come from the page, which knows light from dark
    found.setdefault("height", HEIGHT)
    return found


def _two(domain: tuple[str, str]) -> alt.Scale:
    return alt.Scale(domain=list(domain), range=[BLUE, ORANGE])


def _share(share: float | None) -> str:
    return "" if share is None else f"{100 * share:.0f} %".replace("-", "−")


def _budget(budget: float | None) -> str:
    return "" if budget is None else f"{100 * budget:g} %"


def _p(p_value: float | None) -> str:
    return "" if p_value is None else f"{p_value:.3f}" if p_value >= 0.001 else "< 0.001"
