"""Refit after the base model was retrained: the same budget, and a limit on the change of lists.

No label is used before the certificate: which old items stay is decided from the lists alone.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from recprism.budget.path import lists_at
from recprism.budget.problem import Lists, Problem, Ranker
from recprism.budget.question import BudgetQuestion
from recprism.budget.sticky import StickyProblem
from recprism.budget.within import CertifiedRule, within_budget
from recprism.common.progress import ProgressCallback, count_steps
from recprism.common.shares import Share, share
from recprism.data.sparse_rows import SparseRows
from recprism.data.split import Part
from recprism.errors import InputError
from recprism.models import Factors
from recprism.rule.goal import Goal

STICKIEST = 4.0  # times the range of a user's candidate scores: every old item that is available comes first
HALVINGS = 7
GONE = -2  # marks an item of an old list that cannot be on the new one
ATTEMPTS = 5  # each aims lower, because the last step of the path need not be the one with the most churn

MOSTLY = 0.5
"""The share of a part's labels that must be new to evaluate lists with old items."""


@dataclass(frozen=True, eq=False)
class PreviousDeployment:
    """The state before the retraining.

    Attributes:
        base: The old model.
        served: The vectors or the rule that made the served lists.
        seen: (old users, old items) pairs that the model had seen.
        rank: Ranks as lists were served: (n, k) item numbers for k and the (n,) row numbers of users. By default, only
            seen items are left out; a rule needs it.
    """

    base: Factors
    served: Ranker
    seen: SparseRows
    rank: Callable[[Ranker, int, NDArray[Any]], Lists] | None = None

    def lists(self, new: Problem, *, base: bool = False) -> Lists:
        """Return the lists that were served, in numbers of the new model.

        Args:
            new: The retrained model.
            base: Return the lists of the old model instead.

        Returns:
            (n_users, k) item numbers. -1 in empty places and for unknown users; GONE for items that the new model does
            not have or that the user has seen since.
        """
        users, old_users = common(new.factors.user_ids, self.base.user_ids)
        items, old_items = common(new.factors.item_ids, self.base.item_ids)
        number = np.full(self.base.n_items, GONE, np.int64)
        number[old_items] = items
        model = self.base if base else self.served
        if self.rank is not None:
            ranked = self.rank(model, new.k, old_users)
        elif isinstance(model, Factors):
            ranked = model.rank(new.k, exclude=self.seen, users=old_users)[0]
        else:
            raise InputError("the old lists were made by a rule, which ranks in its problem: pass rank, too")
        found = np.full((new.factors.n_users, new.k), -1, np.int64)
        found[users] = np.where(ranked >= 0, number[ranked], -1)
        row, place = np.nonzero(found >= 0)
        seen = np.isin(row * new.factors.n_items + found[row, place], new.seen.keys)
        found[row[seen], place[seen]] = GONE
        return found

    def new_labels(self, new: Problem) -> SparseRows:
        """Return the labels of the new model without pairs that the old model had already seen.

        Old lists could not contain these pairs. With a random split per training, most held-out items of the new model
        were training items of the old one.
        """
        user, item = np.full(self.base.n_users, -1, np.int64), np.full(self.base.n_items, -1, np.int64)
        at, was = common(new.factors.user_ids, self.base.user_ids)
        user[was] = at
        at, was = common(new.factors.item_ids, self.base.item_ids)
        item[was] = at
        row, column = user[self.seen.row_of_entry], item[self.seen.indices]
        known = (row >= 0) & (column >= 0)
        labels = new.split.part(new.part)
        fresh = ~np.isin(labels.keys, row[known] * labels.n_cols + column[known])
        return SparseRows.from_pairs(labels.row_of_entry[fresh], labels.indices[fresh], labels.shape)


