"""recprism frontier: what every method gains at every budget, on one run."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from recprism.cli import _options as options
from recprism.cli._output import next_step, print_json, print_sentence, print_table, print_title, progress_bar
from recprism.cli._values import comma_words
from recprism.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from recprism.contest.fronts import Front, FrontPoint


def frontier(
    run_directory: options.TrainedRun,
    goal: Annotated[str, options.goal_option()] = "subtopic_coverage",
    rivals: Annotated[
        str | None,
        typer.Option(metavar="NAMES", help="Re-rankers with commas between.", show_default="all that are installed"),
    ] = None,
    executor: options.ExecutorName = "local",
    as_json: options.AsJson = False,
) -> None:
    """Compare what each method gains at each budget, on one run.

    Every method is tuned alike on the validation part, and the test part is read once. The tuning counts as a question
    that the validation labels answered without a certificate. Hypervolume is the area under
    a method's points up to a loss of 10 %. The winner for each budget is named, next to ours. The p-values compare each
    method with ours, user by user.

    Examples:

    - `recprism frontier runs/x --goal subtopic_coverage`
    - `recprism frontier runs/x --goal catalogue_coverage --rivals mmr,exposure`
    """
    from recprism.budget.audit import COST
    from recprism.budget.question import BudgetQuestion
    from recprism.contest.fronts import BUDGETS, winner
    from recprism.contest.fronts import frontier as fronts_of
    from recprism.contest.methods import GREEDY, RIVALS, possible_rivals
    from recprism.parallel import executor_named
    from recprism.rule.goal import Goal
    from recprism.runs.config import ConstraintsConfig
    from recprism.runs.parts.questions import note_question
    from recprism.runs.run import Run

    wanted = Goal.parse(goal)
    run = Run.open(run_directory)
    categories = run.categories()
    chosen = possible_rivals(categories) if rivals is None else tuple(comma_words([rivals], "--rivals"))
    for name in chosen:
        if name not in (GREEDY, *RIVALS):
            raise InputError(f"unknown rival {name!r}; there are {', '.join((GREEDY, *RIVALS))}")
    free = ConstraintsConfig()  # rivals do not keep the constraints of a result
    validation, test = (run.problem(part, constraints=free) for part in ("validation", "test"))
    with progress_bar() as progress:
        task = progress.add_task("tuning", total=len(chosen) + 1, note="")
        fronts = fronts_of(
            validation,
            test,
            wanted,
            rivals=chosen,
            on_method=lambda name: progress.update(task, advance=1, note=name),
            executor=executor_named(executor),
        )
    question = BudgetQuestion(wanted, {COST: max(BUDGETS)}, part="validation")
    before = note_question(run, validation, question, tested=False, methods=sorted(chosen))
    if as_json:
        best = {f"{budget:g}": None if (it := winner(fronts, budget)) is None else it.method for budget in BUDGETS}
        print_json(
            {
                "run": str(run.path),
                "goal": str(wanted),
                "fronts": [it.to_dict() for it in fronts],
                "winners": best,
                "asked_before": before,
            }
        )
        return
    _print_fronts(str(run.path), wanted.metrics(test.k)[0], fronts, BUDGETS)
    if before is not None:
        print_sentence(before)
    next_step(run.command("audit", goal=str(wanted)))


def _print_fronts(run: str, metric: str, fronts: Sequence[Front], budgets: Sequence[float]) -> None:
    """Print one row per method, the winner for each budget, and the popularity baseline."""
    from recprism.contest.fronts import winner

    *tuned, popular = fronts
    gini = "" if popular.points[0].gini is None else ", then of gini@10"
    print_title(
        f"{run}: gain in {metric}, in percent of the base lists' value on the test part (in brackets the change of "
        f"ndcg@10{gini}, in percent of its base value), for a budget kept on validation"
    )
    best = {budget: winner(tuned, budget) for budget in budgets}
    columns = ("", "method", *(f"within {100 * budget:g} %" for budget in budgets), "hypervolume")
    rows = [
        (
            "ours" if front.is_ours else "",
            front.method,
            *(_cell(front.at(budget), is_best=front is best[budget]) for budget in budgets),
            f"{front.hypervolume:.1f}",
        )
        for front in tuned
    ]
    print_table(columns, rows, numeric=columns[2:])
    print_sentence(
        "*: the winner, the largest gain that keeps the budget on the test part; !: loses more than the budget there"
    )
    for budget in budgets:
        print_sentence(_named(tuned, best[budget], budget))
    lost = popular.points[0].loss
    which = ", which keeps none of these budgets" if all(lost > budget for budget in budgets) else ""
    print_sentence(f"popularity{which}: {_cell(popular.points[0])}")


def _named(fronts: Sequence[Front], best: Front | None, budget: float) -> str:
    """Name the winner for one budget, and the method to compare it with: ours, or the next one where ours wins."""
    from recprism.contest.fronts import winner

    lead, point = f"Within {100 * budget:g} %:", None if best is None else best.at(budget)
    if best is None or point is None:
        return f"{lead} no method has a setting that kept the budget on validation."
    over = "" if point.keeps_budget else ", but no method keeps the budget on the test part"
    other = winner([front for front in fronts if front is not best], budget) if best.is_ours else fronts[0]
    second = None if other is None else other.at(budget)
    if other is None or second is None:
        return f"{lead} {best.method} gains most, {_signed(100 * point.gain)} %{over}."
    tested = second.p_value if best.is_ours else point.p_value
    chance = "" if tested is None else f" (difference: p {'< 0.0001' if tested < 1e-4 else f'= {tested:.4f}'})"
    gain, second_gain = (f"{_signed(100 * it.gain)} %" for it in (point, second))
    if point.keeps_budget and not second.keeps_budget:
        rest = "no other method keeps the budget" if best.is_ours else f"ours gains {second_gain}"
        aside = "" if best.is_ours else ", but loses more than the budget"
        return f"{lead} {best.method} gains most, {gain}; {rest}{aside}."
    who = f"next is {other.method} with" if best.is_ours else "ours gains"
    return f"{lead} {best.method} gains most, {gain}; {who} {second_gain}{chance}{over}."


def _cell(point: FrontPoint | None, *, is_best: bool = False) -> str:
    """Return a gain, and in brackets the change of NDCG@10, and of Gini where the goal is catalogue coverage."""
    if point is None:
        return "none"
    gini = "" if point.gini is None else f", Gini {_signed(100 * point.gini)}"
    over = "" if point.budget is None or point.keeps_budget else "!"
    return f"{_signed(100 * point.gain)} ({_signed(-100 * point.loss)}{gini}){over}{'*' if is_best else ''}"


def _signed(percent: float) -> str:
    """Return a change with its sign; what rounds to nothing has none.

    >>> _signed(3.14), _signed(-0.1), _signed(-0.04)
    ('+3.1', '-0.1', '0.0')
    """
    shown = f"{percent:+.1f}"
    return "0.0" if shown in ("+0.0", "-0.0") else shown
