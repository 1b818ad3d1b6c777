"""recprism explain: what changed, what it did, and how one knows."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from recprism.cli._options import ResultName
from recprism.cli._output import (
    AsJson,
    Seed,
    next_step,
    print_json,
    print_sentence,
    print_table,
    print_title,
    progress_bar,
    say,
    unless_busy,
)
from recprism.errors import InputError

if TYPE_CHECKING:
    from recprism.explain.explanation import Explanation
    from recprism.explain.views import ItemView, UserView
    from recprism.runs.run import Run

BAR = 20


def explain(
    run_directory: Annotated[Path, typer.Argument(help="A run that was diversified.")],
    user: Annotated[str | None, typer.Option(help="Take one user's list apart, swap by swap.")] = None,
    item: Annotated[str | None, typer.Option(help="How one item was moved, and into how many lists.")] = None,
    objective: Annotated[
        str | None,
        typer.Option(help="The metric whose gain is in question.", show_default="what the run was diversified for"),
    ] = None,
    axes: Annotated[
        str | None,
        typer.Option(
            help="Of the factors: raw (as trained), svd, varimax or subtopics. Lists are the same on all.",
            show_default="svd; raw for named features",
        ),
    ] = None,
    top: Annotated[int, typer.Option(help="How many factors and directions.", min=1)] = 5,
    draws: Annotated[int, typer.Option(help="Of each control; 0 runs none, and nothing is claimed.", min=0)] = 199,
    part: Annotated[str, typer.Option(help="Judge on validation or on test.")] = "test",
    seed: Seed = 0,
    name: ResultName = None,
    as_json: AsJson = False,
) -> None:
    """Why are the lists like this, what moved, and how do you know?

    First how much is plain promotion of some items. Then whether the perturbation beats its own values shuffled and the
    best promotion of items: only if it does, factors are spoken of. Directions are the axes of the change itself;
    factors are those of the model. What one is worth is what erasing it alone takes back.

    Examples:

    - `recprism explain runs/x`
    - `recprism explain runs/x --user 17`
    - `recprism explain runs/x --axes varimax`
    """
    from recprism.runs.jobs.explain import explain_run
    from recprism.runs.jobs.train import part_named
    from recprism.runs.run import Run

    if user is not None and item is not None:
        raise InputError("--user and --item: ask for one of them at a time")
    run = Run.open(run_directory, name)
    single = user is not None or item is not None
    path = None
    with run.unchanged() as saving:
        with progress_bar() as progress:
            task = progress.add_task("controls", total=None, note="")
            found = explain_run(
                run,
                objective,
                axes=axes,
                top=top,
                draws=0 if single else draws,
                part=part_named(part),
                seed=seed,
                on_step=lambda _what, done, total: progress.update(task, completed=done, total=total),
            )
        if not single:
            with unless_busy(), saving():
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
    from recprism.explain.views import view_item, view_user

    if user is not None:
        return view_user(found.explanation, found.evaluator, user, top)
    return view_item(found.explanation, item, top)


def _on_file(run: Run, explanation: Explanation, part: str) -> str:
    """What the controls said, if they were run on the same question; single views do not run them again."""
    kept = run.explanation()
    asked = (explanation.objective, explanation.axes, part)
    if kept is None or kept["verdict"] is None or (kept["objective"], kept["axes"], kept["part"]) != asked:
        return f"Not checked against controls yet: run `recprism explain {run.argument}`. What follows is arithmetic."
    return str(kept["verdict"]["sentence"])


def _print(explanation: Explanation) -> None:
    """What was found in words, then the figures; the sentence of each row stands in explanation.json and the report."""
    from recprism.explain import _sentences as sentences

    for line in sentences.found(explanation):
        print_sentence(line)
    rows = [
        (name, explanation.base[name], explanation.after[name], _percent(row.relative), *_shares(row))
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
            _percent(explanation.taken_back(row.erased)),
        )
        for row in rows
    ]
    gain = f"takes back of {explanation.objective}"
    print_table((title, "size", "name", "raised", "lowered", gain), table, numeric=("raised", "lowered", gain))


def _print_ends(explanation: Explanation) -> None:
    """Whom each direction concerns most, and what it raises and lowers for them."""
    ends = [(row.label, explanation.ends(row.number, 3)) for row in explanation.directions]
    rows = [(label, *(", ".join(map(str, end[name])) for name in ("users", "raises", "lowers"))) for label, end in ends]
    print_table(("direction", "users it concerns most", "raises", "lowers"), rows)


def _print_view(view: UserView | ItemView, checked: str, argument: str) -> None:
    from recprism.explain.views import UserView

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


def _shares(row: Any) -> tuple[str, str]:
    return _percent(row.bias_share), _percent(row.rest_share)


def _percent(share: float | None) -> str:
    return "" if share is None else f"{round(share, 2) + 0.0:+.0%}"  # no minus before a 0
