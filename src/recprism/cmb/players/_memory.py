"""The memory of many players: how often each arm was chosen and its average reward.

A player and arm take one byte of counts (more if the number of iterations does not fit) and four bytes of averages.
Every step works on all players at once: in compiled loops on the CPU (_compiled.py), in torch elsewhere, and on a GPU
with the best arms found in one pass (_gpu.py). The compiled loops also keep each player's best arm, in two bytes. Only
the arm just played can change it, so that few players have to search all arms.
"""

from __future__ import annotations

from importlib.util import find_spec
from typing import Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from recprism.cmb.objective import Number
from recprism.cmb.players import _compiled as cpu
from recprism.cmb.players import _draws as chance
from recprism.common.memory import require_room

Ties = Literal["first", "random", "zero"]


class Players:
    """The averages and counts of all players, and the choices that follow from them.

    Args:
        n_players: Number of players.
        n_arms: Number of arms of each player.
        iterations: The maximal number of iterations.
        ties: Which of equally good arms is taken: the "first" (as in the paper's released code), a "random" one, or the
            one nearest to the arm ``zero``.
        zero: The arm that changes least.
        device: Where the memory is.

    Attributes:
        values: (n_players, n_arms) float32 average rewards, 0 for an arm that was never chosen.
        counts: (n_players, n_arms) how often each arm was chosen, in the narrowest integer for ``iterations``.
    """

    def __init__(
        self, n_players: int, n_arms: int, iterations: int, *, ties: Ties, zero: int, device: torch.device | str = "cpu"
    ) -> None:
        _require_room(n_players, n_arms, iterations, device)
        self.values = torch.zeros(n_players, n_arms, dtype=torch.float32, device=device)
        self.counts = torch.zeros(n_players, n_arms, dtype=count_type(iterations), device=device)
        self.ties = ties
        self._by_place = tie_order(n_arms, ties, zero).to(device)
        self._leaders: NDArray[np.int16] | None = None  # best arms, once computed
        self._compiled = self.values.device.type == "cpu"
        self._fused = self.values.device.type == "cuda" and find_spec("triton") is not None

    @property
    def n_players(self) -> int:
        return len(self.values)

    @property
    def n_arms(self) -> int:
        return self.values.shape[1]

    def greedy(self, key: int) -> Tensor:
        """(n_players,) int64: each player's arm with the highest average; ``key`` breaks random ties."""
        if self._fused and self.ties != "random":
            from recprism.cmb.players import _gpu as gpu

            return gpu.greedy(self.values, self._by_place)
        if not self._compiled:
            return self._best(self.values, key)
        if self.ties == "random":
            return cpu.greedy(self.values, self._by_place, key, random_ties=True)
        if self._leaders is None:
            self._leaders = cpu.greedy(self.values, self._by_place, key, random_ties=False).numpy().astype(np.int16)
        return torch.from_numpy(self._leaders.astype(np.int64))

    def optimistic(self, width: float, key: int) -> Tensor:
        """(n_players,) int64: the arm with the highest average + width / sqrt(count); untried arms come first."""
        if self._compiled:
            return cpu.optimistic(self.values, self.counts, self._by_place, width, key, self.ties == "random")
        counts = self.counts.to(torch.float32)
        bound = torch.where(counts > 0, self.values + width / counts.clamp_min(1).sqrt(), torch.inf)
        return self._best(bound, key)

    def explore(self, chosen: Tensor, probability: float, key: int) -> Tensor:
        """Replace each player's chosen arm, with this probability, by one drawn uniformly."""
        if self._compiled:
            return cpu.explore(chosen, chance.threshold(probability), self.n_arms, key)
        word = chance.draws(key, self.n_players, chosen.device)
        return torch.where(chance.share(word) < chance.threshold(probability), chance.choice(word, self.n_arms), chosen)

    def learn(self, chosen: Tensor, reward: Number) -> None:
        """Update the average of every player's chosen arm: V + (r - V) / n."""
        if self._compiled:
            if self._leaders is None:
                cpu.learn(self.values, self.counts, chosen, float(reward))
            else:
                cpu.learn_and_follow(self.values, self.counts, chosen, float(reward), self._by_place, self._leaders)
            return
        at = chosen[:, None]
        counts = self.counts.gather(1, at) + 1
        values = self.values.gather(1, at)
        self.counts.scatter_(1, at, counts)
        self.values.scatter_(1, at, values + (reward - values) / counts)

    def _best(self, scores: Tensor, key: int) -> Tensor:
        """(n_players,) int64: the arm with the highest of ``scores``; ``ties`` decides between equals."""
        equal = scores == scores.amax(1, keepdim=True)
        if self.ties == "random":
            # The j-th of the equal arms, j drawn uniformly.
            wanted = chance.choice(chance.draws(key, self.n_players, scores.device), equal.sum(1))
            return (equal.cumsum(1) <= wanted[:, None]).sum(1)
        place = torch.where(equal[:, self._by_place], torch.arange(self.n_arms, device=equal.device), self.n_arms).amin(
            1
        )
        return self._by_place[place]


def _require_room(n_players: int, n_arms: int, iterations: int, device: torch.device | str) -> None:
    each = 4 + count_type(iterations).itemsize
    require_room(
        n_players * n_arms * each,
        f"the averages and counts of {n_players:,} players x {n_arms:,} arms",
        lambda free: (
            f"at most n_arms={free // (n_players * each):,} or {free // (n_arms * each):,} players (fewer factors, one "
            "side) fit; credit='marginal' keeps no averages"
        ),
        device=str(device),
    )


def count_type(iterations: int) -> torch.dtype:
    """The narrowest integer that can count to ``iterations``."""
    if iterations <= 255:
        return torch.uint8
    return torch.int16 if iterations <= 32_767 else torch.int32


def tie_order(n_arms: int, ties: Ties, zero: int) -> Tensor:
    """(n_arms,) int64: the arms in the order of preference among equals."""
    arms = torch.arange(n_arms)
    if ties != "zero":
        return arms
    return torch.argsort((arms - zero).abs() * 2 + (arms < zero).to(torch.int64), stable=True)
