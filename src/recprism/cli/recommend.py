"""recprism recommend: lists from a run."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from recprism.cli.options import comma_words
from recprism.cli.output import AsJson, next_step, print_json, print_sentence, print_table, print_title


def recommend(
    run_directory: Annotated[Path, typer.Argument(help="A run made by `recprism train`.")],
    k: Annotated[int, typer.Option("-k", help="Length of the lists.", min=1)] = 10,
    users: Annotated[
        list[str] | None,
        typer.Option(
            help="User ids with commas between, or repeated; one with a comma in double quotes.",
            show_default="all users",
        ),
    ] = None,
    part: Annotated[
        str, typer.Option(help="test hides training and validation items, validation only training items.")
    ] = "test",
    output: Annotated[
        Path | None,
        typer.Option("-o", "--output", help="A .csv or .parquet file.", show_default="RUN/recommendations.parquet"),
    ] = None,
    base: Annotated[
        bool, typer.Option("--base", help="The trained model's lists, even if the run was diversified.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Exact top-k lists, without what a user has already seen.

    Examples:

    - `recprism recommend runs/x -k 20 -o lists.csv`
    - `recprism recommend runs/x --users 1,42`
    """
    import polars as pl

    from recprism.study.pipeline import part_named, recommend
    from recprism.study.run import Run
    from recprism.study.tables import write_table

    run = Run.open(run_directory)
    wanted = None if users is None else comma_words(users)
    kept = None
    with run.unchanged() as saving:
        lists = recommend(run, k, part=part_named(part), users=wanted, base=base)
        if wanted is None and output is None:
            with saving():
                kept = run.save_recommendations(lists)
    if wanted is not None and output is None:
        if as_json:
            print_json(lists.to_dicts())
        else:
            shown = lists.join(run.items(), on="item_id", how="left", maintain_order="left")
            columns = [
                name for name in ("user_id", "rank", "item_id", "title", "genres", "score") if name in shown.columns
            ]
            as_text = pl.col("user_id", "item_id").cast(pl.String)  # an id is no quantity: no commas in it
            print_title(f"{run_directory}: unseen items for the {part} part")
            print_table(columns, shown.select(columns).with_columns(as_text).rows(), numeric=("rank", "score"))
    else:
        path = kept if output is None else write_table(lists, output)
        if as_json:
            print_json({"path": str(path), "lists": lists["user_id"].n_unique(), "k": k})
        else:
            print_sentence(f"{lists['user_id'].n_unique():,} lists of up to {k} items -> {path}")
    next_step(f"recprism evaluate {run_directory}")
