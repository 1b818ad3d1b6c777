"""One request at a time: milliseconds and requests per second of the serving library, beside pyversity's MMR and DPP.

20 categories, 3,000 items with 50-dimensional vectors. A request has candidates and scores of its own, and a history.
Ours is charged for everything from ids to a list with the reason of every item in plain values; batches are also shown
with reasons that are not read, and so not computed. pyversity gets vectors and scores cut out beforehand, and gives no
reasons.
Latencies are of one thread in one process. Batches use all cores, and are measured after ``gc.freeze()``, as in the
service; one row is without it.
A process is started twice with a cache of its own: the first one compiles the kernels, the second one finds them.
"""

from __future__ import annotations

import gc
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from pyversity import dpp, mmr

from harness import Claim, parser, report
from recprism.forms.rule_file import RuleFile
from recprism.serving import ServedRule

N_ITEMS, DIM, N_CATEGORIES, TRADE_OFF = 3_000, 50, 20, 0.2
CASES = ((200, 10), (500, 20))
READ, UNREAD = "requests per second with reasons as plain values", "requests per second, reasons not read"
COLD = """
import json, re, sys, time
from pathlib import Path
began = time.perf_counter()
from recprism import serving
imported = time.perf_counter() - began
rule = serving.load_rule(sys.argv[1])
loaded = time.perf_counter() - began
request = json.loads(sys.stdin.read())
times = []
for _ in range(200):
    start = time.perf_counter()
    rule.rerank(**request).to_dict()
    times.append(time.perf_counter() - start)
    if len(times) == 1:
        cpu = time.process_time()
# ru_maxrss would count the memory of the process that started this one.
memory = int(re.search(r"VmHWM:\\s+([0-9]+)", Path("/proc/self/status").read_text())[1]) / 1024
heavy = sorted({"torch", "polars", "pydantic"} & set(sys.modules))
print(json.dumps([imported, loaded, times[0], max(times[1:]), cpu, memory, heavy]))
"""


def rule_of(generator: np.random.Generator, candidates: int, k: int) -> RuleFile:
    """A rule for subtopic coverage and the user's history, over random items with two or three categories each."""
    has = generator.random((N_ITEMS, N_CATEGORIES)) < 0.12
    counts = has.sum(1)
    return RuleFile(
        goals={"subtopic_coverage": 1.0},
        units={"subtopic_coverage": 1 / N_CATEGORIES},
        trade_off=TRADE_OFF,
        history_weight=0.1,
        k=k,
        candidates=candidates,
        constraints={},
        item_ids=np.array([f"item-{n}" for n in range(N_ITEMS)]),
        names=tuple(f"category {n}" for n in range(N_CATEGORIES)),
        indptr=np.append(0, np.cumsum(counts)).astype(np.int64),
        indices=np.nonzero(has)[1].astype(np.int32),
        shares=np.repeat(1 / np.maximum(counts, 1), counts),
        unit=np.zeros((1, 1)),
        known=np.zeros(1, np.bool_),
    )


def requests_of(generator: np.random.Generator, vectors: Any, n: int, candidates: int) -> list[dict[str, Any]]:
    """Requests with the best candidates of random users, in no order, and a history of 50 items."""
    found = []
    for _ in range(n):
        scores = vectors @ generator.normal(size=DIM).astype(np.float32)
        best = generator.permutation(np.argsort(-scores)[:candidates])
        history = generator.integers(0, N_ITEMS, 50)
        found.append(
            {
                "candidates": [f"item-{at}" for at in best],
                "scores": scores[best].tolist(),
                "history": [f"item-{at}" for at in history],
                "numbers": best,
            }
        )
    return found


