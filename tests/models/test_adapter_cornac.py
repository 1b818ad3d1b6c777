"""Converted models of Cornac rank as Cornac itself: live if Cornac is installed, else from a recording.

tools/record_cornac.py made the recording.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from recprism.data.dataset import Dataset
from recprism.errors import InputError, MissingDependencyError
from recprism.models import Factors
from recprism.models.adapters.cornac import KINDS, from_cornac

K = 10
RECORDED = Path(__file__).parents[1] / "golden" / "cornac"
MAKE = {
    "MF": {"k": 8, "max_iter": 5},
    "SVD": {"k": 8, "max_iter": 5},
    "BPR": {"k": 8, "max_iter": 5},
    "WBPR": {"k": 8, "max_iter": 5},
    "MMMF": {"k": 8, "max_iter": 3},
    "PMF": {"k": 8, "max_iter": 3},
}


@pytest.mark.parametrize("kind", MAKE)
def test_recorded_models_rank_as_cornac_did(kind: str) -> None:
    factors = Factors.load(RECORDED / f"{kind}.safetensors")
    theirs = json.loads((RECORDED / f"{kind}.lists.json").read_text(encoding="utf-8"))
    assert factors.settings["model"] == f"cornac.{kind}"
    assert (factors.item_bias is None) == (kind == "PMF")
    assert list(theirs) == factors.user_ids.tolist()
    for user, wanted in theirs.items():
        assert factors.recommend(user, K)[0].tolist() == wanted


@pytest.fixture(scope="module")
def cornac() -> Any:
    return pytest.importorskip(
        "cornac",
        reason="cornac is not installed (no wheel for ARM): its adapter is tested from a recording only",
    )


@pytest.fixture(scope="module")
def triples(cornac: Any, small: Dataset) -> list[tuple[str, int, float]]:
    """Triples of user, item and rating, with text user ids and integer item ids; all ratings differ."""
    train = small.split(seed=0).train
    stars = np.random.default_rng(0).integers(1, 6, len(train))
    rows = zip(train.row_of_entry, train.indices, stars, strict=True)
    return [(f"u{user}", int(item) + 1000, float(star)) for user, item, star in rows]


def fitted(kind: str, triples: list[tuple[str, int, float]], **changed: Any) -> Any:
    import cornac

    model = getattr(cornac.models, kind)(**{**MAKE[kind], "seed": 3, **changed})
    return model.fit(cornac.data.Dataset.from_uir(triples, seed=3))


@pytest.mark.parametrize("kind", MAKE)
def test_models_rank_as_their_own_recommend(kind: str, triples: list[tuple[str, int, float]]) -> None:
    model = fitted(kind, triples)
    factors = from_cornac(model)
    ids, _ = factors.recommend(factors.user_ids, K)
    number = {item: row for row, item in enumerate(factors.item_ids.tolist())}
    same = 0
    for row, user in enumerate(factors.user_ids):
        theirs, mine = model.recommend(user, k=K), ids[row].tolist()
        scores = model.score(model.uid_map[user])
        at_theirs, at_mine = (scores[[number[item] for item in items]] for items in (theirs, mine))
        # only items whose float scores tie may change places
        np.testing.assert_allclose(at_mine, at_theirs, rtol=1e-5, atol=1e-6)
        same += mine == theirs
    assert same >= 0.99 * factors.n_users
    assert factors.settings["model"] == f"cornac.{kind}" and factors.settings["k"] == 8


@pytest.mark.parametrize("kind", ["MF", "BPR"])
def test_terms_that_are_the_same_for_all_items_are_dropped(kind: str, triples: list[tuple[str, int, float]]) -> None:
    model = fitted(kind, triples)
    factors = from_cornac(model)
    np.testing.assert_array_equal(factors.item_bias, model.i_biases)
    ours = factors.user[5] @ factors.item.T + model.i_biases
    dropped = model.score(5) - ours
    np.testing.assert_allclose(dropped, dropped[0], atol=1e-5)
    assert from_cornac(fitted(kind, triples, use_bias=False)).item_bias is None


def test_users_and_items_without_training_are_dropped(cornac: Any, triples: list[tuple[str, int, float]]) -> None:
    # as in Cornac's own experiments, users and items of the test set join the ids of the training set
    strangers = [("new", 1000, 4.0), ("u0", 7, 5.0)]
    method = cornac.eval_methods.BaseMethod.from_splits(
        train_data=triples, test_data=strangers, exclude_unknowns=False, seed=3
    )
    model = cornac.models.BPR(k=4, max_iter=1, seed=3).fit(method.train_set)
    assert "new" in model.uid_map and 7 in model.iid_map and len(model.u_factors) == method.total_users
    factors = from_cornac(model)
    assert factors.n_users == method.train_set.num_users == method.total_users - 1
    assert factors.n_items == method.train_set.num_items == method.total_items - 1
    assert "new" not in factors.user_ids and 7 not in factors.item_ids


def test_scores_of_nmf_are_those_of_its_pairs(cornac: Any, triples: list[tuple[str, int, float]]) -> None:
    # pair by pair, because Cornac 3.0.1 mixes float32 and float64 when NMF scores all items at once
    model = cornac.models.NMF(k=8, max_iter=3, use_bias=True, seed=3).fit(cornac.data.Dataset.from_uir(triples, seed=3))
    factors = from_cornac(model)
    for user in range(3):
        theirs = np.array([model.score(user, item) for item in range(factors.n_items)])
        items, _ = factors.rank(K, users=np.array([user]))
        np.testing.assert_allclose(theirs[items[0]], np.sort(theirs)[::-1][:K], rtol=1e-6)


def test_weights_of_wmf(cornac: Any, triples: list[tuple[str, int, float]]) -> None:
    data = cornac.data.Dataset.from_uir(triples, seed=3)
    rng = np.random.default_rng(0)
    weights = {"U": rng.normal(size=(data.num_users, 4)), "V": rng.normal(size=(data.num_items, 4))}
    # fitting WMF needs tensorflow; a model with given weights does not
    model = cornac.models.WMF(k=4, trainable=False, init_params=weights, seed=3).fit(data)
    factors = from_cornac(model)
    for user in factors.user_ids[:20]:
        assert factors.recommend(user, K)[0].tolist() == model.recommend(user, k=K)


def test_other_objects_raise_an_error(cornac: Any) -> None:
    with pytest.raises(InputError, match=r"builtins\.object is no model of Cornac"):
        from_cornac(object())
    with pytest.raises(InputError, match="MostPop is no model of Cornac that can be read"):
        from_cornac(cornac.models.MostPop())
    for kind in KINDS:
        with pytest.raises(InputError, match=f"this {kind} is not fitted yet"):
            from_cornac(getattr(cornac.models, kind)())


def test_the_error_without_cornac_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "cornac", None)
    with pytest.raises(MissingDependencyError, match=r"recprism\[cornac\]"):
        from_cornac(object())
