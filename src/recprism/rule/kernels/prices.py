"""The prices of a rule, as the kernels take them, in plain numpy: the same at training time and at request time."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from recprism.errors import InputError
from recprism.rule.kernels.list_function import VECTORS, ListFunction, known_function
from recprism.rule.kernels.worth import (
    ACCURACY,
    ALPHA_DCG,
    BY_RELEVANCE,
    CATEGORY,
    DISTANCE,
    HISTORY_WEIGHT,
    OF_FUNCTION,
    REPEATS,
    SHOWN,
)

TIE = 1e-11  # values closer than this count as equal, because the order of a sum affects them; the better rank wins
TIED_TOGETHER = "catalogue_coverage"  # the goal under which one user's list depends on the lists of others
ALPHA = 0.5
PRICES = 6  # the place of the prices among what kernels take


class SearchTerm(NamedTuple):
    """How the search counts a goal. Goals with one price are several ways to measure one thing.

    Attributes:
        price: Position of its price in ``prices``: CATEGORY, ALPHA_DCG, DISTANCE, SHOWN or OF_FUNCTION.
        by_relevance: Whether an item gains as much as its relevance: its score, scaled to 0 .. 1 among the candidates.
        by_place: Whether gains are divided by the place, instead of by the logarithm as in DCG.
        by_vectors: Whether item vectors count, instead of vectors of categories.
        function: What values a list, for OF_FUNCTION.
    """

    price: int
    by_relevance: bool = False
    by_place: bool = False
    by_vectors: bool = False
    function: ListFunction | None = None

    @property
    def by_order(self) -> bool:
        """Whether the order inside a list can have a value."""
        return self.price in (ALPHA_DCG, OF_FUNCTION)

    @classmethod
    def of(cls, function: ListFunction) -> SearchTerm:
        """Return how the search counts a function."""
        return cls(OF_FUNCTION, by_vectors=VECTORS in function.takes, function=function)


SEARCHED = {
    "subtopic_coverage": SearchTerm(CATEGORY),
    "alpha_ndcg": SearchTerm(ALPHA_DCG),
    "ilad_subtopics": SearchTerm(DISTANCE),
    "ilad": SearchTerm(DISTANCE, by_vectors=True),
    TIED_TOGETHER: SearchTerm(SHOWN),
    "alpha_ndcg_relevant": SearchTerm(ALPHA_DCG, by_relevance=True),
    "err_ia": SearchTerm(ALPHA_DCG, by_relevance=True, by_place=True),
}
"""Goals that the search looks at."""


def search_terms(goals: Iterable[str]) -> list[SearchTerm]:
    """Return how the search counts each goal.

    Raises:
        InputError: A goal is not known here.
    """
    return [_term_of(name) for name in goals]


def _term_of(name: str) -> SearchTerm:
    if ":" in name:
        return SearchTerm.of(known_function(name))
    if name not in SEARCHED:
        raise InputError(f"the goal {name!r} is not registered; import the module that registers it first")
    return SEARCHED[name]


def function_in(goals: Iterable[str]) -> ListFunction | None:
    """Return the goal that is a function of a list, if there is one."""
    return next((term.function for term in search_terms(goals) if term.function is not None), None)


def looks_at_order(goals: Iterable[str]) -> bool:
    """Return whether the order inside a list can have a value of its own."""
    return any(term.by_order for term in search_terms(goals))


def compares_vectors(goals: Iterable[str]) -> bool:
    """Return whether item vectors count."""
    return any(term.by_vectors for term in search_terms(goals))


def prices_of(
    goals: Mapping[str, float],
    units: Mapping[str, float],
    trade_off: float,
    history_weight: float,
    discount: NDArray[np.float64],
) -> NDArray[np.float64]:
    """Return the prices of a rule, (9,); :func:`recprism.rule.kernels.optimal.optimal` says what they are.

    Args:
        goals: Weights by name.
        units: Value of one unit of each goal in terms of its metric.
        trade_off: From 0, relevance alone, to 1, diversity alone.
        history_weight: Weight of the categories of the user's history.
        discount: Discount of each place for accuracy, (k,).
    """
    terms = search_terms(goals)
    prices = np.zeros(OF_FUNCTION + 1)
    for term, (name, weight) in zip(terms, goals.items(), strict=True):
        prices[term.price] += trade_off * (weight * units.get(name, 0.0))
    prices[ACCURACY] = (1 - trade_off) / float(discount.sum())
    prices[HISTORY_WEIGHT], prices[REPEATS] = (1 - trade_off) * history_weight, ALPHA
    prices[BY_RELEVANCE] = any(term.by_relevance for term in terms)
    return prices


def fading_of(goals: Iterable[str], discount: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the discount of each place for goals that look at the order, (k,)."""
    return 1 / np.arange(1.0, len(discount) + 1) if any(it.by_place for it in search_terms(goals)) else discount


def filling_of(k: int) -> NDArray[np.float64]:
    """Return how far 0, 1, ... items fill a category, (k + 2,)."""
    return np.asarray(np.log1p(np.arange(k + 2.0)) / math.log1p(k))
