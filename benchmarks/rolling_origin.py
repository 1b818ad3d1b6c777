"""How long does a certificate last? Certified on one period of MovieLens-1M, measured on the next ones.

    python benchmarks/rolling_origin.py [--draws 20] [--json]

The ratings of all users, in the order of their times, are cut into twelve periods with equally many ratings. At each of
eight origins, EASE is trained on all earlier periods, and budgets of NDCG@10 are certified on the period of the origin.
Model and rule then stay as they are, and the loss is measured on each of the next four periods. The users of a period
are those with ratings in it. Their last half of these ratings is held out; everything before is their history.

A measured loss has noise. "By noise alone" is the chance that it lies above the budget if the true loss is the one
that was measured when it was certified. In the control, the users of the origin and of the next period are exchanged at
random, and the same procedure certifies on the ones and measures on the others: there, time changes nothing.
Certificates of one origin share users, so 95 % intervals count each origin once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from itertools import product
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.stats import beta, norm, t

import recprism as rp
from contest.base_models.ease import EASE
from harness import Claim, parser, report
from recprism.budget.certifying import certify_until_refused
from recprism.budget.path import PathPoint, served_base, served_point
from recprism.budget.problem import CANDIDATES, Problem
from recprism.data.sparse_rows import SparseRows
from recprism.data.split import Split, split_interactions
from recprism.models.adapters import ScoredCandidates
from recprism.rule import Goal

DATA, PERIODS, ORIGINS, LATER = "ml-1m", 12, range(3, 11), 4
GOALS = ("subtopic_coverage", "alpha_ndcg", "ilad_subtopics")
BUDGETS = (0.02, 0.05)
COST = "ndcg@10"
Array = NDArray[Any]


class Periods:
    """The interactions of a data set, cut into periods."""

    def __init__(self, data: Any) -> None:
        self.data, interactions = data, data.interactions
        order = np.argsort(interactions.timestamp, kind="stable")
        self.period = np.empty(len(order), np.int64)
        self.period[order] = np.arange(len(order)) * PERIODS // len(order)

    def trained(self, origin: int) -> Array:
        """Return EASE of all periods before one, items x items."""
        past = self.data.interactions.take(self.period < origin).matrix()
        return EASE().weights(past).float().numpy()

    def problem(self, weights: Array, period: int) -> Problem:
        """Return the problem whose users are those of a period, judged by the last half of their ratings in it."""
        interactions = self.data.interactions
        own = split_interactions(interactions.take(self.period == period), "user-temporal", validation=0.0, test=0.5)
        before = interactions.take(self.period < period).matrix().union(own.train)
        judged = np.flatnonzero(own.test.row_counts)
        split = Split(before, SparseRows.empty(before.shape), own.test, own.user_ids, own.item_ids).of_users(judged)
        return Problem(scored(weights, split), split, self.data.categories)

    def days(self) -> list[float]:
        """Return how long each period is."""
        times = [self.data.interactions.timestamp[self.period == period] for period in range(PERIODS)]
        return [float(it.max() - it.min()) / 86400 for it in times]


def scored(weights: Array, split: Split) -> ScoredCandidates:
    """Return the best candidates of each user by their history up to now."""
    history = split.train.dense()
    scores = np.where(history, -np.inf, history.astype(np.float32) @ weights)
    items = np.argsort(-scores, axis=1, kind="stable")[:, :CANDIDATES]
    return ScoredCandidates(items, np.take_along_axis(scores, items, 1), split.user_ids, split.item_ids)


@dataclass(frozen=True)
class Loss:
    """What is lost of NDCG@10.

    Attributes:
        certified: The loss that was measured when it was certified.
        later: The loss that others measure.
        error: Standard error of the latter.
    """

    certified: float
    later: float
    error: float


@dataclass(frozen=True)
class Later:
    """One certificate, measured on a later period.

    Attributes:
        origin: The period that certified.
        after: How many periods later it was measured.
        goal: Its goal.
        budget: Its budget.
        users: How many users measured.
        loss: What they lose.
    """

    origin: int
    after: int
    goal: str
    budget: float
    users: int
    loss: Loss

    @property
    def above(self) -> bool:
        return self.loss.later > self.budget

    @property
    def clearly_above(self) -> bool:
        return self.loss.later - norm.ppf(0.975) * self.loss.error > self.budget

    @property
    def by_noise(self) -> float:
        """Chance of a loss above the budget if the true loss is the one that was measured when it was certified."""
        return float(norm.sf((self.budget - self.loss.certified) / max(self.loss.error, 1e-12)))


Points = Callable[[float], PathPoint]
Group = Sequence[tuple[Points, Array]]
"""Users of some periods: trade-off -> what lists are worth in the period, and the rows of the users there."""


def measured(certifying: Group, measuring: Group, steps: Sequence[float], budget: float) -> Loss | None:
    """Certify on some users and measure on others; None if nothing is certified."""
    base = {COST: gathered(certifying, 0.0)[0]}
    walked = (gathered(certifying, step) for step in steps)
    points = (({COST: values}, {COST: possible}) for values, possible in walked)
    certificate = certify_until_refused(base, points, {COST: budget})
    if certificate.last is None:
        return None
    (check,) = certificate.checks
    before, (values, possible) = gathered(measuring, 0.0)[0], gathered(measuring, steps[certificate.last])
    after = np.where(possible > check.largest_loss, before, values)
    loss = float(1 - after.mean() / before.mean())
    error = np.std(after - (1 - loss) * before, ddof=1) / np.sqrt(len(before)) / before.mean()
    return Loss(check.loss, loss, float(error))


def gathered(group: Group, trade_off: float) -> tuple[Array, Array]:
    """Return the values of the users of a group, and their largest possible losses."""
    values = [points(trade_off).values[COST][rows] for points, rows in group]
    possible = [points(trade_off).possible_loss(points(0.0), COST)[rows] for points, rows in group]
    return np.concatenate(values), np.concatenate(possible)


def outcomes(periods: Periods, origin: int, draws: int) -> tuple[list[Later], dict[float, list[bool]]]:
    """Return the later losses of the certificates of an origin, and whether the losses of its controls are above."""
    weights, generator = periods.trained(origin), np.random.default_rng(origin)
    problems = [periods.problem(weights, period) for period in range(origin, min(origin + LATER + 1, PERIODS))]
    users = [np.arange(it.base.n_users) for it in problems]
    found, controls = [], dict[float, list[bool]]()
    for goal, budget in product(map(Goal.parse, GOALS), BUDGETS):
        points = [partial(point, it, goal) for it in problems]
        for after in range(1, len(problems)):
            loss = measured([(points[0], users[0])], [(points[after], users[after])], goal.steps, budget)
            if loss is not None:
                found.append(Later(origin, after, str(goal), budget, len(users[after]), loss))
        for _ in range(draws):
            mixed = np.split(generator.permutation(len(users[0]) + len(users[1])), [len(users[0])])
            groups = [
                [(points[0], it[it < len(users[0])]), (points[1], it[it >= len(users[0])] - len(users[0]))]
                for it in map(np.sort, mixed)
            ]
            control = measured(*groups, goal.steps, budget)
            if control is not None:
                controls.setdefault(budget, []).append(control.later > budget)
    return found, controls


def point(problem: Problem, goal: Goal, trade_off: float) -> PathPoint:
    """Return the point of a path; the problem remembers it."""
    if not trade_off:
        return served_base(problem, (COST,))
    return problem.once((str(goal), trade_off), lambda: served_point(problem, goal, trade_off, (COST,)))


COLUMNS = (
    "budget",
    "periods later",
    "certificates",
    "loss when certified (%)",
    "loss later (%)",
    "above the budget (%)",
    "by noise alone (%)",
    "clearly above (%)",
    "never above so far (%)",
    "by noise alone (%)",
)


def rows_of(found: Sequence[Later]) -> Iterator[list[str]]:
    """Yield a row for each budget and distance."""
    for budget, after in product(BUDGETS, range(1, LATER + 1)):
        own = [it for it in found if it.budget == budget and it.after == after]
        until = [[it for it in found if is_of(it, last) and it.after <= after] for last in own]
        yield [
            f"{100 * budget:g} %",
            str(after),
            str(len(own)),
            f"{mean([it.loss.certified for it in own]):.2f}",
            mean_loss(own),
            share(own, [it.above for it in own]),
            f"{mean([it.by_noise for it in own]):.0f}",
            f"{mean([it.clearly_above for it in own]):.0f}",
            share(own, [not any(it.above for it in some) for some in until]),
            f"{mean([np.prod([1 - it.by_noise for it in some]) for some in until]):.0f}",
        ]


def is_of(one: Later, other: Later) -> bool:
    """Whether two measurements are of the same certificate."""
    return (one.origin, one.goal, one.budget) == (other.origin, other.goal, other.budget)


def mean(shares: Sequence[Any]) -> float:
    """Return the mean in percent."""
    return 100 * float(np.mean(shares))


def mean_loss(found: Sequence[Later]) -> str:
    """Return the mean later loss in percent with its t interval over origins, whose certificates share users."""
    losses = [np.mean([it.loss.later for it in found if it.origin == at]) for at in {it.origin for it in found}]
    half = t.ppf(0.975, len(losses) - 1) * np.std(losses, ddof=1) / np.sqrt(len(losses))
    return f"{mean(losses):.2f} ± {100 * half:.2f}"


def share(found: Sequence[Later], values: Sequence[bool]) -> str:
    """Return a share in percent with its binomial interval, as if each origin were one trial."""
    value, n = float(np.mean(values)), len({it.origin for it in found})
    hits = value * n
    low = beta.ppf(0.025, hits, n - hits + 1) if hits else 0.0
    high = beta.ppf(0.975, hits + 1, n - hits) if hits < n else 1.0
    return f"{100 * value:.0f} [{100 * low:.0f}, {100 * high:.0f}]"


def claims_of(periods: Periods, found: Sequence[Later], controls: dict[float, list[bool]]) -> Iterator[Claim]:
    days, users = periods.days(), [it.users for it in found]
    yield Claim("days of a period", f"{min(days):.0f} to {max(days):.0f}", None)
    yield Claim("users of a later period", f"{min(users)} to {max(users)}", None)
    for budget in BUDGETS:
        own = [it for it in found if it.budget == budget]
        at, asked = f"budget {100 * budget:g} %: ", len(ORIGINS) * len(GOALS)
        yield Claim(f"{at}certificates, of {asked} questions", sum(it.after == 1 for it in own), None)
        yield Claim(f"{at}mean standard error of a later loss (%)", round(mean([it.loss.error for it in own]), 2), None)
        yield Claim(f"{at}later losses above it (% of {len(own)})", share(own, [it.above for it in own]), None)
        yield Claim(f"{at}of these by noise alone (%)", round(mean([it.by_noise for it in own]), 1), None)
        yield Claim(f"{at}clearly above it (%)", round(mean([it.clearly_above for it in own]), 1), None)
        exchanged = controls.get(budget, [])
        what = f"{at}control, users of both periods exchanged: above it (% of {len(exchanged)})"
        yield Claim(what, round(mean(exchanged), 1), None)


def main() -> None:
    options = parser(__doc__)
    options.add_argument("--draws", type=int, default=20, help="random exchanges of the users of two periods (20)")
    chosen = options.parse_args()
    periods = Periods(rp.load(DATA))
    found: list[Later] = []
    controls: dict[float, list[bool]] = {}
    for origin in ORIGINS:
        later, exchanged = outcomes(periods, origin, chosen.draws)
        found += later
        for budget, above in exchanged.items():
            controls.setdefault(budget, []).extend(above)
    table = [list(COLUMNS), *rows_of(found)]
    if not chosen.json:
        print("\n".join(f"| {' | '.join(row)} |" for row in table), end="\n\n")
    details = {"table": table, "rows": [asdict(it) for it in found]}
    report(list(claims_of(periods, found, controls)), as_json=chosen.json, details=details)


if __name__ == "__main__":
    main()
