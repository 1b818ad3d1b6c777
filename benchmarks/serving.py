"""Swapped vectors in a real stack: how much of the gain approximate indexes keep, and how long a request takes.

    python benchmarks/serving.py --run runs/ml1m [--json]

There are two catalogues: ML-1M (the run; the search filters seen items) and a million synthetic items. The
indexes are FAISS by inner product: flat, HNSW, IVF-PQ and int8. "Share of the gain" is relative to the gain in SC@10 of
exact search. It is the smaller of two: over the exact base lists, and over base vectors in the same index. "Swapped in"
are items of the exact swapped list that the base list does not have. Their recall is printed next to that of the other
items of the same lists, at the same effort. Vectors "for this index" come from `recprism export --for-index`; a margin
is that of `--margin`.

Requests are answered one at a time by one thread, the ways to answer taking turns in an order drawn for each request.
"Base again" is the same as base: its largest deviation in a round is the noise that swapped vectors are compared with.
Re-rankers get 100 candidates from the same index.
Needs about 3 GiB and five minutes on two quiet cores.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from typing import Any

import faiss
import numpy as np
import pyversity

from harness import Claim, parser, report
from recprism.rivals import reranker
from recprism.rule import Features
from serving_worlds import (
    POOL,
    Index,
    K,
    Lists,
    Vectors,
    World,
    flat,
    hnsw,
    int8,
    ivf_pq,
    million,
    movielens,
)

MARGINS = (0.02, 0.1, 0.4)
BAR = 0.9
ROUNDS, REQUESTS = 7, 200
ONLY_SEARCH = ("base", "base again", "swapped")
Answer = Callable[[int], Any]


def found_in(wanted: Lists, lists: Lists) -> Any:
    """(n, k) which of the wanted items the lists hold."""
    return (wanted[:, :, None] == lists[:, None, :]).any(2)


def quality(world: World, index: Index, effort: int, swapped: Vectors, base: Lists) -> dict[str, float]:
    """base: what base vectors give in the same index at the same effort."""
    exact_base, exact = world.lists
    lists = index.lists(swapped, world, effort)
    there, new = found_in(exact, lists), ~found_in(exact, exact_base)
    gain, subtopic_coverage = (
        world.subtopic_coverage(exact) - world.subtopic_coverage(exact_base),
        world.subtopic_coverage(lists),
    )
    return {
        "overlap": float(there.mean()),
        "overlap of base": float(found_in(exact_base, base).mean()),
        "share of the gain": min(
            subtopic_coverage - world.subtopic_coverage(exact_base), subtopic_coverage - world.subtopic_coverage(base)
        )
        / gain,
        "recall of swapped in": float(there[new].mean()),
        "recall of others": float(there[~new].mean()),
    }


def variants(world: World, index: Index, firm: dict[float, Vectors]) -> dict[str, Vectors]:
    found = {"as diversified": world.served.user, **{f"margin {margin:g}": it for margin, it in firm.items()}}
    if not index.rounds:
        return {"as diversified": world.served.user}
    return {**found, "for this index": world.firmer(decoded=index.decoded())}


def survival(world: World, indexes: list[Index]) -> tuple[list[Claim], dict[str, Any]]:
    claims, details = [], {}
    firm = {margin: world.firmer(margin) for margin in MARGINS}
    for index in indexes:
        made = variants(world, index, firm)
        for effort in index.efforts:
            base = index.lists(world.base.user, world, effort)
            for name, vectors in made.items():
                at = f"{world.name}, {index.name}{f' at {effort}' if effort else ''}, {name}"
                details[at] = facts = quality(world, index, effort, vectors, base)
                claims += rows(at, facts, bar=BAR if name == "for this index" else None)
        note(f"{world.name}: {index.name}")
    return claims, details


def rows(at: str, facts: dict[str, float], bar: float | None) -> list[Claim]:
    beside = f"overlap {facts['overlap']:.3f}, of base {facts['overlap of base']:.3f}"
    recall = f"recall swapped in {facts['recall of swapped in']:.3f}, others {facts['recall of others']:.3f}"
    return [Claim(f"{at}: share of the gain ({beside}; {recall})", facts["share of the gain"], bar, "higher")]


def norms(what: str, before: Vectors, after: Vectors) -> Claim:
    def words(vectors: Vectors) -> str:
        return " / ".join(f"{it:.3f}" for it in np.quantile(np.linalg.norm(vectors, axis=1), (0.01, 0.5, 0.99)))

    return Claim(f"{what}: lengths at 1 / 50 / 99 %, before -> after", f"{words(before)} -> {words(after)}", None)


def answers(world: World, index: Index, effort: int) -> dict[str, Answer]:
    """name -> what answers the request of a user."""
    base, swapped, item = world.base.user, world.served.user, world.base.item

    def search(vector: Vectors, user: int, k: int = K) -> Any:
        return index.ask(vector, k, world.allowed[user], effort)

    def pyversitys(method: Any) -> Answer:
        def answer(user: int) -> Any:
            scores, items = search(base[user : user + 1], user, POOL)
            return items[0][method(item[items[0]], scores[0], K, diversity=0.5).indices]

        return answer

    def ours(name: str) -> Answer:
        method, rows = reranker(name, trade_off=0.5), np.arange(POOL)[None]

        def answer(user: int) -> Any:
            scores, items = search(base[user : user + 1], user, POOL)
            return items[0][method(rows, scores, K, features=Features(vectors=item[items[0]]))[0]]

        return answer

    return {
        "base": lambda user: search(base[user : user + 1], user),
        "base again": lambda user: search(base[user : user + 1], user),
        "swapped": lambda user: search(swapped[user : user + 1], user),
        "100, then pyversity's MMR": pyversitys(pyversity.mmr),
        "100, then pyversity's DPP": pyversitys(pyversity.dpp),
        "100, then our MMR": ours("mmr"),
        "100, then our DPP": ours("dpp"),
    }


def timed(ways: dict[str, Answer], users: Any) -> dict[str, Any]:
    """name -> (rounds, requests) seconds.

    The order is drawn anew for each request: who always came after the same other would always find its caches.
    """
    names, generator = list(ways), np.random.default_rng(0)
    seconds = {name: np.empty((ROUNDS, len(users))) for name in names}
    for turn in range(-1, ROUNDS):
        for at, user in enumerate(users):
            for name in generator.permutation(names):
                start = time.perf_counter()
                ways[name](int(user))
                if turn >= 0:
                    seconds[name][turn, at] = time.perf_counter() - start
    return seconds


def speed(
    world: World, index: Index, effort: int, only: tuple[str, ...] | None = None
) -> tuple[list[Claim], dict[str, Any]]:
    users = np.random.default_rng(0).choice(world.base.n_users, min(REQUESTS, world.base.n_users), replace=False)
    ways = answers(world, index, effort)
    seconds = timed({name: ways[name] for name in only or ways}, users)
    where = f"{world.name}, {index.name}{f' at {effort}' if effort else ''}"
    per_round = {name: np.median(it, axis=1) for name, it in seconds.items()}
    off = np.abs(per_round["base again"] / per_round["base"] - 1).max()
    ratio = float(np.median(per_round["swapped"] / per_round["base"]))
    claims = [
        Claim(
            f"{where}: time of swapped over base (base again over base in {ROUNDS} rounds: 1 ± {off:.3f})",
            ratio,
            1 + float(off),
        )
    ]
    details = {}
    for name, taken in seconds.items():
        p50, p99 = np.quantile(taken, (0.5, 0.99)) * 1e6
        details[f"{where}, {name}"] = facts = {"requests/s": 1 / taken.mean(), "p50 us": p50, "p99 us": p99}
        claims.append(
            Claim(
                f"{where}, {name}: requests/s (p50 {p50:,.0f} µs, p99 {p99:,.0f} µs)", round(facts["requests/s"]), None
            )
        )
    note(f"{where}: timed")
    return claims, details


def note(words: str) -> None:
    print(f"{time.perf_counter() - STARTED:6.0f} s  {words}", file=sys.stderr)


STARTED = time.perf_counter()


def main() -> None:
    options = parser(__doc__)
    options.add_argument("--run", default="runs/ml1m", help="a run of ML-1M, diversified within a budget")
    options.add_argument("--items", type=int, default=1_000_000)
    options.add_argument("--users", type=int, default=300, help="of the made catalogue")
    asked = options.parse_args()
    films, made = movielens(asked.run), million(asked.items, asked.users)
    note("worlds made")
    of_films = [
        flat(films.base.item),
        hnsw(films.base.item, (64,)),
        int8(films.base.item),
        ivf_pq(films.base.item, 32, (8, 16)),
    ]
    of_made = [
        flat(made.base.item),
        hnsw(made.base.item, (256, 1024)),
        int8(made.base.item),
        ivf_pq(made.base.item, 1024, (64, 256)),
    ]
    note("indexes built")
    claims, details = [], {}
    for world, indexes in ((films, of_films), (made, of_made)):
        claims.append(norms(f"{world.name}, user vectors", world.base.user, world.served.user))
        more, facts = survival(world, indexes)
        claims, details = claims + more, details | facts
    faiss.omp_set_num_threads(1)
    for asked_of in (
        (films, of_films[0], 0, ONLY_SEARCH),
        (films, of_films[1], 64),
        (made, of_made[1], 256),
        (made, of_made[3], 64, ONLY_SEARCH),
    ):
        more, facts = speed(*asked_of)
        claims, details = claims + more, details | facts
    packages = ("faiss-cpu", "pyversity")
    report(claims, as_json=asked.json, packages=packages, details=details)


if __name__ == "__main__":
    main()
