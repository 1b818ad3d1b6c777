"""One whole iteration of CMB against the bare GEMM, and against a fair vectorised NumPy implementation.

    python benchmarks/cmb.py [--json] [--quick]

An iteration is: choose arms, perturb, rank all users, measure SC and Recall, update every player. Shapes are those of
the paper's data sets (users x items, d = 50, k = 20, 61 arms); factors, interactions and categories are made, since
only shapes matter here.
"""

from __future__ import annotations

import re
import statistics
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from harness import Claim, parser, report
from recprism.cmb.objective import Objective
from recprism.cmb.players._memory import Players
from recprism.cmb.players.arms import Arms
from recprism.cmb.players.policies import EpsilonGreedy
from recprism.cmb.search_loop import Judge
from recprism.cmb.space import FactorSpace
from recprism.data import Categories, SparseRows, Split
from recprism.metrics import Context
from recprism.models import Factors

D, K, ARMS, EPSILON, LAMBDA1 = 50, 20, 61, 0.1, 5.0
AUTHORS_SECONDS = (
    64 + 2.4
)  # per iteration on ML-1M, two cores: measured on 100 users of the authors' release and scaled


@dataclass(frozen=True)
class Shape:
    name: str
    users: int
    items: int
    train: int  # per user
    held_out: int  # per user
    categories: int
    bar: float


SHAPES = (
    Shape("ML-1M", 5950, 3125, 77, 20, 18, 1.6),
    Shape("ML-10M", 51_692, 7135, 74, 18, 19, 1.3),
    Shape("CDs", 13_364, 29_294, 22, 6, 30, 1.3),
)


@dataclass(frozen=True, eq=False)
class World:
    factors: Factors
    split: Split
    categories: Categories


def make(shape: Shape) -> World:
    generator = np.random.default_rng(0)
    factors = Factors.from_arrays(generator.normal(size=(shape.users, D)), generator.normal(size=(shape.items, D)))
    n = shape.train + shape.held_out
    taken = generator.integers(0, shape.items, (shape.users, n))
    owner = np.repeat(np.arange(shape.users), n).reshape(shape.users, n)
    train, test = (
        SparseRows.from_pairs(owner[:, part].ravel(), taken[:, part].ravel(), (shape.users, shape.items))
        for part in (slice(shape.train), slice(shape.train, n))
    )
    categories = SparseRows.from_pairs(
        np.repeat(np.arange(shape.items), 2),
        generator.integers(0, shape.categories, 2 * shape.items),
        (shape.items, shape.categories),
    )
    names = tuple(f"s{number:02}" for number in range(shape.categories))
    empty = SparseRows.empty((shape.users, shape.items))
    return World(factors, Split(train, empty, test, factors.user_ids, factors.item_ids), Categories(names, categories))


