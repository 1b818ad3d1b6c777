"""How many items of a re-ranker's lists come back from user or item vectors, and how large is the change?

    python benchmarks/bake.py --data-root DIR [--sets ml-1m amazon-cds-2014] [--json]
    python benchmarks/bake.py --data-root DIR --parts sweep --dims 8 16 --lengths 10 50 100

The benchmark has three parts:

- "goals" compiles the lists of three re-rankers into user vectors and into item vectors (BPRMF, 50 factors, lists of
  10). The re-rankers are tuned on the validation part to lose 1 % and 5 % of NDCG@10.
- "unseen" fits item vectors on four fifths of the users, at several prices, and evaluates the other users.
- "sweep" varies the number of factors and the length of the lists (MMR at 0.5 over the best max(100, 2 k) candidates;
  the user side on the first 1,000 users).

Two cores need about half an hour for all parts.
"""

from __future__ import annotations

import time
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from harness import Claim, parser, report
from recprism.data import Incidence, load_dataset
from recprism.dials import CompiledVectors, lists_to_vectors
from recprism.metrics import Context, evaluate
from recprism.models import BPRMF, Factors
from recprism.rerank import Features, reranker

RERANKERS = ("mmr", "dpp", "xquad_uniform")
BARS = {0.01: {"user": 0.999, "item": 0.97}, 0.05: {"user": 0.999, "item": 0.95}}
PRICES = (0.001, 0.1, 1.0, 10.0)
K, CANDIDATES, USERS_OF_SWEEP, SECONDS = 10, 100, 1_000, 180


@dataclass
class World:
    """A data set, a model trained on it, and the candidates of its users."""

    name: str
    data_root: str | None
    dim: int = 50

    def __post_init__(self) -> None:
        data = load_dataset(self.name, preset="paper", data_root=self.data_root)
        self.split = data.split(seed=0)
        self.seen = self.split.seen_before("test")
        self.factors = BPRMF(dim=self.dim).fit(self.split, seed=0, device="cpu")
        self.features = Features(vectors=self.factors.item, subtopics=data.subtopics)
        self.subtopics = data.subtopics

    def lists(self, name: str, trade_off: float, k: int, seen: Incidence) -> Any:
        candidates, scores = self.factors.rank(max(CANDIDATES, 2 * k), exclude=seen)
        return reranker(name, trade_off=trade_off)(candidates, scores, k, features=self.features)

    @cached_property
    def context(self) -> Context:
        return Context.from_split(self.split, "validation", subtopics=self.subtopics)

    def ndcg(self, name: str, trade_off: float) -> float:
        lists = self.lists(name, trade_off, K, self.split.train)
        return evaluate(lists, self.context, ["ndcg@10"], bootstrap=0)["ndcg@10"].mean

    def tuned(self, name: str, loss: float) -> float:
        """Find, by bisection, the largest trade-off that loses no more than ``loss`` on the validation part."""
        least = (1 - loss) * self.ndcg(name, 0.0)
        low, high = 0.0, 1.0
        for _ in range(10):
            middle = (low + high) / 2
            low, high = (middle, high) if self.ndcg(name, middle) >= least else (low, middle)
        return low


def overlap(lists: Any, given: Any) -> float:
    """Return the mean share of the items of ``lists`` that are in ``given``."""
    return float((lists[:, :, None] == given[:, None, :]).any(2).mean())


def timed(factors: Factors, lists: Any, side: Any, **options: Any) -> tuple[CompiledVectors, dict[str, Any]]:
    start = time.perf_counter()
    compiled = lists_to_vectors(factors, lists, side, **options)
    seconds = time.perf_counter() - start
    own = options.get("users", np.arange(factors.n_users))
    figures = {
        "side": side,
        "kept": float(compiled.kept.mean()),
        "whole": float((compiled.kept == 1).mean()),
        "size": compiled.size,
        "median_size": float(np.median(compiled.sizes[own])) if side == "user" else float(np.median(compiled.sizes)),
        "mean_change": compiled.mean_change,
        "seconds": seconds,
    }
    if compiled.feasible is not None:
        figures["feasible"] = float(compiled.feasible[own].mean())
    return compiled, figures


