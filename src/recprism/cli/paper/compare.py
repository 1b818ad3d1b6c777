"""recprism compare: ours against every tuned rival."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from recprism.cli._commands import given
from recprism.cli._options import AsJson, DataRoot, Device, ExecutorName
from recprism.cli._output import (
    next_step,
    print_json,
    print_sentence,
    print_table,
    print_title,
    progress_bar,
)
from recprism.common.command_line import command_line
from recprism.errors import InputError

if TYPE_CHECKING:
    from recprism.contest.cases import World
    from recprism.contest.verdict import CellVerdict, Duel, MethodResult


def compare(
    context: typer.Context,
    grid: Annotated[
        str,
        typer.Option(
            help="full, or worlds DATASET:MODEL:SPLIT with commas between, as in ml-1m:bprmf:random. Without a split, "
            "random."
        ),
    ] = "full",
    seeds: Annotated[int, typer.Option(help="Number of splits and trainings; the first one is for tuning.", min=1)] = 5,
    output: Annotated[
        Path, typer.Option("-o", "--output", help="Folder of the contest; finished pieces are not run again.")
    ] = Path("runs/contest"),
    data_root: DataRoot = None,
    device: Device = "auto",
    executor: ExecutorName = "local",
    as_json: AsJson = False,
) -> None:
    """Compare all methods, tuned alike, over data sets, models and splits.

    Every method has 40 trials for each budget on the validation part, and the test part is read once. A cell is a goal
    (SC, relevance-aware alpha-nDCG, ILAD, items shown 5 times, Gini) at a loss of NDCG@10 of 1 % or 5 %. The outcome
    is that of paired tests, corrected for the number of rivals. A gain counts only if the method keeps the budget or
    loses no more than the other.

    Examples:

    - `recprism compare --grid ml-1m:bprmf:random --seeds 1`
    - `recprism compare --grid full --json > compare.json`
    """
    from recprism.contest.contest import compare, pieces_left
    from recprism.contest.record import contest_record
    from recprism.contest.verdict import table
    from recprism.data.datasets import load_dataset
    from recprism.parallel import executor_named

    worlds = _worlds(grid)
    with progress_bar() as progress:
        task = progress.add_task("comparing", total=pieces_left(worlds, output, seeds=seeds), note="")
        try:
            compare(
                worlds,
                lambda name: load_dataset(name, preset="paper", data_root=data_root),
                output,
                seeds=seeds,
                device=device,
                on_step=lambda note: progress.update(task, advance=1, note=note),
                on_estimate=progress.console.print,
                executor=executor_named(executor),
            )
        except KeyboardInterrupt:
            raise KeyboardInterrupt("run the same command again to continue") from None
    found = table(output, worlds, seeds=seeds)
    if as_json:
        print_json(contest_record(output, worlds, found, seeds=seeds))
        return
    print_title(f"gains in percent (change of NDCG@10), seeds: {seeds}")
    print_verdicts(found)
    next_step(command_line("compare", **given(context), json=True))


def _worlds(words: str) -> tuple[World, ...]:
    from recprism.contest.cases import GRID, World

    if words == "full":
        return GRID
    named = [tuple(word.strip().split(":")) for word in words.split(",") if word.strip()]
    if not named or any(len(it) not in (2, 3) for it in named):
        raise InputError(f"--grid {words}: write full, or DATASET:MODEL:SPLIT with commas between")
    return tuple(World(it[0], it[1], it[2] if len(it) == 3 else "random") for it in named)


def print_verdicts(cells: list[CellVerdict]) -> None:
    """Print one line per cell: gains in percent, with changes of NDCG@10, and our lead with its interval."""

    def shown(result: MethodResult) -> str:
        return f"{100 * result.gain:+.1f} ({-100 * result.loss:+.1f})"

    def lead(duel: Duel) -> str:
        it = duel.effect
        ends = "" if it.low is None or it.high is None else f" [{100 * it.low:+.1f}, {100 * it.high:+.1f}]"
        return f"{100 * it.mean:+.1f}{ends}"

    rows = [
        (
            cell.world,
            f"{100 * cell.budget:g} %",
            cell.goal,
            shown(cell.ours),
            "-" if cell.served is None else shown(cell.served),
            lead(cell.greedy),
            cell.best.rival.method,
            lead(cell.best),
            shown(cell.popularity),
            cell.outcome,
        )
        for cell in cells
    ]
    columns = (
        "world",
        "budget",
        "goal",
        "ours",
        "served",
        "over greedy",
        "best rival",
        "over it",
        "popularity",
        "outcome",
    )
    print_table(columns, rows, numeric=("budget", "ours", "served", "over greedy", "over it", "popularity"))
    counts = {word: sum(cell.outcome == word for cell in cells) for word in ("won", "tied", "lost")}
    print_sentence(f"won {counts['won']}, tied {counts['tied']}, lost {counts['lost']} of {len(cells)} cells")
