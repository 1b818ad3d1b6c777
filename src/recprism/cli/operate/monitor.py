"""recprism monitor: how much of a run's gain is left in the served lists."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from recprism.cli import _options as options
from recprism.cli._output import next_step, print_json, print_sentence, print_table, print_title, progress_of_steps, say
from recprism.cli._values import column_map
from recprism.common.command_line import command_line
from recprism.common.shares import percent, percent_interval
from recprism.errors import InputError

if TYPE_CHECKING:
    from recprism.operate.monitor import Monitored
    from recprism.operate.retention import Retention

Floor = Annotated[float, options.share_option(help="The least share of the promised gain that must be left.")]


def monitor(
    run_directory: Annotated[Path, options.run_argument("The run that you serve.")],
    lists: Annotated[
        Path, typer.Option(help="The served lists: user_id,item_id,rank, and optionally a column day or date.")
    ],
    floor: Floor = 0.8,
    held_out: Annotated[
        Path | None, typer.Option(help="user_id,item_id that users took later; then NDCG@10 is compared too.")
    ] = None,
    metric: Annotated[
        str | None, typer.Option("-m", "--metric", help="The metric to watch.", show_default="the run's goal at 10")
    ] = None,
    day_column: Annotated[
        str | None, typer.Option(help="The column with the day.", show_default="day or date, if there is one")
    ] = None,
    columns: options.ColumnMap = None,
    confident: Annotated[
        bool, typer.Option("--confident", help="Judge by the low end of the 95 % interval, not by the share.")
    ] = False,
    each_segment: Annotated[
        bool, typer.Option("--each-segment", help="Apply the floor to every segment of users as well.")
    ] = False,
    fewest: Annotated[int, typer.Option(help="The fewest lists by which a day or segment is judged.", min=2)] = 30,
    judged: options.Judged = False,
    bootstrap: Annotated[int, typer.Option(help="Resamples of users for the intervals.", min=100)] = 1000,
    seed: options.Seed = 0,
    output: options.Rows = None,
    junit: options.JUnit = None,
    name: options.ResultName = None,
    as_json: options.AsJson = False,
) -> None:
    """Measure how much of the gain is left in the lists you serve.

    The promise is the gain of the run's vectors over the base in their goal, for the users in the file. It needs no
    labels. The table is by day and by segment of users. Users and items unknown to the run are counted and skipped.

    Exit code 0: the floor holds. 1: it does not, or nothing could be judged, or (with --held-out) NDCG@10 lost more
    than the run's budget. 2: the question is wrong.

    If `recprism serve` keeps a log, read it with `recprism monitor-log`.

    Examples:

    - `recprism monitor runs/x --lists today.parquet`
    - `recprism monitor runs/x --lists week.csv --floor 90% --each-segment --json`
    - `recprism monitor runs/x --lists today.parquet --held-out taken.csv --junit monitor.xml`
    """
    from recprism.operate.monitor import monitor
    from recprism.operate.retention import Retention
    from recprism.runs.run import Run
    from recprism.runs.tables import require_table_name

    mapped = column_map(columns, ("user_id", "item_id", "rank", "day"))
    if day_column is not None and "day" in mapped:
        raise InputError("--day-column and --column day= name the same column; give one of them")
    require_table_name(output)
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
            live=not judged,
            bootstrap=bootstrap,
            seed=seed,
            on_step=on_step,
            columns=mapped,
        )
    write_found(Retention, found, output, junit)
    if as_json:
        print_json(found.to_dict())
    else:
        _print(found, judged)
        next_step(run.command("experiment") if found.passed else command_line("audit", run.path))
    if not found.passed:
        raise typer.Exit(1)


def write_found(kind: type, found: Any, output: Path | None, junit: Path | None) -> None:
    """Write the rows of what a monitor found, objects of ``kind``, and its JUnit file, where they are asked for."""
    from recprism.common.files import write_text
    from recprism.metrics.evaluation import frame_of
    from recprism.runs.tables import write_table

    if output is not None:
        say(f"rows written to {write_table(frame_of(kind, found.rows), output)}")
    if junit is not None:
        write_text(junit, found.to_junit())


def _print(found: Monitored, judged: bool) -> None:
    print_title(f"{found.run}: what is alive of its gain in {found.metric} ({options.lists_in(judged)})")
    _print_rows("day", found.days, found)
    print_title("\nby segment of users:")
    _print_rows("segment", found.segments, found)
    if found.exposure:
        print_title("\nwho is shown (share of places):")
        rows: list[tuple[Any, ...]] = [(it.segment, it.items, it.base, it.promised, it.now) for it in found.exposure]
        print_table(("items", "n", "base", "promised", "now"), rows, numeric=("n", "base", "promised", "now"))
    if found.accuracy is not None:
        print_title("\nNDCG@10 by the labels given:")
        rows = [
            (
                *(it.segment, it.users, it.before, it.after),  # type: ignore[union-attr]
                percent(it.relative, "+.1f", "%"),
                percent_interval(it.low, it.high),
            )
            for it in found.accuracy.rows
        ]
        columns = (
            "segment",
            "users",
            "base",
            "now",
            "change",
            f"{100 * (found.accuracy.confidence or 0):g} % interval",
        )
        print_table(columns, rows, numeric=columns[1:])
        print_sentence(found.accuracy.sentence())
    print_sentence(
        f"\nplaces with items of the promised lists: {found.like_promised:.1%}, of the base's: {found.like_base:.1%}"
    )
    for note in found.notes:
        print_sentence(f"note: {note}")
    print_sentence(found.verdict())


def _print_rows(by: str, rows: Sequence[Retention], found: Monitored) -> None:
    def state(row: Retention) -> str:
        return row.doubt or ("below the floor" if found.falls_short(row) else "")

    lines = [
        (
            getattr(row, by),
            row.lists,
            row.base,
            row.promised,
            row.now,
            *(percent(it, ".1f", "%") for it in (row.share, row.low, row.high)),
            state(row),
        )
        for row in rows
    ]
    columns = (by, "lists", "base", "promised", "now", "alive", "low", "high", "")
    print_table(columns, lines, numeric=columns[1:-1])
