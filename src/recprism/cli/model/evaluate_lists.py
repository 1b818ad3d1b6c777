"""recprism evaluate-lists: accuracy and diversity of lists from a file."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from recprism.cli import _options as options
from recprism.cli._commands import With, Without
from recprism.cli._output import say_categories
from recprism.cli._values import LIST_COLUMNS, column_map, columns_of_categories
from recprism.cli.model.evaluate import Bootstrap, print_evaluation, write_rows


def evaluate_lists(
    lists: Annotated[Path, typer.Argument(metavar="FILE", help="The lists: user_id,item_id,rank.")],
    metrics: options.Metrics = None,
    run: Annotated[
        Path | None, typer.Option(metavar="RUN", help="The run whose held-out items and categories judge the lists.")
    ] = None,
    part: Annotated[options.Part, With("run")] = "test",
    held_out: Annotated[
        Path | None, typer.Option(help="Instead of a run: user_id,item_id that users took later."), Without("run")
    ] = None,
    train: Annotated[
        Path | None, typer.Option(help="Instead of a run: user_id,item_id known before."), Without("run")
    ] = None,
    columns: options.ColumnMap = None,
    catalogue_size: Annotated[
        int | None, typer.Option(help="How many items there are, if no file shows it.", min=1), Without("run")
    ] = None,
    missing: Annotated[
        str,
        typer.Option(
            metavar="skip|zero", help="Users without a list are not judged (skip), or count as empty lists (zero)."
        ),
        With("run", "held_out"),
    ] = "skip",
    categories: Annotated[options.CategoryTable, Without("run")] = None,
    items: Annotated[options.ItemTable, Without("run")] = None,
    category_column: Annotated[options.CategoryColumn, Without("run")] = None,
    category_separator: Annotated[options.CategorySeparator, Without("run")] = None,
    category_level: Annotated[options.CategoryLevel, Without("run")] = None,
    bootstrap: Bootstrap = 1000,
    seed: Annotated[options.Seed, With("bootstrap")] = 0,
    output: options.Rows = None,
    as_json: options.AsJson = False,
) -> None:
    """Measure accuracy and diversity of lists from a file, of any method.

    The lists alone show how varied they are. Held-out items add accuracy, and categories add metrics of categories.
    They come from a run that knows all users and items of the lists, or from files.

    Examples:

    - `recprism evaluate-lists lists.csv --run runs/x`
    - `recprism evaluate-lists lists.csv --held-out test.csv --items movies.csv --category-column genres`
    """
    from recprism.runs.jobs.list_files import SideFiles, audit_against_run, audit_lists
    from recprism.runs.jobs.train import metric_names, part_named
    from recprism.runs.run import Run
    from recprism.runs.tables import require_table_name

    require_table_name(output)
    names, where = metric_names(metrics), part_named(part)
    mapped = column_map(columns, LIST_COLUMNS)
    how: dict[str, Any] = {"bootstrap": bootstrap, "seed": seed, "missing": missing}
    if run is None:
        chosen = columns_of_categories(category_column, category_separator, category_level)
        described = SideFiles(held_out, train, categories, items, chosen, catalogue_size, mapped)
        found = audit_lists(lists, described, names, **how)
    else:
        found = audit_against_run(lists, Run.open(run), names, part=where, columns=mapped, **how)
    if found.category_summary is not None:
        say_categories(found.category_summary)
    write_rows(found.evaluation, output)
    about = str(lists) if run is None else f"{lists}, on the {part} part"
    print_evaluation(found.evaluation, found.notes, as_json, about=about)