class Ours:
    """The pieces that ``search`` puts together, one iteration a call."""

    def __init__(self, world: World) -> None:
        self.space = FactorSpace(world.factors, world.split.train)
        self.context = Context.from_split(world.split, "test", categories=world.categories, vectors=world.factors.item)
        self.objective = Objective("subtopic_coverage", "recall", LAMBDA1, 0.9, "sum")
        self.arms, self.policy = Arms(0.3, ARMS), EpsilonGreedy(EPSILON)
        self.players = Players(self.space.n_players, ARMS, 200, ties="first", zero=ARMS // 2)
        self.iteration = 0

    def __call__(self) -> None:
        chosen = self.policy.choose(self.players, self.iteration, 0)
        step = Judge(self.space, self.context, self.objective).outcome(self.arms.values.index_select(0, chosen), K)
        self.players.learn(chosen, step.reward)
        self.iteration += 1


class PlainNumpy:
    """The same iteration as a careful NumPy user writes it: float32, blocks, argpartition, no loop over players."""

    def __init__(self, world: World, block: int = 1024) -> None:
        self.world, self.block = world, block
        self.user, self.item = world.factors.user, world.factors.item
        self.scale = np.abs(self.item).max()
        self.arms = np.linspace(-0.3, 0.3, ARMS).astype(np.float32)
        n_players = self.item.size
        self.values = np.zeros((n_players, ARMS), np.float32)
        self.counts = np.zeros((n_players, ARMS), np.uint8)
        self.generator = np.random.default_rng(0)
        self.categories = world.categories.items.dense()
        self.held_out = world.split.test
        self.n_held_out = np.maximum(self.held_out.row_counts, 1)

    def __call__(self) -> None:
        players = np.arange(self.item.size)
        chosen = self.values.argmax(1)
        explores = self.generator.random(len(chosen), np.float32) < EPSILON
        chosen[explores] = self.generator.integers(0, ARMS, int(explores.sum()))
        delta = self.arms[chosen]
        lists = self.rank(self.item + self.scale * delta.reshape(self.item.shape))
        psi = 0.9 * self.recall(lists) + 0.1 * self.coverage(lists)
        reward = np.float32(psi**2 - LAMBDA1 * np.abs(delta).sum())
        self.counts[players, chosen] += 1
        old = self.values[players, chosen]
        self.values[players, chosen] = old + (reward - old) / self.counts[players, chosen]

    def rank(self, item: NDArray[np.float32]) -> NDArray[np.int64]:
        train = self.world.split.train
        lists = np.empty((len(self.user), K), np.int64)
        for start in range(0, len(self.user), self.block):
            stop = min(start + self.block, len(self.user))
            scores = self.user[start:stop] @ item.T
            seen = slice(train.indptr[start], train.indptr[stop])
            scores[train.row_of_entry[seen] - start, train.indices[seen]] = -np.inf
            best = np.argpartition(scores, -K, axis=1)[:, -K:]
            order = np.argsort(-np.take_along_axis(scores, best, 1), axis=1)
            lists[start:stop] = np.take_along_axis(best, order, 1)
        return lists

    def recall(self, lists: NDArray[np.int64]) -> float:
        keys = np.arange(len(lists))[:, None] * self.held_out.n_cols + lists
        at = np.minimum(np.searchsorted(self.held_out.keys, keys), len(self.held_out) - 1)
        return float(((self.held_out.keys[at] == keys).sum(1) / self.n_held_out).mean())

    def coverage(self, lists: NDArray[np.int64]) -> float:
        return float(self.categories[lists].any(1).mean())


def timed(task: Any) -> float:
    start = time.perf_counter()
    task()
    return time.perf_counter() - start


def measure(shape: Shape, repeats: int) -> dict[str, float]:
    """Median seconds of GEMM, of our iteration and of NumPy's, taking turns."""
    world = make(shape)
    user, item = torch.from_numpy(world.factors.user), torch.from_numpy(world.factors.item)
    scores = torch.empty(shape.users, shape.items)
    tasks = {"gemm": lambda: torch.mm(user, item.T, out=scores), "ours": Ours(world), "numpy": PlainNumpy(world)}
    seconds: dict[str, list[float]] = {name: [] for name in tasks}
    for turn in range(repeats + 2):
        for name, task in tasks.items():
            # NumPy takes long and varies little: a third of the turns is enough.
            if turn >= 2 and (name != "numpy" or turn % 3 == 2):
                seconds[name].append(timed(task))
            elif turn < 2:
                task()
    return {name: statistics.median(values) for name, values in seconds.items()}


def peak_memory() -> float:
    """GiB that a fresh process needs for iterations on the CDs shape."""
    done = subprocess.run([sys.executable, __file__, "--only-search"], capture_output=True, text=True, check=True)
    return float(done.stdout)


def only_search() -> None:
    search = Ours(make(SHAPES[-1]))
    for _ in range(3):
        search()
    status = Path("/proc/self/status").read_text(encoding="utf-8")  # getrusage would count the parent's memory too
    print(int(re.search(r"VmHWM:\s+(\d+) kB", status)[1]) / 2**20)  # type: ignore[index]


def main() -> None:
    options = parser(__doc__)
    options.add_argument("--quick", action="store_true", help="ML-1M only, few repeats")
    options.add_argument(
        "--only-search", action="store_true", help="print the peak memory of a search on the CDs shape"
    )
    words = options.parse_args()
    if words.only_search:
        only_search()
        return
    claims, details = [], {}
    for shape in SHAPES[:1] if words.quick else SHAPES:
        seconds = measure(shape, 3 if words.quick else 12)
        details[shape.name] = seconds
        claims.append(Claim(f"{shape.name}: iteration / GEMM", seconds["ours"] / seconds["gemm"], shape.bar))
        claims.append(Claim(f"{shape.name}: NumPy / ours", seconds["numpy"] / seconds["ours"], 3.5, "higher"))
        if shape.name == "ML-1M":
            ratio = AUTHORS_SECONDS / seconds["ours"]
            claims.append(Claim("ML-1M: authors' release (quoted, not rerun) / ours", ratio, None, "higher"))
        if shape.name == "CDs":
            claims.append(Claim("CDs: peak memory of a process that searches, GiB", peak_memory(), 2.0))
    report(claims, as_json=words.json, details=details)


if __name__ == "__main__":
    main()
