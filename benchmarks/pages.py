"""Are vectors that hold diverse lists more than a cache? What they give on other pages than the first.

    python benchmarks/pages.py --data-root DIR [--sets ml-1m amazon-cds-2014] [--json]

BPRMF (50 factors) is trained on 70 % of the users. Another 15 % are folded in from their training interactions and
judged on the test part. All gains are over the base model in the same problem.

Problems: the first page, the second page, what follows when five items are consumed, and two random fifths of the
catalogue out of stock. "robust" vectors were fitted to several problems of each user, with other random masks. There
is one seed. What carried over to other users: docs/design/carry.md.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from folding import fold_in
from harness import Claim, parser, report
from recprism.data import SparseRows, load_dataset
from recprism.forms.dials.solve import lists_to_vectors
from recprism.metrics import Context, evaluate
from recprism.models import BPRMF, Factors
from recprism.rivals import reranker
from recprism.rule import Features

K, CANDIDATES, FIFTH = 10, 100, 5
TARGETS = (("xquad_uniform", 0.8), ("optimal_subtopic_coverage", 0.3))
BAR = 0.6
Lists = NDArray[np.int64]


@dataclass(eq=False)
class World:
    """A data set, a model trained on most of its users, and others that are folded in and judged."""

    name: str
    data_root: str | None

    def __post_init__(self) -> None:
        data = load_dataset(self.name, preset="paper", data_root=self.data_root)
        self.split, self.categories = data.split(seed=0), data.categories
        order = np.random.default_rng(0).permutation(self.split.n_users)
        cuts = [int(0.7 * len(order)), int(0.85 * len(order))]
        known, _, self.judged = (np.sort(part) for part in np.split(order, cuts))
        trained = BPRMF().fit(self.split.of_users(known), seed=0, device="cpu")
        self.users = trained.with_vectors(user=fold_in(trained, self.split.train)[self.judged])
        self.seen = self.split.seen_before("test").take_rows(self.judged)
        self.features = Features(categories=self.categories)

    def judge(self, lists: Lists) -> dict[str, float]:
        context = Context(relevant=self.split.test.take_rows(self.judged), categories=self.categories)
        scores = evaluate(lists, context, ["ndcg@10", "subtopic_coverage@10"], bootstrap=0)
        return {"ndcg": scores["ndcg@10"].mean, "subtopic_coverage": scores["subtopic_coverage@10"].mean}


@dataclass(eq=False)
class Target:
    """A re-ranker whose lists are to be carried."""

    world: World
    name: str
    trade_off: float

    def lists(self, users: Factors, seen: SparseRows) -> Lists:
        candidates, scores = users.rank(CANDIDATES, exclude=seen)
        method = reranker(self.name, trade_off=self.trade_off, sort_back=True)
        return np.asarray(method(candidates, scores, K, features=self.world.features))

    def problems(self, seed: int, masks: int) -> tuple[Lists, NDArray[np.int64], SparseRows]:
        """Lists, users and exclusions of several problems of each user; each row has a random mask of its own."""
        users, seen = self.world.users, self.world.seen
        generator = np.random.default_rng(seed)
        first = self.lists(users, seen)
        excluded = [seen, seen.union(held(first[:, :5], seen)), seen.union(held(first, seen))]
        excluded += [seen.union(SparseRows.coerce(generator.random(seen.shape) < 1 / FIFTH)) for _ in range(masks)]
        lists = np.concatenate([first, *(self.lists(users, rows) for rows in excluded[1:])])
        return lists, np.tile(np.arange(len(first)), len(excluded)), stacked(excluded)


def held(lists: Lists, like: SparseRows) -> SparseRows:
    """Lists as a matrix."""
    row, place = np.nonzero(lists >= 0)
    return SparseRows.from_pairs(row, lists[row, place], like.shape)


def stacked(parts: list[SparseRows]) -> SparseRows:
    ends = np.cumsum([0, *(len(part) for part in parts)])
    starts = [part.indptr[:-1] + end for part, end in zip(parts, ends[:-1], strict=True)]
    indptr = np.concatenate([*starts, ends[-1:]]).astype(np.int64)
    return SparseRows(indptr, np.concatenate([part.indices for part in parts]), parts[0].n_cols)


@lru_cache(maxsize=8)
def out_of_stock(seen: SparseRows, seed: int) -> SparseRows:
    """Seen items and, for all users alike, a random fifth of the catalogue."""
    gone = np.flatnonzero(np.random.default_rng(seed).random(seen.n_cols) < 1 / FIFTH)
    rows = np.repeat(np.arange(seen.n_rows), len(gone))
    return seen.union(SparseRows.from_pairs(rows, np.tile(gone, seen.n_rows), seen.shape))


Pages = dict[str, Lists]
MASKS = (1001, 1002)


def ranked_pages(served: Factors, seen: SparseRows) -> Pages:
    """What plain ranking gives: five consumed items are its own first five, the second page comes after its first."""
    first = served.rank(2 * K, exclude=seen)[0]
    pages = {"first": first[:, :K], "second": first[:, K:], "consumed": first[:, 5 : 5 + K]}
    return pages | {f"stock {seed}": served.rank(K, exclude=out_of_stock(seen, seed))[0] for seed in MASKS}


def reranked_pages(target: Target, users: Factors, seen: SparseRows) -> Pages:
    """The re-ranker run again in each problem."""
    first = target.lists(users, seen)
    pages = {
        "first": first,
        "second": target.lists(users, seen.union(held(first, seen))),
        "consumed": target.lists(users, seen.union(held(first[:, :5], seen))),
    }
    return pages | {f"stock {seed}": target.lists(users, out_of_stock(seen, seed)) for seed in MASKS}


def table_pages(target: Target, users: Factors, seen: SparseRows) -> Pages:
    """A stored list of ten minus what is gone, and then the base order."""
    first = target.lists(users, seen)

    def then(kept: Lists, excluded: SparseRows) -> Lists:
        rest = users.rank(K, exclude=excluded.union(held(first, seen)))[0]
        both = np.hstack([kept, rest])
        return np.take_along_axis(both, np.argsort(both < 0, axis=1, kind="stable"), 1)[:, :K]

    pages = {"first": first, "second": then(first[:, :0], seen), "consumed": then(first[:, 5:], seen)}
    for seed in MASKS:
        excluded = out_of_stock(seen, seed)
        rows = np.arange(len(first))[:, None] * seen.n_cols + first
        pages[f"stock {seed}"] = then(np.where(np.isin(rows, excluded.keys), -1, first), excluded)
    return pages


def judged(world: World, pages: Pages) -> dict[str, dict[str, float]]:
    return {name: world.judge(lists) for name, lists in pages.items()}


def gains(now: dict[str, dict[str, float]], base: dict[str, dict[str, float]]) -> dict[str, dict[str, float]]:
    """Per page, the change of NDCG and SC in per cent of the base model's."""
    return {
        page: {metric: 100 * (value / base[page][metric] - 1) for metric, value in row.items()}
        for page, row in now.items()
    }


