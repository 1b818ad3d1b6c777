"""The planted world: Shared finds what is planted; norms, variances and distributions alone do not."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from recprism.cmb import CMB, permuted
from recprism.cmb.factors._ranking import shared
from recprism.cmb.factors.evaluator import Evaluator
from recprism.cmb.factors.naming import Labels, name_coordinates
from recprism.data.categories import Categories
from recprism.errors import InputError
from recprism.models import Factors
from recprism.models.perturbation import Perturbation
from recprism.testing.planted import Planted, make_planted

pytestmark = pytest.mark.slow

SEEDS = range(20)


def learned(world: Planted, seed: int = 0) -> CMB:
    factors = Factors.from_arrays(world.user, world.item)
    return CMB(diversity="subtopic_coverage", seed=seed, device="cpu").fit(factors, world.split, world.categories)


def moved(world: Planted, seed: int = 0) -> np.ndarray:
    delta = learned(world, seed).delta_.item
    assert delta is not None
    return delta.numpy()


def test_shared_puts_the_planted_factors_on_top_and_sizes_do_not() -> None:
    worlds = [make_planted(seed=seed) for seed in SEEDS]
    found = [world.precision(shared(moved(world, seed))) for seed, world in zip(SEEDS, worlds, strict=True)]
    assert np.mean(found) >= 0.9
    for side in ("user", "item"):
        by_norm = [world.precision(np.linalg.norm(getattr(world, side), axis=0)) for world in worlds]
        by_variance = [world.precision(getattr(world, side).var(axis=0)) for world in worlds]
        assert np.mean(by_norm) <= 0.5
        assert np.mean(by_variance) <= 0.5


def test_the_distribution_of_planted_factors_does_not_identify_them() -> None:
    """The same vectors with the categories of other items: no factor stands out."""
    found = []
    for seed in range(5):
        world = make_planted(seed=seed)
        has = world.categories.items
        other = np.random.default_rng(seed).permutation(has.n_rows)
        names = np.asarray(world.categories.names)[has.indices]
        mixed = replace(world, categories=Categories.from_pairs(other[has.row_of_entry], names, has.n_rows))
        found.append(mixed.precision(shared(moved(mixed, seed))))
    assert np.mean(found) <= 0.5


def test_lists_lack_diversity_and_the_learner_brings_it() -> None:
    world = make_planted(seed=0)
    model = learned(world)
    judge = Evaluator.on(world.split, "validation", model.base_, world.categories, ["subtopic_coverage@10"])
    before, after = (judge.means(factors)["subtopic_coverage@10"] for factors in (model.base_, model.factors_))
    assert before < 0.7
    assert after > before + 0.05


@pytest.mark.parametrize("unrelated", ["half", "one"])
def test_with_nothing_planted_no_factor_gets_a_name(unrelated: str) -> None:
    worlds = [make_planted(n_planted=0, unrelated=unrelated, seed=seed) for seed in range(10)]  # type: ignore[arg-type]
    named = [any(it.reliable for it in name_coordinates(w.item, Labels.of(w.categories))) for w in worlds]
    assert sum(named) <= 2
    assert not len(worlds[0].planted)


def test_with_nothing_planted_a_shuffled_change_does_as_well() -> None:
    world = make_planted(n_planted=0, seed=3)
    model = learned(world)
    assert model.delta_.item is not None
    judge = Evaluator.on(world.split, "validation", model.base_, world.categories, ["subtopic_coverage@10"])
    shuffled = [Perturbation(item=permuted(model.delta_.item, seed, "item")) for seed in range(5)]
    others = [judge.means(it.applied_to(model.base_))["subtopic_coverage@10"] for it in shuffled]
    assert judge.means(model.factors_)["subtopic_coverage@10"] - np.mean(others) < 0.002


def test_planted_factors_do_get_names() -> None:
    world = make_planted(seed=1)
    names = name_coordinates(world.item, Labels.of(world.categories))
    assert [number for number, name in enumerate(names) if name.reliable] == world.planted.tolist()


def test_a_world_is_the_same_for_the_same_seed_and_refuses_the_impossible() -> None:
    one, two, other = (
        make_planted(60, 50, takes=5, seed=1),
        make_planted(60, 50, takes=5, seed=1),
        make_planted(60, 50, takes=5, seed=2),
    )
    np.testing.assert_array_equal(one.user, two.user)
    np.testing.assert_array_equal(one.split.train.keys, two.split.train.keys)
    assert not np.array_equal(one.user, other.user)
    with pytest.raises(InputError, match="no more planted factors"):
        make_planted(n_planted=21)
    with pytest.raises(InputError, match="nothing is planted"):
        make_planted(60, 50, n_planted=0, takes=5).precision(np.zeros(20))
    with pytest.raises(InputError, match="half or one"):
        make_planted(60, 50, n_planted=0, takes=5, unrelated="all")  # type: ignore[arg-type]
