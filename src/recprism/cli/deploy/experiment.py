"""recprism experiment: how large an A/B test must be, and what it must keep."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from recprism.cli._options import ResultName, metric_shares, share_option
from recprism.cli._output import (
    AsJson,
    next_step,
    print_json,
    print_sentence,
    print_table,
    print_title,
    progress_of_steps,
)
from recprism.cli.diversity.audit import Guards


def experiment(
    run_directory: Annotated[Path, typer.Argument(help="A run that was diversified.")],
    power: Annotated[float, share_option(help="Chance to find what is there.", low=0.5, high=0.999)] = 0.8,
    alpha: Annotated[
        float,
        share_option(
            help="Chance of a false alarm: one-sided for guards, two-sided for the goal.", low=0.0001, high=0.5
        ),
    ] = 0.05,
    budget: Annotated[
        float | None,
        share_option(
            help="Share of NDCG@10 that may be lost: the margin.",
            low=0.0001,
            high=0.5,
            show_default="the run's budgets",
        ),
    ] = None,
    guard: Guards = None,
    share: Annotated[float, share_option(help="Of all users who get the new lists.", low=0.01, high=0.99)] = 0.5,
    alive: Annotated[
        float, share_option(help="Share of the measured gain that the test must still find.", low=0.01)
    ] = 1.0,
    users_per_day: Annotated[
        int | None, typer.Option(help="New users in the test a day: the days are told.", min=1, show_default=False)
    ] = None,
    part: Annotated[str, typer.Option(help="Means and spread from validation or test.")] = "test",
    name: ResultName = None,
    as_json: AsJson = False,
) -> None:
    """Plan an A/B test of the base's lists against the swapped ones: users needed, and guardrails.

    Means and spread are those of the run's own users on held-out labels, one list each. Guards are tested for "not
    worse by more than the budget", the goal for "better". With --budget or --guard those margins count; without, those
    that the run was diversified within.

    Examples:

    - `recprism experiment runs/x`
    - `recprism experiment runs/x --power 0.9 --share 0.1 --users-per-day 20000`
    - `recprism experiment runs/x --budget 0.02 --guard recall@20=0.03 --json`
    """
    from recprism.budget.audit import COST
    from recprism.deploy.experiment import plan
    from recprism.runs.jobs.train import part_named
    from recprism.runs.run import Run

    named = {**({} if budget is None else {COST: budget}), **metric_shares(guard, "--guard")}
    run = Run.open(run_directory, name)
    with progress_of_steps() as on_step:
        found = plan(
            run,
            budgets=named or None,
            power=power,
            alpha=alpha,
            share=share,
            retained=alive,
            part=part_named(part),
            on_step=on_step,
        )
    days = None if users_per_day is None or found.users is None else -(-found.users // users_per_day)
    if as_json:
        print_json({**found.to_dict(), "days": days})
        return
    rows = [
        (it.metric, it.question, it.margin, it.base, it.new, it.base_deviation, it.base_users, it.new_users)
        for it in found.sizes
    ]
    print_title(f"{run.argument}: an A/B test, planned from the {found.part} part")
    columns = ("metric", "question", "margin", "base", "new", "deviation", "base users", "new users")
    print_table(columns, rows, numeric=columns[2:])
    for size in found.sizes:
        print_sentence(size.sentence())
    print_title("\nguardrails, as changes against the base arm:")
    for rail in found.guardrails:
        print_sentence(rail.sentence())
    print_sentence(found.sentence())
    if days is not None:
        print_sentence(f"With {users_per_day:,} new users a day: {days:,} days.")
    next_step(f"recprism interleave {run.argument} -o mixed.parquet", f"recprism monitor {run.argument} --lists FILE")
