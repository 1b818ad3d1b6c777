"""All metrics of ML-1M-sized lists, at 10 and at 20, against the time it takes to compute these lists.

Lists are the top 20 of random factors, seen items excluded. Metrics are all that are registered, every value per user,
without intervals; left out are alpha-nDCG gated by user against the catalogue (its ideals are kept with the context)
and distances on attributes (the same work as on vectors). Checking the lists is part of the time.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from harness import Claim, interleaved, parser, report
from recprism.data.incidence import Incidence
from recprism.data.subtopics import Subtopics
from recprism.metrics import METRICS, Context, compare, evaluate
from recprism.ranking import topk

N_USERS, N_ITEMS, N_SUBTOPICS, DIM = 5950, 3125, 18, 50
SEEN, HELD_OUT, K = 77, 11, 20
NAMES = [name for name, metric in METRICS.items() if "attributes" not in metric.needs and name != "alpha_ndcg_gated"]


def main() -> None:
    options = parser(__doc__)
    options.add_argument("--repeats", type=int, default=25)
    chosen = options.parse_args()
    generator = np.random.default_rng(0)
    user = generator.standard_normal((N_USERS, DIM), np.float32)
    item = generator.standard_normal((N_ITEMS, DIM), np.float32)
    seen = interactions(generator, SEEN)
    context = Context(
        relevant=interactions(generator, HELD_OUT), train=seen, subtopics=subtopics(generator), vectors=item
    )
    items, _ = topk(user, item, K, exclude=seen)
    asked = [f"{name}@{k}" for k in (10, 20) for name in NAMES]

    def judge(bootstrap: int = 0) -> Any:
        return evaluate(items, context, asked, bootstrap=bootstrap)

    result = judge()
    tasks = {
        "lists": lambda: topk(user, item, K, exclude=seen),
        "metrics": judge,
        "metrics and intervals": lambda: judge(bootstrap=1000),
    }
    seconds = interleaved(tasks, chosen.repeats)
    seconds["comparison"] = interleaved({"": lambda: compare(result, result)}, 3, warmup=1)[""]
    seconds |= {name: interleaved({"": one(name, items, context)}, 5)[""] for name in NAMES}
    claims = [
        Claim(
            f"{len(asked)} metrics, time over that of the lists", round(seconds["metrics"] / seconds["lists"], 3), 1.0
        ),
        Claim(
            "the same with 1000 bootstrap resamples",
            round(seconds["metrics and intervals"] / seconds["lists"], 3),
            None,
        ),
        Claim("seconds for the lists", round(seconds["lists"], 4), None),
        Claim("seconds for the metrics", round(seconds["metrics"], 4), None),
    ]
    report(claims, as_json=chosen.json, details={"seconds": {name: round(s, 5) for name, s in seconds.items()}})


def one(name: str, items: Any, context: Context) -> Any:
    return lambda: evaluate(items, context, [f"{name}@{K}"], bootstrap=0)


def interactions(generator: np.random.Generator, per_user: int) -> Incidence:
    counts = generator.geometric(1 / per_user, N_USERS)
    popular_first = (N_ITEMS * generator.random(counts.sum()) ** 2).astype(int)
    return Incidence.from_pairs(np.repeat(np.arange(N_USERS), counts), popular_first, (N_USERS, N_ITEMS))


def subtopics(generator: np.random.Generator) -> Subtopics:
    """One to three of each item's own, some subtopics far more common than others."""
    counts = generator.integers(1, 4, N_ITEMS)
    number = (N_SUBTOPICS * generator.random(counts.sum()) ** 2).astype(int)
    return Subtopics.from_pairs(np.repeat(np.arange(N_ITEMS), counts), [f"s{n:02}" for n in number], N_ITEMS)


if __name__ == "__main__":
    main()
