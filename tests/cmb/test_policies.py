"""Policies against their definitions, and the paper's algorithm written out in plain loops."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch

from recprism.cmb.objective import Objective
from recprism.cmb.players import _draws as chance
from recprism.cmb.players._memory import Players
from recprism.cmb.players.arms import Arms
from recprism.cmb.players.policies import UCB, EpsilonGreedy, Policy, RandomArms
from recprism.cmb.search_loop import Judge, SearchResult, SearchSettings, search
from recprism.cmb.space import FactorSpace
from recprism.data import Categories, SparseRows, Split
from recprism.metrics import Context
from recprism.models import Factors

N_PLAYERS, N_ARMS = 20_000, 5


def experienced(rewards: list[list[float]]) -> Players:
    """Players who all know the same: arm -> its rewards so far."""
    players = Players(N_PLAYERS, len(rewards), 100, ties="first", zero=len(rewards) // 2)
    for arm, earned in enumerate(rewards):
        for reward in earned:
            players.learn(torch.full((N_PLAYERS,), arm), reward)
    return players


def shares(chosen: torch.Tensor, n_arms: int = N_ARMS) -> list[float]:
    return (torch.bincount(chosen, minlength=n_arms) / len(chosen)).tolist()


def test_epsilon_greedy_takes_the_best_arm_and_sometimes_a_random_one() -> None:
    players = experienced([[1.0], [2.0], [5.0, 3.0], [3.5], [-1.0]])  # the averages are 1, 2, 4, 3.5 and -1
    assert set(EpsilonGreedy(0.0).choose(players, 7, 0).tolist()) == {2}
    assert shares(EpsilonGreedy(1.0).choose(players, 7, 0)) == pytest.approx([1 / 5] * 5, abs=0.02)
    others = 0.1 / 5
    found = shares(EpsilonGreedy(0.1).choose(players, 7, 0))
    assert found == pytest.approx([others, others, 0.9 + others, others, others], abs=0.01)


@pytest.mark.parametrize("confidence", [0.1, 1.0, 3.0])
def test_ucb_takes_the_highest_bound(confidence: float) -> None:
    rewards = [[1.0] * 30, [1.3, 1.1], [0.9], [1.25] * 5, [-4.0]]
    iteration = sum(map(len, rewards))
    bounds = [np.mean(earned) + confidence * math.sqrt(2 * math.log(iteration + 1) / len(earned)) for earned in rewards]
    chosen = UCB(confidence).choose(experienced(rewards), iteration, 0)
    assert set(chosen.tolist()) == {int(np.argmax(bounds))}


def test_confidence_decides_between_known_and_rare_arms() -> None:
    rewards = [[1.0] * 30, [0.9]]
    assert set(UCB(0.01).choose(experienced(rewards), 31, 0).tolist()) == {0}
    assert set(UCB(1.0).choose(experienced(rewards), 31, 0).tolist()) == {1}


def test_random_arms_do_not_look_at_rewards() -> None:
    fresh, knowing = experienced([[]] * N_ARMS), experienced([[1.0], [9.0], [0.0], [0.0], [0.0]])
    chosen = RandomArms().choose(fresh, 4, 0)
    assert torch.equal(chosen, RandomArms().choose(knowing, 4, 0))
    assert shares(chosen) == pytest.approx([1 / 5] * 5, abs=0.02)
    assert not torch.equal(chosen, RandomArms().choose(fresh, 5, 0))


# -- a world of two users, three items and one factor ------------------------------------------------------------------

REACH, COUNT = 0.3, 3
ARMS, OBJECTIVE = Arms(REACH, COUNT), Objective("subtopic_coverage", lambda1=0.1)


def tiny() -> tuple[FactorSpace, Context]:
    factors = Factors.from_arrays([[1.0], [-1.0]], [[1.0], [0.9], [-0.5]])
    categories = Categories.from_pairs(np.array([0, 1, 1, 2]), ["a", "a", "b", "a"], 3)
    nothing, held_out = SparseRows.empty((2, 3)), SparseRows.coerce(np.eye(2, 3))
    split = Split(nothing, held_out, held_out, factors.user_ids, factors.item_ids)
    return FactorSpace(factors, nothing), Context.from_split(split, "validation", categories=categories)


def played(policy: Policy, iterations: int, seed: int) -> SearchResult:
    settings = SearchSettings(iterations, k=1, ties="first", keep="last")
    return search(*tiny(), OBJECTIVE, policy, ARMS, settings, seed=seed)


def written_out(epsilon: float, iterations: int, seed: int) -> tuple[list[float], list[float]]:
    """Algorithm 1 of the paper, player by player: the rewards, and the perturbation of the last iteration."""
    space, context = tiny()
    arms = np.linspace(-REACH, REACH, COUNT)
    worth, times = np.zeros((space.n_players, COUNT)), np.zeros((space.n_players, COUNT), int)
    rewards, delta = [], [0.0] * space.n_players
    for t in range(iterations):
        words = chance.draws(chance.stream(seed, 2 * t + 1), space.n_players)
        chosen = []
        for player, word in enumerate(words):
            explores = int(chance.share(word)) < epsilon * 2**32
            chosen.append(int(chance.choice(word, COUNT)) if explores else int(worth[player].argmax()))
        delta = [float(arms[arm]) for arm in chosen]
        reward = float(Judge(space, context, OBJECTIVE).outcome(torch.tensor(delta), 1).reward)
        for player, arm in enumerate(chosen):
            times[player, arm] += 1
            worth[player, arm] += (reward - worth[player, arm]) / times[player, arm]
        rewards.append(reward)
    return rewards, delta


@pytest.mark.parametrize("seed", range(3))
def test_the_search_is_the_papers_algorithm(seed: int) -> None:
    rewards, delta = written_out(0.3, 80, seed)
    found = played(EpsilonGreedy(0.3), 80, seed)
    assert [step.reward for step in found.history] == pytest.approx(rewards, abs=1e-6)
    assert found.values.tolist() == pytest.approx(delta, abs=1e-7)
    assert len({round(reward, 6) for reward in rewards}) > 5, "several perturbations were tried"


@pytest.mark.slow
def test_players_earn_more_in_all_iterations_than_random_arms() -> None:
    """The sum of rewards is what the paper maximises. UCB is left out: by order of ties it moves all players alike."""

    def earned(policy: Policy, seed: int) -> float:
        return sum(step.reward for step in played(policy, 200, seed).history)

    for seed in range(5):
        assert earned(EpsilonGreedy(0.1), seed) > 1.1 * earned(RandomArms(), seed)
