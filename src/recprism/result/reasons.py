"""The reasons of one user's list."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from recprism.budget.problem import Problem
from recprism.common.display import Displayed
from recprism.common.ids import as_id_array, id_positions
from recprism.explain.reasons import questions
from recprism.explain.reasons.reason import Reason, ReasonNot, WhatIf
from recprism.rule.rule import Rule

ITEMS = ("without", "seen", "forget")
"""Changes of :func:`recprism.explain.reasons.questions.what_if` that name an item."""


@dataclass(frozen=True, eq=False, repr=False)
class UserReasons(Displayed):
    """Answers questions about one user's list; a notebook shows the list with its reasons.

    Attributes:
        problem: What is served.
        rule: What makes the list.
        user: Id of the user, as in the data.
        titles: Title of each item, (n_items,).
        live: Whether the list is the live one; else the judged one.
    """

    problem: Problem
    rule: Rule
    user: Any
    titles: list[str]
    live: bool = True

    def why_list(self) -> tuple[Reason, ...]:
        """Explain every item of the list."""
        return questions.why_list(self.problem, self.rule, self.user)

    def to_frame(self) -> pl.DataFrame:
        """Return one row per place: item, rank by relevance alone, what it replaced, and its reason for the user."""
        reasons = self.why_list()
        replaced = [None if it.replaced is None else self.name(it.replaced.item) for it in reasons]
        return pl.DataFrame(
            {
                "place": [it.place for it in reasons],
                "item": [self.name(it.item) for it in reasons],
                "by relevance": [it.rank for it in reasons],
                "replaces": pl.Series(replaced, dtype=pl.String),
                "reason": [it.for_users(self.name) for it in reasons],
            }
        )

    def to_dict(self) -> dict[str, Any]:
        """Return the user, the context and the reasons in plain values."""
        return {"user": self.user, "live": self.live, "list": [it.to_dict() for it in self.why_list()]}

    def _facts(self) -> dict[str, Any]:
        return {"user": self.user, "goals": str(self.rule.goal), "live": self.live}

    def _repr_html_(self) -> str:
        with pl.Config(
            tbl_rows=-1, fmt_str_lengths=200, tbl_hide_dataframe_shape=True, tbl_hide_column_data_types=True
        ):
            return super()._repr_html_()

    def why(self, item: Any) -> Reason:
        """Explain why an item is in the list."""
        return questions.why(self.problem, self.rule, self.user, self._item(item))

    def why_not(self, item: Any) -> ReasonNot:
        """Explain why an item is not in the list."""
        return questions.why_not(self.problem, self.rule, self.user, self._item(item))

    def what_if(self, **changes: Any) -> WhatIf:
        """Run the rule again after a change, as in :func:`recprism.explain.reasons.questions.what_if`."""
        known = {name: self._item(it) if name in ITEMS else it for name, it in changes.items()}
        return questions.what_if(self.problem, self.rule, self.user, **known)

    def name(self, item: Any) -> str:
        """Return the title of an item id."""
        return self.titles[self._position(item)]

    def _item(self, item: Any) -> Any:
        return self.problem.split.item_ids[self._position(item) : self._position(item) + 1].tolist()[0]

    def _position(self, item: Any) -> int:
        return int(id_positions(as_id_array([item], "item"), self.problem.split.item_ids, "item")[0])


def newcomer_reasons(
    problem: Problem, rule: Rule, row: int, items: NDArray[np.int64], name: Callable[[Any], str]
) -> dict[int, str]:
    """Return the reason of every item of a served list that the base list lacks, in brief.

    Args:
        problem: What is served.
        rule: What makes the lists.
        row: Row number of the user.
        items: The list of the rule, (k,) item numbers.
        name: Returns the words for an item id.

    Returns:
        Item number -> sentence.
    """
    new = [int(it) for it in items if it >= 0 and it not in problem.base_lists[row]]
    if not new:
        return {}
    if rule.goal.function is not None:
        return dict.fromkeys(new, f"Chosen by the rule for {rule.goal.function.name}, a function of whole lists.")
    user = problem.split.user_ids[row : row + 1].tolist()[0]
    found = {it.item: it.in_brief(name) for it in questions.why_newcomers(problem, rule, user)}
    ids = problem.split.item_ids[new].tolist()
    return {item: found[own] for item, own in zip(new, ids, strict=True)}
