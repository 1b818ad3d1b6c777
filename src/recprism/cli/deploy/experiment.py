"""recprism experiment: how large an A/B test must be, and what it must keep."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from recprism._command_line import command_line
from recprism.cli._options import AsJson, DiversifiedRun, Guards, Part, ResultName, share_option
from recprism.cli._output import (
    next_step,
    print_json,
    print_sentence,
    print_table,
    print_title,
    progress_of_steps,
    say,
)
from recprism.cli._values import limits
from recprism.errors import InputError

if TYPE_CHECKING:
    from recprism.deploy.served.holdout_plan import HoldoutPlan

HOLDOUT = "A randomised holdout"


def experiment(
    run_directory: DiversifiedRun,
    power: Annotated[
        float, share_option(help="Chance that the test finds the measured change.", low=0.5, high=0.999)
    ] = 0.8,
    alpha: Annotated[
        float,
        share_option(
            help="Chance of a false alarm: one-sided for guards, two-sided for the goal.", low=0.0001, high=0.5
        ),
    ] = 0.05,
    budget: Annotated[
        float | None,
        share_option(
            help="The margin: the largest share of NDCG@10 that may be lost.",
            low=0.0001,
            high=0.5,
            show_default="the run's budgets",
        ),
    ] = None,
    guard: Guards = None,
    share: Annotated[float, share_option(help="Share of the users who get the new lists.", low=0.01, high=0.99)] = 0.5,
    alive: Annotated[
        float, share_option(help="Share of the measured gain that the test must still find.", low=0.01)
    ] = 1.0,
    users_per_day: Annotated[
        int | None, typer.Option(help="New users in the test per day; the plan then gives days.", min=1)
    ] = None,
    holdout: Annotated[
        float | None,
        share_option(
            help="Plan a holdout instead: this share of the requests at price 0.", low=0.001, high=0.999, panel=HOLDOUT
        ),
    ] = None,
    click_rate: Annotated[
        float | None,
        share_option(
            help="Share of the holdout's requests with a click, from your logs.", low=0.0001, high=0.9999, panel=HOLDOUT
        ),
    ] = None,
    change: Annotated[
        float,
        share_option(help="Share of the click rate whose loss must be seen.", low=0.001, high=0.9, panel=HOLDOUT),
    ] = 0.05,
    requests_per_day: Annotated[
        int | None,
        typer.Option(
            help="Requests per day, each of another user; the plan then gives days.", min=1, rich_help_panel=HOLDOUT
        ),
    ] = None,
    part: Part = "test",
    name: ResultName = None,
    as_json: AsJson = False,
) -> None:
    """Plan an A/B test: the users it needs, and its guardrails.

    The test compares the base lists with the diverse ones. Means and deviations come from the run's own users on
    held-out labels, with one list per user. Guards test "not worse by more than the budget"; the goal tests "better".
    The margins are those of --budget and --guard, or those of the run if neither is given.

    With --holdout, the plan is that of a share of requests at price 0, for `recprism serve --holdout`. It gives the
    requests for a test with a single look, and for the confidence sequences of `recprism monitor-log`.

    Examples:

    - `recprism experiment runs/x`
    - `recprism experiment runs/x --holdout 5% --click-rate 8% --change 3% --requests-per-day 100000`
    - `recprism experiment runs/x --power 0.9 --share 10% --users-per-day 20000`
    - `recprism experiment runs/x --budget 2% --guard recall@20=3% --json`
    """
    from recprism.deploy.experiment import plan
    from recprism.deploy.served.holdout_plan import plan_holdout
    from recprism.runs.jobs.train import part_named
    from recprism.runs.run import Run

    if holdout is not None:
        if click_rate is None:
            raise InputError("--holdout needs --click-rate: the share of requests with a click, from your logs")
        terms: dict[str, Any] = {"change": change, "power": power, "alpha": alpha, "part": part_named(part)}
        with progress_of_steps() as on_step:
            planned = plan_holdout(Run.open(run_directory, name), holdout, click_rate, **terms, on_step=on_step)
        _show_holdout(planned, requests_per_day, as_json)
        return
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
    next_step(run.command("interleave", output="mixed.parquet"))
    say(f"when lists are served, watch them: {run.command('monitor', lists='FILE')}")


def _show_holdout(plan: HoldoutPlan, per_day: int | None, as_json: bool) -> None:
    days = None if per_day is None else -(-plan.requests // per_day)
    if as_json:
        print_json({**plan.to_dict(), "days": days})
        return
    print_title(f"{plan.run}: a holdout at price 0")
    rows = [(it.question, f"{it.share:.3g}", it.holdout, it.usual, it.fixed, it.anytime) for it in plan.sizes]
    columns = ("question", "share", "holdout", "usual price", "one look", "at any time")
    print_table(columns, rows, numeric=columns[1:])
    print_sentence(plan.sentence())
    if days is not None:
        print_sentence(f"With {per_day:,} requests a day: {days:,} days.")
    watch = command_line("monitor-log", "EXPORT", served="LOG", taken="FILE", holdout_share=f"{plan.share:g}")
    say(f"when there is a log of `recprism serve`, watch it: {watch}")
