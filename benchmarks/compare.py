"""The contest behind docs/frontier.md: ours against every rival, where all lose equally much of NDCG@10.

    python benchmarks/compare.py --data-root DIR --train          trains the base models, on a GPU if there is one
    CUDA_VISIBLE_DEVICES= python benchmarks/compare.py --data-root DIR
    python benchmarks/compare.py --record docs/frontier/contest.json
    python benchmarks/compare.py --data-root DIR --checks > docs/frontier/checks.json

The second command makes and judges the lists, world by world, and decides each world. The third puts the worlds that
were decided into the record; worlds that the record has from elsewhere stay. The fourth solves programs for the best
lists, and reads certificates on the test part. Finished pieces are files in ``--output``, and are not made again; files
of another machine can be put there.

On a machine without the data, ``--stored SPLITS`` reads what ``benchmarks/contest_models.py export SPLITS`` wrote; it
needs torch, numpy, numba, scipy and OR-tools. `recprism frontier RUN` compares methods on one run.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "src"))

from contest.cases import GRID, World, cases
from contest.ceilings import ceilings
from contest.certificates import certificate_outcomes
from contest.contest import GOALS, curves_of_world
from contest.forked import Forked
from contest.verdict import CellVerdict, keep_verdicts, record_of, world_verdicts
from contest_files import read_categories, read_splits
from recprism.common.files import write_text
from recprism.contest.flow import solver
from recprism.data.categories import Categories
from recprism.data.split import Split

DIGITS = 6  # of the figures in a record


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--grid", type=worlds_of, default=GRID, help="worlds DATASET:MODEL:SPLIT with commas between")
    options.add_argument("--seeds", type=int, default=5, help="splits and trainings; settings are chosen on the first")
    options.add_argument("--output", type=Path, default=Path("runs/contest"), help="the folder of the contest")
    options.add_argument("--data-root", type=Path)
    options.add_argument("--stored", type=Path, help="folder of exported splits")
    what = options.add_mutually_exclusive_group()
    what.add_argument("--train", action="store_true", help="train the base models, and make no lists")
    what.add_argument("--checks", action="store_true", help="print ceilings and certificates as JSON")
    what.add_argument("--record", type=Path, help="put the worlds that are decided into this JSON file, beside its own")
    given = options.parse_args()
    load = partial(stored, given.stored) if given.stored else partial(loaded, given.data_root)
    if given.train:
        train(given.grid, load, given.output, given.seeds)
    elif given.checks:
        print(json.dumps(checks(given.grid, load, given.output), indent=1))
    elif given.record:
        earlier = json.loads(given.record.read_text(encoding="utf-8")) if given.record.exists() else {}
        found = json.dumps(record_of(given.output, GRID, earlier))
        found = json.loads(found, parse_float=lambda text: round(float(text), DIGITS))
        rows = json.dumps(found).replace('{"world": ', '\n{"world": ')  # a cell is a line, also in a difference
        write_text(given.record, rows + "\n")
    else:
        run(given.grid, load, given.output, given.seeds)


def run(worlds: Sequence[World], load: Callable[[str], Any], folder: Path, seeds: int) -> None:
    """Make and judge the lists of every world, and decide it."""
    solver()  # refuses to start without OR-tools
    for world in worlds:
        curves_of_world(list(cases(world, seeds, load(world.dataset), folder)), say, Forked())
        found = world_verdicts(folder, world, seeds)
        keep_verdicts(folder, world, found)
        print_verdicts(found)


def train(worlds: Sequence[World], load: Callable[[str], Any], folder: Path, seeds: int) -> None:
    """Train the base models; they are files of the folder."""
    for world in worlds:
        for case in cases(world, seeds, load(world.dataset), folder):
            began = time.perf_counter()
            case.model  # noqa: B018 - trains and writes it
            say(f"{world.slug}, seed {case.seed}: trained, {time.perf_counter() - began:.1f} s")


def checks(worlds: Sequence[World], load: Callable[[str], Any], folder: Path) -> dict[str, list[dict[str, Any]]]:
    """Return how close the search comes to the best lists, and how certificates come out, on the first seeds."""
    found: dict[str, list[dict[str, Any]]] = {"ceilings": [], "certificates": []}
    for world in worlds:
        case = next(iter(cases(world, 1, load(world.dataset), folder)))
        about = {"world": world.slug}
        found["ceilings"] += [about | it for it in ceilings(case.validation)]
        found["certificates"] += [about | it for it in certificate_outcomes(case.validation, case.test, GOALS)]
    return found


@dataclass
class Stored:
    """A data set of stored splits."""

    splits: dict[str, Split]
    categories: Categories

    def split(self, method: str, seed: int) -> Split:
        return self.splits[f"{method}.{seed}"]


def stored(folder: Path, name: str) -> Stored:
    path = folder / f"{name}.npz"
    return Stored(read_splits(path), read_categories(path))


def loaded(data_root: Path | None, name: str) -> Any:
    from recprism.data.datasets import load_dataset  # noqa: PLC0415 - a machine with stored splits has no polars

    return load_dataset(name, preset="paper", data_root=data_root)


def worlds_of(words: str) -> tuple[World, ...]:
    """Read worlds; without a split, random."""
    named = [tuple(word.strip().split(":")) for word in words.split(",") if word.strip()]
    if not named or any(len(it) not in (2, 3) for it in named):
        raise argparse.ArgumentTypeError(f"{words}: write DATASET:MODEL:SPLIT with commas between")
    known = {(it.dataset, it.model, it.split): it for it in GRID}
    return tuple(known.get((*it, "random")[:3], World(*it)) for it in named)  # type: ignore[arg-type]


def print_verdicts(cells: Sequence[CellVerdict]) -> None:
    """Print one line per cell: gains and leads in percent of the base value, with their intervals."""
    for cell in cells:
        print(
            f"{cell.world}, {cell.goal} at a loss of {100 * cell.level:g} %: ours {cell.ours.gain}, over greedy "
            f"{cell.greedy}: {cell.greedy.outcome}, over {cell.best_name} {cell.best}: {cell.best.outcome}"
        )


def say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


if __name__ == "__main__":
    main()
