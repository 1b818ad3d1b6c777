"""A context in which items of older lists score higher, so that lists change less."""

from __future__ import annotations

from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from recprism.budget.problem import DEPTH, Lists, Problem
from recprism.data.sparse_rows import SparseRows


class StickyProblem(Problem):
    """A problem in which old items score higher.

    Args:
        of: The problem without the bonus.
        held: (n_users, k) numbers of the old items, negative in empty places.
        stickiness: The bonus, in units of the range of the user's candidate scores.
    """

    def __init__(self, of: Problem, held: Lists, stickiness: float) -> None:
        about = (of.factors, of.split, of.categories, of.part, of.k)
        kept: dict[str, Any] = {"constraints": of.constraints, "history_window": of.history_window}
        super().__init__(*about, **kept, clusters=of.clusters, fields=of.fields)
        self.of, self.held, self.stickiness = of, held, stickiness

    def _live(self) -> Problem:
        """Return the live context; old items that a user has taken since are dropped."""
        live = self.of.live()
        return StickyProblem(live, np.where(_is_in(live.seen, self.held), -1, self.held), self.stickiness)

    def _made(self, **other: Any) -> Problem:
        return StickyProblem(self.of.replaced(**other), self.held, self.stickiness)

    @cached_property
    def candidates(self) -> tuple[NDArray[Any], NDArray[Any]]:
        """The held items and the best others, best first."""
        items, scores = (array[:, :DEPTH] for array in self.of.candidates)
        lowest = np.where(items >= 0, scores, np.inf).min(1, keepdims=True)
        bonus = self.stickiness * np.where(np.isfinite(lowest), scores[:, :1] - lowest, 0.0)
        inside = np.zeros(items.shape, bool)
        for place in range(self.held.shape[1]):
            inside |= (items == self.held[:, [place]]) & (items >= 0)
        user, item = self.factors.search_vectors
        own = np.einsum("ud,ukd->uk", user, item[self.held.clip(0)]).astype(np.float64)
        both = np.hstack([np.where(inside, -1, items), self.held])
        raised = np.hstack([np.where(inside, -np.inf, scores), np.where(self.held >= 0, own + bonus, -np.inf)])
        order = np.argsort(-raised, axis=1, kind="stable")[:, : items.shape[1]]
        return np.take_along_axis(both, order, 1), np.take_along_axis(raised, order, 1)


def _is_in(pairs: SparseRows, items: NDArray[Any]) -> NDArray[np.bool_]:
    """(n, k) whether each item is in the same row of ``pairs``."""
    keys = np.arange(len(items))[:, None] * pairs.n_cols + items
    return np.isin(keys, pairs.keys) & (items >= 0)
