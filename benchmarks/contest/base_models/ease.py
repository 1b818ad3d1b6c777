"""EASE: a linear model of items on items with a zero diagonal, in closed form (Steck, 2019)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import torch
from torch import Tensor

from recprism.budget.problem import CANDIDATES
from recprism.common.checks import POSITIVE, Check
from recprism.common.memory import require_room
from recprism.data.sparse_rows import SparseRows
from recprism.data.split import Split
from recprism.errors import InputError
from recprism.models.adapters.scores import ScoredCandidates
from recprism.models.settings import NamedSettings, choose_device

BLOCK = 2048  # users whose scores are computed at once


@dataclass(frozen=True, kw_only=True)
class EASE(NamedSettings):
    """Least squares of the training matrix X on itself: scores are X B, and B has a zero diagonal.

    Attributes:
        regularization: L2 penalty of B.
    """

    regularization: float = 500.0

    name: ClassVar[str] = "ease"
    presets: ClassVar[Mapping[str, Mapping[str, Any]]] = {"default": {}}
    rules: ClassVar[Mapping[str, Check]] = {"regularization": POSITIVE}

    def fit(self, split: Split, *, seed: int = 0, device: str | torch.device = "auto") -> ScoredCandidates:  # noqa: ARG002 - nothing is random
        """Train on ``split.train`` and score every user's items outside of it.

        A user without training items gets the scores of an average user.

        Args:
            split: Training interactions. The sizes of the validation part decide how many candidates are kept.
            seed: Not used: the solution is exact and unique.
            device: "auto" (CUDA if available), "cpu" or "cuda".

        Returns:
            The best candidates of each user. If validation items are excluded too, as for the test part, at least 500
            are left, or all unseen items of a smaller catalogue.

        Raises:
            InputError: The training part has no interactions.
            TooLargeError: The matrix of items by items does not fit into memory.
        """
        if not len(split.train):
            raise InputError("the training part has no interactions; hold out fewer, or give more data")
        place = choose_device(device)
        weights = self.weights(split.train, device=place).float()
        depth = min(CANDIDATES + int(split.validation.row_counts.max(initial=0)), split.n_items)
        items = np.full((split.n_users, depth), -1, np.int64)
        scores = np.full((split.n_users, depth), -np.inf, np.float32)
        average = torch.from_numpy(split.train.col_counts / (split.train.row_counts > 0).sum()).float().to(place)
        for rows, history in _dense_blocks(split.train, place):
            known = history > 0
            history[~known.any(1)] = average
            best = (history @ weights).masked_fill_(known, -torch.inf).topk(depth)
            scores[rows] = best.values.cpu().numpy()
            items[rows] = np.where(np.isfinite(scores[rows]), best.indices.cpu().numpy(), -1)
        return ScoredCandidates(items, scores, split.user_ids, split.item_ids)

    def weights(self, train: SparseRows, *, device: str | torch.device = "cpu") -> Tensor:
        """Return B, (n_items, n_items) float64: with P = (X'X + regularization I)^-1, B_ij = -P_ij / P_jj off diagonal.

        Raises:
            TooLargeError: The matrix does not fit into memory.
        """
        place, n_items = torch.device(device), train.n_cols
        require_room(
            3 * 8 * n_items * n_items,
            f"a matrix of {n_items:,} x {n_items:,} items, three times",
            lambda free: f"at most {int((free / 24) ** 0.5):,} items fit; raise min_item",
            device=str(place),
        )
        gram = torch.zeros((n_items, n_items), dtype=torch.float64, device=place)
        for _, history in _dense_blocks(train, place):
            gram += history.T @ history  # the counts of a block are exact in float32
        gram.diagonal().add_(self.regularization)
        inverse = torch.cholesky_inverse(torch.linalg.cholesky(gram))
        inverse /= -inverse.diagonal().clone()
        inverse.fill_diagonal_(0.0)
        return inverse


def _dense_blocks(matrix: SparseRows, device: torch.device) -> Iterator[tuple[slice, Tensor]]:
    """Yield row numbers and ``(n, n_items)`` float32 blocks, 1 where the user has the item."""
    for first in range(0, matrix.n_rows, BLOCK):
        rows = slice(first, min(first + BLOCK, matrix.n_rows))
        block = matrix.take_rows(np.arange(rows.start, rows.stop))
        dense = torch.zeros(block.shape, device=device)
        entries = torch.from_numpy(block.row_of_entry * block.n_cols + block.indices).to(device)
        dense.view(-1)[entries] = 1.0
        yield rows, dense
