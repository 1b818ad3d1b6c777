"""The explanation as an object: arrays, slices, tables and JSON. It does not depend on how the change was made."""

from __future__ import annotations

import html
import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from recprism.cmb.factors import _ranking as ranking
from recprism.cmb.factors.change import Change
from recprism.cmb.factors.controls import Controls
from recprism.cmb.factors.naming import NO_NAME, Name
from recprism.cmb.factors.nulls import Null
from recprism.cmb.factors.parts import Parts
from recprism.cmb.factors.swaps import Swaps
from recprism.cmb.factors.verdict import Verdict
from recprism.common.display import Displayed
from recprism.common.ids import as_id_array, id_positions
from recprism.errors import InputError

if TYPE_CHECKING:
    import polars as pl

SCHEMA, VERSION = "recprism.explanation", 2
FloatArray = NDArray[np.float64]
ARITHMETIC = "The lines below describe these vectors, and what erasing parts of them takes back."
UNCHECKED = "No controls were run: the lines below are a decomposition and say nothing about causes."


@dataclass(frozen=True, eq=False)
class Row:
    """A factor, and the effect of erasing it alone.

    Attributes:
        number: Its number.
        label: Its label, such as "Factor 3".
        side: Whose vectors hold it.
        size: Its mean absolute change.
        raised: Number of items (users, on the user side) for which it was raised by more than a negligible amount.
        lowered: The same for items for which it was lowered.
        erased: Metric -> value when it alone is erased.
        name: Its name, if labels were given.
    """

    number: int
    label: str
    side: str
    size: float
    raised: int
    lowered: int
    erased: Mapping[str, float]
    name: Name | None = None

    @property
    def words(self) -> str:
        """The name as a phrase."""
        return NO_NAME if self.name is None else self.name.words()


