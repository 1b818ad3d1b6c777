"""What a user's own setting of the dials does to the user's list."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from recprism.budget.problem import Problem
from recprism.common.display import Displayed
from recprism.common.ids import as_id_array, id_positions
from recprism.errors import InputError
from recprism.forms.compiled import compile_dials, with_boosts
from recprism.forms.dials.steering import steered
from recprism.rule.rule import Rule

MEASURED = ("subtopic_coverage", "ilad_subtopics")


@dataclass(frozen=True, eq=False, repr=False)
class Steered(Displayed):
    """A user's list before and after a setting of the dials.

    Attributes:
        user: Id of the user.
        settings: Property -> share of the user's score range, all own settings together.
        before: Item numbers of the list without the new settings, (k,).
        after: Item numbers of the list with them, (k,).
        values: Metric -> value before and after, for this user.
        item_ids: Ids of all items.
    """

    user: Any
    settings: Mapping[str, float]
    before: NDArray[np.int64]
    after: NDArray[np.int64]
    values: Mapping[str, tuple[float, float]]
    item_ids: NDArray[Any] = field(repr=False)

    def to_dict(self) -> dict[str, Any]:
        """Return plain values, ready for JSON."""
        lists = {name: self.item_ids[it[it >= 0]].tolist() for name, it in self.lists.items()}
        values = {name: dict(zip(("before", "after"), pair, strict=True)) for name, pair in self.values.items()}
        return {"user": self.user, "settings": dict(self.settings), **lists, "values": values}

    @property
    def lists(self) -> dict[str, NDArray[np.int64]]:
        return {"before": self.before, "after": self.after}


def steer(
    problem: Problem, rule: Rule, user: Any, settings: Mapping[str, float], known: Mapping[Any, Any] | None = None
) -> Steered:
    """Compile the dials of one user, set some of them, and rank the user's list again.

    Args:
        problem: The context.
        rule: What makes the lists.
        user: Id of the user.
        settings: Category -> share of the user's score range, from -1 to 1; 0 takes an own setting back.
        known: User id -> settings that are kept already.

    Raises:
        InputError: If there are no categories, or if the user or a category is unknown.
    """
    base, users = problem.factors, problem.factors.user_ids
    if not len(problem.categories):
        raise InputError("dials are set by category, and the items have none; make the run again with categories")
    row = id_positions(as_id_array([user], "user"), users, "user")
    plain = users[row].tolist()[0]  # as in the data: a command line passes text
    own = own_settings(known or {}, plain)
    now = {**own, **settings}
    dials = compile_dials(problem, rule, users=row)
    model = with_boosts(base, rule)
    lists = [problem.rank(steered(dials, base, {plain: it}).applied_to(model), users=row)[0][0] for it in (own, now)]
    names = tuple(f"{name}@{problem.k}" for name in MEASURED)
    values = {name: (it[0], it[1]) for name, it in problem.judge_items(np.stack(lists), names).items()}
    return Steered(plain, {n: it for n, it in now.items() if it}, lists[0], lists[1], values, base.item_ids)


def own_settings(known: Mapping[Any, Any], user: Any) -> dict[str, float]:
    """Return the settings that are kept for a user, whose id may be text or a number."""
    return next((dict(it) for one, it in known.items() if str(one) == str(user)), {})
