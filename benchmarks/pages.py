"""Are vectors that hold diverse lists more than a cache? What they give on other pages than the first.

    python benchmarks/pages.py --data-root DIR [--sets ml-1m amazon-cds-2014] [--json]

Users fall into three groups (70, 15 and 15 %). BPRMF (50 factors) is trained on the first alone; the others are folded
in from their training interactions. What is learned is learned from the lists that a re-ranker gives the first group,
which is folded in again, so that all vectors come about alike. Every choice is made on first pages of the second group,
on the validation part: the most SC that costs no more NDCG than the re-ranker. The figures are the third group's on the
test part; all gains are over the base model in the same scenario.

Scenarios: the first page, the second page, what follows when five items are consumed, and two random fifths of the
catalogue out of stock. "robust" methods were fitted to several scenarios of each user, with other random masks. There
is one seed. On two cores a set takes about ten minutes. What carried over to other users: docs/design/carry.md.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from folding import fold_in
from harness import Claim, parser, report
from recprism.data import Incidence, load_dataset
from recprism.dials.solve import lists_to_vectors
from recprism.metrics import Context, evaluate
from recprism.models import BPRMF, Factors
from recprism.rerank import Features, reranker

K, CANDIDATES, FIFTH = 10, 100, 5
TARGETS = (("xquad_uniform", 0.8), ("optimal_subtopic_coverage", 0.3))
STRENGTHS = (0.2, 0.4, 0.6, 0.7, 0.8, 0.9, 1.0, 1.25, 1.5, 2.0, 3.0)
PRICE = 0.1
BAR = 0.6
Lists = NDArray[np.int64]
Made = Callable[[Factors, float], Factors]
"""From the folded-in users of a group, and a strength, to what serves them."""


@dataclass(eq=False)
class World:
    """A data set, its three groups of users, and a model that knows the first."""

    name: str
    data_root: str | None

    def __post_init__(self) -> None:
        data = load_dataset(self.name, preset="paper", data_root=self.data_root)
        self.split, self.subtopics = data.split(seed=0), data.subtopics
        order = np.random.default_rng(0).permutation(self.split.n_users)
        cuts = [int(0.7 * len(order)), int(0.85 * len(order))]
        self.groups = [np.sort(part) for part in np.split(order, cuts)]
        self.trained = BPRMF().fit(self.split.of_users(self.groups[0]), seed=0, device="cpu")
        self.folded = fold_in(self.trained, self.split.train)
        self.features = Features(subtopics=self.subtopics)

    def users(self, group: int) -> Factors:
        return self.trained.with_vectors(user=self.folded[self.groups[group]])

    @lru_cache  # noqa: B019 - one world per set; the same object each time, so that masks are made once
    def seen(self, group: int, part: Any) -> Incidence:
        return self.split.seen_before(part).take_rows(self.groups[group])

    def judge(self, lists: Lists, group: int, part: Any) -> dict[str, float]:
        context = Context(relevant=self.split.part(part).take_rows(self.groups[group]), subtopics=self.subtopics)
        scores = evaluate(lists, context, ["ndcg@10", "subtopic_coverage@10"], bootstrap=0)
        return {"ndcg": scores["ndcg@10"].mean, "subtopic_coverage": scores["subtopic_coverage@10"].mean}


@dataclass(eq=False)
class Target:
    """A re-ranker whose lists are to be carried."""

    world: World
    name: str
    trade_off: float

    def lists(self, users: Factors, seen: Incidence) -> Lists:
        candidates, scores = users.rank(CANDIDATES, exclude=seen)
        method = reranker(self.name, trade_off=self.trade_off, sort_back=True)
        return np.asarray(method(candidates, scores, K, features=self.world.features))

    @cached_property
    def taught(self) -> tuple[Lists, Incidence]:
        """The first group's lists, and what they could not hold."""
        seen = self.world.seen(0, "test")
        return self.lists(self.world.users(0), seen), seen

    def scenarios(self, group: int, part: Any, seed: int, masks: int) -> tuple[Lists, NDArray[np.int64], Incidence]:
        """Lists, users and exclusions of several scenarios of each user; each row has a random mask of its own."""
        users, seen = self.world.users(group), self.world.seen(group, part)
        generator = np.random.default_rng(seed)
        first = self.lists(users, seen)
        excluded = [seen, seen.union(held(first[:, :5], seen)), seen.union(held(first, seen))]
        excluded += [seen.union(Incidence.coerce(generator.random(seen.shape) < 1 / FIFTH)) for _ in range(masks)]
        lists = np.concatenate([first, *(self.lists(users, rows) for rows in excluded[1:])])
        return lists, np.tile(np.arange(len(first)), len(excluded)), stacked(excluded)


def held(lists: Lists, like: Incidence) -> Incidence:
    """Lists as a matrix."""
    row, place = np.nonzero(lists >= 0)
    return Incidence.from_pairs(row, lists[row, place], like.shape)


def stacked(parts: list[Incidence]) -> Incidence:
    ends = np.cumsum([0, *(len(part) for part in parts)])
    starts = [part.indptr[:-1] + end for part, end in zip(parts, ends[:-1], strict=True)]
    indptr = np.concatenate([*starts, ends[-1:]]).astype(np.int64)
    return Incidence(indptr, np.concatenate([part.indices for part in parts]), parts[0].n_cols)


@lru_cache(maxsize=8)
def out_of_stock(seen: Incidence, seed: int) -> Incidence:
    """Seen items and, for all users alike, a random fifth of the catalogue."""
    gone = np.flatnonzero(np.random.default_rng(seed).random(seen.n_cols) < 1 / FIFTH)
    rows = np.repeat(np.arange(seen.n_rows), len(gone))
    return seen.union(Incidence.from_pairs(rows, np.tile(gone, seen.n_rows), seen.shape))


