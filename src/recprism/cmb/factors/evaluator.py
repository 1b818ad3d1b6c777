"""The evaluator of explanations: every comparison uses the same users, exclusions and metrics."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from recprism.data.categories import Categories
from recprism.data.sparse_rows import SparseRows
from recprism.data.split import Part, Split
from recprism.metrics import Context, evaluate
from recprism.metrics.registry import metric_name, parse, with_gini
from recprism.metrics.suite import deepest_cut
from recprism.models import Factors

METRICS = with_gini(
    f"{name}@10"
    for name in (
        *("ndcg", "recall", "alpha_ndcg", "subtopic_coverage", "catalogue_coverage"),
        *("ilad", "ilad_subtopics"),
    )
)


@dataclass(frozen=True, eq=False)
class Evaluator:
    """Ranks with given vectors and evaluates the lists.

    Attributes:
        context: The labels and item data that metrics need.
        exclude: (n_users, n_items) pairs that are never ranked.
        metrics: Names of the metrics.
        users: Row numbers of the evaluated users, in the order of ``context`` and ``exclude``; None for all users.
        categories: The categories of the items, if there are any.
    """

    context: Context
    exclude: SparseRows
    metrics: tuple[str, ...] = METRICS
    users: NDArray[np.int64] | None = None
    categories: Categories | None = None

    @classmethod
    def on(
        cls,
        split: Split,
        part: Part,
        base: Factors,
        categories: Categories | None = None,
        metrics: Sequence[str] = METRICS,
        users: NDArray[np.int64] | None = None,
    ) -> Evaluator:
        """Evaluate on the labels of one part of a split.

        Metrics whose inputs are missing (for example categories) are left out.

        Args:
            split: The split of the interactions.
            part: The part whose labels are used.
            base: The base model; distances between items are always computed on its vectors.
            categories: The categories of the items.
            metrics: Names of the metrics.
            users: Row numbers of the users to evaluate; None for all users.
        """
        known = categories if categories is not None and len(categories) else None
        own = split if users is None else split.of_users(users)
        context = Context.from_split(own, part, vectors=base.item, **({} if known is None else {"categories": known}))
        names = tuple(metric_name(name) for name in metrics)
        judged = tuple(name for name in names if not context.missing(parse(name)[0].needs))
        return cls(context, own.seen_before(part), judged, users, known)

    @property
    def depth(self) -> int:
        """Length of the lists that the metrics need."""
        return deepest_cut(self.metrics)

    def lists(self, factors: Factors) -> NDArray[Any]:
        """Rank: (n_users, depth) item numbers, -1 in empty places."""
        if self.users is not None:
            factors = factors.of_users(self.users)
        return factors.rank(self.depth, exclude=self.exclude)[0]

    def values(self, factors: Factors) -> dict[str, NDArray[np.float64]]:
        """Return metric -> (n_users,) values, NaN for users without a value; (1,) for metrics of all lists together."""
        found = evaluate(self.lists(factors), self.context, self.metrics, bootstrap=0)
        return {score.name: found.values.get(score.name, np.array([score.mean])) for score in found.scores}

    def means(self, factors: Factors) -> dict[str, float]:
        """Return metric -> mean over the users."""
        found = evaluate(self.lists(factors), self.context, self.metrics, bootstrap=0)
        return {score.name: score.mean for score in found.scores}
