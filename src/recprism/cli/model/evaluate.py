"""recprism evaluate: accuracy and diversity of a run, or of any file of lists."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from recprism._command_line import in_commas
from recprism.cli._options import (
    AsJson,
    Base,
    ColumnMap,
    HeldOutTable,
    ItemTable,
    Metrics,
    Part,
    ResultName,
    Rows,
    Seed,
    SubtopicColumn,
    SubtopicLevel,
    SubtopicSeparator,
    SubtopicTable,
    TrainTable,
)
from recprism.cli._output import (
    if_storable,
    next_step,
    print_json,
    print_sentence,
    print_table,
    print_title,
    progress_of_steps,
    say,
    say_categories,
)
from recprism.cli._values import LIST_COLUMNS, category_columns, column_map, part_option
from recprism.errors import InputError

if TYPE_CHECKING:
    from recprism.metrics import Comparison, Evaluation
    from recprism.runs.run import Run


def evaluate(
    target: Annotated[Path, typer.Argument(metavar="TARGET", help="A run, or a file of lists: user_id,item_id,rank.")],
    metrics: Metrics = None,
    part: Part = "test",
    against: Annotated[
        Path | None, typer.Option(metavar="RUN", help="Another run of the same users: a paired comparison.")
    ] = None,
    against_name: Annotated[
        str | None, typer.Option(help="With --against: the result of that run.", show_default="the unnamed one")
    ] = None,
    run: Annotated[
        Path | None,
        typer.Option(metavar="RUN", help="For a file of lists: the run whose held-out items and subtopics judge it."),
    ] = None,
    held_out: HeldOutTable = None,
    train: TrainTable = None,
    columns: ColumnMap = None,
    catalogue_size: Annotated[
        int | None, typer.Option(help="For a file of lists: how many items there are, if no file shows it.", min=1)
    ] = None,
    missing: Annotated[
        str,
        typer.Option(
            metavar="skip|zero",
            help="For a file of lists: users without a list are not judged (skip), or count as empty lists (zero).",
        ),
    ] = "skip",
    subtopics: SubtopicTable = None,
    items: ItemTable = None,
    subtopic_column: SubtopicColumn = None,
    subtopic_separator: SubtopicSeparator = None,
    subtopic_level: SubtopicLevel = None,
    base: Base = False,
    bootstrap: Annotated[int, typer.Option(help="Resamples for the intervals; 0 for none.", min=0)] = 1000,
    seed: Seed = 0,
    output: Rows = None,
    name: ResultName = None,
    as_json: AsJson = False,
) -> None:
    """Measure accuracy and diversity of a run or a file of lists.

    Every mean has a bootstrap interval. Next to it is the value that lists of the most popular items reach.

    Examples:

    - `recprism evaluate runs/x`
    - `recprism evaluate runs/x -m ndcg@10,alpha_ndcg@10,subtopic_coverage@20`
    - `recprism evaluate runs/x --against runs/y`
    - `recprism evaluate runs/x --name bold --against runs/x --against-name cautious`
    - `recprism evaluate lists.csv --held-out test.csv --items movies.csv --subtopic-column genres`
    """
    from recprism.metrics import compare
    from recprism.runs._tables import require_table_name, write_table
    from recprism.runs.jobs.list_files import SideFiles, audit_against_run, audit_lists
    from recprism.runs.jobs.train import evaluate_run, metric_names, part_named
    from recprism.runs.run import Run

    require_table_name(output)
    names, where = metric_names(metrics), part_named(part)
    if not target.exists():
        raise InputError(f"{target}: no such run directory or file of lists")
    notes: tuple[str, ...] = ()
    judged_by_run = target.is_dir() or run is not None
    mapped = column_map(columns, LIST_COLUMNS)
    categories = category_columns(subtopic_column, subtopic_separator, subtopic_level)
    ours = Run.open(target, name) if target.is_dir() else None
    theirs = None if against is None else Run.open(against, against_name)
    if theirs is not None:
        theirs.model_or_result(where)  # refuses a run without a model before anything is kept
    if ours is not None and theirs is not None:
        _require_same_users(ours, theirs)
    if ours is not None:
        with ours.unchanged() as saving:
            with progress_of_steps() as on_step:
                result = evaluate_run(
                    ours, names, part=where, bootstrap=bootstrap, base=base, seed=seed, on_step=on_step
                )
            with if_storable(), saving():
                ours.save_metrics(result.to_frame(), base=base)
    elif run is not None:
        audit = audit_against_run(
            target,
            Run.open(run),
            names,
            part=where,
            bootstrap=bootstrap,
            seed=seed,
            columns=mapped,
            missing=missing,  # type: ignore[arg-type]
        )
        result, notes = audit.evaluation, audit.notes
    else:
        described = SideFiles(held_out, train, subtopics, items, categories, catalogue_size, mapped)
        audit = audit_lists(target, described, names, bootstrap=bootstrap, seed=seed, missing=missing)  # type: ignore[arg-type]
        result, notes = audit.evaluation, audit.notes
        if audit.categories is not None:
            say_categories(audit.categories)
    if output is not None:
        say(f"rows written to {write_table(result.to_frame(), output)}")
    if theirs is not None:
        other = evaluate_run(theirs, [score.name for score in result.scores], part=where, bootstrap=0)
        _print_comparison(
            compare(other, result, bootstrap=bootstrap, seed=seed),
            as_json,
            ours.argument if ours else str(target),
            theirs.argument,
        )
        return
    print_evaluation(result, notes, as_json, about=f"{target}, on the {part} part" if judged_by_run else str(target))
    if ours is not None:
        first = in_commas(ours.split().user_ids[0])
        judged_on = part_option(part)
        next_step(ours.command("recommend", users=first, judged=judged_on is not None, part=judged_on, base=base))


def _require_same_users(ours: Run, theirs: Run) -> None:
    """Refuse a comparison that cannot be paired, before anything is measured and kept."""
    if ours.split().user_ids.tolist() != theirs.split().user_ids.tolist():
        raise InputError(
            f"{ours.argument} and {theirs.argument} have different users; a comparison user by user needs the same ones"
        )


def print_evaluation(result: Evaluation, notes: tuple[str, ...], as_json: bool, *, about: str) -> None:
    """Print one row per metric, and the notes."""
    if as_json:
        found = result.to_dict()
        print_json({**found, "notes": [*notes, *found["notes"]]})
        return
    print_title(about)
    rows = [
        (score.name, score.mean, _interval(score.low, score.high), score.n_users, score.popularity)
        for score in result.scores
    ]
    columns = ("metric", "value", f"{result.level:.0%} interval", "users", "popularity")
    known = any(score.popularity is not None for score in result.scores)
    shown = len(columns) if known else len(columns) - 1  # lists alone do not tell what is popular
    print_table(columns[:shown], [row[:shown] for row in rows], numeric=("value", "users", "popularity"))
    for note in (*notes, *result.notes):
        print_sentence(f"note: {note}")


def _print_comparison(comparison: Comparison, as_json: bool, ours: str, theirs: str) -> None:
    if as_json:
        print_json({"run": ours, "against": theirs, **comparison.to_dict()})
        return
    print_title(f"{theirs} against {ours}, user by user")
    rows = [
        (row.name, row.a, row.b, row.difference, _interval(row.low, row.high), row.p_value) for row in comparison.rows
    ]
    columns = ("metric", theirs, ours, "difference", "interval", "p")
    print_table(columns, rows, numeric=columns[1:])


def _interval(low: float | None, high: float | None) -> str:
    return "" if low is None or high is None else f"{low:.4f} .. {high:.4f}"
