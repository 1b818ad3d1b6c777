"""recprism explain-lists: what explains lists from files, of any method."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from recprism.cli._commands import With, Without
from recprism.cli._options import (
    AsJson,
    CategoryColumn,
    CategoryLevel,
    CategorySeparator,
    CategoryTable,
    ColumnMap,
    Draws,
    ItemTable,
    Part,
    Seed,
    lists_in,
)
from recprism.cli._output import print_json, print_sentence, print_title, progress_of_steps
from recprism.cli._values import LIST_COLUMNS, column_map, columns_of_categories
from recprism.cli.diversity.explain import print_coefficients
from recprism.errors import InputError


def explain_lists(
    lists: Annotated[Path, typer.Argument(metavar="FILE", help="The lists: user_id, item_id, rank.")],
    base: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE", help="The lists before, with the same columns.", show_default="the best items by score"
        ),
    ] = None,
    run: Annotated[
        Path | None,
        typer.Option(metavar="RUN", help="A trained run with the scores, categories and histories."),
        Without("scores"),
    ] = None,
    part: Annotated[Part, Without("scores")] = "test",
    scores: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="user_id, item_id, score of the candidates, instead of a run."),
    ] = None,
    train: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="With --scores: user_id, item_id of the users' history."),
        With("scores"),
    ] = None,
    items: Annotated[ItemTable, With("scores")] = None,
    categories: Annotated[CategoryTable, With("scores")] = None,
    category_column: Annotated[CategoryColumn, With("scores")] = None,
    category_separator: Annotated[CategorySeparator, With("scores")] = None,
    category_level: Annotated[CategoryLevel, With("scores")] = None,
    columns: ColumnMap = None,
    draws: Draws = 199,
    seed: Seed = 0,
    as_json: AsJson = False,
) -> None:
    """Test what explains the lists of any method, an editor or a log.

    A choice model is fitted on some users: what raises the chance that a candidate comes into the list. It is tested
    on the others, next to the same model with shuffled categories. The candidates, scores and categories come from a
    run, or from files.

    Examples:

    - `recprism explain-lists new.csv --base old.csv --run runs/x`
    - `recprism explain-lists new.csv --scores scores.csv --items items.csv --category-column genres`
    """
    from recprism.runs.jobs.explain_lists import explain_lists_of_run, explain_lists_with_scores
    from recprism.runs.jobs.list_files import SideFiles
    from recprism.runs.jobs.train import part_named
    from recprism.runs.run import Run

    if (run is None) == (scores is None):
        raise InputError(
            "the candidates are in a run, --run RUN, or in a file of scores, --scores FILE; give one of them"
        )
    mapped = column_map(columns, (*LIST_COLUMNS, "score"))
    with progress_of_steps() as on_step:
        about: dict[str, Any] = {"draws": draws, "seed": seed, "on_step": on_step}
        if run is not None:
            found = explain_lists_of_run(lists, base, Run.open(run), part=part_named(part), columns=mapped, **about)
        else:
            chosen = columns_of_categories(category_column, category_separator, category_level)
            side = SideFiles(None, train, categories, items, chosen, columns=mapped)
            found = explain_lists_with_scores(lists, base, scores or "", side, **about)
    if as_json:
        print_json({"lists": str(lists), "choice_model": found.to_dict()})
        return
    print_title(f"{lists}: what explains these lists{f' ({lists_in(True, part)})' if run else ''}")
    for sentence in (*found.model.sentences(), *found.notes):
        print_sentence(sentence)
    print_coefficients(found.model)
