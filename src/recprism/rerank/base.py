"""What a re-ranker is: settings that are called with candidates, and one step to fill in."""

from __future__ import annotations

import math
import operator
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, overload

import numpy as np
from numpy.typing import ArrayLike, NDArray
from torch import Tensor

from recprism.errors import InputError
from recprism.rerank._pool import Pool
from recprism.rerank.features import Directions, Features


@dataclass(frozen=True, kw_only=True)
class Reranker(ABC):
    """Chooses k of each user's candidates; a subclass says how in ``choose``.

    trade_off: 0 is pure relevance (the k best scores as they are), 1 pure diversity; each method says what lies between
    sort_back: put the chosen k back into the order of their scores, so that only the choice is the method's
    """

    trade_off: float = 0.5
    sort_back: bool = False

    def __post_init__(self) -> None:
        if not _is_number(self.trade_off) or not 0 <= self.trade_off <= 1:
            raise InputError(f"trade_off must be a number from 0 (relevance) to 1 (diversity), not {self.trade_off!r}")

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
        """The chosen items, (n_users, k) int64, in the order they were chosen; -1 where a user has no candidates left.

        candidates: (n_users, n_candidates) item numbers, -1 in empty places; they are ranked by score first
        scores: (n_users, n_candidates), the base model's, -inf in empty places; any scale will do, as each user's are
            brought to 0 .. 1 (min-max over the candidates)
        features: what the method needs to know of items and users; the work is done on their device

        The answer is a tensor on the candidates' device if they are a tensor, else a numpy array.
        """
        k = _as_length(k)
        features = Features() if features is None else features
        pool = Pool.of(candidates, scores, features.device, features.n_items).at_least(k)
        chosen = self._chosen_items(pool, k, features)
        return chosen.to(candidates.device) if isinstance(candidates, Tensor) else chosen.cpu().numpy()

    @abstractmethod
    def choose(self, pool: Pool, k: int, features: Features) -> Tensor:
        """(n_users, k) int64 positions in the pool, in the order chosen; -1 past the end of a user's candidates.

        1 <= k <= pool.depth
        """

    def _chosen_items(self, pool: Pool, k: int, features: Features) -> Tensor:
        if pool.n_users == 0:
            return pool.items[:, :k]
        return pool.take(self.choose(pool, k, features), by_rank=self.sort_back)


@dataclass(frozen=True, kw_only=True)
class SimilarityReranker(Reranker):
    """similarity: "vectors" or "subtopics", what the cosine between two items is taken of."""

    similarity: str = "vectors"

    def __post_init__(self) -> None:
        super().__post_init__()
        require_one_of("similarity", self.similarity, ("vectors", "subtopics"))

    def directions(self, features: Features) -> Directions:
        return features.vector_directions if self.similarity == "vectors" else features.subtopic_directions


@dataclass(frozen=True, kw_only=True)
class WindowedReranker(SimilarityReranker):
    """window: how many items in a row are compared, the newest included; None for all of the list."""

    window: int | None = 5

    def __post_init__(self) -> None:
        super().__post_init__()
        require_whole("window", self.window, "for the whole list", least=1)

    def earlier(self, k: int) -> int:
        """How many of the items chosen last a candidate is compared with, in lists of length k."""
        return (k if self.window is None else min(k, self.window)) - 1


def require_whole(setting: str, value: int | None, none_means: str, *, least: int = 0) -> None:
    """A whole number from ``least`` up, or None."""
    if value is not None and (not isinstance(value, int) or isinstance(value, bool) or value < least):
        raise InputError(f"{setting} must be a whole number from {least} up, or None {none_means}, not {value!r}")


def require_between(setting: str, value: float, low: float, high: float, *, ends: bool = True) -> None:
    """A number from ``low`` to ``high``; the two themselves are allowed only with ``ends``."""
    if not _is_number(value) or not (low <= value <= high if ends else low < value < high):
        where = f"from {low} to {high}" if ends else f"above {low} and below {high}"
        raise InputError(f"{setting} must be a number {where}, not {value!r}")


def require_one_of(setting: str, value: str, allowed: tuple[str, ...]) -> None:
    if value not in allowed:
        raise InputError(f"{setting} must be one of {', '.join(map(repr, allowed))}, not {value!r}")


def _as_length(k: int) -> int:
    try:
        length = operator.index(k)
    except TypeError:
        length = 0
    if length < 1:
        raise InputError(f"k must be a whole number above 0, the length of the lists, not {k!r}")
    return length


def _is_number(value: object) -> bool:
    return isinstance(value, int | float | np.integer | np.floating) and math.isfinite(value)
