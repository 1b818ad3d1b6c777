"""The base class of re-rankers, and checks of their settings."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, overload

import numpy as np
from numpy.typing import ArrayLike, NDArray
from torch import Tensor

from recprism.common.checks import COUNT, WEIGHT, Check, Checked, OneOf, Whole
from recprism.rule.features import Directions, Features
from recprism.rule.pool import Pool


@dataclass(frozen=True, kw_only=True)
class Reranker(Checked, ABC):
    """Chooses k of each user's candidates; a subclass implements ``choose``.

    Attributes:
        trade_off: From 0, relevance alone (the k best scores), to 1, diversity alone. Each re-ranker defines the
            values between.
        sort_back: Sort the chosen items by score, so that the re-ranker affects only which items are chosen.

    Stability: stable.
    """

    trade_off: float = 0.5
    sort_back: bool = False

    rules: ClassVar[Mapping[str, Check]] = {"trade_off": WEIGHT, "sort_back": OneOf((True, False))}

    @overload
    def __call__(
        self, candidates: Tensor, scores: ArrayLike | Tensor, k: int, *, features: Features | None = None
    ) -> Tensor: ...

    @overload
    def __call__(
        self, candidates: ArrayLike, scores: ArrayLike | Tensor, k: int, *, features: Features | None = None
    ) -> NDArray[np.int64]: ...

    def __call__(
        self, candidates: ArrayLike | Tensor, scores: ArrayLike | Tensor, k: int, *, features: Features | None = None
    ) -> Any:
        """Choose k items for each user.

        Args:
            candidates: Item numbers, (n_users, n_candidates); -1 in empty places. They are ranked by score first.
            scores: Scores of the base model, (n_users, n_candidates); -inf in empty places. The scale does not matter:
                each user's scores are scaled to 0 .. 1 (min-max over the candidates).
            k: Length of the lists.
            features: Data on items and users that the re-ranker needs. Candidates are ranked on their device. The
                choice is made on the CPU; :class:`ListSearch` searches on a GPU for some goals.

        Returns:
            The chosen items, (n_users, k) int64, in the order of choice; -1 where a user has no candidates left. The
            result is a tensor on the device of ``candidates`` if these are a tensor, else a numpy array.

        Raises:
            InputError: The candidates are invalid, or the features lack what the re-ranker needs.
        """
        k = _as_length(k)
        features = Features() if features is None else features
        pool = Pool.of(candidates, scores, features.device, features.n_items).at_least(k)
        chosen = self._chosen_items(pool, k, features)
        return chosen.to(candidates.device) if isinstance(candidates, Tensor) else chosen.cpu().numpy()

    @abstractmethod
    def choose(self, pool: Pool, k: int, features: Features) -> Tensor:
        """Choose positions in the pool.

        Args:
            pool: Ranked candidates.
            k: Length of the lists, from 1 to ``pool.depth``.
            features: Data on items and users.

        Returns:
            Positions in the order of choice, (n_users, k) int64; -1 where a user has no candidates left.
        """

    def _chosen_items(self, pool: Pool, k: int, features: Features) -> Tensor:
        if pool.n_users == 0:
            return pool.items[:, :k]
        return pool.take(self.choose(pool, k, features), by_rank=self.sort_back)


@dataclass(frozen=True, kw_only=True)
class SimilarityReranker(Reranker):
    """A re-ranker that uses the cosine between items.

    Attributes:
        similarity: "vectors" or "categories", between which the cosine is computed.
    """

    similarity: str = "vectors"

    rules: ClassVar[Mapping[str, Check]] = {**Reranker.rules, "similarity": OneOf(("vectors", "categories"))}

    def directions(self, features: Features) -> Directions:
        """Return the unit vectors of the items."""
        return features.vector_directions if self.similarity == "vectors" else features.category_directions


@dataclass(frozen=True, kw_only=True)
class WindowedReranker(SimilarityReranker):
    """A re-ranker that compares an item with those just before it.

    Attributes:
        window: How many consecutive items are compared, including the new one; None for the whole list.
    """

    window: int | None = 5

    rules: ClassVar[Mapping[str, Check]] = {**SimilarityReranker.rules, "window": Whole(1, none="for the whole list")}

    def earlier(self, k: int) -> int:
        """Return how many of the latest items a candidate is compared with, in lists of length k."""
        return (k if self.window is None else min(k, self.window)) - 1


def _as_length(k: int) -> int:
    return int(COUNT.read("k", k) or 0)
