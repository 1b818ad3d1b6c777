"""recprism import: a run from vectors, or from candidates with scores, that were made elsewhere."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, get_args

import typer

from recprism.cli import _options as options
from recprism.cli._commands import With, Without
from recprism.cli._output import next_step, print_facts, print_json, print_title, say, say_categories, say_replaced
from recprism.cli._values import column_map, columns_of_categories, finite_number
from recprism.cli.model.train import WITHOUT_CATEGORIES
from recprism.errors import InputError
from recprism.runs.config import ColumnName

if TYPE_CHECKING:
    from recprism.data.dataset import Dataset
    from recprism.data.split import Split
    from recprism.runs.run import Run

Vectors = Annotated[
    str | None,
    typer.Option(help="A file: .npy, .npz, .safetensors, .pt, .pth, .parquet, .csv or .tsv."),
    Without("scores"),
]
Ids = Annotated[
    str | None,
    typer.Option(help="Their ids: a .npy file, one a line, or an array or column of that file."),
    Without("scores"),
]
Key = Annotated[
    str | None, typer.Option(help="The array or column of vectors, where the file has several."), Without("scores")
]
Bias = Annotated[
    str | None, typer.Option(help="Their biases: a .npy file, one a line, or an array or column."), Without("scores")
]


def import_vectors(
    output: Annotated[Path, typer.Option("-o", "--output", help="The run directory to make.")],
    user_vectors: Vectors = None,
    item_vectors: Vectors = None,
    scores: Annotated[
        str | None,
        typer.Option(help="Instead of vectors: user_id,item_id,score of each user's best candidates, a few hundred."),
    ] = None,
    user_ids: Ids = None,
    item_ids: Ids = None,
    user_key: Key = None,
    item_key: Key = None,
    user_bias: Bias = None,
    item_bias: Bias = None,
    metric: Annotated[options.IndexMetric, Without("scores")] = "inner_product",
    interactions: Annotated[
        str | None, typer.Option(help="user_id,item_id that users took before; not recommended again.")
    ] = None,
    held_out: Annotated[
        str | None,
        typer.Option(help="user_id,item_id that users took later: the labels. The model must not have seen them."),
    ] = None,
    set_aside: Annotated[
        float,
        options.share_option(help="Instead of --held-out: the share of --interactions to use as labels, 0.2 or 20%."),
        With("interactions"),
        Without("held_out"),
    ] = 0.0,
    threshold: Annotated[
        str | None,
        typer.Option(metavar="NUMBER", help="Lowest rating that counts; without it all do."),
        With("interactions", "held_out"),
    ] = None,
    columns: options.ColumnMap = None,
    categories: options.CategoryTable = None,
    items: options.ItemTable = None,
    category_column: options.CategoryColumn = None,
    category_separator: options.CategorySeparator = None,
    category_level: options.CategoryLevel = None,
    seed: Annotated[options.Seed, With("held_out", "set_aside")] = 0,
    overwrite: options.OverwriteRun = False,
    as_json: options.AsJson = False,
) -> None:
    """Make a run from your own user and item vectors, or from your own scores.

    Every other command takes the run. Half of each user's held-out interactions certify budgets (validation), and half
    judge the results (test). A run of scores has no vectors: its result is exported as a rule, and commands that need
    vectors (`search`, `dials`, `steer`, `erase`) refuse it.

    Examples:

    - `recprism import --user-vectors u.npy --item-vectors i.npy --user-ids u.txt --item-ids i.txt -o runs/mine`
    - `recprism import --user-vectors u.parquet --item-vectors i.parquet --interactions old.csv --held-out new.csv
      --items items.csv --category-column genres -o runs/mine`
    - `recprism import --user-vectors m.pt --item-vectors m.pt --interactions all.csv --set-aside 20% -o runs/mine`
    - `recprism import --scores scores.parquet --interactions old.csv --held-out new.csv --categories genres.csv
      -o runs/mine`
    """
    from recprism.runs.jobs.own_scores import import_scores
    from recprism.runs.jobs.own_vectors import import_vectors as make_run
    from recprism.runs.run import Run

    if scores is None and (user_vectors is None or item_vectors is None):
        raise InputError("give --user-vectors and --item-vectors, or --scores")
    Run(output).require_free(overwrite=overwrite)
    if overwrite:
        say_replaced(output, Run(output).replaced(everything=True))
    names = get_args(ColumnName)
    tables: dict[str, Any] = {
        "interactions": interactions,
        "held_out": held_out,
        "set_aside": set_aside,
        "threshold": None if threshold is None else finite_number(threshold, f"--threshold {threshold}", "a number"),
        "items": items,
        "categories": categories,
        "category_columns": columns_of_categories(category_column, category_separator, category_level),
        "columns": column_map(columns, names if scores is None else (*names, "score")),
        "seed": seed,
        "overwrite": overwrite,
        "note": lambda sentence: say(f"note: {sentence}"),
        "on_data": _show,
    }
    if scores is not None:
        run = import_scores(output, scores, **tables)
    else:
        run = make_run(
            output,
            user_vectors,
            item_vectors,
            user_ids=user_ids,
            item_ids=item_ids,
            user_key=user_key,
            item_key=item_key,
            user_bias=user_bias,
            item_bias=item_bias,
            metric=metric,
            **tables,
        )
    facts = _facts(run)
    if as_json:
        print_json(facts)
    else:
        print_title(f"{run.path}: a run of imported {'vectors' if scores is None else 'scores'}")
        print_facts(facts)
    next_step(run.command("audit"), run.command("recommend"))


def _show(dataset: Dataset, _split: Split) -> None:
    """Print what was read of the items' categories."""
    if dataset.category_source:
        say_categories(dataset.category_summary)
    if not len(dataset.categories):
        say(f"warning: {WITHOUT_CATEGORIES}")


def _facts(run: Run) -> dict[str, Any]:
    """What the run holds, and how much of the tables was left out."""
    from recprism.models import Factors

    split, base, categories = run.split(), run.base(), run.categories()
    left_out = next(event for event in run.events() if event["event"] == "imported")["left_out"]
    return {
        "run": str(run.path),
        "users": split.n_users,
        "items": split.n_items,
        **(
            {"factors": base.dim, "item bias": base.item_bias is not None}
            if isinstance(base, Factors)
            else {"scores per user": base.items.shape[1]}
        ),
        "interactions": {"train": len(split.train), "validation": len(split.validation), "test": len(split.test)},
        "categories": len(categories),
        "items without categories": categories.items_without,
        "left out": {
            "interactions": left_out["interactions"]["rows"],
            "held-out interactions": left_out["held_out"]["rows"] + left_out["seen"],
        },
    }
