"""Building blocks of charts: colours, parts of a specification, cells of tables."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import altair as alt

BLUE, ORANGE, GREEN, GREY = "#3b7dd8", "#d9730d", "#2a9d6f", "#8a919c"  # each readable on white and on near-black
HEIGHT = 300


@dataclass(frozen=True)
class Table:
    """A table of text.

    Attributes:
        columns: Headings.
        rows: Cells.
        numeric: Indices of the columns that are aligned to the right.
    """

    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    numeric: tuple[int, ...] = ()


@dataclass(frozen=True)
class Figure:
    """A chart.

    Attributes:
        name: Its id on the page.
        title: Its heading.
        caption: What to see.
        spec: A vega-lite specification without a schema address.
        table: The same data as a table.
    """

    name: str
    title: str
    caption: str
    spec: dict[str, Any]
    table: Table


def chart_of(rows: Sequence[dict[str, Any]]) -> Any:
    return alt.Chart(alt.InlineData(values=list(rows)))


def spec_of(chart: Any, description: str) -> dict[str, Any]:
    """Return a specification as wide as its container; without a schema address, because pages load nothing."""
    sized = chart.properties(width="container", description=description)
    found: dict[str, Any] = sized.to_dict()
    found.pop("$schema", None)
    found.pop("config", None)  # colours and fonts come from the page, for light and dark mode
    found.setdefault("height", HEIGHT)
    return found


def as_share(share: float | None) -> str:
    return "" if share is None else f"{100 * share:.0f} %".replace("-", "−")


def as_budget(budget: float | None) -> str:
    return "" if budget is None else f"{100 * budget:g} %"


def as_certified(budget: float | None) -> str:
    return "not certified" if budget is None else f"within {as_budget(budget)}"


def as_p(p_value: float | None) -> str:
    return "" if p_value is None else f"{p_value:.3f}" if p_value >= 0.001 else "< 0.001"
