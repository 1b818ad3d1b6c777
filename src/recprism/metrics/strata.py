"""Accuracy for popular, middle and rare items separately: the mean over all is dominated by popular items."""

from __future__ import annotations

from typing import Literal

from torch import Tensor

from recprism.metrics.accuracy import ndcg
from recprism.metrics.catalogue import tail_items
from recprism.metrics.context import Context
from recprism.metrics.lists import Lists
from recprism.metrics.metric import Metric, register

Stratum = Literal["head", "mid", "tail"]
NAMES: tuple[Stratum, ...] = ("head", "mid", "tail")


def strata(popularity: Tensor) -> Tensor:
    """``(n_items,)`` int64: 0 for the head, 1 for the middle, 2 for the tail.

    The head are the most popular items, with a third of all training interactions; the middle has the next third. The
    item in which a third ends belongs to it.

    >>> import torch
    >>> strata(torch.tensor([2.0, 3.0, 1.0, 3.0, 0.0])).tolist()
    [2, 0, 2, 1, 2]
    """
    first, second = (tail_items(popularity, share) for share in (1 / 3, 2 / 3))
    return first.long() + second.long()


def _ndcg(lists: Lists, context: Context, *, stratum: Stratum = "head") -> Tensor:
    """Return NDCG in which only held-out items of the stratum are hits; other items still occupy their places."""
    of_item = context.keep("strata", lambda: strata(context.popularity))
    number = NAMES.index(stratum)
    wanted = context.keep(("stratum", number), lambda: context.relevant.only(of_item == number))
    return ndcg(lists.found_of(("stratum", number), wanted).dcg, wanted.counts, lists.k)


_SUMMARIES = {
    "head": "NDCG of the most popular items, those that make the first third of training interactions.",
    "mid": "NDCG of the items between, those that make the second third of training interactions.",
    "tail": "NDCG of the least popular items, those that make the last third of training interactions.",
}
for _stratum in NAMES:
    register(
        Metric(
            f"ndcg_{_stratum}",
            _ndcg,
            summary=_SUMMARIES[_stratum],
            needs=("relevant", "popularity"),
            empties="Users without held-out items of the stratum are left out of the mean; an empty list scores 0.",
            options={"stratum": _stratum},
        )
    )
