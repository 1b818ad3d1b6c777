"""How many users must an iteration look at? Final metrics of searches on samples, against that on all users.

    python benchmarks/sample.py --run runs/ml1m [--json]

The learner (marginal credit, 40 iterations) searches on the base vectors of a run on ML-1M, with all users and with
samples of a growing size (a quarter of the number at first, all of it from the middle on), several seeds each. Metrics
are those of the final lists of all users on the test part. "Off" is the largest difference from the search on all
users, over metrics and seeds; a bar is 1 %. The error is the standard error of psi in the last iteration, of psi.
"""

from __future__ import annotations

import sys
import time
from typing import Any

import numpy as np

from harness import Claim, parser, report
from recprism.cmb import CMB
from recprism.cmb._sampling import ALL_UP_TO, AUTO_SAMPLE
from recprism.runs.run import Run

METRICS = ("ndcg@10", "recall@10", "subtopic_coverage@10", "alpha_ndcg@10", "ilad@10", "catalogue_coverage@10")
SIZES = (300, 1000, 2000, 3000, 4000)
BAR = 0.01


def main() -> None:
    options = parser(__doc__)
    options.add_argument("--run", required=True, help="a run on ML-1M")
    options.add_argument("--seeds", type=int, default=3)
    options.add_argument("--goals", nargs="+", default=["subtopic_coverage", "ilad_subtopics"])
    chosen = options.parse_args()
    run = Run.open(chosen.run)
    claims, details = [], {}
    for goal in chosen.goals:
        details[goal] = found = compared(run, goal, chosen.seeds)
        claims += rows(goal, found)
    claims.append(Claim(f"default beyond {ALL_UP_TO:,} users: at most, in one iteration", AUTO_SAMPLE, None))
    report(claims, as_json=chosen.json, details=details)


def compared(run: Run, goal: str, seeds: int) -> dict[str, Any]:
    everybody, _, seconds = searched(run, goal, None, 0)
    found: dict[str, Any] = {
        "all": {"metrics": dict(zip(METRICS, everybody.tolist(), strict=True)), "seconds": seconds}
    }
    for size in SIZES:
        searches = [searched(run, goal, size, seed) for seed in range(seeds)]
        off = np.abs([metrics / everybody - 1 for metrics, _, _ in searches]).max(0)
        found[str(size)] = {
            "off": dict(zip(METRICS, off.tolist(), strict=True)),
            "error": float(np.mean([error for _, error, _ in searches])),
            "seconds": float(np.median([seconds for *_, seconds in searches])),
        }
        print(f"{goal}, {size}: {found[str(size)]}", file=sys.stderr, flush=True)
    return found


def searched(run: Run, goal: str, users: int | None, seed: int) -> tuple[Any, float, float]:
    """Final metrics, the relative error of psi in the last iteration, and processor seconds."""
    start = time.process_time()
    model = CMB(diversity=goal, users_per_step=users, seed=seed, device="cpu")
    model.fit(run.factors(), run.split(), run.categories())
    seconds, last = time.process_time() - start, model.history_[-1]
    after = model.evaluate(run.split(), run.categories(), list(METRICS), bootstrap=0)[1]
    return np.array([after[name].mean for name in METRICS]), (last.error or 0.0) / last.psi, seconds


def rows(goal: str, found: dict[str, Any]) -> list[Claim]:
    claims = []
    for size, facts in found.items():
        if size == "all":
            claims.append(Claim(f"{goal}, all users: processor seconds", round(facts["seconds"], 1), None))
            continue
        worst = max(facts["off"], key=facts["off"].get)
        others = max(value for name, value in facts["off"].items() if name != worst)
        took = f"error of psi {facts['error']:.2%}, {facts['seconds']:.1f} processor seconds"
        at = f"{goal}, {int(size):,} users: off at most, in {worst} (the others {others:.2%}; {took})"
        claims.append(Claim(at, round(facts["off"][worst], 4), BAR))
    return claims


if __name__ == "__main__":
    main()
