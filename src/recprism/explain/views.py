"""One user, one item: what an explanation says about them."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from recprism.explain import _ranking as ranking
from recprism.explain.evaluator import Evaluator
from recprism.explain.explanation import Explanation

SHOWN = 3  # parts of a swap that are listed


@dataclass(frozen=True)
class Part:
    """What one factor of one side adds to a difference of scores."""

    side: str
    label: str
    amount: float


@dataclass(frozen=True)
class Swap:
    """An item that came in for one that went out; ranks count from 1.

    rise: by how much the newcomer's score rose against the other's; parts: the largest of what that is made of
    promotion: how much of the rise everybody's lists got alike
    effects: metric -> what this swap alone does to the metric of this list
    """

    came: str
    went: str
    rank_in: int
    rank_out: int
    rise: float
    promotion: float
    parts: tuple[Part, ...]
    effects: dict[str, float]


@dataclass(frozen=True)
class UserView:
    """A user's list: what came and went, which factors its items were moved by, which directions concern the user.

    factors: (label, mean |delta| over the items of the new list), largest first; empty if no item vector moved
    directions: (label, name, coordinate: how strongly and which way the direction concerns the user)
    """

    user: Any
    swaps: tuple[Swap, ...]
    factors: tuple[tuple[str, float], ...]
    directions: tuple[tuple[str, str, float], ...]

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)


@dataclass(frozen=True)
class ItemView:
    """An item: how it was moved, and in whose lists it now stands.

    promotion: by how much its score rose on average over all users
    entered, left: lists that gained and lost it
    factors: (label, delta), largest first; empty if no item vector moved
    """

    item: Any
    title: str
    promotion: float
    entered: int
    left: int
    factors: tuple[tuple[str, float], ...]
    directions: tuple[tuple[str, str, float], ...]

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)


def view_user(explanation: Explanation, judge: Evaluator, user: Any, top: int = 5) -> UserView:
    """judge: the one the explanation was made with; it says what each swap did to each metric."""
    row = explanation.user_row(user)
    factors: tuple[tuple[str, float], ...] = ()
    if explanation.change.item is not None:
        lists = judge.lists(explanation.change.after)[row : row + 1]
        sizes = ranking.through_lists(explanation.change.item, lists)[0]
        factors = tuple((explanation.label(int(it)), float(sizes[it])) for it in ranking.order(sizes)[:top])
    return UserView(user, _swaps_of(explanation, judge, row), factors, _along(explanation, "users", row))


def view_item(explanation: Explanation, item: Any, top: int = 5) -> ItemView:
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
        _along(explanation, "items", row),
    )


def _along(explanation: Explanation, ends: str, row: int) -> tuple[tuple[str, str, float], ...]:
    """Coordinates in units of what all users (items) have on average: 1 is usual, 3 is a lot."""
    coordinates = getattr(explanation.all_directions, ends)
    usual = np.sqrt((coordinates**2).mean(axis=0))
    return tuple(
        (one.label, one.words, float(coordinates[row, one.number] / usual[one.number]))
        for one in explanation.directions
    )


def _swaps_of(explanation: Explanation, judge: Evaluator, row: int) -> tuple[Swap, ...]:
    mine = explanation.swaps.of_user(row)
    effects = mine.effects(judge)
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
