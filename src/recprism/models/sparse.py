"""Sparse times dense, and the normalised graph of users and items, as weighted sums of rows.

``embedding_bag`` is the product used: it runs on CPU and CUDA, on all cores, adds in a fixed order (same input, same
bits) and needs no sparse tensor. On two cores and MovieLens-1M a product takes 1.8 ms, SciPy's 6 ms.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import embedding_bag

from recprism.data.incidence import Incidence


def weighted_sums(starts: Tensor, rows: Tensor, weights: Tensor, dense: Tensor) -> Tensor:
    """A sparse matrix in compressed rows times a dense one.

    starts: (n + 1,) int64; output row r sums the entries starts[r] .. starts[r + 1]
    rows: (n_entries,) int64, which row of ``dense`` an entry takes
    weights: (n_entries,) float32
    dense: (m, d) float32
    Returns (n, d); a row without entries is zero.
    """
    # where rows are not contiguous embedding_bag takes a path ten times as slow
    dense = dense.contiguous()
    return embedding_bag(rows, dense, starts, mode="sum", per_sample_weights=weights, include_last_offset=True)


def run_starts(rising: Tensor, size: int) -> Tensor:
    """(size + 1,) where each number's run begins in a rising list of numbers below ``size``."""
    return torch.searchsorted(rising, torch.arange(size + 1, device=rising.device))


@dataclass(frozen=True, eq=False)
class HalfGraph:
    """One direction of the graph: the weighted messages that one side receives from the other."""

    starts: Tensor
    neighbours: Tensor
    weights: Tensor

    def receive(self, senders: Tensor) -> Tensor:
        """(n_senders, d) to (n_receivers, d)."""
        return weighted_sums(self.starts, self.neighbours, self.weights, senders)


@dataclass(frozen=True, eq=False)
class Graph:
    """The bipartite graph of training interactions: N = D_u^-1/2 R D_i^-1/2 and its transpose.

    item_degree: (n_items,) float32 users per item
    """

    to_users: HalfGraph
    to_items: HalfGraph
    item_degree: Tensor
    n_users: int
    n_items: int

    @classmethod
    def of(cls, train: Incidence, device: torch.device) -> Graph:
        users = torch.from_numpy(train.row_of_entry).to(device)
        items = torch.from_numpy(train.indices.astype(np.int64)).to(device)
        degrees = train.row_counts[train.row_of_entry] * train.col_counts[train.indices]
        weights = torch.from_numpy((1 / np.sqrt(degrees)).astype(np.float32)).to(device)
        by_item, order = torch.sort(items, stable=True)
        return cls(
            HalfGraph(torch.from_numpy(train.indptr).to(device), items, weights),
            HalfGraph(run_starts(by_item, train.n_cols), users[order], weights[order]),
            torch.from_numpy(train.col_counts.astype(np.float32)).to(device),
            train.n_rows,
            train.n_cols,
        )

    def smooth(self, vectors: Tensor, layers: int) -> Tensor:
        """Mean of ``vectors`` and of their first ``layers`` propagations; (n_users + n_items, d), users above items.

        The map is linear and symmetric, so it is its own gradient.
        """
        total = vectors.clone()
        user, item = vectors[: self.n_users], vectors[self.n_users :]
        for _ in range(layers):
            user, item = self.to_users.receive(item), self.to_items.receive(user)
            total[: self.n_users] += user
            total[self.n_users :] += item
        return total.div_(layers + 1)