def quantiles(answer: Callable[[Any], Any], requests: list[Any]) -> tuple[float, float]:
    """Median and 99th percentile in milliseconds; the first tenth warms up."""
    times = []
    for request in requests:
        start = time.perf_counter()
        answer(request)
        times.append(time.perf_counter() - start)
    used = np.array(times[len(times) // 10 :]) * 1e3
    return float(np.median(used)), float(np.quantile(used, 0.99))


def rates(served: ServedRule, many: list[dict[str, Any]]) -> dict[str, float]:
    """Requests per second in batches, the median of seven; a reason is computed when it is read."""
    bare = [{**it, "reasons": False} for it in many]
    ways: dict[str, Callable[[], Any]] = {
        UNREAD: lambda: served.rerank_many(many),
        READ: lambda: [it.to_dict() for it in served.rerank_many(many)],
        "requests per second, lists alone": lambda: served.rerank_many(bare),
    }
    usual = rate(ways[UNREAD], len(many))
    gc.collect()
    gc.freeze()
    found = {name: rate(way, len(many)) for name, way in ways.items()}
    gc.unfreeze()
    return {**found, f"{UNREAD}, without gc.freeze()": usual}


def rate(way: Callable[[], Any], n: int) -> float:
    times = []
    for _ in range(7):
        start = time.perf_counter()
        way()
        times.append(time.perf_counter() - start)
    return n / float(np.median(times))


def plain(request: dict[str, Any]) -> dict[str, Any]:
    return {name: request[name] for name in ("candidates", "scores", "history")}


def starts(file: RuleFile, request: dict[str, Any]) -> list[list[Any]]:
    """Seconds and megabytes of two new processes: with an empty cache, and after that."""
    found: list[list[Any]] = []
    with tempfile.TemporaryDirectory() as folder:
        file.write(Path(folder) / "rule")
        for _ in range(2):
            done = subprocess.run(
                [sys.executable, "-c", COLD, str(Path(folder) / "rule")],
                input=json.dumps(plain(request)),
                env={**os.environ, "NUMBA_CACHE_DIR": f"{folder}/cache"},
                capture_output=True,
                text=True,
                check=True,
            )
            found.append(json.loads(done.stdout))
    return found


def main() -> None:
    options = parser(__doc__)
    options.add_argument("--requests", type=int, default=2_000, help="requests of each measurement")
    chosen = options.parse_args()
    generator = np.random.default_rng(0)
    vectors = generator.normal(size=(N_ITEMS, DIM)).astype(np.float32)
    claims: list[Claim] = []
    details: dict[str, Any] = {}
    for candidates, k in CASES:
        file = rule_of(generator, candidates, k)
        served = ServedRule(file)
        served.warm_up()
        requests = requests_of(generator, vectors, chosen.requests, candidates)
        ways: dict[str, Callable[[Any], Any]] = {
            "ours, with reasons": lambda it, rule=served: rule.rerank(**plain(it)).to_dict(),
            "ours, with reasons and three dials": lambda it, rule=served: rule.rerank(
                **plain(it), dials={"category 1": 0.1, "category 2": -0.1, "category 3": 0.2}
            ).to_dict(),
            "ours, without reasons": lambda it, rule=served: rule.rerank(**plain(it), reasons=False),
            "pyversity MMR": lambda it, k=k: mmr(vectors[it["numbers"]], it["scores"], k, 0.5),
            "pyversity DPP": lambda it, k=k: dpp(vectors[it["numbers"]], it["scores"], k, 0.5),
        }
        bars = {"ours, with reasons": 1.0, "ours, with reasons and three dials": 3.0} if k == 10 else {}
        for name, way in ways.items():
            median, p99 = quantiles(way, requests)
            words = f"{candidates} candidates, k = {k}, {name}"
            details[words] = {"median_ms": median, "p99_ms": p99}
            claims.append(Claim(f"{words}: p99, ms", round(p99, 3), bars.get(name)))
            claims.append(Claim(f"{words}: median, ms", round(median, 3), None))
        many = [plain(it) for it in requests]
        for words, rate in rates(served, many).items():
            bar = 4_000 if k == 10 and words == READ else None
            claims.append(Claim(f"{candidates} candidates, k = {k}, in batches: {words}", round(rate), bar, "higher"))
        if k == 10:
            empty, (imported, loaded, first, worst, _, memory, heavy) = starts(file, requests[0])
            claims += [
                Claim("empty cache: from the start to the first answer, CPU s", round(empty[4], 1), 20.0),
                Claim("warm cache: import, s", round(imported, 2), 1.0),
                Claim("warm cache: import, load and first answer, s", round(loaded + first, 2), 1.5),
                Claim("warm cache: first request, ms", round(first * 1e3, 2), None),
                Claim("warm cache: slowest of the next 199, ms", round(worst * 1e3, 2), None),
                Claim("warm cache: peak memory, MB", round(memory), 200),
                Claim("warm cache: torch, polars or pydantic loaded", ", ".join(heavy) or "none", "none"),
            ]
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    for _ in range(3):
        served.rerank_many(many)
    grown = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024
    claims.append(Claim("growth of the peak memory over three more batches, MB", round(grown, 1), None))
    report(claims, as_json=chosen.json, packages=("pyversity",), details=details)


if __name__ == "__main__":
    main()
