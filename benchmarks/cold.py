"""Items and users that were not there when the vectors were fitted: what a rule gives them, and what an adapter does.

    python benchmarks/cold.py --data-root DIR [--set ml-1m] [--parts items users] [--json]

BPRMF (50 factors) trained on 85 % of the users, lists optimal for SC at trade-off 0.2, test part. All changes are in
per cent of the base lists.

Items: a random tenth is hidden from the fit of the item vectors (not from the training: every item has a base vector,
as it would have from a content tower or a few clicks), then put back on offer. What they get: no change; the mean
change of their subtopics; the mean promotion of their subtopics (the part of a change along the mean user); the change
of the five nearest items by base vectors, or by base vectors and subtopics, which is the rule of
``recprism.dials.transfer``; their own change from a fit that knew them, among items that it did not know; and that
fit as a whole. Mean of three draws.

Users: the other 15 %, folded in afterwards from their training interactions. What serves them: the re-ranker itself,
adapters learned from the lists of those who were there (with the strength that gives those users the most SC without
losing more NDCG than the re-ranker, on the validation part), and item vectors fitted for the others. On two cores about
five minutes.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from harness import Claim, parser, report
from recprism.budget.diversified import serve
from recprism.budget.path import lists_at
from recprism.budget.scenario import Lists, Scenario
from recprism.data import load_dataset
from recprism.dials.query_adapter import QueryAdapter, QueryAdapterSettings
from recprism.dials.transfer import change_from_similar_items
from recprism.models import BPRMF, Factors
from recprism.models.folding import fold_in

GOAL, TRADE_OFF = "subtopic_coverage", 0.2
NAMES = ("ndcg@10", "subtopic_coverage@10")
DRAWS, HIDDEN, UNSEEN = 3, 0.1, 0.15
STRENGTHS = (0.4, 0.6, 0.8, 1.0, 1.25, 1.5, 2.0, 2.5, 3.0)
ADAPTERS = {
    "adapter, linear": QueryAdapterSettings(steps=300, temperature=0.2),
    "adapter, small network": QueryAdapterSettings(steps=300, temperature=0.2, hidden=128),
}
Vectors = NDArray[np.float32]


class World:
    """A data set, and a model that knows most of its users."""

    def __init__(self, name: str, data_root: str | None) -> None:
        self.data = load_dataset(name, preset="paper", data_root=data_root)
        self.split = self.data.split(seed=0)
        order = np.random.default_rng(0).permutation(self.split.n_users)
        cut = int((1 - UNSEEN) * len(order))
        self.there, self.later = np.sort(order[:cut]), np.sort(order[cut:])
        self.trained = BPRMF().fit(self.split.of_users(self.there), seed=0, device="cpu")

    def of(self, rows: NDArray[np.int64], vectors: Vectors, part: Any = "test") -> Scenario:
        ids = {"user_ids": self.split.user_ids[rows], "item_ids": self.split.item_ids}
        factors = Factors.from_arrays(vectors, self.trained.item, **ids)
        return Scenario(factors, self.split.of_users(rows), self.data.subtopics, part)


def effect(scenario: Scenario, lists: Lists) -> dict[str, float]:
    before, after = (scenario.judge(it, NAMES) for it in (scenario.base_lists, lists))
    return {
        name.partition("@")[0]: 100 * (float(np.nanmean(after[name])) / float(np.nanmean(before[name])) - 1)
        for name in NAMES
    }


def subtopic_means(topics: Vectors, known: NDArray[np.int64], changes: Vectors) -> Vectors:
    """(n_items, d) the mean over an item's subtopics of the mean change of the known items that have them."""
    own = topics[known]
    means = own.T @ changes / np.maximum(own.sum(0), 1)[:, None]
    return np.asarray(topics @ means / np.maximum(topics.sum(1, keepdims=True), 1), np.float32)


def rules(world: World, known: NDArray[np.int64], changes: Vectors, whole: Vectors) -> Iterator[tuple[str, Vectors]]:
    """(n_items, d) changes of all items under each rule."""
    topics, mean_user = world.data.subtopics.dense(), world.trained.user.mean(0)
    along = np.outer(changes @ mean_user, mean_user) / float(mean_user @ mean_user)
    cold = np.setdiff1d(np.arange(world.split.n_items), known)
    for name, guess in (
        ("no change", np.zeros_like(whole)),
        ("mean promotion of its subtopics", subtopic_means(topics, known, along.astype(np.float32))),
        ("mean change of its subtopics", subtopic_means(topics, known, changes)),
        ("its own change from a fit that knew it", whole),
    ):
        full = np.zeros_like(whole)
        full[known], full[cold] = changes, guess[cold]
        yield name, full
    yield "five nearest by vectors", change_from_similar_items(world.trained, known, changes)
    yield (
        "five nearest by vectors and subtopics",
        change_from_similar_items(world.trained, known, changes, world.data.subtopics),
    )


