"""The live certificate in worlds whose truth is known: how often its answers are wrong, how fast, and what it earns.

Lists of the rule at four prices on MovieLens-1M and Last.FM (benchmarks/live_worlds.py) lose about 0, 1.5, 4 and
10 % of the clicks. The budget is 5 %. Part one: a holdout of 20 % of 5,000 clusters a day, read daily, at one price.
Part two: policies that choose the price by themselves, with 20,000 clusters a day. A cluster is a user on a day with
one outcome. Clicks of an arm on a day are a binomial number, and the capitals are exact.

    python benchmarks/live_certificate.py [--runs 1000] [--json]
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from harness import Claim, parser, report
from live_worlds import Planted
from recprism.operate.traffic.capital import BETS, differences, evidence, log_mixture
from recprism.operate.traffic.steps import BROKEN, CERTIFIED, UNDECIDED, next_place

Array = NDArray[np.float64]
BUDGET, ALPHA, DAYS, DAILY, SHARE = 0.05, 0.05, 90, 5_000, 0.2
POLICY_DAYS, POLICY_DAILY, EXPLORED, MONTH = 180, 20_000, 0.1, 30
NORMAL = 1.959964


@dataclass(frozen=True)
class World:
    """Chances of an outcome on each day, in both arms: the true ones, and those of what is logged.

    Attributes:
        rule: Under the rule, (runs or 1, days).
        holdout: In the holdout, the same.
        logged: Chances that an outcome is logged in the window, under the rule and in the holdout.
        daily: Clusters a day.
        questions: How many questions share the error.
        heavy: Requests of each robot; a tenth of the clusters are robots with all clicks or none. 0: there are none.
    """

    rule: Array
    holdout: Array
    logged: tuple[float, float] = (1.0, 1.0)
    daily: int = DAILY
    questions: int = 1
    heavy: int = 0


# -- one price --------------------------------------------------------------------------------------------------------


def grown(clicks: Array, n: Array, chance: Sequence[float], predicted: Array, budget: float, least: float) -> Array:
    """Return how the capitals grow by clusters of a rule's arm, a holdout and other arms.

    Args:
        clicks: Clusters with an outcome in each arm, (3, ...).
        n: Clusters of each arm, (3, ...).
        chance: With which each arm is drawn, (3,) or with the shape of ``n``.
        predicted: The prediction, (...).
        budget: The budget.
        least: The smallest chance of an arm.

    Returns:
        (2, bets, ...).
    """
    found = np.zeros((2, len(BETS), *predicted.shape))
    for at, arm in enumerate((1.0, -1.0, 0.0)):
        for outcome, count in ((1.0, clicks[at]), (0.0, n[at] - clicks[at])):
            w = differences(np.float64(outcome), np.float64(arm), chance[at], predicted, budget)
            for side, sign in enumerate((1, -1)):
                for place, bet in enumerate(BETS):
                    found[side, place] += count * np.log1p(bet * least * sign * w)
    return found


def read_daily(growths: Array, alpha: float) -> tuple[NDArray[np.bool_], NDArray[np.int64]]:
    """Return what is read at the end of each day: whether certified, and since when broken (-1: not), (runs, days).

    Args:
        growths: (2, bets, runs, days).
        alpha: That of ``evidence``, whose answers these are.
    """
    limit, days = math.log(2 / alpha), growths.shape[3]
    sums = growths.cumsum(3)
    certified = log_mixture(sums[0]) >= limit
    since = np.full(certified.shape, -1)
    begins = np.concatenate([np.zeros((*sums.shape[1:3], 1)), sums[1]], 2)
    for day in range(days):
        from_part = log_mixture(sums[1][:, :, day, None] - begins[:, :, : day + 1])
        parts = np.arange(1, day + 2)
        surplus = from_part - np.log(parts * (parts + 1.0)) - limit
        first = surplus.argmax(1)
        since[:, day] = np.where(surplus.max(1) >= 0, first, -1)
    return certified & (since < 0), since


def shown(world: World, runs: int, generator: np.random.Generator) -> dict[str, float | None]:
    """Run a world, and return shares of runs and median days."""
    rule, holdout = (np.broadcast_to(it, (runs, DAYS)) for it in (world.rule, world.holdout))
    n_held = generator.binomial(world.daily, SHARE, (runs, DAYS))
    n = np.stack([world.daily - n_held, n_held, np.zeros_like(n_held)])
    logged = [it * chance for it, chance in zip((rule, holdout), world.logged, strict=True)]
    clicks = np.stack([*(generator.binomial(some, it) for some, it in zip(n, logged, strict=False)), n[2]])
    total, seen = (it.sum(0).cumsum(1).astype(float) for it in (n, clicks))
    before = np.concatenate([np.zeros((runs, 1)), seen[:, :-1]], 1) / np.maximum(1, np.roll(total, 1, 1))
    chance = (1 - SHARE, SHARE, 1.0)
    growths = grown(clicks, n, chance, before, BUDGET, SHARE)
    alpha = ALPHA / world.questions
    certified, since = read_daily(growths, alpha)
    for run in range(3):  # the library says the same
        day = int(generator.integers(DAYS))
        said = evidence(growths[:, :, run, : day + 1], int(total[run, day]), alpha)
        assert (said.answer == CERTIFIED, -1 if said.since is None else said.since) == (
            certified[run, day],
            since[run, day],
        )
    kept = (rule - (1 - BUDGET) * holdout).cumsum(1)
    true_since = kept - np.where(since > 0, np.take_along_axis(kept, np.maximum(since - 1, 0), 1), 0.0)
    today = rule - (1 - BUDGET) * holdout < -1e-12
    peeked = peeking(clicks, n, world, generator)
    return {
        "certified while the mean so far is broken": float((certified & (kept < -1e-9)).any(1).mean()),
        "broken while it is kept": float(((since >= 0) & (true_since > 1e-9)).any(1).mean()),
        "A/B with peeking: certified while the mean so far is broken": float((peeked & (kept < -1e-9)).any(1).mean()),
        "runs with a day above the budget while certified": float((certified & today).any(1).mean()),
        "days above the budget while certified": float((certified & today).sum(1).mean()),
        "certified at the end": float(certified[:, -1].mean()),
        "broken at the end": float((since[:, -1] >= 0).mean()),
        "median day of certified": median_day(certified),
        "median day of broken": median_day(since >= 0),
    }


def peeking(clicks: Array, n: Array, world: World, generator: np.random.Generator) -> NDArray[np.bool_]:
    """Return whether a one-sided z test at 2.5 %, read every day, says that the budget is kept.

    With robots it counts requests, as a plain test does.
    """
    clicks, n = clicks[:2].astype(float), n[:2].astype(float)
    if world.heavy:
        robots = generator.binomial(n.astype(int), 0.1)
        all_clicks = generator.binomial(robots, 0.5)
        clicks = clicks - 0.5 * robots + world.heavy * all_clicks
        n = n - robots + world.heavy * robots
    n, clicks = n.cumsum(2), clicks.cumsum(2)
    rate = clicks / n
    spread = rate[0] * (1 - rate[0]) / n[0] + (1 - BUDGET) ** 2 * rate[1] * (1 - rate[1]) / n[1]
    found: NDArray[np.bool_] = rate[0] - (1 - BUDGET) * rate[1] > NORMAL * np.sqrt(np.maximum(spread, 1e-12))
    return found


def median_day(found: NDArray[np.bool_]) -> float | None:
    """Return the median of the first days, from 1; None if fewer than half of the runs have one."""
    first = np.where(found.any(1), found.argmax(1) + 1.0, math.inf)
    middle = float(np.median(first))
    return middle if math.isfinite(middle) else None


def worlds(planted: Planted, runs: int, generator: np.random.Generator) -> dict[str, World]:
    """Return the worlds of part one."""
    fresh, tired = planted.chances(0.0), planted.chances(0.6)
    rate, late = fresh.mean(1), np.arange(DAYS) >= 14
    flat = np.ones((1, DAYS))
    edge = World((1 - BUDGET) * (1 - 1e-6) * rate[0] * flat, rate[0] * flat)
    robots = World(*(0.9 * it + 0.1 * 0.5 for it in (edge.rule, edge.holdout)), heavy=100)
    robots = replace(robots, rule=(1 - BUDGET) * (1 - 1e-6) * robots.holdout)
    moods = generator.dirichlet(np.full(fresh.shape[1], 0.05), runs)
    mixed = (fresh[[0, 3]] @ moods.T)[..., None] * flat
    steps = np.clip(0.3 + 0.05 * generator.standard_normal((runs, DAYS)).cumsum(1), 0, 0.6) / 0.6
    drift = [tired[at].mean() * steps + fresh[at].mean() * (1 - steps) for at in (0, 3)]
    return {
        "at the edge of the budget": edge,
        "half price, loses 1.5 %": World(rate[1] * flat, rate[0] * flat),
        "double price, loses 10 %": World(rate[3] * flat, rate[0] * flat),
        "fatigue drifts": World(drift[1], drift[0]),
        "the sign turns after 14 days": World(
            np.where(late, rate[3], tired[3].mean())[None], np.where(late, rate[0], tired[0].mean())[None]
        ),
        "a rare group loses everything: all users": World(
            (0.97 * rate[1] + 0.03 * 0.0) * flat, rate[0] * flat, questions=2
        ),
        "a rare group loses everything: the group": World(
            0 * flat, rate[0] * flat, daily=DAILY * 3 // 100, questions=2
        ),
        "a tenth are robots, at the edge": robots,
        "a third of the labels late or missing, at the edge": replace(edge, logged=(0.67, 0.67)),
        "labels missing more often under the rule, half price": World(
            rate[1] * flat, rate[0] * flat, logged=(0.62, 0.67)
        ),
        "labels missing more often in the holdout, double price": World(
            rate[3] * flat, rate[0] * flat, logged=(0.67, 0.58)
        ),
        "users in clusters of taste": World(mixed[1], mixed[0]),
    }


# -- policies ---------------------------------------------------------------------------------------------------------


def policies(chances: Array, values: Array, runs: int, seed: int) -> dict[str, dict[str, float]]:
    """Return what policies earn in one world.

    Args:
        chances: Of an outcome, by price and day, (4, days).
        values: The diversity of each price, (4,).
        runs: Number of runs.
        seed: Of the draws.
    """
    found = {}
    for name, policy in (
        ("governor", Governor),
        ("fixed price, certified again each month", Monthly),
        ("A/B with peeking", Peeking),
    ):
        found[name] = earned(policy(runs), chances, values, np.random.default_rng(seed))
    for place, name in ((2, "full"), (3, "double")):
        fixed = np.full((1, POLICY_DAYS), place)
        found[f"fixed {name} price"] = measured(fixed, chances, values, explores=False)
    return found


class Policy:
    """Chooses the price of each day from what was logged before it; all runs at once."""

    def __init__(self, runs: int) -> None:
        self.place = np.zeros(runs, np.int64)
        self.n, self.clicks = np.zeros((2, 4, runs))

    def after(self, day: int, n: Array, clicks: Array, chance: Array) -> None:  # noqa: ARG002
        """Read the counts of a day, (4, runs)."""
        self.n, self.clicks = self.n + n, self.clicks + clicks
        self.decide(day)

    def decide(self, day: int) -> None:
        raise NotImplementedError

    def scores(self) -> Array:
        """Return z scores of "the budget is kept" of the prices above 0, (3, runs)."""
        rate = self.clicks / np.maximum(self.n, 1)
        spread = rate * (1 - rate) / np.maximum(self.n, 1)
        found: Array = (rate[1:] - (1 - BUDGET) * rate[0]) / np.sqrt(spread[1:] + (1 - BUDGET) ** 2 * spread[0] + 1e-12)
        return found


class Governor(Policy):
    """The steps of `recprism serve --governor`."""

    def __init__(self, runs: int) -> None:
        super().__init__(runs)
        self.growths = np.zeros((3, 2, len(BETS), runs, POLICY_DAYS))

    def after(self, day: int, n: Array, clicks: Array, chance: Array) -> None:
        predicted = self.clicks.sum(0) / np.maximum(1, self.n.sum(0))
        for at in range(3):
            arms = [at + 1, 0, [it for it in (1, 2, 3) if it != at + 1]]
            some, those = (np.stack([it[arms[0]], it[0], it[arms[2]].sum(0)]) for it in (n, clicks))
            by_arm = [chance[arms[0]], chance[0], np.ones(1)]
            self.growths[at, ..., day] = grown(those, some, by_arm, predicted, BUDGET, EXPLORED)
        super().after(day, n, clicks, chance)

    def decide(self, day: int) -> None:
        answers = [np.full(len(self.place), CERTIFIED, object)]
        answers += [answers_of(growths[..., : day + 1], ALPHA / 3) for growths in self.growths]
        rows = np.stack(answers, 1)
        self.place = np.array([next_place(int(it), list(row)) for it, row in zip(self.place, rows, strict=True)])


def answers_of(growths: Array, alpha: float) -> NDArray[np.object_]:
    """Return the answer of each run after the last day, (runs,); growths are (2, bets, runs, days)."""
    limit, parts = math.log(2 / alpha), np.arange(1, growths.shape[3] + 1)
    from_part = log_mixture(growths[1, :, :, ::-1].cumsum(2)[:, :, ::-1])
    broken = (from_part - np.log(parts * (parts + 1.0)) - limit).max(1) >= 0
    kept = log_mixture(growths[0].sum(2)) >= limit
    found: NDArray[np.object_] = np.where(broken, BROKEN, np.where(kept, CERTIFIED, UNDECIDED)).astype(object)
    return found


class Monthly(Policy):
    """The highest price that a test with one look certifies from the last month alone; Bonferroni over three prices."""

    def decide(self, day: int) -> None:
        if (day + 1) % MONTH:
            return
        passed = self.scores() > 2.128  # one-sided, 5 % / 3
        self.place = np.where(passed.any(0), 3 - passed[::-1].argmax(0), 0)
        self.n, self.clicks = np.zeros_like(self.n), np.zeros_like(self.clicks)


class Peeking(Policy):
    """The highest price that a usual test certifies, read every day from all days so far."""

    def decide(self, day: int) -> None:  # noqa: ARG002
        passed = self.scores() > 1.645
        self.place = np.where(passed.any(0), 3 - passed[::-1].argmax(0), 0)


def earned(policy: Policy, chances: Array, values: Array, generator: np.random.Generator) -> dict[str, float]:
    """Run a policy that explores all prices with a tenth of the traffic each."""
    runs = len(policy.place)
    places = np.zeros((runs, POLICY_DAYS), np.int64)
    for day in range(POLICY_DAYS):
        places[:, day] = policy.place
        chance = np.full((4, runs), EXPLORED)
        chance[policy.place, np.arange(runs)] = 1 - 3 * EXPLORED
        n = generator.multinomial(POLICY_DAILY, chance.T).T
        policy.after(day, n, generator.binomial(n, chances[:, day, None]), chance)
    return measured(places, chances, values, explores=True)


def measured(places: NDArray[np.int64], chances: Array, values: Array, *, explores: bool) -> dict[str, float]:
    """Return the diversity that was earned, and how often the price of the day broke the budget."""
    broken = chances < (1 - BUDGET) * chances[0] - 1e-12
    days = np.arange(places.shape[1])
    of_price = values[places].mean()
    earned_by = (1 - 4 * EXPLORED) * of_price + EXPLORED * values.sum() if explores else of_price
    so_far = (chances - (1 - BUDGET) * chances[0])[places, days]
    return {
        "value": float(earned_by),
        "days above the budget": float(broken[places, days].mean()),
        "runs with a mean above the budget at any time": float((so_far.cumsum(1) < -1e-9).any(1).mean()),
        "price at the end": float(values[places[:, -1]].mean()),
    }


def policy_worlds(planted: Planted) -> dict[str, Array]:
    """Return chances by price and day, (4, days)."""
    fresh, tired = (planted.chances(it).mean(1)[:, None] for it in (0.0, 0.6))
    day = np.arange(POLICY_DAYS)
    wave = 0.5 + 0.5 * np.cos(2 * np.pi * day / 120)
    return {
        "nothing changes": fresh * np.ones(POLICY_DAYS),
        "the sign turns after 14 days": np.where(day < 14, tired, fresh),
        "the sign turns after 100 days": np.where(day < 100, tired, fresh),
        "fatigue comes and goes in 120 days": tired * wave + fresh * (1 - wave),
    }


def main() -> None:
    options = parser(__doc__)
    options.add_argument("--runs", type=int, default=1_000)
    asked = options.parse_args()
    claims, details = [], {}
    for data in ("ml-1m", "hetrec2011-lastfm-2k"):
        planted = Planted(data)
        generator = np.random.default_rng(1)
        prices = ", ".join(f"{it:.3f}" for it in planted.prices)
        claims.append(Claim(f"{data}: prices none, half, full, double", prices, None))
        rows: dict[str, object] = {}
        for name, world in worlds(planted, asked.runs, generator).items():
            found = rows[name] = shown(world, asked.runs, generator)
            even = world.logged[0] == world.logged[1]
            for what, value in found.items():
                if what.startswith(("certified while", "broken while")):
                    claims.append(Claim(f"{data}, {name}: {what}", value, 0.05 if even else None))
                elif value:
                    claims.append(Claim(f"{data}, {name}: {what}", value, None))
        table = rows["policies"] = {
            name: policies(chances, planted.values, asked.runs, 2) for name, chances in policy_worlds(planted).items()
        }
        for name, found_of in table.items():
            for policy, figures in found_of.items():
                said = ", ".join(f"{what} {value:.3f}" for what, value in figures.items())
                claims.append(Claim(f"{data}, {name}: {policy}", said, None))
        details[data] = rows
    report(claims, as_json=asked.json, packages=("scipy",), details=details)


if __name__ == "__main__":
    main()
