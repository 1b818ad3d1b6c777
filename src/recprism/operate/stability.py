"""Stability of an explanation: how many reasons and dials stay the same when the model is trained again."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from recprism.budget.problem import Lists, Problem
from recprism.common.checks import random_generator
from recprism.common.display import Displayed
from recprism.errors import InputError
from recprism.explain.reasons.questions import reason_codes
from recprism.forms.dials.named import Dials
from recprism.models.alignment import common
from recprism.rule.rule import Rule

TOLERANCE = 0.25
"""Two dials count as the same if their signs are equal and they differ by at most this share of the larger one."""
SAMPLE = 300  # users whose reasons are compared: the rule runs again for each of their items

Pair = tuple[str, str]
"""Strongest code of a reason before and now."""


@dataclass(frozen=True, repr=False)
class Stability(Displayed):
    """How much of lists, reasons and dials stays the same. Figures by chance compare with a random other user.

    Attributes:
        users: Users that both results have.
        rule_churn: Share of the places of the old lists of the rule whose item is not in the new list.
        compared_users: Users whose reasons were compared.
        kept_items: Items of these users that are in both lists.
        same_reason: Share of the kept items whose strongest reason code is the same; None if there are no reasons.
        same_reason_by_chance: The same with the code of a random kept item of the sample.
        users_with_dials: Users with a dial before or now.
        dials: Number of their dials before; None if one of the results has no dials.
        same_dials: Share of the dials before that have the same sign now and differ by at most 25 %.
        same_dials_by_chance: The same with the dials before of another user.
        common_dials: Number of concepts with a dial before and now, divided by the number with a dial before or now.
        common_dials_by_chance: The same with the dials before of another user.
    """

    users: int
    rule_churn: float
    compared_users: int
    kept_items: int
    same_reason: float | None
    same_reason_by_chance: float | None
    users_with_dials: int
    dials: int | None
    same_dials: float | None
    same_dials_by_chance: float | None
    common_dials: float | None
    common_dials_by_chance: float | None

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)

    def sentences(self) -> list[str]:
        """Describe what stays the same, as far as there are reasons and dials."""
        said = []
        if self.same_reason is not None:
            said.append(
                f"Of {self.kept_items:,} items that stayed in the rule's lists of {self.compared_users:,} users, "
                f"{self.same_reason:.1%} keep their reason ({self.same_reason_by_chance:.1%} by chance)."
            )
        if self.same_dials is not None:
            said.append(
                f"Of {self.dials:,} dials, {self.same_dials:.1%} stay within {TOLERANCE:.0%} "
                f"({self.same_dials_by_chance:.1%} by chance); old and new dials share {self.common_dials:.1%} of "
                f"their names ({self.common_dials_by_chance:.1%} by chance)."
            )
        return said


def churn(before: Lists, now: Lists) -> float:
    """Return the share of filled places of ``before`` whose item is not in the same row of ``now``.

    Args:
        before: (n, k) item numbers, -1 in empty places.
        now: (n, k) item numbers.

    >>> churn(np.array([[1, 2], [3, -1]]), np.array([[2, 5], [4, 3]]))
    0.33333333333333337
    """
    kept = np.zeros(before.shape, bool)
    for place in range(now.shape[1]):
        kept |= before == now[:, [place]]
    filled = before != -1
    return 1 - float(kept[filled].mean()) if filled.any() else 0.0


def stability_of(
    before: Problem,
    old: tuple[Rule, Dials | None],
    now: Problem,
    new: tuple[Rule, Dials | None],
    *,
    sample: int = SAMPLE,
    seed: int = 0,
) -> Stability:
    """Compare the results of two models for the users and items that both have.

    Dials are compared as shares of the user's score range, because a retrained model may have other scores.

    Args:
        before: The old model.
        old: Its rule, and its dials if it has some.
        now: The new model.
        new: Its rule, and its dials if it has some.
        sample: Number of users whose reasons are compared.
        seed: Chooses these users and the other users of the comparison by chance.

    Raises:
        InputError: If the two have no user in common, or their lists have different lengths.
    """
    if before.k != now.k:
        raise InputError(f"the old lists have {before.k} items and the new ones {now.k}; compare lists of one length")
    rows_now, rows_before = common(now.split.user_ids, before.split.user_ids)
    if not len(rows_now):
        raise InputError("the two results have no user in common; compare results with the same user ids")
    generator = random_generator(seed)
    lists = now.rank(new[0])[0][rows_now]
    old_lists = _renumbered(before.rank(old[0])[0][rows_before], before, now)
    some = np.sort(generator.permutation(len(rows_now))[:sample])
    codes = (
        [] if _has_lifts(old[0], new[0]) else _codes(before, old[0], now, new[0], now.split.user_ids[rows_now[some]])
    )
    same, same_by_chance = _same_reasons(codes, generator)
    return Stability(
        len(rows_now),
        churn(old_lists, lists),
        len(some) if codes else 0,
        len(codes),
        same,
        same_by_chance,
        *_dial_figures(old[1], rows_before, new[1], rows_now, generator),
    )


def _has_lifts(*rules: Rule) -> bool:
    """Return whether a rule lifts items for all users; there are no reasons for one user's list then."""
    return any(rule.lifts is not None for rule in rules)


