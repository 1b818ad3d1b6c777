"""One yardstick for everything an explanation compares: the same users, exclusions and metrics each time."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from recprism.data.incidence import Incidence
from recprism.data.split import Part, Split
from recprism.data.subtopics import Subtopics
from recprism.metrics import Context, deepest_cut, evaluate, parse
from recprism.models import Factors

METRICS = (
    "ndcg@10",
    "recall@10",
    "alpha_ndcg@10",
    "subtopic_coverage@10",
    "catalogue_coverage@10",
    "ilad@10",
    "ilad_subtopics@10",
)


@dataclass(frozen=True, eq=False)
class Evaluator:
    """Ranks and reads the lists.

    context: what metrics look at; exclude: users x items that are never shown
    users: row numbers of the users whose lists count, in the order of context and exclude; None for all
    subtopics: of the items, where they have any
    """

    context: Context
    exclude: Incidence
    metrics: tuple[str, ...] = METRICS
    users: NDArray[np.int64] | None = None
    subtopics: Subtopics | None = None

    @classmethod
    def on(
        cls,
        split: Split,
        part: Part,
        base: Factors,
        subtopics: Subtopics | None = None,
        metrics: Sequence[str] = METRICS,
        users: NDArray[np.int64] | None = None,
    ) -> Evaluator:
        """On the labels of a part; distances between items are always taken on the base vectors.

        Metrics that need what is not there (subtopics, say) are left out.
        """
        known = subtopics if subtopics is not None and len(subtopics) else None
        own = split if users is None else split.of_users(users)
        context = Context.from_split(own, part, vectors=base.item, **({} if known is None else {"subtopics": known}))
        names = tuple(metric_name(name) for name in metrics)
        judged = tuple(name for name in names if not context.missing(parse(name)[0].needs))
        return cls(context, own.seen_before(part), judged, users, known)

    @property
    def depth(self) -> int:
        return deepest_cut(self.metrics)

    def lists(self, factors: Factors) -> NDArray[Any]:
        """(n_users, depth) item numbers, -1 where nothing is left."""
        if self.users is not None:
            factors = factors.of_users(self.users)
        return factors.rank(self.depth, exclude=self.exclude)[0]

    def values(self, factors: Factors) -> dict[str, NDArray[np.float64]]:
        """metric -> (n_users,) values, NaN for users who cannot be judged; (1,) for a metric of all lists together."""
        found = evaluate(self.lists(factors), self.context, self.metrics, bootstrap=0)
        return {score.name: found.values.get(score.name, np.array([score.mean])) for score in found.scores}

    def means(self, factors: Factors) -> dict[str, float]:
        found = evaluate(self.lists(factors), self.context, self.metrics, bootstrap=0)
        return {score.name: score.mean for score in found.scores}


def metric_name(word: str) -> str:
    """The name that results go by: ``SC`` becomes ``subtopic_coverage@10``."""
    metric, cut = parse(word)
    return f"{metric.name}@{10 if cut is None else cut}"
