"""The players of a search with shared credit; the same seed and rewards give the same choices anywhere."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar, Literal

import torch
from torch import Tensor

from recprism.cmb.history import Best, either
from recprism.cmb.objective import Number
from recprism.cmb.players._memory import Players, Ties
from recprism.cmb.players.arms import Arms
from recprism.cmb.players.policies import Policy
from recprism.common.checks import COUNT, Check, Checked, OneOf, Whole

Keep = Literal["last", "greedy", "best"]


@dataclass(frozen=True)
class SearchSettings(Checked):
    """Settings of a search with shared credit.

    Attributes:
        iterations: The maximal number of iterations.
        k: Length of the lists that the reward is computed from.
        ties: Which of equally good arms a player takes: "first" (as in the paper's released code), "random", or "zero",
            the one nearest to 0.
        keep: Which perturbation is the result. "last": that of the last iteration, with exploration (the paper's).
            "greedy": every player's best arm at the end. "best": that of the iteration with the highest reward.
        patience: Stop when the best reward has not risen for this many iterations; None runs all of them.
    """

    iterations: int = 200
    k: int = 20
    ties: Ties = "zero"
    keep: Keep = "best"
    patience: int | None = None

    rules: ClassVar[Mapping[str, Check]] = {
        "iterations": COUNT,
        "k": COUNT,
        "ties": OneOf(("first", "random", "zero")),
        "keep": OneOf(("last", "greedy", "best")),
        "patience": Whole(1, none="to run all iterations"),
    }


class Play:
    """Players that get one reward per iteration and choose; the seed and the rewards are enough to replay them.

    A restarted worker replays all rewards so far and has the same state as the others, without ranking any list.

    Args:
        n_players: Number of players.
        policy: How they choose.
        arms: The values that they choose from.
        settings: Of the search.
        seed: Of the random draws.
        device: Where the players' memory is.
    """

    def __init__(
        self,
        n_players: int,
        policy: Policy,
        arms: Arms,
        settings: SearchSettings,
        seed: int,
        device: torch.device | str,
    ) -> None:
        self._players = Players(
            *(n_players, arms.count, settings.iterations), ties=settings.ties, zero=arms.nearest_to_zero, device=device
        )
        self._policy, self._keep, self._seed = policy, settings.keep, seed
        self._arms = arms.on(device)
        self._best = Best()
        self._n_rewards = 0
        self._chosen: Tensor | None = None  # in this iteration, once computed
        self._kept: Tensor | None = None

    def values_after(self, rewards: Sequence[Number]) -> Tensor:
        """(n_players,) the perturbation of the iteration after these rewards, in units of the arms."""
        self._learn(rewards)
        # index_select, because indexing wakes torch's threads for little work
        return self._arms.index_select(0, self._choice())

    def kept_after(self, rewards: Sequence[Number]) -> Tensor:
        """(n_players,) the perturbation to keep after these rewards, in units of the arms."""
        self._learn(rewards)
        kept = self._players.greedy(self._seed) if self._keep == "greedy" or self._kept is None else self._kept
        return self._arms[kept]

    def _choice(self) -> Tensor:
        if self._chosen is None:
            self._chosen = self._policy.choose(self._players, self._n_rewards, self._seed)
        return self._chosen

    def _learn(self, rewards: Sequence[Number]) -> None:
        for reward in rewards[self._n_rewards :]:
            chosen = self._choice()
            self._players.learn(chosen, reward)
            is_best = self._best.rises_to(reward)
            if self._keep == "best" and self._kept is not None:
                self._kept = either(is_best, chosen, self._kept)
            else:
                self._kept = chosen
            self._chosen = None
            self._n_rewards += 1
