"""Policies: how players choose their arms. A policy is one class and one line in ``POLICIES``."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Protocol

import torch
from torch import Tensor

from recprism.cmb.players import _draws as chance
from recprism.cmb.players._memory import Players
from recprism.common.checks import AMOUNT, WEIGHT, Check, Checked
from recprism.errors import InputError


class Policy(Protocol):
    """Chooses an arm for every player, from what the players remember."""

    def choose(self, players: Players, iteration: int, seed: int) -> Tensor:
        """(n_players,) int64 arms; the same arguments always give the same choice.

        Args:
            players: The averages and counts of all arms.
            iteration: Counts from 0.
            seed: Of the random draws.
        """


@dataclass(frozen=True)
class EpsilonGreedy(Checked):
    """The arm with the best average, and with probability ``epsilon`` a random arm.

    Attributes:
        epsilon: A probability.
    """

    epsilon: float = 0.1

    rules: ClassVar[Mapping[str, Check]] = {"epsilon": WEIGHT}

    def choose(self, players: Players, iteration: int, seed: int) -> Tensor:
        """(n_players,) int64 arms; see :meth:`Policy.choose`."""
        ties, exploration = _keys(seed, iteration)
        return players.explore(players.greedy(ties), self.epsilon, exploration)


@dataclass(frozen=True)
class UCB(Checked):
    """The arm with the highest average + confidence * sqrt(2 ln t / n): UCB1 of Auer et al. (2002).

    Untried arms come first.

    Attributes:
        confidence: Weight of the bound, from 0 up.
    """

    confidence: float = 1.0

    rules: ClassVar[Mapping[str, Check]] = {"confidence": AMOUNT}

    def choose(self, players: Players, iteration: int, seed: int) -> Tensor:
        """(n_players,) int64 arms; see :meth:`Policy.choose`."""
        ties, _ = _keys(seed, iteration)
        return players.optimistic(self.confidence * math.sqrt(2 * math.log(iteration + 1)), ties)


@dataclass(frozen=True)
class RandomArms:
    """A random arm, every time: the paper's Random row."""

    def choose(self, players: Players, iteration: int, seed: int) -> Tensor:
        """(n_players,) int64 arms; see :meth:`Policy.choose`."""
        _, exploration = _keys(seed, iteration)
        start = torch.zeros(players.n_players, dtype=torch.int64, device=players.values.device)
        return players.explore(start, 1.0, exploration)


POLICIES: dict[str, type[Policy]] = {"epsilon-greedy": EpsilonGreedy, "ucb": UCB, "random": RandomArms}


def make_policy(policy: str | Policy, **settings: Any) -> Policy:
    """A policy by its name and settings; a policy object is returned as it is."""
    if not isinstance(policy, str):
        return policy
    if policy not in POLICIES:
        raise InputError(f"unknown policy {policy!r}; choose one of {', '.join(POLICIES)}, or 'gradient'")
    return POLICIES[policy](**settings)


def _keys(seed: int, iteration: int) -> tuple[int, int]:
    """Keys of two independent random streams for one iteration."""
    return chance.stream(seed, 2 * iteration), chance.stream(seed, 2 * iteration + 1)
