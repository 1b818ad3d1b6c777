"""Players against plain arithmetic, and compiled loops against torch."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from recprism.cmb.players import _draws as chance
from recprism.cmb.players._memory import Players, Ties, count_type
from recprism.cmb.players.arms import Arms
from recprism.errors import InputError


def test_draws_agree_with_splitmix64() -> None:
    # The reference sequence of SplitMix64 for seed 1234567.
    expected = [
        6457827717110365317,
        3203168211198807973,
        9817491932198370423,
        4593380528125082431,
        16408922859458223821,
    ]
    assert [int(word) % 2**64 for word in chance.draws(1234567, 5)] == expected


def test_draws_are_uniform_and_differ_between_iterations() -> None:
    n = 200_000
    word = chance.draws(chance.stream(3, 7), n)
    explored = (chance.share(word) < chance.threshold(0.1)).float().mean().item()
    assert abs(explored - 0.1) < 4 * (0.1 * 0.9 / n) ** 0.5
    counts = torch.bincount(chance.choice(word, 61), minlength=61).double()
    statistic = ((counts - n / 61) ** 2 / (n / 61)).sum().item()
    assert statistic < 60 + 4 * (2 * 60) ** 0.5
    other = chance.draws(chance.stream(3, 8), n)
    assert (word == other).sum() == 0
    # Whether a player explores must not tell which arm it draws.
    share, arm = chance.share(word).double(), chance.choice(word, 61).double()
    assert abs(torch.corrcoef(torch.stack([share, arm]))[0, 1].item()) < 4 / n**0.5


def test_the_incremental_average_is_the_plain_mean() -> None:
    generator = np.random.default_rng(0)
    players = Players(7, 5, 300, ties="first", zero=2)
    history: dict[tuple[int, int], list[float]] = {}
    for reward in generator.normal(size=300):
        chosen = torch.from_numpy(generator.integers(0, 5, 7))
        players.learn(chosen, float(reward))
        for player, arm in enumerate(chosen.tolist()):
            history.setdefault((player, arm), []).append(float(reward))
    for (player, arm), rewards in history.items():
        assert players.counts[player, arm] == len(rewards)
        assert players.values[player, arm].item() == pytest.approx(np.mean(rewards), abs=1e-5)


@settings(max_examples=60)
@given(st.integers(0, 2**32), st.sampled_from(["first", "random", "zero"]), st.integers(2, 9))
def test_compiled_loops_and_torch_agree(seed: int, ties: Ties, n_arms: int) -> None:
    generator = np.random.default_rng(seed)
    pair = [Players(11, n_arms, 100, ties=ties, zero=n_arms // 2) for _ in range(2)]
    pair[1]._compiled = False
    for step in range(6):
        key = chance.stream(seed, step)
        choices = []
        for players in pair:
            chosen = players.greedy(key) if step % 2 else players.optimistic(0.5, key)
            choices.append(players.explore(chosen, 0.3, key))
        assert torch.equal(*choices)
        reward = float(generator.integers(0, 2))  # few values: many ties
        for players in pair:
            players.learn(choices[0], reward)
    assert torch.equal(pair[0].values, pair[1].values)
    assert torch.equal(pair[0].counts, pair[1].counts)


@settings(max_examples=60)
@given(st.integers(0, 2**32), st.sampled_from(["first", "zero"]), st.integers(2, 9))
def test_the_stored_best_arms_equal_those_of_a_new_search(seed: int, ties: Ties, n_arms: int) -> None:
    generator = np.random.default_rng(seed)
    players = Players(11, n_arms, 100, ties=ties, zero=n_arms // 2)
    for step in range(40):
        best = players.greedy(0)
        assert torch.equal(best, players._best(players.values, 0))
        reward = float(generator.integers(-2, 2))  # leaders rise and fall, and meet equals: untried arms and others
        players.learn(players.explore(best, 0.3, chance.stream(seed, step)), reward)


def test_the_rules_for_ties() -> None:
    fresh = {ties: Players(1000, 5, 10, ties=ties, zero=2).greedy(1) for ties in ("first", "zero", "random")}  # type: ignore[arg-type]
    assert set(fresh["first"].tolist()) == {0}
    assert set(fresh["zero"].tolist()) == {2}
    counts = torch.bincount(fresh["random"], minlength=5)
    assert counts.min() > 140, "every arm about as often as the others"
    players = Players(3, 5, 10, ties="zero", zero=2)
    players.learn(torch.tensor([2, 2, 2]), -1.0)
    assert players.greedy(1).tolist() == [3, 3, 3], "of the two neighbours the upper one"


def test_ucb_takes_untried_arms_first() -> None:
    players = Players(2, 3, 10, ties="first", zero=1)
    for _ in range(3):
        chosen = players.optimistic(1.0, 0)
        players.learn(chosen, 5.0)
    assert players.counts.tolist() == [[1, 1, 1], [1, 1, 1]]


def test_counts_are_one_byte_until_they_do_not_fit() -> None:
    assert count_type(255) == torch.uint8
    assert count_type(256) == torch.int16
    assert count_type(40_000) == torch.int32
    players = Players(1, 2, 400, ties="first", zero=0)
    for _ in range(400):
        players.learn(torch.tensor([1]), 1.0)
    assert players.counts.tolist() == [[0, 400]]


def test_arms() -> None:
    assert Arms(0.3, 61).values[30] == 0
    assert Arms(0.3, 61).nearest_to_zero == 30
    assert np.allclose(Arms(0.3, 61).values.numpy(), np.linspace(-0.3, 0.3, 61), atol=1e-8)
    for reach, count in ((0.0, 61), (-1.0, 61), (0.3, 1)):
        with pytest.raises(InputError):
            Arms(reach, count)
