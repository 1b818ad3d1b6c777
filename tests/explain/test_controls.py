"""Controls of a change: shuffles, and promotion of items, in small synthetic data sets with a known answer."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest

from recprism.cmb.factors.change import Change
from recprism.cmb.factors.controls import SCALES, best_mixture, run_controls
from recprism.cmb.factors.evaluator import Evaluator
from recprism.data.sparse_rows import SparseRows
from recprism.errors import InputError
from recprism.metrics import Context
from recprism.models import Factors

DIM = 6


def world(seed: int, n_users: int = 60, n_items: int = 50) -> tuple[Factors, Evaluator]:
    generator = np.random.default_rng(seed)
    user, item = generator.normal(size=(n_users, DIM)), generator.normal(size=(n_items, DIM))
    base = Factors.from_arrays(user, item)
    context = Context(
        relevant=generator.random((n_users, n_items)) < 0.2,
        categories=generator.random((n_items, 15)) < 0.12,
        vectors=base.item,
    )
    return base, Evaluator(context, SparseRows.empty((n_users, n_items)), ("subtopic_coverage@5", "ndcg@5"))


def noise(base: Factors, seed: int, side: str = "item") -> Change:
    values = np.random.default_rng([7, seed]).normal(0, 0.5, getattr(base, side).shape)
    return Change(base, **{side: values.astype(np.float32)})


@pytest.mark.slow
def test_noise_rarely_passes_as_learned() -> None:
    p_values = []
    for seed in range(80):
        base, evaluator = world(seed, n_users=20, n_items=25)
        found = run_controls(noise(base, seed), evaluator, "subtopic_coverage@5", "ndcg@5", draws=19, seed=seed)
        p_values.append([control.p_value for control in found.shuffled])
    assert (np.array(p_values) <= 0.05).mean() <= 0.07
    assert np.array(p_values).mean() == pytest.approx(0.5, abs=0.1)


def test_every_shuffle_keeps_what_it_says() -> None:
    from recprism.cmb.factors.controls import _SHUFFLES

    side, generator = np.random.default_rng(0).normal(size=(20, DIM)).astype(np.float32), np.random.default_rng(1)
    found = {within: shuffle(side, generator) for within, shuffle in _SHUFFLES.items()}
    for shuffled in found.values():
        assert not np.array_equal(shuffled, side)
        np.testing.assert_array_equal(np.sort(shuffled, axis=None), np.sort(side, axis=None))
    np.testing.assert_array_equal(np.sort(found["rows"], axis=1), np.sort(side, axis=1))
    np.testing.assert_array_equal(np.sort(found["factors"], axis=0), np.sort(side, axis=0))


@pytest.mark.parametrize(
    ("sides", "title"),
    [
        (("item",), "shuffled within items"),
        (("user",), "shuffled within users"),
        (("item", "user"), "shuffled within rows"),
    ],
)
def test_rows_are_named_after_their_side(sides: tuple[str, ...], title: str) -> None:
    base, evaluator = world(0)
    change = Change(base, **{side: noise(base, 0, side).sides[side] for side in sides})
    found = run_controls(change, evaluator, "subtopic_coverage@5", "ndcg@5", draws=2)
    assert found["rows"].title == title
    assert found["rows"].objective.shape == (2,)


def test_promotion_never_costs_more_than_the_change() -> None:
    for seed in range(5):
        base, evaluator = world(seed)
        found = run_controls(noise(base, seed), evaluator, "subtopic_coverage@5", "ndcg@5", draws=1)
        allowed = max(found.base[1] - found.learned[1], 1e-3 * found.base[1])
        assert found.base[1] - found.bias.cost <= allowed + 1e-12
        assert found.bias.objective >= found.base[0]


def test_the_best_mixture_against_all_mixtures() -> None:
    generator = np.random.default_rng(0)
    for _ in range(200):
        n = int(generator.integers(1, 9))
        loss, gain = np.append(0.0, generator.normal(1, 1, n)), np.append(0.0, generator.normal(1, 1, n))
        first, second, share = best_mixture(loss, gain, 1.0)
        assert 0 <= share < 1
        assert loss[first] + share * (loss[second] - loss[first]) <= 1 + 1e-9
        shares = np.linspace(0, 1, 101)[:, None, None]
        losses, gains = (a[:, None] + shares * (a - a[:, None]) for a in (loss, gain))
        assert gain[first] + share * (gain[second] - gain[first]) >= gains[losses <= 1].max() - 1e-9


def test_the_gain_of_promotion_is_continuous_in_a_cost() -> None:
    """The best single promotion below the limit falls from 0.50 to 0.42 as one cost moves by a hundredth."""
    loss, gain = np.array([0.0, 0.84, 1.0, 1.52]), np.array([0.0, 0.42, 0.50, 0.60])

    def reached(crossing: float) -> float:
        moved = loss + np.array([0, 0, crossing, 0])
        first, second, share = best_mixture(moved, gain, 1.0)
        return float(gain[first] + share * (gain[second] - gain[first]))

    assert reached(-0.005) == pytest.approx(reached(0.005), abs=0.005)


def test_the_best_candidate_is_found_at_its_scale() -> None:
    """Items that hold many categories are far from every list; only the caller's candidate boosts them."""
    base, evaluator = world(0)
    rich = np.where(np.arange(50) < 5, 1.0, 0.0)
    item = base.item.copy()
    item[:5] = 0  # their score is 0 for all users
    base = base.with_vectors(item=item)
    categories = np.zeros((50, 15), bool)
    categories[:5] = np.eye(5, dtype=bool).repeat(3, axis=1)
    evaluator = replace(
        evaluator, context=Context(relevant=rich[None].repeat(60, 0), categories=categories, vectors=item)
    )
    found = run_controls(noise(base, 1), evaluator, "subtopic_coverage@5", "ndcg@5", draws=1, candidates={"rich": rich})
    assert set(found.bias.sources) == {"rich"}
    assert max(found.bias.scales) == max(SCALES)
    assert found.bias.objective > found.learned[0]
    assert found.bias.p_value > 0.9


