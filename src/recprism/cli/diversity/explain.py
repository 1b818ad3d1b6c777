"""recprism explain: what changed in the lists, why, and the controls."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING, Annotated, Any

import typer

from recprism.cli._options import AsJson, DiversifiedRun, Draws, OwnGoal, Part, ResultName, Seed
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
from recprism.data.shares import percent

if TYPE_CHECKING:
    from recprism.explain.factors.explanation import Explanation
    from recprism.explain.factors.views import ItemView, UserView
    from recprism.runs.run import Run

BAR = 20


def explain(
    run_directory: DiversifiedRun,
    user: Annotated[str | None, typer.Option(help="Explain one user's list, swap by swap.", show_default=False)] = None,
    item: Annotated[
        str | None, typer.Option(help="Explain one item: how it moved, and into how many lists.", show_default=False)
    ] = None,
    goal: OwnGoal = None,
    axes: Annotated[
        str | None,
        typer.Option(
            help="Axes of the factors: raw (as trained), svd, varimax or subtopics. Lists are the same on all.",
            show_default="svd; raw for named features",
        ),
    ] = None,
    top: Annotated[int, typer.Option(help="How many factors and directions to show.", min=1)] = 5,
    draws: Draws = 199,
    part: Part = "test",
    seed: Seed = 0,
    name: ResultName = None,
    as_json: AsJson = False,
) -> None:
    """Explain what changed in the lists, and test the explanation.

    First the command shows how much of the change is plain promotion of some items. Then it compares the change with
    its own values shuffled and with the best promotion of items. It names factors only if the change beats both.

    Directions are the axes of the change; factors are the axes of the model. The value of each is the gain that is
    lost when it alone is erased. The goal is any metric, with or without a cut, as in sc@20.

    Examples:

    - `recprism explain runs/x`
    - `recprism explain runs/x --user 17`
    - `recprism explain runs/x --goal catalogue_coverage --axes varimax`
    """
    from recprism.runs.jobs.explain import explain_run
    from recprism.runs.jobs.train import part_named
    from recprism.runs.run import Run

    single = user is not None or item is not None
    run = Run.open(run_directory, name)
    path = None
    with run.unchanged() as saving:
        with progress_of_steps() as on_step:
            found = explain_run(
                run,
                goal,
                axes=axes,
                top=top,
                draws=0 if single else draws,
                part=part_named(part),
                seed=seed,
                on_step=on_step,
            )
        if not single:
            with if_storable(), saving():
                path = run.save_explanation({**found.explanation.to_dict(), "part": part, **found.kept})
    if single:
        view = _view(found, user, item, top)
        checked = _on_file(run, found.explanation, part)
        if as_json:
            print_json({"run": str(run_directory), "checked": checked, **view.to_dict()})
        else:
            print_title(f"{run.argument}: what changed for {f'user {user}' if item is None else f'item {item}'}")
            _print_view(view, checked, run.argument)
        return
    if as_json:
        print_json({"run": str(run_directory), "part": part, **found.explanation.to_dict()})
        return
    print_title(f"{run.argument}: what changed in {found.explanation.objective}, on the {part} part")
    _print(found.explanation)
    if path is not None:
        say(f"kept in {path}")
    first = shlex.quote(str(found.explanation.change.base.user_ids[0]))
    next_step(f"recprism explain {run.argument} --user {first}", f"recprism erase {run.argument}")


def _view(found: Any, user: str | None, item: str | None, top: int) -> UserView | ItemView:
    from recprism.explain.factors.views import view_item, view_user

    if user is not None:
        return view_user(found.explanation, found.evaluator, user, top)
    return view_item(found.explanation, item, top)


def _on_file(run: Run, explanation: Explanation, part: str) -> str:
    """The stored verdict of the controls, if it answers the same question; single views do not run controls."""
    kept = run.explanation()
    asked = (explanation.objective, explanation.axes, part)
    if kept is None or kept["verdict"] is None or (kept["objective"], kept["axes"], kept["part"]) != asked:
        return f"Not checked against controls yet: run `recprism explain {run.argument}`. What follows is arithmetic."
    return str(kept["verdict"]["sentence"])


def _print(explanation: Explanation) -> None:
    """Print the findings in words, then the figures; explanation.json and the report hold a sentence for each row."""
    from recprism.explain.factors import _sentences as sentences

    for line in sentences.found(explanation):
        print_sentence(line)
    rows = [
        (
            name,
            explanation.base[name],
            explanation.after[name],
            *map(_in_percent, (row.relative, row.bias_share, row.rest_share)),
        )
        for name, row in ((name, explanation.parts[name]) for name in explanation.base)
    ]
    columns = ("metric", "before", "after", "change", "promotion alone", "the rest alone")
    print_table(columns, rows, numeric=columns[1:])
    if explanation.controls is not None:
        _print_controls(explanation)
    for title, rows_of in (("direction", explanation.directions), ("factor", explanation.factors)):
        _print_rows(explanation, title, rows_of)
    _print_ends(explanation)
    for line in sentences.summary(explanation):
        print_sentence(line)


def _print_controls(explanation: Explanation) -> None:
    assert explanation.controls is not None
    rows = [(row["control"], row["objective"], row["cost"], row["p_value"]) for row in explanation.controls.rows()]
    print_table(("", explanation.objective, explanation.cost, "p"), rows, numeric=(explanation.objective, "p"))


def _print_rows(explanation: Explanation, title: str, rows: Any) -> None:
    largest = max((row.size for row in rows), default=0.0)
    table = [
        (
            row.label if not row.side or len(explanation.change.sides) == 1 else f"{row.label} ({row.side})",
            "█" * round(BAR * row.size / largest) if largest else "",
            row.words,
            row.raised,
            row.lowered,
            _in_percent(explanation.taken_back(row.erased)),
        )
        for row in rows
    ]
    gain = f"takes back of {explanation.objective}"
    print_table((title, "size", "name", "raised", "lowered", gain), table, numeric=("raised", "lowered", gain))


def _print_ends(explanation: Explanation) -> None:
    """Print the users that each direction concerns most, and the items that it raises and lowers for them."""
    ends = [(row.label, explanation.ends(row.number, 3)) for row in explanation.directions]
    rows = [(label, *(", ".join(map(str, end[name])) for name in ("users", "raises", "lowers"))) for label, end in ends]
    print_table(("direction", "users it concerns most", "raises", "lowers"), rows)


def _print_view(view: UserView | ItemView, checked: str, argument: str) -> None:
    from recprism.explain.factors.views import UserView

    if isinstance(view, UserView):
        _print_swaps(view)
    else:
        print_sentence(f"{view.title}: came into {view.entered:,} lists, and left {view.left:,}.")
        print_sentence(f"Its score changed by {view.promotion:+.4f} on average over all users.")
    if view.factors:
        print_table(("factor", "moved by"), view.factors, numeric=("moved by",))
    print_table(("direction", "name", "times the usual"), view.directions, numeric=("times the usual",))
    print_sentence(checked)
    next_step(f"recprism explain {argument}")


def _print_swaps(view: UserView) -> None:
    def parts(swap: Any) -> str:
        return ", ".join(f"{part.label} {part.amount:+.3f}" for part in swap.parts)

    metrics = [name for name in (view.swaps[0].effects if view.swaps else ()) if not name.startswith("recall")]
    rows = [
        (
            *(f"{swap.came} ({swap.rank_in})", f"{swap.went} ({swap.rank_out})", f"{swap.rise:+.3f}"),
            *(f"{swap.promotion:+.3f}", parts(swap)),
            *(f"{swap.effects[name]:+.3f}" for name in metrics),
        )
        for swap in view.swaps
    ]
    columns = ("came (rank)", "went (rank)", "rise", "promotion", "largest parts", *metrics)
    print_table(columns, rows, numeric=("rise", "promotion", *metrics))
    if not rows:
        print_sentence("Nothing came into this user's list, and nothing went out.")


def _in_percent(share: float | None) -> str:
    return percent(share, "+z.0f", "%")
