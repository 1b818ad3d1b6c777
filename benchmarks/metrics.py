"""The metrics of ML-1M-sized lists, at 10 and at 20, against the time it takes to compute these lists.

Lists are the top 20 of random factors, seen items excluded: ours, and the plain way (product, mask, torch.topk). "All"
is every registered metric but alpha-nDCG gated by user against the catalogue (its ideals are kept with the context) and
distances on categories and attributes (the same work on other vectors). Every value per user, without intervals;
checking the lists is part of the time.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch

from harness import Claim, interleaved, parser, report
from recprism.data.categories import Categories
from recprism.data.sparse_rows import SparseRows
from recprism.metrics import DEFAULT_METRICS, METRICS, Context, compare, evaluate
from recprism.ranking import topk

N_USERS, N_ITEMS, N_CATEGORIES, DIM = 5950, 3125, 18, 50
SEEN, HELD_OUT, K = 77, 11, 20
LEFT_OUT = {"alpha_ndcg_gated", "ilad_subtopics", "ilad_attributes", "min_ild_subtopics", "min_ild_attributes"}
NAMES = [name for name in METRICS if name not in LEFT_OUT]
ALL = [f"{name}@{k}" for k in (10, 20) for name in NAMES]


def main() -> None:
    options = parser(__doc__)
    options.add_argument("--repeats", type=int, default=25)
    chosen = options.parse_args()
    generator = np.random.default_rng(0)
    user = generator.standard_normal((N_USERS, DIM), np.float32)
    item = generator.standard_normal((N_ITEMS, DIM), np.float32)
    seen = interactions(generator, SEEN)
    context = Context(
        relevant=interactions(generator, HELD_OUT), train=seen, categories=categories(generator), vectors=item
    )
    items, _ = topk(user, item, K, exclude=seen)

    def judge(names: list[str] | tuple[str, ...], bootstrap: int = 0) -> Callable[[], Any]:
        return lambda: evaluate(items, context, names, bootstrap=bootstrap)

    tasks = {
        "lists": lambda: topk(user, item, K, exclude=seen),
        "plain lists": lambda: plain_lists(user, item, seen),
        "all": judge(ALL),
        "default": judge(DEFAULT_METRICS),
        "all with intervals": judge(ALL, bootstrap=1000),
    }
    seconds = interleaved(tasks, chosen.repeats)
    result = evaluate(items, context, ALL, bootstrap=0)
    seconds["comparison"] = interleaved({"": lambda: compare(result, result)}, 3, warmup=1)[""]
    seconds |= {name: interleaved({"": judge([f"{name}@{K}"])}, 5)[""] for name in NAMES}
    claims = [
        Claim(f"all {len(ALL)} metrics over our lists", ratio(seconds, "all", "lists"), 1.0),
        Claim(f"all {len(ALL)} metrics over plain lists", ratio(seconds, "all", "plain lists"), 1.0),
        Claim(f"the {len(DEFAULT_METRICS)} default metrics over our lists", ratio(seconds, "default", "lists"), 1.0),
        Claim("all with 1000 bootstrap resamples over our lists", ratio(seconds, "all with intervals", "lists"), None),
        Claim("seconds for our lists", round(seconds["lists"], 4), None),
        Claim("seconds for all metrics", round(seconds["all"], 4), 0.05),
    ]
    report(claims, as_json=chosen.json, details={"seconds": {name: round(s, 5) for name, s in seconds.items()}})


def ratio(seconds: dict[str, float], ours: str, theirs: str) -> float:
    return round(seconds[ours] / seconds[theirs], 3)


def plain_lists(user: Any, item: Any, seen: SparseRows) -> Any:
    scores = torch.from_numpy(user) @ torch.from_numpy(item).T
    scores.view(-1)[torch.from_numpy(seen.keys)] = -torch.inf
    return scores.topk(K)


def interactions(generator: np.random.Generator, per_user: int) -> SparseRows:
    counts = generator.geometric(1 / per_user, N_USERS)
    popular_first = (N_ITEMS * generator.random(counts.sum()) ** 2).astype(int)
    return SparseRows.from_pairs(np.repeat(np.arange(N_USERS), counts), popular_first, (N_USERS, N_ITEMS))


def categories(generator: np.random.Generator) -> Categories:
    """One to three of each item's own, some categories far more common than others."""
    counts = generator.integers(1, 4, N_ITEMS)
    number = (N_CATEGORIES * generator.random(counts.sum()) ** 2).astype(int)
    return Categories.from_pairs(np.repeat(np.arange(N_ITEMS), counts), [f"s{n:02}" for n in number], N_ITEMS)


if __name__ == "__main__":
    main()
