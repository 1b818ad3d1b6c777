"""How players choose their arms: one policy a class, one line of registration."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Protocol

import torch
from torch import Tensor

from recprism.cmb.players import _draws as chance
from recprism.cmb.players._memory import Players
from recprism.errors import InputError


class Policy(Protocol):
    """Chooses an arm for every player; what it knows is what the players remember."""

    def choose(self, players: Players, iteration: int, seed: int) -> Tensor:
        """(n_players,) int64 arms; ``iteration`` counts from 0. The same arguments always give the same choice."""
        ...


@dataclass(frozen=True)
class EpsilonGreedy:
    """The arm with the best average, and with probability epsilon any arm."""

    epsilon: float = 0.1

    def __post_init__(self) -> None:
        if not 0 <= self.epsilon <= 1:
            raise InputError(f"epsilon is a probability, from 0 to 1; got {self.epsilon}")

    def choose(self, players: Players, iteration: int, seed: int) -> Tensor:
        ties, exploration = _keys(seed, iteration)
        return players.explore(players.greedy(ties), self.epsilon, exploration)


@dataclass(frozen=True)
class UCB:
    """The highest average + confidence * sqrt(2 ln t / n): UCB1 of Auer et al. (2002); untried arms come first."""

    confidence: float = 1.0

    def __post_init__(self) -> None:
        if self.confidence < 0:
            raise InputError(f"the confidence of UCB cannot be negative; got {self.confidence}")

    def choose(self, players: Players, iteration: int, seed: int) -> Tensor:
        ties, _ = _keys(seed, iteration)
        return players.optimistic(self.confidence * math.sqrt(2 * math.log(iteration + 1)), ties)


@dataclass(frozen=True)
class RandomArms:
    """Any arm, every time: the paper's Random row."""

    def choose(self, players: Players, iteration: int, seed: int) -> Tensor:
        _, exploration = _keys(seed, iteration)
        start = torch.zeros(players.n_players, dtype=torch.int64, device=players.values.device)
        return players.explore(start, 1.0, exploration)


POLICIES: dict[str, type[Policy]] = {"epsilon-greedy": EpsilonGreedy, "ucb": UCB, "random": RandomArms}


def make_policy(policy: str | Policy, **settings: Any) -> Policy:
    """A policy by its name and settings, or one that is made already."""
    if not isinstance(policy, str):
        return policy
    if policy not in POLICIES:
        raise InputError(f"unknown policy {policy!r}; choose one of {', '.join(POLICIES)}, or 'gradient'")
    return POLICIES[policy](**settings)


def _keys(seed: int, iteration: int) -> tuple[int, int]:
    """Two independent streams of chance for one iteration."""
    return chance.stream(seed, 2 * iteration), chance.stream(seed, 2 * iteration + 1)
