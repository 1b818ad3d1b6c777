"""After the base model was retrained: what a refit brings, and what lists it changes.

    python benchmarks/retrain.py --data-root DIR [--retrained seed data] [--models DIR] [--json]

Two retrainings of BPRMF (50 factors) on MovieLens-1M, test part. "seed": the same data, another seed. "data": the old
model knows the first nine tenths of all interactions by time, the new one all of them, so that users and items are new
and items were seen since. A first fit walks the path within the budget; a refit follows the old run (recprism refit NEW
--like OLD), also with a bound on churn. Changes in per cent of the new base lists. On two cores it takes up to ten
minutes, five of them training.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from harness import Claim, parser, report
from recprism.budget.problem import Lists, Problem
from recprism.budget.question import BudgetQuestion
from recprism.budget.within import within_budget
from recprism.data import Dataset, SparseRows, Split, load_dataset
from recprism.models import BPRMF, Factors
from recprism.operate.refit import PreviousDeployment, churn, refit

GOAL, COST = "subtopic_coverage", "ndcg@10"
BOUNDS = (0.2, 0.1)  # on churn
EARLY = 0.9
RETRAINED = {"seed": (False, 0, 1), "data": (True, 0, 0)}
"""Name -> (the old model knows only early interactions, its seed, the new one's)."""


@dataclass(frozen=True, eq=False)
class World:
    """A retraining: the old model about to serve, and the new one."""

    name: str
    old: Problem
    new: Problem

    def effect(self, lists: Lists) -> dict[str, float]:
        """NDCG and SC in per cent of the new base lists."""
        names = (COST, "subtopic_coverage@10")
        before, after = (self.new.judge(it, names) for it in (self.new.base_lists, lists))
        means = {name: (float(np.nanmean(before[name])), float(np.nanmean(after[name]))) for name in names}
        return {name.partition("@")[0]: 100 * (b / a - 1) for name, (a, b) in means.items()}


def early_part(data: Dataset, split: Split) -> Split:
    """The same split as it was when nine tenths of the interactions had happened."""
    found = data.interactions
    assert found.timestamp is not None
    there = found.timestamp < np.quantile(found.timestamp, EARLY)
    known = SparseRows.from_pairs(found.user[there], found.item[there], split.train.shape)

    def of(part: SparseRows) -> SparseRows:
        some = np.isin(part.keys, known.keys)
        return SparseRows.from_pairs(part.row_of_entry[some], part.indices[some], part.shape)

    parts = (of(part) for part in (split.train, split.validation, split.test))
    then = Split(*parts, split.user_ids, split.item_ids, split.settings)
    then = then.of_users(np.flatnonzero(then.train.row_counts))
    return then.of_items(np.flatnonzero(then.train.col_counts))


def trained(split: Split, seed: int, kept: Path | None) -> Factors:
    if kept is not None and kept.exists():
        return Factors.load(kept)
    factors = BPRMF().fit(split, seed=seed, device="cpu")
    if kept is not None:
        factors.save(kept)
    return factors


def worlds(names: list[str], data_root: str | None, models: Path | None) -> Iterator[World]:
    data = load_dataset("ml-1m", preset="paper", data_root=data_root)
    whole = data.split(seed=0)
    made: dict[tuple[bool, int], Problem] = {}
    for name in names:
        early, old_seed, new_seed = RETRAINED[name]
        for key in ((early, old_seed), (False, new_seed)):
            if key not in made:
                split = early_part(data, whole) if key[0] else whole
                items = np.flatnonzero(np.isin(whole.item_ids, split.item_ids))
                categories = data.categories.take_items(items)
                kept = None if models is None else models / f"{'early' if key[0] else 'whole'}-{key[1]}.safetensors"
                made[key] = Problem(trained(split, key[1], kept), split, categories, "test")
        yield World(name, made[early, old_seed], made[False, new_seed])


def rows(world: World, budget: float) -> Iterator[dict[str, Any]]:
    asked = BudgetQuestion.of(GOAL, {COST: budget}, part="test")
    old = within_budget(world.old, asked).rule
    assert old is not None
    before = PreviousDeployment(
        world.old.factors, old, world.old.seen, lambda it, k, users: world.old.rank(it, k, users=users)[0]
    )
    had = before.lists(world.new)

    def row(way: str, lists: Lists, **more: Any) -> dict[str, Any]:
        return {"retrained": world.name, "way": way, **world.effect(lists), "churn": churn(had, lists), **more}

    start = time.perf_counter()
    first = within_budget(world.new, asked).rule
    assert first is not None
    seconds = time.perf_counter() - start
    lists = world.new.rank(first)[0]
    yield row("first fit", lists, seconds=seconds, trade_off=first.trade_off, old_trade_off=old.trade_off)
    for bound in (None, *BOUNDS):
        start = time.perf_counter()
        found = refit(world.new, before, asked, trade_off=old.trade_off, max_churn=bound)
        seconds, rule = time.perf_counter() - start, found.kept.rule
        lists = found.problem.base_lists if rule is None else found.problem.rank(rule)[0]
        yield row(
            "refit" if bound is None else f"refit, churn at most {bound:g}",
            lists,
            seconds=seconds,
            trade_off=0.0 if rule is None else rule.trade_off,
            certified=rule is not None,
            retraining=found.churn.retraining,
            unavoidable=found.churn.unavoidable,
        )


def claims(found: list[dict[str, Any]]) -> Iterator[Claim]:
    firsts = {row["retrained"]: row for row in found if row["way"] == "first fit"}
    for row in found:
        first = firsts[row["retrained"]]
        where = f"{row['retrained']}, {row['way']}"
        said = f"SC {row['subtopic_coverage']:+.1f} %, NDCG {row['ndcg']:+.1f} %, churn {row['churn']:.3f}"
        if row is not first:
            yield Claim(
                f"{where} ({said}): share of the first fit's SC gain",
                row["subtopic_coverage"] / first["subtopic_coverage"],
                0.9,
                "higher",
            )
        if row["way"].startswith("refit, churn"):
            yield Claim(f"{where}: churn (bar: the bound)", row["churn"], float(row["way"].split()[-1]))
        if row["way"] == "refit":
            yield Claim(f"{where}: churn (bar: retraining alone)", row["churn"], row["retraining"])
            yield Claim(f"{where}: seconds over a first fit's", row["seconds"] / first["seconds"], 1.0)


def main() -> None:
    options = parser(__doc__)
    options.add_argument("--data-root")
    options.add_argument("--models", type=Path, help="a folder where trained models are kept between runs")
    options.add_argument("--retrained", nargs="+", choices=tuple(RETRAINED), default=list(RETRAINED))
    options.add_argument("--budget", type=float, default=0.05)
    words = options.parse_args()
    found = []
    for world in worlds(words.retrained, words.data_root, words.models):
        for row in rows(world, words.budget):
            found.append(row)
            print(json.dumps(row), file=sys.stderr, flush=True)  # it takes a while
    report(list(claims(found)), as_json=words.json, details=found)


if __name__ == "__main__":
    main()
