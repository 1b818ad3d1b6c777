"""Two stages: vectors fetch candidates, a gradient-boosted ranker orders them. What is left of diverse vectors then?

    python examples/two_stages.py [--data ml-1m --data-root DIR]

The ranker learns from validation labels, on candidates of the base vectors. Then lists are served from base vectors and
from user vectors that hold lists optimal for SC. Beside them: a ranker that learned on the diverse vectors' own
candidates and scores, and a re-ranker behind the ranker.
"""

from __future__ import annotations

import argparse
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from sklearn.ensemble import HistGradientBoostingClassifier

from recprism import BPRMF, Problem, load
from recprism.budget.path import HISTORY_WEIGHT, rule_at
from recprism.data import Dataset
from recprism.data.split import Part
from recprism.forms.dials import lists_to_vectors
from recprism.models import Factors
from recprism.rule import ListSearch, category_probabilities

TRADE_OFF, DEPTHS, TAUGHT_ON = 0.2, (200, 500), 200
Lists = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Stage:
    """Candidates that vectors fetched, (n_users, n), and what the ranker may know of each."""

    items: Lists
    columns: NDArray[np.float32]


def fetch(vectors: Factors, scored_by: Factors, problem: Problem, depth: int) -> Stage:
    """The best ``depth`` of ``vectors``; the score that the ranker sees is that of ``scored_by``."""
    items, _ = vectors.rank(min(depth, vectors.n_items), exclude=problem.seen)
    safe = np.maximum(items, 0)
    user, item = scored_by.search_vectors
    score = np.einsum("ud,und->un", user, item[safe])
    popularity = np.log1p(problem.split.train.col_counts)[safe]
    tastes, categories = category_probabilities(problem.seen, problem.categories), problem.categories.dense()
    affinity = np.einsum("us,uns->un", np.asarray(tastes), categories[safe])
    activity = np.broadcast_to(np.log1p(problem.seen.row_counts)[:, None], items.shape)
    columns = [score, score - score.mean(1, keepdims=True), popularity, affinity, activity, categories.sum(1)[safe]]
    return Stage(items, np.stack(columns, 2).astype(np.float32))


class Ranker:
    """A gradient-boosted ranker: how likely is it that the user takes the candidate?"""

    def __init__(self, stage: Stage, problem: Problem) -> None:
        users = np.arange(len(stage.items))[:, None]
        labels = np.isin(users * problem.factors.n_items + stage.items, problem.split.part(problem.part).keys)
        chosen = labels | (np.random.default_rng(0).random(labels.shape) < 0.1)  # a tenth of what was not taken
        chosen &= stage.items >= 0
        self.model = HistGradientBoostingClassifier(
            max_iter=60, learning_rate=0.1, max_leaf_nodes=8, min_samples_leaf=200, early_stopping=False, random_state=0
        )
        self.model.fit(stage.columns[chosen], labels[chosen])

    def order(self, stage: Stage) -> tuple[Lists, NDArray[np.float64]]:
        """Candidates and their scores, best first."""
        flat = stage.columns.reshape(-1, stage.columns.shape[2])
        scores = self.model.decision_function(flat).reshape(stage.items.shape)
        scores = np.where(stage.items >= 0, scores, -np.inf)
        best = np.argsort(-scores, axis=1, kind="stable")
        return np.take_along_axis(stage.items, best, 1), np.take_along_axis(scores, best, 1)


def means(problem: Problem, lists: Lists, names: tuple[str, ...]) -> dict[str, float]:
    return {name: float(np.nanmean(values)) for name, values in problem.judge(lists, names).items()}


def reranked(problem: Problem, items: Lists, scores: NDArray[np.float64]) -> Lists:
    """Lists optimal for SC from the ranker's hundred best."""
    method = ListSearch(trade_off=TRADE_OFF, history_weight=HISTORY_WEIGHT)
    return np.asarray(method(items[:, :100], scores[:, :100], 10, features=problem.features))


def holding(problem: Problem) -> Factors:
    """User vectors that hold the lists of the rule for SC."""
    lists = problem.rank(rule_at(problem, "subtopic_coverage", TRADE_OFF))[0]
    return lists_to_vectors(problem.factors, lists, exclude=problem.hidden, order=True).applied_to(problem.factors)


def compare(data: Dataset) -> list[dict[str, float | str]]:
    split = data.split(seed=0)
    base = BPRMF().fit(split, seed=0, device="cpu")
    parts: tuple[Part, Part] = ("validation", "test")
    learning, serving = (Problem(base, split, data.categories, part) for part in parts)
    diverse, then = (holding(it) for it in (serving, learning))
    taught = Ranker(fetch(base, base, learning, TAUGHT_ON), learning)
    own = Ranker(fetch(then, then, learning, TAUGHT_ON), learning)
    served = {
        "base vectors": (base, taught, base),
        "user vectors, ranker sees base scores": (diverse, taught, base),
        "user vectors, ranker sees their scores": (diverse, taught, diverse),
        "user vectors, ranker learned on them": (diverse, own, diverse),
    }
    first = {"base vectors": base, "user vectors": diverse}
    rows: list[dict[str, float | str]] = []
    for name, vectors in first.items():
        lists, _ = vectors.rank(10, exclude=serving.seen)
        rows.append(
            {
                "stage": "first",
                "what": f"{name}, no ranker",
                **means(serving, lists, ("ndcg@10", "subtopic_coverage@10")),
            }
        )
    for depth in DEPTHS:
        names = tuple(
            f"{metric}@{depth}" for metric in ("recall", "subtopic_coverage", "ilad_subtopics", "catalogue_coverage")
        )
        for name, vectors in first.items():
            items = fetch(vectors, base, serving, depth).items
            rows.append({"stage": "candidates", "what": f"{name}, {depth}", **means(serving, items, names)})
        for name, (vectors, ranker, scored_by) in served.items():
            items, scores = ranker.order(fetch(vectors, scored_by, serving, depth))
            found = means(serving, items[:, :10], ("ndcg@10", "subtopic_coverage@10"))
            rows.append({"stage": "ranked", "what": f"{name}, {depth}", **found})
            if name == "base vectors":
                found = means(serving, reranked(serving, items, scores), ("ndcg@10", "subtopic_coverage@10"))
                rows.append({"stage": "ranked", "what": f"base vectors, re-ranker behind the ranker, {depth}", **found})
    return rows


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--data", default="ml-latest-small")
    options.add_argument("--data-root")
    words = options.parse_args()
    for row in compare(load(words.data, data_root=words.data_root)):
        values = ", ".join(f"{name} {value:.4f}" for name, value in row.items() if isinstance(value, float))
        print(f"{row['stage']}: {row['what']}: {values}")


if __name__ == "__main__":
    main()