def fitted(users: Factors, lists: Lists, who: Any, exclude: SparseRows) -> Factors:
    return lists_to_vectors(users, lists, users=who, exclude=exclude).applied_to(users)


def served(target: Target) -> Iterator[tuple[str, Pages]]:
    """The re-ranker itself, and its lists in a table and in user vectors."""
    users, seen = target.world.users, target.world.seen
    yield "re-ranker", reranked_pages(target, users, seen)
    yield "table", table_pages(target, users, seen)
    yield "user vectors", ranked_pages(fitted(users, target.lists(users, seen), None, seen), seen)
    yield "user vectors, robust", ranked_pages(fitted(users, *target.problems(8, 3)), seen)


def pages(target: Target) -> Iterator[dict[str, Any]]:
    world = target.world
    base = judged(world, ranked_pages(world.users, world.seen))
    about = {"set": world.name, "target": target.name, "trade_off": target.trade_off}
    for name, lists in served(target):
        yield {**about, "method": name, "pages": gains(judged(world, lists), base)}


def claims_of_pages(rows: list[dict[str, Any]]) -> Iterable[Claim]:
    bars = {(row["set"], row["target"]): row["pages"] for row in rows if row["method"] == "re-ranker"}
    for row in rows:
        where, bar = f"{row['set']}, {row['target']}, {row['method']}", bars[row["set"], row["target"]]
        for page, figures in row["pages"].items():
            said = f"SC {figures['subtopic_coverage']:+.1f} %, NDCG {figures['ndcg']:+.1f} %"
            share = figures["subtopic_coverage"] / bar[page]["subtopic_coverage"]
            yield Claim(f"{where}, {page} ({said}): share of the re-ranker's SC gain", share, BAR, "higher")


def main() -> None:
    options = parser(__doc__)
    options.add_argument("--data-root")
    options.add_argument("--sets", nargs="+", default=["ml-1m", "amazon-cds-2014"])
    options.add_argument("--targets", nargs="+", default=[name for name, _ in TARGETS])
    words = options.parse_args()
    rows: list[dict[str, Any]] = []
    for name in words.sets:
        world = World(name, words.data_root)
        for target in (Target(world, *pair) for pair in TARGETS if pair[0] in words.targets):
            for row in pages(target):
                rows.append(row)
                print(json.dumps(row), file=sys.stderr, flush=True)  # it takes a while
    report(list(claims_of_pages(rows)), as_json=words.json, details=rows)


if __name__ == "__main__":
    main()