def test_the_paired_test_serves_metrics_of_all_lists_together() -> None:
    base, evaluator = world(3)
    found = run_controls(noise(base, 3), evaluator, "catalogue_coverage@5", "ndcg@5", draws=3)
    assert found.objective == "catalogue_coverage@5"
    assert 0 < found.bias.p_value <= 1


def test_a_metric_that_should_be_low_gains_by_falling() -> None:
    base, evaluator = world(4)
    found = run_controls(noise(base, 4), evaluator, "gini@5", "ndcg@5", draws=3)
    assert not found.higher_is_better
    assert found.gain(found.base[0] - 0.1) == pytest.approx(0.1)
    assert found.bias.objective <= found.base[0]


def test_the_same_seed_gives_the_same_figures_and_progress_is_reported() -> None:
    base, evaluator = world(5)
    steps: list[tuple[str, int, int]] = []

    def figures() -> str:
        found = run_controls(
            noise(base, 5), evaluator, "subtopic_coverage@5", "ndcg@5", draws=3, on_step=lambda *it: steps.append(it)
        )
        return json.dumps(found.to_dict())

    assert figures() == figures()
    total = 9 + len(SCALES)
    assert steps == 2 * [("controls", n, total) for n in range(total + 1)]


def test_rows_of_all_controls() -> None:
    base, evaluator = world(6)
    rows = run_controls(noise(base, 6), evaluator, "subtopic_coverage@5", "ndcg@5", draws=2).rows()
    assert [row["control"] for row in rows] == [
        "learned",
        "shuffled among all",
        "shuffled within items",
        "shuffled within factors",
        "promotion of items",
    ]


def test_invalid_arguments_are_refused() -> None:
    base, evaluator = world(0)
    with pytest.raises(InputError, match="at least one draw"):
        run_controls(noise(base, 0), evaluator, draws=0)
    with pytest.raises(InputError, match="candidate 'short' has shape"):
        run_controls(
            noise(base, 0), evaluator, "subtopic_coverage@5", "ndcg@5", draws=1, candidates={"short": np.zeros(3)}
        )
    with pytest.raises(InputError, match="no control shuffles within 'items'"):
        run_controls(noise(base, 0), evaluator, "subtopic_coverage@5", "ndcg@5", draws=1)["items"]