def _renumbered(lists: Lists, before: Problem, now: Problem) -> Lists:
    """Return old lists in the item numbers of the new model; -2 for items that it does not have."""
    items_now, items_before = common(now.split.item_ids, before.split.item_ids)
    number = np.full(before.split.n_items, -2, np.int64)
    number[items_before] = items_now
    return np.where(lists >= 0, number[lists], -1)


def _codes(before: Problem, old: Rule, now: Problem, new: Rule, users: NDArray[Any]) -> list[Pair]:
    """Return the strongest code before and now, of each item that stayed in a user's list."""
    found = []
    for user in users.tolist():
        was, is_now = reason_codes(before, old, user), reason_codes(now, new, user)
        found += [("".join(was[item][:1]), "".join(is_now[item][:1])) for item in was.keys() & is_now.keys()]
    return sorted(found)  # sets have no order


def _same_reasons(codes: list[Pair], generator: np.random.Generator) -> tuple[float | None, float | None]:
    if not codes:
        return None, None
    was, is_now = np.array(codes).T
    return float((was == is_now).mean()), float((generator.permutation(was) == is_now).mean())


def _dial_figures(
    old: Dials | None,
    rows_before: NDArray[np.int64],
    new: Dials | None,
    rows_now: NDArray[np.int64],
    generator: np.random.Generator,
) -> tuple[int, int | None, float | None, float | None, float | None, float | None]:
    if old is None or new is None:
        return 0, None, None, None, None, None
    names = sorted({*old.names, *new.names})
    was, is_now = _shares(old, rows_before, names), _shares(new, rows_now, names)
    some = (was != 0).any(1) | (is_now != 0).any(1)
    was, is_now = was[some], is_now[some]
    order = generator.permutation(len(was))
    others = np.empty_like(order)
    others[order] = np.roll(order, 1)  # all users get the dials of another one
    same, in_common = _agreement(was, is_now)
    by_chance = _agreement(was[others], is_now)
    return len(was), int((was != 0).sum()), same, by_chance[0], in_common, by_chance[1]


def _shares(dials: Dials, rows: NDArray[np.int64], names: list[str]) -> NDArray[np.float64]:
    """Return the dials of users as shares of their score range, (n, len(names))."""
    reach = dials.score_range[rows]
    found = np.zeros((len(rows), len(names)))
    found[:, [names.index(name) for name in dials.names]] = (
        dials.weights[rows] / np.where(reach > 0, reach, 1.0)[:, None]
    )
    return found


def _agreement(was: NDArray[np.float64], is_now: NDArray[np.float64]) -> tuple[float | None, float | None]:
    """Return the share of dials that stay, and the Jaccard similarity of the dials that are not 0."""
    both, either, had = (was != 0) & (is_now != 0), (was != 0) | (is_now != 0), was != 0
    near = np.abs(was - is_now) <= TOLERANCE * np.maximum(np.abs(was), np.abs(is_now))  # implies equal signs
    same = float((both & near)[had].mean()) if had.any() else None
    return same, float(both[either].mean()) if either.any() else None
