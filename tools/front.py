"""What diversity costs, method by method: the picture of the README, measured on MovieLens-1M.

    python tools/front.py --data-root DIR
    python tools/front.py --draw          the picture alone, from docs/front.json

The sound protocol: 8:1:1 split, BPRMF with its defaults, every figure on the test part, no method sees it.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

from charts import Points, scatter_chart

from recprism.budget.path import lists_at
from recprism.budget.scenario import Scenario
from recprism.cmb import CMB
from recprism.cmb.controls import control_perturbations
from recprism.data import load_dataset
from recprism.metrics import Context, evaluate
from recprism.models import BPRMF
from recprism.paper.contest import served_by_vectors
from recprism.rerank import Features, reranker

DOCS = Path(__file__).parents[1] / "docs"
TRADE_OFFS = (0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.75, 0.8, 0.85)
RERANKERS = {"MMR": "mmr", "DPP": "dpp", "coverage (xQuAD)": "xquad_uniform"}


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--data-root")
    options.add_argument("--draw", action="store_true")
    words = options.parse_args()
    if not words.draw:
        measure(words.data_root)
    draw()


def measure(data_root: str | None) -> None:
    data = load_dataset("ml-1m", preset="paper", data_root=data_root)
    split = data.split(seed=0)
    factors = BPRMF().fit(split, seed=0)
    context = Context.from_split(split, "test", subtopics=data.subtopics, vectors=factors.item)
    seen = split.seen_before("test")

    def change(lists: Any) -> tuple[float, float]:
        scores = evaluate(lists, context, ["ndcg@10", "subtopic_coverage@10"], bootstrap=0)
        return tuple(100 * (scores[n].mean / base[n].mean - 1) for n in ("ndcg@10", "subtopic_coverage@10"))  # type: ignore[return-value]

    base = evaluate(factors.rank(10, exclude=seen)[0], context, ["ndcg@10", "subtopic_coverage@10"], bootstrap=0)
    items, scores = factors.rank(100, exclude=seen)
    features = Features(vectors=factors.item, subtopics=data.subtopics)
    fronts = {
        title: [
            change(reranker(name, trade_off=t, sort_back=True)(items, scores, 10, features=features))
            for t in TRADE_OFFS
        ]
        for title, name in RERANKERS.items()
    }
    model = CMB.preset("paper", diversity="subtopic_coverage", accuracy="ndcg", reward_on="validation").fit(
        factors, split, data.subtopics
    )
    alone = CMB.preset("shared", diversity="subtopic_coverage").fit(factors, split, data.subtopics)
    points = {
        "CMB, the paper's settings": [change(model.factors_.rank(10, exclude=seen)[0])],
        "the same, permuted": [
            change(
                control_perturbations(model.base_, model.delta_, model.max_step, 0)["permuted"]
                .applied_to(factors)
                .rank(10, exclude=seen)[0]
            )
        ],
        "CMB, shared credit": [change(alone.factors_.rank(10, exclude=seen)[0])],
    }
    test = Scenario(factors, split, data.subtopics, "test")
    fronts = {
        "ours, in the user vectors": [
            change(served_by_vectors(test, lists_at(test, "subtopic_coverage", t))[0])
            for t in (0.03, 0.05, 0.1, 0.15, 0.2, 0.3, 0.4)
        ],
        **fronts,
    }
    players = CMB("subtopic_coverage", side="item").fit(factors, split, data.subtopics)
    points["CMB, marginal credit"] = [change(players.factors_.rank(10, exclude=seen)[0])]
    recorded = {
        "base": {n: base[n].mean for n in ("ndcg@10", "subtopic_coverage@10")},
        "change_in_percent": {**fronts, **points},
    }
    (DOCS / "front.json").write_text(json.dumps(recorded, indent=1), encoding="utf-8")


def draw() -> None:
    paths = json.loads((DOCS / "front.json").read_text(encoding="utf-8"))["change_in_percent"]
    clouds = [Points(name, [(x, y) for x, y in path if x > -25], joined=len(path) > 1) for name, path in paths.items()]
    svg = scatter_chart(clouds, "NDCG@10, % change", "subtopic coverage SC@10, % change")
    (DOCS / "front.svg").write_text(svg, encoding="utf-8")


if __name__ == "__main__":
    main()
