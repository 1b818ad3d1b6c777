"""Every metric on a world small enough to compute by hand."""

from __future__ import annotations

import math

import numpy as np
import pytest
from numpy.typing import NDArray

from recprism.metrics import METRICS, Context, evaluate
from recprism.metrics import lists as lists_module
from recprism.metrics.compiled import COMPILED
from recprism.metrics.operations import PLAIN, Kernels

NAN = math.nan
SECOND, FOURTH = 1 / math.log2(3), 1 / math.log2(5)
IDEAL = 2 + SECOND + 0.5 / 2 + 0.5 * FOURTH  # items 2, 4, 0, 3 gain 2, 1, 1/2, 1/2
ALL_RELEVANT = 1 + 0.5 / 2 + 0.25 / 3 + 0.125 / 4  # ERR of four places that are all relevant to a category
DIAGONAL = 1 - math.sqrt(0.5)  # distance between (1, 0) and (1, 1)
EVEN_PAIR = math.log(2) / math.log(3)  # two of three categories, alike

PER_USER = {
    "recall@4": [1, 1, NAN],
    "recall@1": [0.5, 0, NAN],
    "precision@4": [0.5, 0.25, NAN],
    "hit_rate@1": [1, 0, NAN],
    "hit_rate@2": [1, 1, NAN],
    "mrr@4": [1, 0.5, NAN],
    "mrr@1": [1, 0, NAN],
    "ndcg@4": [1.5 / (1 + SECOND), SECOND, NAN],
    "ndcg@1": [1, 0, NAN],
    "alpha_ndcg@4": [
        (1 + 0.5 * SECOND + 0.5 + FOURTH) / IDEAL,
        (2 + SECOND) / IDEAL,
        (SECOND + 1.5 / 2 + 0.5 * FOURTH) / IDEAL,
    ],
    "alpha_ndcg@1": [0.5, 1, 0],
    # user 0 has A and B of items 1, 0 and 3; user 1 has A, B and C of items 2 and 4; user 2 has item 5, without any
    "alpha_ndcg_gated@4": [
        (1 + 0.5 * SECOND + 0.5) / (2 + 0.5 * SECOND + 0.5 / 2 + 0.25 * FOURTH),
        (2 + SECOND) / IDEAL,
        NAN,
    ],
    "alpha_ndcg_list@4": [
        (1 + 0.5 * SECOND + 0.5 + FOURTH) / (1 + SECOND + 0.5 + 0.5 * FOURTH),
        1,
        (SECOND + 1.5 / 2 + 0.5 * FOURTH) / (2 + 0.5 * SECOND + 0.5 / 2),
    ],
    # user 0 takes items 0 (A) and 3 (B), at places 1 and 3; user 1 takes item 4 (C), at place 2
    "alpha_ndcg_relevant@4": [1.5 / (1 + SECOND), SECOND, NAN],
    "alpha_ndcg_relevant@1": [1, 0, NAN],
    "err_ia@4": [(1 + 1 / 3) / (2 * ALL_RELEVANT), 1 / 2 / ALL_RELEVANT, NAN],
    "err_ia@1": [1 / 2, 0, NAN],
    "subtopic_coverage@4": [1, 1, 2 / 3],
    "subtopic_coverage@1": [1 / 3, 2 / 3, 0],
    "subtopic_coverage_shared@4": [1, 2 / 3, 2 / 3],
    "subtopic_coverage_shared@1": [1 / 3, 1 / 3, 0],
    "subtopic_entropy@4": [1.5 * EVEN_PAIR, 1.5 * EVEN_PAIR, EVEN_PAIR],
    "subtopic_entropy@1": [0, EVEN_PAIR, 0],
    "ilad@4": [(0 + 2 + DIAGONAL + 2 + DIAGONAL + 2 - DIAGONAL) / 6, DIAGONAL, (1 + 2 + 1) / 6],
    "ilad@1": [0, 0, 0],
    "ilad_paper@4": [(4 + DIAGONAL + 2) / 12, DIAGONAL / 2, 4 / 12],
    "min_ild@4": [0, DIAGONAL, 0],
    "min_ild@1": [0, 0, 0],
    "ilad_subtopics@4": [5 / 6, 1, (DIAGONAL + 1 + DIAGONAL) / 6],
    "min_ild_subtopics@2": [0, 1, 0],
    "ilad_attributes@4": [1, 1, 1],
    "min_ild_attributes@4": [1, 1, 1],
    "tail_share@4": [0.5, 0.5, 0.5],
    "tail_share@1": [0, 0, 1],
    # 8 of 16 interactions are more than a third: item 0 is the head; 1 (from 8 on) the middle; 2, 3, 4, 5 the tail
    "ndcg_head@4": [1, NAN, NAN],
    "ndcg_mid@4": [NAN, NAN, NAN],
    "ndcg_tail@4": [0.5, SECOND, NAN],
    # user 0 trained on A alone, of which the list holds 1/2 (1/1 at first); user 1 on A and B, of which it has 1/4 each
    "calibration@4": [-math.log(0.99 / 2 + 0.01), -math.log(0.99 / 2 + 0.01), NAN],
    "calibration@1": [0, 0, NAN],
    "novelty@1": [1, 3, 4],
    "novelty@2": [1.5, 3.5, 2.5],
}
TOGETHER = {
    "catalogue_coverage@4": 1,
    "catalogue_coverage@1": 0.5,
    "shown_often@4": 0,  # three lists are too few
    "gini@4": 8 / 60,
    "gini@1": 0.5,
    "exposure_entropy@1": math.log(3) / math.log(6),
    "personalisation@4": 1 - (1 / math.sqrt(8) + 0.5 + 1 / math.sqrt(8)) / 3,
    "personalisation@1": 1,
}


