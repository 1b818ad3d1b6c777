"""Five pages of ten for each user: memory of earlier pages, beside one list of fifty that is cut into pages, and MMR.

    python benchmarks/page_memory.py [--data-root DIR] [--users 150] [--json]

A user's candidates are the best 200 unseen items of a BPRMF model (50 factors, trained once, seed 0). The goal is the
number of categories: genres of MovieLens-1M, tags of Last.FM. Two cases:

- same: all pages have the same candidates.
- changing: before each page a tenth of the candidates is sold out, and as many new ones come. New ones are the next
  100 by score. A list of fifty is made for the first page; what is sold out drops out, and the best candidates fill it.

Methods:

- forgetting: each page is a run of the rule that knows nothing of earlier pages, so that items come again. It has the
  trade-off of memory 1.
- no repeats: the same without items of earlier pages, which otherwise do not count.
- memory H: ``shown`` with a half-life of H pages.
- fifty, search: one run of the rule for fifty places, cut by rank.
- fifty, greedy: the same value, place by place; cut in the order in which items were chosen.
- fifty, MMR: cosines of categories, cut likewise. MMR, page by page: without items of earlier pages.

The trade-off of each method is set by bisection so that its pages lose 2 % or 5 % of the relevance of pages by score
alone: the sum over pages of discounted scores, scaled to 0 .. 1 over the 300 candidates. Where candidates change, a
list of fifty loses more than 2 % at any trade-off; the column "loss" says what was reached.

NDCG@10 of a page counts all held-out
items of the user; NDCG@50 is that of all pages as one list, in which a repeated item counts once. Intervals (95 %)
are bootstraps over users; they do not cover other trainings or schedules.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from harness import Claim, parser, report
from recprism import BPRMF, Problem
from recprism.data import load_dataset
from recprism.forms import RuleFile
from recprism.metrics.statistics import bootstrap_means, percentile_interval
from recprism.rivals import MMR
from recprism.rule import Features
from recprism.rule.pool import Pool
from recprism.serving import ServedRule

PAGES, K, N, MORE, DRAWS, STEPS = 5, 10, 200, 100, 2000, 12
LOSSES = (0.02, 0.05)
DISCOUNT = 1 / np.log2(np.arange(2.0, K + 2))
HALF_LIVES = (0.5, 1.0, 2.0, 4.0, float("inf"))
SAME, CHANGING, FORGETTING, OWN = "same", "changing", "forgetting", "memory 1"
Ints = NDArray[np.int64]
Floats = NDArray[np.float64]
Make = Callable[["World", float], Ints]
"""A method: a world and a trade-off in, items of all pages out, (n_users, PAGES, K)."""


@dataclass(frozen=True, eq=False)
class World:
    """Users with candidates.

    Attributes:
        member: Whether each item has each category, (n_items, n_categories) bool.
        score: Scores of all items from 0 to 1, (n_users, n_items); 0 outside of the candidates.
        pools: Candidates of each page, the best first, (PAGES, n_users, N).
        labels: Whether each item is held out, (n_users, n_items) bool.
        page, fifty: The rule for lists of K, and for those of all pages together.
    """

    member: NDArray[np.bool_]
    score: Floats
    pools: Ints
    labels: NDArray[np.bool_]
    page: RuleFile
    fifty: RuleFile

    def sorted(self, items: Ints) -> Ints:
        """Put items, (n_users, m), in the order of scores."""
        return np.take_along_axis(items, np.argsort(-np.take_along_axis(self.score, items, 1), 1, kind="stable"), 1)


def worlds(name: str, data_root: str | None, n_users: int) -> dict[str, World]:
    """Both cases of a data set."""
    data = load_dataset(name, data_root=data_root)
    split = data.split(seed=0)
    problem = Problem(BPRMF(dim=50).fit(split, seed=0, device="cpu"), split, data.categories, "test")
    generator = np.random.default_rng(0)
    users = generator.permutation(np.flatnonzero(np.diff(split.test.indptr)))[:n_users]
    items, own = (np.asarray(it)[users, : N + MORE] for it in problem.candidates)
    score, labels = np.zeros((len(users), split.n_items)), np.zeros((len(users), split.n_items), np.bool_)
    low, high = own[:, -1:], own[:, :1]
    np.put_along_axis(score, items, (own - low) / (high - low), 1)
    for row, user in enumerate(users.tolist()):
        labels[row, split.test.row(user)] = True
    member = np.zeros((split.n_items, len(data.categories.names)), np.bool_)
    for item in range(split.n_items):
        member[item, data.categories.items.row(item)] = True
    files = [RuleFile.of(range(split.n_items), categories=member, k=k) for k in (K, K * PAGES)]
    same = np.broadcast_to(items[:, :N], (PAGES, len(users), N)).astype(np.int64)
    changing = np.stack([schedule(row, generator) for row in items.astype(np.int64)], 1)
    return {case: World(member, score, pools, labels, *files) for case, pools in ((SAME, same), (CHANGING, changing))}


def schedule(items: Ints, generator: np.random.Generator) -> Ints:
    """Candidates of each page, (PAGES, N): a tenth leaves for good, and as many others come."""
    rank = generator.permutation(len(items))
    now, waiting, found = rank[:N], rank[N:], []
    for _ in range(PAGES):
        found.append(items[np.sort(now)])
        now = np.concatenate([generator.permutation(now)[N // 10 :], waiting[: N // 10]])
        waiting = waiting[N // 10 :]
    return np.stack(found)


def by_rule(world: World, trade_off: float, *, half_life: float | None) -> Ints:
    """Page by page; without a half-life every page is a first one."""
    rule = served(world.page)
    pages = np.empty((len(world.score), PAGES, K), np.int64)
    for page, pools in enumerate(world.pools):
        requests = []
        for user, pool in enumerate(pools):
            ages = [(it, page - at) for at in range(page) for it in pages[user, at].tolist()]
            asked = {"candidates": pool, "scores": world.score[user, pool], "price": trade_off, "reasons": False}
            requests.append(asked if half_life is None else {**asked, "shown": ages, "half_life": half_life})
        pages[:, page] = [it.ids for it in rule.rerank_many(requests, threads=1)]
    return pages


def served(file: RuleFile) -> ServedRule:
    return ServedRule(file, candidates=N)


def by_score(world: World) -> Ints:
    """Page by page by score alone, without repeats."""
    return in_pages(world, np.empty((len(world.score), 0), np.int64))


def in_pages(world: World, fifty: Ints) -> Ints:
    """Cut lists, in the order in which items were chosen, and fill them with the best candidates."""
    pages = np.empty((len(world.score), PAGES, K), np.int64)
    for user in range(len(pages)):
        gone = set[int]()
        for page, pool in enumerate(world.pools[:, user].tolist()):
            there = set(pool)
            row = [it for it in fifty[user].tolist() if it in there and it not in gone][:K]
            row += [it for it in pool if it not in gone and it not in row][: K - len(row)]
            pages[user, page] = row
            gone |= set(row)
    return np.stack([world.sorted(pages[:, page]) for page in range(PAGES)], 1)


def fifty_by_search(world: World, trade_off: float) -> Ints:
    rule, requests = served(world.fifty), []
    for user, pool in enumerate(world.pools[0]):
        requests.append({"candidates": pool, "scores": world.score[user, pool], "price": trade_off, "reasons": False})
    return in_pages(world, np.array([it.ids for it in rule.rerank_many(requests, threads=1)]))


def fifty_by_greedy(world: World, trade_off: float) -> Ints:
    """The item that adds most to the value of a list of fifty, place by place."""
    pools, n = world.pools[0], K * PAGES
    has, discount = world.member[pools].astype(np.float32), 1 / np.log2(np.arange(2.0, n + 2))
    relevance, rows = np.take_along_axis(world.score, pools, 1), np.arange(len(pools))
    left, chosen = np.ones((len(pools), has.shape[2]), np.float32), []
    price = trade_off * world.fifty.units["subtopic_coverage"]
    open_ = np.ones(pools.shape, np.bool_)
    for place in range(n):
        value = (1 - trade_off) / discount.sum() * discount[place] * relevance + price * np.matmul(
            has, left[:, :, None]
        )[:, :, 0]
        best = np.where(open_, value, -np.inf).argmax(1)
        open_[rows, best] = False
        left *= 1 - has[rows, best]
        chosen.append(pools[rows, best])
    return in_pages(world, np.stack(chosen, 1))


def mmr(world: World, pools: Ints, k: int, trade_off: float) -> Ints:
    """MMR in the order in which it chooses; -1 in a pool is no candidate."""
    features = Features(categories=world.member.astype(np.float64), vectors=world.member.astype(np.float64))
    scores = np.where(pools >= 0, np.take_along_axis(world.score, np.maximum(pools, 0), 1), -np.inf)
    pool = Pool.of(pools, scores, torch.device("cpu"), world.score.shape[1])
    return np.take_along_axis(pools, MMR(trade_off=trade_off).choose(pool, k, features).numpy(), 1)


def fifty_by_mmr(world: World, trade_off: float) -> Ints:
    return in_pages(world, mmr(world, by_rank(world, world.pools[0]), K * PAGES, trade_off))


def by_rank(world: World, pools: Ints) -> Ints:
    """Candidates in the order of scores, -1 last."""
    score = np.where(pools >= 0, np.take_along_axis(world.score, np.maximum(pools, 0), 1), -np.inf)
    return np.take_along_axis(pools, np.argsort(-score, 1, kind="stable"), 1)


def mmr_by_page(world: World, trade_off: float) -> Ints:
    pages = np.empty((len(world.score), PAGES, K), np.int64)
    for page, pools in enumerate(world.pools):
        seen = pages[:, :page].reshape(len(pages), -1)
        left = np.where((pools[:, :, None] == seen[:, None]).any(2), -1, pools)
        pages[:, page] = world.sorted(mmr(world, by_rank(world, left), K, trade_off))
    return pages


METHODS: dict[str, Make] = {
    "no repeats": partial(by_rule, half_life=1e-3),
    **{f"memory {it:g}": partial(by_rule, half_life=it) for it in HALF_LIVES},
    "fifty, search": fifty_by_search,
    "fifty, greedy": fifty_by_greedy,
    "fifty, MMR": fifty_by_mmr,
    "MMR, page by page": mmr_by_page,
}


def relevance(world: World, pages: Ints) -> Floats:
    """Discounted scores of all pages of each user, (n_users,)."""
    flat = np.take_along_axis(world.score, pages.reshape(len(pages), -1), 1).reshape(pages.shape)
    return np.asarray((flat @ DISCOUNT).sum(1))


def at_loss(make: Make, world: World, best: Floats, loss: float) -> tuple[float, Ints]:
    """The trade-off with the wanted loss, and its pages."""
    low, high = -9.0, 9.0  # log-odds
    for _ in range(STEPS):
        middle = (low + high) / 2
        trade_off = float(1 / (1 + np.exp(-middle)))
        pages = make(world, trade_off)
        low, high = (low, middle) if 1 - relevance(world, pages).sum() / best.sum() > loss else (middle, high)
    return trade_off, pages


def measures(world: World, pages: Ints, best: Floats) -> dict[str, Floats]:
    """Figures of each user, (n_users,) each."""
    rows = np.arange(len(pages))[:, None]
    flat = pages.reshape(len(pages), -1)
    first = np.array([[it not in row[:at] for at, it in enumerate(row)] for row in flat.tolist()])
    hits, number = world.labels[rows, flat], world.labels.sum(1)
    long = 1 / np.log2(np.arange(2.0, PAGES * K + 2))
    ideal, of_page = np.cumsum(long)[np.minimum(number, PAGES * K) - 1], np.cumsum(DISCOUNT)[np.minimum(number, K) - 1]
    found = {
        "loss": (best - relevance(world, pages)) / best.mean(),
        "categories seen": world.member[flat].any(1).sum(1).astype(float),
        "categories of a page": world.member[pages].any(2).sum(2).mean(1),
        "repeats": 1 - first.mean(1),
        "NDCG@50": (hits & first) @ long / ideal,
    }
    for page in range(PAGES):
        found[f"NDCG@10 of page {page + 1}"] = world.labels[rows, pages[:, page]] @ DISCOUNT / of_page
    return found


def interval(values: Floats) -> tuple[float, float, float]:
    """A mean and the ends of its interval."""
    low, high = percentile_interval(bootstrap_means(values[:, None], DRAWS, np.random.default_rng(0)), 0.95)
    return float(values.mean()), float(low[0]), float(high[0])


def compare(world: World, loss: float) -> tuple[dict[str, dict[str, Floats]], dict[str, float]]:
    """The figures and the trade-off of each method."""
    plain = by_score(world)
    best, trade_offs = relevance(world, plain), {}
    found = {"by score alone": measures(world, plain, best)}
    for name, make in METHODS.items():
        trade_offs[name], pages = at_loss(make, world, best, loss)
        found[name] = measures(world, pages, best)
    found[FORGETTING] = measures(world, by_rule(world, trade_offs[OWN], half_life=None), best)
    return found, trade_offs


def claims_of(name: str, found: dict[str, dict[str, Floats]]) -> list[Claim]:
    """Paired differences of memory to the others."""
    claims = []
    for other in ("no repeats", "fifty, search", "fifty, greedy", "fifty, MMR", "MMR, page by page"):
        for measure in ("categories seen", "categories of a page", "NDCG@50"):
            mean, low, high = interval(found[OWN][measure] - found[other][measure])
            words = f"{name}: {measure}, {OWN} minus {other}, low end (mean {mean:.4g}, high end {high:.4g})"
            bar = 0.0 if CHANGING in name and measure == "categories seen" else None
            claims.append(Claim(words, low, bar, "higher"))
    return claims


def table_of(compared: dict[str, dict[str, dict[str, Floats]]]) -> list[list[str]]:
    rows: list[list[str]] = []
    for name, found in compared.items():
        for method, values in found.items():
            if not rows:
                rows.append(["case", "method", *values])
            cells = [f"{mean:.4g} ({low:.4g} to {high:.4g})" for mean, low, high in map(interval, values.values())]
            rows.append([name, method, *cells])
    return rows


def main() -> int:
    options = parser(__doc__)
    options.add_argument("--data-root", default=os.environ.get("RECPRISM_DATA"))
    options.add_argument("--users", type=int, default=150, help="users of each data set")
    words = options.parse_args()
    compared, chosen, claims = {}, {}, list[Claim]()
    for data in ("ml-1m", "hetrec2011-lastfm-2k"):
        for case, world in worlds(data, words.data_root, words.users).items():
            for loss in LOSSES:
                name = f"{data}, {case}, loss {loss:.0%}"
                compared[name], chosen[name] = compare(world, loss)
                claims += claims_of(name, compared[name])
    table = table_of(compared)
    if not words.json:
        for cells in (table[0], ["---"] * len(table[0]), *table[1:]):
            print(f"| {' | '.join(cells)} |")
        print()
    details: dict[str, Any] = {"table": table, "trade_offs": chosen}
    report(claims, as_json=words.json, details=details)
    return 0


if __name__ == "__main__":
    sys.exit(main())
