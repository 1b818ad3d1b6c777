"""Compiled loops over players: the same bits as the torch code in _memory.py, on any number of threads."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from recprism.cmb._kernels import players as loops
from recprism.common.threads import share_work

PLAYERS_AT_ONCE = 8192


def greedy(values: Tensor, by_place: Tensor, key: int, random_ties: bool) -> Tensor:
    chosen = torch.empty(len(values), dtype=torch.int64)
    _run(loops.greedy, values.numpy(), _places(by_place), _unsigned(key), random_ties, chosen.numpy())
    return chosen


def optimistic(values: Tensor, counts: Tensor, by_place: Tensor, width: float, key: int, random_ties: bool) -> Tensor:
    chosen = torch.empty(len(values), dtype=torch.int64)
    arrays = values.numpy(), counts.numpy(), _places(by_place)
    _run(loops.optimistic, *arrays, np.float32(width), _unsigned(key), random_ties, chosen.numpy())
    return chosen


def explore(chosen: Tensor, limit: int, n_arms: int, key: int) -> Tensor:
    changed = torch.empty_like(chosen)
    _run(loops.explore, chosen.numpy(), np.uint64(limit), np.uint64(n_arms), _unsigned(key), changed.numpy())
    return changed


def learn(values: Tensor, counts: Tensor, chosen: Tensor, reward: float) -> None:
    _run(loops.learn, values.numpy(), counts.numpy(), chosen.numpy(), np.float32(reward))


def learn_and_follow(
    values: Tensor, counts: Tensor, chosen: Tensor, reward: float, by_place: Tensor, best: NDArray[np.int16]
) -> None:
    """Learn, and update ``best`` (n_players,), the result of ``greedy``, for the new averages."""
    arrays = values.numpy(), counts.numpy(), chosen.numpy(), np.float32(reward)
    _run(loops.learn_and_follow, *arrays, _places(by_place), best)


def _run(loop: Callable[..., None], over_players: NDArray[Any], *others: Any) -> None:
    """``loop(first, last, ...)`` over runs of players."""
    share_work(lambda first, last: loop(first, last, over_players, *others), len(over_players), PLAYERS_AT_ONCE)


def _places(by_place: Tensor) -> tuple[NDArray[np.int32], NDArray[np.int64]]:
    """The place of every arm among equals, and the arm of every place."""
    return np.argsort(by_place.numpy()).astype(np.int32), by_place.numpy()


def _unsigned(key: int) -> np.uint64:
    return np.uint64(key % (1 << 64))
