"""What is perturbed: from a value per player to ranked lists."""

from __future__ import annotations

from collections.abc import Sequence
from copy import copy
from typing import Any, Literal, Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from recprism.data.sparse_rows import SparseRows
from recprism.errors import InputError
from recprism.models import Factors
from recprism.models.factors import COSINE
from recprism.models.perturbation import Perturbation, back_on_sphere
from recprism.ranking import topk
from recprism.ranking.scores import rank_scores

Side = Literal["item", "user", "both"]
Scaling = Literal["global", "factor"]


class Space(Protocol):
    """What players move, and the lists that result."""

    @property
    def n_players(self) -> int:
        """Number of players."""

    def lists(self, values: Tensor, k: int) -> Tensor:
        """(n_users, k) item numbers, -1 in empty places, under the perturbation ``values`` (n_players,)."""

    def vectors(self, values: Tensor) -> Tensor:
        """(n_items, d) perturbed item vectors, for metrics that take distances between them."""


class FactorSpace:
    """Players on the factors of a dot-product model.

    A player's value is in units of the largest absolute factor: of the whole matrix (scaling "global", the paper's) or
    of its own factor ("factor", so that weak and strong factors move in proportion to their size).

    Args:
        factors: The model.
        exclude: Items that each user has seen, which are left out of the lists.
        side: Which vectors have players: "item", "user" or "both".
        scaling: The unit of the values: "global" or "factor".
        only: Numbers of the factors that have players; None for all. The others do not change.
        device: Where lists are ranked.
    """

    def __init__(
        self,
        factors: Factors,
        exclude: SparseRows | None,
        *,
        side: Side = "item",
        scaling: Scaling = "global",
        only: Sequence[int] | None = None,
        device: torch.device | str = "cpu",
    ) -> None:
        wrong = [factor for factor in only or () if not 0 <= factor < factors.dim]
        if wrong or (only is not None and (not only or len(set(only)) < len(only))):
            raise InputError(f"only={only}: name distinct factors from 0 to {factors.dim - 1}, at least one")
        if side not in ("item", "user", "both"):
            raise InputError(f"side is item, user or both, not {side!r}")
        self.user = torch.from_numpy(factors.user).to(device)
        self.item = torch.from_numpy(factors.item).to(device)
        self.bias = None if factors.item_bias is None else torch.from_numpy(factors.item_bias).to(device)
        self.exclude = exclude
        self.on_sphere = factors.metric == COSINE
        self._checked = False
        self.only = None if only is None else torch.tensor(list(only), device=device)
        self._scales = {
            name: largest(matrix, scaling)
            for name, matrix in (("item", self.item), ("user", self.user))
            if side in (name, "both")
        }

    @property
    def n_players(self) -> int:
        """Number of players, over all sides."""
        return sum(self.n_players_of(name) for name in self._scales)

    def n_players_of(self, side: str) -> int:
        """Number of players of the vectors of "item" or "user"."""
        return self._rows(side) * self.per_vector

    def _rows(self, side: str) -> int:
        """Number of vectors, or of segments that share the players of a vector."""
        return len(getattr(self, side))

    def of_users(self, rows: NDArray[np.int64]) -> FactorSpace:
        """The space for some users, by row number; units of values are still those of all users."""
        some, chosen = copy(self), torch.from_numpy(rows).to(self.user.device)
        some.user = self.user[chosen]
        some.exclude = None if self.exclude is None else self.exclude.take_rows(rows)
        return some

    def perturbation(self, values: Tensor) -> Perturbation:
        """Convert values (n_players,), item side first, to changes in the units of the model."""
        parts = {name: part * self._scales[name] for name, part in self._parts(values).items()}
        if self.on_sphere and "item" in parts:
            parts["item"] = back_on_sphere(self.item, parts["item"])
        return Perturbation(**parts)

    @property
    def per_vector(self) -> int:
        """Number of players per vector."""
        return self.item.shape[1] if self.only is None else len(self.only)

    def of_players(self, values: Tensor) -> Tensor:
        """Flatten values (n, d) of one side to those of its players."""
        return (values if self.only is None else values[:, self.only]).flatten()

    @property
    def sides(self) -> tuple[str, ...]:
        """The sides that have players, in the order of their values."""
        return tuple(self._scales)

    def lists(self, values: Tensor, k: int) -> Tensor:
        """(n_users, k) item numbers, -1 in empty places, under the perturbation ``values`` (n_players,)."""
        return self.rank(*self.moved(values), k)[0]

    def rank(self, user: Tensor, item: Tensor, k: int) -> tuple[Tensor, Tensor]:
        """Items and scores of the lists of these vectors; see ``topk``.

        On a GPU only the vectors of the first call are checked for NaN and infinity, because each check waits for it.
        """
        check = item.device.type == "cpu" or not self._checked
        self._checked = True
        return topk(*self.search_vectors(user, item), k, exclude=self.exclude, check=check)

    def moved(self, values: Tensor) -> tuple[Tensor, Tensor]:
        """User and item vectors under the perturbation; no gradient flows through them."""
        parts = self._parts(values)
        user = _moved(self.user, parts["user"], self._scales["user"]) if "user" in parts else self.user
        item = _moved(self.item, parts["item"], self._scales["item"]) if "item" in parts else self.item
        return user, torch.nn.functional.normalize(item) if self.on_sphere else item

    def search_vectors(self, user: Tensor, item: Tensor) -> tuple[Tensor, Tensor]:
        """User and item vectors with the item bias, if there is one, as one more factor."""
        if self.bias is None:
            return user, item
        return torch.cat([user, torch.ones_like(user[:, :1])], 1), torch.cat([item, self.bias[:, None]], 1)

    def base_scores(self, items: Tensor) -> Tensor:
        """(n_users, n) scores of the base model for ``items`` (n_users, n); -1 scores like item 0."""
        user, item = self.search_vectors(self.user, self.item)
        return torch.bmm(item[items.clamp(min=0)], user.unsqueeze(2)).squeeze(2)

    def vectors(self, values: Tensor) -> Tensor:
        """(n_items, d) item vectors under the perturbation ``values`` (n_players,)."""
        change = self.perturbation(values)
        return self.item if change.item is None else self.item + change.item

    def _parts(self, values: Tensor) -> dict[str, Tensor]:
        """The values of each side that has players, in the shape of its matrix."""
        parts, start = {}, 0
        for name in self._scales:
            end = start + self.n_players_of(name)
            part = values[start:end].view(-1, self.per_vector)
            matrix = getattr(self, name)
            parts[name] = part if self.only is None else torch.zeros_like(matrix).index_copy(1, self.only, part)
            start = end
        return parts


