"""The paper's base-model rows on MovieLens-1M."""

from __future__ import annotations

import pytest

from recprism.data import Dataset
from recprism.metrics import Context, evaluate
from recprism.metrics.suite import PAPER_METRICS
from recprism.models import BPRMF

METRICS = ("recall", "ndcg", "alpha_ndcg_paper", "subtopic_coverage", "catalogue_coverage", "ilad_paper")
BPRMF_ROW = {
    10: dict(zip(METRICS, (0.1465, 0.2742, 0.7035, 0.4993, 0.3206, 0.2010), strict=True)),
    20: dict(zip(METRICS, (0.2263, 0.2706, 0.7992, 0.6358, 0.4224, 0.2287), strict=True)),
}
TOLERANCE = {"catalogue_coverage": 0.10, "ilad_paper": 0.10}


def test_the_paper_preset_gives_the_papers_bprmf_row(ml1m: Dataset) -> None:
    split = ml1m.split("paper", seed=0)
    factors = BPRMF.preset("paper").fit(split, seed=0, device="cpu")
    items, _ = factors.rank(20, exclude=split.train)
    context = Context.from_split(split, "test", categories=ml1m.categories, vectors=factors.item)
    for score in evaluate(items, context, PAPER_METRICS, bootstrap=0).scores:
        expected = BPRMF_ROW[score.k][score.metric]
        assert score.mean == pytest.approx(expected, rel=TOLERANCE.get(score.metric, 0.05)), score.name
