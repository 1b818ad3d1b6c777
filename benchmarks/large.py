"""More than memory: a hundred million interactions, five million users, half a million items, on two cores.

    python benchmarks/large.py --folder FOLDER [--json]

Everything is made, nothing trained: interactions in Parquet files, vectors in one safetensors file. They are written
once into the folder (about 2.5 GB; remove it afterwards), and a stage that is recorded there is not run again. Then,
each in a process of its own whose peak memory is what the system counted for it (VmHWM, mapped pages included):

rank: the interactions of 200,000 users are streamed, their vectors read from the mapped file, and exact lists of 20
    made in blocks, seen items left out. The clock is read after 50,000, 100,000 and 200,000 users of one pass. Some
    lists are compared with a sort of all scores. Processor seconds are those of both cores together.
learn: all interactions are streamed; the learner (marginal credit, SC) takes a few steps on 20,000 sampled users each.

Takes about ten minutes on two quiet cores.
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import torch

from harness import Claim, parser, report
from large_worlds import Catalogue
from memory import peak_gib
from recprism.cmb import CMB
from recprism.cmb.history import Progress
from recprism.data import SparseRows, Split, stream_parquet
from recprism.models import Factors
from recprism.ranking import topk_blocks

K, CHECKED = 20, 64
BAR_GIB = 16.0
LOG, VECTORS = "log/*.parquet", "factors.safetensors"


def main() -> None:
    options = parser(__doc__)
    options.add_argument("--folder", type=Path, required=True, help="where the made files are, or will be, written")
    for name, default in (("users", 5_000_000), ("items", 500_000), ("interactions", 100_000_000), ("dim", 64)):
        options.add_argument(f"--{name}", type=int, default=default)
    options.add_argument("--ranked", type=int, default=200_000, help="users to be ranked")
    options.add_argument("--sampled", type=int, default=20_000, help="users of one step of the learner")
    options.add_argument("--steps", type=int, default=5)
    options.add_argument("--stage", choices=STAGES, help="one part alone, in this process")
    chosen = options.parse_args()
    torch.set_num_threads(2)
    if chosen.stage:
        facts = json.dumps(STAGES[chosen.stage](chosen))
        (chosen.folder / f"{chosen.stage}.json").write_text(facts, encoding="utf-8")
        return
    facts = {stage: measured(stage, chosen.folder / f"{stage}.json") for stage in STAGES}
    report(claims(chosen, facts), as_json=chosen.json, packages=("polars",), details=facts)


def measured(stage: str, kept: Path) -> dict[str, Any]:
    """What a stage came to: kept from an earlier run in the same folder, or run now, in a fresh process."""
    if not kept.exists():
        print(f"{stage} ...", file=sys.stderr, flush=True)
        subprocess.run([sys.executable, *sys.argv, "--stage", stage], check=True)
    return dict(json.loads(kept.read_text(encoding="utf-8")))


def catalogue_of(chosen: Any) -> Catalogue:
    return Catalogue(chosen.users, chosen.items, chosen.dim)


def make(chosen: Any) -> dict[str, Any]:
    start = time.perf_counter()
    made = catalogue_of(chosen)
    if not (chosen.folder / VECTORS).exists():
        made.write_interactions(chosen.folder / "log", chosen.interactions)
        made.factors().save(chosen.folder / VECTORS)
    return {"seconds": time.perf_counter() - start, "gib": peak_gib()}


def rank(chosen: Any) -> dict[str, Any]:
    start = time.perf_counter()
    factors = Factors.load(chosen.folder / VECTORS, mapped=True)
    users = np.sort(np.random.default_rng(1).choice(chosen.users, chosen.ranked, replace=False))
    list(topk_blocks(factors.user[:3000], factors.item[:100], K))  # compiles
    opened = time.perf_counter()
    streamed = stream_parquet(chosen.folder / LOG, user_ids=users, item_ids=factors.item_ids)
    read, busy = time.perf_counter(), time.process_time()
    after, cpu, checks = {}, {}, []
    at = [chosen.ranked // 4, chosen.ranked // 2, chosen.ranked]
    for rows, items, _ in topk_blocks(
        factors.user[users], factors.item, K, exclude=streamed.matrix, users_at_a_time=chosen.ranked // 20
    ):
        after.update({stop: time.perf_counter() - read for stop in at if rows.stop == stop})
        cpu.update({stop: time.process_time() - busy for stop in at if rows.stop == stop})
        checks.append(items[: -(-CHECKED // 20)])
    first = [
        np.arange(start, start + len(it))
        for start, it in zip(range(0, chosen.ranked, chosen.ranked // 20), checks, strict=True)
    ]
    return {
        "seconds to open": opened - start,
        "seconds to stream": read - opened,
        "seconds after users": after,
        "processor seconds after users": cpu,
        "seen": len(streamed.matrix),
        "lists as by a sort": as_by_a_sort(
            factors, users, streamed.matrix, np.concatenate(first), np.concatenate(checks)
        ),
        "gib": peak_gib(),
    }


def as_by_a_sort(factors: Factors, users: Any, seen: SparseRows, rows: Any, lists: Any) -> float:
    """Share of the lists whose scores are, to rounding, the largest of all unseen items in double precision."""
    item, same = factors.item.astype(np.float64), 0
    for row, of_user in zip(rows, lists, strict=True):
        scores = item @ factors.user[users[row]].astype(np.float64)
        own = scores[of_user]
        scores[seen.row(row)] = -np.inf
        best = -np.sort(-np.partition(scores, -K)[-K:])
        same += bool(np.allclose(own, best, rtol=1e-5)) and not np.isin(of_user, seen.row(row)).any()
    return same / len(rows)


def learn(chosen: Any) -> dict[str, Any]:
    start = time.perf_counter()
    factors = Factors.load(chosen.folder / VECTORS, mapped=True)
    seen = stream_parquet(chosen.folder / LOG, user_ids=factors.user_ids, item_ids=factors.item_ids).matrix
    nothing = SparseRows.empty(seen.shape)
    split = Split(seen, nothing, nothing, factors.user_ids, factors.item_ids)
    read, clock, busy = time.perf_counter(), [], []

    def follow(_: Progress) -> None:
        clock.append(time.perf_counter())
        busy.append(time.process_time())

    model = CMB(iterations=chosen.steps, users_per_step=chosen.sampled, device="cpu")
    model.fit(factors, split, catalogue_of(chosen).categories(), follow=follow)
    return {
        "seconds to stream": read - start,
        "seen": len(seen),
        "seconds a step": float(np.diff(clock)[-1]),
        "processor seconds a step": float(np.diff(busy)[-1]),
        "users a step": [step.users for step in model.history_],
        "psi": [step.psi for step in model.history_],
        "standard error": [step.error for step in model.history_],
        "gib": peak_gib(),
    }


STAGES = {"make": make, "rank": rank, "learn": learn}


def claims(chosen: Any, facts: dict[str, Any]) -> list[Claim]:
    ranked, learned = facts["rank"], facts["learn"]
    after, cpu = (
        {int(users): seconds for users, seconds in ranked[f"{kind}seconds after users"].items()}
        for kind in ("", "processor ")
    )
    first, last = min(after), max(after)
    shape = f"{chosen.users:,} x {chosen.items:,}, d = {chosen.dim}, {chosen.interactions:,} interactions"
    flop = 2 * last * chosen.items * chosen.dim
    return [
        Claim(f"{shape}: peak GiB to rank {last:,} users", round(ranked["gib"], 2), BAR_GIB),
        Claim(f"peak GiB to learn, {chosen.sampled:,} users a step", round(learned["gib"], 2), BAR_GIB),
        Claim(
            "seconds to stream all interactions, for the users to be ranked",
            round(ranked["seconds to stream"], 1),
            None,
        ),
        Claim("seconds to stream all interactions, for all users", round(learned["seconds to stream"], 1), None),
        *(
            Claim(f"seconds after {users:,} users ({cpu[users]:.0f} of processors)", round(after[users], 1), None)
            for users in after
        ),
        Claim("seconds per million users", round(after[last] / last * 1e6), None),
        Claim("processor seconds per million users", round(cpu[last] / last * 1e6), None),
        Claim(
            f"processor time per user at {last:,} over that at {first:,}",
            round(cpu[last] / last * first / cpu[first], 3),
            1.1,
        ),
        Claim("GFLOP of products per processor second", round(flop / cpu[last] / 1e9, 1), None),
        Claim("share of checked lists that are those of a sort", ranked["lists as by a sort"], 1.0, "higher"),
        Claim(
            f"seconds of the last step, {learned['users a step'][-1]:,} users"
            f" ({learned['processor seconds a step']:.0f} of processors)",
            round(learned["seconds a step"], 1),
            None,
        ),
        Claim(
            "psi and its standard error in the last step",
            f"{learned['psi'][-1]:.5f} ± {learned['standard error'][-1]:.5f}",
            None,
        ),
    ]


if __name__ == "__main__":
    main()
