"""What an approximate index costs: lists of engine="faiss" against exact ones.

    python benchmarks/ann.py --run runs/ml1m [--json]

Two catalogues: ML-1M (the run's base vectors, seen items left out, judged on the test part) and half a million made
items, where users have seen a hundred of their best items each. Probes are cells looked into, of the number of cells
the engine takes by itself. "Overlap" is the share of the exact ten items that is found; NDCG and SC are relative
differences from exact. Times are processor seconds of the lists alone (both cores together); the index is made before.
"""

from __future__ import annotations

import sys
import time
from dataclasses import dataclass
from typing import Any

import numpy as np

from harness import Claim, parser, report
from large_worlds import Catalogue
from recprism.data import Incidence
from recprism.metrics import Context, evaluate
from recprism.models import Factors
from recprism.ranking import topk
from recprism.ranking._faiss_engine import ItemIndex, Probing
from recprism.runs.run import Run

K, SEEN = 10, 100


@dataclass(frozen=True, eq=False)
class World:
    name: str
    factors: Factors
    seen: Incidence
    context: Context
    metrics: tuple[str, ...]
    probes: tuple[int | None, ...]


def main() -> None:
    options = parser(__doc__)
    options.add_argument("--run", required=True, help="a run on ML-1M")
    options.add_argument("--items", type=int, default=500_000)
    options.add_argument("--users", type=int, default=2_000)
    chosen = options.parse_args()
    claims, details = [], {}
    for world in (movielens(chosen.run), made(chosen.users, chosen.items)):
        details[world.name] = facts = compared(world)
        claims += rows(world.name, facts)
    report(claims, as_json=chosen.json, packages=("faiss-cpu",), details=details)


def movielens(path: str) -> World:
    run = Run.open(path)
    context = Context.from_split(run.split(), "test", subtopics=run.subtopics())
    seen = run.split().seen_before("test")
    return World("ML-1M", run.factors(), seen, context, ("ndcg@10", "subtopic_coverage@10"), (4, 14, None, 64))


def made(n_users: int, n_items: int) -> World:
    catalogue = Catalogue(n_users, n_items, 64)
    factors = catalogue.factors()
    best, _ = factors.rank(SEEN)
    rows = np.repeat(np.arange(n_users), SEEN)
    seen = Incidence.from_pairs(rows, best.ravel(), (n_users, n_items))
    context = Context(relevant=Incidence.empty(seen.shape), subtopics=catalogue.subtopics())
    name = f"{n_items:,} synthetic items"
    return World(name, factors, seen, context, ("subtopic_coverage@10",), (16, 64, None, 1024))


def compared(world: World) -> dict[str, Any]:
    user, item = world.factors.search_vectors
    topk(user[:3000], item[:100], K)  # compiles
    start = time.process_time()
    exact = topk(user, item, K, exclude=world.seen)[0]
    seconds = time.process_time() - start
    truth = judged(world, exact)
    facts: dict[str, Any] = {"exact": {"seconds": seconds, **truth}}
    for probes in world.probes:
        start = time.process_time()
        index = ItemIndex(item, Probing(probes=probes))
        built = time.process_time()
        lists = index.rank(user, K, exclude=world.seen)[0].numpy()
        took = time.process_time() - built
        found = float((exact[:, :, None] == lists[:, None, :]).any(2).mean())
        change = {f"change of {name}": value / truth[name] - 1 for name, value in judged(world, lists).items()}
        shown = f"{index.probes} of {index.cells} cells{'' if probes else ' (default)'}"
        facts[shown] = {"overlap": found, **change, "seconds": took, "seconds to build": built - start}
        print(f"{world.name}: {shown}: {facts[shown]}", file=sys.stderr, flush=True)
    return facts


def judged(world: World, lists: Any) -> dict[str, float]:
    values = evaluate(lists, world.context, list(world.metrics), bootstrap=0)
    return {name: float(values[name].mean) for name in world.metrics}


def rows(name: str, facts: dict[str, Any]) -> list[Claim]:
    exact = facts.pop("exact")
    claims = [Claim(f"{name}, exact: processor seconds", round(exact["seconds"], 3), None)]
    for probing, found in facts.items():
        changes = ", ".join(f"{at.removeprefix('change of ')} {found[at]:+.2%}" for at in found if "change" in at)
        claims.append(Claim(f"{name}, {probing}: overlap with exact ({changes})", round(found["overlap"], 4), None))
        took = f"processor seconds (and to build {found['seconds to build']:.2f})"
        claims.append(Claim(f"{name}, {probing}: {took}", round(found["seconds"], 3), None))
    return claims


if __name__ == "__main__":
    main()
