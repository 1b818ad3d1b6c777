"""The contest behind docs/frontier.md: ours against every tuned rival, over data sets, models and splits.

    python benchmarks/compare.py --data-root DIR --json > docs/frontier/contest.json
    python benchmarks/compare.py --data-root DIR --grid ml-1m:bprmf:random --seeds 1

Every method has 40 trials for each budget on the validation part, and the test part is read once. A cell is a goal (SC,
relevance-aware alpha-nDCG, ILAD, items shown 5 times, Gini) at a loss of NDCG@10 of 1 % or 5 %. The outcome is that of
paired tests, corrected for the number of rivals. A gain counts only if the method keeps the budget or loses no more
than the other. Finished pieces are files and are not run again. `recprism frontier RUN` compares methods on one run.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

from contest.cases import GRID, World
from contest.contest import compare
from contest.record import contest_record
from contest.verdict import CellVerdict, Duel, MethodResult, table
from recprism.data.datasets import load_dataset


def main() -> None:
    options = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    options.add_argument("--grid", type=worlds_of, default=GRID, help="worlds DATASET:MODEL:SPLIT with commas between")
    options.add_argument("--seeds", type=int, default=5, help="splits and trainings; the first one is for tuning")
    options.add_argument("--output", type=Path, default=Path("runs/contest"), help="the folder of the contest")
    options.add_argument("--data-root", type=Path)
    options.add_argument("--device", default="auto")
    options.add_argument("--json", action="store_true")
    given = options.parse_args()
    compare(
        given.grid,
        lambda name: load_dataset(name, preset="paper", data_root=given.data_root),
        given.output,
        seeds=given.seeds,
        device=given.device,
        on_step=lambda note: print(note, file=sys.stderr),
    )
    found = table(given.output, given.grid, seeds=given.seeds)
    if given.json:
        print(json.dumps(contest_record(given.output, given.grid, found, seeds=given.seeds), indent=1))
    else:
        print_verdicts(found)


def worlds_of(words: str) -> tuple[World, ...]:
    """Read worlds; without a split, random."""
    named = [tuple(word.strip().split(":")) for word in words.split(",") if word.strip()]
    if not named or any(len(it) not in (2, 3) for it in named):
        raise argparse.ArgumentTypeError(f"{words}: write DATASET:MODEL:SPLIT with commas between")
    return tuple(World(it[0], it[1], it[2] if len(it) == 3 else "random") for it in named)


def print_verdicts(cells: list[CellVerdict]) -> None:
    """Print one line per cell: gains in percent, with changes of NDCG@10, and our lead with its interval."""

    def shown(result: MethodResult) -> str:
        return f"{100 * result.gain:+.1f} ({-100 * result.loss:+.1f})"

    def lead(duel: Duel) -> str:
        it = duel.effect
        ends = "" if it.low is None or it.high is None else f" [{100 * it.low:+.1f}, {100 * it.high:+.1f}]"
        return f"{100 * it.mean:+.1f}{ends}"

    for cell in cells:
        served = "" if cell.served is None else f", served {shown(cell.served)}"
        print(
            f"{cell.world}, {cell.goal} within {100 * cell.budget:g} %: ours {shown(cell.ours)}{served}, over greedy "
            f"{lead(cell.greedy)}, over {cell.best.rival.method} {lead(cell.best)}, popularity "
            f"{shown(cell.popularity)}: {cell.outcome}"
        )
    counts = {word: sum(cell.outcome == word for cell in cells) for word in ("won", "tied", "lost")}
    print(f"won {counts['won']}, tied {counts['tied']}, lost {counts['lost']} of {len(cells)} cells")


if __name__ == "__main__":
    main()
