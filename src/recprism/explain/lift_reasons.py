"""Why an item is lifted: one sentence from the numbers of its lift."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from recprism.errors import InputError
from recprism.rule.lifts import Lifts

LIFTED = "lifted_exposure"
"""The reason code of a lift. It does not change between versions."""


@dataclass(frozen=True)
class LiftReason:
    """What a lift did to one item.

    Attributes:
        item: The caller's id or title.
        shown_before: Lists that show the item without lifts.
        wanted: Lists that should show it; None for a goal that names no number.
        shown_now: Lists that show it with all lifts.
        users: Number of lists.
        lift: What is added to its score, for every user.
        range_share: The lift as a share of the mean range of a user's scores.
        code: The reason code.
    """

    item: str
    shown_before: int
    wanted: int | None
    shown_now: int
    users: int
    lift: float
    range_share: float
    code: str = LIFTED

    def to_dict(self) -> dict[str, Any]:
        """Return the numbers in plain values."""
        return asdict(self)

    def sentence(self) -> str:
        """Say why the item is lifted, and what the lift did.

        >>> print(LiftReason("Alien", 2, 5, 6, 900, 0.3, 0.104).sentence())
        Alien is lifted because it was shown to 2 of 5 users wanted. Now it is shown to 6 of 900 users. Its score rises by 0.3 for every user, 10.4 % of the score range of a user's candidates.
        """  # noqa: E501
        if self.wanted is None:
            why = f"because only {_users(self.shown_before)} of {self.users} saw it"
        elif self.shown_before < self.wanted:
            why = f"because it was shown to {self.shown_before} of {_users(self.wanted)} wanted"
        else:
            why = f"because it would fall below {_users(self.wanted)} when other items are lifted"
        return (
            f"{self.item} is lifted {why}. Now it is shown to {self.shown_now} of {_users(self.users)}. "
            f"Its score rises by {self.lift:.3g} for every user, "
            f"{100 * self.range_share:.3g} % of the score range of a user's candidates."
        )


def explain_lifts(lifts: Lifts, names: Sequence[Any]) -> tuple[LiftReason, ...]:
    """Return a reason for every lifted item, the largest lift first.

    Args:
        lifts: What was found.
        names: Id or title of each item, ``(n_items,)``.

    Raises:
        InputError: If there is not one name per item.
    """
    if len(names) != len(lifts.lift):
        raise InputError(f"there are lifts for {len(lifts.lift)} items and {len(names)} names; pass one name per item")
    return tuple(
        LiftReason(
            str(names[item]),
            int(lifts.before[item]),
            lifts.wanted,
            int(lifts.after[item]),
            lifts.n_users,
            float(lifts.lift[item]),
            float(lifts.lift[item] / lifts.score_range),
        )
        for item in lifts.items
    )


def _users(count: int) -> str:
    return f"{count} user" if count == 1 else f"{count} users"
