"""recprism audit: what lists are like now, what diversity would cost, and who would pay."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from recprism.cli._options import (
    LIST_COLUMNS,
    ColumnMap,
    ItemTable,
    SubtopicColumn,
    SubtopicLevel,
    SubtopicSeparator,
    SubtopicTable,
    category_columns,
    column_map,
    comma_words,
    metric_shares,
    refuse_given,
    share_option,
)
from recprism.cli._output import (
    AsJson,
    Engine,
    next_step,
    print_json,
    print_sentence,
    print_table,
    print_title,
    progress_of_steps,
    say,
    say_categories,
)

if TYPE_CHECKING:
    from recprism.budget.audit import Audit
    from recprism.budget.segments import SegmentTable

Guards = Annotated[
    list[str] | None,
    typer.Option(
        "--guard", help="A further metric and the share of it that may be lost: recall@20=2%.", show_default=False
    ),
]


def audit(
    target: Annotated[
        Path, typer.Argument(help="A run directory, or a file of lists: user_id,item_id,rank.", show_default=False)
    ],
    train: Annotated[Path | None, typer.Option(help="user_id,item_id that were known before.")] = None,
    held_out: Annotated[Path | None, typer.Option(help="user_id,item_id that users really took; they certify.")] = None,
    subtopics: SubtopicTable = None,
    items: ItemTable = None,
    subtopic_column: SubtopicColumn = None,
    subtopic_separator: SubtopicSeparator = None,
    subtopic_level: SubtopicLevel = None,
    columns: ColumnMap = None,
    goal: Annotated[
        str | None,
        typer.Option(
            help="Goals to walk towards, with commas between: subtopic_coverage, alpha_ndcg, ilad_subtopics, ilad, "
            "catalogue_coverage.",
            show_default="subtopic_coverage,ilad_subtopics,catalogue_coverage; without categories ilad,"
            "catalogue_coverage",
        ),
    ] = None,
    guard: Guards = None,
    confidence: Annotated[float, share_option(help="Of the certificates.", low=0.5, high=0.9999)] = 0.95,
    show: Annotated[
        float, share_option(help="The budget at which to show who pays: 0.01 or 1%.", low=0.0001, high=0.5)
    ] = 0.01,
    engine: Engine = "local",
    as_json: AsJson = False,
) -> None:
    """The first thing to run on a recommender: nothing is trained, nothing is changed.

    Shows what the lists are like now; what each point of diversity would cost in NDCG@10, and how much of that is
    certified on held-out interactions; and who would pay. Without held-out interactions the cost is not known and the
    audit says so; lists alone are only described.

    Examples:

    - `recprism audit runs/demo`
    - `recprism audit runs/demo --goal subtopic_coverage --guard recall@20=2%`
    - `recprism audit lists.csv --items movies.csv --subtopic-column genres`
    - your own vectors: `recprism import --user-vectors u.npy --item-vectors i.npy ... -o runs/mine`, then audit that
    """
    from recprism.budget.audit import cost_of_diversity, default_goals
    from recprism.runs.jobs.list_files import SideFiles
    from recprism.runs.jobs.train import scenario_of
    from recprism.runs.run import Run

    categories = category_columns(subtopic_column, subtopic_separator, subtopic_level)
    beside = SideFiles(held_out, train, subtopics, items, categories, columns=column_map(columns, LIST_COLUMNS))
    if target.is_file():
        _describe(target, beside, as_json)
        return
    files = {"--held-out": held_out, "--train": train, "--subtopics": subtopics, "--items": items}
    refuse_given(
        {**files, "--subtopic-column": subtopic_column, "--column": columns},
        "is for a file of lists, and this is a run",
    )
    scenario = scenario_of(Run.open(target))
    if goal is None and not len(scenario.subtopics):
        say("the items have no categories: the goals are ilad (distance of vectors) and catalogue_coverage")
    goals = default_goals(scenario.subtopics) if goal is None else comma_words([goal])
    guards = metric_shares(guard, "--guard")
    with progress_of_steps() as on_step:
        found = cost_of_diversity(
            scenario, goals, guards=guards, confidence=confidence, show=show, engine=engine, on_step=on_step
        )
    if as_json:
        print_json({"target": str(target), **found.to_dict()})
        return
    print_cost(found, target)
    if found.certified:
        next_step(f"recprism diversify {target} --budget {show:g} --goal {goals[0]}", f"recprism frontier {target}")
    else:  # neither a budget nor a front without labels
        next_step(f"recprism recommend {target}", f"recprism report {target}")


def _describe(path: Path, beside: Any, as_json: bool) -> None:
    """Lists alone: no scores, so no path; only what they are like."""
    from recprism.cli.model.evaluate import print_evaluation
    from recprism.runs.jobs.list_files import audit_lists

    found = audit_lists(path, beside, None)
    if found.categories is not None:
        say_categories(found.categories)
    notes = (*found.notes, "lists alone are described; audit a run to see what diversity would cost")
    print_evaluation(found.evaluation, notes, as_json, about=str(path))


def print_cost(found: Audit, target: Path | None) -> None:
    """What is now, then the paths."""
    judged = f", on the {next(iter(found.paths.values())).part} part" if found.certified else ""
    print_title(f"{target or 'these vectors'}: the lists now{judged}")
    rows = [(score.name, score.mean, score.low, score.high, score.popularity) for score in found.now.scores]
    columns = ("metric", "mean", "low", "high", "popularity")
    print_table(columns, rows, numeric=columns[1:])
    print_paths(found)


def print_paths(found: Audit) -> None:
    """What each point of a path costs and brings, who pays at one of them, and the same in words."""
    from recprism.budget.audit import sentences

    for goal, path in found.paths.items():
        names = tuple(path.base.values)
        certified = {reach.certified.trade_off: reach.budget for reach in found.stops[goal][::-1] if reach.certified}
        judged = _parts(path.part, found.decided_on(goal)) + _mark(certified)
        print_title(f"\ntowards {goal}: change in percent at each point of the path{judged}")
        lines = [
            (f"{point.trade_off:g}", *(_percent(path.change(point, name)) for name in names), _budget(certified, point))
            for point in path.points
        ]
        print_table(("trade-off", *names, "certified for"), lines, numeric=("trade-off", *names, "certified for"))
    for title, table in (("who pays (NDCG@10)", found.payers), ("who is shown (share of places)", found.exposure)):
        if table is not None:
            print_title(f"\n{title}, at the point for the budget shown:")
            _print_segments(table)
    print_sentence("")
    for words in sentences(found):
        print_sentence(words)


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
            _percent(row.relative),
        )
        for row in table.rows
    ]
    columns = ("segment", "n", "before", "after", "change")
    print_table(columns, rows, numeric=columns[1:])


def _percent(share: float | None) -> str:
    return "" if share is None else f"{100 * share:+.1f}"
