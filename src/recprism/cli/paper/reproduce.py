"""recprism reproduce: the paper's tables, our numbers next to theirs."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from recprism.cli import _options as options
from recprism.cli._commands import given
from recprism.cli._output import next_step, print_json, print_table, print_title, progress_bar
from recprism.common.command_line import command_line

if TYPE_CHECKING:
    from recprism.cmb.reproduce import AgainstRandom, Cell
    from recprism.cmb.tables import Row


def reproduce(
    context: typer.Context,
    table: Annotated[
        str | None,
        typer.Option(
            help="tradeoff_bprmf, tradeoff_lightgcn, single_objective, sweep_A, sweep_n_arms or sweep_lambda2.",
            show_default="all of them",
        ),
    ] = None,
    dataset: Annotated[
        str, typer.Option(help="A named data set; the paper's numbers are shown where it has them.")
    ] = "ml-1m",
    runs: Annotated[
        int, typer.Option(help="Number of seeds; two or more give means and deviations. The paper has five.", min=1)
    ] = 1,
    output: Annotated[
        Path, typer.Option("-o", "--output", help="Folder of the runs; finished ones are not run again.")
    ] = Path("runs/reproduce"),
    data_root: options.DataRoot = None,
    device: options.Device = "auto",
    as_json: options.AsJson = False,
) -> None:
    """Run the paper's tables and show both numbers, ours and theirs.

    Every CMB row has two controls: the learned values shuffled among the players, and plain noise. They show how much
    of a row was learned.

    Examples:

    - `recprism reproduce --table tradeoff_bprmf --data-root ~/data`
    - `recprism reproduce --runs 5 --json > paper.json`
    """
    from recprism.cmb.reproduce import against_random, reproduce
    from recprism.cmb.tables import TABLES, rows_of
    from recprism.data.datasets import load_dataset

    tables = list(TABLES) if table is None else [table]
    rows = [row for name in tables for row in rows_of(name)]
    data = load_dataset(dataset, preset="paper", data_root=data_root)
    with progress_bar() as progress:
        task = progress.add_task("reproducing", total=len(rows) * runs, note="")

        def show(row: Row, seed: int) -> None:
            progress.update(task, advance=1, note=f"{row.table}, {row.method}, seed {seed}")

        try:
            cells = reproduce(data, rows, output, runs=runs, device=device, on_row=show)
        except KeyboardInterrupt:
            raise KeyboardInterrupt("run the same command again to continue") from None
    against = against_random(data.name, output, runs) if "single_objective" in tables else []
    if as_json:
        print_json({"rows": [asdict(cell) for cell in cells], "against_random": [asdict(row) for row in against]})
        return
    for name in tables:
        _print_table([cell for cell in cells if cell.table == name])
    if against:
        _print_against_random(against)
    next_step(command_line("reproduce", **given(context, "runs"), runs=5, json=True))


def _print_table(cells: list[Cell]) -> None:
    """Print one line per method and K, with the change against the base row in percent, ours / the paper's."""
    metrics = list(dict.fromkeys(cell.metric for cell in cells))
    lines = list(dict.fromkeys((cell.method, cell.k) for cell in cells))
    found = {(cell.method, cell.k, cell.metric): cell for cell in cells}
    first = cells[0]
    print_title(
        f"{first.table}: {first.dataset}, {first.base_model}; base rows as values, others as % change; ours / paper"
    )
    rows = [(method, k, *(_show(found.get((method, k, metric))) for metric in metrics)) for method, k in lines]
    print_table(("method", "K", *metrics), rows, numeric=("K", *metrics))


def _print_against_random(rows: list[AgainstRandom]) -> None:
    print_title(
        "single objectives against random arms, on the metric they optimise, and on Gini for PC: "
        "points of percent, 95 % interval by seed"
    )
    shown = [
        (
            row.method,
            row.metric,
            row.k,
            f"{row.learned:+.1f}",
            f"{row.random:+.1f}",
            f"{row.difference:+.1f}",
            _interval(row),
        )
        for row in rows
    ]
    columns = ("method", "metric", "K", "learned", "random", "difference", "interval")
    print_table(columns, shown, numeric=columns[2:])


def _interval(row: AgainstRandom) -> str:
    return "one seed" if row.low is None else f"{row.low:+.1f} .. {row.high:+.1f}"


def _show(cell: Cell | None) -> str:
    """Return ours / the paper's; a dash for Gini in the file of an earlier version."""
    if cell is None:
        return "-"
    if cell.method == cell.base_model:
        return f"{cell.ours:.4f} / {'-' if cell.paper is None else f'{cell.paper:.4f}'}"
    ours = "-" if cell.ours_change is None else f"{cell.ours_change:+.1f}"
    return f"{ours} / {'-' if cell.paper_change is None else f'{cell.paper_change:+.1f}'}"
