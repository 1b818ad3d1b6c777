"""The synthetic world: its metrics are those of the library, and its expectations are the means of many draws."""

from __future__ import annotations

import itertools
import sys
from pathlib import Path

import numpy as np
import pytest

from recprism.errors import InputError
from recprism.metrics import Context, evaluate
from recprism.testing.synthetic import expected_gains, make_world

sys.path.insert(0, str(Path(__file__).parents[2] / "benchmarks"))
from known_losses import diversified, draw_values, measured, with_loss

METRICS = ["ndcg@10", "recall@20", "hit_rate@5"]
WORLD = make_world(400, 80, 6, takes=4, seed=0)
SCORES = WORLD.user @ WORLD.item.T + WORLD.appeal


def test_measured_values_are_those_of_the_library() -> None:
    labels = WORLD.labels(np.arange(WORLD.n_users), np.random.default_rng(0))
    lists = diversified(SCORES, WORLD.categories, 0.1)
    ours, theirs = measured(lists, labels, METRICS), evaluate(lists, Context(relevant=labels), METRICS, bootstrap=0)
    for metric in METRICS:
        np.testing.assert_allclose(ours[metric], theirs.values[metric], atol=1e-12)
    assert np.isnan(ours["ndcg@10"]).sum() == (labels.sum(axis=1) == 0).sum() > 0


def test_the_expectation_is_the_sum_over_all_outcomes() -> None:
    """Three users, six items: all 64 sets of labels, each with its probability."""
    small = make_world(3, 6, 2, takes=1.4, seed=4)
    lists = np.array([[0, 1, 2, 3], [5, 4, 3, 2], [2, 0, 4, 1]])
    outcomes = np.array(list(itertools.product([False, True], repeat=6)))
    for metric in ("ndcg@2", "recall@4", "hit_rate@3"):
        for user in range(3):
            p = small.probability[user].astype(float)
            chance = np.where(outcomes, p, 1 - p).prod(axis=1)
            values = measured(np.tile(lists[user], (64, 1)), outcomes, [metric])[metric]
            assert small.expected(metric, lists)[user] == pytest.approx(chance @ np.nan_to_num(values), rel=1e-9)


def test_gains_of_recall_add_up_to_the_chance_of_a_label() -> None:
    """The shares of all items sum to 1 for every user who took an item."""
    judged = 1 - (1 - WORLD.probability.astype(float)).prod(axis=1)
    gains = expected_gains(WORLD.probability, lambda counts: counts.astype(float))
    np.testing.assert_allclose(gains.sum(axis=1), judged, rtol=1e-9)


def test_the_mean_of_draws_is_the_expectation() -> None:
    generator = np.random.default_rng(1)
    lists = diversified(SCORES, WORLD.categories, 0.0)
    judged = (1 - (1 - WORLD.probability.astype(float)).prod(axis=1)).sum()
    drawn = draw_values(WORLD, [lists], METRICS, 60_000, generator)[0]
    for metric in METRICS:
        values = drawn[metric][~np.isnan(drawn[metric])]
        truth = WORLD.expected(metric, lists).sum() / judged
        assert abs(values.mean() - truth) < 4 * values.std() / np.sqrt(len(values))


def test_diversity_costs_accuracy_and_shows_more_categories() -> None:
    ladder = [diversified(SCORES, WORLD.categories, strength) for strength in (0.0, 0.3, 1.0)]
    np.testing.assert_array_equal(ladder[0], np.argsort(-SCORES, axis=1, kind="stable")[:, :20])
    worth = [WORLD.expected("ndcg@10", lists).sum() for lists in ladder]
    assert worth == sorted(worth, reverse=True)
    seen = [WORLD.categories.items.dense()[lists[:, :10]].any(axis=1).sum(axis=1).mean() for lists in ladder]
    assert seen == sorted(seen)
    assert all(len(set(row)) == 20 for row in ladder[2].tolist())


def test_lists_of_a_wanted_loss() -> None:
    ladder = [diversified(SCORES, WORLD.categories, strength) for strength in (0.0, 0.3, 1.0)]
    base = WORLD.expected("ndcg@10", ladder[0]).sum()
    generator = np.random.default_rng(2)
    for loss in (0.002, 0.01, 0.02):
        lists = with_loss(WORLD, ladder, "ndcg@10", loss, generator)
        assert loss <= 1 - WORLD.expected("ndcg@10", lists).sum() / base < loss + 2 / WORLD.n_users
    with pytest.raises(InputError, match=r"no rung loses 90\.00%"):
        with_loss(WORLD, ladder, "ndcg@10", 0.9, generator)


def test_the_same_seed_gives_the_same_world() -> None:
    one, same, other = (make_world(50, 40, 4, takes=5, seed=seed) for seed in (7, 7, 8))
    np.testing.assert_array_equal(one.probability, same.probability)
    assert (one.probability != other.probability).any()
    assert one.probability.max() <= 0.5
    noisy = one.model(0.2, seed=1)
    assert [part.shape for part in noisy] == [(50, 8), (40, 8), (40,)]
    assert 0.1 < (noisy[0] - one.user).std() < 0.3
    np.testing.assert_array_equal(one.model(0.2, seed=1)[0], noisy[0])


def test_a_draw_is_a_data_set_like_any_other() -> None:
    data = WORLD.dataset(seed=5)
    split = data.split(seed=0)
    assert data.stats()["categories"] == 6
    assert len(split.train) + len(split.validation) + len(split.test) == len(data.interactions)
    assert data.categories.items.n_rows == split.n_items == len(data.attributes)
    number = int(data.interactions.item_ids[3][1:])
    own = {data.categories.names[at] for at in data.categories.items.row(3)}
    assert own == {WORLD.categories.names[at] for at in WORLD.categories.items.row(number)}


def test_bad_input_is_named() -> None:
    with pytest.raises(InputError, match="takes=50"):
        make_world(10, 40, takes=50)
    for metric in ("map@10", "ndcg", "recall@0"):
        with pytest.raises(InputError, match=f"not of '{metric}'"):
            WORLD.expected(metric, diversified(SCORES, WORLD.categories, 0.0))
