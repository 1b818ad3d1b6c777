"""recprism diversify: more diverse lists within a certified budget."""

from __future__ import annotations

from typing import Annotated

import typer

from recprism.cli import _options as options
from recprism.cli._changed import clusters_of_users, print_diversified, result_to_make
from recprism.cli._output import progress_of_steps, say
from recprism.cli._values import comma_words, counts_by_name, limits, mlflow_sink, numbered_values, shares_by_name
from recprism.errors import InputError

CONSTRAINTS = "Constraints on every list"
Words = list[str] | None


def constraint(metavar: str, help: str) -> typer.models.OptionInfo:
    """Declare a constraint that may be given several times."""
    found: typer.models.OptionInfo = typer.Option(metavar=metavar, help=help, rich_help_panel=CONSTRAINTS)
    return found


def diversify(
    run_directory: options.TrainedRun,
    budget: Annotated[
        float | None,
        options.share_option(
            help="The largest share of NDCG@10 that may be lost: 0.05 or 5%. Required.", low=0.0001, high=0.5
        ),
    ] = None,
    goal: Annotated[str, options.goal_option()] = "subtopic_coverage",
    guard: options.Guards = None,
    confidence: options.Confidence = 0.95,
    approximate: options.Approximate = False,
    clusters: options.ClusterTable = None,
    certify_on: Annotated[str | None, options.certify_option()] = None,
    history_window: Annotated[
        int | None,
        typer.Option(
            metavar="N",
            help="Only a user's latest N interactions count as history, here and when the rule is served.",
            min=1,
            show_default="all",
        ),
    ] = None,
    ban: Annotated[Words, constraint("ITEMS", "Item ids that never appear, with commas between or repeated.")] = None,
    pin: Annotated[
        Words, constraint("PLACE=ITEM", "An item in a fixed place of all lists; 1 is the top. Repeatable.")
    ] = None,
    min_share: Annotated[Words, constraint("CATEGORY=SHARE", "The least share of a category. Repeatable.")] = None,
    max_share: Annotated[Words, constraint("CATEGORY=SHARE", "The largest share of a category. Repeatable.")] = None,
    max_items: Annotated[
        Words,
        constraint(
            "FIELD=NUMBER",
            "The most items of a list with one value of a field: a column of the item table, or category. Repeatable.",
        ),
    ] = None,
    spacing: Annotated[
        Words,
        constraint(
            "FIELD=PLACES",
            "So many places in a row have a value of a field at most once; 2 keeps neighbours apart. Repeatable.",
        ),
    ] = None,
    tail_floor: Annotated[
        float, options.share_option(help="The least share of tail items among all places.", panel=CONSTRAINTS)
    ] = 0.0,
    per_user_diversity: Annotated[
        bool,
        typer.Option(
            "--per-user-diversity",
            help="More diversity for users whose own history is diverse.",
            rich_help_panel=CONSTRAINTS,
        ),
    ] = False,
    allow_violations: Annotated[
        bool,
        typer.Option(
            "--allow-violations",
            help="Keep the result even if some lists cannot keep a constraint; banned items never appear.",
            rich_help_panel=CONSTRAINTS,
        ),
    ] = False,
    metrics: options.Metrics = None,
    name: options.NewName = None,
    overwrite: options.OverwriteResult = False,
    mlflow: options.Mlflow = None,
    as_json: options.AsJson = False,
) -> None:
    """Make the lists more diverse within a certified budget.

    The command finds the rule with the most diverse lists whose loss of NDCG@10 stays within the budget. Held-out
    interactions certify the loss. The table also shows a control, the same rule on shuffled categories, and what the
    most popular items reach.

    The result is the rule that makes the lists. `recprism recommend` shows its live lists, `recprism explain` gives the
    reason of every item, and `recprism export` writes the rule, or what it is compiled into, for your own stack.

    Constraints belong to the result: all its lists keep them, whatever their length, and so do the base lists that the
    loss is measured against. If nothing is certified, or a constraint cannot be kept, the run stays as it is and the
    exit code is 1.

    The paper's bandit has no budget: run it with `recprism search`.

    Examples:

    - `recprism diversify runs/x --budget 5%`
    - `recprism diversify runs/x --budget 1% --goal ilad --guard recall@20=2%`
    - `recprism diversify runs/x --budget 5% --max-share Drama=40% --ban 318`
    - `recprism diversify runs/x --budget 2% --name cautious`
    """
    from recprism.rule.goal import Goal
    from recprism.runs.config import BudgetConfig, ConstraintsConfig
    from recprism.runs.jobs.diversify import diversify_within
    from recprism.runs.jobs.train import metric_names, part_named, require_measurable
    from recprism.runs.sinks import followed

    if budget is None:
        raise InputError(
            "--budget is missing: name the share of NDCG@10 that may be lost, as in --budget 5%; "
            f"`recprism search {run_directory}` searches without a budget"
        )
    names = metric_names(metrics)
    pins = numbered_values(pin, "--pin", "PLACE=ITEM with 1 for the top place, as in 1=318", least=1)
    asked = BudgetConfig(
        goal=str(Goal.parse(goal)),
        budgets=limits(budget, "--budget", guard, "--guard", tested=True),
        confidence=confidence,
        method="t" if approximate else "betting",
        certify_on=None if certify_on is None else part_named(certify_on),
        history_window=history_window,
        constraints=ConstraintsConfig(
            banned=list(comma_words(ban or [], "--ban")),
            pinned={str(place): item for place, item in pins.items()},
            min_share=shares_by_name(min_share, "--min-share"),
            max_share=shares_by_name(max_share, "--max-share"),
            max_items=counts_by_name(max_items, "--max-items"),
            spacing=counts_by_name(spacing, "--spacing"),
            tail_floor=tail_floor,
            per_user_diversity=per_user_diversity,
            allow_violations=allow_violations,
        ),
    )
    run, sink = result_to_make(run_directory, name, overwrite), mlflow_sink(mlflow)
    require_measurable(run, names)
    together = clusters_of_users(clusters, run)
    with followed(run, sink):
        say("walking to more diverse lists, each tested, until the budget is used up")
        with progress_of_steps() as on_step:
            kept = diversify_within(run, asked, clusters=together, overwrite=overwrite, on_step=on_step)
        print_diversified(run, kept, kept.to_dict(), names, as_json)