@dataclass(frozen=True, eq=False, repr=False)
class Explanation(Displayed):
    """Why lists changed, at three depths: parts, factors, single swaps.

    Attributes:
        change: The change, on the axes that are shown.
        axes: "raw", or the method that chose the axes.
        objective: The metric whose gain is explained.
        cost: The metric of accuracy.
        base: Metric -> value before the change.
        after: Metric -> value under the change.
        parts: Plain promotion of items and the rest.
        controls: Randomised comparisons; None if they were not run.
        verdict: Whether a claim about factors is supported; None without controls.
        factors: The largest factors, largest first.
        together: Metric -> value when all factors shown are erased at once.
        swaps: Every swap and its parts.
        titles: (n_items,) titles of the items.
        nulls: What erasures without a meaning leave, to read the figures of factors against.
        agreement: Spearman's correlation between rankings of factors on separate groups of users; None if unknown.
        notes: What a reader must know about the controls.
    """

    change: Change
    axes: str
    objective: str
    cost: str
    base: Mapping[str, float]
    after: Mapping[str, float]
    parts: Parts
    controls: Controls | None
    verdict: Verdict | None
    factors: tuple[Row, ...]
    together: Mapping[str, float]
    swaps: Swaps
    titles: Sequence[str]
    nulls: tuple[Null, ...] = ()
    agreement: ranking.Agreement | None = None
    notes: tuple[str, ...] = field(default_factory=tuple)

    @property
    def says_something(self) -> bool:
        """Whether the controls support a claim about factors."""
        return self.verdict is not None and self.verdict.holds

    def taken_back(self, erased: Mapping[str, float], metric: str | None = None) -> float | None:
        """Return the share of a metric's change that an erasure undoes; None if the metric hardly changed.

        Args:
            erased: Metric -> value after the erasure, such as ``row.erased``.
            metric: Name of the metric; by default the objective.
        """
        name = metric or self.objective
        if self.parts[name].bias_share is None:  # the change is too small to be divided
            return None
        return (self.after[name] - erased[name]) / (self.after[name] - self.base[name])

    def shared(self, side: str = "item", rows: ArrayLike | None = None) -> FloatArray:
        """``(d,)`` mean of the absolute change over all items (users), or over the given rows."""
        return ranking.shared(self._side(side), rows)

    def individual(self, side: str = "item", rows: ArrayLike | None = None) -> FloatArray:
        """``(n, d)`` absolute change of each item (user)."""
        return ranking.individual(self._side(side), rows)

    def user_row(self, user: Any) -> int:
        """Return the row number of a user id."""
        return int(id_positions(as_id_array([user], "user"), self.change.base.user_ids, "user")[0])

    def item_row(self, item: Any) -> int:
        """Return the row number of an item id."""
        return int(id_positions(as_id_array([item], "item"), self.change.base.item_ids, "item")[0])

    def label(self, factor: int) -> str:
        """Return the label of a factor."""
        return label_of(self.change, self.axes, factor)

    def sentences(self) -> list[str]:
        """Return all sentences: findings, factors if the verdict allows them, and their stability."""
        rows = self.factors if self.may_speak() else ()
        return [*self.findings(), *(self.about(row) for row in rows), *self.summary()]

    def findings(self) -> list[str]:
        """Describe plain promotion first, then the verdict about factors."""
        lines = [self.parts.sentence(self.objective)]
        lines.append(UNCHECKED if self.verdict is None else self.verdict.sentence())
        lines += self.notes
        if self.verdict is not None and self.verdict.reason == "known users":
            lines.append(ARITHMETIC)
        return lines

    def may_speak(self) -> bool:
        """Whether single factors may be described: not if controls reach the same gain."""
        return self.verdict is None or self.verdict.reason in ("holds", "known users")

    def summary(self) -> list[str]:
        """Describe all factors together, and whether other groups of users give the same ranking."""
        lines = self.said_together() if self.may_speak() else []
        return lines if self.agreement is None else [*lines, self.stability()]

    def said_together(self) -> list[str]:
        """Describe what erasing all shown factors undoes."""
        if len(self.factors) < 2:
            return []
        return [f"All {len(self.factors)} factors together: {self._effect(self.together, 'them')}"]

    def about(self, row: Row) -> str:
        """Describe a factor: its name, what it moves, and what erasing it alone undoes."""
        whom = "users" if row.side == "user" else "items"
        moved = f"was raised for {row.raised:,} {whom} and lowered for {row.lowered:,}"
        return f"{row.label} ({row.words}) {moved}. {self._effect(row.erased, 'it alone')}"

    def _effect(self, erased: Mapping[str, float], what: str) -> str:
        """Describe the effect of an erasure; ``erased``: metric -> value after it."""
        share = self.taken_back(erased)
        if share is None:
            return f"{self.objective} hardly changed: there is no gain to take back."
        gained = self.after[self.objective] >= self.base[self.objective]
        part = f"{round(share, 2) + 0.0:.0%} of the {'gain' if gained else 'change'} in {self.objective}"
        return f"Erasing {what} takes back {part}{self._price(erased)}."

    def _price(self, erased: Mapping[str, float]) -> str:
        """Describe the accuracy that the erasure brings back, in percentage points of the base value."""
        name = self.cost
        base = self.base[name]
        if not math.isfinite(base):
            return f"; {name} could not be judged"
        if not base or self.after[name] >= base:
            return f"; {name} did not lose"
        points = round(100 * (erased[name] - self.after[name]) / base, 1) + 0.0
        loss = 100 * (1 - self.after[name] / base)
        return f" and {points:.1f} points of the {name} loss of {loss:.1f} %"

    def stability(self) -> str:
        """Describe how far separate groups of users agree on the ranking of factors."""
        found = self.agreement
        assert found is not None
        interval = "" if math.isnan(found.low) else f" ({found.low:.2f} to {found.high:.2f})"
        return (
            f"On {found.n_rankings} separate groups of users the rankings of factors agree with a rank correlation of "
            f"{found.mean:.2f}{interval}."
        )

    def to_frame(self) -> pl.DataFrame:
        """Return one row per factor, with the effect of erasing it on the objective and the cost."""
        import polars as pl

        return pl.DataFrame([self._plain(row) for row in self.factors], infer_schema_length=None)

    def to_dict(self) -> dict[str, Any]:
        """Return plain values, ready for JSON; NaN and infinity become None."""
        plain: dict[str, Any] = finite(self._everything())
        return plain

    def _facts(self) -> dict[str, Any]:
        gain = self.after[self.objective] - self.base[self.objective]
        said = "no controls" if self.verdict is None else "holds" if self.verdict.holds else "refused"
        return {"objective": self.objective, "gain": float(gain), "axes": self.axes, "claim_about_factors": said}

    def _everything(self) -> dict[str, Any]:
        return {
            "schema": SCHEMA,
            "version": VERSION,
            "objective": self.objective,
            "cost": self.cost,
            "axes": self.axes,
            "base": dict(self.base),
            "after": dict(self.after),
            "sentences": self.sentences(),
            "parts": self.parts.to_dict(),
            "verdict": None if self.verdict is None else self.verdict.to_dict(),
            "controls": None if self.controls is None else self.controls.to_dict(),
            "factors": [self._plain(row) for row in self.factors],
            "together": dict(self.together),
            "nulls": [{"name": it.name, "taken_back": self.taken_back(it.values)} for it in self.nulls],
            "shared": {side: self.shared(side).tolist() for side in self.change.sides},
            "agreement": None if self.agreement is None else asdict(self.agreement),
            "swaps": self._swaps(),
            "notes": list(self.notes),
        }

    def to_json(self) -> str:
        """Return the JSON text; it contains schema and version."""
        return json.dumps(self.to_dict(), ensure_ascii=False)

    def _repr_html_(self) -> str:
        lines = "".join(f"<p>{html.escape(line)}</p>" for line in self.sentences())
        return f"<div>{lines}{_html_table([self._plain(row) for row in self.factors])}</div>"

    def _side(self, side: str) -> NDArray[np.float32]:
        if side not in self.change.sides:
            raise InputError(f"the {side} side did not move; there is {' and '.join(self.change.sides)}")
        return self.change.sides[side]

    def _plain(self, row: Row) -> dict[str, Any]:
        return {
            "number": row.number,
            "label": row.label,
            "side": row.side,
            "name": row.words,
            "p_value": None if row.name is None else row.name.p_value,
            "size": row.size,
            "raised": row.raised,
            "lowered": row.lowered,
            "taken_back": self.taken_back(row.erased),
            "taken_back_of_cost": self.taken_back(row.erased, self.cost),
            **{f"without, {metric}": row.erased[metric] for metric in (self.objective, self.cost)},
        }

    def _swaps(self) -> dict[str, Any]:
        mean = {side: part.tolist() for side, part in self.swaps.mean_parts().items()}
        return {"count": len(self.swaps), "users": len(np.unique(self.swaps.users)), "mean_parts": mean}


def label_of(change: Change, axes: str, factor: int) -> str:
    """Return the name of a raw feature, or the number of a latent factor."""
    names = change.base.settings.get("features")
    return str(names[factor]) if axes == "raw" and names else f"Factor {factor}"


def _html_table(rows: list[dict[str, Any]]) -> str:
    if not rows:
        return ""
    head = "".join(f"<th>{html.escape(name)}</th>" for name in rows[0])
    body = "".join("<tr>" + "".join(f"<td>{_cell(value)}</td>" for value in row.values()) + "</tr>" for row in rows)
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


def _cell(value: Any) -> str:
    return f"{value:.4g}" if isinstance(value, float) else html.escape("" if value is None else str(value))


def finite(value: Any) -> Any:
    """Return plain values with None for NaN and infinity."""
    if isinstance(value, dict):
        return {name: finite(part) for name, part in value.items()}
    if isinstance(value, list | tuple):
        return [finite(part) for part in value]
    return None if isinstance(value, float) and not np.isfinite(value) else value
