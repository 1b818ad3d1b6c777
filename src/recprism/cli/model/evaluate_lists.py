"""recprism evaluate-lists: accuracy and diversity of lists from a file."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from recprism.cli._options import (
    AsJson,
    ColumnMap,
    ItemTable,
    Metrics,
    Part,
    Rows,
    Seed,
    SubtopicColumn,
    SubtopicLevel,
    SubtopicSeparator,
    SubtopicTable,
)
from recprism.cli._output import say_categories
from recprism.cli._values import LIST_COLUMNS, category_columns, column_map
from recprism.cli.model.evaluate import Bootstrap, print_evaluation, write_rows


def evaluate_lists(
    lists: Annotated[Path, typer.Argument(metavar="FILE", help="The lists: user_id,item_id,rank.")],
    metrics: Metrics = None,
    run: Annotated[
        Path | None, typer.Option(metavar="RUN", help="The run whose held-out items and subtopics judge the lists.")
    ] = None,
    part: Part = "test",
    held_out: Annotated[
        Path | None, typer.Option(help="Instead of a run: user_id,item_id that users took later.")
    ] = None,
    train: Annotated[Path | None, typer.Option(help="Instead of a run: user_id,item_id known before.")] = None,
    columns: ColumnMap = None,
    catalogue_size: Annotated[
        int | None, typer.Option(help="How many items there are, if no file shows it.", min=1)
    ] = None,
    missing: Annotated[
        str,
        typer.Option(
            metavar="skip|zero", help="Users without a list are not judged (skip), or count as empty lists (zero)."
        ),
    ] = "skip",
    subtopics: SubtopicTable = None,
    items: ItemTable = None,
    subtopic_column: SubtopicColumn = None,
    subtopic_separator: SubtopicSeparator = None,
    subtopic_level: SubtopicLevel = None,
    bootstrap: Bootstrap = 1000,
    seed: Seed = 0,
    output: Rows = None,
    as_json: AsJson = False,
) -> None:
    """Measure accuracy and diversity of lists from a file, of any method.

    The lists alone show how varied they are. Held-out items add accuracy, and categories add metrics of topics. They
    come from a run that knows all users and items of the lists, or from files.

    Examples:

    - `recprism evaluate-lists lists.csv --run runs/x`
    - `recprism evaluate-lists lists.csv --held-out test.csv --items movies.csv --subtopic-column genres`
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
        categories = category_columns(subtopic_column, subtopic_separator, subtopic_level)
        described = SideFiles(held_out, train, subtopics, items, categories, catalogue_size, mapped)
        found = audit_lists(lists, described, names, **how)
    else:
        found = audit_against_run(lists, Run.open(run), names, part=where, columns=mapped, **how)
    if found.categories is not None:
        say_categories(found.categories)
    write_rows(found.evaluation, output)
    about = str(lists) if run is None else f"{lists}, on the {part} part"
    print_evaluation(found.evaluation, found.notes, as_json, about=about)
