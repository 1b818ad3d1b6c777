"""Greedy lists for the objective of optimal lists: the same value, without the search over whole lists."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from torch import Tensor

from recprism.common.threads import share_work
from recprism.errors import InputError
from recprism.rule.features import Features
from recprism.rule.goal import Goal
from recprism.rule.kernels.optimal import fill_greedily
from recprism.rule.kernels.prices import TIE
from recprism.rule.list_search import USERS_AT_ONCE, ListSearch, most_relevant, terms_of
from recprism.rule.pool import Pool


@dataclass(frozen=True, kw_only=True)
class Greedy(ListSearch):
    """Each place goes to the candidate that adds most to the objective of :class:`ListSearch`; nothing is exchanged.

    Goals, units, prices and the weight of the history are those of :class:`ListSearch`, so what that class gains over
    this one is what its search finds. If order has no value, the chosen items are sorted by score. For
    "catalogue_coverage", users are served one after another, and an item counts in the first list that shows it.
    """

    def __post_init__(self) -> None:
        super().__post_init__()
        if (function := Goal.parse(self.goals).function) is not None:
            raise InputError(f"greedy fills places by what an item adds, and {function.name} values whole lists")

    def choose(self, pool: Pool, k: int, features: Features) -> Tensor:
        positions = most_relevant(pool, k)
        if (self.trade_off == 0 and self.history_weight == 0) or k == 0:
            return positions
        here, places = pool.to("cpu"), positions.cpu()
        terms = terms_of(self, pool, k, features).arrays(np.zeros(pool.n_items, np.int64))
        arrays = [tensor.numpy() for tensor in (here.items, here.relevance, here.lengths, places)]
        tied = Goal.parse(self.goals).ties_users
        step = pool.n_users if tied else USERS_AT_ONCE  # one thread if users affect each other
        share_work(lambda first, last: fill_greedily(first, last, *arrays, *terms, TIE), pool.n_users, step)
        return places.to(pool.device)
