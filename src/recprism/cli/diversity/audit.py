"""recprism audit: the lists as they are, the cost of diversity, and who pays."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from recprism.cli import _options as options
from recprism.cli._changed import clusters_of_users
from recprism.cli._commands import Without, given
from recprism.cli._output import next_step, print_json, print_sentence, print_table, print_title, progress_of_steps, say
from recprism.cli._values import comma_words, metric_shares
from recprism.common.shares import percent, percent_interval, share

QUESTION = ("guard", "confidence", "approximate", "clusters")
"""Options that the next command repeats: its question is then that of the audit."""

if TYPE_CHECKING:
    from recprism.budget.audit import Audit
    from recprism.budget.path import PathPoint
    from recprism.budget.problem import Problem
    from recprism.budget.segments import SegmentTable
    from recprism.rule.goal import Goal
    from recprism.runs.run import Run


def audit(
    context: typer.Context,
    run_directory: options.TrainedRun,
    goal: Annotated[
        str | None,
        options.goal_option(
            "subtopic_coverage,ilad_subtopics,catalogue_coverage; without categories ilad,catalogue_coverage"
        ),
    ] = None,
    budgets: Annotated[
        str,
        typer.Option(
            help="Shares of NDCG@10 that may be lost, with commas between. All goals and budgets share the confidence."
        ),
    ] = "1%,5%",
    guard: options.Guards = None,
    confidence: options.Confidence = 0.95,
    approximate: options.Approximate = False,
    clusters: options.ClusterTable = None,
    form: Annotated[
        str | None,
        typer.Option(
            help="Audit lists that the rule is compiled into: dials, user-vectors or boosts. Each step is compiled for "
            "the users who judge it.",
            show_default="the lists of the rule",
        ),
    ] = None,
    show: Annotated[
        float,
        options.share_option(
            help="The budget for the tables of who pays, or the nearest certified one: 0.01 or 1%.",
            low=0.0001,
            high=0.5,
        ),
    ] = 0.01,
    executor: Annotated[options.ExecutorName, Without("form")] = "local",
    as_json: options.AsJson = False,
) -> None:
    """Show what more diversity would cost, and who would pay.

    Run this first: it trains nothing and changes no list. It describes the lists as they are. Then it shows what each
    step towards a goal costs in NDCG@10, and the part of that cost which held-out interactions certify.

    All certificates of an audit hold together, with one confidence. The more goals and budgets are asked for, the less
    each of them can certify. Name only those that matter with --goal and --budgets.

    Without held-out interactions the cost is unknown, and the audit says so. Several goals are written with commas
    between, as in sc,ilad. `recprism evaluate-lists` describes lists from a file.

    Examples:

    - `recprism audit runs/demo`
    - `recprism audit runs/demo --goal subtopic_coverage --budgets 2% --guard recall@20=2%`
    - `recprism audit runs/demo --form dials --goal subtopic_coverage --budgets 5%`
    - your own vectors: run `recprism import` first, then audit the run that it makes
    """
    from recprism.budget.audit import cost_of_diversity, default_goals
    from recprism.budget.question import BudgetQuestion
    from recprism.forms.form import compiled_form
    from recprism.parallel import executor_named
    from recprism.runs.parts.questions import keep_audit
    from recprism.runs.run import Run

    run = Run.open(run_directory)
    problem = run.problem()
    _say_what_is_taken_over(problem, clusters)
    if clusters is not None:
        problem = problem.with_clusters(clusters_of_users(clusters, run))
    if goal is None and not len(problem.categories):
        say("the items have no categories: the goals are ilad (distance of vectors) and catalogue_coverage")
    compiled = None if form is None else compiled_form(form)
    goals = default_goals(problem) if goal is None else [goal] if "=" in goal else comma_words([goal], "--goal")
    questions = BudgetQuestion.each(
        goals,
        [share(it, "--budgets", ends=False) for it in comma_words([budgets], "--budgets")],
        metric_shares(guard, "--guard", tested=True),
        confidence=confidence,
        method="t" if approximate else "betting",
        through=compiled,
    )
    with progress_of_steps() as on_step:
        found = cost_of_diversity(
            problem,
            questions,
            show=show,
            executor=executor_named(executor) if compiled is None else None,
            on_step=on_step,
        )
    note = keep_audit(problem, found)
    if as_json:
        about = {} if compiled is None else {"form": compiled.name, "new_users": compiled.new_users}
        print_json({"target": str(run_directory), **about, **found.to_dict(), "asked_before": note})
        return
    if compiled is not None:
        print_sentence(f"Each step below shows lists by {form}, compiled from its rule. The lists now are the model's.")
    print_cost(found, run_directory)
    if compiled is not None:
        print_sentence(compiled.new_users)
    if note is not None:
        print_sentence(note)
    if found.certified:
        also = {name: value for name, value in given(context).items() if name in QUESTION}
        export = None if form is None or also else _exported(run, found, form, show)
        makes = _within_budget(run, found, show, also) if export is None else [export]
        next_step(*makes, run.command("frontier", goal=str(questions[0].goal)))
    else:  # without labels there is neither a budget nor a front
        next_step(run.command("recommend"), run.command("report"))


def _say_what_is_taken_over(problem: Problem, clusters: Path | None) -> None:
    """Say what the audit takes from the run's result."""
    if problem.constraints:
        say(f"all lists keep the constraints of the run's result: {', '.join(problem.constraints.stated)}")
    if problem.history_window is not None:
        say(f"as in the run's result, only the latest {problem.history_window:,} interactions count as history")
    if problem.clusters is not None and clusters is None:
        say(f"as in the run's result, users are in {problem.clusters.max() + 1:,} clusters")


