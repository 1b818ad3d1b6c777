"""The rule of a result: relevance plus one price for what a list does not have yet, in plain values."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from recprism.common.checks import Whole
from recprism.common.display import Displayed
from recprism.errors import InputError
from recprism.metrics.operations import discounts
from recprism.rule.goal import Goal
from recprism.rule.list_search import ListSearch


@dataclass(frozen=True, kw_only=True, repr=False)
class Rule(Displayed):
    """What makes the lists: run it again on the same scores, and the same lists come back.

    A new user, an item that is sold out, the second page or a new item is another run of the same rule.

    Attributes:
        goals: Weights by name, as in :class:`ListSearch`.
        trade_off: From 0, relevance alone, to 1, diversity alone.
        history_weight: Weight of the categories of the user's history.
        history_window: How many of the user's latest interactions count as history; None counts all of them.
        units: Value of one unit of each goal (one more category, say) in terms of its metric. They are kept, so that
            prices stay the same if the catalogue or the set of users changes.
        k: Length of a page.
        candidates: How many of a user's best items the rule chooses from.
        limits: NDCG with a cut -> the largest loss that a list may allow; a list that could lose more, whatever the
            user's labels are, is the base list.
        boosts: What is added to the score of each item for every user, (n_items,), to reach a goal of exposure.
    """

    goals: Mapping[str, float]
    trade_off: float
    history_weight: float = 0.0
    history_window: int | None = None
    units: Mapping[str, float] = field(default_factory=lambda: MappingProxyType({}))
    k: int = 10
    candidates: int = 100
    limits: Mapping[str, float] = field(default_factory=lambda: MappingProxyType({}))
    boosts: NDArray[np.float64] | None = field(default=None, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "goals", MappingProxyType(Goal.parse(self.goals).weights))
        self.reranker()  # refuses wrong values
        for name in ("units", "limits"):
            object.__setattr__(self, name, MappingProxyType(dict(getattr(self, name))))
        for name in ("k", "candidates"):
            Whole(1).read(name, getattr(self, name))
        Whole(1, none="for all interactions").read("history_window", self.history_window)

    def reranker(self) -> ListSearch:
        """Return the search for the best list. Exposure alone needs none: the largest boosted scores are chosen."""
        goals = self.goal.searched
        if not goals:
            return ListSearch(trade_off=0.0)
        return ListSearch(trade_off=self.trade_off, goals=goals, history_weight=self.history_weight, units=self.units)

    @property
    def goal(self) -> Goal:
        """What the lists should have more of."""
        return Goal.parse(self.goals)

    @property
    def for_exposure_alone(self) -> bool:
        """Whether boosts choose the items of a list; their own scores put them in order."""
        return not self.goal.searched

    def by_relevance(self) -> Rule:
        """Return the rule that makes the base lists."""
        return replace(self, trade_off=0.0, history_weight=0.0, limits={}, boosts=None)

    def at(self, trade_off: float) -> Rule:
        """Return the rule at another trade-off; its limits are those of one trade-off."""
        return self if trade_off == self.trade_off else replace(self, trade_off=trade_off, limits={})

    @property
    def prices(self) -> dict[str, float]:
        """What one unit of each goal is worth, as a share of the relevance of the best candidate in the first place."""
        accuracy = (1 - self.trade_off) / float(discounts(self.k).sum())
        if accuracy == 0:
            return dict.fromkeys(self.units, float("inf"))
        return {name: self.trade_off * self.goals[name] * it / accuracy for name, it in self.units.items()}

    def to_dict(self) -> dict[str, Any]:
        """Return the settings in plain values."""
        return {
            "goals": dict(self.goals),
            "trade_off": self.trade_off,
            "history_weight": self.history_weight,
            "history_window": self.history_window,
            "units": dict(self.units),
            "k": self.k,
            "candidates": self.candidates,
            "limits": dict(self.limits),
        }

    @classmethod
    def from_dict(cls, facts: Mapping[str, Any]) -> Rule:
        """Read what :meth:`to_dict` returned.

        Raises:
            InputError: If a setting is missing, unknown or out of range.
        """
        try:
            return cls(**facts)
        except TypeError as wrong:
            raise InputError(f"not a rule written by recprism ({wrong})") from None
