"""A million users x 100,000 items on one GPU: lists by a rule, from arrays to arrays.

    python benchmarks/million_gpu.py [--users N] [--items N] [--json] [--quick] [--device cpu]

Vectors and categories are made (benchmarks/million_world.py); d = 64, 20 categories, 100 candidates, lists of 10, 20
seen items per user. Vectors, seen items and the rule are numpy arrays in memory; so are lists and scores at the end.
Blocks of users go through two stages: exact ranking and the search for lists, both on the GPU.

Then the search alone runs again on the same candidates of some users: on the GPU, and by the compiled kernel on all
cores, with the copy of candidates and lists counted. The benchmark compares the lists of both. Kernels are compiled
before by a run on a few users.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterator
from typing import Any

import numpy as np
import torch

from harness import Claim, parser, report
from million_world import CANDIDATES, DIM, ITEMS, USERS, K, catalogue_of, rule_of, seen_of
from recprism.data.sparse_rows import SparseRows
from recprism.forms.rule_file import RuleFile
from recprism.operate.batch.lists import BatchRule
from recprism.ranking import topk

BAR_SECONDS = 90.0
BLOCK, WARM = 65_536, 4_096
SEARCHED = 262_144  # users of the two searches


def main() -> None:
    options = parser(__doc__)
    options.add_argument("--users", type=int, default=USERS)
    options.add_argument("--items", type=int, default=ITEMS)
    options.add_argument("--block", type=int, default=BLOCK, help="users at a time")
    options.add_argument("--device", default="cuda", help="cuda; cpu tries the logic of the GPU on few users")
    options.add_argument("--quick", action="store_true", help="a fiftieth of the users, a tenth of the items")
    chosen = options.parse_args()
    if chosen.quick:
        chosen.users, chosen.items = chosen.users // 50, chosen.items // 10
    if chosen.device == "cuda" and not torch.cuda.is_available():
        raise SystemExit("this benchmark needs a CUDA device, and torch sees none; --device cpu tries the logic")
    torch.set_num_threads(len(os.sched_getaffinity(0)))
    print("making the world ...", file=sys.stderr, flush=True)
    made = catalogue_of(chosen.users, chosen.items)
    file, user, seen = rule_of(made), made.users(), seen_of(chosen.users, chosen.items)
    details: dict[str, Any] = {"users": chosen.users, "items": chosen.items}
    details["warm-up"] = warmed(file, user, seen, chosen)
    details["whole"] = whole = served(file, user, seen, chosen)
    details["search"] = two_searches(file, user, seen, chosen)
    report(claims_of(chosen, whole, details), as_json=chosen.json, packages=("triton",), details=details)


def blocks(n: int, size: int) -> Iterator[slice]:
    return (slice(start, min(start + size, n)) for start in range(0, n, size))


def rows_of(seen: SparseRows, rows: slice) -> SparseRows:
    starts = seen.indptr[rows.start : rows.stop + 1]
    return SparseRows(starts - starts[0], seen.indices[starts[0] : starts[-1]], seen.n_cols)


def warmed(file: RuleFile, user: Any, seen: SparseRows, chosen: Any) -> dict[str, float]:
    """Compile all kernels on a few users; seconds that the first run in a new process takes in addition."""
    start = time.perf_counter()
    some = slice(0, min(WARM, len(user)))
    BatchRule(file, device=chosen.device)(user[some], rows_of(seen, some))
    BatchRule(file)(user[:64], rows_of(seen, slice(0, 64)))
    return {"seconds": time.perf_counter() - start}


def served(file: RuleFile, user: Any, seen: SparseRows, chosen: Any) -> dict[str, Any]:
    """The whole way: arrays in, arrays out."""
    print("arrays to arrays ...", file=sys.stderr, flush=True)
    if chosen.device == "cuda":
        torch.cuda.reset_peak_memory_stats()
    start, busy = time.perf_counter(), time.process_time()
    rule = BatchRule(file, device=chosen.device)
    n = len(user)
    lists, scores = np.empty((n, K), np.int64), np.empty((n, K), np.float32)
    changed = 0
    for rows in blocks(n, chosen.block):
        made = rule(user[rows], rows_of(seen, rows))
        lists[rows], scores[rows] = made.items, made.scores
        changed += int((np.sort(made.items) != np.sort(made.base)).any(1).sum())
    seconds = time.perf_counter() - start
    return {
        "seconds": seconds,
        "processor seconds": time.process_time() - busy,
        "stages": rule.times.seconds,
        "stages, processor seconds": rule.times.processor_seconds,
        "share of lists changed": changed / n,
        "GPU GiB": torch.cuda.max_memory_allocated() / 2**30 if chosen.device == "cuda" else None,
        "mean score": float(scores.mean()),
    }


def two_searches(file: RuleFile, user: Any, seen: SparseRows, chosen: Any) -> dict[str, Any]:
    """The search alone on the same candidates, on the device and on all cores."""
    print("two searches ...", file=sys.stderr, flush=True)
    some = slice(0, min(SEARCHED, len(user)))
    rule = BatchRule(file, device=chosen.device)
    vectors, item = (torch.from_numpy(it).to(chosen.device) for it in (user[some], file.item_vectors))
    candidates, scores = topk(vectors, item, CANDIDATES, exclude=rows_of(seen, some))
    ranked = seconds_of(lambda: topk(vectors, item, CANDIDATES, exclude=rows_of(seen, some)))
    on_device = [rule.search(candidates[rows], scores[rows]) for rows in blocks(len(vectors), chosen.block)]
    device = seconds_of(
        lambda: [rule.search(candidates[rows], scores[rows]) for rows in blocks(len(vectors), chosen.block)]
    )
    on_cores = rule.search(candidates.cpu(), scores.cpu())
    cores = seconds_of(lambda: rule.search(candidates.cpu(), scores.cpu()).to(chosen.device))
    same = (torch.cat(on_device).cpu() == on_cores).all(1)
    per_million = 1e6 / len(vectors)
    return {
        "users": len(vectors),
        "seconds per million, ranking": ranked * per_million,
        "seconds per million, search on the device": device * per_million,
        "seconds per million, search on all cores": cores * per_million,
        "share of lists equal": float(same.double().mean()),
        "lists that differ": int((~same).sum()),
        "largest loss of value": lost(rule, candidates, scores, torch.cat(on_device).cpu(), on_cores),
    }


def lost(rule: BatchRule, candidates: Any, scores: Any, found: Any, wanted: Any) -> float:
    """The largest loss of the rule's value in lists that differ, as (1 - t) * accuracy + t * coverage."""
    rows = (found != wanted).any(1).nonzero().flatten()
    if not len(rows):
        return 0.0
    file = rule.file
    member = np.zeros((len(file.item_ids), len(file.names)), np.bool_)
    member[np.repeat(np.arange(len(member)), np.diff(file.indptr)), file.indices] = True
    score, pool = scores.cpu()[rows].double(), candidates.cpu()[rows]
    relevance = (score - score[:, -1:]) / (score[:, :1] - score[:, -1:])
    discount = 1 / torch.log2(torch.arange(2.0, K + 2, dtype=torch.float64))

    def value(lists: Any) -> Any:
        own = (lists[:, :, None] == pool[:, None, :]).double() @ relevance[:, :, None]
        accuracy = (own[:, :, 0] * discount).sum(1) / discount.sum()
        covered = torch.from_numpy(member[lists.numpy()].any(1).mean(1))
        return (1 - file.trade_off) * accuracy + file.trade_off * covered

    return float((value(wanted[rows]) - value(found[rows])).max())


