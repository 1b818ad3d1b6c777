"""Does the test keep what validation promised?

    python benchmarks/promise.py [--seeds 20] [--budgets 0.02 0.05] [--goal subtopic_coverage] [--data NAME] [--json]

Real data (the embedded MovieLens by default, split at random and trained anew for every seed): the budget is certified
on the validation part, and the lists of the rule are then measured on the test part, which had no say. A test is itself
uncertain, so that a seed may lie beyond the budget by chance; more than the 99 % point of one in twenty may not.
Validation also chose the epoch, for the base lists: what it measures as lost may be a little too much. Eight seconds a
seed on the embedded data.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.stats import binom, t

from harness import Claim, parser, report
from recprism.budget.problem import Problem
from recprism.budget.question import BudgetQuestion
from recprism.budget.within import within_budget
from recprism.data import Dataset
from recprism.models import BPRMF
from recprism.runs.config import DataConfig
from recprism.runs.jobs.dataset import open_data

COST = "ndcg@10"
FEWEST = 2


def main() -> None:
    options = parser(__doc__)
    options.add_argument("--seeds", type=int, default=20)
    options.add_argument("--budgets", type=float, nargs="+", default=[0.02, 0.05])
    options.add_argument("--goal", default="subtopic_coverage")
    options.add_argument("--data", default=DataConfig().source)
    options.add_argument("--data-root")
    chosen = options.parse_args()
    data = open_data(DataConfig(source=chosen.data, data_root=chosen.data_root))
    rows = [row for seed in range(chosen.seeds) for row in kept_promises(data, seed, chosen.goal, chosen.budgets)]
    claims = [claim for budget in chosen.budgets for claim in told(rows, budget, chosen.goal, chosen.seeds)]
    report(claims, as_json=chosen.json, details={"rows": rows})


def kept_promises(data: Dataset, seed: int, goal: str, budgets: list[float]) -> list[dict[str, Any]]:
    """Of one split and one trained model: what was promised and what the test says, for every certified budget."""
    split = data.split(seed=seed)
    factors = BPRMF().fit(split, seed=seed, device="cpu")
    problem = Problem(factors, split, data.categories, "test")
    names = (COST, f"{goal.partition('+')[0]}@{problem.k}")
    base = problem.judge(problem.base_lists, names)
    rows = []
    for budget in budgets:
        kept = within_budget(problem, BudgetQuestion.of(goal, {COST: budget}))
        if kept.rule is None:
            continue
        assert kept.certificate.part == "validation"
        now = problem.judge(problem.rank(kept.rule)[0], names)
        change = {name: float(np.nanmean(now[name]) / np.nanmean(base[name]) - 1) for name in names}
        promised = kept.certificate.figures()[COST]
        facts = {"seed": seed, "budget": budget, "trade_off": kept.rule.trade_off}
        rows.append({**facts, "expected": promised["loss"], "lost": -change[COST], "gained": change[names[1]]})
    return rows


def told(rows: list[dict[str, Any]], budget: float, goal: str, seeds: int) -> list[Claim]:
    mine = [row for row in rows if row["budget"] == budget]
    at = f"budget {budget:g}: "
    made = Claim(f"{at}seeds of {seeds} with lists that are certified on validation", len(mine), None)
    if len(mine) < FEWEST:
        return [made]
    lost, expected, gained = (np.array([row[name] for row in mine]) for name in ("lost", "expected", "gained"))
    allowed = int(binom.ppf(0.99, len(mine), 0.05))
    return [
        made,
        Claim(f"{at}seeds whose loss on the test is above the budget", int((lost > budget).sum()), allowed),
        Claim(f"{at}mean loss of {COST} on the test", with_interval(lost), None),
        Claim(f"{at}mean of that minus the loss on validation", with_interval(lost - expected), None),
        Claim(f"{at}mean gain of {goal} on the test", with_interval(gained), None),
    ]


def with_interval(values: NDArray[np.float64]) -> str:
    """Mean over seeds, and half of its 95 % interval."""
    half = t.ppf(0.975, len(values) - 1) * values.std(ddof=1) / np.sqrt(len(values))
    return f"{values.mean():.4f} ± {half:.4f}"


if __name__ == "__main__":
    main()
