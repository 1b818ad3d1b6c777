"""Exposure goals at equal losses of NDCG@10: who shows new items to more than one user?

    python benchmarks/exposure.py RUN [RUN ...] [--loss 0.01 0.02] [--goals GOAL ...] [--json]

For each run, on the validation part: the goal catalogue_coverage, the exposure goals reached by boosts, both with and
without a rule for subtopic coverage, and exposure-aware re-ranking of the same 500 candidates. Every method walks its
trade-offs up to the last one that keeps the loss; losses are relative to the base lists. "new" counts the items that
the base lists do not show; "once" is the share of them that exactly one user sees.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from harness import Claim, parser, report
from recprism.budget.path import lists_at
from recprism.budget.problem import Problem
from recprism.rivals import ExposureAware
from recprism.rule.goal import Goal
from recprism.runs import Run

METRICS = ("ndcg@10", "catalogue_coverage@10", "shown_often@10", "gini@10", "exposure_entropy@10")
GOALS = ("catalogue_coverage", "shown_often", "gini", "exposure_entropy")
COMBINED = ("subtopic_coverage+catalogue_coverage", "subtopic_coverage+shown_often")
RIVAL = "exposure-aware re-ranking"
RIVAL_STEPS = (0.01, 0.02, 0.05, 0.1, 0.15, 0.2, 0.25, 0.3, 0.35, 0.4, 0.45, 0.5, 0.6)

Lists = NDArray[np.int64]


def rival(problem: Problem, trade_off: float) -> Lists:
    """Re-rank by exposure, from the same candidates; lists stay in the order of scores."""
    method = ExposureAware(trade_off=trade_off, seed=0, sort_back=True)
    return np.asarray(method(*problem.candidates, problem.k, features=problem.features), np.int64)


def figures(problem: Problem, lists: Lists) -> dict[str, float]:
    """Return the metrics, and what happened to items that the base lists do not show."""
    n_items = problem.factors.n_items
    before, after = (np.bincount(it[it >= 0], minlength=n_items) for it in (problem.base_lists, lists))
    new = after[(before == 0) & (after > 0)]
    values = {name: float(np.nanmean(it)) for name, it in problem.judge(lists, METRICS).items()}
    return {**values, "new": len(new), "once": float((new == 1).mean()) if len(new) else float("nan")}


def best_within(
    problem: Problem, make: Callable[[float], Lists], steps: tuple[float, ...], losses: list[float]
) -> list[tuple[float, dict[str, float]] | None]:
    """Return the last trade-off that keeps each loss, and its figures."""
    base = figures(problem, problem.base_lists)["ndcg@10"]
    found: list[Any] = [None] * len(losses)
    for step in steps:
        now = figures(problem, make(step))
        for at, loss in enumerate(losses):
            if now["ndcg@10"] >= (1 - loss) * base:
                found[at] = (step, now)
        if now["ndcg@10"] < (1 - 2 * max(losses)) * base:
            break
    return found


def claim(name: str, trade_off: float, now: dict[str, float], base: float) -> Claim:
    """Return one row."""
    coverage, often, gini, entropy = (now[metric] for metric in METRICS[1:])
    new = f"{now['new']:.0f} new items, {now['once']:.0%} of them shown once" if now["new"] else "no new item"
    return Claim(
        f"{name} (trade-off {trade_off:g})",
        f"NDCG {now['ndcg@10'] / base - 1:+.1%}, coverage {coverage:.1%}, shown 5 times {often:.1%}, Gini {gini:.3f}, "
        f"entropy {entropy:.3f}, {new}",
        None,
    )


def main() -> None:
    options = parser(__doc__)
    options.add_argument("runs", nargs="+")
    options.add_argument("--loss", nargs="+", type=float, default=[0.01, 0.02])
    options.add_argument("--goals", nargs="*", default=[*GOALS, *COMBINED])
    asked = options.parse_args()
    claims = [it for path in asked.runs for it in compare_goals(path, asked.loss, asked.goals)]
    report(claims, as_json=asked.json)


def compare_goals(path: str, losses: list[float], goals: list[str]) -> list[Claim]:
    """Return the rows of one run."""
    problem = Run.open(path).problem("validation")
    base = figures(problem, problem.base_lists)
    claims = [claim(f"{Path(path).name}: base lists", 0.0, base, base["ndcg@10"])]
    methods = {goal: (partial(lists_at, problem, goal), Goal.parse(goal).steps) for goal in goals}
    methods[RIVAL] = (partial(rival, problem), RIVAL_STEPS)
    for name, method in methods.items():
        for loss, found in zip(losses, best_within(problem, *method, losses), strict=True):
            if found is not None:
                claims.append(claim(f"{Path(path).name}: {name}, loss at most {loss:.0%}", *found, base["ndcg@10"]))
    return claims


if __name__ == "__main__":
    main()
