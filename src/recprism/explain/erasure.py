"""Erasure: what is left of a gain when some entries of a change are set to 0, and whether it matters which ones.

To erase the largest entries is also to erase the most. So beside "top" stands "matched": entries chosen at random until
the same sum of |delta| is gone. What "top" takes back beyond that is what the ranking of features knows; or else that
few large entries do more than many small ones of the same sum, as they do even in pure noise. Hence "squares", which
removes the same sum of squares: for noise, that is what counts.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import NDArray

from recprism.data.progress import ProgressCallback, count_steps
from recprism.errors import InputError
from recprism.explain.change import Change
from recprism.explain.evaluator import Evaluator
from recprism.explain.parts import is_small

if TYPE_CHECKING:
    import polars as pl

By = Literal["individual", "shared"]
Which = Literal["top", "least", "random", "matched", "squares"]
Array = NDArray[np.float64]
Order = NDArray[np.int64]
Sizes = Mapping[str, Array]

BY: tuple[By, ...] = ("individual", "shared")
WHICH: tuple[Which, ...] = ("top", "least", "random", "matched", "squares")
BY_CHANCE = ("random", "matched", "squares")
POWERS = {"matched": 1, "squares": 2}  # of |delta|, in the sum that must agree


@dataclass(frozen=True)
class Faithfulness:
    """The area between the curves "matched" (or "squares") and "top": of the gain that remains, over the share of
    features that is erased.

    Above 0: the largest features carry more of the gain than their size alone would. It can hardly pass 1.

    mean, low, high: over the draws; low and high hold 95 % of the draws between them
    """

    mean: float
    low: float
    high: float


@dataclass(frozen=True, eq=False)
class Erasure:
    """What every metric becomes as more and more features are erased.

    features: (n,) how many were erased, from 0 to d
    base, learned: (m,) the metrics before the change and under all of it
    curves: by -> which -> (draws, n, m); one draw for top and least
    """

    metrics: tuple[str, ...]
    objective: str
    features: NDArray[np.int64]
    base: Array
    learned: Array
    curves: Mapping[str, Mapping[str, Array]]

    def values(self, by: By, which: Which, metric: str | None = None) -> Array:
        """(draws, n) of one metric; the objective unless named."""
        return self.curves[by][which][:, :, self._place(metric)]

    def remaining(self, by: By, which: Which, metric: str | None = None) -> Array | None:
        """(draws, n) the share of the whole change that is left; None where the metric hardly changed."""
        place = self._place(metric)
        gain = self.learned[place] - self.base[place]
        if is_small(gain, self.base[place]):
            return None
        return np.asarray((self.values(by, which, metric) - self.base[place]) / gain)

    def taken_back(self, by: By, which: Which, n: int, metric: str | None = None) -> float | None:
        """The share of the change that is gone once n features are; the mean over draws."""
        left = self.remaining(by, which, metric)
        return None if left is None else float(1 - left[:, self._at(n)].mean())

    def faithfulness(self, by: By, against: Which = "matched") -> Faithfulness | None:
        """In the objective; None where it hardly changed."""
        top, matched = self.remaining(by, "top"), self.remaining(by, against)
        if top is None or matched is None:
            return None
        areas = np.trapezoid(matched - top, self.features / self.features[-1], axis=1)
        low, high = np.quantile(areas, [0.025, 0.975])
        return Faithfulness(float(areas.mean()), float(low), float(high))

    def sentence(self, by: By, n: int) -> str:
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
        """One per curve, number of features and metric: the mean over draws, their range, and what remains."""
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

    def to_frame(self) -> pl.DataFrame:
        import polars as pl

        return pl.DataFrame(self.rows(), infer_schema_length=None)

    def to_dict(self) -> dict[str, Any]:
        """Plain values only, ready for JSON."""
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
    judge: Evaluator,
    objective: str = "subtopic_coverage@10",
    *,
    features: Sequence[int] | None = None,
    draws: int = 5,
    seed: int = 0,
    on_step: ProgressCallback | None = None,
) -> Erasure:
    """Erase more and more of a change, by Individual and by Shared, in all manners.

    features: how many to erase; 0 and all are always among them. About a dozen numbers unless given
    draws: of the manners that leave it to chance; on_step: called with "erasing" after every curve
    """
    if draws < 1:
        raise InputError(f"draws={draws}: at least one draw is needed")
    wrong = [n for n in features or () if not 0 <= n <= change.base.dim]
    if wrong:
        raise InputError(f"{wrong[0]} features cannot be erased; there are {change.base.dim}")
    judge = replace(judge, metrics=tuple(dict.fromkeys((objective, *judge.metrics))))
    counts = usual_features(change.base.dim) if features is None else tuple(sorted({0, *features, change.base.dim}))
    before, after = judge.means(change.base), judge.means(change.after)
    names = tuple(before)
    ends = {0: np.array(list(after.values())), counts[-1]: np.array(list(before.values()))}

    def curve(by: By, which: Which, draw: int) -> Array:
        return np.array([ends[n] if n in ends else point(by, which, draw, n) for n in counts])

    def point(by: By, which: Which, draw: int, n: int) -> Array:
        chance = np.random.default_rng([seed, draw])  # the same order along the whole curve
        return np.array(list(judge.means(erased(change, which, by, n, chance).after).values()))

    wanted = [(by, which, draw) for by in BY for which in WHICH for draw in range(draws if which in BY_CHANCE else 1)]
    found: dict[str, dict[str, list[Array]]] = {by: {which: [] for which in WHICH} for by in BY}
    step = count_steps(on_step, "erasing", len(wanted))
    for by, which, draw in wanted:
        found[by][which].append(curve(by, which, draw))
        step()
    curves = {by: {which: np.stack(drawn) for which, drawn in kinds.items()} for by, kinds in found.items()}
    return Erasure(names, _named(objective, names), np.array(counts), ends[counts[-1]], ends[0], curves)


def usual_features(dim: int) -> tuple[int, ...]:
    """About a dozen numbers from 0 to dim, denser where there are few, with the paper's 5 and 10 among them."""
    shares = (0, 0.02, 0.04, 0.06, 0.16, 0.3, 0.4, 0.6, 0.8, 1)
    return tuple(sorted({*(round(share * dim) for share in shares), *(n for n in (5, 10) if n <= dim)}))


