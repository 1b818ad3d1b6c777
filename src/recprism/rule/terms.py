"""The data that the search for lists works on."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from recprism.rule.earlier import Earlier, nothing_earlier
from recprism.rule.kernels.list_function import ListFunction


@dataclass(frozen=True, eq=False)
class Terms:
    """The data that the goals need, and the value of a unit of each.

    Attributes:
        categories: Categories of the items in compressed rows, and their number.
        directions: Unit vectors, (n_items, d) float64, and which are not zero, (n_items,) bool.
        prices: Value of accuracy, one more category, alpha-DCG or ERR-IA, the distance of one pair, one more item, and
            the match with a user's history, (9,). The seventh is the share of a category that one item takes away from
            later ones. The eighth is 1 if an item gains as much as its relevance, else 0. The last is that of the
            function.
        discount: Discount of each place for accuracy, (k,).
        fading: The same for alpha-DCG or ERR-IA, (k,).
        intents: A user's weights of categories, (n_users, n_categories) float64.
        filling: How far n items fill a category, (k + 2,).
        function: A goal that is a function of the list.
        earlier: What earlier pages leave to the lists; None if nothing was shown.
    """

    categories: tuple[NDArray[Any], NDArray[Any], int]
    directions: tuple[NDArray[np.float64], NDArray[np.bool_]]
    prices: NDArray[np.float64]
    discount: NDArray[np.float64]
    fading: NDArray[np.float64]
    intents: NDArray[np.float64]
    filling: NDArray[np.float64]
    function: ListFunction | None = None
    earlier: Earlier | None = None

    @property
    def data(self) -> tuple[Any, ...]:
        """What describes the items."""
        return (*self.categories, *self.directions)

    def arrays(self, shown: NDArray[np.int64], prices: NDArray[np.float64] | None = None) -> tuple[Any, ...]:
        """Return what the kernels take after the lists: ``shown`` is (n_items,); other ``prices`` may be given."""
        prices = self.prices if prices is None else prices
        goals = (*self.data, shown, prices, self.discount, self.fading)
        earlier = nothing_earlier(self.categories[2]) if self.earlier is None else self.earlier
        return (*goals, self.intents, self.filling, *earlier)
