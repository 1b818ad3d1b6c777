"""Why an item is boosted: one sentence from the numbers of its boost."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from recprism.errors import InputError
from recprism.explain.reasons.codes import BOOSTED
from recprism.rule.boosts import ItemBoosts


@dataclass(frozen=True)
class BoostReason:
    """What a boost did to one item.

    Attributes:
        item: The caller's id or title.
        shown_before: Lists that show the item without boosts.
        wanted: Lists that should show it; None for a goal that names no number.
        shown_now: Lists that show it with all boosts.
        users: Number of lists.
        boost: What is added to its score, for every user.
        range_share: The boost as a share of the mean range of a user's scores.
        code: The reason code.
    """

    item: str
    shown_before: int
    wanted: int | None
    shown_now: int
    users: int
    boost: float
    range_share: float
    code: str = BOOSTED

    def to_dict(self) -> dict[str, Any]:
        """Return the numbers in plain values."""
        return asdict(self)

    def sentence(self) -> str:
        """Say why the item is boosted, and what the boost did.

        >>> print(BoostReason("Alien", 2, 5, 6, 900, 0.3, 0.104).sentence())
        Alien is boosted because it was shown to 2 of 5 users wanted. Now it is shown to 6 of 900 users. Its score rises by 0.3 for every user, 10.4 % of the score range of a user's candidates.
        """  # noqa: E501
        if self.wanted is None:
            why = f"because only {_users(self.shown_before)} of {self.users} saw it"
        elif self.shown_before < self.wanted:
            why = f"because it was shown to {self.shown_before} of {_users(self.wanted)} wanted"
        else:
            why = f"because it would fall below {_users(self.wanted)} when other items are boosted"
        return (
            f"{self.item} is boosted {why}. Now it is shown to {self.shown_now} of {_users(self.users)}. "
            f"Its score rises by {self.boost:.3g} for every user, "
            f"{100 * self.range_share:.3g} % of the score range of a user's candidates."
        )


def explain_boosts(boosts: ItemBoosts, names: Sequence[Any]) -> tuple[BoostReason, ...]:
    """Return a reason for every boosted item, the largest boost first.

    Args:
        boosts: What was found.
        names: Id or title of each item, ``(n_items,)``.

    Raises:
        InputError: If there is not one name per item.
    """
    if len(names) != len(boosts.boost):
        raise InputError(
            f"there are boosts for {len(boosts.boost)} items and {len(names)} names; pass one name per item"
        )
    return tuple(
        BoostReason(
            str(names[item]),
            int(boosts.before[item]),
            boosts.wanted,
            int(boosts.after[item]),
            boosts.n_users,
            float(boosts.boost[item]),
            float(boosts.boost[item] / boosts.score_range),
        )
        for item in boosts.items
    )


def _users(count: int) -> str:
    return f"{count} user" if count == 1 else f"{count} users"
