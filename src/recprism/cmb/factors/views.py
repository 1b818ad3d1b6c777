"""What an explanation says about one user or one item."""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from recprism.cmb.factors import _ranking as ranking
from recprism.cmb.factors.evaluator import Evaluator
from recprism.cmb.factors.explanation import Explanation
from recprism.common.display import Displayed

if TYPE_CHECKING:
    import polars as pl

SHOWN = 3  # listed parts of a swap


@dataclass(frozen=True)
class Part:
    """The contribution of one factor of one side to a difference of scores."""

    side: str
    label: str
    amount: float


@dataclass(frozen=True)
class Swap:
    """An item that entered a list and the item it replaced; ranks count from 1.

    Attributes:
        came: Title of the item that entered.
        went: Title of the item that left.
        rank_in: Rank of the item that entered, in the new list.
        rank_out: Rank of the item that left, in the old list.
        rise: Rise of the new item's score relative to the old item's.
        promotion: The part of the rise that is the same for all users.
        parts: The largest contributions of factors to the rise.
        effects: Metric -> effect of this swap alone on this list.
    """

    came: str
    went: str
    rank_in: int
    rank_out: int
    rise: float
    promotion: float
    parts: tuple[Part, ...]
    effects: dict[str, float]


@dataclass(frozen=True, repr=False)
class UserView(Displayed):
    """The changes of one user's list.

    Attributes:
        user: The user id.
        swaps: Items that came and went.
        factors: (label, mean absolute change over the items of the new list), largest first; empty if no item vector
            moved.
    """

    user: Any
    swaps: tuple[Swap, ...]
    factors: tuple[tuple[str, float], ...]

    def to_frame(self) -> pl.DataFrame:
        """Return one row per swap."""
        import polars as pl

        columns = ("came", "went", "rank_in", "rank_out", "rise", "promotion")
        return pl.DataFrame({name: [getattr(swap, name) for swap in self.swaps] for name in columns})

    def without_factors(self) -> UserView:
        """Return what can be said without a claim about factors: the swaps, promotion and effects."""
        swaps = tuple(replace(swap, parts=()) for swap in self.swaps)
        return replace(self, swaps=swaps, factors=())

    def _facts(self) -> dict[str, Any]:
        return {"user": self.user, "swaps": len(self.swaps)}

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)


@dataclass(frozen=True, repr=False)
class ItemView(Displayed):
    """The changes of one item.

    Attributes:
        item: The item id.
        title: Its title.
        promotion: Mean rise of its score over all users.
        entered: Number of lists that gained it.
        left: Number of lists that lost it.
        factors: (label, delta), largest first; empty if no item vector moved.
    """

    item: Any
    title: str
    promotion: float
    entered: int
    left: int
    factors: tuple[tuple[str, float], ...]

    def without_factors(self) -> ItemView:
        """Return what can be said without a claim about factors: promotion, and lists that gained or lost it."""
        return replace(self, factors=())

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)


def view_user(explanation: Explanation, evaluator: Evaluator, user: Any, top: int = 5) -> UserView:
    """Describe the changes of one user's list.

    Args:
        explanation: The explanation.
        evaluator: The evaluator of the explanation; it measures the effect of each swap.
        user: The user id.
        top: Number of factors to list.
    """
    row = explanation.user_row(user)
    factors: tuple[tuple[str, float], ...] = ()
    if explanation.change.item is not None:
        lists = evaluator.lists(explanation.change.after)[row : row + 1]
        sizes = ranking.through_lists(explanation.change.item, lists)[0]
        factors = tuple((explanation.label(int(it)), float(sizes[it])) for it in ranking.order(sizes)[:top])
    return UserView(user, _swaps_of(explanation, evaluator, row), factors)


def view_item(explanation: Explanation, item: Any, top: int = 5) -> ItemView:
    """Describe the changes of one item.

    Args:
        explanation: The explanation.
        item: The item id.
        top: Number of factors to list.
    """
    row = explanation.item_row(item)
    factors: tuple[tuple[str, float], ...] = ()
    if explanation.change.item is not None:
        delta = explanation.change.item[row]
        chosen = [int(it) for it in ranking.order(np.abs(delta.astype(np.float64)))[:top] if delta[it]]
        factors = tuple((explanation.label(it), float(delta[it])) for it in chosen)
    return ItemView(
        item,
        explanation.titles[row],
        float(explanation.change.bias[row]),
        int((explanation.swaps.came == row).sum()),
        int((explanation.swaps.went == row).sum()),
        factors,
    )


def _swaps_of(explanation: Explanation, evaluator: Evaluator, row: int) -> tuple[Swap, ...]:
    mine = explanation.swaps.of_user(row)
    effects = mine.effects(evaluator)
    bias = explanation.change.bias
    titles = explanation.titles
    return tuple(
        Swap(
            titles[mine.came[at]],
            titles[mine.went[at]],
            int(mine.rank_in[at]) + 1,
            int(mine.rank_out[at]) + 1,
            float(mine.total[at]),
            float(bias[mine.came[at]] - bias[mine.went[at]]),
            _largest_parts(explanation, {side: part[at] for side, part in mine.parts.items()}),
            {metric: float(values[at]) for metric, values in effects.items()},
        )
        for at in range(len(mine))
    )


def _largest_parts(explanation: Explanation, parts: dict[str, Any]) -> tuple[Part, ...]:
    found = [
        Part(side, explanation.label(factor), float(amount))
        for side, amounts in parts.items()
        for factor, amount in enumerate(amounts)
    ]
    return tuple(sorted(found, key=lambda part: -abs(part.amount))[:SHOWN])
