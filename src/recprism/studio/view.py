"""A run in memory. Most answers are lookups; reasons and scaled factors are computed."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from types import MappingProxyType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from recprism.budget.audit import COST
from recprism.budget.diversified import Diversified, usual_form
from recprism.budget.path import rule_at
from recprism.budget.scenario import Ranker
from recprism.data._ids import as_id_array, id_positions
from recprism.deploy._budget import budget_of
from recprism.errors import InputError
from recprism.explain.factors._highlights import who_pays
from recprism.rerank._kernels.prices import BY_RELEVANCE
from recprism.rerank.optimal import GOALS, WITHOUT_SUBTOPICS
from recprism.rerank.rule import Rule
from recprism.runs._catalogue import Card, Catalogue, Place, places
from recprism.runs.jobs.reasons import newcomer_reasons
from recprism.runs.run import Run
from recprism.runs.scenario import scenario_of
from recprism.runs.stored_path import StoredPath
from recprism.studio import schemas

SHOWN = 8  # listed users or items


class View:
    """The data of a ready run, and its answers."""

    def __init__(self, run: Run) -> None:
        self.run, self.scenario = run, scenario_of(run)
        self.factors, self.split, self.subtopics = self.scenario.factors, self.scenario.split, self.scenario.subtopics
        self.seen = self.scenario.seen
        self.catalogue = Catalogue(run.items(), self.subtopics)
        self.paths: dict[str, StoredPath] = {}
        self._payers: dict[tuple[str, int], schemas.PayersAnswer] = {}
        self._ids: list[int | str] = self.factors.user_ids.tolist()
        self._rows = {user: row for row, user in enumerate(self._ids)}

    # -- goals, users and items ---------------------------------------------------------------------------------------

    @property
    def possible_goals(self) -> list[str]:
        """Goals with a path for these data."""
        labelled = len(self.split.part(self.scenario.part)) > 0
        possible = GOALS if labelled else tuple(goal for goal in GOALS if goal not in BY_RELEVANCE)
        return [goal for goal in possible if len(self.subtopics) or goal in WITHOUT_SUBTOPICS]

    @property
    def first_goal(self) -> str:
        """The goal of the run, if there is a path towards it."""
        asked = budget_of(self.run)
        if asked is not None:
            return asked.goal
        own = self.run.diversified().objective.partition("@")[0] if self.run.is_diversified() else "subtopic_coverage"
        possible = self.possible_goals
        return own if own in possible else possible[0]

    def user_row(self, user: str) -> int:
        """Return the row number of a user id."""
        return int(id_positions(as_id_array([user], "user"), self.factors.user_ids, "user")[0])

    def item_row(self, item: str) -> int:
        """Return the row number of an item id."""
        return int(id_positions(as_id_array([item], "item"), self.factors.item_ids, "item")[0])

    def search(self, words: str) -> schemas.SearchHits:
        """Find users by the beginning of their id, and items by words of their title."""
        wanted = words.strip().casefold()
        users = [user for user in self._rows if str(user).casefold().startswith(wanted)] if wanted else []
        exact_first = sorted(users, key=lambda user: (len(str(user)), str(user)))[:SHOWN]
        return schemas.SearchHits(
            users=exact_first, items=[self.item(it) for it in self.catalogue.search(words, SHOWN)]
        )

    def item(self, item: int) -> schemas.Item:
        """Describe an item, given by number."""
        return schemas.Item.model_construct(**vars(self.catalogue[item]))

    # -- paths and lists ----------------------------------------------------------------------------------------------

    def path(self, goal: str) -> StoredPath:
        """Return the path towards a goal."""
        if goal not in self.paths:
            known = ", ".join(self.paths) or "none"
            raise InputError(f"the path towards {goal!r} has not been computed; there is {known}")
        return self.paths[goal]

    def path_answer(self, goal: str) -> schemas.PathAnswer:
        """Describe all points of a path."""
        path = self.path(goal)
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
            goal=goal,
            metric=path.metric,
            cost=COST,
            confidence=path.confidence,
            part=path.part,
            users=path.users,
            points=points,
        )

    def payers(self, goal: str, point: int) -> schemas.PayersAnswer:
        """Return the change of NDCG@10 by groups of users at a point of a path."""
        if (goal, point) not in self._payers:
            self._payers[goal, point] = self._who_pays(self.path(goal).lists[point], point)
        return self._payers[goal, point]

    def _who_pays(self, lists: NDArray[Any], point: int) -> schemas.PayersAnswer:
        users, _ = who_pays(self.scenario, lists)
        if users is None:
            return schemas.PayersAnswer(point=point, sentence="", rows=[])
        fields = schemas.Payer.model_fields
        rows = [schemas.Payer(**{name: row[name] for name in fields}) for row in users.to_dict()["rows"]]
        return schemas.PayersAnswer(point=point, sentence=users.sentence(), rows=rows)

    def point(self, goal: str, budget: float | None, certified: bool, point: int | None) -> int:
        """Return the number of the requested point: the given one, or the furthest within a budget."""
        path = self.path(goal)
        if point is None:
            return path.reach(0.0 if budget is None else budget, certified=certified)
        if not 0 <= point < len(path.trade_offs):
            raise InputError(f"there is no point {point} on this path; points are 0 to {len(path.trade_offs) - 1}")
        return point

    def lists(self, user: str, goal: str, point: int) -> schemas.ListsAnswer:
        """Return a user's current list and the list at a point of a path."""
        row, path = self.user_row(user), self.path(goal)
        after = path.lists[point, row]
        rule = rule_at(self.scenario, goal, path.trade_offs[point])
        reasons = self._reasons(row, after, rule, usual_form(self.scenario, goal)) if point else {}
        return self._before_and_after(row, path.lists[0, row], after, point, reasons)

    def served_lists(self, user: str) -> schemas.ListsAnswer:
        """Return a user's list of the trained model and the list that the run serves, with reasons if it has a rule."""
        row, found = self.user_row(user), self._result
        before, after = self._ranked(row, self.served)
        reasons: dict[int, str] = {}
        if found is not None and found.rule is not None:
            reasons = self._reasons(row, after, found.rule, found.into)
        return self._before_and_after(row, before, after, reasons=reasons)

    def lists_of(self, user: str, model: Ranker) -> schemas.ListsAnswer:
        """Return a user's current list and the list of other vectors."""
        row = self.user_row(user)
        return self._before_and_after(row, *self._ranked(row, model))

    def _ranked(self, row: int, model: Ranker) -> tuple[NDArray[Any], NDArray[Any]]:
        users = np.array([row])
        return self.scenario.rank(self.factors, 10, users=users)[0][0], self.scenario.rank(model, 10, users=users)[0][0]

    @cached_property
    def _result(self) -> Diversified | None:
        return self.run.diversified() if self.run.is_diversified() else None

    @property
    def served(self) -> Ranker:
        """What makes the run's own lists: the rule, or vectors."""
        return self.factors if self._result is None else self._result.model

    def _reasons(self, row: int, after: NDArray[Any], rule: Rule, into: str) -> dict[int, str]:
        return newcomer_reasons(self.scenario, rule, row, after, self._titles.__getitem__, into)

    @cached_property
    def _titles(self) -> dict[Any, str]:
        return dict(zip(self.catalogue.ids, self.catalogue.titles, strict=True))

    def _before_and_after(
        self,
        row: int,
        before: NDArray[Any],
        after: NDArray[Any],
        point: int = 0,
        reasons: Mapping[int, str] = MappingProxyType({}),
    ) -> schemas.ListsAnswer:
        # All values are our own, so they are not validated: that would take longer than the rest.
        return schemas.ListsAnswer.model_construct(
            user=self._ids[row],
            point=point,
            before=[self._entry(place) for place in places(before, after, "gone")],
            after=[self._entry(place, reasons.get(place.item, "")) for place in places(after, before, "new")],
            history=self._history(row),
        )

    def _entry(self, place: Place, reason: str = "") -> schemas.Entry:
        card = vars(self._cards[place.item])
        return schemas.Entry.model_construct(**card, rank=place.rank, state=place.state, reason=reason)

    @cached_property
    def _cards(self) -> list[Card]:
        return [self.catalogue[item] for item in range(len(self.catalogue))]

    def _history(self, row: int) -> schemas.History:
        taken = self.seen.row(row)
        rows = self.subtopics.items.take_rows(taken) if len(taken) and len(self.subtopics) else None
        counts = np.zeros(len(self.subtopics), int) if rows is None else rows.col_counts
        most = [int(it) for it in np.argsort(-counts, kind="stable")[:5] if counts[it]]
        named = [(self.subtopics.names[it], int(counts[it])) for it in most]
        return schemas.History.model_construct(items=len(taken), subtopics=named)

    def item_answer(self, item: str, goal: str, point: int) -> schemas.ItemAnswer:
        """Count the lists with an item, now and at a point of a path."""
        number, path = self.item_row(item), self.path(goal)
        before, after = ((path.lists[at] == number).any(axis=1) for at in (0, point))
        ids = self.factors.user_ids
        return schemas.ItemAnswer(
            item=self.item(number),
            point=point,
            lists_before=int(before.sum()),
            lists_after=int(after.sum()),
            gained=ids[np.flatnonzero(after & ~before)[:SHOWN]].tolist(),
            lost=ids[np.flatnonzero(before & ~after)[:SHOWN]].tolist(),
        )
