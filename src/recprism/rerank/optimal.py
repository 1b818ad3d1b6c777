"""Optimal lists: not one place after another but the whole list at once, for one or several goals."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from recprism.errors import InputError
from recprism.metrics._ideal import catalogue_alpha_dcg
from recprism.metrics._operations import discounts
from recprism.metrics.registry import canonical
from recprism.ranking._threads import share_work
from recprism.rerank._choices import TIE
from recprism.rerank._pool import Pool
from recprism.rerank.base import Reranker, require_between
from recprism.rerank.features import Features

GOALS = ("subtopic_coverage", "alpha_ndcg", "ilad_subtopics", "ilad", "catalogue_coverage")
WITHOUT_SUBTOPICS = ("ilad", "catalogue_coverage")
"""Goals that need no subtopics."""
TIED_TOGETHER = "catalogue_coverage"  # the goal under which what one user is shown hangs on what others are
ALPHA = 0.5
USERS_AT_ONCE = 64
STAGES = 8  # of a rising price for being shown, so that whoever pays least takes an item that nobody shows


@dataclass(frozen=True, kw_only=True)
class Optimal(Reranker):
    """The list with the largest (1 - t) * accuracy + t * diversity, as near as exchanges of one item get.

    Accuracy is the discounted sum of relevance over that of k items of relevance 1; diversity is the weighted sum of
    the goals, each as its metric counts it.
    t is ``trade_off``. One t for all users is one price for a point of diversity: nobody pays more for it than anybody
    else, which is what makes the lists of all users together optimal for what they cost. From the most relevant list,
    and again from a greedy one, the best exchange of an item in it for one outside is made until none helps; for
    "alpha_ndcg" items move within the list, too. The better list is kept.

    goals: name -> weight, among subtopic_coverage, alpha_ndcg, ilad_subtopics, ilad (on ``Features(vectors=...)``),
        catalogue_coverage. Aliases such as "sc" are written out. "catalogue_coverage" is the only one that ties users
        together: an item earns it in the first list that shows it. Its price rises in steps, and lists are served one
        after another, so that cheap places go first; there is no second start with it.
    history_weight: what it counts, on the side of accuracy, that the list fills the subtopics of the user's own history
        (``Features(user_subtopics=...)``) as that history does; each item more of a subtopic fills it by less. The
        measure is of the kind of calibrated re-ranking's. Where scores say little, as on sparse data, it makes lists
        more accurate, and leaves more of the budget for diversity.
    """

    goals: Mapping[str, float] = field(default_factory=lambda: MappingProxyType({"subtopic_coverage": 1.0}))
    history_weight: float = 0.0

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "goals", MappingProxyType({canonical(name): it for name, it in self.goals.items()}))
        unknown = [name for name in self.goals if name not in GOALS]
        if unknown or not self.goals:
            raise InputError(f"goals are among {', '.join(GOALS)}, each with its weight; got {dict(self.goals)!r}")
        for name, weight in self.goals.items():
            require_between(f"the weight of goal {name!r}", weight, 0, math.inf)
        require_between("history_weight", self.history_weight, 0, math.inf)
        if {"ilad", "ilad_subtopics"} <= set(self.goals):
            raise InputError("ilad and ilad_subtopics are two ways to measure one goal; choose one of them")

    def choose(self, pool: Pool, k: int, features: Features) -> Tensor:
        if (self.trade_off == 0 and self.history_weight == 0) or k == 0:
            return _most_relevant(pool, k)
        return _search(pool.to("cpu"), k, _Terms.of(self, pool, k, features)).to(pool.device)


@dataclass(frozen=True, eq=False)
class _Terms:
    """What the goals look at, and what a unit of each is worth.

    subtopics: of the items, in compressed rows, and how many there are
    directions: (n_items, d) float64, and (n_items,) bool, who has one
    prices: (6,) of accuracy, one more subtopic, alpha-DCG, distance of one pair, one more item shown, and a user's
        subtopics filled
    worth: (k + 1,) of a subtopic by how often it came before
    intents: (n_users, n_subtopics) float64, a user's weights of subtopics; filling: (k + 2,) how much n items fill one
    """

    subtopics: tuple[NDArray[Any], NDArray[Any], int]
    directions: tuple[NDArray[np.float64], NDArray[np.bool_]]
    prices: NDArray[np.float64]
    discount: NDArray[np.float64]
    worth: NDArray[np.float64]
    intents: NDArray[np.float64]
    filling: NDArray[np.float64]

    @classmethod
    def of(cls, method: Optimal, pool: Pool, k: int, features: Features) -> _Terms:
        goals, t, discount = method.goals, float(method.trade_off), discounts(k)
        by_subtopic = bool({"subtopic_coverage", "alpha_ndcg"} & set(goals)) or method.history_weight > 0
        units = {  # of each goal as its metric counts it
            "subtopic_coverage": 1 / max(features.topics.n_present, 1) if "subtopic_coverage" in goals else 0.0,
            "alpha_ndcg": _per_alpha_dcg(features, k) if "alpha_ndcg" in goals else 0.0,
            "catalogue_coverage": pool.n_users / max(pool.n_items, 1),
        }
        pair = 2 / max(k * (k - 1), 1)
        weights = [
            goals.get(name, 0.0) * units[name] for name in ("subtopic_coverage", "alpha_ndcg", "catalogue_coverage")
        ]
        distance = (goals.get("ilad", 0.0) + goals.get("ilad_subtopics", 0.0)) * pair
        prices = [(1 - t) / float(discount.sum()), t * weights[0], t * weights[1], t * distance, t * weights[2]]
        prices += [(1 - t) * method.history_weight]
        return cls(
            _subtopics(features) if by_subtopic else (np.zeros(pool.n_items + 1, np.int64), np.zeros(0, np.int32), 0),
            _directions(goals, features),
            np.array(prices),
            discount.numpy(),
            (1 - ALPHA) ** np.arange(k + 1.0),
            features.intents(pool.n_users).cpu().numpy() if method.history_weight else np.zeros((pool.n_users, 0)),
            np.log1p(np.arange(k + 2.0)) / math.log1p(k),
        )


def _search(pool: Pool, k: int, terms: _Terms) -> Tensor:
    """(n_users, k) positions; the pool must be on the processor."""
    from recprism.rerank._kernels.optimal import optimal

    positions = _most_relevant(pool, k)
    shown = torch.bincount(pool.items.gather(1, positions.clamp(min=0))[positions >= 0], minlength=pool.n_items)
    arrays = [tensor.numpy() for tensor in (pool.items, pool.relevance, pool.lengths, positions)]

    def improve(step: int, prices: NDArray[np.float64]) -> None:
        more = (*terms.subtopics, *terms.directions, shown.numpy(), prices, terms.discount, terms.worth)
        wants = (terms.intents, terms.filling)
        share_work(lambda first, last: optimal(first, last, *arrays, *more, *wants, TIE), pool.n_users, step)

    if terms.prices[4] == 0:
        improve(USERS_AT_ONCE, terms.prices)
        return positions
    for stage in range(1, STAGES + 1):  # one thread: what one user shows is what the next one knows of
        improve(pool.n_users, terms.prices * np.array([1, 1, 1, 1, stage / STAGES, 1]))
    return positions


def _most_relevant(pool: Pool, k: int) -> Tensor:
    ranks = torch.arange(k, device=pool.device).expand(pool.n_users, k)
    return torch.where(ranks < pool.lengths[:, None], ranks, -1).contiguous()


def _directions(goals: Mapping[str, float], features: Features) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
    if not {"ilad", "ilad_subtopics"} & set(goals):
        return np.zeros((1, 1)), np.zeros(1, np.bool_)
    directions = features.subtopic_directions if "ilad_subtopics" in goals else features.vector_directions
    return np.ascontiguousarray(directions.unit.cpu().numpy()), directions.known.cpu().numpy()


def _per_alpha_dcg(features: Features, k: int) -> float:
    """alpha-nDCG per unit of alpha-DCG: over the greedy ideal of the catalogue."""
    ideal = float(catalogue_alpha_dcg(features.topics, ALPHA, k)[0, k - 1])
    return 1 / ideal if ideal > 0 else 0.0


def _subtopics(features: Features) -> tuple[NDArray[Any], NDArray[Any], int]:
    rows = features.topics.rows
    return rows.indptr.cpu().numpy(), rows.indices.cpu().numpy(), rows.n_cols
