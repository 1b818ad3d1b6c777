"""Plain promotion and the rest, metric by metric."""

from __future__ import annotations

import json

import numpy as np
import pytest

from recprism.cmb.factors.change import Change
from recprism.cmb.factors.evaluator import Evaluator
from recprism.cmb.factors.parts import PartsOfOne, bias_and_rest, is_small
from recprism.data.sparse_rows import SparseRows
from recprism.errors import InputError
from recprism.metrics import Context
from recprism.models import Factors


def world(user: np.ndarray, item: np.ndarray, delta: np.ndarray) -> tuple[Change, Evaluator]:
    base = Factors.from_arrays(user, item)
    categories = np.eye(len(item), dtype=bool)[:, :10]
    context = Context(categories=categories, vectors=item, n_items=len(item))
    evaluator = Evaluator(
        context, SparseRows.empty((len(user), len(item))), ("catalogue_coverage@3", "subtopic_coverage@3")
    )
    return Change(base, item=delta.astype(np.float32)), evaluator


def test_a_promotion_that_is_the_same_for_all_is_all_bias() -> None:
    generator = np.random.default_rng(0)
    user = np.hstack([np.ones((20, 1)), generator.normal(size=(20, 3))])
    delta = np.zeros((30, 4))
    delta[:, 0] = generator.normal(size=30)  # every user's factor 0 is 1
    parts = bias_and_rest(*world(user, generator.normal(size=(30, 4)), delta))
    for row in parts.rows:
        assert row.bias == pytest.approx(row.full)
        assert row.rest == pytest.approx(0)
    assert parts["subtopic_coverage@3"].bias_share == pytest.approx(1)


def test_a_gain_of_one_half_and_a_loss_of_the_other_is_no_bias() -> None:
    generator = np.random.default_rng(0)
    side = np.where(np.arange(20) < 10, 1.0, -1.0)[:, None]  # two groups with opposite signs in factor 0
    user = np.hstack([side, np.ones((20, 1))])
    item = np.hstack([np.zeros((30, 1)), generator.normal(size=(30, 1))])
    delta = np.zeros((30, 2))
    delta[:, 0] = 3 * generator.normal(size=30)
    parts = bias_and_rest(*world(user, item, delta))
    row = parts["catalogue_coverage@3"]
    assert row.full == pytest.approx(0.1)
    assert row.bias_share == pytest.approx(0)
    assert row.rest_share == pytest.approx(1)
    assert "plain promotion of items alone makes 0% and the rest alone 100%" in parts.sentence("catalogue_coverage@3")
    assert "need not add up" in parts.sentence("catalogue_coverage@3")


def test_there_are_no_shares_without_a_change() -> None:
    row = PartsOfOne("subtopic_coverage@10", 0.5, 1e-5, 0.1, 0.2)
    assert row.bias_share is None
    assert row.rest_share is None
    assert "did not change enough to be divided" in row.sentence()
    assert is_small(float("nan"), 1.0)
    assert is_small(0.0, 0.0)
    assert not is_small(0.01, 0.0)
    assert not is_small(-0.01, 0.0)


def test_plain_values_and_a_frame() -> None:
    generator = np.random.default_rng(1)
    parts = bias_and_rest(
        *world(*(generator.normal(size=shape) for shape in ((20, 4), (30, 4))), generator.normal(size=(30, 4)))
    )
    assert [row["metric"] for row in json.loads(json.dumps(parts.to_dict()))["rows"]] == [
        "catalogue_coverage@3",
        "subtopic_coverage@3",
    ]
    with pytest.raises(InputError, match="ndcg@3 was not judged"):
        parts["ndcg@3"]
