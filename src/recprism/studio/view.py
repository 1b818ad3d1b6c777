"""A run in memory: its items, its paths, and the change that a page is about."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property, partial
from types import MappingProxyType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from recprism.budget.audit import COST
from recprism.budget.path import rule_at
from recprism.budget.segments import user_segments
from recprism.common.ids import as_id_array, id_positions
from recprism.errors import InputError
from recprism.result.catalogue import Card, Catalogue, Place, places
from recprism.result.front import StoredPath
from recprism.result.result import Result
from recprism.result.view import ResultView
from recprism.rule.goal import TERMS, Goal
from recprism.runs.config import BudgetConfig
from recprism.runs.run import Run
from recprism.studio import schemas

SHOWN = 8  # hits of a search
MOST_USERS = 50  # of a segment, or of an item
DEFAULT_BUDGET = 0.05


@dataclass(frozen=True, eq=False)
class Change(ResultView):
    """What a page compares with the lists of the trained model: the run's result, or a stop of a path.

    Attributes:
        label: What made it, in words.
        goal: Where the path leads; None for a change that players found.
        point: The stop of the path; None for the run's result.
    """

    label: str = ""
    goal: Goal | None = None
    point: int | None = None

    @property
    def towards(self) -> str:
        """Where the path leads, in words."""
        return self.result.towards if self.point is None else str(self.goal)


class View:
    """The data of a ready run, and its answers."""

    def __init__(self, run: Run) -> None:
        self.run, self.problem = run, run.problem()
        self.factors, self.split, self.categories = self.problem.factors, self.problem.split, self.problem.categories
        self.seen = self.problem.seen
        self.catalogue = Catalogue(run.items(), self.categories)
        self.paths: dict[Goal, StoredPath] = {}
        self._described: dict[Goal, schemas.PathAnswer] = {}
        self._stops: dict[tuple[Goal, int], Change] = {}
        self.ids: list[int | str] = self.factors.user_ids.tolist()

    # -- goals, users and items ---------------------------------------------------------------------------------------

    @property
    def labelled(self) -> bool:
        """Whether interactions are held out."""
        return len(self.split.part(self.problem.part)) > 0

    @property
    def possible_goals(self) -> list[str]:
        """Goals with a path for these data."""
        has = {"vectors": True, "labels": self.labelled, "categories": len(self.categories) > 0}
        return [name for name, term in TERMS.items() if not term.is_exposure and all(has[it] for it in term.needs)]

    def goal_named(self, words: str) -> Goal:
        """Return a goal, or a mix of goals, in the order in which its path is known.

        Raises:
            InputError: If these data have no path towards it.
        """
        names = Goal.parse(words).weights
        of_paths = (name for goal in self.paths for name in goal.weights)
        possible = dict.fromkeys((*self.possible_goals, *of_paths))
        unknown = [name for name in names if name not in possible]
        if unknown:
            raise InputError(f"there is no path towards {unknown[0]!r}; goals are {', '.join(possible)}")
        in_order = {name: names[name] for name in (*TERMS, *names) if name in names}
        return next((goal for goal in self.paths if goal.weights == names), Goal.parse(in_order))

    @cached_property
    def asked(self) -> BudgetConfig | None:
        """What the result was made from; None if it was not made within a budget."""
        return self.run.within

    @property
    def first_goal(self) -> Goal:
        """The goal of the run, if there is a path towards it."""
        if self.asked is not None:
            return self.asked.question.goal
        own = self.result.objective.partition("@")[0] if self.result is not None else "subtopic_coverage"
        possible = self.possible_goals
        return Goal.parse(own if own in possible else possible[0])

    def user_row(self, user: str) -> int:
        """Return the row number of a user id."""
        return int(id_positions(as_id_array([user], "user"), self.factors.user_ids, "user")[0])

    def item_row(self, item: str) -> int:
        """Return the row number of an item id."""
        return int(id_positions(as_id_array([item], "item"), self.factors.item_ids, "item")[0])

    def search(self, words: str) -> schemas.SearchHits:
        """Find users by a part of their id, and items by a part of their title; what begins with it comes first."""
        wanted = words.strip().casefold()
        users = [user for user in self.ids if wanted in str(user).casefold()] if wanted else []
        order = {user: (not str(user).casefold().startswith(wanted), len(str(user)), str(user)) for user in users}
        exact_first = sorted(users, key=order.__getitem__)[:SHOWN]
        return schemas.SearchHits(
            users=exact_first, items=[self.item(it) for it in self.catalogue.search(words, SHOWN)]
        )

    def item(self, item: int) -> schemas.Item:
        """Describe an item, given by number."""
        return schemas.Item.model_construct(**vars(self.cards[item]))

    @cached_property
    def cards(self) -> list[Card]:
        """The cards of all items, by item number."""
        return [self.catalogue[item] for item in range(len(self.catalogue))]

    # -- what a page is about -----------------------------------------------------------------------------------------

    @cached_property
    def result(self) -> Result | None:
        """The result of the run; None if it was not diversified."""
        return self.run.load_result() if self.run.is_diversified() else None

    @cached_property
    def own_change(self) -> Change | None:
        """The change from the trained model to the result; None without a result."""
        found = self.result
        if found is None:
            return None
        lists = found.ranked(live=False)[0]
        return Change(found.problem, self.catalogue, lambda: found, lists, "the result of this run", found.goal)

    def change(self, goal: Goal | None, budget: float, certified: bool, point: int | None) -> Change:
        """Return the requested change: without a goal the run's result, or where there is none, a stop of its path."""
        if goal is None and point is None and self.own_change is not None:
            return self.own_change
        path = self.path(self.first_goal if goal is None else goal)
        at = self._stop(path, budget, certified, point)
        if (path.goal, at) not in self._stops:
            label = f"stop {at} of {len(path.trade_offs) - 1} towards {path.goal}"
            stop = (path.lists[at], label, path.goal, at)
            self._stops[path.goal, at] = Change(self.problem, self.catalogue, partial(self._result_at, path, at), *stop)
        return self._stops[path.goal, at]

    def _result_at(self, path: StoredPath, at: int) -> Result:
        """Return a stop of a path as a result; for goals of exposure this is a search."""
        return Result(self.problem, path.goal, rule_at(self.problem, path.goal, path.trade_offs[at]) if at else None)

    def _stop(self, path: StoredPath, budget: float, certified: bool, point: int | None) -> int:
        if point is None:
            return path.reach(budget, certified=certified)
        if not 0 <= point < len(path.trade_offs):
            raise InputError(f"there is no point {point} on this path; points are 0 to {len(path.trade_offs) - 1}")
        return point

    # -- paths and segments -------------------------------------------------------------------------------------------

    def path(self, goal: Goal) -> StoredPath:
        """Return the path towards a goal."""
        if goal not in self.paths:
            known = ", ".join(map(str, self.paths)) or "none"
            raise InputError(f"the path towards {str(goal)!r} has not been computed; there is {known}")
        return self.paths[goal]

    def path_answer(self, goal: Goal) -> schemas.PathAnswer:
        """Describe all points of a path; the description is kept."""
        path = self.path(goal)
        if goal not in self._described:
            self._described[goal] = self._describe(path)
        return self._described[goal]

    def _describe(self, path: StoredPath) -> schemas.PathAnswer:
        points = [
            schemas.PathPoint(
                point=at,
                trade_off=trade_off,
                loss=None if path.losses is None else path.losses[at],
                certified_within=None if path.certified_within is None else path.certified_within[at],
                values={name: values[at] for name, values in path.means.items()},
                changes={name: path.change(name, at) for name in path.means},
            )
            for at, trade_off in enumerate(path.trade_offs)
        ]
        return schemas.PathAnswer(
            goal=str(path.goal),
            metric=path.metric,
            cost=COST,
            confidence=path.confidence,
            part=path.part,
            shown_part=self.problem.part,
            users=path.users,
            points=points,
        )

    def payers(self, change: Change) -> schemas.PayersAnswer:
        """Return the change of NDCG@10 by groups of users."""
        users, _ = change.segments
        if users is None:
            return schemas.PayersAnswer(sentence="", rows=[])
        fields = schemas.Payer.model_fields
        rows = [schemas.Payer(**{name: row[name] for name in fields}) for row in users.to_dict()["rows"]]
        return schemas.PayersAnswer(sentence=users.sentence(), rows=rows)

    @cached_property
    def segments(self) -> dict[str, NDArray[np.bool_]]:
        """Segment -> ``(n_users,)`` whether a user belongs to it."""
        everyone = {"everyone": np.ones(self.factors.n_users, bool)}
        return everyone | user_segments(self.split.train, self.categories if len(self.categories) else None)

    def segment_users(self, change: Change, segment: str) -> schemas.SegmentAnswer:
        """Return the users of a segment, those with the most new items first."""
        if segment not in self.segments:
            raise InputError(f"there is no segment {segment!r}; there are {', '.join(self.segments)}")
        rows = np.flatnonzero(self.segments[segment])
        new = change.newcomers[rows]
        first = np.argsort(-new, kind="stable")[:MOST_USERS]
        users = [schemas.SegmentUser(user=self.ids[rows[at]], new=int(new[at])) for at in first]
        return schemas.SegmentAnswer(segment=segment, total=len(rows), users=users)

    # -- lists --------------------------------------------------------------------------------------------------------

    def entries(
        self,
        items: NDArray[Any],
        others: NDArray[Any],
        alone: str,
        reasons: Mapping[int, str] = MappingProxyType({}),
    ) -> list[schemas.Entry]:
        """Describe a list next to another one; ``alone``: the state of items that the other list lacks."""
        found = places(items, others, "new" if alone == "new" else "gone")
        return [self._entry(place, reasons.get(place.item, "")) for place in found]

    def _entry(self, place: Place, reason: str) -> schemas.Entry:
        # All values are our own, so they are not validated: that would take longer than the rest.
        card = vars(self.cards[place.item])
        return schemas.Entry.model_construct(**card, rank=place.rank, state=place.state, reason=reason)
