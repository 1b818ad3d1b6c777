"""recprism recommend: lists from a run."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from recprism.cli import _options as options
from recprism.cli._commands import refuse
from recprism.cli._output import next_step, print_json, print_sentence, print_table, print_title, progress_of_steps, say
from recprism.cli._values import comma_words


def recommend(
    run_directory: options.TrainedRun,
    k: options.K = 10,
    users: Annotated[
        list[str] | None,
        typer.Option(
            metavar="IDS",
            help="User ids with commas between, or repeated; write an id with a comma in double quotes.",
            show_default="all users",
        ),
    ] = None,
    judged: options.Judged = False,
    part: options.ListPart = None,
    output: Annotated[
        Path | None,
        typer.Option(
            "-o", "--output", help="A .csv or .parquet file.", show_default="RUN/recommendations[.judged].parquet"
        ),
    ] = None,
    base: options.Base = False,
    allow_violations: Annotated[
        bool, typer.Option("--allow-violations", help="Write lists that cannot keep a constraint of the result, too.")
    ] = False,
    name: options.ResultName = None,
    as_json: options.AsJson = False,
) -> None:
    """Write exact top-k lists, without items that a user has seen.

    By default the lists are live: all known interactions count as seen. The command prints how many consumed items the
    lists show and what they gain. With --judged they are those that `recprism evaluate` judges: interactions of the
    held-out part count as unknown.

    Examples:

    - `recprism recommend runs/x -k 20 -o lists.csv`
    - `recprism recommend runs/x --users 1,42`
    - `recprism recommend runs/x --judged -o lists.parquet`
    """
    import polars as pl

    from recprism.runs.jobs.train import part_named, recommend
    from recprism.runs.run import Run
    from recprism.runs.tables import require_table_name, write_table

    require_table_name(output)
    run = Run.open(run_directory, name)
    if allow_violations and (run.constraints.allow_violations or not run.constraints.parsed()):
        where = "for a result without such constraints", "for a result that must keep constraints"
        refuse("--allow-violations", *where)
    wanted = None if users is None else comma_words(users, "--users")
    kept = None
    with run.unchanged() as saving:
        with progress_of_steps() as on_step:
            lists, figures = recommend(
                run,
                k,
                users=wanted,
                live=not judged,
                part=part_named(part or "test"),
                base=base,
                allow_violations=allow_violations,
                on_step=on_step,
            )
        if wanted is None and output is None:
            with saving():
                kept = run.save_recommendations(lists, live=not judged)
    if wanted is not None and output is None:
        if as_json:
            print_json(lists.to_dicts())
        else:
            shown = lists.join(run.items(), on="item_id", how="left", maintain_order="left")
            columns = [
                name for name in ("user_id", "rank", "item_id", "title", "genres", "score") if name in shown.columns
            ]
            as_text = pl.col("user_id", "item_id").cast(pl.String)  # an id is no quantity: no commas in it
            print_title(f"{run.argument}: {options.lists_in(judged, part or 'test')}")
            print_table(columns, shown.select(columns).with_columns(as_text).rows(), numeric=("rank", "score"))
    else:
        path = kept if output is None else write_table(lists, output)
        if as_json:
            more = {} if figures is None else {"live": figures.to_dict()}
            print_json({"path": str(path), "lists": lists["user_id"].n_unique(), "k": k, "live": not judged, **more})
        else:
            kind = options.lists_in(judged, part or "test")
            print_sentence(f"{lists['user_id'].n_unique():,} lists of up to {k} items ({kind}) -> {path}")
    for sentence in () if figures is None else figures.sentences():
        (say if as_json else print_sentence)(sentence)
    next_step(run.command("evaluate", part=part, base=base))
