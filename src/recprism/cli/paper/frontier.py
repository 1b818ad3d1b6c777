"""recprism frontier: what every method gains at every budget, on one run."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from recprism.cli._options import AsJson, ExecutorName, TrainedRun, goal_option
from recprism.cli._output import (
    next_step,
    print_json,
    print_sentence,
    print_table,
    print_title,
    progress_bar,
)
from recprism.cli._values import comma_words
from recprism.errors import InputError

if TYPE_CHECKING:
    from recprism.paper.fronts import FrontPoint


def frontier(
    run_directory: TrainedRun,
    goal: Annotated[str, goal_option()] = "subtopic_coverage",
    rivals: Annotated[
        str | None,
        typer.Option(metavar="NAMES", help="Re-rankers with commas between.", show_default="all that are installed"),
    ] = None,
    executor: ExecutorName = "local",
    as_json: AsJson = False,
) -> None:
    """Compare what each method gains at each budget, on one run.

    Every method is tuned alike on the validation part, and the test part is read once. Hypervolume is the area under
    a method's points up to a loss of 10 %. The p-values compare each method with ours, user by user.

    Examples:

    - `recprism frontier runs/x --goal subtopic_coverage`
    - `recprism frontier runs/x --goal catalogue_coverage --rivals mmr,exposure`
    """
    from recprism.budget.path import check_goal
    from recprism.paper.fronts import BUDGETS
    from recprism.paper.fronts import frontier as fronts_of
    from recprism.paper.methods import GREEDY, RIVALS, possible_rivals
    from recprism.parallel import executor_named
    from recprism.runs.config import ConstraintsConfig
    from recprism.runs.run import Run
    from recprism.runs.scenario import scenario_of

    goal = check_goal(goal)
    run = Run.open(run_directory)
    subtopics = run.subtopics()
    chosen = possible_rivals(subtopics) if rivals is None else tuple(comma_words([rivals], "--rivals"))
    for name in chosen:
        if name not in (GREEDY, *RIVALS):
            raise InputError(f"unknown rival {name!r}; there are {', '.join((GREEDY, *RIVALS))}")
    free = ConstraintsConfig()  # rivals do not keep the constraints of a result
    validation, test = (scenario_of(run, part, constraints=free) for part in ("validation", "test"))
    with progress_bar() as progress:
        task = progress.add_task("tuning", total=len(chosen) + 1, note="")
        fronts = fronts_of(
            validation,
            test,
            goal,
            rivals=chosen,
            on_method=lambda name: progress.update(task, advance=1, note=name),
            executor=executor_named(executor),
        )
    if as_json:
        print_json({"run": str(run.path), "goal": goal, "fronts": [front.to_dict() for front in fronts]})
        return
    popular = fronts[-1].points[0]
    gini = "" if popular.gini is None else ", and of gini@10,"
    print_title(
        f"{run.path}: gain in {goal}@10, in percent (change of NDCG@10{gini} behind it), for a budget kept on "
        "validation; read on the test"
    )
    columns = ("method", *(f"{100 * budget:g} %" for budget in BUDGETS), "hypervolume")
    rows = []
    for front in fronts:
        found = {point.budget: _shown(point) for point in front.points}
        rows.append((front.method, *(found.get(budget, "-") for budget in BUDGETS), f"{front.hypervolume:.1f}"))
    print_table(columns, rows, numeric=columns[1:])
    print_sentence(f"popularity keeps none of these budgets: {_shown(popular)}")
    next_step(f"recprism diversify {run.path} --budget 0.01 --goal {goal}")


def _shown(point: FrontPoint) -> str:
    """Return a gain, and in brackets the change of NDCG@10, and of Gini where the goal is catalogue coverage."""
    gini = "" if point.gini is None else f", Gini {100 * point.gini:+.1f}"
    return f"{100 * point.gain:+.1f} ({-100 * point.loss:+.1f}{gini})"
