"""recprism evaluate: accuracy and diversity of a run."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from recprism.cli import _options as options
from recprism.cli._commands import With
from recprism.cli._output import (
    if_storable,
    next_step,
    print_json,
    print_sentence,
    print_table,
    print_title,
    progress_of_steps,
    say,
)
from recprism.cli._values import part_option
from recprism.common.command_line import in_commas
from recprism.errors import InputError

if TYPE_CHECKING:
    from recprism.metrics import Comparison, Evaluation
    from recprism.runs.run import Run

Bootstrap = Annotated[int, typer.Option(help="Resamples for the intervals; 0 for none.", min=0)]


def evaluate(
    run_directory: options.TrainedRun,
    metrics: options.Metrics = None,
    part: options.Part = "test",
    against: Annotated[
        Path | None, typer.Option(metavar="RUN", help="Another run of the same users: a paired comparison.")
    ] = None,
    against_name: Annotated[
        str | None,
        typer.Option(help="With --against: the result of that run.", show_default="the unnamed one"),
        With("against"),
    ] = None,
    base: options.Base = False,
    bootstrap: Bootstrap = 1000,
    seed: Annotated[options.Seed, With("bootstrap", "against")] = 0,
    output: options.Rows = None,
    name: options.ResultName = None,
    as_json: options.AsJson = False,
) -> None:
    """Measure accuracy and diversity of a run.

    Every mean has a bootstrap interval. Next to it is the value that lists of the most popular items reach. For lists
    in a file, use `recprism evaluate-lists`.

    Examples:

    - `recprism evaluate runs/x`
    - `recprism evaluate runs/x -m ndcg@10,alpha_ndcg@10,subtopic_coverage@20`
    - `recprism evaluate runs/x --against runs/y`
    - `recprism evaluate runs/x --name bold --against runs/x --against-name cautious`
    """
    from recprism.metrics import compare
    from recprism.runs.jobs.train import evaluate_run, metric_names, part_named
    from recprism.runs.run import Run
    from recprism.runs.tables import require_table_name

    require_table_name(output)
    names, where = metric_names(metrics), part_named(part)
    run = Run.open(run_directory, name)
    theirs = None if against is None else Run.open(against, against_name)
    if theirs is not None:
        theirs.model_or_result(where)  # refuses a run without a model before anything is kept
        _require_same_users(run, theirs)
    with run.unchanged() as saving:
        with progress_of_steps() as on_step:
            result = evaluate_run(run, names, part=where, bootstrap=bootstrap, base=base, seed=seed, on_step=on_step)
        with if_storable(), saving():
            run.save_metrics(result.to_frame(), base=base)
    write_rows(result, output)
    if theirs is not None:
        other = evaluate_run(theirs, [score.name for score in result.scores], part=where, bootstrap=0)
        found = compare(other, result, bootstrap=bootstrap, seed=seed)
        _print_comparison(found, as_json, run.argument, theirs.argument)
        return
    print_evaluation(result, (), as_json, about=f"{run_directory}, on the {part} part")
    first, judged_on = in_commas(run.split().user_ids[0]), part_option(part)
    next_step(run.command("recommend", users=first, judged=judged_on is not None, part=judged_on, base=base))


def _require_same_users(ours: Run, theirs: Run) -> None:
    """Refuse a comparison that cannot be paired, before anything is measured and kept."""
    if ours.split().user_ids.tolist() != theirs.split().user_ids.tolist():
        raise InputError(
            f"{ours.argument} and {theirs.argument} have different users; a comparison user by user needs the same ones"
        )


def write_rows(result: Evaluation, output: Path | None) -> None:
    """Write one row per metric to the file of --output."""
    from recprism.runs.tables import write_table

    if output is not None:
        say(f"rows written to {write_table(result.to_frame(), output)}")


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
