"""Fit a choice model to any lists: no run and no vectors are needed."""

from __future__ import annotations

import threading
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from recprism.common.checks import COUNT, Whole
from recprism.common.progress import ProgressCallback, count_steps
from recprism.common.threads import share_work
from recprism.data.categories import Categories
from recprism.data.sparse_rows import SparseRows
from recprism.errors import InputError
from recprism.explain._kernels.choice import are_candidates
from recprism.explain.choice._likelihood import Logit
from recprism.explain.choice._places import (
    FEATURES,
    PLAIN,
    SCORES,
    Array,
    CategoryRows,
    IntArray,
    Places,
    Slots,
    check_lists,
)
from recprism.explain.choice.model import ChoiceModel, ShuffledCategories, describe
from recprism.metrics.statistics import bootstrap_means, percentile_interval

USERS = 500
SLOTS = 1000
DRAWS = 199
FEWEST_USERS = 20
DECILES = 10
RESAMPLES = 1000
ENOUGH_OF_A_DRAW = 0.5  # of a log-likelihood of thousands; the step after it has an error far below


def fit_choice_model(
    candidates: NDArray[Any],
    scores: NDArray[Any],
    base: NDArray[Any],
    lists: NDArray[Any],
    categories: Categories | SparseRows | NDArray[Any],
    *,
    history: NDArray[Any] | None = None,
    popularity: NDArray[Any] | None = None,
    users: int = USERS,
    slots: int = SLOTS,
    draws: int = DRAWS,
    seed: int = 0,
    on_step: ProgressCallback | None = None,
) -> ChoiceModel:
    """Explain new lists by a few preferences that all users share, and measure how much that explains.

    Each item of a new list that the base list does not have is removed in turn. A conditional logit says which
    candidate fills the place, from scores, categories, history and popularity. Two halves of the users are judged by
    the model that was fitted on the other half.

    Args:
        candidates: ``(n_users, n)`` item numbers, -1 in empty places.
        scores: ``(n_users, n)`` scores of the base model, -inf in empty places; they are scaled per user.
        base: ``(n_users, k)`` lists before the change, -1 in empty places.
        lists: ``(n_users, k)`` lists to explain, -1 in empty places.
        categories: What items are about: categories, or ``(n_items, n_categories)``.
        history: ``(n_users, n_categories)`` how much of a user's history each category holds, in any unit.
        popularity: ``(n_items,)`` such as the number of interactions. Without it, deciles of the shuffle are those of
            how many users have the item among their candidates.
        users: The largest number of users to fit and judge on; a sample of those with newcomers.
        slots: The largest number of places; a sample if the users have more newcomers.
        draws: Draws of each of the two shuffles; 0 runs none.
        seed: Of the samples, the halves, the bootstrap and the shuffles.
        on_step: Receives progress after every draw.

    Raises:
        InputError: If the arrays do not fit together, or fewer than 20 users have a newcomer among their candidates.
    """
    Whole(0).read("draws", draws)
    sample = NewcomerSample.of(candidates, scores, base, lists, categories, history, popularity, users, slots, seed)
    logit = Logit.of(sample.slots, sample.places.features(sample.slots))
    scores_alone, all_features = np.arange(SCORES), np.arange(len(FEATURES))
    starts = [logit.fit(rows, scores_alone) for rows in sample.halves]
    by_scores = sample.judge_across(logit, starts)
    fitted = [logit.fit(rows, all_features, start) for rows, start in zip(sample.halves, starts, strict=True)]
    by_model = sample.judge_across(logit, fitted)
    explained = _explained(by_model[0].sum(), by_scores[0].sum())
    rows = np.arange(len(sample.slots.which))
    weights = logit.fit(rows, all_features, np.mean(fitted, 0))
    shuffled = _shuffled(sample, logit, starts, by_scores[0].sum(), draws, seed, on_step)
    within, everywhere = (ShuffledCategories.of(explained, it) if draws else None for it in shuffled)
    return ChoiceModel(
        explained,
        _interval(by_model[0], by_scores[0], sample.slots.which[:, 0], seed),
        float(by_model[1].mean()),
        float(by_scores[1].mean()),
        within,
        everywhere,
        describe(weights, logit.scale, logit.errors(weights), _mean_score(logit)),
        sample.users,
        len(rows),
        sample.n_newcomers,
        sample.n_outside,
        float(sample.slots.counts.mean()),
        weights,
        popularity is not None,
        history is not None,
    )


