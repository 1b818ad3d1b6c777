"""The best arms of all players in one pass over their memory, on a GPU; the same as the torch code in _memory.py."""

# mypy: allow-untyped-defs, allow-incomplete-defs, allow-untyped-calls

from __future__ import annotations

import torch
import triton.language as tl
from torch import Tensor

from recprism.ranking.triton_engine import power_of_two, whole_parts
from recprism.ranking.triton_kernels import kernel

CELLS = 4096  # averages per program


def greedy(values: Tensor, by_place: Tensor) -> Tensor:
    """(n_players,) int64: the arm with the highest average, of equals the first in ``by_place`` (n_arms,)."""
    n_players, n_arms = values.shape
    chosen = torch.empty(n_players, dtype=torch.int64, device=values.device)
    arms = power_of_two(n_arms)
    rows = max(1, CELLS // arms)
    place_of = torch.empty_like(by_place).scatter_(0, by_place, torch.arange(n_arms, device=values.device))
    _greedy[(whole_parts(n_players, rows),)](
        values, place_of, by_place, chosen, n_players, n_arms, ROWS=rows, ARMS=arms
    )
    return chosen


@kernel
def _greedy(values, place_of, by_place, chosen, n_players, n_arms, ROWS: tl.constexpr, ARMS: tl.constexpr):
    player, arm = tl.program_id(0) * ROWS + tl.arange(0, ROWS), tl.arange(0, ARMS)
    there = (player[:, None] < n_players) & (arm[None, :] < n_arms)
    average = tl.load(values + player[:, None].to(tl.int64) * n_arms + arm[None, :], mask=there, other=float("-inf"))
    place = tl.load(place_of + arm, mask=arm < n_arms, other=0).to(tl.int32)
    is_best = there & (average == tl.max(average, 1)[:, None])
    first = tl.min(tl.where(is_best, place[None, :], n_arms - 1), 1)
    tl.store(chosen + player, tl.load(by_place + first), mask=player < n_players)
