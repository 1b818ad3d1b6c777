"""The randomised holdout: requests at another price, compared with those at the usual price.

Both arms are compared as they were drawn, with all their fallbacks. Each arm has its own confidence sequence. The
difference is within the differences of their ends whenever both hold.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

import polars as pl

from recprism.operate.served.confidence import Interval, confidence_interval
from recprism.operate.served.figures import Scope

USUAL, HOLDOUT = "usual price", "holdout"
INTERVALS = 6
"""Intervals that hold together: of coverage, hit rate and NDCG, in two arms."""
WITHOUT_LABELS = 2
"""The same without labels: of coverage alone."""


@dataclass(frozen=True)
class HoldoutArm:
    """The requests at one price.

    Attributes:
        arm: "usual price" or "holdout".
        price: Mean trade-off of its requests, where the rule made a list.
        requests: Number of requests.
        users: Users whose first request in the log is among them; the other figures are those of these requests.
        coverage: Subtopic coverage of the shown lists.
        hit_rate: Share of requests with at least one taken item in the shown list; None without labels.
        ndcg: NDCG of the shown lists, 0 if nothing was taken; None without labels.
    """

    arm: str
    price: float
    requests: int
    users: int
    coverage: Interval
    hit_rate: Interval | None
    ndcg: Interval | None


@dataclass(frozen=True)
class HoldoutResult:
    """What the holdout shows about the price.

    Attributes:
        usual: The requests at the usual price.
        holdout: The requests at the holdout's price.
        coverage: Coverage at the higher price minus that at the lower price.
        hit_rate: Hit rate at the higher price minus that at the lower price; None without labels.
        ndcg: The same for NDCG.
        trade_off: Points of coverage gained per point of hit rate lost; None if it is not decided.
    """

    usual: HoldoutArm
    holdout: HoldoutArm
    coverage: Interval
    hit_rate: Interval | None
    ndcg: Interval | None
    trade_off: Interval | None

    @property
    def loss(self) -> Interval | None:
        """Share of the hit rate that the usual price loses against a lower one of the holdout."""
        usual, lower = self.usual.hit_rate, self.holdout.hit_rate
        if usual is None or lower is None or self.holdout.price >= self.usual.price or lower.low <= 0:
            return None
        return Interval(1 - usual.mean / lower.mean, 1 - usual.high / lower.low, 1 - usual.low / lower.high, lower.n)

    def sentence(self) -> str:
        """Describe both differences and the trade-off."""
        prices = sorted((self.usual.price, self.holdout.price))
        found = f"Price {prices[1]:.3g} against {prices[0]:.3g}: coverage {_points(self.coverage)}"
        if self.hit_rate is None:
            return f"{found}; the hit rate is not known without a table of what users took."
        found += f", hit rate {_points(self.hit_rate)}"
        if self.trade_off is not None:
            ends = f"{self.trade_off.low:.2g} to {self.trade_off.high:.2g}"
            return f"{found}: {self.trade_off.mean:.2g} points of coverage per point of hit rate ({ends})."
        if self.coverage.low > 0 and self.hit_rate.low > 0:
            return f"{found}: the higher price raises both."
        return f"{found}: the trade-off is not decided yet."

    def to_dict(self) -> dict[str, Any]:
        """Return plain values, ready for JSON."""
        return {**asdict(self), "sentence": self.sentence()}


def compare_arms(scope: Scope, alpha: float) -> HoldoutResult | None:
    """Compare both arms over the first requests of users; None if one of them has no request."""
    drawn = [scope.users.filter(pl.col("holdout") == it) for it in (False, True)]
    if not all(map(len, drawn)):
        return None
    every = [scope.table.filter(pl.col("holdout") == it) for it in (False, True)]
    share = alpha / (INTERVALS if "hit" in scope.users.columns else WITHOUT_LABELS)
    usual, holdout = (
        _arm(name, units, requests, share) for name, units, requests in zip((USUAL, HOLDOUT), drawn, every, strict=True)
    )
    low, high = sorted((usual, holdout), key=lambda arm: arm.price)
    coverage = high.coverage.minus(low.coverage)
    hits, gained = (
        None if a is None or b is None else a.minus(b)
        for a, b in ((high.hit_rate, low.hit_rate), (high.ndcg, low.ndcg))
    )
    return HoldoutResult(usual, holdout, coverage, hits, gained, None if hits is None else _per_point(coverage, hits))


def _arm(name: str, units: pl.DataFrame, requests: pl.DataFrame, alpha: float) -> HoldoutArm:
    def interval(column: str) -> Interval | None:
        return confidence_interval(units[column].to_numpy(), alpha=alpha) if column in units.columns else None

    coverage = interval("shown")
    assert coverage is not None
    made: Any = requests.filter("made")["price"].mean()  # a fallback has no price
    price, counts = 0.0 if made is None else float(made), (len(requests), len(units))
    return HoldoutArm(name, price, *counts, coverage, interval("hit"), interval("ndcg"))


def _per_point(gain: Interval, change: Interval) -> Interval | None:
    """Return coverage gained per hit rate lost; None unless the one surely rises and the other surely falls."""
    if gain.low <= 0 or change.high >= 0:
        return None
    return Interval(gain.mean / -change.mean, gain.low / -change.low, gain.high / -change.high, gain.n)


def _points(found: Interval) -> str:
    return f"{100 * found.mean:+.2f} points ({100 * found.low:+.2f} to {100 * found.high:+.2f})"
