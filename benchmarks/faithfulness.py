"""Which explanation predicts what a re-ranker does after an intervention?

    python benchmarks/faithfulness.py RUN [RUN ...] [--users 300] [--iterations 200] [--methods NAME ...] [--json]

Each RUN is a trained run with item categories. Several methods make lists of 10 from the 100 best candidates of its
validation part; CMB changes the item vectors instead. Users whose list has a newcomer (an item that the base list does
not have) are sampled. There are four interventions: a shown newcomer is removed; the user consumes it, which changes
the user's history; a fifth of all items is out of stock; the user bans a category of the list. The next candidates
move up. Each explanation predicts the new list, and the method runs again. The column "nothing" is the list as it is.

A cell has the share of whole lists that are predicted (as sets) with its 95 % interval over users, then the share of
newcomers of the new lists that are predicted. All explanations know the old list, the scores and the categories:

- rule: the rule for subtopic coverage. On its own lists it is the method, so 100 % holds by definition. For lists of
  others, its price is the one that fits other users best.
- choice model: fitted on other users. It fills the free places, or chooses all places again until nothing changes.
- shadow prices: per user and category, from the dual of a linear program with flat accuracy and coverage. The price of
  coverage is the one that fits other users best.
- dials, user vectors: the named weights or vectors that return the old list rank what is left.
- five factors, three directions: the largest of the change of the vectors, without the rest. For CMB the change is the
  one that made the lists; for other methods it is that of the user vectors.
- cached list: what is left of the old list, then the best scores.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property, partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import linprog

from harness import Claim, parser, report
from predicted_lists import predict_lists
from recprism.budget import Problem
from recprism.budget.path import rule_at
from recprism.budget.problem import DEPTH
from recprism.cmb import CMB
from recprism.cmb.factors.change import Change
from recprism.data import SparseRows
from recprism.explain import fit_choice_model
from recprism.forms.dials import lists_to_dials, lists_to_vectors
from recprism.metrics.statistics import bootstrap_means, percentile_interval
from recprism.models import Factors
from recprism.rivals import DPP, MMR, Calibrated, XQuAD
from recprism.rule import Features, Reranker, category_probabilities
from recprism.runs import Run
from score_directions import with_directions_alone

K = 10
GOAL = "subtopic_coverage"
RULES: dict[str, dict[str, float]] = {
    "rule at 0.1": {"trade_off": 0.1},
    "rule at 0.2": {"trade_off": 0.2},
    "rule at 0.2, no history": {"trade_off": 0.2, "history_weight": 0.0},
}
RIVALS: dict[str, Reranker] = {
    "MMR on categories": MMR(trade_off=0.2, similarity="categories"),
    "DPP on categories": DPP(trade_off=0.05, similarity="categories"),
    "xQuAD": XQuAD(trade_off=0.6),
    "calibrated": Calibrated(trade_off=0.3),
    "MMR on vectors": MMR(trade_off=0.4),
}
PLAYERS: dict[str, dict[str, Any]] = {
    "CMB, marginal credit": {"name": "default"},
    "CMB, paper, single objective": {"name": "paper", "lambda1": 0.0, "reward_on": "validation"},
    "CMB, paper, trade-off": {"name": "paper", "accuracy": "recall", "reward_on": "validation"},
}
METHODS = (*RULES, *RIVALS, *PLAYERS)
INTERVENTIONS = ("nothing", "removed", "consumed", "stock", "ban")
GRID = (0.02, 0.05, 0.08, 0.1, 0.12, 0.15, 0.18, 0.21, 0.25, 0.3, 0.4, 0.5)
FITTED_ON = 50  # users for the price of the linear program
FACTORS, DIRECTIONS, ROUNDS = 5, 3, 10
GONE_SHARE = 0.2
RESAMPLES = 1000

Lists = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class World:
    """Some users, the items that they cannot be shown, and their history."""

    problem: Problem
    users: NDArray[np.int64]
    gone: SparseRows
    seen: SparseRows

    @classmethod
    def of(cls, problem: Problem, users: NDArray[np.int64]) -> World:
        return cls(problem, users, problem.hidden.take_rows(users), problem.seen.take_rows(users))

    @cached_property
    def base(self) -> Factors:
        return self.problem.factors.of_users(self.users)

    @cached_property
    def pool(self) -> tuple[Lists, NDArray[np.float64]]:
        """``(n, 100)`` candidates, best first, and their scores."""
        items, scores = self.base.rank(min(DEPTH, self.base.n_items), exclude=self.gone)
        return np.asarray(items, np.int64), np.asarray(scores, np.float64)

    @property
    def base_lists(self) -> Lists:
        return self.pool[0][:, :K]

    @cached_property
    def features(self) -> Features:
        categories = self.problem.categories
        likes = category_probabilities(self.seen, categories)
        return Features(vectors=self.base.item, categories=categories, user_categories=likes)

    @property
    def history(self) -> NDArray[np.float64]:
        return self.features.intents(len(self.users)).numpy()

    def rank(self, factors: Factors) -> Lists:
        """Rank what is left by other vectors of these users."""
        return np.asarray(factors.rank(K, exclude=self.gone)[0], np.int64)

    def rerank(self, method: Reranker) -> Lists:
        return np.asarray(method(*self.pool, K, features=self.features), np.int64)

    def left_of(self, lists: Lists) -> Lists:
        """Put -1 where an item is gone."""
        keys = np.arange(len(lists))[:, None] * self.gone.n_cols + lists
        return np.where(np.isin(keys, self.gone.keys), -1, lists)

    def without(self, gone: SparseRows, *, consumed: bool = False) -> World:
        return replace(self, gone=self.gone.union(gone), seen=self.seen.union(gone) if consumed else self.seen)


Predict = Callable[[World], Lists]


@dataclass(frozen=True, eq=False)
class Method:
    """What makes lists; with the change of the vectors if there is one."""

    name: str
    make: Predict
    change: Change | None = None

    @classmethod
    def of(cls, name: str, problem: Problem, iterations: int) -> Method:
        if name not in PLAYERS:
            rule = replace(rule_at(problem, GOAL, 0.1), **RULES.get(name, {}))
            method = rule.reranker() if name in RULES else RIVALS[name]
            return cls(name, lambda world: world.rerank(method))
        settings = {**PLAYERS[name], "diversity": GOAL, "device": "cpu"}
        if settings["name"] == "paper":
            settings["iterations"] = iterations
        players = CMB.preset(**settings).fit(problem.factors, problem.split, problem.categories)
        after = players.factors_
        change = Change.of(problem.factors, players.delta_)
        return cls(name, lambda world: world.rank(after.of_users(world.users)), change)


def is_in(lists: Lists, others: Lists) -> NDArray[np.bool_]:
    found: NDArray[np.bool_] = (lists[:, :, None] == others[:, None, :]).any(2) & (lists >= 0)
    return found


def newcomers(lists: Lists, base: Lists) -> NDArray[np.bool_]:
    """Which listed items the base list does not have, ``(n, k)``."""
    return (lists >= 0) & ~is_in(lists, base)


def interventions(world: World, lists: Lists, generator: np.random.Generator) -> dict[str, World]:
    """Return the worlds after each intervention, and after none."""
    n, shape = len(lists), world.gone.shape
    new = newcomers(lists, world.base_lists)
    item = lists[np.arange(n), np.where(new, generator.random(new.shape), -1).argmax(1)]
    one = SparseRows.from_pairs(np.arange(n), item, shape)
    has = world.problem.categories.items.dense()
    on_list = (has[lists] & (lists >= 0)[:, :, None]).any(1)
    banned = np.where(on_list, generator.random(on_list.shape), -1).argmax(1)
    in_banned = has[:, banned].T & on_list.any(1)[:, None]
    sold_out = np.flatnonzero(generator.random(shape[1]) < GONE_SHARE)
    return {
        "nothing": world,
        "removed": world.without(one),
        "consumed": world.without(one, consumed=True),
        "stock": world.without(SparseRows.empty(shape).with_cols(sold_out)),
        "ban": world.without(SparseRows.from_pairs(*np.nonzero(in_banned), shape)),
    }


def explanations(method: Method, world: World, lists: Lists, others: World, theirs: Lists) -> dict[str, Predict]:
    """Return what each explanation predicts in a changed world, from the lists in the unchanged one."""
    problem = world.problem
    popularity = problem.split.train.col_counts
    about = {"popularity": popularity, "history": others.history, "draws": 0}
    chosen = fit_choice_model(*others.pool, others.base_lists, theirs, problem.categories, **about)
    before = {"base_lists": world.base_lists, "exclude": world.gone}
    dials = lists_to_dials(world.base, lists, problem.categories, **before)
    compiled = lists_to_vectors(world.base, lists, exclude=world.gone)
    change = method.change or Change.of(world.base, compiled.perturbation)

    def choice_model(after: World, rounds: int) -> Lists:
        about = {"popularity": popularity, "history": after.history, "rounds": rounds}
        return predict_lists(chosen, problem.categories, *after.pool, after.left_of(lists), **about)

    def by_vectors(factors: Factors) -> Predict:
        own = factors.of_users(world.users) if method.change else factors
        return lambda after: after.rank(own)

    return {
        "rule": method.make if method.name in RULES else fitted_rule(others, theirs),
        "choice model, free places": partial(choice_model, rounds=0),
        "choice model, all places": partial(choice_model, rounds=ROUNDS),
        "shadow prices": shadow_prices(world, lists, others, theirs),
        "dials": lambda after: after.rank(dials.applied_to(world.base)),
        "user vectors": lambda after: after.rank(compiled.applied_to(world.base)),
        "five factors": by_vectors(largest_factors(change)),
        "three directions": by_vectors(with_directions_alone(change, DIRECTIONS)),
        "cached list": lambda after: cached_list(after, lists),
    }


def cached_list(after: World, lists: Lists) -> Lists:
    """What is left of the list, then the best candidates."""
    left = after.left_of(lists)
    items = np.concatenate([left, np.where(is_in(after.pool[0], left), -1, after.pool[0])], 1)
    order = np.argsort(items < 0, axis=1, kind="stable")[:, :K]
    return np.take_along_axis(items, order, 1)


def largest_factors(change: Change) -> Factors:
    """The base with the largest factors of the change alone."""
    ((side, values),) = change.sides.items()
    kept = np.zeros(values.shape[1], np.float32)
    kept[np.argsort(-(values**2).sum(0))[:FACTORS]] = 1
    return change.replaced(**{side: values * kept}).after


def fitted_rule(others: World, theirs: Lists) -> Predict:
    """The rule at the trade-off whose lists come nearest to the lists of other users."""
    rules = [rule_at(others.problem, GOAL, trade_off).reranker() for trade_off in GRID]
    best = max(rules, key=lambda rule: is_in(theirs, others.rerank(rule)).mean())
    return lambda after: after.rerank(best)


def shadow_prices(world: World, lists: Lists, others: World, theirs: Lists) -> Predict:
    """Rank by score and the prices of the item's categories; equal items keep the old list."""
    some = World.of(others.problem, others.users[:FITTED_ON])

    def nearness(trade_off: float) -> float:
        found = priced(some, prices_of(some, trade_off), theirs[:FITTED_ON])
        return float(is_in(theirs[:FITTED_ON], found).mean())

    prices = prices_of(world, max(GRID, key=nearness))
    return lambda after: priced(after, prices, lists)


