"""How much of a result is the same on another machine, with another processor and other versions?

    python benchmarks/platforms.py --pack packed.npz                      (where polars is: data and vectors as arrays)
    python benchmarks/platforms.py --packed packed.npz --write here.npz     (on every machine)
    python benchmarks/platforms.py --compare here.npz there.npz ... [--json]

The embedded MovieLens. "From the same vectors" begins with those of the packed file: ranking, metrics, optimal lists,
lists put into vectors, the players' search. "Trained anew" begins with the split. Also on one machine, by other
instructions: ATEN_CPU_CAPABILITY=default OPENBLAS_CORETYPE=Prescott NUMBA_CPU_NAME=generic NUMBA_CPU_FEATURES= .
Half a minute.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gpu import PARTS, _arrays, unpack
from harness import Claim, machine, parser, report
from recprism.budget.path import rule_at
from recprism.budget.problem import Problem
from recprism.cmb import CMB
from recprism.data import Categories, Split
from recprism.forms import UserVectors
from recprism.models import BPRMF, Factors, LightGCN

METRICS = ("ndcg@10", "recall@10", "subtopic_coverage@10", "alpha_ndcg@10", "ilad@10", "catalogue_coverage@10")
Arrays = dict[str, NDArray[Any]]


def main() -> None:
    options = parser(__doc__)
    for name in ("pack", "packed", "write"):
        options.add_argument(f"--{name}", type=Path)
    options.add_argument("--compare", type=Path, nargs="+", metavar="RESULTS", help="the first against each other")
    asked = options.parse_args()
    if asked.pack:
        pack(asked.pack)
    elif asked.compare:
        here, *others = (dict(np.load(path)) for path in asked.compare)
        report(compared(here, others), as_json=asked.json)
    else:
        np.savez_compressed(asked.write, **results(asked.packed), about=np.array(about()))


def pack(path: Path) -> None:
    from recprism.data import load_dataset  # noqa: PLC0415 - needs polars, which may not be on the other machine

    data = load_dataset("ml-latest-small")
    split = data.split(seed=0)
    factors = BPRMF().fit(split, seed=0, device="cpu")
    parts = {f"{part}_{key}": value for part in PARTS for key, value in _arrays(split.part(part)).items()}  # type: ignore[arg-type]
    categories = {f"categories_{key}": value for key, value in _arrays(data.categories.items).items()}
    np.savez_compressed(path, **parts, **categories, user=factors.user, item=factors.item)


def results(path: Path) -> Arrays:
    """Every stage by name: vectors, lists and means of metrics."""
    split, categories = unpack(path)
    packed = np.load(path)
    given = Factors.from_arrays(packed["user"], packed["item"])
    found = {f"given: {name}": array for name, array in stages(given, split, categories).items()}
    for model in (BPRMF(), LightGCN()):
        trained = model.fit(split, seed=0, device="cpu")
        found |= {f"{model.name}: {name}": array for name, array in served(trained, split, categories).items()}
        found[f"{model.name}: vectors"] = np.vstack([trained.user, trained.item])
    return found


def served(factors: Factors, split: Split, categories: Categories) -> Arrays:
    problem = Problem(factors, split, categories, "test")
    return {"lists": problem.base_lists, "metrics": means(problem, problem.base_lists)}


def stages(factors: Factors, split: Split, categories: Categories) -> Arrays:
    problem = Problem(factors, split, categories, "test")
    found = served(factors, split, categories)
    for goal in ("subtopic_coverage", "alpha_ndcg", "catalogue_coverage"):
        compiled = UserVectors().compile(problem, rule_at(problem, goal, 0.2))
        lists = problem.rank(compiled)[0]
        found |= {f"optimal for {goal}: lists": lists, f"optimal for {goal}: metrics": means(problem, lists)}
        found[f"optimal for {goal}: vectors"] = compiled.user
    for side in ("item", "user"):
        model = CMB(diversity="subtopic_coverage", side=side, iterations=20, device="cpu").fit(
            factors, split, categories
        )
        lists = np.asarray(model.factors_.rank(10, exclude=problem.seen)[0], np.int64)
        found |= {f"players, {side} side: lists": lists, f"players, {side} side: metrics": means(problem, lists)}
        found[f"players, {side} side: vectors"] = getattr(model.factors_, side)
    return found


def means(problem: Problem, lists: NDArray[Any]) -> NDArray[np.float64]:
    return np.array([np.nanmean(values) for values in problem.judge(lists, METRICS).values()])


def compared(here: Arrays, others: list[Arrays]) -> list[Claim]:
    """A row for each stage: how far from here each of the others is."""
    claims = [Claim("what ran there", " / ".join(str(other["about"]) for other in others), None)]
    for name in here.keys() - {"about"}:
        what, apart = DISTANCES[name.rpartition(" ")[2]]
        far = " / ".join(f"{apart(here[name], other[name]):.2g}" for other in others)
        claims.append(Claim(f"{name}: {what}", far, None))
    return sorted(claims, key=lambda claim: claim.claim)


def about() -> str:
    """The machine in a few words, and instructions that it was told to do without."""
    facts = machine()
    versions = ", ".join(f"{name} {number}" for name, number in facts["packages"].items())
    plain = ", plain instructions" if "ATEN_CPU_CAPABILITY" in os.environ else ""
    return f"{facts['cores']} cores, Python {facts['python']}, {versions}{plain}"


DISTANCES: dict[str, tuple[str, Callable[[Any, Any], float]]] = {
    "lists": ("share of places with another item", lambda ours, theirs: float((ours != theirs).mean())),
    "vectors": (
        "distance, of their length",
        lambda ours, theirs: float(np.linalg.norm(ours - theirs) / np.linalg.norm(ours)),
    ),
    "metrics": ("largest relative difference", lambda ours, theirs: float(np.abs(theirs / ours - 1).max())),
}


if __name__ == "__main__":
    main()
