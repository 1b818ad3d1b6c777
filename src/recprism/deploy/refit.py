"""After the base model was retrained: the same budget again, on the old axes, lists that change no more than asked.

Nothing here looks at a label before the certificate: what is kept of the old lists is decided by the lists alone.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from recprism.budget.path import (
    DEPTH,
    Constraints,
    Diversified,
    deciding_part,
    lists_at,
    served_at,
    steps_towards,
    within_budget,
)
from recprism.budget.scenario import Lists, Scenario
from recprism.data.incidence import Incidence
from recprism.data.progress import ProgressCallback, count_steps
from recprism.data.shares import Share, share, shares
from recprism.data.split import Part
from recprism.errors import InputError
from recprism.models import Factors
from recprism.models.alignment import Aligned, align, common

STICKIEST = 4.0  # times the range of a user's candidate scores: whoever was on the list and is on offer comes first
HALVINGS = 7
GONE = -2  # in the place of an item that an old list had and that cannot be on the new one
ATTEMPTS = 5  # to keep a bound, each aiming lower: vectors may not hold all the lists they were baked for

MOSTLY = 0.5
"""The share of a part's labels that must be new to judge lists which hold on to old ones."""


@dataclass(frozen=True, eq=False)
class Before:
    """What was there before the retraining.

    base: the old model; served: the vectors that were served; seen: (old users, old items) what they left out
    """

    base: Factors
    served: Factors
    seen: Incidence

    def lists(self, new: Scenario, *, base: bool = False) -> Lists:
        """(n_users, k) lists as they were served, in numbers of the new model.

        -1 in empty places and for users who were not there; GONE for items no longer on offer: left, or seen since.
        """
        users, old_users = common(new.factors.user_ids, self.base.user_ids)
        items, old_items = common(new.factors.item_ids, self.base.item_ids)
        number = np.full(self.base.n_items, GONE, np.int64)
        number[old_items] = items
        ranked, _ = (self.base if base else self.served).rank(new.k, exclude=self.seen, users=old_users)
        found = np.full((new.factors.n_users, new.k), -1, np.int64)
        found[users] = np.where(ranked >= 0, number[ranked], -1)
        row, place = np.nonzero(found >= 0)
        seen = np.isin(row * new.factors.n_items + found[row, place], new.seen.keys)
        found[row[seen], place[seen]] = GONE
        return found

    def new_labels(self, new: Scenario) -> Incidence:
        """What judges the new lists, without what the old ones could not hold because it was seen already.

        Where data are split at random each time, most held-out items of today were training items of yesterday.
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
        return Incidence.from_pairs(labels.row_of_entry[fresh], labels.indices[fresh], labels.shape)


@dataclass(frozen=True)
class Churn:
    """Shares of the places that old lists had and whose item is no longer on the user's list.

    users: who had a list before and have one now; order inside a list does not count
    retraining: of the base model's lists, with nothing diversified: what the retraining does by itself
    served: of the lists that were served, to those that are served now
    unavoidable: of the lists that were served, items that are gone or were seen since
    free: what ``served`` would be without a bound; None where there was none
    """

    users: int
    retraining: float
    served: float
    unavoidable: float
    free: float | None = None

    def sentence(self) -> str:
        bound = "" if self.free is None else f" ({self.free:.1%} without a bound)"
        return (
            f"Of the places of {self.users:,} users' lists, {self.served:.1%} changed{bound}; "
            f"retraining alone changes {self.retraining:.1%}, and {self.unavoidable:.1%} had to."
        )


@dataclass(frozen=True, eq=False)
class Refit:
    """kept: the perturbation of ``aligned.factors`` and its certificate; stickiness: what it took to keep the bound.

    churn is that of the vectors in ``kept``: where nothing was certified, of the new base lists.
    judged: the share of the held-out interactions that the certificate goes by (see ``Before.new_labels``)
    """

    aligned: Aligned
    kept: Diversified
    churn: Churn
    stickiness: float
    judged: float

    def to_dict(self) -> dict[str, Any]:
        facts = {
            "unlike": self.aligned.unlike,
            "stickiness": self.stickiness,
            "judged": self.judged,
            "churn": asdict(self.churn),
        }
        return {**self.kept.to_dict(), "retrained": facts}


class Keeping(Scenario):
    """A scenario in which items of ``held`` score higher, by ``stickiness`` times the range of the user's candidates.

    held: (n_users, k) item numbers, negative in places without one
    """

    def __init__(self, of: Scenario, held: Lists, stickiness: float) -> None:
        super().__init__(of.factors, of.split, of.subtopics, of.part, of.k)
        self._of, self._held, self._stickiness = of, held, stickiness

    @cached_property
    def candidates(self) -> tuple[NDArray[Any], NDArray[Any]]:
        """The held items and the best others, best first."""
        items, scores = (array[:, :DEPTH] for array in self._of.candidates)
        lowest = np.where(items >= 0, scores, np.inf).min(1, keepdims=True)
        bonus = self._stickiness * np.where(np.isfinite(lowest), scores[:, :1] - lowest, 0.0)
        inside = np.zeros(items.shape, bool)
        for place in range(self._held.shape[1]):
            inside |= (items == self._held[:, [place]]) & (items >= 0)
        user, item = self.factors.search_vectors
        own = np.einsum("ud,ukd->uk", user, item[self._held.clip(0)]).astype(np.float64)
        both = np.hstack([np.where(inside, -1, items), self._held])
        raised = np.hstack([np.where(inside, -np.inf, scores), np.where(self._held >= 0, own + bonus, -np.inf)])
        order = np.argsort(-raised, axis=1, kind="stable")[:, : items.shape[1]]
        return np.take_along_axis(both, order, 1), np.take_along_axis(raised, order, 1)


class _Judging(Keeping):
    """Keeps the old lists on whatever part judges, without labels there that these could not hold.

    Such labels would speak against whatever is kept.
    """

    def __init__(self, of: Scenario, before: Before, stickiness: float) -> None:
        fresh: dict[str, Any] = {of.part: before.new_labels(of)}
        judged = Scenario(of.factors, replace(of.split, **fresh), of.subtopics, of.part, of.k)
        super().__init__(judged, before.lists(of), stickiness)
        self._whole, self._before = of, before

    def on(self, part: Part) -> Scenario:
        return _Judging(self._whole.on(part), self._before, self._stickiness)


def churn(before: Lists, now: Lists) -> float:
    """The share of filled places of ``before`` whose item is not on the same row of ``now``; both (n, k).

    >>> churn(np.array([[1, 2], [3, -1]]), np.array([[2, 5], [4, 3]]))
    0.33333333333333337
    """
    kept = np.zeros(before.shape, bool)
    for place in range(now.shape[1]):
        kept |= before == now[:, [place]]
    filled = before != -1
    return 1 - float(kept[filled].mean()) if filled.any() else 0.0


def refit(
    scenario: Scenario,
    before: Before,
    goal: str,
    budgets: Mapping[str, Share],
    *,
    trade_off: float,
    side: Literal["user", "item"] = "user",
    constraints: Constraints | None = None,
    confidence: float = 0.95,
    max_churn: Share | None = None,
    certify_on: Part | None = None,
    on_step: ProgressCallback | None = None,
) -> Refit:
    """The most diverse vectors of a retrained model, at most as far along the path as the old ones were.

    scenario: the retrained model about to serve; trade_off: where the old perturbation stood on the path
    max_churn: the largest share of places that may change against the lists that were served. Items that were there
        are preferred just as much as that takes; where items that are gone or seen since are more than that, refused
    certify_on: the part whose labels decide, as in :func:`recprism.budget.path.within_budget`. Labels that the old
        model had seen cannot judge lists that hold on to its own: where these are most of the validation part, and no
        part is named, the scenario's own decides

    Where a first fit walks the whole path, this tests the point before the old one, and then the old one.
    """
    budgets = shares(budgets, "budget", ends=False)
    most = None if max_churn is None else share(max_churn, "max_churn")
    aligned = align(scenario.factors, before.base)
    now = Scenario(aligned.factors, scenario.split, scenario.subtopics, scenario.part, scenario.k)
    held, steps = before.lists(now), _last_steps(goal, trade_off)
    free, stickiness = None, 0.0
    if most is not None:
        free, stickiness = _enough(_Trial(now, held, goal, steps, side, constraints), most, on_step)
    judging, judged, by = now, 1.0, certify_on or deciding_part(now.split, now.part)
    if stickiness:
        if certify_on is None and _new_share(now, before, by) < MOSTLY:
            by = now.part
        judging, judged = _Judging(now, before, stickiness), _new_share(now, before, by)
        if not judged:
            raise InputError(
                f"the old model had seen every {by} interaction, so none can judge lists that keep some of its items; "
                "drop --max-churn, or certify on the other part"
            )
    kept = within_budget(
        judging,
        goal,
        budgets,
        side=side,
        constraints=constraints,
        confidence=confidence,
        trade_offs=steps,
        certify_on=by,
        on_step=on_step,
    )
    served, _ = kept.perturbation.applied_to(aligned.factors).rank(now.k, exclude=now.seen)
    return Refit(aligned, kept, _churn(before, now, served, free), stickiness, judged)


def _new_share(now: Scenario, before: Before, part: Part) -> float:
    """The share of a part's labels that the old model had not seen."""
    return len(before.new_labels(now.on(part))) / max(len(now.split.part(part)), 1)


