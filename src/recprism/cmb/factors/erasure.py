"""Erasure: what remains of a gain when some entries of a change are set to 0, and whether it matters which ones.

Erasing the largest entries ("top") also erases the largest sum. The control "matched" therefore erases random entries
with the same sum of |delta|. If "top" takes back more than "matched", the ranking of features is informative. But a few
large entries can also do more than many small ones of the same sum; in pure noise they do. The control "squares"
therefore erases random entries with the same sum of squares, which is what counts for noise.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, Literal, TypeVar

import numpy as np
from numpy.typing import NDArray

from recprism.cmb.factors.change import Change
from recprism.cmb.factors.evaluator import Evaluator
from recprism.cmb.factors.parts import is_small
from recprism.common.checks import random_generator
from recprism.common.progress import ProgressCallback, count_steps
from recprism.errors import InputError

By = Literal["individual", "shared"]
Which = Literal["top", "least", "random", "matched", "squares"]
Array = NDArray[np.float64]
Order = NDArray[np.int64]
Sizes = Mapping[str, Array]
Values = TypeVar("Values", float, Array)

BY: tuple[By, ...] = ("individual", "shared")
WHICH: tuple[Which, ...] = ("top", "least", "random", "matched", "squares")
BY_CHANCE = ("random", "matched", "squares")
POWERS = {"matched": 1, "squares": 2}  # exponents of |delta| in the sum that is matched


@dataclass(frozen=True)
class Faithfulness:
    """The area between the curve of a control ("matched" or "squares") and the curve "top".

    The curves show the remaining gain against the share of erased features. An area above 0 means that the largest
    features carry more of the gain than their size alone. The area rarely exceeds 1.

    Attributes:
        mean: Mean over the draws.
        low: Lower end of the range that holds 95 % of the draws.
        high: Upper end of that range.
    """

    mean: float
    low: float
    high: float


@dataclass(frozen=True, eq=False)
class Erasure:
    """Values of every metric as more and more features are erased.

    Attributes:
        metrics: Names of the m metrics.
        objective: The metric whose gain is examined.
        features: (n,) numbers of erased features, from 0 to d.
        base: (m,) values before the change.
        learned: (m,) values under the whole change.
        curves: by -> which -> (draws, n, m) values; one draw for "top" and "least".
    """

    metrics: tuple[str, ...]
    objective: str
    features: NDArray[np.int64]
    base: Array
    learned: Array
    curves: Mapping[str, Mapping[str, Array]]

    def values(self, by: By, which: Which, metric: str | None = None) -> Array:
        """(draws, n) values of one metric; by default of the objective."""
        return self.curves[by][which][:, :, self._place(metric)]

    def remaining(self, by: By, which: Which, metric: str | None = None) -> Array | None:
        """(draws, n) shares of the whole change that remain; None if the metric hardly changed."""
        return self.share_left(self.values(by, which, metric), metric)

    def share_left(self, values: Values, metric: str | None = None) -> Values | None:
        """Return the share of the whole change that remains at values of a metric; None if it hardly changed."""
        place = self._place(metric)
        base, gain = float(self.base[place]), float(self.learned[place] - self.base[place])
        return None if is_small(gain, base) else (values - base) / gain

    def remaining_range(self, by: By, which: Which, n: int) -> tuple[float, float, float] | None:
        """Mean, minimum and maximum over the draws of what remains of the objective's gain without n features."""
        left = self.remaining(by, which)
        if left is None:
            return None
        drawn = left[:, self._at(n)]
        return float(drawn.mean()), float(drawn.min()), float(drawn.max())

    def taken_back(self, by: By, which: Which, n: int, metric: str | None = None) -> float | None:
        """Share of the change that erasing n features undoes, as a mean over the draws."""
        left = self.remaining(by, which, metric)
        return None if left is None else float(1 - left[:, self._at(n)].mean())

    def faithfulness(self, by: By, against: Which = "matched") -> Faithfulness | None:
        """Compare "top" with a control in the objective; None if the objective hardly changed."""
        top, matched = self.remaining(by, "top"), self.remaining(by, against)
        if top is None or matched is None:
            return None
        areas = np.trapezoid(matched - top, self.features / self.features[-1], axis=1)
        low, high = np.quantile(areas, [0.025, 0.975])
        return Faithfulness(float(areas.mean()), float(low), float(high))

    def sentence(self, by: By, n: int) -> str:
        """Describe the erasure of n features and the areas of the whole curves."""
        top, matched, squares = (self.taken_back(by, which, n) for which in ("top", "matched", "squares"))
        areas = [self.faithfulness(by, which) for which in ("matched", "squares")]
        found = [area for area in areas if area is not None]
        if top is None or matched is None or squares is None or not found:
            return f"{self.objective} hardly changed: there is no gain that erasing could take back."
        whose = f"the {n} largest entries of every row" if by == "individual" else f"the {n} factors that moved most"
        knows = "more than size alone" if min(area.low for area in found) > 0 else "no more than size alone"
        figures = " and ".join(f"{area.mean:+.3f}, {area.low:+.3f} to {area.high:+.3f}" for area in found)
        return (
            f"Erasing {whose} takes back {top:.0%} of the gain in {self.objective}; as much erased at random takes "
            f"back {matched:.0%} (by the sum of |delta|) or {squares:.0%} (of squares). Over the whole curve the "
            f"ranking tells {knows} (areas {figures})."
        )

    def rows(self) -> list[dict[str, Any]]:
        """Return one row per curve, number of features and metric: mean and range over the draws, and what remains."""
        return [
            self._row(by, which, place, metric)
            for by in BY
            for which in WHICH
            for place in range(len(self.features))
            for metric in self.metrics
        ]

    def _row(self, by: By, which: Which, place: int, metric: str) -> dict[str, Any]:
        values, left = self.values(by, which, metric)[:, place], self.remaining(by, which, metric)
        return {
            "by": by,
            "which": which,
            "features": int(self.features[place]),
            "metric": metric,
            "value": float(values.mean()),
            "low": float(values.min()),
            "high": float(values.max()),
            "remaining": None if left is None else float(left[:, place].mean()),
        }

    def to_dict(self) -> dict[str, Any]:
        """Return plain values, ready for JSON."""
        areas = {which: {by: self.faithfulness(by, which) for by in BY} for which in WHICH if which in POWERS}
        return {
            "objective": self.objective,
            "base": dict(zip(self.metrics, self.base.tolist(), strict=True)),
            "learned": dict(zip(self.metrics, self.learned.tolist(), strict=True)),
            "faithfulness": {
                which: {by: None if area is None else asdict(area) for by, area in of.items()}
                for which, of in areas.items()
            },
            "rows": self.rows(),
        }

    def _place(self, metric: str | None) -> int:
        name = metric or self.objective
        if name not in self.metrics:
            raise InputError(f"{name} was not judged; there are {', '.join(self.metrics)}")
        return self.metrics.index(name)

    def _at(self, n: int) -> int:
        if n not in self.features:
            raise InputError(f"{n} features were not erased; there are {', '.join(map(str, self.features))}")
        return int(np.searchsorted(self.features, n))