def items(world: World) -> Iterator[dict[str, Any]]:
    serving = world.of(world.there, world.trained.user)
    baked = serve(serving, GOAL, TRADE_OFF, "item-vectors").compiled
    fitted = serving.rank(baked.applied_to(serving.factors))[0]
    assert baked.perturbation.item is not None
    whole = baked.perturbation.item.numpy()
    for draw in range(DRAWS):
        number = np.random.default_rng(draw).permutation(world.split.n_items)
        hidden = np.isin(np.arange(len(number)), number[: int(HIDDEN * len(number))])
        known = np.flatnonzero(~hidden)
        fewer = Scenario(
            serving.factors.of_items(known),
            serving.split.of_items(known),
            serving.subtopics.take_items(known),
            "test",
        )
        change = serve(fewer, GOAL, TRADE_OFF, "item-vectors").compiled.perturbation.item
        assert change is not None
        about = {"draw": draw, "hidden_before": float(hidden[serving.base_lists].mean())}
        for rule, full in rules(world, known, change.numpy(), whole):
            vectors = serving.factors.with_vectors(item=serving.factors.item + full)
            lists, _ = vectors.rank(10, exclude=serving.seen)
            yield {**about, "rule": rule, **effect(serving, lists), "hidden": float(hidden[lists].mean())}
        yield {
            **about,
            "rule": "a fit that knew all",
            **effect(serving, fitted),
            "hidden": float(hidden[fitted].mean()),
        }


def mean_rows(rows: list[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    for rule in dict.fromkeys(row["rule"] for row in rows):
        own = [row for row in rows if row["rule"] == rule]
        figures = {
            name: float(np.mean([row[name] for row in own]))
            for name in ("ndcg", "subtopic_coverage", "hidden", "hidden_before")
        }
        yield {"rule": rule, **figures}


def users(world: World) -> Iterator[dict[str, Any]]:
    folded = fold_in(world.trained, world.split.train)
    there, later = (world.of(rows, folded[rows]) for rows in (world.there, world.later))
    validation = world.of(world.there, folded[world.there], "validation")
    taught = lists_at(there, GOAL, TRADE_OFF)
    again = effect(later, lists_at(later, GOAL, TRADE_OFF))
    yield {"method": "the re-ranker itself", **again}
    bar = effect(validation, lists_at(validation, GOAL, TRADE_OFF))["ndcg"]
    for name, settings in ADAPTERS.items():
        adapter = QueryAdapter(settings).fit_lists(there.factors, taught, exclude=there.seen)
        strength = _strength(adapter, validation, bar)
        lists, _ = adapter.with_strength(strength).applied_to(later.factors).rank(10, exclude=later.seen)
        yield {"method": name, **effect(later, lists), "strength": strength}
    change = serve(there, GOAL, TRADE_OFF, "item-vectors").compiled.perturbation.item
    assert change is not None
    lists, _ = later.factors.with_vectors(item=later.factors.item + change.numpy()).rank(10, exclude=later.seen)
    yield {"method": "item vectors fitted for the others", **effect(later, lists)}


def _strength(adapter: QueryAdapter, scenario: Scenario, bar: float) -> float:
    best = (-np.inf, STRENGTHS[0])
    for strength in STRENGTHS:
        lists, _ = adapter.with_strength(strength).applied_to(scenario.factors).rank(10, exclude=scenario.seen)
        found = effect(scenario, lists)
        if found["ndcg"] >= min(bar, 0.0):
            best = max(best, (found["subtopic_coverage"], strength))
    return best[1]


def claims(parts: dict[str, list[dict[str, Any]]]) -> Iterator[Claim]:
    rows = {row["rule"]: row for row in mean_rows(parts.get("items", []))}
    for rule, row in rows.items():
        none, own = (
            rows["no change"]["subtopic_coverage"],
            rows["its own change from a fit that knew it"]["subtopic_coverage"],
        )
        gains = f"SC {row['subtopic_coverage']:+.1f} %, NDCG {row['ndcg']:+.1f} %"
        said = f"{gains}, hidden items hold {row['hidden']:.3f} of the places"
        share = (row["subtopic_coverage"] - none) / (own - none)
        yield Claim(f"items: {rule} ({said}): share of what their own change would add", share, 0.5, "higher")
    gain = next((row["subtopic_coverage"] for row in parts.get("users", [])), 1.0)
    for row in parts.get("users", []):
        said = f"SC {row['subtopic_coverage']:+.1f} %, NDCG {row['ndcg']:+.1f} %"
        yield Claim(
            f"users: {row['method']} ({said}): share of the re-ranker's SC gain",
            row["subtopic_coverage"] / gain,
            0.6,
            "higher",
        )


PARTS: dict[str, Callable[[World], Iterator[dict[str, Any]]]] = {"items": items, "users": users}


def main() -> None:
    options = parser(__doc__)
    options.add_argument("--data-root")
    options.add_argument("--set", default="ml-1m")
    options.add_argument("--parts", nargs="+", choices=tuple(PARTS), default=list(PARTS))
    words = options.parse_args()
    world = World(words.set, words.data_root)
    found: dict[str, list[dict[str, Any]]] = {part: [] for part in words.parts}
    for part in words.parts:
        for row in PARTS[part](world):
            found[part].append(row)
            print(json.dumps(row), file=sys.stderr, flush=True)  # it takes a while
    report(list(claims(found)), as_json=words.json, details=found)


if __name__ == "__main__":
    main()
