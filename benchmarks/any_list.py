"""One call for one list, beside pyversity's MMR, MSD and DPP: milliseconds, near-duplicates and distance.

    OMP_NUM_THREADS=1 taskset -c 0 python benchmarks/any_list.py [--data-root DIR] [--lists 300] [--json]

Times: 100 and 200 candidates with 384 float32 numbers each, lists of ten, one core. ``recprism.diversify_list`` gets
ids, scores and embeddings, and returns the list, its base list, costs and notes; with reasons, also these as objects.
pyversity gets scores and embeddings, and returns positions. Tasks take turns. A process is started twice with a cache
of its own: the first one compiles the kernels, the second one finds them.

Quality: every method chooses ten of the same 100 candidates. "random" has clustered vectors; a fifth of the candidates
are near copies of others, with nearly their scores. "ml-latest-small" and "hetrec2011-lastfm-2k" have the best unseen
items of a BPRMF model (50 factors, trained once), its scores, and its item vectors. Scores are scaled to 0 .. 1 for
all methods. Relevance is the discounted sum of these scores, with every list in the order of its scores, as a share of
that of the best ten. The knob of each method is set by bisection, on the same lists, so that the mean loss of
relevance is 2, 5 or 10 %. pyversity's DPP gets ``scale=10``, because with the default of 1 its smallest loss is above
these. Intervals (95 %) are bootstraps over lists; they do not cover other data or other trainings.

A near-duplicate is a pair of the list with a cosine above 0.95. The goal of ``diversify_list`` is the mean distance;
MMR looks at the largest cosine instead.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray
from pyversity import diversify

from harness import Claim, interleaved, parser, report
from recprism import BPRMF, Problem, diversify_list
from recprism.data import load_dataset
from recprism.metrics.statistics import bootstrap_means, percentile_interval

K, N, DIM, DRAWS, COPY = 10, 100, 384, 2000, 0.95
LOSSES = (0.02, 0.05, 0.10)
RULE, RIVALS = "diversify_list", {"MMR": {}, "MSD": {}, "DPP": {"scale": 10.0}}
Floats = NDArray[np.float64]
Vectors = NDArray[np.float32]
Case = tuple[Floats, Vectors]
"""Scores of candidates from 0 to 1, (n,), and their vectors, (n, d)."""
START = """
import json, time
began = time.perf_counter()
import numpy as np
from recprism import diversify_list
generator = np.random.default_rng(0)
scores, vectors = generator.random(100), generator.standard_normal((100, 384), np.float32)
imported = time.perf_counter() - began
diversify_list(range(100), scores, embeddings=vectors)
print(json.dumps([imported, time.perf_counter() - began - imported]))
"""


def random_cases(n_lists: int) -> list[Case]:
    """Candidates in twenty clusters; every fifth is another one with little noise, and nearly its score."""
    generator, found = np.random.default_rng(0), []
    for _ in range(n_lists):
        centres, scores = generator.standard_normal((20, DIM)), generator.standard_normal(N)
        vectors = centres[generator.integers(0, 20, N)] + generator.standard_normal((N, DIM))
        vectors[::5] = vectors[1::5] + generator.standard_normal((N // 5, DIM)) * 0.2
        scores[::5] = scores[1::5] + generator.standard_normal(N // 5) * 0.05
        found.append((scaled(scores), vectors.astype(np.float32)))
    return found


def model_cases(name: str, data_root: str | None, n_lists: int) -> list[Case]:
    """The best unseen items of users of a data set."""
    data = load_dataset(name, data_root=data_root)
    split = data.split(seed=0)
    problem = Problem(BPRMF(dim=50).fit(split, seed=0, device="cpu"), split, data.categories, "test")
    users = np.random.default_rng(0).permutation(len(split.user_ids))[:n_lists]
    items, scores = (np.asarray(it)[users, :N] for it in problem.candidates)
    vectors = problem.factors.search_vectors[1]
    return [(scaled(own.astype(np.float64)), vectors[row]) for row, own in zip(items, scores, strict=True)]


def scaled(scores: Floats) -> Floats:
    return (scores - scores.min()) / (scores.max() - scores.min())


def by_rule(case: Case, trade_off: float) -> list[int]:
    scores, vectors = case
    found = diversify_list(range(len(scores)), scores, embeddings=vectors, k=K, trade_off=trade_off, reasons=False)
    return list(found.ids)


def by_rival(name: str, case: Case, diversity: float) -> list[int]:
    scores, vectors = case
    return diversify(vectors, scores, K, name.lower(), diversity, **RIVALS[name]).indices.tolist()


def losses(cases: list[Case], lists: list[list[int]]) -> Floats:
    """Loss of relevance of each list, (n_lists,)."""
    discount, found = 1 / np.log2(np.arange(2, K + 2)), []
    for (scores, _), chosen in zip(cases, lists, strict=True):
        best = np.sort(scores)[::-1][:K] @ discount
        found.append(1 - np.sort(scores[chosen])[::-1] @ discount / best)
    return np.array(found)


def variety(cases: list[Case], lists: list[list[int]]) -> Floats:
    """Mean distance of the pairs, number of near-duplicates, and largest cosine of each list, (n_lists, 3)."""
    found = []
    for (_, vectors), chosen in zip(cases, lists, strict=True):
        own = vectors[chosen].astype(np.float64)
        unit = own / np.linalg.norm(own, axis=1, keepdims=True)
        cosines = (unit @ unit.T)[np.triu_indices(len(chosen), 1)]
        found.append((1 - cosines.mean(), (cosines > COPY).sum(), cosines.max()))
    return np.array(found, np.float64)


def at_loss(make: Callable[[Case, float], list[int]], cases: list[Case], loss: float) -> list[list[int]]:
    """The lists of a method with its knob set for a mean loss."""
    low, high = -12.0, 12.0  # log-odds of the knob
    for _ in range(18):
        middle = (low + high) / 2
        lists = [make(case, float(1 / (1 + np.exp(-middle)))) for case in cases]
        low, high = (low, middle) if losses(cases, lists).mean() > loss else (middle, high)
    return lists


def compare(cases: list[Case]) -> list[dict[str, Any]]:
    """One row for each loss and method."""
    makes = {RULE: by_rule} | {name: partial(by_rival, name) for name in RIVALS}
    base = [np.argsort(-scores, kind="stable")[:K].tolist() for scores, _ in cases]
    rows = [{"loss": 0.0, "method": "by score alone", "found": losses(cases, base), "variety": variety(cases, base)}]
    for loss in LOSSES:
        for name, make in makes.items():
            lists = at_loss(make, cases, loss)
            rows.append({"loss": loss, "method": name, "found": losses(cases, lists), "variety": variety(cases, lists)})
    return rows


def interval(values: Floats) -> tuple[float, float, float]:
    """A mean and the ends of its interval."""
    low, high = percentile_interval(bootstrap_means(values[:, None], DRAWS, np.random.default_rng(0)), 0.95)
    return float(values.mean()), float(low[0]), float(high[0])


def said(values: Floats, digits: int = 3) -> str:
    mean, low, high = (f"{it:.{digits}f}" for it in interval(values))
    return f"{mean} ({low} to {high})"


def table_of(compared: dict[str, list[dict[str, Any]]]) -> list[list[str]]:
    found = [["lists", "loss of relevance", "method", "mean distance", "pairs above 0.95", "largest cosine"]]
    for name, rows in compared.items():
        for row in rows:
            columns = [said(column) for column in row["variety"].T]
            found.append([name, f"{row['found'].mean():.1%}", row["method"], *columns])
    return found


def quality_claims(compared: dict[str, list[dict[str, Any]]]) -> list[Claim]:
    """Paired differences to MMR."""
    claims = []
    for name, rows in compared.items():
        for loss in LOSSES:
            own, other = (row["variety"] for row in rows if row["loss"] == loss and row["method"] in (RULE, "MMR"))
            words = f"{name}, loss {loss:.0%}, minus MMR"
            low, high = interval(own[:, 0] - other[:, 0])[1], interval(own[:, 1] - other[:, 1])[2]
            claims.append(Claim(f"{words}: mean distance, low end", low, 0.0, "higher"))
            claims.append(Claim(f"{words}: pairs above {COPY}, high end", high, 0.0))
    return claims


def time_claims() -> list[Claim]:
    """Milliseconds of one list, and their ratio."""
    claims, generator = [], np.random.default_rng(0)
    for n in (100, 200):
        ids, scores = [f"document-{at}" for at in range(n)], generator.random(n)
        vectors = generator.standard_normal((n, DIM), np.float32)
        ours = partial(diversify_list, ids, scores, embeddings=vectors, k=K)
        tasks: dict[str, Callable[[], Any]] = {
            RULE: partial(ours, reasons=False),
            f"{RULE} with reasons": lambda ours=ours: ours().reasons,
        }
        tasks |= {name: partial(diversify, vectors, scores, K, name.lower(), 0.2) for name in RIVALS}
        seconds = interleaved(tasks, 500, 20)
        claims += [Claim(f"{n} candidates: {name}, ms", it * 1e3, None) for name, it in seconds.items()]
        claims.append(Claim(f"{n} candidates: time over MMR", seconds[RULE] / seconds["MMR"], 1.0))
    return claims


def start_claims() -> list[Claim]:
    """Seconds of the first call of two processes: with an empty cache, and after that."""
    claims = []
    with tempfile.TemporaryDirectory() as folder:
        for words in ("nothing compiled", "compiled by another process"):
            process = subprocess.run(
                [sys.executable, "-c", START],
                env={**os.environ, "NUMBA_CACHE_DIR": folder},
                capture_output=True,
                text=True,
                check=True,
            )
            imported, first = json.loads(process.stdout)
            claims.append(Claim(f"import, s, {words}", imported, None))
            claims.append(Claim(f"first call, s, {words}", first, None))
    return claims


def main() -> int:
    options = parser(__doc__)
    options.add_argument("--data-root", default=os.environ.get("RECPRISM_DATA"))
    options.add_argument("--lists", type=int, default=300, help="lists of each kind")
    words = options.parse_args()
    claims = [*time_claims(), *start_claims()]
    compared = {"random": compare(random_cases(words.lists))}
    for name in ("ml-latest-small", "hetrec2011-lastfm-2k"):
        compared[name] = compare(model_cases(name, words.data_root, words.lists))
    table = table_of(compared)
    if not words.json:
        for cells in (table[0], ["---"] * len(table[0]), *table[1:]):
            print(f"| {' | '.join(cells)} |")
        print()
    details = {"table": table}
    report([*claims, *quality_claims(compared)], as_json=words.json, packages=("pyversity",), details=details)
    return 0


if __name__ == "__main__":
    sys.exit(main())
