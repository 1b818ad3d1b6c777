"""recprism compare: ours against every tuned rival."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from recprism.cli._options import AsJson, DataRoot, Device, ExecutorName
from recprism.cli._output import (
    next_step,
    print_json,
    print_sentence,
    print_table,
    print_title,
    progress_bar,
)
from recprism.errors import InputError

if TYPE_CHECKING:
    from recprism.paper.verdict import CellVerdict, MethodResult


def compare(
    grid: Annotated[
        str, typer.Option(help="full, or pairs DATASET:MODEL with commas between, as in ml-1m:bprmf,ml-1m:als.")
    ] = "full",
    seeds: Annotated[int, typer.Option(help="Number of splits and trainings; the first one is for tuning.", min=1)] = 5,
    split: Annotated[str, typer.Option(help="random (8:1:1 per user) or temporal.")] = "random",
    output: Annotated[
        Path, typer.Option("-o", "--output", help="Folder of the runs; finished ones are not run again.")
    ] = Path("runs/compare"),
    data_root: DataRoot = None,
    device: Device = "auto",
    executor: ExecutorName = "local",
    as_json: AsJson = False,
) -> None:
    """Compare all methods, tuned alike, over data sets and models.

    Every method is tuned alike on the validation part, and the test part is read once. A cell is a goal (SC,
    alpha-nDCG, ILAD, PC) at a loss of NDCG@10 of 1 % or 5 %. The tests are paired, with Holm's correction over all
    cells. A gain counts only if the method keeps the budget or loses no more than the other.

    Examples:

    - `recprism compare --grid ml-1m:bprmf --seeds 1`
    - `recprism compare --grid full --json > compare.json`
    """
    from recprism.data.datasets import load_dataset
    from recprism.paper.contest import compare, pieces_left
    from recprism.paper.verdict import table
    from recprism.parallel import executor_named

    worlds = _worlds(grid)
    with progress_bar() as progress:
        left = pieces_left(worlds, output, seeds=seeds, split=split)
        task = progress.add_task("comparing", total=left, note="")
        try:
            compare(
                worlds,
                lambda name: load_dataset(name, preset="paper", data_root=data_root),
                output,
                seeds=seeds,
                split=split,
                device=device,
                on_step=lambda note: progress.update(task, advance=1, note=note),
                executor=executor_named(executor),
            )
        except KeyboardInterrupt:
            raise KeyboardInterrupt("run the same command again to continue") from None
    found = table(output, worlds, seeds=seeds, split=split)
    if as_json:
        print_json({"seeds": seeds, "split": split, "cells": [cell.to_dict() for cell in found]})
        return
    print_title(f"gains in percent (change of NDCG@10; of Gini for catalogue coverage), {split} split, seeds: {seeds}")
    print_verdicts(found)
    next_step(f"recprism compare --grid {grid} --seeds {seeds} --json")


def _worlds(words: str) -> tuple[tuple[str, str], ...]:
    from recprism.paper.contest import GRID

    if words == "full":
        return GRID
    pairs = [tuple(word.strip().rsplit(":", 1)) for word in words.split(",") if word.strip()]
    if not pairs or any(len(pair) != 2 for pair in pairs):
        raise InputError(f"--grid {words}: write full, or DATASET:MODEL pairs with commas between")
    return tuple((pair[0], pair[1]) for pair in pairs)


def print_verdicts(cells: list[CellVerdict]) -> None:
    """Print one line per cell: gains in percent, with changes of NDCG@10, and of Gini for catalogue coverage."""

    def shown(standing: MethodResult) -> str:
        gini = "" if standing.gini is None else f", Gini {100 * standing.gini:+.1f}"
        return f"{100 * standing.gain:+.1f} ({-100 * standing.loss:+.1f}{gini})"

    rows = [
        (
            cell.world,
            f"{100 * cell.budget:g} %",
            cell.goal,
            shown(cell.ours),
            cell.best_rival.method,
            shown(cell.best_rival),
            f"{cell.share_of_ceiling:.0%}",
            shown(cell.popularity),
            cell.outcome,
        )
        for cell in cells
    ]
    columns = ("world", "budget", "goal", "ours", "best rival", "its gain", "of the ceiling", "popularity", "outcome")
    print_table(columns, rows, numeric=("budget", "ours", "its gain", "of the ceiling", "popularity"))
    counts = {word: sum(cell.outcome == word for cell in cells) for word in ("won", "tied", "lost")}
    print_sentence(f"won {counts['won']}, tied {counts['tied']}, lost {counts['lost']} of {len(cells)} cells")
