"""The paper's own base-model rows on MovieLens-1M."""

from __future__ import annotations

import pytest

from recprism.data import Dataset
from recprism.metrics import PAPER_METRICS, Context, evaluate
from recprism.models import BPRMF

BPRMF_ROW = {
    10: {"recall": 0.1465, "ndcg": 0.2742, "alpha_ndcg_paper": 0.7035, "sc": 0.4993, "pc": 0.3206, "ilad_paper": 0.2010},
    20: {"recall": 0.2263, "ndcg": 0.2706, "alpha_ndcg_paper": 0.7992, "sc": 0.6358, "pc": 0.4224, "ilad_paper": 0.2287},
}
TOLERANCE = {"pc": 0.10, "ilad_paper": 0.10}


@pytest.mark.ml1m
def test_the_paper_preset_gives_the_papers_bprmf_row(ml1m: Dataset) -> None:
    split = ml1m.split("paper", seed=0)
    factors = BPRMF.preset("paper").fit(split, seed=0, device="cpu")
    items, _ = factors.rank(20, exclude=split.train)
    context = Context.from_split(split, "test", subtopics=ml1m.subtopics, vectors=factors.item)
    for score in evaluate(items, context, PAPER_METRICS, bootstrap=0).scores:
        expected = BPRMF_ROW[score.k][score.metric]
        assert score.mean == pytest.approx(expected, rel=TOLERANCE.get(score.metric, 0.05)), score.name