Pages = dict[str, Lists]
MASKS = (1001, 1002)


def ranked_pages(served: Factors, seen: Incidence) -> Pages:
    """What plain ranking gives: five consumed items are its own first five, the second page comes after its first."""
    first = served.rank(2 * K, exclude=seen)[0]
    pages = {"first": first[:, :K], "second": first[:, K:], "consumed": first[:, 5 : 5 + K]}
    return pages | {f"stock {seed}": served.rank(K, exclude=out_of_stock(seen, seed))[0] for seed in MASKS}


def reranked_pages(target: Target, users: Factors, seen: Incidence) -> Pages:
    """The re-ranker run again in each scenario."""
    first = target.lists(users, seen)
    pages = {
        "first": first,
        "second": target.lists(users, seen.union(held(first, seen))),
        "consumed": target.lists(users, seen.union(held(first[:, :5], seen))),
    }
    return pages | {f"stock {seed}": target.lists(users, out_of_stock(seen, seed)) for seed in MASKS}


def table_pages(target: Target, users: Factors, seen: Incidence) -> Pages:
    """A stored list of ten minus what is gone, and then the base order."""
    first = target.lists(users, seen)

    def then(kept: Lists, excluded: Incidence) -> Lists:
        rest = users.rank(K, exclude=excluded.union(held(first, seen)))[0]
        both = np.hstack([kept, rest])
        return np.take_along_axis(both, np.argsort(both < 0, axis=1, kind="stable"), 1)[:, :K]

    pages = {"first": first, "second": then(first[:, :0], seen), "consumed": then(first[:, 5:], seen)}
    for seed in MASKS:
        excluded = out_of_stock(seen, seed)
        rows = np.arange(len(first))[:, None] * seen.n_cols + first
        pages[f"stock {seed}"] = then(np.where(np.isin(rows, excluded.keys), -1, first), excluded)
    return pages


def judged(world: World, pages: Pages, group: int, part: Any) -> dict[str, dict[str, float]]:
    return {name: world.judge(lists, group, part) for name, lists in pages.items()}


def gains(now: dict[str, dict[str, float]], base: dict[str, dict[str, float]]) -> dict[str, dict[str, float]]:
    """Per page, the change of NDCG and SC in per cent of the base model's."""
    return {
        page: {metric: 100 * (value / base[page][metric] - 1) for metric, value in row.items()}
        for page, row in now.items()
    }


def first_page(users: Factors, seen: Incidence) -> Pages:
    return {"first": users.rank(K, exclude=seen)[0]}


def best_strength(target: Target, variants: dict[str, Made]) -> tuple[str, float]:
    """On first pages of the second group: the most SC among what loses no more NDCG than the re-ranker."""
    world, part = target.world, "validation"
    users, seen = world.users(1), world.seen(1, part)
    base = judged(world, first_page(users, seen), 1, part)
    bar = gains(judged(world, {"first": target.lists(users, seen)}, 1, part), base)["first"]
    best = (-np.inf, next(iter(variants)), 0.0)
    for name, made in variants.items():
        for strength in STRENGTHS:
            row = gains(judged(world, first_page(made(users, strength), seen), 1, part), base)["first"]
            if row["ndcg"] >= min(bar["ndcg"], 0.0):
                best = max(best, (row["subtopic_coverage"], name, strength))
    return best[1:]


def item_side(target: Target, rows: tuple[Any, Any, Any] | None = None) -> Made:
    lists, seen = target.taught
    lists, users, exclude = (lists, None, seen) if rows is None else rows
    change = lists_to_vectors(
        target.world.users(0), lists, "item", users=users, exclude=exclude, price=PRICE
    ).perturbation.item
    assert change is not None
    moved = change.numpy()
    return lambda factors, strength: factors.with_vectors(item=factors.item + np.float32(strength) * moved)


def user_side(users: Factors, lists: Lists, who: Any, exclude: Incidence) -> Factors:
    return lists_to_vectors(users, lists, users=who, exclude=exclude).applied_to(users)


def learned(target: Target) -> Iterator[tuple[str, Pages]]:
    """What knows nothing of the third group, plain and fitted to several scenarios; strengths go by first pages."""
    users, seen = target.world.users(2), target.world.seen(2, "test")
    rows = target.scenarios(0, "test", 7, 1)
    ways: list[tuple[str, Callable[[], Made]]] = [
        ("item side", lambda: item_side(target)),
        ("item side, robust", lambda: item_side(target, rows)),
    ]
    for name, make in ways:
        made = make()
        _, strength = best_strength(target, {name: made})
        yield name, ranked_pages(made(users, strength), seen)


def held_by_users(target: Target) -> Iterator[tuple[str, Pages]]:
    """What knows the third group's own lists: in a table, in their vectors."""
    users, seen = target.world.users(2), target.world.seen(2, "test")
    yield "re-ranker", reranked_pages(target, users, seen)
    yield "table", table_pages(target, users, seen)
    yield "user side", ranked_pages(user_side(users, target.lists(users, seen), None, seen), seen)
    yield "user side, robust", ranked_pages(user_side(users, *target.scenarios(2, "test", 8, 3)), seen)


def pages(target: Target) -> Iterator[dict[str, Any]]:
    world = target.world
    base = judged(world, ranked_pages(world.users(2), world.seen(2, "test")), 2, "test")
    about = {"set": world.name, "target": target.name, "trade_off": target.trade_off}
    for methods in (held_by_users, learned):
        for name, lists in methods(target):
            yield {**about, "method": name, "pages": gains(judged(world, lists, 2, "test"), base)}


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
