"""recprism changes: what changed vectors did to one user or item."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from recprism.cli import _options as options
from recprism.cli._output import next_step, print_json, print_sentence, print_table, print_title
from recprism.cli._values import part_option
from recprism.cli.paper.erase import TOP, Axes, Top
from recprism.errors import InputError

if TYPE_CHECKING:
    from recprism.cmb.factors.explanation import Explanation
    from recprism.cmb.factors.views import ItemView, UserView
    from recprism.runs.run import Run


def changes(
    run_directory: options.DiversifiedRun,
    user: Annotated[str | None, typer.Option(help="Look at one user's list, swap by swap.")] = None,
    item: Annotated[str | None, typer.Option(help="Look at one item: how it moved, and into how many lists.")] = None,
    goal: options.OwnGoal = None,
    axes: Axes = None,
    top: Top = None,
    part: options.Part = "test",
    name: options.ResultName = None,
    as_json: options.AsJson = False,
) -> None:
    """Show what changed vectors did to one user's list, or to one item.

    The command is for vectors that `recprism search` changed. Factors are named only if `recprism erase` has shown, for
    the same goal, axes and part, that factors matter. For the lists of `recprism diversify`, use `recprism why`.

    Examples:

    - `recprism changes runs/x --user 17`
    - `recprism changes runs/x --item 318 --json`
    """
    from recprism.cmb.factors.views import view_item, view_user
    from recprism.cmb.jobs.factors import explain_factors
    from recprism.runs.jobs.train import part_named
    from recprism.runs.run import Run

    if (user is None) == (item is None):
        raise InputError("name a user with --user ID, or an item with --item ID")
    run, n = Run.open(run_directory, name), top or TOP
    found = explain_factors(run, goal, axes=axes, top=n, draws=0, part=part_named(part))
    explanation = found.explanation
    check = run.command("erase", goal=goal, axes=axes, part=part_option(part))
    checked, holds = _on_file(run, explanation, part, check)
    if top is not None and not holds:
        raise InputError(f"--top has no effect: no factor is named before `{check}` shows that factors matter")
    view: UserView | ItemView = (
        view_item(explanation, item, n) if user is None else view_user(explanation, found.evaluator, user, n)
    )
    view = view if holds else view.without_factors()
    if as_json:
        print_json({"run": str(run.path), "checked": checked, **view.to_dict()})
        return
    print_title(f"{run.argument}: what changed for {f'item {item}' if user is None else f'user {user}'}")
    _print_view(view)
    print_sentence(checked)
    next_step(check)


def _on_file(run: Run, explanation: Explanation, part: str, check: str) -> tuple[str, bool]:
    """Return the stored verdict, if it answers the same question, and whether it holds."""
    kept = run.factors_explanation()
    asked = (explanation.objective, explanation.axes, part)
    if kept is None or kept["verdict"] is None or (kept["objective"], kept["axes"], kept["part"]) != asked:
        return f"Not checked against controls yet, so no factor is named: run `{check}` first.", False
    return str(kept["verdict"]["sentence"]), bool(kept["verdict"]["holds"])


def _print_view(view: UserView | ItemView) -> None:
    from recprism.cmb.factors.views import UserView

    if isinstance(view, UserView):
        _print_swaps(view)
    else:
        print_sentence(f"{view.title}: came into {view.entered:,} lists, and left {view.left:,}.")
        print_sentence(f"Its score changed by {view.promotion:+.4f} on average over all users.")
    if view.factors:
        print_table(("factor", "moved by"), view.factors, numeric=("moved by",))


def _print_swaps(view: UserView) -> None:
    if not view.swaps:
        print_sentence("Nothing came into this user's list, and nothing went out.")
        return
    metrics = [name for name in view.swaps[0].effects if not name.startswith("recall")]
    named = any(swap.parts for swap in view.swaps)
    rows = [
        (
            *(f"{swap.came} ({swap.rank_in})", f"{swap.went} ({swap.rank_out})", f"{swap.rise:+.3f}"),
            f"{swap.promotion:+.3f}",
            *((", ".join(f"{it.label} {it.amount:+.3f}" for it in swap.parts),) if named else ()),
            *(f"{swap.effects[name]:+.3f}" for name in metrics),
        )
        for swap in view.swaps
    ]
    parts = ("largest parts",) if named else ()
    columns = ("came (rank)", "went (rank)", "rise", "promotion", *parts, *metrics)
    print_table(columns, rows, numeric=("rise", "promotion", *metrics))
