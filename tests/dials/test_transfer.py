"""Changes carried over: by id, on common axes, and to new items by likeness."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from recprism.data.subtopics import Subtopics
from recprism.dials.transfer import carried, items_like
from recprism.errors import InputError
from recprism.models import Factors
from recprism.models.alignment import align
from recprism.models.perturbation import Perturbation


def world(seed: int = 0) -> tuple[Factors, np.ndarray]:
    generator = np.random.default_rng(seed)
    factors = Factors.from_arrays(generator.normal(size=(12, 4)), generator.normal(size=(20, 4)))
    return factors, generator.normal(size=(20, 4)).astype(np.float32)


def test_a_copy_of_a_known_item_gets_its_change() -> None:
    factors, changes = world()
    item = factors.item.copy()
    item[3], item[7] = item[11], 2.5 * item[12]  # a copy, and one that is longer
    known = np.setdiff1d(np.arange(20), [3, 7])
    found = items_like(factors.with_vectors(item=item), known, changes[known])
    assert (found[known] == changes[known]).all()
    assert found[3] == pytest.approx(changes[11], abs=1e-5)
    assert found[7] == pytest.approx(changes[12], abs=1e-5)


def test_subtopics_decide_between_equally_near_items() -> None:
    factors, changes = world()
    item = np.tile(factors.item[:1], (20, 1))  # all alike
    topics = Subtopics.from_pairs(np.arange(20), ["drama" if number % 2 else "comedy" for number in range(20)], 20)
    known = np.arange(1, 20)
    found = items_like(factors.with_vectors(item=item), known, changes[known], topics, neighbours=3)
    assert found[0] == pytest.approx(changes[[2, 4, 6]].mean(0), abs=1e-5), "the first comedies"


def test_a_new_item_lies_between_its_neighbours() -> None:
    factors, changes = world()
    found = items_like(factors, np.arange(19), changes[:19], neighbours=4)
    assert (found[19] >= changes[:19].min(0)).all()
    assert (found[19] <= changes[:19].max(0)).all()
    alone = items_like(factors, np.array([5]), changes[[5]])
    assert alone == pytest.approx(np.tile(changes[5], (20, 1)), abs=1e-6)
    assert (items_like(factors, np.array([], np.int64), changes[:0]) == 0).all()


def test_a_turned_copy_of_the_model_serves_the_same_lists_with_the_carried_change() -> None:
    old, changes = world()
    turn, _ = np.linalg.qr(np.random.default_rng(9).normal(size=(4, 4)))
    new = old.with_vectors(user=(old.user @ turn).astype(np.float32), item=(old.item @ turn).astype(np.float32))
    new = new.of_items(np.arange(20)[::-1]).of_users(np.arange(12)[::-1])
    for change in (Perturbation(item=torch.from_numpy(changes)), Perturbation(user=torch.from_numpy(changes[:12]))):
        aligned = align(new, old).factors
        after = carried(change, old, aligned).applied_to(aligned)
        for user in range(12):
            assert after.recommend(user, 5)[0].tolist() == change.applied_to(old).recommend(user, 5)[0].tolist()


def test_new_users_stay_as_they_are() -> None:
    old, changes = world()
    some = old.of_users(np.arange(8))
    found = carried(Perturbation(user=torch.from_numpy(changes[:8])), some, old)
    assert found.item is None
    assert found.user is not None
    assert (found.user[8:] == 0).all()
    assert (found.user[:8].numpy() == changes[:8]).all()


def test_shapes_that_do_not_fit_are_refused() -> None:
    factors, changes = world()
    with pytest.raises(InputError, match="give one row of 4 each"):
        items_like(factors, np.arange(3), changes)
    narrow = Factors.from_arrays(factors.user[:, :3], factors.item[:, :3])
    with pytest.raises(InputError, match="4 columns and the model has 3"):
        carried(Perturbation(item=torch.from_numpy(changes)), factors, narrow)
