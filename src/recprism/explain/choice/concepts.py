"""Which single concepts carry a choice model: what is lost without each of them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from recprism.data.incidence import Incidence
from recprism.data.subtopics import Subtopics
from recprism.explain._kernels.choice import fill_concepts
from recprism.explain.choice._likelihood import Logit
from recprism.explain.choice._places import PLAIN, SCORES, Array, IntArray
from recprism.explain.choice.fit import SLOTS, USERS, NewcomerSample
from recprism.explain.choice.model import LEVEL
from recprism.metrics._statistics import holm, sign_flip_test
from recprism.ranking._threads import share_work

MOST_CONCEPTS = 50
FLIPS = 9999


@dataclass(frozen=True)
class ConceptEffect:
    """What one concept adds to a choice model that has a coefficient for each concept.

    Attributes:
        concept: Its name.
        times: How many times as likely an item is that brings the concept to a list without it.
        share: How much less the model explains without this concept, on users it was not fitted on.
        p_value: Of no loss without the concept, corrected for the number of concepts (Holm).

    Stability: provisional.
    """

    concept: str
    times: float
    share: float
    p_value: float

    @property
    def carries(self) -> bool:
        """Whether the lists are predicted worse without the concept, beyond chance."""
        return self.share > 0 and self.p_value < LEVEL


def concept_effects(
    candidates: NDArray[Any],
    scores: NDArray[Any],
    base: NDArray[Any],
    lists: NDArray[Any],
    concepts: Subtopics | Incidence | NDArray[Any],
    *,
    popularity: NDArray[Any] | None = None,
    users: int = USERS,
    slots: int = SLOTS,
    seed: int = 0,
) -> tuple[ConceptEffect, ...]:
    """Test each concept: are newcomers predicted worse if the model does not know it?

    The model has scores, popularity and one feature per concept: 1 / (1 + how many other items of the list have it).
    It is fitted again without each concept in turn, and both are judged on the other half of the users. The test
    compares their log-likelihoods per user by random signs. A concept that always comes with another one adds nothing
    to it, so neither carries the model.

    Args:
        candidates: ``(n_users, n)`` item numbers, -1 in empty places.
        scores: ``(n_users, n)``, -inf in empty places.
        base: ``(n_users, k)`` lists before the change.
        lists: ``(n_users, k)`` lists to explain.
        concepts: Subtopics, or ``(n_items, n_concepts)``. Of many, the 50 that most candidates have are tested.
        popularity: ``(n_items,)``.
        users: The largest number of users.
        slots: The largest number of places.
        seed: Of the sample, the halves and the test.

    Returns:
        One entry per concept that is tested, the largest share first.

    Raises:
        InputError: As :func:`fit_choice_model`.

    Stability: provisional.
    """
    sample = NewcomerSample.of(candidates, scores, base, lists, concepts, None, popularity, users, slots, seed)
    tested = _most_frequent(sample)
    logit = Logit.of(sample.slots, _features(sample, tested))
    everything = np.arange(PLAIN + len(tested))
    by_scores = sample.judge_across(logit, [logit.fit(rows, np.arange(SCORES)) for rows in sample.halves])[0]
    fitted = [logit.fit(rows, everything) for rows in sample.halves]
    full = sample.judge_across(logit, fitted)[0]

    def lost(number: int, _: int) -> Array:
        """Return ``(n_users,)`` log-likelihood lost without one concept."""
        rest = np.delete(everything, PLAIN + number)
        halves = zip(sample.halves, fitted, strict=True)
        without = sample.judge_across(logit, [logit.fit(rows, rest, start) for rows, start in halves])[0]
        return np.bincount(sample.slots.which[:, 0], full - without).astype(np.float64)

    losses = np.stack(share_work(lost, len(tested), 1), 1)
    p_values = sign_flip_test(losses, FLIPS, np.random.default_rng([seed, 3]))
    corrected = holm(np.where(losses.sum(0) > 0, p_values, 1.0))
    weights = logit.fit(np.arange(len(full)), everything, np.mean(fitted, 0))[PLAIN:]
    shares = losses.sum(0) / -by_scores.sum()
    order = np.argsort(-shares, kind="stable")
    names, times = sample.places.concepts.names, np.exp(np.clip(weights, -50, 50))
    return tuple(
        ConceptEffect(names[tested[at]], float(times[at]), float(shares[at]), float(corrected[at])) for at in order
    )


def _most_frequent(sample: NewcomerSample) -> IntArray:
    """Return the concepts that most candidates have, in their own order; those of no candidate are left out."""
    rows, items = sample.places.concepts, sample.places.items
    times_candidate = np.bincount(items[items >= 0], minlength=rows.n_items)
    entries = np.repeat(times_candidate, np.diff(rows.indptr))
    support = np.bincount(rows.indices, entries, len(rows.names))
    best = np.argsort(-support, kind="stable")[:MOST_CONCEPTS]
    return np.sort(best[support[best] > 0])


def _features(sample: NewcomerSample, tested: IntArray) -> Array:
    """Compute ``(n_slots, n_features, n)``: scores, popularity, and the concepts."""
    places, slots = sample.places, sample.slots
    values = np.zeros((len(slots.which), PLAIN + len(tested), places.items.shape[1]))
    values[:, :PLAIN] = places.features(slots)[:, :PLAIN]
    column = np.full(len(places.concepts.names), -1)
    column[tested] = PLAIN + np.arange(len(tested))
    about = (slots.which, slots.alternatives, slots.counts, places.items, places.lists)
    fill_concepts(*about, places.concepts.indptr, places.concepts.indices, column, values)
    return values
