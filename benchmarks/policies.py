"""Is epsilon-greedy better than UCB here, and do players converge? On the paper's protocol, with the permuted control.

    python benchmarks/policies.py --data-root DIR [--seeds 5] [--device cuda] [--json]

On two cores a seed takes about ten minutes; on one H200 half a minute.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from harness import Claim, parser, report
from recprism.cmb import CMB, permuted
from recprism.data import Dataset, load_dataset
from recprism.metrics import Context, evaluate
from recprism.models import BPRMF, Factors
from recprism.models.perturbation import Perturbation

OBJECTIVES = {
    "SC alone": {"diversity": "subtopic_coverage", "lambda1": 0.0},
    "SC-Recall, λ1 = 5": {"diversity": "subtopic_coverage", "accuracy": "recall"},
}
POLICIES: dict[str, dict[str, Any]] = {
    "ε-greedy, first of equals": {},
    "ε-greedy, random of equals": {"ties": "random"},
    "UCB, first of equals": {"policy": "ucb"},
    "UCB (confidence 0.1), first of equals": {"policy": "ucb", "confidence": 0.1},
    "UCB, random of equals": {"policy": "ucb", "ties": "random"},
    "random arms": {"policy": "random"},
    "ε-greedy, first of equals, T = 1000": {"iterations": 1000},
}


def judge(factors: Factors, split: Any, data: Dataset) -> dict[str, float]:
    lists, _ = factors.rank(20, exclude=split.train)
    context = Context.from_split(split, "test", categories=data.categories)
    return {
        score.name: score.mean
        for score in evaluate(lists, context, ["subtopic_coverage@10", "recall@10"], bootstrap=0).scores
    }


def one_seed(data: Dataset, seed: int, device: str) -> Iterable[dict[str, Any]]:
    split = data.split("paper", seed=seed)
    factors = BPRMF.preset("paper").fit(split, seed=seed, device=device)
    base = judge(factors, split, data)
    for objective, goal in OBJECTIVES.items():
        for policy, settings in POLICIES.items():
            if "1000" in policy and seed > 1:
                continue
            model = CMB.preset("paper", seed=seed + 100, device=device, **goal, **settings)
            model.fit(factors, split, data.categories)
            assert model.delta_.item is not None
            shuffled = Perturbation(item=permuted(model.delta_.item, seed))
            after, control = (judge(it.applied_to(factors), split, data) for it in (model.delta_, shuffled))
            psi = [model.history_[at].psi for at in (0, len(model.history_) // 2, -1)]
            yield {
                "objective": objective,
                "policy": policy,
                "subtopic_coverage": 100 * (after["subtopic_coverage@10"] / base["subtopic_coverage@10"] - 1),
                "sc_permuted": 100 * (control["subtopic_coverage@10"] / base["subtopic_coverage@10"] - 1),
                "recall": 100 * (after["recall@10"] / base["recall@10"] - 1),
                "psi": psi,
            }


def summary(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    keys = dict.fromkeys((row["objective"], row["policy"]) for row in rows)
    made = []
    for objective, policy in keys:
        own = [row for row in rows if (row["objective"], row["policy"]) == (objective, policy)]
        means = {
            name: float(np.mean([row[name] for row in own])) for name in ("subtopic_coverage", "sc_permuted", "recall")
        }
        deviation = float(np.std([row["subtopic_coverage"] for row in own], ddof=1)) if len(own) > 1 else 0.0
        psi = np.mean([row["psi"] for row in own], axis=0).tolist()
        made.append(
            {"objective": objective, "policy": policy, **means, "sc_std": deviation, "psi": psi, "seeds": len(own)}
        )
    return made


def main() -> None:
    options = parser(__doc__)
    options.add_argument("--data-root")
    options.add_argument("--seeds", type=int, default=5)
    options.add_argument("--device", default="auto")
    words = options.parse_args()
    data = load_dataset("ml-1m", preset="paper", data_root=words.data_root)
    rows = summary([row for seed in range(words.seeds) for row in one_seed(data, seed, words.device)])
    found = {(row["objective"], row["policy"]): row["subtopic_coverage"] for row in rows}
    greedy, ucb = (found["SC alone", f"{name}, first of equals"] for name in ("ε-greedy", "UCB"))
    claims = [
        Claim(
            "SC@10 change in %, SC alone: ε-greedy minus UCB, both with first of equals", greedy - ucb, 0.0, "higher"
        ),
        *(
            Claim(f"SC@10 change in %, {objective}: {policy}", value, None)
            for (objective, policy), value in found.items()
        ),
    ]
    report(claims, as_json=words.json, details=rows)


if __name__ == "__main__":
    main()
