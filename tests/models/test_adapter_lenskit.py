"""Converted scorers of LensKit rank as LensKit itself: live if LensKit is installed, else from a recording.

The recording was made by tools/record_lenskit.py in an environment of its own.
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
from recprism.models.adapters.lenskit import from_lenskit

K = 10
RECORDED = Path(__file__).parents[1] / "golden" / "lenskit"
SCORERS = ("BiasedMFScorer", "ImplicitMFScorer")


@pytest.mark.parametrize("kind", SCORERS)
def test_recorded_models_rank_as_lenskit_did(kind: str) -> None:
    factors = Factors.load(RECORDED / f"{kind}.safetensors")
    theirs = json.loads((RECORDED / f"{kind}.lists.json").read_text())
    assert factors.settings["model"] == f"lenskit.{kind}"
    assert (factors.item_bias is not None) == (kind == "BiasedMFScorer")
    for user, (seen, wanted) in theirs.items():
        ids, _ = factors.recommend(int(user), factors.n_items)
        ours = [item for item in ids.tolist() if item not in seen]
        assert ours[: len(wanted)] == wanted


@pytest.fixture(scope="module")
def lenskit() -> Any:
    return pytest.importorskip(
        "lenskit", reason="lenskit is not installed (it asks for pandas 2): its adapter is tested from a recording only"
    )


@pytest.fixture(scope="module")
def data(lenskit: Any, small: Dataset) -> Any:
    """The training part of the embedded data set, with text item ids and random ratings."""
    import pandas as pd
    from lenskit.data import from_interactions_df

    train = small.split(seed=0).train
    stars = np.random.default_rng(0).integers(1, 6, len(train)).astype(float)
    items = [f"i{item}" for item in train.indices]
    return from_interactions_df(pd.DataFrame({"user_id": train.row_of_entry, "item_id": items, "rating": stars}))


def trained(kind: str, data: Any, **settings: Any) -> Any:
    import lenskit.als
    from lenskit.pipeline import topn_pipeline

    pipeline = topn_pipeline(getattr(lenskit.als, kind)(embedding_size=8, epochs=3, **settings))
    pipeline.train(data)
    return pipeline


@pytest.mark.parametrize("kind", SCORERS)
@pytest.mark.parametrize("kept", [True, "prefer"])
def test_a_pipeline_ranks_as_its_own_recommend(kind: str, kept: Any, data: Any) -> None:
    from lenskit import recommend

    pipeline = trained(kind, data, user_embeddings=kept)
    factors = from_lenskit(pipeline)
    assert factors.user_ids.tolist() == data.users.ids().tolist()
    for user in factors.user_ids[:100]:
        theirs = recommend(pipeline, user, K)
        seen = set(data.user_row(user).ids().tolist())
        ids, scores = factors.recommend(user, factors.n_items)
        fresh = np.array([item not in seen for item in ids])
        assert ids[fresh][:K].tolist() == theirs.ids().tolist()
        dropped = theirs.scores() - scores[fresh][:K]
        np.testing.assert_allclose(dropped, dropped[0], atol=1e-4)


@pytest.mark.parametrize("kind", SCORERS)
def test_a_scorer_alone_ranks_by_its_own_vectors(kind: str, data: Any) -> None:
    from lenskit.data import ItemList

    scorer = trained(kind, data).component("scorer")
    factors = from_lenskit(scorer)
    np.testing.assert_array_equal(factors.user, scorer.user_embeddings)
    everything = ItemList(item_ids=data.items.ids(), vocabulary=data.items)
    for user in factors.user_ids[:50]:
        theirs = scorer(user, everything).scores()
        order = data.items.ids()[np.argsort(-theirs, kind="stable")[:K]]
        assert factors.recommend(user, K)[0].tolist() == order.tolist()


def test_other_objects_raise_an_error(lenskit: Any, data: Any) -> None:
    from lenskit.als import BiasedMFScorer, ImplicitMFScorer
    from lenskit.basic import PopScorer
    from lenskit.pipeline import topn_pipeline

    with pytest.raises(InputError, match=r"builtins\.object is no scorer of LensKit"):
        from_lenskit(object())
    with pytest.raises(InputError, match="PopScorer is no scorer of LensKit"):
        from_lenskit(topn_pipeline(PopScorer()))
    for model in (BiasedMFScorer(), topn_pipeline(ImplicitMFScorer())):
        with pytest.raises(InputError, match="is not trained yet"):
            from_lenskit(model)
    with pytest.raises(InputError, match="no component 'mine'; name its scorer"):
        from_lenskit(topn_pipeline(BiasedMFScorer()), scorer="mine")
    with pytest.raises(InputError, match="kept no user vectors"):
        from_lenskit(trained("ImplicitMFScorer", data, user_embeddings=False))


def test_the_error_without_lenskit_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "lenskit", None)
    with pytest.raises(MissingDependencyError, match=r"recprism\[lenskit\]"):
        from_lenskit(object())