@pytest.fixture(params=[PLAIN, COMPILED], ids=["torch", "numba"], autouse=True)
def kernels(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Kernels:
    monkeypatch.setattr(lists_module, "kernels_for", lambda _device: request.param)
    return request.param


@pytest.mark.parametrize("name", PER_USER)
def test_values_per_user(name: str, world: Context, items: NDArray[np.int64]) -> None:
    result = evaluate(items, world, [name], bootstrap=0)
    np.testing.assert_allclose(result.values[name], PER_USER[name], atol=1e-7)
    judged = [value for value in PER_USER[name] if not math.isnan(value)]
    assert result[name].mean == pytest.approx(np.mean(judged) if judged else NAN, abs=1e-7, nan_ok=True)
    assert result[name].left_out == np.isnan(PER_USER[name]).sum()


@pytest.mark.parametrize("name", TOGETHER)
def test_values_of_all_lists_together(name: str, world: Context, items: NDArray[np.int64]) -> None:
    assert evaluate(items, world, [name], bootstrap=0)[name].mean == pytest.approx(TOGETHER[name])


@pytest.mark.parametrize(
    ("name", "share"), [("shown_1_times@1", 0.5), ("shown_2_times@4", 4 / 6), ("shown_3_times@4", 0)]
)
def test_shown_so_many_times(name: str, share: float, world: Context, items: NDArray[np.int64]) -> None:
    """Items 0, 2, 3 and 4 are in two lists, 1 and 5 in one."""
    assert evaluate(items, world, [name], bootstrap=0)[name].mean == pytest.approx(share)


def test_paper_alpha_ndcg_takes_ten_places_of_an_ideal_over_twenty() -> None:
    """Twenty items, all of category A but the last two: the ideal brings these two to the front."""
    categories = np.zeros((20, 3))
    categories[:18, 0] = categories[18, 1] = categories[19, 2] = 1
    context = Context(relevant=np.ones((1, 20)), train=np.zeros((1, 20)), categories=categories)
    result = evaluate(np.arange(20)[None], context, ["alpha_ndcg_paper@10"], bootstrap=0)
    discount = 1 / np.log2(np.arange(2, 12))
    halves = 0.5 ** np.arange(10)
    ideal = discount[:3].sum() + (halves[1:8] * discount[3:]).sum()  # A, B, C, then A again and again
    assert result["alpha_ndcg_paper@10"].mean == pytest.approx((halves * discount).sum() / ideal)


def test_every_metric_has_been_worked_out() -> None:
    known = {name.partition("@")[0] for name in (*PER_USER, *TOGETHER)} | {"alpha_ndcg_paper"}
    assert known == set(METRICS)
