"""A trained model about to serve lists, and the labels that judge them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cached_property
from typing import Any, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from recprism._display import Displayed
from recprism.data.split import Part, Split
from recprism.data.subtopics import Subtopics
from recprism.errors import InputError
from recprism.metrics import Context, evaluate
from recprism.models import Factors
from recprism.rerank import Features, subtopic_probabilities

CANDIDATES = 500

Lists = NDArray[np.int64]
T = TypeVar("T")


class PathStore(Protocol):
    """Keeps the lists of paths, so that a later process does not compute them again.

    Stability: experimental.
    """

    def read(self, goal: str, kind: str) -> Mapping[float, Lists]:
        """Return trade-off -> ``(n_users, k)`` lists, as far as they are stored for the same model and data."""
        ...

    def write(self, goal: str, kind: str, lists: Mapping[float, Lists]) -> None:
        """Store the lists of one goal and kind."""
        ...


class Scenario(Displayed):
    """A trained model about to serve lists that are judged on one part of a split.

    Methods see candidates, scores, categories, vectors and the users' history. They see no label of the part that
    judges.

    Args:
        factors: The trained model, its rows in the order of the split.
        split: What users did.
        subtopics: The categories of the items.
        part: The part that figures are reported on. Budgets are certified on the validation part, if the split has one.
        k: Length of the lists.
        store: Where the lists of paths are kept between processes; None keeps them in this object only.

    Raises:
        InputError: If the rows of the vectors are not those of the split.

    Stability: provisional.
    """

    def __init__(
        self,
        factors: Factors,
        split: Split,
        subtopics: Subtopics,
        part: Part = "test",
        k: int = 10,
        *,
        store: PathStore | None = None,
    ) -> None:
        _require_same_rows(factors, split)
        self.factors, self.split, self.subtopics, self.part, self.k = factors, split, subtopics, part, k
        self.seen = split.seen_before(part)
        self._store = store
        self._computed: dict[Any, Any] = {}

    def on(self, part: Part) -> Scenario:
        """Return the same model about to serve lists that another part judges."""
        if part == self.part:
            return self
        other = (self.factors, self.split, self.subtopics, part, self.k)
        return self.once(("on", part), lambda: Scenario(*other, store=self._store))

    def once(self, key: Any, compute: Callable[[], T]) -> T:
        """Return what ``compute`` gives; it is called for the first request of a key only."""
        if key not in self._computed:
            self._computed[key] = compute()
        found: T = self._computed[key]
        return found

    def known_lists(self, goal: str, *, served: bool = False) -> dict[float, Lists]:
        """Return the lists of a path that are computed or stored already, by trade-off; new ones may be added.

        Args:
            goal: Where the path leads.
            served: The lists that compiled user vectors serve. They differ from those of the path only if some user's
                vector cannot hold its list.
        """
        kind = self._kind(served)
        return self.once((goal, kind), lambda: {} if self._store is None else dict(self._store.read(goal, kind)))

    def keep_lists(self, goal: str, *, served: bool = False) -> None:
        """Hand the known lists of a path to the store."""
        if self._store is not None:
            self._store.write(goal, self._kind(served), self.known_lists(goal, served=served))

    def _kind(self, served: bool) -> str:
        return f"{self.part}-served" if served else self.part

    @cached_property
    def candidates(self) -> tuple[NDArray[Any], NDArray[Any]]:
        """``(n_users, n)`` items, best first, and their scores; n is 500 or the size of the catalogue."""
        depth = min(CANDIDATES, self.factors.n_items)
        items, scores = self.factors.rank(depth, exclude=self.seen)
        return np.asarray(items, np.int64), np.asarray(scores, np.float64)

    @cached_property
    def features(self) -> Features:
        """What re-rankers may look at."""
        if not len(self.subtopics):
            return Features(vectors=self.factors.item)
        return Features(
            vectors=self.factors.item,
            subtopics=self.subtopics,
            user_subtopics=subtopic_probabilities(self.seen, self.subtopics),
        )

    @cached_property
    def context(self) -> Context:
        """What metrics look at."""
        return Context.from_split(self.split, self.part, subtopics=self.subtopics, vectors=self.factors.item)

    @cached_property
    def base_lists(self) -> Lists:
        """``(n_users, k)`` the lists of the model as it is."""
        return self.candidates[0][:, : self.k]

    def judge(self, lists: NDArray[Any], names: tuple[str, ...]) -> dict[str, NDArray[np.float64]]:
        """Measure lists.

        Args:
            lists: ``(n_users, n)`` item numbers.
            names: Metrics with cuts.

        Returns:
            Name -> ``(n_users,)`` values, NaN for users who cannot be judged; ``(1,)`` for a metric of all lists
            together.
        """
        found = evaluate(self.filled_up(lists, names), self.context, names, bootstrap=0, users=self.split.user_ids)
        return {score.name: found.values.get(score.name, np.array([score.mean])) for score in found.scores}

    def filled_up(self, lists: NDArray[Any], names: tuple[str, ...]) -> NDArray[Any]:
        """Append the best remaining candidates, as far as a guard such as recall@20 looks."""
        depth = max(int(name.partition("@")[2]) for name in names)
        if depth <= lists.shape[1]:
            return lists
        items = self.candidates[0][:, :depth]  # a list takes as many of them at most as it has places: enough are left
        taken = (items[:, :, None] == lists[:, None, :]).any(2)
        order = np.argsort(taken, axis=1, kind="stable")
        rest = np.take_along_axis(np.where(taken, -1, items), order, 1)
        return np.concatenate([lists, rest[:, : depth - lists.shape[1]]], 1)

    def to_dict(self) -> dict[str, Any]:
        """Return the sizes and settings in plain values."""
        return {
            "users": self.factors.n_users,
            "items": self.factors.n_items,
            "factors": self.factors.dim,
            "categories": len(self.subtopics),
            "k": self.k,
            "judged_on": self.part,
            "labels": len(self.split.part(self.part)),
        }


def _require_same_rows(factors: Factors, split: Split) -> None:
    """Vectors of another library come in its own order: row numbers would then mean other users and items."""
    sides = (("users", factors.user_ids, split.user_ids), ("items", factors.item_ids, split.item_ids))
    for side, ours, theirs in sides:
        if not np.array_equal(ours, theirs):
            raise InputError(
                f"the {side} of the vectors are not those of the split in the same order; put them in order with "
                "recprism.runs.jobs.aligned(factors, split), or make a run of them with run_from_factors"
            )
