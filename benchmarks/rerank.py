"""Re-ranking: lists per second, against pyversity.

100 candidates with 50-dimensional vectors, lists of 10, trade-off 0.5. pyversity takes one user at a time, as its
interface demands; it gets vectors and scores cut out beforehand and is charged for nothing else. Ours is charged for
everything from candidates and scores to lists: checks, ranking, scaling, looking vectors up. The search is timed at
0.5 alone; "an editor's rules" are MMR with three shares of categories and a floor for the tail.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from pyversity import dpp, mmr

from harness import Claim, interleaved, parser, report
from recprism.rivals import DPP, MMR, RERANKERS, reranker
from recprism.rule import Constrained, Constraints, Features

N_ITEMS, N_CANDIDATES, DIM, N_CATEGORIES, K = 3_000, 100, 50, 18, 10
N_USERS, N_USERS_OF_PYVERSITY = 6_000, 300  # enough of each that a turn takes about as long
TRADE_OFFS = (0.1, 0.5, 1.0)
BAR = 20.0
REPEATS = 9


@dataclass
class World:
    """The best candidates of a random factor model, and what items are about."""

    candidates: Any
    scores: Any
    vectors: Any
    features: Features

    @classmethod
    def random(cls, seed: int) -> World:
        generator = np.random.default_rng(seed)
        users = generator.normal(size=(N_USERS, DIM)).astype(np.float32)
        vectors = generator.normal(size=(N_ITEMS, DIM)).astype(np.float32)
        scores = users @ vectors.T
        candidates = np.argsort(-scores, axis=1)[:, :N_CANDIDATES]
        features = Features(
            vectors=vectors,
            categories=generator.random((N_ITEMS, N_CATEGORIES)) < 0.12,
            user_categories=generator.random((N_USERS, N_CATEGORIES)),
        )
        return cls(candidates, np.take_along_axis(scores, candidates, 1), vectors, features)


def ours(world: World, name: str, trade_off: float) -> Callable[[], Any]:
    method = reranker(name, trade_off=trade_off)
    return lambda: method(world.candidates, world.scores, K, features=world.features)


def with_rules(world: World) -> Callable[[], Any]:
    shares = {"min_share": {0: 0.2, 1: 0.3}, "max_share": {2: 0.2}}
    kept = Constraints(**shares, tail_floor=0.5).resolve()
    method = Constrained(MMR(trade_off=0.5), kept, popularity=1 / np.arange(1.0, N_ITEMS + 1))
    return lambda: method(world.candidates, world.scores, K, features=world.features)


def one_at_a_time(world: World, method: Callable[..., Any], trade_off: float) -> Callable[[], Any]:
    portions = [(world.vectors[world.candidates[user]], world.scores[user]) for user in range(N_USERS_OF_PYVERSITY)]
    return lambda: [method(vectors, scores, K, diversity=trade_off) for vectors, scores in portions]


def main() -> None:
    options = parser(__doc__).parse_args()
    world = World.random(seed=0)
    tasks: dict[str, Callable[[], Any]] = {
        f"pyversity {method.__name__}": one_at_a_time(world, method, 0.5) for method in (mmr, dpp)
    }
    tasks |= {
        f"{name} at {trade_off}": ours(world, name, trade_off)
        for name in RERANKERS
        for trade_off in ((0.5,) if name.startswith("optimal") else TRADE_OFFS)
    }
    tasks["an editor's rules at 0.5"] = with_rules(world)
    seconds = interleaved(tasks, repeats=REPEATS)
    speed = {
        name: (N_USERS_OF_PYVERSITY if name.startswith("pyversity") else N_USERS) / taken
        for name, taken in seconds.items()
    }
    claims = [
        Claim(
            f"{method.__name__} lists/s over pyversity's",
            speed[f"{key} at 0.5"] / speed[f"pyversity {key}"],
            BAR,
            "higher",
        )
        for method, key in ((MMR, "mmr"), (DPP, "dpp"))
    ]
    claims += [Claim(f"{name}: lists/s", round(value), None, "higher") for name, value in speed.items()]
    report(claims, as_json=options.json, packages=("pyversity",), details={"lists_per_second": speed})


if __name__ == "__main__":
    main()
