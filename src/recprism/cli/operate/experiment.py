"""recprism experiment: how large an A/B test must be, and what it must keep."""

from __future__ import annotations

from typing import Annotated

import typer

from recprism.cli import _options as options
from recprism.cli._output import print_json, print_sentence, print_table, print_title, progress_of_steps, say
from recprism.cli._values import limits

Power = Annotated[
    float, options.share_option(help="Chance that the test finds the measured change.", low=0.5, high=0.999)
]
Alpha = Annotated[
    float,
    options.share_option(
        help="Chance of a false alarm: one-sided for guards, two-sided for the goal.", low=0.0001, high=0.5
    ),
]


def experiment(
    run_directory: options.DiversifiedRun,
    power: Power = 0.8,
    alpha: Alpha = 0.05,
    budget: Annotated[
        float | None,
        options.share_option(
            help="The margin: the largest share of NDCG@10 that may be lost.",
            low=0.0001,
            high=0.5,
            show_default="the run's budgets",
        ),
    ] = None,
    guard: options.Guards = None,
    share: Annotated[
        float, options.share_option(help="Share of the users who get the new lists.", low=0.01, high=0.99)
    ] = 0.5,
    alive: Annotated[
        float, options.share_option(help="Share of the measured gain that the test must still find.", low=0.01)
    ] = 1.0,
    users_per_day: Annotated[
        int | None, typer.Option(help="New users in the test per day; the plan then gives days.", min=1)
    ] = None,
    part: options.Part = "test",
    name: options.ResultName = None,
    as_json: options.AsJson = False,
) -> None:
    """Plan an A/B test: the users it needs, and its guardrails.

    The test compares the base lists with the diverse ones. Means and deviations come from the run's own users on
    held-out labels, with one list per user. Guards test "not worse by more than the budget"; the goal tests "better".
    The margins are those of --budget and --guard, or those of the run if neither is given.

    Examples:

    - `recprism experiment runs/x`
    - `recprism experiment runs/x --power 0.9 --share 10% --users-per-day 20000`
    - `recprism experiment runs/x --budget 2% --guard recall@20=3% --json`
    """
    from recprism.operate.experiment import plan
    from recprism.runs.jobs.train import part_named
    from recprism.runs.run import Run

    named = limits(budget, "--budget", guard, "--guard", tested=True)
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
    say(f"when lists are served, watch them: {run.command('monitor', lists='FILE')}")