def _last_steps(goal: str, trade_off: float) -> tuple[float, ...]:
    """The step of the path before a trade-off, and the trade-off: a sequence that is fixed before any label is seen."""
    return (*(step for step in steps_towards(goal) if step < trade_off), trade_off)[-2:]


@dataclass(frozen=True, eq=False)
class _Trial:
    """Lists that hold on to old ones by some stickiness, without a look at labels."""

    now: Scenario
    held: Lists
    goal: str
    steps: Sequence[float]
    side: Literal["user", "item"]
    constraints: Constraints | None

    def wanted(self, stickiness: float) -> float:
        """The churn of the last step, of the lists that vectors are to hold: a first and quick look."""
        keeping = Keeping(self.now, self.held, stickiness)
        return churn(self.held, lists_at(keeping, self.goal, self.steps[-1], self.constraints))

    def served(self, stickiness: float) -> float:
        """The largest churn of all steps, of the lists that the vectors give."""
        keeping = Keeping(self.now, self.held, stickiness)
        made = (
            served_at(keeping, self.goal, step, side=self.side, constraints=self.constraints)[1] for step in self.steps
        )
        return max(churn(self.held, lists) for lists in made)


def _enough(trial: _Trial, most: float, on_step: ProgressCallback | None) -> tuple[float, float]:
    """The churn without a bound, and the least stickiness found under which it is at most ``most``."""
    free = trial.served(0.0)
    if free <= most:
        return free, 0.0
    aim = most
    step = count_steps(on_step, "keeping old items", ATTEMPTS * (HALVINGS + 1))
    for attempt in range(ATTEMPTS):
        stickiness = _least(trial, aim, step) if attempt < ATTEMPTS - 1 else STICKIEST
        reached = trial.served(stickiness)
        step()
        if reached <= most:
            return free, stickiness
        if stickiness == STICKIEST:
            break
        aim -= reached - most
    raise InputError(f"at least {reached:.1%} of the places change, and {most:.1%} are allowed; allow more")


def _least(trial: _Trial, most: float, step: Callable[[], None]) -> float:
    """By halving, on a scale that is finer near 0; the stickiest where nothing less is enough."""
    low, high = 0.0, 1.0
    for _ in range(HALVINGS):
        middle = (low + high) / 2
        low, high = (low, middle) if trial.wanted(STICKIEST * middle**3) <= most else (middle, high)
        step()
    return float(STICKIEST * high**3)


def _churn(before: Before, now: Scenario, served: Lists, free: float | None) -> Churn:
    old, old_base = before.lists(now), before.lists(now, base=True)
    filled = old != -1
    return Churn(
        int(filled.any(1).sum()),
        churn(old_base, now.base_lists),
        churn(old, served),
        float((old[filled] == GONE).mean()) if filled.any() else 0.0,
        free,
    )
