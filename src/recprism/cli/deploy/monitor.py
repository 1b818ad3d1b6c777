"""recprism monitor: what is alive of a run's promise in the lists that are served."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from recprism.cli._options import ColumnMap, ResultName, column_map, share_option
from recprism.cli._output import (
    AsJson,
    Seed,
    next_step,
    print_json,
    print_sentence,
    print_table,
    print_title,
    progress_of_steps,
    say,
)

if TYPE_CHECKING:
    from recprism.deploy.monitor import Monitored
    from recprism.deploy.retention import Retention


def monitor(
    run_directory: Annotated[Path, typer.Argument(help="The run that was shipped.")],
    lists: Annotated[
        Path, typer.Option(help="What was served: user_id,item_id,rank, and perhaps a column day or date.")
    ],
    floor: Annotated[float, share_option(help="Least share of the promised gain that must be alive.")] = 0.8,
    held_out: Annotated[
        Path | None, typer.Option(help="user_id,item_id that users took: NDCG@10 is compared, too.", show_default=False)
    ] = None,
    metric: Annotated[
        str | None, typer.Option("-m", "--metric", help="What to watch.", show_default="the run's goal at 10")
    ] = None,
    day_column: Annotated[
        str | None, typer.Option(help="The column that tells the day.", show_default="day or date, if there is one")
    ] = None,
    columns: ColumnMap = None,
    confident: Annotated[
        bool, typer.Option("--confident", help="Judge by the low end of the 95 % interval, not by the share.")
    ] = False,
    each_segment: Annotated[
        bool, typer.Option("--each-segment", help="Lay the floor to every segment of users, too.")
    ] = False,
    fewest: Annotated[int, typer.Option(help="Lists that a day or segment needs to be judged.", min=2)] = 30,
    live: Annotated[
        bool, typer.Option("--live", help="What was shipped is live, as `export` and `recommend --live` make it.")
    ] = False,
    bootstrap: Annotated[int, typer.Option(help="Resamples of users for the intervals.", min=100)] = 1000,
    seed: Seed = 0,
    output: Annotated[
        Path | None,
        typer.Option("-o", "--output", help="Also write all rows to a .csv or .parquet file.", show_default=False),
    ] = None,
    junit: Annotated[Path | None, typer.Option(help="Write a JUnit file.", show_default=False)] = None,
    name: ResultName = None,
    as_json: AsJson = False,
) -> None:
    """How much of the promised gain is alive in the lists that are served? By day and by segment of users.

    The promise is what the run's vectors gain in their goal over the base's, for the users in the file; no label is
    needed. Users and items that the run does not know are counted. Exit code 0: the floor holds; 1: it does not, or
    nothing could be judged, or (with --held-out) NDCG@10 lost more than the run's budget; 2: a wrong question.

    Examples:

    - `recprism monitor runs/x --lists today.parquet`
    - `recprism monitor runs/x --lists week.csv --floor 0.9 --each-segment --json`
    - `recprism monitor runs/x --lists today.parquet --held-out taken.csv --junit monitor.xml`
    """
    from recprism.data._files import write_text
    from recprism.deploy.monitor import monitor
    from recprism.deploy.retention import Retention
    from recprism.metrics.evaluation import frame_of
    from recprism.runs._tables import write_table
    from recprism.runs.run import Run

    run = Run.open(run_directory, name)
    with progress_of_steps() as on_step:
        found = monitor(
            run,
            lists,
            floor=floor,
            metric=metric,
            held_out=held_out,
            day_column=day_column,
            confident=confident,
            each_segment=each_segment,
            fewest=fewest,
            live=live,
            bootstrap=bootstrap,
            seed=seed,
            on_step=on_step,
            columns=column_map(columns, ("user_id", "item_id", "rank", "day")),
        )
    if output is not None:
        say(f"rows written to {write_table(frame_of(Retention, found.rows), output)}")
    if junit is not None:
        write_text(junit, found.to_junit())
    if as_json:
        print_json(found.to_dict())
    else:
        _print(found)
        next_step(f"recprism experiment {run.argument}" if found.passed else f"recprism audit {run_directory}")
    if not found.passed:
        raise typer.Exit(1)


def _print(found: Monitored) -> None:
    print_title(f"{found.run}: what is alive of its gain in {found.metric}")
    _print_rows("day", found.days, found)
    print_title("\nby segment of users:")
    _print_rows("segment", found.segments, found)
    if found.exposure:
        print_title("\nwho is shown (share of places):")
        rows: list[tuple[Any, ...]] = [(it.segment, it.items, it.base, it.promised, it.now) for it in found.exposure]
        print_table(("items", "n", "base", "promised", "now"), rows, numeric=("n", "base", "promised", "now"))
    if found.accuracy is not None:
        print_title("\nNDCG@10 by the labels given:")
        rows = [(it.segment, it.users, it.before, it.after, _percent(it.relative)) for it in found.accuracy.rows]  # type: ignore[union-attr]
        print_table(("segment", "users", "base", "now", "change"), rows, numeric=("users", "base", "now", "change"))
    print_sentence(
        f"\nplaces with items of the promised lists: {found.like_promised:.1%}, of the base's: {found.like_base:.1%}"
    )
    for note in found.notes:
        print_sentence(f"note: {note}")
    print_sentence(found.verdict())


def _print_rows(by: str, rows: Sequence[Retention], found: Monitored) -> None:
    def state(row: Retention) -> str:
        return row.doubt or ("below the floor" if found.falls_short(row) else "")

    def share(value: float | None) -> str:
        return "" if value is None else f"{value:.1%}"

    lines = [
        (
            getattr(row, by),
            row.lists,
            row.base,
            row.promised,
            row.now,
            *map(share, (row.share, row.low, row.high)),
            state(row),
        )
        for row in rows
    ]
    columns = (by, "lists", "base", "promised", "now", "alive", "low", "high", "")
    print_table(columns, lines, numeric=columns[1:-1])


def _percent(share: float | None) -> str:
    return "" if share is None else f"{share:+.1%}"
