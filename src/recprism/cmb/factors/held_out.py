"""Searches repeated on some of the users, so that the others can judge."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from recprism.cmb import CMB
from recprism.cmb.factors.change import Change, with_bias_column
from recprism.common.checks import random_generator
from recprism.data.categories import Categories
from recprism.data.split import Split
from recprism.errors import InputError
from recprism.metrics.registry import parse
from recprism.models import Factors

Rows = NDArray[np.int64]

# Promotion is a rival and must be a strong one: which of the two goes further on ML-1M depends on the seed.
PROMOTERS: dict[str, dict[str, Any]] = {
    "one number per item, short reach": {"max_step": 0.05, "relevance": 0.7},
    "one number per item, long reach": {"max_step": 0.5, "relevance": 0.5},
}


def divided_users(n_users: int, held_out: float, seed: int = 0) -> tuple[Rows, Rows]:
    """Return the rising row numbers of the users to learn on, and of those to judge on."""
    if not 0 < held_out < 1:
        raise InputError(f"{held_out} of the users cannot be held out; name a share between 0 and 1, such as 0.2")
    order = random_generator(seed, n_users).permutation(n_users)
    n_judged = min(max(round(held_out * n_users), 1), n_users - 1)
    return np.sort(order[n_judged:]), np.sort(order[:n_judged])


def refitted(found: CMB, split: Split, categories: Categories | None, rows: Rows, *, seed: int | None = None) -> Change:
    """Repeat the players' search on some of the users; its change of the item vectors serves all users."""
    if found.side != "item":
        raise InputError(f"side={found.side}: users that were never seen have no change of their own; use side=item")
    settings = {**found.settings(), **({} if seed is None else {"seed": seed})}
    again = CMB(**settings).fit(found.base_.of_users(rows), split.of_users(rows), categories)
    return Change.of(found.base_, again.delta_)


def learned_promotion(
    base: Factors, split: Split, categories: Categories | None, rows: Rows, objective: str
) -> dict[str, NDArray[Any]]:
    """Learn one number per item on some of the users.

    Returns:
        Name -> ``(n_items,)`` numbers; nothing if the objective needs labels and the split has none to learn from.
    """
    metric, cut = parse(objective)
    start = with_bias_column(base).of_users(rows)
    settings: dict[str, Any] = {} if cut is None else {"k": cut}
    needs_labels = not {"relevant", "user_categories"}.isdisjoint(metric.needs)
    if not len(split.validation):
        if needs_labels:
            return {}
        settings["reward_on"] = "test"  # it only says what is left out of the lists; no label is read
    searches = {  # by players that move the last factor only
        name: CMB(diversity=metric.name, only=(start.dim - 1,), scaling="global", **settings, **promoter)
        for name, promoter in PROMOTERS.items()
    }
    some = split.of_users(rows)
    return {name: it.fit(start, some, categories).factors_.item[:, -1] for name, it in searches.items()}
