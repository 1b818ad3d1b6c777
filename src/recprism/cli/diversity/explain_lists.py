"""recprism explain-lists: what explains lists from files, of any method."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from recprism.cli import _options as options
from recprism.cli._output import print_json, print_sentence, print_title, progress_of_steps
from recprism.cli._values import LIST_COLUMNS, column_map
from recprism.cli.diversity.explain import print_coefficients


def explain_lists(
    lists: Annotated[Path, typer.Argument(metavar="FILE", help="The lists: user_id, item_id, rank.")],
    run: Annotated[Path, typer.Option(metavar="RUN", help="A trained run with the scores, categories and histories.")],
    base: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE", help="The lists before, with the same columns.", show_default="the best items by score"
        ),
    ] = None,
    part: options.Part = "test",
    columns: options.ColumnMap = None,
    draws: options.Draws = 199,
    seed: options.Seed = 0,
    as_json: options.AsJson = False,
) -> None:
    """Test what explains the lists of any method, an editor or a log.

    A choice model is fitted on some users: what raises the chance that a candidate comes into the list. It is tested
    on the others, next to the same model with shuffled categories. The candidates, scores and categories come from a
    run; `recprism import --scores` makes one from the scores of any system.

    Examples:

    - `recprism explain-lists new.csv --base old.csv --run runs/x`
    """
    from recprism.runs.jobs.explain_lists import explain_lists_of_run
    from recprism.runs.jobs.train import part_named
    from recprism.runs.run import Run

    mapped = column_map(columns, LIST_COLUMNS)
    with progress_of_steps() as on_step:
        found = explain_lists_of_run(
            lists, base, Run.open(run), part=part_named(part), columns=mapped, draws=draws, seed=seed, on_step=on_step
        )
    if as_json:
        print_json({"lists": str(lists), "choice_model": found.to_dict()})
        return
    print_title(f"{lists}: what explains these lists ({options.lists_in(True, part)})")
    for sentence in (*found.model.sentences(), *found.notes):
        print_sentence(sentence)
    print_coefficients(found.model)