def prices_of(world: World, trade_off: float) -> NDArray[np.float64]:
    """``(n, m)`` prices of categories in units of scores: (1 - t) * mean relevance + t * coverage, relaxed."""
    has = world.problem.categories.items.dense()
    n_present = int(has.any(0).sum())
    found = np.zeros((len(world.users), has.shape[1]))
    for user, (items, scores) in enumerate(zip(*world.pool, strict=True)):
        there = items >= 0
        categories, score = has[items[there]].astype(float), scores[there]
        span = max(float(score[0] - score[-1]), 1e-12)
        m = categories.shape[1]
        accuracy = (1 - trade_off) / K * (score - score[-1]) / span
        value = np.concatenate([accuracy, np.full(m, trade_off / n_present)])
        covered = np.hstack([-categories.T, np.eye(m)])
        size = np.concatenate([np.ones(len(score)), np.zeros(m)])[None]
        solved = linprog(-value, covered, np.zeros(len(covered)), size, [min(K, len(score))], bounds=(0, 1))
        found[user] = -solved.ineqlin.marginals * span * K / (1 - trade_off)
    return found


def priced(world: World, prices: NDArray[np.float64], lists: Lists) -> Lists:
    """The k best of score + prices."""
    items, scores = world.pool
    has = world.problem.categories.items.dense()[items]
    value = np.where(items >= 0, scores + np.einsum("unm,um->un", has, prices), -np.inf)
    value += 1e-6 * np.abs(scores[:, :1]) * is_in(items, lists)
    return np.take_along_axis(items, np.argsort(-value, axis=1, kind="stable")[:, :K], 1)


