"""What a user's own setting of the dials does to the user's list."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from recprism._display import Displayed
from recprism.budget.diversified import Diversified
from recprism.budget.scenario import Scenario
from recprism.data._ids import as_id_array, id_positions
from recprism.errors import InputError

OF_SUBTOPICS, OF_VECTORS = ("subtopic_coverage", "ilad_subtopics"), ("ilad",)


@dataclass(frozen=True, eq=False, repr=False)
class Steered(Displayed):
    """A user's list before and after a setting of the dials.

    Attributes:
        user: Id of the user.
        settings: Concept -> share of the user's score range, all own settings together.
        before: Item numbers of the list without the new settings, (k,).
        after: Item numbers of the list with them, (k,).
        values: Metric -> value before and after, for this user.
        item_ids: Ids of all items.

    Stability: provisional.
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


def steer(scenario: Scenario, found: Diversified, user: Any, settings: Mapping[str, float]) -> Steered:
    """Set dials for one user, and rank the user's list again.

    Args:
        scenario: What is served.
        found: A result that dials serve.
        user: Id of the user.
        settings: Concept -> share of the user's score range, from -1 to 1; 0 takes an own setting back.

    Raises:
        InputError: If the result has no dials, or if the user or a concept is unknown.

    Stability: provisional.
    """
    if found.dials is None or found.into != "dials":
        raise InputError(
            f"this result is served by {found.into}, and only dials can be set; make it with `--into dials`"
        )
    row = id_positions(as_id_array([user], "user"), found.base.user_ids, "user")
    ids = found.base.user_ids[row]  # as in the data: a command line passes text
    own = next((dict(it) for known, it in found.steering.items() if str(known) == str(ids[0])), {})
    now = {**own, **settings}
    others = {known: it for known, it in found.steering.items() if str(known) != str(ids[0])}
    after = replace(found, steering={**others, ids[0]: now})
    lists = [scenario.rank(it.factors, users=row)[0][0] for it in (found, after)]
    names = tuple(f"{name}@{scenario.k}" for name in (OF_SUBTOPICS if len(scenario.subtopics) else OF_VECTORS))
    values = {name: (it[0], it[1]) for name, it in scenario.judge_items(np.stack(lists), names).items()}
    plain = ids[:1].tolist()[0]
    return Steered(plain, {n: it for n, it in now.items() if it}, lists[0], lists[1], values, found.base.item_ids)
