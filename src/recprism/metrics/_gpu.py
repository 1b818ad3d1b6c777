"""Kernels for a GPU: what a search needs in every iteration takes one pass; the rest is plain torch."""

# mypy: allow-untyped-defs, allow-incomplete-defs, allow-untyped-calls

from __future__ import annotations

import torch
import triton.language as tl
from torch import Tensor

from recprism.metrics.operations import CoverageStats, Hits, Kernels, discounts
from recprism.metrics.tables import CategoryMatrix, Rows
from recprism.ranking.triton_engine import power_of_two, whole_parts
from recprism.ranking.triton_kernels import kernel

CELLS = 1024  # in one program
WIDEST = 1024  # places of a list, or categories


class FusedKernels(Kernels):
    """As ``Kernels``, without large temporary arrays for ``growth`` and ``found``."""

    def growth(self, items: Tensor, categories: CategoryMatrix) -> CoverageStats:
        if categories.n_cols > WIDEST:
            return super().growth(items, categories)
        out = torch.empty((3, *items.T.shape), dtype=torch.float64, device=items.device)
        width = power_of_two(max(categories.n_cols, 1))
        rows = max(1, CELLS // width)
        sizes = len(items), items.shape[1], categories.n_items, categories.n_cols
        _growth[(whole_parts(len(items), rows),)](
            items.contiguous(), categories.share_matrix, out, *sizes, ROWS=rows, WIDTH=width
        )
        return CoverageStats(*out.unbind())

    def found(self, items: Tensor, relevant: Rows) -> Hits:
        if items.shape[1] > WIDEST:
            return super().found(items, relevant)
        out = torch.empty((3, *items.T.shape), dtype=torch.float64, device=items.device)
        width = power_of_two(items.shape[1])
        rows = max(1, CELLS // width)
        discount = discounts(items.shape[1], items.device)
        turns = max(relevant.n_cols, 1).bit_length()
        _found[(whole_parts(len(items), rows),)](
            *(items.contiguous(), relevant.indptr, relevant.indices, discount, out, len(items), items.shape[1]),
            ROWS=rows,
            WIDTH=width,
            TURNS=turns,
        )
        return Hits(*out.unbind())


@kernel
def _growth(items, shares, out, n_users, k, n_items, n_categories, ROWS: tl.constexpr, WIDTH: tl.constexpr):
    user, category = (tl.program_id(0) * ROWS + tl.arange(0, ROWS)).to(tl.int64), tl.arange(0, WIDTH)
    amount = tl.zeros([ROWS, WIDTH], tl.float64)
    for place in range(k):
        item = tl.load(items + user * k + place, mask=user < n_users, other=-1)
        item = tl.where(item < 0, n_items, item)
        amount += tl.load(
            shares + item[:, None] * n_categories + category[None, :], mask=category[None, :] < n_categories, other=0.0
        )
        share = amount * (1.0 / tl.maximum(tl.sum(amount, 1), 1e-300))[:, None]
        nats = tl.where(share > 0, -share * tl.log(tl.where(share > 0, share, 1.0)), 0.0)
        at = out + place * n_users + user
        tl.store(at, tl.sum((amount > 0).to(tl.int32), 1).to(tl.float64), mask=user < n_users)
        tl.store(at + k * n_users, tl.sum(tl.minimum(amount, 1.0), 1), mask=user < n_users)
        tl.store(at + 2 * k * n_users, tl.maximum(tl.sum(nats, 1), 0.0), mask=user < n_users)


@kernel
def _found(
    items, starts, relevant, discount, out, n_users, k, ROWS: tl.constexpr, WIDTH: tl.constexpr, TURNS: tl.constexpr
):
    user, place = (tl.program_id(0) * ROWS + tl.arange(0, ROWS)).to(tl.int64), tl.arange(0, WIDTH)
    there = (user < n_users)[:, None] & (place < k)[None, :]
    item = tl.load(items + user[:, None] * k + place[None, :], mask=there, other=-1)
    end = tl.load(starts + 1 + user, mask=user < n_users, other=0)[:, None]
    low = tl.load(starts + user, mask=user < n_users, other=0)[:, None] + item * 0
    high = end + item * 0
    for _ in range(TURNS):  # binary search for the first entry that is not below the item
        middle = (low + high) // 2
        below = tl.load(relevant + middle, mask=low < high, other=0) < item
        low, high = tl.where((low < high) & below, middle + 1, low), tl.where((low < high) & ~below, middle, high)
    hit = there & (low < end) & (tl.load(relevant + low, mask=low < end, other=-1) == item) & (item >= 0)
    gain = tl.load(discount + place, mask=place < k, other=0.0)
    hits = tl.cumsum(hit.to(tl.int32), 1)
    is_first = hit & (hits == 1)
    at = out + place[None, :] * n_users + user[:, None]
    tl.store(at, hits.to(tl.float64), mask=there)
    tl.store(at + k * n_users, tl.cumsum(tl.where(hit, gain[None, :], 0.0), 1), mask=there)
    reciprocal = tl.cumsum(tl.where(is_first, 1.0 / (place[None, :] + 1).to(tl.float64), 0.0), 1)
    tl.store(at + 2 * k * n_users, reciprocal, mask=there)


FUSED = FusedKernels()
