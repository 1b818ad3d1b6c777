"""The case study of the paper in a little world: raw features with names, and those of them that moved most."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import polars as pl
import pytest

from recprism.cmb import CMB
from recprism.cmb.factors import Change, Evaluator, Explanation, explain
from recprism.cmb.text.efm import item_quality, user_attention
from recprism.data import Categories, Dataset, Interactions, Split
from recprism.models import Factors

FEATURES = ("battery", "button", "cable", "case", "charger", "connector", "port", "screen", "sound", "volume")
OBJECTIVES = [("SC", "recall"), ("SC", "ndcg"), ("ILAD", "recall"), ("ILAD", "ndcg"), ("alpha_ndcg", "recall")]
"""Those of the table of features, and that of the heat map."""
World = tuple[Factors, Split, Categories]


@pytest.fixture(scope="module")
def world() -> World:
    """Forty users write about three of ten features of each of eight phones; scores are attention times quality."""
    generator = np.random.default_rng(0)
    spoken_of = [(user, item) for user in range(40) for item in generator.choice(30, 8, replace=False)]
    mentions = pl.DataFrame(
        [
            (user, int(item), FEATURES[feature], float(generator.choice([-1, 1])))
            for user, item in spoken_of
            for feature in generator.choice(10, 3, replace=False)
        ],
        schema=["user_id", "item_id", "feature", "sentiment"],
        orient="row",
    )
    user, item = np.array(spoken_of).T
    categories = mentions.select("item_id", category="feature").unique(maintain_order=True).head(90)
    data = Dataset.from_interactions("phones", Interactions(user, item, np.arange(40), np.arange(30)), categories)
    split = data.split(seed=0)
    attention, quality = user_attention(mentions, FEATURES), item_quality(mentions, FEATURES)
    factors = Factors.from_arrays(
        attention.aligned(split.user_ids).values / 5,
        quality.aligned(split.item_ids).values / 5,
        user_ids=split.user_ids,
        item_ids=split.item_ids,
    )
    return replace(factors, settings={"features": list(FEATURES)}), split, data.categories


def explained(world: World, goal: str, accuracy: str) -> tuple[np.ndarray, Explanation]:
    factors, split, categories = world
    diversity = {"SC": "subtopic_coverage", "ILAD": "ilad_paper"}.get(goal, goal)
    model = CMB.preset("paper", diversity=diversity, accuracy=accuracy, iterations=5, k=10, device="cpu")
    model.fit(factors, split, categories)
    evaluator = Evaluator.on(split, "test", factors, categories, ("ndcg@10", "subtopic_coverage@10"))
    assert model.delta_.item is not None
    return model.delta_.item.numpy(), explain(Change.of(factors, model.delta_), evaluator, draws=0)


@pytest.mark.parametrize(("goal", "accuracy"), OBJECTIVES)
def test_the_features_that_moved_most_are_named(world: World, goal: str, accuracy: str) -> None:
    delta, found = explained(world, goal, accuracy)
    assert found.axes == "raw", "named features are not turned"
    moved = np.abs(delta).mean(axis=0)
    assert moved.min() > 0
    assert [row.label for row in found.factors] == [FEATURES[at] for at in np.argsort(-moved)[:5]]
    np.testing.assert_allclose(found.shared(), moved, rtol=1e-5)


def test_the_heat_map_has_a_cell_for_each_item_and_feature(world: World) -> None:
    delta, found = explained(world, "alpha_ndcg", "recall")
    cells = found.individual()
    assert cells.shape == (30, len(FEATURES))
    np.testing.assert_allclose(cells, np.abs(delta), rtol=1e-6)
    some = found.individual(rows=[3, 7])
    assert [FEATURES[at] for at in some.argmax(axis=1)] == [FEATURES[at] for at in np.abs(delta)[[3, 7]].argmax(axis=1)]
