"""The lists that a fitted choice model predicts: every free place gets the most probable candidate."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from recprism.common.threads import share_work
from recprism.data import Categories, SparseRows
from recprism.explain import ChoiceModel
from recprism.explain.choice._places import CategoryRows, Places

Lists = NDArray[np.int64]
TIE = 1e-9  # utilities this close are equal
USERS_AT_ONCE = 64


def predict_lists(
    model: ChoiceModel,
    categories: Categories | SparseRows | NDArray[Any],
    candidates: NDArray[Any],
    scores: NDArray[Any],
    lists: NDArray[Any],
    *,
    history: NDArray[Any] | None = None,
    popularity: NDArray[Any] | None = None,
    rounds: int = 0,
) -> Lists:
    """Fill the empty places of lists, and optionally choose every place again.

    A place gets the most probable candidate, given the other places; of equal ones, the one with the best score. Lists
    of empty places are thus built greedily.

    Args:
        model: The fitted model; categories, history and popularity are as for the fit.
        categories: What items are about.
        candidates: (n_users, n) item numbers, -1 in empty places.
        scores: (n_users, n), -inf in empty places.
        lists: (n_users, k) item numbers, -1 where the model chooses.
        history: (n_users, n_categories).
        popularity: (n_items,).
        rounds: How often all places are chosen again, one after another. A round that changes no list is the last.

    Returns:
        (n_users, k) item numbers; a place stays -1 if no candidate is left.
    """
    places = Places.of(candidates, scores, lists, CategoryRows.of(categories), history, popularity)

    def some(first: int, last: int) -> Lists:
        return _predicted(places.of_users(np.arange(first, last)), model.weights, rounds)

    return np.concatenate([places.lists[:0], *share_work(some, len(lists), USERS_AT_ONCE)])


def _predicted(places: Places, weights: NDArray[np.float64], rounds: int) -> Lists:
    lists = places.lists
    for place in range(lists.shape[1]):
        _choose(places, weights, place, np.flatnonzero(lists[:, place] < 0))
    open_users = np.arange(len(lists))
    for _ in range(rounds):
        before = lists.copy()
        for place in range(lists.shape[1]):
            _choose(places, weights, place, open_users)
        open_users = open_users[(lists != before)[open_users].any(1)]
    return lists


def _choose(places: Places, weights: NDArray[np.float64], place: int, users: Lists) -> None:
    """Put the most probable candidates into one place of some users' lists."""
    if not len(users):
        return
    slots = places.slots(np.stack([users, np.full(len(users), place)], 1))
    utility = np.einsum("f,sfa->sa", weights, places.features(slots))
    utility[np.arange(utility.shape[1]) >= slots.counts[:, None]] = -np.inf
    best = (utility >= utility.max(1, keepdims=True) - TIE).argmax(1)
    found = places.items[users, slots.alternatives[np.arange(len(users)), best]]
    places.lists[users, place] = np.where(slots.counts > 0, found, -1)