@dataclass(frozen=True, eq=False)
class NewcomerSample:
    """The places of newcomers that a model is fitted to.

    Attributes:
        places: The lists of the sampled users.
        slots: The sampled places; every one has a chosen alternative.
        users: ``(n,)`` row numbers of the sampled users.
        halves: The slots of two halves of the users.
        n_newcomers: Number of newcomers in all lists.
        n_outside: Those that are not among the user's candidates.
        popularity: ``(n_items,)`` what deciles of items are made of.
    """

    places: Places
    slots: Slots
    users: IntArray
    halves: tuple[IntArray, IntArray]
    n_newcomers: int
    n_outside: int
    popularity: NDArray[Any]

    @classmethod
    def of(
        cls,
        candidates: NDArray[Any],
        scores: NDArray[Any],
        base: NDArray[Any],
        lists: NDArray[Any],
        categories: Categories | SparseRows | NDArray[Any],
        history: NDArray[Any] | None,
        popularity: NDArray[Any] | None,
        most_users: int,
        most_slots: int,
        seed: int,
    ) -> NewcomerSample:
        """Check the arrays and draw the sample; see :func:`fit_choice_model`."""
        COUNT.read("users", most_users)
        COUNT.read("slots", most_slots)
        rows = CategoryRows.of(categories)
        places = Places.of(candidates, scores, lists, rows, history, popularity)
        before = check_lists(base, "base lists", len(places.lists), rows.n_items)
        known = np.asarray(popularity) if popularity is not None else None
        if known is None:
            known = np.bincount(places.items[places.items >= 0], minlength=rows.n_items)
        newcomers = np.argwhere((places.lists >= 0) & ~_listed(places.lists, before))
        if not len(newcomers):
            raise InputError("the new lists hold no item that the base lists do not have; there is nothing to explain")
        inside = np.empty(len(newcomers), np.bool_)
        are_candidates(places.items, places.lists, newcomers, inside)
        which, generator = newcomers[inside], np.random.default_rng(seed)
        users = np.unique(which[:, 0])
        if len(users) < FEWEST_USERS:
            raise InputError(
                f"only {len(users)} users have a newcomer among their candidates, and a choice model needs at least "
                f"{FEWEST_USERS}; pass more users, or more candidates for each"
            )
        which = which[np.isin(which[:, 0], generator.permutation(users)[:most_users])]
        which = which[np.sort(generator.permutation(len(which))[:most_slots])]
        users, number = np.unique(which[:, 0], return_inverse=True)
        sampled = places.of_users(users)
        slots = sampled.slots(np.stack([number, which[:, 1]], 1))
        half = (generator.permutation(len(users)) % 2)[number]
        halves = (np.flatnonzero(half == 0), np.flatnonzero(half == 1))
        return cls(sampled, slots, users, halves, len(newcomers), int((~inside).sum()), known)

    def judge_across(self, logit: Logit, weights: list[Array]) -> Array:
        """Judge each half by the coefficients of the other: ``(2, n_slots)`` log-likelihoods and right guesses."""
        judged = np.zeros((2, len(self.slots.which)))
        for half, rows in enumerate(self.halves):
            judged[:, rows] = logit.judge(rows, weights[1 - half])
        return judged


def _listed(lists: IntArray, base: IntArray) -> NDArray[np.bool_]:
    """Whether each item of the new lists is in the user's base list, ``(n_users, k)``."""
    found: NDArray[np.bool_] = (lists[:, :, None] == base[:, None, :]).any(2)
    return found


def _mean_score(logit: Logit) -> float:
    """Return the mean scaled score of the newcomers."""
    return float(logit.values[np.arange(len(logit.values)), 0, logit.slots.chosen].mean())


def _explained(model: float, scores: float) -> float:
    return float(1 - model / scores) if scores < 0 else 0.0


def _interval(model: Array, scores: Array, user: IntArray, seed: int) -> tuple[float, float]:
    """Return the 95 % interval of the explained share, from users drawn with replacement."""
    sums = np.stack([np.bincount(user, it) for it in (model, scores)], 1).astype(np.float64)
    means = bootstrap_means(sums, RESAMPLES, np.random.default_rng([seed, 1]))
    low, high = percentile_interval(1 - means[:, :1] / np.minimum(means[:, 1:], -1e-300), 0.95)
    return float(low[0]), float(high[0])


def _shuffled(
    sample: NewcomerSample,
    logit: Logit,
    starts: list[Array],
    by_scores: float,
    draws: int,
    seed: int,
    on_step: ProgressCallback | None,
) -> tuple[Array, Array]:
    """Return ``(draws,)`` explained shares with categories shuffled within popularity deciles, and among all items.

    Only items that are candidates of the sampled users take part, because the categories of others are not used.
    """
    items = np.unique(np.concatenate([sample.places.items.ravel(), sample.places.lists.ravel()]))
    items = items[items >= 0]
    order = items[np.argsort(sample.popularity[items], kind="stable")]
    groups = [np.array_split(order, DECILES), [order]]
    plain = [logit.fit(rows, np.arange(PLAIN), start) for rows, start in zip(sample.halves, starts, strict=True)]
    buffers = threading.local()  # memory that a thread fills again for each draw
    all_features, step = np.arange(len(FEATURES)), count_steps(on_step, "shuffling categories", 2 * draws)

    def draw(first: int, _: int) -> float:
        generator = np.random.default_rng([seed, 2, first])
        row_of = np.arange(sample.places.categories.n_items)
        for group in groups[first // draws]:
            row_of[group] = generator.permutation(group)
        if not hasattr(buffers, "values"):
            buffers.values = np.empty_like(logit.values)
        other = Logit(sample.slots, sample.places.features(sample.slots, row_of, buffers.values), logit.scale)
        pairs = zip(sample.halves, plain, strict=True)
        fitted = [other.fit(rows, all_features, start, enough=ENOUGH_OF_A_DRAW) for rows, start in pairs]
        found = _explained(sample.judge_across(other, fitted)[0].sum(), by_scores)
        step()
        return found

    found = np.array(share_work(draw, 2 * draws, 1))
    return found[:draws], found[draws:]
