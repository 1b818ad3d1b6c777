"""Does the certificate hold as often as it says, and how often does it reach as far as it may?

    python benchmarks/certificate.py [--draws 1000] [--users 500 2000 6000] [--budget 0.01] [--json]

In a made world the true loss of any lists is known. Every draw takes new users with new labels and certifies, with 95 %
confidence, a path from the base lists to diverse ones. It is an error if any certified point really exceeds a budget.
"At the budget" is the worst case: the only point loses exactly what is allowed. "At a guard" is that of three budgets:
the point loses exactly what is allowed of recall@20, less of ndcg@10, and gains hit_rate@5. "Rare harm" is the case a t
test is blind to: one user in many loses everything, exactly as often as the budget allows. The bar is the 99 % point of
the errors of a method that errs in exactly 5 % of the draws. Three minutes on one core.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.stats import binom

from harness import Claim, parser, report
from recprism.budget.certificate import METHODS, certify
from recprism.testing.synthetic import World, diversified, draw_values, make_world, with_loss

STRENGTHS = (0.0, 0.02, 0.05, 0.1, 0.2, 0.4, 0.8)
SHARES_OF_BUDGET = (0.25, 0.5, 0.75, 1.0, 1.5, 2.0)  # true losses of the points
HALF_WAY, FURTHEST_ALLOWED, AT_BUDGET = 1, 2, 3
METRICS = ("ndcg@10", "recall@20", "hit_rate@5")
HIT_RATE = 0.4


@dataclass(frozen=True)
class Path:
    """Lists with known true losses: lists[0] is the base; losses: metric -> (n_points,) of the others."""

    world: World
    lists: list[NDArray[np.int64]]
    losses: dict[str, NDArray[np.float64]]


def make_path(budget: float) -> Path:
    world = make_world(8000, seed=0)
    user, item, bias = world.model(seed=1)
    ladder = [diversified(user @ item.T + bias, world.subtopics, strength) for strength in STRENGTHS]
    generator = np.random.default_rng(2)
    points = [with_loss(world, ladder, "ndcg@10", share * budget, generator) for share in SHARES_OF_BUDGET]
    lists = [ladder[0], *points]
    worth = {metric: np.array([world.expected(metric, it).sum() for it in lists]) for metric in METRICS}
    return Path(world, lists, {metric: 1 - of[1:] / of[0] for metric, of in worth.items()})


def rare_harm(n_users: int, budget: float, generator: np.random.Generator) -> list[dict[str, Any]]:
    """Base and one point: who had a hit loses it with probability ``budget``, and nobody gains."""
    base = (generator.random(n_users) < HIT_RATE) * 1.0
    return [{"hit_rate@5": values} for values in (base, base * (generator.random(n_users) >= budget))]


def count_errors(path: Path, n_users: int, draws: int, budget: float) -> Counter[tuple[str, str]]:
    """How often each thing happened, by (method, what)."""
    generator = np.random.default_rng(n_users)
    alone = {"ndcg@10": budget}
    guarded = {"ndcg@10": 3 * budget, "recall@20": float(path.losses["recall@20"][AT_BUDGET]), "hit_rate@5": budget}
    counts: Counter[tuple[str, str]] = Counter()
    for draw in range(draws):
        base, *points = draw_values(path.world, path.lists, METRICS, n_users, generator)
        healthy, harmed = rare_harm(n_users, budget, generator)
        for method in METHODS:
            certificate = partial(certify, method=method, seed=draw)
            walked = [point.certified for point in certificate(base, points, alone).points]
            counts[method, "on a path"] += any(walked[AT_BUDGET:])
            counts[method, "half way"] += walked[HALF_WAY]
            counts[method, "reach"] += walked[FURTHEST_ALLOWED]
            counts[method, "at the budget"] += certificate(base, [points[AT_BUDGET]], alone).last == 0
            counts[method, "at a guard"] += certificate(base, [points[AT_BUDGET]], guarded).last == 0
            counts[method, "rare harm"] += certificate(healthy, [harmed], {"hit_rate@5": budget}).last == 0
    return counts


def claims_of(counts: Counter[tuple[str, str]], n_users: int, draws: int, budget: float) -> list[Claim]:
    bar = float(binom.ppf(0.99, draws, 0.05)) / draws
    made = []
    for method in METHODS:
        where = f"{method}, {n_users:,} users, budget {budget:.1%}"
        errors = ("at the budget", "on a path", "at a guard", "rare harm")
        made += [Claim(f"{where}: error {what}", counts[method, what] / draws, bar) for what in errors]
        for what, share in (("half way", SHARES_OF_BUDGET[HALF_WAY]), ("reach", SHARES_OF_BUDGET[FURTHEST_ALLOWED])):
            text = f"{where}: a true loss of {share:g} budgets is certified"
            made.append(Claim(text, counts[method, what] / draws, None, "higher"))
    return made


def main() -> None:
    options = parser(__doc__)
    options.add_argument("--draws", type=int, default=1000)
    options.add_argument("--users", type=int, nargs="+", default=[500, 2000, 6000])
    options.add_argument("--budget", type=float, default=0.01)
    words = options.parse_args()
    path = make_path(words.budget)
    claims = []
    for n_users in words.users:
        counts = count_errors(path, n_users, words.draws, words.budget)
        claims += claims_of(counts, n_users, words.draws, words.budget)
    losses = {metric: values.round(5).tolist() for metric, values in path.losses.items()}
    report(claims, as_json=words.json, packages=("scipy",), details={"true losses": losses})


if __name__ == "__main__":
    main()
