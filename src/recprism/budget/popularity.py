"""The popularity baseline, which tables of figures are compared with."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from recprism.data.sparse_rows import SparseRows
from recprism.data.split import Part, Split
from recprism.metrics import Context, Evaluation, evaluate
from recprism.metrics.suite import deepest_cut
from recprism.models.popularity import popularity

POPULARITY = "popularity"


def judged_popularity(
    split: Split,
    part: Part,
    context: Context,
    metrics: Sequence[str] | None,
    users: NDArray[Any] | None = None,
    hidden: SparseRows | None = None,
) -> Evaluation:
    """Evaluate lists of the most popular items that each user has not seen before ``part``.

    Args:
        split: The split.
        part: The part that judges.
        context: What the lists are evaluated against.
        metrics: Names with cuts; the usual ones by default.
        users: ``(n,)`` row numbers of the users of the context; all of them by default.
        hidden: ``(n_users, n_items)`` pairs that no list shows; by default the items seen before ``part``.
    """
    rows = np.arange(split.n_users) if users is None else users
    exclude = split.seen_before(part) if hidden is None else hidden
    items, _ = popularity(split).rank(deepest_cut(metrics), exclude=exclude, users=rows)
    return evaluate(items, context, metrics, bootstrap=0, users=split.user_ids[rows])


def with_popularity(
    found: Evaluation,
    split: Split,
    part: Part,
    context: Context,
    users: NDArray[Any] | None = None,
    hidden: SparseRows | None = None,
) -> Evaluation:
    """Return the evaluation with popularity in every row; unchanged if there are no training interactions."""
    if not len(split.train) or not found.scores:
        return found
    names = [score.name for score in found.scores]
    return found.with_popularity(judged_popularity(split, part, context, names, users, hidden))
