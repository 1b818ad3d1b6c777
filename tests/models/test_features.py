"""benchmarks/feature_model.py on small data in which each user likes one feature."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from recprism.data import Interactions, Split
from recprism.data.feature_matrix import FeatureMatrix
from recprism.data.split import split_interactions
from recprism.errors import InputError, RecprismError
from recprism.metrics import Context, evaluate
from recprism.models import Factors

sys.path.insert(0, str(Path(__file__).parents[2] / "benchmarks"))
from feature_model import FeatureModel, completed

N_FEATURES, PER_FEATURE = 4, 15


@pytest.fixture(scope="module")
def world() -> tuple[Split, FeatureMatrix]:
    """60 items with one feature each; 80 users, each with ten of the fifteen items of one feature."""
    generator = np.random.default_rng(0)
    feature_of = np.arange(N_FEATURES * PER_FEATURE) % N_FEATURES
    rows = [
        (user, item)
        for user in range(80)
        for item in generator.choice(np.flatnonzero(feature_of == user % N_FEATURES), 10, replace=False)
    ]
    user, item = np.array(rows).T
    ids = np.arange(80), np.arange(len(feature_of))
    split = split_interactions(Interactions(user, item, *ids), seed=0)
    names = tuple(f"f{number}" for number in range(N_FEATURES))
    return split, FeatureMatrix(split.item_ids, names, 5 * np.eye(N_FEATURES, dtype=np.float32)[feature_of])


def ndcg(factors: Factors, split: Split) -> float:
    items, _ = factors.rank(10, exclude=split.seen_before_test)
    return evaluate(items, Context.from_split(split, "test"), ["ndcg@10"], bootstrap=0).scores[0].mean


@pytest.mark.parametrize("completion", [None, 1.0])
def test_it_learns_the_feature_of_each_user(world: tuple[Split, FeatureMatrix], completion: float | None) -> None:
    split, features = world
    factors = FeatureModel(completion=completion).fit(split, features, device="cpu")
    assert factors.settings["features"] == ["f0", "f1", "f2", "f3"]
    assert factors.item.shape == (60, N_FEATURES)
    assert factors.item_bias is not None
    assert (factors.user.argmax(1) == np.arange(80) % N_FEATURES).mean() > 0.95
    noise = np.random.default_rng(1).normal(size=(2, 80, 4))
    random = Factors.from_arrays(noise[0], noise[1, :60], user_ids=split.user_ids, item_ids=split.item_ids)
    assert ndcg(factors, split) > 3 * ndcg(random, split)


def test_a_breakdown_names_a_user_or_an_item(world: tuple[Split, FeatureMatrix]) -> None:
    split, features = world
    model, kept = FeatureModel(completion=None, epochs=1, patience=None), []
    model.fit(split, features, device="cpu", checkpoint=lambda *state: kept.append(state))
    (arrays, facts) = kept[0]
    for place, name in ((5 * N_FEATURES + 1, "user 5"), (80 * N_FEATURES + 3, "item 3")):
        broken = {**arrays, "parameters": arrays["parameters"].copy()}
        broken["parameters"][place] = np.nan
        with pytest.raises(RecprismError, match=f"epoch 2, step .* the vector of {name} is the first"):
            replace(model, epochs=2).fit(split, features, device="cpu", resume=(broken, facts))


def test_a_change_of_item_features_changes_the_lists(world: tuple[Split, FeatureMatrix]) -> None:
    split, features = world
    factors = FeatureModel(completion=None).fit(split, features, device="cpu")
    assert factors.item.max() == 1, "scaled"
    moved = factors.item.copy()
    moved[:, [0, 1]] = moved[:, [1, 0]]
    before, after = (it.rank(5)[0][0] for it in (factors, factors.with_vectors(item=moved)))
    assert set(before % N_FEATURES) == {0}
    assert set(after % N_FEATURES) == {1}


def test_same_seed_same_bits_also_after_resuming(world: tuple[Split, FeatureMatrix]) -> None:
    split, features = world
    model = FeatureModel(epochs=4, patience=None)
    kept: list[tuple[dict[str, object], dict[str, object]]] = []
    sink: Callable[..., None] = lambda arrays, facts: kept.append((dict(arrays), dict(facts)))  # noqa: E731
    whole = model.fit(split, features, seed=3, device="cpu", checkpoint=sink)
    again = model.fit(split, features, seed=3, device="cpu")
    resumed = model.fit(split, features, seed=3, device="cpu", resume=kept[1])  # type: ignore[arg-type]
    for other in (again, resumed):
        assert (whole.user == other.user).all()
        assert (whole.item_bias == other.item_bias).all()  # type: ignore[union-attr]
    others = FeatureMatrix(features.ids, features.names, features.values[:, ::-1].copy())
    with pytest.raises(InputError, match="written with item features"):
        model.fit(split, others, seed=3, device="cpu", resume=kept[1])  # type: ignore[arg-type]


def test_only_missing_cells_are_completed() -> None:
    vectors = np.repeat(np.eye(2, dtype=np.float32), 4, axis=0)
    known = np.zeros((8, 2), np.float32)
    known[[0, 1, 2], 0] = 0.8
    known[[4, 5], 1] = 0.4
    full = completed(known, vectors, 0.1)
    assert (full[known != 0] == known[known != 0]).all()
    assert full[3, 0] > full[7, 0]
    assert full.min() >= 0
    assert (full <= known.max(0)).all()


def test_bad_input(world: tuple[Split, FeatureMatrix]) -> None:
    split, features = world
    with pytest.raises(InputError, match="all 0 or not finite"):
        FeatureModel().fit(split, FeatureMatrix(features.ids, features.names, features.values * 0))
    with pytest.raises(InputError, match="none of the 60 ids"):
        FeatureModel().fit(split, FeatureMatrix(features.ids + 1000, features.names, features.values))
    with pytest.raises(InputError, match="early stopping needs a validation part"):
        FeatureModel().fit(split.refit(), features)
    assert FeatureModel(patience=None, epochs=1).fit(split.refit(), features, device="cpu").dim == N_FEATURES
    with pytest.raises(InputError, match="completion"):
        FeatureModel(completion=0.0)
