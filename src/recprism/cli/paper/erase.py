"""recprism erase: factors and directions of changed vectors, next to null erasures and controls."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from recprism.cli._options import AsJson, DiversifiedRun, OwnGoal, Part, ResultName, Seed, share_option
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
from recprism.data.shares import percent
from recprism.errors import InputError

if TYPE_CHECKING:
    from recprism.explain.factors.controls import Controls
    from recprism.explain.factors.explanation import Explanation, Row
    from recprism.explain.factors.views import ItemView, UserView
    from recprism.runs.jobs.erasure import ErasureReport
    from recprism.runs.run import Run

BAR, TOP = 20, 5
UNCHECKED = "No controls were run, so no factor and no direction is named."


def erase(
    run_directory: DiversifiedRun,
    user: Annotated[str | None, typer.Option(help="Look at one user's list, swap by swap.")] = None,
    item: Annotated[str | None, typer.Option(help="Look at one item: how it moved, and into how many lists.")] = None,
    goal: OwnGoal = None,
    axes: Annotated[
        str | None,
        typer.Option(
            help="Axes of the factors: raw (as trained), svd, varimax or subtopics. Lists are the same on all.",
            show_default="svd; raw for named features",
        ),
    ] = None,
    top: Annotated[
        int | None, typer.Option(help="How many factors and directions to name.", min=1, show_default="5")
    ] = None,
    features: Annotated[
        str | None,
        typer.Option(metavar="NUMBERS", help="How many features to erase, with commas between.", show_default="5,10"),
    ] = None,
    curve: Annotated[bool, typer.Option("--curve", help="Show the whole curve, from no feature to all.")] = False,
    draws: Annotated[int, typer.Option(help="Draws of each random erasure.", min=1)] = 20,
    controls: Annotated[int, typer.Option(help="Draws of each control; 0 runs none.", min=0)] = 199,
    part: Part = "test",
    held_out_users: Annotated[
        float,
        share_option(help="Search again without this share of the users, and judge on them.", high=0.9),
    ] = 0.0,
    seed: Seed = 0,
    name: ResultName = None,
    as_json: AsJson = False,
) -> None:
    """Erase features of changed vectors and measure what is left of the gain.

    The command is for vectors that `recprism search` changed. For the lists of `recprism diversify`, use
    `recprism explain`.

    The command erases the largest, the smallest and random features. Erasing the largest takes the most away in any
    case. So "matched" erases as much at random: only what "top" takes back beyond "matched" supports the ranking of
    features. Null erasures are in the same table: a random direction, the smallest factors, the change scaled by 0.99.

    The controls then decide whether the change says anything about factors. Factors and directions are named only if
    the change beats them.

    Examples:

    - `recprism erase runs/x`
    - `recprism erase runs/x --goal catalogue_coverage@10 --held-out-users 20% --json`
    - `recprism erase runs/x --user 17`
    """
    from recprism.runs.jobs.erasure import erase_run, shown_features
    from recprism.runs.jobs.train import part_named
    from recprism.runs.run import Run

    run = Run.open(run_directory, name)
    if user is not None or item is not None:
        _look_at_one(run, user, item, goal, axes, top, part, as_json)
        return
    counts = None if features is None else _numbers(features)
    path = None
    with run.unchanged() as saving:
        with progress_of_steps() as show:
            found = erase_run(
                run,
                goal,
                axes=axes,
                top=top or TOP,
                features=counts,
                draws=draws,
                controls=controls,
                part=part_named(part),
                held_out=held_out_users,
                seed=seed,
                on_step=show,
            )
        with if_storable(), saving():
            path = run.save_factors_explanation({**found.to_dict(), "part": part, **found.kept})
    if top is not None and not found.explanation.says_something:
        say(f"--top {top} has no effect: under this verdict no factor and no direction is named")
    if as_json:
        plain = found.to_dict()
        if counts is not None:
            plain["erasure"]["rows"] = [row for row in plain["erasure"]["rows"] if row["features"] in counts]
        print_json({"run": str(run_directory), "part": part, **plain})
        return
    everything = [int(n) for n in found.erasure.features]
    spoken_of = shown_features(everything[-1], counts)
    print_title(f"{run.argument}: what is left of the gain in {found.explanation.objective}, on the {part} part")
    _print(found, everything if curve else spoken_of, spoken_of[0])
    if path is not None:
        say(f"kept in {path}")
    look = run.command("erase", user=run.split().user_ids[0], goal=goal, axes=axes, part=part_option(part))
    next_step(run.command("evaluate"), look)


def _numbers(words: str) -> list[int]:
    try:
        return [int(word) for word in words.split(",")]
    except ValueError:
        raise InputError(f"--features {words}: write whole numbers with commas between, as in 5,10") from None


# -- all users --------------------------------------------------------------------------------------------------------


def _print(found: ErasureReport, counts: list[int], spoken_of: int) -> None:
    from recprism.explain.factors import _sentences as sentences

    explanation, erasure = found.explanation, found.erasure
    _print_erasure(found, counts)
    if found.held_out is not None:
        print_sentence(f"judged on {found.held_out:,} users whom the perturbation never saw")
    for by in ("individual", "shared"):
        print_sentence(erasure.sentence(by, spoken_of))
    _print_parts(explanation)
    print_sentence(explanation.parts.sentence(explanation.objective))
    if explanation.controls is not None:
        _print_controls(explanation.controls)
    print_sentence(UNCHECKED if explanation.verdict is None else explanation.verdict.sentence())
    for note in explanation.notes:
        print_sentence(note)
    if explanation.says_something:
        for title, rows in (("direction", explanation.directions), ("factor", explanation.factors)):
            _print_rows(explanation, title, rows)
        _print_ends(explanation)
        for line in sentences.summary(explanation):
            print_sentence(line)


def _print_erasure(found: ErasureReport, counts: list[int]) -> None:
    """Print every metric, and the share of the gain in the goal that is left; null erasures last."""
    from recprism.explain.factors.erasure import BY, WHICH

    erasure = found.erasure
    rows = {(row["by"], row["which"], row["features"], row["metric"]): row for row in erasure.rows()}
    ends = [("", name, None, *values, None) for name, values in (("base", erasure.base), ("learned", erasure.learned))]
    table = [
        (
            *(by, which, n),
            *(rows[by, which, n, metric]["value"] for metric in erasure.metrics),
            _share(rows[by, which, n, erasure.objective]["remaining"]),
        )
        for by in BY
        for n in counts
        for which in WHICH
    ]
    nulls = [
        ("null", it.name, None, *(it.values[name] for name in erasure.metrics), _share(erasure.share_left(objective)))
        for it, objective in ((it, it.values[erasure.objective]) for it in found.nulls)
    ]
    columns = ("by", "erased", "features", *erasure.metrics, "gain left")
    plain = [(*row[:3], *map(_plain, row[3:])) for row in ends]
    print_table(columns, [*plain, *table, *nulls], numeric=columns[2:])


def _print_parts(explanation: Explanation) -> None:
    rows = [
        (
            name,
            explanation.base[name],
            explanation.after[name],
            *map(_signed, (row.relative, row.bias_share, row.rest_share)),
        )
        for name, row in ((name, explanation.parts[name]) for name in explanation.base)
    ]
    columns = ("metric", "before", "after", "change", "promotion alone", "the rest alone")
    print_table(columns, rows, numeric=columns[1:])


def _print_controls(controls: Controls) -> None:
    base = ("base", *controls.base, None, None)
    rows = [(row["control"], row["objective"], row["cost"], _range(row), row["p_value"]) for row in controls.rows()]
    columns = ("control", controls.objective, controls.cost, "95 % of draws", "p")
    print_table(columns, [base, *rows], numeric=columns[1:])


def _print_rows(explanation: Explanation, title: str, rows: tuple[Row, ...]) -> None:
    """Print named rows; what the null erasures take back is in the same column."""
    largest = max((row.size for row in rows), default=0.0)
    table: list[tuple[Any, ...]] = [
        (
            row.label if not row.side or len(explanation.change.sides) == 1 else f"{row.label} ({row.side})",
            "█" * round(BAR * row.size / largest) if largest else "",
            row.words,
            row.raised,
            row.lowered,
            _signed(explanation.taken_back(row.erased)),
        )
        for row in rows
    ]
    nulls = [
        (f"null: {it.name}", "", "", None, None, _signed(explanation.taken_back(it.values))) for it in explanation.nulls
    ]
    gain = f"takes back of {explanation.objective}"
    columns = (title, "size", "name", "raised", "lowered", gain)
    print_table(columns, [*table, *nulls], numeric=("raised", "lowered", gain))


def _print_ends(explanation: Explanation) -> None:
    """Print the users that each direction concerns most, and the items that it raises and lowers for them."""
    ends = [(row.label, explanation.ends(row.number, 3)) for row in explanation.directions]
    rows = [(label, *(", ".join(map(str, end[name])) for name in ("users", "raises", "lowers"))) for label, end in ends]
    print_table(("direction", "users it concerns most", "raises", "lowers"), rows)


# -- one user or item -------------------------------------------------------------------------------------------------


def _look_at_one(
    run: Run,
    user: str | None,
    item: str | None,
    goal: str | None,
    axes: str | None,
    top: int | None,
    part: str,
    as_json: bool,
) -> None:
    from recprism.explain.factors.views import view_item, view_user
    from recprism.runs.jobs.factors import explain_factors
    from recprism.runs.jobs.train import part_named

    n = top or TOP
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
    from recprism.explain.factors.views import UserView

    if isinstance(view, UserView):
        _print_swaps(view)
    else:
        print_sentence(f"{view.title}: came into {view.entered:,} lists, and left {view.left:,}.")
        print_sentence(f"Its score changed by {view.promotion:+.4f} on average over all users.")
    if view.factors:
        print_table(("factor", "moved by"), view.factors, numeric=("moved by",))
    if view.directions:
        print_table(("direction", "name", "times the usual"), view.directions, numeric=("times the usual",))


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


def _range(row: dict[str, float | None]) -> str:
    return "" if row["low"] is None else f"{row['low']:.4f} to {row['high']:.4f}"


def _plain(value: float | None) -> float | None:
    return None if value is None else float(value)


def _share(share: float | None) -> str:
    return percent(share, ".0f", "%")


def _signed(share: float | None) -> str:
    return percent(share, "+z.0f", "%")