class Scorer(Protocol):
    """Any model whose scores depend on item features; only its scores are used.

    Attributes:
        n_users: Number of users.
        item_features: (n_items, d) float32.
    """

    n_users: int
    item_features: Tensor

    def scores(self, first: int, last: int, item_features: Tensor) -> Tensor:
        """(last - first, n_items) scores of users first .. last - 1 under the given features."""


class ScorerSpace:
    """Players on the item features of any scorer.

    Args:
        scorer: The model.
        exclude: Items that each user has seen, which are left out of the lists.
        scaling: The unit of the values: "global" or "factor".
        block: How many users are scored at a time.
    """

    def __init__(
        self, scorer: Scorer, exclude: SparseRows | None, *, scaling: Scaling = "global", block: int = 256
    ) -> None:
        self.scorer = scorer
        self.exclude = exclude
        self.block = block
        self._scale = largest(scorer.item_features, scaling)

    @property
    def n_players(self) -> int:
        """One per item feature."""
        return self.scorer.item_features.numel()

    def perturbation(self, values: Tensor) -> Perturbation:
        """Convert values (n_players,) to changes in the units of the features."""
        return Perturbation(item=values.view_as(self.scorer.item_features) * self._scale)

    def lists(self, values: Tensor, k: int) -> Tensor:
        """(n_users, k) item numbers, -1 in empty places, under the perturbation ``values`` (n_players,)."""
        features = self.vectors(values)

        def score(first: int, last: int) -> Tensor:
            return self.scorer.scores(first, last, features)

        shape = (self.scorer.n_users, len(features))
        return rank_scores(score, shape, k, exclude=self.exclude, block=self.block, device=features.device)[0]

    def vectors(self, values: Tensor) -> Tensor:
        """(n_items, d) item features under the perturbation ``values`` (n_players,)."""
        return self.scorer.item_features + values.view_as(self.scorer.item_features) * self._scale


def _moved(matrix: Tensor, values: Tensor, scale: Tensor) -> Tensor:
    """matrix + values * scale, for ranking: no gradient flows through it."""
    if matrix.device.type == "cpu":  # numpy uses one thread: waking torch's threads takes longer than the sum
        changed = values.numpy() * scale.numpy()
        changed += matrix.numpy()
        return torch.from_numpy(changed)
    return matrix + values * scale


def largest(matrix: Tensor, scaling: Scaling) -> Tensor:
    """The unit of a player's value: () for all players, or (d,) one per factor; 1 where everything is 0."""
    if scaling not in ("global", "factor"):
        raise InputError(f"scaling is global or factor, not {scaling!r}")
    size: Any = matrix.abs().amax() if scaling == "global" else matrix.abs().amax(0)
    return torch.where(size > 0, size, torch.ones_like(size))
