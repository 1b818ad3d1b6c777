"""A goal that nobody ships: the share of lists with at least one item from the tail.

python examples/own_metric.py
"""

from __future__ import annotations

import torch

from recprism import BPRMF, load
from recprism.cmb import CMB
from recprism.metrics import Context, Lists

data = load("ml-latest-small")
split = data.split(seed=0)
factors = BPRMF().fit(split, seed=0, device="cpu")

popular = split.train.col_counts.argsort()[::-1][: split.n_items // 5]
tail = torch.ones(split.n_items, dtype=torch.bool)
tail[popular.copy()] = False


def reaches_the_tail(lists: Lists, context: Context) -> torch.Tensor:  # noqa: ARG001 - nothing but the lists is needed
    """1 for every user whose list holds an item outside the most popular fifth."""
    return (tail[lists.items.clamp_min(0)] & (lists.items >= 0)).any(1)


def share(vectors: object) -> float:
    items, _ = vectors.rank(10, exclude=split.seen_before("test"))  # type: ignore[attr-defined]
    lists = Lists(items, Context(n_items=split.n_items))
    return float(reaches_the_tail(lists, lists.context).double().mean())


model = CMB(reaches_the_tail, k=10, device="cpu").fit(factors, split)
print(f"lists with a tail item: {share(factors):.1%} before, {share(model.factors_):.1%} after")