def _within_budget(run: Run, found: Audit, show: float, options: dict[str, Any]) -> Iterator[str]:
    """Yield the command that makes what the audit certified, of the first goal and at the budget shown if it can."""
    from recprism.studio.commands import diversify

    of = next((goal for goal, stops in found.stops.items() if any(it.certified for it in stops)), None)
    if of is not None:
        budgets = [it.budget for it in found.stops[of] if it.certified]
        named = run.config.diversify is not None
        yield diversify(run, run.within, of, show if show in budgets else budgets[0], named=named, **options)


def _exported(run: Run, found: Audit, form: str, show: float) -> str | None:
    """Return the command that exports a form within a certified budget; None if the run's rule has another goal."""
    own = run.within
    budgets = [it.budget for it in ([] if own is None else found.stops.get(own.question.goal, ())) if it.certified]
    nearest = min(budgets, key=lambda it: abs(it - show), default=None)
    return None if nearest is None else run.command("export", form=form, budget=nearest)


def print_cost(found: Audit, target: Path) -> None:
    """Print the lists as they are, then the paths."""
    judged = f", on the {found.judged_on} part" if found.certified else ""
    print_title(f"{target}: the lists now{judged}")
    rows = [(score.name, score.mean, score.low, score.high, score.popularity) for score in found.now.scores]
    columns = ("metric", "mean", "low", "high", "popularity")
    print_table(columns, rows, numeric=columns[1:])
    print_paths(found)


def print_paths(found: Audit) -> None:
    """Print what each point of a path costs and gains, who pays at one of them, and the same in words."""
    for goal, path in found.paths.items():
        names = tuple(path.base.values)
        certified = found.certified_for(goal)
        judged = _parts(path.part, found.decided_on(goal)) + _mark(certified)
        print_title(f"\ntowards {goal}: change in percent at each point of the path{judged}")
        lines = [
            (
                f"{point.trade_off:g}",
                *(percent(path.change(point, name), "+.1f", "") for name in names),
                _budget(certified, point),
            )
            for point in _shown_points(found, goal)
        ]
        print_table(("trade-off", *names, "certified for"), lines, numeric=("trade-off", *names, "certified for"))
    for title, table in (
        (f"who pays (NDCG@10, {found.judged_on} part)", found.payers),
        ("who is shown (share of places)", found.exposure),
    ):
        if table is not None:
            print_title(f"\n{title}, at {found.shown_for}:")
            _print_segments(table)
    print_sentence("")
    for words in found.sentences():
        print_sentence(words)


def _shown_points(found: Audit, goal: Goal) -> list[PathPoint]:
    """Return every fourth point of a path, and the last one that each budget reaches."""
    from recprism.budget.audit import some_steps

    reached = [it.certificate.last for it in found.stops[goal] if it.certificate.last is not None]
    kept = some_steps(goal.steps, reached or [-1])
    return [it for it in found.paths[goal].points if it.trade_off in kept]


def _parts(judged_on: str, decided_on: str | None) -> str:
    return "" if decided_on in (None, judged_on) else f", on the {judged_on} part; certified on the {decided_on} part"


def _mark(certified: dict[float, float]) -> str:
    return "" if certified else " (no budget is certified to reach any of them)"


def _budget(certified: dict[float, float], point: Any) -> str:
    return f"{100 * certified[point.trade_off]:g} %" if point.trade_off in certified else ""


def _print_segments(table: SegmentTable) -> None:
    rows = [
        (
            row.segment,
            getattr(row, "users", None) or getattr(row, "items", None),
            row.before,
            row.after,
            percent(row.relative, "+.1f", ""),
            percent_interval(row.low, row.high),
        )
        for row in table.rows
    ]
    columns = ("segment", "n", "before", "after", "change", f"{100 * (table.confidence or 0):g} % interval")
    print_table(columns, rows, numeric=columns[1:])
