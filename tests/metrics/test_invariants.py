"""All registered metrics pass the conformance suite; some have properties of their own."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from recprism.metrics import METRICS, Context, Lists
from recprism.metrics.registry import find
from recprism.testing import check_metric

DEPTH = 20
ORDER_FREE = {  # metrics of the set of items, not of its order
    *("recall", "precision", "hit_rate", "subtopic_coverage", "subtopic_coverage_shared", "subtopic_entropy"),
    *("ilad", "ilad_subtopics", "ilad_attributes", "ilad_paper", "min_ild", "min_ild_subtopics", "min_ild_attributes"),
    *(
        "catalogue_coverage",
        "shown_often",
        "gini",
        "exposure_entropy",
        "personalisation",
        "tail_share",
        "novelty",
        "calibration",
    ),
}
BY_POPULARITY = {"tail_share", "ndcg_head", "ndcg_mid", "ndcg_tail"}  # ties at the end of the head go by item number


@pytest.mark.parametrize("name", METRICS)
def test_every_metric_conforms(name: str) -> None:
    check_metric(METRICS[name], order_matters=name not in ORDER_FREE, numbering_matters=name in BY_POPULARITY)


@pytest.mark.parametrize("times", [1, 2, 7])
def test_metrics_with_a_number_in_their_name_conform(times: int) -> None:
    check_metric(find(f"shown_{times}_times"), order_matters=False)


@given(st.integers(2, 6), st.integers(2, DEPTH), st.floats(0.01, 0.99))
def test_a_list_of_one_category_is_below_the_catalogue_ideal_but_ideal_to_itself(
    n_categories: int, k: int, alpha: float
) -> None:
    """The list ideal scores order alone: the flaw that made the catalogue ideal the default."""
    categories = np.repeat(np.eye(n_categories), DEPTH, axis=0)
    lists = Lists(np.arange(DEPTH)[None], Context(categories=categories)).at(k)
    catalogue, itself = (METRICS[name].variant("here", {"alpha": alpha}) for name in ("alpha_ndcg", "alpha_ndcg_list"))
    assert catalogue(lists).item() < 1
    assert itself(lists).item() == 1.0


@settings(max_examples=25)
@given(st.integers(0, 2**32))
def test_a_list_of_the_users_own_items_is_calibrated(seed: int) -> None:
    """The training items themselves as the list: no list is closer to their proportions."""
    generator = np.random.default_rng(seed)
    n_users, n_items, n_categories = generator.integers(2, 9), generator.integers(DEPTH, 41), generator.integers(1, 7)
    train = generator.random((n_users, n_items)) < generator.choice([0.02, 0.3])
    categories = np.eye(n_categories + 1)[generator.integers(0, n_categories + 1, n_items)][:, 1:]
    own = np.array([np.pad(np.flatnonzero(row), (0, 40))[:n_items] for row in train])
    own[np.arange(n_items) >= train.sum(1)[:, None]] = -1
    exact = METRICS["calibration"](Lists(own, Context(train=train, categories=categories))).numpy()
    np.testing.assert_allclose(exact[~np.isnan(exact)], 0, atol=1e-12)
    assert np.isnan(exact).tolist() == (~(train.astype(float) @ categories).any(1)).tolist()


@pytest.mark.parametrize("name", ["alpha_ndcg_list", "alpha_ndcg_paper"])
def test_twenty_items_of_one_category_score_exactly_one_under_the_list_ideal(name: str) -> None:
    context = Context(relevant=np.ones((1, 40)), train=np.zeros((1, 40)), categories=np.repeat(np.eye(2), 20, axis=0))
    for k in (10, 20):
        assert METRICS[name](Lists(np.arange(20)[None], context).at(k)).item() == 1.0


def test_a_greedy_ideal_can_be_beaten_and_is_not_clipped() -> None:
    """All gain 2 at first; greedy takes item 0, after which 1 and 2 add 1 each. Better: 1, 2 and then 0 for nothing."""
    context = Context(categories=[[1, 1, 0, 0], [1, 0, 1, 0], [0, 1, 0, 1]])
    metric = METRICS["alpha_ndcg"].variant("strict", {"alpha": 1.0})
    second, third = 1 / np.log2(3), 1 / 2
    beaten = metric(Lists([[1, 2, 0]], context)).item()
    assert beaten == pytest.approx((2 + 2 * second) / (2 + second + third))
    assert beaten > 1
