"""The reasons of one user's list in a run."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from recprism.budget.scenario import Scenario
from recprism.data._ids import as_id_array, id_positions
from recprism.data.split import Part
from recprism.errors import InputError
from recprism.explain import reasons
from recprism.explain.reasons import Reason, ReasonNot, WhatIf
from recprism.rerank.rule import Rule
from recprism.runs._catalogue import titles_of
from recprism.runs.run import Run
from recprism.runs.scenario import scenario_of


@dataclass(frozen=True, eq=False)
class UserReasons:
    """Answers questions about one user's list.

    Attributes:
        scenario: What is served.
        rule: What makes the list.
        user: Id of the user, as in the data.
        titles: Title of each item, (n_items,).
        note: A sentence, if the list that is served differs from that of the rule.

    Stability: provisional.
    """

    scenario: Scenario
    rule: Rule
    user: Any
    titles: list[str]
    note: str | None = None

    def why_list(self) -> tuple[Reason, ...]:
        """Explain every item of the list."""
        return reasons.why_list(self.scenario, self.rule, self.user)

    def why(self, item: Any) -> Reason:
        """Explain why an item is in the list."""
        return reasons.why(self.scenario, self.rule, self.user, self._item(item))

    def why_not(self, item: Any) -> ReasonNot:
        """Explain why an item is not in the list."""
        return reasons.why_not(self.scenario, self.rule, self.user, self._item(item))

    def what_if(self, **changes: Any) -> WhatIf:
        """Run the rule again after a change, as in :func:`recprism.explain.what_if`."""
        known = {name: self._item(it) if name in ("without", "seen") else it for name, it in changes.items()}
        return reasons.what_if(self.scenario, self.rule, self.user, **known)

    def name(self, item: Any) -> str:
        """Return the title of an item id."""
        return self.titles[self._position(item)]

    def _item(self, item: Any) -> Any:
        return self.scenario.split.item_ids[self._position(item) : self._position(item) + 1].tolist()[0]

    def _position(self, item: Any) -> int:
        return int(id_positions(as_id_array([item], "item"), self.scenario.split.item_ids, "item")[0])


def reasons_of(run: Run, user: Any, *, part: Part = "test") -> UserReasons:
    """Return what answers questions about one user's list.

    Args:
        run: A run that `recprism diversify` has changed.
        user: Id of the user.
        part: The part that the lists are made for.

    Raises:
        InputError: If no rule made the lists, or the user is unknown.

    Stability: provisional.
    """
    found, scenario = run.diversified(), scenario_of(run, part)
    if found.rule is None:
        raise InputError(
            f"{run.path}: players found this change, and no rule made its lists; `recprism erase {run.argument}` looks "
            "at its factors"
        )
    row = id_positions(as_id_array([user], "user"), scenario.split.user_ids, "user")
    wanted, served = (scenario.rank(it, users=row)[0][0] for it in (found.rule, found.model))
    note = None
    if set(wanted.tolist()) != set(served.tolist()):
        ids = ", ".join(str(it) for it in scenario.split.item_ids[np.setdiff1d(served, wanted)])
        note = f"These are the reasons of the rule. The {found.into} of this user serve other items instead: {ids}."
    return UserReasons(scenario, found.rule, scenario.split.user_ids[row].tolist()[0], titles_of(run.items()), note)