def erase(
    change: Change,
    evaluator: Evaluator,
    objective: str = "subtopic_coverage@10",
    *,
    features: Sequence[int] | None = None,
    draws: int = 5,
    seed: int = 0,
    on_step: ProgressCallback | None = None,
) -> Erasure:
    """Erase more and more of a change: per row and for all rows, in every order.

    Args:
        change: The change of the vectors.
        evaluator: Ranks and evaluates.
        objective: The metric whose gain is examined.
        features: Numbers of features to erase; 0 and all are always included. By default about a dozen numbers.
        draws: Draws of each random order.
        seed: Seed of the random orders.
        on_step: Receives the progress after every curve.
    """
    if draws < 1:
        raise InputError(f"draws={draws}: at least one draw is needed")
    for n in features or ():
        check_features(n, change.base.dim)
    evaluator = replace(evaluator, metrics=tuple(dict.fromkeys((objective, *evaluator.metrics))))
    counts = usual_features(change.base.dim) if features is None else tuple(sorted({0, *features, change.base.dim}))
    before, after = evaluator.means(change.base), evaluator.means(change.after)
    names = tuple(before)
    ends = {0: np.array(list(after.values())), counts[-1]: np.array(list(before.values()))}

    def curve(by: By, which: Which, draw: int) -> Array:
        return np.array([ends[n] if n in ends else point(by, which, draw, n) for n in counts])

    def point(by: By, which: Which, draw: int, n: int) -> Array:
        chance = random_generator(seed, draw)  # a new generator per point keeps one order along the curve
        return np.array(list(evaluator.means(erased(change, which, by, n, chance).after).values()))

    wanted = [(by, which, draw) for by in BY for which in WHICH for draw in range(draws if which in BY_CHANCE else 1)]
    found: dict[str, dict[str, list[Array]]] = {by: {which: [] for which in WHICH} for by in BY}
    step = count_steps(on_step, "erasing", len(wanted))
    for by, which, draw in wanted:
        found[by][which].append(curve(by, which, draw))
        step()
    curves = {by: {which: np.stack(drawn) for which, drawn in kinds.items()} for by, kinds in found.items()}
    return Erasure(names, _named(objective, names), np.array(counts), ends[counts[-1]], ends[0], curves)


