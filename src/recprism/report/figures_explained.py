"""Charts of an explanation: controls, factors, erasure and items. All functions are pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import altair as alt

from recprism.explain.explained import ExplanationInShort
from recprism.report.charts import BLUE, GREEN, GREY, ORANGE, Figure, Table, as_p, as_share, chart_of, spec_of
from recprism.report.content import Explained
from recprism.report.words import NOT_JUDGED, alike

ARITHMETIC = " Nothing reliable was found about factors: read this as arithmetic."
MOST_CATEGORIES = 12
TITLES = {"individual": "entries of every row", "shared": "factors for all"}
CURVES = {
    "top": ("the largest first", BLUE),
    "matched": ("at random, same sum", ORANGE),
    "squares": ("at random, same squares", GREEN),
}


def controls(explained: Explained) -> Figure | None:
    """Draw the gain of the change and of its controls."""
    if not explained.controls:
        return None
    own = explained.gain
    rows = [{"name": "this change", "gain": own, "kind": "learned"}]
    rows += [{"name": it.name, "gain": it.gain, "kind": "control"} for it in explained.controls]
    names = ["this change", *(it.name for it in explained.controls)]
    color = alt.Color("kind:N", legend=None, scale=alt.Scale(domain=["learned", "control"], range=[BLUE, GREY]))
    chart = (
        chart_of(rows)
        .mark_bar(height={"band": 0.6})
        .encode(
            x=alt.X("gain:Q", title=f"gain in {explained.objective}"),
            y=alt.Y("name:N", title=None, sort=names, axis=alt.Axis(labelLimit=170)),
            color=color,
            tooltip=[alt.Tooltip("name:N"), alt.Tooltip("gain:Q", format=".4f")],
        )
        .properties(height=34 * len(rows))
    )
    whole = "100 %" if own is not None and own > 0 else ""  # there are no shares of a loss
    table = [("this change", _signed(own), whole, "")]
    table += [(it.name, _signed(it.gain), as_share(it.share), as_p(it.p_value)) for it in explained.controls]
    return Figure(
        "controls",
        "Is it more than chance and promotion?",
        "The gain of the change and of controls that ignore factors: its own values shuffled, and the best plain "
        "promotion of items. Only a gain that the controls do not reach can be due to factors.",
        spec_of(chart, "Gain of the change and of its controls"),
        Table(("", f"gain in {explained.objective}", "of the gain", "p, corrected"), tuple(table), (1, 2, 3)),
    )


def features(explained: Explained) -> Figure | None:
    """Draw what erasing each factor alone takes back; names are shown only if the verdict holds."""
    known = [it for it in explained.features if it.taken_back is not None]
    if not known:
        return None
    rows = [{"label": it.label, "back": 100 * (it.taken_back or 0.0)} for it in known]
    tooltip = [alt.Tooltip("label:N")]
    if explained.holds:
        rows = [{**row, "name": it.name} for row, it in zip(rows, known, strict=True)]
        tooltip.append(alt.Tooltip("name:N"))
    chart = (
        chart_of(rows)
        .mark_bar(height={"band": 0.6})
        .encode(
            x=alt.X("back:Q", title=f"erasing it alone takes back, % of the gain in {explained.objective}"),
            y=alt.Y("label:N", title=None, sort=[it.label for it in known]),
            tooltip=[*tooltip, alt.Tooltip("back:Q", format=".1f", title="%")],
        )
        .properties(height=26 * len(rows))
    )
    return Figure(
        "features",
        "What each factor is worth" if explained.holds else "What erasing single factors takes back",
        "A factor is an axis of the model. The bar shows how much of the gain is lost when this one alone is erased."
        f"{alike(explained) if explained.holds else ARITHMETIC}",
        spec_of(chart, "Share of the gain that erasing each factor takes back"),
        _features_table(explained),
    )


def _features_table(explained: Explained) -> Table:
    sizes = [(it.label, f"{it.size:.4f}", as_share(it.taken_back)) for it in explained.features]
    nulls = [(f"null: {name}", "", as_share(back)) for name, back in explained.nulls]
    if not explained.holds:
        return Table(("", "size", "takes back"), (*sizes, *nulls), (1, 2))
    named = [(row[0], it.name, *row[1:]) for row, it in zip(sizes, explained.features, strict=True)]
    return Table(("", "name", "size", "takes back"), (*named, *((row[0], "", *row[1:]) for row in nulls)), (2, 3))


def erasure(explained: Explained) -> list[Figure]:
    """Draw what remains of the gain as features are erased, largest first and at random; one chart per manner."""
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
        "which:N",
        title=None,
        scale=alt.Scale(domain=names, range=colours),
        legend=alt.Legend(orient="top", columns=1, symbolOpacity=1),
    )
    x = alt.X("features:Q", title="features erased")
    band = chart_of(rows).mark_area(opacity=0.15).encode(x=x, y="low:Q", y2="high:Q", color=color)
    line = (
        chart_of(rows)
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
        spec_of(alt.layer(band, line), f"What remains of the gain as {TITLES[by]} are erased"),
        Table(("erased", *names), table, (0, 1, 2, 3)),
    )


def heat(explained: Explained) -> Figure | None:
    """Draw the heat map of items by factors."""
    if not explained.heat:
        return None
    rows = [{"item": it.item, "factor": it.factor, "value": it.value} for it in explained.heat]
    items = list(dict.fromkeys(it.item for it in explained.heat))
    factors = list(dict.fromkeys(it.factor for it in explained.heat))
    largest = max(abs(it.value) for it in explained.heat) or 1.0
    scale = alt.Scale(domain=[-largest, 0, largest], range=[ORANGE, "#e9ecef", BLUE], interpolate="rgb")
    chart = (
        chart_of(rows)
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
        else "Only user vectors moved. A cell is what that factor added to the item's score relative to the item it "
        "replaced, as a mean over the lists it entered; shown are the items that entered most lists."
    )
    return Figure(
        "heat",
        "Items and factors",
        f"{means} Blue raises, orange lowers.{'' if explained.holds else ARITHMETIC}",
        spec_of(chart, "Heat map of items by factors"),
        Table(("item", *factors), table, tuple(range(1, len(factors) + 1))),
    )


def categories(rule: ExplanationInShort) -> Figure | None:
    """Draw in how many lists each category is, before and after; the table has its part of the gain, too."""
    if not rule.categories:
        return None
    drawn = rule.categories[:MOST_CATEGORIES]
    rows = [
        {"category": it["category"], "share": 100 * it[key], "lists": words}
        for it in drawn
        for key, words in (("base lists", "before"), ("lists", "after"))
    ]
    y = alt.Y("category:N", title=None, sort=[it["category"] for it in drawn])
    ends = [{"category": it["category"], "share": 100 * it["base lists"], "end": 100 * it["lists"]} for it in drawn]
    lines = chart_of(ends).mark_rule(color=BLUE, opacity=0.5, strokeWidth=2).encode(x="share:Q", x2="end:Q", y=y)
    dots = (
        chart_of(rows)
        .mark_point(filled=True, size=70, opacity=1)
        .encode(
            x=alt.X("share:Q", title="lists with the category, %"),
            y=y,
            color=alt.Color(
                "lists:N",
                title=None,
                legend=alt.Legend(orient="top"),
                scale=alt.Scale(domain=["before", "after"], range=[GREY, BLUE]),
            ),
            tooltip=["category:N", "lists:N", alt.Tooltip("share:Q", format=".1f", title="%")],
        )
    )
    chart = alt.layer(lines, dots).properties(height=22 * len(drawn))
    gains = [name for name in rule.categories[0] if name.startswith("gain of ")]
    table = tuple(
        (
            str(it["category"]),
            *(as_share(it[key]) for key in ("candidates", "base lists", "lists")),
            *(_signed(it[name]) for name in gains),
        )
        for it in rule.categories
    )
    columns = ("category", "of candidates", "lists with it, before", "after", *gains)
    return Figure(
        "categories",
        "Categories before and after",
        "The share of lists with a category, those with the largest part of the gain first. "
        f"{_drawn(len(rule.categories))} The table has their parts of the gain.",
        spec_of(chart, "Share of lists with each category, before and after"),
        Table(columns, table, tuple(range(1, len(columns)))),
    )


def _drawn(n: int) -> str:
    return f"The chart has {MOST_CATEGORIES} of {n:,}." if n > MOST_CATEGORIES else "The chart has all of them."


def _signed(gain: float | None) -> str:
    return NOT_JUDGED if gain is None else f"{gain:+.4f}"
