"""recprism explain: what the rule does over all users, and a choice model that tests it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from recprism.cli import _options as options
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
from recprism.common.shares import percent

if TYPE_CHECKING:
    from recprism.explain.accounting import RuleSummary
    from recprism.explain.boost_reasons import BoostReason
    from recprism.explain.choice.model import ChoiceModel

MOST_BOOSTS = 20


def explain(
    run_directory: options.DiversifiedRun,
    draws: options.Draws = 199,
    part: options.Part = "test",
    seed: options.Seed = 0,
    name: options.ResultName = None,
    as_json: options.AsJson = False,
) -> None:
    """Explain why the lists are as they are, and test the explanation.

    The lists of `recprism diversify` follow a rule: relevance, plus a price for what the list lacks. The command shows
    what the rule does over all users. A choice model then tests whether categories explain the choice on users that it
    was not fitted on, next to the same model with shuffled categories.

    `recprism why` gives the reason of every item of one list. `recprism explain-lists` explains the lists of any other
    method.

    Examples:

    - `recprism explain runs/x`
    - `recprism explain runs/x --part validation --draws 99 --json`
    """
    from recprism.runs.jobs.train import part_named
    from recprism.runs.run import Run

    run, path = Run.open(run_directory, name), None
    asked = {"part": part_named(part), "draws": draws, "seed": seed}
    with run.unchanged() as saving:
        with progress_of_steps() as on_step:
            found = run.load_result(part_named(part)).explain(draws=draws, seed=seed, on_step=on_step)
        with if_storable(), saving():
            path = run.save_explanation(found.to_keep(asked))
    if as_json:
        print_json({"run": str(run.path), "part": part, **found.to_dict()})
        return
    print_title(f"{run.argument}: why the lists are as they are ({options.lists_in(True, part)})")
    for sentence in found.sentences():
        print_sentence(sentence)
    if found.rule_summary is not None:
        _print_summary(found.rule_summary)
    if found.boosts:
        _print_boosts(found.boosts)
    if found.choice_model is not None:
        print_coefficients(found.choice_model)
    if path is not None:
        say(f"kept in {path}")
    if found.rule is None:
        next_step(run.command("erase", part=part_option(part)))
    elif not found.boosts:
        next_step(run.command("why", user=run.split().user_ids[0]))


def _print_boosts(boosts: Sequence[BoostReason]) -> None:
    """Print the items with the largest boosts; --json has all."""
    rows = [
        (it.item, it.shown_before, it.shown_now, percent(it.range_share, ".1f", "%")) for it in boosts[:MOST_BOOSTS]
    ]
    columns = ("boosted item", "lists before", "lists now", "share of the candidates' score range")
    print_table(columns, rows, numeric=columns[1:])


def _print_summary(summary: RuleSummary) -> None:
    prices = summary.prices
    goals = tuple(summary.rule.goals)
    columns = (
        "trade-off",
        *(f"{goal} gained" for goal in goals),
        "relevance",
        "users with other items",
        "new items a list",
    )
    rows = [
        (
            f"{row.trade_off:g}",
            *(f"{row.gains[goal]:+.4f}" for goal in goals),
            f"{row.relevance_change:+.4f}",
            percent(row.users_changed, ".0f", "%"),
            f"{row.swaps:.2f}",
        )
        for row in prices
    ]
    print_table(columns, rows, numeric=columns)
    columns = ("category", "of candidates", "base lists with it", "lists with it", *(f"gain of {it}" for it in goals))
    table = [
        (
            row.category,
            *(percent(it, ".0f", "%") for it in (row.candidates, row.base_lists, row.lists[-1])),
            *(f"{row.gain[goal][-1]:+.4f}" for goal in goals),
        )
        for row in summary.categories
    ]
    print_table(columns, table, numeric=columns[1:])
    by_scores = [it.name for it in summary.rule.goal.terms if it.search is not None and it.search.by_relevance]
    if by_scores:
        print_sentence(f"Gains of {by_scores[0]} are counted by scores, as the rule counts them, and not by labels.")


def print_coefficients(model: ChoiceModel) -> None:
    """Print what each feature adds to the chance of an item."""
    columns = ("choice model", "standardised", "standard error", "worth in score")
    rows = [
        (it.feature, f"{it.standardised:+.2f}", f"{it.error:.2f}", percent(it.worth, "+.1f", "%"))
        for it in model.coefficients
    ]
    print_table(columns, rows, numeric=columns[1:])
