"""Exact top-20 lists, seen items excluded, against the bare product of the same factors.

The bar is the time of a warm ``torch.mm(P, Q.T, out=S)`` with the same threads: a product that only writes its scores.
Random factors are normal; trained ones come from a few epochs of BPR on made-up interactions of that size, where users
have tastes and some items are popular.
"""

from __future__ import annotations

import platform
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numba
import numpy as np
import torch
from numpy.typing import NDArray

from harness import Claim, interleaved, parser, report
from recprism.data.sparse_rows import SparseRows
from recprism.ranking import topk

DIM, K, HISTORY_WEIGHTS = 50, 20, 20
Factors = tuple[NDArray[np.float32], NDArray[np.float32]]


@dataclass(frozen=True)
class Shape:
    """A set of the size of a known one.

    Attributes:
        seen: Mean number of seen items per user.
        bar: What the ratio to ``torch.mm`` is held against on x86-64.
        arm_bar: The same on ARM64.
    """

    name: str
    n_users: int
    n_items: int
    seen: int
    bar: float
    arm_bar: float
    repeats: int


SHAPES = (
    Shape("ML-1M", 5950, 3125, 77, 1.2, 1.6, 51),
    Shape("ML-10M", 51692, 7135, 74, 1.0, 1.4, 7),
    Shape("CDs", 13364, 29294, 22, 1.0, 1.3, 7),
)


def main() -> None:
    options = parser(__doc__)
    options.add_argument("--threads", type=int, default=torch.get_num_threads(), help="threads for both sides")
    options.add_argument("--engine", default="auto", help="engine of recprism.ranking to measure")
    chosen = options.parse_args()
    torch.set_num_threads(chosen.threads)
    claims, runs = [], []
    for shape in SHAPES:
        seen = interactions(shape)
        bar = shape.arm_bar if platform.machine().lower() in ("aarch64", "arm64") else shape.bar
        for kind, factors in (("random", random_factors(shape)), ("trained", trained_factors(shape, seen))):
            seconds = measure(factors, seen, shape, chosen.engine)
            name = f"{shape.name} ({shape.n_users} x {shape.n_items}), {kind} factors: time over torch.mm"
            claims.append(Claim(name, round(seconds["topk"] / seconds["mm"], 3), bar))
            runs.append({"shape": shape.name, "factors": kind, "seen_per_user": len(seen) / shape.n_users, **seconds})
        plain = round(seconds["topk"] / seconds["mm + topk"], 3)
        claims.append(Claim(f"{shape.name}: time over torch.mm + torch.topk", plain, 1.0))
        claims.append(
            Claim(f"{shape.name}: extra memory over a score matrix", extra_memory(shape, chosen.engine), None)
        )
    report(claims, as_json=chosen.json, details={"threads": chosen.threads, "engine": chosen.engine, "seconds": runs})


def measure(factors: Factors, seen: SparseRows, shape: Shape, engine: str) -> dict[str, float]:
    """Median seconds of the product, the product with a plain selection, and ours."""
    user, item = map(torch.from_numpy, factors)
    scores = torch.empty(len(user), len(item))
    tasks: dict[str, Callable[[], Any]] = {
        "mm": lambda: torch.mm(user, item.T, out=scores),
        "topk": lambda: topk(user, item, K, exclude=seen, engine=engine),
    }
    plain: dict[str, Callable[[], Any]] = {"mm + topk": lambda: torch.mm(user, item.T, out=scores).topk(K)}
    return interleaved(tasks, shape.repeats) | interleaved(plain, repeats=2, warmup=0)


def extra_memory(shape: Shape, engine: str) -> float:
    """Peak of one call in a fresh process, as a share of the users x items score matrix."""
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as process:
        grown = process.submit(peak_of_a_call, shape, engine).result()
    return round(grown / (4 * shape.n_users * shape.n_items), 4)


def peak_of_a_call(shape: Shape, engine: str) -> int:
    """Bytes by which the peak of this process rises."""
    (user, item), seen = random_factors(shape), interactions(shape)
    topk(user[:100], item[:100], K, engine=engine)  # compiles
    Path("/proc/self/clear_refs").write_text("5", encoding="ascii")  # sets the peak to what is in use now
    before = peak_bytes()
    topk(user, item, K, exclude=seen, engine=engine)
    return peak_bytes() - before


def peak_bytes() -> int:
    status = Path("/proc/self/status").read_text(encoding="ascii")
    return int(status.partition("VmHWM:")[2].split()[0]) * 1024


def interactions(shape: Shape) -> SparseRows:
    """Users with a few tastes each; within a history_weight few items are popular and many are not."""
    rng = np.random.default_rng(0)
    counts = 10 + rng.geometric(1 / (1.15 * shape.seen - 9), shape.n_users)  # some pairs are drawn twice
    user = np.repeat(np.arange(shape.n_users), counts)
    tastes = rng.integers(HISTORY_WEIGHTS, size=(shape.n_users, 4))
    history_weight = tastes[user, rng.integers(4, size=len(user))]
    rank = (shape.n_items // HISTORY_WEIGHTS) * rng.random(len(user)) ** 2
    catalogue = rng.permutation(shape.n_items)  # popular items may stand anywhere
    return SparseRows.from_pairs(
        user, catalogue[rank.astype(int) * HISTORY_WEIGHTS + history_weight], (shape.n_users, shape.n_items)
    )


def random_factors(shape: Shape) -> Factors:
    rng = np.random.default_rng(1)
    return rng.standard_normal((shape.n_users, DIM), np.float32), rng.standard_normal((shape.n_items, DIM), np.float32)


def trained_factors(shape: Shape, seen: SparseRows) -> Factors:
    rng = np.random.default_rng(2)
    user = 0.1 * rng.standard_normal((shape.n_users, DIM), np.float32)
    item = 0.1 * rng.standard_normal((shape.n_items, DIM), np.float32)
    for _ in range(5):
        order = rng.permutation(len(seen))
        negatives = rng.integers(shape.n_items, size=len(seen))
        descend(user, item, seen.row_of_entry[order], seen.indices[order], negatives)
    return user, item


@numba.njit(fastmath=True)
def descend(user, item, rows, positives, negatives):  # type: ignore[no-untyped-def]
    """One epoch of BPR by stochastic gradient descent."""
    rate, decay = np.float32(0.05), np.float32(0.01)
    for entry in range(len(rows)):
        p, q, r = user[rows[entry]], item[positives[entry]], item[negatives[entry]]
        margin = np.float32(0)
        for f in range(p.shape[0]):
            margin += p[f] * (q[f] - r[f])
        pull = np.float32(1) / (np.float32(1) + np.exp(margin))
        for f in range(p.shape[0]):
            pf, qf, rf = p[f], q[f], r[f]
            p[f] += rate * (pull * (qf - rf) - decay * pf)
            q[f] += rate * (pull * pf - decay * qf)
            r[f] -= rate * (pull * pf + decay * rf)


if __name__ == "__main__":
    main()