def common(new: NDArray[Any], old: NDArray[Any]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the positions of shared ids in each array, in the same order; ids of different types never match.

    >>> common(np.array([3, 5, 9]), np.array([9, 4, 3]))
    (array([0, 2]), array([2, 0]))
    """
    if new.dtype.kind != old.dtype.kind:
        return np.empty(0, np.int64), np.empty(0, np.int64)
    _, at_new, at_old = np.intersect1d(new, old, assume_unique=True, return_indices=True)
    return at_new, at_old


def churn(before: Lists, now: Lists) -> float:
    """Return the share of filled places of ``before`` whose item is not in the same row of ``now``.

    Args:
        before: (n, k) item numbers, -1 in empty places.
        now: (n, k) item numbers.

    >>> churn(np.array([[1, 2], [3, -1]]), np.array([[2, 5], [4, 3]]))
    0.33333333333333337
    >>> churn(np.array([[1, GONE]]), np.array([[1, 4]]))
    0.5
    """
    kept = np.zeros(before.shape, bool)
    for place in range(now.shape[1]):
        kept |= before == now[:, [place]]
    filled = before != -1
    return 1 - float(kept[filled].mean()) if filled.any() else 0.0


@dataclass(frozen=True)
class Churn:
    """Shares of the places of old lists whose item is no longer on the user's list; order does not count.

    Attributes:
        users: Users with a list before and now.
        retraining: Churn of the base model's lists: the effect of retraining alone.
        served: Churn from the lists that were served to those that are served now.
        unavoidable: Share of the served places whose item is gone or was seen since.
        free: The value of ``served`` without a limit; None if no limit was set.
    """

    users: int
    retraining: float
    served: float
    unavoidable: float
    free: float | None = None

    def sentence(self) -> str:
        """Describe the churn."""
        bound = "" if self.free is None else f" ({self.free:.1%} without a bound)"
        return (
            f"Of the places of {self.users:,} users' lists, {self.served:.1%} changed{bound}; "
            f"retraining alone changes {self.retraining:.1%}, and {self.unavoidable:.1%} had to."
        )


@dataclass(frozen=True, eq=False)
class Refit:
    """The result of a refit.

    Attributes:
        kept: The rule and its certificate.
        problem: The context that the lists are made in; under a limit on churn, items of old lists score higher there.
        churn: Churn of the lists from ``kept``; of the new base lists if nothing was certified.
        stickiness: The bonus for old items that keeps the limit on churn.
        judged: Share of the held-out interactions that the certificate uses (see ``PreviousDeployment.new_labels``).
        asked_before: A sentence about other questions to the same labels; None without any, and outside of a run.
    """

    kept: CertifiedRule
    problem: Problem
    churn: Churn
    stickiness: float
    judged: float
    asked_before: str | None = None

    def to_dict(self) -> dict[str, Any]:
        return {"stickiness": self.stickiness, "judged": self.judged, "churn": asdict(self.churn)}


class _StickyOnNewLabels(StickyProblem):
    """A sticky problem whose labels are new to the old model, on any part.

    Labels that the old lists could not contain would count against every old item.
    """

    def __init__(self, of: Problem, previous: PreviousDeployment, stickiness: float) -> None:
        fresh: dict[str, Any] = {of.part: previous.new_labels(of)}
        super().__init__(of.replaced(split=replace(of.split, **fresh), store=None), previous.lists(of), stickiness)
        self._whole, self._previous = of, previous

    def _made(self, **other: Any) -> Problem:
        return _StickyOnNewLabels(self._whole.replaced(**other), self._previous, self.stickiness)


def refit(
    problem: Problem,
    previous: PreviousDeployment,
    question: BudgetQuestion,
    *,
    trade_off: float,
    max_churn: Share | None = None,
    whole_path: bool = False,
    on_step: ProgressCallback | None = None,
) -> Refit:
    """Find the rule with the most diverse lists of a retrained model, at most as far along the path as the old one.

    A first fit follows the whole path. A refit tests only two steps before the old trade-off, and the old trade-off.
    That is valid if other labels chose the old trade-off. If the same labels chose it, pass ``whole_path``.

    Args:
        problem: The retrained model, and the constraints that its lists keep.
        previous: The state before the retraining.
        question: The goal and its budgets. Labels that the old model had seen cannot evaluate lists with its items. If
            these are most of the validation part and no part is given, the problem's own part decides.
        trade_off: The trade-off of the old rule.
        max_churn: Largest share of places that may differ from the served lists. Old items get the smallest bonus that
            keeps this limit.
        whole_path: Test every step from the first one up to the old trade-off. The sequence then does not depend on
            labels, and to end it earlier adds no error.
        on_step: Receives progress.

    Raises:
        InputError: If ``max_churn`` cannot be kept, or if the old model had seen all labels.
    """
    most = None if max_churn is None else share(max_churn, "max_churn")
    now = problem.replaced(store=None)
    held, steps = previous.lists(now), _last_steps(question.goal, trade_off, whole_path)
    free, stickiness = None, 0.0
    if most is not None:
        free, stickiness = _enough(_ChurnTrial(now, held, question.goal, steps), most, on_step)
    judging, judged, by = now, 1.0, question.part_in(now)
    if stickiness:
        if question.part is None and _new_share(now, previous, by) < MOSTLY:
            by = now.part
        judging, judged = _StickyOnNewLabels(now, previous, stickiness), _new_share(now, previous, by)
        if not judged:
            raise InputError(
                f"the old model had seen every {by} interaction, so none can judge lists that keep some of its items; "
                "drop --max-churn, or certify on the other part"
            )
    kept = within_budget(judging, replace(question, part=by, trade_offs=steps), on_step=on_step)
    served = StickyProblem(now, held.clip(-1), stickiness) if stickiness else now
    lists = served.rank(now.base if kept.rule is None else kept.rule)[0]
    return Refit(kept, served, _churn(previous, now, lists, free), stickiness, judged)


def _new_share(now: Problem, previous: PreviousDeployment, part: Part) -> float:
    """Return the share of a part's labels that the old model had not seen."""
    return len(previous.new_labels(now.on(part))) / max(len(now.split.part(part)), 1)


def _last_steps(goal: Goal, trade_off: float, whole_path: bool) -> tuple[float, ...]:
    """Return the steps of the path up to a trade-off, or two steps before it and the trade-off."""
    steps = (*(step for step in goal.steps if step < trade_off), trade_off)
    return steps if whole_path else steps[-5::2]


@dataclass(frozen=True, eq=False)
class _ChurnTrial:
    """Measures the churn of lists for a given stickiness, without labels."""

    now: Problem
    held: Lists
    goal: Goal
    steps: Sequence[float]

    def wanted(self, stickiness: float) -> float:
        """Return the churn of the wanted lists of the last step, as a fast estimate."""
        sticky = StickyProblem(self.now, self.held, stickiness)
        return churn(self.held, lists_at(sticky, self.goal, self.steps[-1]))

    def largest(self, stickiness: float) -> float:
        """Return the largest churn of all steps."""
        sticky = StickyProblem(self.now, self.held, stickiness)
        return max(churn(self.held, lists_at(sticky, self.goal, step)) for step in self.steps)


def _enough(trial: _ChurnTrial, most: float, on_step: ProgressCallback | None) -> tuple[float, float]:
    """Return the churn without a limit, and the least stickiness found that keeps it at most ``most``."""
    free = trial.largest(0.0)
    if free <= most:
        return free, 0.0
    aim = most
    step = count_steps(on_step, "keeping old items", ATTEMPTS * (HALVINGS + 1))
    for attempt in range(ATTEMPTS):
        stickiness = _least(trial, aim, step) if attempt < ATTEMPTS - 1 else STICKIEST
        reached = trial.largest(stickiness)
        step()
        if reached <= most:
            return free, stickiness
        if stickiness == STICKIEST:
            break
        aim -= reached - most
    raise InputError(f"at least {reached:.1%} of the places change, and {most:.1%} are allowed; allow more")


def _least(trial: _ChurnTrial, most: float, step: Callable[[], None]) -> float:
    """Bisect on a scale that is finer near 0; returns ``STICKIEST`` if nothing less is enough."""
    low, high = 0.0, 1.0
    for _ in range(HALVINGS):
        middle = (low + high) / 2
        low, high = (low, middle) if trial.wanted(STICKIEST * middle**3) <= most else (middle, high)
        step()
    return float(STICKIEST * high**3)


def _churn(previous: PreviousDeployment, now: Problem, served: Lists, free: float | None) -> Churn:
    old, old_base = previous.lists(now), previous.lists(now, base=True)
    filled = old != -1
    return Churn(
        int(filled.any(1).sum()),
        churn(old_base, now.base_lists),
        churn(old, served),
        float((old[filled] == GONE).mean()) if filled.any() else 0.0,
        free,
    )