def goals(world: World) -> Iterable[dict[str, Any]]:
    warm_up(world)
    base, _ = world.factors.rank(K, exclude=world.seen)
    for name in RERANKERS:
        for loss in BARS:
            trade_off = world.tuned(name, loss)
            lists = world.lists(name, trade_off, K, world.seen)
            for side in ("user", "item"):
                _, figures = timed(world.factors, lists, side, exclude=world.seen)
                about = {"set": world.name, "reranker": name, "loss": loss, "trade_off": trade_off}
                yield {**about, "base": overlap(lists, base), **figures}


def unseen(world: World) -> Iterable[dict[str, Any]]:
    lists = world.lists("dpp", world.tuned("dpp", 0.01), K, world.seen)
    base, _ = world.factors.rank(K, exclude=world.seen)
    fitted = np.random.default_rng(0).random(len(lists)) < 0.8
    some, seen = np.flatnonzero(fitted), world.seen
    for price in PRICES:
        compiled, figures = timed(
            world.factors, lists[some], "item", users=some, exclude=seen.take_rows(some), price=price
        )
        given, _ = compiled.applied_to(world.factors).rank(K, exclude=seen)
        away = {
            "base_unseen": overlap(lists[~fitted], base[~fitted]),
            "unseen": overlap(lists[~fitted], given[~fitted]),
        }
        yield {"set": world.name, "price": price, **figures, **away}


def sweep(name: str, data_root: str | None, dims: list[int], lengths: list[int]) -> Iterable[dict[str, Any]]:
    for dim in dims:
        world = World(name, data_root, dim)
        warm_up(world)
        some = np.arange(min(USERS_OF_SWEEP, world.factors.n_users))
        for k in lengths:
            lists = world.lists("mmr", 0.5, k, world.seen)
            base, _ = world.factors.rank(k, exclude=world.seen)
            about = {"set": name, "dim": dim, "k": k, "base": overlap(lists, base)}
            own = {"users": some, "exclude": world.seen.take_rows(some)}
            yield {**about, **timed(world.factors, lists[some], "user", **own)[1]}
            yield {**about, **timed(world.factors, lists, "item", exclude=world.seen)[1]}


def warm_up(world: World) -> None:
    """Compile the kernels before any measurement."""
    some = np.arange(8)
    lists = world.lists("mmr", 0.5, K, world.seen)[some]
    for side in ("user", "item"):
        timed(world.factors, lists, side, users=some, exclude=world.seen.take_rows(some))


def claims_of(rows: list[dict[str, Any]]) -> list[Claim]:
    claims = []
    for row in rows:
        where = f"{row['set']}, {row['reranker']} at {row['loss']:.0%} NDCG, {row['side']} side"
        claims.append(
            Claim(f"{where}: share of list items reproduced", row["kept"], BARS[row["loss"]][row["side"]], "higher")
        )
        if row["set"] == "ml-1m":
            claims.append(Claim(f"{where}: seconds", row["seconds"], SECONDS))
    return claims


def main() -> None:
    options = parser(__doc__)
    options.add_argument("--data-root")
    options.add_argument("--sets", nargs="+", default=["ml-1m", "amazon-cds-2014"])
    options.add_argument(
        "--parts", nargs="+", choices=("goals", "unseen", "sweep"), default=["goals", "unseen", "sweep"]
    )
    options.add_argument("--dims", nargs="+", type=int, default=[8, 16, 50, 128])
    options.add_argument("--lengths", nargs="+", type=int, default=[10, 50, 100])
    words = options.parse_args()
    details: dict[str, list[dict[str, Any]]] = {part: [] for part in words.parts}
    for name in words.sets:
        world = World(name, words.data_root) if {"goals", "unseen"} & set(words.parts) else None
        for part, rows in (("goals", goals), ("unseen", unseen)):
            if world is not None and part in words.parts:
                details[part] += rows(world)
    if "sweep" in words.parts:
        details["sweep"] += sweep(words.sets[0], words.data_root, words.dims, words.lengths)
    claims = claims_of(details.get("goals", []))
    for row in details.get("unseen", []):
        claims.append(
            Claim(
                f"{row['set']}, DPP at 1%, item side, price {row['price']:g}: share reproduced, unseen users "
                f"(fitted {row['kept']:.3f}, base {row['base_unseen']:.3f})",
                row["unseen"],
                None,
            )
        )
    for row in details.get("sweep", []):
        where = f"{row['set']}, d={row['dim']}, k={row['k']}, {row['side']} side (base {row['base']:.3f})"
        claims.append(Claim(f"{where}: share reproduced, {row['seconds']:.1f} s", row["kept"], None))
    report(claims, as_json=words.json, details=details)


if __name__ == "__main__":
    main()
