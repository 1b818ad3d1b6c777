"""A million users x 100,000 items on two cores: lists by a rule for everybody, in Parquet shards.

    python benchmarks/million.py --folder FOLDER [--json] [--users N] [--all] [--ray]

Vectors and categories are made (benchmarks/million_world.py); d = 64, 20 categories, 100 candidates, lists of 10, 20
seen items per user. They are written to the folder once, with the rule and the interactions. Then ``make_batch``, which
is ``recprism batch``, serves the first quarter, the first half and all of ``--users`` (100,000), each in a process of
its own whose peak memory is what the system counted for it. The kernels are compiled before. Seconds and processor
seconds are told by stage; writing includes the time until the disk has the file. ``--all`` serves the million.

With ``--ray``, one and two one-thread workers of a local Ray cluster make the same shards, in turns. The start of the
cluster and of its processes is not counted: a first small batch starts them.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import torch

from harness import Claim, parser, report
from memory import peak_gib
from million_world import CANDIDATES, DIM, ITEMS, SEEN, USERS, K, catalogue_of, rule_of, seen_of
from recprism.operate.batch import make_batch

BAR_GIB, BAR_LINEAR, BAR_RAY = 4.0, 1.1, 1.6
RULE, VECTORS, LOG, TIMES = "rule", "users-{}.npy", "seen-{}.parquet", "{}.json"
WARM = 4608  # with so many users, all kernels are compiled


def main() -> None:
    options = parser(__doc__)
    options.add_argument("--folder", type=Path, required=True, help="where the made files are, or will be, written")
    options.add_argument("--users", type=int, default=100_000, help="the largest number of users that are served")
    options.add_argument("--items", type=int, default=ITEMS)
    options.add_argument("--shard-users", type=int, default=25_000)
    options.add_argument("--threads", type=int, default=2)
    options.add_argument("--all", action="store_true", help="serve a million users")
    options.add_argument("--ray", action="store_true", help="one against two workers of a Ray cluster instead")
    options.add_argument("--repeats", type=int, default=2, help="turns of each pool, with --ray")
    options.add_argument("--stage", type=int, help="serve this many users in this process, and no more")
    chosen = options.parse_args()
    torch.set_num_threads(chosen.threads)
    if chosen.all:
        chosen.users = USERS
    if chosen.stage:
        serve(chosen, chosen.stage)
        return
    sizes = [chosen.users] if chosen.all or chosen.ray else [chosen.users // 4, chosen.users // 2, chosen.users]
    make(chosen, [WARM, *sizes])
    if chosen.ray:
        found = on_ray(chosen)
        report(ray_claims(chosen, found), as_json=chosen.json, packages=("ray", "polars"), details=found)
        return
    facts = {size: measured(chosen, size) for size in sizes}
    report(claims(chosen, facts), as_json=chosen.json, packages=("polars",), details=facts)


def make(chosen: Any, sizes: list[int]) -> None:
    """Write the rule, and the vectors and interactions of the first users; what is there is kept."""
    import polars as pl  # noqa: PLC0415

    folder, made = chosen.folder, catalogue_of(chosen.users, chosen.items)
    folder.mkdir(parents=True, exist_ok=True)
    if not (folder / RULE).exists():
        rule_of(made).write(folder / RULE)
    user = None
    for size in sizes:
        if not (folder / VECTORS.format(size)).exists():
            user = made.users() if user is None else user
            np.save(folder / VECTORS.format(size), user[:size])
            seen = seen_of(size, chosen.items)
            columns = {"user_id": seen.row_of_entry, "item_id": seen.indices.astype(np.int64)}
            pl.DataFrame(columns).write_parquet(folder / LOG.format(size))


def measured(chosen: Any, size: int) -> dict[str, Any]:
    """Serve some users in a fresh process; kernels are compiled by a small batch in the same process."""
    print(f"{size:,} users ...", file=sys.stderr, flush=True)
    subprocess.run([sys.executable, *sys.argv, "--stage", str(size)], check=True)
    return dict(json.loads((chosen.folder / TIMES.format(size)).read_text(encoding="utf-8")))


def served(chosen: Any, size: int, executor: Any = None) -> Any:
    """One batch into a new folder, which is removed."""
    folder = chosen.folder / f"lists-{size}"
    shutil.rmtree(folder, ignore_errors=True)
    found = make_batch(
        chosen.folder / RULE,
        chosen.folder / VECTORS.format(size),
        folder,
        seen=chosen.folder / LOG.format(size),
        shard_users=chosen.shard_users,
        executor=executor,
    )
    stored = sum(it.stat().st_size for it in folder.iterdir())
    shutil.rmtree(folder)
    return found, stored


def serve(chosen: Any, size: int) -> None:
    served(chosen, WARM)
    start, busy = time.perf_counter(), time.process_time()
    found, stored = served(chosen, size)
    facts = {
        "seconds": time.perf_counter() - start,
        "processor seconds": time.process_time() - busy,
        "stages": found.seconds,
        "stages, processor seconds": found.processor_seconds,
        "share of lists changed": found.changed / found.made,
        "bytes": stored,
        "gib": peak_gib(),
    }
    (chosen.folder / TIMES.format(size)).write_text(json.dumps(facts), encoding="utf-8")


def claims(chosen: Any, facts: dict[int, dict[str, Any]]) -> list[Claim]:
    first, last = min(facts), max(facts)
    whole = facts[last]
    million = 1e6 / last
    shape = f"{last:,} users x {chosen.items:,} items, d = {DIM}, {CANDIDATES} candidates, k = {K}, {SEEN} seen items"
    busy = {size: it["processor seconds"] / size for size, it in facts.items()}
    growth = [
        *(
            Claim(
                f"seconds for {size:,} users ({it['processor seconds']:.0f} of processors)",
                round(it["seconds"], 1),
                None,
            )
            for size, it in facts.items()
        ),
        Claim(
            f"processor time per user at {last:,} over that at {first:,}",
            round(busy[last] / busy[first], 3),
            BAR_LINEAR,
        ),
        *(Claim(f"peak GiB for {size:,} users", round(it["gib"], 2), BAR_GIB) for size, it in facts.items()),
    ]
    return [
        Claim(f"{shape}: seconds", round(whole["seconds"], 1), None),
        *(growth if first < last else []),
        *(
            Claim(f"processor seconds per million users, {stage}", round(taken * million, 1), None)
            for stage, taken in whole["stages, processor seconds"].items()
        ),
        Claim("seconds per million users", round(whole["seconds"] * million), None),
        Claim("processor seconds per million users", round(whole["processor seconds"] * million), None),
        Claim(f"peak GiB, shards of {chosen.shard_users:,} users", round(whole["gib"], 2), BAR_GIB),
        Claim("MB of Parquet per million users", round(whole["bytes"] * million / 1e6), None),
        Claim("share of lists that the rule changes", round(whole["share of lists changed"], 3), None),
    ]


def on_ray(chosen: Any) -> dict[str, Any]:
    """Seconds of the same shards on one and on two one-thread workers, in turns."""
    import ray  # noqa: PLC0415

    from recprism.parallel import RayExecutor  # noqa: PLC0415

    taken: dict[str, list[float]] = {"1": [], "2": []}
    busy: dict[str, list[float]] = {"1": [], "2": []}
    for _ in range(chosen.repeats):
        for workers, times in taken.items():
            ray.init(num_cpus=int(workers), include_dashboard=False, log_to_driver=False, logging_level="error")
            try:
                some = chosen.shard_users, WARM // 2
                chosen.shard_users = some[1]
                served(chosen, WARM, RayExecutor())  # starts the processes, which load the kernels
                chosen.shard_users = some[0]
                start = time.perf_counter()
                found, _ = served(chosen, chosen.users, RayExecutor())
                times.append(time.perf_counter() - start)
                busy[workers].append(sum(found.processor_seconds.values()))
            finally:
                ray.shutdown()
    return {"seconds": taken, "processor seconds of the workers": busy}


def ray_claims(chosen: Any, found: dict[str, Any]) -> list[Claim]:
    one, two = (float(np.median(times)) for times in found["seconds"].values())
    busy = [float(np.median(times)) for times in found["processor seconds of the workers"].values()]
    shape = f"{chosen.users:,} users x {chosen.items:,} items, shards of {chosen.shard_users:,}"
    return [
        Claim(f"{shape}: seconds, one worker", round(one, 1), None),
        Claim("seconds, two workers", round(two, 1), None),
        Claim("two workers against one, times as fast", round(one / two, 2), BAR_RAY, "higher"),
        Claim("processor seconds of the workers: two against one", round(busy[1] / busy[0], 3), None),
        Claim("processor seconds of the workers per million users", round(busy[1] * 1e6 / chosen.users), None),
    ]


if __name__ == "__main__":
    main()
