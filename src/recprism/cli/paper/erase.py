"""recprism erase: factors of changed vectors, next to null erasures and controls."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from recprism.cli import _options as options
from recprism.cli._commands import With, Without
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
from recprism.errors import InputError

if TYPE_CHECKING:
    from recprism.cmb.factors.controls import Controls
    from recprism.cmb.factors.explanation import Explanation
    from recprism.cmb.jobs.erasure import ErasureReport

BAR, TOP = 20, 5
Axes = Annotated[
    str | None,
    typer.Option(
        help="Axes of the factors: raw (as trained) or svd. Lists are the same on both.",
        show_default="svd; raw for named features",
    ),
]
Top = Annotated[int | None, typer.Option(help="How many factors to name.", min=1, show_default="5")]
UNCHECKED = "No controls were run, so no factor is named."


def erase(
    run_directory: options.DiversifiedRun,
    goal: options.OwnGoal = None,
    axes: Axes = None,
    top: Annotated[Top, With("controls")] = None,
    features: Annotated[
        str | None,
        typer.Option(metavar="NUMBERS", help="How many features to erase, with commas between.", show_default="5,10"),
    ] = None,
    curve: Annotated[
        bool, typer.Option("--curve", help="Show the whole curve, from no feature to all."), Without("as_json")
    ] = False,
    draws: Annotated[int, typer.Option(help="Draws of each random erasure.", min=1)] = 20,
    controls: Annotated[int, typer.Option(help="Draws of each control; 0 runs none.", min=0)] = 199,
    part: options.Part = "test",
    held_out_users: Annotated[
        float, options.share_option(help="Search again without this share of the users, and judge on them.", high=0.9)
    ] = 0.0,
    seed: options.Seed = 0,
    name: options.ResultName = None,
    as_json: options.AsJson = False,
) -> None:
    """Erase features of changed vectors and measure what is left of the gain.

    The command is for vectors that `recprism search` changed. `recprism changes` shows one user or item of them. For
    the lists of `recprism diversify`, use `recprism explain`.

    The command erases the largest, the smallest and random features. Erasing the largest takes the most away in any
    case. So "matched" erases as much at random: only what "top" takes back beyond "matched" supports the ranking of
    features. Null erasures are in the same table: a random direction, the smallest factors, the change scaled by 0.99.

    The controls then decide whether the change says anything about factors. Factors are named only if the change
    beats them.

    Examples:

    - `recprism erase runs/x`
    - `recprism erase runs/x --goal catalogue_coverage@10 --held-out-users 20% --json`
    """
    from recprism.cmb.jobs.erasure import erase_run, shown_features
    from recprism.runs.jobs.train import part_named
    from recprism.runs.run import Run

    run = Run.open(run_directory, name)
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
        say(f"--top {top} has no effect: under this verdict no factor is named")
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
    look = run.command("changes", user=run.split().user_ids[0], goal=goal, axes=axes, part=part_option(part))
    next_step(run.command("evaluate"), look)


def _numbers(words: str) -> list[int]:
    try:
        return [int(word) for word in words.split(",")]
    except ValueError:
        raise InputError(f"--features {words}: write whole numbers with commas between, as in 5,10") from None


# -- all users --------------------------------------------------------------------------------------------------------


def _print(found: ErasureReport, counts: list[int], spoken_of: int) -> None:
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
        _print_factors(explanation)
        for line in explanation.summary():
            print_sentence(line)


def _print_erasure(found: ErasureReport, counts: list[int]) -> None:
    """Print every metric, and the share of the gain in the goal that is left; null erasures last."""
    from recprism.cmb.factors.erasure import BY, WHICH

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


def _print_factors(explanation: Explanation) -> None:
    """Print named factors; what the null erasures take back is in the same column."""
    largest = max((row.size for row in explanation.factors), default=0.0)
    table: list[tuple[Any, ...]] = [
        (
            row.label if len(explanation.change.sides) == 1 else f"{row.label} ({row.side})",
            "█" * round(BAR * row.size / largest) if largest else "",
            row.words,
            row.raised,
            row.lowered,
            _signed(explanation.taken_back(row.erased)),
        )
        for row in explanation.factors
    ]
    nulls = [
        (f"null: {it.name}", "", "", None, None, _signed(explanation.taken_back(it.values))) for it in explanation.nulls
    ]
    gain = f"takes back of {explanation.objective}"
    columns = ("factor", "size", "name", "raised", "lowered", gain)
    print_table(columns, [*table, *nulls], numeric=("raised", "lowered", gain))


def _range(row: dict[str, float | None]) -> str:
    return "" if row["low"] is None else f"{row['low']:.4f} to {row['high']:.4f}"


def _plain(value: float | None) -> float | None:
    return None if value is None else float(value)


def _share(share: float | None) -> str:
    return percent(share, ".0f", "%")


def _signed(share: float | None) -> str:
    return percent(share, "+z.0f", "%")