def usual_features(dim: int) -> tuple[int, ...]:
    """Return about a dozen numbers from 0 to dim, denser near 0, including the paper's 5 and 10."""
    shares = (0, 0.02, 0.04, 0.06, 0.16, 0.3, 0.4, 0.6, 0.8, 1)
    return tuple(sorted({*(round(share * dim) for share in shares), *(n for n in (5, 10) if n <= dim)}))


def check_features(n: int, dim: int) -> None:
    """Refuse a number of features that cannot be erased."""
    if not 0 <= n <= dim:
        raise InputError(f"{n} features cannot be erased; there are {dim}")


def _named(objective: str, names: Sequence[str]) -> str:
    """Return the objective as the evaluator writes it: the first name, because it was requested first."""
    return objective if objective in names else names[0]


def erased(change: Change, which: Which, by: By, n: int, generator: np.random.Generator | None = None) -> Change:
    """Return the change without n of its features.

    Args:
        change: The change of the vectors.
        which: "top" erases the n largest, "least" the n smallest, "random" n random ones. "matched" erases random ones
            until the sum of |delta| equals that of the n largest; "squares" does the same for delta**2. The sums are
            per row for "individual" and in total for "shared". The last entry is erased in part.
        by: "individual" erases n entries of every row (an item, or a user if user vectors moved), chosen per row.
            "shared" erases n factors for all rows, on every side that moved.
        n: Number of features.
        generator: Random order; generators in the same state give the same order for any n.
    """
    if by not in _KEPT:
        raise InputError(f"features are erased by {' or '.join(_KEPT)}, not {by!r}")
    if which not in WHICH:
        raise InputError(f"erase {', '.join(WHICH)}, not {which!r}")
    check_features(n, change.base.dim)
    sizes = {name: np.abs(side).astype(np.float64) for name, side in change.sides.items()}
    kept = _KEPT[by](sizes, which, n, generator or np.random.default_rng())
    return change.replaced(**{name: (side * kept[name]).astype(np.float32) for name, side in change.sides.items()})


def _of_each_row(sizes: Sizes, which: Which, n: int, generator: np.random.Generator) -> dict[str, Array]:
    power = POWERS.get(which, 1)
    return {name: _kept(size, size**power, which, n, generator) for name, size in sizes.items()}


def _of_all_rows(sizes: Sizes, which: Which, n: int, generator: np.random.Generator) -> dict[str, Array]:
    """Rank factors by means, so that the side with more rows does not dominate; match sums."""
    means = np.sum([size.mean(axis=0) for size in sizes.values()], axis=0)
    totals = np.sum([(size ** POWERS.get(which, 1)).sum(axis=0) for size in sizes.values()], axis=0)
    return dict.fromkeys(sizes, _kept(means[None], totals[None], which, n, generator))


_KEPT: dict[str, Callable[[Sizes, Which, int, np.random.Generator], dict[str, Array]]] = {
    "individual": _of_each_row,
    "shared": _of_all_rows,
}


def _kept(ranked_by: Array, sizes: Array, which: Which, n: int, generator: np.random.Generator) -> Array:
    """(rows, d) share of every entry that stays; ``sizes`` (rows, d) are |delta| or its squares."""
    if which in POWERS:
        largest = _falling(ranked_by)[:, :n]
        wanted = np.take_along_axis(sizes, largest, axis=1).sum(axis=1)
        return _without(sizes, _shuffled(sizes.shape, generator), wanted) ** (1 / POWERS[which])
    orders = {
        "top": lambda: _falling(ranked_by),
        "least": lambda: _falling(-ranked_by),
        "random": lambda: _shuffled(sizes.shape, generator),
    }
    kept = np.ones_like(sizes)
    np.put_along_axis(kept, orders[which]()[:, :n], 0.0, axis=1)
    return kept


def _without(sizes: Array, order: Order, wanted: Array) -> Array:
    """(rows, d) shares that stay when entries are erased in ``order`` up to a total size of ``wanted`` (rows,)."""
    in_order = np.take_along_axis(sizes, order, axis=1)
    gone_before = np.cumsum(in_order, axis=1) - in_order
    gone = np.clip(wanted[:, None] - gone_before, 0, in_order)
    share = np.divide(gone, in_order, out=np.zeros_like(gone), where=in_order > 0)
    kept = np.empty_like(sizes)
    np.put_along_axis(kept, order, 1 - share, axis=1)
    return kept


def _falling(values: Array) -> Order:
    """Sort every row, largest first; ties keep the order of the columns."""
    return np.argsort(-values, axis=1, kind="stable")


def _shuffled(shape: tuple[int, ...], generator: np.random.Generator) -> Order:
    return np.argsort(generator.random(shape), axis=1)
