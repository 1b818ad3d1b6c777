"""A trained model about to serve lists, and what judges them."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from recprism.data.split import Part, Split
from recprism.data.subtopics import Subtopics
from recprism.errors import InputError
from recprism.metrics import Context, evaluate
from recprism.models import Factors
from recprism.rerank import Features, subtopic_probabilities

CANDIDATES = 500

Lists = NDArray[np.int64]
T = TypeVar("T")


class Scenario:
    """A trained model about to serve lists that are judged on one part of a split.

    No label of that part is in what methods see: candidates, scores, subtopics, vectors, and the users' history.
    """

    def __init__(self, factors: Factors, split: Split, subtopics: Subtopics, part: Part, k: int = 10) -> None:
        _require_same_rows(factors, split)
        self.factors, self.split, self.subtopics, self.part, self.k = factors, split, subtopics, part, k
        self.seen = split.seen_before(part)
        self._kept: dict[Any, Any] = {}

    def on(self, part: Part) -> Scenario:
        """The same model about to serve lists that another part judges."""
        return Scenario(self.factors, self.split, self.subtopics, part, self.k)

    def once(self, key: Any, compute: Callable[[], T]) -> T:
        """What several trials of a method need, computed by the first of them."""
        if key not in self._kept:
            self._kept[key] = compute()
        found: T = self._kept[key]
        return found

    @cached_property
    def candidates(self) -> tuple[NDArray[Any], NDArray[Any]]:
        """(n_users, n) items, best first, and their scores; n is 500 or the catalogue."""
        depth = min(CANDIDATES, self.factors.n_items)
        items, scores = self.factors.rank(depth, exclude=self.seen)
        return np.asarray(items, np.int64), np.asarray(scores, np.float64)

    @cached_property
    def features(self) -> Features:
        if not len(self.subtopics):
            return Features(vectors=self.factors.item)
        return Features(
            vectors=self.factors.item,
            subtopics=self.subtopics,
            user_subtopics=subtopic_probabilities(self.seen, self.subtopics),
        )

    @cached_property
    def context(self) -> Context:
        return Context.from_split(self.split, self.part, subtopics=self.subtopics, vectors=self.factors.item)

    @cached_property
    def base_lists(self) -> Lists:
        return self.candidates[0][:, : self.k]

    def judge(self, lists: NDArray[Any], names: tuple[str, ...]) -> dict[str, NDArray[np.float64]]:
        """name -> (n_users,) values, NaN for users who cannot be judged; (1,) for a metric of all lists together."""
        found = evaluate(self.filled_up(lists, names), self.context, names, bootstrap=0, users=self.split.user_ids)
        return {score.name: found.values.get(score.name, np.array([score.mean])) for score in found.scores}

    def filled_up(self, lists: NDArray[Any], names: tuple[str, ...]) -> NDArray[Any]:
        """The lists, followed by the best remaining candidates as far as a guard such as recall@20 looks."""
        depth = max(int(name.partition("@")[2]) for name in names)
        if depth <= lists.shape[1]:
            return lists
        items = self.candidates[0][:, :depth]  # a list takes as many of them at most as it has places: enough are left
        taken = (items[:, :, None] == lists[:, None, :]).any(2)
        order = np.argsort(taken, axis=1, kind="stable")
        rest = np.take_along_axis(np.where(taken, -1, items), order, 1)
        return np.concatenate([lists, rest[:, : depth - lists.shape[1]]], 1)


def _require_same_rows(factors: Factors, split: Split) -> None:
    """Vectors of another library come in its own order: numbers would then mean other users and items."""
    sides = (("users", factors.user_ids, split.user_ids), ("items", factors.item_ids, split.item_ids))
    for side, ours, theirs in sides:
        if not np.array_equal(ours, theirs):
            raise InputError(
                f"the {side} of the vectors are not those of the split in the same order; put them in order with "
                "recprism.runs.jobs.imported.aligned(factors, split), or make a run of them with run_from_factors"
            )
