"""A search over whole lists, instead of one place after another, for one or several goals."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, ClassVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from recprism.common.checks import AMOUNT, Check
from recprism.common.threads import share_work
from recprism.errors import InputError
from recprism.metrics.operations import discounts
from recprism.rule._batched import covers, search_batched
from recprism.rule.base import Reranker
from recprism.rule.features import Features
from recprism.rule.function_search import search_kernel
from recprism.rule.goal import Goal, GoalData, term_named
from recprism.rule.kernels.optimal import optimal
from recprism.rule.kernels.prices import TIE, fading_of, filling_of, function_in, prices_of, search_terms
from recprism.rule.kernels.stages import optimal_in_stages
from recprism.rule.kernels.worth import ALPHA_DCG, CATEGORY, DISTANCE, OF_FUNCTION, SHOWN
from recprism.rule.pool import Pool
from recprism.rule.terms import Terms

USERS_AT_ONCE = 64
STAGES = 8  # of a rising price for catalogue coverage, so that the user who loses least shows a new item


@dataclass(frozen=True, kw_only=True)
class ListSearch(Reranker):
    """The rule: the list with the largest (1 - t) * accuracy + t * diversity that exchanges of items find.

    t is ``trade_off``. Accuracy is the discounted sum of relevance, divided by that of k items of relevance 1.
    Diversity is the weighted sum of the goals, each as its metric counts it. One t for all users means one price for a
    point of diversity, so the lists of all users together are optimal for what they cost.

    The search starts from the most relevant list, and again from a greedy one. It makes the best exchange of a listed
    item for another candidate until no exchange helps, and keeps the better list. For goals that look at the order
    (alpha_ndcg, alpha_ndcg_relevant, err_ia), items also move within the list.

    alpha_ndcg_relevant and err_ia use no labels here: the relevance of an item is its score, scaled to 0 .. 1 among the
    user's candidates. An item gains this share of each of its categories, and leaves 1 - relevance / 2 to later items.

    Attributes:
        goals: Weights by name, among subtopic_coverage, alpha_ndcg, alpha_ndcg_relevant, err_ia, ilad_subtopics, ilad
            (on ``Features(vectors=...)``) and catalogue_coverage. Aliases such as "sc" are allowed. Only
            "catalogue_coverage" connects users: an item counts in the first list that shows it. Its price rises in
            stages and users are served one after another, so that cheap exchanges come first; there is no greedy start.
        history_weight: Weight, as part of accuracy, of how well the list matches the categories of the user's history
            (``Features(user_categories=...)``). Each further item of a category adds less, as in calibrated
            re-ranking. On sparse data, where scores carry little information, it makes lists more accurate.
        units: Value of one unit of each goal in terms of its metric, by name. Units that are not
            given follow from the data.

    Stability: stable.
    """

    goals: Mapping[str, float] = field(default_factory=lambda: MappingProxyType({"subtopic_coverage": 1.0}))
    history_weight: float = 0.0
    units: Mapping[str, float] = field(default_factory=lambda: MappingProxyType({}))

    rules: ClassVar[Mapping[str, Check]] = {**Reranker.rules, "history_weight": AMOUNT}

    def __post_init__(self) -> None:
        super().__post_init__()
        goal = Goal.parse(self.goals)
        if goal.exposure is not None:
            raise InputError(f"no search of lists reaches {goal.exposure.name}; diversify towards it instead")
        object.__setattr__(self, "goals", MappingProxyType(goal.weights))
        for name, unit in self.units.items():
            AMOUNT.read(f"the unit of goal {name!r}", unit)

    def choose(self, pool: Pool, k: int, features: Features) -> Tensor:
        if (self.trade_off == 0 and self.history_weight == 0) or k == 0:
            return most_relevant(pool, k)
        return search(pool, k, terms_of(self, pool, k, features))


def terms_of(method: ListSearch, pool: Pool, k: int, features: Features) -> Terms:
    """Return what a search counts for the candidates of a pool."""
    goals, t, discount = method.goals, float(method.trade_off), discounts(k).numpy()
    counted = (CATEGORY, ALPHA_DCG, OF_FUNCTION)
    by_category = any(it.price in counted for it in search_terms(goals)) or method.history_weight > 0
    unknown = {name: weight for name, weight in goals.items() if name not in method.units}
    units = {**goal_units(unknown, features, k, pool.n_users, pool.n_items), **method.units}
    return Terms(
        category_rows(features) if by_category else (np.zeros(pool.n_items + 1, np.int64), np.zeros(0, np.int32), 0),
        directions_of(goals, features),
        prices_of(goals, units, t, method.history_weight, discount),
        discount,
        fading_of(goals, discount),
        features.intents(pool.n_users).cpu().numpy() if method.history_weight else np.zeros((pool.n_users, 0)),
        filling_of(k),
        function_in(goals),
        features.earlier,
    )


def goal_units(goals: Iterable[str], features: Features, k: int, n_users: int, n_items: int) -> dict[str, float]:
    """Return the value of one unit of each goal in terms of its metric; see :meth:`GoalTerm.unit`."""
    return {name: float(term_named(name).unit(GoalData(features, k, n_users, n_items))) for name in goals}


def search(pool: Pool, k: int, terms: Terms) -> Tensor:
    """Return positions of the best lists found, (n_users, k), on the device of the pool.

    The compiled search works on the CPU. On a GPU, goals of sets of categories are searched there.
    """
    if pool.device.type != "cpu":
        return search_batched(pool, k, terms) if covers(terms) else search(pool.to("cpu"), k, terms).to(pool.device)
    positions = most_relevant(pool, k)
    shown = torch.bincount(pool.items.gather(1, positions.clamp(min=0))[positions >= 0], minlength=pool.n_items)
    arrays = [tensor.numpy() for tensor in (pool.items, pool.relevance, pool.lengths, positions)]
    kernel = search_kernel(terms.prices, terms.function)

    def improve(step: int, prices: NDArray[np.float64]) -> None:
        more = terms.arrays(shown.numpy(), prices)
        share_work(lambda first, last: kernel(first, last, *arrays, *more, TIE), pool.n_users, step)

    if terms.prices[SHOWN] == 0:
        improve(USERS_AT_ONCE, terms.prices)
        return positions
    if kernel is optimal:
        optimal_in_stages(STAGES, *arrays, *terms.arrays(shown.numpy()), TIE)
        return positions
    for stage in range(1, STAGES + 1):  # on one thread, because each user's list affects the next one's
        prices = terms.prices.copy()
        prices[SHOWN] *= stage / STAGES
        improve(pool.n_users, prices)
    return positions


def most_relevant(pool: Pool, k: int) -> Tensor:
    """Return the positions of the best ranks, (n_users, k)."""
    ranks = torch.arange(k, device=pool.device).expand(pool.n_users, k)
    return torch.where(ranks < pool.lengths[:, None], ranks, -1).contiguous()


def directions_of(goals: Mapping[str, float], features: Features) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
    terms = search_terms(goals)
    by_vectors = any(it.by_vectors for it in terms)
    if not by_vectors and all(it.price != DISTANCE for it in terms):
        return np.zeros((1, 1)), np.zeros(1, np.bool_)
    directions = features.vector_directions if by_vectors else features.category_directions
    return np.ascontiguousarray(directions.unit.cpu().numpy()), directions.known.cpu().numpy()


def category_rows(features: Features) -> tuple[NDArray[Any], NDArray[Any], int]:
    rows = features.categories.rows
    return rows.indptr.cpu().numpy(), rows.indices.cpu().numpy(), rows.n_cols
