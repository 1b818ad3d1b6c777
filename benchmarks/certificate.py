"""Can the certificate be broken, and how often does it certify what it may?

    python benchmarks/certificate.py [--draws 2000] [--users 100 300 1000 2000 6000] [--run runs/ml1m] [--json]

Attack: worlds in which the true loss equals the budget, so that any certificate is an error. Each is built to deceive a
test on a sample. The bar is the 99.9 % point of the errors of a method that errs in exactly 5 % of the draws. The t
test is shown beside it, without a bar.

- rare harm: 5 % of the users have NDCG 1. A few of these lose everything. Most others change a little.
- rare harm, new lists: the same, but the lists of the harmed users are known only if one was drawn. Users whose lists
  could lose more than the limit keep their base lists, and the true loss counts them so.
- rare harm, no limit: the same without these base lists, as in version 0.2. It is not covered, so it has no bar.
- rare gain: one of 500 users gains much and could lose much, and all others lose more than the budget. To certify is an
  error, whether or not the limit leaves the rare users their lists.
- heavy tail: losses follow a Pareto law.
- ties: values are 0 or 1, and most do not change.
- strata: nine of ten users gain a little, the others lose much. They are given in order.
- chosen epoch: the same labels first chose the best of eight models by NDCG, as early stopping does.
- at a guard: three budgets. One of the guards is exactly used up, the others are not.
- a path: 32 points, tested in order. It is an error if a point beyond the budget is certified.
- three goals, four budgets: several questions on the same labels, all at or beyond their budgets.
- boosts, each item shown often (at least five times) or evenly (Gini): the boosts of items are found for the users who
  judge, from their scores alone, and are then the same for everybody. The budget is the true loss of these boosts.
- clusters: groups of ten users lose together. Only cluster ids protect, so the row without them has no bar.

Power: how often a point of a real path is certified (``--run``, a trained run), by users drawn from its own users.
About twenty minutes on two cores.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import cache, partial
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.stats import binom

from harness import Claim, parser, report
from known_losses import diversified, draw_values, measured, with_loss
from recprism.budget.certifying import Question, certify, certify_together
from recprism.budget.evidence import possible_losses
from recprism.budget.path import lists_at
from recprism.rule.boosts import BoostSearch, first_in_own_order, ranked_with_boosts
from recprism.rule.limits import beyond_limits, limit_of
from recprism.runs import Run
from recprism.testing.synthetic import World, make_world

Array = NDArray[np.float64]
Generator = np.random.Generator
METHODS = ("betting", "t")
BUDGET = 0.01
NDCG = "ndcg@10"
TRADE_OFFS = {"shown_often": 0.1, "gini": 0.3}  # of boosts
POINTS = ((0.05, 0.01), (0.1, 0.02), (0.2, 0.05))  # trade-off and budget of the rows about power


@dataclass(frozen=True)
class Drawn:
    """Users of one draw: their values, and the largest loss that the list of each of them allows."""

    base: Array
    new: Array
    possible: Array

    def certified(self, method: str, seed: int, clusters: Array | None = None) -> bool:
        base, new, possible = ({NDCG: it} for it in (self.base, self.new, self.possible))
        found = certify(
            base,
            [new],
            {NDCG: BUDGET},
            possible=[possible],
            clusters=clusters,
            method=method,
            seed=seed,  # type: ignore[arg-type]
        )
        return found.last is not None


def rare_harm(n: int, generator: Generator) -> Drawn:
    best = generator.random(n) < 0.05
    base = np.where(best, 1.0, generator.uniform(0, 0.3, n))
    harmed = best & (generator.random(n) < BUDGET * (0.05 + 0.95 * 0.15) / 0.05)
    changed = ~best & (generator.random(n) < 0.6)
    new = np.where(harmed, 0.0, np.clip(base + changed * generator.uniform(-0.01, 0.01, n), 0, 1))
    return Drawn(base, new, np.where(harmed, 1.0, 0.011 * changed))


def rare_gain(n: int, generator: Generator) -> Drawn:
    rare = generator.random(n) < 0.002
    base = np.where(rare, 0.0, generator.uniform(0, 0.6, n))
    share = BUDGET + 0.002 / (0.3 * 0.998)  # what the others lose for the gain of the rare ones
    return Drawn(base, np.where(rare, 1.0, base * (1 - share)), np.where(rare, 0.9, 0.3))


def with_all_lists_known(drawn: Drawn) -> Drawn:
    """One more user, who is not judged: a list of the run that could lose everything."""
    return Drawn(np.append(drawn.base, np.nan), np.append(drawn.new, np.nan), np.append(drawn.possible, 1.0))


@cache
def _pareto_mean() -> float:
    return float(np.minimum(1, 0.02 * (1 + np.random.default_rng(0).pareto(0.8, 10**7))).mean())


def heavy_tail(n: int, generator: Generator) -> Drawn:
    base = generator.beta(0.5, 2, n)
    share = np.minimum(1, 0.02 * (1 + generator.pareto(0.8, n)))
    hit = generator.random(n) < BUDGET / _pareto_mean()
    return Drawn(base, base * (1 - hit * share), np.ones(n))


def ties(n: int, generator: Generator) -> Drawn:
    base = (generator.random(n) < 0.4) * 1.0
    lost, won = generator.random(n) < 0.05, generator.random(n) < (0.4 * 0.05 - 0.4 * BUDGET) / 0.6
    return Drawn(base, np.where(base > 0, 1.0 - lost, 1.0 * won), np.ones(n))


def strata(n: int, generator: Generator) -> Drawn:
    base = generator.uniform(0.1, 0.5, n)
    losing = np.arange(n) >= n - generator.binomial(n, 0.1)
    gain = generator.uniform(0, 0.01, n)
    loss = base * generator.uniform(0, 2, n) * (BUDGET * 0.3 + 0.9 * 0.005) / 0.1 / 0.3
    return Drawn(base, base + np.where(losing, -np.minimum(loss, base), gain), np.full(n, 0.5))


def clusters_of(n: int) -> Array:
    return np.arange(n, dtype=np.float64) // 10


def clustered(n: int, generator: Generator) -> Drawn:
    groups = -(-n // 10)
    harmed = np.repeat(generator.random(groups) < BUDGET, 10)[:n]
    base = generator.uniform(0.4, 0.6, n)
    return Drawn(base, base * ~harmed, np.full(n, 0.6))


@cache
def market() -> tuple[World, NDArray[Any], Array]:
    """A made world, and the candidates of all its users with their scores."""
    world = make_world(4000, seed=3)
    user, item, bias = world.model(seed=4)
    scores = user @ item.T + bias
    items = np.argsort(-scores, axis=1, kind="stable")
    return world, items, np.take_along_axis(scores, items, 1)


def boosted(n: int, generator: Generator, method: str, seed: int, *, goal: str) -> bool:
    world, items, scores = market()
    users = generator.integers(0, world.n_users, n)
    search = BoostSearch(items[users], scores[users], 10, goal=goal, n_items=world.n_items)
    boost = search.at(TRADE_OFFS[goal]).boost
    lists, base = first_in_own_order(*ranked_with_boosts(items, scores, boost), boost, 10)[:, :10], items[:, :10]
    possible = possible_losses(base[users], lists[users], NDCG)
    lists = np.where(beyond_limits(base, lists, {NDCG: limit_of(possible)})[:, None], base, lists)
    loss = 1 - world.expected(NDCG, lists).sum() / world.expected(NDCG, base).sum()
    labels = world.labels(users, generator)
    before, after = (measured(it[users], labels, (NDCG,)) for it in (base, lists))
    found = certify(before, [after], {NDCG: loss}, possible=[{NDCG: possible}], method=method, seed=seed)  # type: ignore[arg-type]
    return found.last is not None


@dataclass(frozen=True)
class Made:
    """A made world: base lists of eight models, and for each model lists at the budget; then a path."""

    world: World
    models: list[tuple[NDArray[Any], NDArray[Any]]]
    path: list[NDArray[Any]]
    guards: dict[str, float]


@cache
def made() -> Made:
    world, generator = make_world(4000, seed=0), np.random.default_rng(2)
    models = []
    for epoch in range(8):
        user, item, bias = world.model(seed=1 + epoch)
        ladder = [diversified(user @ item.T + bias, world.categories, it) for it in (0.0, 0.05, 0.2, 0.8)]
        models.append((ladder[0], with_loss(world, ladder, NDCG, BUDGET, generator)))
        if not epoch:
            path = [with_loss(world, ladder, NDCG, 2 * BUDGET * at / 32, generator) for at in range(1, 33)]
    worth = {name: world.expected(name, models[0][0]).sum() for name in ("recall@20", "hit_rate@5")}
    lost = {name: 1 - world.expected(name, models[0][1]).sum() / it for name, it in worth.items()}
    return Made(world, models, path, lost)


def chosen_epoch(n: int, generator: Generator, method: str, seed: int) -> bool:
    it = made()
    lists = [one for pair in it.models for one in pair]
    values = draw_values(it.world, lists, [NDCG], n, generator)
    best = 2 * int(np.argmax([np.nanmean(values[2 * at][NDCG]) for at in range(len(it.models))]))
    return _certify(values[best], [values[best + 1]], {NDCG: BUDGET}, method, seed)


def at_a_guard(n: int, generator: Generator, method: str, seed: int) -> bool:
    it = made()
    names = [NDCG, *it.guards]
    base, new = draw_values(it.world, list(it.models[0]), names, n, generator)
    budgets = {NDCG: 3 * BUDGET, "recall@20": max(it.guards["recall@20"], 1e-4), "hit_rate@5": 0.5}
    return _certify(base, [new], budgets, method, seed)


def a_path(n: int, generator: Generator, method: str, seed: int) -> bool:
    it = made()
    base, *points = draw_values(it.world, [it.models[0][0], *it.path], [NDCG], n, generator)
    passed = 0
    while passed < len(points) and _certify(base, [points[passed]], {NDCG: BUDGET}, method, seed):
        passed += 1
    return passed >= 16  # the sixteenth point loses exactly the budget


def _certify(base: Any, points: list[Any], budgets: dict[str, float], method: str, seed: int) -> bool:
    return certify(base, points, budgets, method=method, seed=seed).last is not None  # type: ignore[arg-type]


def together(n: int, generator: Generator, method: str, seed: int, *, budgets: tuple[float, ...]) -> bool:
    """Several questions on the same labels: each has a point that loses exactly its budget."""
    base = generator.beta(1, 3, n)
    asked = []
    for budget in budgets:
        new = np.clip(base * (1 - budget) + generator.uniform(-0.05, 0.05, n) * (base > 0.05), 0, 1)
        # Clipping and the threshold keep the mean: the noise is symmetric where it is not cut.
        asked.append(Question({NDCG: base}, [{NDCG: np.where(base > 0.95, base * (1 - budget), new)}], {NDCG: budget}))
    found = certify_together(asked, method=method, seed=seed)  # type: ignore[arg-type]
    return any(it.last is not None for it in found)


def of_values(make: Callable[..., Drawn], n: int, generator: Generator, method: str, seed: int) -> bool:
    return make(n, generator).certified(method, seed)


def harm_known(n: int, generator: Generator, method: str, seed: int) -> bool:
    return with_all_lists_known(rare_harm(n, generator)).certified(method, seed)


def harm_of_new_lists(n: int, generator: Generator, method: str, seed: int) -> bool:
    drawn = rare_harm(n, generator)
    is_known = bool(drawn.possible.max() == 1.0)  # else users with such lists keep their base lists: nobody is harmed
    return is_known and drawn.certified(method, seed)


def of_clusters(n: int, generator: Generator, method: str, seed: int, *, ids: bool) -> bool:
    return clustered(n, generator).certified(method, seed, clusters_of(n) if ids else None)


ATTACKS: dict[str, Callable[[int, Generator, str, int], bool]] = {
    "rare harm": harm_known,
    "rare harm, new lists": harm_of_new_lists,
    "rare harm, no limit": partial(of_values, rare_harm),
    "rare gain": partial(of_values, rare_gain),
    "heavy tail": partial(of_values, heavy_tail),
    "ties": partial(of_values, ties),
    "strata": partial(of_values, strata),
    "chosen epoch": chosen_epoch,
    "at a guard": at_a_guard,
    "a path": a_path,
    "three goals": partial(together, budgets=(0.01, 0.01, 0.01)),
    "four budgets": partial(together, budgets=(0.005, 0.01, 0.02, 0.05)),
    "boosts, shown often": partial(boosted, goal="shown_often"),
    "boosts, shown evenly": partial(boosted, goal="gini"),
    "clusters with ids": partial(of_clusters, ids=True),
    "clusters without ids": partial(of_clusters, ids=False),
}
NOT_COVERED = ("clusters without ids", "rare harm, no limit")


def errors(attack: str, method: str, n: int, draws: int) -> float:
    """Share of draws in which something is certified that loses its whole budget."""
    generator = np.random.default_rng([n, list(ATTACKS).index(attack)])
    return sum(ATTACKS[attack](n, generator, method, seed) for seed in range(draws)) / draws


def cell(about: tuple[str, str, int, int]) -> float:
    return errors(*about)


def power(run: str, users: list[int], draws: int) -> list[Claim]:
    """How often points of a real path are certified: with the lists, without them, and by the t test."""
    problem = Run.open(run).problem("validation")
    base = problem.judge(problem.base_lists, (NDCG,))[NDCG]
    made_claims, generator = [], np.random.default_rng(0)
    for trade_off, budget in POINTS:
        lists = lists_at(problem, "subtopic_coverage", trade_off)
        new, possible = problem.judge(lists, (NDCG,))[NDCG], possible_losses(problem.base_lists, lists, NDCG)
        judged = np.flatnonzero(~np.isnan(base - new))
        true = 1 - new[judged].mean() / base[judged].mean()
        for n in users:
            counts = dict.fromkeys(("betting, lists known", "betting, values alone", "t test, approximate"), 0)
            for draw in range(draws):
                rows = generator.choice(judged, n)
                about = {NDCG: base[rows]}, [{NDCG: new[rows]}], {NDCG: budget}
                limits = [{NDCG: possible[rows]}]
                answers = (
                    certify(*about, possible=limits, seed=draw),
                    certify(*about, seed=draw),
                    certify(*about, method="t"),
                )
                for name, found in zip(counts, answers, strict=True):
                    counts[name] += found.last is not None
            made_claims += [
                Claim(f"power, {n:,} users, budget {budget:.0%}, true loss {true:.2%}: {name}", it / draws, None)
                for name, it in counts.items()
            ]
    return made_claims


def main() -> None:
    options = parser(__doc__)
    options.add_argument("--draws", type=int, default=2000)
    options.add_argument("--users", type=int, nargs="+", default=[100, 300, 1000, 2000, 6000])
    options.add_argument("--attacks", nargs="+", default=list(ATTACKS), choices=list(ATTACKS))
    options.add_argument("--run", help="a trained run, for the rows about power")
    words = options.parse_args()
    bar = float(binom.ppf(0.999, words.draws, 0.05)) / words.draws
    cells = [(a, method, n, words.draws) for a in words.attacks for n in words.users for method in METHODS]
    made()
    with ProcessPoolExecutor() as pool:
        found = list(pool.map(cell, cells))
    claims = [
        Claim(
            f"{a}, {n:,} users, {method}: errors", share, bar if method == "betting" and a not in NOT_COVERED else None
        )
        for (a, method, n, _), share in zip(cells, found, strict=True)
    ]
    if words.run:
        claims += power(words.run, [n for n in words.users if n >= 300], max(words.draws // 4, 100))
    report(claims, as_json=words.json, packages=("scipy",), details={"draws": words.draws})


if __name__ == "__main__":
    main()
