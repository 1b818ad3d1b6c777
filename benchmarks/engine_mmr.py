"""Quality at equal accuracy: the rule behind an engine, beside the engine's own MMR.

    python benchmarks/engine_mmr.py [--data ml-1m --data-root DIR] [--users 300] [--budgets 0.02 0.05] [--json]

Of the engines with an example here, Qdrant alone has MMR of its own (``models.Mmr``). FAISS, pgvector and LanceDB have
none; MMR of a client library is not the engine's. Qdrant runs in the local mode of its Python package, which follows
the algorithm of the server. BPRMF (50 factors) is trained once; a search by inner product returns the 100 best unseen
items of a user. All methods choose ten of these.

- "rule": the candidates go to ``recprism.serving``, goal SC. It knows the categories of the items and of the history.
- "rule, no history": the same without the user's history.
- "rule, goal ILD": the same with the mean distance of categories as its goal, which is closer to what MMR looks for.
- "MMR, model vectors": one query. Similarity is the inner product of item vectors. It knows no categories.
- "MMR, categories": the item vector has more columns, the unit vector of its categories times a weight, and the query
  has zeros there. So relevance stays that of the model, and similarity is that of the categories, for a large weight
  almost alone. Of three weights, validation chooses the one with the most SC: this favours MMR.

Each method has one knob, on a ladder of 33 values. Validation chooses the value with the most diversity whose loss of
NDCG@10 is within the budget. It is found by bisection, and the four values after it are tried as well, because NDCG
does not fall steadily. The figures are from the test part, where losses may differ. Intervals (95 %) are bootstraps
over users; the second table has paired differences.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from qdrant_client import QdrantClient, models

from harness import Claim, parser, report
from recprism import BPRMF, Scenario
from recprism.budget.path import rule_at
from recprism.data import load_dataset
from recprism.deploy import RuleFile, collect_rule
from recprism.metrics._statistics import bootstrap_means, percentile_interval
from recprism.serving import ServedRule

K, DEPTH, DIM, DRAWS = 10, 100, 50, 2000
NDCG, SC = "ndcg@10", "subtopic_coverage@10"
NAMES = (NDCG, SC, "alpha_ndcg@10", "ilad_subtopics@10", "ilad@10")
WEIGHTS = (1.0, 4.0, 30.0)
RUNGS = 33
AHEAD = 4  # rungs that are tried behind the one that bisection finds
RULE, NO_HISTORY, BY_DISTANCE = "rule", "rule, no history", "rule, goal ILD"
MMR, MMR_CATEGORIES = "MMR, model vectors", "MMR, categories"
Lists = NDArray[np.int64]
Values = dict[str, NDArray[np.float64]]


class Engine:
    """Qdrant in this process, with the item vectors of a model, plain and with columns of categories.

    Args:
        scenario: The model, and the categories of the items.
    """

    def __init__(self, scenario: Scenario) -> None:
        user, item = scenario.factors.search_vectors
        topics = scenario.subtopics.dense().astype(np.float32)
        unit = topics / np.maximum(np.linalg.norm(topics, axis=1, keepdims=True), 1e-9)
        kinds = {"plain": item} | {f"weight {it:g}": np.hstack([item, it * unit]) for it in WEIGHTS}
        self.user, self.sizes = user, {name: vectors.shape[1] for name, vectors in kinds.items()}
        self.client = QdrantClient(":memory:")
        self._pools: dict[tuple[str, int], list[Any]] = {}
        for name, vectors in kinds.items():
            size = models.VectorParams(size=vectors.shape[1], distance=models.Distance.DOT)
            self.client.create_collection(name, size)
            self.client.upload_collection(name, vectors=vectors, ids=range(len(vectors)))

    def pool(self, scenario: Scenario, user: int) -> list[Any]:
        """The candidates of a user, searched once."""
        key = (scenario.part, user)
        if key not in self._pools:
            self._pools[key] = self.search(scenario, user)
        return self._pools[key]

    def search(self, scenario: Scenario, user: int, kind: str = "plain", diversity: float | None = None) -> list[Any]:
        """The points that one query returns: the best unseen ones, or ten of them by MMR."""
        vector = np.pad(self.user[user], (0, self.sizes[kind] - self.user.shape[1]))
        seen = models.Filter(must_not=[models.HasIdCondition(has_id=scenario.seen.row(user).tolist())])
        query: Any = vector
        if diversity is not None:
            how = models.Mmr(diversity=diversity, candidates_limit=DEPTH)
            query = models.NearestQuery(nearest=vector.tolist(), mmr=how)
        limit = DEPTH if diversity is None else K
        return self.client.query_points(kind, query=query, limit=limit, query_filter=seen, with_payload=False).points


@dataclass
class Ladder:
    """One knob of a method: lists at each of its values, made once, and judged on some users.

    Attributes:
        name: Name of the method.
        values: The values of the knob, those with more diversity later.
        make: A scenario, a user and a value -> ten items.
        users: Users who are judged.
    """

    name: str
    values: NDArray[np.float64]
    make: Callable[[Scenario, int, float], list[int]]
    users: NDArray[np.int64]
    _judged: dict[tuple[str, int], Values] = field(default_factory=dict)

    def at(self, scenario: Scenario, rung: int) -> Values:
        """Metric -> values of the users, (n_users,)."""
        found = self._judged.get((scenario.part, rung))
        if found is None:
            lists = scenario.base_lists.copy()
            for user in self.users.tolist():
                chosen = self.make(scenario, user, float(self.values[rung]))
                lists[user] = [*chosen, *[-1] * (K - len(chosen))]
            judged = scenario.judge(lists, NAMES)
            found = self._judged[scenario.part, rung] = {name: judged[name][self.users] for name in NAMES}
        return found

    def within(self, scenario: Scenario, least: float) -> int | None:
        """The rung with the most diversity whose NDCG is at least ``least``; None if there is none."""

        def keeps(rung: int) -> bool:
            return bool(np.nanmean(self.at(scenario, rung)[NDCG]) >= least)

        low, high = -1, len(self.values)
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (middle, high) if keeps(middle) else (low, middle)
        later = [rung for rung in range(high, min(high + AHEAD, len(self.values))) if keeps(rung)]
        return max([low, *later]) if low >= 0 or later else None


def ladders(engine: Engine, validation: Scenario, users: NDArray[np.int64]) -> dict[str, list[Ladder]]:
    """Method -> its ladders; of several, validation chooses one."""
    file, by_distance = (
        collect_rule(validation, rule_at(validation, goal, 0.2)) for goal in ("subtopic_coverage", "ilad_subtopics")
    )
    rules = {RULE: file, NO_HISTORY: replace(file, history_weight=0.0), BY_DISTANCE: by_distance}

    def by_rule(file: RuleFile) -> Callable[[Scenario, int, float], list[int]]:
        rule, ids = ServedRule(file), validation.split.item_ids

        def make(scenario: Scenario, user: int, price: float) -> list[int]:
            points = engine.pool(scenario, user)
            numbers, history = [it.id for it in points], ids[scenario.seen.row(user)]
            scores = [it.score for it in points]
            answer = rule.rerank(ids[numbers], scores, history=history, price=price, reasons=False)
            number_of = dict(zip(ids[numbers].tolist(), numbers, strict=True))
            return [number_of[one] for one in answer.ids]

        return make

    def by_mmr(kind: str) -> Callable[[Scenario, int, float], list[int]]:
        return lambda scenario, user, value: [it.id for it in engine.search(scenario, user, kind, value)]

    prices = np.linspace(0, 1, RUNGS) ** 2
    ratio = np.geomspace(1e-3, 1e2, RUNGS)  # of similarity to relevance
    found = {name: [Ladder(name, prices, by_rule(rule), users)] for name, rule in rules.items()}
    found[MMR] = [Ladder(MMR, ratio / (1 + ratio), by_mmr("plain"), users)]
    shares = [ratio / weight**2 for weight in WEIGHTS]  # the weight is in the similarity twice
    found[MMR_CATEGORIES] = [
        Ladder(f"{MMR_CATEGORIES}, weight {weight:g}", share / (1 + share), by_mmr(f"weight {weight:g}"), users)
        for weight, share in zip(WEIGHTS, shares, strict=True)
    ]
    return found


def chosen(some: list[Ladder], validation: Scenario, least: float) -> tuple[Ladder, int] | None:
    """The ladder and the rung with the most SC on validation, among the last rungs within the budget."""
    allowed = [(it, rung) for it in some if (rung := it.within(validation, least)) is not None]
    if not allowed:
        return None
    return max(allowed, key=lambda pair: float(np.nanmean(pair[0].at(validation, pair[1])[SC])))


def interval(values: NDArray[np.float64]) -> tuple[float, float, float]:
    """A mean and the ends of its interval."""
    drawn = bootstrap_means(values[:, None], DRAWS, np.random.default_rng(0))
    low, high = percentile_interval(drawn, 0.95)
    return float(np.nanmean(values)), float(low[0]), float(high[0])


def rows_of(budget: float, methods: dict[str, list[Ladder]], validation: Scenario, test: Scenario) -> list[Any]:
    """What each method reaches within a budget: settings, means with intervals, and differences to the rule."""
    users = methods[RULE][0].users
    base = float(np.nanmean(validation.judge(validation.base_lists, (NDCG,))[NDCG][users]))
    rows, ours = list[Any](), None
    for name, some in methods.items():
        found = chosen(some, validation, (1 - budget) * base)
        if found is None:
            rows.append({"budget": budget, "method": name, "setting": None})
            continue
        ladder, rung = found
        values = ladder.at(test, rung)
        ours = values if name == RULE else ours
        loss = float(np.nanmean(ladder.at(validation, rung)[NDCG])) / base - 1
        row = {"budget": budget, "method": ladder.name, "setting": float(ladder.values[rung]), "validation": loss}
        row |= {metric: interval(values[metric]) for metric in NAMES}
        if ours is not None and name != RULE:
            row |= {"difference": {metric: interval(ours[metric] - values[metric]) for metric in NAMES}}
        rows.append(row)
    return rows


def tables(rows: list[Any], base: Values) -> None:
    """Print two Markdown tables: what each method reaches, and the paired differences to the rule."""
    print("| budget | method | knob | NDCG@10 on validation | " + " | ".join(NAMES) + " |\n" + "|---" * 9 + "|")
    print("| | base | | | " + " | ".join(_said(interval(base[name])) for name in NAMES) + " |")
    for row in rows:
        start = f"| {row['budget']:.0%} | {row['method']} | "
        if row["setting"] is None:
            print(start + "none within the budget |" + " |" * (1 + len(NAMES)))
            continue
        said = " | ".join(_said(row[name]) for name in NAMES)
        print(f"{start}{row['setting']:.4g} | {row['validation']:+.1%} | {said} |")
    print("\n| budget | rule minus | " + " | ".join(NAMES) + " |\n" + "|---" * 7 + "|")
    for row in rows:
        if "difference" in row:
            said = " | ".join(_said(row["difference"][name], "+") for name in NAMES)
            print(f"| {row['budget']:.0%} | {row['method']} | {said} |")
    print()


def _said(found: tuple[float, float, float], sign: str = "") -> str:
    mean, low, high = (f"{it:{sign}.4f}" for it in found)
    return f"{mean} ({low} to {high})"


def main() -> int:
    options = parser(__doc__)
    options.add_argument("--data", default="ml-latest-small")
    options.add_argument("--data-root", default=os.environ.get("RECPRISM_DATA"))
    options.add_argument("--users", type=int, default=300, help="users who are judged, drawn at random")
    options.add_argument("--budgets", type=float, nargs="+", default=[0.02, 0.05])
    words = options.parse_args()
    data = load_dataset(words.data, data_root=words.data_root)
    split = data.split(seed=0)
    model = BPRMF(dim=DIM).fit(split, seed=0, device="cpu")
    validation, test = (Scenario(model, split, data.subtopics, part) for part in ("validation", "test"))
    held_out = np.flatnonzero((split.validation.row_counts > 0) & (split.test.row_counts > 0))
    count = min(words.users, len(held_out))
    users = np.sort(np.random.default_rng(0).choice(held_out, count, replace=False))
    methods = ladders(Engine(test), validation, users)
    rows = [row for budget in words.budgets for row in rows_of(budget, methods, validation, test)]
    base = {name: values[users] for name, values in test.judge(test.base_lists, NAMES).items()}
    if not words.json:
        print(f"{words.data}: {count} users, {data.interactions.n_items:,} items, test part\n")
        tables(rows, base)
    against = [row for row in rows if "difference" in row and row["method"].startswith("MMR")]
    claims = [
        Claim(f"SC@10, rule minus {row['method']}, budget {row['budget']:.0%}: low end", low, 0.0, "higher")
        for row in against
        for low in [row["difference"][SC][1]]
    ]
    details = {"base": {name: interval(values) for name, values in base.items()}, "rows": rows}
    report(claims, as_json=words.json, packages=("qdrant-client",), details=details)
    return 0


if __name__ == "__main__":
    sys.exit(main())