def _named(objective: str, names: Sequence[str]) -> str:
    """The objective as the judge writes it: the first, since it was asked for first."""
    return objective if objective in names else names[0]


def erased(change: Change, which: Which, by: By, n: int, generator: np.random.Generator | None = None) -> Change:
    """The change without n of its features.

    by: "individual" erases n entries of every row (an item, or a user where user vectors moved), each row its own;
        "shared" erases n factors for all rows, and on both sides where both moved
    which: the n largest, the n smallest, n at random, or at random until as much |delta| ("matched") or delta**2
        ("squares") is gone as the n largest hold: per row for individual, in all for shared; of the last entry only
        the part that is needed goes
    generator: leaves it to chance; generators in the same state choose in the same order for any n
    """
    if by not in _KEPT:
        raise InputError(f"features are erased by {' or '.join(_KEPT)}, not {by!r}")
    if which not in WHICH:
        raise InputError(f"erase {', '.join(WHICH)}, not {which!r}")
    if not 0 <= n <= change.base.dim:
        raise InputError(f"{n} features cannot be erased; there are {change.base.dim}")
    sizes = {name: np.abs(side).astype(np.float64) for name, side in change.sides.items()}
    kept = _KEPT[by](sizes, which, n, generator or np.random.default_rng())
    return change.replaced(**{name: (side * kept[name]).astype(np.float32) for name, side in change.sides.items()})


def shared_sizes(change: Change) -> Array:
    """(d,) the mean of |delta| per factor over the rows of a side, added up over the sides: what Shared ranks by."""
    means = [np.abs(side).astype(np.float64).mean(axis=0) for side in change.sides.values()]
    return np.asarray(np.sum(means, axis=0))


def _of_each_row(sizes: Sizes, which: Which, n: int, generator: np.random.Generator) -> dict[str, Array]:
    power = POWERS.get(which, 1)
    return {name: _kept(size, size**power, which, n, generator) for name, size in sizes.items()}


def _of_all_rows(sizes: Sizes, which: Which, n: int, generator: np.random.Generator) -> dict[str, Array]:
    """Factors are ranked by means, so that the side with more rows does not decide alone; sums are what is matched."""
    means = np.sum([size.mean(axis=0) for size in sizes.values()], axis=0)
    totals = np.sum([(size ** POWERS.get(which, 1)).sum(axis=0) for size in sizes.values()], axis=0)
    return dict.fromkeys(sizes, _kept(means[None], totals[None], which, n, generator))


_KEPT: dict[str, Callable[[Sizes, Which, int, np.random.Generator], dict[str, Array]]] = {
    "individual": _of_each_row,
    "shared": _of_all_rows,
}


def _kept(ranked_by: Array, sizes: Array, which: Which, n: int, generator: np.random.Generator) -> Array:
    """(rows, d) the share of every entry that stays; ranked_by, sizes (|delta| or its squares): (rows, d)."""
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
    """(rows, d) shares that stay when entries go in ``order`` until ``wanted`` (rows,) of each row's size is gone."""
    in_order = np.take_along_axis(sizes, order, axis=1)
    gone_before = np.cumsum(in_order, axis=1) - in_order
    gone = np.clip(wanted[:, None] - gone_before, 0, in_order)
    share = np.divide(gone, in_order, out=np.zeros_like(gone), where=in_order > 0)
    kept = np.empty_like(sizes)
    np.put_along_axis(kept, order, 1 - share, axis=1)
    return kept


def _falling(values: Array) -> Order:
    """Largest first in every row; equal ones in the order of their columns."""
    return np.argsort(-values, axis=1, kind="stable")


def _shuffled(shape: tuple[int, ...], generator: np.random.Generator) -> Order:
    return np.argsort(generator.random(shape), axis=1)