def measured(problem: Problem, name: str, users: int, iterations: int, seed: int = 0) -> dict[str, Any]:
    """Return the figures of one method: explanation -> intervention -> figures."""
    generator = np.random.default_rng(seed)
    method = Method.of(name, problem, iterations)
    everybody = World.of(problem, np.arange(problem.base.n_users))
    lists = method.make(everybody)
    drawn = generator.permutation(np.flatnonzero(newcomers(lists, everybody.base_lists).any(1)))
    sample, rest = np.split(drawn, [min(users, len(drawn) // 2)])
    world, others = World.of(problem, sample), World.of(problem, rest)
    after = interventions(world, lists[sample], generator)
    truth = {intervention: method.make(it) for intervention, it in after.items()}
    predict = explanations(method, world, lists[sample], others, lists[rest])
    figures = {
        explanation: {it: counted(by(after[it]), truth[it], after[it].base_lists) for it in INTERVENTIONS}
        for explanation, by in predict.items()
    }
    ndcg = [float(np.nanmean(problem.judge(it, ("ndcg@10",))["ndcg@10"])) for it in (everybody.base_lists, lists)]
    about = {"users": len(sample), "fitted_on": len(rest), "ndcg_change": ndcg[1] / ndcg[0] - 1}
    about["newcomers"] = float(newcomers(lists, everybody.base_lists).sum(1).mean())
    about["lists_that_change"] = {it: float(1 - same_sets(truth[it], lists[sample]).mean()) for it in INTERVENTIONS}
    return {**about, "figures": figures}


def same_sets(lists: Lists, others: Lists) -> NDArray[np.bool_]:
    same: NDArray[np.bool_] = (np.sort(lists, 1) == np.sort(others, 1)).all(1)
    return same


def counted(predicted: Lists, truth: Lists, base: Lists) -> dict[str, Any]:
    """Whole lists and newcomers predicted, with 95 % intervals over users."""
    new = newcomers(truth, base)
    hits = (is_in(truth, predicted) & new).sum(1) / np.where(new.any(1), new.sum(1), np.nan)
    values = np.stack([same_sets(predicted, truth), hits], 1)
    low, high = percentile_interval(bootstrap_means(values, RESAMPLES, np.random.default_rng(0)), 0.95)
    means = np.nanmean(values, 0)
    return {
        what: {"share": float(means[at]), "interval": [float(low[at]), float(high[at])]}
        for at, what in enumerate(("lists", "newcomers"))
    }


def cell(found: dict[str, Any]) -> str:
    low, high = (100 * it for it in found["lists"]["interval"])
    return f"{100 * found['lists']['share']:.0f} ({low:.0f} to {high:.0f}), {100 * found['newcomers']['share']:.0f}"


def print_table(name: str, rows: dict[str, dict[str, Any]]) -> None:
    print(f"{name}\n\n| lists of | explanation | {' | '.join(INTERVENTIONS)} |\n|{'---|' * (2 + len(INTERVENTIONS))}")
    for method, it in rows.items():
        changed = " | ".join(f"{100 * share:.0f} % change" for share in it["lists_that_change"].values())
        print(f"| {method} | NDCG@10 {100 * it['ndcg_change']:+.1f} %, {it['newcomers']:.1f} newcomers | {changed} |")
        for explanation, found in it["figures"].items():
            cells = [cell(found[at]) for at in INTERVENTIONS]
            print(f"| | {explanation}{by_definition(explanation, method)} | {' | '.join(cells)} |")
    print(f"\n| whole lists, mean over interventions | {' | '.join(rows)} |\n|{'---|' * (1 + len(rows))}")
    for explanation in next(iter(rows.values()))["figures"]:
        cells = [
            f"{100 * mean_share(it['figures'][explanation], 'lists'):.0f}{by_definition(explanation, method)}"
            for method, it in rows.items()
        ]
        print(f"| {explanation} | {' | '.join(cells)} |")
    print()


def by_definition(explanation: str, method: str) -> str:
    return ", by definition" if explanation == "rule" and method in RULES else ""


def mean_share(found: dict[str, Any], what: str) -> float:
    """The mean over the four interventions."""
    return float(np.mean([found[at][what]["share"] for at in INTERVENTIONS[1:]]))


def claims_of(name: str, rows: dict[str, dict[str, Any]]) -> list[Claim]:
    """Whole lists that the choice model predicts, with those of the cached list as the bar."""
    found = []
    for method, it in rows.items():
        whose = (it["figures"][which] for which in ("choice model, free places", "cached list"))
        model, cached = (mean_share(figures, "lists") for figures in whose)
        found.append(Claim(f"{name}, {method}: whole lists by the choice model", model, cached, "higher"))
    return found


def main() -> None:
    options = parser(__doc__)
    options.add_argument("runs", nargs="+", type=Path, metavar="RUN", help="trained runs with categories")
    options.add_argument("--users", type=int, default=300, help="how many users (300)")
    options.add_argument("--iterations", type=int, default=200, help="of the paper's CMB (200)")
    options.add_argument("--methods", nargs="+", choices=METHODS, default=METHODS, metavar="NAME")
    given = options.parse_args()
    claims: list[Claim] = []
    details: dict[str, Any] = {}
    for path in given.runs:
        problem = Run.open(path).problem("validation")
        details[path.name] = {name: measured(problem, name, given.users, given.iterations) for name in given.methods}
        claims += claims_of(path.name, details[path.name])
        if not given.json:
            print_table(path.name, details[path.name])
    report(claims, as_json=given.json, details=details)


if __name__ == "__main__":
    main()
