"""Does the test keep what validation promised?

    python benchmarks/promise.py [--seeds 20] [--budgets 0.02 0.05] [--goal sc] [--json]

Real data (the embedded MovieLens, split and trained anew for every seed): the budget is certified on the validation
part, and the vectors that are kept are then measured on the test part, which had no say. A test of some 600 users is
itself uncertain, so that single seeds may lie beyond the budget; the mean over them must not. Eight seconds a seed.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.stats import t

from harness import Claim, parser, report
from recprism.data import Dataset
from recprism.models import BPRMF
from recprism.study.config import DataConfig
from recprism.study.data import open_data
from recprism.study.methods import Situation
from recprism.study.path import within_budget

COST = "ndcg@10"


def main() -> None:
    options = parser(__doc__)
    options.add_argument("--seeds", type=int, default=20)
    options.add_argument("--budgets", type=float, nargs="+", default=[0.02, 0.05])
    options.add_argument("--goal", default="sc")
    chosen = options.parse_args()
    data = open_data(DataConfig())
    rows = [row for seed in range(chosen.seeds) for row in kept_promises(data, seed, chosen.goal, chosen.budgets)]
    claims = [claim for budget in chosen.budgets for claim in told(rows, budget, chosen.goal, chosen.seeds)]
    report(claims, as_json=chosen.json, details={"rows": rows})


def kept_promises(data: Dataset, seed: int, goal: str, budgets: list[float]) -> list[dict[str, Any]]:
    """Of one split and one trained model: what was promised and what the test says, for every certified budget."""
    split = data.split(seed=seed)
    factors = BPRMF().fit(split, seed=seed, device="cpu")
    situation = Situation(factors, split, data.subtopics, "test")
    names = (COST, f"{goal}@{situation.k}")
    base = situation.judge(situation.base_lists, names)
    rows = []
    for budget in budgets:
        kept = within_budget(situation, goal, {COST: budget})
        if kept.baked is None:
            continue
        assert kept.certificate.part == "validation"
        served, _ = kept.perturbation.applied_to(factors).rank(situation.k, exclude=situation.seen)
        now = situation.judge(np.asarray(served, np.int64), names)
        change = {name: float(np.nanmean(now[name]) / np.nanmean(base[name]) - 1) for name in names}
        promised = kept.certificate.figures()[COST]
        facts = {"seed": seed, "budget": budget, "trade_off": kept.trade_off}
        rows.append({**facts, "promised": promised["upper"], "lost": -change[COST], "gained": change[names[1]]})
    return rows


def told(rows: list[dict[str, Any]], budget: float, goal: str, seeds: int) -> list[Claim]:
    mine = [row for row in rows if row["budget"] == budget]
    lost, gained = (np.array([row[name] for row in mine]) for name in ("lost", "gained"))
    half = t.ppf(0.975, len(mine) - 1) * lost.std(ddof=1) / np.sqrt(len(mine))
    at = f"budget {budget:g}: "
    return [
        Claim(f"{at}seeds of {seeds} with vectors that are certified on validation", len(mine), None),
        Claim(f"{at}mean loss of {COST} on the test (± {half:.4f})", round(float(lost.mean()), 4), budget),
        Claim(f"{at}mean gain of {goal}@10 on the test", round(float(gained.mean()), 4), None),
        Claim(f"{at}seeds whose loss on the test is above the budget", int((lost > budget).sum()), None),
    ]


if __name__ == "__main__":
    main()
