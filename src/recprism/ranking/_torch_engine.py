"""Top-k with torch alone, on any device: score a block of users, select, and break ties by item number."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from recprism.common.memory import require_room
from recprism.data.sparse_rows import SparseRows
from recprism.ranking.seen import seen_pairs

# Scores held at a time: 16 MiB on the CPU; a GPU needs many users at a time.
SCORES_AT_A_TIME = {"cpu": 2**22}
SCORES_AT_A_TIME_ELSEWHERE = 2**26
KEYS_AT_A_TIME = 2**21
LOW_HALF = 0xFFFFFFFF


def rank(user: Tensor, item: Tensor, k: int, exclude: SparseRows | None, block: int | None) -> tuple[Tensor, Tensor]:
    """Return items ``(n_users, k)`` int64 and scores ``(n_users, k)`` float32; -1 and -inf if no item is left."""
    n_users, n_items = len(user), len(item)
    rows = min(block or users_at_a_time(n_items, user.device), n_users)
    require_room(
        2 * rows * n_items * 4,  # scores, and the copy that is selected from
        f"the scores of {rows:,} users x {n_items:,} items",
        lambda free: f"at most block={max(1, free // (8 * n_items)):,} users at a time fit",
        device=str(user.device),
    )
    buffer = torch.empty((rows, n_items), device=user.device)

    def score(start: int, stop: int) -> Tensor:
        return torch.mm(user[start:stop], item.T, out=buffer[: stop - start])

    return rank_blocks(score, n_users, k, exclude, rows, user.device)


def rank_blocks(
    score: Callable[[int, int], Tensor],
    n_users: int,
    k: int,
    exclude: SparseRows | None,
    rows: int,
    device: torch.device,
) -> tuple[Tensor, Tensor]:
    """As ``rank``, for scores ``(stop - start, n_items)`` that ``score(start, stop)`` returns; they are overwritten."""
    best = torch.empty((n_users, k), dtype=torch.int64, device=device)
    excluded = None if exclude is None else seen_pairs(exclude, device)
    for start in range(0, n_users, rows):
        stop = min(start + rows, n_users)
        scores = score(start, stop)
        if excluded is not None:
            excluded.mask(scores, start, stop)
        best[start:stop] = _best_keys(scores, k)
    return decode(best.sort(dim=1, descending=True).values)


def users_at_a_time(n_items: int, device: torch.device) -> int:
    """Return how many users' scores are held at a time."""
    return max(1, SCORES_AT_A_TIME.get(device.type, SCORES_AT_A_TIME_ELSEWHERE) // max(1, n_items))


def _best_keys(scores: Tensor, k: int) -> Tensor:
    """Turn ``(n, n_items)`` scores into ``(n, k)`` keys of the best items, in any order."""
    n_items = scores.shape[1]
    top, items = scores.topk(min(k + 1, n_items), dim=1)
    keys = keys_of(top[:, :k], items[:, :k])
    if k < n_items:
        # Among equal scores topk takes any. That matters only if the tie crosses the end of the list.
        torn = ((top[:, k - 1] == top[:, k]) & (top[:, k] > -torch.inf)).nonzero().flatten()
        every_item = torch.arange(n_items, device=scores.device)
        for rows in torch.split(torn, max(1, KEYS_AT_A_TIME // n_items)):
            keys[rows] = keys_of(scores[rows], every_item).topk(k, dim=1).values
    return keys


def keys_of(scores: Tensor, items: Tensor) -> Tensor:
    """Return int64 keys that sort by score, then by lower item number: score bits above, item number below."""
    bits = (scores + 0.0).view(torch.int32)  # adding zero turns -0.0 into 0.0
    return (_in_order(bits).to(torch.int64) << 32) | (LOW_HALF - items)


def decode(keys: Tensor) -> tuple[Tensor, Tensor]:
    scores = _in_order((keys >> 32).to(torch.int32)).view(torch.float32)
    return torch.where(scores > -torch.inf, LOW_HALF - (keys & LOW_HALF), -1), scores


def _in_order(bits: Tensor) -> Tensor:
    """Turn float bits into integers of the same order, and back: all bits but the sign of negative numbers flip."""
    return bits ^ ((bits >> 31) & 0x7FFFFFFF)
