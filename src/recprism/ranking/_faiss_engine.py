"""Approximate lists from a FAISS index. The engine "auto" never chooses it.

Items are divided into cells, and for each user only the best cells are searched. Items of other cells are missed. Seen
items are left out, and a list that would be short is ranked exactly.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from recprism.data.incidence import Incidence
from recprism.errors import InputError
from recprism.ranking._cpu_engine import rank as rank_exactly
from recprism.ranking._torch_engine import decode, keys_of

MOST_FETCHED = 2048  # items fetched for one user; users who need more are ranked exactly
FETCHED_AT_A_TIME = 2**22
TRAINED_ON_PER_CELL = 64
SEED = 1234

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Probing:
    """How many cells there are and how many are searched; more probes find more items and take longer.

    Attributes:
        cells: Number of cells; None for four times the square root of the number of items.
        probes: Number of cells searched for a user; None for an eighth of them.
    """

    cells: int | None = None
    probes: int | None = None

    def __post_init__(self) -> None:
        for name in ("cells", "probes"):
            value = getattr(self, name)
            if value is not None and value < 1:
                raise InputError(f"{name} is {value}; pass a whole number of at least 1, or None")


class ItemIndex:
    """An inverted file over item vectors, for any number of searches.

    ``topk(..., engine="faiss")`` builds one per call.

    Args:
        item: ``(n_items, d)`` float32, on the CPU.
        probing: Number of cells and probes.
    """

    def __init__(self, item: NDArray[np.float32] | Tensor, probing: Probing | None = None) -> None:
        probing = probing or Probing()
        self._item = torch.as_tensor(item, dtype=torch.float32).contiguous()
        n_items = len(self._item)
        self.cells = min(probing.cells or max(1, round(4 * n_items**0.5)), n_items)
        self.probes = min(probing.probes or -(-self.cells // 8), self.cells)
        self._index = _filled(self._item.numpy(), self.cells, self.probes)

    def rank(
        self, user: NDArray[np.float32] | Tensor, k: int, *, exclude: Incidence | None = None
    ) -> tuple[Tensor, Tensor]:
        """Return items ``(n_users, k)`` int64 and scores ``(n_users, k)`` float32, as ``topk`` does."""
        users = torch.as_tensor(user, dtype=torch.float32).contiguous()
        n_items = len(self._item)
        seen = Incidence.empty((len(users), n_items)) if exclude is None else exclude
        items = torch.full((len(users), k), -1, dtype=torch.int64)
        scores = torch.full((len(users), k), -torch.inf)
        wanted = np.minimum(k + seen.row_counts, n_items)
        for rows, depth in _of_like_depth(wanted):
            items[rows], scores[rows] = self._fetched(users[rows], k, depth, seen.take_rows(rows))
        there = np.minimum(k, n_items - seen.row_counts)  # the largest possible length of a list
        short = np.flatnonzero((items >= 0).sum(1).numpy() < there)
        if len(short):
            log.debug("%d of %d lists were short and are ranked exactly", len(short), len(users))
            width = min(k, n_items)
            exact = rank_exactly(users[short], self._item, width, seen.take_rows(short), None)
            items[short, :width], scores[short, :width] = exact
        return items, scores

    def _fetched(self, user: Tensor, k: int, depth: int, seen: Incidence) -> tuple[Tensor, Tensor]:
        """Return the best k of ``depth`` items of the index, without those seen."""
        found_scores, found = self._index.search(user.numpy(), max(depth, k))
        pairs = np.arange(len(found))[:, None] * seen.n_cols + found
        known = np.append(seen.keys, -1)  # one more, so that a search beyond the last key finds an entry
        found_scores[(found < 0) | (known[np.searchsorted(seen.keys, pairs)] == pairs)] = -np.inf
        keys = keys_of(torch.from_numpy(found_scores), torch.from_numpy(np.maximum(found, 0)))
        return decode(keys.topk(k, dim=1).values)


def rank(user: Tensor, item: Tensor, k: int, exclude: Incidence | None, block: int | None) -> tuple[Tensor, Tensor]:
    """Rank as the exact engines do, with an index built for this call; ``block`` is not used."""
    del block
    return ItemIndex(item).rank(user, k, exclude=exclude)


def _of_like_depth(wanted: NDArray[np.int64]) -> list[tuple[NDArray[np.int64], int]]:
    """Group users who need about the same number of items; users who need too many are left out."""
    doubling = np.ceil(np.log2(np.maximum(wanted, 1))).astype(np.int64)
    groups = []
    for power in np.unique(doubling[wanted <= MOST_FETCHED]):
        rows = np.flatnonzero((doubling == power) & (wanted <= MOST_FETCHED))
        depth = int(wanted[rows].max())
        step = max(1, FETCHED_AT_A_TIME // depth)
        groups += [(rows[start : start + step], depth) for start in range(0, len(rows), step)]
    return groups


def _filled(item: NDArray[np.float32], cells: int, probes: int) -> Any:
    import faiss

    faiss.omp_set_num_threads(torch.get_num_threads())
    index = faiss.IndexIVFFlat(faiss.IndexFlatIP(item.shape[1]), item.shape[1], cells, faiss.METRIC_INNER_PRODUCT)
    index.cp.seed = SEED
    index.cp.min_points_per_centroid = 1  # no warning on stderr if there are few items
    index.cp.max_points_per_centroid = TRAINED_ON_PER_CELL
    index.train(item)
    index.add(item)
    index.nprobe = probes
    return index
