"""What earlier pages showed, as a request gives it: items with their ages."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from recprism.common.ids import Id, canonical_text
from recprism.errors import InputError
from recprism.explain.reasons.earlier import EarlierPages
from recprism.rule.earlier import HALF_LIFE, Earlier, earlier_of, half_life_of, is_amount, weights_of
from recprism.rule.kernels.prices import search_terms
from recprism.rule.kernels.worth import OF_FUNCTION
from recprism.serving._prepared import PreparedRule


@dataclass(frozen=True, eq=False)
class Shown:
    """The items of earlier pages.

    Attributes:
        ids: Ids of the items, (n,); an item may occur several times.
        ages: How many pages ago each was shown, (n,) float64.
        half_life: Pages after which what was shown counts half.
        out: Ids that are not shown again, as text.
    """

    ids: list[Id]
    ages: NDArray[np.float64]
    half_life: float
    out: frozenset[str]

    def earlier(self, rule: PreparedRule) -> Earlier:
        """Return what the kernels take; an item that the rule does not know has neither categories nor a vector."""
        n_categories = len(rule.file.names)
        numbers = rule.numbers(self.ids)
        kept = numbers != rule.unknown
        numbers, weights = numbers[kept], weights_of(self.ages[kept], self.half_life)
        categories, directions = (rule.indptr, rule.file.indices, n_categories), rule.directions
        return earlier_of(np.zeros(len(numbers), np.int64), numbers, weights, 1, categories, directions)

    def pages(self, rule: PreparedRule) -> EarlierPages:
        """Return what reasons say of the pages: the oldest item given is from the first one."""
        without = np.full(len(rule.file.names), int(self.ages.max()))
        for number, age in zip(rule.numbers(self.ids).tolist(), self.ages.tolist(), strict=True):
            own = rule.categories(number)
            without[own] = np.minimum(without[own], math.ceil(age) - 1)
        return EarlierPages(without, float(1 - weights_of(np.ones(1), self.half_life)[0]), rule.directions is not None)

    def notes(self, rule: PreparedRule) -> list[str]:
        """Return in what the items do not count."""
        if not self.ids:
            return []
        said, unknown = [], int((rule.numbers(self.ids) == rule.unknown).sum())
        if unknown:
            said.append(
                f"the rule does not know {unknown} of {len(self.ids)} items of earlier pages: their categories and "
                "vectors do not count"
            )
        terms = search_terms(rule.file.goals)
        if rule.boosts is not None or all(it.price == OF_FUNCTION for it in terms):
            said.append("the goal does not look at earlier pages: their items are left out, and nothing else changes")
        return said


NOTHING = Shown([], np.zeros(0), HALF_LIFE, frozenset())
"""Of a first page."""


def as_shown(given: Iterable[Any] | Shown | None, no_repeat: int | None, half_life: float | None) -> Shown:
    """Read the items of earlier pages.

    Raises:
        InputError: If one is no pair of an id and an age, an age or an option is out of range, or there are options
            without items.
    """
    if given is None and no_repeat is None and half_life is None:
        return NOTHING
    life = half_life_of(given is not None, no_repeat, half_life)
    if isinstance(given, Shown):
        return given
    if isinstance(given, str) or not isinstance(given, Iterable | None):
        raise InputError(f"shown is a list of (id, age in pages), not {given!r}")
    ids, ages = list[Id](), list[float]()
    for pair in given or ():
        if isinstance(pair, str) or not isinstance(pair, tuple | list) or len(pair) != 2:
            raise InputError(f"shown is a list of (id, age in pages), and has {pair!r}")
        if not is_amount(pair[1]) or not math.isfinite(pair[1]):
            raise InputError(f"the age of a shown item is a number of pages, 0 or more, and that of {pair[0]!r} is not")
        ids.append(pair[0])
        ages.append(float(pair[1]))
    out = frozenset(
        canonical_text(one) for one, age in zip(ids, ages, strict=True) if no_repeat is None or age <= no_repeat
    )
    return Shown(ids, np.array(ages), life, out)
