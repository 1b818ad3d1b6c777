"""What players learn under shared and under marginal credit, and what it costs; each beside its own values shuffled.

    python benchmarks/credit.py --data-root DIR [--json]

ML-1M, BPRMF with its defaults, 8:1:1; changes in percent of the base lists, on the validation part, which no player
sees. "bias" is the learner held to one number per item. About ten minutes on two cores.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from harness import Claim, parser, report
from recprism.cmb import CMB, permuted
from recprism.cmb.factors.change import with_bias_column
from recprism.data import load_dataset
from recprism.metrics import Context, evaluate
from recprism.models import BPRMF, Factors
from recprism.models.perturbation import Perturbation

METRICS = ["ndcg@10", "subtopic_coverage@10", "ilad_subtopics@10", "catalogue_coverage@10"]
LEARNERS: dict[str, dict[str, Any]] = {
    "shared": {"preset": "shared"},
    "marginal, item side": {},
    "marginal, item side, relevance 0.5": {"relevance": 0.5},
    "marginal, user side": {"side": "user"},
    "marginal, both sides": {"side": "both"},
    "marginal, bias": {"bias": True},
}
PRICES = (0.1, 0.3, 1.0)


def main() -> None:
    options = parser(__doc__)
    options.add_argument("--data-root")
    words = options.parse_args()
    data = load_dataset("ml-1m", preset="paper", data_root=words.data_root)
    split = data.split(seed=0)
    factors = BPRMF().fit(split, seed=0)
    context = Context.from_split(split, "validation", categories=data.categories, vectors=factors.item)

    def judge(vectors: Factors) -> dict[str, float]:
        lists, _ = vectors.rank(10, exclude=split.train)
        return {score.name: score.mean for score in evaluate(lists, context, METRICS, bootstrap=0).scores}

    base = judge(factors)

    def row(name: str, goal: Any, *, preset: str = "default", bias: bool = False, **settings: Any) -> dict[str, Any]:
        start = with_bias_column(factors) if bias else factors
        settings |= {"only": (start.dim - 1,), "scaling": "global"} if bias else {}
        model = CMB.preset(preset, diversity=goal, **settings).fit(start, split, data.categories)
        sides = {"item": model.delta_.item, "user": model.delta_.user}
        moved = {side: values for side, values in sides.items() if values is not None}
        shuffled = Perturbation(**{side: permuted(values, 0) for side, values in moved.items()})
        after, control = (judge(it.applied_to(start)) for it in (model.delta_, shuffled))
        zeros = float(np.mean([float((values == 0).double().mean()) for values in moved.values()]))
        change = {metric: round(100 * (after[metric] / base[metric] - 1), 2) for metric in METRICS}
        others = {metric: round(100 * (control[metric] / base[metric] - 1), 2) for metric in METRICS}
        return {"learner": name, "goal": str(goal), **change, "permuted": others, "zeros": round(zeros, 3)}

    rows = [
        row(name, goal, **settings)
        for goal in ("subtopic_coverage", "ilad_subtopics", "catalogue_coverage")
        for name, settings in LEARNERS.items()
    ]
    rows += [row(f"marginal, item side, lambda1 = {price}", "subtopic_coverage", lambda1=price) for price in PRICES]
    rows += [row("marginal, user side, two goals", {"subtopic_coverage": 1.0, "catalogue_coverage": 1.0}, side="user")]
    claims = [
        Claim(f"{it['learner']}, {it['goal']}: gain in its goal, %", it.get(f"{it['goal']}@10"), None) for it in rows
    ]
    report(claims, as_json=words.json, details=rows)


if __name__ == "__main__":
    main()
