"""How many items of a re-ranker's lists come back from user vectors, and how large is the change?

    python benchmarks/bake.py --data-root DIR [--sets ml-1m amazon-cds-2014] [--json]
    python benchmarks/bake.py --data-root DIR --parts sweep --dims 8 16 --lengths 10 50 100

The benchmark has two parts:

- "goals" compiles the lists of three re-rankers into user vectors (BPRMF, 50 factors, lists of 10). The re-rankers are
  tuned on the validation part to lose 1 % and 5 % of NDCG@10.
- "sweep" varies the number of factors and the length of the lists (MMR at 0.5 over the best max(100, 2 k) candidates;
  vectors of the first 1,000 users).
"""

from __future__ import annotations

import time
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from harness import Claim, parser, report
from recprism.data import SparseRows, load_dataset
from recprism.forms.dials import lists_to_vectors
from recprism.metrics import Context, evaluate
from recprism.models import BPRMF, Factors
from recprism.rivals import reranker
from recprism.rule import Features

RERANKERS = ("mmr", "dpp", "xquad_uniform")
LOSSES, BAR = (0.01, 0.05), 0.999
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
        self.features = Features(vectors=self.factors.item, categories=data.categories)
        self.categories = data.categories

    def lists(self, name: str, trade_off: float, k: int, seen: SparseRows) -> Any:
        candidates, scores = self.factors.rank(max(CANDIDATES, 2 * k), exclude=seen)
        return reranker(name, trade_off=trade_off)(candidates, scores, k, features=self.features)

    @cached_property
    def context(self) -> Context:
        return Context.from_split(self.split, "validation", categories=self.categories)

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


def timed(factors: Factors, lists: Any, **options: Any) -> dict[str, Any]:
    start = time.perf_counter()
    compiled = lists_to_vectors(factors, lists, **options)
    seconds = time.perf_counter() - start
    own = options.get("users", np.arange(factors.n_users))
    return {
        "kept": float(compiled.kept.mean()),
        "whole": float((compiled.kept == 1).mean()),
        "size": compiled.size,
        "median_size": float(np.median(compiled.sizes[own])),
        "mean_change": compiled.mean_change,
        "seconds": seconds,
        "feasible": float(compiled.feasible[own].mean()),
    }


def goals(world: World) -> Iterable[dict[str, Any]]:
    warm_up(world)
    base, _ = world.factors.rank(K, exclude=world.seen)
    for name in RERANKERS:
        for loss in LOSSES:
            trade_off = world.tuned(name, loss)
            lists = world.lists(name, trade_off, K, world.seen)
            about = {"set": world.name, "reranker": name, "loss": loss, "trade_off": trade_off}
            yield {**about, "base": overlap(lists, base), **timed(world.factors, lists, exclude=world.seen)}


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
            yield {**about, **timed(world.factors, lists[some], **own)}


def warm_up(world: World) -> None:
    """Compile the kernels before any measurement."""
    some = np.arange(8)
    lists = world.lists("mmr", 0.5, K, world.seen)[some]
    timed(world.factors, lists, users=some, exclude=world.seen.take_rows(some))


def claims_of(rows: list[dict[str, Any]]) -> list[Claim]:
    claims = []
    for row in rows:
        where = f"{row['set']}, {row['reranker']} at {row['loss']:.0%} NDCG"
        claims.append(Claim(f"{where}: share of list items reproduced", row["kept"], BAR, "higher"))
        if row["set"] == "ml-1m":
            claims.append(Claim(f"{where}: seconds", row["seconds"], SECONDS))
    return claims


def main() -> None:
    options = parser(__doc__)
    options.add_argument("--data-root")
    options.add_argument("--sets", nargs="+", default=["ml-1m", "amazon-cds-2014"])
    options.add_argument("--parts", nargs="+", choices=("goals", "sweep"), default=["goals", "sweep"])
    options.add_argument("--dims", nargs="+", type=int, default=[8, 16, 50, 128])
    options.add_argument("--lengths", nargs="+", type=int, default=[10, 50, 100])
    words = options.parse_args()
    details: dict[str, list[dict[str, Any]]] = {part: [] for part in words.parts}
    if "goals" in words.parts:
        for name in words.sets:
            details["goals"] += goals(World(name, words.data_root))
    if "sweep" in words.parts:
        details["sweep"] += sweep(words.sets[0], words.data_root, words.dims, words.lengths)
    claims = claims_of(details.get("goals", []))
    for row in details.get("sweep", []):
        where = f"{row['set']}, d={row['dim']}, k={row['k']} (base {row['base']:.3f})"
        claims.append(Claim(f"{where}: share reproduced, {row['seconds']:.1f} s", row["kept"], None))
    report(claims, as_json=words.json, details=details)


if __name__ == "__main__":
    main()