def seconds_of(task: Any) -> float:
    if torch.cuda.is_available():
        torch.cuda.synchronize()
    start = time.perf_counter()
    task()
    if torch.cuda.is_available():
        torch.cuda.synchronize()
    return time.perf_counter() - start


def claims_of(chosen: Any, whole: dict[str, Any], details: dict[str, Any]) -> list[Claim]:
    search = details["search"]
    shape = f"{chosen.users:,} users x {chosen.items:,} items, d = {DIM}, {CANDIDATES} candidates, k = {K}"
    return [
        Claim(f"{shape}: seconds from arrays to arrays", whole["seconds"], BAR_SECONDS),
        *(Claim(f"of that, {stage}: seconds", taken, None) for stage, taken in whole["stages"].items()),
        Claim("processor seconds", whole["processor seconds"], None),
        Claim("GiB of GPU memory", whole["GPU GiB"], None),
        Claim(
            "seconds per million users: search on the GPU", search["seconds per million, search on the device"], None
        ),
        Claim(
            "seconds per million users: search on all cores", search["seconds per million, search on all cores"], None
        ),
        Claim("seconds per million users: ranking", search["seconds per million, ranking"], None),
        Claim(
            f"share of {search['users']:,} lists equal to those of the compiled search",
            search["share of lists equal"],
            0.9999,
            "higher",
        ),
        Claim("largest loss of the rule's value in a list that differs", search["largest loss of value"], 1e-9),
        Claim("seconds to compile before (first process)", details["warm-up"]["seconds"], None),
    ]


if __name__ == "__main__":
    main()
