"""How fast are named weights found, how many lists do they hold, and what is left of them after rounding?

    python benchmarks/dials.py RUN [RUN ...] [--parts speed holds] [--goals sc ilad_subtopics] [--json]

RUN is a trained run with item categories. The benchmark has two parts, with figures on the validation part:

- "speed" finds the weights for optimal lists of the first run over its whole catalogue: the plain program, all rows and
  the least-L2 point, and a random world with 300 properties. HiGHS solves the same rows of a sample. CPU time is given
  next to wall time, because other processes disturb the latter.
- "holds" compiles optimal lists at trade-offs 0.1 and 0.2 (history weight 0.2, as on the path) and at the largest
  trade-off of the path that loses at most 1 % of NDCG@10. It then serves them: as they are, with weights scaled by 0.9
  and 1.1, and with all vectors rounded to bf16, fp16 and int8 (one scale per vector).
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.optimize import linprog

from harness import Claim, parser, report
from recprism.budget.path import lists_at
from recprism.budget.problem import Problem
from recprism.data import Categories
from recprism.forms.dials import Dials, lists_to_dials
from recprism.forms.dials.kernels.weights_state import Rows, Users
from recprism.forms.dials.named import covered
from recprism.forms.dials.wanted import score_spread
from recprism.forms.dials.weights import rows_of, solve_block
from recprism.metrics.registry import canonical
from recprism.models import Factors
from recprism.rule.goal import Goal
from recprism.runs import Run

TRADE_OFFS = (0.1, 0.2)
PARTS = ("speed", "holds")
SAMPLE = 30
PLAIN: dict[str, Any] = {"margin": 1e-5, "rounding": 0.0, "scales": (1.0, 1.0), "ordered": False}
ALL_ROWS: dict[str, Any] = {"margin": 1e-5, "rounding": 0.005, "scales": (0.9, 1.1), "ordered": False}
HELD = {"ml-1m": 0.97}


def rounded(vectors: NDArray[np.float32], kind: str) -> NDArray[np.float32]:
    """Round as an index does: a float format, or int8 with one scale per vector."""
    tensor = torch.from_numpy(np.ascontiguousarray(vectors))
    if kind != "int8":
        return tensor.to({"bf16": torch.bfloat16, "fp16": torch.float16}[kind]).float().numpy()
    scale = tensor.abs().amax(1, keepdim=True).clamp(min=1e-30) / 127
    return (torch.round(tensor / scale) * scale).numpy()


def served(base: Factors, dials: Dials) -> dict[str, Factors]:
    """The ways in which an engine may serve the weights."""
    exact = dials.applied_to(base)
    ways = {"scaled by 0.9": 0.9, "scaled by 1.1": 1.1}
    found = {way: replace(dials, weights=dials.weights * factor).applied_to(base) for way, factor in ways.items()}
    for kind in ("bf16", "fp16", "int8"):
        found[kind] = exact.with_vectors(user=rounded(exact.user, kind), item=rounded(exact.item, kind))
    return found


def lists_of(problem: Problem, goal: str, trade_off: float) -> NDArray[np.int64]:
    return np.asarray(lists_at(problem, goal, trade_off), np.int64)


def mean(problem: Problem, metric: str) -> Callable[[NDArray[np.int64]], float]:
    return lambda lists: float(np.nanmean(problem.judge(lists, (metric,))[metric]))


def within_budget(problem: Problem, goal: str) -> float:
    """The largest trade-off of the path that loses at most 1 % of NDCG@10."""
    ndcg = mean(problem, "ndcg@10")
    base, found = ndcg(problem.base_lists), 0.0
    for step in Goal.parse(goal).steps:
        if ndcg(lists_of(problem, goal, step)) >= 0.99 * base:
            found = step
    return found


def holds(name: str, problem: Problem, goal: str, trade_off: float, *, budget: bool, demote: bool) -> list[Claim]:
    lists, base = lists_of(problem, goal, trade_off), problem.factors
    options: dict[str, Any] = {"base_lists": problem.base_lists, "exclude": problem.hidden, "demote": demote}
    dials = lists_to_dials(base, lists, problem.categories, **options)
    worth, ndcg = mean(problem, f"{canonical(goal)}@{problem.k}"), mean(problem, "ndcg@10")
    what = f"{name}, {goal} at {trade_off:g}" + (" (1 % budget)" if budget else "") + (", demotion" if demote else "")
    start, reached = worth(dials.base_lists), worth(dials.given)
    claims = [
        Claim(
            f"{what}: share of {dials.changed_users} changed lists held",
            dials.lists_held,
            HELD.get(name, 0.95),
            "higher",
        ),
        Claim(f"{what}: share of users with all rows met", float(dials.feasible[dials.changed].mean()), None),
        Claim(f"{what}: share of swaps", dials.explained_swaps, None),
        Claim(f"{what}: share of the gain", dials.explained_gain(worth), 0.98, "higher"),
        Claim(f"{what}: weights per changed user", dials.dials_per_changed_user, 3.0 if budget else None),
        Claim(f"{what}: wanted items below one with equal properties", dials.same_property_pairs, None),
    ]
    bars = {"scaled by 0.9": 0.99, "scaled by 1.1": 0.99, "bf16": 0.95, "fp16": 0.95, "int8": 0.9}
    for way, factors in served(base, dials).items():
        left = (worth(np.asarray(problem.rank(factors)[0])) - start) / (reached - start)
        claims.append(Claim(f"{what}: share of that gain left, {way}", left, bars[way], "higher"))
    points = 100 * (ndcg(dials.given) - ndcg(lists)) / ndcg(dials.base_lists)
    claims.append(Claim(f"{what}: NDCG@10 below the lists, percent of the base", -points, 0.5))
    return claims


def block_of(
    factors: Factors, lists: NDArray[np.int64], base_lists: NDArray[np.int64], seen: Any, categories: Categories
) -> Users:
    """The users whose list changes, as the kernels take them."""
    changed = np.flatnonzero((np.sort(lists, 1) != np.sort(base_lists, 1)).any(1))
    user, item = (torch.from_numpy(it) for it in factors.search_vectors)
    scores = (user[changed] @ item.T).numpy()
    out = seen.take_rows(changed)
    scores[out.row_of_entry, out.indices] = -np.inf
    cost = costs(categories.dense(), lists[changed], base_lists[changed])
    return Users(scores, lists[changed], score_spread(factors)[changed], cost)


def costs(values: NDArray[Any], lists: NDArray[np.int64], base_lists: NDArray[np.int64]) -> NDArray[np.float64]:
    return np.where(covered(values, lists) & ~covered(values, base_lists), 1.0, 2.0)


def timed(rows: Rows, users: Users, *, least: bool) -> tuple[float, float]:
    """Users a second: wall time, and CPU time on two cores; the best of three."""
    found = []
    for _ in range(3):
        fresh = users._replace(scores=users.scores.copy())
        start, cpu = time.perf_counter(), time.process_time()
        solve_block(rows, fresh, least=least)
        found.append((time.perf_counter() - start, time.process_time() - cpu))
    n = len(users.lists)
    return n / min(wall for wall, _ in found), 2 * n / min(cpu for _, cpu in found)


def highs_seconds(rows: Rows, users: Users) -> float:
    """Mean seconds that HiGHS needs for the rows of a user: all wanted items, the best other item of each group."""
    seconds = 0.0
    low, high = rows.scales
    for user in range(SAMPLE):
        wanted = users.lists[user]
        scores = users.scores[user].astype(np.float64) / users.spread[user]
        own, others = scores[wanted], scores.copy()
        others[wanted] = -np.inf
        best = np.full(rows.properties.shape[1], -np.inf)
        np.maximum.at(best, rows.group, others)
        there = np.flatnonzero(np.isfinite(best))
        difference = (rows.of_group[rows.group[wanted]][:, None] - rows.of_group[there]).reshape(
            -1, len(rows.properties)
        )
        needed = (best[there] - own[:, None]).ravel() + rows.margin + rows.rounding * np.abs(difference).sum(1)
        a, b = np.vstack([low * difference, high * difference]), np.tile(needed, 2)
        start = time.process_time()
        linprog(users.cost[user], A_ub=-a, b_ub=-b, method="highs")
        seconds += time.process_time() - start
    return seconds / SAMPLE


def many_properties(n_users: int = 1_000, n_items: int = 2_000, m: int = 300) -> tuple[Rows, Users]:
    """A random world: items have four of 300 properties, and lists come from random weights on three of them."""
    generator = np.random.default_rng(0)
    user, item = (generator.normal(size=(n, 20)).astype(np.float32) / 20**0.25 for n in (n_users, n_items))
    values = np.zeros((n_items, m))
    values[np.arange(n_items)[:, None], generator.integers(0, m, (n_items, 4))] = 1
    push = np.zeros((n_users, m))
    push[np.arange(n_users)[:, None], generator.integers(0, m, (n_users, 3))] = generator.random((n_users, 3)) * 6
    scores = user @ item.T
    lists, base = (np.argsort(-it, axis=1)[:, :10] for it in (scores + push @ values.T, scores))
    cost = costs(values, lists, base)
    users = Users(scores.astype(np.float32), lists.astype(np.int64), scores.std(1).astype(np.float64), cost)
    return rows_of(values, **ALL_ROWS), users


def speed(name: str, problem: Problem) -> list[Claim]:
    of_items = problem.categories
    users = block_of(problem.factors, lists_of(problem, "sc", 0.1), problem.base_lists, problem.hidden, of_items)
    values = of_items.dense().astype(np.float64)
    world = f"{name}, {len(of_items)} properties, {problem.factors.n_items} items"
    cases = [
        (f"{world}, plain program", rows_of(values, **PLAIN), users, False, 50_000),
        (f"{world}, all rows and the least-L2 point", rows_of(values, **ALL_ROWS), users, True, 20_000),
        ("300 properties, 2000 items, all rows and the least-L2 point", *many_properties(), True, 1_000),
    ]
    claims = []
    for what, rows, block, least, bar in cases:
        wall, cpu = timed(rows, block, least=least)
        claims.append(Claim(f"{what}: users a second", wall, float(bar), "higher"))
        claims.append(Claim(f"{what}: users per two seconds of CPU time", cpu, float(bar), "higher"))
        claims.append(Claim(f"{what}: times as fast as HiGHS, CPU time", cpu / 2 * highs_seconds(rows, block), None))
    return claims


def main() -> None:
    options = parser(__doc__)
    options.add_argument("runs", nargs="+", type=Path)
    options.add_argument("--parts", nargs="+", default=list(PARTS), choices=PARTS)
    options.add_argument("--goals", nargs="+", default=["sc", "ilad_subtopics"])
    given = options.parse_args()
    claims: list[Claim] = []
    for number, path in enumerate(given.runs):
        run = Run.open(path)
        problem, name = run.problem("validation"), run.config.data.source
        if "speed" in given.parts and number == 0:
            claims += speed(name, problem)
        for goal in given.goals if "holds" in given.parts else ():
            budget = within_budget(problem, goal)
            for trade_off in dict.fromkeys((*TRADE_OFFS, budget)):
                for demote in (False, True) if goal != "sc" else (False,):
                    claims += holds(name, problem, goal, trade_off, budget=trade_off == budget, demote=demote)
    report(claims, as_json=given.json, packages=("scipy",))


if __name__ == "__main__":
    main()
